"""PyTorch tensors that share memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch

from ._errors import SharedTensorsError


def storage_ptr(tensor: torch.Tensor) -> int:
    """Returns the address of the storage of a tensor, or 0 if it has none."""
    return 0 if tensor.device.type == "meta" else int(tensor.untyped_storage().data_ptr())


def storage_size(tensor: torch.Tensor) -> int:
    """Returns the size in bytes of the storage of a tensor."""
    return int(tensor.untyped_storage().nbytes())


def end_ptr(tensor: torch.Tensor) -> int:
    """Returns the address after the last element of a tensor."""
    if not tensor.nelement():
        return int(tensor.data_ptr())
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return int(tensor.data_ptr() + (last + 1) * tensor.element_size())


def is_complete(tensor: torch.Tensor) -> bool:
    """Returns whether a tensor covers all of its storage."""
    is_first = tensor.device.type == "meta" or int(tensor.data_ptr()) == storage_ptr(tensor)
    return is_first and int(tensor.nelement() * tensor.element_size()) == storage_size(tensor)


def shared(tensors: Mapping[str, torch.Tensor]) -> list[set[str]]:
    """Groups the names of tensors whose memory overlaps. Tensors without memory are in no group."""
    storages: dict[tuple[torch.device, int, int], list[str]] = {}
    for name, tensor in tensors.items():
        place = tensor.device, storage_ptr(tensor), storage_size(tensor)
        if all(place[1:]):
            storages.setdefault(place, []).append(name)
    return [group for names in storages.values() for group in overlapping(names, tensors)]


def overlapping(names: list[str], tensors: Mapping[str, torch.Tensor]) -> list[set[str]]:
    """Groups the names of tensors of one storage whose memory overlaps."""
    areas = sorted((tensors[name].data_ptr(), end_ptr(tensors[name]), name) for name in names)
    groups: list[set[str]] = []
    end = 0
    for start, stop, name in areas:
        if groups and start < end:
            groups[-1].add(name)
        else:
            groups.append({name})
        end = max(end, stop)
    return groups


def duplicates(tensors: Mapping[str, torch.Tensor], preferred: Collection[str] = ()) -> dict[str, list[str]]:
    """Returns, for each kept tensor that shares memory, the names of the others, which can be omitted.

    The kept tensor covers the whole storage; of several, it is one in `preferred`, or else the first by name. A
    storage that no tensor covers is an error.
    """
    found: dict[str, list[str]] = {}
    for names in shared(tensors):
        complete = sorted(name for name in names if is_complete(tensors[name]))
        if not complete:
            named = "`, `".join(sorted(names))
            what = "no tensor covers their whole storage; save copies of them with save_file"
            raise SharedTensorsError(f"`{named}`: {what}")
        kept = next((name for name in complete if name in preferred), complete[0])
        others = sorted(names - {kept})
        if others:
            found[kept] = others
    return found
