"""Adds the operators of the installed PaddlePaddle to `paddle_operators.tsv`, beside this script.

    python make_paddle_operators.py

Run once with each release (1.8.5, 2.6.2, 3.3.1); the order does not matter. The registry of a
release is what `core.get_all_op_protos()` gives.

Adds its releases, its input slots and its output slots to the row of each operator. A slot is followed by `?` if it may
be absent and by `*` if it may hold several variables, in any release. What else is in a row stays as it is; that of a
new operator has to be decided.
"""
import paddle

import paddle_table


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


def main():
    rows = paddle_table.read()
    for proto in registry():
        row = rows.setdefault(proto.type, paddle_table.Row())
        row.releases.add(paddle.__version__)
        merge_slots(row.inputs, proto.inputs)
        merge_slots(row.outputs, proto.outputs)
    paddle_table.write(rows)


if __name__ == "__main__":
    main()
