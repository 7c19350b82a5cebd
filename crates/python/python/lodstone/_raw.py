"""The low-level functions of safetensors, which take the addresses of tensors and return their bytes.

`save` and `save_file` of a `lodstone.Tensor` do the same with buffers, which stay valid until they are written.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from . import _lodstone
from ._errors import UnsupportedError
from ._lodstone import Tensor
from ._model import Model, Path, open_stored_bytes
from ._work import converting

PAIRS = {"float4_e2m1fn_x2": "float4_e2m1fn"}
"""Element types that pack two elements into one, with the type of each."""


class TensorSpec:
    """A tensor by the address of its bytes, which are row-major and little-endian.

    The memory must stay valid until the tensor is written.

    The argument `dtype` is a name as in frameworks, `"float32"`; the attribute is the code in files, `"F32"`. For a
    type that packs two elements into one, the argument `shape` counts pairs, as in PyTorch; the attribute counts
    elements.
    """

    __slots__ = ("_data_len", "_data_ptr", "_dtype", "_shape")

    def __init__(self, *, dtype: str, shape: Sequence[int], data_ptr: int, data_len: int) -> None:
        dims = [operator.index(dim) for dim in shape]
        if dtype in PAIRS and dims:
            dims[-1] *= 2
        self._dtype, self._shape = PAIRS.get(dtype, dtype), dims
        self._data_ptr, self._data_len = operator.index(data_ptr), operator.index(data_len)
        if code(self._dtype) is None:
            raise UnsupportedError(f"safetensors has no element type `{dtype}`")
        if min([self._data_ptr, self._data_len, *dims]) < 0:
            raise UnsupportedError("expected non-negative dims, address and length")
        if self._data_len and not self._data_ptr:
            raise UnsupportedError(f"expected the address of {data_len} bytes, found address 0")

    @property
    def dtype(self) -> str:
        """Code of the element type: `"F32"`."""
        return code(self._dtype) or self._dtype

    @property
    def shape(self) -> list[int]:
        """Dims, outermost first."""
        return list(self._shape)

    @property
    def data_ptr(self) -> int:
        """Address of the bytes."""
        return self._data_ptr

    @property
    def data_len(self) -> int:
        """The number of bytes."""
        return self._data_len

    def __repr__(self) -> str:
        parts = ("dtype", "shape", "data_ptr", "data_len")
        return f"TensorSpec({', '.join(f'{part}={getattr(self, part)!r}' for part in parts)})"

    def _tensor(self, name: str) -> Tensor:
        data = memoryview((ctypes.c_ubyte * self._data_len).from_address(self._data_ptr))
        try:
            return Tensor(name, self._dtype, self._shape, data)
        except (OverflowError, ValueError) as error:
            raise UnsupportedError(str(error)) from None


def code(dtype: str) -> str | None:
    """Returns the code of an element type in safetensors files, or `None` if it has none."""
    try:
        return Tensor("", dtype, (0,), b"")._safetensors_dtype
    except TypeError:
        return None


def serialize(tensor_dict: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None) -> bytes:
    """Returns the bytes of a safetensors file."""
    return _lodstone.save_bytes(tensors(tensor_dict), dict(metadata or {}), converting(to="safetensors"))


def serialize_file(
    tensor_dict: Mapping[str, TensorSpec], filename: Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a safetensors file, whatever its extension."""
    options = converting(to="safetensors")
    _lodstone.save(tensors(tensor_dict), dict(metadata or {}), {}, filename, options, None)


def tensors(specs: Mapping[str, TensorSpec]) -> list[Tensor]:
    """Returns tensors that view the memory of the specs."""
    for name, spec in specs.items():
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"`{name}`: expected a TensorSpec, found {type(spec).__name__}")
    return [spec._tensor(name) for name, spec in specs.items()]


def deserialize(bytes: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Returns the tensors of a model in bytes: the name of each, with `shape`, the code of its `dtype`, and `data`."""
    arrays = Model(open_stored_bytes(bytes)._model._arrays([]))
    return [
        (
            tensor.name,
            {
                "shape": list(tensor.shape),
                "dtype": tensor._safetensors_dtype or tensor.dtype,
                "data": bytearray(tensor.data()),
            },
        )
        for tensor in arrays.tensors
    ]
