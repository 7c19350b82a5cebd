"""Reads files with the Python package and with the framework that wrote them, and compares the arrays.

    python package_load.py DIR

DIR/expect.json lists the cases; paths in it are relative to DIR, or absolute:

    {"cases": [{"load": KIND, "path": PATH}, ...]}

KIND is "mxnet", "onnx", "safetensors" (with PyTorch), "torch", "torch_saved", "subclasses" (of PyTorch tensors)
or "paddle". The framework and the package read the file;
then the package writes the arrays of the framework, and the framework reads them. "modules", "refusals" and "slices"
compare the package with safetensors on PyTorch modules and tensors, and "paddle_refusals" saves PaddlePaddle tensors
that cannot be saved. "feeds" runs a program on tensors of the framework that PATH names. These have no file: PATH is
their name.

Prints a line for each case and then `N passed, M failed`.
"""

import os
import tempfile
import warnings
import zipfile

import numpy as np

import cases
from cases import Mismatch, require


def bits(array):
    """Returns the type, shape and bytes of a NumPy array, so that NaNs are equal."""
    plain = np.ascontiguousarray(array)
    # MXNet and PaddlePaddle return bfloat16 as bits.
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
        # For sparse arrays, the stored elements.
        return {n: (a if a.stype == "default" else a.data).asnumpy() for n, a in named.items()}

    expected = load(path)
    # bfloat16 is compared as bits: `ml_dtypes` is not installed.
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
    # A model also has the other names of tensors that share bytes.
    mapped = {n: lodstone.torch.array(t) for n, t in lodstone.open(path).items() if n in expected}
    for name, tensor in expected.items():
        for other in (found[name], mapped[name]):
            require("dtype of " + name, other.dtype, tensor.dtype)
            require("shape of " + name, other.shape, tensor.shape)
            require("bytes of " + name, raw(other), raw(tensor))
        # Each tensor has its own storage, so that saving one does not save all.
        require("storage of " + name, found[name].untyped_storage().nbytes(), len(raw(tensor)))
    # Mapped tensors are writable; writes are private.
    for name, tensor in mapped.items():
        tensor.reshape(-1).view(torch.uint8).fill_(7) if tensor.numel() else None
        require("bytes of " + name, raw(lodstone.torch.array(lodstone.open(path)[name])), raw(found[name]))
    out = os.path.join(scratch, "out.safetensors")
    lodstone.torch.save_file(expected, out)
    again = safetensors.torch.load_file(out)
    require("written tensors", {n: raw(t) for n, t in again.items()}, {n: raw(t) for n, t in expected.items()})


def raw(tensor):
    import torch

    if tensor.numel() == 0:
        return b""
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())


def torch(path, scratch):
    """Compares tensors by DLPack and by buffers."""
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
    # Lazy conjugates and negatives are saved with their values.
    complex = torch.tensor([1 + 2j, 3 - 4j])
    for value in (complex.conj(), torch._neg_view(torch.ones(3))):
        (again,) = lodstone.torch.load(lodstone.torch.save({"x": value}, to="npz")).values()
        require("the lazy tensor", again.tolist(), value.tolist())


def torch_saved(path, scratch):
    """Compares the tensors in a file of `torch.save`, and those that share memory, and writes such a file."""
    import torch

    import lodstone.torch

    def shared(state):
        """Returns the groups of names whose tensors have the same bytes."""
        groups = {}
        for name, value in state.items():
            groups.setdefault((value.data_ptr(), value.nbytes), []).append(name)
        return sorted(group for group in groups.values() if len(group) > 1 and state[group[0]].nbytes)

    def plain(value):
        return raw(value.resolve_conj().resolve_neg())

    # Restricted loading knows only protocol 2.
    only = "protocol4" not in path
    expected, found = torch.load(path, weights_only=only), lodstone.torch.load(path)
    require("names", list(found), list(expected))
    written = os.path.join(scratch, "written.pt")
    lodstone.convert(path, written, to="torch")
    again = torch.load(written, weights_only=only, mmap=zipfile.is_zipfile(written))
    require("written names", sorted(again), sorted(expected))
    for name, value in expected.items():
        for what, other in (("", found[name]), ("written ", again[name])):
            require("dtype of " + what + name, other.dtype, value.dtype)
            require(what + name, plain(other), plain(value))
        require("strides of written " + name, again[name].stride(), value.stride())
    whole = {name: value for name, value in expected.items() if value.is_contiguous() and not value.is_conj()}
    require("shared memory", shared({name: found[name] for name in whole}), shared(whole))
    require("written shared memory", shared({name: again[name] for name in whole}), shared(whole))


def subclasses(path, scratch):
    """Loads a file whose tensors are subclasses with other tensors as their parts, and a tensor without elements."""
    import torch

    import lodstone.torch

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = lodstone.torch.load(path)
    whole = lodstone.open(path)
    missing = [name for name in whole if name not in found]
    require("kinds", {whole[name].kind for name in missing}, {"absent"})
    require("warnings", [f"`{min(missing)}` only consists" in str(one.message) for one in caught], [True])
    require("dense tensors", sorted(found), sorted(name for name in whole if whole[name].kind == "dense"))
    try:
        found[missing[0]]
        raise Mismatch("a tensor of parts is returned")
    except lodstone.NoTensorError as error:
        require("parts in the error", f"`{missing[0]}." in str(error), True)
    meta = os.path.join(scratch, "meta.pt")
    torch.save({"w": torch.empty(2, 3, dtype=torch.float16, device="meta"), "b": torch.ones(2)}, meta)
    found, expected = lodstone.torch.load(meta), torch.load(meta, weights_only=True)
    for name, value in expected.items():
        require(name, *((it.device, it.dtype, it.shape) for it in (found[name], value)))


def modules(path, scratch):
    """Compares saving and loading modules with safetensors, in every format."""
    import safetensors.torch
    import torch

    import lodstone.torch

    class Tied(torch.nn.Module):
        def __init__(self, transposed=False, extra=False):
            super().__init__()
            self.embedding = torch.nn.Embedding(5, 4)
            self.norm = torch.nn.BatchNorm1d(4)
            self.head = torch.nn.Linear(4, 5).to(torch.bfloat16 if extra else None)
            self.tied = torch.nn.Linear(4, 5, bias=False)
            self.tied.weight = self.embedding.weight
            self.last = self.again = torch.nn.Linear(5, 2)
            if transposed:
                self.head.weight = torch.nn.Parameter(torch.randn(4, 5).T)
            if extra:
                self.added = torch.nn.Parameter(torch.ones(()))

    def state(module):
        return {name: (value.dtype, value.tolist()) for name, value in module.state_dict().items()}

    def written(path):
        with safetensors.safe_open(path, "pt") as file:
            return file.metadata(), {name: raw(tensor) for name, tensor in file.get_tensors().items()}

    for options in ({}, {"transposed": True}, {"extra": True}):
        module = Tied(**options)
        theirs, ours = (os.path.join(scratch, name) for name in ("theirs.safetensors", "ours.safetensors"))
        safetensors.torch.save_model(module, theirs, metadata={"by": "test", "last.bias": "mine"})
        lodstone.torch.save_model(module, ours, metadata={"by": "test", "last.bias": "mine"})
        require("the written file", written(ours), written(theirs))
        for ending in (".safetensors", ".npz", ".pdparams", ".params"):
            path = os.path.join(scratch, "any" + ending)
            # Pickles and NumPy archives store bfloat16 as bits.
            allow = ["dtype"] if options.get("extra") and ending in (".npz", ".pdparams") else []
            lodstone.torch.save_model(module, path, allow=allow)
            if not allow:
                other = Tied(**options)
                require("names left", lodstone.torch.load_model(other, path), (set(), []))
                require("state", state(other), state(module))
        for first, second in ((theirs, lodstone.torch), (ours, safetensors.torch)):
            other = Tied(**options)
            require("names left", tuple(map(list, second.load_model(other, first))), ([], []))
            require("state", state(other), state(module))
    # Files and modules that do not match: the same names are missing and unexpected.
    for source, into in (({}, {"extra": True}), ({"extra": True}, {})):
        path = os.path.join(scratch, "other.safetensors")
        safetensors.torch.save_model(Tied(**source), path)
        found, expected = (it.torch.load_model(Tied(**into), path, strict=False) for it in (lodstone, safetensors))
        require("names left", found, expected)
        require("whether there are", any(map(len, found)), True)
        for it in (safetensors, lodstone):
            try:
                it.torch.load_model(Tied(**into), path, True, "cpu", backend="pread")
                raise Mismatch("a module that does not match was loaded")
            except RuntimeError as error:
                require("the name in the error", '"added"' in str(error), True)
    # PyTorch adds the missing counter of a normalization; safetensors reports it as a tensor of the file.
    norm = torch.nn.BatchNorm1d(4)
    twice = os.path.join(scratch, "twice.safetensors")
    lodstone.torch.save_model(torch.nn.Sequential(norm, norm), twice)
    other = torch.nn.BatchNorm1d(4)
    require("names left", lodstone.torch.load_model(torch.nn.Sequential(other, other), twice), (set(), []))
    # A file with all names of the shared tensors of a module.
    plain = {name: tensor.clone() for name, tensor in Tied().state_dict().items()}
    separate = os.path.join(scratch, "separate.safetensors")
    safetensors.torch.save_file(plain, separate)
    found, expected = (it.torch.load_model(Tied(), separate, strict=False) for it in (lodstone, safetensors))
    require("names that share", found, expected)


def refusals(path, scratch):
    """Checks that Lodstone rejects what safetensors rejects, with errors that the same classes catch."""
    import safetensors.torch
    import torch

    import lodstone.torch

    out = os.path.join(scratch, "out.safetensors")
    matrix = torch.arange(12.0).reshape(3, 4)
    file = os.path.join(scratch, "file.safetensors")
    safetensors.torch.save_file({"matrix": matrix}, file)
    part = torch.nn.Linear(4, 3)
    part.weight = torch.nn.Parameter(torch.zeros(6, 4)[1:4])

    def dense(it, tensors):
        it.torch.save_file(tensors, out)

    works = {
        "shared": lambda it: dense(it, {"a": matrix, "b": matrix}),
        "shared in part": lambda it: dense(it, {"a": matrix, "b": matrix[1:]}),
        "shared bytes": lambda it: it.torch.save({"a": matrix, "b": matrix[:1]}),
        "transposed": lambda it: dense(it, {"a": matrix.T}),
        "every other column": lambda it: it.torch.save({"a": matrix[:, ::2]}),
        "COO": lambda it: dense(it, {"a": matrix.to_sparse()}),
        "CSR": lambda it: dense(it, {"a": matrix.to_sparse_csr()}),
        "no tensor": lambda it: dense(it, {"a": [1.0]}),
        "an array": lambda it: dense(it, {"a": matrix.numpy()}),
        "no dictionary": lambda it: dense(it, [matrix]),
        "text": lambda it: dense(it, "text"),
        "meta": lambda it: dense(it, {"a": torch.zeros(2, device="meta")}),
        "metadata of numbers": lambda it: it.torch.save({"a": matrix}, {"x": 1}),
        "a module of a part": lambda it: it.torch.save_model(part, out),
        "no file": lambda it: it.torch.load_file(os.path.join(scratch, "none")),
        "no file for a module": lambda it: it.torch.load_model(part, os.path.join(scratch, "none")),
        "no name of a file": lambda it: it.torch.load_file(None),
        "no backend": lambda it: it.torch.load_file(file, backend="read"),
        "no device": lambda it: it.safe_open(file, "pt", "nowhere"),
        "no framework": lambda it: it.safe_open(file, "chainer"),
        "no tensor of the name": lambda it: it.safe_open(file, "pt").get_tensor("matrices"),
        "no bytes of a model": lambda it: it.torch.load(b"no model"),
        "more of other dimensions": lambda it: it.torch.load_model(torch.nn.ParameterDict({"matrix": matrix[0]}), file),
    }
    for name, work in works.items():
        errors = []
        for it in (lodstone, safetensors):
            try:
                work(it)
                raise Mismatch(f"{it.__name__} accepts: {name}")
            except Mismatch:
                raise
            except Exception as error:
                errors.append(error)
        ours, theirs = errors
        kind = lodstone.SafetensorError if isinstance(theirs, safetensors.SafetensorError) else type(theirs)
        if not isinstance(ours, kind):
            raise Mismatch(f"{name}: {ours!r}, but safetensors raises {theirs!r}")
    for layout in (matrix.to_sparse(), matrix.to_sparse_csr(), matrix.to_sparse_csc(), matrix.to_sparse_bsr((1, 2))):
        for save in (lodstone.torch.save, lambda them: lodstone.torch.tensor("w", them["w"])):
            try:
                save({"w": layout})
                raise Mismatch(f"{layout.layout} is accepted")
            except lodstone.UnsupportedError as error:
                is_named = all(part in str(error) for part in ("`w`", str(layout.layout), ".to_dense()"))
                require("whether the error names the tensor and its layout", is_named, True)
    # Lodstone accepts what safetensors accepts.
    halves = {"a": matrix[:1], "b": matrix[1:], "none": matrix[:0], "nothing": matrix[3:]}
    require("halves", lodstone.torch.save(halves), safetensors.torch.save(halves))


def slices(path, scratch):
    """Checks that slices equal those of safetensors, or that both reject them."""
    import safetensors.torch
    import torch

    import lodstone

    out = os.path.join(scratch, "out.safetensors")
    safetensors.torch.save_file({"x": torch.arange(60.0).reshape(3, 4, 5), "half": torch.ones(4).bfloat16()}, out)
    indices = [
        0, -1, 3, -4, ..., None, (), [], [0, 2], [[0, 1]], True, 1.5, "0", slice(1), slice(-2, None), slice(0, 20),
        slice(2, 1), slice(None, None, 2), slice(None, None, -1), (0, 1, 2), (0, 1, 2, 0), (..., 1), (..., 1, ...),
        (slice(None), [0, 1]), (1, ..., slice(1, 3)), torch.tensor([True, False, True]), torch.tensor([2, 0]),
    ]  # fmt: skip
    compared = 0
    for backend in ("mmap", "pread"):
        for name in ("x", "half"):
            parts = [it.safe_open(out, "pt", backend=backend).get_slice(name) for it in (safetensors, lodstone)]
            for index in indices:
                if backend == "pread" and isinstance(index, slice) and index.stop == 1 and index.start == 2:
                    # safetensors computes a negative dim.
                    continue
                theirs, ours = (attempt(lambda: (part[index].dtype, part[index].tolist())) for part in parts)
                if isinstance(theirs, Exception) != isinstance(ours, Exception):
                    raise Mismatch(f"{backend} {name}[{index}] is {ours!r}, but {theirs!r} in safetensors")
                if isinstance(theirs, safetensors.SafetensorError):
                    require("error", isinstance(ours, lodstone.SafetensorError), True)
                elif not isinstance(theirs, Exception):
                    require(f"{name}[{index}]", ours, theirs)
                    compared += 1
    require("whether slices were compared", compared > 30, True)


def attempt(work):
    try:
        return work()
    except Exception as error:
        return error


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
    # Pickles store bfloat16 as bits, as in PaddlePaddle.
    lodstone.paddle.save_file(expected, out, allow=["dtype"])
    again = paddle.load(out)
    for name, tensor in expected.items():
        require("dtype of " + name, again[name].dtype, tensor.dtype)
        same("the framework", {name: again[name].numpy()}, {name: tensor.numpy()})


def paddle_refusals(path, scratch):
    """Checks that tensors that are not dense and contiguous are rejected by name."""
    import paddle

    import lodstone.paddle

    matrix = paddle.to_tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    works = {
        "contiguous": matrix.T,
        "sparse": matrix.to_sparse_coo(2),
        "sparse tensor": matrix.to_sparse_csr(),
        "ndarray": np.zeros(3),
    }
    for part, value in works.items():
        try:
            lodstone.paddle.save({"w": value})
            raise Mismatch("{} is accepted".format(part))
        except ValueError as error:
            require("whether the error names it", "`w`" in str(error) and part in str(error), True)
    again = lodstone.paddle.load(lodstone.paddle.save({"w": matrix}))["w"]
    require("a dense tensor", again.numpy().tolist(), matrix.numpy().tolist())


def feeds(path, scratch):
    """Runs a program, and a model, with tensors of a framework as inputs."""
    from lodstone import program

    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    if os.path.basename(path) == "torch":
        import torch

        given, transposed = torch.from_numpy(rows), torch.from_numpy(rows.T.copy()).T
        trained = given.clone().requires_grad_()
    else:
        import paddle

        given, transposed = paddle.to_tensor(rows), paddle.to_tensor(rows.T.copy()).T
        trained = paddle.to_tensor(rows, stop_gradient=False)
    with program.Network() as net:
        doubled = program.layers.scale(program.layers.data("x", [3]), 2.0)
    with program.Network() as pooling:
        sums = program.layers.sequence_pool(program.layers.data("x", [3], lod_level=1), "sum")
    executor, scope = program.Executor(), program.Scope()
    for value in (given, transposed, trained):
        require("the result", executor.run(net.main, {"x": value}, doubled)[0].tolist(), (rows * 2).tolist())
    sequences = program.create_lod_tensor(given, [[1, 3]])
    found = executor.run(pooling.main, {"x": sequences}, sums)[0]
    require("the sums of sequences", found.tolist(), [rows[0].tolist(), rows[1:].sum(0).tolist()])
    scope["w"] = given
    require("the variable", np.asarray(scope["w"]).tolist(), rows.tolist())
    model = net.main.inference(["x"], [doubled]).model(scope)
    require("the output", next(iter(model.run({"x": given}).values())).numpy().tolist(), (rows * 2).tolist())


def load(case, root):
    kinds = {
        "feeds": feeds,
        "mxnet": mxnet,
        "onnx": onnx,
        "safetensors": safetensors,
        "torch": torch,
        "torch_saved": torch_saved,
        "subclasses": subclasses,
        "modules": modules,
        "refusals": refusals,
        "slices": slices,
        "paddle": paddle,
        "paddle_refusals": paddle_refusals,
    }
    with tempfile.TemporaryDirectory() as scratch:
        kinds[case["load"]](os.path.join(root, case["path"]), scratch)


if __name__ == "__main__":
    cases.run(__doc__, load)
