"""Checks of arguments: by annotations, and of numbers."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from math import inf, isfinite
from numbers import Integral, Real
from operator import index
from reprlib import repr as shortened
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LARGEST = 3.4028234663852886e38
"""The largest float32."""


class Kind(NamedTuple):
    """What an argument may be, in words and as a function."""

    what: str
    accepts: Callable[[Any], bool]


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Returns a function that raises a `TypeError` with the name of an argument that does not have its type.

    Annotations that say more than a type, such as those of arrays, are not checked.
    """
    signature = inspect.signature(function)
    kinds: dict[str, Kind] = {}
    is_known = False

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        nonlocal is_known
        if not is_known:
            kinds.update(_kinds(signature, function.__globals__))
            is_known = True
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        for name, value in bound.arguments.items():
            kind = kinds.get(name)
            if kind is not None and not kind.accepts(value):
                raise TypeError(wrong(name, kind.what, value))
        return function(*args, **kwargs)

    return call


def check_fields(given: Any) -> None:
    """Checks the fields of a dataclass by their annotations."""
    names = vars(sys.modules[type(given).__module__])
    for name, annotation in type(given).__annotations__.items():
        kind = kind_of(annotation, names)
        if kind is not None and not kind.accepts(getattr(given, name)):
            raise TypeError(wrong(name, kind.what, getattr(given, name)))


def wrong(argument: str, what: str, value: Any) -> str:
    """Returns the message about an argument of the wrong type."""
    found = shortened(value) if isinstance(value, (list, tuple)) else type(value).__name__
    return f"argument '{argument}': expected {what}, found {found}"


def _kinds(signature: inspect.Signature, names: Mapping[str, Any]) -> dict[str, Kind]:
    found = {}
    for name, parameter in signature.parameters.items():
        text = str(parameter.annotation)
        kind = kind_of(f"Sequence[{text}]" if parameter.kind == parameter.VAR_POSITIONAL else text, names)
        if kind is not None and parameter.kind != parameter.VAR_KEYWORD:
            found[name] = kind
    return found


def kind_of(annotation: str, names: Mapping[str, Any]) -> Kind | None:
    """Returns what values have an annotation; None if it cannot be checked."""
    members = []
    for text in _split(annotation):
        member = _member(text, names)
        if member is None:
            return None
        members.append(member)
    words = [member.what for member in members if member.what]
    return Kind(" or ".join(words), lambda value: any(member.accepts(value) for member in members))


def _split(annotation: str) -> list[str]:
    """Returns the members of a union."""
    members, depth = [""], 0
    for part in annotation.split(" | "):
        members[-1] += part
        depth += part.count("[") - part.count("]")
        if depth == 0:
            members.append("")
        else:
            members[-1] += " | "
    return members[:-1]


SIMPLE = {
    "None": Kind("", lambda value: value is None),
    "str": Kind("a str", lambda value: isinstance(value, str)),
    "Path": Kind("a path", lambda value: isinstance(value, (str, os.PathLike))),
    "int": Kind("an int", lambda value: isinstance(value, Integral)),
    "float": Kind("a number", lambda value: isinstance(value, Real)),
    "bool": Kind("a bool", lambda value: isinstance(value, Integral) or type(value).__name__ in ("bool", "bool_")),
}


def _member(text: str, names: Mapping[str, Any]) -> Kind | None:
    if text in SIMPLE:
        return SIMPLE[text]
    if text.startswith("Callable"):
        return Kind("a function", callable)
    if text.startswith("Mapping[") or text.startswith("dict["):
        return Kind("a mapping", lambda value: isinstance(value, Mapping))
    if text.startswith("Sequence[") or text.startswith("list["):
        return _sequence(text[text.index("[") + 1 : -1], names)
    known = names.get(text)
    if isinstance(known, type) and known is not Any:
        article = "an" if text[0] in "AEIOU" else "a"
        return Kind(f"{article} {text.lstrip('_')}", lambda value: isinstance(value, known))
    return None


def _sequence(element: str, names: Mapping[str, Any]) -> Kind | None:
    """Returns what a sequence is; one whose length is not known, such as a variable, is none."""
    inner = kind_of(element, names)
    plural = "values" if inner is None else {"an int": "ints", "a number": "numbers"}.get(inner.what, inner.what[2:].strip() + "s")

    def accepts(value: Any) -> bool:
        if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__getitem__") or not hasattr(value, "__len__"):
            return False
        if hasattr(value, "stop_gradient"):
            return False
        return inner is None or all(inner.accepts(one) for one in value)

    return Kind(f"a sequence of {plural}", accepts)


def integers(argument: str, given: Any) -> list[int]:
    """Returns integers; fractions are errors."""
    try:
        return [index(one) for one in given]
    except TypeError:
        raise TypeError(wrong(argument, "ints", given)) from None


def number(argument: str, given: Any, low: float = -LARGEST, high: float = LARGEST, is_open: bool = False) -> float:
    """Returns a finite number from `low` to `high`, by default all that float32 has; with `is_open`, below `high`."""
    if not isinstance(given, Real):
        raise TypeError(wrong(argument, "a number", given))
    try:
        value = float(given)
    except OverflowError:
        value = inf
    if not isfinite(value) or not low <= value <= high or is_open and value == high:
        bounds = {(-LARGEST, LARGEST): "a finite number", (0.0, LARGEST): "a finite number of at least 0"}
        expected = bounds.get((low, high), f"a number from {low:g} to {high:g}" if not is_open else f"a number from {low:g} to below {high:g}")
        raise ValueError(f"argument '{argument}': expected {expected}, found {given}")
    return value


def positive(argument: str, given: int) -> int:
    """Returns an integer above 0."""
    if given <= 0:
        raise ValueError(f"argument '{argument}': expected a number above 0, found {given}")
    return given
