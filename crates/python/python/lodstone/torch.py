"""Tensors of PyTorch.

    >>> from lodstone.torch import load_file  # doctest: +SKIP
    >>> load_file("resnet50.pdparams")["conv1.weight"].shape  # doctest: +SKIP
    torch.Size([64, 3, 7, 7])
"""

from __future__ import annotations

import functools
from typing import Any, BinaryIO

from ._files import Files
from ._imports import not_installed
from ._lodstone import Buffer, Tensor
from ._model import Model, Path
from ._work import Progress

try:
    import torch
except ModuleNotFoundError as error:
    raise not_installed(error, "torch", "torch") from None
from torch.utils.dlpack import from_dlpack


def dtype(name: str) -> torch.dtype | None:
    """The element type that PyTorch calls `name`; none if it packs its elements in another way."""
    name = PAIRS.get(name, name)
    found = None if "int2" in name or "int4" in name else getattr(torch, name, None)
    return found if isinstance(found, torch.dtype) else None


DLPACK = frozenset({"bfloat16", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"})
"""Types that every PyTorch takes by DLPack, which gives elements and shape in one step."""

PAIRS = {"float4_e2m1fn": "float4_e2m1fn_x2"}
"""Types of which PyTorch has two in an element."""


def array(tensor: Tensor) -> torch.Tensor:
    """The elements of a tensor, in pages of its file that become copies when they are written to.

    Of a sparse tensor they are those that are stored. Types that PyTorch has not are raw bytes; the tensor's
    `dtype` says what they are.
    """
    return view(tensor, tensor.data(private=True))


def view(tensor: Tensor, data: Buffer) -> torch.Tensor:
    """A tensor of PyTorch of bytes that a tensor has."""
    # Of a scalar there are no extents, which PyTorch wants to see.
    if tensor.dtype in DLPACK and tensor.shape:
        return from_dlpack(tensor._dlpack(data))
    if tensor.values is not None:
        raise TypeError(f"`{tensor.name}` is a tensor of texts, which PyTorch has not")
    kind, shape = dtype(tensor.dtype), list(tensor.stored_shape)
    if tensor.dtype in PAIRS:
        if not shape or shape[-1] % 2:
            kind = None
        else:
            shape[-1] //= 2
    if kind is None:
        kind, shape = torch.uint8, [len(data)]
    if len(data) == 0:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(data, dtype=kind).reshape(shape)


def tensor(name: str, value: torch.Tensor) -> Tensor:
    """A tensor of one of PyTorch. Its bytes are not copied if they are row-major and not on a device."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"`{name}` is no tensor of PyTorch but {type(value).__name__}")
    try:
        import numpy  # noqa: F401
    except ModuleNotFoundError as error:
        # PyTorch exposes the bytes of its tensors as arrays of NumPy.
        raise not_installed(error, "numpy", "numpy") from None
    kind, extents = named(value.dtype), value.shape
    if kind in NUMPY and extents:
        return Tensor(name, kind, extents, value.contiguous().numpy(force=True))
    # Conjugates and negatives may be marks on the bytes of another tensor.
    plain = value.detach().to("cpu").resolve_conj().resolve_neg().contiguous()
    data = plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else b""
    shape = list(plain.shape)
    for name_here, name_there in PAIRS.items():
        if kind == name_there:
            kind, shape[-1] = name_here, 2 * shape[-1]
    return Tensor(name, kind, shape, data)


NUMPY = DLPACK - {"bfloat16"} | {"bool", "complex64", "complex128"}
"""Types of which PyTorch gives arrays of NumPy."""


@functools.cache
def named(kind: torch.dtype) -> str:
    """What NumPy or `ml_dtypes` calls an element type, but for those of `PAIRS`."""
    return str(kind).removeprefix("torch.")


def _read(model: Model, progress: Progress | None) -> dict[str, torch.Tensor]:
    # Pairs that are objects each would be as many for Python's collector to walk.
    return {tensor.name: view(tensor, data) for tensor, data in zip(*model._model._load(progress))}


_files = Files(_read, tensor)


def load_file(file: Path | BinaryIO | bytes, device: Any = "cpu", **options: Any) -> dict[str, torch.Tensor]:
    """The tensors of a model, in memory that is yours or on a device.

    `progress` is called with the number of bytes that are read; other `options` are those of `lodstone.open`.
    """
    loaded = _files.load_file(file, **options)
    return loaded if str(device) == "cpu" else {name: one.to(device) for name, one in loaded.items()}


load = _files.load
save_file = _files.save_file
save = _files.save
