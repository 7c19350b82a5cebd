"""Runs ONNX's backend test models with the command.

    python onnx_run.py DIR LODSTONE [--share N --seed SEED]

`DIR` is the directory of `onnx_models.py`. Every model runs as it is, and after it was written and read again; outputs
must equal the recorded ones: element types and shapes exactly, values to the tolerance of the test. Of the models of
operators, one in N runs. `UNRUN` in `onnx_differences.py` lists the models that do not run, with reasons; one that runs
after all is an error too. ONNX Runtime, as an engine of the command, must agree on the models of whole networks.
"""

import argparse
import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnx.backend.test.case.model import collect_testcases as collect_models
from onnx.backend.test.case.node import collect_testcases as collect_nodes
from onnx_differences import UNRUN


class Wrong(Exception):
    """A model did not return what it should."""


def command(lodstone, *arguments):
    """Runs the command, and raises its message if it fails."""
    done = subprocess.run([lodstone, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise Wrong(done.stderr.strip().splitlines()[0] if done.stderr.strip() else f"exit status {done.returncode}")
    return done.stdout


def write(value, path):
    """Writes an input as a tensor of its own."""
    tensor = value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value))
    with open(path, "wb") as file:
        file.write(tensor.SerializeToString())


def check(found, expected, rtol, atol):
    """Compares an output with the recorded one."""
    wanted = numpy_helper.to_array(expected) if isinstance(expected, onnx.TensorProto) else np.asarray(expected)
    if found.dtype != wanted.dtype and not (found.dtype.kind in "OSU" and wanted.dtype.kind in "OSU"):
        raise Wrong(f"{found.dtype} instead of {wanted.dtype}")
    if found.shape != wanted.shape:
        raise Wrong(f"shape {found.shape} instead of {wanted.shape}")
    if found.dtype.kind in "OSU":
        text = lambda value: value if isinstance(value, str) else value.decode()
        if [text(one) for one in found.reshape(-1)] != [text(one) for one in wanted.reshape(-1)]:
            raise Wrong("other strings")
        return
    if found.dtype.kind not in "biufc":
        found, wanted = found.astype(np.float32), wanted.astype(np.float32)
    np.testing.assert_allclose(found, wanted, rtol, atol)
