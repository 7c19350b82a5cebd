"""Runs exported models of PaddlePaddle with ONNX Runtime and with Lodstone, and compares the recorded outputs.

    python paddle_export.py LODSTONE NETWORKS [OPERATORS]

NETWORKS has folders that `paddle_networks.py` wrote. Each is exported with dynamic and with fixed dims, at the default
opset and at others; the result passes ONNX's checker and `lodstone verify`. OPERATORS has models of single operators with
`X.inputs.npz` and `X.outputs.npz` beside each `X.onnx`, which the test `paddle_to_onnx` of `lodstone` wrote.
"""

import os
import subprocess
import sys
from collections import Counter

import numpy as np
import onnx
import onnxruntime

# Kinds of operators of which some recorded cases have other results, as in the test `paddle_to_onnx`; and those that
# ONNX Runtime computes otherwise, with the reasons.
DIFFERENCES = {
    "arg_max": "PaddlePaddle selects NaN last",
    "arg_min": "PaddlePaddle selects NaN last",
    "batch_norm": "an export is for inference, and these cases train",
    "cast": "PaddlePaddle truncates when it casts to float16",
    "conv2d": "PaddlePaddle has a window where the filter is larger than the image",
    "cumsum": "PaddlePaddle's exclusive sum of a single element is the element",
    "elementwise_max": "NaN", "elementwise_min": "NaN", "reduce_max": "NaN", "reduce_min": "NaN", "relu": "NaN",
    "reduce_amax": "NaN", "reduce_amin": "NaN", "maxout": "NaN",
    "bincount": "PaddlePaddle's counts of an empty int32 list are int32",
    "logcumsumexp": "single elements, and numbers after an infinity in ONNX Runtime",
    "trace": "ONNX Runtime keeps the axis of an empty sum",
    "p_norm": "NaN", "max_pool2d_with_index": "NaN", "max_pool3d_with_index": "NaN",
    "bicubic_interp_v2": "ONNX Runtime resizes to a single pixel otherwise",
    "log_softmax": "PaddlePaddle clamps logits", "softmax_with_cross_entropy": "PaddlePaddle clamps logits",
    "matmul": "PaddlePaddle pairs matrices by index", "mish": "a lowered threshold",
    "pool2d": "windows of padding", "pool3d": "windows of padding", "squeeze2": "dims other than 1",
}

RTOL, ATOL = 1e-4, 2e-5

passed, failed = 0, []


def check(is_right, what):
    global passed
    if is_right:
        passed += 1
    else:
        failed.append(what)
        print("FAILED", what)


def near(wanted, found, rtol=RTOL, atol=ATOL):
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return f"expected {wanted.dtype}{wanted.shape}, found {found.dtype}{found.shape}"
    if wanted.dtype.kind in "iub":
        return None if np.array_equal(wanted, found) else "integers differ"
    with np.errstate(all="ignore"):
        is_near = np.isclose(found, wanted, rtol=rtol, atol=atol, equal_nan=True)
    return None if is_near.all() else f"max difference {np.nanmax(np.abs(found.astype('f8') - wanted))}"


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def lodstone(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    return done.returncode == 0, done.stderr.strip()


def compare(name, wanted, found):
    for key in wanted.files:
        what = near(wanted[key], found[key]) if key in found else "is missing"
        check(what is None, f"{name}, output {key}: {what}")


def network(program, folder):
    name = os.path.basename(folder)
    source, out = os.path.join(folder, "inference"), os.path.join(folder, "out.npz")
    feeds = sorted(file.split(".")[0] for file in os.listdir(folder) if file.endswith(".inputs.npz"))
    variants = [("dynamic", []), ("opset-11", ["--opset", "11"]), ("newest", ["--opset", "newest"])]
    first = np.load(os.path.join(folder, f"{feeds[0]}.inputs.npz"))
    shapes = [f"{key}:{','.join(map(str, first[key].shape))}" for key in first.files]
    variants.append(("fixed", [word for shape in shapes for word in ("--input-shape", shape)]))
    for variant, options in variants:
        path = os.path.join(folder, f"{variant}.onnx")
        is_right, error = lodstone(program, "convert", source, path, *options)
        if variant == "opset-11" and "newer opset than 11" in error:
            continue
        check(is_right, f"{name}, {variant}: {error}")
        if not is_right:
            continue
        is_right, error = lodstone(program, "verify", path)
        check(is_right, f"{name}, {variant}, verify: {error}")
        for feed in feeds[:1] if variant == "fixed" else feeds:
            inputs = os.path.join(folder, f"{feed}.inputs.npz")
            wanted = np.load(os.path.join(folder, f"{feed}.outputs.npz"))
            is_right, error = lodstone(program, "run", path, "-i", inputs, "-o", out)
            check(is_right, f"{name}, {variant}, run: {error}")
            if is_right:
                compare(f"{name}, {variant}, input {feed}, in Lodstone", wanted, np.load(out))
        # ONNX Runtime does not have the newest opset.
        if variant == "newest":
            continue
        try:
            onnx.checker.check_model(path, full_check=True)
            check(True, "")
            runtime = session(path)
        except Exception as error:
            check(False, f"{name}, {variant}: {error}")
            continue
        names = [output.name for output in runtime.get_outputs()]
        for feed in feeds[:1] if variant == "fixed" else feeds:
            inputs = dict(np.load(os.path.join(folder, f"{feed}.inputs.npz")))
            wanted = np.load(os.path.join(folder, f"{feed}.outputs.npz"))
            found = dict(zip(names, runtime.run(None, inputs)))
            compare(f"{name}, {variant}, input {feed}, in ONNX Runtime", wanted, found)
    for feed in feeds:
        inputs = os.path.join(folder, f"{feed}.inputs.npz")
        is_right, error = lodstone(program, "run", source, "-i", inputs, "-o", out)
        check(is_right, f"{name}, run: {error}")
        if is_right:
            wanted = np.load(os.path.join(folder, f"{feed}.outputs.npz"))
            compare(f"{name}, input {feed}, the source in Lodstone", wanted, np.load(out))


def operators(folder):
    counts = Counter()
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".onnx"):
            continue
        stem = os.path.join(folder, file.removesuffix(".onnx"))
        kind = next(node for node in [file.split("_", 3)[3].rsplit("_", 1)[0]])
        if not os.path.exists(stem + ".outputs.npz"):
            continue
        inputs = dict(np.load(stem + ".inputs.npz")) if os.path.exists(stem + ".inputs.npz") else {}
        wanted = np.load(stem + ".outputs.npz")
        try:
            runtime = session(stem + ".onnx")
            if any(given.name not in inputs for given in runtime.get_inputs()):
                counts["with types that NumPy does not have"] += 1
                continue
            found = dict(zip([output.name for output in runtime.get_outputs()], runtime.run(None, inputs)))
        except Exception as error:
            text = str(error)
            if "NOT_IMPLEMENTED" in text or "Type Error" in text or "Type 'tensor" in text:
                counts["without a kernel in ONNX Runtime"] += 1
            elif kind in DIFFERENCES:
                counts["other by design"] += 1
            else:
                check(False, f"{file}: {text[:300]}")
            continue
        wrong = [near(wanted[key], found[key]) for key in wanted.files if key in found]
        wrong = [what for what in wrong if what]
        if wrong and kind in DIFFERENCES:
            counts["other by design"] += 1
            continue
        check(not wrong, f"{file}: {wrong}")
        counts["the same"] += 1
    print("operators:", ", ".join(f"{count} {what}" for what, count in counts.items()))
    check(counts["the same"] > 1700, f"only {counts['the same']} operators were compared")


def main(program, networks, models=None):
    for folder in sorted(os.listdir(networks)):
        network(program, os.path.join(networks, folder))
    if models:
        operators(models)
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
