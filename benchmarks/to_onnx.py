"""Exports networks to ONNX with Lodstone and with the converter of the framework, each as a process.

    python to_onnx.py LODSTONE WORK_DIR TABLE [TURNS]

The framework is the one that is installed: PaddlePaddle 2 (Paddle2ONNX), PaddlePaddle 3 (p2o), MXNet (mx2onnx) or PyTorch
(`torch.onnx.export`). Prints a table, and appends it to a file: the median time of each, of copying the parameters, and the
ratios. The turns alternate.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec

os.environ.setdefault("GLOG_minloglevel", "3")

BIN = os.path.dirname(sys.executable)


class Paddle2:
    peer, networks, parameters = "Paddle2ONNX 1.2.11", ("resnet18", "resnet50"), "inference.pdiparams"

    def build(self, folder, name):
        import paddle

        layer = getattr(paddle.vision.models, name)(num_classes=1000)
        layer.eval()
        shape = [None, 1, 28, 28] if name == "LeNet" else [None, 3, 224, 224]
        spec = [paddle.static.InputSpec(shape, "float32", "x")]
        saved = paddle.jit.to_static(layer, input_spec=spec, full_graph=True)
        paddle.jit.save(saved, os.path.join(folder, "inference"))
        return os.path.join(folder, "inference")

    def command(self, source, out):
        return [os.path.join(BIN, "paddle2onnx"), "--model_dir", os.path.dirname(source), "--model_filename",
                "inference.pdmodel", "--params_filename", "inference.pdiparams", "--save_file", out, "--opset_version", "17"]


class Paddle3(Paddle2):
    peer, networks = "p2o 0.1.2", ("LeNet", "resnet50")

    def command(self, source, out):
        return [os.path.join(BIN, "p2o"), source + ".json", source + ".pdiparams", out]


class Mxnet:
    peer, networks, parameters = "mx2onnx (MXNet 1.9.1)", ("resnet18_v1", "resnet50_v1"), "net-0000.params"

    def build(self, folder, name):
        import mxnet as mx

        block = mx.gluon.model_zoo.vision.get_model(name)
        block.initialize()
        block.hybridize()
        block(mx.nd.zeros((1, 3, 224, 224)))
        block.export(os.path.join(folder, "net"))
        return os.path.join(folder, "net")

    def command(self, source, out):
        code = ("import sys, numpy, mxnet; mxnet.onnx.export_model(sys.argv[1] + '-symbol.json', "
                "sys.argv[1] + '-0000.params', [(1, 3, 224, 224)], numpy.float32, sys.argv[2])")
        return [sys.executable, "-c", code, source, out]


class Torch:
    peer, networks, parameters = "torch.onnx.export (2.15.0)", ("resnet18", "resnet50"), "net.pt2"

    def build(self, folder, name):
        import torch
        import torchvision

        network = getattr(torchvision.models, name)(weights=None).eval()
        source = os.path.join(folder, "net.pt2")
        torch.export.save(torch.export.export(network, (torch.zeros(1, 3, 224, 224),)), source)
        return source

    def command(self, source, out):
        code = ("import sys, torch; torch.onnx.export(torch.export.load(sys.argv[1]), (), sys.argv[2], dynamo=True)")
        return [sys.executable, "-c", code, source, out]


def installed():
    if find_spec("mxnet"):
        return Mxnet()
    if find_spec("torch"):
        return Torch()
    import paddle

    return Paddle3() if paddle.__version__.startswith("3.") else Paddle2()


def timed(command, out, durable=False):
    """Returns the seconds until a process ended, and until its output is on the disk."""
    if os.path.exists(out):
        os.remove(out)
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if durable:
        written = os.open(out, os.O_RDONLY)
        os.fsync(written)
        os.close(written)
    return time.perf_counter() - begin


def report(lines, table):
    """Prints a table, and appends it to a file."""
    text = "\n".join(lines) + "\n"
    print(text)
    with open(table, "a") as file:
        file.write(text + "\n")


def main(lodstone, work, table, turns=7):
    framework = installed()
    lines = [f"| network | MiB | Lodstone, s | `cp`, s | {framework.peer}, s | times faster |", "|---|---|---|---|---|---|"]
    for name in framework.networks:
        folder = os.path.join(work, f"{name}-{type(framework).__name__}")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        source = framework.build(folder, name)
        size = sum(os.path.getsize(os.path.join(folder, file)) for file in os.listdir(folder))
        out = os.path.join(folder, "out.onnx")
        commands = {
            "lodstone": [lodstone, "convert", source, out],
            "cp": ["cp", os.path.join(folder, framework.parameters), out],
            "peer": framework.command(source, out),
        }
        times = {key: [] for key in commands}
        for _ in range(int(turns)):
            for key, command in commands.items():
                times[key].append(timed(command, out))
        ours, copy, theirs = (statistics.median(times[key]) for key in commands)
        lines.append(f"| {name} | {size / 2**20:.1f} | {ours:.3f} | {copy:.3f} | {theirs:.3f} | {theirs / ours:.1f} |")
    report(lines, table)


if __name__ == "__main__":
    main(*sys.argv[1:])
