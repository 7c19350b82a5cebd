"""Runs Lodstone's programs in PaddlePaddle: its results must equal ours, and the files it saves must load in Lodstone.

    python paddle_programs.py DIR

`DIR` is the output of `cargo run --locked --example write_programs -- DIR`. The loader program restores the parameters, the main
and startup programs run; then parameters are changed, and the saver program writes them. The changed values are written
to `changed.npz`.
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


def main():
    os.chdir(sys.argv[1])
    executor = paddle.static.Executor(paddle.CPUPlace())
    feed, expected = dict(np.load("feed.npz")), dict(np.load("expected.npz"))
    executor.run(program("startup"))
    executor.run(program("loader"))
    found = executor.run(program("main"), feed=feed, fetch_list=list(expected))
    failed = 0
    for (name, wanted), value in zip(expected.items(), found):
        same = value.shape == wanted.shape and np.allclose(value, wanted, rtol=1e-5, atol=1e-6)
        print("same" if same else "DIFFERENT", name, value.shape, wanted.shape)
        failed += not same
    saver = program("saver")
    scope = paddle.static.global_scope()
    changed = {}
    for variable in saver.list_vars():
        if variable.persistable:
            tensor = scope.find_var(variable.name).get_tensor()
            changed[variable.name] = np.array(tensor) + 1
            tensor.set(changed[variable.name], paddle.CPUPlace())
    executor.run(saver)
    np.savez("changed.npz", **changed)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
