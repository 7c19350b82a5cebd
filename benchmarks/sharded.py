"""Saves and loads a checkpoint of 1 GiB on two processes, with Lodstone and PyTorch's own storage.

    python sharded.py WORK_DIR TABLE [TURNS]

Prints a table, and appends it to a file: median times, and medians of the ratios of each turn. The order
rotates each turn; every save ends with its files on disk, and loads read cached files. With the default of twelve turns, each
storage is the first equally often.
"""

import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import lodstone
from lodstone.torch.dcp import StorageReader, StorageWriter

PROCESSES, LAYERS, WIDTH = 2, 64, 2048

PAUSE = 2
"""Seconds to wait for a disk to discard the blocks of removed files."""


def state(mesh, seed=0):
    torch.manual_seed(seed)
    layers = {f"layers.{number}": torch.randn(WIDTH, WIDTH) for number in range(LAYERS)}
    return {name: distribute_tensor(layer, mesh, [Shard(0)]) for name, layer in layers.items()}


def synced(path):
    """Makes the files of a directory durable, for writers that do not."""
    for file in [*Path(path).iterdir(), Path(path)]:
        handle = os.open(file, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def removed(*paths):
    """Removes directories, and pauses for the discard of their blocks."""
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
    os.sync()
    time.sleep(PAUSE)
    os.sync()


def rotated(names, turn):
    """Returns names, beginning with another in each turn."""
    first = turn % len(names)
    return names[first:] + names[:first]


def size_of(path):
    return sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())


class Bench:
    def __init__(self, rank, work, turns):
        self.rank, self.work, self.turns = rank, Path(work), turns
        self.mesh = init_device_mesh("cpu", (PROCESSES,))
        self.times = {}

    def timed(self, name, work):
        dist.barrier()
        start = time.perf_counter()
        result = work()
        stopped = time.perf_counter()
        dist.barrier()
        self.times.setdefault(name, []).append((stopped if "stall" in name else time.perf_counter()) - start)
        return result

    def clear(self, *names):
        dist.barrier()
        if self.rank == 0:
            removed(*(self.work / name for name in names))
        dist.barrier()

    def path(self, name):
        return str(self.work / name)

    def save_huggingface(self, values):
        writer = dcp.HuggingFaceStorageWriter(self.path("hf"), save_distributed=True)
        dcp.save(values, storage_writer=writer)
        if self.rank == 0:
            synced(self.path("hf"))

    def run(self):
        values, empty = state(self.mesh), state(self.mesh, 1)
        for turn in range(self.turns):
            self.clear("dcp", "hf", "own", "run")
            self.each("save", turn, self.saves(values))
            self.each("load", turn, self.loads(values, empty))
            self.conversion(turn)
            self.clear("dcp", "hf", "own")
            self.stalls(turn, values)
            self.clear("dcp", "own")
            self.chunks(values)
        return self.times

    def each(self, what, turn, work):
        """Times the work of each storage."""
        for name in rotated(list(work), turn):
            self.timed(f"{what} {name}", work[name])

    def saves(self, values):
        return {
            "dcp": lambda: dcp.save(values, storage_writer=dcp.FileSystemWriter(self.path("dcp"))),
            "hf": lambda: self.save_huggingface(values),
            "own": lambda: dcp.save(values, storage_writer=StorageWriter(self.path("own"))),
        }

    def loads(self, values, empty):
        return {
            "copy": lambda: [empty[name].to_local().copy_(value.to_local()) for name, value in values.items()],
            "dcp": lambda: dcp.load(empty, storage_reader=dcp.FileSystemReader(self.path("dcp"))),
            "hf": lambda: dcp.load(empty, storage_reader=dcp.HuggingFaceStorageReader(self.path("hf"))),
            "own": lambda: dcp.load(empty, storage_reader=StorageReader(self.path("own"), verify=True)),
        }

    def stalls(self, turn, values):
        writers = {"dcp": dcp.FileSystemWriter, "own": StorageWriter}
        for name in rotated(list(writers), turn):
            writer = writers[name](self.path(name))
            self.clear(name)
            future = self.timed(f"stall {name}", lambda writer=writer: dcp.async_save(values, storage_writer=writer))
            future.result()

    def chunks(self, values):
        """A second checkpoint, of which nine tenths are as in the first."""
        self.clear("run")
        first, second = (StorageWriter(self.path(f"run/step-{step}"), dedup="content") for step in (1, 2))
        if self.rank == 0:
            (self.work / "run").mkdir()
        self.timed("save first", lambda: dcp.save(values, storage_writer=first))
        before = size_of(self.work / "run")
        changed = dict(values)
        for name in list(values)[: LAYERS // 10]:
            changed[name] = values[name] + 1
        self.timed("save second", lambda: dcp.save(changed, storage_writer=second))
        self.times.setdefault("bytes", []).append((size_of(self.work / "run") - before) / before)

    def conversion(self, turn):
        source, out = self.work / "dcp", self.work / "out"
        if self.rank == 0:
            files = sorted(str(file) for file in source.glob("*.distcp"))
            for name in rotated(["convert", "cp"], turn):
                removed(out)
                out.mkdir()
                start = time.perf_counter()
                if name == "cp":
                    subprocess.run(["cp", *files, out], check=True)
                    synced(out)
                else:
                    lodstone.convert(source, out / "model.safetensors")
                self.times.setdefault(name, []).append(time.perf_counter() - start)
            shutil.rmtree(out)
        dist.barrier()


def table(times):
    def seconds(name):
        return statistics.median(times[name])

    def ratio(own, other):
        return statistics.median(b / a for a, b in zip(times[own], times[other], strict=True))

    lines = ["| 1 GiB, 2 processes | Lodstone, s | other | s | times faster |", "|---|--:|---|--:|--:|"]
    for what, own, other, peer in (
        ("save, durable", "save own", "`FileSystemWriter`", "save dcp"),
        ("save, durable", "save own", "`HuggingFaceStorageWriter`", "save hf"),
        ("`async_save` until it returns", "stall own", "`FileSystemWriter`", "stall dcp"),
        ("load, verified", "load own", "`FileSystemReader`, unverified", "load dcp"),
        ("load, verified", "load own", "`HuggingFaceStorageReader`, unverified", "load hf"),
        ("load, verified", "load own", "a copy in memory", "load copy"),
        ("second save, 10 % changed, `dedup`", "save second", "the first", "save first"),
        ("second save, 10 % changed, `dedup`", "save second", "`FileSystemWriter`", "save dcp"),
        ("`.distcp` to safetensors, durable", "convert", "`cp` and `fsync`", "cp"),
    ):
        lines.append(f"| {what} | {seconds(own):.3f} | {other} | {seconds(peer):.3f} | {ratio(own, peer):.2f} |")
    lines += ["", f"The second save with `dedup` adds {100 * statistics.median(times['bytes']):.1f} % of the bytes of the first."]
    return "\n".join(lines) + "\n"


def process(rank, port, work, out, turns):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=int(rank), world_size=PROCESSES)
    times = Bench(int(rank), work, int(turns)).run()
    dist.barrier()
    if rank == "0":
        text = table(times)
        print(text)
        with open(out, "a") as file:
            file.write(text)
    dist.destroy_process_group()


def main(work, out, turns="12"):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shutil.rmtree(work, ignore_errors=True)
    Path(work).mkdir(parents=True)
    command = [sys.executable, "-B", __file__, "--process"]
    running = [subprocess.Popen([*command, str(rank), port, work, out, turns]) for rank in range(PROCESSES)]
    failed = [child.wait() for child in running]
    shutil.rmtree(work)
    sys.exit(max(failed))


if __name__ == "__main__":
    if sys.argv[1] == "--process":
        process(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
