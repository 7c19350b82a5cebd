"""Exports ResNet-18 and ResNet-50 from PaddlePaddle to ONNX with Lodstone and with Paddle2ONNX, each as a process.

    python paddle_to_onnx.py LODSTONE WORK_DIR TABLE [TURNS]

Prints and writes a table: the median time of each, of copying the files, and the ratios. The turns alternate.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time

os.environ.setdefault("GLOG_minloglevel", "3")

import paddle


def build(folder, name):
    make = getattr(paddle.vision.models, name)
    layer = make(num_classes=1000)
    layer.eval()
    spec = [paddle.static.InputSpec([None, 3, 224, 224], "float32", "x")]
    paddle.jit.save(paddle.jit.to_static(layer, input_spec=spec, full_graph=True), os.path.join(folder, "inference"))


def timed(command, out):
    if os.path.exists(out):
        os.remove(out)
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main(lodstone, work, table, turns=7):
    lines = ["| network | MiB | Lodstone, s | `cp`, s | Paddle2ONNX 1.2.11, s | times faster |", "|---|---|---|---|---|---|"]
    for name in ("resnet18", "resnet50"):
        folder = os.path.join(work, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        build(folder, name)
        source = os.path.join(folder, "inference")
        size = sum(os.path.getsize(os.path.join(folder, file)) for file in os.listdir(folder))
        out = os.path.join(folder, "out.onnx")
        commands = {
            "lodstone": [lodstone, "convert", source, out],
            "cp": ["cp", source + ".pdiparams", out],
            "paddle2onnx": [os.path.join(os.path.dirname(sys.executable), "paddle2onnx"), "--model_dir", folder,
                            "--model_filename", "inference.pdmodel", "--params_filename", "inference.pdiparams",
                            "--save_file", out, "--opset_version", "17"],
        }
        times = {key: [] for key in commands}
        for _ in range(int(turns)):
            for key, command in commands.items():
                times[key].append(timed(command, out))
        ours, copy, theirs = (statistics.median(times[key]) for key in commands)
        lines.append(f"| {name} | {size / 2**20:.0f} | {ours:.3f} | {copy:.3f} | {theirs:.2f} | {theirs / ours:.0f} |")
    text = "\n".join(lines) + "\n"
    print(text)
    with open(table, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
