"""Builds networks with MXNet 1.9.1, with random weights, and records their outputs at two input sizes.

    python mxnet_networks.py OUT_DIR

Writes a folder for each network: `net-symbol.json` and `net-0000.params`, and for each size `N.inputs.npz` and
`N.outputs.npz`, whose arrays have the names of the inputs and outputs. `shapes.txt` has the shapes of inputs that an export
cannot find out.
"""

import os
import sys
import warnings

warnings.simplefilter("ignore")

import mxnet as mx
import numpy as np
from mxnet import gluon
from mxnet.gluon import nn, rnn

RANDOM = np.random.RandomState(7)


def floats(*shape):
    return RANDOM.uniform(-1, 1, shape).astype("float32")


class Tagger(gluon.HybridBlock):
    """Words to tags: an embedding, a bidirectional LSTM of two layers, and a softmax for each word."""

    def __init__(self, words=200, tags=11):
        super().__init__(prefix="tagger_")
        with self.name_scope():
            self.embedding = nn.Embedding(words, 24)
            self.lstm = rnn.LSTM(20, num_layers=2, bidirectional=True, input_size=24, layout="NTC")
            self.tags = nn.Dense(tags, flatten=False, in_units=40)

    def hybrid_forward(self, F, words):
        return F.log_softmax(self.tags(self.lstm(self.embedding(words))), axis=-1)


class Attention(gluon.HybridBlock):
    def __init__(self, units, heads):
        super().__init__()
        self.units, self.heads = units, heads
        with self.name_scope():
            self.query, self.key, self.value, self.out = (nn.Dense(units, flatten=False, in_units=units) for _ in range(4))

    def split(self, F, x):
        x = F.reshape(x, shape=(0, 0, -4, self.heads, -1))
        return F.reshape(F.transpose(x, axes=(0, 2, 1, 3)), shape=(-3, 0, 0))

    def hybrid_forward(self, F, x, mask):
        query, key, value = (self.split(F, one(x)) for one in (self.query, self.key, self.value))
        scores = F.batch_dot(query, key, transpose_b=True) / (self.units // self.heads) ** 0.5
        mask = F.reshape(F.broadcast_axis(F.expand_dims(F.expand_dims(mask, axis=1), axis=1), axis=1, size=self.heads), shape=(-3, 0, 0))
        scores = F.broadcast_add(scores, (mask - 1) * 1e4)
        mixed = F.batch_dot(F.softmax(scores, axis=-1), value)
        mixed = F.transpose(F.reshape(mixed, shape=(-4, -1, self.heads, 0, 0)), axes=(0, 2, 1, 3))
        return self.out(F.reshape(mixed, shape=(0, 0, -3)))


class Encoder(gluon.HybridBlock):
    """Two layers of a BERT: token and position embeddings, masked attention, GELU, and a pooled first token."""

    def __init__(self, words=300, length=16, units=32, heads=4, layers=2):
        super().__init__(prefix="encoder_")
        self.units, self.layers = units, layers
        with self.name_scope():
            self.words = nn.Embedding(words, units)
            self.positions = self.params.get("positions", shape=(length, units), init="normal")
            for layer in range(layers):
                setattr(self, f"attention{layer}", Attention(units, heads))
                setattr(self, f"first{layer}", nn.LayerNorm(in_channels=units, epsilon=1e-12))
                setattr(self, f"wide{layer}", nn.Dense(4 * units, flatten=False, in_units=units))
                setattr(self, f"narrow{layer}", nn.Dense(units, flatten=False, in_units=4 * units))
                setattr(self, f"second{layer}", nn.LayerNorm(in_channels=units, epsilon=1e-12))
            self.pooler = nn.Dense(units, activation="tanh", flatten=False, in_units=units)

    def hybrid_forward(self, F, words, mask, positions):
        x = self.words(words)
        places = F.slice_like(F.expand_dims(positions, axis=0), x, axes=(1,))
        x = F.broadcast_add(x, places)
        for layer in range(self.layers):
            x = getattr(self, f"first{layer}")(x + getattr(self, f"attention{layer}")(x, mask))
            wide = F.LeakyReLU(getattr(self, f"wide{layer}")(x), act_type="gelu")
            x = getattr(self, f"second{layer}")(x + getattr(self, f"narrow{layer}")(wide))
        first = F.slice_axis(x, axis=1, begin=0, end=1)
        return x, self.pooler(F.reshape(first, shape=(0, -1)))


def ssd():
    """A detector: two scales of anchors, their offsets and classes, and non-maximum suppression."""
    data = mx.sym.Variable("data")
    body, sizes, ratios = data, [(0.2, 0.3), (0.5, 0.7)], [(1, 2, 0.5)] * 2
    boxes, scores, anchors = [], [], []
    for number, (filters, size, ratio) in enumerate(zip((8, 16), sizes, ratios)):
        body = mx.sym.Convolution(body, num_filter=filters, kernel=(3, 3), pad=(1, 1), name=f"conv{number}")
        body = mx.sym.BatchNorm(body, fix_gamma=False, name=f"bn{number}")
        body = mx.sym.Activation(body, act_type="relu")
        body = mx.sym.Pooling(body, kernel=(2, 2), stride=(2, 2), pool_type="max")
        count = len(size) + len(ratio) - 1
        scaled = body if number else mx.sym.broadcast_mul(
            mx.sym.L2Normalization(body, mode="channel"), mx.sym.Variable("scale", shape=(1, filters, 1, 1))
        )
        location = mx.sym.Convolution(scaled, num_filter=4 * count, kernel=(3, 3), pad=(1, 1), name=f"box{number}")
        classes = mx.sym.Convolution(scaled, num_filter=4 * count, kernel=(3, 3), pad=(1, 1), name=f"class{number}")
        boxes.append(mx.sym.Flatten(mx.sym.transpose(location, axes=(0, 2, 3, 1))))
        scores.append(mx.sym.Flatten(mx.sym.transpose(classes, axes=(0, 2, 3, 1))))
        anchors.append(mx.sym.Flatten(mx.sym.contrib.MultiBoxPrior(scaled, sizes=size, ratios=ratio, clip=True)))
    scores = mx.sym.transpose(mx.sym.Reshape(mx.sym.concat(*scores, dim=1), shape=(0, -1, 4)), axes=(0, 2, 1))
    scores = mx.sym.SoftmaxActivation(scores, mode="channel")
    anchors = mx.sym.Reshape(mx.sym.concat(*anchors, dim=1), shape=(0, -1, 4))
    return mx.sym.contrib.MultiBoxDetection(
        scores, mx.sym.concat(*boxes, dim=1), anchors, name="detection", nms_threshold=0.45, nms_topk=50, threshold=0.2
    )


def arcface():
    """A face network: residual units with PReLU, dropout, and a normalized embedding without a trained scale."""
    data = mx.sym.Variable("data")
    x = (data - 127.5) * 0.0078125

    def norm(x, name, fix_gamma=False):
        return mx.sym.BatchNorm(x, fix_gamma=fix_gamma, eps=2e-5, momentum=0.9, name=name)

    def conv(x, filters, name, stride=(1, 1), size=3):
        return mx.sym.Convolution(x, num_filter=filters, kernel=(size, size), stride=stride, pad=(size // 2,) * 2, no_bias=True, name=name)

    x = mx.sym.LeakyReLU(norm(conv(x, 8, "conv0"), "bn0"), act_type="prelu", name="relu0")
    for number, filters in enumerate((8, 16)):
        name = f"stage{number}_"
        inner = norm(x, name + "bn1")
        inner = norm(conv(inner, filters, name + "conv1"), name + "bn2")
        inner = mx.sym.LeakyReLU(inner, act_type="prelu", name=name + "relu1")
        inner = norm(conv(inner, filters, name + "conv2", (2, 2)), name + "bn3")
        short = norm(conv(x, filters, name + "conv1sc", (2, 2), 1), name + "sc")
        x = inner + short
    x = mx.sym.Dropout(norm(x, "bn1"), p=0.4)
    x = mx.sym.FullyConnected(x, num_hidden=32, name="pre_fc1")
    return norm(x, "fc1", fix_gamma=True)


def parameters(symbol, shapes):
    """Returns random parameters for a symbol."""
    arguments, _, states = symbol.infer_shape(**shapes)
    found = {}
    for kind, names, dims in (("arg", symbol.list_arguments(), arguments), ("aux", symbol.list_auxiliary_states(), states)):
        for name, shape in zip(names, dims):
            if name in shapes:
                continue
            values = floats(*shape) * (0.5 if name.endswith("weight") else 0.2)
            if name.endswith(("gamma", "var", "scale")):
                values = np.abs(values) + 0.5
            found[f"{kind}:{name}"] = mx.nd.array(values)
    return found


def of_symbol(symbol, inputs):
    shapes = {name: value.shape for name, value in inputs[0].items()}
    return symbol, parameters(symbol, shapes), inputs


def of_block(block, inputs):
    block.initialize(mx.init.Xavier(), force_reinit=False)
    variables = [mx.sym.Variable(name) for name in inputs[0]]
    block(*[mx.nd.array(value) for value in inputs[0].values()])
    symbol = block(*variables)
    symbol = mx.sym.Group(symbol) if isinstance(symbol, (list, tuple)) else symbol
    auxiliary = set(symbol.list_auxiliary_states())
    values = {name: parameter.data() for name, parameter in block.collect_params().items()}
    for name, value in values.items():
        if name.endswith(("running_mean", "running_var")):
            value[:] = mx.nd.array(np.abs(floats(*value.shape)) + 0.3)
    wanted = set(symbol.list_inputs())
    found = {f"{'aux' if name in auxiliary else 'arg'}:{name}": value for name, value in values.items() if name in wanted}
    return symbol, found, inputs


def words(*shape, count):
    return RANDOM.randint(0, count, shape).astype("float32")


# Ranks that no operator determines, and dims that anchors are made of.
SHAPES = {"tagger": ["words:N,T"], "encoder": ["words:N,T", "mask:N,T"], "ssd": ["data:N,3,32,32"]}


def networks():
    vision = gluon.model_zoo.vision
    images = [{"data": floats(1, 3, 96, 96)}, {"data": floats(2, 3, 96, 96)}]
    yield "resnet50", of_block(vision.resnet50_v1(classes=50), images)
    yield "mobilenet_v2", of_block(vision.mobilenet_v2_1_0(classes=50), images)
    yield "tagger", of_block(Tagger(), [{"words": words(2, 9, count=200)}, {"words": words(3, 5, count=200)}])
    sentences = []
    for count, length in ((2, 12), (1, 7)):
        mask = np.arange(length)[None] < np.array([[length], [length - 3]])[:count]
        sentences.append({"words": words(count, length, count=300), "mask": mask.astype("float32")})
    yield "encoder", of_block(Encoder(), sentences)
    yield "ssd", of_symbol(ssd(), [{"data": floats(1, 3, 32, 32)}, {"data": floats(2, 3, 32, 32)}])
    faces = [{"data": RANDOM.randint(0, 255, (count, 3, 28, 28)).astype("float32")} for count in (1, 3)]
    yield "arcface", of_symbol(arcface(), faces)


def main(out):
    for name, (symbol, values, inputs) in networks():
        directory = os.path.join(out, name)
        os.makedirs(directory, exist_ok=True)
        symbol.save(os.path.join(directory, "net-symbol.json"))
        with open(os.path.join(directory, "shapes.txt"), "w") as file:
            file.writelines(shape + "\n" for shape in SHAPES.get(name, []))
        mx.nd.save(os.path.join(directory, "net-0000.params"), values)
        for number, feed in enumerate(inputs):
            bound = {key.partition(":")[2]: value for key, value in values.items()}
            given = {key: mx.nd.array(value) for key, value in feed.items()}
            auxiliary = {key: bound.pop(key) for key in symbol.list_auxiliary_states()}
            executor = symbol.bind(mx.cpu(), {**bound, **given}, aux_states=auxiliary, grad_req="null")
            made = executor.forward(is_train=False)
            np.savez(os.path.join(directory, f"{number}.inputs.npz"), **feed)
            results = {key: value.asnumpy() for key, value in zip(symbol.list_outputs(), made)}
            np.savez(os.path.join(directory, f"{number}.outputs.npz"), **results)
        print(name, {key: value.shape for key, value in results.items()}, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
