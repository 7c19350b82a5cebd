"""Adds `branches` to the models of `make_onnx_models.py`.

    python make_branches.py

Run with onnx 1.23.2 and onnxruntime 1.31.1. As in models of voice activity, an input selects a branch, and for each
shape of the other input only the selected branch is valid.
"""

import json
import os

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "branches"


def branch(name, size, random):
    """An LSTM over pieces of `size` elements, whose number must be one for the last Squeeze."""
    weights = {
        "shape": np.array([-1, 1, 1, size]),
        "w": random.standard_normal((1, 12, size)).astype(np.float32),
        "r": random.standard_normal((1, 12, 3)).astype(np.float32),
        "axes": np.array([0]),
    }
    made = {key: name + "_" + key for key in list(weights) + ["pieces", "steps", "states", "y"]}
    nodes = [
        helper.make_node("Reshape", ["x", made["shape"]], [made["pieces"]]),
        helper.make_node("Squeeze", [made["pieces"], made["axes"]], [made["steps"]]),
        helper.make_node("LSTM", [made["steps"], made["w"], made["r"]], [made["states"]], hidden_size=3),
        helper.make_node("Squeeze", [made["states"], made["axes"]], [made["y"]]),
    ]
    constants = [numpy_helper.from_array(value, made[key]) for key, value in weights.items()]
    outputs = [helper.make_tensor_value_info(made["y"], TensorProto.FLOAT, [1, 1, 3])]
    return helper.make_graph(nodes, name, [], outputs, constants)


def main():
    random = np.random.default_rng(0)
    graph = helper.make_graph(
        [
            helper.make_node("Equal", ["rate", "wide"], ["is_wide"]),
            helper.make_node(
                "If",
                ["is_wide"],
                ["y"],
                then_branch=branch("then", 8, random),
                else_branch=branch("else", 4, random),
            ),
        ],
        NAME,
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["length"]),
            helper.make_tensor_value_info("rate", TensorProto.INT64, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 3])],
        [numpy_helper.from_array(np.array(16000), "wide")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    onnx.save(model, os.path.join(HERE, NAME + ".onnx"))
    session = onnxruntime.InferenceSession(os.path.join(HERE, NAME + ".onnx"))
    feeds = [(8, 16000), (4, 8000)]
    for number, (length, rate) in enumerate(feeds):
        feed = {"x": random.standard_normal(length).astype(np.float32), "rate": np.array(rate)}
        values = {"in." + key: value for key, value in feed.items()}
        values["out.0"] = session.run(None, feed)[0]
        np.savez(os.path.join(HERE, "%s.%d.npz" % (NAME, number)), **values)
    path = os.path.join(HERE, "index.json")
    with open(path, encoding="utf-8") as file:
        index = json.load(file)
    index["cases"] = [case for case in index["cases"] if case["name"] != NAME]
    index["cases"].append({"name": NAME, "feeds": len(feeds)})
    with open(path, "w", encoding="utf-8") as file:
        json.dump(index, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
