"""Writes models that PyTorch and onnxscript export, with inputs and the outputs that ONNX Runtime computes.

    python make_onnx_models.py

Run with torch 2.15.0, onnx 1.23.2, onnxscript 0.7.2 and onnxruntime 1.31.1. Weights are trained for a few steps on
random data, so that none has its first value. `NAME.onnx` is a model, `NAME.0.npz` and so on have its inputs
(`in.NAME`) and outputs (`out.NUMBER`), of other dims each. `index.json` lists the models.
"""

import json
import os

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper
from onnxscript import FLOAT, script
from onnxscript import opset18 as op

HERE = os.path.dirname(os.path.abspath(__file__))


class Images(torch.nn.Module):
    """Convolutions, normalization, pooling, and a linear layer."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.second = torch.nn.Conv2d(8, 12, 3, stride=2, groups=4)
        self.last = torch.nn.Linear(12, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = torch.nn.functional.hardswish(self.second(torch.max_pool2d(x, 2)))
        return torch.log_softmax(self.last(x.mean((2, 3))), 1)


class Words(torch.nn.Module):
    """An embedding, self-attention, and a feed-forward layer."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(50, 16)
        self.layer = torch.nn.TransformerEncoderLayer(
            16, 4, 32, dropout=0.0, activation="gelu", batch_first=True
        )

    def forward(self, x):
        return self.layer(self.words(x))


class Series(torch.nn.Module):
    """Two LSTM layers in both directions, and a GRU."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(6, 7, 2, bidirectional=True, batch_first=True)
        self.gru = torch.nn.GRU(14, 5, batch_first=True)

    def forward(self, x):
        y, _ = self.lstm(x)
        z, last = self.gru(y)
        return z, last


class Rounds(torch.nn.Module):
    """Loops and branches that depend on the input."""

    def __init__(self):
        super().__init__()
        self.step = torch.nn.Linear(4, 4)

    def forward(self, x, count):
        total = torch.zeros_like(x)
        for round in range(int(count)):
            if bool(x.sum() > 0):
                x = torch.tanh(self.step(x)) - 0.25
            else:
                x = x * 0.5 + 0.375
            total = total + x * round
        pieces = []
        for row in range(x.size(0)):
            pieces.append(x[row] + row)
        return total, torch.stack(pieces)


def train(module, *inputs):
    """Takes a few steps, so that weights and statistics are no first values."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    for _ in range(3):
        outputs = module(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        optimizer.zero_grad()
        sum((output**2).sum() for output in outputs).backward()
        optimizer.step()
    return module.eval()


def export(name, module, inputs, names, dynamic, dynamo):
    path = os.path.join(HERE, name + ".onnx")
    options = {"dynamic_shapes": dynamic} if dynamo else {"dynamic_axes": dynamic}
    torch.onnx.export(module, inputs, path, input_names=names, dynamo=dynamo, external_data=False, **options)
    model = onnx.load(path)
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for function in model.functions:
        for node in function.node:
            del node.metadata_props[:]
    del model.metadata_props[:]
    onnx.save(model, path)


def record(name, feeds):
    session = onnxruntime.InferenceSession(os.path.join(HERE, name + ".onnx"))
    for number, feed in enumerate(feeds):
        outputs = session.run(None, feed)
        values = {"in." + key: value for key, value in feed.items()}
        values.update({"out.%d" % at: value for at, value in enumerate(outputs)})
        np.savez(os.path.join(HERE, "%s.%d.npz" % (name, number)), **values)
    return {"name": name, "feeds": len(feeds)}


@script(default_opset=op)
def scaled(x: FLOAT[...], y: FLOAT[...], factor: float = 0.5):
    """The sum of one value and another, scaled."""
    constant = op.Constant(value_float=factor)
    return op.Add(x, op.Mul(y, constant))


@script(default_opset=op)
def twice(x: FLOAT[...], factor: float):
    """Calls another function, once with its own attribute and once with the default."""
    return scaled(scaled(x, x, factor=factor), x)


@script(default_opset=op)
def chosen(x: FLOAT[...]):
    """A branch in a function."""
    if op.ReduceSum(x, keepdims=0) > 0.0:
        y = twice(x, factor=2.0)
    else:
        y = op.Neg(x)
    return y


@script(default_opset=op)
def calls(x: FLOAT["n", 3]) -> FLOAT["n", 3]:
    """Calls functions, one of them twice."""
    return scaled(chosen(x), chosen(op.Neg(x)), factor=0.25)


def whole(name):
    """A graph with an input that has a default, and an output that is a constant."""
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "scale"], ["y"]),
            helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
            helper.make_node("Transpose", ["t"], ["w2"], perm=[1, 0]),
            helper.make_node("MatMul", ["y", "w2"], ["z"]),
        ],
        name,
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3]),
            helper.make_tensor_value_info("scale", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 2]),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [3, 2]),
        ],
        [
            helper.make_tensor("scale", TensorProto.FLOAT, [1], [3.0]),
            helper.make_tensor("w", TensorProto.FLOAT, [3, 2], [1, -2, 3, -4, 5, -6]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, os.path.join(HERE, name + ".onnx"))


def main():
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    normal = lambda *dims: random.standard_normal(dims).astype(np.float32)
    cases = []

    dims = torch.export.Dim
    export("images", train(Images(), torch.randn(4, 3, 12, 10)), (torch.randn(2, 3, 12, 10),), ["x"],
           ({0: dims("batch"), 2: dims("height", min=9), 3: dims("width", min=9)},), True)
    cases.append(record("images", [{"x": normal(1, 3, 12, 10)}, {"x": normal(3, 3, 17, 9)}]))

    words = lambda *dims: random.integers(0, 50, dims)
    export("words", train(Words(), torch.randint(0, 50, (2, 7))), (torch.randint(0, 50, (2, 7)),), ["x"],
           ({0: dims("batch"), 1: dims("length")},), True)
    cases.append(record("words", [{"x": words(2, 7)}, {"x": words(1, 11)}]))

    export("series", train(Series(), torch.randn(2, 5, 6)), (torch.randn(2, 5, 6),), ["x"],
           {"x": {0: "batch", 1: "length"}}, False)
    cases.append(record("series", [{"x": normal(2, 5, 6)}, {"x": normal(3, 8, 6)}]))

    rounds = torch.jit.script(train(Rounds(), torch.randn(3, 4), torch.tensor(3)))
    export("rounds", rounds, (torch.randn(3, 4), torch.tensor(3)), ["x", "count"], {"x": {0: "rows"}}, False)
    feeds = [{"x": normal(3, 4), "count": np.array(count)} for count in (4, 1)]
    cases.append(record("rounds", feeds + [{"x": -abs(normal(5, 4)), "count": np.array(7)}]))

    model = calls.to_model_proto(ir_version=10)
    for function in model.functions:
        if all(known.domain != function.domain for known in function.opset_import):
            function.opset_import.append(helper.make_opsetid(function.domain, 1))
    onnx.checker.check_model(model)
    onnx.save(model, os.path.join(HERE, "calls.onnx"))
    cases.append(record("calls", [{"x": abs(normal(2, 3))}, {"x": -abs(normal(4, 3))}]))

    whole("whole")
    cases.append(record("whole", [{"x": normal(2, 3)}, {"x": normal(1, 3), "scale": normal(1)}]))

    with open(os.path.join(HERE, "index.json"), "w", encoding="utf-8") as file:
        json.dump({"framework": "torch==2.15.0, onnxruntime==1.31.1", "cases": cases}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
