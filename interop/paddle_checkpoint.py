"""Resumes Lodstone's checkpoints in PaddlePaddle: its steps must equal ours, and its checkpoints must load in Lodstone.

    python paddle_checkpoint.py DIR

`DIR` is the output of `cargo run --locked --example write_checkpoint -- DIR`. Both loaders, that of the checkpoint and that of
the serial, restore the variables of step 3. The main program trains three more steps, and saves only at the third, by
operators that count its runs. The resulting variables are written to `changed.npz`.
"""
import os
import sys

import numpy as np

os.environ["GLOG_minloglevel"] = "3"
import paddle

paddle.enable_static()


def program(name):
    with open(os.path.join(name, "__model__"), "rb") as file:
        return paddle.static.Program.parse_from_string(file.read())


def variables(names):
    scope = paddle.static.global_scope()
    return {name: np.array(scope.find_var(name).get_tensor()) for name in names}


def differing(found, wanted, what, exact):
    failed = 0
    for name, value in wanted.items():
        close = np.array_equal if exact else lambda a, b: np.allclose(a, b, rtol=1e-5, atol=1e-6)
        same = found[name].shape == value.shape and close(found[name], value)
        failed += not same
        if not same:
            print("DIFFERENT", what, name, found[name], value)
    print(f"{what}: {len(wanted) - failed} variables are as expected, {failed} are not")
    return failed


def load(executor, directory, state):
    os.chdir(directory)
    executor.run(program("loader"))
    return differing(variables(state), state, directory, exact=True)


def main():
    os.chdir(sys.argv[1])
    root = os.getcwd()
    executor = paddle.static.Executor(paddle.CPUPlace())
    feed, state, expected = (dict(np.load(f"{name}.npz")) for name in ("feed", "state", "expected"))
    train, failed = program("main"), 0
    with paddle.static.scope_guard(paddle.static.Scope()):
        failed += load(executor, os.path.join(root, "serials/step-00000003"), state)
    failed += load(executor, os.path.join(root, "checkpoint"), state)
    saved = []
    for _ in range(3):
        executor.run(train, feed=feed)
        with open("params", "rb") as file:
            saved.append(file.read())
    on_time = saved[0] == saved[1] != saved[2]
    print("saved only at the third step" if on_time else "SAVED at other steps")
    changed = variables(expected)
    failed += differing(changed, expected, "three more steps", exact=False) + (not on_time)
    os.chdir(root)
    np.savez("changed.npz", **changed)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
