"""Checkpoints of arrays."""

import subprocess
import sys

import numpy as np
import pytest

import lodstone
import lodstone.numpy
from lodstone import checkpoint


def arrays(seed):
    random = np.random.default_rng(seed)
    return {"w": random.standard_normal((7, 3), np.float32), "b": random.integers(0, 9, 5)}


@pytest.mark.parametrize("container", ["combined", "each", "sized", "safetensors"])
def test_saved_arrays_are_loaded_unchanged(tmp_path, container):
    with checkpoint.Manager(tmp_path / "run", container=container) as manager:
        saved = manager.save(3, arrays(1), metadata={"epoch": 1, "rates": [0.1, 0.2]})
    assert (saved["step"], saved["removed"], saved["warnings"]) == (3, [], [])
    model = checkpoint.load(tmp_path / "run")
    assert list(model) == ["b", "w"]
    for name, wanted in arrays(1).items():
        found = lodstone.numpy.array(model[name])
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    manifest = checkpoint.manifest(tmp_path / "run", 3)
    assert manifest["metadata"] == {"epoch": 1, "rates": [0.1, 0.2]}
    assert manifest["container"] == container
    assert checkpoint.verify(tmp_path / "run") == []


def test_a_background_save_ignores_later_writes(tmp_path):
    state = arrays(2)
    with checkpoint.Manager(tmp_path, keep=2) as manager:
        for step in range(1, 5):
            state["w"] += 1
            before = manager.save(step, state, background=True)
            assert before is None if step == 1 else before["step"] == step - 1
            state["w"][:] = step
        assert manager.wait()["step"] == 4
        assert manager.wait() is None
    assert checkpoint.steps(tmp_path) == [3, 4]
    np.testing.assert_array_equal(lodstone.numpy.array(checkpoint.load(tmp_path)["w"]), np.full((7, 3), 4.0))


def test_damage_is_found(tmp_path):
    with checkpoint.Manager(tmp_path) as manager:
        path = manager.save(1, arrays(3))["path"]
    file = tmp_path / path / "params"
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    (finding,) = checkpoint.verify(tmp_path)
    assert "tensor `w`" in finding
    with pytest.raises(lodstone.DamagedError, match="tensor `w`"):
        lodstone.numpy.array(checkpoint.load(tmp_path)["w"]).sum()


def test_a_manager_has_an_exclusive_lock_until_it_is_closed(tmp_path):
    code = "import lodstone.checkpoint, sys; lodstone.checkpoint.Manager(sys.argv[1])"
    with checkpoint.Manager(tmp_path) as manager:
        other = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True)
        assert other.returncode == 1 and "another writer has locked it" in other.stderr
        manager.save(1, arrays(1))
        manager.save(2, arrays(2))
        assert manager.rewind(1) == [2]
        assert manager.prune(1) == []
    with pytest.raises(ValueError, match="closed"):
        manager.save(3, arrays(3))
    with pytest.raises(lodstone.NoModelError):
        checkpoint.load(tmp_path, 2)
    with pytest.raises(ValueError, match="container"):
        checkpoint.Manager(tmp_path, container="zip")


def test_the_latest_step_of_a_resumable_script(tmp_path):
    directory = tmp_path / "run"
    assert checkpoint.latest(directory) is None
    with checkpoint.Manager(directory) as manager:
        assert checkpoint.latest(directory) is None
        for step in (3, 12):
            manager.save(step, {"w": np.full(2, step)})
    assert checkpoint.latest(directory) == 12
