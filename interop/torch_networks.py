"""Exports networks with PyTorch 2.15, with random weights, and records their outputs.

    python torch_networks.py OUT_DIR

Writes NAME.pt2 for each network, as it is traced, NAME.core.pt2 in Core ATen, with a dynamic batch, NAME.onnx, the graph of
PyTorch's own exporter, and NAME.script.pt, a TorchScript that is traced or scripted; and for each NAME-io.npz with inputs
(in:NAME) of another batch than the traced one, and outputs (out:INDEX).
"""

import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import numpy as np
import torch
import torchvision
from torch import nn


class Tagger(nn.Module):
    """Words to tags: an embedding, a bidirectional LSTM of two layers, and a softmax for each word."""

    def __init__(self, words=200, tags=11):
        super().__init__()
        self.embedding = nn.Embedding(words, 24)
        self.lstm = nn.LSTM(24, 20, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(40, tags)

    def forward(self, words):
        return torch.log_softmax(self.tags(self.lstm(self.embedding(words))[0]), -1)


class Encoder(nn.Module):
    """Two layers of an encoder: token and position embeddings, masked attention, and a pooled first token."""

    def __init__(self, words=300, length=16, units=32):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, units), nn.Parameter(torch.randn(length, units) * 0.1)
        layer = nn.TransformerEncoderLayer(units, 4, 64, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.pooler = nn.Linear(units, units)

    def forward(self, words, mask):
        x = self.words(words) + self.positions
        x = self.layers(x, src_key_padding_mask=mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


class Quantized(nn.Module):
    """An MLP with quantized activations and weights, as `torch.export` has them."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.register_buffer("first", torch.randint(-128, 128, (32, 16), dtype=torch.int8))
        self.register_buffer("second", torch.randint(-128, 128, (10, 32), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(32) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.zeros(32, dtype=torch.int64))

    def forward(self, x):
        q = torch.ops.quantized_decomposed
        x = q.dequantize_per_tensor(q.quantize_per_tensor(x, 0.02, 3, -128, 127, torch.int8), 0.02, 3, -128, 127, torch.int8)
        weight = q.dequantize_per_channel(self.first, self.scales, self.zeros, 0, -128, 127, torch.int8)
        x = torch.relu(nn.functional.linear(x, weight))
        x = q.dequantize_per_tensor(q.quantize_per_tensor(x, 0.05, 0, 0, 255, torch.uint8), 0.05, 0, 0, 255, torch.uint8)
        weight = q.dequantize_per_tensor(self.second, 0.004, 0, -128, 127, torch.int8)
        return nn.functional.linear(x, weight)


class Detector(nn.Module):
    """A head of a detector, with the loops and branches of a script: the best boxes of each class."""

    def __init__(self, classes=3):
        super().__init__()
        self.classes = classes
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 24, 3, 2, 1), nn.ReLU())
        self.scores, self.boxes = nn.Conv2d(24, classes, 1), nn.Conv2d(24, 4, 1)

    def forward(self, image, threshold: float = 0.5):
        if image.dim() != 4:
            raise ValueError("expected images")
        x = self.body(image)
        scores = torch.sigmoid(self.scores(x))[0].flatten(1)
        offsets = torch.sigmoid(self.boxes(x))[0].flatten(1).t()
        height, width = x.shape[-2:]
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        centers = torch.stack([columns, rows], -1).reshape(-1, 2).float() * 4.0
        boxes = torch.cat([centers - offsets[:, :2] * 8.0, centers + offsets[:, 2:] * 8.0], 1)
        kept, labels = [], []
        for label in range(self.classes):
            own = scores[label]
            chosen = torchvision.ops.nms(boxes, own, 0.4)
            if chosen.numel() > 20:
                chosen = chosen[:20]
            chosen = chosen[own[chosen] > threshold]
            kept.append(torch.cat([boxes[chosen], own[chosen][:, None]], 1))
            labels.append(torch.full((chosen.numel(),), label, dtype=torch.int64))
        return torch.cat(kept), torch.cat(labels)


class Recurrence(nn.Module):
    """A loop over the steps of a sequence that collects its states, and one whose end depends on values."""

    def __init__(self, units=12):
        super().__init__()
        self.cell = nn.GRUCell(5, units)

    def forward(self, steps):
        state = torch.zeros(steps.size(1), 12)
        states = []
        for step in range(steps.size(0)):
            state = self.cell(steps[step], state)
            states.append(state)
        count = 0
        while bool((state.abs().max() > 0.05)) and count < 40:
            state = state * 0.7
            count += 1
        return torch.stack(states), state, torch.tensor(count)


def script(folder, name, module, others):
    """Writes a module that was traced or scripted, and what it returns."""
    with torch.no_grad():
        expected = module(*others)
    expected = expected if isinstance(expected, tuple) else (expected,)
    names = [one.debugName().split(".")[0] for one in list(module.graph.inputs())[1:]]
    arrays = {f"in:{n}": x.numpy() for n, x in zip(names, others)}
    arrays |= {f"out:{i}": x.numpy() for i, x in enumerate(expected)}
    module.save(folder / f"{name}.script.pt")
    np.savez(folder / f"{name}.script-io.npz", **arrays)


def eager(inputs):
    """Returns an MLP and a small convolution network that PyTorch's eager quantization made, and a dynamic MLP."""
    import torch.ao.quantization as quantization

    torch.backends.quantized.engine = "fbgemm"
    mlp = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
    dynamic = quantization.quantize_dynamic(mlp, {nn.Linear}, dtype=torch.qint8)
    static = nn.Sequential(
        quantization.QuantStub(), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10), quantization.DeQuantStub()
    )
    static.eval()
    static.qconfig = quantization.get_default_qconfig("fbgemm")
    static = quantization.fuse_modules(static, [["1", "2"]])
    static = quantization.prepare(static)
    static(inputs)
    return {"quantized_static": quantization.convert(static), "quantized_dynamic": dynamic}


def write(folder, name, module, inputs, others):
    module.eval()
    shapes = tuple({0: torch.export.Dim("batch", min=2, max=64)} for _ in inputs)
    with torch.no_grad():
        program = torch.export.export(module, inputs, dynamic_shapes=shapes)
        expected = module(*others)
    expected = expected if isinstance(expected, tuple) else (expected,)
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    arrays = {f"in:{n}": x.numpy() for n, x in zip(names, others)}
    arrays |= {f"out:{i}": x.numpy() for i, x in enumerate(expected)}
    torch.onnx.export(program, (), folder / f"{name}.onnx", dynamo=True, verbose=False)
    for name, program in ((name, program), (f"{name}.core", program.run_decompositions())):
        torch.export.save(program, folder / f"{name}.pt2")
        np.savez(folder / f"{name}-io.npz", **arrays)
    if not isinstance(module, Quantized):
        with torch.no_grad():
            script(folder, name.removesuffix(".core"), torch.jit.trace(module, inputs), others)


def main():
    import torch.ao.quantization.fx._decomposed  # noqa: F401

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    floats = lambda *shape: torch.rand(*shape) * 2 - 1
    for name in ("resnet50", "mobilenet_v3_small"):
        network = getattr(torchvision.models, name)(weights=None, num_classes=20)
        write(folder, name, network, (floats(2, 3, 64, 64),), (floats(3, 3, 64, 64),))
    words = lambda batch: torch.randint(0, 200, (batch, 9))
    write(folder, "tagger", Tagger(), (words(2),), (words(5),))
    mask = torch.zeros(5, 16, dtype=torch.bool)
    mask[:, 12:] = True
    tokens = torch.randint(0, 300, (5, 16))
    write(folder, "encoder", Encoder(), (tokens[:2], mask[:2]), (tokens, mask))
    write(folder, "quantized", Quantized(), (floats(2, 16),), (floats(4, 16),))
    script(folder, "detector", torch.jit.script(Detector().eval()), (floats(1, 3, 40, 56),))
    script(folder, "recurrence", torch.jit.script(Recurrence().eval()), (floats(6, 2, 5),))
    residual = torchvision.models.resnet18(weights=None, num_classes=10).eval()
    script(folder, "resnet18_scripted", torch.jit.script(residual), (floats(2, 3, 48, 48),))
    given = floats(64, 16)
    for name, module in eager(given).items():
        script(folder, name, torch.jit.trace(module, given), (given[:5],))


if __name__ == "__main__":
    main()
