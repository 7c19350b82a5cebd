"""Models."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from . import _lodstone
from ._lodstone import Tensor

Path = str | os.PathLike[str]


class Model(Mapping[str, Tensor]):
    """A model: a mapping of names to tensors, in the order of the file, and what else there is.

    Where files have no names for tensors, numbers stand for them: `"0"`, `"1"`. MXNet's names are found with and
    without `arg:` and `aux:`, unless both are there. A name that is not there is a `NoTensorError`, which is a
    `KeyError`.
    """

    def __init__(self, model: _lodstone.Model) -> None:
        self._model = model

    @property
    def format(self) -> str:
        """The format it was read from: `"paddle"`, `"safetensors"`."""
        return self._model.format

    @property
    def metadata(self) -> dict[str, str]:
        """Free-form facts of the file."""
        return self._model.metadata

    @property
    def warnings(self) -> list[str]:
        """What a user should know."""
        return self._model.warnings

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors, in the order of the file; names may repeat there."""
        return self._model.tensors

    @property
    def program(self) -> dict[str, Any] | None:
        """What the model computes, if its files say it: versions, inputs, outputs, operators.

        >>> program = lodstone.open("examples/digits/paddle").program
        >>> program["version"], [operator["type"] for operator in program["operators"]][:3]
        ('2.6.2', ['feed', 'conv2d', 'batch_norm'])
        """
        found = self._model._inspect(False, True, False)
        if "program" not in found:
            return None
        parts = {part: found.get(part, []) for part in ("inputs", "outputs", "operators")}
        return {**found["program"], **parts}

    def inspect(
        self, *, hash: bool = False, operators: bool = False, inferred: bool = False
    ) -> dict[str, Any]:
        """What is in it: the JSON of `lodstone inspect --json`.

        `hash` adds the SHA-256 of each tensor, for which all of them are read; `inferred` adds the types of all values
        of an ONNX program.

        >>> lodstone.open("examples/digits/paddle").inspect()["tensors"][0]
        {'name': 'batch_norm_0.b_0', 'kind': 'dense', 'dtype': 'float32', 'shape': [16], 'nbytes': 64}
        """
        return self._model._inspect(hash, operators, inferred)

    def __getitem__(self, name: str) -> Tensor:
        return self._model[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The tensor of a name, or `default`."""
        # An error would compare the name with all others.
        return self[name] if name in self else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._model._names())

    def __len__(self) -> int:
        return len(self._model)

    def __contains__(self, name: object) -> bool:
        return name in self._model

    def __repr__(self) -> str:
        count = len(self)
        return f"<lodstone.Model {self.format}, {count} tensor{'s' if count != 1 else ''}>"


def open(
    file: Path | bytes | BinaryIO,
    *,
    params: Path | None = None,
    mmap: bool = True,
    verify: bool = True,
) -> Model:
    """Opens a model: a file, a directory, or the prefix that its files share; bytes, or an open file.

    The format is found by content. Tensors are not read; those of bytes share them, and an open file is read as a
    whole. `params` says where the parameters are, if not where the format says. Files may be mapped
    into memory unless `mmap` is false. What is sealed is compared with its seal when it is read, unless
    `verify` is false.
    """
    opening = {"params": params, "mmap": mmap, "verify": verify}
    if isinstance(file, (str, os.PathLike)):
        return Model(_lodstone.open(file, opening))
    contents = file.read() if hasattr(file, "read") else file
    return Model(_lodstone.open_bytes(contents, opening))


def open_bytes(data: bytes) -> Model:
    """Opens a model that is bytes, and nothing else."""
    return Model(_lodstone.open_bytes(data, {"params": None, "mmap": True, "verify": True}))
