"""Writes a checkpoint whose configuration contains itself, and adds it to the index: torch==2.15.0. Run it after
`make_methods.py`."""

import hashlib
import json
import os

import torch

HERE = os.path.dirname(os.path.abspath(__file__))


class Node:
    """A part of a configuration, which knows the whole."""

    def __init__(self, parent, **values):
        self.parent = parent
        self.values = values


def main():
    torch.manual_seed(0)
    whole = Node(None, rate=0.5)
    whole.values["part"] = Node(whole, sizes=[1, 2])
    loop = ["itself"]
    loop.append(loop)
    tensor = torch.randn(2, 3)
    path = os.path.join(HERE, "cycle.pt")
    torch.save({"weight": tensor, "config": whole, "list": loop}, path)
    with open(path, "rb") as file:
        sha = hashlib.sha256(file.read()).hexdigest()
    data = tensor.numpy().tobytes()
    fact = {
        "name": "weight",
        "kind": "dense",
        "dtype": "float32",
        "shape": [2, 3],
        "nbytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    made = {"made_by": "make_cycle.py", "with": "torch==2.15.0"}
    case = {"path": "cycle.pt", "format": "torch", **made, "files": {"cycle.pt": sha}, "tensors": [fact]}
    index = os.path.join(HERE, "index.json")
    with open(index, encoding="utf-8") as file:
        text = file.read().removesuffix("\n]}\n")
    with open(index, "w", encoding="utf-8") as file:
        file.write(text + f",\n {json.dumps(case)}\n]}}\n")


if __name__ == "__main__":
    main()
