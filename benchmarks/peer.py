"""Times one framework on files: a request on a line of stdin, an answer on a line of stdout.

    peer.py lodstone.numpy | lodstone.torch | safetensors | torch | torch.dcp | orbax | paddle | mxnet | onnx

A request is `{"operation": "open_alone" | "open" | "load" | "check" | "save" | "stall" | "slower" | "restore",
"path": ..., "out": ..., "tensors": ..., "shape": [...]}`, an answer `{"seconds": ..., "resident": ...}`, the latter in
bytes. What is timed is what a user of the framework calls (`stall`: until a save that goes on beside lets the caller go
on; `slower`: that, and how much longer the step behind it takes than others); `save` ends with an fsync, which none of
them does itself. What was loaded is freed outside of the time.
"""

import gc
import importlib
import json
import os
import shutil
import sys
import time


class Lodstone:
    """The Python package, with arrays of a framework."""

    def __init__(self, module):
        import lodstone

        self.version = lodstone.__version__
        self.open_model = lodstone.open
        self.arrays = importlib.import_module(module)

    def open_alone(self, request):
        return self.open_model(request["path"])

    def open(self, request):
        return [(t.name, t.dtype, t.shape) for t in self.open_model(request["path"]).tensors]

    def load(self, request):
        return self.arrays.load_file(request["path"])

    def save(self, loaded, path):
        self.arrays.save_file(loaded, path)


class Safetensors:
    def __init__(self):
        import safetensors
        import safetensors.numpy

        self.version = safetensors.__version__
        self.open_file = safetensors.safe_open
        self.numpy = safetensors.numpy

    def open(self, request):
        with self.open_file(request["path"], "np") as file:
            return list(file.keys())

    def load(self, request):
        return self.numpy.load_file(request["path"])

    def save(self, loaded, path):
        self.numpy.save_file(loaded, path)


class Torch:
    def __init__(self):
        import safetensors.torch
        import torch

        self.version = torch.__version__
        self.torch = torch
        self.read = safetensors.torch.load_file

    def open(self, request):
        return self.torch.load(request["path"], mmap=True)

    def load(self, request):
        # The file that it is to be timed on is made from one of safetensors.
        path = request["path"]
        return self.read(path) if path.endswith(".safetensors") else self.torch.load(path)

    def save(self, loaded, path):
        self.torch.save(loaded, path)

    restore = load


class Checkpointer:
    """Of tensors that are in memory, into a directory; `path` has them as safetensors."""

    def restore(self, request):
        return self.restored(request["out"])

    def restored_before(self, request):
        """A checkpoint to restore, made outside of the time."""
        loaded = self.load(request)
        if not os.path.isdir(request["out"]):
            self.save(loaded, request["out"])


class Dcp(Checkpointer):
    """PyTorch's distributed checkpoints, of one process."""

    def __init__(self):
        import safetensors.torch
        import torch
        import torch.distributed
        import torch.distributed.checkpoint as dcp

        self.version, self.torch, self.dcp = torch.__version__, torch, dcp
        self.read = safetensors.torch.load_file
        # Without a group nothing is saved in the background.
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
        self.like, self.gradients = {}, None

    def load(self, request):
        # It maps the file; what is saved is in memory.
        loaded = {name: tensor.clone() for name, tensor in self.read(request["path"]).items()}
        self.like = {name: (tensor.shape, tensor.dtype) for name, tensor in loaded.items()}
        return loaded

    def save(self, loaded, path):
        self.dcp.save(loaded, checkpoint_id=path)

    def stall(self, loaded, path):
        return self.dcp.async_save(loaded, checkpoint_id=path).result

    def step(self, loaded):
        parameters = list(loaded.values())
        self.gradients = self.gradients or [parameter.clone() for parameter in parameters]
        self.torch._foreach_add_(parameters, self.gradients, alpha=-1e-3)

    def restored(self, path):
        state = {name: self.torch.empty(shape, dtype=dtype) for name, (shape, dtype) in self.like.items()}
        self.dcp.load(state, checkpoint_id=path)
        return state


class Orbax(Checkpointer):
    def __init__(self):
        import jax
        import orbax.checkpoint
        import safetensors.numpy

        self.version, self.put = orbax.checkpoint.__version__, jax.numpy.asarray
        self.wait, self.gradients = jax.block_until_ready, None
        self.moved = jax.jit(lambda tree, by: jax.tree.map(lambda a, b: a - 1e-3 * b, tree, by))
        self.read = safetensors.numpy.load_file
        self.checkpointer = orbax.checkpoint.StandardCheckpointer()

    def load(self, request):
        return {name: self.put(array) for name, array in self.read(request["path"]).items()}

    def save(self, loaded, path):
        self.stall(loaded, path)()

    def stall(self, loaded, path):
        self.checkpointer.save(path, loaded)
        return self.checkpointer.wait_until_finished

    def step(self, loaded):
        self.gradients = self.gradients or dict(loaded)
        loaded.update(self.wait(self.moved(loaded, self.gradients)))

    def restored(self, path):
        return self.checkpointer.restore(path)


class Paddle:
    """Combined parameters, by the operators `load_combine` and `save_combine`."""

    def __init__(self):
        os.environ["GLOG_minloglevel"] = "3"
        import paddle

        paddle.enable_static()
        self.version = paddle.__version__
        self.static = paddle.static
        self.executor = paddle.static.Executor(paddle.CPUPlace())

    def load(self, request):
        program, scope = self.static.Program(), self.static.Scope()
        block = program.global_block()
        for number in range(request["tensors"]):
            block.create_var(
                name=f"layer.{number:05}.weight",
                shape=request["shape"],
                dtype="float32",
                persistable=True,
            )
        directory, name = os.path.split(request["path"])
        with self.static.scope_guard(scope):
            self.static.load_vars(
                self.executor, directory, program, predicate=lambda _: True, filename=name
            )
        return program, scope

    open = restore = load

    def save(self, loaded, path):
        program, scope = loaded
        directory, name = os.path.split(path)
        with self.static.scope_guard(scope):
            self.static.save_vars(
                self.executor, directory, program, predicate=lambda _: True, filename=name
            )


class Mxnet:
    def __init__(self):
        import mxnet

        self.version = mxnet.__version__
        self.nd = mxnet.nd

    def load(self, request):
        loaded = self.nd.load(request["path"])
        self.nd.waitall()
        return loaded

    open = load

    def save(self, loaded, path):
        self.nd.save(path, loaded)


class Onnx:
    def __init__(self):
        import onnx

        self.version = onnx.__version__
        self.onnx = onnx

    def load(self, request):
        return self.onnx.load(request["path"])

    open = load

    def check(self, request):
        self.onnx.checker.check_model(request["path"], full_check=True)

    def save(self, loaded, path):
        # Whatever passes 2 GiB has to be beside the message.
        size = sum(len(tensor.raw_data) for tensor in loaded.graph.initializer)
        self.onnx.save(
            loaded, path, save_as_external_data=size > 1 << 31, location=os.path.basename(path) + ".data"
        )


def written(path):
    """The files of what was saved."""
    if not os.path.isdir(path):
        return [path for path in (path, path + ".data") if os.path.exists(path)]
    return [os.path.join(above, name) for above, _, names in os.walk(path) for name in names]


def timed(work, *arguments):
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


def seconds(peer, request):
    operation = request["operation"]
    saves = operation in ("save", "stall", "slower")
    if isinstance(peer, Checkpointer):
        request["out"] += ".checkpoint"
        if saves:
            shutil.rmtree(request["out"], ignore_errors=True)
        else:
            peer.restored_before(request)
    loaded = peer.load(request) if saves else None
    gc.collect()
    start = time.perf_counter()
    if operation == "save":
        peer.save(loaded, request["out"])
        for path in written(request["out"]):
            file = os.open(path, os.O_RDONLY)
            os.fsync(file)
            os.close(file)
    elif operation == "slower":
        alone = sorted(timed(peer.step, loaded) for _ in range(5))[2]
        start = time.perf_counter()
        finish = peer.stall(loaded, request["out"])
        peer.step(loaded)
        beside = time.perf_counter() - start
        finish()
        peer.gradients = None
        return max(beside - alone, 0.0)
    elif operation == "stall":
        finish = peer.stall(loaded, request["out"])
        stalled = time.perf_counter() - start
        finish()
        return stalled
    else:
        loaded = getattr(peer, operation)(request)
    return time.perf_counter() - start


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main():
    answers = os.fdopen(os.dup(1), "w")
    # Frameworks print what they like; answers alone go to whoever asked.
    os.dup2(2, 1)
    peers = {
        "safetensors": Safetensors,
        "torch": Torch,
        "torch.dcp": Dcp,
        "orbax": Orbax,
        "paddle": Paddle,
        "mxnet": Mxnet,
        "onnx": Onnx,
    }
    name = sys.argv[1]
    peer = Lodstone(name) if name.startswith("lodstone.") else peers[name]()
    print(json.dumps({"version": peer.version}), file=answers, flush=True)
    for line in sys.stdin:
        answer = {"seconds": seconds(peer, json.loads(line))}
        gc.collect()
        answer["resident"] = resident()
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
