"""PaddlePaddle tensors.

    >>> from lodstone.paddle import load_file  # doctest: +SKIP
    >>> load_file("mxnet-0010.params")["conv0_weight"].shape  # doctest: +SKIP
    [32, 3, 3, 3]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO, Unpack

from ._errors import UnsupportedError
from ._files import Files
from ._imports import not_installed
from ._lodstone import Tensor
from ._model import Model, Path
from ._options import LoadOptions, Progress
from ._safe_open import safe_open as safe_open

try:
    import paddle
except ModuleNotFoundError as error:
    raise not_installed(error, "paddle", "paddlepaddle") from None
from paddle.utils import dlpack

from . import numpy


def array(tensor: Tensor) -> paddle.Tensor:
    """Returns the elements of a tensor, in copy-on-write pages of its file.

    For a sparse tensor, they are the stored elements. Elements of types that PaddlePaddle does not accept are raw
    bytes, whose type is the tensor's `dtype`.
    """
    if tensor.values is not None:
        raise TypeError(f"`{tensor.name}` is a string tensor, which PaddlePaddle does not support")
    if set(tensor._losses()) - {"lod"}:
        return paddle.to_tensor(numpy.array(tensor))
    try:
        return dlpack.from_dlpack(tensor.__dlpack__())
    except (BufferError, NotImplementedError, RuntimeError, ValueError):
        # DLPack has no such type, or this release does not accept it.
        return paddle.to_tensor(numpy.array(tensor))


def tensor(name: str, value: paddle.Tensor) -> Tensor:
    """Makes a tensor from a PaddlePaddle tensor."""
    if not isinstance(value, paddle.Tensor):
        raise TypeError(f"`{name}`: expected a PaddlePaddle tensor, found {type(value).__name__}")
    kind = str(value.dtype).removeprefix("paddle.")
    raw = value.numpy()
    if kind == "bfloat16":
        # The NumPy array holds the bits of the elements.
        return Tensor(name, kind, tuple(value.shape), raw.reshape(-1).view("uint8"))
    return numpy.tensor(name, raw)


def _read(model: Model, progress: Progress | None) -> dict[str, paddle.Tensor]:
    loaded = Model(model._model._loaded(progress))
    return {name: array(tensor) for name, tensor in loaded.items()}


def _check(tensors: Mapping[str, paddle.Tensor | Tensor]) -> None:
    """Raises an error for tensors that cannot be saved."""
    if not isinstance(tensors, Mapping):
        raise ValueError(f"expected a dictionary of names and tensors, found {type(tensors).__name__}")
    for name, value in tensors.items():
        if isinstance(value, Tensor):
            continue
        if not isinstance(value, paddle.Tensor):
            raise ValueError(f"`{name}`: expected a PaddlePaddle tensor, found {type(value).__name__}")
        if not value.is_dense():
            what = "save `.to_dense()`, or the indices and values as separate tensors"
            raise UnsupportedError(f"saving sparse tensors is not supported: `{name}`; {what}")
        if not value.is_contiguous():
            raise UnsupportedError(f"`{name}` is not contiguous: save `.contiguous()` of it")


_files = Files(_read, tensor, _check)


def _moved(device: Any) -> Callable[[paddle.Tensor], paddle.Tensor]:
    """Returns a function that moves tensors to a device; PyTorch's names such as `"cuda:0"` are accepted."""
    if device is None or str(device) == "cpu":
        return lambda tensor: tensor
    name = f"gpu:{device}" if isinstance(device, int) else str(device).replace("cuda", "gpu")
    return lambda tensor: tensor.to(name)


def _opened(device: Any) -> Callable[[Tensor], paddle.Tensor]:
    """Returns a function that makes tensors on a device."""
    moved = _moved(device)
    return lambda tensor: moved(array(tensor))


def load_file(
    filename: Path | BinaryIO | bytes, device: Any = "cpu", *, backend: str = "mmap", **options: Unpack[LoadOptions]
) -> dict[str, paddle.Tensor]:
    """Returns the tensors of a model, in memory that the caller owns or on a device.

    `backend`, `progress` and other `options` are those of `lodstone.load_file`.
    """
    moved = _moved(device)
    loaded = _files.load_file(filename, backend=backend, **options)
    return {name: moved(one) for name, one in loaded.items()}


def load(data: bytes, device: Any = "cpu", *, allow: str | Iterable[str] = ()) -> dict[str, paddle.Tensor]:
    """Returns the tensors of a model in memory, without the losses in `allow`."""
    moved = _moved(device)
    return {name: moved(one) for name, one in _files.load(data, allow=allow).items()}


save_file = _files.save_file
save = _files.save
