"""Writes the gradients of `paddle_operators.tsv`, beside this script: the gradient operators of the installed
PaddlePaddle.

    python make_paddle_gradients.py

Run with 2.6.2, whose conventions new programs follow. Last in the row of an operator are its gradient operator, the input
slots of that and what they hold (`Slot=X` a slot of the forward operator, `Slot=Out@GRAD` its gradient), the output slots
in the same way, and the attributes: `*` for those of the forward operator, else `name=value` with JSON or, behind `$`,
another attribute of the forward operator (`-$`: with the other sign), and `-` for none. A slot behind `each:` is one whose
variables have an operator each; one before `?name=text` is there if that attribute is that. A gradient operator that no
registry has gets a row with its slots. Source: the makers of gradients, `core.get_grad_op_desc()`.
"""
import json
import os

import paddle
from paddle.base import core, framework

import paddle_table

# What the gradient of an operator is that is made of those of a block.
BLOCK = ["block"]
# Attributes that every operator has.
EVERYWHERE = {"op_role", "op_role_var", "op_namescope", "op_callstack", "op_device", "with_quant_attr"}
# What tells whether all attributes are those of the forward operator.
SCOPE = "/told/"
# What tells attributes of one type apart.
TOLD_APART = {
    "cast": {"in_dtype": 5, "out_dtype": 6},
    "increment": {"step": 2.5},
    "partial_concat": {"start_index": 1, "length": 2},
    "partial_sum": {"start_index": 1, "length": 2},
    "scale": {"scale": 2.5, "bias": 1.5},
    "unbind": {"axis": 1},
}
# Attributes with which there are slots that are not there otherwise.
WITH_SLOTS = {"sequence_pool": ("pooltype", "MAX")}


PROGRAM = core.ProgramDesc()


def forward(proto, count, given=None):
    """An operator with all slots filled: those that take several variables have `count`."""
    op = PROGRAM.block(0).append_op()
    op.set_type(proto.type)
    op._set_attr("op_namescope", SCOPE)
    for slots, fill in [(proto.inputs, op.set_input), (proto.outputs, op.set_output)]:
        for slot in slots:
            many = count if slot.duplicable else 1
            fill(slot.name, [slot.name if n == 0 else f"{slot.name}#{n}" for n in range(many)])
    defaults = core.get_op_attrs_default_value(proto.type.encode())
    given = {**TOLD_APART.get(proto.type, {}), **(given or {})}
    for name, value in {**defaults, **given}.items():
        if name not in EVERYWHERE and value is not None and value != []:
            op._set_attr(name, value)
    return op


def told_attributes(op, gradient):
    own = {name: op.attr(name) for name in op.attr_names() if name not in EVERYWHERE}
    its = {name: gradient.attr(name) for name in gradient.attr_names() if name not in EVERYWHERE}
    is_handed_on = gradient.has_attr("op_namescope") and gradient.attr("op_namescope") == SCOPE
    if its == own and is_handed_on:
        return "*"
    told = []
    for name, value in sorted(its.items()):
        same = [other for other, known in own.items() if known == value and op.type() in TOLD_APART]
        negative = []
        if isinstance(value, float) and op.type() in TOLD_APART:
            negative = [other for other, known in own.items() if isinstance(known, float) and known == -value]
        if same or negative:
            told.append(f"{name}=${same[0]}" if same else f"{name}=-${negative[0]}")
        else:
            told.append(f"{name}={json.dumps(value)}")
    return " ".join(told) or "-"


def slots(names, values):
    pairs = [f"{name}={values(name)[0]}" for name in names if values(name)]
    return " ".join(pairs)


def line(proto):
    op = forward(proto, 1)
    gradients, _ = core.get_grad_op_desc(op, set(), [])
    if len(gradients) != 1:
        return None
    gradient = gradients[0]
    several = core.get_grad_op_desc(forward(proto, 2), set(), [])[0]
    each = [slot.name for slot in proto.inputs if slot.duplicable] if len(several) == 2 else []
    outputs = slots(gradient.output_names(), gradient.output)
    if not outputs:
        return None
    attributes = told_attributes(op, gradient)
    inputs = slots(gradient.input_names(), gradient.input)
    if proto.type in WITH_SLOTS:
        name, text = WITH_SLOTS[proto.type]
        other = core.get_grad_op_desc(forward(proto, 1, {name: text}), set(), [])[0][0]
        more = slots([slot for slot in other.input_names() if slot not in gradient.input_names()], other.input)
        inputs = " ".join([f"{slot}?{name}={text}" for slot in more.split()] + [inputs])
    marks = "".join(f"each:{slot} " for slot in each)
    return (proto.type, gradient.type(), inputs, marks + outputs, attributes)


def apart(proto):
    """The line as another process tells it: some makers do not survive being asked."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(2)
        try:
            os.write(writer, json.dumps(line(proto)).encode())
        except Exception:
            pass
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return json.loads(told) if told else False


def add_slots(known, pairs, forward, is_optional):
    """Adds the slots that `pairs` name to `known`, with the marks of the slots of the forward operator."""
    sources = {**forward.inputs, **forward.outputs}
    for pair in pairs.split():
        if pair.startswith("each:"):
            continue
        pair, _, only = pair.partition("?")
        slot, _, source = pair.partition("=")
        marks = known.get(slot, "") + sources.get(source.removesuffix("@GRAD"), "")
        optional = "?" if is_optional or only or "?" in marks else ""
        known[slot] = optional + ("*" if "*" in marks else "")


def main():
    rows, failed = paddle_table.read(), []
    for row in rows.values():
        if row.gradient != BLOCK:
            row.gradient = ["-"]
    for name, proto in sorted(framework.OpProtoHolder.instance().op_proto_map.items()):
        told = apart(proto)
        if told is False:
            failed.append(name)
        elif told:
            kind, inputs, outputs, _ = rows[name].gradient = list(told[1:])
            gradient = rows.setdefault(kind, paddle_table.Row())
            if not gradient.releases:
                add_slots(gradient.inputs, inputs, rows[name], False)
                add_slots(gradient.outputs, outputs, rows[name], True)
    paddle_table.write(rows)
    print("not asked:", " ".join(failed))


if __name__ == "__main__":
    paddle.enable_static()
    main()
