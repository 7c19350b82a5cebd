"""Trains Lodstone's programs in PaddlePaddle: the losses of five steps must equal ours.

    python paddle_training.py DIR

`DIR` is the output of `cargo run --locked --example write_training -- DIR`: a directory for each optimizer, with the program,
its variables, the inputs of each step, and Lodstone's losses. The trained variables are written to
`further/__params__`, and the losses of five more steps to `further.npz`.
"""
import os
import sys

import numpy as np

os.environ["GLOG_minloglevel"] = "3"
import paddle

paddle.enable_static()


def train(directory):
    executor = paddle.static.Executor(paddle.CPUPlace())
    with open(os.path.join(directory, "main_program"), "rb") as file:
        program = paddle.static.Program.parse_from_string(file.read())
    variables = [variable for variable in program.list_vars() if variable.persistable]
    feed = dict(np.load(os.path.join(directory, "feed.npz")))
    recorded = dict(np.load(os.path.join(directory, "losses.npz")))
    loss = next(iter(recorded)).rsplit(".", 1)[0]
    wanted = np.array(list(recorded.values()))

    def steps():
        run = lambda: executor.run(program, feed=feed, fetch_list=[loss])[0]
        return np.array([float(np.ravel(run())[0]) for _ in wanted])

    with paddle.static.scope_guard(paddle.static.Scope()):
        paddle.static.load_vars(executor, directory, program, vars=variables, filename="__params__")
        found = steps()
        further = os.path.join(directory, "further")
        paddle.static.save_vars(executor, further, program, vars=variables, filename="__params__")
        np.savez(further + ".npz", losses=steps())
    same = np.allclose(found, wanted, rtol=1e-4, atol=0)
    print("same" if same else "DIFFERENT", directory, found, wanted)
    return same


if __name__ == "__main__":
    names = sorted(os.listdir(sys.argv[1]))
    sys.exit(not (names and all([train(os.path.join(sys.argv[1], name)) for name in names])))
