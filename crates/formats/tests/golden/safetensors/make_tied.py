"""Writes a module with tied weights as `safetensors.torch.save_model` does, and adds its tensors to the index:
safetensors==0.8.0, torch==2.15.0. Run it after `make_safetensors.py`."""

import hashlib
import json
import os

import torch
from safetensors.torch import save_model
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "tied.safetensors"


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5)
        self.head.weight = self.embedding.weight
        self.alias = self.head


def fact(name, tensor):
    data = tensor.detach().contiguous().numpy().tobytes()
    sha = hashlib.sha256(data).hexdigest()
    dtype = str(tensor.dtype).removeprefix("torch.")
    return {"name": name, "kind": "dense", "dtype": dtype, "shape": list(tensor.shape), "nbytes": len(data), "sha256": sha}


def main():
    torch.manual_seed(0)
    model = Tied()
    path = os.path.join(HERE, NAME)
    save_model(model, path, metadata={"format": "pt"})
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__")
    # Those that are stored, in the order of the file, then the others.
    stored = sorted(header, key=lambda name: header[name]["data_offsets"])
    state = model.state_dict()
    names = stored + sorted(name for name in metadata if name in state)
    index = os.path.join(HERE, "index.json")
    with open(index, encoding="utf-8") as file:
        text = file.read()
    made = {"made_by": "make_tied.py", "with": "safetensors==0.8.0"}
    files = {NAME: hashlib.sha256(data).hexdigest()}
    tensors = [fact(name, state[name]) for name in names]
    case = {"path": NAME, "format": "safetensors", **made, "files": files, "tensors": tensors, "metadata": {"format": "pt"}}
    before = text.removesuffix("\n]}\n")
    with open(index, "w", encoding="utf-8") as file:
        file.write(f"{before},\n {json.dumps(case)}\n]}}\n")


if __name__ == "__main__":
    main()
