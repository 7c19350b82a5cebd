"""Indices of slices, as safetensors accepts them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ._errors import SliceError


def checked(index: Any, shape: Sequence[int]) -> tuple[Any, ...]:
    """Checks an index, and returns it as a tuple for an array of any framework.

    Like safetensors, it accepts integers, slices that begin and end inside a dimension and have a positive step, an
    ellipsis, and an empty list for no elements.

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
        raise SliceError("an index can have only one ellipsis")
    if explicit > len(shape):
        raise SliceError(f"too many indices: {explicit} for a tensor with {len(shape)} dimensions")
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


def inside_integer(item: Any, dimension: int, size: int) -> int:
    """Checks that an index is an integer inside a dimension, and returns it."""
    try:
        number = operator.index(item)
    except TypeError:
        kind = type(item).__name__
        raise SliceError(f"dimension {dimension}: expected an integer, a slice or `...`, found {kind}") from None
    if not -size <= number < size:
        raise SliceError(f"dimension {dimension}: the index {number} is out of bounds for {size} elements")
    return number


def inside_slice(item: slice, dimension: int, size: int) -> slice:
    """Checks that a slice is inside a dimension, and returns it with explicit bounds."""
    start = bound("start", item.start, 0, 0, dimension)
    stop = bound("stop", item.stop, size, 0, dimension)
    step = bound("step", item.step, 1, 1, dimension)
    if start > max(size - 1, 0) or stop > size:
        raise SliceError(f"dimension {dimension}: the slice `{start}:{stop}` is out of bounds for {size} elements")
    return slice(start, stop, step)


def bound(what: str, value: Any, default: int, minimum: int, dimension: int) -> int:
    """Returns the start, stop or step of a slice; negative values are not supported."""
    try:
        number = default if value is None else operator.index(value)
    except TypeError:
        raise SliceError(f"dimension {dimension}: expected an integer as {what} of a slice, found {value!r}") from None
    if number < minimum:
        raise SliceError(f"dimension {dimension}: expected at least {minimum} as {what} of a slice, found {number}")
    return number
