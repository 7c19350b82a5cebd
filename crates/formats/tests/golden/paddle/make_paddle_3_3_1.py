"""Writes the golden files of PaddlePaddle 3.3.1.

    python make_paddle_3_3_1.py OUT_DIR

This release stores programs as JSON ("PIR") by default; parameters are stored as
before. It adds two element types of one byte, for which numpy has no names, so these
tensors are created from their bits.
"""

import os
import sys

os.environ.setdefault("GLOG_minloglevel", "2")
os.environ["FLAGS_cpu_deterministic"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import paddle
from paddle.base import core
from paddle.pir_utils import OldIrGuard

import facts

facts.fix_hash_seed()

FRAMEWORK = "paddlepaddle==3.3.1"
SCRIPT = os.path.basename(__file__)

nn = paddle.nn
static = paddle.static

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")


class SmallNet(nn.Layer):
    """A convolution, a batch normalisation and a linear layer, for 6x6 grey images."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2D(1, 3, 3, padding=1)
        self.norm = nn.BatchNorm2D(3)
        self.linear = nn.Linear(27, 4)

    def forward(self, image):
        hidden = nn.functional.relu(self.norm(self.conv(image)))
        hidden = nn.functional.max_pool2d(hidden, 2, 2)
        return nn.functional.softmax(self.linear(paddle.flatten(hidden, 1)))


def make_streams(index):
    """Every value of the new types, and two older types as this release writes them."""
    bits = np.arange(256, dtype="uint8").reshape(16, 16)
    for dtype in FLOAT8:
        save_tensor(index, dtype, paddle.to_tensor(bits).view(dtype), bits)
    for dtype in ("float32", "int64"):
        array = facts.array_of(dtype)
        save_tensor(index, dtype, paddle.to_tensor(array), array)
    half = facts.array_of("bfloat16")
    save_tensor(index, "bfloat16", paddle.to_tensor(half.view("int16")).view("bfloat16"), half)
    save_tensor(index, "scalar", paddle.to_tensor(3.5), np.float32(3.5), "float32")


def save_tensor(index, name, tensor, array, dtype=None):
    path = "3.3.1/{}.lodtensor".format(name)
    core.save_dense_tensor(tensor.get_tensor(), index.path(path))
    index.add(path, "paddle-tensor", [facts.dense("", array, dtype or name)])


def values_of(layer):
    """Facts of a layer's parameters and buffers by variable name, sorted as files hold them."""
    tensors = [facts.dense(value.name, value.numpy()) for value in layer.state_dict().values()]
    return sorted(tensors, key=lambda entry: entry["name"])


def make_pir_model(index):
    """A model in this release's own form: a JSON program and combined parameters."""
    prefix = "3.3.1/pir/net"
    layer = SmallNet()
    layer.eval()
    for seed, value in enumerate(layer.state_dict().values()):
        value.set_value(facts.random_floats(value.shape, seed))
    spec = static.InputSpec([None, 1, 6, 6], "float32", "image")
    paddle.jit.save(layer, index.path(prefix), input_spec=[spec])
    tensors = values_of(layer)
    paddle.enable_static()
    executor = static.Executor(paddle.CPUPlace())
    with static.scope_guard(static.Scope()):
        loaded, inputs, _ = static.load_inference_model(index.path(prefix), executor)
    paddle.disable_static()
    operators = loaded.global_block().ops
    index.add(
        prefix + ".json",
        "paddle-pir",
        tensors,
        files=[prefix + ".json", prefix + ".pdiparams"],
        operators=[[operator.name() for operator in operators]],
        inputs=inputs,
        outputs=[
            operator.attrs()["name"] for operator in operators if operator.name() == "pd_op.fetch"
        ],
    )
    index.add(prefix + ".pdiparams", "paddle-params", tensors)  # named by the program beside it


def set_random_values(layer):
    """Sets the variables of a static layer; returns their facts, sorted by name."""
    tensors = []
    for seed, value in enumerate(layer.state_dict().values()):
        array = facts.random_floats(value.shape, seed)
        variable = static.global_scope().find_var(value.name)
        variable.get_tensor().set(array, paddle.CPUPlace())
        tensors.append(facts.dense(value.name, array))
    return sorted(tensors, key=lambda entry: entry["name"])


def make_old_model(index):
    """A model as a binary program, which this release writes with `FLAGS_enable_pir_api=0`."""
    prefix = "3.3.1/old/net"
    paddle.enable_static()
    with OldIrGuard():
        network, startup = static.Program(), static.Program()
        executor = static.Executor(paddle.CPUPlace())
        with static.program_guard(network, startup), paddle.utils.unique_name.guard():
            image = static.data("image", [None, 1, 6, 6], "float32")
            layer = SmallNet()
            layer.eval()
            scores = layer(image)
        executor.run(startup)
        tensors = set_random_values(layer)
        static.save_inference_model(
            index.path(prefix), [image], [scores], executor, program=network
        )
        with static.scope_guard(static.Scope()):
            loaded, inputs, outputs = static.load_inference_model(index.path(prefix), executor)
        index.add(
            prefix + ".pdmodel",
            "paddle",
            tensors,
            files=[prefix + ".pdmodel", prefix + ".pdiparams"],
            operators=facts.operators_of(loaded),
            inputs=inputs,
            outputs=[value.name for value in outputs],
        )
    paddle.disable_static()


def main(out_dir):
    index = facts.Index(out_dir, SCRIPT, FRAMEWORK)
    make_streams(index)
    make_pir_model(index)
    make_old_model(index)
    index.write()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
