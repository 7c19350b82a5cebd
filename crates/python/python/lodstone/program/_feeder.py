"""Examples as inputs of programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .._imports import not_installed
from .._lodstone import Tensor
from .._checks import checked
from ._core import Program, Variable, default_main_program
from ._run import CPUPlace, create_lod_tensor


class DataFeeder:
    """Converts examples to inputs: each example has a value for each variable of `feed_list`.

    >>> from lodstone.program import DataFeeder, Network, layers
    >>> with Network():
    ...     x, label = layers.data("x", [2]), layers.data("label", [1], dtype="int64")
    >>> DataFeeder([x, label]).feed([([0.5, 1.0], 3), ([1.5, 2.0], 4)])["label"]
    <lodstone.Tensor "label" int64[2, 1]>

    The value of a variable with LoD is a sequence; with several levels, a sequence of sequences.
    """

    @checked
    def __init__(
        self, feed_list: Sequence[Variable | str], place: CPUPlace | None = None, program: Program | None = None
    ) -> None:
        block = (program or default_main_program()).global_block()
        self._variables = [block.var(one) if isinstance(one, str) else one for one in feed_list]

    def feed(self, iterable: Iterable[Sequence[Any]]) -> dict[str, Tensor]:
        """Returns the inputs by name, for `Executor.run`."""
        examples = list(iterable)
        for number, example in enumerate(examples):
            if not isinstance(example, (list, tuple)) and not hasattr(example, "__getitem__"):
                raise TypeError(f"example {number}: expected a value for each variable, found {type(example).__name__}")
            if len(example) != len(self._variables):
                raise ValueError(f"example {number} has {len(example)} values, expected {len(self._variables)}")
        columns = zip(*examples, strict=True) if examples else [()] * len(self._variables)
        return {
            variable.name: _tensor(variable, list(column)) for variable, column in zip(self._variables, columns, strict=True)
        }


def _tensor(variable: Variable, values: list[Any]) -> Tensor:
    """Returns the values of a variable as a tensor."""
    lengths = []
    for _ in range(variable.lod_level):
        if not all(hasattr(one, "__len__") for one in values):
            raise TypeError(f"variable {variable.name!r}: expected sequences, of {variable.lod_level} levels")
        lengths.append([len(one) for one in values])
        values = [one for sequence in values for one in sequence]
    try:
        import numpy as np
    except ModuleNotFoundError as error:
        raise not_installed(error, "numpy", "numpy") from None
    dims = list(variable.shape)
    try:
        array = np.array(values, variable.dtype)
    except ValueError as error:
        raise ValueError(f"variable {variable.name!r}: {error}") from None
    if not values:
        array = array.reshape([0, *(max(size, 0) for size in dims[1:])])
    if array.ndim != len(dims) and sum(size < 0 for size in dims) <= 1:
        try:
            array = array.reshape(dims)
        except ValueError:
            what = f"values of dims {list(array.shape)} do not fit its dims {dims}"
            raise ValueError(f"variable {variable.name!r}: {what}") from None
    return create_lod_tensor(array, lengths).renamed(variable.name)
