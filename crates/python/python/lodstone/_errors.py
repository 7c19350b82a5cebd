"""What can go wrong. Messages are those of the command."""

import os


class LodstoneError(Exception):
    """Something is wrong with a model, or with what was asked of it.

    What the system itself refuses (a file that may not be read, a full disk) is an `OSError`, as everywhere.
    """

    file: os.PathLike[str] | None = None
    """The file that it is about, if it is about one."""


class NoModelError(LodstoneError, FileNotFoundError):
    """There is no model at a path."""


class NoTensorError(LodstoneError, KeyError):
    """A model has no tensor of this name. The message has the names that are most similar."""

    def __str__(self) -> str:
        # Of a `KeyError` it is the representation of the message.
        return Exception.__str__(self)


class UnknownFormatError(LodstoneError, ValueError):
    """Bytes of a format that is not known."""


class DamagedError(LodstoneError, ValueError):
    """Bytes that are not what the format, or the seal, says."""


class UnsupportedError(LodstoneError, ValueError):
    """Something that cannot be done with this model, or be said in that format."""


class LossyError(LodstoneError, ValueError):
    """A conversion would lose something that was not allowed by its name."""

    losses: dict[str, list[str]]
    """What would be lost: the names by which it is allowed, and the places."""


class SharedTensorsError(LodstoneError, RuntimeError):
    """Tensors that share memory would be written several times, and no longer share it when they are loaded."""


class SliceError(LodstoneError, IndexError):
    """A selection of elements that a tensor does not have, or that is not supported."""


SafetensorError = LodstoneError
"""The name under which code for safetensors catches errors."""
