"""Writes small Caffe2 nets of each family of operators, with what Caffe2 computes: `NAME/` and `cases.json`.

Run with Python 3.8, torch==1.9.1, numpy<1.24, protobuf<3.21, future and six.
"""

import json
from pathlib import Path

import numpy as np
import torch
from caffe2.proto import caffe2_pb2
from caffe2.python import core, dyndep, gru_cell, model_helper, rnn_cell, utils, workspace

# Operators of Detectron: a library of its own, which has those of processors, too.
dyndep.InitOpsLibrary(str(next(Path(torch.__file__).parent.glob("lib/libcaffe2_detectron_ops*"))))

HERE = Path(__file__).parent
RANDOM = np.random.RandomState(1)
CASES = []


def rnd(*shape, low=-1.0, high=1.0):
    return RANDOM.uniform(low, high, shape).astype(np.float32)


def ints(high, *shape, dtype=np.int64):
    return RANDOM.randint(0, high, shape).astype(dtype)


def fill(name, value):
    """Returns the operator with which exporters store a weight."""
    kinds = {"float32": "GivenTensorFill", "int32": "GivenTensorIntFill", "int64": "GivenTensorInt64Fill"}
    if value.dtype == np.uint8:
        kind, values = "GivenTensorByteStringToUInt8Fill", [value.tobytes()]
    else:
        kind, values = kinds[str(value.dtype)], value.flatten().tolist()
    args = [utils.MakeArgument("shape", list(value.shape)), utils.MakeArgument("values", values)]
    return core.CreateOperator(kind, [], [name], arg=args)


def zero(value):
    """The placeholder with which exporters fill an input, so that the blob exists."""
    return np.zeros((1, 1), np.float32)


def case(name, ops, inputs, weights=None, outputs=None, init=(), tolerance=1e-5, placeholder=zero):
    """Runs a net and records it. `ops` are (kind, inputs, outputs, arguments)."""
    workspace.ResetWorkspace()
    weights = weights or {}
    startup = caffe2_pb2.NetDef(name="init")
    startup.op.extend([fill(key, value) for key, value in weights.items()])
    startup.op.extend([core.CreateOperator(kind, reads, writes, **args) for kind, reads, writes, args in init])
    startup.op.extend([fill(key, placeholder(value)) for key, value in inputs.items() if value.dtype == np.float32])
    main = caffe2_pb2.NetDef(name=name)
    main.op.extend([it if isinstance(it, caffe2_pb2.OperatorDef) else core.CreateOperator(it[0], it[1], it[2], **it[3]) for it in ops])
    filled = list(weights) + [blob for op in init for blob in op[2]]
    main.external_input.extend(list(inputs) + filled)
    main.external_output.extend(outputs or ops[-1][2][:1])
    workspace.RunNetOnce(startup)
    for key, value in inputs.items():
        workspace.FeedBlob(key, value)
    workspace.RunNetOnce(main)
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    (folder / "init_net.pb").write_bytes(startup.SerializeToString())
    (folder / "predict_net.pb").write_bytes(main.SerializeToString())
    describe = lambda value: {"dtype": str(value.dtype), "shape": list(value.shape), "data": [number if np.isfinite(number) else str(number) for number in value.flatten().tolist()]}
    fetched = {key: workspace.FetchBlob(key) for key in main.external_output}
    CASES.append({
        "name": name,
        "tolerance": tolerance,
        "inputs": {key: describe(value) for key, value in inputs.items()},
        "outputs": {key: describe(value) for key, value in fetched.items()},
    })


def op(kind, reads, writes, **args):
    return (kind, reads, writes, args)


image = rnd(2, 4, 7, 6)
conv_w = {"w": rnd(6, 4, 3, 3), "b": rnd(6)}
case("conv", [op("Conv", ["x", "w", "b"], ["y"], kernel=3, pad=1, stride=2)], {"x": image}, conv_w)
case("conv_sides", [op("Conv", ["x", "w"], ["y"], kernel_h=3, kernel_w=3, pad_t=1, pad_l=2, pad_b=0, pad_r=1, dilation=2)], {"x": rnd(1, 4, 9, 9)}, {"w": rnd(6, 4, 3, 3)})
case("conv_group", [op("Conv", ["x", "w", "b"], ["y"], kernels=[3, 3], group=2, order="NCHW")], {"x": image}, {"w": rnd(6, 2, 3, 3), "b": rnd(6)})
case("conv_transpose", [op("ConvTranspose", ["x", "w", "b"], ["y"], kernel=3, stride=2, pad=1)], {"x": rnd(1, 3, 4, 5)}, {"w": rnd(3, 2, 3, 3), "b": rnd(2)})
case("conv_fill_bias", [op("Conv", ["x", "w", "b"], ["y"], kernel=3)], {"x": image}, {"w": rnd(6, 4, 3, 3)}, init=[op("ConstantFill", [], ["b"], shape=[6], value=0.5)])
case("max_pool", [op("MaxPool", ["x"], ["y"], kernel=3, stride=2, pad=1)], {"x": image})
case("max_pool_nhwc", [op("MaxPool", ["x"], ["y"], kernel=2, stride=2, order="NHWC")], {"x": rnd(1, 6, 5, 3)})
case("max_pool_legacy", [op("MaxPool", ["x"], ["y"], kernel=3, stride=2, legacy_pad=3)], {"x": rnd(1, 2, 8, 8)})
case("max_pool_legacy_pad", [op("MaxPool", ["x"], ["y"], kernel=3, stride=2, pad=1, legacy_pad=3)], {"x": rnd(1, 2, 8, 7)})
case("average_pool", [op("AveragePool", ["x"], ["y"], kernel=2, stride=2)], {"x": image})
case("average_pool_legacy", [op("AveragePool", ["x"], ["y"], kernel=3, stride=2, legacy_pad=3)], {"x": rnd(1, 2, 8, 8)})
case("average_pool_global", [op("AveragePool", ["x"], ["y"], global_pooling=1)], {"x": image})
case("average_pool_global_nhwc", [op("AveragePool", ["x"], ["y"], global_pooling=1, order="NHWC")], {"x": rnd(2, 5, 4, 3)})
case("resize_nearest", [op("ResizeNearest", ["x"], ["y"], height_scale=2.0, width_scale=1.5)], {"x": rnd(1, 2, 3, 4)})
case("batch_norm", [op("SpatialBN", ["x", "s", "b", "m", "v"], ["y"], is_test=1, epsilon=1e-3)], {"x": image}, {"s": rnd(4), "b": rnd(4), "m": rnd(4), "v": rnd(4, low=0.5)})
case("lrn", [op("LRN", ["x"], ["y", "scale"], size=3, alpha=1e-2, beta=0.75, bias=1.0)], {"x": image})
case("softmax", [op("Softmax", ["x"], ["y"])], {"x": rnd(3, 5)})
case("softmax_axis", [op("Softmax", ["x"], ["y"], axis=2)], {"x": rnd(2, 3, 4)})
case("layer_norm", [op("LayerNorm", ["x"], ["y", "m", "s"], axis=1, epsilon=1e-3)], {"x": rnd(3, 5)})
case("channel_shuffle", [op("ChannelShuffle", ["x"], ["y"], group=2, kernel=1)], {"x": image})
case("fc", [op("FC", ["x", "w", "b"], ["y"])], {"x": rnd(3, 5)}, {"w": rnd(4, 5), "b": rnd(4)})
case("fc_flattened", [op("FC", ["x", "w", "b"], ["y"])], {"x": rnd(2, 3, 1, 2)}, {"w": rnd(4, 6), "b": rnd(4)})
case("fc_axis", [op("FC", ["x", "w", "b"], ["y"], axis=2)], {"x": rnd(2, 3, 5)}, {"w": rnd(4, 5), "b": rnd(4)})
case("fc_transposed", [op("FCTransposed", ["x", "w", "b"], ["y"])], {"x": rnd(3, 5)}, {"w": rnd(5, 4), "b": rnd(4)})
case("matmul", [op("MatMul", ["x", "y"], ["z"], trans_b=1)], {"x": rnd(3, 5), "y": rnd(4, 5)})
case("batch_matmul", [op("BatchMatMul", ["x", "y"], ["z"], trans_a=1, broadcast=1)], {"x": rnd(2, 3, 5, 4), "y": rnd(3, 5, 6)})
case("arithmetic", [op("Add", ["x", "y"], ["a"]), op("Mul", ["a", "y"], ["a"]), op("Sub", ["a", "x"], ["b"]), op("Div", ["b", "y"], ["z"])], {"x": rnd(3, 4), "y": rnd(3, 4, low=0.5)})
case("broadcast", [op("Add", ["x", "b"], ["a"], broadcast=1, axis=1), op("Mul", ["a", "c"], ["z"], broadcast=1)], {"x": rnd(2, 3, 4), "b": rnd(3), "c": rnd(4)})
case("sums", [op("Sum", ["x", "y", "z"], ["s"]), op("Mean", ["s", "x"], ["m"]), op("Max", ["m", "y"], ["a"]), op("Min", ["a", "z"], ["b"])], {"x": rnd(2, 3), "y": rnd(2, 3), "z": rnd(2, 3)})
case("compare", [op("LT", ["x", "y"], ["a"]), op("GE", ["x", "y"], ["b"]), op("And", ["a", "a"], ["c"]), op("Or", ["c", "b"], ["d"]), op("Not", ["a"], ["e"])], {"x": rnd(2, 3), "y": rnd(2, 3)}, outputs=["a", "b", "c", "d", "e"])
case("unary", [op("Relu", ["x"], ["a"]), op("Sigmoid", ["x"], ["b"]), op("Tanh", ["x"], ["c"]), op("Exp", ["x"], ["d"]), op("Abs", ["x"], ["e"]), op("Negative", ["x"], ["f"]), op("Sqr", ["x"], ["g"]), op("Sqrt", ["e"], ["h"]), op("Log", ["d"], ["i"]), op("Softplus", ["x"], ["j"]), op("Swish", ["x"], ["k"]), op("Sign", ["x"], ["l"]), op("Floor", ["x"], ["m"]), op("Ceil", ["x"], ["n"]), op("LeakyRelu", ["x"], ["o"]), op("Sin", ["x"], ["p"]), op("Clip", ["x"], ["q"], min=-0.5, max=0.25), op("Scale", ["x"], ["r"], scale=3.0)], {"x": rnd(2, 5)}, outputs=list("abcdefghijklmnopqr"), tolerance=1e-4)
case("in_place", [op("Relu", ["x"], ["x2"]), op("Relu", ["x2"], ["x2"]), op("Add", ["x2", "x"], ["x2"]), op("Copy", ["x2"], ["y"]), op("StopGradient", ["y"], ["z"]), op("Dropout", ["z"], ["w", "mask"], is_test=1)], {"x": rnd(2, 3)})
case("prelu", [op("PRelu", ["x", "s"], ["y"])], {"x": image}, {"s": rnd(4)})
case("cast", [op("Cast", ["x"], ["i"], to=caffe2_pb2.TensorProto.INT32), op("Cast", ["i"], ["y"], to=caffe2_pb2.TensorProto.FLOAT)], {"x": rnd(2, 3, low=-9, high=9)}, outputs=["i", "y"])
case("move", [op("Transpose", ["x"], ["a"], axes=[2, 0, 1]), op("Reshape", ["a"], ["b", "old"], shape=[0, -1]), op("Flatten", ["x"], ["c"]), op("ExpandDims", ["b"], ["d"], dims=[0, 3]), op("Squeeze", ["d"], ["e"], dims=[0]), op("Slice", ["x"], ["f"], starts=[0, 1, 0], ends=[-1, -2, -1]), op("Split", ["x"], ["g", "h"], axis=2, split=[1, 3]), op("Concat", ["g", "h"], ["i", "sizes"], axis=2), op("Concat", ["g", "g"], ["j", "more"], axis=1, add_axis=1), op("Tile", ["g"], ["k"], tiles=3, axis=1)], {"x": rnd(2, 3, 4)}, outputs=["b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "old"])
case("layouts", [op("NCHW2NHWC", ["x"], ["a"]), op("NHWC2NCHW", ["a"], ["b"])], {"x": image}, outputs=["a", "b"])
case("reduce", [op("ReduceSum", ["x"], ["a"], axes=[1], keepdims=0), op("ReduceMean", ["x"], ["b"], axes=[0, 2], keepdims=1), op("ReduceMax", ["x"], ["c"], axes=[2]), op("ReduceMin", ["x"], ["d"], axes=[-1], keepdims=0), op("ReduceBackSum", ["x"], ["e"]), op("ReduceBackMean", ["x"], ["f"]), op("ArgMax", ["x"], ["g"], axis=1), op("ArgMin", ["x"], ["h"], axis=2, keepdims=0)], {"x": rnd(2, 3, 4)}, outputs=list("abcdefgh"))
case("top_k", [op("TopK", ["x"], ["v", "i"], k=2)], {"x": rnd(3, 5)}, outputs=["v"])
case("gather", [op("Gather", ["t", "i"], ["y"]), op("BatchGather", ["u", "j"], ["z"])], {"t": rnd(5, 3), "i": ints(5, 2, 2), "u": rnd(2, 4, 3), "j": ints(4, 3)}, outputs=["y", "z"])
lengths, indices = np.array([2, 0, 3], np.int32), ints(6, 5)
case("sparse_lengths", [op("SparseLengthsSum", ["t", "i", "l"], ["y"]), op("SparseLengthsWeightedSum", ["t", "w", "i", "l"], ["z"])], {"i": indices, "l": lengths, "w": rnd(5)}, {"t": rnd(6, 3)}, outputs=["y", "z"])
table = rnd(6, 4)
workspace.FeedBlob("t", table)
workspace.RunOperatorOnce(core.CreateOperator("FloatToFused8BitRowwiseQuantized", ["t"], ["q"]))
case("sparse_lengths_8", [op("SparseLengthsSumFused8BitRowwise", ["q", "i", "l"], ["y"]), op("SparseLengthsWeightedSumFused8BitRowwise", ["q", "w", "i", "l"], ["z"])], {"i": indices, "l": lengths, "w": rnd(5)}, {"q": workspace.FetchBlob("q")}, outputs=["y", "z"])
workspace.FeedBlob("t", table)
workspace.RunOperatorOnce(core.CreateOperator("FloatToFused4BitRowwiseQuantized", ["t"], ["q"]))
fused_4 = workspace.FetchBlob("q")
case("sparse_lengths_4", [op("SparseLengthsSumFused4BitRowwise", ["q", "i", "l"], ["y"])], {"i": indices, "l": lengths}, {"q": fused_4}, tolerance=2e-3)
workspace.FeedBlob("t", table)
workspace.RunOperatorOnce(core.CreateOperator("FloatToRowwiseQuantized8Bits", ["t"], ["q", "s"]))
case("sparse_lengths_rowwise", [op("SparseLengthsSum8BitsRowwise", ["q", "i", "l", "s"], ["y"])], {"i": indices, "l": lengths}, {"q": workspace.FetchBlob("q"), "s": workspace.FetchBlob("s")})
case("lengths", [op("LengthsSum", ["x", "l"], ["y"]), op("LengthsToRanges", ["l"], ["r"])], {"x": rnd(5, 2), "l": lengths}, outputs=["y", "r"])
case("constants", [op("Shape", ["x"], ["s"]), op("ConstantFill", ["s"], ["c"], input_as_shape=1, value=2.5), op("ConstantFill", [], ["d"], shape=[2, 3], value=4, dtype=caffe2_pb2.TensorProto.INT32), op("Add", ["c", "x"], ["y"])], {"x": rnd(2, 3)}, outputs=["s", "d", "y"])
case("mod", [op("Mod", ["x"], ["y"], divisor=5)], {"x": ints(40, 6)})
case("int8", [
    op("Int8Quantize", ["x"], ["q"], Y_scale=0.02, Y_zero_point=128),
    op("Int8Conv", ["q", "w", "b"], ["c"], kernel=2, order="NHWC", Y_scale=0.05, Y_zero_point=120),
    op("Int8Relu", ["c"], ["r"], Y_scale=0.05, Y_zero_point=120),
    op("Int8MaxPool", ["r"], ["p"], kernel=2, stride=1, order="NHWC", Y_scale=0.05, Y_zero_point=120),
    op("Int8Dequantize", ["p"], ["y"]),
], {"x": rnd(1, 4, 4, 3)}, init=[
    op("Int8GivenTensorFill", [], ["w"], shape=[4, 2, 2, 3], values=bytes(RANDOM.randint(0, 256, 48).astype(np.uint8)), Y_scale=0.01, Y_zero_point=127),
    op("Int8GivenIntTensorFill", [], ["b"], shape=[4], values=[10, -20, 300, 0], Y_scale=0.02 * 0.01, Y_zero_point=0),
], tolerance=0.051)
# A weight that is filled twice, and one that the startup net computes.
case("computed_weights", [op("Mul", ["x", "w"], ["a"]), op("Add", ["a", "v"], ["y"])], {"x": rnd(2, 3)}, {"v": rnd(2, 3)}, init=[
    op("GivenTensorFill", [], ["w"], shape=[2, 3], values=[1.0] * 6),
    op("Copy", ["w"], ["u"]),
    op("GivenTensorFill", [], ["w"], shape=[2, 3], values=[2.0] * 6),
    op("Add", ["w", "u"], ["w"]),
])
# Operators that Glow's loader does not have.
case("instance_norm", [op("InstanceNorm", ["x", "s", "b"], ["y"], epsilon=1e-3)], {"x": image}, {"s": rnd(4), "b": rnd(4)})
case("affine_channel", [op("AffineChannel", ["x", "s", "b"], ["y"], order="NCHW")], {"x": image}, {"s": rnd(4), "b": rnd(4)})
case("exponential", [op("Elu", ["x"], ["a"], alpha=0.7), op("Selu", ["x"], ["b"]), op("Selu", ["x"], ["c"], alpha=1.5, scale=1.2), op("Softsign", ["x"], ["d"])], {"x": rnd(3, 5, low=-3, high=3)}, outputs=list("abcd"))
case("pad", [op("PadImage", ["x"], ["a"], pad=2, value=0.5), op("PadImage", ["x"], ["b"], pad_t=1, pad_l=2, pad_b=3, pad_r=0, mode="reflect"), op("PadImage", ["x"], ["c"], pads=[0, 1, 2, 3], mode="edge")], {"x": image}, outputs=list("abc"))
case("pad_nhwc", [op("PadImage", ["x"], ["y"], pad_t=1, pad_r=2, mode="reflect", order="NHWC")], {"x": rnd(1, 3, 4, 2)})
# Filters have the order of the image.
nhwc = rnd(2, 7, 6, 4)
case("conv_nhwc", [op("Conv", ["x", "w", "b"], ["y"], kernel=3, pad=1, stride=2, order="NHWC")], {"x": nhwc}, {"w": rnd(6, 3, 3, 4), "b": rnd(6)})
case("conv_nhwc_group", [op("Conv", ["x", "w", "b"], ["y"], kernel_h=2, kernel_w=3, group=2, order="NHWC")], {"x": nhwc}, {"w": rnd(6, 2, 3, 2), "b": rnd(6)})
case("conv_nhwc_depthwise", [op("Conv", ["x", "w"], ["y"], kernel=3, group=4, dilation=2, order="NHWC")], {"x": nhwc}, {"w": rnd(4, 3, 3, 1)})
case("conv_transpose_nhwc", [op("ConvTranspose", ["x", "w", "b"], ["y"], kernel_h=2, kernel_w=3, stride=2, pad=1, order="NHWC")], {"x": rnd(1, 4, 5, 3)}, {"w": rnd(3, 2, 3, 2), "b": rnd(2)})
# Pads of old releases; sides count only together.
case("conv_legacy_same", [op("Conv", ["x", "w"], ["y"], kernel=3, stride=2, legacy_pad=2)], {"x": rnd(1, 4, 8, 7)}, {"w": rnd(6, 4, 3, 3)})
case("conv_legacy_caffe", [op("Conv", ["x", "w"], ["y"], kernel=3, stride=2, pad=1, legacy_pad=3)], {"x": rnd(1, 4, 8, 7)}, {"w": rnd(6, 4, 3, 3)})
case("conv_legacy_valid", [op("Conv", ["x", "w"], ["y"], kernel=2, stride=2, legacy_pad=1)], {"x": rnd(1, 4, 8, 7)}, {"w": rnd(6, 4, 2, 2)})
case("conv_one_side", [op("Conv", ["x", "w"], ["y"], kernel=3, pad_t=1)], {"x": rnd(1, 4, 8, 7)}, {"w": rnd(6, 4, 3, 3)})
case("max_pool_same", [op("MaxPool", ["x"], ["y"], kernel=3, stride=2, legacy_pad=2)], {"x": rnd(1, 2, 8, 7)})
# A kernel below the stride: the windows begin at the first element, since the pads are not negative.
case("average_pool_same", [op("AveragePool", ["x"], ["y"], kernel=2, stride=3, legacy_pad=2)], {"x": rnd(1, 2, 8, 7)})
# The last window begins inside the image and reaches beyond by its whole stride.
case("max_pool_caffe", [op("MaxPool", ["x"], ["y"], kernel=2, stride=2, legacy_pad=3)], {"x": rnd(1, 2, 5, 7)})
case("average_pool_caffe", [op("AveragePool", ["x"], ["y"], kernel=3, stride=2, pad=1, legacy_pad=3, count_include_pad=1)], {"x": rnd(1, 2, 8, 7)})
# Means are of the elements inside the image.
case("average_pool_pad", [op("AveragePool", ["x"], ["y"], kernel=3, stride=2, pad=1)], {"x": image})
case("average_pool_pads_nhwc", [op("AveragePool", ["x"], ["y"], kernel=3, pad_t=2, pad_l=1, pad_b=0, pad_r=1, order="NHWC")], {"x": rnd(1, 6, 5, 3)})
case("average_pool_counted", [op("AveragePool", ["x"], ["y"], kernel=3, stride=2, pad=1, count_include_pad=1)], {"x": image})
case("int8_average_pool", [
    op("Int8Quantize", ["x"], ["q"], Y_scale=0.02, Y_zero_point=128),
    op("Int8AveragePool", ["q"], ["p"], kernel=3, stride=2, pad=1, order="NHWC", Y_scale=0.02, Y_zero_point=128),
    op("Int8Dequantize", ["p"], ["y"]),
], {"x": rnd(1, 5, 5, 3)}, tolerance=0.021)
case("gelu", [op("Gelu", ["x"], ["a"]), op("Gelu", ["x"], ["b"], fast_gelu=1)], {"x": rnd(3, 5, low=-4, high=4)}, outputs=list("ab"))
case("pow_exponent", [op("Pow", ["x"], ["y"], exponent=2.5)], {"x": rnd(3, 4, low=0.1, high=2)})
# The startup net fills inputs without elements, as Detectron does, or with an example.
scaled = [op("Conv", ["x", "w"], ["a"], kernel=3), op("Relu", ["a"], ["a"]), op("Mul", ["a", "k"], ["y"], broadcast=1)]
case("input_empty", scaled, {"x": rnd(1, 4, 5, 5)}, {"w": rnd(2, 4, 3, 3), "k": rnd(1)}, placeholder=lambda value: np.zeros((0,), np.float32))
case("input_example", scaled, {"x": rnd(1, 4, 5, 5)}, {"w": rnd(2, 4, 3, 3), "k": rnd(1)}, placeholder=lambda value: rnd(*value.shape))
case("unary_more", [op("Acos", ["x"], ["a"]), op("Asin", ["x"], ["b"]), op("Atan", ["x"], ["c"]), op("Cos", ["x"], ["d"]), op("Erf", ["x"], ["e"]), op("Reciprocal", ["y"], ["f"]), op("Rsqrt", ["y"], ["g"]), op("Logit", ["y"], ["h"]), op("Alias", ["x"], ["i"]), op("EnsureDense", ["x"], ["j"]), op("EnsureCPUOutput", ["x"], ["k"])], {"x": rnd(3, 4, low=-0.9, high=0.9), "y": rnd(3, 4, low=0.1, high=0.9)}, outputs=list("abcdefghijk"))
case("half", [op("FloatToHalf", ["x"], ["a"]), op("HalfToFloat", ["a"], ["b"])], {"x": rnd(3, 4)}, outputs=["b"])
nan = rnd(3, 4)
nan[1, 2] = np.nan
case("replace_nan", [op("ReplaceNaN", ["x"], ["a"], value=1.5)], {"x": nan})
case("compare_more", [op("EQ", ["x", "y"], ["a"]), op("NE", ["x", "y"], ["b"]), op("GT", ["x", "y"], ["c"]), op("LE", ["x", "y"], ["d"]), op("Xor", ["a", "c"], ["e"])], {"x": ints(3, 3, 4), "y": ints(3, 3, 4)}, outputs=list("abcde"))
case("dot_product", [op("DotProduct", ["x", "y"], ["a"])], {"x": rnd(3, 4), "y": rnd(3, 4)})
case("elementwise_linear", [op("ElementwiseLinear", ["x", "w", "b"], ["a"])], {"x": rnd(3, 4)}, {"w": rnd(4), "b": rnd(4)})
case("cross_entropy", [op("SigmoidCrossEntropyWithLogits", ["x", "t"], ["a"]), op("AveragedLoss", ["a"], ["b"])], {"x": rnd(3, 4), "t": rnd(3, 4, low=0)}, outputs=["a", "b"])
case("dense_rows", [op("SparseToDense", ["i", "v", "m"], ["a"])], {"i": np.array([1, 3, 1], np.int32), "v": rnd(3, 2), "m": rnd(5, 1)})
case("dense_mask", [op("SparseToDenseMask", ["i", "v", "d", "l"], ["a"], mask=[2, 5, 7])], {"i": np.array([5, 2, 9, 7], np.int64), "v": rnd(4, 2), "d": rnd(2), "l": np.array([3, 1], np.int32)})
case("batch_dense", [op("BatchSparseToDense", ["l", "i", "v"], ["a"], dense_last_dim=5)], {"l": np.array([2, 1], np.int64), "i": np.array([0, 3, 4], np.int64), "v": rnd(3)})
case("one_hots", [op("BatchOneHot", ["x", "l", "v"], ["a"])], {"x": ints(3, 4, 2), "l": np.array([2, 3], np.int32), "v": np.array([0, 1, 0, 1, 2], np.int64)})
case("ranges", [op("GatherRanges", ["x", "r"], ["a", "b"])], {"x": rnd(6), "r": np.array([[[0, 1], [2, 2]], [[4, 1], [5, 1]]], np.int32)}, outputs=["a", "b"])
case("scatter_assign", [op("Copy", ["x"], ["a"]), op("ScatterAssign", ["a", "i", "s"], ["a"])], {"x": rnd(4, 3), "i": np.array([2, 0], np.int32), "s": rnd(2, 3)}, outputs=["a"])
case("lengths_range", [op("LengthsRangeFill", ["l"], ["a"])], {"l": np.array([2, 0, 3], np.int32)})
case("box_cox", [op("BatchBoxCox", ["x", "l1", "l2"], ["a"])], {"x": rnd(3, 4, low=0.1)}, {"l1": rnd(4, low=0.2), "l2": rnd(4, low=0.2)}, tolerance=1e-4)
case("lp_norm", [op("LpNorm", ["x"], ["a"], p=1), op("LpNorm", ["x"], ["b"], p=2)], {"x": rnd(3, 4)}, outputs=["a", "b"])
case("flatten_to_vec", [op("FlattenToVec", ["x"], ["a"]), op("ResizeLike", ["a", "y"], ["b"])], {"x": rnd(3, 4), "y": rnd(2, 6)}, outputs=["a", "b"])
case("lengths_8", [op("SparseLengthsWeightedSum8BitsRowwise", ["q", "w", "i", "l", "s"], ["y"])], {"i": ints(6, 5), "l": np.array([2, 3], np.int32), "w": rnd(5)}, {"q": RANDOM.randint(0, 255, (6, 4)).astype(np.uint8), "s": rnd(6, 2, low=0.1)})
# Regions and boxes of detectors.
regions = np.array([[0, 1, 1, 6, 5], [1, 0, 2, 3, 6], [1, 2, 2, 2, 2]], np.float32)
case("roi_align", [op("RoIAlign", ["x", "r"], ["y"], pooled_h=2, pooled_w=3, sampling_ratio=2, spatial_scale=0.5), op("RoIAlign", ["x", "r"], ["z"], pooled_h=2, pooled_w=2, sampling_ratio=1, aligned=1)], {"x": rnd(2, 3, 7, 8), "r": regions}, outputs=["y", "z"])
case("roi_align_nhwc", [op("RoIAlign", ["x", "r"], ["y"], pooled_h=2, pooled_w=2, sampling_ratio=1, order="NHWC")], {"x": rnd(1, 7, 8, 3), "r": regions[:1, 1:]})
sizes = np.array([[7, 8, 1.0], [14, 16, 2.0]], np.float32)
moves = rnd(3, 8)
case("bbox_transform", [op("BBoxTransform", ["r", "d", "s"], ["y", "n"], weights=[10.0, 10.0, 5.0, 5.0])], {"r": regions, "d": moves, "s": sizes}, outputs=["y", "n"])
case("bbox_transform_exclusive", [op("BBoxTransform", ["r", "d", "s"], ["y"], apply_scale=0, legacy_plus_one=0)], {"r": regions[:1, 1:], "d": moves[:1], "s": sizes[1:]})
case("permutation", [op("BatchPermutation", ["x", "i"], ["y"])], {"x": rnd(4, 3), "i": np.array([2, 0, 3, 1], np.int32)})
case("upsample_bilinear", [op("UpsampleBilinear", ["x"], ["y"], height_scale=1.5, width_scale=2.0)], {"x": rnd(1, 2, 3, 4)})
case("resize_by_operand", [op("ResizeNearest", ["x", "s"], ["y"])], {"x": rnd(1, 2, 3, 4)}, {"s": np.array([1.7, 2.0], np.float32)})
# Other dims, axes and operators.
case("conv_1d", [op("Conv", ["x", "w", "b"], ["y"], kernels=[3], strides=[2], pads=[1, 0])], {"x": rnd(2, 3, 9)}, {"w": rnd(4, 3, 3), "b": rnd(4)})
case("conv_3d", [op("Conv", ["x", "w"], ["y"], kernels=[2, 3, 2], strides=[1, 2, 1], pads=[0, 1, 1, 0, 1, 0])], {"x": rnd(1, 2, 4, 5, 4)}, {"w": rnd(3, 2, 2, 3, 2)})
case("pool_3d", [op("MaxPool", ["x"], ["y"], kernels=[2, 2, 2], strides=[2, 1, 2]), op("AveragePool", ["x"], ["z"], kernels=[3, 2, 2], pads=[1, 0, 1, 1, 1, 0])], {"x": rnd(1, 2, 4, 5, 4)}, outputs=["y", "z"])
case("conv_transpose_adjusted", [op("ConvTranspose", ["x", "w"], ["y"], kernel=3, stride=2, adj=1, pad=1)], {"x": rnd(1, 3, 4, 5)}, {"w": rnd(3, 2, 3, 3)})
case("top_k_axis", [op("TopK", ["x"], ["v", "i"], k=2, axis=0)], {"x": rnd(4, 3)}, outputs=["v", "i"])
case("lp_norm_average", [op("LpNorm", ["x"], ["a"], p=2, average=1)], {"x": rnd(3, 4)})
case("arg_default", [op("ArgMin", ["x"], ["a"]), op("ArgMax", ["x"], ["b"], keepdims=0)], {"x": rnd(3, 4)}, outputs=["a", "b"])
case("group_norm", [op("GroupNorm", ["x", "s", "b"], ["y"], group=2, is_test=1)], {"x": image}, {"s": rnd(4), "b": rnd(4)})
case("normalize", [op("Normalize", ["x"], ["a"], axis=1), op("NormalizeL1", ["x"], ["b"]), op("Glu", ["x"], ["c"], dim=2)], {"x": rnd(2, 3, 4)}, outputs=list("abc"))
case("unary_functions", [op("Cosh", ["x"], ["a"]), op("Sinh", ["x"], ["b"]), op("Tan", ["x"], ["c"]), op("Cube", ["x"], ["d"]), op("HardSigmoid", ["x"], ["e"], alpha=0.3, beta=0.4), op("ThresholdedRelu", ["x"], ["f"], alpha=0.2)], {"x": rnd(3, 4)}, outputs=list("abcdef"))
case("reduce_front", [op("ReduceFrontSum", ["x"], ["a"]), op("ReduceFrontMean", ["x"], ["b"], num_reduce_dim=2), op("ReduceFrontMax", ["x"], ["c"]), op("ReduceBackMax", ["x"], ["d"]), op("ReduceL1", ["x"], ["e"], axes=[1]), op("ReduceL2", ["x"], ["f"], axes=[0, 2], keepdims=0), op("SumElements", ["x"], ["g"]), op("SumElements", ["x"], ["h"], average=1), op("SumSqrElements", ["x"], ["i"])], {"x": rnd(2, 3, 4)}, outputs=list("abcdefghi"))
case("where", [op("GT", ["x", "y"], ["c"]), op("Where", ["c", "x", "y"], ["a"])], {"x": rnd(3, 4), "y": rnd(3, 4)}, outputs=["a"])
case("where_rows", [op("GT", ["u", "v"], ["c"]), op("Where", ["c", "x", "y"], ["a"], broadcast_on_rows=1)], {"u": rnd(3), "v": rnd(3), "x": rnd(3, 4), "y": rnd(3, 4)}, outputs=["a"])
case("broadcast_letter", [op("Add", ["x", "b"], ["y"], broadcast=1, axis_str="C")], {"x": image}, {"b": rnd(4)})
case("casts", [op("Cast", ["x"], ["a"], to=6), op("Cast", ["x"], ["b"], to=10), op("Cast", ["x"], ["c"], to=5)], {"x": rnd(3, 4, low=0, high=9)}, outputs=list("abc"))
case("bool_fill", [op("ConstantFill", ["x"], ["a"], value=True, dtype=5), op("CopyFromCPUInput", ["x"], ["b"])], {"x": rnd(2, 3)}, outputs=["a", "b"])
case("sparse_open", [op("SparseToDense", ["i", "v"], ["a"])], {"i": np.array([1, 3, 1], np.int32), "v": rnd(3, 2)})
case("mask_row", [op("SparseToDenseMask", ["i", "v", "d"], ["a"], mask=[2, 5, 7])], {"i": np.array([5, 2, 9], np.int64), "v": rnd(3, 2), "d": rnd(2)})
case("given_fills", [op("GivenTensorBoolFill", [], ["a"], shape=[2, 2], values=[True, False, False, True]), op("GivenTensorIntFill", [], ["b"], shape=[3], values=[1, -2, 3]), op("GivenTensorInt64Fill", [], ["c"], shape=[2], values=[5, -6]), op("UniformFill", ["x"], ["d"], min=2.0, max=2.000001), op("GaussianFill", ["x"], ["e"], mean=3.0, std=0.0), op("Bucketize", ["x"], ["f"], boundaries=[-0.5, 0.1, 0.6])], {"x": rnd(2, 3)}, outputs=list("abcdef"))
case("weighted_lengths_4", [op("SparseLengthsWeightedSumFused4BitRowwise", ["q", "w", "i", "l"], ["y"])], {"i": indices, "l": lengths, "w": rnd(5)}, {"q": fused_4}, tolerance=2e-3)
# Sums and products of integers. Their results are rounded like those of gemmlowp, up to a step from the nearest.
quantized = [op("Int8Quantize", ["x"], ["q"], Y_scale=0.02, Y_zero_point=128), op("Int8Quantize", ["y"], ["r"], Y_scale=0.01, Y_zero_point=7)]
sums = [op(kind, ["q", "r"], [f"{name}q"], Y_scale=0.03, Y_zero_point=100) for kind, name in zip(["Int8Add", "Int8AddRelu", "Int8Sum", "Int8SumRelu"], "abcd")]
case("int8_sums", quantized + sums + [op("Int8Dequantize", [f"{name}q"], [name]) for name in "abcd"], {"x": rnd(2, 3, 3, 2), "y": rnd(2, 3, 3, 2, low=0)}, outputs=list("abcd"), tolerance=0.031)
weight = bytes(RANDOM.randint(0, 256, 12).astype(np.uint8))
case("int8_fc", [quantized[0], op("Int8FC", ["q", "w", "b"], ["p"], Y_scale=0.04, Y_zero_point=90), op("Int8Dequantize", ["p"], ["a"])], {"x": rnd(5, 4)}, init=[
    op("Int8GivenTensorFill", [], ["w"], shape=[3, 4], values=weight, Y_scale=0.01, Y_zero_point=120),
    op("Int8GivenIntTensorFill", [], ["b"], shape=[3], values=[100, -2000, 0], Y_scale=0.02 * 0.01, Y_zero_point=0),
], tolerance=0.041)
case("int8_conv_relu", [quantized[0], op("Int8ConvRelu", ["q", "w", "b"], ["p"], kernel=2, order="NHWC", Y_scale=0.05, Y_zero_point=120), op("Int8Dequantize", ["p"], ["a"])], {"x": rnd(1, 4, 4, 3)}, init=[
    op("Int8GivenTensorFill", [], ["w"], shape=[1, 2, 2, 3], values=weight, Y_scale=0.01, Y_zero_point=127),
    op("Int8GivenIntTensorFill", [], ["b"], shape=[1], values=[300], Y_scale=0.02 * 0.01, Y_zero_point=0),
], tolerance=0.051)
case("conv_relu", [op("ConvRelu", ["x", "w", "b"], ["y"], kernel=3, stride=2, pad=1)], {"x": rnd(1, 2, 5, 4)}, {"w": rnd(3, 2, 3, 3), "b": rnd(3)})
case("logarithms", [op("Log1p", ["x"], ["a"])], {"x": rnd(3, 4, low=-0.9, high=4)})
case("root_mean_square", [op("RMSNorm", ["x", "s", "b"], ["y", "r"], eps=1e-3), op("RMSNorm", ["x", "s", "b"], ["z", "q"])], {"x": rnd(3, 5)}, {"s": rnd(5), "b": rnd(5)}, outputs=["y", "r", "z", "q"])
case("root_mean_square_3d", [op("RMSNorm", ["x", "s", "b"], ["y", "r"], eps=0.1)], {"x": rnd(3, 2, 4)}, {"s": rnd(2, 4), "b": rnd(2, 4)}, outputs=["y", "r"])
case("upsample_nearest", [op("UpsampleNearest", ["x"], ["y"], scale=3), op("UpsampleNearest", ["x"], ["z"])], {"x": rnd(2, 2, 3, 4)}, outputs=["y", "z"])
case("free", [op("Relu", ["x"], ["a"]), op("Sqr", ["a"], ["y"]), op("Free", ["a"], ["a"])], {"x": rnd(2, 3)}, outputs=["y"])
# Weights in half precision, which FBGEMM packs.
case("fc_packed", [op("FbGemmPack", ["w"], ["p"]), op("FbFCPacked", ["x", "p", "b"], ["y"])], {"x": rnd(3, 5)}, {"w": rnd(4, 5), "b": rnd(4)}, tolerance=2e-3)
case("fc_packed_axis", [op("FbGemmPack", ["w"], ["p"]), op("FbFCPacked", ["x", "p", "b"], ["y"], axis=2)], {"x": rnd(2, 3, 5)}, {"w": rnd(4, 5), "b": rnd(4)}, tolerance=2e-3)
# What operators compute that only Glow's loader has, by those of Caffe2: `tests/rules/equal.rs` has the pairs.
for name, axis in [("products", 1), ("products_last", 2)]:
    case(name, [op("Split", ["x"], ["a", "b", "c"], axis=axis), op("Mul", ["a", "b"], ["d"]), op("Mul", ["d", "c"], ["y"])], {"x": rnd(2, 3, 3)})
case("gather_cells", [
    op("Slice", ["i"], ["r"], starts=[0, 0], ends=[-1, 1]), op("Slice", ["i"], ["c"], starts=[0, 1], ends=[-1, 2]),
    op("Mul", ["r", "columns"], ["s"], broadcast=1), op("Add", ["s", "c"], ["n"]), op("FlattenToVec", ["n"], ["m"]),
    op("Reshape", ["x"], ["rows", "old"], shape=[-1, 2]), op("Gather", ["rows", "m"], ["y"]),
], {"x": rnd(4, 3, 2), "i": np.stack([ints(4, 5), ints(3, 5)], 1)}, {"columns": np.array([3], np.int64)})
case("bags", [
    op("Shape", ["i"], ["end"]), op("Concat", ["o", "end"], ["ends", "old"], axis=0),
    op("Slice", ["ends"], ["next"], starts=[1], ends=[-1]), op("Sub", ["next", "o"], ["wide"]),
    op("Cast", ["wide"], ["l"], to=caffe2_pb2.TensorProto.INT32), op("SparseLengthsWeightedSum", ["t", "w", "i", "l"], ["y"]),
], {"w": rnd(6), "i": ints(5, 6), "o": np.array([0, 2, 2, 5], np.int64)}, {"t": rnd(5, 3)})
case("marked_rows", [
    op("Cast", ["m"], ["is"], to=caffe2_pb2.TensorProto.BOOL), op("BooleanMask", ["all", "is"], ["rows"]),
    op("ConstantFill", [], ["y"], shape=[5, 2], value=0.0), op("ScatterAssign", ["y", "rows", "x"], ["y"]),
], {"x": rnd(3, 2), "m": np.array([1, 0, 1, 1, 0], np.int32)}, {"all": np.arange(5, dtype=np.int32)})
split = [op("LengthsToSegmentIds", ["l"], ["rows"]), op("ConstantFill", [], ["o"], shape=[6], value=0, dtype=caffe2_pb2.TensorProto.INT32)]
for label in range(2):
    split += [
        op("ConstantFill", ["i"], [f"is{label}"], value=label, dtype=caffe2_pb2.TensorProto.INT64), op("EQ", ["i", f"is{label}"], [f"m{label}"]),
        op("BooleanMask", ["v", f"m{label}"], [f"v{label}"]), op("BooleanMask", ["rows", f"m{label}"], [f"e{label}"]),
        op("BooleanMask", ["all", f"m{label}"], [f"n{label}"]), op("LengthsRangeFill", ["count"], [f"r{label}"]),
        op("ScatterAssign", ["o", f"n{label}", f"r{label}"], ["o"]),
    ]
case("labels", split, {"l": np.array([2, 1, 0, 3], np.int32), "i": np.array([1, 0, 1, 1, 0, 0], np.int64), "v": rnd(6)}, {"all": np.arange(6, dtype=np.int32), "count": np.array([3], np.int32)}, outputs=["v0", "v1", "e0", "e1", "o"])
case("masks", [op("BooleanMask", ["x", "m"], ["y", "i"]), op("LengthsToSegmentIds", ["l"], ["s"])], {"x": rnd(4, 3), "m": np.array([True, False, True, True]), "l": np.array([2, 0, 3], np.int32)}, outputs=["y", "i", "s"])
# What follows does not depend on what is drawn above.
RANDOM.seed(2)
# Proposed regions of several images; equal scores have no order in Caffe2, and do not occur.
distinct = lambda *shape: RANDOM.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32) / np.prod(shape)
anchors = np.array([[-7, -3, 10, 6], [-2, -5, 5, 8], [-12, -12, 15, 15]], np.float32)
levels = {"s": distinct(2, 3, 4, 5), "d": rnd(2, 12, 4, 5), "i": np.array([[31.5, 40, 1.0], [24, 20.7, 0.5]], np.float32)}
proposals = lambda kind, number, **args: op(kind, ["s", "d", "i", "a"], [f"r{number}", f"p{number}"], **args)
case("generate_proposals", [
    proposals("GenerateProposals", 0, spatial_scale=0.125, pre_nms_topN=30, post_nms_topN=8, nms_thresh=0.5, min_size=2.0),
    proposals("GenerateProposals", 1, spatial_scale=0.125, pre_nms_topN=0, post_nms_topN=0, nms_thresh=0.3, min_size=0.0, legacy_plus_one=0),
    proposals("GenerateProposalsCPP", 2, nms_thresh=0.9, min_size=6.5),
    proposals("GenerateProposals", 3, spatial_scale=0.125, pre_nms_topN=25, post_nms_topN=5, nms_thresh=0.7, min_size=1.0, legacy_plus_one=0, angle_bound_on=1, angle_bound_lo=-180, angle_bound_hi=180, clip_angle_thresh=1.0),
], levels, {"a": anchors}, outputs=[f"{name}{number}" for number in range(4) for name in "rp"])
case("generate_proposals_none", [proposals("GenerateProposals", 0, spatial_scale=0.125, min_size=60.0)], levels, {"a": anchors}, outputs=["r0", "p0"])
# Boxes without area at the edge of the image, of which the best one suppresses the others.
case("generate_proposals_empty", [proposals("GenerateProposals", 0, spatial_scale=0.25, nms_thresh=0.7, min_size=0.0, legacy_plus_one=0)], {"s": distinct(1, 2, 3, 3), "d": rnd(1, 8, 3, 3, low=-3, high=1), "i": np.array([[9, 9, 1.0]], np.float32)}, {"a": anchors[:2]}, outputs=["r0", "p0"])
# Boxes of classes.
def boxes(count, classes):
    low = RANDOM.randint(0, 12, (count, classes, 2))
    return np.concatenate([low, low + RANDOM.randint(3, 12, (count, classes, 2))], 2).astype(np.float32).reshape(count, classes * 4)


splits = np.array([3, 0, 6], np.float32)
case("box_limit", [op("BoxWithNMSLimit", ["s", "b"], ["v", "y", "c"], score_thresh=0.2, nms=0.3, detections_per_im=6)], {"s": distinct(9, 3), "b": boxes(9, 3)}, outputs=list("vyc"))
case("box_limit_images", [op("BoxWithNMSLimit", ["s", "b", "n"], list("vycmkl"), score_thresh=0.1, nms=0.4, detections_per_im=4)], {"s": distinct(9, 4), "b": boxes(9, 4), "n": splits}, outputs=list("vycmkl"))
case("box_limit_foreground", [op("BoxWithNMSLimit", ["s", "b", "n"], list("vycmkl"), score_thresh=0.05, nms=0.5, detections_per_im=0, input_boxes_include_bg_cls=0, output_classes_include_bg_cls=0, legacy_plus_one=0)], {"s": distinct(9, 4), "b": boxes(9, 3), "n": splits}, outputs=list("vycmkl"))
case("box_limit_shared", [op("BoxWithNMSLimit", ["s", "b", "n"], list("vycm"), cls_agnostic_bbox_reg=1, nms=0.5, detections_per_im=5)], {"s": distinct(9, 4), "b": boxes(9, 1), "n": splits}, outputs=list("vycm"))
case("box_limit_shared_image", [op("BoxWithNMSLimit", ["s", "b", "n"], list("vycmkl"), cls_agnostic_bbox_reg=1, nms=0.5, detections_per_im=7, legacy_plus_one=0)], {"s": distinct(9, 4).reshape(9, 4, 1, 1), "b": boxes(9, 1).reshape(9, 4, 1, 1), "n": np.array([9], np.float32)}, outputs=list("vycmkl"))
case("box_limit_none", [op("BoxWithNMSLimit", ["s", "b", "n"], list("vycmkl"), score_thresh=1.0)], {"s": distinct(9, 3), "b": boxes(9, 3), "n": splits}, outputs=list("vycmkl"))
thin = boxes(8, 2)
thin[::2, 6] = thin[::2, 4]
thin[1, 7] = thin[1, 5]
case("box_limit_empty", [op("BoxWithNMSLimit", ["s", "b"], list("vyc"), legacy_plus_one=0)], {"s": distinct(8, 2), "b": thin}, outputs=list("vyc"))
# Regions and scores of the levels of a pyramid.
rows = lambda count, size: np.concatenate([ints(2, count, 1), np.cumsum(RANDOM.uniform(0, size, (count, 2, 2)), 1).reshape(count, 4)], 1).astype(np.float32)
pyramid = {"a": rows(4, 20), "b": rows(3, 60), "c": rows(5, 300), "p": distinct(4), "q": distinct(3), "r": distinct(5) + 0.01}
limits = {"rpn_min_level": 2, "rpn_max_level": 4}
roi_levels = {"roi_min_level": 2, "roi_max_level": 5}
case("collect_proposals", [op("CollectRpnProposals", list("abcpqr"), ["y"], rpn_post_nms_topN=7, **limits), op("CollectRpnProposals", list("abcpqr"), ["z"], **limits)], pyramid, outputs=["y", "z"])
case("distribute_proposals", [
    op("DistributeFpnProposals", ["x"], list("abcd") + ["i"], roi_canonical_scale=56, roi_canonical_level=3, **roi_levels),
    op("DistributeFpnProposals", ["r"], list("efgh") + ["j"], legacy_plus_one=0, **roi_levels),
], {"x": rows(7, 90), "r": rows(6, 300)[:, 1:]}, outputs=list("abcdiefghj"))
case("collect_and_distribute", [op("CollectAndDistributeFpnRpnProposals", list("abcpqr"), list("xyzwi"), rpn_post_nms_topN=9, roi_min_level=2, roi_max_level=4, roi_canonical_scale=100, roi_canonical_level=3, **limits)], pyramid, outputs=list("xyzwi"))

case("bbox_transform_unordered", [op("BBoxTransform", ["r", "d", "s"], ["y", "n"])], {"r": regions[[1, 0, 2]], "d": moves, "s": sizes}, outputs=["y", "n"])


# Networks of random weights, as Detectron and detectron2 export them.
class Net:
    def __init__(self):
        self.ops, self.weights = [], {}

    def add(self, kind, reads, writes, **args):
        self.ops.append(op(kind, reads, writes, **args))
        return writes[0]

    def weight(self, name, *shape, scale=1.0):
        # Weights that several operators share are drawn once.
        if name not in self.weights:
            fan = max(int(np.prod(shape[1:])), 1)
            self.weights[name] = (RANDOM.standard_normal(shape) * scale / fan**0.5).astype(np.float32)
        return name

    def conv(self, x, y, channels, kernel=1, stride=1, scale=1.0, name=None):
        name, (outer, inner) = name or y, channels
        reads = [x, self.weight(f"{name}_w", outer, inner, kernel, kernel, scale=scale), self.weight(f"{name}_b", outer, scale=0.1)]
        return self.add("Conv", reads, [y], kernel=kernel, stride=stride, pad=kernel // 2)

    def relu(self, x):
        return self.add("Relu", [x], [x])

    def fc(self, x, y, outer, inner, scale=1.0):
        return self.add("FC", [x, self.weight(f"{y}_w", outer, inner, scale=scale), self.weight(f"{y}_b", outer, scale=0.1)], [y])

    def pyramid(self, plus):
        """A backbone, its pyramid of levels 2 to 5, and the proposals of each."""
        self.conv("data", "conv1", (8, 3), 3, stride=2, scale=1.4)
        self.add("AffineChannel", ["conv1", self.weight("bn_s", 8, scale=1.4), self.weight("bn_b", 8)], ["conv1"])
        self.add("MaxPool", [self.relu("conv1")], ["res2"], kernel=3, stride=2, pad=1)
        for level in (3, 4):
            self.relu(self.conv(f"res{level - 1}", f"res{level}", (8, 8), 3, stride=2, scale=1.4))
        self.conv("res4", "inner4", (8, 8))
        for level in (3, 2):
            self.conv(f"res{level}", f"lateral{level}", (8, 8))
            above = [f"inner{level + 1}"], [f"above{level}"]
            above = self.add("UpsampleNearest", *above, scale=2) if plus else self.add("ResizeNearest", *above, height_scale=2.0, width_scale=2.0)
            self.add("Sum", [f"lateral{level}", above], [f"inner{level}"])
        for level in (2, 3, 4):
            self.conv(f"inner{level}", f"fpn{level}", (8, 8), 3)
        self.add("MaxPool", ["fpn4"], ["fpn5"], kernel=1, stride=2)
        for level in (2, 3, 4, 5):
            self.relu(self.conv(f"fpn{level}", f"rpn{level}", (8, 8), 3, scale=1.4, name="rpn"))
            self.conv(f"rpn{level}", f"logits{level}", (3, 8), name="logits")
            self.conv(f"rpn{level}", f"deltas{level}", (12, 8), scale=0.2, name="deltas")
            self.add("Sigmoid", [f"logits{level}"], [f"probs{level}"])
            side = 2.0**level
            self.weights[f"anchors{level}"] = np.array([[-side, -side, side, side], [-side, -2 * side, side, 2 * side], [-2 * side, -side, 2 * side, side]], np.float32)
            reads = [f"probs{level}", f"deltas{level}", "im_info", f"anchors{level}"]
            self.add("GenerateProposals", reads, [f"rois{level}", f"roi_probs{level}"], spatial_scale=0.5**level, pre_nms_topN=60, post_nms_topN=12, nms_thresh=0.7, min_size=0.0, legacy_plus_one=plus)

    def pooled(self, name, cells, aligned):
        """Cells of the regions of the levels 2 to 4, in the order before they were distributed."""
        parts = []
        for level in (2, 3, 4):
            parts.append(self.add("RoIAlign", [f"fpn{level}", f"{name}{level}"], [f"{name}_cells{level}"], pooled_h=cells, pooled_w=cells, sampling_ratio=2, spatial_scale=0.5**level, aligned=aligned))
        self.add("Concat", parts, [f"{name}_shuffled", f"{name}_dims"], axis=0)
        return self.add("BatchPermutation", [f"{name}_shuffled", f"{name}_restore"], [f"{name}_pooled"])

    def boxes(self, pooled, classes, columns):
        self.relu(self.fc(pooled, "fc6", 16, 72, scale=1.4))
        self.relu(self.fc("fc6", "fc7", 16, 16, scale=1.4))
        self.add("Softmax", [self.fc("fc7", "class_logits", classes, 16, scale=0.3)], ["cls_prob"])
        return self.fc("fc7", "bbox_pred", columns, 16, scale=0.5)


pixels = lambda *shape: ints(16, *shape, dtype=np.float32) / 8 - 1
levels_of = {"roi_min_level": 2, "roi_max_level": 4, "roi_canonical_scale": 16, "roi_canonical_level": 3}
net = Net()
net.pyramid(1)
reads = [f"{name}{level}" for name in ("rois", "roi_probs") for level in (2, 3, 4, 5)]
net.add("CollectAndDistributeFpnRpnProposals", reads, ["rois", "rois_fpn2", "rois_fpn3", "rois_fpn4", "rois_fpn_restore"], rpn_min_level=2, rpn_max_level=5, rpn_post_nms_topN=30, **levels_of)
net.boxes(net.pooled("rois_fpn", 3, 0), 4, 16)
net.add("BBoxTransform", ["rois", "bbox_pred", "im_info"], ["pred_bbox"], weights=[10.0, 10.0, 5.0, 5.0])
net.add("BoxWithNMSLimit", ["cls_prob", "pred_bbox"], ["score_nms", "bbox_nms", "class_nms"], score_thresh=0.05, nms=0.5, detections_per_im=12)
net.add("DistributeFpnProposals", ["bbox_nms"], ["mask_rois2", "mask_rois3", "mask_rois4", "mask_rois_restore"], **levels_of)
net.relu(net.conv(net.pooled("mask_rois", 4, 0), "mask1", (8, 8), 3, scale=1.4))
net.add("ConvTranspose", ["mask1", net.weight("mask2_w", 8, 8, 2, 2), net.weight("mask2_b", 8)], ["mask2"], kernel=2, stride=2)
net.add("Sigmoid", [net.conv(net.relu("mask2"), "mask_logits", (4, 8))], ["masks"])
case("mask_rcnn", net.ops, {"data": pixels(1, 3, 64, 64), "im_info": np.array([[64, 64, 1.0]], np.float32)}, net.weights, outputs=["rois", "score_nms", "bbox_nms", "class_nms", "masks"])
net = Net()
net.pyramid(0)
net.add("CollectRpnProposals", reads, ["rois"], rpn_min_level=2, rpn_max_level=5, rpn_post_nms_topN=30)
net.add("DistributeFpnProposals", ["rois"], ["rois_fpn2", "rois_fpn3", "rois_fpn4", "rois_fpn_restore"], legacy_plus_one=0, **levels_of)
net.boxes(net.pooled("rois_fpn", 3, 1), 4, 12)
net.add("BBoxTransform", ["rois", "bbox_pred", "im_info"], ["pred_bbox", "batch_splits"], weights=[10.0, 10.0, 5.0, 5.0], apply_scale=1, rotated=0, angle_bound_on=1, angle_bound_lo=-180, angle_bound_hi=180, clip_angle_thresh=1.0, legacy_plus_one=0)
nms = ["score_nms", "bbox_nms", "class_nms", "batch_splits_nms", "keeps_nms", "keeps_size_nms"]
net.add("BoxWithNMSLimit", ["cls_prob", "pred_bbox", "batch_splits"], nms, score_thresh=0.05, nms=0.5, detections_per_im=8, soft_nms_enabled=0, soft_nms_method="linear", soft_nms_sigma=0.5, soft_nms_min_score_thres=0.001, rotated=0, cls_agnostic_bbox_reg=0, input_boxes_include_bg_cls=0, output_classes_include_bg_cls=0, legacy_plus_one=0)
case("faster_rcnn_images", net.ops, {"data": pixels(2, 3, 32, 32), "im_info": np.array([[32, 32, 1.0], [24, 28, 0.75]], np.float32)}, net.weights, outputs=["rois"] + nms)
# Groups of rows.
groups = {"x": rnd(5, 2), "l": lengths}
case("lengths_reduced", [op("LengthsMean", ["x", "l"], ["a"]), op("LengthsMax", ["x", "l"], ["b"]), op("LengthsWeightedSum", ["x", "w", "l"], ["c"]), op("SparseLengthsMean", ["x", "i", "l"], ["d"]), op("SparseLengthsPositionalWeightedSum", ["x", "w", "i", "l"], ["e"])], {"w": rnd(5), "i": ints(5, 5), **groups}, outputs=list("abcde"))
case("lengths_moved", [op("LengthsGather", ["x", "l", "i"], ["a"]), op("LengthsPad", ["x", "l"], ["b"], target_length=4, padding_value=7.0), op("LengthsPad", ["x", "l"], ["c"], target_length=3), op("LengthsTile", ["y", "l"], ["d"])], {"i": np.array([2, 0, 1, 2], np.int64), "y": rnd(3, 2, 2), **groups}, outputs=list("abcd"))
case("lengths_split", [op("LengthsSplit", ["l"], ["a"], n_split=3), op("LengthsSplit", ["l", "n"], ["b"])], {"l": np.array([7, 0, 2], np.int32)}, {"n": np.array([2], np.int32)}, outputs=["a", "b"])
case("lengths_forms", [op("LengthsToOffsets", ["l"], ["a"]), op("LengthsToOffsets", ["l"], ["b"], include_last_offset=1), op("LengthsToSegmentIds", ["l"], ["c"]), op("LengthsToShape", ["m"], ["d"]), op("LengthsToWeights", ["l"], ["e"]), op("LengthsToWeights", ["l"], ["f"], power=0.3)], {"l": lengths, "m": np.array([4, 4, 4], np.int32)}, outputs=list("abcdef"))
case("segments_packed", [op("PackSegments", ["l", "x"], ["a"]), op("PackSegments", ["l", "x"], ["b", "c"], max_length=2, pad_minf=True, return_presence_mask=True), op("UnpackSegments", ["l", "a"], ["d"]), op("UnpackSegments", ["l", "b"], ["e"], max_length=2)], groups, outputs=list("abcde"))
case("segments_of_indices", [op("SegmentIdsToLengths", ["i"], ["a"]), op("SegmentIdsToLengths", ["i", "n"], ["b"]), op("SegmentIdsToRanges", ["i"], ["c"]), op("SortedSegmentSum", ["x", "i"], ["d"]), op("SortedSegmentMean", ["x", "i"], ["e"]), op("UnsortedSegmentSum", ["x", "j"], ["f"]), op("UnsortedSegmentMean", ["x", "j"], ["g"], num_segments=6)], {"x": rnd(5, 2), "i": np.array([0, 0, 1, 2, 2], np.int32), "j": np.array([3, 0, 1, 0, 3], np.int32), "n": rnd(4)}, outputs=list("abcdefg"))


def recurrent(name, cell, states, offset=0.0, **args):
    """A recurrent network of Caffe2's Python layer, with sequences of several lengths."""
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper(name=name)
    first = [f"first{number}" for number in range(states)]
    blobs = model.net.AddExternalInputs("x", "l", *first)
    cell(model, blobs[0], blobs[1], tuple(blobs[2:]) if states > 1 else blobs[2:], 3, 4, "rnn", forward_only=True, **args)
    workspace.RunNetOnce(model.param_init_net)
    weights = {key: rnd(*workspace.FetchBlob(key).shape) for key in map(str, model.params)}
    inputs = {"x": rnd(5, 3, 3), "l": np.array([5, 2, 4], np.int32), **{key: rnd(1, 3, 4) for key in first}}
    network = next(it for it in model.net.Proto().op if it.type == "RecurrentNetwork")
    case(name, list(model.net.Proto().op), inputs, weights, outputs=list(network.output)[:-1])


recurrent("recurrent_lstm", rnn_cell.LSTM, 2, forget_bias=1.0)
recurrent("recurrent_lstm_dropped", rnn_cell.LSTM, 2, forget_bias=0.0, drop_states=True)
recurrent("recurrent_gru", gru_cell.GRU, 1, forget_bias=0.0)
# Regions of other kinds, keypoints, and scores that suppression lowers.
rois = np.array([[0, 1, 1, 6, 5], [1, 0, 2, 3, 6], [1, 2, 2, 2, 2], [0, 5, 4, 30, 2]], np.float32)
case("roi_pool", [op("RoIPool", ["x", "r"], ["y"], pooled_h=2, pooled_w=3, spatial_scale=0.5, is_test=1), op("RoIPool", ["x", "r"], ["z", "places"], pooled_h=3, pooled_w=2)], {"x": rnd(2, 3, 7, 8), "r": rois}, outputs=["y", "z"])
turned = np.array([[1, 4, 3, 6, 4, 30], [0, 3.5, 4.5, 2, 7, -75], [0, 1, 1, 0.5, 0.5, 10], [1, 8, 7, 5, 3, 180]], np.float32)
rotated = lambda output, **args: op("RoIAlignRotated", ["x", "r"], [output], **args)
case("roi_align_rotated", [rotated("a", pooled_h=2, pooled_w=3, sampling_ratio=2, spatial_scale=0.5), rotated("b", pooled_h=2, pooled_w=2, sampling_ratio=1, aligned=1), rotated("c", pooled_h=3, pooled_w=2, sampling_ratio=0), rotated("d", pooled_h=1, pooled_w=2, sampling_ratio=0, spatial_scale=2.0, aligned=1)], {"x": rnd(2, 3, 7, 8), "r": turned}, outputs=list("abcd"))
case("roi_align_rotated_nhwc", [rotated("y", pooled_h=2, pooled_w=2, sampling_ratio=2, order="NHWC")], {"x": rnd(1, 7, 8, 3), "r": turned[:, 1:]})
angles = np.array([[0, 5, 4, 6, 4, 0.5], [0, 3, 5, 2, 7, -89], [1, 6, 6, 5, 3, 80]], np.float32)
turns = rnd(3, 10)
case("bbox_transform_rotated", [
    op("BBoxTransform", ["r", "d", "s"], ["y", "n"], rotated=1, weights=[10.0, 10.0, 5.0, 5.0]),
    op("BBoxTransform", ["r", "d", "s"], ["z"], rotated=1, apply_scale=0, legacy_plus_one=0, angle_bound_lo=-180, angle_bound_hi=180, clip_angle_thresh=60.0),
    op("BBoxTransform", ["r", "d", "s"], ["w"], rotated=1, angle_bound_on=0),
], {"r": angles, "d": turns, "s": sizes}, outputs=["y", "n", "z", "w"], tolerance=1e-4)
case("bbox_transform_rotated_image", [op("BBoxTransform", ["r", "d", "s"], ["y"], rotated=1)], {"r": angles[:, 1:], "d": turns[:, :5], "s": sizes[:1]}, tolerance=1e-4)
maps = rnd(3, 4, 6, 6)
# Maxima at corners, and one without curvature.
maps[0, 0, 0, 0], maps[0, 1, 5, 5], maps[1, 2, 0, 5] = 2, 3, 2.5
maps[2, 3] = 0.25
corners = np.array([[1, 2, 9, 12, 0.5], [0, 0, 0.25, 30, 0.5], [3, 3, 4, 4, 0.5]], np.float32)
case("keypoints", [op("HeatmapMaxKeypoint", ["x", "b"], ["y"], should_output_softmax=1), op("HeatmapMaxKeypoint", ["x", "b"], ["z"])], {"x": maps, "b": corners}, outputs=["y", "z"], tolerance=1e-4)
soft = lambda **args: op("BoxWithNMSLimit", ["s", "b", "n"], list("vycmkl"), soft_nms_enabled=1, **args)
nine = {"s": distinct(9, 4), "b": boxes(9, 4), "n": splits}
case("box_limit_soft", [soft(score_thresh=0.1, nms=0.3, detections_per_im=7)], nine, outputs=list("vycmkl"))
case("box_limit_gaussian", [soft(score_thresh=0.05, soft_nms_method="gaussian", soft_nms_sigma=0.4, soft_nms_min_score_thres=0.2, detections_per_im=0, legacy_plus_one=0, input_boxes_include_bg_cls=0)], {**nine, "b": boxes(9, 3)}, outputs=list("vycmkl"))
case("box_limit_soft_shared", [op("BoxWithNMSLimit", ["s", "b"], list("vyc"), soft_nms_enabled=1, soft_nms_method="linear", nms=0.1, cls_agnostic_bbox_reg=1)], {"s": distinct(9, 4), "b": boxes(9, 1)}, outputs=list("vyc"))
case("lengths_top_k", [op("LengthsTopK", ["x", "l"], ["v", "i"], k=2), op("LengthsTopK", ["x", "l"], ["w", "j"], k=6)], {"x": np.array([0.5, -2, 3, 3, 1, 7, -4], np.float32), "l": np.array([4, 0, 1, 2], np.int32)}, outputs=list("viwj"))


def windows(name, first, links, alias_offset):
    """A recurrent network whose steps read several rows of the sequence, or several values of the state."""
    step = core.Net("step")
    step.Proto().external_input.extend(["part", "held", "timestep"])
    step.ReduceFrontSum(["part"], ["sum"])
    step.ReduceFrontSum(["held"], ["old"])
    step.Add(["sum", "old"], ["both"])
    step.Tanh(["both"], ["flat"])
    step.ExpandDims(["flat"], ["next"], dims=[0])
    step.Proto().external_output.extend(["next"])
    arg = utils.MakeArgument
    network = core.CreateOperator("RecurrentNetwork", ["x", "first", "z"], ["all", "last", "workspaces"], arg=[
        arg("step_net", step.Proto()), arg("timestep", "timestep"), arg("recurrent_states", ["state"]), arg("initial_recurrent_state_ids", [1]),
        arg("link_internal", [it[0] for it in links]), arg("link_external", [it[1] for it in links]),
        arg("link_offset", [it[2] for it in links]), arg("link_window", [it[3] for it in links]),
        arg("alias_src", ["state", "state"]), arg("alias_dst", ["all", "last"]), arg("alias_offset", [alias_offset, -1]),
        arg("recompute_blobs_on_backward", []), arg("outputs_with_grads", [0]), arg("param", []), arg("param_grads", []),
    ])
    case(name, [network], {"x": rnd(5, 2, 3), "first": first, "z": rnd(8, 2, 3)}, outputs=["all", "last"])


windows("recurrent_window", rnd(1, 2, 3), [("part", "z", 1, 3), ("held", "state", 0, 1), ("next", "state", 1, 1)], 1)
windows("recurrent_window_states", rnd(3, 2, 3), [("part", "x", 0, 1), ("held", "state", 0, 3), ("next", "state", 3, 1)], 0)
keys = np.array([4, -3, 7, 0, 5, 2], np.int64)
case("partition", [op("Partition", ["k", "x"], ["a", "b", "c", "d", "e", "f"]), op("Partition", ["m", "x"], ["g", "h", "i", "j"], pack_first_input=1)], {"k": keys, "m": keys.astype(np.int32), "x": rnd(6, 2)}, outputs=list("abcdefghij"))
case("partition_matrix", [op("Partition", ["k", "x"], ["a", "b", "c", "d"])], {"k": keys.reshape(2, 3), "x": rnd(2, 3, 2)}, outputs=list("abcd"))
case("lengths_partition", [op("LengthsPartition", ["l", "k", "x"], list("abcdef"), pack_first_input=1), op("LengthsPartition", ["l", "k"], list("ghijnm"))], {"l": np.array([3, 0, 1, 2], np.int32), "k": np.abs(keys), "x": rnd(6, 2)}, outputs=list("abcdefghijnm"))
(HERE / "cases.json").write_text(json.dumps(CASES, indent=1) + "\n")
