"""What layers are built of: parameters, and operators whose outputs get generated names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from .. import _lodstone
from .._run import tensor
from . import unique_name
from .._checks import check_fields, integers, number, wrong
from ._core import Block, Variable, default_main_program, default_startup_program, network, parts
from .initializer import Constant, Initializer
from .regularizer import Regularizer


@dataclass
class ParamAttr:
    """The configuration of a parameter: its name, initializer, and how optimizers treat it."""

    name: str | None = None
    """The name [default: generated]. Layers with the same name share the parameter."""
    initializer: Initializer | None = None
    """How the startup program fills it [default: that of the layer]."""
    learning_rate: float = 1.0
    """The factor of the learning rate."""
    regularizer: Regularizer | None = None
    """The weight decay [default: that of the optimizer]."""
    trainable: bool = True
    """Whether optimizers update it."""
    do_model_average: bool = False
    """Has no effect; accepted for scripts of PaddlePaddle."""
    need_clip: bool = True
    """Whether its gradient is clipped, if the optimizer clips gradients."""

    def __post_init__(self) -> None:
        check_fields(self)
        number("learning_rate", self.learning_rate)
        if self.name == "":
            raise ValueError("argument 'name': expected a name, found an empty text")


Attr = ParamAttr | Initializer | Regularizer | str | bool | None


def param_attr(argument: str, given: Attr) -> ParamAttr | None:
    """Returns the configuration that an argument stands for; None if there is no parameter (`False`)."""
    if given is False:
        return None
    if given is None or given is True:
        return ParamAttr()
    if isinstance(given, ParamAttr):
        return given
    if isinstance(given, str):
        return ParamAttr(given)
    if isinstance(given, Initializer):
        return ParamAttr(initializer=given)
    if isinstance(given, Regularizer):
        return ParamAttr(regularizer=given)
    raise TypeError(wrong(argument, "a ParamAttr", given))


def required(argument: str, given: Attr) -> ParamAttr:
    """Returns the configuration of a parameter that a layer cannot do without."""
    found = param_attr(argument, given)
    if found is None:
        raise ValueError(f"argument '{argument}': the layer has this parameter, so it cannot be False")
    return found


def choice(argument: str, given: str, known: Iterable[str]) -> str:
    """Returns an argument that is one of several names."""
    names = list(known)
    if given not in names:
        raise ValueError(f"argument '{argument}': expected {' or '.join(map(repr, names))}, found {given!r}")
    return given


def several(argument: str, given: int | Sequence[int]) -> list[int]:
    """Returns numbers of which one can be given alone."""
    return integers(argument, [given] if isinstance(given, Integral) else given)


# More outputs than an operator of any model has, and few enough that a wrong number is an error at once.
MAX_OUTPUTS = 65_536


class Layer:
    """A layer under construction: a name, from which those of its parameters and outputs are generated."""

    def __init__(self, kind: str, name: str | None = None) -> None:
        self.name = name or unique_name.generate(kind)

    def temporary(self) -> str:
        """Returns a name for an output."""
        return unique_name.generate(f"{self.name}.tmp")

    def append(
        self, kind: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], attrs: Mapping[str, Any] | None = None
    ) -> None:
        """Appends an operator."""
        check(inputs)
        _lodstone.call_layer(network(), None, parts(kind, inputs, outputs, attrs))

    def result(
        self,
        kind: str,
        inputs: Mapping[str, Any],
        attrs: Mapping[str, Any] | None = None,
        slot: str = "Out",
        extra: Sequence[str] = (),
        out: Variable | None = None,
    ) -> Variable:
        """Appends an operator, and returns the variable of an output slot.

        The slots `extra` get variables too, before `slot`. `out` is the variable of the slot [default: a new one].
        """
        return self.results(kind, inputs, attrs, [*extra, slot], {slot: out} if out is not None else {})[-1]

    def results(
        self,
        kind: str,
        inputs: Mapping[str, Any],
        attrs: Mapping[str, Any] | None,
        slots: Sequence[str],
        given: Mapping[str, Variable] | None = None,
    ) -> list[Variable]:
        """Appends an operator, and returns the variables of output slots."""
        names = {slot: given[slot].name if given and slot in given else self.temporary() for slot in slots}
        self.append(kind, inputs, names, attrs)
        return [variable(name) for name in names.values()]

    def several(
        self, kind: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any] | None, count: int, slot: str = "Out"
    ) -> list[Variable]:
        """Appends an operator with several variables in an output slot, and returns them."""
        if not 0 < count <= MAX_OUTPUTS:
            raise ValueError(f"`{kind}`: expected 1 to {MAX_OUTPUTS} outputs, found {count}")
        names = [self.temporary() for _ in range(count)]
        self.append(kind, inputs, {slot: names}, attrs)
        return [variable(name) for name in names]

    def parameter(self, attr: ParamAttr, shape: Sequence[int], dtype: str, initializer: Initializer, suffix: str = "w") -> Variable:
        """Adds a parameter, which `initializer` fills unless its configuration has another."""
        return declared(attr, f"{self.name}.{suffix}", shape, dtype, attr.initializer or initializer, False)

    def state(self, attr: ParamAttr, shape: Sequence[int], dtype: str, initializer: Initializer, suffix: str = "w") -> Variable:
        """Adds a persistable variable that is not trained: a statistic, a counter."""
        return declared(attr, f"{self.name}.{suffix}", shape, dtype, attr.initializer or initializer, True)

    def biased(self, x: Variable, argument: Attr, size: int, axis: int) -> Variable:
        """Adds a bias along an axis, unless there is none (`False`)."""
        attr = param_attr("bias_attr", argument)
        if attr is None:
            return x
        bias = self.parameter(attr, [size], x.dtype, Constant(0.0), "b")
        return self.result("elementwise_add", {"X": x, "Y": bias}, {"axis": axis})

    def activated(self, x: Variable, act: str | None) -> Variable:
        """Applies an activation, which is the kind of its operator."""
        if act is not None and not isinstance(act, str):
            raise TypeError(wrong("act", "a str", act))
        return x if act is None else self.result(act, {"X": x})


def declared(
    attr: ParamAttr, base: str, shape: Sequence[int], dtype: str, initializer: Initializer, is_state: bool
) -> Variable:
    """Adds a parameter or state to the current programs."""
    if not isinstance(initializer, Initializer):
        raise TypeError(f"{attr.name or base}: expected an Initializer, found {type(initializer).__name__}")
    dims = integers("shape", shape)
    if any(not 0 < size < 1 << 63 for size in dims):
        raise ValueError(f"{attr.name or base}: a parameter cannot have the shape {dims}")
    initializing = initializer.parts(dims)
    if initializing["kind"] == "given" and initializing["value"].dtype != dtype:
        value = initializing["value"].numpy().astype(dtype)
        initializing = {**initializing, "value": tensor("value", value)}
    if initializing.get("seed") == 0:
        initializing = {**initializing, "seed": default_startup_program().random_seed}
    facts = {
        "name": attr.name,
        "trainable": attr.trainable,
        "learning_rate": attr.learning_rate,
        "regularizer": attr.regularizer and attr.regularizer.parts(),
        "need_clip": attr.need_clip,
        "initializer": initializing,
        "is_state": is_state,
    }
    name = _lodstone.declare_parameter(network(), base, dtype, dims, facts)
    return default_main_program().global_block().var(name)


def variable(name: str) -> Variable:
    """Returns a variable of the current block, or of those around it."""
    found = default_main_program().current_block()._find_var_recursive(name)
    if found is None:
        raise ValueError(f"the program has no variable {name!r}")
    return found


def check(inputs: Mapping[str, Any]) -> None:
    """Raises an error if inputs are not variables of the current program."""
    main = default_main_program()
    for slot, given in inputs.items():
        for one in given if isinstance(given, (list, tuple)) else [given]:
            if one is None or isinstance(one, str):
                continue
            if not isinstance(one, Variable):
                raise TypeError(f"input `{slot}`: expected a Variable, found {type(one).__name__}")
            if one.program is not main:
                raise ValueError(f"input `{slot}`: variable {one.name!r} belongs to another program")


def startup_block() -> Block:
    """Returns the block that initializes parameters."""
    return default_startup_program().global_block()


def sizes(argument: str, given: int | Sequence[int], count: int) -> list[int]:
    """Returns a number for each of `count` dims: a single number stands for all."""
    if isinstance(given, Integral):
        return [int(given)] * count
    found = integers(argument, given)
    if len(found) != count:
        raise ValueError(f"argument '{argument}': expected {count} numbers, found {len(found)}")
    return found
