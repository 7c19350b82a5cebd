"""Gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import _lodstone
from . import unique_name
from ._core import Variable, names_of

Pairs = list[tuple[Variable, Variable]]


def append_backward(
    loss: Variable,
    parameter_list: Iterable[Variable | str] | None = None,
    no_grad_set: Iterable[Variable | str] | None = None,
) -> Pairs:
    """Appends the operators that compute the gradients of a loss; returns each parameter with its gradient.

    `parameter_list` selects parameters [default: all trainable ones that the loss depends on]; gradients stop at
    variables in `no_grad_set`.
    """
    if not isinstance(loss, Variable):
        raise TypeError(f"argument 'loss': expected a Variable, found {type(loss).__name__}")
    program = loss.program
    network = (program._program, _lodstone.Program(), unique_name.current())
    wanted = None if parameter_list is None else names_of("parameter_list", parameter_list)
    pairs = _lodstone.append_backward(network, loss.name, wanted, names_of("no_grad_set", no_grad_set))
    block = program.global_block()
    return [(block.var(parameter), block.var(gradient)) for parameter, gradient in pairs]


def gradients(
    targets: Variable | list[Variable],
    inputs: Variable | list[Variable],
    target_gradients: Any = None,
    no_grad_set: Iterable[Variable | str] | None = None,
) -> list[Variable | None]:
    """Appends the operators that compute the gradients of a scalar with respect to variables, and returns these.

    The gradient of a variable that the target does not depend on is None. Gradients stop at inputs, and at what is
    computed from these alone, unless their `stop_gradient` is set to False before they are used.
    """
    if target_gradients is not None:
        raise ValueError("argument 'target_gradients': only None is supported; multiply the target by them")
    targets = [targets] if isinstance(targets, Variable) else list(targets)
    if len(targets) != 1:
        raise ValueError(f"argument 'targets': expected one variable, found {len(targets)}; add them up")
    inputs = [inputs] if isinstance(inputs, Variable) else list(inputs)
    stopped = [variable for variable in inputs if variable.stop_gradient]
    for variable in stopped:
        variable.stop_gradient = False
    try:
        append_backward(targets[0], no_grad_set=no_grad_set)
    finally:
        for variable in stopped:
            variable.stop_gradient = True
    block = targets[0].program.global_block()
    variables = block.vars
    return [variables.get(f"{variable.name}@GRAD") for variable in inputs]


__all__ = ["append_backward", "gradients"]
