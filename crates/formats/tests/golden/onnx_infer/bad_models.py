"""Invalid models, most of which ONNX's strict inference rejects: operators with inconsistent operands."""

import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper
import numpy as np

F, I, B, S = T.FLOAT, T.INT64, T.BOOL, T.STRING


def value(name, kind):
    """Returns `(dtype, shape)`, or None if there is no type."""
    if kind is None:
        return helper.make_empty_tensor_value_info(name)
    if isinstance(kind, onnx.TypeProto):
        return helper.make_value_info(name, kind)
    return helper.make_tensor_value_info(name, *kind)


def model(nodes, inputs, outputs=("y",), constants=(), opset=23, functions=(), domains=()):
    inputs = [value(name, kind) for name, kind in inputs.items()]
    outputs = [value(*o) if isinstance(o, tuple) else value(o, None) for o in outputs]
    tensors = [numpy_helper.from_array(np.asarray(data), name) for name, data in constants]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    imports = [helper.make_opsetid("", opset), *[helper.make_opsetid(d, 1) for d in domains]]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=functions)


def one(kind, inputs, constants=(), outputs=1, opset=23, result=None, domain="", **attributes):
    """Returns a model of one operator; its inputs, in order, are types or constants."""
    names, kinds, data = [], {}, []
    for index, given in enumerate(inputs):
        name = f"x{index}" if given is not None else ""
        names.append(name)
        if isinstance(given, np.ndarray):
            data.append((name, given))
        elif given is not None:
            kinds[name] = given
    results = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(kind, names, results, domain=domain, **attributes)
    declared = [(results[0], result), *results[1:]] if result else results
    return model([node], kinds, declared, data, opset, domains=[domain] if domain else ())


def array(*numbers, dtype=np.int64):
    return np.array(numbers, dtype=dtype)


def candidates():
    x = (F, [2, 3, 4])
    yield "add of shapes that do not broadcast", one("Add", [(F, [2, 3]), (F, [2, 4])])
    yield "sub of shapes that do not broadcast", one("Sub", [(F, [5]), (F, [4])])
    yield "where of shapes that do not broadcast", one("Where", [(B, [2]), (F, [3]), (F, [3])])
    yield "sum of shapes that do not broadcast", one("Sum", [(F, [2]), (F, [3]), (F, [1])])
    yield "a declared rank that is another", one("Relu", [x], result=(F, [2, 3]))
    yield "a declared extent that is another", one("Relu", [x], result=(F, [2, 3, 5]))
    yield "a declared type that is another", one("Relu", [x], result=(I, [2, 3, 4]))
    yield "a shape that is declared as floats", one("Shape", [x], result=(F, [3]))
    yield "matmul of other inner extents", one("MatMul", [(F, [2, 3]), (F, [4, 5])])
    yield "matmul of a scalar", one("MatMul", [(F, []), (F, [4, 5])])
    yield "matmul of stacks that do not broadcast", one("MatMul", [(F, [2, 3, 4]), (F, [3, 4, 5])])
    yield "gemm of a vector", one("Gemm", [(F, [2]), (F, [2, 3])])
    yield "gemm of a stack", one("Gemm", [(F, [2, 2, 2]), (F, [2, 3])])
    yield "conv of weights of another rank", one("Conv", [(F, [1, 3, 8, 8]), (F, [4, 3, 3])])
    yield "conv of a vector", one("Conv", [(F, [8]), (F, [4, 3, 3])])
    yield "conv of too few strides", one("Conv", [(F, [1, 3, 8, 8]), (F, [4, 3, 3, 3])], strides=[1])
    yield "conv of too few dilations", one(
        "Conv", [(F, [1, 3, 8, 8]), (F, [4, 3, 3, 3])], dilations=[1])
    yield "conv of too few pads", one("Conv", [(F, [1, 3, 8, 8]), (F, [4, 3, 3, 3])], pads=[1, 1])
    yield "conv of another kernel shape", one(
        "Conv", [(F, [1, 3, 8, 8]), (F, [4, 3, 3, 3])], kernel_shape=[3])
    yield "transposed conv of too few strides", one(
        "ConvTranspose", [(F, [1, 3, 8, 8]), (F, [3, 4, 3, 3])], strides=[2])
    yield "transposed conv of a group of 0", one(
        "ConvTranspose", [(F, [1, 3, 8, 8]), (F, [3, 4, 3, 3])], group=0)
    yield "pool without a kernel", one("MaxPool", [(F, [1, 3, 8, 8])])
    yield "pool of a kernel of another rank", one("MaxPool", [(F, [1, 3, 8, 8])], kernel_shape=[2])
    yield "pool of too few pads", one(
        "AveragePool", [(F, [1, 3, 8, 8])], kernel_shape=[2, 2], pads=[1, 1])
    yield "pool of a vector", one("AveragePool", [(F, [8])], kernel_shape=[2])
    yield "global pool of a vector", one("GlobalMaxPool", [(F, [8])])
    yield "unpool of indices of another rank", one(
        "MaxUnpool", [(F, [1, 1, 2, 2]), (I, [1, 2, 2])], kernel_shape=[2, 2])
    yield "regions of another rank", one(
        "RoiAlign", [(F, [1, 3, 8, 8]), (F, [2, 4, 1]), (I, [2])])
    yield "batches of regions of another rank", one(
        "RoiAlign", [(F, [1, 3, 8, 8]), (F, [2, 4]), (I, [2, 1])])
    yield "reshape to other elements", one("Reshape", [(F, [2, 3]), array(4, 2)])
    yield "reshape to two open extents", one("Reshape", [(F, [2, 3]), array(-1, -1)])
    yield "reshape to a negative extent", one("Reshape", [(F, [2, 3]), array(-2, 3)])
    yield "reshape that does not divide", one("Reshape", [(F, [2, 3]), array(4, -1)])
    yield "reshape that keeps what is not there", one("Reshape", [(F, [2, 3]), array(1, 6, 0)])
    yield "flatten at an axis that is not there", one("Flatten", [x], axis=4)
    yield "squeeze of another extent", one("Squeeze", [(F, [1, 2]), array(1)])
    yield "squeeze of an axis that is not there", one("Squeeze", [(F, [1, 2]), array(2)])
    yield "unsqueeze at an axis twice", one("Unsqueeze", [(F, [2]), array(1, 1)])
    yield "unsqueeze at an axis that is not there", one("Unsqueeze", [(F, [2]), array(5)])
    yield "transpose of too few axes", one("Transpose", [x], perm=[0, 1])
    yield "transpose of an axis that is not there", one("Transpose", [x], perm=[0, 1, 3])
    yield "transpose of an axis twice", one("Transpose", [x], perm=[0, 1, 1])
    yield "expand to a shape that does not broadcast", one("Expand", [(F, [2, 3]), array(4, 3)])
    yield "tile of too few repeats", one("Tile", [(F, [2, 3]), array(2)])
    yield "concat of other ranks", one("Concat", [(F, [2, 3]), (F, [2])], axis=0)
    yield "concat of other extents", one("Concat", [(F, [2, 3]), (F, [2, 4])], axis=0)
    yield "concat at an axis that is not there", one("Concat", [(F, [2, 3]), (F, [2, 3])], axis=2)
    yield "concat without an axis", one("Concat", [(F, [2, 3]), (F, [2, 3])])
    yield "split that does not make up", one("Split", [(F, [6]), array(2, 3)], outputs=2)
    yield "split into too many sizes", one("Split", [(F, [6]), array(2, 2, 2)], outputs=2)
    yield "split at an axis that is not there", one("Split", [(F, [6])], outputs=2, axis=1, num_outputs=2)
    yield "split of old that does not divide", one("Split", [(F, [5])], outputs=2, opset=11)
    yield "pad of too few numbers", one("Pad", [(F, [2, 3]), array(1, 1)])
    yield "pad of too few numbers of old", one("Pad", [(F, [2, 3])], opset=10, pads=[1, 1])
    yield "blocks of other channels", one("DepthToSpace", [(F, [1, 5])], blocksize=2)
    yield "blocks of 0", one("SpaceToDepth", [(F, [1, 1, 4, 4])], blocksize=0)
    yield "reduce at an axis that is not there", one("ReduceSum", [x, array(3)])
    yield "reduce at an axis of old that is not there", one("ReduceMean", [x], opset=13, axes=[-4])
    yield "argmax at an axis that is not there", one("ArgMax", [x], axis=3)
    yield "softmax at an axis that is not there", one("Softmax", [x], axis=3)
    yield "log softmax at an axis that is not there", one("LogSoftmax", [x], axis=-4)
    yield "hardmax at an axis that is not there", one("Hardmax", [x], axis=3)
    yield "layer normalization at an axis that is not there", one(
        "LayerNormalization", [x, (F, [4])], axis=3)
    yield "batch normalization of other channels", one(
        "BatchNormalization", [(F, [1, 3, 4]), *[(F, [2])] * 4])
    yield "batch normalization of other statistics", one(
        "BatchNormalization", [(F, [1, 3, 4]), *[(F, [3, 1])] * 4])
    yield "gather at an axis that is not there", one("Gather", [x, (I, [2])], axis=3)
    yield "gather of a scalar", one("Gather", [(F, []), (I, [2])])
    yield "gather elements at an axis that is not there", one("GatherElements", [x, (I, [2, 3, 4])], axis=5)
    yield "gather of indices that are too deep", one("GatherND", [(F, [2, 2]), (I, [1, 3])])
    yield "one-hot of a depth of several", one("OneHot", [(I, [2]), (I, [2]), (F, [2])])
    yield "one-hot of three values", one("OneHot", [(I, [2]), array(3), (F, [3])])
    yield "one-hot of values of another rank", one("OneHot", [(I, [2]), array(3), (F, [1, 2])])
    yield "top of more than there are", one("TopK", [(F, [3]), array(4)], outputs=2)
    yield "top of a negative number", one("TopK", [(F, [3]), array(-1)], outputs=2)
    yield "top of several numbers", one("TopK", [(F, [3]), array(1, 2)], outputs=2)
    yield "top at an axis that is not there", one("TopK", [(F, [3]), array(1)], outputs=2, axis=1)
    yield "top of a vector of numbers", one("TopK", [(F, [3]), array([1])], outputs=2)
    yield "slice of a step of 0", one("Slice", [(F, [3]), array(0), array(1), array(0), array(0)])
    yield "slice at an axis that is not there", one("Slice", [(F, [3]), array(0), array(1), array(1)])
    yield "slice of other starts and ends", one("Slice", [(F, [3]), array(0), array(1, 2), array(0)])
    yield "slice at an axis twice", one(
        "Slice", [(F, [3, 3]), array(0, 0), array(1, 1), array(0, 0)])
    yield "slice of old at an axis that is not there", one(
        "Slice", [(F, [3])], opset=9, starts=[0], ends=[1], axes=[1])
    yield "reverse of a vector", one("ReverseSequence", [(F, [3]), (I, [3])])
    yield "reverse of lengths of another rank", one("ReverseSequence", [(F, [3, 3]), (I, [3, 1])])
    yield "a triangle of a vector", one("Trilu", [(F, [3])])
    yield "distinct elements at an axis that is not there", one("Unique", [x], outputs=4, axis=3)
    yield "compress at an axis that is not there", one("Compress", [x, (B, [2])], axis=3)
    yield "compress by a condition of another rank", one("Compress", [x, (B, [2, 2])])
    yield "an eye of a vector", one("EyeLike", [(F, [3])])
    yield "a range of steps of 0", one("Range", [array(0).reshape(()), array(5).reshape(()), array(0).reshape(())])
    yield "a range of vectors", one("Range", [(F, [2]), (F, []), (F, [])])
    yield "a fill of a negative extent", one("ConstantOfShape", [array(-1, 2)])
    yield "a fill of a shape of another rank", one("ConstantOfShape", [(I, [2, 2])])
    yield "a fill of two values", one(
        "ConstantOfShape", [array(2)], value=numpy_helper.from_array(array(1, 2)))
    yield "a constant of two values", model([helper.make_node("Constant", [], ["y"], value_int=1, value_float=1.0)], {})
    yield "a constant of no value", model([helper.make_node("Constant", [], ["y"])], {})
    yield "a sample of a vector", one("Multinomial", [(F, [3])])
    yield "random numbers without a shape", model([helper.make_node("RandomNormal", [], ["y"])], {})
    yield "random numbers of a type of integers", model(
        [helper.make_node("RandomUniform", [], ["y"], shape=[2], dtype=I)], {})
    yield "resize of too few scales", one(
        "Resize", [(F, [1, 1, 2, 2]), None, array(2.0, 2.0, dtype=np.float32)])
    yield "resize of too few sizes", one("Resize", [(F, [1, 1, 2, 2]), None, None, array(4, 4)])
    yield "resize of scales and sizes", one("Resize", [
        (F, [1, 1, 2, 2]), None, array(1, 1, 2, 2, dtype=np.float32), array(1, 1, 4, 4)])
    yield "resize of neither scales nor sizes", one("Resize", [(F, [1, 1, 2, 2])])
    yield "upsample of too few scales", one("Upsample", [(F, [1, 1, 2, 2])], opset=7, scales=[2.0])
    yield "recurrence of an unknown direction", one(
        "LSTM", [(F, [5, 1, 3]), (F, [1, 16, 3]), (F, [1, 16, 4])], direction="both", hidden_size=4)
    yield "recurrence of a matrix", one(
        "GRU", [(F, [5, 3]), (F, [1, 12, 3]), (F, [1, 12, 4])], hidden_size=4)
    yield "an equation of too few inputs", one("Einsum", [(F, [2, 3])], equation="ij,jk->ik")
    yield "an equation of other extents", one("Einsum", [(F, [2, 3]), (F, [4, 5])], equation="ij,jk->ik")
    yield "an equation of another rank", one("Einsum", [(F, [2, 3, 4])], equation="ij->i")
    yield "an equation of a letter that is not there", one("Einsum", [(F, [2, 3])], equation="ij->k")
    yield "a determinant of a vector", one("Det", [(F, [3])])
    yield "a determinant that is not square", one("Det", [(F, [3, 4])])
    yield "a loss of labels of another rank", one(
        "NegativeLogLikelihoodLoss", [(F, [2, 3]), (I, [2, 2])])
    yield "a loss of labels of another batch", one("NegativeLogLikelihoodLoss", [(F, [2, 3]), (I, [4])])
    yield "a loss of scores without classes", one("NegativeLogLikelihoodLoss", [(F, [2]), (I, [2])])
    yield "a loss of weights of other classes", one(
        "NegativeLogLikelihoodLoss", [(F, [2, 3]), (I, [2]), (F, [4])])
    yield "a quantized product of other extents", one(
        "MatMulInteger", [(T.UINT8, [2, 3]), (T.UINT8, [4, 5])])
    yield "a dropout of a ratio that is a vector", one("Dropout", [x, (F, [2])])
    yield "a crop of too few extents", one("CenterCropPad", [(F, [4, 4]), array(2, 2)], axes=[0])
    yield "frequencies of an axis that is not there", one("DFT", [(F, [1, 8, 1]), None, np.array(5)])
    yield "frequencies of another number of parts", one("DFT", [(F, [1, 8, 3])])
    yield "columns of another rank", one("Col2Im", [(F, [1, 8]), array(4, 4), array(2, 2)])
    yield "columns of other blocks", one("Col2Im", [(F, [1, 5, 4]), array(4, 4), array(2, 2)])
    yield "a grid of another rank", one("GridSample", [(F, [1, 1, 4, 4]), (F, [1, 2, 2])])
    yield "a picture of an unknown format", one("ImageDecoder", [(T.UINT8, [None])], pixel_format="CMYK")
    yield "a cast to nothing", one("Cast", [x], to=0)
    yield "bits of another number", one("BitCast", [x], opset=26, to=T.DOUBLE)
    yield "texts of three extents", one("StringNormalizer", [(S, [1, 2, 3])])
    yield "texts of two rows", one("StringNormalizer", [(S, [2, 2])])
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, [2]))
    yield "relu of a sequence", one("Relu", [sequence])
    yield "add of a sequence", one("Add", [sequence, (F, [2])])
    yield "an element of a tensor", one("SequenceAt", [x, (I, [])])
    yield "a length of a tensor", one("SequenceLength", [x])
    yield "a sequence of several types", one("SequenceConstruct", [(F, [2]), (I, [2])])
    yield "an insertion of another type", one("SequenceInsert", [sequence, (I, [2])])
    yield "a concatenation of a tensor", one("ConcatFromSequence", [x], axis=0)
    yield "a split into parts of no one size", one("SplitToSequence", [x, array(2, 3)], axis=0)
    yield "an optional value of nothing", model([helper.make_node("Optional", [], ["y"])], {})
    yield "an element of no optional value", one("OptionalGetElement", [x], opset=15)
    yield "a map of a tensor", one("DictVectorizer", [x], domain="ai.onnx.ml", int64_vocabulary=[1])
    yield "labels of nothing", one("ZipMap", [(F, [2, 3])], domain="ai.onnx.ml")
    yield "labels of both types", one(
        "ZipMap", [(F, [2, 3])], domain="ai.onnx.ml", classlabels_int64s=[1], classlabels_strings=["a"])
    yield "features of three extents", one(
        "OneHotEncoder", [(T.STRING, [1, 2, 3])], domain="ai.onnx.ml")
    yield "a classifier of three extents", one(
        "TreeEnsembleClassifier", [(F, [1, 2, 3])], outputs=2, domain="ai.onnx.ml",
        classlabels_int64s=[0, 1])
    yield from windows()
    yield from attention()
    yield from classical()
    yield from others()
    yield from in_blocks()


def windows():
    image, weights = (F, [1, 3, 8, 8]), (F, [4, 3, 3, 3])
    yield "conv of a matrix", one("Conv", [(F, [1, 3]), (F, [4, 3])])
    yield "conv of negative pads", one("Conv", [image, weights], pads=[0, -1, 0, 0])
    yield "pool of a matrix", one("MaxPool", [(F, [1, 3])], kernel_shape=[2])
    yield "pool of negative pads", one("MaxPool", [image], kernel_shape=[2, 2], pads=[-1, 0, 0, 0])
    yield "pool of too few pads beside automatic ones", one(
        "MaxPool", [image], kernel_shape=[2, 2], pads=[0], auto_pad="SAME_UPPER")
    transposed = (F, [3, 4, 3, 3])
    yield "transposed conv of channels that are not of groups", one(
        "ConvTranspose", [image, transposed], group=2)
    yield "transposed conv of pads and automatic ones", one(
        "ConvTranspose", [image, transposed], pads=[1, 1, 1, 1], auto_pad="SAME_UPPER")
    yield "transposed conv of negative output padding", one(
        "ConvTranspose", [image, transposed], output_padding=[-1, 0])
    yield "transposed conv of a matrix", one("ConvTranspose", [(F, [1, 3]), (F, [3, 4])])
    unpooled = [(F, [1, 1, 2, 2]), (I, [1, 1, 2, 2])]
    yield "unpool to a size without a kernel", one("MaxUnpool", [*unpooled, array(1, 1, 4, 4)])
    yield "unpool to a size of another rank", one(
        "MaxUnpool", [*unpooled, (I, [3])], kernel_shape=[2, 2])
    yield "regions of four numbers", one("MaxRoiPool", [image, (F, [2, 4])], pooled_shape=[2, 2])
    yield "regions pooled to nothing", one("MaxRoiPool", [image, (F, [2, 5])], pooled_shape=[0, 2])
    yield "aligned regions of five numbers", one("RoiAlign", [image, (F, [2, 5]), (I, [2])])
    yield "a grid of too many coordinates", one("GridSample", [image, (F, [1, 2, 2, 3])])
    columns = [(F, [1, 4, 9]), array(4, 4), array(2, 2)]
    yield "columns of odd pads", one("Col2Im", columns, pads=[0, 0, 0])
    yield "columns of too many strides", one("Col2Im", columns, strides=[1, 1, 1])
    yield "columns of blocks of another rank", one("Col2Im", [(F, [1, 4, 9]), (I, [2]), (I, [3])])
    picture = (F, [1, 1, 2, 2])
    yield "resize of an unknown policy", one(
        "Resize", [picture, None, None, array(1, 1, 4, 4)], keep_aspect_ratio_policy="smaller")
    yield "resize of scales by a policy", one(
        "Resize", [picture, None, array(1, 1, 2, 2, dtype=np.float32)],
        keep_aspect_ratio_policy="not_larger")
    yield "resize of a scalar size", one("Resize", [picture, None, None, (I, [])])
    yield "resize of sizes of another number", one("Resize", [picture, None, None, (I, [3])])


def attention():
    whole, packed = [(F, [2, 3, 4, 8])] * 3, [(F, [2, 4, 24])] * 3
    yield "attention of packed heads of no number", one("Attention", packed, q_num_heads=3)
    yield "attention of heads of 0", one("Attention", packed, q_num_heads=0, kv_num_heads=3)
    yield "attention of a matrix", one("Attention", [(F, [2, 4])] * 3)
    new = dict(opset=25)
    yield "attention of a window below -1", one("Attention", whole, **new, left_window_size=-2)
    yield "attention of heads that are apart and counted", one(
        "Attention", whole, **new, q_num_heads=3)
    past = (F, [2, 3, 5, 8])
    yield "attention of past keys alone", one("Attention", [*whole, None, past], **new)
    yield "attention of present keys alone", one("Attention", whole, outputs=2, **new)
    yield "attention of lengths and a past", one(
        "Attention", [*whole, None, past, past, (I, [2])], **new)
    yield "attention of a past of another rank", one(
        "Attention", [*whole, None, (F, [2, 5, 8]), past], outputs=3)
    signal, kernel = (F, [2, 3, 8]), (F, [3, 1, 4])
    causal = lambda *inputs, **more: one("CausalConvWithState", inputs, outputs=2, opset=27, **more)
    yield "causal conv of an unknown activation", causal(signal, kernel, activation="tanh")
    yield "causal conv of other channels", causal(signal, (F, [4, 1, 4]))
    yield "causal conv of a bias of other channels", causal(signal, kernel, (F, [4]))
    yield "causal conv of a state of another length", causal(signal, kernel, None, (F, [2, 3, 4]))
    heads = dict(q_num_heads=4, kv_num_heads=2)
    tokens = [(F, [2, 5, 32]), (F, [2, 5, 16]), (F, [2, 5, 12])]

    def linear(*more, inputs=tokens, rule="linear", **attributes):
        return one("LinearAttention", [*inputs, *more], outputs=2, opset=27, update_rule=rule,
                   **{**heads, **attributes})

    yield "linear attention of heads that do not divide", linear(q_num_heads=3)
    yield "linear attention of no heads", linear(kv_num_heads=0)
    yield "linear attention of an unknown rule", linear(rule="exact")
    yield "linear attention with a decay", linear(None, (F, [2, 5, 2]))
    yield "linear attention with a beta", linear(None, None, (F, [2, 5, 2]))
    yield "gated attention without a decay", linear(rule="gated")
    yield "delta attention without a beta", linear(rule="delta")
    yield "gated attention of another decay", linear(None, (F, [2, 5, 3]), rule="gated")
    yield "delta attention of another beta", linear(None, None, (F, [2, 5, 3]), rule="delta")
    yield "linear attention of queries that do not divide", linear(
        inputs=[(F, [2, 5, 30]), *tokens[1:]])
    yield "linear attention of keys of another size", linear(inputs=[(F, [2, 5, 16]), *tokens[1:]])
    yield "linear attention of another batch", linear(inputs=[(F, [3, 5, 32]), *tokens[1:]])
    yield "linear attention of another state", linear((F, [2, 2, 8, 5]))
    flexible = lambda *inputs, **more: one(
        "FlexAttention", inputs, domain="ai.onnx.preview", opset=26, **more)
    query, key, value = (F, [2, 4, 3, 8]), (F, [2, 2, 5, 8]), (F, [2, 2, 5, 6])
    yield "flexible attention of heads that do not divide", flexible((F, [2, 3, 3, 8]), key, value)
    yield "flexible attention of values of other heads", flexible(query, key, (F, [2, 4, 5, 6]))
    yield "flexible attention of values of another length", flexible(query, key, (F, [2, 2, 4, 6]))
    yield "flexible attention of another batch", flexible((F, [3, 4, 3, 8]), key, value)
    yield "flexible attention of integer precision", flexible(query, key, value, softmax_precision=I)


def classical():
    def ml(kind, inputs, version=5, **more):
        model = one(kind, inputs, domain="ai.onnx.ml", **more)
        model.opset_import[1].version = version
        return model

    texts = (S, [3])
    yield "categories without numbers", ml("CategoryMapper", [texts], cats_strings=["a"])
    yield "categories of other lengths", ml(
        "CategoryMapper", [texts], cats_strings=["a"], cats_int64s=[1, 2])
    keys, values = dict(keys_strings=["a", "b"]), dict(values_int64s=[1, 2])
    yield "labels without keys", ml("LabelEncoder", [texts], **values)
    yield "labels of two kinds of keys", ml("LabelEncoder", [texts], **keys, keys_int64s=[1, 2], **values)
    yield "labels of keys of another type", ml("LabelEncoder", [(I, [3])], **keys, **values)
    yield "labels of old keys of another type", ml("LabelEncoder", [(I, [3])], version=2, **keys, **values)
    yield "labels without values", ml("LabelEncoder", [texts], **keys)
    yield "labels of fewer values", ml("LabelEncoder", [texts], **keys, values_int64s=[1])
    yield "labels of another default", ml("LabelEncoder", [texts], **keys, **values,
        default_tensor=numpy_helper.from_array(np.zeros(1, np.float32)))
    yield "labels of several defaults", ml("LabelEncoder", [texts], **keys, **values,
        default_tensor=numpy_helper.from_array(array(1, 2)))
    row = (F, [2, 4])
    labels = dict(classlabels_int64s=[0, 1])
    tensor = lambda *numbers, dtype=np.float32: numpy_helper.from_array(array(*numbers, dtype=dtype))
    yield "trees of weights twice", ml("TreeEnsembleClassifier", [row], version=3, outputs=2, **labels,
        class_weights=[1.0], class_weights_as_tensor=tensor(1.0, dtype=np.float64))
    yield "trees without classes", ml("TreeEnsembleClassifier", [row], version=3, outputs=2)
    yield "trees of a vector", ml("TreeEnsembleClassifier", [(F, [4])], version=3, outputs=2, **labels)
    yield "regression of weights twice", ml("TreeEnsembleRegressor", [row], version=3,
        target_weights=[1.0], target_weights_as_tensor=tensor(1.0, dtype=np.float64))
    tree = dict(
        nodes_splits=tensor(1, 2), nodes_featureids=[0, 1], nodes_modes=tensor(0, 0, dtype=np.uint8),
        nodes_truenodeids=[1, 0], nodes_falsenodeids=[0, 1], nodes_trueleafs=[0, 1],
        nodes_falseleafs=[1, 1], leaf_targetids=[0, 0, 0], leaf_weights=tensor(1, 2, 3), n_targets=1,
        tree_roots=[0])
    for name, change in {
        "of other features": dict(nodes_featureids=[0]),
        "of modes of another type": dict(nodes_modes=tensor(0, 0)),
        "of splits of another type": dict(nodes_splits=tensor(1, 2, dtype=np.float64)),
        "of splits in two dimensions": dict(
            nodes_splits=numpy_helper.from_array(np.ones((2, 1), np.float32))),
        "of other weights": dict(leaf_weights=tensor(1, 2)),
        "of weights of another type": dict(leaf_weights=tensor(1, 2, 3, dtype=np.float64)),
        "of hit rates of another number": dict(nodes_hitrates=tensor(1)),
        "of members of another type": dict(membership_values=tensor(1, dtype=np.float64)),
    }.items():
        yield "an ensemble " + name, ml("TreeEnsemble", [row], **{**tree, **change})
    yield "maps of three extents", ml("ZipMap", [(F, [1, 2, 3])], classlabels_int64s=[1, 2, 3])


def others():
    yield "softmax of a scalar", one("Softmax", [(F, [])])
    yield "softmax of old of a scalar", one("LogSoftmax", [(F, [])], opset=11)
    yield "a one-sided transform of complex numbers", one("DFT", [(F, [1, 8, 2])], onesided=1)
    yield "an inverse one-sided transform of real numbers", one(
        "DFT", [(F, [1, 8, 1])], onesided=1, inverse=1)
    yield "a one-sided transform of old", one("DFT", [(F, [1, 8, 2])], opset=17, onesided=1)
    yield "a length of frequencies that is a vector", one("DFT", [(F, [1, 8, 1]), array(8)])
    yield "a window of 0", one("HannWindow", [np.array(0)])
    yield "a window of a vector", one("HannWindow", [array(8)])
    yield "mel bins of a vector", one(
        "MelWeightMatrix", [array(4), np.array(16), np.array(8000), np.array(0.0, np.float32),
                            np.array(4000.0, np.float32)])
    yield "frames of another length than the window", one(
        "STFT", [(F, [1, 32, 1]), np.array(4), (F, [8]), np.array(16)])
    yield "frames of a window of two extents", one("STFT", [(F, [1, 32, 1]), np.array(4), (F, [1, 8])])
    yield "n-grams of no places", one(
        "TfIdfVectorizer", [(I, [5])], max_gram_length=1, max_skip_count=0, min_gram_length=1, mode="TF",
        ngram_counts=[0], ngram_indexes=[-1], pool_int64s=[1])
    yield "batch normalization in training of one output", one(
        "BatchNormalization", [(F, [1, 3, 4]), *[(F, [3])] * 4], training_mode=1)
    yield "batch normalization of three outputs", one(
        "BatchNormalization", [(F, [1, 3, 4]), *[(F, [3])] * 4], outputs=3)
    cache = (F, [2, 3, 8, 4])
    yield "a cache along its batch", one("TensorScatter", [cache, cache, (I, [2])], axis=0, opset=24)
    yield "a cache of updates of other heads", one(
        "TensorScatter", [cache, (F, [2, 5, 1, 4]), (I, [2])], opset=24)
    yield "a cache of other places", one("TensorScatter", [cache, (F, [2, 3, 1, 4]), (I, [3])], opset=24)
    yield "one-hot of a scalar", one("OneHot", [(I, []), np.array(3), (F, [2])])
    yield "one-hot of old of negative places", one(
        "OneHot", [array(-1, 1), np.array(3), (F, [2])], opset=9)
    yield "tiles of a negative number", one("Tile", [(F, [2]), array(-1)])
    yield "parts of sizes and a number", one("Split", [(F, [6]), array(2, 4)], outputs=2, num_outputs=2)
    yield "parts of neither sizes nor a number", one("Split", [(F, [6])], outputs=2)
    yield "compress of a scalar", one("Compress", [(F, []), (B, [1])])
    yield "reshape to nothing and what is left", one(
        "Reshape", [(F, [0, 3]), array(0, -1)])
    yield "a fill of a scalar", one(
        "ConstantOfShape", [array(2)], value=numpy_helper.from_array(np.array(1)))
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, [2]))
    yield "a concatenation along a new axis twice", one("ConcatFromSequence", [sequence], axis=0, new_axis=2)
    parameters = [(F, []), (I, []), (F, [2]), (F, [2]), (F, [2])]
    yield "an optimizer of too few outputs", one(
        "Momentum", parameters, domain="ai.onnx.preview.training", alpha=0.1, beta=0.1, mode="standard",
        norm_coefficient=0.1)
    yield "a split into no parts", one("SplitToSequence", [(F, [4]), np.zeros(0, np.int64)])


def in_blocks():
    def graph(nodes, outputs, inputs=()):
        return helper.make_graph(
            nodes, "b", [value(*i) for i in inputs], [value(*o) for o in outputs])

    node = helper.make_node
    good = graph([node("Relu", ["x"], ["t"])], [("t", None)])
    bad = graph([node("Concat", ["x", "z"], ["e"], axis=0)], [("e", None)])
    other = graph([node("Shape", ["x"], ["e"])], [("e", None)])
    two = graph([node("Relu", ["x"], ["e"]), node("Relu", ["x"], ["f"])], [("e", None), ("f", None)])
    x, z, c = {"x": (F, [2, 3])}, {"z": (F, [2, 4])}, {"c": (B, [])}
    yield "a branch that does not fit", model(
        [node("If", ["c"], ["y"], then_branch=good, else_branch=bad)], {**x, **z, **c})
    yield "branches of several types", model(
        [node("If", ["c"], ["y"], then_branch=good, else_branch=other)], {**x, **c})
    yield "branches of several numbers of outputs", model(
        [node("If", ["c"], ["y"], then_branch=good, else_branch=two)], {**x, **c})
    body = graph(
        [node("Identity", ["k"], ["k1"]), node("MatMul", ["s", "x"], ["s1"])],
        [("k1", None), ("s1", None)],
        [("i", (I, [])), ("k", (B, [])), ("s", (F, [5, 5]))])
    yield "a loop that does not fit", model(
        [node("Loop", ["n", "", "s0"], ["y"], body=body)],
        {**x, "n": (I, []), "s0": (F, [5, 5])})
    kept = graph(
        [node("Identity", ["k"], ["k1"]), node("Shape", ["s"], ["s1"])],
        [("k1", None), ("s1", None)],
        [("i", (I, [])), ("k", (B, [])), ("s", None)])
    yield "a loop whose state becomes another type", model(
        [node("Loop", ["n", "", "s0"], ["y"], body=kept)], {"n": (I, []), "s0": (F, [5])})
    yield "a loop of too few inputs", model(
        [node("Loop", ["n", ""], ["y"], body=body)], {**x, "n": (I, [])})
    step = graph(
        [node("Add", ["s", "e"], ["s1"])], [("s1", None)], [("s", None), ("e", None)])
    yield "a scan of elements that do not fit", model(
        [node("Scan", ["s0", "v"], ["y"], body=step, num_scan_inputs=1)],
        {"s0": (F, [2]), "v": (F, [7, 3])})
    yield "a scan without its elements", model(
        [node("Scan", ["s0", ""], ["y"], body=step, num_scan_inputs=1)], {"s0": (F, [2])})
    yield "a loop without its state", model(
        [node("Loop", ["n", "", ""], ["y"], body=kept)], {"n": (I, [])})
    element = graph([node("Relu", ["e"], ["r"]), node("Abs", ["e"], ["a"])], [("r", None), ("a", None)],
                    [("e", None)])
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, [2]))
    yield "a sequence of fewer results than the graph gives", model(
        [node("SequenceMap", ["s"], ["y"], body=element)], {"s": sequence})
    yield "a scan at an axis that is not there", model(
        [node("Scan", ["s0", "v"], ["y"], body=step, num_scan_inputs=1, scan_input_axes=[2])],
        {"s0": (F, [2]), "v": (F, [7, 2])})
    yield "a scan of several lengths", model(
        [node("Scan", ["v", "w"], ["y"], body=step, num_scan_inputs=2)],
        {"v": (F, [7, 2]), "w": (F, [6, 2])})
    function = helper.make_function(
        "here", "twice", ["a"], ["b"],
        [node("Concat", ["a", "a"], ["t"], axis=0), node("Add", ["a", "t"], ["b"])],
        [helper.make_opsetid("", 23)])
    yield "a function that does not fit its input", model(
        [node("twice", ["x"], ["y"], domain="here")], x, functions=[function], domains=["here"])
    yield "a chain that does not fit at its end", model(
        [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["w"], axis=0),
         node("Unsqueeze", ["w", "zero"], ["w1"]), node("Concat", ["w1", "w1"], ["t"], axis=0),
         node("Reshape", ["x", "t"], ["y"])],
        x, constants=[("one", np.array(1)), ("zero", array(0))])


def bad_models():
    """Returns all models, with the message of strict inference, or null."""
    for name, model in candidates():
        error = None
        try:
            onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        except Exception as refused:  # noqa: BLE001
            error = str(refused).split("\n")[0]
        yield {"name": name, "error": error}, model.SerializeToString()
