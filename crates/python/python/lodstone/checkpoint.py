"""Checkpoints: numbered directories of arrays, each whole, with checksums.

    >>> import array
    >>> with lodstone.checkpoint.Manager(tmp / "run", keep=3) as manager:
    ...     saved = manager.save(120, {"w": array.array("f", [1, 2])}, metadata={"epoch": 7})
    >>> lodstone.checkpoint.steps(tmp / "run")
    [120]
    >>> lodstone.checkpoint.load(tmp / "run")["w"]
    <lodstone.Tensor "w" float32[2]>
    >>> lodstone.checkpoint.manifest(tmp / "run")["metadata"]
    {'epoch': 7}

Arrays of a framework are made by its module: `lodstone.numpy.array(tensor)`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from . import _lodstone
from ._files import of_buffer
from ._lodstone import Tensor
from ._model import Model, Path
from ._work import Progress

__all__ = ["Manager", "load", "manifest", "steps", "verify"]


class Manager:
    """Makes checkpoints in a directory, which no other manager writes to until this one is closed.

    `keep` is how many are kept, the newest, of which one that is whole always stays; all without it. `container` is
    how arrays are in files: `"combined"`, `"each"`, `"sized"` or `"safetensors"`. `tensor` makes a tensor of a name and
    an array, where that has no buffer: `lodstone.torch.tensor`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        keep: int | None = None,
        container: str = "combined",
        tensor: Callable[[str, Any], Tensor] = of_buffer,
    ) -> None:
        self._manager = _lodstone.Manager(directory, keep, container)
        self._tensor = tensor

    def save(
        self,
        step: int,
        tensors: Mapping[str, Any],
        *,
        metadata: Mapping[str, Any] | None = None,
        background: bool = False,
    ) -> dict[str, Any] | None:
        """Saves arrays as the checkpoint of a step; when this returns, the disk has all of it.

        `metadata` is anything that JSON has. In the background, arrays are copied and saved while this returns: it
        gives the outcome of the save before, if there was one, and raises what that failed with.
        """
        values = [
            value.renamed(name) if isinstance(value, Tensor) else self._tensor(name, value)
            for name, value in tensors.items()
        ]
        return self._manager.save(step, values, json.dumps(dict(metadata or {})), background)

    def wait(self) -> dict[str, Any] | None:
        """Waits for the save in the background, and gives its outcome."""
        return self._manager.wait()

    def prune(self, keep: int) -> list[int]:
        """Removes all but the newest; gives the steps of what was removed."""
        return self._manager.prune(keep)

    def rewind(self, step: int) -> list[int]:
        """Goes back: removes the checkpoints behind a step."""
        return self._manager.rewind(step)

    def close(self) -> None:
        """Waits for what is being saved, and gives the directory back."""
        self._manager.close()

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def steps(directory: Path) -> list[int]:
    """The steps of the checkpoints in a directory, oldest first."""
    return _lodstone.checkpoint_steps(directory)


def load(directory: Path, step: int | None = None) -> Model:
    """The tensors of a checkpoint, of the newest if no step is named. They are read when they are asked for, and
    compared with their checksums."""
    return Model(_lodstone.checkpoint_load(directory, step))


def manifest(directory: Path, step: int | None = None) -> dict[str, Any]:
    """What is in a checkpoint: variables, checksums, what was added as `metadata`."""
    return _lodstone.checkpoint_manifest(directory, step)


def verify(directory: Path, step: int | None = None, *, progress: Progress | None = None) -> list[str]:
    """Everything that is wrong with a checkpoint: nothing if it is whole. All of it is read."""
    return _lodstone.checkpoint_verify(directory, step, progress)
