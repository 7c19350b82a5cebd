"""Schedules of learning rates. They count the runs of the program in a persistable variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _lodstone
from .._core import Variable, network
from .._layer import variable

__all__ = [
    "cosine_decay",
    "exponential_decay",
    "inverse_time_decay",
    "linear_lr_warmup",
    "natural_exp_decay",
    "noam_decay",
    "piecewise_decay",
    "polynomial_decay",
]


def _schedule(kind: str, **facts: Any) -> Variable:
    return variable(_lodstone.schedule(network(), kind, facts))


def whole(argument: str, given: float) -> int:
    """Returns an integer; scripts compute it by a division."""
    if given != int(given):
        raise ValueError(f"argument '{argument}': expected a whole number, found {given}")
    return int(given)


def noam_decay(d_model: float, warmup_steps: int, learning_rate: float = 1.0) -> Variable:
    """`learning_rate * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)`, with steps from 1."""
    return _schedule("noam", d_model=whole("d_model", d_model), warmup_steps=warmup_steps, learning_rate=learning_rate)


def exponential_decay(learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False) -> Variable:
    """`learning_rate * decay_rate**(step / decay_steps)`; in a staircase, the exponent is rounded down."""
    return _decay("exponential", learning_rate, decay_steps, decay_rate, staircase)


def natural_exp_decay(learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False) -> Variable:
    """`learning_rate * exp(-decay_rate * step / decay_steps)`; in a staircase, the quotient is rounded down."""
    return _decay("natural_exp", learning_rate, decay_steps, decay_rate, staircase)


def inverse_time_decay(learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False) -> Variable:
    """`learning_rate / (1 + decay_rate * step / decay_steps)`; in a staircase, the quotient is rounded down."""
    return _decay("inverse_time", learning_rate, decay_steps, decay_rate, staircase)


def _decay(kind: str, learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool) -> Variable:
    return _schedule(
        kind,
        learning_rate=learning_rate,
        decay_steps=whole("decay_steps", decay_steps),
        decay_rate=decay_rate,
        staircase=staircase,
    )


def polynomial_decay(
    learning_rate: float, decay_steps: float, end_learning_rate: float = 0.0001, power: float = 1.0, cycle: bool = False
) -> Variable:
    """Decays to `end_learning_rate` in `decay_steps` steps, and stays there, or begins again with `cycle`."""
    return _schedule(
        "polynomial",
        learning_rate=learning_rate,
        decay_steps=whole("decay_steps", decay_steps),
        end_learning_rate=end_learning_rate,
        power=power,
        cycle=cycle,
    )


def piecewise_decay(boundaries: Sequence[float], values: Sequence[float]) -> Variable:
    """A rate for each interval of steps; there is one more rate than boundaries, which ascend."""
    if list(boundaries) != sorted(boundaries) or any(bound < 0 for bound in boundaries):
        raise ValueError(f"argument 'boundaries': expected ascending steps, found {list(boundaries)}")
    if len(values) != len(boundaries) + 1:
        raise ValueError(f"argument 'values': expected {len(boundaries) + 1} rates, found {len(values)}")
    return _schedule("piecewise", boundaries=[whole("boundaries", bound) for bound in boundaries], values=list(values))


def cosine_decay(learning_rate: float, step_each_epoch: int, epochs: int) -> Variable:
    """`learning_rate / 2 * (cos(pi * epoch / epochs) + 1)`."""
    return _schedule("cosine", learning_rate=learning_rate, step_each_epoch=step_each_epoch, epochs=epochs)


def linear_lr_warmup(learning_rate: float | Variable, warmup_steps: int, start_lr: float, end_lr: float) -> Variable:
    """Increases from `start_lr` to `end_lr` in `warmup_steps` steps, and then follows `learning_rate`."""
    rate = learning_rate.name if isinstance(learning_rate, Variable) else float(learning_rate)
    return _schedule("warmup", learning_rate=rate, warmup_steps=warmup_steps, start_lr=start_lr, end_lr=end_lr)
