"""Saves and loads checkpoints of several processes with `lodstone.torch.dcp`, kills processes, and damages files.

    python torch_checkpoints.py

Processes use gloo on one machine. Every loaded tensor must equal the saved one bit by bit. For PyTorch 2.6 and later; checks of
features that a release lacks are listed.
"""

import functools
import importlib.util
import inspect
import json
import logging
import os
import pickle
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
# PyTorch logs the failures that are tested.
logging.disable(logging.WARNING)
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import state_dict_saver
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import lodstone
from lodstone.torch import array
from lodstone.torch.dcp import StorageReader, StorageWriter

LAYOUTS = {
    "rows": (Shard(0), Replicate()),
    "columns": (Replicate(), Shard(1)),
    "grid": (Shard(0), Shard(1)),
    "turned": (Shard(1), Shard(0)),
    "twice": (Shard(0), Shard(0)),
    "whole": (Replicate(), Replicate()),
}


def plain():
    """The tensors of the test, whole."""
    generator = torch.Generator().manual_seed(1)
    found = {name: torch.randn(9, 14, generator=generator) for name in LAYOUTS}
    found["deep"] = torch.randn(4, 6, 5, generator=generator)
    found["half"] = torch.randn(6, 8, generator=generator).bfloat16()
    found["ids"] = torch.arange(24).reshape(4, 6)
    found["large"] = torch.randn(1500, 4000, generator=generator)
    return found


def mesh_of(shape):
    return init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp")[-len(shape):])


def sharded(mesh, turn=0):
    """The tensors of the test on a mesh; `turn` selects another layout of each."""
    names = list(LAYOUTS)
    state = {}
    for number, (name, tensor) in enumerate(plain().items()):
        placements = LAYOUTS[names[(number + turn) % len(names)]][-mesh.ndim:]
        state[name] = distribute_tensor(tensor, mesh, placements)
    state["alone"] = torch.arange(5.0) / 3
    state["scalar"] = torch.tensor(2.5)
    return {"tensors": state, "step": 3, "names": ["a", "b"]}


def emptied(state):
    """The same state with other values, as before a load."""
    if isinstance(state, torch.Tensor):
        with torch.no_grad():
            return state.zero_()
    return {key: emptied(value) for key, value in state.items()} if isinstance(state, dict) else type(state)()


def check_equal(state):
    expected = {**plain(), "alone": torch.arange(5.0) / 3, "scalar": torch.tensor(2.5)}
    for name, value in state["tensors"].items():
        whole = value.full_tensor() if isinstance(value, DTensor) else value
        assert torch.equal(whole, expected[name]), name
    assert state["step"] == 3 and state["names"] == ["a", "b"], state


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.layers = torch.nn.Sequential(torch.nn.Linear(12, 31), torch.nn.ReLU(), torch.nn.Linear(31, 6))

    def forward(self, x):
        return self.layers(x)


def trained():
    """A model of FSDP2 and its optimizer."""
    from torch.distributed.fsdp import fully_shard

    model = Net()
    for layer in [*model.layers, model]:
        if any(True for _ in layer.parameters()):
            fully_shard(layer, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def step(model, optimizer, seed):
    torch.manual_seed(seed)
    if FEATURES["gradients of FSDP2 in CPU memory"]:
        loss = model(torch.randn(8, 12)).square().mean()
        loss.backward()
    else:
        loss = torch.zeros(())
        for weight in model.parameters():
            gradient = torch.randn(weight.shape)
            weight.grad = distribute_tensor(gradient, weight.device_mesh, weight.placements)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def whole(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


# The parts of the test, each run by some processes.


def save(root, shape, dedup=None):
    dcp.save(sharded(mesh_of(json.loads(shape))), storage_writer=StorageWriter(f"{root}/step-1", dedup=dedup))


def load(root, shape, turn):
    state = emptied(sharded(mesh_of(json.loads(shape)), int(turn)))
    dcp.load(state, storage_reader=StorageReader(f"{root}/step-1", verify=True))
    check_equal(state)


def load_divided(path):
    """Loads a checkpoint that was divided again, by PyTorch's reader and by ours."""
    for reader in (dcp.FileSystemReader(path), StorageReader(path, verify=True)):
        state = emptied(sharded(mesh_of([2, 1]), 2))
        dcp.load(state, storage_reader=reader)
        check_equal(state)


def save_fsdp(root):
    model, optimizer = trained()
    for seed in range(3):
        step(model, optimizer, seed)
    weights, states = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": states}, checkpoint_id=f"{root}/fsdp", storage_writer=StorageWriter())
    losses = [step(model, optimizer, seed) for seed in range(3, 6)]
    values = {name: whole(value) for name, value in model.state_dict().items()}
    if dist.get_rank() == 0:
        torch.save([losses, values], f"{root}/fsdp.pt")


def load_fsdp(root, exactly):
    model, optimizer = trained()
    step(model, optimizer, 77)
    weights, states = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": states}
    dcp.load(state, storage_reader=StorageReader(f"{root}/fsdp", verify=True))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    losses = [step(model, optimizer, seed) for seed in range(3, 6)]
    expected, values = torch.load(f"{root}/fsdp.pt")
    for name, value in model.state_dict().items():
        # Another number of processes sums gradients in another order.
        tolerance = {"rtol": 0, "atol": 0} if exactly == "1" else {"rtol": 1e-5, "atol": 1e-6}
        torch.testing.assert_close(whole(value), values[name], **tolerance)
    assert exactly != "1" or losses == expected, (losses, expected)


def completed(saved):
    """Waits for an asynchronous save."""
    getattr(saved, "upload_completion", saved).result()


def asynchronous(root, kind=None):
    """Tensors change after `async_save` returns. The writer is used again."""
    writer, options = StorageWriter(), {}
    if kind:
        options["async_checkpointer_type"] = state_dict_saver.AsyncCheckpointerType(kind)
    for number in range(2):
        state, path = sharded(mesh_of([2])), f"{root}/async-{kind}-{number}"
        saved = dcp.async_save(state, checkpoint_id=path, storage_writer=writer, **options)
        emptied(state)
        completed(saved)
        found = emptied(state)
        dcp.load(found, storage_reader=StorageReader(path, verify=True))
        check_equal(found)


def overlapping(root):
    """A writer does not begin a save while it saves in the background, nor changes the staged copies."""
    began, proceed = threading.Event(), threading.Event()

    class Planner(dcp.DefaultSavePlanner):
        def resolve_data(self, item):
            began.set()
            proceed.wait()
            return super().resolve_data(item)

    # Memory is pinned with a GPU only.
    torch.Tensor.pin_memory = lambda tensor, *_: tensor
    for cache in (False, True):
        writer = StorageWriter(cache_staged_state_dict=cache)
        path = f"{root}/overlapping-{cache}"
        saved = dcp.async_save(
            {"w": torch.ones(300)}, checkpoint_id=path, storage_writer=writer, planner=Planner()
        )
        began.wait()
        try:
            completed(dcp.async_save({"w": torch.zeros(300)}, checkpoint_id=f"{path}-again", storage_writer=writer))
        except RuntimeError as error:
            assert "a save of this writer is in progress" in str(error), error
        else:
            raise AssertionError("two saves of a writer overlapped")
        proceed.set()
        completed(saved)
        completed(dcp.async_save({"w": torch.full((300,), 2.0)}, checkpoint_id=f"{path}-later", storage_writer=writer))
        for suffix, value in (("", 1.0), ("-later", 2.0)):
            found = {"w": torch.zeros(300)}
            dcp.load(found, storage_reader=StorageReader(path + suffix, verify=True))
            assert (found["w"] == value).all(), (cache, suffix)
        assert not os.path.exists(f"{path}-again")
        began.clear(), proceed.clear()


def without_collectives(root):
    """Refused: each process would have to publish."""
    path = f"{root}/without-collectives"
    try:
        dcp.save({"w": torch.ones(3)}, storage_writer=StorageWriter(path), use_collectives=False)
    except ValueError as error:
        assert "use_collectives=False is not supported" in str(error), error
    else:
        raise AssertionError("use_collectives=False was accepted")
    # Such a checkpoint of PyTorch is loaded.
    dcp.save({"w": torch.arange(3.0)}, storage_writer=dcp.FileSystemWriter(path), use_collectives=False)
    found = {"w": torch.zeros(3)}
    dcp.load(found, storage_reader=StorageReader(path))
    assert torch.equal(found["w"], torch.arange(3.0))


def cached(root):
    """A planner that caches plans: the second save reuses those of the first."""
    for number in range(3):
        state = sharded(mesh_of([2, 2]))
        with torch.no_grad():
            state["tensors"]["alone"] += number
        planner = dcp.DefaultSavePlanner(enable_plan_caching=True)
        dcp.save(state, storage_writer=StorageWriter(f"{root}/cached-{number}"), planner=planner)
        found = emptied(sharded(mesh_of([2, 2])))
        dcp.load(found, storage_reader=StorageReader(f"{root}/cached-{number}", verify=True))
        assert torch.equal(found["tensors"]["alone"], torch.arange(5.0) / 3 + number)
        found["tensors"]["alone"].copy_(torch.arange(5.0) / 3)
        check_equal(found)


def existing(root):
    """An existing checkpoint is an error on every process, and is not changed."""
    try:
        dcp.save(sharded(mesh_of([2, 2])), storage_writer=StorageWriter(f"{root}/step-1"))
    except dcp.CheckpointException as error:
        assert "exists" in str(error), error
        return
    raise AssertionError("an existing checkpoint was replaced")


def kill(root, victim, point, dedup=None):
    """Saves a second checkpoint, in which a process is killed at a point."""
    if dist.get_rank() == int(victim):
        deadly(StorageWriter, point)
    dcp.save(sharded(mesh_of([2, 2])), storage_writer=StorageWriter(f"{root}/step-2", dedup=dedup))


def kill_after(root, seconds):
    """Saves a second checkpoint, and is killed some seconds after it began, wherever it is. Records how long a save takes."""
    state, begun = sharded(mesh_of([1])), time.monotonic()
    timer = threading.Timer(float(seconds), dead)
    timer.start()
    dcp.save(state, storage_writer=StorageWriter(f"{root}/step-2"))
    Path(f"{root}/seconds").write_text(str(time.monotonic() - begun))
    timer.cancel()


def deadly(kind, point):
    """Lets a method of the writer kill its process, before or after it runs."""
    when, name = point.split(":")
    if name in ("load", "publish"):
        import lodstone.torch.dcp as module

        if name == "load":
            real = module._tensor
            module._tensor = lambda *given: dead() if given[0].endswith("large") else real(*given)
            return
        real = module.ShardPublication

        class Publication:
            def __init__(self, *given):
                self.real = real(*given)
                self.staged, self.discard = self.real.staged, self.real.discard

            def publish(self, *given):
                if when == "before":
                    dead()
                self.real.publish(*given)
                dead()

        module.ShardPublication = Publication
        return
    real = getattr(kind, name)

    @functools.wraps(real)
    def method(*given, **named):
        if when == "before":
            dead()
        found = real(*given, **named)
        dead()
        return found

    setattr(kind, name, method)


def dead():
    Path(os.environ["LODSTONE_DEAD"]).touch()
    os.kill(os.getpid(), signal.SIGKILL)


PARTS = {
    part.__name__: part
    for part in [
        save, load, load_divided, save_fsdp, load_fsdp, asynchronous, overlapping, without_collectives, cached, existing,
        kill, kill_after,
    ]
}


def process(rank, count, port, part, *given):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=rank, WORLD_SIZE=count)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    PARTS[part](*given)
    # Threads of gloo free the tensors of the last operation first: with PyTorch 2.6, they and the next line can wait for each other.
    time.sleep(0.2)
    dist.destroy_process_group()


# The number of kills at random times.
TIMED = 10

# Of a part of the test, which takes some seconds.
MAX_SECONDS = 300


def run(count, part, *given, dies=False):
    """Runs a part in some processes; returns whether all succeeded."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-B", __file__, "--process"]
    ranks = range(count)
    begin = lambda rank: subprocess.Popen(
        [*command, str(rank), str(count), str(port), part, *map(str, given)],
        stderr=subprocess.DEVNULL if dies else None,
    )
    processes = [begin(rank) for rank in ranks]
    end = time.monotonic() + MAX_SECONDS
    while any(process.poll() is None for process in processes):
        if any(process.poll() not in (None, 0) for process in processes):
            # The others may wait for one that failed.
            end = min(end, time.monotonic() + 5)
        if time.monotonic() > end:
            [process.kill() for process in processes]
        time.sleep(0.02)
    codes = [process.returncode for process in processes]
    assert dies or codes == [0] * count, f"{part} {given}: {codes}"
    return codes


def leftovers(root):
    return [entry for entry in os.listdir(root) if entry.endswith(".lodstone")]


def reads_as_one_model(root):
    model = lodstone.open(f"{root}/step-1")
    expected = plain()
    for name, tensor in expected.items():
        assert torch.equal(array(model[f"tensors.{name}"]), tensor), name


def hugging_face(root):
    """PyTorch's reader for files of Hugging Face reads the tensors."""
    expected = plain()
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

    state = {f"tensors.{name}": torch.zeros_like(tensor) for name, tensor in expected.items()}
    dcp.load(state, storage_reader=HuggingFaceStorageReader(f"{root}/step-1"))
    for name, tensor in expected.items():
        assert torch.equal(state[f"tensors.{name}"], tensor), name


def header(data):
    """Returns the size of the header of a file of safetensors."""
    return 8 + int.from_bytes(data[:8], "little")


def damaged(root):
    """Flips bits of each file. The error names the file, and for elements the tensor."""
    chosen, count = random.Random(2), 0
    for file in sorted(os.listdir(f"{root}/step-1")):
        path = Path(f"{root}/step-1/{file}")
        whole = path.read_bytes()
        for place in sorted({0, 9, len(whole) // 2, len(whole) - 1, *(chosen.randrange(len(whole)) for _ in range(4))}):
            broken = bytearray(whole)
            broken[place] ^= 1 << chosen.randrange(8)
            path.write_bytes(broken)
            for verify in (True, None):
                state = {"tensors": {**plain(), "alone": torch.zeros(5), "scalar": torch.zeros(())}, "step": 0, "names": []}
                try:
                    dcp.load(state, storage_reader=StorageReader(f"{root}/step-1", verify=verify))
                    refused = None
                except (Exception, dcp.CheckpointException) as error:
                    refused = str(error)
                if refused is None:
                    # Headers are not read by a load: `verify` reads everything.
                    found = lodstone.verify(f"{root}/step-1")
                    is_header = file.endswith(".safetensors") and place < header(whole)
                    assert is_header and not found["whole"] and file in str(found), (file, place, found)
                else:
                    assert file in refused, (file, place, refused)
                    named = "tensor `" in refused or not file.endswith(".safetensors")
                    assert named, (file, place, refused)
            count += 1
        path.write_bytes(whole)
    return count


def command(*given):
    run = subprocess.run([sys.executable, "-m", "lodstone", *given], capture_output=True, text=True)
    assert run.returncode == 0, run
    return run.stdout


def divided(root):
    """The command divides a checkpoint for other numbers of processes, by way of other formats."""
    source = f"{root}/step-1"
    for number, (to, shards) in enumerate([
        ("torch-distributed", 3), ("paddle-distributed", 2), ("safetensors", 2), ("torch-distributed", 5),
    ]):
        path = f"{root}/divided-{number}"
        command("checkpoint", "reshard", source, path, "--shards", str(shards), "--to", to, "--allow", "metadata")
        if number == 0:
            run(2, "load_divided", path)
        source = path
    model = lodstone.open(source)
    for name, tensor in plain().items():
        assert torch.equal(array(model[f"tensors.{name}"]), tensor), name


def chunked(root):
    """Checkpoints of equal tensors share their chunks. Damaged chunks are named, and unused ones are pruned."""
    os.mkdir(root)
    stored = lambda: sorted(path for path in Path(root, "chunks").rglob("*") if path.is_file() and len(path.name) == 64)
    run(4, "save", root, "[2, 2]", "content")
    first = stored()
    assert first
    for processes, shape, turn in [(4, "[4]", 1), (2, "[2, 1]", 2), (1, "[1]", 4)]:
        run(processes, "load", root, shape, turn)
    reads_as_one_model(root)
    for victim, point in [(3, "after:write_data"), (0, "before:publish")]:
        marker = Path(root, "dead")
        os.environ["LODSTONE_DEAD"] = str(marker)
        codes = run(4, "kill", root, victim, point, "content", dies=True)
        assert codes[victim] == -signal.SIGKILL and not os.path.exists(f"{root}/step-2"), (victim, point, codes)
        marker.unlink()
    run(4, "kill", root, -1, "never:", "content")
    assert stored() == first, "equal tensors were stored again"
    for path in first:
        whole = path.read_bytes()
        path.write_bytes(bytes([whole[0], *whole[1:-1], whole[-1] ^ 1]))
        found = lodstone.verify(f"{root}/step-1")
        assert not found["whole"] and "rank-" in str(found["findings"]), found
        path.write_bytes(whole)
    shutil.rmtree(f"{root}/step-1")
    assert "nothing" in command("checkpoint", "prune", root)
    shutil.rmtree(f"{root}/step-2")
    assert f"removed {len(first)} chunk" in command("checkpoint", "prune", root)
    assert not stored()


def hostile(root):
    """Metadata that refers to other code is refused without running it."""
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {root}/ran",)

    path = Path(f"{root}/evil")
    path.mkdir()
    for value in (Evil(), [Evil()], 3):
        (path / ".metadata").write_bytes(pickle.dumps(value))
        try:
            dcp.load({"x": torch.zeros(1)}, storage_reader=StorageReader(path))
        except (Exception, dcp.CheckpointException) as error:
            assert "metadata does not need" in str(error) or "expected Metadata" in str(error), error
        else:
            raise AssertionError("hostile metadata was accepted")
    assert not Path(f"{root}/ran").exists()
    try:
        StorageReader(path, verify=True).read_metadata()
    except Exception as error:
        assert "seal" in str(error), error
    else:
        raise AssertionError("a checkpoint without checksums was verified")


# The features that some releases lack, by the check that needs them.
FEATURES = {
    "hugging_face": importlib.util.find_spec("torch.distributed.checkpoint.hf_storage"),
    "asynchronous, in processes": hasattr(state_dict_saver, "AsyncCheckpointerType"),
    "without_collectives": "use_collectives" in inspect.signature(dcp.save).parameters,
    "cached": hasattr(dcp.SavePlan([]), "usable"),
    "gradients of FSDP2 in CPU memory": hasattr(torch.cpu.Stream, "record_event"),
}

POINTS = [
    ("before", "set_up_storage_writer"), ("after", "prepare_local_plan"), ("before", "prepare_global_plan"),
    ("after", "prepare_global_plan"), ("before", "write_data"), ("at", "load"), ("after", "write_data"),
    ("before", "finish"), ("before", "publish"), ("after", "publish"), ("after", "finish"),
]
COORDINATOR = {"prepare_global_plan", "finish", "publish"}


def main():
    count = 0
    with tempfile.TemporaryDirectory() as root:
        run(4, "save", root, "[2, 2]")
        for processes, shape, turn in [(4, "[2, 2]", 0), (4, "[4]", 1), (2, "[2, 1]", 2), (2, "[2]", 3), (1, "[1]", 4)]:
            run(processes, "load", root, shape, turn)
            count += 1
        reads_as_one_model(root)
        run(4, "existing", root)
        run(2, "asynchronous", root)
        run(1, "overlapping", root)
        if FEATURES["hugging_face"]:
            hugging_face(root)
        if FEATURES["asynchronous, in processes"]:
            run(2, "asynchronous", root, "process")
        if FEATURES["without_collectives"]:
            run(2, "without_collectives", root)
        if FEATURES["cached"]:
            run(4, "cached", root)
        run(4, "save_fsdp", root)
        for processes in (4, 2, 1):
            run(processes, "load_fsdp", root, int(processes == 4))
            count += 1
        kills = 0
        for when, name in POINTS:
            for victim in (0, 3):
                if victim and name in COORDINATOR:
                    continue
                marker = Path(root, "dead")
                os.environ["LODSTONE_DEAD"] = str(marker)
                codes = run(4, "kill", root, victim, f"{when}:{name}", dies=True)
                assert codes[victim] == -signal.SIGKILL and marker.exists(), (when, name, codes)
                marker.unlink()
                published = when == "after" and name in ("publish", "finish")
                assert os.path.exists(f"{root}/step-2") == published, (when, name)
                run(2, "load", root, "[2]", 0)
                if published:
                    os.rename(f"{root}/step-2", f"{root}/step-1-again")
                    shutil.rmtree(f"{root}/step-1")
                    os.rename(f"{root}/step-1-again", f"{root}/step-1")
                    run(2, "load", root, "[2]", 0)
                kills += 1
        second = Path(root, "step-2")
        shutil.rmtree(second, ignore_errors=True)
        run(1, "kill_after", root, MAX_SECONDS)
        longest, chosen = float(Path(root, "seconds").read_text()), random.Random(3)
        for _ in range(TIMED):
            shutil.rmtree(second, ignore_errors=True)
            run(1, "kill_after", root, chosen.uniform(0, longest), dies=True)
            assert not second.exists() or lodstone.verify(second)["whole"]
            run(1, "load", root, "[1]", 4)
            kills += 1
        shutil.rmtree(second, ignore_errors=True)
        run(4, "kill", root, -1, "never:")
        assert not leftovers(root), leftovers(root)
        divided(root)
        chunked(f"{root}/chunked")
        flips = damaged(root)
        hostile(root)
    for check, found in FEATURES.items():
        if not found:
            print(f"not applicable to PyTorch {torch.__version__}: {check}")
    print(f"PyTorch {torch.__version__}: {count} loads, {kills} kills and {flips} flipped bits: no difference")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--process"]:
        process(*sys.argv[2:])
    else:
        main()
