"""Writes the golden PIR programs of a release of PaddlePaddle 3.

    python make_paddle_pir.py OUT_DIR

Run with 3.0.0b2, 3.0.0, 3.1.1, 3.2.2 and 3.3.1: the form differs between them. `loop.json` is a program without
parameters: a loop that contains a branch, and attributes that are not finite. `dense.json` has parameters.
"""

import json
import os
import sys

os.environ.setdefault("GLOG_minloglevel", "2")
os.environ["FLAGS_cpu_deterministic"] = "1"

import numpy as np
import paddle

import facts

facts.fix_hash_seed()

FRAMEWORK = "paddlepaddle==" + paddle.__version__
SCRIPT = os.path.basename(__file__)

nn = paddle.nn
static = paddle.static


class Loop(nn.Layer):
    def forward(self, x):
        i = paddle.zeros([1], "int64")
        while i < 3:
            if x.sum() > 1:
                x = x - 1
            else:
                x = x * 2
            i = i + 1
        x = paddle.maximum(x, paddle.full([1], -np.inf))
        return x + paddle.where(x > 100, paddle.full([1], np.nan), paddle.zeros([1]))


class Dense(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.norm = nn.LayerNorm(3)

    def forward(self, x):
        return nn.functional.leaky_relu(self.norm(self.linear(x)), 0.1)


# Names in a file begin with the number of a dialect.
DIALECTS = {"0": "builtin", "1": "pd_op", "2": "cf", "3": "custom_op", "4": "pd_dist"}


def kinds(path):
    """The names of the operators, of each block in order of its operator. PaddlePaddle cannot read back a NaN."""
    blocks = []

    def visit(block):
        names = []
        blocks.append(names)
        for op in block["ops"]:
            dialect, _, kind = op["#"].partition(".")
            names.append("{}.{}".format(DIALECTS[dialect], kind) if kind else "builtin.parameter")
            for region in op.get("regions", []):
                visit(region["blocks"][0])

    with open(path) as file:
        visit(json.load(file)["program"]["regions"][0]["blocks"][0])
    return blocks


def save(index, name, layer):
    version = paddle.__version__.replace("-beta2", "b2").replace("-beta", "b")
    prefix = "pir/{}/{}".format(version, name)
    layer.eval()
    tensors = []
    for seed, value in enumerate(layer.state_dict().values()):
        value.set_value(facts.random_floats(value.shape, seed))
        tensors.append(facts.dense(value.name, value.numpy()))
    net = paddle.jit.to_static(layer, full_graph=True)
    spec = static.InputSpec([None, 4], "float32", "x")
    paddle.jit.save(net, index.path(prefix), input_spec=[spec])
    files = [prefix + end for end in (".json", ".pdiparams") if os.path.exists(index.path(prefix + end))]
    operators = kinds(index.path(prefix) + ".json")
    index.add(
        prefix + ".json",
        "paddle-pir",
        sorted(tensors, key=lambda entry: entry["name"]),
        files=files,
        operators=operators,
        inputs=["x"],
        outputs=["fetch_name_0"],
    )


def main(out_dir):
    index = facts.Index(out_dir, SCRIPT, FRAMEWORK)
    save(index, "loop", Loop())
    save(index, "dense", Dense())
    index.write()


if __name__ == "__main__":
    main(sys.argv[1])
