"""Records special cases of saving and loading in PaddlePaddle 2.6.2: in half precision, and in part.

    python make_paddle_loads.py OUT_DIR

Writes the files of `save` operators, and the results of `load` operators to `loads.npz`.
"""

import os
import sys

os.environ.setdefault("GLOG_minloglevel", "3")

import numpy as np
import paddle

static = paddle.static


def run(build, fetch=()):
    """Runs a program of operators that `build` appends."""
    main = static.Program()
    with static.program_guard(main):
        build(main.global_block())
    executor = static.Executor(paddle.CPUPlace())
    return executor.run(main, fetch_list=list(fetch))


def main(directory):
    paddle.enable_static()
    values = np.arange(16, dtype="float32") / 7 - 0.9
    values[12:] = [65519.0, -70000.0, 1.3e-6, np.inf]  # at the ends of half precision
    values = values.reshape(4, 4)
    at = {name: os.path.join(directory, name) for name in ["whole", "half"]}

    def saves(block):
        block.create_var(name="x", shape=values.shape, dtype="float32")
        block.append_op(
            type="assign_value", outputs={"Out": ["x"]},
            attrs={"shape": list(values.shape), "dtype": 5, "fp32_values": values.reshape(-1).tolist()},
        )
        for name, path in at.items():
            attributes = {"file_path": path, "save_as_fp16": name == "half"}
            block.append_op(type="save", inputs={"X": ["x"]}, attrs=attributes)

    run(saves)

    def loaded(**attributes):
        def loads(block):
            block.create_var(name="y", persistable=True)
            attributes.setdefault("file_path", at["whole"])
            block.append_op(type="load", outputs={"Out": ["y"]}, attrs=attributes)

        return np.asarray(run(loads, ["y"])[0])

    results = {
        "whole": loaded(),
        "of_half": loaded(file_path=at["half"]),
        "as_half": loaded(load_as_fp16=True),
        "part": loaded(seek=5, shape=[2, 3]),
        "none": loaded(seek=16, shape=[0]),
    }
    np.savez(os.path.join(directory, "loads.npz"), **results)
    for name, array in results.items():
        print(name, array.dtype, array.shape)


if __name__ == "__main__":
    main(sys.argv[1])
