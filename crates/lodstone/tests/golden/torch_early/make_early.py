"""Writes modules of TorchScript in early layouts, with what torch computes: `VERSION/`. Run with Python 3.7 and
torch==1.0.1, 1.1.0 and 1.3.1 (numpy<1.20)."""

import json
import os

import torch
from torch import nn

VERSION = torch.__version__
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), VERSION)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)
        self.tail = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2))
        self.fc = nn.Linear(36, 5)
        self.table = torch.arange(5, dtype=torch.float32)

    def forward(self, x):
        x = self.tail(self.norm(self.conv(x)))
        return torch.softmax(self.fc(x.view(x.size(0), -1)) + self.table, dim=1)


class Step(torch.jit.ScriptModule):
    __constants__ = ["count"]

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.count = 3

    @torch.jit.script_method
    def helper(self, x):
        return torch.tanh(torch.matmul(x, self.weight))

    @torch.jit.script_method
    def forward(self, x):
        for i in range(self.count):
            x = self.helper(x)
        return x


class Whole(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.step = Step()
        self.register_buffer("offset", torch.randn(4))

    @torch.jit.script_method
    def forward(self, x):
        if bool(torch.sum(x) > 0):
            y = self.step(x)
        else:
            y = x - 1.5
        return torch.cat([y, x], 1) * 2, y + self.offset


def main():
    torch.manual_seed(0)
    os.makedirs(HERE, exist_ok=True)
    images = torch.rand(2, 3, 6, 6)
    net = Net().eval()
    cases = []
    with torch.no_grad():
        traced = torch.jit.trace(net, images)
        rows = torch.rand(3, 4)
        for name, module, x in [("traced", traced, images), ("scripted", Whole(), rows), ("scripted", None, -rows)]:
            path = os.path.join(HERE, name + ".pt")
            if module is not None:
                module.save(path)
            loaded = torch.jit.load(path)
            y = loaded(x)
            y = [y] if isinstance(y, torch.Tensor) else list(y)
            array = lambda value: {"shape": list(value.shape), "data": value.flatten().tolist()}
            state = {key: array(value.float()) for key, value in loaded.state_dict().items()}
            cases.append({"path": name + ".pt", "x": array(x), "y": [array(one) for one in y], "state": state})
    with open(os.path.join(HERE, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(" " + json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
