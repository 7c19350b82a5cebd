"""`safe_open`, which reads the tensors of a file one by one, as in safetensors."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Unpack

from ._errors import LodstoneError, LossyError, UnsupportedError
from ._files import check_unique, maps
from ._lodstone import Tensor
from ._model import Model, Path, open_stored
from ._options import ReadOptions
from ._slices import checked


class safe_open:
    """Opens a model of any format, as `safetensors.safe_open` opens a safetensors file.

    `framework` is `"numpy"` (`"np"`), `"torch"` (`"pt"`, `"pytorch"`) or `"paddle"`; without it, tensors are
    `lodstone.Tensor`. PyTorch and PaddlePaddle tensors are moved to `device`. `backend` selects how files are read:
    `"mmap"`, or `"pread"` without a memory map. `options` are those of `lodstone.open`.

    Arrays are writable: their pages are copied on write.

    >>> with lodstone.safe_open("examples/digits/paddle") as file:
    ...     file.keys()[:2], file.get_tensor("fc_0.b_0")
    (['batch_norm_0.b_0', 'batch_norm_0.w_0'], <lodstone.Tensor "fc_0.b_0" float32[10]>)
    """

    def __init__(
        self,
        filename: Path | BinaryIO | bytes,
        framework: str | None = None,
        device: Any = "cpu",
        *,
        backend: str = "mmap",
        **options: Unpack[ReadOptions],
    ) -> None:
        self._array = array_of(framework, device)
        # As in safetensors: PyTorch selects elements of mapped files itself.
        self._is_checked = backend == "pread" or FRAMEWORKS.get(framework or "") == "numpy"
        self._opened: Model | None = open_stored(filename, mmap=maps(backend), **options)

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the file; returned tensors and slices stay valid."""
        self._opened = None

    @property
    def _model(self) -> Model:
        if self._opened is None:
            raise LodstoneError("the file is closed")
        return self._opened

    def keys(self) -> list[str]:
        """Names of the tensors, sorted."""
        return sorted(self._model)

    def offset_keys(self) -> list[str]:
        """Names of the tensors, in the order of the file."""
        return list(self._model)

    def __len__(self) -> int:
        return len(self._model)

    def __iter__(self) -> Iterator[str]:
        return iter(self._model)

    def metadata(self) -> dict[str, str] | None:
        """Returns the free-form metadata of the file, or `None` if it has none."""
        return self._model.metadata or None

    def get_tensor(self, name: str) -> Any:
        """Returns a tensor. Raises a `LossyError` if it is sparse or has a LoD, which arrays do not hold."""
        return self._array(self._whole(name))

    def get_tensors(self) -> dict[str, Any]:
        """Returns all tensors by name, in the order of the file."""
        check_unique(self._model)
        return {name: self.get_tensor(name) for name in self._model}

    def get_slice(self, name: str) -> Slice:
        """Returns a tensor that can be read in parts: `file.get_slice(name)[:, :8]`."""
        if self._array is whole:
            raise ValueError("slices of `lodstone.Tensor` are not supported: use safe_open(..., framework='numpy')")
        return Slice(self._whole(name), self._array, self._is_checked)

    def _whole(self, name: str) -> Tensor:
        """Returns a tensor that converts to an array without loss."""
        tensor = self._model[name]
        losses = [] if self._array is whole else tensor._losses()
        if losses:
            raise lossy(tensor, losses)
        return tensor


class Slice:
    """A tensor that can be read in parts."""

    def __init__(self, tensor: Tensor, array: Callable[[Tensor], Any], is_checked: bool) -> None:
        self._tensor, self._array, self._is_checked = tensor, array, is_checked

    def get_shape(self) -> list[int]:
        """Dimensions of the whole tensor."""
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """The element type, by its code in safetensors if it has one: `"F32"`."""
        return self._tensor._safetensors_dtype or self._tensor.dtype

    def __getitem__(self, index: Any) -> Any:
        if self._is_checked:
            index = checked(index, self._tensor.shape)
        array = self._array(self._tensor)
        if tuple(array.shape) != self._tensor.shape:
            # The array holds raw bytes, or pairs of elements.
            what = f"`{self._tensor.name}` has the type {self._tensor.dtype}"
            raise UnsupportedError(f"{what}, and the framework does not support slices of it")
        return array[index]


def lossy(tensor: Tensor, losses: list[str]) -> LossyError:
    """Returns the error for a tensor whose array would lose something."""
    error = LossyError(f"an array would lose {', '.join(losses)} of `{tensor.name}` ({tensor.kind})")
    error.losses = {loss: [f"`{tensor.name}`"] for loss in losses}
    return error


FRAMEWORKS = {
    "np": "numpy",
    "numpy": "numpy",
    "pt": "torch",
    "torch": "torch",
    "pytorch": "torch",
    "paddle": "paddle",
}
"""The modules of this package, by framework name."""


def whole(tensor: Tensor) -> Tensor:
    """Returns the tensor itself."""
    return tensor


def array_of(framework: str | None, device: Any) -> Callable[[Tensor], Any]:
    """Returns a function that converts a tensor to an array of a framework."""
    if framework is None:
        check_cpu(device)
        return whole
    if framework not in FRAMEWORKS:
        raise UnsupportedError(f"unknown framework {framework!r}; the frameworks are {', '.join(FRAMEWORKS)}")
    module = importlib.import_module(f".{FRAMEWORKS[framework]}", __package__)
    array: Callable[[Tensor], Any] = module._opened(device)
    return array


def check_cpu(device: Any) -> None:
    """Raises an error for a device other than the CPU."""
    if device is not None and str(device) != "cpu":
        raise UnsupportedError(f"the device {device!r} is not supported: these tensors are in CPU memory")
