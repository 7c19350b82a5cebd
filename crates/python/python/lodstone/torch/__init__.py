"""PyTorch tensors.

    >>> from lodstone.torch import load_file  # doctest: +SKIP
    >>> load_file("resnet50.pdparams")["conv1.weight"].shape  # doctest: +SKIP
    torch.Size([64, 3, 7, 7])
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO, Unpack

from .._errors import SharedTensorsError, UnsupportedError
from .._files import Files, maps
from .._imports import not_installed
from .._lodstone import Buffer, Tensor
from .._model import Model, Path, open
from .._options import ConvertOptions, LoadOptions, Progress, ReadOptions
from .._safe_open import safe_open as safe_open

try:
    import torch
except ModuleNotFoundError as error:
    raise not_installed(error, "torch", "torch") from None
from torch.utils.dlpack import from_dlpack

from .. import _sharing
from .._sharing import storage_ptr as storage_ptr
from .._sharing import storage_size as storage_size


def dtype(name: str) -> torch.dtype | None:
    """Returns the element type called `name` in PyTorch, or `None` if it packs elements differently."""
    name = PAIRS.get(name, name)
    found = None if "int2" in name or "int4" in name else getattr(torch, name, None)
    return found if isinstance(found, torch.dtype) else None


DLPACK = frozenset({"bfloat16", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"})
"""Types that every PyTorch release accepts by DLPack, which passes elements and shape in one step."""

PAIRS = {"float4_e2m1fn": "float4_e2m1fn_x2"}
"""Types whose PyTorch counterpart packs two elements into one."""


def array(tensor: Tensor) -> torch.Tensor:
    """Returns the elements of a tensor, in copy-on-write pages of its file.

    For a sparse tensor, they are the stored elements. Elements of types that PyTorch lacks are raw bytes, whose type is
    the tensor's `dtype`.
    """
    return view(tensor, tensor.data(private=True))


def view(tensor: Tensor, data: Buffer) -> torch.Tensor:
    """Makes a PyTorch tensor from the bytes of a tensor."""
    # PyTorch requires at least one dim.
    if tensor.dtype in DLPACK and tensor.shape:
        return from_dlpack(tensor._dlpack(data))
    if tensor.values is not None:
        raise TypeError(f"`{tensor.name}` is a string tensor, which PyTorch does not support")
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
    """Makes a tensor from a PyTorch tensor, without a copy if it is contiguous and in CPU memory."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"`{name}`: expected a PyTorch tensor, found {type(value).__name__}")
    check_dense({name: value})
    try:
        import numpy  # noqa: F401
    except ModuleNotFoundError as error:
        # PyTorch exposes the bytes of its tensors as NumPy arrays.
        raise not_installed(error, "numpy", "numpy") from None
    kind, dims = named(value.dtype), value.shape
    if kind in NUMPY and dims:
        return Tensor(name, kind, dims, value.contiguous().numpy(force=True))
    # Conjugate and negated tensors may be lazy views of the bytes of another tensor.
    plain = value.detach().to("cpu").resolve_conj().resolve_neg().contiguous()
    data = plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else b""
    shape = list(plain.shape)
    for name_here, name_there in PAIRS.items():
        if kind == name_there:
            kind, shape[-1] = name_here, 2 * shape[-1]
    return Tensor(name, kind, shape, data)


NUMPY = DLPACK - {"bfloat16"} | {"bool", "complex64", "complex128"}
"""Types that PyTorch converts to NumPy arrays."""


@functools.cache
def named(kind: torch.dtype) -> str:
    """Returns the name of an element type in NumPy or `ml_dtypes`, except for those in `PAIRS`."""
    return str(kind).removeprefix("torch.")


def _read(model: Model, progress: Progress | None) -> dict[str, torch.Tensor]:
    # A tuple for each pair would add as many objects for the garbage collector to traverse.
    return {tensor.name: _viewed(tensor, data) for tensor, data in zip(*model._model._load(progress, True))}


def _viewed(tensor: Tensor, data: Buffer) -> torch.Tensor:
    """Makes a PyTorch tensor, on the device `meta` if the tensor has no elements."""
    if tensor.kind == "absent":
        return torch.empty(tensor.shape, dtype=dtype(tensor.dtype), device="meta")
    return view(tensor, data)


def check_dense(tensors: Mapping[str, torch.Tensor]) -> None:
    """Raises an error for tensors that are not dense."""
    layouts = {name: value.layout for name, value in tensors.items() if value.layout is not torch.strided}
    if layouts:
        found = ", ".join(f"`{name}` ({layout})" for name, layout in layouts.items())
        what = "save `.to_dense()`, or the indices and values as separate tensors"
        raise UnsupportedError(f"saving sparse tensors is not supported: {found}; {what}")


def _check(tensors: Mapping[str, torch.Tensor | Tensor]) -> None:
    """Raises an error for tensors that cannot be saved together."""
    if not isinstance(tensors, Mapping):
        raise ValueError(f"expected a dictionary of names and tensors, found {type(tensors).__name__}")
    for name, value in tensors.items():
        if not isinstance(value, (torch.Tensor, Tensor)):
            raise ValueError(f"`{name}`: expected a PyTorch tensor, found {type(value).__name__}")
    given = {name: value for name, value in tensors.items() if isinstance(value, torch.Tensor)}
    check_dense(given)
    shared = [sorted(names) for names in _sharing.shared(given) if len(names) > 1]
    if shared:
        groups = ", ".join("`" + "` and `".join(names) + "`" for names in shared)
        raise SharedTensorsError(f"these tensors share memory: {groups}; save copies, or a module by save_model(...)")
    for name, value in given.items():
        if not value.is_contiguous():
            what = "save `.contiguous()` of it, or use save_model(..., force_contiguous=True)"
            raise UnsupportedError(f"`{name}` is not contiguous: {what}")


_files = Files(_read, tensor, _check)


def _moved(device: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns a function that moves tensors to a device."""
    if device is None or str(device) == "cpu":
        return lambda tensor: tensor
    if isinstance(device, str):
        try:
            torch.device(device)
        except RuntimeError as error:
            raise UnsupportedError(f"unknown device {device!r}: {error}") from None
    return lambda tensor: tensor.to(device)


def _opened(device: Any) -> Callable[[Tensor], torch.Tensor]:
    """Returns a function that makes tensors on a device."""
    moved = _moved(device)
    return lambda tensor: moved(array(tensor))


def load_file(
    filename: Path | BinaryIO | bytes, device: Any = "cpu", *, backend: str = "mmap", **options: Unpack[LoadOptions]
) -> dict[str, torch.Tensor]:
    """Returns the tensors of a model, in memory that the caller owns or on a device.

    `backend`, `progress` and other `options` are those of `lodstone.load_file`.
    """
    moved = _moved(device)
    loaded = _files.load_file(filename, backend=backend, **options)
    for name, one in loaded.items():
        loaded[name] = moved(one)
    return loaded


def load(
    data: Path | BinaryIO | bytes,
    device: Any = "cpu",
    *,
    backend: str = "mmap",
    progress: Progress | None = None,
    allow: str | Iterable[str] = (),
    **options: Unpack[ReadOptions],
) -> dict[str, torch.Tensor]:
    """Returns the tensors of a model in memory, or of a file of any format, such as one of `torch.save`.

    Nothing in the file is executed. Tensors are named by their path, `model.0.weight`; those that are the same elements
    of the file are one tensor. Tensors of the device `meta` have no elements. Of a distributed or quantized tensor, a subclass,
    there are the parts, with a warning; an access by its own name raises an error. The other arguments are those of
    `load_file`.
    """
    moved = _moved(device)
    model = open(data, mmap=maps(backend), **options)
    loaded = _files.of_model(model, progress, allow)
    for name, one in loaded.items():
        loaded[name] = moved(one)
    known: dict[Any, str] = {}
    for name, tensor in model.items():
        place = tensor._place()
        if place is not None and name in loaded:
            first = known.setdefault((place, tensor.dtype, tuple(tensor.shape)), name)
            loaded[name] = loaded[first]
    return loaded


save_file = _files.save_file
save = _files.save


def save_model(
    model: torch.nn.Module,
    filename: Path,
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
    **options: Unpack[ConvertOptions],
) -> None:
    """Writes the parameters and buffers of a module. If tensors share memory, only one of them is written.

    If the format has metadata, it maps the names of the others to the written name. Tensors that are not contiguous are
    copied; without `force_contiguous`, they are an error. `options` are those of `lodstone.save_file`.
    """
    state = model.state_dict()
    left_out = _sharing.duplicates(_dense(state))
    notes = {name: kept for kept, names in left_out.items() for name in names}
    state = {name: value for name, value in state.items() if name not in notes}
    if force_contiguous:
        state.update({name: value.contiguous() for name, value in _dense(state).items()})
    save_file(state, filename, metadata, notes=notes, **options)


def load_model(
    model: torch.nn.Module,
    filename: Path | BinaryIO | bytes,
    strict: bool = True,
    device: Any = "cpu",
    *,
    backend: str = "mmap",
    **options: Unpack[LoadOptions],
) -> tuple[set[str], list[str]]:
    """Reads the parameters and buffers of a module, by name, from a file of any format.

    Returns the names that the file lacks, and those that the module lacks. With `strict`, any such name raises a
    `RuntimeError`. If tensors share memory in the module, the file needs only one of them. `options` are those of
    `load_file`.
    """
    state = load_file(filename, device, backend=backend, **options)
    left_out = _sharing.duplicates(_dense(model.state_dict()), state)
    found = model.load_state_dict(state, strict=False)
    missing, unexpected = set(found.missing_keys), list(found.unexpected_keys)
    for name in (name for names in left_out.values() for name in names):
        if name in state:
            unexpected.append(name)
        missing.discard(name)
    if strict and (missing or unexpected):
        parts = [("Missing", missing), ("Unexpected", unexpected)]
        lists = [f"{what} key(s) in state_dict: {quoted(names)}" for what, names in parts if names]
        raise RuntimeError(f"Error(s) in loading state_dict for {type(model).__name__}:\n\t" + "\n\t".join(lists))
    return missing, unexpected


def _dense(state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Returns the dense tensors of a state."""
    tensors = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
    return {name: value for name, value in tensors.items() if value.layout is torch.strided}


def quoted(names: Iterable[str]) -> str:
    """Returns the names in quotes, sorted."""
    return ", ".join(f'"{name}"' for name in sorted(names))
