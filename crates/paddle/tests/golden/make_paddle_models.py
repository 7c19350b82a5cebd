"""Records PaddlePaddle 2.6.2's results for the inference models among the golden files of `formats`.

    python make_paddle_models.py

Writes `paddle_models.json`, beside this script: for each model its path, its inputs (element type, dims, LoD,
elements) and its outputs.
"""
import json
import os

import numpy as np

os.environ["GLOG_minloglevel"] = "3"
import paddle

paddle.enable_static()

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "../../../formats/tests/golden/paddle")


def told(array):
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": array.reshape(-1).tolist()}


def record(path, load, feeds):
    executor, scope = paddle.static.Executor(paddle.CPUPlace()), paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        program, names, fetches = load(executor)
        assert sorted(names) == sorted(feeds), names
        given = {}
        for name, (array, lengths) in feeds.items():
            given[name] = paddle.base.create_lod_tensor(array, lengths, paddle.CPUPlace()) if lengths else array
        results = executor.run(program, feed=given, fetch_list=fetches, return_numpy=False)
    inputs = {}
    for name, (array, lengths) in feeds.items():
        inputs[name] = told(array)
        inputs[name]["lod"] = [[0, *np.cumsum(level).tolist()] for level in lengths]
    outputs = {}
    for variable, value in zip(fetches, results):
        outputs[variable.name] = {**told(np.array(value)), "lod": value.lod()}
    return {"path": path, "inputs": inputs, "outputs": outputs}


def by_prefix(path):
    return lambda executor: paddle.static.load_inference_model(os.path.join(MODELS, path), executor)


def by_directory(path):
    """A model of 1.8.5 with combined parameters, for which 2.6.2 has no function."""
    directory = os.path.join(MODELS, path)

    def load(executor):
        with open(os.path.join(directory, "model"), "rb") as file:
            program = paddle.static.Program.parse_from_string(file.read())
        block = program.global_block()
        values = [var for var in program.list_vars() if paddle.static.io.is_persistable(var)]
        paddle.static.load_vars(executor, directory, program, vars=values, filename="params")
        feeds = [op.output("Out")[0] for op in block.ops if op.type == "feed"]
        fetches = [block.var(op.input("X")[0]) for op in block.ops if op.type == "fetch"]
        return program, feeds, fetches

    return load


def main():
    random = np.random.RandomState(7)
    digits = lambda count, size: random.standard_normal((count, 1, size, size)).astype("float32")
    words = np.array([[1], [7], [3], [9], [2], [2], [39], [0], [11]], "int64")
    cases = []
    for count in (1, 3):
        feeds = {"image": (digits(count, 12), [])}
        path = "2.6.2/lenet/inference/lenet"
        cases.append(record(path, by_prefix(path), feeds))
        path = "1.8.5/lenet/combined/"
        cases.append(record(path, by_directory(path), feeds))
    for start in ([1, 2, 3, 4], [-50, -60, -7, -8]):
        path = "2.6.2/control_flow/inference/inference"
        feeds = {"start": (np.array(start, "float32"), [])}
        cases.append(record(path, by_prefix(path), feeds))
    for lengths in ([[3, 1, 5]], [[9]], [[1, 1, 1, 1, 1, 4]]):
        cases.append(record(
            "1.8.5/recurrent/combined/",
            by_directory("1.8.5/recurrent/combined"),
            {"words": (words, lengths)},
        ))
    with open(os.path.join(HERE, "paddle_models.json"), "w") as file:
        json.dump(cases, file, indent=None, separators=(",", ":"))
        file.write("\n")
    print(len(cases), "recorded")


if __name__ == "__main__":
    main()
