"""Writes models of old opsets, and their results.

    python make_onnx_upgrade.py

Run with onnx 1.23.2 and onnxruntime 1.31.1. There is a model for each change of an operator that requires
more than its new version. `index.json` holds the inputs and outputs of each, and which implementation computed
them: ONNX Runtime if it has the old version, otherwise the reference evaluator of onnx, or NumPy, according to
the text of the old specification, if neither has it.
"""

import json
import os

import numpy as np
import onnx
import onnxruntime
from onnx import helper, parser
from onnx.reference import ReferenceEvaluator

PINNED = {"onnx": ("1.23.2", onnx.__version__), "onnxruntime": ("1.31.1", onnxruntime.__version__)}
HERE = os.path.dirname(os.path.abspath(__file__))
TENSORS = {}
CASES = []


def floats(*shape, seed=7):
    return np.random.RandomState(seed).uniform(-2, 2, shape).round(3).astype("float32")


def image(*shape):
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


def case(name, opset, text, inputs, kinds, expected=None):
    """A model, its operators at the newest version, and its results computed with NumPy."""
    ir = 3 if opset < 9 else {9: 4, 10: 5, 11: 6, 12: 7}.get(opset, 8)
    head = '<ir_version: {}, opset_import: ["" : {}]>\n'.format(ir, opset)
    CASES.append((name, parser.parse_model(head + text), inputs, kinds.split(), expected))


def one(op, ins="float[2,3] x", outs="float y"):
    return "g (%s) => (%s) { %s }" % (ins, outs, op)


def ranked(rank, name="y", kind="float"):
    return "{}[{}] {}".format(kind, ",".join("d%d" % i for i in range(rank)), name)


def inputs_of_old_attributes():
    x = floats(2, 3)
    y = ranked(2)
    for name, opset in (("ReduceSum", 12), ("ReduceMean", 17), ("ReduceMax", 12), ("ReduceL2", 1)):
        text = "y = {} <axes = [1], keepdims = 1> (x)".format(name)
        case("axes_" + name, opset, one(text, outs=y), {"x": x}, "Constant " + name)
    for name in ("Prod", "SumSquare", "LogSum", "LogSumExp", "L1", "Min"):
        text = "y = Reduce{} <axes = [0]> (x)".format(name)
        made = {"x": np.abs(x) + 1}
        case("axes_Reduce" + name, 13, one(text, outs=y), made, "Constant Reduce" + name)
    case("axes_all", 11, one("y = ReduceSum (x)", outs=y), {"x": x}, "ReduceSum")
    made = {"x": floats(2, 1, 3)}
    text = one("y = Squeeze <axes = [1]> (x)", "float[2,1,3] x", y)
    case("squeeze", 9, text, made, "Constant Squeeze")
    text = one("y = Unsqueeze <axes = [0,3]> (x)", outs=ranked(4))
    case("unsqueeze", 11, text, {"x": x}, "Constant Unsqueeze")
    text = one("y = Reshape <shape = [3,-1]> (x)", outs=y)
    case("reshape", 1, text, {"x": x}, "Constant Reshape", {"y": x.reshape(3, 2)})
    text = one("y, i = TopK <k = 2, axis = 1> (x)", outs=y + ", " + ranked(2, "i", "int64"))
    case("top_k", 9, text, {"x": x}, "Constant TopK")
    text = one("y = Slice <starts = [0,1], ends = [2,100], axes = [0,1]> (x)", outs=y)
    case("slice", 9, text, {"x": x}, "Constant Constant Constant Slice")
    text = one("y = Slice <starts = [1], ends = [-1]> (x)", "float[4] x", ranked(1))
    case("slice_without_axes", 1, text, {"x": floats(4)}, "Constant Constant Slice")
    text = one("y, z = Split <axis = 1, split = [1,2]> (x)", outs=y + ", " + ranked(2, "z"))
    case("split", 11, text, {"x": x}, "Constant Split")
    text = one("y, z, w = Split <axis = 1> (x)", outs=", ".join(ranked(2, n) for n in "yzw"))
    case("split_evenly", 13, text, {"x": x}, "Split")
    text = one("y = Clip <min = -0.5, max = 1.0> (x)", outs=y)
    case("clip", 6, text, {"x": x}, "Constant Constant Clip")
    text = one("y = Clip <max = 0.25> (x)", "double[3] x", ranked(1, kind="double"))
    case("clip_double", 10, text, {"x": floats(3).astype("float64")}, "Constant Clip")
    text = one("z = Abs(x) y = Clip <min = 0.5> (z)", "float16[3] x", ranked(1, kind="float16"))
    made = {"x": floats(3).astype("float16")}
    case("clip_float16", 10, text, made, "Abs Constant CastLike Clip")
    text = one('y = Pad <mode = "constant", pads = [0,1,0,2], value = 1.5> (x)', outs=y)
    case("pad", 10, text, {"x": x}, "Constant Constant Pad")
    case(
        "pad_reflect",
        2,
        one('y = Pad <mode = "reflect", pads = [0,1,0,1]> (x)', outs=y),
        {"x": x},
        "Constant Pad",
    )
    text = one("y = Pad <paddings = [0,1,0,2]> (x)", outs=y)
    case("pad_first", 1, text, {"x": x}, "Constant Pad", {"y": np.pad(x, ((0, 0), (1, 2)))})
    case("dropout", 11, one("y = Dropout <ratio = 0.3> (x)", outs=y), {"x": x}, "Constant Dropout")
    text = one("y, m = Dropout <ratio = 0.3> (x)", outs=y + ", " + ranked(2, "m"))
    ones = {"y": x, "m": np.ones_like(x)}
    case("dropout_mask", 7, text, {"x": x}, "Constant Dropout Cast", ones)
    text = one("y = DFT <axis = 1> (x)", "float[1,4,1] x", ranked(3))
    case("dft", 17, text, {"x": floats(1, 4, 1)}, "Constant DFT")
    text = one("y = DFT (x)", "float[1,4,3,1] x", ranked(4))
    case("dft_default", 17, text, {"x": floats(1, 4, 3, 1)}, "Constant DFT")
    text = "g (float[2,3] x) => (%s) <float t = {2}, float a = {1}> { y = Tile(x, t, a) }" % y
    text = text.replace("float[2,3] x)", "float[2,3] x, float t, float a)")
    case("tile", 1, text, {"x": x}, "Constant Tile", {"y": np.tile(x, (1, 2))})


def modes():
    x = floats(2, 3)
    y = ranked(2)
    for name in ("Relu", "Exp", "Sigmoid", "Tanh", "Abs", "Neg", "Floor", "Elu", "HardSigmoid"):
        text = "y = {} <consumed_inputs = [0]> (x)".format(name)
        case("consumed_" + name, 1, one(text, outs=y), {"x": x}, name)
    text = one(
        "y = Add <consumed_inputs = [0,0], broadcast = 1> (x, b)", "float[2,3] x, float[3] b", y
    )
    made = {"x": x, "b": floats(3, seed=8)}
    case("consumed_Add", 1, text, made, "Add", {"y": x + made["b"]})
    case(
        "clip_first",
        1,
        one("y = Clip <min = 0.0, consumed_inputs = [0]> (x)", outs=y),
        {"x": x},
        "Constant Clip",
        {"y": np.maximum(x, 0)},
    )
    grown = np.where(x > 0, x, 1.6732 * (np.exp(x) - 1)) * 1.0507
    case("selu", 1, one("y = Selu (x)", outs=y), {"x": x}, "Selu", {"y": grown})
    case(
        "cast",
        5,
        one('y = Cast <to = "INT32"> (x)', outs=ranked(2, kind="int32")),
        {"x": x},
        "Cast",
        {"y": x.astype("int32")},
    )
    case(
        "concat",
        3,
        one("y = Concat (x, x)", outs=y),
        {"x": x},
        "Concat",
        {"y": np.concatenate([x, x], 1)},
    )
    text = "y = BatchNormalization <is_test = 1, consumed_inputs = [0,0,0,1,1], epsilon = 0.01> (x, s, b, m, v)"
    stats = {"s": floats(3, seed=1), "b": floats(3, seed=2), "m": floats(3, seed=3)}
    stats["v"] = np.abs(floats(3, seed=4)) + 0.5
    made = dict(x=floats(2, 3, 2, 2), **stats)
    wide = {key: value.reshape(1, 3, 1, 1) for key, value in stats.items()}
    computed = (made["x"] - wide["m"]) / np.sqrt(wide["v"] + 0.01) * wide["s"] + wide["b"]
    ins = "float[2,3,2,2] x, float[3] s, float[3] b, float[3] m, float[3] v"
    case(
        "batch_normalization",
        5,
        one(text, ins, ranked(4)),
        made,
        "BatchNormalization",
        {"y": computed},
    )
    text = "y = BatchNormalization <epsilon = 0.01, spatial = 1> (x, s, b, m, v)"
    case("spatial", 7, one(text, ins, ranked(4)), made, "BatchNormalization", {"y": computed})
    case(
        "dropout_test",
        6,
        one("y = Dropout <is_test = 1> (x)", outs=y),
        {"x": x},
        "Dropout",
        {"y": x},
    )
    grid = np.random.RandomState(3).uniform(-1, 1, (1, 2, 2, 2)).astype("float32")
    for mode in ("bilinear", "bicubic", "nearest"):
        text = 'y = GridSample <mode = "%s"> (x, grid)' % mode
        text = one(text, "float[1,1,4,4] x, float[1,2,2,2] grid", ranked(4))
        case("grid_sample_" + mode, 16, text, {"x": image(1, 1, 4, 4), "grid": grid}, "GridSample")
    text = one("y = GlobalLpPool <p = 2.0> (x)", "float[1,2,2,2] x", ranked(4))
    power = np.sqrt((image(1, 2, 2, 2) ** 2).sum((2, 3), keepdims=True))
    case("power", 1, text, {"x": image(1, 2, 2, 2)}, "GlobalLpPool", {"y": power})
    text = "y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2> (x, r, b)"
    ins = "float[1,1,4,4] x, float[1,4] r, int64[1] b"
    made = {
        "x": image(1, 1, 4, 4),
        "r": np.array([[0.5, 0.5, 3, 3]], "float32"),
        "b": np.array([0]),
    }
    case("roi_align", 10, one(text, ins, ranked(4)), made, "RoiAlign")
    text = one("y = Scatter <axis = 1> (x, i, u)", "float[1,5] x, int64[1,2] i, float[1,2] u", y)
    made = {"x": floats(1, 5), "i": np.array([[1, 3]]), "u": floats(1, 2, seed=9)}
    case("scatter", 9, text, made, "ScatterElements")
    for kind, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        text = "y, h = %s <hidden_size = 2, output_sequence = 1> (x, w, r)" % kind
        ins = "float[3,1,2] x, float[1,%d,2] w, float[1,%d,2] r" % (2 * gates, 2 * gates)
        made = {
            "x": floats(3, 1, 2),
            "w": floats(1, 2 * gates, 2, seed=5),
            "r": floats(1, 2 * gates, 2, seed=6),
        }
        outs = ranked(4) + ", " + ranked(3, "h")
        version = {"RNN": 6, "GRU": 6, "LSTM": 6}[kind]
        now = ReferenceEvaluator(
            parser.parse_model(
                '<ir_version: 8, opset_import: ["" : 14]>'
                + one(text.replace(", output_sequence = 1", ""), ins, outs)
            )
        )
        computed = dict(zip(["y", "h"], now.run(None, made)))
        case("sequence_" + kind, version, one(text, ins, outs), made, kind, computed)
    text = one("y = Gemm <broadcast = 1> (a, b, c)", "float[2,3] a, float[3,4] b, float[4] c", y)
    made = {"a": x, "b": floats(3, 4, seed=2), "c": floats(4, seed=3)}
    case("gemm", 6, text, made, "Gemm", {"y": made["a"] @ made["b"] + made["c"]})


def shapes():
    made = {"a": floats(2, 3, 4), "b": np.abs(floats(3, seed=8)) + 1}
    ins = "float[2,3,4] a, float[3] b"
    wide = made["b"].reshape(1, 3, 1)
    for kind, function in (
        ("Add", np.add),
        ("Sub", np.subtract),
        ("Mul", np.multiply),
        ("Div", np.divide),
    ):
        text = one("y = %s <broadcast = 1, axis = 1> (a, b)" % kind, ins, ranked(3))
        kinds = "Constant Unsqueeze " + kind
        case("broadcast_" + kind, 6, text, made, kinds, {"y": function(made["a"], wide)})
    text = one("y = Pow <broadcast = 1, axis = 1> (c, b)", ins.replace(" a", " c"), ranked(3))
    positive = {"c": np.abs(made["a"]), "b": made["b"]}
    case("broadcast_Pow", 1, text, positive, "Constant Unsqueeze Pow", {"y": positive["c"] ** wide})
    for kind, function in (("Greater", np.greater), ("Less", np.less)):
        text = one("y = %s <broadcast = 1, axis = 1> (a, b)" % kind, ins, ranked(3, kind="bool"))
        kinds = "Constant Unsqueeze " + kind
        case("broadcast_" + kind, 1, text, made, kinds, {"y": function(made["a"], wide)})
    truth = {"a": made["a"] > 0, "b": np.array([True, False, True])}
    for kind, function in (("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)):
        text = one(
            "y = %s <broadcast = 1, axis = 1> (a, b)" % kind,
            "bool[2,3,4] a, bool[3] b",
            ranked(3, kind="bool"),
        )
        kinds = "Constant Unsqueeze " + kind
        computed = {"y": function(truth["a"], truth["b"].reshape(1, 3, 1))}
        case("broadcast_" + kind, 1, text, truth, kinds, computed)
    text = one(
        "y = Equal <broadcast = 1, axis = 0> (a, b)",
        "int32[2,2] a, int32[2] b",
        ranked(2, kind="bool"),
    )
    whole = {"a": np.array([[1, 2], [2, 1]], "int32"), "b": np.array([1, 2], "int32")}
    computed = {"y": whole["a"] == whole["b"].reshape(2, 1)}
    case("broadcast_Equal", 1, text, whole, "Constant Unsqueeze Equal", computed)
    text = one("y = Add <broadcast = 1> (a, b)", "float[2,4,3] a, float[3] b", ranked(3))
    made = {"a": floats(2, 4, 3), "b": floats(3, seed=8)}
    case("broadcast_last", 6, text, made, "Add", {"y": made["a"] + made["b"]})
    made = {"x": floats(1, 2, 2, 2), "s": np.array([0.25, 0.5], "float32")}
    text = one("y = PRelu (x, s)", "float[1,2,2,2] x, float[2] s", ranked(4))
    sloped = np.where(made["x"] < 0, made["x"] * made["s"].reshape(1, 2, 1, 1), made["x"])
    case("slope", 6, text, made, "Constant Unsqueeze PRelu", {"y": sloped})
    made = {"x": floats(2, 3, 2)}
    for kind in ("Softmax", "LogSoftmax", "Hardmax"):
        text = one("y = %s (x)" % kind, "float[2,3,2] x", ranked(3))
        case("flatten_" + kind, 11, text, made, "Shape Flatten %s Reshape" % kind)
    text = one("y = Softmax <axis = 0> (x)", "float[a,b,c] x", ranked(3))
    case("flatten_all", 7, text, made, "Shape Flatten Softmax Reshape")
    text = one("y = Softmax <axis = 2> (x)", "float[2,3,2] x", ranked(3))
    case("softmax_last", 9, text, made, "Softmax")
    text = "y = GroupNormalization <num_groups = 2, epsilon = 0.01> (x, s, b)"
    text = one(text, "float[2,4,3] x, float[2] s, float[2] b", ranked(3))
    made = {"x": floats(2, 4, 3), "s": floats(2, seed=8), "b": floats(2, seed=9)}
    kinds = "Shape Constant Div Constant Concat Constant Constant Reshape Expand Reshape Reshape "
    case(
        "group_normalization",
        18,
        text,
        made,
        kinds + "Expand Reshape GroupNormalization",
        grouped(**made),
    )
    # [batch, sequence, ..]: the body sees one step of one sequence.
    body = (
        "b (float[2] s, float[2] e) => (float[2] t, float[2] o) { t = Add(s, e) o = Identity(t) }"
    )
    text = 'y, z = Scan <body = %s, num_scan_inputs = 1, directions = [1]> ("", i, x)' % body
    text = one(text, "float[2,2] i, float[2,3,2] x", ranked(2) + ", " + ranked(3, "z"))
    made = {"i": floats(2, 2), "x": floats(2, 3, 2, seed=8)}
    steps = np.flip(made["x"], 1).cumsum(1) + made["i"][:, None]
    case("scan", 8, text, made, "Scan", {"y": steps[:, -1], "z": steps})


def grouped(x, s, b):
    """Two groups of two channels, each with a scale and a bias."""
    parts = x.reshape(2, 2, 6)
    mean, variance = parts.mean(2, keepdims=True), parts.var(2, keepdims=True)
    normal = (parts - mean) / np.sqrt(variance + 0.01)
    return {"y": (normal * s.reshape(1, 2, 1) + b.reshape(1, 2, 1)).reshape(2, 4, 3)}


def sizes():
    x = image(1, 1, 2, 4)
    ins = "float[1,1,2,4] x"
    for mode in ("nearest", "linear"):
        text = one(
            'y = Upsample <mode = "%s", scales = [1.0, 1.0, 2.0, 1.5]> (x)' % mode, ins, ranked(4)
        )
        case("upsample_" + mode, 7, text, {"x": x}, "Constant Constant Resize")
        text = 'g (%s, float[4] s) => (%s) { y = Upsample <mode = "%s"> (x, s) }' % (
            ins,
            ranked(4),
            mode,
        )
        made = {"x": x, "s": np.array([1, 1, 2, 3], "float32")}
        case("upsample_computed_" + mode, 9, text, made, "Constant Resize")
    text = 'y = Upsample <height_scale = 2.0, width_scale = 3.0, mode = "nearest"> (x)'
    repeated = x.repeat(2, 2).repeat(3, 3)
    case(
        "upsample_first",
        1,
        one(text, ins, ranked(4)),
        {"x": x},
        "Constant Constant Resize",
        {"y": repeated},
    )
    for name, mode, scales in (
        ("up", "nearest", "1, 1, 2, 1.5"),
        ("down", "nearest", "1, 1, 0.6, 0.6"),
        ("linear", "linear", "1, 1, 0.6, 1.5"),
    ):
        text = 'g (%s) => (%s) <float[4] s = {%s}> { y = Resize <mode = "%s"> (x, s) }'
        text = text % (ins, ranked(4), scales, mode)
        case("resize_" + name, 10, text, {"x": x}, "Constant Resize")
    text = "g (%s) => (%s) <float[0] r = {}, float[0] s = {}, int64[4] z = {1, 1, 4, 4}> { y = Resize (x, r, s, z) }"
    case("resize_sizes", 11, text % (ins, ranked(4)), {"x": x}, "Resize")


def inside():
    body = "g (bool c, float[2,3] x) => (%s) { y = If (c) <then_branch = t () => (%s) { p = Squeeze <axes = [0]> (z) },"
    body += " else_branch = e () => (%s) { q = Identity(x) }> }"
    body = body.replace("{ y = If", "{ z = Unsqueeze <axes = [0]> (x) y = If")
    text = body % (ranked(2), ranked(2, "p"), ranked(2, "q"))
    made = {"c": np.array(True), "x": floats(2, 3)}
    case("if", 11, text, made, "Constant Unsqueeze If Constant Squeeze Identity")
    text = '<ir_version: 8, opset_import: ["" : 10, "my" : 1]>\n'
    text += "g (float[2,3] x) => (%s) { y = my.f <axes = [1]> (x) }\n" % ranked(2)
    text += '<domain: "my", opset_import: ["" : 10]>\nf <axes> (a) => (b) '
    text += "{ c = ReduceSum <axes: ints = @axes> (a) b = Clip <min = 0.5> (c) }"
    kinds = "f Constant ReduceSum Constant CastLike Clip".split()
    made = {"x": floats(2, 3)}
    computed = {"y": np.maximum(made["x"].sum(1, keepdims=True), 0.5)}
    CASES.append(("function", parser.parse_model(text), made, kinds, computed))


def compute(model, inputs, expected):
    if expected is not None:
        return "numpy", expected
    names = [output.name for output in model.graph.output]
    version = model.opset_import[0].version
    try:
        assert version >= 7
        session = onnxruntime.InferenceSession(model.SerializeToString())
        return "onnxruntime", dict(zip(names, session.run(names, inputs)))
    except Exception:  # whatever it does not have
        return "reference", dict(zip(names, ReferenceEvaluator(model).run(names, inputs)))


def plain(arrays):
    def one(array):
        array = np.asarray(array)
        return {"dtype": str(array.dtype), "shape": array.shape, "data": array.reshape(-1).tolist()}

    return {name: one(array) for name, array in arrays.items()}


def main():
    for name, (pinned, found) in PINNED.items():
        assert pinned == found, (name, found)
    for part in (inputs_of_old_attributes, modes, shapes, sizes, inside):
        part()
    index = []
    for name, model, inputs, kinds, expected in CASES:
        if model.ir_version < 4:
            known = {value.name for value in model.graph.input}
            for tensor in model.graph.initializer:
                if tensor.name not in known:
                    value = helper.make_tensor_value_info(
                        tensor.name, tensor.data_type, tensor.dims
                    )
                    model.graph.input.append(value)
        by, outputs = compute(model, inputs, expected)
        with open(os.path.join(HERE, name + ".onnx"), "wb") as out:
            out.write(model.SerializeToString(deterministic=True))
        entry = {"name": name, "by": by, "kinds": kinds}
        index.append(dict(entry, inputs=plain(inputs), outputs=plain(outputs)))
    with open(os.path.join(HERE, "index.json"), "w", encoding="utf-8") as out:
        out.write('{"framework": "onnx==1.23.2 onnxruntime==1.31.1", "cases": [\n')
        out.write(",\n".join(json.dumps(entry) for entry in index) + "\n]}\n")


main()
