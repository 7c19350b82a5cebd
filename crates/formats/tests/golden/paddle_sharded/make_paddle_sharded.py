"""Writes distributed checkpoints of the installed PaddlePaddle (3.0.0 or 3.3.1), and the whole tensors that they hold.

    python make_paddle_sharded.py

Each case is a directory that four processes (gloo, CPU) wrote with `paddle.distributed.save_state_dict`. The cases of the
release are replaced in `index.json`.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.basename(__file__)
RANKS = 4


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def save_all(out):
    """Runs in each process."""
    import numpy as np
    import paddle
    import paddle.distributed as dist

    dist.init_parallel_env()
    rank = dist.get_rank()
    mesh = dist.ProcessMesh([[0, 1], [2, 3]], dim_names=["dp", "mp"])
    release = paddle.__version__
    found = []

    def count(*shape, dtype="float32"):
        return paddle.arange(int(np.prod(shape)), dtype="float32").reshape(shape).astype(dtype)

    def fact(name, tensor):
        dtype = str(tensor.dtype).removeprefix("paddle.")
        array = tensor.numpy()
        if dtype == "bfloat16":
            array = tensor.astype("float32").numpy().view("uint32") >> 16
            array = array.astype("uint16")
        data = array.tobytes()
        return {"name": name, "kind": "dense", "dtype": dtype, "shape": list(tensor.shape), "nbytes": len(data),
                "sha256": sha256(data)}

    wholes = {
        "rows": (count(8, 3), [dist.Shard(0), dist.Replicate()]),
        "columns": (count(3, 8), [dist.Replicate(), dist.Shard(1)]),
        "grid": (count(4, 6), [dist.Shard(0), dist.Shard(1)]),
        "turned": (count(4, 6), [dist.Shard(1), dist.Shard(0)]),
        "deep": (count(3, 4, 6), [dist.Shard(1), dist.Shard(2)]),
        # The CPU kernels of 3.x do not slice bfloat16.
        "half": (count(4, 4, dtype="bfloat16"), [dist.Replicate(), dist.Replicate()]),
        "ids": (count(2, 3, dtype="int64"), [dist.Shard(0), dist.Replicate()]),
        "replicated": (count(2, 2), [dist.Replicate(), dist.Replicate()]),
    }

    def sharded():
        return {name: dist.shard_tensor(tensor, mesh, places) for name, (tensor, places) in wholes.items()}

    def save(name, state, tensors, **options):
        path = os.path.join(HERE, release, name)
        if rank == 0:
            shutil.rmtree(path, ignore_errors=True)
        dist.barrier()
        dist.save_state_dict(state, path, **options)
        dist.barrier()
        found.append([name, tensors])

    def nested(values):
        return {"model": values, "plain": count(2, 5), "scalar": paddle.to_tensor(3.5)}

    facts = [fact("model." + name, tensor) for name, (tensor, _) in wholes.items()]
    facts += [fact("plain", count(2, 5)), fact("scalar", paddle.to_tensor(3.5))]
    save("auto", nested(sharded()), facts)
    if release == "3.3.1":
        save("safetensors", nested(sharded()), facts, safetensors=True)
        save("replicas", nested(sharded()), facts, save_replicas=True)
        from paddle.distributed.flex_checkpoint.dcp.sharded_weight import ShardedWeight

        # As data parallel optimizers hold states: ranges of the elements of a box.
        weight = count(6, 4)
        box = weight[3 * (rank // 2) : 3 * (rank // 2) + 3]
        start, stop = (0, 5) if rank % 2 == 0 else (5, 12)
        part = ShardedWeight("w", box.flatten()[start:stop], (3, 4), (6, 4), (3 * (rank // 2), 0), True, slice(start, stop))
        save("flattened", {"w": part}, [fact("w", weight)])
        # A second checkpoint in one directory: the newer one counts.
        save("two", {"w": dist.shard_tensor(count(4, 2), mesh, [dist.Shard(0), dist.Replicate()])}, [], unique_id=0)
        newer = count(4, 2) + 1
        state = {"w": dist.shard_tensor(newer, mesh, [dist.Shard(1), dist.Replicate()])}
        dist.save_state_dict(state, os.path.join(HERE, release, "two"), unique_id=10)
        dist.barrier()
        found[-1][1] = [fact("w", newer)]
    if rank == 0:
        with open(out, "w") as file:
            json.dump([release, found], file)


def main():
    with tempfile.TemporaryDirectory() as temporary:
        out = os.path.join(temporary, "cases.json")
        command = [sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node", str(RANKS), "--backend", "gloo",
                   "--log_dir", temporary, os.path.join(HERE, SCRIPT), "--process", out]
        subprocess.run(command, check=True, cwd=temporary)
        with open(out) as file:
            release, found = json.load(file)
    path = os.path.join(HERE, "index.json")
    index = []
    if os.path.exists(path):
        with open(path) as file:
            index = [case for case in json.load(file)["cases"] if not case["path"].startswith(release + "/")]
    for name, tensors in found:
        files = {}
        for file in sorted(os.listdir(os.path.join(HERE, release, name))):
            full = os.path.join(HERE, release, name, file)
            assert os.path.getsize(full) < 100_000, full
            with open(full, "rb") as data:
                files[f"{release}/{name}/{file}"] = sha256(data.read())
        index.append({"path": f"{release}/{name}", "format": "paddle-distributed", "made_by": SCRIPT,
                      "with": "paddlepaddle==" + release, "files": files, "tensors": tensors})
    index.sort(key=lambda case: case["path"])
    with open(path, "w") as out:
        out.write('{"schema": 1, "cases": [\n')
        out.write(",\n".join(" " + json.dumps(case) for case in index))
        out.write("\n]}\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--process"]:
        save_all(sys.argv[2])
    else:
        main()
