"""Writes models of one Glow node, and the results that Glow's interpreter computes by its definition.

    python glow_nodes.py DIR

No recorded Glow model contains these kinds of nodes. DIR/nodes.json lists the models, with paths relative to DIR. The
expected results are computed here, element by element from the definition, and gradients by finite differences.

    [{"name": NAME, "path": PATH, "inputs": ARRAYS, "outputs": ARRAYS}, ...]

ARRAYS is {name: {"dtype", "shape", "data", "quantized"}}.
"""

import itertools
import json
import math
import os
import sys

import numpy as np
from onnx import AttributeProto, TensorProto, helper

KINDS = {
    "float": (TensorProto.FLOAT, "float32"),
    "i8": (TensorProto.INT8, "int8"),
    "i32": (TensorProto.INT32, "int32"),
    "ui8": (TensorProto.UINT8, "uint8"),
    "ui8fused": (TensorProto.UINT8, "uint8"),
    "ui4fusedfp16": (TensorProto.UINT8, "uint8"),
    "index32": (TensorProto.INT32, "int32"),
    "index64": (TensorProto.INT64, "int64"),
    "bool": (TensorProto.BOOL, "bool"),
}

random = np.random.default_rng(7)
cases = []


class T:
    """A Glow value: its elements, their kind, a scale and an offset."""

    def __init__(self, data, kind="float", scale=None, offset=0):
        self.kind = kind
        self.data = np.asarray(data, KINDS[kind][1])
        quantized = kind in ("i8", "i32", "ui8") or "fused" in kind
        self.scale = (1.0 if scale is None else scale) if quantized else None
        self.offset = offset

    @property
    def real(self):
        return (self.data.astype("float64") - self.offset) * self.scale

    def attributes(self, prefix):
        attributes = [(prefix + "_elemKind", self.kind), (prefix + "_shape", list(self.data.shape))]
        if self.scale is not None:
            attributes += [(prefix + "_qScale", float(self.scale)), (prefix + "_qOffset", self.offset)]
        return [attribute(*one) for one in attributes]

    def text(self):
        text = "$offline:0$trainable:0$layout:*$elemKind:" + self.kind
        if self.scale is not None:
            text += "$qScale:{:.30f}$qOffset:{}".format(np.float32(self.scale), self.offset)
        return text

    def as_json(self):
        shape = list(self.data.shape)
        data = [float(x) if self.data.dtype.kind == "f" else int(x) for x in self.data.ravel()]
        # JSON has no NaN.
        data = [x if x == x else "nan" for x in data]
        described = {"dtype": str(self.data.dtype), "shape": shape, "data": data}
        if self.scale is not None:
            described["quantized"] = True
        return described


def attribute(name, value):
    made = AttributeProto(name=name)
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[0], str):
            made.type = AttributeProto.STRINGS
            made.strings.extend(text.encode() for text in value)
        elif value and isinstance(value[0], float):
            made.type = AttributeProto.FLOATS
            made.floats.extend(value)
        else:
            made.type = AttributeProto.INTS
            made.ints.extend(value)
        return made
    if isinstance(value, str):
        made.type, made.s = AttributeProto.STRING, value.encode()
    elif isinstance(value, float):
        made.type, made.f = AttributeProto.FLOAT, value
    else:
        made.type, made.i = AttributeProto.INT, int(value)
    return made


def node(kind, inputs, outputs, several=None, label=None, **members):
    """Adds a case. Outputs that are None are not compared; `several` is the attribute that names all inputs."""
    names = ["in{}".format(i) for i in range(len(inputs))]
    attributes = []
    for name, value in zip(itertools.count(), inputs):
        attributes += value.attributes("i{}".format(name))
    results = []
    for number, value in enumerate(outputs):
        results.append("node" if number == 0 else "node:{}".format(number))
        wanted = value if value is not None else inputs[min(number, len(inputs) - 1)]
        attributes += wanted.attributes("o{}".format(number))
    if several:
        members[several] = names
    attributes += [attribute(name, value) for name, value in members.items()]
    made = helper.make_node("Glow_" + kind, names, results, "node")
    made.attribute.extend(attributes)
    nodes, wanted, infos = [made], {}, []
    for number, (result, value) in enumerate(zip(results, outputs)):
        if value is None:
            continue
        out = "out{}".format(number)
        save = helper.make_node("Identity", [result], [out], "save{}".format(number))
        save.attribute.extend(value.attributes("o1"))
        nodes.append(save)
        wanted[out] = value
        infos.append((out, value))

    def info(name, value):
        made = helper.make_tensor_value_info(name, KINDS[value.kind][0], value.data.shape)
        made.doc_string = value.text()
        return made

    graph = helper.make_graph(
        nodes,
        "glow",
        [info(name, value) for name, value in zip(names, inputs)],
        [info(name, value) for name, value in infos],
    )
    model = helper.make_model(graph, producer_name="GlowONNXModelWriter", ir_version=7)
    model.opset_import[0].version = 9
    name = label or kind
    cases.append((name, model, dict(zip(names, inputs)), wanted))


def floats(*shape):
    return random.normal(size=shape).astype("float32")


def integers(low, high, *shape):
    return random.integers(low, high, shape)


def quantized(real, scale, offset):
    return T(np.clip(np.rint(np.asarray(real) / scale + offset), -128, 127), "i8", scale, offset)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def slope(function, inputs, index, grad):
    """Returns the gradient of one input by central differences, for a given gradient of the result."""
    wide = [np.asarray(x, "float64") for x in inputs]
    found = np.zeros_like(wide[index])
    for place in np.ndindex(*found.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = [x.copy() for x in wide]
            moved[index][place] += step
            ends.append((function(*moved) * grad).sum())
        found[place] = (ends[0] - ends[1]) / 2e-5
    return found


def gradients(kind, function, inputs, extra=0, label=None, **members):
    """Adds a gradient node, which reads the inputs, the result and its gradient, and returns a gradient per input."""
    result = function(*inputs)
    grad = floats(*result.shape)
    outputs = [slope(function, inputs, i, grad) for i in range(len(inputs))]
    given = [T(x) for x in inputs] + [T(result), T(grad)]
    node(kind, given, [T(x) for x in outputs], label=label, **members)


def convolve(x, w, b, strides, pads, dilations, group):
    top, left, bottom, right = pads
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    batch, height, width, _ = x.shape
    out, rows, columns, depth = w.shape
    steps = (height - (rows - 1) * dilations[0] - 1) // strides[0] + 1
    across = (width - (columns - 1) * dilations[1] - 1) // strides[1] + 1
    y = np.zeros((batch, steps, across, out))
    each = out // group
    for k, i, j in np.ndindex(out, steps, across):
        start = k // each * depth
        for r, s in np.ndindex(rows, columns):
            at = x[:, i * strides[0] + r * dilations[0], j * strides[1] + s * dilations[1]]
            y[:, i, j, k] += at[:, start : start + depth] @ w[k, r, s]
    return y + b


def elementwise():
    x, y = floats(2, 3), floats(2, 3)
    p = np.abs(x) + 0.1
    one = [
        ("Log", p, np.log(p)),
        ("Rsqrt", p, 1 / np.sqrt(p)),
        ("Truncate", x * 5, np.trunc(x * 5)),
        ("HardSwish", x * 3, x * 3 * np.clip(x * 3 + 3, 0, 6) / 6),
        ("Reciprocal", x, 1 / x),
        ("Sqrt", p, np.sqrt(p)),
        ("Round", np.float32([0.5, 1.5, -2.5, 2.4]), [0, 2, -2, 2]),
        ("Erf", x, np.vectorize(math.erf)(x)),
    ]
    for kind, given, wanted in one:
        node(kind, [T(given)], [T(wanted)])
    two = [
        ("Max", np.maximum(x, y)),
        ("Min", np.minimum(x, y)),
        ("Fmod", np.fmod(x, y)),
        ("Pow", None),
    ]
    for kind, wanted in two:
        left = p if kind == "Pow" else x
        node(kind, [T(left), T(y)], [T(p**y if wanted is None else wanted)])
    node("CmpNEQ", [T([1, 2, 3.0]), T([1, 0, 3.0])], [T([0, 1, 0], "bool")])
    node("IsNaN", [T([1, np.nan])], [T([0, 1], "bool")])
    node("Not", [T([1, 0], "bool")], [T([0, 1], "bool")])
    node("MulConst", [T(x)], [T(2.5 * x)], LHS=2.5)
    node("RsubConst", [T(x)], [T(2.5 - x)], LHS=2.5)
    q = np.clip(sigmoid(x), 0.1, 0.9)
    node("Logit", [T(sigmoid(x))], [T(np.log(q / (1 - q)))], Epsilon=0.1)
    a, b = [7, -7, 7, -7, 6, -6], [2, 2, -2, -2, 3, 3]
    for truncate, wanted in ((1, [3, -3, -3, 3, 2, -2]), (0, [3, -4, -4, 3, 2, -2])):
        label = "FloorDiv-{}".format(truncate)
        for kind in ("index32", "float"):
            given = [T(a, kind), T(b, kind)]
            node("FloorDiv", given, [T(wanted, kind)], label=label + "-" + kind, Truncate=truncate)
    for follow, wanted in ((1, [1, 2, 0]), (0, [1, -1, 0])):
        node("Modulo", [T([4, -1, 3], "index64")], [T(wanted, "index64")],
             label="Modulo-{}".format(follow), Divisor=3, SignFollowDivisor=follow)
    a, b = integers(0, 99, 5), integers(0, 99, 5)
    for kind, wanted in (("And", a & b), ("Or", a | b), ("Xor", a ^ b)):
        node("Bitwise" + kind, [T(a, "index32"), T(b, "index32")], [T(wanted, "index32")])
    node("BitwiseNot", [T(a, "index64")], [T(~a, "index64")])
    node("BatchedAdd", [T(floats(3, 2, 3) * 0), T(x)], [T(np.stack([x] * 3))])
    node("BatchedMul", [T(np.stack([y] * 3)), T(x)], [T(np.stack([x * y] * 3))])
    node("Regression", [T(x), T(y)], [T(x)])
    table = integers(-128, 128, 256)
    raw = T(integers(-128, 128, 6), "i8", 0.1, 3)
    node("IntLookupTable", [raw, T(table, "i8", 0.2, 1)],
         [T(table[raw.data.astype(int) + 128], "i8", 0.2, 1)])
    node("RescaleQuantized", [raw], [quantized(raw.real, 0.25, -4)])
    for offset in (300, 5):
        wide = T(integers(-2000, 2000, 6), "i32", 0.01, offset)
        node("Dequantize", [wide], [T(wide.real)], label="Dequantize-i32-{}".format(offset))
    node("Quantize", [T(x * 1000)], [T(np.rint(x.astype("float64") * 1000 / np.float32(0.3) + 7), "i32", 0.3, 7)],
         label="Quantize-i32")
    left, right = quantized(x, 0.05, 3), quantized(y, 0.02, -9)
    node("Sub", [left, right], [quantized(left.real - right.real, 0.1, 1)], label="Sub-i8")


def moves():
    x = floats(2, 6, 2)
    shuffled = x.reshape(2, 3, 2, 2).transpose(0, 2, 1, 3).reshape(2, 6, 2)
    node("ChannelShuffle", [T(x)], [T(shuffled)], Group=3, Kernel=1)
    big, small = floats(4, 5), floats(2, 1)
    wanted = big.copy()
    wanted[1:3, 1:4] = np.tile(small, (1, 3))
    node("InsertTensor", [T(big), T(small)], [T(wanted)], Start=[1, 1], Count=3, Axis=1)
    x = floats(1, 4, 4, 3)
    wanted = x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 2, 12)
    node("SpaceToDepth", [T(x)], [T(wanted)], BlockSize=2)
    node("Pad", [T(integers(-9, 9, 2, 2), "i8", 0.5, 3)],
         [T([[9] * 4, [9, 1, 2, 9], [9, 3, 4, 9]], "i8", 0.5, 3)], label="Pad-i8",
         Mode=0, Pads=[1, 1, 0, 1], Value=3.0)
    cases[-1][2]["in0"].data[...] = [[1, 2], [3, 4]]
    node("Splat", [], [T(np.full((2, 2), 13), "i8", 0.5, 3)], label="Splat-i8", Value=5.0)
    node("Touch", [], [T(np.zeros((2, 2)))])
    node("VectorNorm", [T(x)], [T(np.sqrt((x**2).sum(3)))], Axis=3, P=2)
    node("CumSum", [T(x)], [T(np.flip(np.flip(x, 1).cumsum(1), 1) - x)],
         label="CumSum-reverse", Dim=1, Exclusive=1, Reverse=1)


def indexed():
    data, numbers = floats(3, 4, 2), integers(0, 4, 2, 2)
    node("Gather", [T(data), T(numbers, "index64")], [T(np.take(data, numbers, 1))], BatchDims=1)
    numbers = integers(0, 4, 3, 2, 2)
    node("GatherElements", [T(data), T(numbers, "index64")],
         [T(np.take_along_axis(data, numbers, 1))], Dim=1)
    numbers, added = np.array([2, 0, 2]), floats(3, 3, 2)
    wanted = data.copy()
    np.add.at(wanted, (slice(None), numbers), 0.5 * added)
    node("IndexAdd", [T(data), T(numbers, "index64"), T(added)], [T(wanted)], Dim=1, Alpha=0.5)
    rows, numbers = floats(5, 3), integers(0, 5, 2, 3)
    wanted = np.where((numbers == 2)[..., None], 0, rows[numbers])
    node("Embedding", [T(rows), T(numbers, "index64")], [T(wanted)], PadIdx=2, Scale=0, Sparse=0)
    places = np.array([[1, 0], [1, 0], [3, 1]])
    data, added = floats(4, 2, 3), floats(3, 3)
    wanted = data.copy()
    np.add.at(wanted, tuple(places.T), added)
    node("ScatterData", [T(data), T(places, "index64"), T(added)], [T(wanted)],
         label="ScatterData-cumulative", Cumulative=1)
    # Groups of indices; the last index is in no group.
    lengths, numbers = [2, 0, 3], integers(0, 5, 6)
    weights = floats(6)
    segments = np.repeat([0, 1, 2], lengths)
    rows = floats(5, 4)
    sums = np.zeros((3, 4))
    np.add.at(sums, segments, rows[numbers[:5]] * weights[:5, None])
    given = [T(rows), T(weights), T(numbers, "index64")]
    mode = {"LengthsMode": "Variable", "AvgLength": float("nan")}
    node("SparseLengthsWeightedSum", given + [T(lengths, "index32")], [T(sums)], **mode)
    bag = dict(mode, HasEndOffset=1)
    node("EmbeddingBag", given + [T([0, 2, 2, 5], "index64")], [T(sums)], **bag)
    open_sums = sums.copy()
    open_sums[2] += rows[numbers[5]] * weights[5]
    node("EmbeddingBag", given + [T([0, 2, 2], "index64")], [T(open_sums)],
         label="EmbeddingBag-open", **dict(bag, HasEndOffset=0))
    raw = integers(0, 256, 5, 4).astype("uint8")
    ends = np.stack([np.float32([0.1, -3.7e-5, 1e-40, 2.5e30, 7]), floats(5)], 1).astype("<f4")
    fused = np.concatenate([raw, ends.view("uint8").reshape(5, 8)], 1)
    real = raw * ends[:, :1].astype("float64") + ends[:, 1:]
    sums = np.zeros((3, 4))
    np.add.at(sums, segments, real[numbers[:5]] * weights[:5, None])
    given = [T(fused, "ui8fused", 1.0), T(weights), T(numbers, "index64")]
    node("EmbeddingBagByteRowwiseOffsets", given + [T([0, 2, 2, 5], "index64")], [T(sums)],
         UseFP16Accumulation=0, **bag)
    ends = np.stack([np.float16([0.1, -3.7e-5, 6e-8, 2.5e3, 7]), floats(5)], 1).astype("<f2")
    fused = np.concatenate([raw, ends.view("uint8").reshape(5, 4)], 1)
    nibbles = np.stack([raw % 16, raw // 16], 2).reshape(5, 8)
    real = nibbles * ends[:, :1].astype("float64") + ends[:, 1:].astype("float64")
    sums = np.zeros((3, 8))
    np.add.at(sums, segments, real[numbers[:5]] * weights[:5, None])
    given = [T(fused, "ui4fusedfp16", 1.0), T(weights), T(numbers, "index64")]
    node("FusedRowwiseQuantizedSparseLengthsWeightedSum", given + [T(lengths, "index32")],
         [T(sums)], label="FusedRowwise-ui4fusedfp16", UseFP16Accumulation=0, **mode)
    node("LengthsRangeFill", [T(lengths, "index32")], [T([0, 1, 0, 1, 2], "index32")])
    data, values = integers(0, 3, 2, 3), integers(0, 3, 5)
    hot = data[:, segments] == values
    node("BatchOneHot", [T(data, "index64"), T(lengths, "index32"), T(values, "index64")],
         [T(hot, "index64")])
    values, default = floats(5, 2), floats(2)
    wanted = np.tile(default, (3, 3, 1))
    numbers, mask = np.array([7, 5, 9, 7, 4]), [9, 7, 4]
    for row, number, value in zip(segments, numbers, values):
        if number in mask:
            wanted[row, mask.index(number)] = value
    node("SparseToDenseMask",
         [T(numbers, "index64"), T(values), T(default), T(lengths, "index32")],
         [T(wanted)], Mask=mask)
    labels, values = np.array([1, 0, 1, 0]), floats(4)
    rows = np.repeat([0, 1, 2], [1, 2, 1])
    split, examples = np.zeros((2, 2), "float32"), np.zeros((2, 2), int)
    seen = [0, 0]
    order = []
    for row, label, value in zip(rows, labels, values):
        split[label, seen[label]], examples[label, seen[label]] = value, row
        order.append(seen[label])
        seen[label] += 1
    node("SparseLabelSplit", [T([1, 2, 1], "index32"), T(labels, "index64"), T(values)],
         [T(split), T(examples, "index32"), T(order, "index32")], NumLabels=2)
    pooled = floats(2, 6)
    offsets, order = np.array([0, 1, 3, 6]), np.array([2, 0, 1])
    blocks = [pooled[:, offsets[i] : offsets[i + 1]] for i in order]
    inverse = [T(np.zeros(4), "index64"), T(np.zeros(3), "index64")]
    node("PermutePooledEmbeddings", [T(pooled), T(offsets, "index64"), T(order, "index64")] + inverse,
         [T(np.concatenate(blocks, 1))])
    weights, tables = floats(2, 7, 1), np.array([0, 3, 7])
    numbers, offsets = np.array([0, 2, 1, 3, 0]), np.array([0, 2, 2, 4, 5])
    sums = np.zeros((2, 2, 2))
    for n, b, t in np.ndindex(2, 2, 2):
        group = t * 2 + b
        picked = numbers[offsets[group] : offsets[group + 1]] + tables[t]
        sums[n, b, t] = weights[n, picked, 0].sum()
    node("BatchedUnaryEmbeddingsBags",
         [T(weights), T(tables, "index64"), T(offsets, "index64"), T(numbers, "index64")], [T(sums)])


def products():
    vectors = [floats(2, 3) for _ in range(4)]
    pairs = [(vectors[i] * vectors[j]).sum(1) for i in range(4) for j in range(i)]
    node("BatchedPairwiseDotProduct", [T(v) for v in vectors], [T(np.stack(pairs, 1))],
         several="Inputs")
    gates, cell = floats(2, 12), floats(2, 3)
    i, f, g, o = np.split(gates, 4, 1)
    new = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
    node("LSTMUnit", [T(gates), T(cell)], [T(new), T(sigmoid(o) * np.tanh(new))])
    x, w = quantized(floats(2, 3), 0.02, 5), integers(-128, 128, 4, 3)
    scales, offsets = np.abs(floats(4)) * 0.01 + 0.01, integers(-9, 9, 4)
    real = (w - offsets[:, None]) * scales[:, None].astype("float64")
    bias = T(integers(-900, 900, 4), "i32", 0.001, 0)
    wanted = quantized(x.real @ real.T + bias.real, 0.2, -3)
    node("RowwiseQuantizedFullyConnected",
         [x, T(w, "i8", 1.0, 0), T(scales), T(offsets, "index32"), bias], [wanted])
    x, bias = floats(2, 3), floats(4)
    for symmetric, rows in itertools.product((0, 1), (0, 1)):
        axis = 1 if rows else None
        low = np.minimum(x.min(axis, keepdims=True), 0).astype("float64")
        high = np.maximum(x.max(axis, keepdims=True), 0).astype("float64")
        if symmetric:
            scale, zero = np.maximum(-low, high) / 127, 0
        else:
            scale = (high - low) / 255
            zero = -128 - np.rint(low / scale)
        rounded = (np.clip(np.rint(x / scale + zero), -128, 127) - zero) * scale
        node("DynamicRowwiseQuantizedFullyConnected",
             [T(x), T(w, "i8", 1.0, 0), T(bias), T(scales), T(offsets, "index32")],
             [T(rounded @ real.T + bias)], label="DynamicRowwise-{}{}".format(symmetric, rows),
             IsSymmetric=symmetric, IsPerBatchElement=rows)


def normalized():
    x, scale, bias = floats(2, 3, 3, 4), floats(4), floats(4)
    centered = x - x.mean((1, 2), keepdims=True)
    wanted = centered / np.sqrt(x.var((1, 2), keepdims=True) + 1e-3) * scale + bias
    node("InstanceNormalization", [T(x), T(scale), T(bias)], [T(wanted)], ChannelIdx=3, Epsilon=1e-3)
    mean, var = floats(4), floats(4)
    now = [x.mean((0, 1, 2)), x.var((0, 1, 2))]
    wanted = [T(0.3 * new + 0.7 * old) for new, old in zip(now, (mean, var))]
    node("MeanVarNormalization", [T(x), T(mean), T(var)], wanted, ChannelIdx=3, Momentum=0.3)
    node("LocalResponseNormalization", [T(x)], [T(responded(x))], **RESPONSE)
    a, b = np.float32([0, 0.5, 2]), np.float32([0.1, -5, 0.3])
    data = floats(4, 3)
    base = np.maximum(data + b, 1e-6)
    wanted = np.where(a == 0, np.log(base), (base**a - 1) / (a + 1e-6))
    node("BatchBoxCox", [T(data), T(a), T(b)], [T(wanted)], Epsilon=1e-6)
    x = floats(1, 5, 4, 2)
    wanted = np.zeros((1, 3, 2, 2))
    for i, j in np.ndindex(3, 2):
        rows = slice(i * 5 // 3, -(-(i + 1) * 5 // 3))
        wanted[:, i, j] = x[:, rows, j * 2 : j * 2 + 2].mean((1, 2))
    node("AdaptiveAvgPool", [T(x)], [T(wanted)])
    x = floats(2, 4, 4, 3)
    blocks = x.reshape(2, 2, 2, 2, 2, 3).transpose(0, 1, 3, 5, 2, 4).reshape(2, 2, 2, 3, 4)
    n, i, j, c = np.indices((2, 2, 2, 3))
    best = blocks.argmax(4)
    place = ((n * 4 + i * 2 + best // 2) * 4 + j * 2 + best % 2) * 3 + c
    node("MaxPool", [T(x)], [T(blocks.max(4)), T(place, "index64")], label="MaxPool-Argmax",
         Kernels=[2, 2], Strides=[2, 2], Pads=[0, 0, 0, 0], Layout=0)


RESPONSE = {"HalfWindowSize": 1, "Alpha": 0.5, "Beta": 0.75, "K": 2.0}


def responded(x):
    square = np.pad(x**2, ((0, 0),) * 3 + ((1, 1),))
    window = square[..., :-2] + square[..., 1:-1] + square[..., 2:]
    return x * (2 + 0.5 / 3 * window) ** -0.75


def losses():
    p = random.dirichlet(np.ones(3), 2)
    labels = [[2], [0]]
    node("CrossEntropyLoss", [T(p), T(labels, "index64")],
         [T([-np.log(np.float32(p[0, 2])) - np.log(np.float32(p[1, 0]))])])
    x, t = floats(2, 3) * 4, np.abs(floats(2, 3)) / 4
    each = np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x)))
    node("SigmoidCrossEntropyWithLogits", [T(x), T(t)], [T(each.mean(1))])
    w, positive = np.abs(floats(2, 3)), np.abs(floats(3))
    for kind, given, reduction in (
        ("Simple", [], 0), ("Weight", [w], 1), ("PosWeight", [positive], 2), ("", [w, positive], 0),
    ):
        weight = w if w is (given[0] if given else None) else 1
        more = positive if given and given[-1] is positive else 1
        soft = np.log1p(np.exp(-np.abs(x))) + np.maximum(-x, 0)
        loss = weight * ((1 - t) * x + (1 + (more - 1) * t) * soft)
        loss = [loss, loss.mean(), loss.sum()][reduction]
        node(kind + "BinaryCrossEntropyWithLogits", [T(x), T(t)] + [T(g) for g in given],
             [T(loss)], Reduction=reduction)


def training():
    x, y = floats(2, 3), floats(2, 3) + 3
    gradients("AddGrad", lambda a, b: a + b, [x, y])
    gradients("SubGrad", lambda a, b: a - b, [x, y])
    gradients("MulGrad", lambda a, b: a * b, [x, y])
    gradients("DivGrad", lambda a, b: a / b, [x, y])
    gradients("ReluGrad", lambda a: np.maximum(a, 0), [x])
    gradients("SigmoidGrad", sigmoid, [x])
    gradients("TanhGrad", np.tanh, [x])
    gradients("FullyConnectedGrad", lambda a, w, b: a @ w + b, [x, floats(3, 4), floats(4)])
    image = floats(1, 3, 3, 5)
    gradients("LocalResponseNormalizationGrad", responded, [image], **RESPONSE)
    grad = floats(2, 3)
    node("ThresholdGrad", [T(grad), T(x)], [T(np.where(x > 0.2, grad, 0))], Threshold=0.2)
    e = np.exp(x)
    p = e / e.sum(1, keepdims=True)
    hot = np.float32([[0, 0, 1], [1, 0, 0]])
    label = T([[2], [0]], "index64")
    zero = T([[0], [0]], "index64")
    node("SoftMaxGrad", [T(x), label, T(p), T(grad)], [T(p - hot), zero])
    node("LogSoftMaxGrad", [T(x), label, T(np.log(p)), T(grad)], [T(p - hot), zero])
    node("CrossEntropyLossGrad", [T(p), label, T([1.0]), T([1.0])], [T(-hot / p), zero])
    node("RegressionGrad", [T(x), T(y), T(x), T(grad)], [T(x - y), T(x * 0)])
    w = floats(2, 3)
    step = (x + 0.1 * np.where(w >= 0, 1, -1) + 0.01 * w) / 4
    node("SGD", [T(x), T(w)], [T(w - 0.5 * step)],
         L1Decay=0.1, L2Decay=0.01, LearningRate=0.5, Momentum=0.0, BatchSize=4)
    # A batch is normalized by its own mean and variance, which depend on the input.
    x, scale, bias, dy = floats(2, 2, 2, 3), floats(3), floats(3), floats(2, 2, 2, 3)

    def batch(a, g, b):
        mean, var = a.mean((0, 1, 2)), a.var((0, 1, 2))
        return (a - mean) / np.sqrt(var + 1e-3) * g + b

    wanted = [T(slope(batch, [x, scale, bias], i, dy)) for i in range(3)]
    inputs = [T(x), T(scale), T(bias), T(x.mean((0, 1, 2))), T(x.var((0, 1, 2))), T(x), T(dy)]
    node("BatchNormalizationGrad", inputs, wanted + [T(np.zeros(3))] * 2,
         ChannelIdx=3, Epsilon=1e-3, Momentum=0.9)
    for label, group, strides, pads, dilations in (
        ("plain", 1, [1, 1], [0, 0, 0, 0], [1, 1]),
        ("strided", 1, [2, 2], [1, 0, 1, 1], [1, 1]),
        ("dilated", 1, [1, 2], [2, 1, 0, 1], [2, 1]),
        ("grouped", 2, [2, 1], [1, 1, 1, 1], [1, 1]),
    ):
        inputs = [floats(2, 6, 5, 4), floats(2, 3, 2, 4 // group), floats(2)]
        window = (strides, pads, dilations, group)
        result = convolve(*inputs, *window)
        dy = floats(*result.shape)
        function = lambda a, w, b: convolve(a, w, b, *window)
        wanted = [T(slope(function, inputs, i, dy)) for i in range(3)]
        if group > 1:
            wanted[1] = None
        node("ConvolutionGrad", [T(i) for i in inputs] + [T(result), T(dy)], wanted,
             label="ConvolutionGrad-" + label, Kernels=[3, 2], Strides=strides, Pads=pads, Group=group,
             Dilation=dilations, Layout="NHWC", FusedActivation="NONE", FusedActivationArgs=[])
    image = floats(2, 5, 5, 2)
    for counted in (0, 1):
        def average(a):
            ones = np.ones((1, 5, 5, 1))
            weight = np.stack([np.eye(2)] * 4).reshape(2, 2, 2, 2).transpose(2, 0, 1, 3)
            sums = convolve(a, weight, 0, [2, 2], [1, 1, 0, 0], [1, 1], 1)
            many = convolve(ones, np.ones((1, 2, 2, 1)), 0, [2, 2], [1, 1, 0, 0], [1, 1], 1)
            return sums / (4 if counted else many)

        gradients("AvgPoolGrad", average, [image], label="AvgPoolGrad-{}".format(counted),
                  Kernels=[2, 2], Strides=[2, 2], Pads=[1, 1, 0, 0], Layout=0, CountIncludePads=counted)

    def adaptive(a):
        y = np.zeros((2, 3, 2, 2), a.dtype)
        for i, j in np.ndindex(3, 2):
            rows = slice(i * 5 // 3, -(-(i + 1) * 5 // 3))
            columns = slice(j * 5 // 2, -(-(j + 1) * 5 // 2))
            y[:, i, j] = a[:, rows, columns].mean((1, 2))
        return y

    gradients("AdaptiveAvgPoolGrad", adaptive, [image])
    place, dy = np.array([3, 7, 3, 1]).reshape(1, 2, 2, 1), floats(1, 2, 2, 1)
    wanted = np.zeros(9)
    np.add.at(wanted, place.ravel(), dy.ravel())
    node("MaxPoolGrad",
         [T(floats(1, 3, 3, 1)), T(dy), T(dy), T(place, "index64"), T(place, "index64")],
         [T(wanted.reshape(1, 3, 3, 1))], Kernels=[2, 2], Strides=[1, 1], Pads=[0] * 4, Layout=0)
    lengths, numbers = [2, 0, 3], integers(0, 4, 5)
    segments = np.repeat([0, 1, 2], lengths)

    def weighted(data, weights):
        sums = np.zeros((3, 2))
        np.add.at(sums, segments, data[numbers] * weights[:, None])
        return sums

    inputs = [floats(4, 2), floats(5)]
    result = weighted(*inputs)
    dy = floats(3, 2)
    wanted = [T(slope(weighted, inputs, i, dy)) for i in range(2)]
    given = [T(inputs[0]), T(inputs[1]), T(numbers, "index64"), T(lengths, "index32")]
    node("SparseLengthsWeightedSumGrad", given + [T(result), T(dy)],
         wanted + [None, None], LengthsMode="Variable", AvgLength=float("nan"))


def boxes():
    rois = np.abs(floats(3, 5)) * 10
    rois[:, 0] = [0, 0, 1]
    rois[:, 3:] = rois[:, 1:3] + np.abs(floats(3, 2)) * 9
    deltas, images = floats(3, 8), np.float32([[40, 50, 2], [30, 20, 1.5]])
    wanted = np.zeros((3, 8))
    for r, k in np.ndindex(3, 2):
        high, wide, scale = images[int(rois[r, 0])]
        x1, y1, x2, y2 = rois[r, 1:] / scale
        dx, dy, dw, dh = deltas[r, k * 4 : k * 4 + 4] / np.float32([10, 10, 5, 5])
        w, h = x2 - x1, y2 - y1
        cx, cy = x1 + w / 2 + dx * w, y1 + h / 2 + dy * h
        w, h = math.exp(min(dw, math.log(1000 / 16))) * w, math.exp(min(dh, math.log(1000 / 16))) * h
        edges = [int(wide / scale + 0.5), int(high / scale + 0.5)] * 2
        box = [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]
        wanted[r, k * 4 : k * 4 + 4] = [max(min(a, b), 0) * scale for a, b in zip(box, edges)]
    node("BBoxTransform", [T(rois), T(deltas), T(images)], [T(wanted), T([2, 1])],
         Weights=[10.0, 10.0, 5.0, 5.0], ApplyScale=1, Rotated=0, AngleBoundOn=0, AngleBoundLo=-90,
         AngleBoundHi=90, ClipAngleThresh=1.0, LegacyPlusOne=0)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = sys.argv[1]
    for write in (elementwise, moves, indexed, products, normalized, losses, training, boxes):
        write()
    written = []
    for name, model, inputs, outputs in cases:
        path = "glow-{}.onnx".format(name)
        with open(os.path.join(root, path), "wb") as file:
            file.write(model.SerializeToString())
        arrays = [{name: value.as_json() for name, value in values.items()} for values in (inputs, outputs)]
        written.append({"name": name, "path": path, "inputs": arrays[0], "outputs": arrays[1]})
    with open(os.path.join(root, "nodes.json"), "w", encoding="utf-8") as file:
        json.dump(written, file)
    print("{} models".format(len(written)))


if __name__ == "__main__":
    main()
