"""Tensors of files and to files, with the names that safetensors has for that."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, BinaryIO

from . import _lodstone
from ._lodstone import Tensor
from ._model import Model, Path, open
from ._work import Progress, converting

Convert = Callable[[str, Any], Tensor]
"""Makes a tensor of a value that has a name."""


def load_file(file: Path | BinaryIO, **options: Any) -> dict[str, Tensor]:
    """The tensors of a model, in memory.

    `lodstone.numpy.load_file`, `lodstone.torch.load_file` and `lodstone.paddle.load_file` give arrays.
    """
    return dict(Model(open(file, **options)._model._loaded()))


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors of a model that is bytes."""
    return load_file(data)


def save_file(
    tensors: Mapping[str, Any],
    file: Path,
    metadata: Mapping[str, str] | None = None,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> None:
    """Writes tensors: those of this package, or whatever has a buffer with a type.

    The format is told by the name of the file, or by `to`. `options` are those of `convert`.

    >>> import array
    >>> lodstone.save_file({"x": array.array("f", [1, 2])}, tmp / "x.safetensors")
    >>> lodstone.open(tmp / "x.safetensors")["x"]
    <lodstone.Tensor "x" float32[2]>
    """
    write(of_buffer, tensors, file, metadata, progress, options)


def save(
    tensors: Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
    *,
    to: str = "safetensors",
    **options: Any,
) -> bytes:
    """The bytes of a file of a format that is one file."""
    return encode(of_buffer, tensors, metadata, to, options)


def write(
    convert: Convert,
    tensors: Mapping[str, Any],
    file: Path,
    metadata: Mapping[str, str] | None,
    progress: Progress | None,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Writes values, each made a tensor by `convert`."""
    values = [
        value.renamed(name) if isinstance(value, Tensor) else convert(name, value)
        for name, value in tensors.items()
    ]
    return _lodstone.save(values, dict(metadata or {}), file, converting(**options), progress)


def encode(
    convert: Convert,
    tensors: Mapping[str, Any],
    metadata: Mapping[str, str] | None,
    to: str,
    options: dict[str, Any],
) -> bytes:
    """The same in memory."""
    with tempfile.TemporaryDirectory(prefix="lodstone") as directory:
        path = os.path.join(directory, "model")
        done = write(convert, tensors, path, metadata, None, {**options, "to": to})
        if len(done["files"]) != 1:
            raise ValueError(f"{to} is {len(done['files'])} files here, which are not one string of bytes")
        with os.fdopen(os.open(done["files"][0], os.O_RDONLY), "rb") as file:
            return file.read()


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
    if kind in ("l", "q", "L", "Q", "n", "N"):
        dtype = ("int" if kind in "lqn" else "uint") + str(8 * view.itemsize)
    else:
        dtype = FORMATS.get(kind)
    if dtype is None:
        raise TypeError(f"`{name}` has elements of the type {view.format!r}, which is not known")
    return Tensor(name, dtype, view.shape, view if view.c_contiguous else view.tobytes())


class safe_open:
    """Opens a model, as `safetensors.safe_open` opens a file of its own: of any format.

    `framework` is `"numpy"` (`"np"`), `"torch"` (`"pt"`) or `"paddle"`; without one, tensors are those of this package.

    >>> with lodstone.safe_open("examples/digits/paddle") as file:
    ...     sorted(file.keys())[:2], file.get_tensor("fc_0.b_0")
    (['batch_norm_0.b_0', 'batch_norm_0.w_0'], <lodstone.Tensor "fc_0.b_0" float32[10]>)
    """

    def __init__(self, filename: Path, framework: str | None = None, device: str = "cpu", **options: Any) -> None:
        if str(device) != "cpu":
            raise ValueError(f"tensors are read into the memory of the processor; move them to {device!r} then")
        self._array = array_of(framework)
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
        """A tensor."""
        return self._array(self._model[name])

    def get_slice(self, name: str) -> Slice:
        """A tensor of which some is read: `file.get_slice(name)[:, :8]`."""
        return Slice(self._model[name], self._array)


class Slice:
    """A tensor of which some is read."""

    def __init__(self, tensor: Tensor, array: Callable[[Tensor], Any]) -> None:
        self._tensor, self._array = tensor, array

    def get_shape(self) -> list[int]:
        """Extents of the whole."""
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """Type of the elements."""
        return self._tensor.dtype

    def __getitem__(self, index: Any) -> Any:
        return self._array(self._tensor)[index]


FRAMEWORKS = {"np": "numpy", "numpy": "numpy", "pt": "torch", "torch": "torch", "paddle": "paddle"}


def array_of(framework: str | None) -> Callable[[Tensor], Any]:
    """What makes an array of a framework of a tensor."""
    if framework is None:
        return lambda tensor: tensor
    if framework not in FRAMEWORKS:
        raise ValueError(f"{framework!r} is none of the frameworks: {', '.join(FRAMEWORKS)}")
    module: ModuleType = importlib.import_module(f".{FRAMEWORKS[framework]}", __package__)
    return module.array
