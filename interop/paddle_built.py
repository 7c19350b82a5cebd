"""Runs programs that the Python package builds in PaddlePaddle 2.6.2, and compares the results.

    python paddle_built.py

Every layer runs, from `crates/python/tests/golden/layer_cases.py`; both train a network in turns, each from the checkpoint
that the program has saved in the other; operators that PaddlePaddle does not have are rejected.
"""

import os
import sys
import tempfile

os.environ["GLOG_minloglevel"] = "3"
os.environ["FLAGS_cpu_deterministic"] = "1"

import numpy as np
import paddle
from paddle import static

from lodstone import program as fluid
from lodstone.checkpoint import get_checkpoint_loader, make_checkpoint
from lodstone.program import layers, optimizer

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../crates/python/tests/golden"))

from layer_cases import CASES

paddle.enable_static()

RTOL, ATOL = 2e-5, 2e-6

DIFFERENT = {"space_to_depth": "the operator is one of 1.8 that 2.6.2 lacks"}
"""Cases with other results in PaddlePaddle 2.6.2, with the reason."""


def theirs(program):
    """A program of the package as one of PaddlePaddle."""
    return static.Program.parse_from_string(program.to_bytes())


def fed(array, lod):
    """An array with its LoD, for PaddlePaddle."""
    if lod is None:
        return array
    tensor = paddle.base.core.LoDTensor()
    tensor.set(array, paddle.CPUPlace())
    tensor.set_lod(lod)
    return tensor


def layer(case):
    """What differs between both in a case."""
    with fluid.Network() as net:
        variables, ours, feed = {}, {}, {}
        for name, value in case.inputs.items():
            array, lod = value if isinstance(value, tuple) else (value, None)
            variables[name] = layers.data(name, array.shape, False, array.dtype, len(lod or []))
            lengths = [[b - a for a, b in zip(level, level[1:])] for level in lod or []]
            ours[name] = fluid.create_lod_tensor(array, lengths) if lod else array
            feed[name] = fed(array, lod)
        results = case.build(layers, fluid, **variables)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
    executor, scope = fluid.Executor(), fluid.Scope()
    executor.run(net.startup, scope=scope)
    found = executor.run(net.main, ours, results, scope=scope)
    other, program = static.Executor(paddle.CPUPlace()), theirs(net.main)
    with static.scope_guard(static.Scope()):
        other.run(theirs(net.startup))
        names = [result.name for result in results]
        wanted = other.run(program, feed=feed, fetch_list=names, return_numpy=False)
    for number, (one, tensor) in enumerate(zip(found, wanted)):
        array = np.array(tensor)
        if one.shape != array.shape or one.dtype != array.dtype:
            return f"result {number} is {one.dtype}{one.shape}, not {array.dtype}{array.shape}"
        exact = one.dtype.kind not in "f"
        if not np.allclose(one, array, 0 if exact else RTOL, 0 if exact else ATOL, equal_nan=True):
            return f"result {number} differs by {np.abs(one - array).max()}"
    return None


def trained(directory):
    """What differs between both while they train a network in turns, each from the checkpoint of the other."""
    with fluid.Network() as net:
        x, label = layers.data("x", [6]), layers.data("label", [1], dtype="int64")
        hidden = layers.batch_norm(layers.fc(x, 8, act="relu"))
        loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(hidden, 4), label))
        optimizer.Adam(layers.exponential_decay(0.01, 10, 0.9)).minimize(loss)
    make_checkpoint(directory, None, net.startup, net.main, every=2)
    random = np.random.default_rng(1)
    images = random.standard_normal((6, 5, 6)).astype("float32")
    labels = random.integers(0, 4, (6, 5, 1))
    batches = [{"x": x, "label": label} for x, label in zip(images, labels)]
    ours, scope = fluid.Executor(), fluid.Scope()
    ours.run(net.startup, scope=scope)
    run = lambda scope, batch: float(ours.run(net.main, batch, loss, scope=scope)[0])
    begun = [run(scope, batch) for batch in batches[:2]]
    loader = theirs(get_checkpoint_loader(directory))
    here = os.getcwd()
    os.chdir(directory)
    try:
        other, program = static.Executor(paddle.CPUPlace()), theirs(net.main)
        with static.scope_guard(static.Scope()):
            other.run(loader)
            found = [float(other.run(program, feed=batch, fetch_list=[loss.name])[0]) for batch in batches[2:4]]
    finally:
        os.chdir(here)
    resumed = fluid.Scope()
    ours.run(get_checkpoint_loader(directory), scope=resumed)
    found += [run(resumed, batch) for batch in batches[4:]]
    wanted = [run(scope, batch) for batch in batches[2:]]
    same = np.allclose(found, wanted, rtol=1e-4, atol=0) and int(np.asarray(resumed["checkpoint_counter_0"])[0]) == 6
    return None if same else f"after {begun}, the losses are {found}, not {wanted}"


def rejected():
    """What PaddlePaddle does with operators that it lacks."""
    program = fluid.Program()
    program.global_block().create_var("w", shape=[2], persistable=True)
    fluid.save(["w"], "", program, filename="all", merged=True)
    try:
        executor = static.Executor(paddle.CPUPlace())
        with static.scope_guard(static.Scope()):
            executor.run(theirs(program))
    except Exception as error:
        return None if "lodstone.save_merged" in str(error) else f"it reports {error}"
    return "it runs the program"


def main():
    failed = 0
    for case in CASES:
        try:
            what = layer(case)
        except Exception as error:
            what = repr(error)[-200:]
        if (what is None) == (case.name in DIFFERENT):
            print("DIFFERENT" if what else "no longer different:", case.name, what)
            failed += 1
    with tempfile.TemporaryDirectory() as directory:
        for name, what in (("training", trained(directory)), ("own operators", rejected())):
            if what is not None:
                print("DIFFERENT", name, what)
                failed += 1
    print(f"{len(CASES) + 2 - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main() != 0)
