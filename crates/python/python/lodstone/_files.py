"""Functions that load and save tensors, with the same names as in safetensors.

    >>> import array
    >>> lodstone.save_file({"x": array.array("f", [1, 2])}, tmp / "x.safetensors")
    >>> lodstone.load_file(tmp / "x.safetensors")
    {'x': <lodstone.Tensor "x" float32[2]>}
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Generic, TypeVar, Unpack

from . import _lodstone
from ._errors import NoTensorError, UnsupportedError
from ._lodstone import Tensor
from ._model import Model, Path, open_stored, open_stored_bytes
from ._options import ConvertOptions, Progress, ReadOptions, WriteOptions, listed
from ._work import converting

Array = TypeVar("Array")


@dataclass(frozen=True)
class Files(Generic[Array]):
    """Reads and writes files as arrays of one framework."""

    read: Callable[[Model, Progress | None], dict[str, Array]]
    """A function that reads all tensors of a model into memory that the caller owns."""
    tensor: Callable[[str, Array], Tensor]
    """A function that makes a tensor from a name and an array."""
    check: Callable[[Mapping[str, Array | Tensor]], None] = lambda tensors: None
    """A function that raises an error for arrays that cannot be saved together."""
    holds_structure: bool = False
    """Whether arrays can be sparse and have a LoD."""

    def load_file(
        self,
        filename: Path | BinaryIO | bytes,
        *,
        backend: str = "mmap",
        progress: Progress | None = None,
        allow: str | Iterable[str] = (),
        **options: Unpack[ReadOptions],
    ) -> dict[str, Array]:
        """Returns the tensors of a model, in memory that the caller owns.

        Arrays hold neither LoD nor sparse tensors: a model with either raises a `LossyError`, as in a conversion to a
        format of plain arrays, unless the loss is in `allow`. If it is, the parts of a sparse tensor are separate
        arrays, `x.indices` beside `x`. `lodstone.open` returns complete tensors.

        `backend` selects how a file is read: `"mmap"`, or `"pread"` without a memory map. `progress` is called with the
        number of bytes read; `options` are those of `lodstone.open`.
        """
        return self.of_model(open_stored(filename, mmap=maps(backend), **options), progress, allow)

    def load(self, data: bytes, *, allow: str | Iterable[str] = ()) -> dict[str, Array]:
        """Returns the tensors of a model in memory."""
        return self.of_model(open_stored_bytes(data), None, allow)

    def of_model(self, model: Model, progress: Progress | None, allow: str | Iterable[str]) -> dict[str, Array]:
        """Returns the tensors of a model that is open."""
        if self.holds_structure:
            check_unique(model)
            return self.read(model, progress)
        arrays = Model(model._model._arrays(listed(allow)))
        check_unique(arrays)
        loaded, composed = self.read(arrays, progress), model._model._composed()
        if not composed:
            return loaded
        first, others = next(iter(composed.values())), len(composed) - 1
        warnings.warn(f"{first}; {others} other tensors do, too" if others else first, stacklevel=3)
        return Parts(loaded, composed)

    def save_file(
        self,
        tensors: Mapping[str, Array | Tensor],
        filename: Path,
        metadata: Mapping[str, str] | None = None,
        *,
        notes: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        **options: Unpack[ConvertOptions],
    ) -> None:
        """Writes tensors in the format `to`, by default that of the file's extension.

        `notes` are added to `metadata` if the format has metadata, and dropped if not; `options` are those of
        `lodstone.convert`.
        """
        values, facts = self._tensors(tensors), dict(metadata or {})
        _lodstone.save(values, facts, dict(notes or {}), filename, converting(**options), progress)

    def save(
        self,
        tensors: Mapping[str, Array | Tensor],
        metadata: Mapping[str, str] | None = None,
        *,
        to: str = "safetensors",
        **options: Unpack[WriteOptions],
    ) -> bytes:
        """Returns the bytes of a file, in a format that uses a single file."""
        if options.get("seal"):
            raise ValueError("`seal` is not supported for bytes: a seal is a separate file beside the model")
        return _lodstone.save_bytes(self._tensors(tensors), dict(metadata or {}), converting(**options, to=to))

    def _tensors(self, tensors: Mapping[str, Array | Tensor]) -> list[Tensor]:
        self.check(tensors)
        return [
            value.renamed(name) if isinstance(value, Tensor) else self.tensor(name, value)
            for name, value in tensors.items()
        ]


class Parts(dict[str, Array]):
    """Tensors by name, some of which are parts of others. An access to such a whole raises an error that names its parts."""

    def __init__(self, tensors: Mapping[str, Array], composed: Mapping[str, str]) -> None:
        super().__init__(tensors)
        self._composed = composed

    def __missing__(self, name: str) -> Array:
        raise NoTensorError(self._composed[name]) if name in self._composed else KeyError(name)


def check_unique(model: Model) -> None:
    """Raises an error if several tensors have the same name, which a dictionary cannot hold."""
    repeated = model._model._repeated()
    if repeated is not None:
        raise UnsupportedError(f"several tensors have the name `{repeated}`: use `lodstone.open(...).tensors`")


BACKENDS = {"mmap": True, "pread": False}
"""The backends of safetensors, and whether they map the file."""


def maps(backend: str) -> bool:
    """Returns whether a backend maps the file."""
    if backend not in BACKENDS:
        raise UnsupportedError(f"unknown backend {backend!r}; the backends are {', '.join(BACKENDS)}")
    return BACKENDS[backend]


FORMATS = {
    "?": "bool",
    "b": "int8",
    "B": "uint8",
    "h": "int16",
    "H": "uint16",
    "i": "int32",
    "I": "uint32",
    "e": "float16",
    "f": "float32",
    "d": "float64",
    "Zf": "complex64",
    "Zd": "complex128",
}
"""Element types by their format characters in the buffer protocol."""


def of_buffer(name: str, value: Any) -> Tensor:
    """Makes a tensor from an object with a typed buffer."""
    view = memoryview(value)
    kind = view.format.lstrip("@=<")
    dtype = FORMATS.get(kind)
    if kind in ("l", "q", "n", "L", "Q", "N"):
        dtype = f"{'int' if kind in 'lqn' else 'uint'}{8 * view.itemsize}"
    if dtype is None:
        raise TypeError(f"`{name}`: unknown element type {view.format!r}")
    return Tensor(name, dtype, view.shape or (), view if view.c_contiguous else view.tobytes())


def _read(model: Model, progress: Progress | None) -> dict[str, Tensor]:
    return dict(Model(model._model._loaded(progress)))


_files: Files[Any] = Files(_read, of_buffer, holds_structure=True)
load_file = _files.load_file
load_bytes = _files.load
save_file = _files.save_file
save_bytes = _files.save


def load(data: bytes, *, allow: str | Iterable[str] = ()) -> dict[str, Tensor]:
    """Returns the tensors of a model in memory: the old name of `load_bytes`."""
    warnings.warn("`lodstone.load` is now `lodstone.load_bytes`", DeprecationWarning, stacklevel=2)
    return load_bytes(data, allow=allow)


def save(
    tensors: Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
    *,
    to: str = "safetensors",
    **options: Unpack[WriteOptions],
) -> bytes:
    """Returns the bytes of a file: the old name of `save_bytes`."""
    warnings.warn("`lodstone.save` is now `lodstone.save_bytes`", DeprecationWarning, stacklevel=2)
    return save_bytes(tensors, metadata, to=to, **options)
