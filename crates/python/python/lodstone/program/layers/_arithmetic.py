"""Operators of two operands."""

from __future__ import annotations

from math import isfinite
from numbers import Real
from typing import Any

from .._core import Variable
from .._layer import Layer
from ._tensor import fill_constant


def binary(kind: str, x: Variable, y: Any, is_reversed: bool = False) -> Variable:
    """Appends an element-wise operator of a variable and a variable or number."""
    if isinstance(y, Real):
        simple = _scaled(kind, x, float(y), is_reversed)
        if simple is not None:
            return simple
        y = _constant(x, y)
    if not isinstance(y, Variable):
        raise TypeError(f"`{kind}`: expected a Variable or a number, found {type(y).__name__}")
    left, right = (y, x) if is_reversed else (x, y)
    attrs = {"axis": -1} if kind.startswith("elementwise_") else None
    return Layer(kind).result(kind, {"X": left, "Y": right}, attrs)


def _scaled(kind: str, x: Variable, number: float, is_reversed: bool) -> Variable | None:
    """Appends a `scale` where it computes the same as an operator with a constant."""
    if not x.dtype.startswith(("float", "bfloat")):
        return None
    factor, bias = {
        "elementwise_add": (1.0, number),
        "elementwise_sub": (-1.0, number) if is_reversed else (1.0, -number),
        "elementwise_mul": (number, 0.0),
    }.get(kind, (None, 0.0))
    if kind == "elementwise_div" and not is_reversed and number:
        factor = 1.0 / number
    if factor is None:
        return None
    return Layer("scale").result("scale", {"X": x}, {"scale": factor, "bias": bias})


def _constant(x: Variable, number: Any) -> Variable:
    """Appends a constant of one element, of the type of a variable."""
    if x.dtype.startswith(("int", "uint", "bool")) and not (isfinite(number) and number == int(number)):
        raise ValueError(f"{number} cannot be an {x.dtype}, as which {x.name!r} is computed; cast the variable first")
    return fill_constant([1], x.dtype, number)
