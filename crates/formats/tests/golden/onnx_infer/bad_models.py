"""Models that are wrong, most of which ONNX's strict inference refuses: operators with what does not fit."""

import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper
import numpy as np

F, I, B, S = T.FLOAT, T.INT64, T.BOOL, T.STRING


def value(name, kind):
    """`(dtype, shape)`, or None for nothing."""
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
    """A model of one operator; its inputs, by order, are types or constants."""
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
    yield from in_blocks()


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
    """All of them, with what strict inference says, null where it says nothing."""
    for name, model in candidates():
        error = None
        try:
            onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        except Exception as refused:  # noqa: BLE001
            error = str(refused).split("\n")[0]
        yield {"name": name, "error": error}, model.SerializeToString()
