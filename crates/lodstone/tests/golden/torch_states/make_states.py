"""Writes a scripted module with state, numbers as inputs and loops that assign attributes, with what torch computes:
torch==2.15.0."""

import json
import os
import warnings
from typing import List

import numpy as np
import torch
from torch import nn

warnings.simplefilter("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))


class Detector(nn.Module):
    """Like detectors of voice activity: parts of a sequence, each with the end of the part before it. The state is empty
    until the first part; what is computed depends on a rate."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Conv1d(1, 4, 3, stride=2)
        self.narrow = nn.Conv1d(1, 4, 2)
        self.cell = nn.LSTMCell(4, 3)
        self.out = nn.Linear(3, 1)
        self.reset()

    @torch.jit.export
    def reset(self):
        self.state = torch.zeros(0)
        self.context = torch.zeros(0)
        self.last = 0

    def forward(self, x, rate: int):
        if x.dim() == 1:
            x = x.unsqueeze(0)
        if rate != 16 and rate % 16 == 0:
            x = x[:, :: rate // 16]
            rate = 16
        if rate not in [8, 16]:
            raise ValueError(f"the rate {rate} is not supported")
        if self.last and self.last != rate:
            self.reset()
        count = 4 if rate == 16 else 2
        if not len(self.context):
            self.context = torch.zeros(x.shape[0], count)
        x = torch.cat([self.context, x], 1)
        if rate == 16:
            y = self.wide(x.unsqueeze(1))
        else:
            y = self.narrow(x.unsqueeze(1))
        y = y.relu().mean(-1, keepdim=True).squeeze(-1)
        if len(self.state):
            h, c = self.cell(y, (self.state[0], self.state[1]))
        else:
            h, c = self.cell(y)
        self.state = torch.stack([h, c])
        self.context = x[:, -count:]
        self.last = rate
        return torch.sigmoid(self.out(h))

    @torch.jit.export
    def whole(self, x, rate: int, size: int):
        """All parts of a sequence, one after the other."""
        self.reset()
        parts: List[torch.Tensor] = []
        for start in range(0, x.shape[1], size):
            parts.append(self.forward(x[:, start : start + size], rate))
        return torch.cat(parts, 1).cpu()

    @torch.jit.export
    def total(self, x, scale: float, twice: bool):
        """A number among the attributes changes in a loop."""
        for row in range(x.shape[0]):
            if row > 0:
                self.last += 2
            x = x + self.last
        if twice:
            x = x * 2
        return x * scale

    @torch.jit.export
    def rows(self, x, scale: float):
        """Rows are written one by one."""
        y = x.clone()
        for row in range(x.shape[0]):
            y[row] += row * scale
        return y * 2


def main():
    torch.manual_seed(0)
    torch.jit.script(Detector().eval()).save(os.path.join(HERE, "detector.pt"))
    random = np.random.RandomState(0)
    cases = []
    for method, shape, numbers in [
        ("forward", (1, 12), {"rate": 16}),
        ("forward", (12,), {"rate": 8}),
        ("forward", (2, 36), {"rate": 48}),
        ("whole", (2, 24), {"rate": 16, "size": 6}),
        ("whole", (1, 25), {"rate": 8, "size": 5}),
        ("whole", (1, 18), {"rate": 32, "size": 18}),
        ("total", (3, 2), {"scale": 0.5, "twice": True}),
        ("total", (4, 2), {"scale": 3.0, "twice": False}),
        ("rows", (3, 2), {"scale": 0.25}),
    ]:
        module = torch.jit.load(os.path.join(HERE, "detector.pt"))
        x = random.uniform(-1, 1, shape).astype("float32")
        y = getattr(module, method)(torch.from_numpy(x), *numbers.values())
        array = lambda value: {"shape": list(value.shape), "data": value.flatten().tolist()}
        states = {name: array(getattr(module, name)) for name in ("state", "context")}
        cases.append({"method": method, "x": array(x), "numbers": numbers, "y": array(y.detach()), "states": states})
    with open(os.path.join(HERE, "cases.json"), "w", encoding="utf-8") as file:
        lines = ",\n".join(" " + json.dumps(case) for case in cases)
        file.write(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
