"""Writes `paddle_attributes.tsv`, beside this script: the attributes of the operators of the installed PaddlePaddle.

    python make_paddle_attributes.py

Run with 2.6.2, whose conventions new programs follow. One line an attribute: the operator, the attribute, the type
of its value, and its default in JSON; nothing if it has to be given. Attributes that every operator has are told
once, of the operator `*`. Source: the registry, `core.get_all_op_protos()` and `core.get_op_attrs_default_value()`.
"""
import json
import os

from paddle.base import core
from paddle.base.proto import framework_pb2

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "paddle_attributes.tsv")
TYPES = {number: name for name, number in framework_pb2.AttrType.items()}


def main():
    operators = {}
    for serialized in core.get_all_op_protos():
        proto = framework_pb2.OpProto.FromString(bytes(serialized))
        try:
            defaults = core.get_op_attrs_default_value(proto.type.encode())
        except Exception:
            # The registry has no checker of it.
            continue
        rows = []
        for attribute in proto.attrs:
            default = defaults.get(attribute.name)
            told = "" if default is None else json.dumps(default)
            rows.append((attribute.name, TYPES[attribute.type], told))
        operators[proto.type] = rows
    everywhere = set.intersection(*(set(rows) for rows in operators.values() if rows))
    lines = [("*", *row) for row in operators["relu"] if row in everywhere]
    for operator, rows in sorted(operators.items()):
        lines += [(operator, *row) for row in rows if row not in everywhere]
    with open(TABLE, "w") as table:
        table.writelines("\t".join(line) + "\n" for line in lines)
    print(len(operators), "operators,", len(lines), "attributes")


if __name__ == "__main__":
    main()
