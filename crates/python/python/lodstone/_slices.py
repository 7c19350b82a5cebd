"""Selections of elements that safetensors reads from a file."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ._errors import SliceError


def checked(index: Any, shape: Sequence[int]) -> tuple[Any, ...]:
    """A selection as a tuple for an array of any framework.

    It is what safetensors accepts: integers, slices that begin and end inside a dimension and go forward, an ellipsis,
    and an empty list for no elements.

    >>> checked((slice(None, 2), -1), [10, 5])
    (slice(0, 2, 1), -1, Ellipsis)
    """
    if isinstance(index, list):
        if index:
            raise SliceError("selecting elements by a list is not supported")
        index = slice(0, 0)
    items = index if isinstance(index, tuple) else (index,)
    explicit = sum(item is not Ellipsis for item in items)
    if len(items) > explicit + 1:
        raise SliceError("there is more than one ellipsis")
    if explicit > len(shape):
        raise SliceError(f"{explicit} dimensions are selected from, and the tensor has {len(shape)}")
    found: list[Any] = []
    dimension = 0
    for item in items:
        if item is Ellipsis:
            found.append(item)
            dimension += len(shape) - explicit
            continue
        select = inside_slice if isinstance(item, slice) else inside_integer
        found.append(select(item, dimension, shape[dimension]))
        dimension += 1
    # With an ellipsis, a single element is an array too.
    return tuple(found if len(items) > explicit else (*found, ...))


def inside_integer(item: Any, dimension: int, extent: int) -> int:
    """The number of an element that a dimension has."""
    try:
        number = operator.index(item)
    except TypeError:
        kind = type(item).__name__
        raise SliceError(f"dimension {dimension}: expected an integer, a slice or `...`, found {kind}") from None
    if not -extent <= number < extent:
        raise SliceError(f"dimension {dimension} has {extent} elements, there is no element {number}")
    return number


def inside_slice(item: slice, dimension: int, extent: int) -> slice:
    """A range that is inside a dimension."""
    start = bound("start", item.start, 0, 0, dimension)
    stop = bound("stop", item.stop, extent, 0, dimension)
    step = bound("step", item.step, 1, 1, dimension)
    if start > max(extent - 1, 0) or stop > extent:
        raise SliceError(f"dimension {dimension} has {extent} elements, `{start}:{stop}` is not inside")
    return slice(start, stop, step)


def bound(what: str, value: Any, default: int, least: int, dimension: int) -> int:
    """A number of a slice, which counts from the beginning."""
    try:
        number = default if value is None else operator.index(value)
    except TypeError:
        raise SliceError(f"dimension {dimension}: the {what} of a slice is {value!r}, not an integer") from None
    if number < least:
        raise SliceError(f"dimension {dimension}: the {what} of a slice is {number}, and has to be at least {least}")
    return number
