"""Runs PyTorch programs with Lodstone, and their exports with ONNX Runtime, and compares the recorded outputs.

    python torch_exported.py LODSTONE FOLDER

FOLDER has NAME.pt2 or NAME.script.pt, and NAME-io.npz, as `torch_networks.py` and `golden/torch/make_cases.py` write them. If
it has NAME.onnx, which PyTorch exported itself, its outputs are compared, too, in both engines.
"""

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime
from verdicts import report

RTOL, ATOL = 1e-4, 2e-5

# Cases in which ONNX Runtime has no kernel, or another result, with the reason.
DIFFERENCES = {}


def near(found, wanted):
    if len(found) < len(wanted):
        return f"{len(found)} outputs, expected {len(wanted)}"
    # The next values of states follow the outputs.
    for index, (found, wanted) in enumerate(zip(found, wanted)):
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            return f"output {index}: {found.dtype}{found.shape}, expected {wanted.dtype}{wanted.shape}"
        rtol = 1e-2 if wanted.dtype == np.float16 else RTOL
        with np.errstate(all="ignore"):
            if not np.allclose(found.astype("f8"), wanted.astype("f8"), rtol, ATOL, equal_nan=True):
                return f"output {index} differs by {np.abs(found.astype('f8') - wanted.astype('f8')).max()}"
    return None


def compare(lodstone, path):
    arrays = np.load(path.with_name(path.stem + "-io.npz"))
    inputs = {name[3:]: arrays[name] for name in arrays.files if name.startswith("in:")}
    wanted = [arrays[f"out:{i}"] for i in range(len(arrays.files) - len(inputs))]
    with tempfile.TemporaryDirectory() as folder:
        folder, arguments = Path(folder), []
        for name, array in inputs.items():
            np.save(folder / f"{name}.npy", array)
            arguments += ["-i", f"{name}={folder / name}.npy"]
        run = subprocess.run([lodstone, "run", path, *arguments, "-o", folder / "out.npz"], capture_output=True, text=True)
        if run.returncode:
            return f"run: {run.stderr.strip()}"
        found = np.load(folder / "out.npz")
        if wrong := near([found[name] for name in found.files], wanted):
            return f"run: {wrong}"
        shapes = []
        # TorchScript does not declare the types of inputs.
        for name, array in inputs.items() if path.name.endswith(".script.pt") else ():
            shapes += ["--input-shape", f"{name}:{','.join(map(str, array.shape))}"]
        convert = subprocess.run([lodstone, "convert", path, folder / "out.onnx", *shapes], capture_output=True, text=True)
        if convert.returncode:
            return f"convert: {convert.stderr.strip()}"
        for graph in (folder / "out.onnx", path.with_suffix(".onnx")):
            if graph.exists() and (wrong := differs(lodstone, path, graph, arguments, inputs, wanted)):
                return f"{graph.name}: {wrong}"
    return None


def differs(lodstone, path, graph, arguments, inputs, wanted):
    """Says how an ONNX graph of a program differs from it in the engine, or from what it returned in ONNX Runtime."""
    command = [lodstone, "compare", path, graph, *arguments, "--outputs-only"]
    compared = subprocess.run(command, capture_output=True, text=True)
    if compared.returncode:
        return f"compare: {compared.stdout.strip()} {compared.stderr.strip()}"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Further optimizations turn PyTorch's own quantized graphs into 8-bit products, which saturate without VNNI.
    if graph.parent == path.parent:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        given = {one.name for one in session.get_inputs()}
        wrong = near(session.run(None, {name: array for name, array in inputs.items() if name in given}), wanted)
    except Exception as error:
        wrong = str(error)
    return f"ONNX Runtime: {wrong}" if wrong else None


def main():
    lodstone, folder = sys.argv[1], Path(sys.argv[2])
    paths = sorted([*folder.glob("*.pt2"), *folder.glob("*.script.pt")])
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda path: compare(lodstone, path), paths))
    report([(path.stem, wrong) for path, wrong in zip(paths, results)], DIFFERENCES)


if __name__ == "__main__":
    main()
