"""Indexing of variables: `x[0, 1:3, ::2]`."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from .._core import Variable
from .._layer import Layer

END = 2**31 - 1


def indexed(x: Variable, index: Any) -> Variable:
    """Appends the operators that select a part of a variable."""
    items = list(index) if isinstance(index, tuple) else [index]
    rank = len(x.shape)
    if items.count(Ellipsis) > 1:
        raise IndexError("an index may have one ellipsis")
    if Ellipsis in items:
        place = items.index(Ellipsis)
        items[place : place + 1] = [slice(None)] * (rank - len(items) + 1)
    if len(items) > rank:
        raise IndexError(f"variable {x.name!r} has {rank} dims, but the index has {len(items)}")
    axes, starts, ends, steps, dropped = [], [], [], [], []
    reversed_axes = [axis for axis, item in enumerate(items) if _is_reversed(item)]
    if reversed_axes:
        x = Layer("flip").result("flip", {"X": x}, {"axis": reversed_axes})
        items = [slice(None, None, -_whole(x, item.step)) if _is_reversed(item) else item for item in items]
    for axis, item in enumerate(items):
        if isinstance(item, slice):
            step = 1 if item.step is None else _whole(x, item.step)
            if step == 0:
                raise ValueError("the step of an index cannot be 0")
            if item == slice(None):
                continue
            if step < 0 and (item.start is None or item.stop is None):
                raise ValueError(f"an index of variable {x.name!r} with step {step} needs both ends, or none")
            start = 0 if item.start is None else _whole(x, item.start)
            end = END if item.stop is None else _whole(x, item.stop)
        else:
            start, step = _whole(x, item), 1
            size = x.shape[axis]
            if size >= 0 and not -size <= start < size:
                raise IndexError(f"index {start} is out of range for axis {axis} of {x.name!r}, which has size {size}")
            end = END if start == -1 else start + 1
            dropped.append(axis)
        axes.append(axis)
        starts.append(start)
        ends.append(end)
        steps.append(step)
    if not axes:
        return x
    attrs = {"axes": axes, "starts": starts, "ends": ends, "decrease_axis": dropped, "infer_flags": [1] * len(axes)}
    if all(step == 1 for step in steps):
        return Layer("slice").result("slice", {"Input": x}, attrs)
    attrs["strides"] = steps
    return Layer("strided_slice").result("strided_slice", {"Input": x}, attrs)


def _whole(x: Variable, given: Any) -> int:
    """Returns an integer of an index."""
    if isinstance(given, Integral) and not isinstance(given, bool):
        return int(given)
    raise TypeError(f"an index of variable {x.name!r}: expected integers and slices, found {type(given).__name__}")


def _is_reversed(item: Any) -> bool:
    """Returns whether an index selects a whole axis backwards."""
    return isinstance(item, slice) and item.start is None and item.stop is None and (item.step or 1) < 0
