"""Gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import _lodstone
from . import unique_name
from .._checks import checked
from ._core import Parameter, Program, Variable, names_of

Pairs = list[tuple[Variable, Variable]]


@checked
def append_backward(
    loss: Variable,
    parameter_list: Iterable[Variable | str] | None = None,
    no_grad_set: Iterable[Variable | str] | None = None,
) -> Pairs:
    """Appends the operators that compute the gradients of a loss; returns each parameter with its gradient.

    `parameter_list` selects parameters [default: all trainable ones that the loss depends on]; gradients stop at
    variables in `no_grad_set`. A second pass in a program appends gradients with other names: `grad/grad/w@GRAD`.
    Gradients of gradients are not supported.
    """
    program = loss.program
    block = program.global_block()
    wanted = None if parameter_list is None else names_of("parameter_list", parameter_list)
    for name in wanted or ():
        if not isinstance(block.vars.get(name), Parameter):
            raise ValueError(f"argument 'parameter_list': the program has no parameter {name!r}")
    stopped = _known("no_grad_set", program, no_grad_set)
    pairs = _lodstone.append_backward(_network(program), loss.name, stopped)
    found = dict(pairs)
    chosen = pairs if wanted is None else [(name, found[name]) for name in wanted if name in found]
    return [(block.var(parameter), block.var(gradient)) for parameter, gradient in chosen]


@checked
def gradients(
    targets: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
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
    program = targets[0].program
    names = [one.name for one in ([inputs] if isinstance(inputs, Variable) else inputs)]
    stopped = _known("no_grad_set", program, no_grad_set)
    made = _lodstone.gradients(_network(program), targets[0].name, names, stopped)
    block = program.global_block()
    return [None if name is None else block.var(name) for name in made]


def _network(program: Program) -> tuple[_lodstone.Program, _lodstone.Program, _lodstone.Names]:
    """Returns the network of a program that initializes nothing."""
    return program._program, _lodstone.Program(), unique_name.current()


def _known(argument: str, program: Program, variables: Iterable[Variable | str] | None) -> list[str]:
    """Returns the names of variables of a program."""
    names = names_of(argument, variables)
    declared = {name for block in program.blocks for name in block.vars} if names else set()
    for name in names:
        if name not in declared:
            raise ValueError(f"argument '{argument}': the program has no variable {name!r}")
    return names


__all__ = ["append_backward", "gradients"]
