"""Tensors of files and to files, with the names that safetensors has for that.

    >>> import array
    >>> lodstone.save_file({"x": array.array("f", [1, 2])}, tmp / "x.safetensors")
    >>> lodstone.load_file(tmp / "x.safetensors")
    {'x': <lodstone.Tensor "x" float32[2]>}
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Generic, TypeVar

from . import _lodstone
from ._errors import LossyError, UnsupportedError
from ._lodstone import Tensor
from ._model import Model, Path, open
from ._work import Progress, converting

Array = TypeVar("Array")


@dataclass(frozen=True)
class Files(Generic[Array]):
    """What reads and writes files as arrays of one framework."""

    read: Callable[[Model, Progress | None], dict[str, Array]]
    """All tensors of a model, in memory that is the caller's."""
    tensor: Callable[[str, Array], Tensor]
    """A tensor of an array that has a name."""
    holds_structure: bool = False
    """Whether such an array can be sparse, and have a LoD."""

    def load_file(
        self,
        file: Path | BinaryIO | bytes,
        *,
        progress: Progress | None = None,
        allow: str | Iterable[str] = (),
        **options: Any,
    ) -> dict[str, Array]:
        """The tensors of a model, in memory that is yours.

        Arrays hold neither LoD nor sparse tensors: a model that has such is a `LossyError`, as in a conversion to
        a format of plain arrays, unless the loss is allowed by its name. Allowed, the parts of a sparse tensor are
        arrays of their own, `x.indices` beside `x`. `lodstone.open` gives tensors with everything.

        `progress` is called with the number of bytes that are read; `options` are those of `lodstone.open`.
        """
        model = open(file, **options)
        if not self.holds_structure:
            model = Model(model._model._arrays([allow] if isinstance(allow, str) else list(allow)))
        repeated = model._model._repeated()
        if repeated is not None:
            what = f"`{repeated}` is the name of more tensors than one, which are in `lodstone.open(...).tensors`"
            raise UnsupportedError(what)
        return self.read(model, progress)

    def load(self, data: bytes, *, allow: str | Iterable[str] = ()) -> dict[str, Array]:
        """The tensors of a model that is bytes."""
        return self.load_file(data, allow=allow)

    def save_file(
        self,
        tensors: Mapping[str, Array | Tensor],
        file: Path,
        metadata: Mapping[str, str] | None = None,
        *,
        progress: Progress | None = None,
        **options: Any,
    ) -> None:
        """Writes tensors. The format is told by the name of the file, or by `to`.

        `options` are those of `lodstone.convert`.
        """
        self._write(tensors, file, metadata, progress, options)

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

    def _write(
        self,
        tensors: Mapping[str, Array | Tensor],
        file: Path,
        metadata: Mapping[str, str] | None,
        progress: Progress | None,
        options: dict[str, Any],
    ) -> dict[str, Any]:
        return _lodstone.save(self._tensors(tensors), dict(metadata or {}), file, converting(**options), progress)

    def _tensors(self, tensors: Mapping[str, Array | Tensor]) -> list[Tensor]:
        return [
            value.renamed(name) if isinstance(value, Tensor) else self.tensor(name, value)
            for name, value in tensors.items()
        ]


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


_files: Files[Any] = Files(lambda model, progress: dict(Model(model._model._loaded(progress))), of_buffer, True)
load_file = _files.load_file
load = _files.load
save_file = _files.save_file
save = _files.save


class safe_open:
    """Opens a model, as `safetensors.safe_open` opens a file of its own: of any format.

    `framework` is `"numpy"` (`"np"`), `"torch"` (`"pt"`) or `"paddle"`; without one, tensors are those of this package.
    PyTorch's are moved to `device`.

    >>> with lodstone.safe_open("examples/digits/paddle") as file:
    ...     sorted(file.keys())[:2], file.get_tensor("fc_0.b_0")
    (['batch_norm_0.b_0', 'batch_norm_0.w_0'], <lodstone.Tensor "fc_0.b_0" float32[10]>)
    """

    def __init__(self, filename: Path, framework: str | None = None, device: Any = "cpu", **options: Any) -> None:
        self._array = array_of(framework, device)
        self._model = open(filename, **options)

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is closed: tensors keep what they need."""

    def keys(self) -> list[str]:
        """Names of the tensors."""
        return list(self._model)

    offset_keys = keys

    def __len__(self) -> int:
        return len(self._model)

    def __iter__(self) -> Iterator[str]:
        return iter(self._model)

    def metadata(self) -> dict[str, str] | None:
        """Free-form facts of the file, if it has any."""
        return self._model.metadata or None

    def get_tensor(self, name: str) -> Any:
        """A tensor. A `LossyError` if it is sparse or has a LoD, which arrays of a framework do not hold."""
        return self._array(self._checked(name))

    def _checked(self, name: str) -> Tensor:
        """A tensor that an array holds all of."""
        tensor = self._model[name]
        losses = [] if self._array is whole else tensor._losses()
        if losses:
            raise lossy(tensor, losses)
        return tensor

    def get_slice(self, name: str) -> Slice:
        """A tensor of which some is read: `file.get_slice(name)[:, :8]`."""
        if self._array is whole:
            raise ValueError("what has no framework has no slices: safe_open(..., framework='numpy')")
        return Slice(self._checked(name), self._array)


class Slice:
    """A tensor of which some is read."""

    def __init__(self, tensor: Tensor, array: Callable[[Tensor], Any]) -> None:
        self._tensor, self._array = tensor, array

    def get_shape(self) -> list[int]:
        """Extents of the whole."""
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """Type of the elements, as safetensors calls it where it has it: `"F32"`."""
        return self._tensor._safetensors_dtype or self._tensor.dtype

    def __getitem__(self, index: Any) -> Any:
        return self._array(self._tensor)[index]


def lossy(tensor: Tensor, losses: list[str]) -> LossyError:
    """What an array of a tensor would lose."""
    error = LossyError(f"an array would lose {', '.join(losses)} of `{tensor.name}` ({tensor.kind})")
    error.losses = {loss: [f"`{tensor.name}`"] for loss in losses}
    return error


FRAMEWORKS = {"np": "numpy", "numpy": "numpy", "pt": "torch", "torch": "torch", "paddle": "paddle"}


def whole(tensor: Tensor) -> Tensor:
    """The tensor itself."""
    return tensor


def array_of(framework: str | None, device: Any = "cpu") -> Callable[[Tensor], Any]:
    """What makes an array of a framework of a tensor."""
    if FRAMEWORKS.get(framework or "") == "torch":
        from . import torch

        return lambda tensor: torch.array(tensor).to(device)
    if str(device) != "cpu":
        raise ValueError(f"tensors are read into the memory of the processor; move them to {device!r} then")
    if framework is None:
        return whole
    if framework not in FRAMEWORKS:
        raise ValueError(f"{framework!r} is none of the frameworks: {', '.join(FRAMEWORKS)}")
    module = importlib.import_module(f".{FRAMEWORKS[framework]}", __package__)
    array: Callable[[Tensor], Any] = module.array
    return array
