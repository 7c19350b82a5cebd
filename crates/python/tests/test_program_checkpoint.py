"""Checkpoints of programs, and training."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import ROOT

import lodstone
from lodstone import checkpoint
from lodstone.checkpoint import (
    Manager,
    build_checkpoint_loader,
    get_checkpoint_loader,
    is_parameter,
    is_persistable,
    make_checkpoint,
    restore,
)
from lodstone.program import Executor, Network, Scope, layers, load_program, optimizer, save_program

SCRIPTS = ROOT / "examples/programs"


def script(name, out):
    """Runs a script of the examples; returns what it prints."""
    run = subprocess.run([sys.executable, SCRIPTS / name, out], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_scripts_save_and_resume(tmp_path):
    saved = script("save_checkpoint.py", tmp_path)
    resumed = script("load_checkpoint.py", tmp_path)
    assert saved[-1].startswith("step 100: ") and resumed[0].endswith("variables of step 100")
    assert resumed[1].startswith("step 120: ") and float(resumed[-1].split()[-1]) < 0.5
    # Without the lost steps, another process that saves runs the same steps.
    assert script("save_checkpoint.py", tmp_path / "again") == saved


def test_scripts_save_an_inference_model(tmp_path):
    *_, last = script("inference_model.py", tmp_path)
    right, all_ = re.fullmatch(r"(\d+) of (\d+) held-out images are recognized", last).groups()
    assert int(right) >= 0.95 * int(all_)
    types = {op.type for op in load_program(tmp_path / "program").global_block().ops}
    assert "softmax" in types and not {"adam", "save_combine", "softmax_with_cross_entropy"} & types


def network():
    """A network with random and persistent state: dropout, batch normalization, Adam, a schedule."""
    with Network() as net:
        x, label = layers.data("x", [6]), layers.data("label", [1], dtype="int64")
        hidden = layers.dropout(layers.batch_norm(layers.fc(x, 8, act="relu")), 0.3)
        loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(hidden, 4), label))
        optimizer.Adam(layers.exponential_decay(0.01, 10, 0.9)).minimize(loss)
    return net, loss


def batch(step):
    random = np.random.default_rng(step)
    return {"x": random.standard_normal((5, 6), np.float32), "label": random.integers(0, 4, (5, 1))}


def steps(executor, program, scope, loss, begin, end):
    return [executor.run(program, batch(step), [loss], scope=scope)[0].tobytes() for step in range(begin, end)]


@pytest.mark.parametrize("filename", ["params", None])
@pytest.mark.parametrize("predicate", [None, is_persistable])
def test_a_program_saves_itself_and_resumes_bit_for_bit(tmp_path, filename, predicate):
    net, loss = network()
    make_checkpoint(tmp_path / "checkpoint", predicate, net.startup, net.main, every=4, filename=filename)
    save_program(net.main, tmp_path / "main")
    executor, scope = Executor(), Scope()
    executor.run(net.startup, scope=scope)
    whole = steps(executor, net.main, scope, loss, 0, 12)
    # The checkpoint of step 12 is replaced by one of step 8, from which training resumes.
    begun = Scope()
    executor.run(net.startup, scope=begun)
    assert steps(executor, net.main, begun, loss, 0, 9) == whole[:9]
    resumed, other = Scope(), Executor(threads=1)
    other.run(get_checkpoint_loader(tmp_path / "checkpoint"), scope=resumed)
    main = load_program(tmp_path / "main")
    main.directory = tmp_path / "checkpoint"
    assert steps(other, main, resumed, loss.name, 8, 12) == whole[8:]


def test_a_predicate_selects_what_is_saved(tmp_path):
    net, loss = network()
    make_checkpoint(tmp_path, is_parameter, net.startup, net.main, filename=None)
    executor, scope = Executor(), Scope()
    executor.run(net.startup, scope=scope)
    steps(executor, net.main, scope, loss, 0, 2)
    parameters = {var.name for var in net.main.all_parameters()}
    assert set(os.listdir(tmp_path)) == parameters | {"loader"}
    other = Scope()
    executor.run(get_checkpoint_loader(tmp_path), scope=other)
    for name in parameters:
        np.testing.assert_array_equal(np.asarray(other[name]), np.asarray(scope[name]))
    # The others are initialized again.
    assert not np.asarray(other["fc_0.w_0_moment1_0"]).any() and np.asarray(scope["fc_0.w_0_moment1_0"]).any()


def test_a_checkpoint_that_misses_variables_is_rejected_and_changes_nothing(tmp_path):
    net, _ = network()
    net.main.global_block().create_var("lost", shape=[1], persistable=True)
    before = net.main.to_bytes(), net.startup.to_bytes()
    with pytest.raises(lodstone.ProgramError, match="lost"):
        make_checkpoint(tmp_path, lambda var: var.name != "lost", net.startup, net.main)
    assert (net.main.to_bytes(), net.startup.to_bytes()) == before and os.listdir(tmp_path) == []
    for wrong in (
        lambda: make_checkpoint(tmp_path, None, "startup", net.main),
        lambda: make_checkpoint(tmp_path, None, net.startup, net.main, every=0),
        lambda: build_checkpoint_loader([]),
        lambda: get_checkpoint_loader(tmp_path),
    ):
        with pytest.raises((TypeError, ValueError, OSError, lodstone.LodstoneError)):
            wrong()


def test_loaders_are_built(tmp_path):
    net, _ = network()
    executor, scope = Executor(), Scope()
    executor.run(net.startup, scope=scope)
    parameters = net.main.all_parameters()
    loader = build_checkpoint_loader(parameters, net.startup, filename="all")
    assert loader.global_block().ops[-1].type == "load_combine"
    saver = net.main.clone()
    saver.global_block().remove_op(0, len(saver.global_block().ops))
    lodstone.program.save([saver.global_block().var(var.name) for var in parameters], "", saver, filename="all")
    executor.run(saver, scope=scope, directory=tmp_path)
    other = Scope()
    executor.run(loader, scope=other, directory=tmp_path)
    np.testing.assert_array_equal(np.asarray(other["fc_0.w_0"]), np.asarray(scope["fc_0.w_0"]))


@pytest.mark.parametrize("container", ["combined", "each", "sized", "safetensors"])
@pytest.mark.parametrize("background", [False, True])
def test_serials_of_programs_have_a_loader_and_resume_exactly(tmp_path, container, background):
    net, loss = network()
    executor, scope = Executor(), Scope()
    executor.run(net.startup, scope=scope)
    steps(executor, net.main, scope, loss, 0, 3)
    with Manager(tmp_path, container=container) as manager:
        manager.save_program(3, net.main, net.startup, scope, metadata={"epoch": 1}, background=background)
        whole = steps(executor, net.main, scope, loss, 3, 6)
    assert (tmp_path / "step-00000003/loader/__model__").is_file()
    assert checkpoint.verify(tmp_path) == []
    for program in (None, net.main):
        resumed = Scope()
        found = restore(tmp_path, scope=resumed, program=program)
        assert (found["step"], found["metadata"], found["warnings"]) == (3, {"epoch": 1}, [])
        assert steps(Executor(), net.main, resumed, loss, 3, 6) == whole
    if container != "safetensors":
        resumed = Scope()
        loader = get_checkpoint_loader(tmp_path / "step-00000003")
        Executor().run(loader, scope=resumed)
        assert steps(Executor(), net.main, resumed, loss, 3, 6) == whole


def test_a_serial_that_does_not_fit_names_what_differs(tmp_path):
    net, _ = network()
    scope = Scope()
    Executor().run(net.startup, scope=scope)
    with Manager(tmp_path) as manager:
        manager.save_program(1, net.main, net.startup, scope)
    with Network() as other:
        layers.fc(layers.data("x", [6]), 9)
    with pytest.raises(lodstone.LodstoneError, match="fc_0.w_0"):
        restore(tmp_path, scope=Scope(), program=other.main)
    with pytest.raises(ValueError, match="'program'"):
        restore(tmp_path, scope=Scope(), partial=True)


KILLED = """
import sys
sys.path.insert(0, sys.argv[1])
from test_program_checkpoint import *
net, loss = network()
directory = sys.argv[2]
executor, scope, done = Executor(threads=int(sys.argv[3])), Scope(), 0
if checkpoint.steps(directory):
    done = restore(directory, scope=scope)["step"]
else:
    executor.run(net.startup, scope=scope)
with Manager(directory, keep=2) as manager:
    for step in range(done, 60):
        loss_ = executor.run(net.main, batch(step), [loss], scope=scope)[0]
        manager.save_program(step + 1, net.main, net.startup, scope, background=True)
        print(step, loss_.tobytes().hex(), flush=True)
"""


def test_killed_training_resumes_bit_for_bit(tmp_path):
    here = os.path.dirname(__file__)

    def trained(directory, threads, killed_after=None):
        os.makedirs(directory, exist_ok=True)
        command = [sys.executable, "-c", KILLED, here, str(directory), str(threads)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        lines = {}
        for line in process.stdout:
            step, loss = line.split()
            lines[int(step)] = loss
            if killed_after is not None and len(lines) >= killed_after:
                process.kill()
                break
        process.communicate()
        assert killed_after is not None or process.returncode == 0
        return lines

    whole, found = trained(tmp_path / "whole", 2), {}
    assert sorted(whole) == list(range(60))
    for kill, threads in ((7, 1), (13, 2), (11, 1), (None, 2)):
        part = trained(tmp_path / "killed", threads, kill)
        assert all(whole[step] == loss for step, loss in part.items())
        found |= part
    assert found == whole


def test_models_are_trained_on_arrays_and_batches(tmp_path):
    data = {name: np.asarray(value) for name, value in lodstone.open(ROOT / "examples/digits/train.npz").items()}
    program = ROOT / "examples/digits/training"
    whole = lodstone.train(program, data, steps=6, batch_size=32, checkpoint=tmp_path / "run", every=3, keep=2)
    assert whole.done == 6 and len(whole.losses) == 6 and whole.restored is None
    batches = ({name: value[begin : begin + 32] for name, value in data.items()} for begin in range(0, 192, 32))
    assert lodstone.train(program, batches).losses == whole.losses
    assert checkpoint.steps(tmp_path / "run") == [3, 6]
    with pytest.raises(ValueError, match="'checkpoint'.*resume=True"):
        lodstone.train(program, data, steps=6, batch_size=32, checkpoint=tmp_path / "run")
    more = lodstone.train(program, data, steps=8, batch_size=32, checkpoint=tmp_path / "run", resume=True)
    assert more.restored["step"] == 6 and more.done == 8
    assert more.losses == lodstone.train(program, data, steps=8, batch_size=32).losses[6:]
    more.save(tmp_path / "trained")
    again = lodstone.open(tmp_path / "trained")
    assert again.program is not None and set(more.model()) <= set(again)


def test_callbacks_are_called_and_end_training():
    data, program = lodstone.open(ROOT / "examples/digits/train.npz"), ROOT / "examples/digits/training"
    seen = []

    def stop(step):
        seen.append((step.number, step.loss))
        return step.number < 3

    training = lodstone.train(program, data, steps=9, batch_size=32, callbacks=[stop, lambda step: None])
    assert seen == [(step.number, step.loss) for step in training.history] and training.done == 3

    def fail(step):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        lodstone.train(program, data, steps=9, batch_size=32, callbacks=fail)


def test_networks_are_trained(tmp_path):
    net, loss = network()
    model = net.main.model(startup_program=net.startup)
    training = lodstone.train(model, (batch(step) for step in range(5)), watch="@LR_DECAY_COUNTER@")
    assert training.done == 5 and set(training.history[0].values) == {loss.name, "@LR_DECAY_COUNTER@"}
    with pytest.raises(lodstone.LodstoneError, match="label"):
        lodstone.train(model, [{"x": batch(0)["x"]}])
    for arguments in ({"steps": -1}, {"every": 0}, {"resume": True}):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            lodstone.train(model, [], **arguments)
    with pytest.raises(ValueError, match="steps"):
        lodstone.train(model, batch(0))


def test_the_time_of_an_interrupt_is_short(tmp_path):
    code = """
import lodstone, signal, sys
# A shell ignores interrupts in background jobs.
signal.signal(signal.SIGINT, signal.default_int_handler)
data = lodstone.open("examples/digits/train.npz")
print("ready", flush=True)
try:
    lodstone.train("examples/digits/training", data, steps=10**9, batch_size=32, checkpoint=sys.argv[1])
except KeyboardInterrupt:
    print("interrupted")
"""
    command = [sys.executable, "-c", code, tmp_path / "run"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout.readline() == "ready\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == "interrupted\n"
    # What was trained until then is saved.
    assert checkpoint.verify(tmp_path / "run") == [] and checkpoint.steps(tmp_path / "run")[-1] > 0
