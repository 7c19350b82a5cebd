"""NumPy arrays.

    >>> from lodstone.numpy import load_file
    >>> load_file("examples/digits/paddle")["fc_0.b_0"].shape
    (10,)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Unpack

from ._files import Files
from ._imports import not_installed
from ._lodstone import Buffer, Tensor
from ._model import Model, Path
from ._options import Progress, SaveOptions, WriteOptions
from ._safe_open import check_cpu
from ._safe_open import safe_open as safe_open
from ._slices import checked

try:
    import numpy as np
except ModuleNotFoundError as error:
    raise not_installed(error, "numpy", "numpy") from None

Array = np.ndarray[Any, np.dtype[Any]]


def dtype(name: str) -> np.dtype[Any] | None:
    """Returns the element type called `name` in NumPy or in `ml_dtypes`, or `None` if neither has it."""
    try:
        return np.dtype(name)
    except TypeError:
        pass
    if not name.startswith(("bfloat", "float", "int", "uint")):
        return None
    try:
        import ml_dtypes
    except ModuleNotFoundError:
        what = f"NumPy has {name} with ml_dtypes, which is not installed: pip install ml_dtypes"
        raise ModuleNotFoundError(what, name="ml_dtypes") from None
    kind = getattr(ml_dtypes, name, None)
    return None if kind is None else np.dtype(kind)


def array(tensor: Tensor) -> Array:
    """Returns the elements of a tensor: a read-only view of the file.

    For a sparse tensor, they are the stored elements. Elements of types that NumPy and `ml_dtypes` lack are raw bytes,
    whose type is the tensor's `dtype`.

    Raises `ModuleNotFoundError` if `ml_dtypes` has the element type, such as bfloat16, and is not installed.
    """
    return view(tensor, tensor.data())


def _part(tensor: Tensor, index: Any) -> Any:
    """Implements `Tensor[...]`: reads only the pages of the file that the part is in."""
    if set(tensor._losses()) - {"lod"}:
        raise ValueError(f"`{tensor.name}` is sparse ({tensor.kind}); `lodstone.numpy.array` returns its stored elements")
    return array(tensor)[checked(index, tensor.shape)]


def _array_as(tensor: Tensor, dtype: Any, copy: bool | None) -> Array:
    """Implements `Tensor.__array__`, for `numpy.asarray`."""
    if set(tensor._losses()) - {"lod"}:
        raise ValueError(
            f"`{tensor.name}` is sparse ({tensor.kind}); `lodstone.numpy.array` returns its stored elements"
        )
    found = array(tensor)
    if dtype is None or found.dtype == dtype:
        return found.copy() if copy else found
    if copy is False:
        raise ValueError(f"`{tensor.name}` cannot be converted from {tensor.dtype} to {np.dtype(dtype)} without a copy")
    return found.astype(dtype)


@functools.lru_cache
def plain(name: str) -> np.dtype[Any] | None:
    """Returns the element type called `name` in NumPy, or `None` if bytes cannot be viewed as this type."""
    kind = dtype(name)
    return None if kind is None or kind.hasobject or name in BITS else kind


def view(tensor: Tensor, data: Buffer) -> Array:
    """Makes an array from the bytes of a tensor."""
    kind = plain(tensor.dtype)
    if kind is not None:
        # `ndarray` accepts any buffer, but its type annotations do not.
        return np.ndarray(tensor.stored_shape, kind, data)  # type: ignore[arg-type]
    if tensor.values is not None:
        texts = np.empty(tensor.shape, object)
        texts.reshape(-1)[:] = tensor.values
        return texts
    kind, shape = dtype(tensor.dtype), tensor.stored_shape
    raw: Array = np.frombuffer(memoryview(data), np.uint8)
    if kind is None:
        return raw
    bits = BITS.get(tensor.dtype)
    if bits is not None:
        return unpacked(raw, bits, int(np.prod(shape, dtype=np.int64))).view(kind).reshape(shape)
    return raw.view(kind).reshape(shape)


BITS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}
"""The bits per element of types with several elements per byte. NumPy stores one element per byte."""


def unpacked(raw: Array, bits: int, count: int) -> Array:
    """Unpacks elements of `bits` bits, lowest first, into one byte each."""
    all_bits = np.unpackbits(raw, bitorder="little")[: bits * count].reshape(count, bits)
    return np.packbits(all_bits, axis=1, bitorder="little").reshape(-1)


def tensor(name: str, value: Any) -> Tensor:
    """Makes a tensor from an array. Its bytes are not copied if they are row-major and little-endian."""
    given = np.asarray(value)
    if given.dtype.kind in "OSU":
        return Tensor._strings(name, given.shape, [text(name, one) for one in given.reshape(-1)])
    kind, kind_name = stored(given.dtype)
    data = given = np.asarray(given, kind, order="C")
    if kind_name in BITS:
        bits = np.unpackbits(given.reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")
        data = np.packbits(bits[:, : BITS[kind_name]], bitorder="little")
    elif kind.isbuiltin != 1 or not given.shape:
        # The buffer protocol has no format for the type, or there are no dims.
        data = given.reshape(-1).view(np.uint8)
    return Tensor(name, kind_name, given.shape, data)


def text(name: str, value: Any) -> bytes:
    """Returns the bytes of a string."""
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"`{name}`: expected numbers or strings, found {type(value).__name__}")
    return value.encode() if isinstance(value, str) else value


@functools.lru_cache
def stored(kind: np.dtype[Any]) -> tuple[np.dtype[Any], str]:
    """Returns the element type that is written for another, and its name."""
    little = kind.newbyteorder("<")
    # An equal type that is another object would cause an additional view.
    return kind if kind == little else little, little.name


def _read(model: Model, progress: Progress | None) -> dict[str, Array]:
    # A tuple for each pair would add as many objects for the garbage collector to traverse.
    return {tensor.name: view(tensor, data) for tensor, data in zip(*model._model._load(progress, False))}


def _opened(device: Any) -> Callable[[Tensor], Array]:
    """Returns a function that converts tensors to arrays in copy-on-write pages."""
    check_cpu(device)
    return lambda tensor: view(tensor, tensor.data(private=True))


_files = Files(_read, tensor)
load_file = _files.load_file
load = _files.load


def save_file(
    tensor_dict: Mapping[str, Array | Tensor],
    filename: Path,
    metadata: Mapping[str, str] | None = None,
    **options: Unpack[SaveOptions],
) -> None:
    """Writes arrays in the format `to`, by default that of the file's extension.

    `options` are those of `lodstone.save_file`.
    """
    _files.save_file(tensor_dict, filename, metadata, **options)


def save(
    tensor_dict: Mapping[str, Array | Tensor],
    metadata: Mapping[str, str] | None = None,
    *,
    to: str = "safetensors",
    **options: Unpack[WriteOptions],
) -> bytes:
    """Returns the bytes of a file, in a format that uses a single file; `options` are those of `lodstone.save`."""
    return _files.save(tensor_dict, metadata, to=to, **options)
