"""Builds networks with PaddlePaddle 2.6.2 or 3.3.1, with random weights, and records their outputs at several input sizes.

    python paddle_networks.py OUT_DIR

Writes a folder for each network: `inference.pdmodel` (of 3.3.1 `inference.json`) and `inference.pdiparams`, and for each
size `N.inputs.npz` and `N.outputs.npz`, whose arrays have the names of the inputs and outputs. Networks that are built
from single operators are of 2.6.2 alone.
"""

import os
import shutil
import sys

os.environ.setdefault("GLOG_minloglevel", "3")
os.environ["FLAGS_cpu_deterministic"] = "1"

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn, static

IS_PIR = paddle.__version__.startswith("3.")

paddle.seed(7)


class ConvBlock(nn.Layer):
    def __init__(self, channels, out, size=3, stride=1, groups=1, act=None):
        super().__init__()
        padding = (size - 1) // 2
        self.conv = nn.Conv2D(channels, out, size, stride, padding, groups=groups, bias_attr=False)
        self.norm = nn.BatchNorm2D(out)
        self.act = act

    def forward(self, x):
        x = self.norm(self.conv(x))
        return self.act(x) if self.act else x


class TextRecognition(nn.Layer):
    """A CRNN: convolutions, a bidirectional LSTM over the columns, and a softmax for each of them."""

    def __init__(self, classes=97):
        super().__init__()
        self.body = nn.Sequential(
            ConvBlock(3, 16, stride=2, act=F.hardswish),
            ConvBlock(16, 16, groups=16, act=F.relu),
            ConvBlock(16, 32, stride=(2, 1), act=F.hardswish),
            nn.MaxPool2D(2, 2),
            ConvBlock(32, 48, stride=(2, 1), act=F.leaky_relu),
        )
        self.lstm = nn.LSTM(48, 24, num_layers=2, direction="bidirect")
        self.fc = nn.Linear(48, classes)

    def forward(self, x):
        x = self.body(x)
        x = x.mean(axis=2)
        x = paddle.transpose(x, [0, 2, 1])
        x, _ = self.lstm(x)
        return F.softmax(self.fc(x), axis=2)


class SqueezeExcite(nn.Layer):
    def __init__(self, channels):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.down = nn.Conv2D(channels, channels // 4, 1)
        self.up = nn.Conv2D(channels // 4, channels, 1)

    def forward(self, x):
        y = F.relu(self.down(self.pool(x)))
        return x * F.hardsigmoid(self.up(y), slope=0.2, offset=0.5)


class TextDetection(nn.Layer):
    """A differentiable-binarization network: a backbone, a feature pyramid, and a head that upsamples."""

    def __init__(self):
        super().__init__()
        self.stem = ConvBlock(3, 8, stride=2, act=F.hardswish)
        self.stages = nn.LayerList([
            nn.Sequential(ConvBlock(8, 16, stride=2, act=F.relu), SqueezeExcite(16)),
            nn.Sequential(ConvBlock(16, 24, stride=2, act=F.hardswish), SqueezeExcite(24)),
            nn.Sequential(ConvBlock(24, 32, size=5, stride=2, act=F.hardswish)),
        ])
        self.sides = nn.LayerList([nn.Conv2D(c, 24, 1, bias_attr=False) for c in (16, 24, 32)])
        self.smooth = nn.LayerList([nn.Conv2D(24, 8, 3, padding=1, bias_attr=False) for _ in range(3)])
        self.head = nn.Sequential(
            nn.Conv2D(24, 8, 3, padding=1, bias_attr=False), nn.BatchNorm2D(8), nn.ReLU(),
            nn.Conv2DTranspose(8, 8, 2, stride=2), nn.BatchNorm2D(8), nn.ReLU(),
            nn.Conv2DTranspose(8, 1, 2, stride=2), nn.Sigmoid(),
        )

    def forward(self, x):
        x = self.stem(x)
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        sides = [side(f) for side, f in zip(self.sides, features)]
        for i in (1, 0):
            sides[i] = sides[i] + F.upsample(sides[i + 1], scale_factor=2, mode="nearest", align_mode=1)
        outs = [smooth(s) for smooth, s in zip(self.smooth, sides)]
        outs = [F.upsample(o, scale_factor=2**i, mode="nearest", align_mode=1) if i else o
                for i, o in enumerate(outs)]
        return self.head(paddle.concat(outs[::-1], axis=1))


class Encoder(nn.Layer):
    """An ERNIE-like encoder: embeddings of words, positions and segments, attention with a mask, a pooled output."""

    def __init__(self, words=120, width=32, layers=2):
        super().__init__()
        self.word = nn.Embedding(words, width, padding_idx=0)
        self.position = nn.Embedding(64, width)
        self.segment = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.drop = nn.Dropout(0.1)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.pool = nn.Linear(width, width)
        self.classify = nn.Linear(width, 3)

    def forward(self, ids, segments):
        mask = ((ids == 0).astype(self.pool.weight.dtype) * -1e4).unsqueeze([1, 2])
        ones = paddle.ones_like(ids, dtype="int64")
        positions = paddle.cumsum(ones, axis=-1) - ones
        x = self.word(ids) + self.position(positions) + self.segment(segments)
        x = self.drop(self.norm(x))
        x = self.encoder(x, mask)
        pooled = F.tanh(self.pool(x[:, 0]))
        return x, self.classify(pooled)


class Control(nn.Layer):
    """Loops and branches whose course depends on the input."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x):
        i = paddle.zeros([1], dtype="int64")
        while i < 4:
            x = F.tanh(self.fc(x)) + x
            i += 1
        if paddle.mean(x) > 0.2:
            y = x * 2.0 - 1.0
        else:
            y = x + 3.0
        return y


class Segmentation(nn.Layer):
    """A PSP-like network: pooling to grids of several sizes, and bilinear upsampling to the input's size."""

    def __init__(self, classes=5):
        super().__init__()
        self.body = nn.Sequential(ConvBlock(3, 12, stride=2, act=F.relu6), ConvBlock(12, 16, stride=2, act=F.swish))
        self.pools = nn.LayerList([nn.AdaptiveAvgPool2D(size) for size in (1, 2, 3)])
        self.convs = nn.LayerList([nn.Conv2D(16, 4, 1) for _ in range(3)])
        self.last = nn.Conv2D(28, classes, 3, padding=1)

    def forward(self, x):
        size = paddle.shape(x)[2:]
        y = self.body(x)
        inner = paddle.shape(y)[2:]
        parts = [y]
        for pool, conv in zip(self.pools, self.convs):
            parts.append(F.interpolate(conv(pool(y)), inner, mode="bilinear", align_corners=False))
        y = self.last(paddle.concat(parts, axis=1))
        y = F.interpolate(y, size, mode="bilinear", align_corners=True)
        return paddle.argmax(y, axis=1, keepdim=True, dtype="int32"), F.softmax(y, axis=1)


class Detr(nn.Layer):
    """An RT-DETR-like layout detector: a hybrid encoder, the best queries, and a decoder with deformable attention."""

    def __init__(self, classes=4, width=32, queries=12, heads=4, points=2):
        super().__init__()
        self.stem = nn.Sequential(ConvBlock(3, 16, stride=2, act=F.relu), ConvBlock(16, 24, stride=2, act=F.relu))
        self.c3 = ConvBlock(24, width, stride=2, act=F.silu)
        self.c4 = ConvBlock(width, width, stride=2, act=F.silu)
        self.encoder = nn.TransformerEncoderLayer(width, heads, 64, dropout=0.0, activation="gelu")
        self.fuse = ConvBlock(2 * width, width, act=F.silu)
        self.score = nn.Linear(width, classes)
        self.box = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiHeadAttention(width, heads)
        self.offsets, self.weights = nn.Linear(width, heads * 2 * points * 2), nn.Linear(width, heads * 2 * points)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.last_score, self.last_box = nn.Linear(width, classes), nn.Linear(width, 4)
        self.width, self.queries, self.heads, self.points = width, queries, heads, points

    def deform(self, query, reference, values, shapes):
        batch = paddle.shape(query)[0]
        heads, points, depth = self.heads, self.points, self.width // self.heads
        value = self.value(values).reshape([batch, -1, heads, depth])
        offsets = self.offsets(query).reshape([batch, self.queries, heads, 2, points, 2])
        weights = F.softmax(self.weights(query).reshape([batch, self.queries, heads, 2 * points]))
        weights = weights.reshape([batch, self.queries, heads, 2, points])
        reference = reference.unsqueeze([2, 3, 4])
        spots = reference[..., :2] + offsets / points * reference[..., 2:] * 0.5
        grids, sampled, start = 2.0 * spots - 1.0, [], 0
        for level, (h, w) in enumerate(shapes):
            part = value[:, start:start + h * w].transpose([0, 2, 3, 1]).reshape([batch * heads, depth, h, w])
            grid = grids[:, :, :, level].transpose([0, 2, 1, 3, 4]).flatten(0, 1)
            sampled.append(F.grid_sample(part, grid, align_corners=False))
            start = start + h * w
        weights = weights.transpose([0, 2, 1, 3, 4]).reshape([batch * heads, 1, self.queries, 2 * points])
        y = (paddle.stack(sampled, axis=-2).flatten(-2) * weights).sum(-1)
        return self.out(y.reshape([batch, heads * depth, self.queries]).transpose([0, 2, 1]))

    def forward(self, image, scale):
        c3 = self.c3(self.stem(image))
        c4 = self.c4(c3)
        h, w = paddle.shape(c4)[2], paddle.shape(c4)[3]
        tokens = self.encoder(c4.flatten(2).transpose([0, 2, 1]))
        c4 = tokens.transpose([0, 2, 1]).reshape([-1, self.width, h, w])
        c3 = self.fuse(paddle.concat([c3, F.interpolate(c4, scale_factor=2.0, mode="nearest")], axis=1))
        levels = [c3, c4]
        shapes = [(paddle.shape(level)[2], paddle.shape(level)[3]) for level in levels]
        memory = paddle.concat([level.flatten(2).transpose([0, 2, 1]) for level in levels], axis=1)
        scores = self.score(memory)
        _, best = paddle.topk(scores.max(-1), self.queries, axis=1)
        batch = paddle.arange(end=paddle.shape(image)[0]).unsqueeze(-1).tile([1, self.queries])
        index = paddle.stack([batch.astype(best.dtype), best], axis=-1)
        query = paddle.gather_nd(memory, index)
        reference = F.sigmoid(self.box(query))
        query = self.norm(query + self.attention(query))
        query = query + self.deform(query, reference, memory, shapes)
        boxes = F.sigmoid(self.last_box(query) + paddle.log(reference / (1 - reference)))
        scores = F.sigmoid(self.last_score(query))
        center, size = boxes[..., :2], boxes[..., 2:]
        corners = paddle.concat([center - 0.5 * size, center + 0.5 * size], -1)
        corners = corners * scale.flip(1).tile([1, 2]).unsqueeze(1)
        values, labels = scores.max(-1), scores.argmax(-1)
        order = paddle.argsort(values, axis=1, descending=True)
        values = paddle.take_along_axis(values, order, axis=1)
        boxes = paddle.take_along_axis(corners, order.unsqueeze(-1).tile([1, 1, 4]), axis=1)
        labels = paddle.take_along_axis(labels, order, axis=1)
        return paddle.concat([labels.unsqueeze(-1).astype("float32"), values.unsqueeze(-1), boxes], -1)


class Decoder(nn.Layer):
    """Greedy decoding: a loop that collects a symbol a step, until it finds the end or reaches the last step."""

    def __init__(self, symbols=9, width=12):
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.cell = nn.GRUCell(width, width)
        self.fc = nn.Linear(width, symbols)

    def forward(self, state, first):
        token, step = first, paddle.zeros([1], "int64")
        tokens = first.unsqueeze(1)
        done = paddle.zeros_like(first).astype("bool")
        while step < 6 and not paddle.all(done):
            output, state = self.cell(self.embedding(token), state)
            token = paddle.argmax(self.fc(output), axis=-1)
            tokens = paddle.concat([tokens, token.unsqueeze(1)], axis=1)
            done = paddle.logical_or(done, token == 0)
            step = step + 1
        return tokens, state


def spec(*inputs):
    return [static.InputSpec(shape, dtype, name) for name, shape, dtype in inputs]


def image(*sizes):
    return [{"x": ("float", size)} for size in sizes]


LAYERS = {
    "mobilenet_v3": (lambda: paddle.vision.models.mobilenet_v3_small(scale=0.35, num_classes=11),
                     spec(("x", [None, 3, None, None], "float32")),
                     image((1, 3, 64, 64), (2, 3, 96, 64), (3, 3, 224, 224))),
    "resnet18": (lambda: paddle.vision.models.resnet18(num_classes=7),
                 spec(("x", [None, 3, 64, 64], "float32")), image((1, 3, 64, 64), (2, 3, 64, 64), (5, 3, 64, 64))),
    "recognition": (TextRecognition, spec(("x", [None, 3, 32, None], "float32")),
                    image((1, 3, 32, 64), (2, 3, 32, 100), (3, 3, 32, 320))),
    "detection": (TextDetection, spec(("x", [None, 3, None, None], "float32")),
                  image((1, 3, 64, 64), (1, 3, 96, 160), (2, 3, 128, 64))),
    "encoder": (Encoder, spec(("ids", [None, None], "int64"), ("segments", [None, None], "int64")),
                [{"ids": (120, s), "segments": (2, s)} for s in ((1, 5), (2, 12), (3, 40))]),
    "decoder": (Decoder, spec(("state", [None, 12], "float32"), ("first", [None], "int64")),
                [{"state": ("float", (n, 12)), "first": (9, (n,))} for n in (1, 2, 5)]),
    "layout": (Detr, spec(("image", [None, 3, None, None], "float32"), ("scale", [None, 2], "float32")),
               [{"image": ("float", (n, 3, h, w)), "scale": ("float", (n, 2))}
                for n, h, w in ((1, 64, 64), (2, 64, 96), (1, 128, 96))]),
    "control": (Control, spec(("x", [None, 6], "float32")),
                [{"x": ("float", (n, 6))} for n in (1, 2, 5)]),
    "segmentation": (Segmentation, spec(("x", [None, 3, None, None], "float32")),
                     image((1, 3, 32, 32), (2, 3, 48, 64), (1, 3, 33, 50))),
}


def detector(folder):
    """A PP-YOLO-like detector: two heads, boxes, and the suppression of overlapping ones, as one program."""
    paddle.enable_static()
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 3
    with static.program_guard(main, startup):
        x = static.data("image", [None, 3, None, None], "float32")
        size = static.data("im_size", [None, 2], "int32")

        def conv(x, out, k=3, stride=1, act="leaky_relu"):
            y = static.nn.conv2d(x, out, k, stride, (k - 1) // 2, bias_attr=False)
            return static.nn.batch_norm(y, act=act, is_test=True)

        c = conv(conv(x, 8, stride=2), 12, stride=2)
        c4 = conv(c, 16, stride=2)
        c5 = conv(c4, 24, stride=2)
        anchors = [[10, 13, 16, 30, 33, 23], [30, 61, 62, 45, 59, 119]]
        boxes, scores = [], []
        up = F.interpolate(conv(c5, 16, 1), scale_factor=2, mode="nearest")
        for feature, anchor, ratio in ((c5, anchors[1], 16), (paddle.concat([up, c4], 1), anchors[0], 8)):
            head = static.nn.conv2d(conv(feature, 16), 3 * (5 + 4), 1)
            box, score = paddle.vision.ops.yolo_box(head, size, anchor, 4, 0.01, ratio, clip_bbox=True, scale_x_y=1.05)
            boxes.append(box)
            scores.append(paddle.transpose(score, [0, 2, 1]))
        boxes, scores = paddle.concat(boxes, 1), paddle.concat(scores, 2)
        helper = paddle.base.layer_helper.LayerHelper("multiclass_nms3")
        out = helper.create_variable_for_type_inference("float32")
        index = helper.create_variable_for_type_inference("int32")
        counts = helper.create_variable_for_type_inference("int32")
        helper.append_op(
            type="multiclass_nms3", inputs={"BBoxes": boxes, "Scores": scores},
            outputs={"Out": out, "Index": index, "NmsRoisNum": counts},
            attrs=dict(background_label=-1, score_threshold=0.05, nms_top_k=50, nms_threshold=0.45,
                       keep_top_k=20, nms_eta=1.0, normalized=False))
    executor = static.Executor(paddle.CPUPlace())
    executor.run(startup)
    static.save_inference_model(os.path.join(folder, "inference"), [x, size], [out, counts], executor, program=main)
    feeds = []
    for number, (batch, height, width) in enumerate(((1, 64, 64), (2, 64, 96), (1, 128, 128))):
        rng = np.random.default_rng(number)
        feeds.append({"image": rng.random((batch, 3, height, width), dtype=np.float32) * 4 - 2,
                      "im_size": np.array([[height, width]] * batch, np.int32)})
    record(folder, feeds)


def tagger(folder):
    """A network that labels words: the best path through the tags, of sentences padded to the same length."""
    paddle.enable_static()
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 5
    with static.program_guard(main, startup):
        words = static.data("words", [None, None, 6], "float32")
        lengths = static.data("lengths", [None, 1], "int64")
        emission = static.nn.fc(F.tanh(words), 4, num_flatten_dims=2)
        helper = paddle.base.layer_helper.LayerHelper("crf_decoding")
        transition = helper.create_parameter(attr=paddle.ParamAttr(name="transition"), shape=[6, 4], dtype="float32")
        path = helper.create_variable_for_type_inference("int64")
        helper.append_op(
            type="crf_decoding", inputs={"Emission": emission, "Transition": transition, "Length": lengths},
            outputs={"ViterbiPath": path})
    executor = static.Executor(paddle.CPUPlace())
    executor.run(startup)
    static.save_inference_model(os.path.join(folder, "inference"), [words, lengths], [path], executor, program=main)
    feeds = []
    for number, lengths in enumerate(([[1]], [[3], [5]], [[7], [2], [4]])):
        rng = np.random.default_rng(number)
        words = rng.random((len(lengths), max(lengths)[0], 6), dtype=np.float32) * 4 - 2
        feeds.append({"words": words, "lengths": np.array(lengths, np.int64)})
    record(folder, feeds)


def arrays(folder):
    """Arrays of tensors, concatenated and stacked, with the sizes of their members, which PaddlePaddle 2.6.2 does not return."""
    paddle.enable_static()
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 6
    rows = ((2, 3), (1, 1), (5, 2))
    with static.program_guard(main, startup):
        x = static.data("x", [None, 4], "float32")
        y = static.data("y", [None, 4], "float32")
        z = static.nn.fc(x, 3)
        outputs, sizes = [], []
        helper = paddle.base.layer_helper.LayerHelper("tensor_array_to_tensor")
        cases = (
            ((x, y, x), 0, False, lambda x, y: [x, y, x]),
            ((x, x), 1, True, lambda x, y: [4, 4]),
            ((x, z, x), 1, False, lambda x, y: [4, 3, 4]),
        )
        for members, axis, stacks, count in cases:
            array = paddle.tensor.create_array("float32")
            for number, member in enumerate(members):
                paddle.tensor.array_write(member, paddle.full([1], number, "int64"), array)
            out = helper.create_variable_for_type_inference("float32")
            index = helper.create_variable_for_type_inference("int32")
            helper.append_op(
                type="tensor_array_to_tensor", inputs={"X": array}, outputs={"Out": out, "OutIndex": index},
                attrs={"axis": axis, "use_stack": stacks})
            outputs += [out, index]
            sizes.append(count)
    executor = static.Executor(paddle.CPUPlace())
    executor.run(startup)
    feeds, found = [], []
    for number, counts in enumerate(rows):
        rng = np.random.default_rng(number)
        feed = {name: rng.random((count, 4), dtype=np.float32) for name, count in zip("xy", counts)}
        outs = executor.run(main, feed=feed, fetch_list=outputs[::2])
        found.append([value for out, count in zip(outs, sizes) for value in (out, np.array(count(*counts), np.int32))])
        feeds.append(feed)
    path = os.path.join(folder, "inference")
    static.save_inference_model(path, [x, y], outputs, executor, program=main)
    _, _, targets = static.load_inference_model(path, executor)
    for number, (feed, values) in enumerate(zip(feeds, found)):
        np.savez(os.path.join(folder, f"{number}.inputs.npz"), **feed)
        np.savez(os.path.join(folder, f"{number}.outputs.npz"),
                 **{target.name: value for target, value in zip(targets, values)})


def quantized(out):
    """The quantized networks among the golden files."""
    golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../crates/lodstone/tests/golden/paddle_quantized")
    for file in sorted(os.listdir(golden)):
        name, ending = os.path.splitext(file)
        if ending == ".pdmodel":
            folder = os.path.join(out, f"quantized_{name}")
            os.makedirs(folder, exist_ok=True)
            for ending in ("pdmodel", "pdiparams"):
                shutil.copyfile(os.path.join(golden, f"{name}.{ending}"), os.path.join(folder, f"inference.{ending}"))
            record(folder, [{"x": np.random.default_rng(0).random((3, 2, 4, 4), dtype=np.float32) * 4 - 2}])


def record(folder, feeds):
    """Runs the saved program, and writes inputs and outputs."""
    paddle.enable_static()
    executor = static.Executor(paddle.CPUPlace())
    program, names, targets = static.load_inference_model(os.path.join(folder, "inference"), executor)
    for number, feed in enumerate(feeds):
        assert sorted(names) == sorted(feed), (names, list(feed))
        outputs = executor.run(program, feed=feed, fetch_list=targets)
        np.savez(os.path.join(folder, f"{number}.inputs.npz"), **feed)
        np.savez(os.path.join(folder, f"{number}.outputs.npz"),
                 **{name: np.asarray(value) for name, value in zip(output_names(targets), outputs)})


def output_names(targets):
    """The names of outputs. Those of PIR are numbered."""
    return [f"fetch_name_{number}" if IS_PIR else target.name for number, target in enumerate(targets)]


def main(out):
    for name, (make, inputs, sizes) in LAYERS.items():
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        paddle.disable_static()
        layer = make()
        layer.eval()
        # Statistics other than 0 and 1.
        for key, value in layer.state_dict().items():
            if key.endswith("_mean"):
                value.set_value(paddle.uniform(value.shape, min=-0.2, max=0.2))
            elif key.endswith("_variance"):
                value.set_value(paddle.uniform(value.shape, min=0.2, max=1.0))
        paddle.jit.save(paddle.jit.to_static(layer, input_spec=inputs, full_graph=True), os.path.join(folder, "inference"))
        feeds = []
        for number, feed in enumerate(sizes):
            rng = np.random.default_rng(number)
            given = {}
            for key, (kind, shape) in feed.items():
                given[key] = (rng.random(shape, dtype=np.float32) * 2 - 1 if kind == "float"
                               else rng.integers(0, kind, shape))
            feeds.append(given)
        record(folder, feeds)
    if IS_PIR:
        return
    for name, make in (("detector", detector), ("tagger", tagger), ("arrays", arrays)):
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        make(folder)
    quantized(out)


if __name__ == "__main__":
    main(sys.argv[1])
