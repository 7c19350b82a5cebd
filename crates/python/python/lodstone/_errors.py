"""The errors of the package. Their messages are those of the command."""

import os


class LodstoneError(Exception):
    """An error of a model, or of an operation on it.

    Errors of the operating system (a missing permission, a full disk) are an `OSError`, as elsewhere in Python.
    """

    file: os.PathLike[str] | None = None
    """The file concerned, if there is one."""

    hint: str | None = None
    """How the caller can resolve the error, if that is known. Tracebacks show it below the message."""


class NoModelError(LodstoneError, FileNotFoundError):
    """There is no model at a path."""


class NoTensorError(LodstoneError, KeyError):
    """A model has no tensor with this name. The message suggests the most similar names."""

    name: str | None = None
    """The name."""

    similar: tuple[str, ...] = ()
    """The most similar names, or the names that an ambiguous one matches."""

    def __str__(self) -> str:
        # `KeyError.__str__` would return the `repr` of the message.
        return Exception.__str__(self)


class UnknownFormatError(LodstoneError, ValueError):
    """The file format is not recognized."""


class DamagedError(LodstoneError, ValueError):
    """The bytes contradict the format or the seal."""


class UnsupportedError(LodstoneError, ValueError):
    """An operation that this model does not support, or a model that the format cannot represent."""


class OptionError(UnsupportedError):
    """An argument contradicts another, or does not fit the model or the format."""

    option: str | None = None
    """The name of the argument."""


class InputError(UnsupportedError):
    """An input of a program is unknown or missing, or its value does not fit its declaration."""

    name: str | None = None
    """The name of the input."""

    similar: tuple[str, ...] = ()
    """The inputs with the most similar names, if the program has no such input."""


class OutputError(UnsupportedError):
    """A program does not compute a value, or the value cannot be returned."""

    name: str | None = None
    """The name of the value."""

    similar: tuple[str, ...] = ()
    """The values with the most similar names, if the program has no such value."""


class ProgramError(LodstoneError, ValueError):
    """A program cannot be built: an operator rejects its inputs or attributes, or a variable cannot be used so."""


class RunError(UnsupportedError, RuntimeError):
    """A program cannot be run, or its run failed: the message names the operator."""


class LossyError(LodstoneError, ValueError):
    """A conversion would lose something that is not allowed."""

    losses: dict[str, list[str]]
    """The locations of each loss, by the name that allows it."""


class SharedTensorsError(LodstoneError, RuntimeError):
    """Tensors share memory; they would be written several times, and would not share memory when loaded."""


class SliceError(LodstoneError, IndexError):
    """An index is out of bounds, or is not supported."""


class InternalError(LodstoneError, RuntimeError):
    """A bug in this package, not a problem of the model."""


SafetensorError = LodstoneError
"""An alias, for code that catches the errors of safetensors."""
