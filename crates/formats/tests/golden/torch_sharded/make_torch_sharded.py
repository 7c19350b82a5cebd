"""Writes checkpoints of several processes, and the whole tensors that they were made of: torch==2.15.0 safetensors==0.8.0.

    python make_torch_sharded.py

Each case is a directory that four processes (gloo, CPU) wrote with `torch.distributed.checkpoint`.
"""

import hashlib
import json
import os
import shutil
import socket
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.filesystem import FileSystemWriter, SerializationFormat
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = 4
FORMAT = "torch-distributed"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def fact(name, tensor):
    tensor = tensor.detach().contiguous()
    data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return {"name": name, "kind": "dense", "dtype": dtype, "shape": list(tensor.shape), "nbytes": len(data),
            "sha256": sha256(data)}


def whole(path, value):
    """Returns the tensors of a state dict, by path; every process must call it."""
    at = lambda key: f"{path}.{key}" if path else str(key)
    if isinstance(value, torch.Tensor):
        value = value.full_tensor() if isinstance(value, DTensor) else value
        return [fact(path, value)]
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in whole(at(key), inner)]
    if isinstance(value, (list, tuple)):
        return [found for number, inner in enumerate(value) for found in whole(at(number), inner)]
    return []


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(6, 10)
        self.down = torch.nn.Linear(10, 3)

    def forward(self, x):
        return self.down(self.up(x).relu())


def tensors():
    """Tensors of two mesh dims: even and uneven, split along either axis, both, and one axis twice."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    count = lambda *shape: torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
    place = lambda tensor, *placements: distribute_tensor(tensor, mesh, placements)
    return {
        "rows": place(count(8, 3), Shard(0), Replicate()),
        "columns": place(count(3, 8), Replicate(), Shard(1)),
        "grid": place(count(4, 6), Shard(0), Shard(1)),
        "turned": place(count(4, 6), Shard(1), Shard(0)),
        "uneven": place(count(5, 7), Shard(0), Shard(1)),
        "deep": place(count(3, 4, 5), Shard(1), Shard(2)),
        "twice": place(count(9, 2), Shard(0), Shard(0)),
        "few": place(count(3), Shard(0), Shard(0)),
        "empty": place(count(0, 4), Shard(0), Replicate()),
        "half": place(count(4, 4).bfloat16(), Shard(0), Shard(1)),
        "ids": place(torch.arange(6).reshape(2, 3), Shard(0), Replicate()),
        "replicated": place(count(2, 2), Replicate(), Replicate()),
        "plain": count(2, 5),
        "scalar": torch.tensor(3.5),
    }


def trained(model, mesh):
    """Returns the state of a model and its optimizer after one step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(7)
    model(torch.randn(4, 6)).sum().backward()
    optimizer.step()
    weights, states = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": states, "epoch": 7}


def fsdp():
    mesh = init_device_mesh("cpu", (RANKS,))
    torch.manual_seed(3)
    model = Net()
    for layer in [model.up, model.down, model]:
        fully_shard(layer, mesh=mesh)
    return trained(model, mesh)


def fsdp_tp():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(4)
    model = parallelize_module(Net(), mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    return trained(model, mesh)


def cases(record):
    def save(name, state, writer, expected=None, path=None, **options):
        directory = os.path.join(HERE, name)
        if dist.get_rank() == 0:
            shutil.rmtree(directory, ignore_errors=True)
        dist.barrier()
        dcp.save(state, storage_writer=writer(directory), **options)
        dist.barrier()
        record(name, path or name, whole("", expected or state))

    sharded = tensors()
    save("dtensor", {**sharded, "epoch": 3, "names": ["a", "b"]}, FileSystemWriter)
    few = {name: sharded[name] for name in ["grid", "uneven", "scalar"]}
    save("dtensor-files", few, lambda path: FileSystemWriter(path, single_file_per_rank=False))
    save("dtensor-safetensors", sharded, lambda path: FileSystemWriter(path, serialization_format=SAFETENSORS))
    save("mixed-safetensors", {"grid": sharded["grid"], "epoch": 3},
         lambda path: FileSystemWriter(path, serialization_format=SAFETENSORS))
    save("fsdp", fsdp(), FileSystemWriter)
    save("fsdp-tp", fsdp_tp(), FileSystemWriter)
    # Without collectives, each process writes its own metadata, and deduplicates nothing.
    own = {f"rank{dist.get_rank()}": torch.full((2, 3), float(dist.get_rank()))}
    gathered = [None] * RANKS
    dist.all_gather_object(gathered, own)
    save("local", own, FileSystemWriter, {key: value for part in gathered for key, value in part.items()},
         use_collectives=False)
    files = {name: 1 + number % 2 for number, name in enumerate(sharded)}
    save("huggingface", sharded, lambda path: HuggingFaceStorageWriter(path, save_distributed=True))
    save("huggingface-files", sharded,
         lambda path: HuggingFaceStorageWriter(path, save_distributed=True, fqn_to_index_mapping=files))
    # PyTorch's consolidation fails for integers, and writes zero for scalars.
    floats = {name: tensor for name, tensor in sharded.items() if tensor.is_floating_point() and tensor.ndim}
    files = {name: 1 + number % 2 for number, name in enumerate(floats)}
    save("huggingface-whole", floats,
         lambda path: HuggingFaceStorageWriter(path, save_distributed=True, enable_consolidation=True,
                                               fqn_to_index_mapping=files))


SAFETENSORS = SerializationFormat.SAFETENSORS


def process(rank, port, out):
    warnings.simplefilter("ignore")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(RANKS))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = []
    cases(lambda name, path, tensors: found.append((name, path, tensors)))
    if rank == 0:
        with open(out, "w") as file:
            json.dump(found, file)
    dist.destroy_process_group()


def main():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as temporary:
        out = os.path.join(temporary, "cases.json")
        mp.spawn(process, (port, out), nprocs=RANKS)
        with open(out) as file:
            found = json.load(file)
    index = []
    for name, path, tensors in found:
        files = {}
        for folder, _, names in os.walk(os.path.join(HERE, name)):
            for file in names:
                full = os.path.join(folder, file)
                assert os.path.getsize(full) < 100_000, full
                with open(full, "rb") as data:
                    files[os.path.relpath(full, HERE)] = sha256(data.read())
        format = "safetensors" if name == "huggingface-whole" else FORMAT
        index.append({"path": path, "format": format, "made_by": "make_torch_sharded.py", "with": "torch==2.15.0",
                      "files": dict(sorted(files.items())), "tensors": tensors})
    with open(os.path.join(HERE, "index.json"), "w") as out:
        out.write('{"schema": 1, "cases": [\n')
        out.write(",\n".join(" " + json.dumps(case) for case in index))
        out.write("\n]}\n")


if __name__ == "__main__":
    main()
