"""Exports nets that Caffe2 ran, runs them with ONNX Runtime, and compares the recorded outputs.

    python caffe2_exported.py LODSTONE GOLDEN [--share N] [--seed SEED]

GOLDEN has a folder for each net, and `cases.json` with what Caffe2 computed, as `golden/caffe2/make_caffe2.py` of `lowering`
wrote them. Each net is exported with the types of the recorded inputs. Of the nets, one in N is exported; those of detectors
all are.
"""

import argparse
import json
import random
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from verdicts import report

# Nets of whole detectors.
NETWORKS = {"faster_rcnn_images", "mask_rcnn"}

# Nets that ONNX Runtime computes otherwise, or not at all, with the reason.
DIFFERENCES = {}

# The tolerance of single precision for sums in another order, which the recorded tolerances of operators need not have.
RTOL, ATOL = 1e-4, 2e-5


def array(recorded):
    # JSON has no numbers that are not finite.
    data = [float(it) if isinstance(it, str) else it for it in recorded["data"]]
    return np.array(data, recorded["dtype"]).reshape(recorded["shape"])


def differs(found, wanted, tolerance):
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype}{found.shape}, expected {wanted.dtype}{wanted.shape}"
    if wanted.dtype.kind in "iub" and tolerance < 1e-3:
        return None if np.array_equal(found, wanted) else "integers differ"
    with np.errstate(all="ignore"):
        found, wanted = found.astype("f8"), wanted.astype("f8")
        is_near = np.isclose(found, wanted, max(tolerance, RTOL), max(tolerance, ATOL), equal_nan=True)
        return None if is_near.all() else f"max difference {np.abs(found - wanted)[~is_near].max()}"


def compare(lodstone, golden, case):
    inputs = {name: array(it) for name, it in case["inputs"].items()}
    outputs = {name: array(it) for name, it in case["outputs"].items()}
    shapes = []
    for name, value in inputs.items():
        shapes += ["--input-shape", f"{name}:{','.join(map(str, value.shape))}", "--input-type", f"{name}:{value.dtype}"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        convert = subprocess.run([lodstone, "convert", golden / case["name"], path, *shapes], capture_output=True, text=True)
        if convert.returncode:
            return f"convert: {convert.stderr.strip()}"
        try:
            onnx.checker.check_model(str(path), full_check=True)
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.intra_op_num_threads = 1
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            read = {one.name for one in session.get_inputs()}
            names = [one.name for one in session.get_outputs()]
            results = session.run(names, {name: value for name, value in inputs.items() if name in read})
        except Exception as error:
            return f"ONNX Runtime: {' '.join(str(error).split())}"
    found = dict(zip(names, results))
    for name, wanted in outputs.items():
        if name not in found:
            return f"there is no output {name}"
        if wrong := differs(found[name], wanted, case["tolerance"]):
            return f"{name}: {wrong}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lodstone")
    parser.add_argument("golden", type=Path)
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    cases = json.loads((arguments.golden / "cases.json").read_text(encoding="utf-8"))
    choice = random.Random(arguments.seed)
    cases = [case for case in cases if choice.randrange(arguments.share) == 0 or case["name"] in NETWORKS]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda case: compare(arguments.lodstone, arguments.golden, case), cases))
    report([(case["name"], wrong) for case, wrong in zip(cases, results)], DIFFERENCES)


if __name__ == "__main__":
    main()
