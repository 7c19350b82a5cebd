"""Writes cases of the operators of com.microsoft, and of models that ONNX Runtime's tools wrote: `ms_*.onnx`.

    python make_onnx_microsoft.py

Run with onnx 1.23.2 and onnxruntime 1.31.1. `cases.py` describes the files. Operators without a kernel on CPUs have the
results of the same computation in ONNX's own operators.
"""

import os

import numpy as np
import onnx
from cases import model_of, run, write
from onnx import TensorProto, helper

HERE = os.path.dirname(os.path.abspath(__file__))
MS = "com.microsoft"
count = {}


def case(kind, inputs, outputs=1, domain=MS, constants=(), **attributes):
    count[kind] = count.get(kind, 0) + 1
    model, feed = model_of(kind, inputs, domain=domain, outputs=outputs, constants=constants, **attributes)
    write(HERE, "ms_%s_%d" % (kind.lower(), count[kind]), model, feed)


def floats(rng, *dims):
    return rng.normal(size=dims).astype(np.float32)


def codes(rng, *dims, dtype=np.uint8):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, dims).astype(dtype)


def f(value):
    return np.array(value, np.float32)


def u8(value):
    return np.array(value, np.uint8)


def i8(value):
    return np.array(value, np.int8)


def activations(rng):
    x, bias = floats(rng, 2, 3, 8), floats(rng, 8)
    case("Gelu", [x])
    case("BiasGelu", [x, bias])
    case("FastGelu", [x])
    case("FastGelu", [x, bias])
    case("QuickGelu", [x])
    case("QuickGelu", [x], alpha=0.7)


def products(rng):
    x, w, b = floats(rng, 1, 3, 6, 5), floats(rng, 4, 3, 3, 3), floats(rng, 4)
    case("FusedConv", [x, w, b], activation="Relu")
    case("FusedConv", [x, w], activation="LeakyRelu", activation_params=[0.3], pads=[1, 1, 1, 1], strides=[2, 1])
    case("FusedConv", [x, w, b], activation="Clip", activation_params=[-0.5, 1.0])
    case("FusedConv", [x, w, b], activation="HardSigmoid", activation_params=[0.3, 0.4], auto_pad="SAME_UPPER")
    case("FusedConv", [x, w, b], activation="Tanh", dilations=[2, 1])
    case("FusedConv", [x, w, b, floats(rng, 1, 4, 4, 3)], activation="Relu")
    case("FusedConv", [floats(rng, 1, 4, 7), floats(rng, 4, 2, 3)], activation="Sigmoid", group=2)
    a, b = floats(rng, 3, 4), floats(rng, 4, 5)
    case("FusedGemm", [a, b, floats(rng, 5)], activation="Relu", alpha=0.5, beta=2.0)
    case("FusedGemm", [a.T.copy(), b.T.copy(), floats(rng, 3, 1)], transA=1, transB=1, activation="LeakyRelu",
         activation_alpha=0.2)
    case("FusedMatMul", [floats(rng, 2, 3, 4), floats(rng, 2, 5, 4)], transB=1, alpha=0.25)
    case("FusedMatMul", [floats(rng, 2, 4, 3), b], transA=1)
    case("FusedMatMul", [floats(rng, 3, 2, 4), floats(rng, 4, 2, 5)], transBatchA=1, transBatchB=1)
    case("FusedMatMul", [floats(rng, 4, 2, 3), floats(rng, 5, 2, 4)], transBatchA=1, transBatchB=1, transA=1, transB=1)
    a, b = codes(rng, 3, 4), codes(rng, 4, 5, dtype=np.int8)
    one = [f(0.02), u8(120), b, f(0.03), i8(3)]
    case("QGemm", [a, *one, codes(rng, 5).astype(np.int32), f(0.9), u8(128)])
    case("QGemm", [a, *one, None, f(0.9), u8(100)], alpha=0.5)
    case("QGemm", [a, *one, codes(rng, 3, 5).astype(np.int32)])
    columns = [f([0.01, 0.02, 0.03, 0.04, 0.05]), i8([1, -2, 0, 4, 5])]
    case("QGemm", [a.T.copy(), f(0.02), u8(120), b.T.copy(), *columns, codes(rng, 5).astype(np.int32), f(0.9), u8(7)],
         transA=1, transB=1)
    case("QGemm", [codes(rng, 3, 4, dtype=np.int8), f(0.02), i8(-20), b, *columns, None, f(0.8), i8(5)])
    case("MatMulIntegerToFloat", [a, b, f(0.1), f(0.2), u8(7), i8(3), floats(rng, 5)])
    case("MatMulIntegerToFloat", [codes(rng, 2, 3, 4), codes(rng, 4, 5), f(0.1), columns[0], None, u8([1, 2, 3, 4, 5])])
    case("DynamicQuantizeMatMul", [floats(rng, 3, 4), b, f(0.2), i8(3)])
    case("DynamicQuantizeMatMul", [floats(rng, 2, 3, 4), codes(rng, 4, 5), columns[0], u8([9, 8, 7, 6, 5]), floats(rng, 5)])


def few_bits(rng):
    for bits, k, n, block in ((4, 32, 5, 16), (4, 40, 3, 16), (8, 32, 4, 32), (2, 32, 4, 16)):
        blocks = -(-k // block)
        weights, scales = codes(rng, n, blocks, block * bits // 8), floats(rng, n * blocks) * 0.1
        zeros = codes(rng, n * (-(-blocks * bits // 8)))
        options = dict(K=k, N=n, bits=bits, block_size=block)
        try:
            case("MatMulNBits", [floats(rng, 2, 3, k), weights, scales, zeros], constants=(1, 2, 3), **options)
            case("MatMulNBits", [floats(rng, 4, k), weights, scales], constants=(1, 2), **options)
        except Exception as error:
            print("MatMulNBits", bits, str(error)[:200])


def norms(rng):
    x, skip = floats(rng, 2, 3, 8), floats(rng, 2, 3, 8)
    gamma, beta, bias = floats(rng, 8), floats(rng, 8), floats(rng, 8)
    case("LayerNormalization", [x, gamma, beta], domain="", opset=12, axis=-1, epsilon=1e-5)
    case("LayerNormalization", [x, gamma, beta], domain="", opset=17, outputs=3, axis=1)
    case("SimplifiedLayerNormalization", [x, gamma], domain="", opset=14, outputs=2, epsilon=1e-6)
    case("SimplifiedLayerNormalization", [x, floats(rng, 3, 8)], domain="", axis=1)
    case("SkipLayerNormalization", [x, skip, gamma, beta])
    case("SkipLayerNormalization", [x, skip, gamma], epsilon=1e-3)
    case("SkipLayerNormalization", [x, skip, gamma, beta, bias], outputs=["y", "", "", "sum"], epsilon=1e-5)
    case("SkipLayerNormalization", [x, skip[:1], gamma, None, bias])
    case("SkipSimplifiedLayerNormalization", [x, skip, gamma], epsilon=1e-6)
    case("SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], outputs=["y", "", "", "sum"], epsilon=1e-6)
    words = rng.integers(0, 9, (2, 3)).astype(np.int32)
    tables = [floats(rng, 9, 8), floats(rng, 4, 8)]
    segments = np.array([[0, 0, 1], [0, 1, 1]], np.int32)
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    case("EmbedLayerNormalization", [words, segments, *tables, floats(rng, 2, 8), gamma, beta, mask], outputs=2,
         constants=(2, 3, 4, 5, 6))
    case("EmbedLayerNormalization", [words, None, *tables, None, gamma, beta], outputs=3, epsilon=1e-5,
         constants=(2, 3, 5, 6))
    case("EmbedLayerNormalization", [words, segments, *tables, floats(rng, 2, 8), gamma, beta, None,
                                     np.array([[3, 2, 1]], np.int32)], outputs=2,
         constants=(2, 3, 4, 5, 6))


def recurrent(rng):
    case("DynamicQuantizeLSTM", [floats(rng, 4, 3, 2), codes(rng, 1, 2, 12), codes(rng, 1, 3, 12), floats(rng, 1, 24),
                                 np.array([2, 4, 1], np.int32), None, None, None, f([0.005]), u8([0]), f([0.004]),
                                 u8([0])], outputs=3, constants=(1, 2, 8, 9, 10, 11), hidden_size=3, clip=1.5)
    for number, (directions, batch, name) in enumerate(((1, 1, "forward"), (2, 3, "bidirectional"), (1, 2, "reverse"))):
        hidden, inputs, steps = 4, 3, 5
        dtype = np.int8 if number else np.uint8
        weights = [codes(rng, directions, size, 4 * hidden, dtype=dtype) for size in (inputs, hidden)]
        shape = (directions, 4 * hidden) if number == 1 else (directions,)
        scales = [np.abs(floats(rng, *shape)) * 0.01 + 0.002 for _ in range(2)]
        zeros = [np.zeros(shape, dtype) + (128 if dtype == np.uint8 else 0) for _ in range(2)]
        bias = floats(rng, directions, 8 * hidden) if number < 2 else None
        first = [floats(rng, directions, batch, hidden) for _ in range(2)] if number == 1 else [None, None]
        case("DynamicQuantizeLSTM", [floats(rng, steps, batch, inputs), *weights, bias, None, *first, None,
                                     scales[0], zeros[0].astype(dtype), scales[1], zeros[1].astype(dtype)],
             outputs=3, constants=(1, 2, 8, 9, 10, 11), hidden_size=hidden, direction=name)


def quantized(rng):
    for dtype, of in ((np.uint8, u8), (np.int8, i8)):
        x, y = codes(rng, 2, 3, 4, dtype=dtype), codes(rng, 3, 1, dtype=dtype)
        for kind in ("QLinearAdd", "QLinearMul"):
            case(kind, [x, f(0.017), of(7), y, f(0.031), of(11), f(0.057), of(9)])
        case("QLinearSigmoid", [x, f(0.03), of(5), f(1 / 256), of(0)], constants=(1, 2, 3, 4))
        case("QLinearLeakyRelu", [x, f(0.03), of(5), f(0.02), of(3)], alpha=0.2)
        image = codes(rng, 1, 2, 5, 5, dtype=dtype)
        pooling = dict(kernel_shape=[3, 3], strides=[2, 2])
        case("QLinearAveragePool", [image, f(0.03), of(5), f(0.021), of(9)], pads=[1, 1, 1, 1], **pooling)
        case("QLinearAveragePool", [image, f(0.03), of(5), f(0.021), of(9)], pads=[1, 1, 1, 1], count_include_pad=1,
             **pooling)
        case("QLinearAveragePool", [image, f(0.03), of(5), f(0.021), of(9)], kernel_shape=[2, 3], strides=[2, 2],
             pads=[0, 1, 0, 0], ceil_mode=1, count_include_pad=1)
        case("QLinearGlobalAveragePool", [image, f(0.03), of(5), f(0.011), of(9)])
        case("QLinearConcat", [f(0.05), of(3), x, f(0.017), of(7), x[:, :1].copy(), f(0.031), of(11)], axis=1)
        case("QuantizeLinear", [floats(rng, 2, 3), f([0.02, 0.01, 0.03]), of([1, 2, 3])], axis=1)
        case("DequantizeLinear", [x, f(0.017), of(7)], domain=MS)
    case("QLinearAveragePool", [codes(rng, 1, 5, 5, 2), f(0.03), u8(5), f(0.021), u8(9)], channels_last=1, **pooling)
    case("QLinearGlobalAveragePool", [codes(rng, 1, 5, 5, 2), f(0.03), u8(5), f(0.011), u8(9)], channels_last=1)
    case("QLinearWhere", [np.array([[True, False, True]]), codes(rng, 2, 3), f(0.02), u8(7), codes(rng, 1), f(0.03), u8(9),
                          f(0.04), u8(3)])
    case("QLinearConv", [codes(rng, 1, 5, 5, 2), f(0.02), u8(120), codes(rng, 3, 2, 3, 3, dtype=np.int8), f(0.01), i8(0),
                         f(0.2), u8(100)], channels_last=1)
    softmax = lambda data, zero, **more: node_with_opset([data, f(0.06), zero, f(1 / 256), zero], **more)
    softmax(codes(rng, 3, 7), u8(0), axis=-1, version=13)
    softmax(codes(rng, 2, 3, 4), u8(0), axis=1, version=13)
    softmax(codes(rng, 2, 3, 4), u8(0), axis=1, version=12)


def node_with_opset(inputs, axis, version):
    """The operator has an attribute named like an argument of `model_of`."""
    model, feed = model_of("QLinearSoftmax", inputs, domain=MS, axis=axis)
    model.graph.node[0].attribute.append(helper.make_attribute("opset", version))
    count["QLinearSoftmax"] = count.get("QLinearSoftmax", 0) + 1
    write(HERE, "ms_qlinearsoftmax_%d" % count["QLinearSoftmax"], model, feed)


def attention(rng):
    x, weights, bias = floats(rng, 2, 4, 6), floats(rng, 6, 24) * 0.4, floats(rng, 24)
    case("Attention", [x, weights, bias], num_heads=2)
    case("Attention", [x, weights, bias, np.array([3, 4], np.int32)], num_heads=2, unidirectional=1)
    case("Attention", [x, weights, bias, np.array([3, 4, 1, 0], np.int32)], num_heads=2)
    raw = np.array([[1, 1, 0, 1], [1, 0, 0, 1]], np.int32)
    case("Attention", [x, weights, bias, raw], num_heads=4, mask_filter_value=-3.0)
    case("Attention", [x, weights, bias, None, floats(rng, 2, 2, 2, 3, 4)], outputs=2, num_heads=2, unidirectional=1)
    case("Attention", [x, weights[:, :20].copy(), bias[:20].copy(), None, None, floats(rng, 1, 2, 4, 4)], num_heads=2,
         qkv_hidden_sizes=[8, 8, 4], scale=0.3)
    q, k, v = floats(rng, 2, 3, 8), floats(rng, 2, 5, 8), floats(rng, 2, 5, 8)
    case("MultiHeadAttention", [q, k, v], num_heads=2)
    case("MultiHeadAttention", [q, k, v, floats(rng, 24)], num_heads=4, scale=0.2)
    padding = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)
    case("MultiHeadAttention", [q, k, v, None, padding, floats(rng, 1, 2, 3, 5)], num_heads=2)
    case("MultiHeadAttention", [k, k, v, None, None, None, floats(rng, 2, 2, 3, 4), floats(rng, 2, 2, 3, 4)], outputs=3,
         num_heads=2, unidirectional=1)
    case("MultiHeadAttention", [q, floats(rng, 2, 2, 5, 4), floats(rng, 2, 2, 5, 4)], num_heads=2)
    angles = floats(rng, 10, 2)
    tables = [np.cos(angles), np.sin(angles)]
    case("RotaryEmbedding", [floats(rng, 2, 3, 8), np.array([[0, 1, 2], [4, 5, 9]], np.int64), *tables])
    case("RotaryEmbedding", [floats(rng, 2, 3, 8), np.array([4], np.int64), *tables], interleaved=1)
    case("RotaryEmbedding", [floats(rng, 2, 2, 3, 4), np.array([1], np.int64), *tables])
    case("RotaryEmbedding", [floats(rng, 2, 3, 12), np.array([2], np.int64), *tables], num_heads=2, rotary_embedding_dim=4)


def graph_of(nodes, feed, opset=21):
    graph = helper.make_graph(
        nodes, "reference",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
         for name, value in feed.items()], [onnx.ValueInfoProto(name="y0")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def without_kernel(rng):
    """Operators that ONNX Runtime computes on other devices only."""
    def other(kind, inputs, nodes, **attributes):
        count[kind] = count.get(kind, 0) + 1
        model, feed = model_of(kind, inputs, domain=MS, **attributes)
        _, values = run(graph_of(nodes, feed), feed)
        write(HERE, "ms_%s_%d" % (kind.lower(), count[kind]), model, feed, outputs=(["y0"], values))
    node = helper.make_node
    other("BiasSplitGelu", [floats(rng, 1, 3, 8), floats(rng, 8)], [
        node("Add", ["x0", "x1"], ["sum"]), node("Split", ["sum"], ["a", "b"], axis=-1, num_outputs=2),
        node("Gelu", ["b"], ["gate"]), node("Mul", ["a", "gate"], ["y0"])])
    front, back = [0, 3, 1, 2], [0, 2, 3, 1]
    other("GroupNorm", [floats(rng, 2, 3, 3, 4), floats(rng, 4), floats(rng, 4)], [
        node("Transpose", ["x0"], ["t"], perm=front),
        node("GroupNormalization", ["t", "x1", "x2"], ["n"], num_groups=2, epsilon=1e-5),
        node("Transpose", ["n"], ["z"], perm=back), node("Sigmoid", ["z"], ["s"]), node("Mul", ["z", "s"], ["y0"])],
        groups=2, activation=1, channels_last=1)
    other("NhwcConv", [floats(rng, 1, 5, 4, 2), floats(rng, 3, 3, 3, 2), floats(rng, 3)], [
        node("Transpose", ["x0"], ["t"], perm=front), node("Transpose", ["x1"], ["w"], perm=front),
        node("Conv", ["t", "w", "x2"], ["c"], pads=[1, 1, 0, 0]), node("Transpose", ["c"], ["y0"], perm=back)],
        pads=[1, 1, 0, 0])
    data = codes(rng, 2, 3, 4)
    other("QLinearReduceMean", [data, f(0.02), u8(9), f(0.013), u8(4)], [
        node("DequantizeLinear", ["x0", "x1", "x2"], ["d"]), node("ReduceMean", ["d", "a"], ["m"], keepdims=0),
        node("QuantizeLinear", ["m", "x3", "x4"], ["y0"])][:0] + [
        node("Constant", [], ["a"], value_ints=[1]), node("DequantizeLinear", ["x0", "x1", "x2"], ["d"]),
        node("ReduceMean", ["d", "a"], ["m"], keepdims=0), node("QuantizeLinear", ["m", "x3", "x4"], ["y0"])],
        axes=[1], keepdims=0)


def written_by_tools(rng):
    """Models after the quantizer and the graph optimizations of ONNX Runtime."""
    import tempfile

    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static
    node, tensor = helper.make_node, onnx.numpy_helper.from_array
    weights = [tensor(floats(rng, *dims) * 0.4, name) for name, dims in (
        ("w1", (4, 3, 3, 3)), ("b1", (4,)), ("w2", (4, 4, 1, 1)), ("b2", (4,)), ("w3", (5, 4)), ("b3", (5,)))]
    nodes = [node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]), node("Relu", ["c1"], ["r1"]),
             node("Conv", ["r1", "w2", "b2"], ["c2"]), node("Add", ["c2", "r1"], ["s"]), node("Sigmoid", ["s"], ["g"]),
             node("Mul", ["s", "g"], ["m"]), node("AveragePool", ["m"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             node("GlobalAveragePool", ["p"], ["a"]), node("Flatten", ["a"], ["f"]),
             node("Gemm", ["f", "w3", "b3"], ["z"], transB=1), node("Softmax", ["z"], ["y"])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "images", [value("x", TensorProto.FLOAT, ["n", 3, 6, 6])],
                              [value("y", TensorProto.FLOAT, ["n", 5])], weights)
    images = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    weights = [tensor(floats(rng, *dims) * 0.4, name) for name, dims in (
        ("w", (1, 16, 3)), ("r", (1, 16, 4)), ("b", (1, 32)), ("d", (4, 6)), ("e", (6,)), ("g", (6,)), ("h", (6,)))]
    nodes = [node("LSTM", ["x", "w", "r", "b"], ["o", "last"], hidden_size=4), node("Squeeze", ["o", "one"], ["q"]),
             node("MatMul", ["q", "d"], ["m"]), node("Add", ["m", "e"], ["s"]), node("Gelu", ["s"], ["z"]),
             node("LayerNormalization", ["z", "g", "h"], ["y"])]
    graph = helper.make_graph(nodes, "series", [value("x", TensorProto.FLOAT, [5, "n", 3])],
                              [value("y", TensorProto.FLOAT, [5, "n", 6])], [*weights, tensor(np.array([1]), "one")])
    series = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)

    class Data(CalibrationDataReader):
        def __init__(self):
            self.rows = iter([{"x": floats(rng, 2, 3, 6, 6)} for _ in range(4)])

        def get_next(self):
            return next(self.rows, None)

    with tempfile.TemporaryDirectory() as here:
        paths = {name: os.path.join(here, name) for name in ("images", "series", "made")}
        onnx.save(images, paths["images"])
        onnx.save(series, paths["series"])
        quantize_static(paths["images"], paths["made"], Data(), quant_format=QuantFormat.QOperator)
        x = floats(rng, 2, 3, 6, 6)
        write(HERE, "ms_quantized_images", onnx.load(paths["made"]), {"x": x})
        quantize_dynamic(paths["series"], paths["made"])
        write(HERE, "ms_quantized_series", onnx.load(paths["made"]), {"x": floats(rng, 5, 1, 3)})
        for name, feed in (("images", x), ("series", floats(rng, 5, 2, 3))):
            options = onnxruntime.SessionOptions()
            options.optimized_model_filepath = paths["made"]
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
            onnxruntime.InferenceSession(paths[name], options, ["CPUExecutionProvider"])
            write(HERE, "ms_optimized_" + name, onnx.load(paths["made"]), {"x": feed})


if __name__ == "__main__":
    for number, family in enumerate((activations, products, few_bits, norms, recurrent, quantized, attention,
                                     without_kernel, written_by_tools)):
        family(np.random.default_rng(number))
