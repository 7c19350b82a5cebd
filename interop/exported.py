"""Runs exported models with ONNX Runtime and with Lodstone, and compares the recorded outputs.

    python exported.py LODSTONE NETWORKS [OPERATORS]

NETWORKS has folders that `paddle_networks.py` or `mxnet_networks.py` wrote. Those of PaddlePaddle 3 are also converted for PaddlePaddle 2, to
`older/inference.pdmodel`, which `paddle_older.py` runs. Each is exported with dynamic and with fixed dims, at the default
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

# Operators whose results differ if an input has NaN, which exports leave to the runtime.
NAN = {
    "arg_max", "arg_min", "argsort", "elementwise_max", "elementwise_min", "hard_shrink", "max_pool2d_with_index", "maxout",
    "p_norm", "pool2d", "pool3d", "reduce_amax", "reduce_max", "reduce_min", "relu", "softshrink", "thresholded_relu", "top_k_v2",
}

# Operators of which some recorded cases without NaN have other results: the number of these cases, and the reason.
DIFFERENCES = {
    "batch_norm": (22, "an export is for inference, and these cases train"),
    "bincount": (1, "PaddlePaddle's counts of an empty int32 list are int32"),
    "cast": (4, "PaddlePaddle truncates when it casts to float16"),
    "conv2d": (1, "PaddlePaddle has a window where the filter is larger than the image"),
    "cumsum": (2, "PaddlePaddle's exclusive sum of a single element is the element"),
    "einsum": (2, "ONNX Runtime rejects ellipses of different dims"),
    "fake_quantize_dequantize_moving_average_abs_max": (2, "PaddlePaddle rounds halves away from zero"),
    "fake_quantize_moving_average_abs_max": (2, "PaddlePaddle rounds halves away from zero"),
    "fill_constant": (2, "PaddlePaddle 2 reads an integer of `str_value` in double precision, PaddlePaddle 1 exactly"),
    "generate_proposals": (2, "PaddlePaddle writes a row for an image without boxes"),
    "generate_proposals_v2": (4, "PaddlePaddle writes a row for an image without boxes"),
    "log_softmax": (4, "PaddlePaddle clamps logits"),
    "logcumsumexp": (3, "PaddlePaddle's exclusive result of one element; ONNX Runtime's numbers after an infinity"),
    "matmul": (2, "PaddlePaddle pairs matrices by index"),
    "multiclass_nms": (4, "PaddlePaddle writes a row if there are no boxes"),
    "pool2d": (18, "ONNX Runtime merges padding into the pooling, and rejects it then; or rejects strides beyond the window"),
    "quantize_linear": (2, "PaddlePaddle rounds halves away from zero"),
    "softmax_with_cross_entropy": (4, "PaddlePaddle clamps logits"),
    "squeeze2": (1, "PaddlePaddle keeps dims other than 1"),
    "trace": (2, "ONNX Runtime keeps the axis of an empty sum"),
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
        difference = np.abs(found.astype("f8") - wanted)[~is_near]
    return None if is_near.all() else f"max difference {difference.max()}"


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


def open_shapes(folder):
    """Returns the shapes of inputs that an export cannot find out."""
    path = os.path.join(folder, "shapes.txt")
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return file.read().split()


def network(program, folder):
    name = os.path.basename(folder)
    is_mxnet = os.path.exists(os.path.join(folder, "net-symbol.json"))
    source, out = os.path.join(folder, "net" if is_mxnet else "inference"), os.path.join(folder, "out.npz")
    if os.path.exists(source + ".json"):
        is_right, error = lodstone(program, "convert", source, os.path.join(folder, "older/inference.pdmodel"))
        check(is_right, f"{name}, to PaddlePaddle 2: {error}")
    feeds = sorted(file.split(".")[0] for file in os.listdir(folder) if file.endswith(".inputs.npz"))
    dynamic = [word for shape in open_shapes(folder) for word in ("--input-shape", shape)]
    variants = [("dynamic", []), ("opset-11", ["--opset", "11"]), ("newest", ["--opset", "newest"])]
    variants = [(variant, dynamic + options) for variant, options in variants]
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


def has_nan(arrays):
    return any(array.dtype.kind == "f" and np.isnan(array).any() for array in arrays)


def operator(stem, inputs, wanted):
    """Returns what differs, and whether ONNX Runtime cannot run the operator for lack of a kernel or of a NumPy type."""
    try:
        runtime = session(stem + ".onnx")
        if any(given.name not in inputs for given in runtime.get_inputs()):
            return None, "with types that NumPy does not have"
        found = dict(zip([output.name for output in runtime.get_outputs()], runtime.run(None, inputs)))
    except Exception as error:
        text = str(error)
        if "NOT_IMPLEMENTED" in text or "Type Error" in text or "Type 'tensor" in text:
            return None, "without a kernel in ONNX Runtime"
        return text[:300], None
    wrong = [near(wanted[key], found[key]) for key in wanted.files if key in found]
    return "; ".join(what for what in wrong if what), None


def operators(folder):
    counts, other, nan = Counter(), {}, set()
    for file in sorted(os.listdir(folder)):
        stem = os.path.join(folder, file.removesuffix(".onnx"))
        if not file.endswith(".onnx") or not os.path.exists(stem + ".outputs.npz"):
            continue
        kind = file.split("_", 3)[3].rsplit("_", 1)[0]
        inputs = dict(np.load(stem + ".inputs.npz")) if os.path.exists(stem + ".inputs.npz") else {}
        wrong, skipped = operator(stem, inputs, np.load(stem + ".outputs.npz"))
        if skipped:
            counts[skipped] += 1
        elif not wrong:
            check(True, "")
            counts["the same"] += 1
        elif kind in NAN and has_nan(inputs.values()):
            nan.add(kind)
            counts["other for NaN"] += 1
        elif kind in DIFFERENCES:
            other.setdefault(kind, []).append(f"{file}: {wrong}")
            counts["other by design"] += 1
        else:
            check(False, f"{file}: {wrong}")
    print("operators:", ", ".join(f"{count} {what}" for what, count in counts.items()))
    for kind, (count, reason) in DIFFERENCES.items():
        found = other.get(kind, [])
        check(len(found) == count, f"`{kind}`: expected {count} differences ({reason}), found {found}")
    check(nan == NAN, f"expected differences of NaN in {NAN - nan}")
    check(counts["the same"] > 6200, f"only {counts['the same']} operators were compared")


def main(program, networks, models=None):
    for folder in sorted(os.listdir(networks)):
        network(program, os.path.join(networks, folder))
    if models:
        operators(models)
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
