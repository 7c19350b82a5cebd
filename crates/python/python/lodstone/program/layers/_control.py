"""Loops, branches, and arrays of tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any

from ... import _lodstone
from .. import unique_name
from ..._checks import checked, wrong
from .._core import Variable, default_main_program, network
from .._layer import Layer, variable
from ._math import equal, logical_and, logical_not
from ._tensor import fill_constant

__all__ = [
    "Switch",
    "While",
    "array_length",
    "array_read",
    "array_write",
    "case",
    "cond",
    "create_array",
    "switch_case",
    "while_loop",
]

Results = Variable | Sequence[Variable] | None


class While:
    """A loop: its block runs while a Boolean is true, which the block updates. `name` has no effect.

    >>> from lodstone.program import Executor, Network, layers
    >>> with Network() as net:
    ...     count = layers.fill_constant([1], "int64", 0)
    ...     limit = layers.fill_constant([1], "int64", 10)
    ...     goes_on = layers.less_than(count, limit)
    ...     loop = layers.While(goes_on)
    ...     with loop.block():
    ...         _ = layers.increment(count, 3)
    ...         _ = layers.less_than(count, limit, cond=goes_on)
    >>> Executor().run(net.main, fetch_list=[count])[0].tolist()
    [12]
    """

    @checked
    def __init__(self, cond: Variable, is_test: bool = False, name: str | None = None) -> None:
        self._condition, self._is_test = cond.name, is_test

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """Appends layers to the block of the loop."""
        with _block("while", self._condition, self._is_test):
            yield


@contextlib.contextmanager
def _block(kind: str, condition: str, is_test: bool = False) -> Iterator[None]:
    """Appends layers to a block, then the operator that runs it; removes the block if they fail."""
    opened = _lodstone.begin_block(network())
    try:
        yield
    except BaseException:
        _lodstone.discard_block(network(), opened)
        raise
    _lodstone.append_block(network(), kind, condition, is_test)


class Switch:
    """Branches that assign to outer variables: the first whose condition is true runs, else the default.

    >>> from lodstone.program import Executor, Network, layers
    >>> with Network() as net:
    ...     step = layers.data("step", [1], append_batch_size=False)
    ...     rate = layers.fill_constant([1], "float32", 0.1)
    ...     with layers.Switch() as switch:
    ...         with switch.case(layers.less_than(step, layers.fill_constant([1], "float32", 5.0))):
    ...             _ = layers.assign(layers.fill_constant([1], "float32", 0.5), rate)
    ...         with switch.default():
    ...             _ = layers.assign(layers.fill_constant([1], "float32", 0.25), rate)
    >>> import numpy as np
    >>> [float(Executor().run(net.main, {"step": np.array([at], np.float32)}, rate)[0][0]) for at in (1, 9)]
    [0.5, 0.25]
    """

    def __init__(self, name: str | None = None) -> None:
        self._none: Variable | None = None

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @contextlib.contextmanager
    @checked
    def case(self, condition: Variable) -> Iterator[None]:
        """Appends layers to the branch of a condition."""
        runs = condition if self._none is None else logical_and(self._none, condition)
        others = logical_not(condition)
        self._none = others if self._none is None else logical_and(self._none, others)
        with _block("conditional_block", runs.name):
            yield

    @contextlib.contextmanager
    def default(self) -> Iterator[None]:
        """Appends layers to the branch that runs if no condition is true."""
        if self._none is None:
            raise ValueError("a switch needs a case before its default")
        with _block("conditional_block", self._none.name):
            yield


def cond(
    pred: Variable,
    true_fn: Callable[[], Results] | None = None,
    false_fn: Callable[[], Results] | None = None,
    name: str | None = None,
) -> Any:
    """The results of one of two functions, which append layers: of the first if a Boolean is true, else of the second.

    Functions return a variable, a sequence of variables, or None. `name` has no effect.

    >>> from lodstone.program import Executor, Network, layers
    >>> with Network() as net:
    ...     x = layers.data("x", [1], append_batch_size=False)
    ...     zero = layers.fill_constant([1], "float32", 0.0)
    ...     y = layers.cond(layers.less_than(x, zero), lambda: x * -1.0, lambda: x * 2.0)
    >>> import numpy as np
    >>> [float(Executor().run(net.main, {"x": np.array([x], np.float32)}, y)[0][0]) for x in (-3, 4)]
    [3.0, 8.0]
    """
    single: list[bool] = []

    def branch(argument: str, function: Callable[[], Results] | None) -> Callable[[list[str]], list[str]]:
        def build(_: list[str]) -> list[str]:
            found = function() if function else None
            single.append(isinstance(found, Variable))
            return _results(argument, found)

        return build

    made = _lodstone.cond(network(), pred.name, branch("true_fn", true_fn), branch("false_fn", false_fn))
    variables = [variable(one) for one in made]
    if not variables:
        return None
    return variables[0] if all(single) else variables


def _results(argument: str, found: Any) -> list[str]:
    """Returns the names of the results of a function."""
    if found is None or isinstance(found, Variable):
        found = [] if found is None else [found]
    if not isinstance(found, (list, tuple)) or not all(isinstance(one, Variable) for one in found):
        raise TypeError(wrong(argument, "a function that returns Variables", found))
    return [one.name for one in found]


def case(
    pred_fn_pairs: Sequence[tuple[Variable, Callable[[], Results]]],
    default: Callable[[], Results] | None = None,
    name: str | None = None,
) -> Any:
    """The results of the function of the first true condition, else of `default` [default: the last function]."""
    if not pred_fn_pairs:
        raise ValueError("argument 'pred_fn_pairs': expected at least one pair")
    pairs = list(pred_fn_pairs)
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not callable(pair[1]):
            raise TypeError(f"argument 'pred_fn_pairs': expected pairs of a Variable and a function, found {pair!r}")
    if default is None:
        default = pairs[-1][1]
        pairs = pairs[:-1]
    made = default
    for pred, function in reversed(pairs):
        made = _bound(pred, function, made)
    return made()


def _bound(pred: Variable, yes: Callable[[], Results], no: Callable[[], Results]) -> Callable[[], Results]:
    return lambda: cond(pred, yes, no)


def switch_case(
    branch_index: Variable,
    branch_fns: dict[int, Callable[[], Results]] | Sequence[Any],
    default: Callable[[], Results] | None = None,
    name: str | None = None,
) -> Any:
    """The results of the function of an index, else of `default` [default: that of the largest index]."""
    if not branch_index.dtype.startswith(("int", "uint")):
        raise TypeError(f"argument 'branch_index': expected an integer variable, found {branch_index.dtype}")
    if isinstance(branch_fns, dict):
        functions = list(branch_fns.items())
    else:
        functions = [one if isinstance(one, tuple) else (number, one) for number, one in enumerate(branch_fns)]
    if not functions:
        raise ValueError("argument 'branch_fns': expected at least one function")
    for pair in functions:
        if len(pair) != 2 or not isinstance(pair[0], Integral) or not callable(pair[1]):
            raise TypeError(f"argument 'branch_fns': expected pairs of an int and a function, found {pair!r}")
    if len({number for number, _ in functions}) < len(functions):
        raise ValueError(f"argument 'branch_fns': an index is there twice: {[number for number, _ in functions]}")
    functions.sort(key=lambda pair: pair[0])
    pairs = [
        (equal(branch_index, fill_constant([1], branch_index.dtype, number)), function) for number, function in functions
    ]
    return case(pairs, default or functions[-1][1])


def while_loop(
    cond: Callable[..., Variable],
    body: Callable[..., Any],
    loop_vars: Sequence[Variable],
    is_test: bool = False,
    name: str | None = None,
) -> list[Variable]:
    """Repeats `body` of the variables while `cond` of them is true; returns the variables, which it updates.

    >>> from lodstone.program import Executor, Network, layers
    >>> with Network() as net:
    ...     n = layers.fill_constant([1], "int64", 5)
    ...     i, factorial = layers.while_loop(
    ...         lambda i, product: layers.less_equal(i, n),
    ...         lambda i, product: [i + 1, product * i],
    ...         [layers.fill_constant([1], "int64", 1), layers.fill_constant([1], "int64", 1)],
    ...     )
    >>> Executor().run(net.main, fetch_list=[factorial])[0].tolist()
    [120]
    """
    variables = list(loop_vars)
    if not variables:
        raise ValueError("argument 'loop_vars': expected at least one variable")

    def called(argument: str, function: Callable[..., Any]) -> Callable[[list[str]], list[str]]:
        def build(names: list[str]) -> list[str]:
            return _results(argument, function(*[variable(one) for one in names]))

        return build

    names = [one.name for one in variables]
    _lodstone.while_loop(network(), names, is_test, called("cond", cond), called("body", body))
    return variables


def create_array(dtype: Any) -> Variable:
    """An empty array of tensors."""
    block = default_main_program().current_block()
    name = f"{unique_name.generate('array')}.out"
    return block.create_var(name, dtype=dtype, type="tensor_array", stop_gradient=True)


def array_write(x: Variable, i: Variable, array: Variable | None = None) -> Variable:
    """Writes a tensor to an array [default: a new one] at an index, and returns the array."""
    array = create_array(x.dtype) if array is None else array
    Layer("array_write").append("write_to_array", {"X": x, "I": i}, {"Out": array})
    return array


def array_read(array: Variable, i: Variable) -> Variable:
    """The tensor of an array at an index."""
    return Layer("array_read").result("read_from_array", {"X": array, "I": i})


def array_length(array: Variable) -> Variable:
    """The number of tensors in an array."""
    return Layer("array_length").result("lod_array_length", {"X": array})
