"""Records PaddlePaddle 1.8.5's results of operators that later releases do not have, or do not run alike.

    pip install paddlepaddle==1.8.5 "protobuf<4" "numpy<1.24"
    python make_paddle_old_operators.py OUT_DIR

Writes `old.json` and `elements.npz`, whose form `make_paddle_operators.py` describes. A second run writes the same cases.
"""

import json
import os
import sys
import zlib

os.environ.setdefault("GLOG_minloglevel", "3")
os.environ["FLAGS_cpu_deterministic"] = "1"

import numpy as np
import paddle.fluid as fluid
from paddle.fluid import core

PLACE = fluid.CPUPlace()
TYPES = {
    "INT": "i", "INTS": "is", "LONG": "l", "LONGS": "ls", "FLOAT": "f", "FLOATS": "fs", "BOOLEAN": "b", "BOOL": "b", "STRING": "s",
}
# Attributes of all operators, which are about their origin and their device.
LEFT_OUT = ("op_callstack", "op_device", "op_namescope", "op_role", "op_role_var", "use_cudnn", "use_mkldnn")
INT32, INT64, FLOAT32 = 2, 3, 5
cases, elements, counts = [], {}, {}


def fact(array):
    """Stores the elements of an array, and returns its type, its dims, and where they are."""
    array = np.asarray(array)
    parts = elements.setdefault(array.dtype.name, [0, []])
    begin = parts[0]
    parts[0] += array.size
    parts[1].append(array.reshape(-1))
    return [array.dtype.name, list(array.shape), begin]


def case(kind, inputs, attributes=None, outputs=("Out",)):
    """Runs an operator. An input is an array, or a list of some."""
    counts[kind] = counts.get(kind, 0) + 1
    program, feed, slots, attributes = fluid.Program(), {}, {}, attributes or {}
    with fluid.program_guard(program):
        block = program.global_block()
        for slot, values in inputs.items():
            values = values if isinstance(values, list) else [values]
            slots[slot] = [f"{slot}{place}" if len(values) > 1 else slot for place in range(len(values))]
            for name, value in zip(slots[slot], values):
                block.create_var(name=name, shape=value.shape, dtype=value.dtype.name, is_data=True)
                feed[name] = value
        written = {slot: [f"{slot}_out"] for slot in outputs}
        variables = {slot: [block.create_var(name=name, dtype="float32") for name in names] for slot, names in written.items()}
        if kind.endswith("_grad"):
            desc = append_gradient(block, kind, slots, written, attributes)
        else:
            desc = block.append_op(type=kind, inputs=slots, outputs=variables, attrs=dict(attributes)).desc
    fetched = [names[0] for names in written.values()]
    results = fluid.Executor(PLACE).run(program, feed=feed, fetch_list=fetched)
    code = lambda name: TYPES[str(desc.attr_type(name)).rpartition(".")[2]]
    cases.append({
        "name": f"{kind}-{counts[kind]}",
        "kind": kind,
        "inputs": slots,
        "outputs": written,
        "attributes": {f"{name}:{code(name)}": desc.attr(name) for name in sorted(desc.attr_names()) if name not in LEFT_OUT},
        "feed": {name: fact(value) for name, value in feed.items()},
        "fetch": {name: fact(value) for name, value in zip(fetched, results)},
    })


def append_gradient(block, kind, inputs, outputs, attributes):
    """Appends an operator that Python's registry does not have."""
    desc = block.desc.append_op()
    desc.set_type(kind)
    for slot, names in inputs.items():
        desc.set_input(slot, names)
    for slot, names in outputs.items():
        desc.set_output(slot, names)
    for name, value in attributes.items():
        desc._set_attr(name, value)
    desc.check_attrs()
    desc.infer_shape(block.desc)
    return desc


def normal(*shape, dtype="float32", key=""):
    random = np.random.RandomState(zlib.crc32(f"{shape}{key}".encode()) % 2**32)
    return (np.round(random.standard_normal(shape) * 128) / 64).astype(dtype)


def numbers(*values, dtype="int32"):
    return np.array(values, dtype)


for dims, target in [((2, 3), (4, 3)), ((1, 2, 2), (3, 4, 2)), ((3,), (6,))]:
    case("expand_as", {"X": normal(*dims), "target_tensor": normal(*target)})
case("expand_as", {"X": numbers(1, 2, 3), "target_tensor": numbers(*range(6))})

for mode in ("constant", "reflect", "edge"):
    for layout, dims in [("NCHW", (2, 2, 4, 5)), ("NHWC", (1, 4, 5, 2))]:
        case("pad2d", {"X": normal(*dims)}, {"paddings": [1, 0, 2, 3], "mode": mode, "pad_value": 0.5, "data_format": layout})
    case("pad2d", {"X": normal(1, 2, 4, 5, dtype="float64"), "Paddings": numbers(0, 2, 1, 1)}, {"paddings": [0, 0, 0, 0], "mode": mode})
case("pad2d", {"X": normal(1, 1, 2, 3)}, {"paddings": [1, 1, 0, 2]})

lstm = ("C", "H")
for bias in (0.0, 1.5):
    case("lstm_unit", {"X": normal(3, 8), "C_prev": normal(3, 2)}, {"forget_bias": bias}, lstm)
case("lstm_unit", {"X": normal(2, 12, dtype="float64"), "C_prev": normal(2, 3, dtype="float64")}, {}, lstm)

case("space_to_depth", {"X": normal(1, 4, 4, 6)}, {"blocksize": 2})
case("space_to_depth", {"X": normal(2, 8, 2, 4)}, {"blocksize": 2})
case("space_to_depth", {"X": normal(1, 9, 3, 6)}, {"blocksize": 3})
case("space_to_depth", {"X": normal(1, 8, 4, 2, dtype="float64")}, {"blocksize": 2})

classes = numbers(0, 2, 1, 2, dtype="int64")
for dtype in (FLOAT32, INT32, INT64):
    case("one_hot", {"X": classes.reshape(4, 1)}, {"depth": 3, "dtype": dtype})
case("one_hot", {"X": classes.reshape(2, 2, 1).astype("int32")}, {"depth": 4, "dtype": FLOAT32})
case("one_hot", {"X": classes.reshape(4, 1), "depth_tensor": numbers(5)}, {"dtype": FLOAT32})
outside = numbers(0, 5, -1, 2, dtype="int64").reshape(4, 1)
case("one_hot", {"X": outside}, {"depth": 3, "dtype": FLOAT32, "allow_out_of_range": True})

x = normal(2, 1, 3, 1, 4)
for axis in (0, 1, 2, 4, 5):
    case("flatten", {"X": x}, {"axis": axis})
case("flatten", {"X": normal(2, 3, 4)})
for axes in ([1], [1, 3], [-2], [], [3, 3]):
    case("squeeze", {"X": x}, {"axes": axes})
for axes in ([0], [1, 3], [-1], [0, 0], [2, -1]):
    case("unsqueeze", {"X": normal(2, 3)}, {"axes": axes})
case("unsqueeze", {"X": normal(2, 3), "AxesTensor": numbers(0, 2)})
case("unsqueeze", {"X": normal(2, 3), "AxesTensorList": [numbers(1), numbers(3)]})
case("unsqueeze", {"X": numbers(1, 2, 3)}, {"axes": [1]})

for kind, given, attributes in [
    ("flatten", (2, 12), {"axis": 1}),
    ("flatten", (6, 4), {"axis": 4}),
    ("squeeze", (2, 3, 4), {"axes": [1, 3]}),
    ("squeeze", (2, 3, 1, 4), {"axes": [1]}),
]:
    case(f"{kind}_grad", {"X": x, "Out@GRAD": normal(*given)}, attributes, ["X@GRAD"])
for given, axes in [((1, 2, 3), [0]), ((2, 1, 3, 1), [1, 3])]:
    case("unsqueeze_grad", {"X": normal(2, 3), "Out@GRAD": normal(*given)}, {"axes": axes}, ["X@GRAD"])


def main(directory):
    head = {"schema": 1, "framework": "paddlepaddle==1.8.5", "script": os.path.basename(__file__)}
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    with open(os.path.join(directory, "old.json"), "w") as file:
        file.write(json.dumps(head)[:-1] + ', "cases": [\n' + lines + "\n]}\n")
    arrays = {name: np.concatenate(parts) for name, (_, parts) in sorted(elements.items())}
    np.savez_compressed(os.path.join(directory, "elements.npz"), **arrays)
    print(len(cases), "cases of", len(counts), "operators")


main(sys.argv[1])
