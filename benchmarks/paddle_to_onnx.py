"""Exports networks from PaddlePaddle to ONNX with Lodstone and with another converter, each as a process.

    python paddle_to_onnx.py LODSTONE WORK_DIR TABLE [TURNS]

With PaddlePaddle 2, the other converter is Paddle2ONNX, with PaddlePaddle 3 it is p2o. Prints a table, and appends it to a
file: the median time of each, of copying the parameters, and the ratios. The turns alternate.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time

os.environ.setdefault("GLOG_minloglevel", "3")

import paddle

BIN = os.path.dirname(sys.executable)
IS_PIR = paddle.__version__.startswith("3.")


def paddle2onnx(folder, out):
    return [os.path.join(BIN, "paddle2onnx"), "--model_dir", folder, "--model_filename", "inference.pdmodel",
            "--params_filename", "inference.pdiparams", "--save_file", out, "--opset_version", "17"]


def p2o(folder, out):
    source = os.path.join(folder, "inference")
    return [os.path.join(BIN, "p2o"), source + ".json", source + ".pdiparams", out]


PEER, COMMAND, NETWORKS = (
    ("p2o 0.1.2", p2o, ("LeNet", "resnet50")) if IS_PIR else ("Paddle2ONNX 1.2.11", paddle2onnx, ("resnet18", "resnet50"))
)


def build(folder, name):
    make = getattr(paddle.vision.models, name)
    layer = make(num_classes=1000)
    layer.eval()
    shape = [None, 1, 28, 28] if name == "LeNet" else [None, 3, 224, 224]
    spec = [paddle.static.InputSpec(shape, "float32", "x")]
    paddle.jit.save(paddle.jit.to_static(layer, input_spec=spec, full_graph=True), os.path.join(folder, "inference"))


def timed(command, out):
    if os.path.exists(out):
        os.remove(out)
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main(lodstone, work, table, turns=7):
    lines = [f"| network | MiB | Lodstone, s | `cp`, s | {PEER}, s | times faster |", "|---|---|---|---|---|---|"]
    for name in NETWORKS:
        folder = os.path.join(work, f"{name}-{paddle.__version__}")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        build(folder, name)
        source = os.path.join(folder, "inference")
        size = sum(os.path.getsize(os.path.join(folder, file)) for file in os.listdir(folder))
        out = os.path.join(folder, "out.onnx")
        commands = {
            "lodstone": [lodstone, "convert", source, out],
            "cp": ["cp", source + ".pdiparams", out],
            "peer": COMMAND(folder, out),
        }
        times = {key: [] for key in commands}
        for _ in range(int(turns)):
            for key, command in commands.items():
                times[key].append(timed(command, out))
        ours, copy, theirs = (statistics.median(times[key]) for key in commands)
        lines.append(f"| {name} | {size / 2**20:.1f} | {ours:.3f} | {copy:.3f} | {theirs:.3f} | {theirs / ours:.1f} |")
    text = "\n".join(lines) + "\n"
    print(text)
    with open(table, "a") as file:
        file.write(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
