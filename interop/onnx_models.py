"""Writes the backend test models of the onnx package.

    python onnx_models.py DIR

`DIR/nodes` gets a model for each operator and mode. `DIR/models.json` lists the models of the package that PyTorch and
other frameworks exported, each with the directory of its inputs and outputs:

    [{"name": NAME, "path": PATH, "data": DIRECTORY}, ...]
"""

import glob
import json
import os
import sys
import warnings

import onnx
from onnx.backend.test.case.model import collect_testcases as collect_models
from onnx.backend.test.case.node import collect_testcases as collect_nodes

DATA = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")


def main():
    # Some of the computations overflow on purpose.
    warnings.simplefilter("ignore")
    root = sys.argv[1]
    os.makedirs(os.path.join(root, "nodes"), exist_ok=True)
    cases = [case for case in collect_nodes(None) + collect_models() if case.model is not None]
    for case in cases:
        with open(os.path.join(root, "nodes", case.name + ".onnx"), "wb") as file:
            file.write(case.model.SerializeToString())
    models = []
    for path in sorted(glob.glob(os.path.join(DATA, "*", "*", "model.onnx"))):
        data = os.path.join(os.path.dirname(path), "test_data_set_0")
        models.append({"name": os.path.basename(os.path.dirname(path)), "path": path, "data": data})
    with open(os.path.join(root, "models.json"), "w", encoding="utf-8") as file:
        json.dump(models, file)
    print("{} models of operators, {} of others".format(len(cases), len(models)))


if __name__ == "__main__":
    main()
