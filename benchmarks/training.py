"""Trains a program in Python. Each line of stdin is a number of steps to run.

    training.py (lodstone | paddle) DIR LOSS

`DIR` has the program (`__model__`), its variables (`__params__`) and what each step is fed (`feed.npz`; `NAME.lod` has the
offsets of sequences). A reply is the seconds that the steps took, and the last loss. PaddlePaddle runs on as many threads as
there are processors.
"""

import os
import sys
import time

os.environ["GLOG_minloglevel"] = "3"
os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))

import numpy as np


def fed(directory, with_lod):
    """Returns what a step is fed; `with_lod` makes a tensor of sequences from rows and the lengths of the sequences."""
    arrays = dict(np.load(os.path.join(directory, "feed.npz")))
    lengths = {name[:-4]: np.diff(arrays.pop(name)).tolist() for name in list(arrays) if name.endswith(".lod")}
    return {name: with_lod(array, [lengths[name]]) if name in lengths else array for name, array in arrays.items()}


def of_lodstone(directory, loss):
    """Returns a function that runs a step with the executor of Lodstone, as a program in Python does."""
    from lodstone import program as static

    program = static.load_program(directory)
    executor = static.Executor()
    variables = [variable for variable in program.list_vars() if variable.persistable]
    static.load_vars(executor, directory, program, vars=variables, filename="__params__")
    feed = fed(directory, static.create_lod_tensor)
    return lambda: executor.run(program, feed=feed, fetch_list=[loss])


def of_paddle(directory, loss):
    """Returns a function that runs a step with the executor of PaddlePaddle."""
    import paddle

    paddle.enable_static()
    with open(os.path.join(directory, "__model__"), "rb") as file:
        program = paddle.static.Program.parse_from_string(file.read())
    executor = paddle.static.Executor(paddle.CPUPlace())
    variables = [variable for variable in program.list_vars() if variable.persistable]
    paddle.static.load_vars(executor, directory, program, vars=variables, filename="__params__")
    with_lod = lambda array, lengths: paddle.base.create_lod_tensor(array, lengths, paddle.CPUPlace())
    feed = fed(directory, with_lod)
    return lambda: executor.run(program, feed=feed, fetch_list=[loss])


def main():
    library, directory, loss = sys.argv[1:]
    step = {"lodstone": of_lodstone, "paddle": of_paddle}[library](directory, loss)
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line)):
            (value,) = step()
        print(time.perf_counter() - start, float(value.reshape(-1)[0]), flush=True)


if __name__ == "__main__":
    main()
