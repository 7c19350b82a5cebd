"""Reads files with the Python package, beside the framework that wrote them, and compares the arrays.

    python package_load.py DIR

DIR/expect.json lists the cases; paths in it are relative to DIR, or absolute:

    {"cases": [{"load": KIND, "path": PATH}, ...]}

KIND is "mxnet", "onnx", "safetensors" (PyTorch's), "torch" or "paddle". Those frameworks read the file, and
the package; then the package writes what the framework read, and the framework reads that.

Prints a line for each case and then `N passed, M failed`.
"""

import os
import tempfile

import numpy as np

import cases
from cases import Mismatch, require


def bits(array):
    """An array of NumPy as its type, its shape and its bytes: NaNs are equal then."""
    plain = np.ascontiguousarray(array)
    # MXNet and PaddlePaddle have bfloat16 as bits.
    name = {"[('bfloat16', '<u2')]": "bfloat16"}.get(str(plain.dtype), plain.dtype.name)
    return name, array.shape, plain.tobytes()


def same(what, found, expected):
    require("names of " + what, sorted(found), sorted(expected))
    for name in expected:
        if bits(found[name]) != bits(expected[name]):
            raise Mismatch("{} of {} is {}, expected {}".format(name, what, found[name], expected[name]))


def mxnet(path, scratch):
    import mxnet as mx

    import lodstone

    def load(path):
        loaded = mx.nd.load(path)
        named = loaded if isinstance(loaded, dict) else {str(n): a for n, a in enumerate(loaded)}
        # Of sparse arrays, what is stored.
        return {n: (a if a.stype == "default" else a.data).asnumpy() for n, a in named.items()}

    expected = load(path)
    # bfloat16 is compared by its bits: `ml_dtypes` is not here.
    tensors = lodstone.load_file(path)
    require("names", list(tensors), list(expected))
    for name, tensor in tensors.items():
        found = tensor.dtype, tensor.stored_shape, bytes(tensor.data())
        require("bits of " + name, found, bits(expected[name]))
    if all(array.size for array in expected.values()):
        out = os.path.join(scratch, "out.params")
        lodstone.save_file(tensors, out, allow=["sparse"])
        again = load(out)
        for name in expected:
            require("bits of " + name, bits(again[name]), bits(expected[name]))


def onnx(path, scratch):
    import onnx
    from onnx import numpy_helper

    import lodstone.numpy

    found = lodstone.numpy.load_file(path)
    for tensor in onnx.load(path).graph.initializer:
        if tensor.data_type != onnx.TensorProto.STRING:
            name = tensor.name
            same("the package", {name: found[name]}, {name: numpy_helper.to_array(tensor)})



def safetensors(path, scratch):
    import safetensors.torch
    import torch

    import lodstone.torch

    expected = safetensors.torch.load_file(path)
    found = lodstone.torch.load_file(path)
    mapped = {n: lodstone.torch.array(t) for n, t in lodstone.open(path).items()}
    for name, tensor in expected.items():
        for other in (found[name], mapped[name]):
            require("dtype of " + name, other.dtype, tensor.dtype)
            require("shape of " + name, other.shape, tensor.shape)
            require("bytes of " + name, raw(other), raw(tensor))
        # So that to save one alone does not save all.
        require("storage of " + name, found[name].untyped_storage().nbytes(), len(raw(tensor)))
    # What is mapped may be written to, and nobody else sees that.
    for name, tensor in mapped.items():
        tensor.reshape(-1).view(torch.uint8).fill_(7) if tensor.numel() else None
        require("bytes of " + name, raw(lodstone.torch.array(lodstone.open(path)[name])), raw(found[name]))
    out = os.path.join(scratch, "out.safetensors")
    lodstone.torch.save_file(expected, out)
    again = safetensors.torch.load_file(out)
    require("what is written", {n: raw(t) for n, t in again.items()}, {n: raw(t) for n, t in expected.items()})


def raw(tensor):
    import torch

    if tensor.numel() == 0:
        return b""
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())


def torch(path, scratch):
    """Tensors by DLPack and by buffers."""
    import torch

    import lodstone.torch

    model = lodstone.open(path)
    for name, tensor in model.items():
        by_buffer, by_dlpack = lodstone.torch.array(tensor), torch.from_dlpack(tensor)
        require("dtype of " + name, by_dlpack.dtype, by_buffer.dtype)
        require(name, raw(by_dlpack), raw(by_buffer))
    with lodstone.safe_open(path, "pt") as file:
        for name in file.keys():
            require("slice of " + name, raw(file.get_slice(name)[:1]), raw(file.get_tensor(name)[:1]))
    # What only marks its bytes is saved as what it is.
    complex = torch.tensor([1 + 2j, 3 - 4j])
    for value in (complex.conj(), torch._neg_view(torch.ones(3))):
        (again,) = lodstone.torch.load(lodstone.torch.save({"x": value}, to="npz")).values()
        require("what is marked", again.tolist(), value.tolist())


def paddle(path, scratch):
    import paddle

    import lodstone.paddle

    loaded = paddle.load(path)
    expected = {n: t for n, t in loaded.items() if isinstance(t, paddle.Tensor)}
    found = lodstone.paddle.load_file(path)
    for name, tensor in expected.items():
        require("dtype of " + name, found[name].dtype, tensor.dtype)
        same("the package", {name: found[name].numpy()}, {name: tensor.numpy()})
    out = os.path.join(scratch, "out.pdparams")
    # Pickles have bfloat16 as bits, as PaddlePaddle itself writes it.
    lodstone.paddle.save_file(expected, out, allow=["dtype"])
    again = paddle.load(out)
    for name, tensor in expected.items():
        require("dtype of " + name, again[name].dtype, tensor.dtype)
        same("the framework", {name: again[name].numpy()}, {name: tensor.numpy()})


def load(case, root):
    kinds = {"mxnet": mxnet, "onnx": onnx, "safetensors": safetensors, "torch": torch, "paddle": paddle}
    with tempfile.TemporaryDirectory() as scratch:
        kinds[case["load"]](os.path.join(root, case["path"]), scratch)


if __name__ == "__main__":
    cases.run(__doc__, load)
