"""Loops over the steps of sequences, and branches that are taken row by row, as PaddlePaddle 1.x builds them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from .. import unique_name
from ..._checks import checked
from .._core import Block, Variable, default_main_program, dtype_name
from .._layer import Layer
from ._control import _block, array_read, array_write
from ._math import less_than
from ._tensor import assign, fill_constant, increment

__all__ = [
    "DynamicRNN",
    "IfElse",
    "array_to_lod_tensor",
    "lod_rank_table",
    "lod_tensor_to_array",
    "max_sequence_len",
    "merge_lod_tensor",
    "reorder_lod_tensor_by_rank",
    "shrink_memory",
    "split_lod_tensor",
]


def _parent() -> Block:
    """The block around the current one."""
    main = default_main_program()
    return main.block(main.current_block().parent_idx)


@contextlib.contextmanager
def _undone(block: Block) -> Iterator[None]:
    """Removes what a `with` block appends to a block, if it fails."""
    count = len(block.ops)
    try:
        yield
    except BaseException:
        block.remove_op(count, len(block.ops))
        raise


def _appended(
    block: Block, kind: str, inputs: dict[str, Any], name: str, attrs: dict[str, Any] | None = None
) -> Variable:
    """Appends an operator to a block, and returns its result."""
    block.append_op(kind, inputs, {"Out": name}, attrs)
    return block.var(name)


def _outside(kind: str, inputs: dict[str, Any], name: str, attrs: dict[str, Any] | None = None) -> Variable:
    """Appends an operator to the block around the current one, and returns its result."""
    return _appended(_parent(), kind, inputs, name, attrs)


def lod_rank_table(x: Variable, level: int = 0) -> Variable:
    """The sequences of a level, longest first: the order in which `DynamicRNN` processes them."""
    block, name = default_main_program().current_block(), unique_name.generate("lod_rank_table")
    return _appended(block, "lod_rank_table", {"X": x}, name, {"level": level})


def max_sequence_len(rank_table: Variable) -> Variable:
    """The length of the longest sequence."""
    return Layer("max_seqence_len").result("max_sequence_len", {"RankTable": rank_table})


def lod_tensor_to_array(x: Variable, table: Variable) -> Variable:
    """The rows of each step, of the sequences that have one, in the order of the table."""
    block, name = default_main_program().current_block(), unique_name.generate("lod_tensor_to_array")
    return _appended(block, "lod_tensor_to_array", {"X": x, "RankTable": table}, name)


def array_to_lod_tensor(x: Variable, table: Variable) -> Variable:
    """The inverse of `lod_tensor_to_array`."""
    return Layer("array_to_lod_tensor").result("array_to_lod_tensor", {"X": x, "RankTable": table})


def shrink_memory(x: Variable, i: Variable, table: Variable) -> Variable:
    """The rows of the sequences that have a step `i`."""
    return Layer("shrink_memory").result("shrink_rnn_memory", {"X": x, "I": i, "RankTable": table})


def reorder_lod_tensor_by_rank(x: Variable, rank_table: Variable) -> Variable:
    """Rows, or sequences of rows, in the order of the table."""
    inputs = {"X": x, "RankTable": rank_table}
    return Layer("reorder_lod_tensor_by_rank").result("reorder_lod_tensor_by_rank", inputs)


def split_lod_tensor(input: Variable, mask: Variable, level: int = 0) -> tuple[Variable, Variable]:
    """The rows, or sequences of rows, where a mask is true, and the others."""
    slots = ["OutTrue", "OutFalse"]
    yes, no = Layer("split_lod_tensor").results("split_lod_tensor", {"X": input, "Mask": mask}, {"level": level}, slots)
    return yes, no


def merge_lod_tensor(in_true: Variable, in_false: Variable, x: Variable, mask: Variable, level: int = 0) -> Variable:
    """The inverse of `split_lod_tensor`."""
    inputs = {"X": x, "Mask": mask, "InTrue": in_true, "InFalse": in_false}
    return Layer("merge_lod_tensor").result("merge_lod_tensor", inputs, {"level": level})


class DynamicRNN:
    """A loop over the steps of sequences of any length: a block computes a step from the previous one.

    >>> from lodstone.program import Executor, Network, create_lod_tensor, layers
    >>> import numpy as np
    >>> with Network() as net:
    ...     x = layers.data("x", [1], lod_level=1)
    ...     rnn = layers.DynamicRNN()
    ...     with rnn.block():
    ...         step = rnn.step_input(x)
    ...         sum = rnn.memory(shape=[1])
    ...         new = layers.elementwise_add(step, sum)
    ...         rnn.update_memory(sum, new)
    ...         rnn.output(new)
    ...     sums = rnn()
    >>> rows = create_lod_tensor(np.array([[1], [2], [3], [10]], np.float32), [[3, 1]])
    >>> Executor().run(net.main, {"x": rows}, [sums])[0].ravel().tolist()
    [1.0, 3.0, 6.0, 10.0]
    """

    @checked
    def __init__(self, name: str | None = None) -> None:
        self._layer = Layer("dynamic_rnn", name)
        self._is_built = self._is_open = self._is_done = False
        self._table: Variable | None = None
        self._length: Variable | None = None
        self._step: Variable | None = None
        self._zero: Variable | None = None
        self._memories: dict[str, Variable] = {}
        self._links: list[tuple[Variable, Variable]] = []
        self._inputs: list[Variable] = []
        self._arrays: list[Variable] = []
        self._outputs: list[Variable] = []
        self._name = self._layer.temporary()

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """Appends layers to the block of a step."""
        if self._is_built:
            raise ValueError("the block of an RNN can only be built once")
        # The first input decides how many steps there are.
        around = default_main_program().current_block()
        self._is_built = True
        with _undone(around):
            condition = around.create_var(self._name, shape=[1], dtype="bool")
            self._step = fill_constant([1], "int64", 0, force_cpu=True)
            self._step.stop_gradient = False
            with _block("while", condition.name):
                self._is_open = True
                try:
                    yield
                finally:
                    self._is_open = False
                if self._length is None:
                    raise ValueError("an RNN needs a step_input")
                increment(self._step, 1.0)
                for new, array in self._links:
                    array_write(new, self._step, array)
                less_than(self._step, self._length, force_cpu=True, cond=condition)
        self._outputs = [array_to_lod_tensor(array, self._ranks()) for array in self._arrays]
        self._is_done = True

    def _open(self, method: str) -> Variable:
        if not self._is_open or self._step is None:
            raise ValueError(f"{method} can only be called in the block of the RNN")
        return self._step

    def _ranks(self) -> Variable:
        if self._table is None:
            raise ValueError("an RNN needs a step_input first")
        return self._table

    @checked
    def step_input(self, x: Variable, level: int = 0) -> Variable:
        """The rows of `x` at each step, of the sequences that have one."""
        step = self._open("step_input")
        if self._table is None:
            name = unique_name.generate("lod_rank_table")
            self._table = _outside("lod_rank_table", {"X": x}, name, {"level": level})
            name = unique_name.generate("dynamic_rnn_max_seq_len")
            self._length = _outside("max_sequence_len", {"RankTable": self._table}, name)
            _outside("less_than", {"X": step, "Y": self._length}, self._name, {"force_cpu": True})
        name = unique_name.generate("dynamic_rnn_input_array")
        array = _outside("lod_tensor_to_array", {"X": x, "RankTable": self._table}, name)
        self._inputs.append(array)
        return array_read(array, step)

    @checked
    def static_input(self, x: Variable) -> Variable:
        """All of `x` at each step: the sequences, or rows, of the sequences that have one."""
        step, table = self._open("static_input"), self._ranks()
        name = unique_name.generate("dynamic_rnn_static_input_reordered")
        reordered = _outside("reorder_lod_tensor_by_rank", {"X": x, "RankTable": table}, name)
        return shrink_memory(reordered, step, table)

    @checked
    def memory(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        value: float = 0.0,
        need_reorder: bool = False,
        dtype: Any = "float32",
    ) -> Variable:
        """What the previous step passed to `update_memory`; at the first step `init`, in the order of its sequences if `need_reorder`.

        Without `init`, it has a row of this shape and value for each sequence.
        """
        step, table = self._open("memory"), self._ranks()
        if self._zero is None:
            name = unique_name.generate("zero_idx")
            attrs = {"shape": [1], "dtype": "int64", "value": 0.0, "force_cpu": True}
            self._zero = _outside("fill_constant", {}, name, attrs)
        if init is None:
            if shape is None:
                raise ValueError("argument 'init': expected a variable, or else a 'shape'")
            name = unique_name.generate("mem_init")
            first = unique_name.generate("in0")
            given = _outside("read_from_array", {"X": self._inputs[0], "I": self._zero}, first)
            attrs = {"shape": [-1, *shape], "value": float(value), "dtype": dtype_name(dtype)}
            init = _outside("fill_constant_batch_size_like", {"Input": given}, name, attrs)
        elif need_reorder:
            name = unique_name.generate("dynamic_rnn_mem_init_reordered")
            init = _outside("reorder_lod_tensor_by_rank", {"X": init, "RankTable": table}, name)
        name = unique_name.generate("dynamic_rnn_mem_array")
        array = _outside("write_to_array", {"X": init, "I": self._zero}, name)
        memory = shrink_memory(array_read(array, step), step, table)
        self._memories[memory.name] = array
        return memory

    @checked
    def update_memory(self, ex_mem: Variable, new_mem: Variable) -> None:
        """Sets what the next step gets as `ex_mem`."""
        self._open("update_memory")
        array = self._memories.get(ex_mem.name)
        if array is None:
            raise ValueError(f"argument 'ex_mem': {ex_mem.name!r} is no memory of this RNN")
        self._links.append((new_mem, array))

    @checked
    def output(self, *outputs: Variable) -> None:
        """Adds results of each step."""
        step = self._open("output")
        for one in outputs:
            name = unique_name.generate(f"{self._layer.name}_output_array_{one.name}")
            array = _parent().create_var(name, dtype=one.dtype, type="tensor_array")
            array_write(one, step, array)
            self._arrays.append(array)

    def __call__(self) -> Any:
        """The results of all steps, as sequences: a variable, or a list of several."""
        if not self._is_done:
            raise ValueError("the results of an RNN exist after its block")
        return self._outputs[0] if len(self._outputs) == 1 else self._outputs


class IfElse:
    """Two branches: rows where a mask is true take the first, the others the second.

    >>> from lodstone.program import Executor, Network, layers
    >>> import numpy as np
    >>> with Network() as net:
    ...     x = layers.data("x", [1])
    ...     branches = layers.IfElse(layers.less_than(x, layers.zeros_like(x)))
    ...     with branches.true_block():
    ...         branches.output(layers.scale(branches.input(x), -1.0))
    ...     with branches.false_block():
    ...         branches.output(layers.scale(branches.input(x), 2.0))
    ...     (y,) = branches()
    >>> Executor().run(net.main, {"x": np.array([[-3], [4], [-5]], np.float32)}, [y])[0].ravel().tolist()
    [3.0, 8.0, 5.0]
    """

    @checked
    def __init__(self, cond: Variable, name: str | None = None) -> None:
        self._layer = Layer("ifelse", name)
        self._mask = cond
        self._inputs: dict[str, tuple[Variable, Variable]] = {}
        self._outputs: dict[bool, list[Variable]] = {False: [], True: []}
        self._branch: bool | None = None

    @contextlib.contextmanager
    def _built(self, branch: bool) -> Iterator[None]:
        if self._branch is not None:
            raise ValueError("the blocks of a branch cannot be nested")
        self._branch = branch
        try:
            with _undone(default_main_program().current_block()), _block("masked_block", self._mask.name):
                yield
                if not self._outputs[branch]:
                    raise ValueError("a branch needs an output")
        finally:
            self._branch = None

    def true_block(self) -> contextlib.AbstractContextManager[None]:
        """Appends layers for the rows where the mask is true."""
        return self._built(True)

    def false_block(self) -> contextlib.AbstractContextManager[None]:
        """Appends layers for the other rows."""
        return self._built(False)

    @checked
    def input(self, x: Variable) -> Variable:
        """The rows of `x` that take the current branch."""
        if self._branch is None:
            raise ValueError("input can only be called in a block of the branches")
        if x.name not in self._inputs:
            parent = _parent()
            yes, no = (unique_name.generate(f"ifelse_input{self._layer.name}") for _ in range(2))
            outputs = {"OutTrue": yes, "OutFalse": no}
            parent.append_op("split_lod_tensor", {"X": x, "Mask": self._mask}, outputs, {"level": 0})
            self._inputs[x.name] = parent.var(yes), parent.var(no)
        yes_rows, no_rows = self._inputs[x.name]
        return yes_rows if self._branch else no_rows

    @checked
    def output(self, *outs: Variable) -> None:
        """Adds results of the current branch."""
        if self._branch is None:
            raise ValueError("output can only be called in a block of the branches")
        for one in outs:
            name = unique_name.generate(f"{self._layer.name}_output")
            outside = _parent().create_var(name, shape=one.shape, dtype=one.dtype, lod_level=one.lod_level)
            assign(one, outside)
            self._outputs[self._branch].append(outside)

    def __call__(self) -> list[Variable]:
        """The results, with all rows in their order; those of a single branch only have its rows."""
        if self._branch is not None:
            raise ValueError("the results of branches exist after their blocks")
        yes, no = self._outputs[True], self._outputs[False]
        if not yes or not no:
            if not yes and not no:
                raise ValueError("branches need a true_block or a false_block")
            return yes or no
        if len(yes) != len(no):
            raise ValueError(f"the branches have {len(yes)} and {len(no)} outputs")
        return [merge_lod_tensor(a, b, self._mask, self._mask) for a, b in zip(yes, no, strict=True)]
