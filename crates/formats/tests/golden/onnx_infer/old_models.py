"""Operators of old versions, with attributes that later became inputs, and similar differences."""

import numpy as np
from onnx import TensorProto as T
from onnx import helper

from bad_models import array, model, one

F, I, B, S = T.FLOAT, T.INT64, T.BOOL, T.STRING


def versions(kind, inputs, opsets, **rest):
    for opset in opsets:
        yield f"{kind} {opset}", one(kind, inputs, opset=opset, **rest)


def old_models():
    x, picture = (F, [2, 3, 4]), (F, [1, 3, 8, 8])
    named = (F, ["batch", 3, None])
    for kind in ("Abs", "Relu", "Sigmoid", "Exp", "Log", "Neg", "Sqrt", "Tanh", "Floor"):
        yield from versions(kind, [named], (1, 6, 13, 23))
    for kind in ("Add", "Sub", "Mul", "Div", "Pow"):
        yield from versions(kind, [x, (F, [3, 4])], (1, 6), broadcast=1)
        yield from versions(kind, [x, (F, [3])], (1, 6), broadcast=1, axis=1)
        yield from versions(kind, [x, x], (1, 6))
        yield from versions(kind, [named, (F, [3, 1])], (7, 13, 14))
    for kind in ("And", "Or", "Xor"):
        yield from versions(kind, [(B, [2, 3]), (B, [3])], (1,), broadcast=1)
        yield from versions(kind, [(B, [2, 1]), (B, [3])], (7, 13))
    for kind in ("Equal", "Less", "Greater"):
        yield from versions(kind, [x, (F, [4])], (1,) if kind == "Equal" else (1,), broadcast=1)
        yield from versions(kind, [(F, [2, 1]), (F, [3])], (9, 11, 13))
    for kind in ("Max", "Min", "Mean", "Sum"):
        yield from versions(kind, [x, x, x], (1, 6))
        yield from versions(kind, [x, (F, [4]), (F, [3, 1])], (8, 13))
    yield from versions("Clip", [x], (1, 6), min=0.0, max=1.0)
    yield from versions("Clip", [x, (F, []), (F, [])], (11, 12, 13))
    for opset, to in ((1, "FLOAT16"), (6, T.INT32), (9, T.STRING), (13, T.BFLOAT16), (19, 17), (23, 23)):
        yield from versions("Cast", [named], (opset,), to=to)
    yield from versions("Dropout", [x], (1, 6, 7, 10), outputs=2)
    yield from versions("Dropout", [x, (F, []), (B, [])], (12, 13, 22), outputs=2)
    statistics = [(F, [3])] * 4
    yield from versions("BatchNormalization", [picture, *statistics], (1, 6), consumed_inputs=[0, 0, 0, 1, 1])
    yield from versions("BatchNormalization", [picture, *statistics], (7, 9))
    yield from versions("BatchNormalization", [picture, *statistics], (14, 15), outputs=3, training_mode=1)
    yield from versions("Reshape", [x], (1,), shape=[2, -1])
    yield from versions("Reshape", [x, array(0, -1)], (5, 13, 14, 19))
    yield from versions("Squeeze", [(F, [1, 3, 1])], (1, 11), axes=[0, 2])
    yield from versions("Squeeze", [(F, [1, 3, 1])], (1, 11, 13))
    yield from versions("Squeeze", [(F, [1, 3, 1]), array(-1)], (13, 21))
    yield from versions("Unsqueeze", [x], (1, 11), axes=[0, 3])
    yield from versions("Unsqueeze", [x, array(0, -1)], (13, 21))
    yield from versions("Pad", [x], (2,), pads=[0, 1, 2, 0, 1, 2])
    yield from versions("Pad", [x, array(0, 1, 2, 0, 1, 2)], (11, 13))
    yield from versions("Pad", [x, array(1, 2), None, array(-1)], (18, 21))
    yield from versions("Slice", [x], (1,), starts=[0, -2], ends=[1, 1000], axes=[1, 2])
    yield from versions("Slice", [x], (1,), starts=[0, 1], ends=[1, 3])
    yield from versions("Slice", [x, array(-1), array(-100), array(2), array(-2)], (10, 11, 13))
    yield from versions("Split", [(F, [2, 6])], (2, 11), outputs=3, axis=1)
    yield from versions("Split", [(F, [2, 6])], (2, 11), outputs=2, axis=-1, split=[2, 4])
    yield from versions("Split", [(F, [2, 6]), array(5, 1)], (13,), outputs=2, axis=1)
    yield from versions("Split", [(F, [2, 7])], (18,), outputs=3, axis=1, num_outputs=3)
    yield from versions("Concat", [x, x], (4, 11, 13), axis=-1)
    yield from versions("Tile", [x, array(2, 1, 3)], (6, 13))
    yield from versions("TopK", [x], (1,), outputs=2, k=2, axis=1)
    yield from versions("TopK", [x, array(2)], (10, 11), outputs=2)
    yield from versions("Upsample", [picture], (7,), scales=[1.0, 1.0, 2.0, 1.5])
    scales = array(1, 1, 2, 1.5, dtype=np.float32)
    yield from versions("Upsample", [picture, scales], (9,))
    yield from versions("Resize", [picture, scales], (10,))
    yield from versions("Resize", [picture, (F, [8]), scales], (11, 13, 18, 19))
    for kind in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceProd", "ReduceL2", "ReduceLogSumExp"):
        yield from versions(kind, [named], (1, 11), axes=[0, -1] if kind == "" else [0, 2])
        yield from versions(kind, [named], (1, 11), keepdims=0, axes=[1])
        yield from versions(kind, [named], (1, 11, 18), keepdims=0)
        yield from versions(kind, [named, array(-1)], (18,))
        yield from versions(kind, [named], (18,), noop_with_empty_axes=1)
    for kind in ("ArgMax", "ArgMin"):
        yield from versions(kind, [named], (1, 11, 12, 13), axis=1)
        yield from versions(kind, [named], (1, 11, 12, 13), keepdims=0)
    for kind in ("Softmax", "LogSoftmax", "Hardmax"):
        yield from versions(kind, [named], (1, 11, 13))
    yield from versions("Flatten", [x], (1, 9, 11, 13), axis=2)
    yield from versions("Flatten", [x], (11, 13), axis=-1)
    yield from versions("Gather", [x, (I, [5, "n"])], (1, 11, 13), axis=1)
    yield from versions("Gemm", [(F, [2, 3]), (F, [4, 3]), (F, [4])], (1, 6), broadcast=1, transB=1)
    yield from versions("Gemm", [(F, [3, 2]), (F, [3, 4]), (F, [1])], (7, 9), transA=1)
    yield from versions("Gemm", [(F, ["n", 3]), (F, [3, 4])], (11, 13))
    yield from versions("MatMul", [(F, ["n", 2, 3]), (F, [3, 4])], (1, 9, 13))
    weights = (F, [6, 3, 3, 3])
    yield from versions("Conv", [picture, weights], (1, 11, 22), pads=[1, 1, 1, 1], strides=[2, 2])
    yield from versions("Conv", [picture, weights], (1, 11), auto_pad="SAME_UPPER", strides=[3, 3])
    yield from versions("Conv", [(F, ["n", 3, None, "w"]), weights], (11,), dilations=[2, 1])
    yield from versions("ConvTranspose", [picture, (F, [3, 2, 3, 3])], (1, 11, 22), strides=[2, 2], output_padding=[1, 1])
    yield from versions("ConvTranspose", [picture, (F, [3, 2, 3, 3])], (1, 11), group=3, output_shape=[16, 17], strides=[2, 2])
    yield from versions("ConvTranspose", [picture, (F, [3, 2, 3, 3])], (11,), auto_pad="SAME_LOWER", strides=[2, 2])
    for opset in (1, 8, 10, 11, 12, 22):
        yield from versions("MaxPool", [picture], (opset,), kernel_shape=[3, 2], strides=[2, 2], outputs=1 if opset < 8 else 2)
    for opset in (1, 7, 10, 11, 19, 22):
        yield from versions("AveragePool", [picture], (opset,), kernel_shape=[3, 3], pads=[0, 1, 0, 1])
    for opset in (10, 11, 12, 19, 22):
        yield from versions("AveragePool", [picture], (opset,), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    yield from versions("LpPool", [picture], (2, 11, 18, 22), kernel_shape=[2, 2])
    for kind in ("GlobalAveragePool", "GlobalMaxPool"):
        yield from versions(kind, [picture], (1, 22))
    cells = {"RNN": 1, "GRU": 3, "LSTM": 4}
    for kind, gates in cells.items():
        inputs = [(F, [5, "b", 3]), (F, [2, 4 * gates, 3]), (F, [2, 4 * gates, 4])]
        outputs = 3 if kind == "LSTM" else 2
        yield from versions(kind, inputs, (7, 14, 22), outputs=outputs, hidden_size=4, direction="bidirectional")
        inputs[0] = (F, ["b", 5, 3])
        yield from versions(kind, inputs, (14, 22), outputs=outputs, hidden_size=4, direction="bidirectional", layout=1)
    for opset in (5, 9, 11, 13, 21):
        yield from versions("Shape", [named], (opset,))
        yield from versions("Size", [named], (opset,))
        yield from versions("Transpose", [named], (opset,), perm=[2, 0, 1])
        yield from versions("Identity", [named], (opset,))
    yield from versions("Shape", [named], (15, 19, 21), start=1, end=-1)
    yield from versions("OneHot", [(I, [2, "n"]), array(7), (F, [2])], (9, 11), axis=1)
    yield from versions("Expand", [(F, [3, 1]), array(2, 1, 6)], (8, 13))
    yield from versions("ConstantOfShape", [array(2, 3)], (9, 20, 23))
    yield from versions("Where", [(B, [2, 1]), (F, [3]), (F, ["n", 1, 1])], (9, 16))
    yield from versions("NonZero", [x], (9, 13))
    yield from versions("DepthToSpace", [(F, ["n", 8, 2, None])], (1, 11, 13), blocksize=2)
    yield from versions("SpaceToDepth", [(F, ["n", 2, 4, None])], (1, 13), blocksize=2)
    yield from versions("GatherND", [x, (I, [2, 1])], (11,))
    yield from versions("GatherND", [x, (I, [2, 1])], (12, 13), batch_dims=1)
    yield from versions("Scatter", [x, (I, [1, 1, 1]), (F, [1, 1, 1])], (9,))
    yield from versions("ScatterElements", [x, (I, [1, 1, 1]), (F, [1, 1, 1])], (11, 13, 16, 18))
    yield from versions("CumSum", [x, array(0).reshape(())], (11, 14))
    yield from versions("Einsum", [(F, ["a", 3]), (F, [3, "b"])], (12,), equation="ij,jk")
    yield from versions("Unique", [x], (11,), outputs=4, axis=1)
    yield from versions("QuantizeLinear", [x, (F, []), (T.INT8, [])], (10, 13, 19, 21))
    yield from versions("QuantizeLinear", [x, (F, [])], (10, 13, 19))
    yield from versions("QuantizeLinear", [x, (F, [])], (21, 23), output_dtype=T.INT4)
    yield from versions("DequantizeLinear", [(T.INT8, [2, "n"]), (F, []), (T.INT8, [])], (10, 13, 19, 21, 23))
    yield from versions("DFT", [(F, [1, 8, 4, 1])], (17,), axis=2)
    yield from versions("DFT", [(F, [1, 8, 4, 1])], (17,), onesided=1)
    yield from versions("DFT", [(F, [1, 8, 4, 1]), np.array(6), np.array(1)], (20,), onesided=1)
    yield from versions("Multinomial", [(F, ["n", 3])], (7, 22), sample_size=4)
    yield from versions("RandomNormalLike", [named], (1, 22))
    yield from versions("EyeLike", [(F, ["n", 3])], (9, 22), dtype=I)
    yield from versions("InstanceNormalization", [picture, (F, [3]), (F, [3])], (1, 6, 22))
    yield from versions("LayerNormalization", [named, (F, [3, 4])], (17,), outputs=3, axis=1)
    yield from versions("PRelu", [named, (F, [3, 1])], (7, 9, 16))
    yield from versions("LRN", [picture], (1, 13), size=3)
    yield from versions("Trilu", [named], (14,))
    yield from versions("Bernoulli", [named], (15, 22), dtype=I)
    yield from versions("RoiAlign", [picture, (F, ["n", 4]), (I, ["n"])], (10, 16, 22), output_height=2, output_width=3)
    yield from versions("NonMaxSuppression", [(F, [1, 6, 4]), (F, [1, 2, 6])], (10, 11))
    yield from versions("GridSample", [picture, (F, [1, 5, 6, 2])], (16, 20, 22))
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, [2, "n"]))
    optional = helper.make_optional_type_proto(sequence)
    yield from versions("OptionalGetElement", [optional], (15, 18))
    yield from versions("OptionalHasElement", [optional], (15, 18))
    yield from versions("SequenceAt", [sequence, (I, [])], (11,))
    yield from versions("SequenceLength", [sequence], (11,))
    yield from versions("Identity", [sequence], (14, 16))
    yield from versions("Identity", [optional], (16, 19))
    yield from versions("ConcatFromSequence", [sequence], (11,), axis=1)
    yield from versions("ConcatFromSequence", [sequence], (11,), axis=0, new_axis=1)
    yield from versions("SplitToSequence", [x], (11, 24), axis=1, keepdims=0)
    yield from versions("SplitToSequence", [x, array(1, 2)], (11, 24), axis=1)
    ml = {"opset": 21, "domain": "ai.onnx.ml"}
    rows = (F, ["n", 4])
    yield "Scaler", one("Scaler", [rows], scale=[1.0], offset=[0.0], **ml)
    yield "Normalizer", one("Normalizer", [rows], **ml)
    yield "Binarizer", one("Binarizer", [rows], **ml)
    yield "LinearRegressor", one("LinearRegressor", [rows], coefficients=[1.0] * 8, targets=2, **ml)
    yield "LinearClassifier", one(
        "LinearClassifier", [rows], outputs=2, coefficients=[1.0] * 12, classlabels_ints=[0, 1, 2], **ml)
    yield "SVMRegressor", one("SVMRegressor", [rows], coefficients=[1.0], **ml)
    yield "SVMClassifier", one("SVMClassifier", [rows], outputs=2, classlabels_strings=["a", "b"], **ml)
    yield "TreeEnsembleRegressor", one("TreeEnsembleRegressor", [rows], n_targets=3, **ml)
    yield "TreeEnsembleClassifier", one(
        "TreeEnsembleClassifier", [rows], outputs=2, classlabels_strings=["a", "b", "c"], **ml)
    yield "OneHotEncoder", one("OneHotEncoder", [(I, ["n", 2])], cats_int64s=[1, 2, 3], **ml)
    yield "CategoryMapper", one("CategoryMapper", [(S, ["n"])], cats_strings=["a"], cats_int64s=[1], **ml)
    yield "ZipMap", one("ZipMap", [(F, ["n", 2])], classlabels_strings=["a", "b"], **ml)
    yield "ArrayFeatureExtractor", one("ArrayFeatureExtractor", [rows, (I, [2])], **ml)
    yield "LabelEncoder", one("LabelEncoder", [(S, ["n"])], keys_strings=["a"], values_floats=[1.0], **ml)
    training = {"opset": 21, "domain": "ai.onnx.preview.training"}
    value = (F, [3, "n"])
    scalar = [(F, []), (I, [])]
    yield "Adagrad", one("Adagrad", [*scalar, value, value, value], outputs=2, **training)
    yield "Momentum", one(
        "Momentum", [*scalar, *[value] * 6], outputs=4, alpha=0.9, beta=1.0, mode="standard",
        norm_coefficient=0.0, **training)
    yield "Adam", one("Adam", [*scalar, *[value] * 4], outputs=3, **training)
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "i"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n"], ["n1"], axes=[0]),
        helper.make_node("Concat", ["n1", "open"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    constants = [("i", np.array(0)), ("open", array(-1))]
    for opset in (5, 8, 11):
        yield f"a chain of {opset}", model(nodes, {"x": (F, ["batch", 3, 4])}, constants=constants, opset=opset)
