"""Arrays of NumPy.

    >>> from lodstone.numpy import load_file
    >>> load_file("examples/digits/paddle")["fc_0.b_0"].shape
    (10,)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from ._files import Files
from ._imports import not_installed
from ._lodstone import Buffer, Tensor
from ._model import Model, Path
from ._safe_open import on_processor
from ._safe_open import safe_open as safe_open
from ._work import Progress

try:
    import numpy as np
except ModuleNotFoundError as error:
    raise not_installed(error, "numpy", "numpy") from None

Array = np.ndarray[Any, np.dtype[Any]]


def dtype(name: str) -> np.dtype[Any] | None:
    """The element type that NumPy, or `ml_dtypes` where that is installed, calls `name`."""
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError:
        return None
    kind = getattr(ml_dtypes, name, None)
    return None if kind is None else np.dtype(kind)


def array(tensor: Tensor) -> Array:
    """The elements of a tensor: those of the file, which are not copied and read-only.

    Of a sparse tensor they are those that are stored. Types that neither NumPy nor `ml_dtypes` has are raw
    bytes; the tensor's `dtype` says what they are.
    """
    return view(tensor, tensor.data())


def _array_as(tensor: Tensor, dtype: Any, copy: bool | None) -> Array:
    """What `numpy.asarray` asks a tensor for."""
    if set(tensor._losses()) - {"lod"}:
        raise ValueError(f"`{tensor.name}` is sparse ({tensor.kind}); `lodstone.numpy.array` gives what it stores")
    found = array(tensor)
    if dtype is None or found.dtype == dtype:
        return found.copy() if copy else found
    if copy is False:
        raise ValueError(f"`{tensor.name}` is {tensor.dtype}, of which {np.dtype(dtype)} is a copy")
    return found.astype(dtype)


@functools.lru_cache
def plain(name: str) -> np.dtype[Any] | None:
    """The element type that NumPy calls `name`, if its elements are those of the bytes."""
    kind = dtype(name)
    return None if kind is None or kind.hasobject or name in BITS else kind


def view(tensor: Tensor, data: Buffer) -> Array:
    """An array of bytes that a tensor has."""
    kind = plain(tensor.dtype)
    if kind is not None:
        # Whatever has a buffer will do, which its types do not say.
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
"""Types of which several share a byte. NumPy has one in each."""


def unpacked(raw: Array, bits: int, count: int) -> Array:
    """Elements of so many bits, lowest first, each in a byte of its own."""
    all_bits = np.unpackbits(raw, bitorder="little")[: bits * count].reshape(count, bits)
    return np.packbits(all_bits, axis=1, bitorder="little").reshape(-1)


def tensor(name: str, value: Any) -> Tensor:
    """A tensor of an array. Its bytes are not copied if they are row-major and little-endian."""
    given = np.asarray(value)
    kind, kind_name = stored(given.dtype)
    if kind.hasobject:
        raise TypeError(f"`{name}`: there is no element type `{kind}`")
    data = given = np.asarray(given, kind, order="C")
    if kind_name in BITS:
        bits = np.unpackbits(given.reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")
        data = np.packbits(bits[:, : BITS[kind_name]], bitorder="little")
    elif kind.isbuiltin != 1 or not given.shape:
        # The protocol knows nothing of its type, or has no extents to show.
        data = given.reshape(-1).view(np.uint8)
    return Tensor(name, kind_name, given.shape, data)


@functools.lru_cache
def stored(kind: np.dtype[Any]) -> tuple[np.dtype[Any], str]:
    """The element type that is written for one, and its name."""
    little = kind.newbyteorder("<")
    # An equal type that is another object would be a view more.
    return kind if kind == little else little, little.name


def _read(model: Model, progress: Progress | None) -> dict[str, Array]:
    # Pairs that are objects each would be as many for Python's collector to walk.
    return {tensor.name: view(tensor, data) for tensor, data in zip(*model._model._load(progress))}


def _opened(device: Any) -> Callable[[Tensor], Array]:
    """A function that makes arrays of tensors, in pages that become copies when they are written to."""
    on_processor(device)
    return lambda tensor: view(tensor, tensor.data(private=True))


_files = Files(_read, tensor)
load_file = _files.load_file
load = _files.load


def save_file(
    tensor_dict: Mapping[str, Array | Tensor],
    filename: Path,
    metadata: Mapping[str, str] | None = None,
    **options: Any,
) -> None:
    """Writes arrays. The format follows from the name of the file, or is that of `to`.

    `options` are those of `lodstone.save_file`.
    """
    _files.save_file(tensor_dict, filename, metadata, **options)


def save(
    tensor_dict: Mapping[str, Array | Tensor], metadata: Mapping[str, str] | None = None, **options: Any
) -> bytes:
    """The bytes of a file of a format that is one file; `options` are those of `lodstone.save`."""
    return _files.save(tensor_dict, metadata, **options)
