"""Opens and converts a PyTorch checkpoint of 1 GiB with Lodstone, and next to it with PyTorch and `cp`, each as a process.

    python torch_files.py LODSTONE WORK_DIR TABLE [TURNS]

Prints a table, and appends it to a file: the median times, and the median of the ratios of each turn. The turns alternate.
"""

import os
import statistics
import sys

import torch
from to_onnx import report, timed

LAYERS, WIDTH = 64, 2048


def build(path):
    if not os.path.exists(path):
        state = {}
        for number in range(LAYERS):
            state[f"layers.{number}.weight"] = torch.randn(WIDTH, WIDTH)
            state[f"layers.{number}.bias"] = torch.randn(WIDTH)
        torch.save(state, path)
    return path


def main(lodstone, work, table, turns=7):
    source, out = build(os.path.join(work, "checkpoint.pt")), os.path.join(work, "out.safetensors")
    name = f"layers.{LAYERS // 2}.bias"
    load = "import sys, torch; print(torch.load(sys.argv[1], mmap=True)[sys.argv[2]])"
    rows = [
        ("open and print a tensor", [lodstone, "cat", source, name], "`torch.load(mmap=True)`",
         [sys.executable, "-c", load, source, name], False),
        ("to safetensors, durable", [lodstone, "convert", "--quiet", source, out], "`cp` and `fsync`",
         ["cp", source, out], True),
    ]
    lines = ["| checkpoint of 1 GiB | Lodstone, s | other | s | times faster |", "|---|---|---|---|---|"]
    for what, own, peer, other, durable in rows:
        ours, theirs = [], []
        for _ in range(int(turns)):
            theirs.append(timed(other, out, durable))
            ours.append(timed(own, out))
        ratio = statistics.median(their / our for our, their in zip(ours, theirs, strict=True))
        ours, theirs = statistics.median(ours), statistics.median(theirs)
        lines.append(f"| {what} | {ours:.3f} | {peer} | {theirs:.3f} | {ratio:.1f} |")
    report(lines, table)


if __name__ == "__main__":
    main(*sys.argv[1:])
