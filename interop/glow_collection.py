"""Converts all recorded runs of a collection of Glow models, and runs them with ONNX Runtime.

    python glow_collection.py LODSTONE COLLECTION DIR

LODSTONE is the command, COLLECTION the directory from which `select_runs.py` of the golden files selects, DIR an empty
directory. Prints the failures, then `N passed, M failed`. Runs that are expected to differ are listed here with the
reason; one that no longer differs is a failure.
"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "crates/formats/tests/golden/glow_run"))
import onnx_load
import select_runs

DIFFERENT = {
    "onnx__QuantizeLinearDequantizeLinear.onnx":
        "Glow removes a Quantize before its Dequantize, and does not round",
}

REFUSED = {"Glow_GaussianFill": "its random numbers come from Glow's own generator"}


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    lodstone, collection, directory = sys.argv[1:]
    passed, failed = 0, 0
    for _, source, case, _ in select_runs.candidates(collection):
        out = os.path.join(directory, case["path"])
        if os.path.exists(out):
            os.remove(out)
        done = subprocess.run(
            [lodstone, "convert", "--to", "onnx", source, out], capture_output=True, text=True
        )
        problem = done.stderr.strip() if done.returncode else None
        if any(problem and kind in problem and why in problem for kind, why in REFUSED.items()):
            passed += 1
            continue
        if problem is None:
            subprocess.run([lodstone, "verify", out], check=True, stdout=subprocess.DEVNULL)
            try:
                onnx_load.load(dict(case, load="onnxruntime"), directory)
            except Exception as error:
                problem = "{}: {}".format(type(error).__name__, error)
        if (problem is None) == (case["path"] not in DIFFERENT):
            passed += 1
        else:
            failed += 1
            print("FAILED {}: {}".format(case["path"], problem or "listed as different, but agrees"))
    print("{} passed, {} failed".format(passed, failed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
