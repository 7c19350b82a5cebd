"""Generated names: a base and a number.

    >>> from lodstone.program import unique_name
    >>> with unique_name.guard():
    ...     unique_name.generate("fc"), unique_name.generate("fc")
    ('fc_0', 'fc_1')
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from .. import _lodstone

__all__ = ["generate", "guard"]

_process = _lodstone.Names()
_names: ContextVar[_lodstone.Names] = ContextVar("names")


def generate(key: str) -> str:
    """Returns a name that was not generated before: the key and the next number."""
    return current().generate(key)


@contextlib.contextmanager
def guard(names: _lodstone.Names | None = None) -> Iterator[None]:
    """Starts all numbers at 0 in a `with` block.

    Two main programs that are each built in such a block share the parameters of layers at the same positions.
    """
    token = _names.set(names or _lodstone.Names())
    try:
        yield
    finally:
        _names.reset(token)


def current() -> _lodstone.Names:
    """Returns the generator of names."""
    return _names.get(_process)
