"""Tensors of PaddlePaddle.

    >>> from lodstone.paddle import load_file  # doctest: +SKIP
    >>> load_file("mxnet-0010.params")["conv0_weight"].shape  # doctest: +SKIP
    [32, 3, 3, 3]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

import paddle
from paddle.utils import dlpack

from . import _files, numpy
from ._lodstone import Buffer, Tensor
from ._model import Path, open
from ._work import Progress


def array(tensor: Tensor) -> paddle.Tensor:
    """The elements of a tensor, in pages of its file that become copies when they are written to.

    Of a sparse tensor they are those that are stored. Types that PaddlePaddle does not take are raw bytes; the
    tensor's `dtype` says what they are.
    """
    if tensor.values is not None:
        raise TypeError(f"`{tensor.name}` is a tensor of texts, which PaddlePaddle has not")
    try:
        return dlpack.from_dlpack(tensor.__dlpack__())
    except (BufferError, NotImplementedError, RuntimeError, ValueError):
        # DLPack has no such type, or this release does not take it.
        return paddle.to_tensor(numpy.array(tensor))


def load_file(file: Path | BinaryIO | bytes, **options: Any) -> dict[str, paddle.Tensor]:
    """The tensors of a model, in memory that is yours."""
    return {name: array(tensor) for name, tensor in _files.load_file(file, **options).items()}


def load(data: bytes) -> dict[str, paddle.Tensor]:
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
    """Writes tensors. The format is told by the name of the file, or by `to`; `options` are those of `convert`."""
    _files.write(tensor, tensors, file, metadata, progress, options)


def save(
    tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None, *, to: str = "safetensors", **options: Any
) -> bytes:
    """The bytes of a file of a format that is one file."""
    return _files.encode(tensor, tensors, metadata, to, options)


def tensor(name: str, value: paddle.Tensor) -> Tensor:
    """A tensor of one of PaddlePaddle."""
    kind = str(value.dtype).removeprefix("paddle.")
    raw = value.numpy()
    if kind == "bfloat16":
        # NumPy has the bits of it.
        return Tensor(name, kind, tuple(value.shape), raw.reshape(-1).view("uint8"))
    return numpy.tensor(name, raw)
