"""Repeats the calls of `paddle_sweep.py` with a newer PaddlePaddle: Lodstone's results must equal those of that release.

    python paddle_sweep_newer.py RUN_CALLS OUT NEWER_OUT [--only CALL...]

`OUT` has the calls that `paddle_sweep.py` recorded with 2.6.2. PaddlePaddle 3.3.1 translates their programs to PIR and
runs them; Lodstone runs the same programs, which then follow 3.3.1, by `RUN_CALLS`. Calls that PaddlePaddle does not
translate are counted. `TRANSLATED` lists calls that its translator changes, `sweep/differences.py` deliberate differences.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import time

os.environ.setdefault("GLOG_minloglevel", "3")

import numpy as np
import paddle
from paddle.base import core
from paddle.base.proto import framework_pb2
from sweep import compare
from sweep.differences import DIFFERENCES, has

# The timeout of the calls of one operator, in seconds: in all, and for each. The maximum share of crashes that are skipped.
LONGEST, LONGEST_CALL, MAX_CRASHES = 60, 2, 0.4

FIELDS = {
    "INT": "i", "INTS": "ints", "LONG": "l", "LONGS": "longs", "FLOAT": "f", "FLOATS": "floats", "BOOLEAN": "b",
    "BOOLEANS": "bools", "STRING": "s", "STRINGS": "strings", "FLOAT64": "float64", "FLOAT64S": "float64s",
}
CODES = {
    "bool": 0, "int16": 1, "int32": 2, "int64": 3, "float16": 4, "float32": 5, "float64": 6, "uint8": 20, "int8": 21,
    "bfloat16": 22,
}

# Calls that the translator changes, by operator, with the reason.
TRANSLATED = [
    ("it drops `reduce_all`", lambda call: call.attributes.get("reduce_all") and call.kind.startswith("reduce_")),
    ("it drops `FactorTensor`", lambda call: call.kind in ("pow", "pow_grad") and "FactorTensor" in call.feed),
    ("it drops `axis`", lambda call: call.kind.startswith("elementwise_pow") and call.attributes.get("axis", -1) != -1),
    ("it drops `dtype`", lambda call: call.kind == "one_hot_v2"),
    ("it does not remove the first dim of `XShape`", lambda call: "XShape_out" in call.feed),
    ("it drops `str_value`", lambda call: call.kind == "fill_constant" and call.attributes.get("str_value")),
    ("it drops inputs", lambda call: call.kind in ("dequantize_linear", "meshgrid_grad")),
]

# Deliberate differences from newer releases alone.
NEWER = [
    ("gradients of `where` with NaN: 3.3.1 does not multiply by 0", lambda call: call.kind == "where_grad"),
    (
        "gradients of powers of 0 and by 0: 3.3.1 returns 0 for NaN and infinities",
        lambda call: call.kind in {"pow_grad", "elementwise_pow_grad"} and has(call, lambda array: array == 0, "X", "Y"),
    ),
    (
        "casts to float16 of numbers below 1e-15: 3.3.1 shifts their bits by more than the width",
        lambda call: call.kind == "cast" and call.attributes.get("out_dtype") == 4
        and has(call, lambda array: (array != 0) & (np.abs(array) < 1e-15), "X"),
    ),
    (
        "the gradient of a logit of 0 without `pos_weight`: 3.3.1 returns 1 less",
        lambda call: call.kind == "sigmoid_cross_entropy_with_logits_grad"
        and "pos_weight" not in call.feed and has(call, lambda array: array == 0, "X"),
    ),
    (
        "negative ends of a backward slice: the output gradient has the dims of 2.6.2, which 3.3.1 does not check",
        lambda call: call.kind == "strided_slice_grad"
        and any(step < 0 and end < 0 for step, end in zip(call.attributes["strides"], call.attributes["ends"])),
    ),
    (
        "means of no elements, and windows and dims without them: 3.3.1 returns 0, uninitialized memory, or fewer dims",
        lambda call: call.kind in {"fill_constant_batch_size_like", "group_norm", "layer_norm", "pool2d", "pool3d"}
        and any(not array.size for array in call.feed.values()),
    ),
    (
        "gradients of maxima and minima of single elements that are NaN: 3.3.1 returns 0, unless there is only one of them",
        lambda call: call.kind in {"reduce_max_grad", "reduce_min_grad"} and has(call, np.isnan, "X")
        and call.feed["X"].size == call.feed["Out_out"].size > 1,
    ),
    ("NaN of bfloat16 has other bits", lambda call: call.kind == "cast" and call.attributes.get("out_dtype") == 22),
]


def protos():
    for serialized in core.get_all_op_protos():
        proto = framework_pb2.OpProto.FromString(bytes(serialized))
        yield proto.type, proto


PROTOS = dict(protos())


def set_value(attribute, kind, value):
    attribute.type = framework_pb2.AttrType.Value(kind)
    encode = lambda it: it.encode() if isinstance(it, str) else it
    if isinstance(value, (list, tuple)):
        getattr(attribute, FIELDS[kind]).extend([encode(it) for it in value])
    else:
        setattr(attribute, FIELDS[kind], encode(value))


def add_defaults(op):
    """Sets the attributes that are absent: the translator expects all of them."""
    kind = op.type if op.type in PROTOS else op.type.replace("_grad", "")
    if kind not in PROTOS:
        return
    try:
        defaults = core.get_op_attrs_default_value(kind.encode())
    except Exception:
        # The registry has no checker of it.
        return
    known = {attribute.name for attribute in op.attrs}
    for proto in PROTOS[kind].attrs:
        default, type_name = defaults.get(proto.name), framework_pb2.AttrType.Name(proto.type)
        is_own = not proto.name.startswith("op_") and proto.name != "with_quant_attr"
        if is_own and proto.name not in known and default is not None and type_name in FIELDS:
            set_value(op.attrs.add(name=proto.name), type_name, default)


def complete(call, program):
    """The program of a call with its interface, for the translator."""
    block = program.blocks[0]
    facts = {**call["feed"], **call["wanted"]}
    for variable in block.vars:
        if variable.name in facts:
            variable.type.type = framework_pb2.VarType.DENSE_TENSOR
            tensor = variable.type.dense_tensor.tensor
            tensor.data_type = CODES[facts[variable.name][0]]
            del tensor.dims[:]
            tensor.dims.extend(facts[variable.name][1])
    kinds = framework_pb2.VarType
    for holder, kind in (("feed", kinds.FEED_MINIBATCH), ("fetch", kinds.FETCH_LIST)):
        block.vars.add(name=holder, persistable=True).type.type = kind
    ops = list(block.ops)
    del block.ops[:]
    for kind, names, slots in [("feed", call["feed"], ("X", "Out")), ("", [], ()), ("fetch", call["wanted"], ("X", "Out"))]:
        if not kind:
            for op in ops:
                add_defaults(op)
            block.ops.extend(ops)
        for column, name in enumerate(names):
            op = block.ops.add(type=kind)
            op.inputs.add(parameter=slots[0], arguments=["feed" if kind == "feed" else name])
            op.outputs.add(parameter=slots[1], arguments=[name if kind == "feed" else "fetch"])
            set_value(op.attrs.add(name="col"), "INT", column)
    return core.ProgramDesc(program.SerializeToString())


def run(call, program, elements):
    translated = paddle.pir.translate_to_pir(complete(call, program))
    feed = {name: compare.array(fact, elements) for name, fact in call["feed"].items()}
    executor = paddle.static.Executor(paddle.CPUPlace())
    with paddle.static.scope_guard(paddle.static.Scope()):
        found = executor.run(translated, feed=feed, fetch_list=[], return_numpy=False)
    return {name: np.asarray(value) for name, value in zip(call["wanted"], found)}


def record(source, target, skipped):
    """Records the calls of an operator."""
    calls = compare.load(source, "calls.json")
    programs, elements = compare.read(source, "programs.bin"), compare.read(source, "elements.bin")
    kept, written, data = [], bytearray(), bytearray(elements)
    for number, call in enumerate(calls):
        with open(os.path.join(target, "progress"), "w") as progress:
            progress.write(str(number))
        if number in skipped or "outside" in call:
            continue
        begin, size = call["program"]
        program = framework_pb2.ProgramDesc.FromString(programs[begin:begin + size])
        try:
            wanted = run(call, program, elements)
        except Exception:
            continue
        program = framework_pb2.ProgramDesc.FromString(programs[begin:begin + size])
        program.version.version = 3_003_001
        serialized = program.SerializeToString()
        facts = {}
        for name, array in wanted.items():
            array = np.ascontiguousarray(array)
            dtype = "bfloat16" if array.dtype.name == "uint16" else array.dtype.name
            facts[name] = [dtype, list(wanted[name].shape), len(data)]
            data += array.tobytes()
        kept.append({**call, "program": [len(written), len(serialized)], "wanted": facts})
        written += serialized
    for name, part in [("programs.bin", written), ("elements.bin", data)]:
        with open(os.path.join(target, name), "wb") as file:
            file.write(part)
    with open(os.path.join(target, "calls.json"), "w") as file:
        json.dump(kept, file)
    return len(calls)


def record_apart(source, target):
    """Records the calls of an operator in a process of its own, again without those that crash."""
    with open(os.path.join(source, "calls.json"), encoding="utf-8") as file:
        count = len(json.load(file))
    skipped = set()
    while len(skipped) <= MAX_CRASHES * count:
        child = os.fork()
        if child == 0:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            try:
                record(source, target, skipped)
                os._exit(0)
            finally:
                os._exit(1)
        begun, status = time.time(), None
        while status is None:
            process, ended = os.waitpid(child, os.WNOHANG)
            status = ended if process else None
            if status is None and time.time() - begun > LONGEST + LONGEST_CALL * count:
                os.kill(child, 9)
            time.sleep(0.02)
        if status == 0:
            return
        with open(os.path.join(target, "progress")) as progress:
            skipped.add(int(progress.read()))
    sys.exit(f"too many calls crash: {source}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run_calls")
    parser.add_argument("out")
    parser.add_argument("newer_out")
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    paddle.enable_static()
    np.seterr(all="ignore")
    directories = []
    for kind in options.only or sorted(os.listdir(options.out)):
        source, target = os.path.join(options.out, kind), os.path.join(options.newer_out, kind)
        if os.path.exists(os.path.join(source, "calls.json")):
            os.makedirs(target, exist_ok=True)
            record_apart(source, target)
            directories.append(target)
    subprocess.run([options.run_calls, *directories], check=True)
    same, listed, wrong = 0, 0, collections.Counter()
    for directory in directories:
        for result in compare.results(directory):
            # Names of attributes are not in the description of a gradient that has none.
            reasons = [one for _, one in TRANSLATED + NEWER if one(result)]
            if not result.problem:
                same += 1
            elif reasons or any(one.covers(result) for one in DIFFERENCES):
                listed += 1
            else:
                wrong[result.kind] += 1
                print("DIFFERENT", result.describe())
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(wrong.items()))
    print(f"{same} calls equal, {listed} listed")
    print(f"{same + listed} passed, {wrong.total()} failed{': ' + kinds if kinds else ''}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
