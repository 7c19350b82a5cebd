"""Adds the operators of the installed PaddlePaddle to `paddle_operators.tsv`, beside this script.

    python make_paddle_operators.py

Run once with each release (1.8.5, 2.6.2, 3.3.1); the order does not matter. The registry of a
release is what `core.get_all_op_protos()` gives.

One line an operator: its name, the releases that have it, its input slots, its output slots. A slot
is followed by `?` if it may be absent and by `*` if it may hold several variables, in any release.
"""
import os

import paddle

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "paddle_operators.tsv")


def registry():
    """The registry of the installed release: messages `OpProto`, parsed."""
    if paddle.__version__.startswith("1."):
        from paddle.fluid import core
        from paddle.fluid.proto import framework_pb2
    else:
        from paddle.base import core
        from paddle.base.proto import framework_pb2
    for serialized in core.get_all_op_protos():
        yield framework_pb2.OpProto.FromString(bytes(serialized))


def merge_slots(known, slots):
    """Adds `slots` to `known` ({name: marks}), keeping the order and the union of the marks."""
    for slot in slots:
        marks = known.get(slot.name, "")
        optional = "?" if slot.dispensable or "?" in marks else ""
        several = "*" if slot.duplicable or "*" in marks else ""
        known[slot.name] = optional + several


def parse_slots(text):
    names = {}
    for word in text.split():
        name = word.rstrip("?*")
        names[name] = word[len(name):]
    return names


def print_slots(slots):
    return " ".join(name + marks for name, marks in slots.items())


def main():
    operators = {}
    if os.path.exists(TABLE):
        with open(TABLE) as table:
            for line in table.read().splitlines():
                name, releases, inputs, outputs = line.split("\t")
                operators[name] = (set(releases.split()), parse_slots(inputs), parse_slots(outputs))
    for proto in registry():
        releases, inputs, outputs = operators.setdefault(proto.type, (set(), {}, {}))
        releases.add(paddle.__version__)
        merge_slots(inputs, proto.inputs)
        merge_slots(outputs, proto.outputs)
    with open(TABLE, "w") as table:
        for name, (releases, inputs, outputs) in sorted(operators.items()):
            columns = [name, " ".join(sorted(releases)), print_slots(inputs), print_slots(outputs)]
            table.write("\t".join(columns) + "\n")
    print(len(operators), "operators")


if __name__ == "__main__":
    main()
