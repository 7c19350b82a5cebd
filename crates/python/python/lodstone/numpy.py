"""Arrays of NumPy.

    >>> from lodstone.numpy import load_file
    >>> load_file("examples/digits/paddle")["fc_0.b_0"].shape
    (10,)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from . import _files
from ._lodstone import Buffer, Tensor
from ._model import Path, open
from ._work import Progress


def dtype(name: str) -> np.dtype | None:
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


def array(tensor: Tensor) -> np.ndarray:
    """The elements of a tensor: those of the file, which are not copied and read-only.

    Of a sparse tensor they are those that are stored. Types that neither NumPy nor `ml_dtypes` has are raw
    bytes; the tensor's `dtype` says what they are.
    """
    return view(tensor, tensor.data())


def view(tensor: Tensor, data: Buffer) -> np.ndarray:
    """An array of bytes that a tensor has."""
    if tensor.values is not None:
        texts = np.empty(tensor.shape, object)
        texts.reshape(-1)[:] = tensor.values
        return texts
    kind, shape = dtype(tensor.dtype), tensor.stored_shape
    raw = np.frombuffer(data, np.uint8)
    if kind is None:
        return raw
    bits = BITS.get(tensor.dtype)
    if bits is not None:
        return unpacked(raw, bits, int(np.prod(shape, dtype=np.int64))).view(kind).reshape(shape)
    return raw.view(kind).reshape(shape)


BITS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}
"""Types of which several share a byte. NumPy has one in each."""


def unpacked(raw: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Elements of so many bits, lowest first, each in a byte of its own."""
    all_bits = np.unpackbits(raw, bitorder="little")[: bits * count].reshape(count, bits)
    return np.packbits(all_bits, axis=1, bitorder="little").reshape(-1)


def load_file(file: Path | BinaryIO | bytes, **options: Any) -> dict[str, np.ndarray]:
    """The tensors of a model, in memory that is yours."""
    model = open(file, **options)
    return {tensor.name: view(tensor, data) for tensor, data in model._model._load(list(model))}


def load(data: bytes) -> dict[str, np.ndarray]:
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
    """Writes arrays. The format is told by the name of the file, or by `to`; `options` are those of `convert`."""
    _files.write(tensor, tensors, file, metadata, progress, options)


def save(
    tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None, *, to: str = "safetensors", **options: Any
) -> bytes:
    """The bytes of a file of a format that is one file."""
    return _files.encode(tensor, tensors, metadata, to, options)


def tensor(name: str, value: Any) -> Tensor:
    """A tensor of an array. Its bytes are not copied if they are row-major and little-endian."""
    given = np.asarray(value)
    kind = given.dtype.newbyteorder("<")
    plain = np.ascontiguousarray(given, kind).reshape(given.shape)
    if kind.name in BITS:
        bits = np.unpackbits(plain.reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")
        data = np.packbits(bits[:, : BITS[kind.name]], bitorder="little")
    else:
        data = plain.reshape(-1).view(np.uint8)
    return Tensor(name, kind.name, plain.shape, data)
