"""Translates the recorded programs of one operator to PIR, with PaddlePaddle 3.3.1's own translator.

    python make_paddle_pir.py OUT_DIR

Reads the cases of `paddle_operators` and `paddle_gradients` beside this script, and writes `operators.jsonl.gz`: a line
with `folder`, `name` and `pir`, the JSON of the program, for each case. Cases with LoD or selected rows are left out,
which PIR does not have, and so are operators that PaddlePaddle 3 no longer has; the script prints how many.

An attribute that a case does not set gets its default first, since the translator expects all of them.
"""

import glob
import gzip
import json
import os
import sys
import tempfile

os.environ.setdefault("GLOG_minloglevel", "3")

import paddle
from paddle.base import core
from paddle.base.proto import framework_pb2

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDERS = ["paddle_operators", "paddle_gradients"]
# The version of the format that 3.3.1 writes.
VERSION = 4
CODES = {
    "bool": 0, "int16": 1, "int32": 2, "int64": 3, "float16": 4, "float32": 5, "float64": 6, "uint8": 20,
    "int8": 21, "bfloat16": 22,
}
# The fields of an attribute by its type, and the types by the letters of a case.
FIELDS = {
    "INT": "i", "INTS": "ints", "LONG": "l", "LONGS": "longs", "FLOAT": "f", "FLOATS": "floats", "BOOLEAN": "b",
    "BOOLEANS": "bools", "STRING": "s", "STRINGS": "strings", "FLOAT64": "float64", "FLOAT64S": "float64s",
}
LETTERS = {
    "i": "INT", "is": "INTS", "l": "LONG", "ls": "LONGS", "f": "FLOAT", "fs": "FLOATS", "b": "BOOLEAN",
    "s": "STRING", "d": "FLOAT64", "ds": "FLOAT64S",
}


def registry():
    for serialized in core.get_all_op_protos():
        proto = framework_pb2.OpProto.FromString(bytes(serialized))
        yield proto.type, proto


PROTOS = dict(registry())


def has_plain_tensors(case):
    """Whether a case has neither LoD (fact 3) nor selected rows (fact 4)."""
    facts = [*case["feed"].values(), *case["fetch"].values()]
    return all(len(fact) < 4 or (len(fact) == 4 and not fact[3]) for fact in facts)


def declare(block, name, fact):
    var = block.vars.add(name=name)
    var.type.type = framework_pb2.VarType.DENSE_TENSOR
    tensor = var.type.dense_tensor.tensor
    tensor.data_type = CODES[fact[0]]
    tensor.dims.extend(fact[1])


def set_value(attribute, kind, value):
    attribute.type = framework_pb2.AttrType.Value(kind)
    number = lambda it: float(it) if isinstance(it, str) and kind not in ("STRING", "STRINGS") else it
    encode = lambda it: it.encode() if isinstance(it, str) and kind in ("STRING", "STRINGS") else number(it)
    if isinstance(value, (list, tuple)):
        getattr(attribute, FIELDS[kind]).extend([encode(it) for it in value])
    else:
        setattr(attribute, FIELDS[kind], encode(value))


def set_scalars(attribute, values):
    attribute.type = framework_pb2.AttrType.Value("SCALARS")
    for value in values:
        scalar = attribute.scalars.add()
        if isinstance(value, bool):
            scalar.type, scalar.b = framework_pb2.Scalar.BOOLEAN, value
        elif isinstance(value, int):
            scalar.type, scalar.i = framework_pb2.Scalar.LONG, value
        else:
            scalar.type, scalar.r = framework_pb2.Scalar.FLOAT64, float(value)


def set_attributes(op, case):
    known = set()
    for key, value in case["attributes"].items():
        name, letters = key.rsplit(":", 1)
        known.add(name)
        attribute = op.attrs.add(name=name)
        if letters == "scs":
            set_scalars(attribute, value)
        else:
            set_value(attribute, LETTERS[letters], value)
    kind = case["kind"] if case["kind"] in PROTOS else case["kind"].replace("_grad", "")
    if kind not in PROTOS:
        return
    try:
        defaults = core.get_op_attrs_default_value(kind.encode())
    except Exception:
        # The registry has no checker of it.
        return
    for proto in PROTOS[kind].attrs:
        default = defaults.get(proto.name)
        type_name = framework_pb2.AttrType.Name(proto.type)
        is_own = not proto.name.startswith("op_") and proto.name != "with_quant_attr"
        if is_own and proto.name not in known and default is not None and type_name in FIELDS:
            set_value(op.attrs.add(name=proto.name), type_name, default)


def add_op(block, kind, inputs, outputs):
    op = block.ops.add(type=kind)
    for slots, field in ((inputs, op.inputs), (outputs, op.outputs)):
        for slot, names in slots.items():
            field.add(parameter=slot, arguments=names)
    return op


def program(case):
    """The `ProgramDesc` of a case."""
    desc = framework_pb2.ProgramDesc()
    block = desc.blocks.add(idx=0, parent_idx=-1)
    for holder, kind in (("feed", framework_pb2.VarType.FEED_MINIBATCH), ("fetch", framework_pb2.VarType.FETCH_LIST)):
        block.vars.add(name=holder, persistable=True).type.type = kind
    facts = {**case["feed"], **case["fetch"]}
    slots = [*case["inputs"].values(), *case["outputs"].values()]
    others = {name: ["float32", []] for names in slots for name in names if name not in facts}
    for name, fact in {**facts, **others}.items():
        declare(block, name, fact)
    for column, name in enumerate(case["feed"]):
        feed = add_op(block, "feed", {"X": ["feed"]}, {"Out": [name]})
        set_value(feed.attrs.add(name="col"), "INT", column)
    set_attributes(add_op(block, case["kind"], case["inputs"], case["outputs"]), case)
    for column, name in enumerate(case["fetch"]):
        fetch = add_op(block, "fetch", {"X": [name]}, {"Out": ["fetch"]})
        set_value(fetch.attrs.add(name="col"), "INT", column)
    return core.ProgramDesc(desc.SerializeToString())


def translated(case, path):
    core.serialize_pir_program(paddle.pir.translate_to_pir(program(case)), path, VERSION, True, False, False)
    with open(path) as file:
        return json.load(file)


def main():
    paddle.enable_static()
    lines, skipped, failed = [], 0, set()
    with tempfile.TemporaryDirectory() as scratch:
        for folder in FOLDERS:
            for path in sorted(glob.glob(os.path.join(HERE, folder, "*.json"))):
                with open(path) as file:
                    cases = json.load(file)["cases"]
                for case in cases:
                    if not has_plain_tensors(case):
                        skipped += 1
                        continue
                    try:
                        pir = translated(case, os.path.join(scratch, "program.json"))
                    except (RuntimeError, SystemError, ValueError):
                        failed.add(case["kind"])
                        continue
                    line = {"folder": folder, "name": case["name"], "pir": pir}
                    lines.append(json.dumps(line, separators=(",", ":")) + "\n")
    with open(os.path.join(sys.argv[1], "operators.jsonl.gz"), "wb") as file:
        # Without a time, so that a second run writes the same file.
        with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=9, mtime=0, filename="") as packed:
            packed.write("".join(lines).encode())
    print(len(lines), "programs;", skipped, "with LoD or rows; not translated:", *sorted(failed))


if __name__ == "__main__":
    main()
