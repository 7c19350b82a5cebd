"""Converts a directory of mixed models with `examples/ray_convert.py`, on two workers of a local Ray."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import lodstone

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "crates/formats/tests/golden"

# Models of several kinds: files and directories, by their path in the test.
MODELS = {
    "paddle/digits": ROOT / "examples/digits/paddle",
    "arrays.npz": ROOT / "examples/digits/test.npz",
    "torch/checkpoint.pt": GOLDEN / "torch/state.pt",
    "torch/sharded": GOLDEN / "torch_sharded/dtensor",
    "paddle/sharded": GOLDEN / "paddle_sharded/3.3.1/auto",
    "mxnet/names.params": GOLDEN / "mxnet/1.9.1/names.params",
}


def convert(models, out):
    command = [sys.executable, "-B", str(ROOT / "examples/ray_convert.py"), str(models), str(out), "--workers", "2"]
    allow = ["--allow", "program", "--allow", "metadata"]
    environment = {**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    done = subprocess.run([*command, *allow], capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout + done.stderr


def main():
    with tempfile.TemporaryDirectory() as temporary:
        models, out = Path(temporary, "models"), Path(temporary, "out")
        for name, source in MODELS.items():
            target = models / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
        (models / "notes.txt").write_text("not a model")
        damaged = bytearray((models / "arrays.npz").read_bytes())
        (models / "torch/damaged.pt").write_bytes(bytes(damaged[: len(damaged) // 2]))
        code, text = convert(models, out)
        assert code == 1, text
        assert f"{len(MODELS)} converted, 0 present, 1 failed" in text, text
        assert "torch/damaged.pt" in text.split("failed ")[-1], text
        for name in MODELS:
            found = lodstone.open(out / f"{name}.safetensors")
            difference = lodstone.diff(models / name, found)
            assert found.keys() and difference["equal"] == len(found), (name, difference)
        times = {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}
        code, text = convert(models, out)
        assert code == 1 and f"0 converted, {len(MODELS)} present, 1 failed" in text, text
        assert times == {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}
    print(f"{len(MODELS)} models on two workers of Ray, twice")


if __name__ == "__main__":
    main()
