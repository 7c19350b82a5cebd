"""Tensors of files and to files, with the names that safetensors has for that.

    >>> import array
    >>> lodstone.save_file({"x": array.array("f", [1, 2])}, tmp / "x.safetensors")
    >>> lodstone.load_file(tmp / "x.safetensors")
    {'x': <lodstone.Tensor "x" float32[2]>}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Generic, TypeVar

from . import _lodstone
from ._errors import UnsupportedError
from ._lodstone import Tensor
from ._model import Model, Path, open, open_bytes
from ._work import Progress, converting

Array = TypeVar("Array")


@dataclass(frozen=True)
class Files(Generic[Array]):
    """What reads and writes files as arrays of one framework."""

    read: Callable[[Model, Progress | None], dict[str, Array]]
    """All tensors of a model, in memory that is the caller's."""
    tensor: Callable[[str, Array], Tensor]
    """A tensor of an array that has a name."""
    check: Callable[[Mapping[str, Array | Tensor]], None] = lambda tensors: None
    """Fails for arrays that cannot be saved together."""
    holds_structure: bool = False
    """Whether such an array can be sparse, and have a LoD."""

    def load_file(
        self,
        filename: Path | BinaryIO | bytes,
        *,
        backend: str = "mmap",
        progress: Progress | None = None,
        allow: str | Iterable[str] = (),
        **options: Any,
    ) -> dict[str, Array]:
        """The tensors of a model, in memory that is yours.

        Arrays hold neither LoD nor sparse tensors: a model that has such is a `LossyError`, as in a conversion to
        a format of plain arrays, unless the loss is allowed by its name. Allowed, the parts of a sparse tensor are
        arrays of their own, `x.indices` beside `x`. `lodstone.open` gives tensors with everything.

        `backend` is how a file is read: `"mmap"`, or `"pread"`, which maps nothing. `progress` is called with the
        number of bytes that are read; `options` are those of `lodstone.open`.
        """
        return self._arrays(open(filename, mmap=maps(backend), **options), progress, allow)

    def load(self, data: bytes, *, allow: str | Iterable[str] = ()) -> dict[str, Array]:
        """The tensors of a model that is bytes."""
        return self._arrays(open_bytes(data), None, allow)

    def _arrays(self, model: Model, progress: Progress | None, allow: str | Iterable[str]) -> dict[str, Array]:
        if not self.holds_structure:
            model = Model(model._model._arrays([allow] if isinstance(allow, str) else list(allow)))
        check_unique(model)
        return self.read(model, progress)

    def save_file(
        self,
        tensors: Mapping[str, Array | Tensor],
        filename: Path,
        metadata: Mapping[str, str] | None = None,
        *,
        notes: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> None:
        """Writes tensors. The format follows from the name of the file, or is that of `to`.

        `notes` are added to `metadata` where the format has a place for it, and are left out elsewhere; `options` are
        those of `lodstone.convert`.
        """
        values, facts = self._tensors(tensors), dict(metadata or {})
        _lodstone.save(values, facts, dict(notes or {}), filename, converting(**options), progress)

    def save(
        self,
        tensors: Mapping[str, Array | Tensor],
        metadata: Mapping[str, str] | None = None,
        *,
        to: str = "safetensors",
        **options: Any,
    ) -> bytes:
        """The bytes of a file of a format that is one file."""
        if options.get("seal"):
            raise ValueError("a seal is a file of its own, beside the one that these bytes are")
        return _lodstone.save_bytes(self._tensors(tensors), dict(metadata or {}), converting(**options, to=to))

    def _tensors(self, tensors: Mapping[str, Array | Tensor]) -> list[Tensor]:
        self.check(tensors)
        return [
            value.renamed(name) if isinstance(value, Tensor) else self.tensor(name, value)
            for name, value in tensors.items()
        ]


def check_unique(model: Model) -> None:
    """Fails if a dictionary of the tensors would lack some of the same name."""
    repeated = model._model._repeated()
    if repeated is not None:
        raise UnsupportedError(f"several tensors are called `{repeated}`; `lodstone.open(...).tensors` has all of them")


BACKENDS = {"mmap": True, "pread": False}
"""Ways to read a file, by the names of safetensors, and whether they map it."""


def maps(backend: str) -> bool:
    """Whether a way to read a file maps it."""
    if backend not in BACKENDS:
        raise UnsupportedError(f"there is no backend {backend!r}; the backends are {', '.join(BACKENDS)}")
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
"""Element types by what the buffer protocol calls them."""


def of_buffer(name: str, value: Any) -> Tensor:
    """A tensor of whatever has a buffer with a type."""
    view = memoryview(value)
    kind = view.format.lstrip("@=<")
    dtype = FORMATS.get(kind)
    if kind in ("l", "q", "n", "L", "Q", "N"):
        dtype = f"{'int' if kind in 'lqn' else 'uint'}{8 * view.itemsize}"
    if dtype is None:
        raise TypeError(f"`{name}` has elements of the type {view.format!r}, which is not known")
    return Tensor(name, dtype, view.shape or (), view if view.c_contiguous else view.tobytes())


def _read(model: Model, progress: Progress | None) -> dict[str, Tensor]:
    return dict(Model(model._model._loaded(progress)))


_files: Files[Any] = Files(_read, of_buffer, holds_structure=True)
load_file = _files.load_file
load = _files.load
save_file = _files.save_file
save = _files.save
