"""Trains small networks with PaddlePaddle 3.3.1, and records their programs, losses and variables.

    python make_paddle_pir_training.py OUT_DIR

Writes `training.jsonl.gz`, a line for each program: `name`; `pir`, the JSON of the program; `inputs`, the arrays of one
batch by name; `before` and `after`, the persistable variables by name before the first and after the last step; `losses`
of each step. An array is [element type, dims, bytes], and bytes are hexadecimal. A second run writes the same lines.
"""

import gzip
import json
import os
import sys
import tempfile

os.environ.setdefault("GLOG_minloglevel", "3")
os.environ["FLAGS_cpu_deterministic"] = "1"

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn, static

STEPS = 4


def described(array):
    return [array.dtype.name, list(array.shape), array.tobytes().hex()]


def perceptron(x, y):
    hidden = F.tanh(nn.Linear(6, 5)(x))
    return F.cross_entropy(nn.Linear(5, 3)(hidden), y)


def convolutions(x, y):
    # The gradient of a bias before a normalization is noise, which Adam makes steps of.
    hidden = F.relu(nn.BatchNorm2D(4)(nn.Conv2D(2, 4, 3, padding=1, bias_attr=False)(x)))
    hidden = F.max_pool2d(hidden, 2, 2).flatten(1)
    return F.mse_loss(F.sigmoid(nn.Linear(16, 3)(hidden)), y)


def attention(x, y):
    words = nn.LayerNorm(8)(nn.Embedding(10, 8)(x))
    scores = F.softmax(paddle.matmul(words, words, transpose_y=True) * 0.35)
    pooled = paddle.matmul(scores, words).mean(axis=1)
    return F.cross_entropy(nn.Linear(8, 4)(F.gelu(pooled)), y).mean()



PROGRAMS = {
    "perceptron, sgd": (perceptron, [("x", [None, 6], "float32"), ("y", [None], "int64")], paddle.optimizer.SGD, 3),
    "perceptron, adamw": (perceptron, [("x", [None, 6], "float32"), ("y", [None], "int64")], paddle.optimizer.AdamW, 3),
    "convolutions, momentum": (
        convolutions, [("x", [None, 2, 4, 4], "float32"), ("y", [None, 3], "float32")], paddle.optimizer.Momentum, 0),
    "convolutions, adam": (
        convolutions, [("x", [None, 2, 4, 4], "float32"), ("y", [None, 3], "float32")], paddle.optimizer.Adam, 0),
    "attention, clipped": (attention, [("x", [None, 5], "int64"), ("y", [None], "int64")], None, 4),
}


def record(name, make, inputs, optimizer, classes):
    paddle.seed(3)
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        values = [static.data(*spec) for spec in inputs]
        loss = make(*values)
        if optimizer:
            optimizer(0.05).minimize(loss)
        else:
            paddle.optimizer.Adam(0.01, grad_clip=nn.ClipGradByGlobalNorm(0.5)).minimize(loss)
    executor = static.Executor(paddle.CPUPlace())
    executor.run(startup)
    random = np.random.default_rng(2)
    feed = {}
    for spec, shape, dtype in inputs:
        shape = [6 if dim is None else dim for dim in shape]
        high = 10 if spec == "x" else classes
        feed[spec] = random.random(shape, np.float32) if dtype == "float32" else random.integers(0, high, shape)
    variables = lambda: {name: described(np.asarray(value)) for name, value in sorted(main.state_dict().items())}
    before = variables()
    losses = [described(executor.run(main, feed=feed, fetch_list=[loss])[0]) for _ in range(STEPS)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "main")
        static.save(main, path)
        with open(path + ".json") as file:
            pir = json.load(file)
    return {
        "name": name, "pir": pir, "inputs": {key: described(value) for key, value in feed.items()},
        "before": before, "after": variables(), "losses": losses,
    }


def main(out):
    paddle.enable_static()
    lines = []
    for name, parts in PROGRAMS.items():
        with static.scope_guard(static.Scope()), paddle.utils.unique_name.guard():
            lines.append(json.dumps(record(name, *parts), separators=(",", ":")) + "\n")
    with open(os.path.join(out, "training.jsonl.gz"), "wb") as file:
        with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=9, mtime=0, filename="") as packed:
            packed.write("".join(lines).encode())
    print(len(lines), "programs")


if __name__ == "__main__":
    main(sys.argv[1])
