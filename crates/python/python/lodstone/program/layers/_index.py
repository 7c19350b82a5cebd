"""Indexing of variables: `x[0, 1:3, ::2]`."""

from __future__ import annotations

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
    for axis, item in enumerate(items):
        if isinstance(item, slice):
            step = 1 if item.step is None else int(item.step)
            if step == 0:
                raise ValueError("the step of an index cannot be 0")
            if item == slice(None):
                continue
            start = item.start if item.start is not None else (0 if step > 0 else END)
            end = item.stop if item.stop is not None else (END if step > 0 else -END)
        elif isinstance(item, int) and not isinstance(item, bool):
            start, step = item, 1
            end = END if item == -1 else item + 1
            dropped.append(axis)
        else:
            raise TypeError(f"an index of variable {x.name!r}: expected integers and slices, found {type(item).__name__}")
        axes.append(axis)
        starts.append(int(start))
        ends.append(int(end))
        steps.append(step)
    if not axes:
        return x
    if all(step == 1 for step in steps):
        attrs = {"axes": axes, "starts": starts, "ends": ends, "decrease_axis": dropped}
        return Layer("slice").result("slice", {"Input": x}, attrs)
    attrs = {"axes": axes, "starts": starts, "ends": ends, "strides": steps, "decrease_axis": dropped}
    return Layer("strided_slice").result("strided_slice", {"Input": x}, attrs)
