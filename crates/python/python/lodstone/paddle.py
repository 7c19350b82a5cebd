"""Tensors of PaddlePaddle.

    >>> from lodstone.paddle import load_file  # doctest: +SKIP
    >>> load_file("mxnet-0010.params")["conv0_weight"].shape  # doctest: +SKIP
    [32, 3, 3, 3]
"""

from __future__ import annotations

from ._files import Files
from ._imports import not_installed
from ._lodstone import Tensor
from ._model import Model
from ._work import Progress

try:
    import paddle
except ModuleNotFoundError as error:
    raise not_installed(error, "paddle", "paddlepaddle") from None
from paddle.utils import dlpack

from . import numpy


def array(tensor: Tensor) -> paddle.Tensor:
    """The elements of a tensor, in pages of its file that become copies when they are written to.

    Of a sparse tensor they are those that are stored. Types that PaddlePaddle does not take are raw bytes; the
    tensor's `dtype` says what they are.
    """
    if tensor.values is not None:
        raise TypeError(f"`{tensor.name}` is a tensor of texts, which PaddlePaddle has not")
    if set(tensor._losses()) - {"lod"}:
        return paddle.to_tensor(numpy.array(tensor))
    try:
        return dlpack.from_dlpack(tensor.__dlpack__())
    except (BufferError, NotImplementedError, RuntimeError, ValueError):
        # DLPack has no such type, or this release does not take it.
        return paddle.to_tensor(numpy.array(tensor))


def tensor(name: str, value: paddle.Tensor) -> Tensor:
    """A tensor of one of PaddlePaddle."""
    if not isinstance(value, paddle.Tensor):
        raise TypeError(f"`{name}` is no tensor of PaddlePaddle but {type(value).__name__}")
    kind = str(value.dtype).removeprefix("paddle.")
    raw = value.numpy()
    if kind == "bfloat16":
        # NumPy has the bits of it.
        return Tensor(name, kind, tuple(value.shape), raw.reshape(-1).view("uint8"))
    return numpy.tensor(name, raw)


def _read(model: Model, progress: Progress | None) -> dict[str, paddle.Tensor]:
    loaded = Model(model._model._loaded(progress))
    return {name: array(tensor) for name, tensor in loaded.items()}


_files = Files(_read, tensor)
load_file = _files.load_file
load = _files.load
save_file = _files.save_file
save = _files.save
