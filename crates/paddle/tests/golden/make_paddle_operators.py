"""Records PaddlePaddle 2.6.2's results of single operators.

    python make_paddle_operators.py OUT_DIR

Writes a JSON file for each family of operators, one case per line, and `elements.npz`, the elements of all
tensors: an array for each element type; a tensor is described by its shape and its offset in the array. A second
run writes the same cases and elements.

A case is a program of one operator: `inputs` and `outputs` have its variables by slot, `attributes` those
that are set, with their type after a colon (`i` INT, `l` LONG, `f` FLOAT, `d` FLOAT64, `b` BOOLEAN,
`s` STRING; doubled or with an `s`: a list). `feed` has the inputs and `fetch` the recorded
outputs; other variables were not fetched, because their contents are unspecified.
"""

import json
import os
import sys
import zlib

os.environ.setdefault("GLOG_minloglevel", "3")
os.environ["FLAGS_cpu_deterministic"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import paddle
from paddle.base import core

FRAMEWORK = "paddlepaddle==2.6.2"
static = paddle.static
PLACE = paddle.CPUPlace()

F32, F64, I32, I64, BOOL = "float32", "float64", "int32", "int64", "bool"
CODES = {BOOL: 0, I32: 2, I64: 3, "float16": 4, F32: 5, F64: 6, "uint8": 20, "int8": 21, "bfloat16": 22}
# NumPy has no `bfloat16`: PaddlePaddle accepts and returns its bits.
NAMES = {"uint16": "bfloat16"}
TYPES = {
    "INT": "i", "INTS": "is", "LONG": "l", "LONGS": "ls", "FLOAT": "f", "FLOATS": "fs",
    "FLOAT64": "d", "FLOAT64S": "ds", "BOOL": "b", "BOOLS": "bs", "STRING": "s", "STRINGS": "ss",
    "SCALAR": "sc", "SCALARS": "scs",
}


class Lod:
    """An array with the lengths of its sequences, top level first."""

    def __init__(self, array, lengths):
        self.array, self.lengths = array, lengths


class Recorder:
    def __init__(self):
        self.families, self.cases, self.elements, self.failed, self.counts = {}, [], {}, [], {}
        self.executor = static.Executor(PLACE)

    def store(self, tensor):
        """Appends a tensor's elements, and returns their location."""
        array = np.asarray(tensor)
        name = NAMES.get(array.dtype.name, array.dtype.name)
        parts = self.elements.setdefault(name, [0, []])
        begin = parts[0]
        parts[0] += array.size
        parts[1].append(array.reshape(-1))
        return name, list(array.shape), begin

    def family(self, name):
        """Starts a file: the following cases belong to it."""
        self.cases = self.families[name] = []

    def case(self, kind, inputs, attributes=None, outputs=("Out",), silent=()):
        """Runs one operator. `outputs` lists its slots, or maps each to its number of variables or to the input that it
        overwrites; those of `silent` are written, but not fetched."""
        number = self.counts[kind] = self.counts.get(kind, 0) + 1
        try:
            self.run(f"{kind}-{number}", kind, inputs, attributes or {}, outputs, silent)
        except Exception as error:
            text = str(error).strip().splitlines()
            what = next((line for line in text if "Error:" in line and "paddle" not in line), text[-1:])
            self.failed.append(f"{kind}-{number}: {what} {attributes}")

    def run(self, name, kind, inputs, attributes, outputs, silent):
        program, op, feed = self.build(kind, inputs, attributes, outputs)
        facts = {variable: self.facts(tensor) for variable, tensor in feed.items()}
        written = {slot: op.output(slot) for slot in outputs}
        fetched = [name for slot in outputs if slot not in silent for name in written[slot]]
        results = self.executor.run(program, feed=feed, fetch_list=fetched, return_numpy=False)
        results = {variable: self.facts(result) for variable, result in zip(fetched, results)}
        slots = {slot: op.input(slot) for slot in inputs}
        told = self.told(op.desc, attributes)
        case = {"name": name, "kind": kind, "inputs": slots, "outputs": written, "attributes": told}
        self.cases.append({**case, "feed": facts, "fetch": results})

    def build(self, kind, inputs, attributes, outputs):
        """Returns a program of one operator, the operator, and its inputs."""
        outputs = outputs if isinstance(outputs, dict) else {slot: 1 for slot in outputs}
        program, feed = static.Program(), {}
        with static.program_guard(program):
            block = program.global_block()
            slots = {}
            for slot, values in inputs.items():
                values = values if isinstance(values, list) else [values]
                names = []
                for place, value in enumerate(values):
                    variable = f"{slot}{place}" if len(values) > 1 else slot
                    lengths = value.lengths if isinstance(value, Lod) else []
                    array = np.asarray(value.array if isinstance(value, Lod) else value)
                    block.create_var(
                        name=variable, shape=array.shape, dtype=array.dtype.name,
                        lod_level=len(lengths), is_data=True,
                    )
                    tensor = core.LoDTensor()
                    tensor.set(array, PLACE)
                    if lengths:
                        tensor.set_recursive_sequence_lengths(lengths)
                    feed[variable] = tensor
                    names.append(variable)
                slots[slot] = names
            written = {}
            for slot, count in outputs.items():
                if isinstance(count, str):
                    names = [count]
                else:
                    names = [f"{slot}_out{n}" if count > 1 else f"{slot}_out" for n in range(count)]
                    for variable in names:
                        block.create_var(name=variable)
                written[slot] = names
            op = block.append_op(type=kind, inputs=slots, outputs=written, attrs=dict(attributes))
        return program, op, feed

    def told(self, desc, attributes):
        """Returns the attributes of an operator in the form of a case."""
        told = {}
        for attribute in attributes:
            code = TYPES[desc.attr_type(attribute).name]
            # Scalars are objects.
            value = attributes[attribute] if code == "scs" else desc.attr(attribute)
            # JSON has no infinities.
            told[f"{attribute}:{code}"] = str(value) if value in [float("inf"), float("-inf")] else value
        return told

    def facts(self, tensor):
        fact = list(self.store(tensor))
        lod = tensor.lod()
        return fact + [lod] if lod else fact

    def write(self, directory):
        head = {"schema": 1, "framework": FRAMEWORK, "script": os.path.basename(__file__)}
        for family, cases in self.families.items():
            lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
            with open(os.path.join(directory, f"{family}.json"), "w") as file:
                file.write(json.dumps(head)[:-1] + ', "cases": [\n' + lines + "\n]}\n")
        arrays = {name: np.concatenate(parts) for name, (_, parts) in sorted(self.elements.items())}
        np.savez_compressed(os.path.join(directory, "elements.npz"), **arrays)


record = Recorder()
case = record.case


def normal(*shape, dtype=F32, scale=1.0, key=""):
    """Returns numbers around 0, determined by the shape and the key; rounded, so that they compress."""
    random = np.random.RandomState(zlib.crc32(f"{shape}{key}".encode()) % 2**32)
    return np.asarray(np.round(random.standard_normal(shape) * 2 * 64) / 64 * scale).astype(dtype)


def positive(*shape, dtype=F32, key=""):
    return (np.abs(normal(*shape, key=key)) + 0.125).astype(dtype)


def integers(*shape, low=-5, high=6, dtype=I64, key=""):
    random = np.random.RandomState(zlib.crc32(f"i{shape}{key}".encode()) % 2**32)
    return np.asarray(random.randint(low, high, shape)).astype(dtype)


def bools(*shape, key=""):
    return integers(*shape, low=0, high=2, dtype=BOOL, key=key)


def shares(*shape, dtype=F32):
    """Rows of probabilities."""
    values = positive(*shape)
    return (values / values.sum(-1, keepdims=True)).astype(dtype)


def numbers(*values, dtype=I64):
    return np.array(values, dtype)


def convolutions():
    filters = {"strides": [1, 1], "paddings": [0, 0], "dilations": [1, 1], "groups": 1}

    def conv(kind, x, filter, **attributes):
        case(kind, {"Input": x, "Filter": filter}, {**filters, **attributes}, ["Output"])

    x, w = normal(2, 3, 7, 6), normal(4, 3, 3, 2)
    conv("conv2d", x, w)
    conv("conv2d", x.astype(F64), w.astype(F64))
    conv("conv2d", x, w, strides=[2, 1], paddings=[1, 2])
    conv("conv2d", x, w, strides=[2, 3], paddings=[1, 0, 2, 1])
    conv("conv2d", x, w, dilations=[2, 3])
    conv("conv2d", x, w, padding_algorithm="SAME", strides=[2, 2])
    conv("conv2d", x, w, padding_algorithm="SAME", dilations=[2, 2])
    conv("conv2d", x, w, padding_algorithm="VALID", paddings=[1, 1])
    conv("conv2d", normal(2, 4, 5, 5), normal(6, 2, 3, 3), groups=2, paddings=[1, 1])
    conv("conv2d", normal(1, 7, 6, 3), w, data_format="NHWC", paddings=[1, 1])
    conv("conv2d", normal(1, 7, 6, 3), w, data_format="NHWC", padding_algorithm="SAME", strides=[2, 2])
    conv("conv2d", normal(1, 1, 1, 1), normal(1, 1, 1, 1))
    conv("depthwise_conv2d", normal(2, 3, 5, 6), normal(3, 1, 3, 3), groups=3, paddings=[1, 1])
    conv("depthwise_conv2d", normal(2, 3, 5, 6), normal(6, 1, 3, 3), groups=3, strides=[2, 2])
    conv("depthwise_conv2d", normal(2, 5, 6, 3), normal(3, 1, 3, 3), groups=3, data_format="NHWC")
    w = normal(3, 2, 3, 2)
    x = normal(2, 3, 4, 5)
    conv("conv2d_transpose", x, w)
    conv("conv2d_transpose", x.astype(F64), w.astype(F64), strides=[2, 2])
    conv("conv2d_transpose", x, w, strides=[2, 3], paddings=[1, 0])
    conv("conv2d_transpose", x, w, strides=[2, 3], paddings=[1, 0, 0, 1])
    conv("conv2d_transpose", x, w, strides=[2, 2], output_padding=[1, 1])
    conv("conv2d_transpose", x, w, strides=[2, 2], output_size=[10, 11])
    conv("conv2d_transpose", x, w, dilations=[2, 2])
    conv("conv2d_transpose", normal(2, 4, 3, 3), normal(4, 3, 3, 3), groups=2, strides=[2, 2])
    conv("conv2d_transpose", x, w, padding_algorithm="SAME", strides=[2, 2])
    conv("conv2d_transpose", x, w, padding_algorithm="VALID", paddings=[1, 1])
    conv("conv2d_transpose", normal(1, 4, 5, 3), w, data_format="NHWC", strides=[2, 1])
    conv("depthwise_conv2d_transpose", normal(2, 3, 4, 4), normal(3, 1, 3, 3), groups=3, strides=[2, 2])
    filters.update(strides=[1, 1, 1], paddings=[0, 0, 0], dilations=[1, 1, 1])
    x, w = normal(1, 2, 4, 5, 3), normal(3, 2, 2, 3, 2)
    conv("conv3d", x, w)
    conv("conv3d", x, w, strides=[1, 2, 1], paddings=[1, 0, 1])
    conv("conv3d", x, w, paddings=[1, 0, 0, 1, 1, 1])
    conv("conv3d", normal(1, 4, 5, 3, 2), w, data_format="NDHWC")
    conv("conv3d", x, w, padding_algorithm="SAME", strides=[2, 2, 2])


def pooling():
    x = normal(2, 3, 7, 6)
    for kind in ["max", "avg"]:
        def pool(x=x, ksize=(3, 2), **attributes):
            attributes = {"pooling_type": kind, "ksize": list(ksize), **attributes}
            case("pool2d", {"X": x}, attributes)

        pool()
        pool(x.astype(F64), strides=[2, 2])
        pool(strides=[2, 2], paddings=[1, 1])
        pool(strides=[2, 2], paddings=[1, 1], exclusive=False)
        pool(strides=[2, 2], paddings=[1, 0, 0, 1])
        pool(strides=[2, 2], paddings=[1, 0, 0, 1], exclusive=False)
        for paddings in [[0, 2, 0, 1], [2, 0, 1, 0]]:
            for ceil in [False, True]:
                more = {"paddings": paddings, "strides": [2, 2], "ceil_mode": ceil}
                pool(normal(1, 2, 5, 6), exclusive=False, **more)
        pool(strides=[3, 4], ceil_mode=True)
        pool(strides=[3, 4], ceil_mode=True, paddings=[1, 1], exclusive=False)
        pool(strides=[2, 2], padding_algorithm="SAME")
        pool(strides=[2, 3], padding_algorithm="SAME", exclusive=False)
        pool(strides=[2, 2], padding_algorithm="VALID", paddings=[1, 1])
        pool(global_pooling=True)
        pool(adaptive=True, ksize=[1, 1])
        pool(adaptive=True, ksize=[7, 3])
        pool(adaptive=True, ksize=[4, 5])
        pool(adaptive=True, ksize=[9, 2])
        pool(normal(2, 7, 6, 3), data_format="NHWC", strides=[2, 2])
        pool(normal(2, 7, 6, 3), data_format="NHWC", global_pooling=True)
        pool(normal(2, 7, 6, 3), data_format="NHWC", adaptive=True, ksize=[3, 4])
        pool(normal(1, 1, 1, 1), ksize=[1, 1])
        case("pool3d", {"X": normal(1, 2, 4, 5, 3)}, {
            "pooling_type": kind, "ksize": [2, 3, 2], "strides": [2, 1, 1], "paddings": [1, 0, 1],
        })


def normalization():
    def batch(x, channels, wanted, **attributes):
        inputs = {
            "X": x, "Scale": normal(channels, key="scale", dtype=x.dtype),
            "Bias": normal(channels, key="bias", dtype=x.dtype),
            "Mean": normal(channels, key="mean", dtype=x.dtype),
            "Variance": positive(channels, dtype=x.dtype),
        }
        outputs = {"Y": 1, "MeanOut": "Mean", "VarianceOut": "Variance", "SavedMean": 1, "SavedVariance": 1}
        if "SavedMean" in wanted:
            outputs["ReserveSpace"] = 1
        case("batch_norm", inputs, attributes, outputs, [slot for slot in outputs if slot not in wanted])

    trained = ["Y", "MeanOut", "VarianceOut", "SavedMean", "SavedVariance"]
    fixed = ["Y", "MeanOut", "VarianceOut"]
    for x, channels in [(normal(2, 3, 4, 5), 3), (normal(4, 3), 3), (normal(2, 3, 5), 3), (normal(1, 2, 2, 3, 2), 2)]:
        batch(x, channels, fixed, is_test=True)
        batch(x, channels, fixed, use_global_stats=True, epsilon=1e-3)
        batch(x, channels, trained, momentum=0.75)
        batch(x.astype(F64), channels, trained)
    batch(normal(2, 4, 5, 3), 3, fixed, is_test=True, data_layout="NHWC")
    batch(normal(2, 4, 5, 3), 3, trained, data_layout="NHWC")
    batch(normal(4, 3), 3, trained, data_layout="NHWC")
    batch(normal(2, 5, 3), 3, trained, data_layout="NHWC")
    batch(normal(2, 3, 4, 5), 3, trained, is_test=True, trainable_statistics=True)
    batch(normal(2, 3, 4, 5), 3, fixed, is_test=False, trainable_statistics=True, use_global_stats=True)

    for shape, axis in [((3, 4), 1), ((2, 3, 4), 1), ((2, 3, 4), 2), ((2, 3, 2, 3), 2), ((3, 1), 1)]:
        for dtype in [F32, F64]:
            many = int(np.prod(shape[axis:]))
            x = normal(*shape, dtype=dtype)
            inputs = {"X": x, "Scale": normal(many, dtype=dtype), "Bias": normal(many, key="b", dtype=dtype)}
            slots = ["Y", "Mean", "Variance"]
            case("layer_norm", inputs, {"begin_norm_axis": axis}, slots)
            case("layer_norm", {"X": x}, {"begin_norm_axis": axis, "epsilon": 1e-3}, slots)
            case("layer_norm", {"X": x, "Scale": inputs["Scale"]}, {"begin_norm_axis": axis}, slots)
    for shape in [(2, 3, 4, 5), (2, 3, 4), (1, 2, 2, 3, 2)]:
        inputs = {"X": normal(*shape), "Scale": normal(shape[1]), "Bias": normal(shape[1], key="b")}
        slots = ["Y", "SavedMean", "SavedVariance"]
        case("instance_norm", inputs, {"epsilon": 1e-3}, slots)
        case("instance_norm", {"X": inputs["X"]}, {}, slots)
    for groups in [1, 2, 4]:
        inputs = {"X": normal(2, 4, 3, 2), "Scale": normal(4), "Bias": normal(4, key="b")}
        slots = ["Y", "Mean", "Variance"]
        case("group_norm", inputs, {"groups": groups}, slots)
        case("group_norm", {"X": inputs["X"]}, {"groups": groups, "epsilon": 1e-3}, slots)
        case("group_norm", {**inputs, "X": normal(2, 3, 2, 4)}, {"groups": groups, "data_layout": "NHWC"}, slots)
    case("group_norm", {"X": normal(2, 4, 5, dtype=F64)}, {"groups": 2}, ["Y", "Mean", "Variance"])
    for axis in [0, 1, -1]:
        case("norm", {"X": normal(2, 3, 4)}, {"axis": axis}, ["Out", "Norm"])
        case("norm", {"X": normal(2, 3, 4)}, {"axis": axis, "epsilon": 0.5}, ["Out", "Norm"])
    case("norm", {"X": normal(2, 3, 4)}, {"axis": 1, "is_test": True}, ["Out", "Norm"], ["Norm"])
    scales = {"Scale": normal(3), "Bias": normal(3, key="b")}
    case("affine_channel", {"X": normal(2, 3, 4, 2), **scales}, {"data_layout": "NCHW"})
    case("affine_channel", {"X": normal(2, 4, 2, 3), **scales}, {"data_layout": "NHWC"})
    case("affine_channel", {"X": normal(2, 3), **scales}, {"data_layout": "NCHW"})
    for dtype in [F32, F64]:
        for way in ["upscale_in_train", "downgrade_in_infer"]:
            for share in [0.0, 0.25, 1.0]:
                attributes = {"is_test": True, "dropout_implementation": way, "dropout_prob": share}
                case("dropout", {"X": normal(3, 4, dtype=dtype)}, attributes, ["Out", "Mask"], ["Mask"])
    case("dropout", {"X": Lod(normal(3, 4), [[1, 2]])}, {"is_test": True}, ["Out", "Mask"], ["Mask"])


def tables():
    w = normal(7, 3)
    for padding in [-1, 2, 0]:
        for dtype in [I32, I64]:
            ids = integers(2, 3, low=0, high=7, dtype=dtype)
            case("lookup_table_v2", {"W": w, "Ids": ids}, {"padding_idx": padding})
        column = integers(5, 1, low=0, high=7)
        case("lookup_table", {"W": w, "Ids": Lod(column, [[2, 3]])}, {"padding_idx": padding})
    case("lookup_table_v2", {"W": w.astype(F64), "Ids": integers(4, low=0, high=7)}, {"padding_idx": 5})
    case("lookup_table", {"W": w, "Ids": integers(2, 3, 1, low=0, high=7)})
    case("lookup_table", {"W": w, "Ids": Lod(integers(5, 1, low=0, high=7), [[1, 2], [2, 2, 1]])})
    case("lookup_table_v2", {"W": w, "Ids": Lod(integers(5, 1, low=0, high=7), [[2, 3]])})
    # This release has no `one_hot`.
    kind = "one_hot_v2"
    for shape in [(4,), (2, 3)]:
        for dtype in [I32, I64]:
            ids = integers(*shape, low=0, high=5, dtype=dtype)
            case(kind, {"X": ids}, {"depth": 5, "dtype": CODES[F32]})
            case(kind, {"X": ids, "depth_tensor": numbers(6, dtype=I32)}, {"dtype": CODES[F32]})
    case(kind, {"X": Lod(numbers(0, 1, 2), [[1, 2]])}, {"depth": 5, "dtype": CODES[F64]})


UNARY = {
    "relu": {}, "relu6": {}, "leaky_relu": {"alpha": 0.1}, "elu": {"alpha": 0.5}, "gelu": {"approximate": True},
    "tanh": {}, "sigmoid": {}, "logsigmoid": {}, "hard_sigmoid": {"slope": 0.25, "offset": 0.375},
    "hard_swish": {"threshold": 4.0, "scale": 5.0, "offset": 2.0}, "swish": {"beta": 1.5}, "silu": {},
    "softplus": {"beta": 2.0, "threshold": 3.0}, "softsign": {}, "exp": {}, "square": {}, "abs": {}, "floor": {},
    "ceil": {}, "round": {}, "sign": {}, "sin": {}, "cos": {}, "erf": {}, "brelu": {"t_min": -1.0, "t_max": 1.5},
    "thresholded_relu": {"threshold": 0.5}, "hard_shrink": {"threshold": 0.75}, "softshrink": {"lambda": 0.75},
    "selu": {"scale": 1.25, "alpha": 1.5}, "mish": {"threshold": 2.0}, "reciprocal": {},
}
POSITIVE = ["log", "log2", "log1p", "sqrt", "rsqrt"]


def activations():
    special = np.array([-40.0, -25.0, -3.5, -2.5, -0.5, 0.0, 0.5, 1.5, 2.5, 6.0, 25.0, 40.0], F32)
    for kind, attributes in UNARY.items():
        for dtype in [F32, F64]:
            x = normal(2, 3, 4, dtype=dtype, key=kind)
            x = np.where(x == 0, 0.25, x).astype(dtype)
            case(kind, {"X": x})
            if attributes:
                case(kind, {"X": x}, attributes)
        values = special if kind != "reciprocal" else special[special != 0]
        case(kind, {"X": values})
        case(kind, {"X": Lod(positive(3, 2), [[1, 2]])})
    case("relu6", {"X": special}, {"threshold": 4.0})
    for kind in POSITIVE:
        for dtype in [F32, F64]:
            case(kind, {"X": positive(2, 3, 4, dtype=dtype)})
        case(kind, {"X": np.array([1e-7, 1e-3, 1.0, 3.0, 1e6], F32)})
    case("log", {"X": np.array([0.0, -1.0, 1.0], F32)})
    case("log1p", {"X": np.array([-0.5, 1e-9, -1e-6], F32)})
    for kind in ["abs", "square", "sign"]:
        for dtype in [I32, I64] if kind != "sign" else []:
            case(kind, {"X": integers(2, 3, dtype=dtype)})
    for kind in ["relu", "exp", "floor", "tanh"]:
        case(kind, {"X": normal(1)})
        case(kind, {"X": normal()})
        case(kind, {"X": normal(2, 1, 3, 1)})
    for axis in [-1, 0, 1]:
        for dtype in [F32, F64]:
            x = normal(2, 3, 4, dtype=dtype)
            case("softmax", {"X": x}, {"axis": axis})
            case("log_softmax", {"X": x}, {"axis": axis})
    case("softmax", {"X": normal(4)})
    case("softmax", {"X": normal(3, 1)})
    case("softmax", {"X": normal(2, 2, 2, 3)})
    case("softmax", {"X": np.array([[1000.0, 0.0, -1000.0]], F32)})
    case("softmax", {"X": Lod(normal(3, 4), [[2, 1]])})
    case("softmax", {"X": normal()})
    for dtype in [F32, F64]:
        case("pow", {"X": positive(2, 3, dtype=dtype)}, {"factor": 2.5})
        case("pow", {"X": normal(2, 3, dtype=dtype)}, {"factor": 3.0})
    case("pow", {"X": normal(2, 3)}, {"factor": 2.0})
    case("pow", {"X": positive(2, 3), "FactorTensor": np.array([1.5], F32)})
    case("pow", {"X": integers(2, 3)}, {"factor": 2.0})
    case("pow", {"X": integers(2, 3, dtype=I32)}, {"factor": 3.0})
    for dtype in [F32, F64, I32, I64]:
        x = integers(2, 3, dtype=dtype)
        case("scale", {"X": x}, {"scale": 2.0, "bias": 3.0})
        case("scale", {"X": x}, {"scale": 2.0, "bias": 3.0, "bias_after_scale": False})
        case("scale", {"X": x})
        case("clip", {"X": x}, {"min": -2.0, "max": 3.0})
    case("scale", {"X": normal(2, 3), "ScaleTensor": np.array([1.5], F32)}, {"bias": 0.5})
    case("scale", {"X": integers(2, 3)}, {"scale": 0.5, "bias": 1.0})
    case("scale", {"X": integers(2, 3, key="h")}, {"scale": 1.5, "bias": 0.75, "bias_after_scale": False})
    case("clip", {"X": normal(3, 3), "Min": np.array([-0.5], F32), "Max": np.array([0.75], F32)}, {"min": 0.0, "max": 0.0})
    case("clip", {"X": normal(3, 3), "Max": np.array([0.75], F32)}, {"min": -1.0, "max": 0.0})
    for mode, alpha in [("all", (1,)), ("channel", (3,)), ("element", (1, 3, 4, 2))]:
        case("prelu", {"X": normal(2, 3, 4, 2), "Alpha": normal(*alpha, key="a")}, {"mode": mode})
    case("prelu", {"X": normal(2, 4, 2, 3), "Alpha": normal(3, key="a")}, {"mode": "channel", "data_format": "NHWC"})
    case("prelu", {"X": normal(2, 3), "Alpha": normal(3, key="a")}, {"mode": "channel"})
    odd = np.array([1.0, np.nan, np.inf, -np.inf, 0.0])
    for kind in ["isnan_v2", "isfinite_v2"]:
        for dtype in [F32, F64]:
            case(kind, {"X": odd.astype(dtype)})
        case(kind, {"X": integers(2, 2)})
    case("logical_not", {"X": bools(2, 3)})


def pairs():
    shapes = [
        ((2, 3, 4), (2, 3, 4), -1), ((2, 3, 4), (4,), -1), ((2, 3, 4), (3,), 1), ((2, 3, 4), (2, 3), 0),
        ((2, 3, 4), (3, 4), 1), ((2, 3, 4), (1,), -1), ((2, 1, 4), (3, 1), -1), ((4,), (2, 4), -1),
        ((), (2, 3), -1), ((2, 3), (), -1), ((2, 3, 4, 2), (3, 4), 1), ((2, 3, 4), (3, 1), 1),
    ]
    for kind in ["add", "sub", "mul", "div", "max", "min", "pow", "floordiv", "mod"]:
        some = shapes if kind in ["add", "sub"] else shapes[:4] + shapes[6:8]
        for x, y, axis in some:
            left, right = positive(*x, key="x"), positive(*y, key="y")
            left = left if kind == "pow" else normal(*x, key="x")
            case(f"elementwise_{kind}", {"X": left, "Y": right}, {"axis": axis})
        for dtype in [F64, I32, I64]:
            left, right = integers(3, 4, dtype=dtype), integers(4, low=1, dtype=dtype, key="y")
            case(f"elementwise_{kind}", {"X": left, "Y": right})
            if kind in ["div", "floordiv", "mod"]:
                case(f"elementwise_{kind}", {"X": left, "Y": -right})
    case("elementwise_mod", {"X": normal(3, 4), "Y": -positive(4)})
    case("elementwise_floordiv", {"X": normal(3, 4), "Y": -positive(4)})
    case("elementwise_pow", {"X": normal(3, 4), "Y": np.array([2, 3, 0, 1], F32)})
    case("elementwise_add", {"X": Lod(normal(3, 4), [[1, 2]]), "Y": normal(4)})
    case("elementwise_add", {"X": normal(3, 4), "Y": Lod(normal(3, 4), [[1, 2]])})
    case("elementwise_max", {"X": np.array([1, np.nan, 2], F32), "Y": np.array([np.nan, 1, 3], F32)})
    for kind in ["equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal"]:
        for dtype in [F32, F64, I32, I64]:
            case(kind, {"X": integers(3, 4, low=0, high=3, dtype=dtype), "Y": integers(4, low=0, high=3, dtype=dtype)})
        case(kind, {"X": bools(3, 4), "Y": bools(3, 4, key="y")})
        case(kind, {"X": integers(2, 1, 4, low=0, high=3), "Y": integers(3, 1, low=0, high=3)})
        case(kind, {"X": numbers(3), "Y": numbers(3)})
    case("less_than", {"X": np.array([np.nan, 1], F32), "Y": np.array([1, np.nan], F32)})
    for kind in ["logical_and", "logical_or", "logical_xor"]:
        case(kind, {"X": bools(3, 4), "Y": bools(3, 4, key="y")})
        case(kind, {"X": bools(3, 4), "Y": bools(4, key="y")})
        case(kind, {"X": integers(6, low=-1, high=2), "Y": integers(6, low=-1, high=2, key="y")})
        case(kind, {"X": np.array([0, 0.5, 2], F32), "Y": np.array([1, 0.25, 0], F32)})
    case("logical_not", {"X": np.array([0, 0.5, 2], F32)})
    case("logical_not", {"X": numbers(0, 1, 2)})
    for dtype in [F32, F64, I32, I64]:
        case("sum", {"X": [integers(2, 3, dtype=dtype, key=str(n)) for n in range(3)]})
    case("sum", {"X": normal(2, 3)})
    case("sum", {"X": [Lod(normal(3, 2), [[1, 2]]), Lod(normal(3, 2, key="2"), [[1, 2]])]})


def reductions():
    for kind in ["sum", "mean", "max", "min", "prod"]:
        name = f"reduce_{kind}"
        for dims, keep, all_of_it in [
            ([0], False, False), ([1], True, False), ([-1], False, False), ([0, 2], False, False),
            ([0, 2], True, False), ([0], False, True), ([0], True, True), ([0, 1, 2], False, False),
            ([-1, 0], False, False),
        ]:
            case(name, {"X": normal(2, 3, 4)}, {"dim": dims, "keep_dim": keep, "reduce_all": all_of_it})
        case(name, {"X": normal(2, 3, 4)}, {"dim": [], "reduce_all": True})
        for dtype in [F64] if kind == "mean" else [F64, I32, I64]:
            case(name, {"X": integers(3, 4, dtype=dtype)}, {"dim": [1]})
        case(name, {"X": normal()}, {"dim": [], "reduce_all": True})
        case(name, {"X": normal(5)}, {"dim": [0]})
        case(name, {"X": normal(2, 1, 3, 1)}, {"dim": [1, 3]})
        case(name, {"X": Lod(normal(3, 4), [[1, 2]])}, {"dim": [1]})
    case("reduce_sum", {"X": integers(3, 4, dtype=I32)}, {"dim": [0], "in_dtype": 2, "out_dtype": 3})
    case("reduce_sum", {"X": bools(3, 4)}, {"dim": [0], "in_dtype": 0, "out_dtype": 3})
    case("reduce_sum", {"X": bools(3, 4)}, {"dim": [0]})
    for kind in ["reduce_all", "reduce_any"]:
        for dims, keep, all_of_it in [([0], False, False), ([1], True, False), ([0, 1], False, False), ([0], False, True)]:
            case(kind, {"X": bools(3, 4)}, {"dim": dims, "keep_dim": keep, "reduce_all": all_of_it})
        case(kind, {"X": bools(2, 3, 2)}, {"dim": [-1]})
    for dtype in [F32, F64]:
        case("mean", {"X": normal(2, 3, 4, dtype=dtype)})
    case("mean", {"X": normal(1)})
    case("mean", {"X": normal()})
    case("mean", {"X": Lod(normal(3, 1), [[1, 2]])})
    for kind in ["arg_max", "arg_min"]:
        for dtype in [F32, F64, I32, I64]:
            case(kind, {"X": integers(3, 4, dtype=dtype)}, {"axis": 1})
        case(kind, {"X": normal(2, 3, 4)}, {"axis": -1, "keepdims": True})
        case(kind, {"X": normal(2, 3, 4)}, {"axis": 0, "dtype": CODES[I32]})
        case(kind, {"X": normal(2, 3, 4)}, {"axis": 1, "dtype": -1})
        case(kind, {"X": normal(2, 3, 4)}, {"axis": 0, "flatten": True})
        case(kind, {"X": normal(2, 3, 4)}, {"axis": 0, "flatten": True, "keepdims": True})
        case(kind, {"X": normal(5)}, {"axis": 0})
    # The order of equal numbers is unspecified.
    distinct = np.random.RandomState(3).permutation(24).astype(F32).reshape(2, 3, 4) - 11.5
    for k in [1, 3]:
        for dtype in [F32, F64, I32, I64]:
            if dtype in [F32, F64]:
                case("top_k", {"X": distinct.astype(dtype)}, {"k": k}, ["Out", "Indices"])
            case("top_k_v2", {"X": np.floor(distinct).astype(dtype)}, {"k": k}, ["Out", "Indices"])
        for axis in [0, 1, -1]:
            k = min(k, distinct.shape[axis])
            case("top_k_v2", {"X": distinct}, {"k": k, "axis": axis, "largest": False}, ["Out", "Indices"])
            case("top_k_v2", {"X": distinct}, {"k": k, "axis": axis}, ["Out", "Indices"])
    case("top_k", {"X": distinct[0], "K": numbers(2, dtype=I32)}, {"k": 1}, ["Out", "Indices"])
    case("top_k_v2", {"X": distinct[0], "K": numbers(2, dtype=I32)}, {"k": 1}, ["Out", "Indices"])
    case("top_k", {"X": Lod(distinct[0], [[1, 2]])}, {"k": 2}, ["Out", "Indices"])
    for axis in [0, 1, -1]:
        for descending in [False, True]:
            attributes = {"axis": axis, "descending": descending}
            case("argsort", {"X": distinct}, attributes, ["Out", "Indices"])
            case("argsort", {"X": distinct.astype(I64)[:1, :1]}, attributes, ["Out", "Indices"])
    for dtype in [F32, F64, I32, I64]:
        x = integers(3, 4, dtype=dtype)
        case("cumsum", {"X": x}, {"axis": 0})
        case("cumsum", {"X": x}, {"axis": -1, "exclusive": True})
        case("cumsum", {"X": x}, {"axis": 1, "reverse": True})
        case("cumsum", {"X": x}, {"axis": 1, "reverse": True, "exclusive": True})
        case("cumsum", {"X": x}, {"flatten": True})
    for axes, keep, all_of_it in [([0], False, False), ([-1], True, False), ([0, 1], False, False), ([0], False, True), ([1, 2], True, False)]:
        for dtype in [F32, F64]:
            case("logsumexp", {"X": normal(2, 3, 4, dtype=dtype)}, {"axis": axes, "keepdim": keep, "reduce_all": all_of_it})
    case("logsumexp", {"X": np.array([1000, 1001], F32)}, {"axis": [0]})
    for order in [2.0, 1.0, 3.0, 0.0, float("inf"), float("-inf"), 0.5]:
        for axis, keep in [(0, False), (-1, True), (1, False)]:
            case("p_norm", {"X": normal(2, 3, 4)}, {"porder": order, "axis": axis, "keepdim": keep})
        case("p_norm", {"X": normal(2, 3)}, {"porder": order, "asvector": True})
    for dtype in [F32, F64]:
        case("squared_l2_norm", {"X": normal(2, 3, dtype=dtype)})
    case("clip_by_norm", {"X": normal(3, 4)}, {"max_norm": 1.5})
    case("clip_by_norm", {"X": normal(3, 4)}, {"max_norm": 100.0})


def moving():
    def shaped(kind, x, attributes=None, more=None):
        case(kind, {"X": x, **(more or {})}, attributes, ["Out", "XShape"], ["XShape"])

    x = normal(2, 3, 4)
    for source in [F32, F64, I32, I64, BOOL]:
        for target in [F32, F64, I32, I64, BOOL, "uint8"]:
            values = bools(2, 3) if source == BOOL else integers(2, 3, low=0, dtype=source)
            case("cast", {"X": values}, {"in_dtype": CODES[source], "out_dtype": CODES[target]})
    case("cast", {"X": np.array([-1.75, -0.5, 0.5, 1.75, 300], F32)}, {"in_dtype": 5, "out_dtype": 3})
    case("cast", {"X": np.array([-1.75, -0.5, 0.0, 1.75], F32)}, {"in_dtype": 5, "out_dtype": 0})
    case("cast", {"X": numbers(-1, 255, 256, 2**40)}, {"in_dtype": 3, "out_dtype": 2})
    for kind in ["reshape", "reshape2"]:
        run = shaped if kind == "reshape2" else (lambda kind, x, attributes, more=None: case(kind, {"X": x, **(more or {})}, attributes))
        run(kind, x, {"shape": [6, 4]})
        run(kind, x, {"shape": [-1, 2]})
        run(kind, x, {"shape": [0, -1]})
        run(kind, x, {"shape": [4, 0, 2]})
        run(kind, x, {"shape": [2, 3, 2, 2, 1]})
        run(kind, integers(2, 3), {"shape": [3, 2]})
        run(kind, bools(2, 3), {"shape": [-1]}) if kind == "reshape2" else None
        run(kind, x, {}, {"Shape": numbers(3, 8, dtype=I32)})
        run(kind, x, {"shape": [-1, 8]}, {"ShapeTensor": [numbers(3, dtype=I32), numbers(8, dtype=I32)]})
        run(kind, x, {}, {"Shape": numbers(0, -1, dtype=I32)})
        run(kind, normal(1), {"shape": []})
        run(kind, Lod(normal(3, 4), [[1, 2]]), {"shape": [3, 2, 2]})
    for kind in ["transpose2"]:
        shaped(kind, x, {"axis": [2, 0, 1]})
        shaped(kind, x, {"axis": [0, 1, 2]})
        shaped(kind, x, {"axis": [-1, 0, 1]})
        shaped(kind, normal(2, 3, 2, 3), {"axis": [0, 2, 3, 1]})
        shaped(kind, integers(2, 3), {"axis": [1, 0]})
        shaped(kind, bools(2, 3), {"axis": [1, 0]})
        shaped(kind, normal(4), {"axis": [0]})
    case("transpose", {"X": x}, {"axis": [1, 2, 0]})
    for axes in [[], [0], [1], [0, -1], [0, 2]]:
        shaped("squeeze2", normal(1, 3, 1), {"axes": axes})
    shaped("squeeze2", integers(1, 1, dtype=I32), {"axes": [0]})
    shaped("squeeze2", normal(1, 1), {"axes": []})
    for axes in [[0], [1], [-1], [0, 2], [0, -1], [1, 1], [3]]:
        shaped("unsqueeze2", normal(2, 3, 4), {"axes": axes})
    shaped("unsqueeze2", bools(2, 3), {"axes": [1]})
    shaped("unsqueeze2", normal(), {"axes": [0]})
    shaped("unsqueeze2", x, {}, {"AxesTensor": numbers(1, dtype=I32)})
    shaped("unsqueeze2", x, {}, {"AxesTensorList": [numbers(0, dtype=I32), numbers(2, dtype=I32)]})
    for axis in [0, 1, 2, 3]:
        shaped("flatten2", x, {"axis": axis})
    for start, stop in [(0, 2), (1, 2), (0, 1), (1, 1), (-2, -1), (0, -1)]:
        shaped("flatten_contiguous_range", x, {"start_axis": start, "stop_axis": stop})
    shaped("flatten_contiguous_range", normal(2, 3, 4, 2), {"start_axis": 1, "stop_axis": 2})
    shaped("flatten_contiguous_range", normal(), {"start_axis": 0, "stop_axis": 0})
    for axis in [0, 1, -1]:
        for dtype in [F32, F64, I32, I64]:
            case("concat", {"X": [integers(2, 3, dtype=dtype), integers(2, 3, dtype=dtype, key="2")]}, {"axis": axis})
    case("concat", {"X": [normal(2, 3), normal(2, 1), normal(2, 4)]}, {"axis": 1})
    case("concat", {"X": [bools(2, 3), bools(1, 3)]}, {"axis": 0})
    case("concat", {"X": normal(2, 3)}, {"axis": 0})
    case("concat", {"X": [normal(2, 3), normal(2, 4)], "AxisTensor": numbers(1, dtype=I32)}, {"axis": 0})
    case("concat", {"X": [Lod(normal(3, 2), [[1, 2]]), Lod(normal(3, 4), [[1, 2]])]}, {"axis": 1})
    case("split", {"X": normal(4, 6)}, {"num": 2, "axis": 0}, {"Out": 2})
    case("split", {"X": normal(4, 6)}, {"num": 3, "axis": 1}, {"Out": 3})
    case("split", {"X": normal(4, 6)}, {"sections": [1, 2, 3], "axis": 1}, {"Out": 3})
    case("split", {"X": normal(4, 6)}, {"sections": [1, -1, 3], "axis": 1}, {"Out": 3})
    case("split", {"X": integers(4, 6)}, {"sections": [4, 2], "axis": 1}, {"Out": 2})
    case("split", {"X": normal(4, 6), "AxisTensor": numbers(1, dtype=I32)}, {"num": 2, "axis": 0}, {"Out": 2})
    case("split", {"X": normal(4, 6), "SectionsTensorList": [numbers(1, dtype=I32), numbers(5, dtype=I32)]},
         {"sections": [-1, -1], "axis": 1}, {"Out": 2})
    case("split", {"X": Lod(normal(3, 4), [[1, 2]])}, {"num": 2, "axis": 1}, {"Out": 2})
    for axis in [0, 1, 2, -1]:
        case("stack", {"X": [normal(2, 3, key=str(n)) for n in range(3)]}, {"axis": axis}, ["Y"])
    case("stack", {"X": [integers(2), integers(2, key="2")]}, {"axis": 0}, ["Y"])
    case("stack", {"X": [normal(), normal(key="2")]}, {"axis": 0}, ["Y"])
    case("stack", {"X": normal(2, 3)}, {"axis": 0}, ["Y"])
    for axis in [0, 1, -1]:
        case("unstack", {"X": normal(3, 3)}, {"axis": axis, "num": 3}, {"Y": 3})
        case("unbind", {"X": normal(3, 3)}, {"axis": axis}, {"Out": 3})
    case("unstack", {"X": integers(2, 3, 2)}, {"axis": 0, "num": 2}, {"Y": 2})

    def slices(more=None, x=normal(5, 6, 4), **attributes):
        case("slice", {"Input": x, **(more or {})}, attributes)

    slices(axes=[0], starts=[1], ends=[3])
    slices(axes=[0, 2], starts=[1, -3], ends=[-1, 100])
    slices(axes=[1], starts=[-100], ends=[2])
    slices(axes=[1], starts=[2], ends=[3], decrease_axis=[1])
    slices(axes=[0, 1, 2], starts=[1, 2, 3], ends=[2, 3, 4], decrease_axis=[0, 1, 2])
    slices(axes=[0], starts=[-1], ends=[2**31 - 1], decrease_axis=[0])
    slices(x=integers(4, 3), axes=[0], starts=[1], ends=[3])
    slices(x=bools(4, 3), axes=[1], starts=[0], ends=[2])
    slices({"StartsTensor": numbers(1, 2, dtype=I32), "EndsTensor": numbers(3, 4, dtype=I32)},
           axes=[0, 1], starts=[-1, -1], ends=[-1, -1], infer_flags=[-1, -1])
    slices({"StartsTensorList": [numbers(1, dtype=I32)], "EndsTensorList": [numbers(4, dtype=I32)]},
           axes=[1], starts=[-1], ends=[-1], infer_flags=[-1])

    def strided(more=None, x=normal(5, 6), **attributes):
        # Without its flags, the operator reads beyond an empty list.
        attributes = {"infer_flags": [1] * len(attributes["axes"]), **attributes}
        case("strided_slice", {"Input": x, **(more or {})}, attributes)

    strided(axes=[0], starts=[0], ends=[5], strides=[2])
    strided(axes=[0, 1], starts=[4, 1], ends=[0, 6], strides=[-2, 2])
    strided(axes=[1], starts=[-1], ends=[-7], strides=[-1])
    strided(axes=[1], starts=[-2], ends=[100], strides=[1])
    strided(x=integers(7), axes=[0], starts=[6], ends=[1], strides=[-3])
    strided(axes=[0], starts=[1], ends=[2], strides=[1], decrease_axis=[0])
    strided({slot: [numbers(value, dtype=I32)] for slot, value in
             [("StartsTensorList", 1), ("EndsTensorList", 5), ("StridesTensorList", 2)]},
            axes=[1], starts=[-1], ends=[-1], strides=[-1], infer_flags=[-1])
    for dtype in [I32, I64]:
        for axis in [0, 1]:
            case("gather", {"X": normal(4, 5, 2), "Index": numbers(3, 0, 3, dtype=dtype)}, {"axis": axis})
        case("gather", {"X": normal(4, 5), "Index": numbers(2, 0, dtype=dtype)[:, None]})
        case("gather_nd", {"X": normal(3, 4, 2), "Index": np.array([[0, 1], [2, 3]], dtype)})
        case("gather_nd", {"X": normal(3, 4, 2), "Index": np.array([[[2], [0]]], dtype)})
        case("index_select", {"X": normal(4, 5, 2), "Index": numbers(3, 0, dtype=dtype)}, {"dim": 1})
        case("index_select", {"X": normal(4, 5), "Index": numbers(3, 0, dtype=dtype)}, {"dim": -2})
        case("index_sample", {"X": normal(3, 5), "Index": integers(3, 2, low=0, high=5, dtype=dtype)})
        for axis in [0, 1]:
            index = integers(2, 3, low=0, high=2, dtype=dtype)
            case("take_along_axis", {"Input": normal(2, 3), "Index": index}, {"Axis": axis}, ["Result"])
        case("scatter", {"X": normal(4, 3), "Ids": numbers(2, 0, dtype=dtype), "Updates": normal(2, 3, key="u")})
        case("scatter", {"X": normal(4, 3), "Ids": numbers(2, 0, 2, dtype=dtype), "Updates": normal(3, 3, key="u")}, {"overwrite": False})
        case("scatter", {"X": normal(4), "Ids": numbers(2, 0, dtype=dtype), "Updates": normal(2, key="u")})
        case("scatter", {"X": normal(4, 3), "Ids": numbers(1, 3, dtype=dtype)[:, None], "Updates": normal(2, 3, key="u")})
        index = np.array([[1], [2], [1]], dtype)
        case("scatter_nd_add", {"X": normal(4, 3), "Index": index, "Updates": normal(3, 3, key="u")})
        case("scatter_nd_add", {"X": normal(4, 3), "Index": np.array([[1, 2], [0, 0]], dtype), "Updates": normal(2, key="u")})
    case("gather", {"X": integers(4, 3), "Index": numbers(1, 2), "Axis": numbers(1, dtype=I32)}, {"axis": 0})
    case("gather_nd", {"X": integers(3, 4), "Index": np.array([[1, 1]])})
    for kind, slot in [("expand_v2", "shape")]:
        case(kind, {"X": normal(3, 1)}, {slot: [3, 4]})
        case(kind, {"X": normal(3, 1)}, {slot: [-1, 4]})
        case(kind, {"X": normal(3, 1)}, {slot: [2, 3, 4]})
        case(kind, {"X": normal(3, 1)}, {slot: [2, -1, -1]})
        case(kind, {"X": integers(1)}, {slot: [3]})
        case(kind, {"X": bools(1, 2)}, {slot: [3, 2]})
        case(kind, {"X": normal(3, 1), "Shape": numbers(3, 2, dtype=I32)}, {slot: [1, 1]})
        case(kind, {"X": normal(3, 1), "expand_shapes_tensor": [numbers(3, dtype=I32), numbers(5, dtype=I32)]}, {slot: [-1, -1]})
    case("expand_as_v2", {"X": normal(3, 1), "Y": normal(2, 3, 4)}, {"target_shape": [2, 3, 4]})
    case("expand_as_v2", {"X": normal(3, 1)}, {"target_shape": [3, 4]})
    case("expand_as_v2", {"X": integers(1, 3)}, {"target_shape": [2, 3]})
    for repeats in [[2], [1, 2], [2, 1, 3], [3, 2, 1, 2]]:
        case("tile", {"X": normal(2, 3)}, {"repeat_times": repeats})
    case("tile", {"X": integers(2)}, {"repeat_times": [3]})
    case("tile", {"X": bools(2, 1)}, {"repeat_times": [1, 2]})
    case("tile", {"X": normal(2, 3), "RepeatTimes": numbers(2, 2, dtype=I32)}, {"repeat_times": [1]})
    case("tile", {"X": normal(2, 3), "repeat_times_tensor": [numbers(2, dtype=I32), numbers(1, dtype=I32)]}, {"repeat_times": [-1, -1]})
    for dtype in [F32, F64, I32, I64]:
        case("where", {"Condition": bools(2, 3), "X": integers(2, 3, dtype=dtype), "Y": integers(2, 3, dtype=dtype, key="y")})
        case("shape", {"Input": integers(2, 3, 1, dtype=dtype)})
        case("size", {"Input": integers(2, 3, dtype=dtype)})
    case("where", {"Condition": bools(3), "X": normal(3), "Y": normal(3, key="y")})
    case("shape", {"Input": Lod(normal(3, 2), [[1, 2]])})
    for x in [bools(3, 4), bools(5), integers(2, 3, low=0, high=2), np.array([[0, 0.5], [2, 0]], F32), np.zeros((2, 2), bool)]:
        case("where_index", {"Condition": x})
    for dtype in [F32, F64, I32, I64]:
        case("masked_select", {"X": integers(3, 4, dtype=dtype), "Mask": bools(3, 4)}, {}, ["Y"])
    case("meshgrid", {"X": [normal(2), normal(3)]}, {}, {"Out": 2})
    case("meshgrid", {"X": [integers(2), integers(3), integers(1)]}, {}, {"Out": 3})
    for axes in [[0], [1], [0, 2], [-1]]:
        case("flip", {"X": normal(2, 3, 4)}, {"axis": axes})
    case("flip", {"X": bools(5)}, {"axis": [0]})
    case("roll", {"X": normal(3, 4)}, {"shifts": [1], "axis": [0]})
    case("roll", {"X": normal(3, 4)}, {"shifts": [-1, 6], "axis": [0, 1]})
    case("roll", {"X": normal(3, 4)}, {"shifts": [5], "axis": []})
    case("roll", {"X": integers(3, 4)}, {"shifts": [2], "axis": [-1]})
    for dtype in [F32, F64]:
        case("pad", {"X": normal(2, 3, dtype=dtype)}, {"paddings": [0, 1, 2, 0], "pad_value": 0.5})
    case("pad", {"X": normal(2, 1, 3)}, {"paddings": [0, 0, 1, 1, 0, 2]})
    # `pad2d` has no kernel in this release.
    for mode in ["constant", "reflect", "replicate", "circular"]:
        case("pad3d", {"X": normal(1, 2, 3, 4, 5)}, {"paddings": [1, 2, 0, 3, 2, 1], "mode": mode, "value": 1.5})
        case("pad3d", {"X": normal(1, 3, 4, 5, 2)}, {"paddings": [1, 2, 0, 3, 2, 1], "mode": mode, "data_format": "NDHWC"})
    for diagonal in [-1, 0, 1, 5]:
        for lower in [True, False]:
            case("tril_triu", {"X": normal(3, 4)}, {"diagonal": diagonal, "lower": lower})
    case("tril_triu", {"X": integers(2, 3, 3)}, {"lower": True})
    case("assign", {"X": normal(2, 3)})
    case("assign", {"X": Lod(integers(3, 1), [[1, 2]])})
    for dtype in [F32, F64, I32, I64]:
        case("increment", {"X": numbers(3, dtype=dtype)}, {"step": 2.0})


def making():
    for dtype in [F32, F64, I32, I64, BOOL]:
        case("fill_constant", {}, {"shape": [2, 3], "dtype": CODES[dtype], "value": 1.0})
        case("fill_any_like", {"X": normal(2, 3)}, {"value": 1.0 if dtype == BOOL else 3.0, "dtype": CODES[dtype]})
        x = bools(2, 3) if dtype == BOOL else integers(2, 3, dtype=dtype)
        case("fill_zeros_like", {"X": x})
        case("fill_any_like", {"X": x}, {"value": 1.0})
        case("eye", {}, {"num_rows": 3, "num_columns": 4, "dtype": CODES[dtype]}) if dtype != BOOL else None
    case("fill_constant", {}, {"shape": [2], "dtype": CODES[F32], "value": 0.1})
    case("fill_constant", {}, {"shape": [2], "dtype": CODES[F64], "value": 0.1})
    case("fill_constant", {}, {"shape": [2], "dtype": CODES[F64], "value": 0.1, "str_value": "0.1"})
    case("fill_constant", {}, {"shape": [2], "dtype": CODES[I64], "str_value": "9007199254740993"})
    case("fill_constant", {}, {"shape": [1], "dtype": CODES[F32], "str_value": "inf"})
    case("fill_constant", {}, {"shape": [1], "dtype": CODES[F32], "str_value": "-inf"})
    case("fill_constant", {}, {"shape": [1], "dtype": CODES[F32], "str_value": "nan"})
    case("fill_constant", {}, {"shape": [], "dtype": CODES[F32], "value": 2.5})
    case("fill_constant", {"ShapeTensor": numbers(2, 2, dtype=I32)}, {"shape": [], "dtype": 5, "value": 2.5})
    case("fill_constant", {"ShapeTensorList": [numbers(2, dtype=I32), numbers(3, dtype=I32)]}, {"shape": [-1, -1], "dtype": 5, "value": 2.5})
    case("fill_constant", {"ValueTensor": np.array([7.5], F32)}, {"shape": [2, 2], "dtype": 5, "value": 2.5})
    for dtype in [F32, I64]:
        attributes = {"shape": [-1, 4], "dtype": CODES[dtype], "value": 2.0}
        case("fill_constant_batch_size_like", {"Input": normal(3, 2)}, attributes)
    case("fill_constant_batch_size_like", {"Input": normal(3, 2)},
         {"shape": [5, -1], "dtype": 5, "value": 1.5, "input_dim_idx": 1, "output_dim_idx": 1})
    case("fill_constant_batch_size_like", {"Input": Lod(normal(5, 2), [[2, 3]])}, {"shape": [-1, 4], "dtype": 5, "value": 1.5})
    for name, dtype, values in [
        ("fp32_values", F32, [1.5, -2.25, 0.0, 3.0]), ("int32_values", I32, [1, -2, 0, 3]),
        ("int64_values", I64, [1, -2, 0, 3]), ("bool_values", BOOL, [1, 0, 0, 1]), ("fp64_values", F64, [1.5, -2.25, 0.1, 3.0]),
    ]:
        case("assign_value", {}, {"shape": [2, 2], "dtype": CODES[dtype], name: values})
    for dtype in [F32, F64, I32, I64]:
        for ends in [(0, 5, 2), (5, 0, -2), (1, 2, 3)]:
            case("range", {slot: numbers(value, dtype=dtype) for slot, value in zip(["Start", "End", "Step"], ends)})
    case("range", {"Start": np.array([0.5], F32), "End": np.array([2.1], F32), "Step": np.array([0.4], F32)})
    for dtype in [F32, F64, I32, I64]:
        for count in [1, 2, 5]:
            inputs = {"Start": numbers(1, dtype=dtype), "Stop": numbers(9, dtype=dtype), "Num": numbers(count, dtype=I32)}
            case("linspace", inputs, {"dtype": CODES[dtype]})
    case("linspace", {"Start": np.array([2.5], F32), "Stop": np.array([-1.3], F32), "Num": numbers(6, dtype=I32)}, {"dtype": 5})
    case("eye", {}, {"num_rows": 3, "dtype": 5})
    case("eye", {}, {"num_rows": 4, "num_columns": 2, "dtype": 5})


def products():
    for dtype in [F32, F64]:
        for x, y, tx, ty in [
            ((2, 3), (3, 4), False, False), ((3, 2), (3, 4), True, False), ((2, 3), (4, 3), False, True),
            ((2, 2, 3), (2, 3, 4), False, False), ((2, 2, 3), (3, 4), False, False), ((3,), (3,), False, False),
            ((2, 3), (3,), False, False), ((2, 3, 2), (2, 3, 4), True, False), ((2, 1, 2, 3), (2, 4, 3), False, True),
        ]:
            left, right = normal(*x, dtype=dtype, key="x"), normal(*y, dtype=dtype, key="y")
            case("matmul_v2", {"X": left, "Y": right}, {"trans_x": tx, "trans_y": ty})
            case("matmul", {"X": left, "Y": right}, {"transpose_X": tx, "transpose_Y": ty, "alpha": 0.5})
        case("matmul_v2", {"X": normal(3, dtype=dtype), "Y": normal(3, 4, dtype=dtype)})
        case("matmul", {"X": normal(2, 3, dtype=dtype), "Y": normal(3, 4, dtype=dtype)})
        case("bmm", {"X": normal(3, 2, 4, dtype=dtype), "Y": normal(3, 4, 5, dtype=dtype)})
        case("mul", {"X": normal(2, 3, dtype=dtype), "Y": normal(3, 4, dtype=dtype)})
        case("mul", {"X": normal(2, 3, 2, dtype=dtype), "Y": normal(6, 4, dtype=dtype)})
        case("mul", {"X": normal(2, 3, 2, dtype=dtype), "Y": normal(2, 4, dtype=dtype)}, {"x_num_col_dims": 2})
        case("mul", {"X": normal(2, 3, 2, dtype=dtype), "Y": normal(2, 1, 4, dtype=dtype)}, {"x_num_col_dims": 2})
        case("mul", {"X": normal(2, 6, dtype=dtype), "Y": normal(2, 3, 4, dtype=dtype)}, {"y_num_col_dims": 2})
    case("mul", {"X": Lod(normal(3, 4), [[1, 2]]), "Y": normal(4, 2)})
    # The gradient of alpha is not fetched; only the newer product has kernels for integers.
    case("matmul_v2", {"X": normal(2, 3), "Y": normal(3, 1)}, {})


def losses():
    for dtype in [F32, F64]:
        x = shares(4, 5, dtype=dtype)
        label = numbers(0, 4, 2, 1)[:, None]
        case("cross_entropy", {"X": x, "Label": label}, {}, ["Y"])
        case("cross_entropy", {"X": x, "Label": shares(4, 5, dtype=dtype)}, {"soft_label": True}, ["Y"])
        case("cross_entropy", {"X": x, "Label": label}, {"ignore_index": 2}, ["Y"])
        case("cross_entropy2", {"X": x, "Label": label}, {}, ["Y", "MatchX", "XShape"], ["XShape"])
        case("cross_entropy2", {"X": x, "Label": label}, {"ignore_index": 2}, ["Y", "MatchX", "XShape"], ["XShape"])
        logits = normal(4, 5, dtype=dtype)
        slots = ["Softmax", "Loss"]
        case("softmax_with_cross_entropy", {"Logits": logits, "Label": label}, {}, slots)
        case("softmax_with_cross_entropy", {"Logits": logits, "Label": label}, {"ignore_index": 2}, slots)
        case("softmax_with_cross_entropy", {"Logits": logits, "Label": shares(4, 5, dtype=dtype)}, {"soft_label": True}, slots)
        case("softmax_with_cross_entropy", {"Logits": logits, "Label": label}, {"numeric_stable_mode": False}, slots)
        target = integers(3, 4, low=0, high=2, dtype=dtype)
        both = {"X": normal(3, 4, dtype=dtype), "Label": target}
        case("sigmoid_cross_entropy_with_logits", both)
        case("sigmoid_cross_entropy_with_logits", both, {"normalize": True})
        case("sigmoid_cross_entropy_with_logits", both, {"ignore_index": 1})
        case("sigmoid_cross_entropy_with_logits", both, {"ignore_index": 1, "normalize": True})
        probability = shares(3, 4, dtype=dtype)
        case("bce_loss", {"X": probability, "Label": target})
        for delta in [1.0, 0.5]:
            pair = {"X": normal(3, 1, dtype=dtype, key="x"), "Y": normal(3, 1, dtype=dtype, key="y")}
            case("huber_loss", pair, {"delta": delta}, ["Out", "Residual"])
        for reduction in ["mean", "sum", "none", "batchmean"]:
            pair = {"X": normal(3, 4, dtype=dtype), "Target": integers(3, 4, low=-1, high=3, dtype=dtype) / dtype_of(dtype)(2)}
            case("kldiv_loss", pair, {"reduction": reduction}, ["Loss"])
        for reduction in ["mean", "sum", "none"]:
            slots = ["Out", "Total_weight"]
            silent = ["Total_weight"] if reduction == "none" else []
            pair = {"X": normal(4, 5, dtype=dtype), "Label": numbers(0, 4, 2, 1)}
            case("nll_loss", pair, {"reduction": reduction}, slots, silent)
            case("nll_loss", {**pair, "Weight": positive(5, dtype=dtype)}, {"reduction": reduction, "ignore_index": 2}, slots, silent)
            pair = {"X": normal(2, 3, 2, 2, dtype=dtype), "Label": integers(2, 2, 2, low=0, high=3)}
            case("nll_loss", {**pair, "Weight": positive(3, dtype=dtype)}, {"reduction": reduction}, slots, silent)
        case("label_smooth", {"X": integers(3, 4, low=0, high=2, dtype=dtype)}, {"epsilon": 0.1})
        case("label_smooth", {"X": integers(3, 4, low=0, high=2, dtype=dtype), "PriorDist": shares(1, 4, dtype=dtype)}, {"epsilon": 0.1})
    case("bce_loss", {"X": np.array([0.0, 1.0, 0.0, 1.0], F32), "Label": np.array([0, 0, 1, 1], F32)})
    case("cross_entropy", {"X": np.array([[0.0, 1.0]], F32), "Label": numbers(0)[:, None]}, {}, ["Y"])
    case("cross_entropy2", {"X": np.array([[0.0, 1.0]], F32), "Label": numbers(0)[:, None]}, {}, ["Y", "MatchX", "XShape"], ["XShape"])
    case("cross_entropy", {"X": np.array([[0.0, 1.0]], F32), "Label": np.array([[0.5, 0.5]], F32)}, {"soft_label": True}, ["Y"])
    case("cross_entropy", {"X": shares(2, 3, 5), "Label": integers(2, 3, 1, low=0, high=5)}, {}, ["Y"])
    case("cross_entropy", {"X": Lod(shares(3, 5), [[1, 2]]), "Label": Lod(integers(3, 1, low=0, high=5), [[1, 2]])}, {}, ["Y"])
    case("cross_entropy2", {"X": shares(2, 3, 5), "Label": integers(2, 3, 1, low=0, high=5)}, {}, ["Y", "MatchX", "XShape"], ["XShape"])
    for epsilon in [1e-4, 0.125]:
        pair = {"Predicted": shares(2, 2).reshape(4, 1), "Labels": integers(4, 1, low=0, high=2, dtype=F32)}
        case("log_loss", pair, {"epsilon": epsilon}, ["Loss"])
    for axis in [1, 0, -1, 2]:
        shape, slots = [2, 3, 4], ["Softmax", "Loss"]
        count, shape[axis] = shape[axis], 1
        label = integers(*shape, low=0, high=count)
        case("softmax_with_cross_entropy", {"Logits": normal(2, 3, 4), "Label": label}, {"axis": axis}, slots)
        soft = shares(2, 3, 4)
        case("softmax_with_cross_entropy", {"Logits": normal(2, 3, 4), "Label": soft}, {"axis": axis, "soft_label": True}, slots)
    case("softmax_with_cross_entropy", {"Logits": normal(4, 5), "Label": integers(4, 1, low=0, high=5, dtype=I32)}, {}, ["Softmax", "Loss"])
    case("softmax_with_cross_entropy", {"Logits": shares(4, 5), "Label": integers(4, 1, low=0, high=5)}, {"use_softmax": False}, ["Softmax", "Loss"])
    case("softmax_with_cross_entropy", {"Logits": normal(4, 5), "Label": numbers(0, 4, -100, 1)[:, None]}, {}, ["Softmax", "Loss"])
    case("softmax_with_cross_entropy", {"Logits": Lod(normal(3, 5), [[1, 2]]), "Label": integers(3, 1, low=0, high=5)}, {}, ["Softmax", "Loss"])
    case("sigmoid_cross_entropy_with_logits", {"X": normal(3, 4), "Label": integers(3, 4, low=0, high=2, dtype=F32), "pos_weight": positive(3, 4)})
    for k in [1, 2]:
        values, indices = normal(4, k), integers(4, k, low=0, high=3)
        slots = ["Accuracy", "Correct", "Total"]
        case("accuracy", {"Out": values, "Indices": indices, "Label": integers(4, 1, low=0, high=3)}, {}, slots)
    case("accuracy", {"Out": normal(3, 2), "Indices": np.array([[0, 1], [1, 2], [2, 0]]), "Label": numbers(1, 1, 1, dtype=I64)[:, None]}, {}, slots)


def dtype_of(name):
    return np.dtype(name).type


def images():
    for factor in [2, 3]:
        case("pixel_shuffle", {"X": normal(1, factor * factor * 2, 2, 3)}, {"upscale_factor": factor})
        case("pixel_shuffle", {"X": normal(1, 2, 3, factor * factor * 2)}, {"upscale_factor": factor, "data_format": "NHWC"})
    for mode in ["bilinear", "nearest"]:
        for padding in ["zeros", "border", "reflection"]:
            for corners in [True, False]:
                grid = normal(1, 3, 2, 2, scale=0.4, key="g")
                attributes = {"mode": mode, "padding_mode": padding, "align_corners": corners}
                case("grid_sampler", {"X": normal(1, 2, 4, 5), "Grid": grid}, attributes, ["Output"])
    windows = {"kernel_sizes": [2, 3], "strides": [1, 1], "paddings": [0, 0, 0, 0], "dilations": [1, 1]}
    case("unfold", {"X": normal(2, 2, 4, 5)}, windows, ["Y"])
    case("unfold", {"X": normal(2, 2, 4, 5)}, {**windows, "strides": [2, 1], "paddings": [1, 0, 2, 1]}, ["Y"])
    case("unfold", {"X": normal(2, 2, 4, 5)}, {**windows, "dilations": [2, 1]}, ["Y"])
    x = normal(1, 2, 3, 4)
    for kind in ["nearest_interp_v2", "bilinear_interp_v2"]:
        method = kind.split("_")[0]
        for corners, mode in [(True, 1), (False, 1), (False, 0)]:
            def resize(x=x, more=None, **attributes):
                attributes = {"interp_method": method, "align_corners": corners, "align_mode": mode, **attributes}
                case(kind, {"X": x, **(more or {})}, attributes)

            resize(out_h=6, out_w=8)
            resize(out_h=2, out_w=3)
            resize(out_h=5, out_w=7)
            resize(scale=[2.0, 1.5])
            resize(normal(1, 3, 4, 2), out_h=5, out_w=6, data_layout="NHWC")
            resize(more={"OutSize": numbers(5, 6, dtype=I32)}, out_h=2, out_w=2)
            resize(more={"SizeTensor": [numbers(5, dtype=I32), numbers(3, dtype=I32)]}, out_h=2, out_w=2)
            resize(more={"Scale": np.array([1.5, 2.0], F32)}, out_h=-1, out_w=-1)
            resize(out_h=1, out_w=1)


def pictures():
    """Windows with distinct maxima, and other dims as 1.x requires."""
    def pool(kind, x, ksize, **attributes):
        case(kind, {"X": x}, {"ksize": ksize, **attributes}, ["Out", "Mask"])

    x = normal(2, 3, 7, 6)
    for dtype in [F32, F64]:
        pool("max_pool2d_with_index", x.astype(dtype), [3, 2])
    pool("max_pool2d_with_index", x, [2, 2], strides=[2, 2])
    pool("max_pool2d_with_index", x, [3, 2], strides=[2, 1], paddings=[1, 0])
    pool("max_pool2d_with_index", x, [3, 3], paddings=[1, 1])
    pool("max_pool2d_with_index", x, [1, 1], global_pooling=True)
    pool("max_pool2d_with_index", normal(2, 2, 6, 4), [3, 2], adaptive=True)
    pool("max_pool2d_with_index", integers(1, 2, 5, 5, low=0, high=2, dtype=F32), [3, 3], paddings=[1, 1])
    pool("max_pool3d_with_index", normal(1, 2, 4, 5, 3), [2, 2, 2])
    pool("max_pool3d_with_index", normal(1, 2, 4, 5, 3), [2, 3, 2], strides=[2, 1, 1], paddings=[1, 1, 0])
    for method in ["nearest", "bilinear"]:
        for corners, mode in [(True, 1), (False, 1), (False, 0)]:
            attributes = {"interp_method": method, "align_corners": corners, "align_mode": mode}
            for more in [{"out_h": 6, "out_w": 8}, {"out_h": 2, "out_w": 3}, {"scale": 1.5}, {"scale": 2.0}]:
                case(f"{method}_interp", {"X": normal(1, 2, 3, 4)}, {**attributes, **more})
            case(f"{method}_interp", {"X": normal(1, 3, 4, 2)}, {**attributes, "out_h": 5, "out_w": 6, "data_layout": "NHWC"})
    for kind, shape, more in [
        ("linear_interp_v2", (2, 3, 5), {"interp_method": "linear", "out_w": 8}),
        ("trilinear_interp_v2", (1, 2, 3, 2, 4), {"interp_method": "trilinear", "out_d": 4, "out_h": 5, "out_w": 3}),
        ("bicubic_interp_v2", (1, 2, 4, 5), {"interp_method": "bicubic", "out_h": 6, "out_w": 7}),
    ]:
        # PaddlePaddle rounds positions of corners, which cubic interpolation amplifies.
        for corners in [False] if kind == "bicubic_interp_v2" else [True, False]:
            case(kind, {"X": normal(*shape, key="p")}, {**more, "align_corners": corners, "align_mode": 1})


NAN, INF = float("nan"), float("inf")

# Functions for which an intermediate result of PaddlePaddle is NaN if the argument is infinite.
ENDS = ["abs", "logsigmoid", "silu", "softshrink", "sqrt", "thresholded_relu"]


def odd():
    """Windows that begin after the tensor, dims of one, NaN and half precision."""
    for kind in ["max", "avg"]:
        for exclusive in [True, False]:
            def pool(x, ksize, **attributes):
                case("pool2d", {"X": x}, {"pooling_type": kind, "ksize": ksize, "exclusive": exclusive, **attributes})

            for ceil in [True, False]:
                ones = np.ones((1, 1, 4, 4), F32)
                pool(ones, [3, 3], strides=[2, 2], padding_algorithm="SAME", ceil_mode=ceil)
                pool(normal(1, 2, 5, 5), [1, 2], strides=[3, 3], padding_algorithm="SAME", ceil_mode=ceil)
                pool(normal(1, 2, 4, 7), [5, 3], strides=[2, 3], padding_algorithm="SAME", ceil_mode=ceil)
                pool(normal(1, 5, 5, 2), [3, 1], strides=[2, 4], padding_algorithm="SAME", ceil_mode=ceil, data_format="NHWC")
                pool(normal(1, 1, 3, 3), [1, 1], strides=[2, 2], paddings=[0, 3, 0, 2], ceil_mode=ceil)
            for paddings in [[0, 0], [1, 0], [1, 1]]:
                pool(normal(1, 2, 5, 6), [2, 1], strides=[3, 4], paddings=paddings, ceil_mode=True)
            case("pool3d", {"X": normal(1, 1, 3, 4, 5)}, {
                "pooling_type": kind, "ksize": [2, 1, 2], "strides": [3, 3, 4], "paddings": [1, 0, 0],
                "exclusive": exclusive, "ceil_mode": True,
            })
            case("pool3d", {"X": normal(1, 1, 4, 4, 4)}, {
                "pooling_type": kind, "ksize": [3, 3, 3], "strides": [2, 2, 2], "padding_algorithm": "SAME",
                "exclusive": exclusive,
            })
    for kind, dims, factors in [
        ("linear_interp_v2", (5,), [0.3]), ("bilinear_interp_v2", (4, 5), [0.3, 0.3]),
        ("bilinear_interp_v2", (3, 6), [0.5, 1.5]), ("nearest_interp_v2", (4, 5), [0.25, 0.3]),
        ("bicubic_interp_v2", (4, 7), [0.4, 0.2]), ("trilinear_interp_v2", (3, 4, 5), [0.5, 0.3, 0.2]),
    ]:
        for corners, mode in [(True, 1), (False, 1), (False, 0)]:
            attributes = {"interp_method": kind.split("_")[0], "align_corners": corners, "align_mode": mode}
            x = normal(1, 2, *dims)
            case(kind, {"X": x}, {**attributes, "scale": factors})
            sizes = dict(zip(["out_d", "out_h", "out_w"][-len(dims):], [1] * len(dims)))
            case(kind, {"X": x}, {**attributes, **sizes})
    # All magnitudes, and all kinds of fractions; each is truncated at another bit.
    bits = np.arange(0, 2**32, 2**32 // 509, dtype=np.uint64).astype(np.uint32)
    ends = [0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x477FE000, 0x477FE001, 0x477FF000, 0x387FFFFF,
            0x38800000, 0x33800000, 0x337FFFFF, 0x3F80FFFF, 0x3F801FFF, 0x3F803000, 0x00000001, 0x7F7FFFFF]
    singles = np.concatenate([bits, np.array(ends, np.uint32)]).view(F32)
    for target in ["float16", "bfloat16"]:
        case("cast", {"X": singles}, {"in_dtype": CODES[F32], "out_dtype": CODES[target]})
        doubles = np.array([1 + 2**-11 + 2**-40, 65519.999, 1e300, -1e300, 2.0**-25, NAN, INF, -0.1], F64)
        case("cast", {"X": doubles}, {"in_dtype": CODES[F64], "out_dtype": CODES[target]})
        case("cast", {"X": numbers(2049, 4099, 65519, 70000, -2051, 2**24 + 1)}, {"in_dtype": CODES[I64], "out_dtype": CODES[target]})
        case("cast", {"X": bools(2, 3)}, {"in_dtype": CODES[BOOL], "out_dtype": CODES[target]})
    for dtype in [F32, F64]:
        far = np.array([[90, 0, -90], [0, 70, -5]], dtype)
        case("softmax", {"X": far}, {"axis": -1})
        case("log_softmax", {"X": far}, {"axis": 0})
        case("softmax_with_cross_entropy", {"Logits": far, "Label": numbers(2, 0)[:, None]}, {}, ["Softmax", "Loss"])
        case("nll_loss", {"X": far, "Label": numbers(1, 1)}, {"ignore_index": 1, "reduction": "mean"}, ["Out", "Total_weight"])
        case("elementwise_floordiv", {"X": np.array([1, -1, 5.5, INF], dtype), "Y": np.array([0.1, 0.1, -0.5, 2], dtype)})
        case("elementwise_mod", {"X": np.array([1, -1, 5.5], dtype), "Y": np.array([0.1, 0.1, -0.5], dtype)})
        case("cumsum", {"X": np.array([3], dtype)}, {"axis": 0, "exclusive": True})
        case("p_norm", {"X": normal(2, 3, dtype=dtype)}, {"porder": 3.0, "asvector": True, "keepdim": True})
        for target in ["float16", "bfloat16"]:
            case("fill_constant", {}, {"shape": [2], "dtype": CODES[target], "value": 0.1})
    # A window that exceeds the input by less than a step.
    case("pool2d", {"X": normal(1, 1, 1, 4)}, {"pooling_type": "max", "ksize": [2, 2], "strides": [2, 2]})
    filters = {"paddings": [0, 0], "dilations": [1, 1], "groups": 1}
    case("conv2d", {"Input": normal(1, 1, 5, 1), "Filter": normal(2, 1, 2, 2)}, {**filters, "strides": [2, 2]}, ["Output"])
    close = {**filters, "strides": [2, 2], "dilations": [2, 2], "padding_algorithm": "SAME"}
    case("conv2d_transpose", {"Input": normal(1, 2, 4, 5), "Filter": normal(2, 2, 3, 2)}, close, ["Output"])
    halves = np.arange(0, 2**16, 131, dtype=np.uint16)
    for target in ["bfloat16", F32, F64]:
        case("cast", {"X": halves.view(np.float16)}, {"in_dtype": CODES["float16"], "out_dtype": CODES[target]})
    for target in ["float16", F32, F64]:
        case("cast", {"X": halves}, {"in_dtype": CODES["bfloat16"], "out_dtype": CODES[target]})
    special = [NAN, INF, -INF, -0.0, 0.0, 1.5, -2.5, NAN, 7.0]
    for dtype in [F32, F64]:
        x = np.array(special, dtype)
        for kind in [*UNARY, *POSITIVE]:
            case(kind, {"X": x[np.isfinite(x) | np.isnan(x)] if kind in ENDS else x})
        case("clip", {"X": x}, {"min": -1.0, "max": 2.0})
        case("scale", {"X": x}, {"scale": 2.0, "bias": 1.0})
        case("pow", {"X": x}, {"factor": 2.0})
        case("pow", {"X": x}, {"factor": 0.0})
        case("prelu", {"X": x[:, None], "Alpha": np.array([0.25], dtype)}, {"mode": "all"})
        for kind in ["max", "min"]:
            pairs_of = {"X": np.repeat(x, 9), "Y": np.tile(x, 9)}
            case(f"elementwise_{kind}", pairs_of)
        for place in range(0, 19, 3):
            for count in [3, 8, 11, 19]:
                line = normal(count, dtype=dtype, key="line")
                line[place % count] = NAN
                for kind in ["reduce_max", "reduce_min"]:
                    case(kind, {"X": line}, {"dim": [0]})
                for kind in ["arg_max", "arg_min"]:
                    case(kind, {"X": line}, {"axis": 0})
                for order in [INF, -INF, 0.0]:
                    case("p_norm", {"X": line}, {"porder": order, "axis": 0})
        block = normal(2, 3, 4, dtype=dtype)
        block[0, 1, 2] = block[1, 0, 1] = NAN
        for dims in [[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]]:
            for kind in ["reduce_max", "reduce_min", "reduce_sum"]:
                case(kind, {"X": block}, {"dim": dims, "keep_dim": len(dims) == 2})
            case("logsumexp", {"X": block}, {"axis": dims})
        case("arg_max", {"X": np.full(3, NAN, dtype)}, {"axis": 0})
        case("arg_min", {"X": np.array([NAN, INF], dtype)}, {"axis": 0})
        for axis in [0, 1, 2]:
            for largest in [True, False]:
                case("top_k_v2", {"X": block[:1]}, {"k": 1, "axis": axis, "largest": largest}, ["Out", "Indices"])
        case("argsort", {"X": np.array([3, NAN, -INF, 1, INF], dtype)}, {"axis": 0}, ["Out", "Indices"])
        case("argsort", {"X": np.array([3, NAN, -INF, 1, INF], dtype)}, {"axis": 0, "descending": True}, ["Out", "Indices"])
        for place in range(9):
            image = normal(1, 1, 3, 3, dtype=dtype)
            image.reshape(-1)[place] = NAN
            for attributes in [{"ksize": [3, 3]}, {"ksize": [2, 2]}, {"ksize": [1, 1], "global_pooling": True}]:
                case("pool2d", {"X": image}, {"pooling_type": "max", **attributes})
                case("max_pool2d_with_index", {"X": image}, attributes, ["Out", "Mask"])
            case("pool3d", {"X": image[:, :, :, None]}, {"pooling_type": "max", "ksize": [2, 1, 2]})
    # Factors that keep the size of an image.
    for kind, dims, factors in [
        ("linear_interp_v2", (3,), [1.3]), ("linear_interp_v2", (3,), [1.4]), ("bilinear_interp_v2", (3, 2), [1.1, 1.4]),
        ("bilinear_interp_v2", (3, 2), [1.1, 1.6]), ("nearest_interp_v2", (3, 2), [1.3, 1.3]),
        ("bicubic_interp_v2", (3, 3), [1.2, 1.1]), ("trilinear_interp_v2", (1, 4, 1), [1.0, 1.1, 1.5]),
    ]:
        for mode in [0, 1]:
            attributes = {"interp_method": kind.split("_")[0], "align_corners": False, "align_mode": mode}
            case(kind, {"X": normal(1, 2, *dims)}, {**attributes, "scale": factors})
    for kind in ["elementwise_max", "elementwise_min"]:
        for dims, others in [((2,), (3, 2)), ((3, 2), (2,)), ((1,), (1, 1, 1)), ((2, 2), (2, 2))]:
            first, second = normal(*dims), normal(*others)
            first.reshape(-1)[0] = second.reshape(-1)[-1] = NAN
            case(kind, {"X": first, "Y": second})
    lowest = float(np.finfo(F32).min)
    for numbers_ in [[-INF], [-INF, NAN], [lowest, -INF], [NAN, 1], [lowest, 2]]:
        line = np.array(numbers_, F32).reshape(1, 1, 1, -1)
        case("max_pool2d_with_index", {"X": line}, {"ksize": [1, line.shape[3]]}, ["Out", "Mask"])


def quantization():
    x, weights = normal(3, 4), normal(4, 3, 2, 2)
    x = (x * 1.37).astype(F32)
    # Halves of an integer: 0.5, 1.5, 63.5 of 127.
    ties = np.array([[-127, 0.5, 1.5, -2.5, 63.5, 127.5, -128.5, 300]], F32)
    scale, tie_scale = np.array([3.7], F32), np.array([127], F32)
    state = {"InAccum": np.array([5.5], F32), "InState": np.array([1.7], F32)}
    for rounding in [0, 1]:
        for bits in [8, 4]:
            attributes = {"bit_length": bits, "round_type": rounding}
            for one in [x, ties]:
                for kind in ["fake_quantize_abs_max", "fake_quantize_dequantize_abs_max"]:
                    case(kind, {"X": one}, attributes, ["Out", "OutScale"])
            for kind in ["fake_quantize_moving_average_abs_max", "fake_quantize_dequantize_moving_average_abs_max"]:
                for one, by in [(x, scale), (ties, tie_scale)]:
                    inputs = {"X": one, "InScale": by}
                    case(kind, inputs, {**attributes, "is_test": True}, ["Out", "OutScale"], ["OutScale"])
            kind = "fake_quantize_moving_average_abs_max"
            outputs = ["Out", "OutScale", "OutState", "OutAccum"]
            case(kind, {"X": x, "InScale": scale, **state}, {**attributes, "moving_rate": 0.75}, outputs)
            case(
                "fake_quantize_range_abs_max", {"X": x, "InScale": scale}, {**attributes, "is_test": True},
                ["Out", "OutScale"], ["OutScale"],
            )
            for axis in [0, 1]:
                attributes["quant_axis"] = axis
                for kind in ["fake_channel_wise_quantize_abs_max", "fake_channel_wise_quantize_dequantize_abs_max"]:
                    case(kind, {"X": weights}, attributes, ["Out", "OutScale"])
            for axis, by in [(-1, scale), (0, positive(4)), (1, positive(3))]:
                inputs = {"X": weights, "Scale": by, "ZeroPoint": np.zeros(by.shape, F32)}
                case("quantize_linear", inputs, {**attributes, "quant_axis": axis}, ["Y"])
            inputs = {"X": ties, "Scale": tie_scale, "ZeroPoint": np.zeros(1, F32)}
            case("quantize_linear", inputs, {**attributes, "quant_axis": -1}, ["Y"])
    case("fake_quantize_abs_max", {"X": ties}, {}, ["Out", "OutScale"])
    case("fake_quantize_abs_max", {"X": np.zeros((2, 2), F32)}, {}, ["Out", "OutScale"])
    whole = integers(4, 3, 2, 2, low=-127, high=128, dtype="int8")
    for one in [whole, whole.astype(F32)]:
        for axis, by in [(-1, scale), (0, positive(4)), (1, positive(3))]:
            inputs = {"X": one, "Scale": by, "ZeroPoint": np.zeros(by.shape, F32)}
            case("dequantize_linear", inputs, {"quant_axis": axis, "bit_length": 8}, ["Y"])
    numbers_ = whole.astype(F32)
    case("fake_dequantize_max_abs", {"X": numbers_, "Scale": scale}, {"max_range": 127.0})
    case("fake_channel_wise_dequantize_max_abs", {"X": numbers_, "Scales": positive(4)}, {"quant_bits": [8]})
    case(
        "fake_channel_wise_dequantize_max_abs", {"X": numbers_, "Scales": positive(3)},
        {"quant_bits": [8], "quant_axis": 1},
    )
    case(
        "fake_channel_wise_dequantize_max_abs", {"X": numbers_, "Scales": [positive(3), scale]}, {"quant_bits": [8, 8]},
    )
    case("moving_average_abs_max_scale", {"X": x}, {"is_test": True}, ["Out", "OutScale"], ["OutScale"])
    outputs = ["Out", "OutScale", "OutState", "OutAccum"]
    case("moving_average_abs_max_scale", {"X": x, **state}, {"is_test": False}, outputs)


def slices():
    x = normal(4, 5, 3)

    def assign(axes, starts, ends, steps=None, values=None, **attributes):
        inputs = {"Input": attributes.pop("x", x)}
        if values is not None:
            inputs["ValueTensor"] = values
        attributes = {"axes": axes, "starts": starts, "ends": ends, "steps": steps or [1] * len(axes), **attributes}
        case("set_value", inputs, {"dtype": 5, **attributes})

    assign([0], [1], [3], values=normal(2, 5, 3, key="v"))
    assign([0, 1], [1, 0], [3, 5], [1, 2], values=normal(3, key="v"))
    assign([0], [-1], [9], values=normal(1, key="v"))
    assign([0], [3], [-5], [-2], values=normal(2, 1, 1, key="v"))
    assign([0], [2], [3], values=normal(5, 3, key="v"), decrease_axes=[0])
    assign([0, 2], [2, 0], [3, 1], values=normal(5, key="v"), decrease_axes=[0, 2])
    assign([0, 1, 2], [2, 1, 0], [3, 2, 1], values=np.asarray(normal(1, key="v")), decrease_axes=[0, 1, 2])
    assign([1], [0], [2], values=normal(4, 1, 2, 3, key="v"), none_axes=[1])
    assign([0], [0], [1], values=normal(1, 5, 3, key="v"), none_axes=[0], decrease_axes=[0])
    case("set_value", {"Input": x}, {"dtype": 5, "axes": [2], "starts": [1], "ends": [3], "steps": [1], "values": [2.5], "shape": [1]})
    case("set_value", {"Input": integers(4, 3)}, {"dtype": 3, "axes": [0], "starts": [1], "ends": [3], "steps": [1], "values": [7, 8, 9], "shape": [3]})
    case("set_value", {"Input": bools(4, 3)}, {"dtype": 0, "axes": [1], "starts": [1], "ends": [2], "steps": [1], "values": [True], "shape": [1]})
    lists = {"StartsTensorList": [numbers(1), numbers(0)], "EndsTensorList": [numbers(3), numbers(4)]}
    lists["StepsTensorList"] = [numbers(1), numbers(2)]
    case("set_value", {"Input": x, "ValueTensor": normal(2, 2, 3, key="v"), **lists}, {"dtype": 5, "axes": [0, 1]})
    case("crop_tensor", {"X": x}, {"shape": [2, -1, 2], "offsets": [1, 2, 0]})
    case("crop_tensor", {"X": x}, {"shape": [2, 5, 3], "offsets": [0, 0, 0]})
    shape, offsets = numbers(2, 3, 2, dtype=I32), numbers(0, 1, 1, dtype=I32)
    case("crop_tensor", {"X": x, "Shape": shape, "Offsets": offsets})
    parts = {"ShapeTensor": [numbers(2, dtype=I32), numbers(3, dtype=I32), numbers(1, dtype=I32)]}
    case("crop_tensor", {"X": x, **parts}, {"offsets": [0, 0, 2], "shape": [-1, -1, -1]})
    case("crop", {"X": x}, {"shape": [2, 3, 2], "offsets": [1, 2, 0]})
    case("crop", {"X": x, "Y": normal(1, 2, 3)}, {"offsets": [3, 2, 0]})
    case("expand", {"X": x}, {"expand_times": [2, 1, 3]})
    case("expand", {"X": x, "ExpandTimes": numbers(1, 2, 2, dtype=I32)}, {"expand_times": []})
    times = [numbers(1, dtype=I32), numbers(2, dtype=I32), numbers(1, dtype=I32)]
    case("expand", {"X": x, "expand_times_tensor": times}, {"expand_times": [-1, -1, -1]})
    y = integers(9, low=0, high=4)
    outputs = ["Out", "Indices", "Index", "Counts"]
    every = {"return_index": True, "return_inverse": True, "return_counts": True, "is_sorted": True}
    case("unique", {"X": y}, {**every, "dtype": 3, "axis": []}, outputs)
    case("unique", {"X": y.astype(F32)}, {**every, "dtype": 2, "axis": []}, outputs)
    rows = np.array([[1, 2], [3, 1], [1, 2], [0, 5]], F32)
    case("unique", {"X": rows}, {**every, "dtype": 3, "axis": [0]}, outputs)
    case("unique", {"X": rows}, {**every, "dtype": 3, "axis": []}, outputs)
    case("unique", {"X": y}, {"dtype": 3}, ["Out", "Index"])
    case("unique_with_counts", {"X": y}, {"dtype": 2}, ["Out", "Index", "Count"])
    runs = numbers(1, 1, 2, 2, 2, 1, 3, 3)
    both = {"return_inverse": True, "return_counts": True, "dtype": 3}
    case("unique_consecutive", {"X": runs}, {**both, "axis": []}, ["Out", "Index", "Counts"])
    case("unique_consecutive", {"X": rows[[0, 0, 1, 2, 2, 3]]}, {**both, "axis": [0]}, ["Out", "Index", "Counts"])
    case("unique_consecutive", {"X": rows}, {**both, "axis": [1]}, ["Out", "Index", "Counts"])
    case("sequence_mask", {"X": numbers(2, 0, 3)}, {"maxlen": 4, "out_dtype": 5}, ["Y"])
    case("sequence_mask", {"X": numbers(2, 0, 3)}, {"maxlen": -1, "out_dtype": 3}, ["Y"])
    case("sequence_mask", {"X": numbers(2, 1, dtype=I32)}, {"maxlen": 2, "out_dtype": 0}, ["Y"])
    case("sequence_mask", {"X": numbers(2, 1), "MaxLenTensor": numbers(5, dtype=I32)}, {"out_dtype": 2}, ["Y"])


def sums_of_products():
    x, y = normal(3, 4), normal(4, 5)
    case("mv", {"X": x, "Vec": normal(4)})
    case("dot", {"X": normal(4), "Y": normal(4, key="y")})
    case("dot", {"X": x, "Y": normal(3, 4, key="y")})
    case("addmm", {"Input": normal(3, 5), "X": x, "Y": y})
    case("addmm", {"Input": normal(1, 5), "X": x, "Y": y}, {"Alpha": 0.5, "Beta": -2.0})
    outputs = {"Out": 1, "InnerCache": 2, "XShape": 2}
    for equation, one, other in [
        ("ij,jk->ik", x, y), ("bij,bjk->bik", normal(2, 3, 4), normal(2, 4, 2)), ("ij,ij->j", x, normal(3, 4, key="y")),
        ("...ij,...jk->...ik", normal(2, 1, 3, 4), normal(5, 4, 2)), ("i,j->ij", normal(3), normal(4)),
    ]:
        case("einsum", {"Operands": [one, other]}, {"equation": equation}, outputs, ["InnerCache", "XShape"])
    case("einsum", {"Operands": x}, {"equation": "ij->ji"}, ["Out", "InnerCache", "XShape"], ["InnerCache", "XShape"])
    case("fc", {"Input": x, "W": y, "Bias": normal(5)}, {"in_num_col_dims": 1, "activation_type": "relu"})
    case("fc", {"Input": normal(2, 3, 4), "W": y}, {"in_num_col_dims": 2})
    case("fc", {"Input": normal(2, 2, 2), "W": y, "Bias": normal(1, 5)}, {"in_num_col_dims": 1})
    case("frobenius_norm", {"X": normal(2, 3, 4)}, {"dim": [1, 2]})
    case("frobenius_norm", {"X": normal(2, 3, 4)}, {"dim": [0, 1], "keep_dim": True})
    case("frobenius_norm", {"X": normal(2, 3, 4)}, {"reduce_all": True})
    image = normal(2, 6, 3, 2)
    for attributes in [{}, {"n": 3, "k": 1.0, "alpha": 0.25, "beta": 0.5}]:
        case("lrn", {"X": image}, attributes, ["Out", "MidOut"], ["MidOut"])
    case("lrn", {"X": image.transpose(0, 2, 3, 1).copy()}, {"data_format": "NHWC"}, ["Out", "MidOut"], ["MidOut"])
    sums = {"BatchSize": positive(4), "BatchSum": normal(4), "BatchSquareSum": positive(4, key="s")}
    outputs = ["Y", "Means", "Scales"]
    case("data_norm", {"X": x, **sums}, {}, outputs)
    slots = x.copy()
    slots[0, 2] = 0
    case("data_norm", {"X": slots, **sums}, {"slot_dim": 2}, outputs)
    shifts = {"scale_w": normal(4, key="w"), "bias": normal(4, key="b")}
    case("data_norm", {"X": x, **sums, **shifts}, {"enable_scale_and_shift": True}, outputs)


def patches():
    x = normal(2, 4, 5, 6)
    attributes = {"strides": [1, 1], "paddings": [1, 0], "dilations": [1, 1], "groups": 1, "deformable_groups": 1, "im2col_step": 1}
    filter_ = normal(3, 4, 3, 2)
    offset, mask = normal(2, 12, 5, 5, scale=0.25), positive(2, 6, 5, 5)
    case("deformable_conv", {"Input": x, "Offset": offset, "Mask": mask, "Filter": filter_}, attributes, ["Output"])
    case("deformable_conv_v1", {"Input": x, "Offset": offset, "Filter": filter_}, attributes, ["Output"])
    grouped = {**attributes, "groups": 2, "deformable_groups": 2, "strides": [2, 1], "dilations": [1, 2]}
    offset, mask = normal(2, 24, 3, 4, scale=0.25), positive(2, 12, 3, 4)
    inputs = {"Input": x, "Offset": offset, "Mask": mask, "Filter": normal(4, 2, 3, 2)}
    case("deformable_conv", inputs, grouped, ["Output"])
    case("shuffle_channel", {"X": x}, {"group": 2})
    case("shuffle_channel", {"X": normal(1, 6, 2, 2)}, {"group": 3})
    frames = normal(6, 5, 2, 3)
    for ratio in [0.25, 0.4, 0.1]:
        case("temporal_shift", {"X": frames}, {"seg_num": 3, "shift_ratio": ratio, "data_format": "NCHW"})
    case("temporal_shift", {"X": frames.transpose(0, 2, 3, 1).copy()}, {"seg_num": 2, "data_format": "NHWC"})
    for corners in [True, False]:
        theta = normal(2, 2, 3)
        case("affine_grid", {"Theta": theta}, {"output_shape": [2, 3, 4, 5], "align_corners": corners}, ["Output"])
        inputs = {"Theta": theta, "OutputShape": numbers(2, 1, 2, 3, dtype=I32)}
        case("affine_grid", inputs, {"align_corners": corners}, ["Output"])
    for attributes in [
        {"kernels": [2, 3], "strides": [1, 1]}, {"kernels": [2, 2], "strides": [2, 3], "paddings": [1, 0, 0, 1]},
        {"kernels": [5, 1], "strides": [2, 2]}, {"kernels": [1, 1], "strides": [4, 4], "paddings": [0, 1, 1, 0]},
    ]:
        case("im2sequence", {"X": x}, {"paddings": [0, 0, 0, 0], **attributes})


def cells():
    steps, batch, width, hidden = 4, 3, 3, 2
    for mode, gates in [("LSTM", 4), ("GRU", 3), ("RNN_TANH", 1), ("RNN_RELU", 1)]:
        for layers, both, lengths in [(1, False, None), (1, True, None), (2, True, [4, 1, 2]), (2, False, [3, 4, 1])]:
            directions = 2 if both else 1
            weights, biases = [], []
            for layer in range(layers):
                for direction in range(directions):
                    key = f"{layer}{direction}"
                    size = width if layer == 0 else hidden * directions
                    weights += [normal(gates * hidden, size, scale=0.5, key="i" + key), normal(gates * hidden, hidden, scale=0.5, key="h" + key)]
                    biases += [normal(gates * hidden, scale=0.5, key="b" + key), normal(gates * hidden, scale=0.5, key="c" + key)]
            states = [normal(layers * directions, batch, hidden, key=f"s{n}") for n in range(2 if mode == "LSTM" else 1)]
            inputs = {"Input": normal(steps, batch, width), "PreState": states, "WeightList": weights + biases}
            if lengths:
                inputs["SequenceLength"] = np.array(lengths, I32)
            attributes = {
                "mode": mode, "num_layers": layers, "is_bidirec": both, "input_size": width, "hidden_size": hidden,
                "is_test": True, "dropout_prob": 0.25 if layers > 1 else 0.0,
            }
            outputs = {"Out": 1, "State": len(states), "Reserve": 1, "DropoutState": 1}
            case("rnn", inputs, attributes, outputs, ["Reserve", "DropoutState"])
    inputs = {"Input": normal(3, 6), "HiddenPrev": normal(3, 2), "Weight": normal(2, 6)}
    outputs = ["Gate", "ResetHiddenPrev", "Hidden"]
    case("gru_unit", inputs, {}, outputs)
    case("gru_unit", {**inputs, "Bias": normal(1, 6)}, {"origin_mode": True}, outputs)
    case("gru_unit", inputs, {"activation": 3, "gate_activation": 0}, outputs)


def corners(*shape, key="", size=16.0):
    """Returns boxes in an image: left, top, right, bottom."""
    random = np.random.RandomState(zlib.crc32(f"c{shape}{key}".encode()) % 2**32)
    low = random.random_sample((*shape, 2)) * 0.7
    high = low + random.random_sample((*shape, 2)) * 0.3 + 0.02
    return (np.round(np.concatenate([low, high], -1) * 256) / 256 * size).astype(F32)


def boxes():
    image, features = normal(1, 3, 32, 40), normal(1, 2, 3, 4)
    outputs = ["Boxes", "Variances"]
    variances = {"variances": [0.1, 0.1, 0.2, 0.2]}
    for attributes in [
        {"min_sizes": [4.0, 8.0], "max_sizes": [9.0, 12.0], "aspect_ratios": [1.0, 2.0, 3.0], "flip": True, "clip": False},
        {"min_sizes": [16.0], "aspect_ratios": [2.0], "flip": False, "clip": True},
        {"min_sizes": [4.0], "max_sizes": [6.0], "aspect_ratios": [2.0], "min_max_aspect_ratios_order": True, "step_w": 8.0, "step_h": 9.0, "offset": 0.25},
    ]:
        case("prior_box", {"Input": features, "Image": image}, {**variances, **attributes}, outputs)
    densities = {"fixed_sizes": [8.0, 16.0], "fixed_ratios": [1.0, 2.0], "densities": [3, 1]}
    for attributes in [{"clip": False}, {"clip": True, "flatten_to_2d": True}, {"step_w": 7.0, "step_h": 9.0, "offset": 0.25}]:
        case("density_prior_box", {"Input": features, "Image": image}, {**variances, **densities, **attributes}, outputs)
    anchors = {"anchor_sizes": [16.0, 32.0], "aspect_ratios": [0.5, 1.0, 2.0], "stride": [8.0, 16.0]}
    for attributes in [{}, {"offset": 0.0}]:
        case("anchor_generator", {"Input": features}, {**variances, **anchors, **attributes}, ["Anchors", "Variances"])
    prior, target = corners(4), corners(3, key="t")
    for normalized in [True, False]:
        common = {"box_normalized": normalized}
        encode = {**common, "code_type": "encode_center_size"}
        decode = {**common, "code_type": "decode_center_size"}
        factors = {"PriorBoxVar": positive(4, 4)}
        case("box_coder", {"PriorBox": prior, "TargetBox": target, **factors}, encode, ["OutputBox"])
        case("box_coder", {"PriorBox": prior, "TargetBox": target}, {**encode, "variance": [0.1, 0.1, 0.2, 0.2]}, ["OutputBox"])
        codes = normal(3, 4, 4, scale=0.25)
        case("box_coder", {"PriorBox": prior, "TargetBox": codes, **factors}, decode, ["OutputBox"])
        case("box_coder", {"PriorBox": prior, "TargetBox": codes}, {**decode, "variance": [0.1, 0.1, 0.2, 0.2]}, ["OutputBox"])
        case("box_coder", {"PriorBox": prior[:3], "TargetBox": codes, "PriorBoxVar": positive(3, 4)}, {**decode, "axis": 1}, ["OutputBox"])
        case("iou_similarity", {"X": target, "Y": prior}, {"box_normalized": normalized})
    case("polygon_box_transform", {"Input": normal(2, 4, 3, 2)}, {}, ["Output"])
    info = np.array([[10, 12, 1], [21, 30, 2]], F32)
    case("box_clip", {"Input": Lod(corners(5), [[2, 3]]), "ImInfo": info}, {}, ["Output"])
    outputs = ["Boxes", "Scores"]
    sizes = np.array([[64, 96], [50, 40]], I32)
    yolo = {"anchors": [10, 13, 16, 30], "class_num": 3, "conf_thresh": 0.4, "downsample_ratio": 8}
    for attributes in [{}, {"clip_bbox": False, "scale_x_y": 1.25}, {"conf_thresh": 0.0}]:
        case("yolo_box", {"X": normal(2, 16, 3, 2, scale=0.5), "ImgSize": sizes}, {**yolo, **attributes}, outputs)
    aware = {"iou_aware": True, "iou_aware_factor": 0.25}
    case("yolo_box", {"X": normal(2, 18, 3, 2, scale=0.5), "ImgSize": sizes}, {**yolo, **aware}, outputs)


def regions():
    x = normal(2, 3, 8, 8)
    rois = corners(4, size=14.0)
    pooled = {"pooled_height": 2, "pooled_width": 3, "spatial_scale": 0.5}
    for attributes in [{}, {"aligned": True}, {"sampling_ratio": 2}, {"sampling_ratio": 3, "aligned": True}]:
        inputs = {"X": x, "ROIs": rois, "RoisNum": numbers(1, 3, dtype=I32)}
        case("roi_align", inputs, {**pooled, **attributes})
        case("roi_align", {"X": x, "ROIs": Lod(rois, [[3, 1]])}, {**pooled, **attributes})
    inputs = {"X": x, "ROIs": rois, "RoisNum": numbers(2, 2, dtype=I32)}
    case("roi_pool", inputs, pooled, ["Out", "Argmax"], ["Argmax"])
    case("roi_pool", {"X": x, "ROIs": Lod(rois, [[0, 4]])}, pooled, ["Out", "Argmax"], ["Argmax"])
    many = corners(9, size=600.0)
    levels = {"min_level": 2, "max_level": 5, "refer_level": 4, "refer_scale": 224}
    for attributes in [{"pixel_offset": False}, {"pixel_offset": True}]:
        outputs = {"MultiFpnRois": 4, "RestoreIndex": 1}
        case("distribute_fpn_proposals", {"FpnRois": Lod(many, [[4, 5]])}, {**levels, **attributes}, outputs)
        inputs, outputs = {"FpnRois": many, "RoisNum": numbers(3, 6, dtype=I32)}, {**outputs, "MultiLevelRoIsNum": 4}
        case("distribute_fpn_proposals", inputs, {**levels, **attributes}, outputs)
    of = lambda key, *lengths: Lod(corners(sum(lengths), key=key), [list(lengths)])
    scores = lambda key, *lengths: Lod(positive(sum(lengths), 1, key=key), [list(lengths)])
    for most in [4, 100]:
        inputs = {"MultiLevelRois": [of("a", 2, 3), of("b", 1, 2)], "MultiLevelScores": [scores("a", 2, 3), scores("b", 1, 2)]}
        case("collect_fpn_proposals", inputs, {"post_nms_topN": most}, ["FpnRois"])
        inputs = {
            "MultiLevelRois": [corners(5, key="a"), corners(3, key="b")],
            "MultiLevelScores": [positive(5, 1, key="a"), positive(3, 1, key="b")],
            "MultiLevelRoIsNum": [numbers(2, 3, dtype=I32), numbers(1, 2, dtype=I32)],
        }
        case("collect_fpn_proposals", inputs, {"post_nms_topN": most}, ["FpnRois", "RoisNum"])


def suppression():
    found, scores = corners(2, 12), np.round(np.abs(normal(2, 3, 12, key="n")) * 100) / 1000
    scores = (scores + np.arange(72).reshape(2, 3, 12) / 7200).astype(F32)
    nms = {"score_threshold": 0.05, "nms_top_k": 8, "keep_top_k": 5, "nms_threshold": 0.3, "background_label": 0}
    variants = [
        {}, {"background_label": -1, "keep_top_k": -1}, {"nms_top_k": -1, "keep_top_k": 100, "nms_threshold": 0.7},
        {"normalized": False}, {"nms_eta": 0.5, "nms_threshold": 0.9, "background_label": -1, "keep_top_k": -1},
        {"score_threshold": 9.0},
    ]
    for attributes in variants:
        attributes = {**nms, "nms_eta": 1.0, "normalized": True, **attributes}
        case("multiclass_nms", {"BBoxes": found, "Scores": scores}, attributes)
        case("multiclass_nms2", {"BBoxes": found, "Scores": scores}, attributes, ["Out", "Index"])
        case("multiclass_nms3", {"BBoxes": found, "Scores": scores}, attributes, ["Out", "Index", "NmsRoisNum"])
        case("multiclass_nms3", {"BBoxes": found[:1], "Scores": scores[:1]}, attributes, ["Out", "Index", "NmsRoisNum"])
        by_box = {"BBoxes": corners(9, 3, key="b"), "Scores": scores[0].T[:9].copy()}
        lengths = numbers(5, 4, dtype=I32)
        case("multiclass_nms3", {**by_box, "RoisNum": lengths}, attributes, ["Out", "Index", "NmsRoisNum"])
        case("multiclass_nms3", {**by_box, "RoisNum": numbers(9, dtype=I32)}, attributes, ["Out", "Index", "NmsRoisNum"])
        lods = {slot: Lod(array, [[4, 5]]) for slot, array in by_box.items()}
        case("multiclass_nms", lods, attributes)
        case("multiclass_nms2", lods, attributes, ["Out", "Index"])
    matrix = {"score_threshold": 0.05, "post_threshold": 0.04, "nms_top_k": 8, "keep_top_k": 7, "background_label": 0}
    for attributes in [
        {}, {"use_gaussian": True, "gaussian_sigma": 1.5, "background_label": -1}, {"normalized": False, "keep_top_k": -1},
        {"nms_top_k": -1, "post_threshold": 0.0}, {"score_threshold": 9.0},
    ]:
        case("matrix_nms", {"BBoxes": found, "Scores": scores}, {**matrix, **attributes}, ["Out", "Index", "RoisNum"])
    anchors = np.tile(corners(2, key="a", size=24.0), (6, 1)).reshape(2, 3, 2, 4) + np.arange(3, dtype=F32)[:, None, None]
    inputs = {
        "Scores": (np.arange(24)[::-1].reshape(2, 2, 2, 3) % 7 / 8 + np.arange(24).reshape(2, 2, 2, 3) / 512).astype(F32),
        "BboxDeltas": normal(2, 8, 2, 3, scale=0.25), "Anchors": anchors, "Variances": np.full((2, 3, 2, 4), 0.5, F32),
    }
    common = {"pre_nms_topN": 9, "post_nms_topN": 5, "nms_thresh": 0.5, "min_size": 2.0, "eta": 1.0}
    outputs = ["RpnRois", "RpnRoiProbs", "RpnRoisNum"]
    info = np.array([[24, 30, 1], [28, 20, 2]], F32)
    for attributes in [{}, {"pre_nms_topN": 100, "post_nms_topN": 100, "nms_thresh": 0.8}, {"eta": 0.75, "nms_thresh": 0.9}, {"min_size": 99.0}]:
        attributes = {**common, **attributes}
        case("generate_proposals", {**inputs, "ImInfo": info}, attributes, outputs)
        for pixels in [True, False]:
            case("generate_proposals_v2", {**inputs, "ImShape": info[:, :2].copy()}, {**attributes, "pixel_offset": pixels}, outputs)
    near = shares(7, 4)
    outputs = ["ColToRowMatchIndices", "ColToRowMatchDist"]
    for attributes in [{"match_type": "bipartite"}, {"match_type": "per_prediction", "dist_threshold": 0.2}]:
        case("bipartite_match", {"DistMat": Lod(near, [[3, 4]])}, attributes, outputs)
        case("bipartite_match", {"DistMat": near}, attributes, outputs)


def decoding():
    labels = np.array([[0, 1, 1, 0, 1, 2], [2, 2, 0, 0, 2, 2], [0, 0, 0, 0, 0, 0]], I32)
    for attributes in [{}, {"merge_repeated": False}, {"blank": 2, "padding_value": 9}]:
        inputs = {"Input": labels, "InputLength": np.array([[6], [5], [2]], I32)}
        case("ctc_align", inputs, attributes, ["Output", "OutputLength"])
        rows = Lod(labels.reshape(-1, 1).astype(I64), [[7, 4, 7]])
        case("ctc_align", {"Input": rows}, attributes, ["Output"])
    case("ctc_align", {"Input": Lod(np.zeros((3, 1), I32), [[1, 2]])}, {}, ["Output"])
    emission, transition = normal(7, 3), normal(5, 3)
    sequences = Lod(emission, [[2, 1, 4]])
    case("crf_decoding", {"Emission": sequences, "Transition": transition}, {}, ["ViterbiPath"])
    label = Lod(integers(7, 1, low=0, high=3), [[2, 1, 4]])
    case("crf_decoding", {"Emission": sequences, "Transition": transition, "Label": label}, {}, ["ViterbiPath"])
    padded = {"Emission": normal(3, 4, 3), "Transition": transition, "Length": numbers(4, 1, 2)}
    case("crf_decoding", padded, {}, ["ViterbiPath"])
    case("crf_decoding", {**padded, "Label": integers(3, 4, low=0, high=3)}, {}, ["ViterbiPath"])
    rows = Lod(normal(6, 2), [[2, 4]])
    case("lod_reset", {"X": rows}, {"target_lod": [0, 1, 3, 6]})
    case("lod_reset", {"X": normal(6, 2)}, {"target_lod": [0, 6]})
    case("lod_reset", {"X": rows, "Y": Lod(normal(6, 1), [[1, 2], [1, 2, 3]])})
    case("lod_reset", {"X": rows, "Y": numbers(0, 2, 6, dtype=I32)})


FUNCTIONS = {
    "acos": (-1.0, 1.0), "acosh": (1.0, 20.0), "asin": (-1.0, 1.0), "asinh": (-20.0, 20.0), "atan": (-20.0, 20.0),
    "atanh": (-0.96875, 0.96875), "celu": (-9.0, 9.0), "cosh": (-5.0, 5.0), "expm1": (-5.0, 5.0), "log10": (0.125, 99.0),
    "logit": (-0.25, 1.25), "sinh": (-5.0, 5.0), "stanh": (-9.0, 9.0), "tan": (-1.5, 1.5), "tanh_shrink": (-9.0, 9.0),
    "trunc": (-9.0, 9.0),
}
FUNCTION_ATTRIBUTES = {
    "celu": [{"alpha": 0.5}, {"alpha": 2.5}], "logit": [{"eps": 0.0}, {"eps": 0.125}],
    "stanh": [{"scale_a": 0.5, "scale_b": 2.0}],
}


def functions():
    for kind, (least, most) in FUNCTIONS.items():
        for dtype in [F32, F64]:
            x = np.round(np.linspace(least, most, 24) * 64) / 64
            x = x.astype(dtype).reshape(2, 3, 4)
            case(kind, {"X": x})
            for attributes in FUNCTION_ATTRIBUTES.get(kind, []):
                case(kind, {"X": x}, attributes)
        case(kind, {"X": x[0, 1, 2].astype(F32)})
        case(kind, {"X": np.zeros((0, 3), F32)})
        case(kind, {"X": Lod(np.array([[least], [most], [least]], F32), [[1, 2]])})
    for kind in ["asinh", "atan", "sinh", "expm1", "tanh_shrink", "trunc"]:
        case(kind, {"X": np.array([-1e-4, 1e-7, 0.0, -0.0, 60.5, -60.5], F32)})
    for kind in ["acos", "asin", "acosh", "atanh", "log10"]:
        case(kind, {"X": np.array([-2.0, -1.0, 0.0, 1.0, 2.0], F32)})
    for dtype in [I32, I64]:
        case("expm1", {"X": integers(2, 3, dtype=dtype)})
        case("log10", {"X": integers(2, 3, low=1, high=99, dtype=dtype)})
        case("trunc", {"X": integers(2, 3, dtype=dtype)})
    odd = np.array([1.0, np.nan, np.inf, -np.inf, 0.0])
    for dtype in [F32, F64]:
        case("isinf_v2", {"X": odd.astype(dtype)})
        case("trunc", {"X": odd.astype(dtype)})
        case("atan2", {"X1": normal(2, 3, dtype=dtype), "X2": normal(2, 3, dtype=dtype, key="x")})
    case("isinf_v2", {"X": integers(2, 2)})
    case("isinf_v2", {"X": integers(dtype=I32)})
    case("isinf_v2", {"X": np.zeros((0, 2), F32)})
    inf, nan = np.inf, np.nan
    y = np.array([0.0, -0.0, 0.0, -0.0, inf, -inf, inf, -inf, 1, -1, nan, 1, 2, -2], F32)
    x = np.array([0.0, 0.0, -0.0, -0.0, inf, inf, -inf, -inf, inf, -inf, 1, nan, 0.0, -0.0], F32)
    case("atan2", {"X1": y, "X2": x})
    case("atan2", {"X1": normal(), "X2": normal(key="x")})
    for dtype in [I32, I64]:
        case("atan2", {"X1": integers(2, 3, dtype=dtype), "X2": integers(2, 3, dtype=dtype, key="x")})


def bits():
    for kind in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
        for dtype in ["uint8", "int8", "int16", I32, I64]:
            low = 0 if dtype == "uint8" else -99
            x, y = (integers(3, 4, low=low, high=100, key=key).astype(dtype) for key in "xy")
            case(kind, {"X": x, "Y": y})
        case(kind, {"X": bools(3, 4), "Y": bools(3, 4, key="y")})
        case(kind, {"X": bools(3, 4), "Y": bools(4, key="y")})
        case(kind, {"X": integers(2, 1, 4), "Y": integers(3, 1, key="y")})
        case(kind, {"X": integers(), "Y": integers(2, 3)})
        case(kind, {"X": Lod(integers(3, 2), [[1, 2]]), "Y": integers(2, key="y")})
    for dtype in ["uint8", "int8", "int16", I32, I64]:
        low = 0 if dtype == "uint8" else -99
        case("bitwise_not", {"X": integers(3, 4, low=low, high=100).astype(dtype)})
    case("bitwise_not", {"X": bools(3, 4)})
    case("bitwise_not", {"X": integers()})
    nan = np.nan
    for kind in ["elementwise_fmax", "elementwise_fmin", "elementwise_heaviside"]:
        for dtype in [F32, F64, I32, I64]:
            case(kind, {"X": integers(3, 4, low=-2, high=3, dtype=dtype), "Y": integers(4, dtype=dtype, key="y")})
            case(kind, {"X": integers(4, dtype=dtype), "Y": integers(2, 3, 4, dtype=dtype, key="y")})
        case(kind, {"X": np.array([1, nan, 0, nan, -3], F32), "Y": np.array([nan, 2, 5, nan, 4], F32)})
        case(kind, {"X": normal(), "Y": normal(2, 3)})
    for dtype in [F32, F64]:
        inputs = {slot: normal(2, 3, dtype=dtype, key=slot) for slot in ["X", "Y", "Weight"]}
        case("lerp", inputs)
        case("lerp", {**inputs, "Weight": normal(1, dtype=dtype)})
        case("lerp", {**inputs, "Weight": normal(dtype=dtype)})
        case("lerp", {**inputs, "X": normal(2, 1, dtype=dtype)})
        case("lerp", {**inputs, "Weight": normal(2, 2, 3, dtype=dtype)})
    case("lerp", {"X": normal(), "Y": normal(key="y"), "Weight": normal(key="w")})
    for dtype in [F32, F64, I32, I64]:
        for x, y in [((2, 3), (3, 2)), ((3,), (2,)), ((2,), (2, 1, 3)), ((1, 2), (2,))]:
            case("kron", {"X": integers(*x, dtype=dtype), "Y": integers(*y, dtype=dtype, key="y")})
    case("kron", {"X": normal(), "Y": normal(2, 3)})


def combining():
    for kind in ["reduce_amax", "reduce_amin"]:
        for dims, keep, all_of_it in [([0], False, False), ([1], True, False), ([0, -1], False, False), ([], True, True)]:
            attributes = {"dim": dims, "keep_dim": keep, "reduce_all": all_of_it}
            case(kind, {"X": normal(2, 3, 4)}, attributes)
        for dtype in [F64, I32, I64]:
            case(kind, {"X": integers(3, 4, dtype=dtype)}, {"dim": [1]})
        case(kind, {"X": normal()}, {"dim": [], "reduce_all": True})
        case(kind, {"X": np.array([[3, np.nan, 1, 2]], F32)}, {"dim": [1]})
    for dtype in [F32, F64, I32, I64, BOOL]:
        x = bools(2, 3) if dtype == BOOL else integers(2, 3, dtype=dtype)
        other = x.copy()
        other[1, 2] = not x[1, 2] if dtype == BOOL else x[1, 2] + 1
        for y in [x, other, x[:1], x.T.copy(), x[0]]:
            case("equal_all", {"X": x, "Y": y})
    case("equal_all", {"X": normal(), "Y": normal()})
    case("equal_all", {"X": normal(0, 2), "Y": normal(0, 2)})
    case("equal_all", {"X": np.array([1, np.nan], F32), "Y": np.array([1, np.nan], F32)})
    inf, nan = np.inf, np.nan
    odd = np.array([1, inf, -inf, nan, inf, 1], F32), np.array([1.00001, inf, inf, nan, 1, inf], F32)
    for kind in ["isclose", "allclose"]:
        for attributes in [{}, {"equal_nan": True, "rtol": "1e-3", "atol": "0.5"}]:
            for dtype in [F32, F64]:
                x = normal(2, 3, dtype=dtype)
                case(kind, {"Input": x, "Other": x + np.array([0, 0.25, 1e-7], dtype)}, attributes)
                case(kind, {"Input": x, "Other": x}, attributes)
            case(kind, {"Input": odd[0], "Other": odd[1]}, attributes)
            case(kind, {"Input": odd[0][2:4], "Other": odd[0][2:4]}, attributes)
        case(kind, {"Input": x, "Other": x + 0.5, "Rtol": np.array([0.0]), "Atol": np.array([0.75])})
        case(kind, {"Input": normal(), "Other": normal()})
    for order in [2.0, 1.0, 3.0, 0.0, inf, -inf, 0.5]:
        for dtype in [F32, F64]:
            case("dist", {"X": normal(2, 3, dtype=dtype), "Y": normal(2, 3, dtype=dtype, key="y")}, {"p": order})
        case("dist", {"X": normal(2, 1), "Y": normal(3, key="y")}, {"p": order})
    case("dist", {"X": normal(), "Y": normal(key="y")})
    for dtype in [F32, F64]:
        images, last = normal(2, 6, 4, 2, dtype=dtype), normal(2, 4, 2, 6, dtype=dtype)
        for groups in [2, 3, 6]:
            case("maxout", {"X": images}, {"groups": groups})
            case("maxout", {"X": last}, {"groups": groups, "axis": 3 if groups > 2 else -1})
        far = np.array([np.nan, 1, -np.inf, np.nan, np.nan, np.nan, -np.inf, -np.inf], dtype).reshape(1, 8, 1, 1)
        case("maxout", {"X": far}, {"groups": 2})
        for groups in [1, 2, 3]:
            case("channel_shuffle", {"X": images}, {"groups": groups})
            case("channel_shuffle", {"X": last}, {"groups": groups, "data_format": "NHWC"})
        for factor in [1, 2]:
            case("pixel_unshuffle", {"X": images}, {"downscale_factor": factor})
            case("pixel_unshuffle", {"X": last}, {"downscale_factor": factor, "data_format": "NHWC"})
    for dtype in [F32, F64, I32, I64, BOOL]:
        make = bools if dtype == BOOL else lambda *shape: integers(*shape, dtype=dtype)
        case("broadcast_tensors", {"X": [make(2, 1), make(3)]}, {}, {"Out": 2})
    case("broadcast_tensors", {"X": [normal(3, 1, 2), normal(1, 2), normal(4, 1)]}, {}, {"Out": 3})
    case("broadcast_tensors", {"X": [normal(), normal(2)]}, {}, {"Out": 2})
    ids = np.array([[1], [0], [2], [1]], I32)
    for dtype in [F32, F64, I32, I64]:
        for shape in [(4, 3), (4, 2, 3)]:
            case("multiplex", {"Ids": ids, "X": [integers(*shape, dtype=dtype, key=str(n)) for n in range(3)]})
    for dtype in [F32, F64]:
        for shapes in [[(2, 3), (3, 4)], [(3,), (3, 2), (2,)], [(3,), (3, 2), (2, 4)], [(2, 3), (3, 2), (2, 4), (4, 1)]]:
            case("multi_dot", {"X": [normal(*shape, dtype=dtype, key=str(n)) for n, shape in enumerate(shapes)]})
    for dtype in [F32, F64, I32, I64]:
        x, y = (integers(2, 3, 3, dtype=dtype, key=key) for key in "xy")
        for attributes in [{}, {"dim": 1}, {"dim": -1}]:
            case("cross", {"X": x, "Y": y}, attributes)
        for axis in [0, 1, -1]:
            case("cumprod", {"X": x}, {"dim": axis})
        case("cumprod", {"X": integers(7, dtype=dtype)}, {"dim": 0})
    case("cumprod", {"X": normal()}, {"dim": 0})
    case("cumprod", {"X": normal(0, 2)}, {"dim": 1})
    for dtype in [F32, F64]:
        x = normal(2, 3, 4, dtype=dtype)
        for attributes in [{}, {"axis": 0}, {"flatten": True}, {"axis": 1, "reverse": True}]:
            case("logcumsumexp", {"X": x}, attributes)
            case("logcumsumexp", {"X": x}, {**attributes, "exclusive": True})
    case("logcumsumexp", {"X": normal()}, {"axis": 0})
    case("logcumsumexp", {"X": normal(1, 1)}, {"axis": 0, "exclusive": True})
    case("logcumsumexp", {"X": np.array([-inf, -inf, -1000, 1000, 1001, 2], F32)}, {"axis": 0})


def placing():
    for dtype in [F32, F64, I32, I64]:
        x, value = integers(3, 4, dtype=dtype), integers(2, dtype=dtype, key="v")
        for accumulate in [False, True]:
            attributes = {"accumulate": accumulate}
            case("index_put", {"x": x, "indices": [numbers(0, 2), numbers(1, 3)], "value": value}, attributes, ["out"])
            case("index_put", {"x": x, "indices": numbers(2, 0), "value": value[:1]}, attributes, ["out"])
        for kind_of in [I32, I64]:
            index = numbers(2, 0, 2, dtype=kind_of)
            more = {"AddValue": integers(3, 4, dtype=dtype, key="v")}
            case("index_add", {"X": x, "Index": index, **more}, {"axis": 0})
        case("index_add", {"X": x, "Index": numbers(1), "AddValue": integers(3, 1, dtype=dtype, key="v")}, {"axis": -1})
        for how in ["assign", "add", "mul", "multiply", "amin", "amax"]:
            inputs = {"Input": x, "Index": np.array([[0, 1, 2, 0], [2, 2, 0, 1]]), "Value": integers(2, 4, dtype=dtype, key="v")}
            case("put_along_axis", inputs, {"Axis": 0, "Reduce": how}, ["Result"])
            inputs = {"Input": x, "Index": np.array([[0, 3], [2, 1], [3, 2]]), "Value": integers(3, 2, dtype=dtype, key="v")}
            case("put_along_axis", inputs, {"Axis": 1, "Reduce": how}, ["Result"])
    x, value = normal(3, 4), normal(2, key="v")
    pairs = {"indices": [numbers(0, -1), numbers(-3, 1)], "value": value}
    case("index_put", {"x": x, **pairs}, {}, ["out"])
    case("index_put", {"x": x, **pairs, "value": normal(key="v")}, {}, ["out"])
    case("index_put", {"x": x, "indices": [numbers(1, 1), numbers(2, 2)], "value": value}, {"accumulate": True}, ["out"])
    case("index_put", {"x": x, "indices": [numbers(0, 2)[:, None], numbers(1, 3)], "value": normal(2, 2)}, {}, ["out"])
    case("index_put", {"x": x, "indices": numbers(0, 2), "value": normal(4, key="v")}, {}, ["out"])
    case("index_put", {"x": x, "indices": numbers(0, 2, dtype=I32), "value": normal(2, 4, key="v")}, {}, ["out"])
    case("index_put", {"x": x, "indices": bools(3, 4), "value": value[:1]}, {}, ["out"])
    case("index_put", {"x": x, "indices": np.array([True, False, True]), "value": normal(2, 4, key="v")}, {}, ["out"])
    case("index_put", {"x": normal(2, 3, 4), "indices": [numbers(1, 0), numbers(2, 1)], "value": normal(2, 4)}, {}, ["out"])
    case("index_put", {"x": bools(3, 4), "indices": numbers(1), "value": bools(1, key="v")}, {}, ["out"])
    case("index_add", {"X": normal(2, 3, 2), "Index": numbers(2, 2), "AddValue": normal(2, 2, 2, key="v")}, {"axis": 1})
    for how in ["add", "mul", "amin", "amax"]:
        inputs = {"Input": x, "Index": np.array([[0, 0], [2, 1], [3, 3]]), "Value": normal(3, 2, key="v")}
        case("put_along_axis", inputs, {"Axis": 1, "Reduce": how, "Include_self": False}, ["Result"])
    case("put_along_axis", {"Input": normal(5), "Index": numbers(1, 3, dtype=I32), "Value": value}, {"Axis": 0}, ["Result"])


def counting():
    for dtype in [F32, F64, I32, I64]:
        row = numbers(1, 3, 3, 5, 7, dtype=dtype)
        for right in [False, True]:
            for small in [False, True]:
                attributes = {"right": right, "out_int32": small}
                case("searchsorted", {"SortedSequence": row, "Values": numbers(3, 0, 9, 5, dtype=dtype)}, attributes)
            rows = np.stack([row, row + 2])
            case("searchsorted", {"SortedSequence": rows, "Values": integers(2, 3, low=0, high=9, dtype=dtype)}, {"right": right})
        case("searchsorted", {"SortedSequence": row, "Values": integers(2, 3, low=0, high=9, dtype=dtype)})
        case("searchsorted", {"SortedSequence": row, "Values": numbers(4, dtype=dtype)[0]})
        for least, most in [(0, 0), (-2, 3), (2, 2)]:
            case("histogram", {"X": integers(3, 4, dtype=dtype)}, {"bins": 4, "min": least, "max": most})
        case("histogram", {"X": np.ones(3, dtype)}, {"bins": 3})
        case("bincount", {"X": numbers(1, 3, 1), "Weights": integers(3, dtype=dtype, key="w")})
    case("histogram", {"X": normal(3, 4)}, {})
    case("histogram", {"X": np.zeros(0, F32)}, {"bins": 2})
    for dtype in [I32, I64]:
        case("bincount", {"X": numbers(1, 3, 1, dtype=dtype)})
        case("bincount", {"X": numbers(1, 3, 1, dtype=dtype)}, {"minlength": 6})
        case("bincount", {"X": np.zeros(0, dtype)}, {"minlength": 2})
    # The order of equal numbers is unspecified.
    distinct = np.random.RandomState(3).permutation(24).reshape(2, 3, 4) - 12
    few = integers(2, 3, 5, low=0, high=3)
    outputs = ["Out", "Indices"]
    for dtype in [F32, F64, I32, I64]:
        for axis, keep in [(-1, False), (1, True), (0, False)]:
            case("kthvalue", {"X": distinct.astype(dtype)}, {"k": 2, "axis": axis, "keepdim": keep}, outputs)
            case("mode", {"X": few.astype(dtype)}, {"axis": axis, "keepdim": keep}, outputs)
            for kind in ["cummax", "cummin"]:
                case(kind, {"x": few.astype(dtype)}, {"axis": axis}, ["out", "indices"])
        for kind in ["cummax", "cummin"]:
            case(kind, {"x": integers(9, dtype=dtype)}, {"axis": 0, "dtype": CODES[I32]}, ["out", "indices"])
    for kind in ["kthvalue", "mode"]:
        case(kind, {"X": normal()}, {}, outputs)
    for kind in ["cummax", "cummin"]:
        case(kind, {"x": normal()}, {}, ["out", "indices"])
    overlapping = np.array([[0, 0, 2, 2], [0, 0, 2, 2.5], [5, 5, 6, 6], [5, 5, 6.125, 6], [1, 1, 3, 3]])
    for dtype in [F32, F64]:
        for overlap in [0.0, 0.125, 0.5, 1.0]:
            case("nms", {"Boxes": overlapping.astype(dtype)}, {"iou_threshold": overlap}, ["KeepBoxesIdxs"])


def diagonals():
    for dtype in [F32, F64, I32, I64]:
        make = lambda *shape: integers(*shape, dtype=dtype)
        for offset in [0, 1, -1]:
            case("diag_v2", {"X": make(3)}, {"offset": offset, "padding_value": 2.0})
            case("diag_v2", {"X": make(2, 3)}, {"offset": offset})
            case("diag_embed", {"Input": make(2, 3)}, {"offset": offset})
            case("diagonal", {"Input": make(2, 3)}, {"offset": offset})
            case("trace", {"Input": make(2, 3)}, {"offset": offset})
    for offset in [0, 2, -1]:
        case("diag_embed", {"Input": normal(2, 3)}, {"offset": offset, "dim1": 0, "dim2": 2})
        case("diag_embed", {"Input": normal(3)}, {"offset": offset, "dim1": 1, "dim2": 0})
        for first, second in [(0, 1), (-1, 1), (2, 0)]:
            attributes = {"offset": offset, "axis1": first, "axis2": second}
            case("diagonal", {"Input": normal(2, 3, 4)}, attributes)
            case("trace", {"Input": normal(2, 3, 4)}, attributes)
    case("diagonal", {"Input": bools(2, 3)})
    case("diagonal", {"Input": normal(2, 3)}, {"offset": 5})
    case("trace", {"Input": normal(2, 3)}, {"offset": 5})
    case("diag_v2", {"X": normal()})
    for kind, rows, columns in [("tril_indices", "rows", "cols"), ("triu_indices", "row", "col")]:
        for offset in [0, 1, -1, -7]:
            for dtype in [I32, I64]:
                attributes = {rows: 3, columns: 4, "offset": offset, "dtype": CODES[dtype]}
                case(kind, {}, attributes, ["out"])
    for dtype in [F32, F64]:
        inputs = {"X": normal(2, 3, dtype=dtype), "Y": normal(2, 4, dtype=dtype), "Weight": normal(5, 3, 4, dtype=dtype)}
        case("bilinear_tensor_product", inputs)
        case("bilinear_tensor_product", {**inputs, "Bias": normal(1, 5, dtype=dtype)})
        for size, paddings, strides, dilations, columns in [
            ([4, 3], [0, 0, 0, 0], [1, 1], [1, 1], 6), ([4, 4], [1, 1, 1, 1], [2, 2], [1, 1], 9),
            ([5, 4], [0, 1, 0, 1], [1, 2], [2, 1], 9),
        ]:
            attributes = {
                "output_sizes": size, "kernel_sizes": [2, 2], "paddings": paddings, "strides": strides,
                "dilations": dilations,
            }
            case("fold", {"X": normal(2, 8, columns, dtype=dtype)}, attributes, ["Y"])


FAMILIES = [
    convolutions, pooling, normalization, tables, activations, pairs, reductions, moving, making, products,
    losses, images, pictures, odd, quantization, slices, sums_of_products, patches, cells, boxes, regions,
    suppression, decoding, functions, bits, combining, placing, counting, diagonals,
]


def main(directory):
    paddle.enable_static()
    for family in FAMILIES:
        record.family(family.__name__)
        family()
    for line in record.failed:
        print(line, file=sys.stderr)
    record.write(directory)
    cases = [case for family in record.families.values() for case in family]
    print(f"{len(cases)} cases of {len({case['kind'] for case in cases})} operators")
    sys.exit(1 if record.failed else 0)


if __name__ == "__main__":
    main(sys.argv[1])
