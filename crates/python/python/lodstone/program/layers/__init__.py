"""Layers: functions that append operators to the current program, and return their results.

Arguments and defaults are those of `paddle.fluid.layers` in PaddlePaddle 1.8; operators are those of 2.6, where it has
them. `block.append_op` appends any operator that `lodstone ops` lists.
"""

from __future__ import annotations

from inspect import isfunction
from typing import NoReturn

from ..._checks import checked
from . import _activations, _control, _detection, _images, _loss, _math, _nn, _rnn, _schedules, _sequence, _tensor
from ._activations import *  # noqa: F403
from ._control import *  # noqa: F403
from ._detection import *  # noqa: F403
from ._images import *  # noqa: F403
from ._loss import *  # noqa: F403
from ._math import *  # noqa: F403
from ._nn import *  # noqa: F403
from ._rnn import *  # noqa: F403
from ._schedules import *  # noqa: F403
from ._sequence import *  # noqa: F403
from ._tensor import *  # noqa: F403

__all__ = [
    name
    for module in (_activations, _control, _detection, _images, _loss, _math, _nn, _rnn, _schedules, _sequence, _tensor)
    for name in module.__all__
]

# Layers call each other without checks; programs get them with checks.
globals().update({name: checked(globals()[name]) for name in __all__ if isfunction(globals()[name])})


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"there is no layer {name!r}; `block.append_op` appends any operator that `lodstone ops` lists", name=name)
