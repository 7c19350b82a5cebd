"""Writes networks with random weights as ONNX models.

    python engine_networks.py DIR

ResNet-50, MobileNet-v3 large, a detector of text (MobileNet-v3, a feature pyramid and a head of transposed convolutions, as
in PP-OCR), an encoder with the dims of BERT base over 128 tokens, and two layers of LSTM over 100 rows. The first two also
quantized to 8 bits by ONNX Runtime: weights with one scale for each channel, between `QuantizeLinear` and `DequantizeLinear`.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

OPSET = 17


class Network:
    """A graph under construction: each method adds nodes, and returns the name of the result."""

    def __init__(self):
        self.nodes, self.weights, self.random = [], [], np.random.default_rng(0)

    def weight(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def normal(self, *shape, scale):
        return self.weight((self.random.standard_normal(shape) * scale).astype("f4"))

    def call(self, kind, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0]

    def conv(self, x, inside, out, size=1, stride=1, groups=1, act=None):
        """A convolution, a batch normalization and an activation."""
        weight = self.normal(out, inside // groups, size, size, scale=(2 / (inside // groups * size * size)) ** 0.5)
        pads, sizes = [size // 2] * 4, [size, size]
        x = self.call("Conv", x, weight, kernel_shape=sizes, strides=[stride] * 2, pads=pads, group=groups)
        uniform = lambda low, high: self.weight(self.random.uniform(low, high, out).astype("f4"))
        x = self.call("BatchNormalization", x, uniform(0.8, 1.2), uniform(-0.1, 0.1), uniform(-0.1, 0.1), uniform(0.8, 1.2))
        return self.act(x, act)

    def act(self, x, act):
        if act == "hswish":
            return self.call("HardSwish", x)
        return self.call("Relu", x) if act == "relu" else x

    def linear(self, x, inside, out):
        x = self.call("MatMul", x, self.normal(inside, out, scale=inside**-0.5))
        return self.call("Add", x, self.normal(out, scale=0.02))

    def classes(self, x, inside, count):
        x = self.call("Flatten", self.call("GlobalAveragePool", x))
        return self.call("Gemm", x, self.normal(count, inside, scale=inside**-0.5), self.normal(count, scale=0.02), transB=1)

    def save(self, path, inputs, result, dims):
        self.nodes.append(helper.make_node("Identity", [result], ["out"]))
        out = helper.make_tensor_value_info("out", TensorProto.FLOAT, dims)
        graph = helper.make_graph(self.nodes, path.stem, inputs, [out], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)


def image(size):
    return [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, size, size])]


def resnet50(path):
    net = Network()
    x = net.conv("x", 3, 64, 7, 2, act="relu")
    x = net.call("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inside = 64
    for stage, (width, count) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        for block in range(count):
            stride = 2 if stage and not block else 1
            y = net.conv(x, inside, width, act="relu")
            y = net.conv(y, width, width, 3, stride, act="relu")
            y = net.conv(y, width, 4 * width)
            if not block:
                x = net.conv(x, inside, 4 * width, 1, stride)
            x, inside = net.call("Relu", net.call("Add", y, x)), 4 * width
    net.save(path, image(224), net.classes(x, inside, 1000), [1, 1000])


# Size, expanded channels, channels, squeeze and excitation, activation, stride.
MOBILE = [
    (3, 16, 16, False, "relu", 1), (3, 64, 24, False, "relu", 2), (3, 72, 24, False, "relu", 1),
    (5, 72, 40, True, "relu", 2), (5, 120, 40, True, "relu", 1), (5, 120, 40, True, "relu", 1),
    (3, 240, 80, False, "hswish", 2), (3, 200, 80, False, "hswish", 1), (3, 184, 80, False, "hswish", 1),
    (3, 184, 80, False, "hswish", 1), (3, 480, 112, True, "hswish", 1), (3, 672, 112, True, "hswish", 1),
    (5, 672, 160, True, "hswish", 2), (5, 960, 160, True, "hswish", 1), (5, 960, 160, True, "hswish", 1),
]  # fmt: skip


def mobile(net, scale, squeezes):
    """The backbone; returns the results before each stride, with their channels."""
    rounded = lambda channels: max(8, int(channels * scale + 4) // 8 * 8)
    inside = rounded(16)
    x, found = net.conv("x", 3, inside, 3, 2, act="hswish"), []
    for size, wide, out, squeezed, act, stride in MOBILE:
        wide, out = rounded(wide), rounded(out)
        if stride == 2:
            found.append((x, inside))
        y = net.conv(x, inside, wide, act=act) if wide != inside else x
        y = net.conv(y, wide, wide, size, stride, groups=wide, act=act)
        if squeezed and squeezes:
            narrow = max(8, (wide // 4 + 4) // 8 * 8)
            z = net.call("GlobalAveragePool", y)
            for channels, filters in ((wide, narrow), (narrow, wide)):
                weight = net.normal(filters, channels, 1, 1, scale=channels**-0.5)
                z = net.call("Conv", z, weight, net.normal(filters, scale=0.02), kernel_shape=[1, 1])
                z = net.call("Relu", z) if filters == narrow else net.call("HardSigmoid", z, alpha=1 / 6)
            y = net.call("Mul", y, z)
        y = net.conv(y, wide, out)
        x, inside = (net.call("Add", x, y) if stride == 1 and out == inside else y), out
    wide = rounded(960)
    return [*found[1:], (net.conv(x, inside, wide, act="hswish"), wide)]


def mobilenet_v3(path):
    net = Network()
    x, inside = mobile(net, 1.0, True)[-1]
    x = net.call("GlobalAveragePool", x)
    weight = net.normal(1280, inside, 1, 1, scale=inside**-0.5)
    x = net.call("Conv", x, weight, net.normal(1280, scale=0.02), kernel_shape=[1, 1])
    x = net.call("Flatten", net.call("HardSwish", x))
    x = net.call("Gemm", x, net.normal(1000, 1280, scale=0.03), net.normal(1000, scale=0.02), transB=1)
    net.save(path, image(224), x, [1, 1000])


def text_detector(path):
    net, width = Network(), 96
    levels = [net.conv(x, inside, width) for x, inside in mobile(net, 0.5, False)]
    larger = lambda x, times: net.call(
        "Resize", x, "", net.weight(np.array([1, 1, times, times], "f4")), mode="nearest",
        coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    )  # fmt: skip
    for place in (2, 1, 0):
        levels[place] = net.call("Add", levels[place], larger(levels[place + 1], 2))
    levels = [net.conv(x, width, width // 4, 3) for x in levels]
    levels = [larger(x, 2**place) if place else x for place, x in enumerate(levels)]
    x = net.conv(net.call("Concat", *reversed(levels), axis=1), width, width // 4, 3, act="relu")
    for out, act in ((width // 4, "Relu"), (1, "Sigmoid")):
        weight = net.normal(width // 4, out, 2, 2, scale=0.1)
        x = net.call("ConvTranspose", x, weight, net.normal(out, scale=0.02), kernel_shape=[2, 2], strides=[2, 2])
        x = net.call(act, x)
    net.save(path, image(640), x, [1, 1, 640, 640])


def bert(path, length=128, width=768, heads=12, layers=12):
    net = Network()
    ints = lambda *values: net.weight(np.array(values, "i8"))
    norm = lambda x: net.call(
        "LayerNormalization", x, net.weight(net.random.uniform(0.8, 1.2, width).astype("f4")), net.normal(width, scale=0.02)
    )
    x = net.call("Gather", net.normal(1000, width, scale=1.0), "x")
    x = norm(net.call("Add", x, net.normal(1, length, width, scale=0.02)))
    split, join = ints(1, length, heads, width // heads), ints(1, length, width)
    half, one, root = (net.weight(np.array(value, "f4")) for value in (0.5, 1.0, 2**0.5))
    scale = net.weight(np.array((width / heads) ** -0.5, "f4"))
    for _ in range(layers):
        turned = lambda perm: net.call("Transpose", net.call("Reshape", net.linear(x, width, width), split), perm=perm)
        query, key, value = turned([0, 2, 1, 3]), turned([0, 2, 3, 1]), turned([0, 2, 1, 3])
        shares = net.call("Softmax", net.call("Mul", net.call("MatMul", query, key), scale), axis=-1)
        y = net.call("Transpose", net.call("MatMul", shares, value), perm=[0, 2, 1, 3])
        x = norm(net.call("Add", x, net.linear(net.call("Reshape", y, join), width, width)))
        y = net.linear(x, width, 4 * width)
        y = net.call("Mul", net.call("Mul", y, net.call("Add", net.call("Erf", net.call("Div", y, root)), one)), half)
        x = norm(net.call("Add", x, net.linear(y, 4 * width, width)))
    net.save(path, [helper.make_tensor_value_info("x", TensorProto.INT64, [1, length])], x, [1, length, width])


def lstm(path, length=100, width=256):
    net, x = Network(), "x"
    for _ in range(2):
        weights = [net.normal(1, 4 * width, width, scale=width**-0.5) for _ in range(2)]
        x = net.call("LSTM", x, *weights, net.normal(1, 8 * width, scale=0.02), outputs=3, hidden_size=width)
        x = net.call("Squeeze", x, net.weight(np.array([1])))
    x = net.linear(x, width, 64)
    net.save(path, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [length, 1, width])], x, [length, 1, 64])


class Samples(CalibrationDataReader):
    """Random images from which the ranges of activations are taken."""

    def __init__(self, name, dims):
        random = np.random.default_rng(1)
        self.left = iter([{name: random.standard_normal(dims).astype("f4")} for _ in range(4)])

    def get_next(self):
        return next(self.left, None)


def quantize(path, to):
    graph_input = onnx.load(path).graph.input[0]
    dims = [dim.dim_value for dim in graph_input.type.tensor_type.shape.dim]
    with tempfile.TemporaryDirectory() as folder:
        folded = Path(folder) / "folded.onnx"
        quant_pre_process(path, folded, skip_symbolic_shape=True)
        types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
        quantize_static(folded, to, Samples(graph_input.name, dims), per_channel=True, **types)


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for build in (resnet50, mobilenet_v3, text_detector, bert, lstm):
        path = out / f"{build.__name__}.onnx"
        if not path.exists():
            build(path)
    for name in ("resnet50", "mobilenet_v3"):
        path = out / f"{name}_int8.onnx"
        if not path.exists():
            quantize(out / f"{name}.onnx", path)


if __name__ == "__main__":
    main()
