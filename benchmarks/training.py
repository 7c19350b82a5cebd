"""Trains a program with PaddlePaddle, as many steps as it is asked for on each line of stdin.

    training.py DIR LOSS

`DIR` has the program (`__model__`), its variables (`__params__`) and what each step is fed (`feed.npz`). An answer is
the seconds that the steps took, and the last loss. It runs on two threads, as it is asked.
"""

import os
import sys
import time

os.environ["GLOG_minloglevel"] = "3"
os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))

import numpy as np
import paddle


def main():
    directory, loss = sys.argv[1:]
    paddle.enable_static()
    with open(os.path.join(directory, "__model__"), "rb") as file:
        program = paddle.static.Program.parse_from_string(file.read())
    executor = paddle.static.Executor(paddle.CPUPlace())
    variables = [variable for variable in program.list_vars() if variable.persistable]
    paddle.static.load_vars(executor, directory, program, vars=variables, filename="__params__")
    feed = dict(np.load(os.path.join(directory, "feed.npz")))
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line)):
            (value,) = executor.run(program, feed=feed, fetch_list=[loss])
        print(time.perf_counter() - start, float(value.reshape(-1)[0]), flush=True)


if __name__ == "__main__":
    main()
