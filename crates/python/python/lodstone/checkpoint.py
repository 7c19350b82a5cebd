"""Checkpoints: numbered directories of arrays with checksums, each complete.

    >>> import array
    >>> with lodstone.checkpoint.Manager(tmp / "run", keep=3) as manager:
    ...     saved = manager.save(120, {"w": array.array("f", [1, 2])}, metadata={"epoch": 7})
    >>> lodstone.checkpoint.steps(tmp / "run")
    [120]
    >>> lodstone.checkpoint.load(tmp / "run")["w"]
    <lodstone.Tensor "w" float32[2]>
    >>> lodstone.checkpoint.manifest(tmp / "run")["metadata"]
    {'epoch': 7}

The module of a framework converts tensors to its arrays: `lodstone.numpy.array(tensor)`.
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
    """Writes checkpoints to a directory, with an exclusive lock until it is closed.

    `keep` is the number of checkpoints to keep, the newest and at least one intact one [default: all]. `container`
    selects the files of the arrays: `"combined"`, `"each"`, `"sized"` or `"safetensors"`. `tensor` is a function that
    makes a tensor from a name and an array, for arrays without a buffer: `lodstone.torch.tensor`.
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
        """Saves arrays as the checkpoint of a step; it is durable when this returns.

        `metadata` is any JSON object. With `background`, arrays are copied and saved after this returns: it returns the
        outcome of the previous background save, if there was one, or raises its error.
        """
        values = [
            value.renamed(name) if isinstance(value, Tensor) else self._tensor(name, value)
            for name, value in tensors.items()
        ]
        return self._manager.save(step, values, json.dumps(dict(metadata or {})), background)

    def wait(self) -> dict[str, Any] | None:
        """Waits for the background save, and returns its outcome."""
        return self._manager.wait()

    def prune(self, keep: int) -> list[int]:
        """Removes all but the newest `keep` checkpoints, and returns the removed steps."""
        return self._manager.prune(keep)

    def rewind(self, step: int) -> list[int]:
        """Removes the checkpoints after a step, and returns their steps."""
        return self._manager.rewind(step)

    def close(self) -> None:
        """Waits for the background save, and releases the lock of the directory."""
        self._manager.close()

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def steps(directory: Path) -> list[int]:
    """Returns the steps of the checkpoints in a directory, oldest first."""
    return _lodstone.checkpoint_steps(directory)


def load(directory: Path, step: int | None = None) -> Model:
    """Returns the tensors of a checkpoint, the newest by default; they are read and verified on first access."""
    return Model(_lodstone.checkpoint_load(directory, step))


def manifest(directory: Path, step: int | None = None) -> dict[str, Any]:
    """Returns the manifest of a checkpoint: variables, checksums, and the saved `metadata`."""
    return _lodstone.checkpoint_manifest(directory, step)


def verify(directory: Path, step: int | None = None, *, progress: Progress | None = None) -> list[str]:
    """Verifies a checkpoint and returns its defects, an empty list if it is intact. Reads the whole checkpoint."""
    return _lodstone.checkpoint_verify(directory, step, progress)
