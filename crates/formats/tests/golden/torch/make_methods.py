"""Writes modules of TorchScript with several methods, and adds them to the index: torch==2.15.0. Run it after
`make_torch.py`."""

import hashlib
import json
import os
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))


class Methods(nn.Module):
    """`helper` is part of `forward`; `describe` has no tensor."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def helper(self, x):
        return self.fc(x)

    def forward(self, x):
        return self.helper(x).relu()

    @torch.jit.export
    def encode(self, x, scale: float = 3.0):
        return x * scale + 1

    @torch.jit.export
    def decode(self, x, y):
        return {"sum": x + y, "product": x @ self.fc.weight}

    @torch.jit.export
    def describe(self, name: str) -> str:
        return "a " + name


class Encoder(nn.Module):
    """A module without `forward`."""

    @torch.jit.export
    def encode(self, x):
        return x * 2


def fact(name, tensor):
    data = tensor.detach().contiguous().numpy().tobytes()
    sha = hashlib.sha256(data).hexdigest()
    dtype = str(tensor.dtype).removeprefix("torch.")
    return {"name": name, "kind": "dense", "dtype": dtype, "shape": list(tensor.shape), "nbytes": len(data), "sha256": sha}


def main():
    torch.manual_seed(0)
    index = os.path.join(HERE, "index.json")
    with open(index, encoding="utf-8") as file:
        text = file.read().removesuffix("\n]}\n")
    for name, module in [("methods.pt", Methods()), ("encoder.pt", Encoder())]:
        path = os.path.join(HERE, name)
        torch.jit.save(torch.jit.script(module), path)
        with open(path, "rb") as file:
            data = file.read()
        made = {"made_by": "make_methods.py", "with": "torch==2.15.0"}
        files = {name: hashlib.sha256(data).hexdigest()}
        tensors = [fact(name, tensor) for name, tensor in module.state_dict().items()]
        case = {"path": name, "format": "torchscript", **made, "files": files, "tensors": tensors}
        text += f",\n {json.dumps(case)}"
    with open(index, "w", encoding="utf-8") as file:
        file.write(text + "\n]}\n")


if __name__ == "__main__":
    main()
