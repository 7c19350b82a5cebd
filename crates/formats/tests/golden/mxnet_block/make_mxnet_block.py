"""Writes the golden files of Gluon blocks, as `Block.save` of MXNet 2 writes them.

    python make_mxnet_block.py OUT_DIR

Needs Python 3.8 and `mxnet==2.0.0b1 numpy<1.24`. `expected.json` maps, for each directory, the variables of the
program to parameters, by the arrays in MXNet's memory, never by reading a file back.
"""

import hashlib
import json
import os
import sys

import mxnet as mx
from mxnet import np, npx
from mxnet.gluon import nn

npx.set_np()


class Named(nn.HybridBlock):
    """Children that are distinguished by their parameters."""

    def __init__(self):
        super().__init__()
        self.last = nn.Dense(3, in_units=4)
        self.first = nn.Dense(4, in_units=5, use_bias=False)

    def forward(self, x):
        return self.last(npx.relu(self.first(x)))


class Alike(nn.HybridBlock):
    """Children that cannot be distinguished."""

    def __init__(self):
        super().__init__()
        self.second = nn.Dense(3, in_units=3)
        self.first = nn.Dense(3, in_units=3)

    def forward(self, x):
        return self.second(self.first(x))


def sequential():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 3, in_channels=1), nn.BatchNorm(in_channels=2), nn.Activation("relu"))
    inner = nn.HybridSequential()
    inner.add(nn.Dense(4, in_units=2 * 2 * 2), nn.Dense(3, in_units=4))
    net.add(inner)
    return net


BLOCKS = {
    "sequential": (sequential, (1, 1, 4, 4)),
    "named": (Named, (1, 5)),
    "alike": (Alike, (1, 3)),
    "imperative": (Named, None),
}


def digest(array):
    return hashlib.sha256(array.asnumpy().astype("<f4").tobytes()).hexdigest()


def main(out):
    expected = {}
    for name, (make, shape) in BLOCKS.items():
        mx.random.seed(len(expected))
        net = make()
        net.initialize(mx.init.Xavier())
        if shape is not None:
            net.hybridize()
            net(np.random.uniform(size=shape))
        else:
            net(np.random.uniform(size=(1, 5)))
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        here = os.getcwd()
        # The parameters have this name in the working directory, regardless of the prefix.
        os.chdir(folder)
        net.save("net")
        os.chdir(here)
        parameters = net.collect_params()
        expected[name] = {
            "parameters": {path: digest(p.data()) for path, p in parameters.items()},
            "variables": {p.var().name: path for path, p in parameters.items()},
        }
    with open(os.path.join(out, "expected.json"), "w") as file:
        json.dump(expected, file, indent=1, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
