"""Computes calls and gradients with PaddlePaddle, and records the inputs that our runtime needs to repeat them."""
import json
import os
import sys

CRATES = os.path.join(os.path.dirname(__file__), "..", "..", "crates")
GOLDEN = os.path.join(CRATES, "paddle", "tests", "golden")
VALUES = os.path.join(CRATES, "schema", "data", "paddle_values.tsv")
sys.path.insert(0, os.path.abspath(GOLDEN))

import numpy as np
from make_paddle_operators import PLACE, Recorder, core, paddle, static

from . import detectors, elements, inference, moving, others, placing, sums, windows  # noqa: F401 (each registers its calls)
from .chance import CALLS, ODD_SHARE, Chance

GRADIENT, NONE = "@GRAD", "@EMPTY@"

# Of this many calls of an operator, one has a tensor without elements, and another one an attribute with a value outside of
# its set.
PERIOD, EMPTY, OUTSIDE = 10, 5, 9

# PaddlePaddle's element types, by NumPy name.
TYPES_OF = {
    name: getattr(core.VarDesc.VarType, theirs) for name, theirs in {
        "bool": "BOOL", "uint8": "UINT8", "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64",
        "uint16": "BF16", "float16": "FP16", "float32": "FP32", "float64": "FP64",
    }.items()
}

# Element types that NumPy lacks.
NAMES = {"uint16": "bfloat16"}


class Refused(Exception):
    """PaddlePaddle rejects the call."""


def refusal(error):
    """Returns PaddlePaddle's message, on one line."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    messages = [line for line in lines if "Error:" in line and "paddle" not in line]
    return (messages or lines or [type(error).__name__])[-1][:200]


class Calls:
    """The computed calls: programs, elements, and their descriptions."""

    def __init__(self):
        self.calls, self.programs, self.elements = [], bytearray(), bytearray()

    def fact(self, tensor):
        """Returns the description of a tensor: element type, dims and offset."""
        array = np.ascontiguousarray(np.asarray(tensor))
        begin = len(self.elements)
        self.elements += array.tobytes()
        return [NAMES.get(array.dtype.name, array.dtype.name), list(np.asarray(tensor).shape), begin]

    def add(self, name, program, kind, attributes, feed, wanted, **more):
        program.desc._set_version()
        # Outputs get the type of the result; those that are not recorded, any type.
        for variable in program.global_block().desc.all_vars():
            array = wanted.get(variable.name(), np.zeros(0, "float32"))
            if variable.name() not in feed and variable.type() == core.VarDesc.VarType.LOD_TENSOR:
                variable.set_dtype(TYPES_OF[array.dtype.name])
        data = program.desc.serialize_to_string()
        begin = len(self.programs)
        self.programs += data
        self.calls.append({
            "name": name, "kind": kind, "attributes": attributes, "program": [begin, len(data)],
            "feed": {variable: self.fact(tensor) for variable, tensor in feed.items()},
            "fetch": list(wanted), "wanted": {variable: self.fact(tensor) for variable, tensor in wanted.items()},
            **more,
        })

    def write(self, directory):
        os.makedirs(directory, exist_ok=True)
        for name, data in [("programs.bin", self.programs), ("elements.bin", self.elements)]:
            with open(os.path.join(directory, name), "wb") as file:
                file.write(data)
        with open(os.path.join(directory, "calls.json"), "w") as file:
            json.dump(self.calls, file)


class Sweep:
    """Computes calls one by one."""

    def __init__(self, sets):
        self.calls, self.refused, self.builder, self.sets = Calls(), [], Recorder(), sets

    def one(self, seed, kind, number):
        """Computes a call of an operator and its gradient, determined by seed and number."""
        chance = Chance(seed, kind, number, has_empty=number % PERIOD == EMPTY)
        name = f"{kind}:{number}"
        try:
            call = CALLS[kind](chance, kind)
        except (ValueError, IndexError):
            # Without elements, there is nothing to choose from.
            chance = Chance(seed, kind, number)
            call = CALLS[kind](chance, kind)
        try:
            program, op, feed = self.builder.build(kind, call.inputs, call.attributes, call.outputs)
            written = [variable for slot in call.outputs for variable in op.output(slot)]
            hidden = {variable for slot in call.silent for variable in op.output(slot)}
            shown = [variable for variable in written if variable not in hidden]
            feed = {variable: held(tensor) for variable, tensor in feed.items()}
            results = dict(zip(shown, self.run(program, feed, shown)))
        except Exception as error:
            self.refused.append((name, refusal(error)))
            return
        attributes = described(op.desc, call.attributes)
        if call.forward:
            self.calls.add(name, program, kind, attributes, feed, results)
        if number % PERIOD == OUTSIDE and kind in self.sets:
            attribute = chance.pick(*sorted(self.sets[kind]))
            op.desc._set_attr(attribute, other(self.sets[kind][attribute]))
            given = {**attributes, attribute: op.desc.attr(attribute)}
            self.calls.add(f"{name} outside", program, kind, given, feed, results, outside=attribute)
            return
        if not call.gradient:
            return
        try:
            self.gradients(chance, name, program, op, feed, results, attributes)
        except Exception as error:
            self.refused.append((name + " (gradient)", refusal(error)))

    def run(self, program, feed, fetch):
        tensors = {variable: tensor(array) for variable, array in feed.items()}
        found = self.builder.executor.run(program, feed=tensors, fetch_list=fetch, return_numpy=False)
        for name, result in zip(fetch, found):
            if isinstance(result, core.LoDTensor) and not result._is_initialized():
                raise Refused(f"`{name}` is left uninitialized")
        return [np.array(result) for result in found]

    def gradients(self, chance, name, program, op, feed, results, attributes):
        """Computes each gradient operator that PaddlePaddle appends to the call."""
        still = {variable + GRADIENT for variable, array in feed.items() if array.dtype.name[:5] != "float"}
        try:
            descs, _ = core.get_grad_op_desc(op.desc, still, [])
        except Exception:
            return
        for desc in descs:
            # Some gradients are forward operators, which have their own calls.
            if "_grad" in desc.type():
                self.gradient(chance, name, program, desc, feed, results, attributes)

    def gradient(self, chance, name, program, desc, feed, results, attributes):
        feed = dict(feed)
        whole = program.clone()
        block = whole.global_block()
        for variable in desc.input_arg_names():
            if variable.endswith(GRADIENT):
                of = results.get(variable.removesuffix(GRADIENT))
                if of is None:
                    continue
                feed[variable] = chance.numbers(of.shape, of.dtype.name, odd=ODD_SHARE / 3)
                block.create_var(name=variable, shape=of.shape, dtype=of.dtype.name, is_data=True)
        wanted = [name for slot in desc.output_names() for name in desc.output(slot) if name not in (NONE, "")]
        if not wanted:
            return
        append(whole, desc, wanted)
        found = self.run(whole, feed, list(results) + wanted)
        tensors = {**feed, **dict(zip(list(results) + wanted, found))}
        read = dict.fromkeys(name for slot in desc.input_names() for name in desc.input(slot))
        given = {}
        for variable in read:
            if variable in tensors and variable not in wanted:
                given[variable] = tensors[variable]
            elif "XShape" in variable:
                # Only the dims are used.
                given[variable] = np.zeros(program.global_block().var(variable).shape, "float32")
        alone = static.Program()
        for variable, array in given.items():
            alone.global_block().create_var(name=variable, shape=array.shape, dtype=array.dtype.name, is_data=True)
        for variable in read:
            if variable not in given:
                alone.global_block().create_var(name=variable)
        append(alone, desc, wanted)
        wanted = {variable: tensors[variable] for variable in wanted}
        self.calls.add(f"{name} {desc.type()}", alone, desc.type(), attributes, given, wanted)


def allowed(table):
    """Returns the sets of values of attributes, by operator and attribute."""
    sets = {}
    with open(table, encoding="utf-8") as file:
        for line in file:
            attribute, kinds, values = line.rstrip("\n").split("\t")
            for kind in kinds.split(" "):
                sets.setdefault(kind, {})[attribute] = values.split(" ")
    return sets


def other(values):
    """Returns a value outside of a set, of the same type; of flags with one allowed value, the other one."""
    if values[0] in ("true", "false"):
        return values[0] == "false"
    return 77 if values[0].lstrip("-").isdigit() else "no_such_value"


def append(program, desc, wanted):
    """Appends an operator from its description."""
    block = program.global_block()
    for variable in wanted:
        block.create_var(name=variable)
    added = block.desc.append_op()
    added.copy_from(desc)
    program._sync_with_cpp()
    added.infer_var_type(block.desc)
    added.infer_shape(block.desc)


def tensor(array):
    made = core.LoDTensor()
    made.set(array, PLACE)
    return made


def held(tensor):
    """Returns the elements of a tensor, with all its dims."""
    return np.array(tensor)


def described(desc, attributes):
    """Returns the attributes that PaddlePaddle has set. JSON has no infinities: they become strings."""
    values = {name: desc.attr(name) for name in attributes if desc.has_attr(name)}
    return {name: str(value) if value in (float("inf"), -float("inf")) else value for name, value in values.items()}


def record(seed, kind, numbers, directory, begin):
    """Computes calls of an operator; `begin(number)` is called before each."""
    paddle.enable_static()
    np.seterr(all="ignore")
    sweep = Sweep(allowed(VALUES))
    for number in numbers:
        begin(number)
        sweep.one(seed, kind, number)
    sweep.calls.write(directory)
    with open(os.path.join(directory, "refused.json"), "w") as file:
        json.dump(sweep.refused, file)
