"""Programs, blocks, variables and operators."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from .. import _lodstone
from .._model import Path
from . import unique_name
from .._checks import checked, wrong

if TYPE_CHECKING:
    from .._model import Model
    from ._run import Scope
    from .clip import GradientClip

class Program:
    """A program: blocks of operators over variables. The first block runs; operators run the others.

    >>> from lodstone.program import Program, layers, program_guard
    >>> main, startup = Program(), Program()
    >>> with program_guard(main, startup):
    ...     y = layers.relu(layers.data("x", [3]))
    >>> main
    <lodstone.Program 1 block, 1 operator, 2 variables>
    >>> [op.type for op in main.global_block().ops]
    ['relu']
    """

    directory: str | None
    """The directory that its operators save to and load from: that of the functions that appended them."""
    random_seed: int
    """The seed of initializers and of dropout that are appended without one; 0 draws from the generator of the run."""

    def __init__(self, program: _lodstone.Program | None = None) -> None:
        self._program = program or _lodstone.Program()
        self.directory, self.random_seed = None, 0
        self._grad_clip: GradientClip | None = None

    @staticmethod
    def parse_from_string(data: bytes | str) -> Program:
        """Decodes a program: the bytes of a `__model__` or `.pdmodel` file, or its text form.

        >>> from lodstone.program import Program
        >>> Program.parse_from_string(Program().to_bytes()).num_blocks
        1
        """
        return Program(_lodstone.Program.from_bytes(data.encode() if isinstance(data, str) else data))

    def to_bytes(self) -> bytes:
        """Returns the encoded program, as PaddlePaddle reads it: the contents of a `__model__` file."""
        return self._program.to_bytes()

    @checked
    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """Returns the program as text: protobuf's text format, which `parse_from_string` reads.

        The arguments of PaddlePaddle's method have no effect: the text is always complete.
        """
        return self._program.to_text()

    @checked
    def clone(self, for_test: bool = False) -> Program:
        """Returns a copy. With `for_test`, gradients and optimizers are left out, and operators behave as in inference."""
        return self._like(self._program.clone(for_test))

    def prune(self, targets: Variable | str | Iterable[Variable | str], feeds: Iterable[Variable | str] = ()) -> Program:
        """Returns the operators that `targets` depend on; those that only compute `feeds` are left out."""
        return self._like(self._program.prune(names_of("feeds", feeds), self._targets(targets)))

    def inference(self, feeds: Iterable[Variable | str], targets: Variable | str | Iterable[Variable | str]) -> Program:
        """Returns the inference program that computes `targets` from `feeds`, with feed and fetch operators."""
        return self._like(self._program.inference(names_of("feeds", feeds), self._targets(targets)))

    def _targets(self, targets: Variable | str | Iterable[Variable | str]) -> list[str]:
        names = names_of("targets", targets)
        if not names:
            raise ValueError("argument 'targets': expected at least one variable")
        return names

    def model(self, scope: Scope | None = None, startup_program: Program | None = None) -> Model:
        """Returns a model of this program and the variables of a scope, to run, convert or inspect it.

        >>> from lodstone.program import Executor, Network, Scope, layers
        >>> with Network() as net:
        ...     y = layers.fc(layers.data("x", [4]), 2)
        >>> scope = Scope()
        >>> executor = Executor().run(net.startup, scope=scope)
        >>> net.main.inference(["x"], [y]).model(scope)
        <lodstone.Model paddle, 2 tensors>
        """
        from .._model import Model

        if startup_program is not None:
            check_program("startup_program", startup_program)
        startup = None if startup_program is None else startup_program._program
        return Model(self._program.model(startup, None if scope is None else scope_of("scope", scope)))

    @property
    def num_blocks(self) -> int:
        """The number of blocks."""
        return len(self._program.parents())

    @property
    def blocks(self) -> list[Block]:
        """All blocks."""
        return [Block(self, index) for index in range(self.num_blocks)]

    @property
    def version(self) -> int | None:
        """The release of PaddlePaddle whose conventions the program follows, as a number: 2006002 for 2.6.2."""
        return self._program.version

    @checked
    def block(self, index: int) -> Block:
        """Returns a block by its index."""
        if not 0 <= index < self.num_blocks:
            raise IndexError(f"argument 'index': the program has {self.num_blocks} blocks, found {index}")
        return Block(self, index)

    def global_block(self) -> Block:
        """Returns the first block."""
        return Block(self, 0)

    def current_block(self) -> Block:
        """Returns the block that layers are appended to."""
        return Block(self, self._program.current_block())

    def list_vars(self) -> Iterator[Variable]:
        """Returns the variables of all blocks."""
        for block in self.blocks:
            yield from block.vars.values()

    def all_parameters(self) -> list[Parameter]:
        """Returns the parameters: the variables that optimizers update."""
        return [var for var in self.list_vars() if isinstance(var, Parameter)]

    def _like(self, program: _lodstone.Program) -> Program:
        made = Program(program)
        made.directory, made.random_seed, made._grad_clip = self.directory, self.random_seed, self._grad_clip
        return made

    def _save_under(self, directory: Path) -> None:
        """Remembers the directory of operators that save and load."""
        self._check_directory(directory)
        self.directory = os.fspath(directory)

    def _check_directory(self, directory: Path) -> None:
        """Raises an error if operators save to or load from another directory."""
        directory = os.fspath(directory)
        if self.directory is not None and os.path.realpath(self.directory) != os.path.realpath(directory):
            raise ValueError(
                f"operators of the program already save to or load from {self.directory!r}, "
                f"so that others cannot use {directory!r}"
            )

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        blocks = self.blocks
        operators = sum(len(block.ops) for block in blocks)
        variables = sum(len(block.vars) for block in blocks)
        counts = [_counted(len(blocks), "block"), _counted(operators, "operator"), _counted(variables, "variable")]
        return f"<lodstone.Program {', '.join(counts)}>"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


class Block:
    """A block: variables, and operators that run in order."""

    def __init__(self, program: Program, index: int) -> None:
        self.program, self.idx = program, index

    @property
    def parent_idx(self) -> int:
        """The index of the block around this one; -1 for the first."""
        return self.program._program.parents()[self.idx]

    @property
    def vars(self) -> dict[str, Variable]:
        """The variables that the block declares, by name."""
        return {name: _variable(self, name) for name in self.program._program.variables(self.idx)}

    @property
    def ops(self) -> list[Operator]:
        """The operators, in order."""
        operators = self.program._program.operators(self.idx)
        return [Operator(self, index, operator) for index, operator in enumerate(operators)]

    @checked
    def has_var(self, name: str) -> bool:
        """Returns whether the block declares a variable."""
        return self.program._program.find_variable(self.idx, name) == self.idx

    @checked
    def var(self, name: str) -> Variable:
        """Returns a variable of the block; raises a `ValueError` if the block does not declare it."""
        if not self.has_var(name):
            raise ValueError(f"argument 'name': block {self.idx} has no variable {name!r}")
        return _variable(self, name)

    def _find_var_recursive(self, name: str) -> Variable | None:
        found = self.program._program.find_variable(self.idx, name)
        return None if found is None else _variable(Block(self.program, found), name)

    def all_parameters(self) -> list[Parameter]:
        """Returns the parameters that the block declares."""
        return [var for var in self.vars.values() if isinstance(var, Parameter)]

    @checked
    def create_var(
        self,
        name: str | None = None,
        *,
        shape: Sequence[int] | None = None,
        dtype: Any = "float32",
        lod_level: int = 0,
        persistable: bool = False,
        stop_gradient: bool = False,
        type: str = "tensor",
        need_check_feed: bool = False,
        is_data: bool = False,
    ) -> Variable:
        """Declares a variable, and returns it; a declared one is replaced.

        `shape` has -1 for unknown dims. `type` is `"tensor"`, `"selected_rows"`, `"tensor_array"` or another kind of
        variable.
        """
        return self._declare(
            name=name or unique_name.generate("_generated_var"),
            kind=type,
            shape=None if shape is None else list(shape),
            dtype=dtype_name(dtype),
            lod_level=lod_level,
            persistable=persistable,
            is_parameter=False,
            stop_gradient=stop_gradient,
            need_check_feed=need_check_feed or is_data,
        )

    @checked
    def create_parameter(self, name: str, shape: Sequence[int], dtype: Any = "float32", trainable: bool = True) -> Parameter:
        """Declares a parameter, and returns it. The caller adds the operator that initializes it to the startup program."""
        found = self._declare(
            name=name,
            kind="tensor",
            shape=list(shape),
            dtype=dtype_name(dtype),
            lod_level=0,
            persistable=True,
            is_parameter=True,
            stop_gradient=not trainable,
            need_check_feed=False,
        )
        assert isinstance(found, Parameter)
        return found

    def _declare(self, **facts: Any) -> Variable:
        if facts["lod_level"] < 0:
            raise ValueError(f"argument 'lod_level': expected at least 0, found {facts['lod_level']}")
        self.program._program.declare(self.idx, facts)
        return _variable(self, facts["name"])

    @checked
    def append_op(
        self,
        type: str,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Operator:
        """Appends an operator, and returns it.

        Slots hold a variable or its name, or a list of them. Attributes have the types of PaddlePaddle's registry;
        missing ones get their defaults. Outputs that are not declared are declared with the types that follow from the
        inputs.
        """
        operator = parts(type, inputs, outputs, attrs)
        # The startup program of this operator is empty: nothing is initialized.
        network = (self.program._program, _lodstone.Program(), unique_name.current())
        _lodstone.call_layer(network, self.idx, operator)
        return self._operator(self._operator_count() - 1)

    @checked
    def insert_op(
        self,
        index: int,
        type: str,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Operator:
        """Inserts an operator before the one at an index, and returns it. Its variables must be declared."""
        count = self._operator_count()
        if not 0 <= index <= count:
            raise IndexError(f"argument 'index': block {self.idx} has {count} operators, found {index}")
        self.program._program.insert_operator(self.idx, index, parts(type, inputs, outputs, attrs))
        return self._operator(index)

    def _operator_count(self) -> int:
        return self.program._program.operator_count(self.idx)

    def _operator(self, index: int) -> Operator:
        return Operator(self, index, self.program._program.operator(self.idx, index))

    def prepend_op(self, type: str, **slots: Any) -> Operator:
        """Inserts an operator before all others, like `insert_op`."""
        return self.insert_op(0, type, **slots)

    @checked
    def remove_op(self, index: int, end: int | None = None) -> None:
        """Removes the operator at an index, or those from `index` up to, excluding, `end`."""
        if index < 0:
            raise IndexError(f"argument 'index': expected at least 0, found {index}")
        self.program._program.remove_operators(self.idx, index, index + 1 if end is None else end)

    _insert_op, _prepend_op, _remove_op = insert_op, prepend_op, remove_op

    @checked
    def remove_var(self, name: str) -> None:
        """Removes the declaration of a variable."""
        self.program._program.remove_variable(self.idx, name)

    @checked
    def rename_var(self, name: str, new_name: str) -> Variable:
        """Renames a variable wherever the program names it."""
        self.var(name)
        if not new_name:
            raise ValueError("argument 'new_name': expected a name, found an empty text")
        if self.program._program.find_variable(self.idx, new_name) is not None:
            raise ValueError(f"argument 'new_name': the program already has a variable {new_name!r}")
        self.program._program.rename_variable(name, new_name)
        return self.var(new_name)

    _remove_var, _rename_var = remove_var, rename_var

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Block) and self.program is other.program and self.idx == other.idx

    def __hash__(self) -> int:
        return hash((id(self.program), self.idx))

    def __repr__(self) -> str:
        return f"<lodstone.Block {self.idx}, {len(self.ops)} operators, {len(self.vars)} variables>"


def _variable(block: Block, name: str) -> Variable:
    facts = block.program._program.variable(block.idx, name)
    return (Parameter if facts["is_parameter"] else Variable)(block, name)


def _arithmetic(kind: str, is_reversed: bool = False) -> Callable[[Variable, Any], Variable]:
    """Returns a method that appends an operator of two operands."""

    def method(self: Variable, other: Any) -> Variable:
        from .layers._arithmetic import binary

        return binary(kind, self, other, is_reversed)

    return method


class Variable:
    """A variable of a program. Its value exists only while a program runs, or in a scope if it is persistable.

    Arithmetic on variables appends operators:

    >>> from lodstone.program import Executor, Network, layers
    >>> with Network() as net:
    ...     x = layers.data("x", [2], append_batch_size=False)
    ...     y = 2.0 * x + 1.0
    >>> y.shape, y.dtype
    ((2,), 'float32')
    >>> import numpy as np
    >>> Executor().run(net.main, {"x": np.array([1, 2], np.float32)}, [y])[0].tolist()
    [3.0, 5.0]
    """

    # NumPy's numbers leave arithmetic with variables to these.
    __array_ufunc__ = None

    def __init__(self, block: Block, name: str) -> None:
        self.block, self._name = block, name

    @property
    def _facts(self) -> dict[str, Any]:
        return self.block.program._program.variable(self.block.idx, self._name)

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @name.setter
    def name(self, new_name: str) -> None:
        self.block.rename_var(self._name, new_name)
        self._name = new_name

    @property
    def program(self) -> Program:
        """The program that declares it."""
        return self.block.program

    @property
    def type(self) -> str:
        """The kind of value: `"tensor"`, `"selected_rows"`, `"tensor_array"`, ..."""
        found: str = self._facts["kind"]
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """The dims; -1 for unknown ones."""
        found = self._facts["shape"]
        if found is None:
            raise ValueError(f"the rank of variable {self._name!r} is unknown")
        return tuple(found)

    @property
    def dtype(self) -> str:
        """The element type, with its name in NumPy: `"float32"`."""
        found: str | None = self._facts["dtype"]
        if found is None:
            raise ValueError(f"variable {self._name!r} is a {self.type}, which has no element type")
        return found

    @property
    def lod_level(self) -> int:
        """The number of levels of its LoD."""
        found: int = self._facts["lod_level"]
        return found

    @property
    def persistable(self) -> bool:
        """Whether the value outlives a run."""
        found: bool = self._facts["persistable"]
        return found

    @persistable.setter
    def persistable(self, value: bool) -> None:
        self.block.program._program.mark(self.block.idx, self._name, value, None)

    @property
    def stop_gradient(self) -> bool:
        """Whether gradients stop here."""
        found: bool = self._facts["stop_gradient"]
        return found

    @stop_gradient.setter
    def stop_gradient(self, value: bool) -> None:
        self.block.program._program.mark(self.block.idx, self._name, None, value)

    @property
    def op(self) -> Operator | None:
        """The last operator of its block that writes it."""
        writers = [op for op in self.block.ops if self._name in op.output_arg_names]
        return writers[-1] if writers else None

    def astype(self, dtype: Any) -> Variable:
        """Returns the variable converted to another element type."""
        from .layers import cast

        return cast(self, dtype)

    def __eq__(self, other: object) -> Any:
        # As in PaddlePaddle 1.x, equality is identity: variables are keys of dictionaries. `layers.equal` compares values.
        return isinstance(other, Variable) and self.block == other.block and self._name == other._name

    def __hash__(self) -> int:
        return hash((self.block, self._name))

    def __bool__(self) -> bool:
        raise TypeError(f"variable {self._name!r} has no value while the program is built; use `layers.cond`")

    def __len__(self) -> int:
        if not self.shape or self.shape[0] < 0:
            raise TypeError(f"the length of variable {self._name!r} is unknown while the program is built")
        return self.shape[0]

    def __iter__(self) -> Iterator[Variable]:
        raise TypeError(f"variable {self._name!r} cannot be iterated; use `layers.unstack`")

    def __repr__(self) -> str:
        try:
            facts = self._facts
        except LookupError:
            return f"<lodstone.{type(self).__name__} {self._name!r}, which was removed>"
        dims = "?" if facts["shape"] is None else str([size if size >= 0 else "?" for size in facts["shape"]])
        return f"<lodstone.{type(self).__name__} {self._name!r} {facts['dtype'] or facts['kind']}{dims.replace(chr(39), '')}>"

    def __getitem__(self, index: Any) -> Variable:
        from .layers._index import indexed

        return indexed(self, index)

    __add__ = _arithmetic("elementwise_add")
    __radd__ = _arithmetic("elementwise_add", is_reversed=True)
    __sub__ = _arithmetic("elementwise_sub")
    __rsub__ = _arithmetic("elementwise_sub", is_reversed=True)
    __mul__ = _arithmetic("elementwise_mul")
    __rmul__ = _arithmetic("elementwise_mul", is_reversed=True)
    __truediv__ = _arithmetic("elementwise_div")
    __rtruediv__ = _arithmetic("elementwise_div", is_reversed=True)
    __floordiv__ = _arithmetic("elementwise_floordiv")
    __rfloordiv__ = _arithmetic("elementwise_floordiv", is_reversed=True)
    __mod__ = _arithmetic("elementwise_mod")
    __rmod__ = _arithmetic("elementwise_mod", is_reversed=True)
    __pow__ = _arithmetic("elementwise_pow")
    __rpow__ = _arithmetic("elementwise_pow", is_reversed=True)
    __lt__ = _arithmetic("less_than")
    __le__ = _arithmetic("less_equal")
    __gt__ = _arithmetic("greater_than")
    __ge__ = _arithmetic("greater_equal")

    def __neg__(self) -> Variable:
        from .layers import scale

        return scale(self, -1.0)


class Parameter(Variable):
    """A variable that optimizers update, and that the startup program initializes."""

    @property
    def trainable(self) -> bool:
        """Whether optimizers update it."""
        return not self.stop_gradient

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self.stop_gradient = not value


class Operator:
    """An operator of a block.

    It stays the same operator while others are inserted and removed. Once it is removed itself, or changed by something
    else, such as the renaming of a variable, using it raises a `LookupError`: `block.ops` has the current ones.
    """

    def __init__(self, block: Block, index: int, operator: _lodstone.Operator) -> None:
        self.block, self._index, self._operator = block, index, operator

    @property
    def type(self) -> str:
        """The kind of operator: `"conv2d"`."""
        return self._operator.type

    @property
    def idx(self) -> int:
        """The index in its block."""
        self._index = self.block.program._program.find_operator(self.block.idx, self._index, self._operator)
        return self._index

    @property
    def inputs(self) -> dict[str, list[str]]:
        """The names of the variables in the input slots."""
        return self._operator.inputs()

    @property
    def outputs(self) -> dict[str, list[str]]:
        """The names of the variables in the output slots."""
        return self._operator.outputs()

    @property
    def input_names(self) -> list[str]:
        """The names of the input slots."""
        return list(self.inputs)

    @property
    def output_names(self) -> list[str]:
        """The names of the output slots."""
        return list(self.outputs)

    @property
    def input_arg_names(self) -> list[str]:
        """The names of all variables that are read."""
        return [name for names in self.inputs.values() for name in names]

    @property
    def output_arg_names(self) -> list[str]:
        """The names of all variables that are written."""
        return [name for names in self.outputs.values() for name in names]

    def input(self, slot: str) -> list[str]:
        """Returns the names of the variables in an input slot."""
        return self.inputs.get(slot, [])

    def output(self, slot: str) -> list[str]:
        """Returns the names of the variables in an output slot."""
        return self.outputs.get(slot, [])

    @property
    def attr_names(self) -> list[str]:
        """The names of the attributes."""
        return self._operator.attribute_names()

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes by name; blocks are `Block`s."""
        return {name: self.attr(name) for name in self.attr_names}

    def all_attrs(self) -> dict[str, Any]:
        """Returns the attributes by name."""
        return self.attrs

    def has_attr(self, name: str) -> bool:
        """Returns whether the operator has an attribute."""
        return name in self.attr_names

    def attr(self, name: str) -> Any:
        """Returns the value of an attribute."""
        return self._blocks(self._operator.attribute(name))

    def _blocks(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self.block.program.block(value["block"])
        return [self._blocks(one) for one in value] if isinstance(value, list) else value

    def set_attr(self, name: str, value: Any) -> None:
        """Sets an attribute, to a value of its type in PaddlePaddle's registry."""
        self._replace(self._operator.with_attribute(name, _attribute(value)))

    def remove_attr(self, name: str) -> None:
        """Removes an attribute."""
        self._replace(self._operator.without_attribute(name))

    def set_input(self, slot: str, variables: Any) -> None:
        """Sets the variables of an input slot."""
        self._replace(self._operator.with_slot(False, slot, names_of("variables", variables)))

    def set_output(self, slot: str, variables: Any) -> None:
        """Sets the variables of an output slot."""
        self._replace(self._operator.with_slot(True, slot, names_of("variables", variables)))

    def rename(self, old_name: str, new_name: str) -> None:
        """Renames a variable in the slots of this operator alone."""
        self._replace(self._operator.renamed(old_name, new_name))

    _set_attr = set_attr

    def _replace(self, new: _lodstone.Operator) -> None:
        self._index = self.block.program._program.replace_operator(
            self.block.idx, self._index, self._operator, new
        )
        self._operator = new

    def __repr__(self) -> str:
        def slots(of: dict[str, list[str]]) -> str:
            return ", ".join(f"{slot}={names}" for slot, names in of.items())

        return f"<lodstone.Operator {self.type}({slots(self.inputs)}) -> {slots(self.outputs)}>"


class Network:
    """A main program and its startup program, with names that start at 0. Layers are appended in a `with` block.

    >>> from lodstone.program import Network, layers
    >>> with Network() as net:
    ...     y = layers.fc(layers.data("x", [4]), 2)
    >>> [op.type for op in net.main.global_block().ops], [op.type for op in net.startup.global_block().ops]
    (['mul', 'elementwise_add'], ['uniform_random', 'fill_constant'])

    A network of other programs continues them; its names avoid those of their variables.
    """

    def __init__(self, main: Program | None = None, startup: Program | None = None) -> None:
        for argument, given in (("main", main), ("startup", startup)):
            if given is not None:
                check_program(argument, given)
        self.main = main or Program()
        """The program that computes."""
        self.startup = startup or Program()
        """The program that initializes parameters. It is run once."""
        self._names = _lodstone.Names()
        self._entered: list[contextlib.ExitStack] = []

    def __enter__(self) -> Network:
        entered = contextlib.ExitStack()
        entered.enter_context(unique_name.guard(self._names))
        entered.enter_context(program_guard(self.main, self.startup))
        self._entered.append(entered)
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.pop().close()

    def __repr__(self) -> str:
        return f"<lodstone.Network main={self.main!r}, startup={self.startup!r}>"


_defaults = Program(), Program()
_programs: ContextVar[tuple[Program, Program]] = ContextVar("programs")


def default_main_program() -> Program:
    """Returns the program that layers are appended to: that of `program_guard`, or one of the process."""
    return _programs.get(_defaults)[0]


def default_startup_program() -> Program:
    """Returns the program that layers initialize parameters in."""
    return _programs.get(_defaults)[1]


@contextlib.contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Iterator[None]:
    """Appends layers to these programs in a `with` block; by default, with the current startup program.

    Guards, here and elsewhere, have an effect in their own thread alone: a thread that is started in the block appends to
    the programs of the process. A test program that shares the parameters of a training program is built with its startup program, both in
    `unique_name.guard`.
    """
    check_program("main_program", main_program)
    if startup_program is not None:
        check_program("startup_program", startup_program)
    unique_name.current().avoid(main_program._program)
    token = _programs.set((main_program, startup_program or default_startup_program()))
    try:
        yield
    finally:
        _programs.reset(token)


def check_program(argument: str, given: Any) -> None:
    """Raises a `TypeError` if an argument is not a program."""
    if not isinstance(given, Program):
        raise TypeError(wrong(argument, "a Program", given))


def scope_of(argument: str, given: Any) -> _lodstone.Scope:
    """Returns a scope in the form that the extension takes."""
    from ._run import Scope

    if not isinstance(given, Scope):
        raise TypeError(wrong(argument, "a Scope", given))
    return given._scope


def network() -> tuple[_lodstone.Program, _lodstone.Program, _lodstone.Names]:
    """Returns what layers are appended to, in the form that the extension takes."""
    main, startup = _programs.get(_defaults)
    return main._program, startup._program, unique_name.current()


def name_of(argument: str, variable: Any) -> str:
    """Returns the name of a variable of any program."""
    if isinstance(variable, Variable):
        return variable.name
    if isinstance(variable, str):
        return variable
    raise TypeError(wrong(argument, "a Variable", variable))


def names_of(argument: str, variables: Any) -> list[str]:
    """Returns the names of variables: one, a list, or None."""
    if variables is None:
        return []
    if isinstance(variables, (str, Variable)):
        variables = [variables]
    if not isinstance(variables, Iterable):
        raise TypeError(wrong(argument, "Variables", variables))
    return [name_of(argument, one) for one in variables]


def parts(
    type: str,
    inputs: Mapping[str, Any] | None,
    outputs: Mapping[str, Any] | None,
    attrs: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Returns an operator in the form that the extension takes. Attributes that are None are left out."""

    def slots(given: Mapping[str, Any] | None) -> list[tuple[str, list[str]]]:
        return [(slot, names_of(slot, names)) for slot, names in (given or {}).items() if names is not None]

    values = {name: _attribute(value) for name, value in (attrs or {}).items() if value is not None}
    return {"type": type, "inputs": slots(inputs), "outputs": slots(outputs), "attrs": values}


def _attribute(value: Any) -> Any:
    return {"block": value.idx} if isinstance(value, Block) else value


def dtype_name(dtype: Any) -> str:
    """Returns the name of an element type, which is given as a name, or as a type of NumPy, PyTorch or PaddlePaddle."""
    if isinstance(dtype, str):
        return dtype.rpartition(".")[2]
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return {"FP16": "float16", "BF16": "bfloat16", "FP32": "float32", "FP64": "float64"}.get(name, name).rpartition(".")[
        2
    ].lower()
