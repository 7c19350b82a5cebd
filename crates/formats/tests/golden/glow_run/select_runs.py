"""Selects recorded runs of Glow, and lists them in `runs.json`.

    python select_runs.py COLLECTION

Models were written by Glow's own exporter from models of its tests (commit 05dd99b9, built in debug mode) after
loading them; inputs and outputs are those of its interpreter in that test.
COLLECTION has all of them, in `cases.json`. The selection is the smallest runs that together cover every kind of node
with every element kind and every layout of the collection. Glow is archived, and its build needs
a compiler and an LLVM of 2020, so no script recreates them.

    {"runs": [{"path": PATH, "inputs": ARRAYS, "outputs": ARRAYS, "tolerance": T}, ...]}

ARRAYS is {name: {"dtype", "shape", "data", "quantized"}}: quantized arrays hold raw integers, and may differ by
one. T is present if the maximum accepted difference is not the default, with the reason beside
it here.
"""

import json
import os
import re
import shutil
import sys

import onnx

HERE = os.path.dirname(os.path.abspath(__file__))

# The maximum accepted differences, for the magnitudes in these runs.
TOLERANCES = {
    # The differences between two spectra whose powers are in the thousands.
    "onnx__audioSpectrogramOneWindow": 1e-3,
    "onnx__audioSpectrogramTwoWindow": 4e-3,
    # Intermediate half precision, to which runtimes need not round.
    "caffe2__fbfcpacked_4d_first_axis_predict_net": 2e-3,
}

# The two examples of Glow's documentation are always selected.
ALWAYS = ("glow_custom_op_topk_quantized", "glow_custom_op_channelwise_quantized_group_conv")


def array(tensor):
    data = tensor.get("values")
    if data is None:
        count = 1
        for dim in tensor["dims"]:
            count *= dim
        data = [tensor["fill"]] * count
    told = {"dtype": tensor["dtype"], "shape": tensor["dims"], "data": data}
    if "scale" in tensor:
        told["quantized"] = True
    return told


def named(arrays, names):
    """Returns the arrays by Glow's names: Glow replaces invalid characters, or appends a number."""
    found = {}
    for (name, tensor), position in zip(arrays.items(), range(len(arrays))):
        name = tensor.get("glow_placeholder") or name
        name = name if name in names else re.sub("[^A-Za-z0-9_]", "_", name)
        if name not in names and len(names) == len(arrays):
            name = names[position]
        if name not in names:
            return None
        found[name] = array(tensor)
    return found


def candidates(root):
    with open(os.path.join(root, "cases.json"), encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    for case in cases:
        written = case.get("glow_exports_of_loaded_graph") or {}
        if case["kind"] not in ("run", "run_extra") or "glowcustom.onnx" not in written:
            continue
        if case["id"].endswith(("#1", "#2", "#3", "#4")):
            continue  # The model is of other dims.
        tensors = list(case["inputs"].values()) + list(case["outputs"].values())
        if any("values" not in tensor and "fill" not in tensor for tensor in tensors):
            continue
        path = os.path.join(root, "golden", os.path.basename(written["glowcustom.onnx"]))
        model = onnx.load(path)
        constants = {tensor.name for tensor in model.graph.initializer}
        inputs = [value.name for value in model.graph.input if value.name not in constants]
        outputs = [value.name for value in model.graph.output]
        told = {
            "path": os.path.basename(path).replace(".glowcustom", ""),
            "inputs": named({k: v for k, v in case["inputs"].items()}, inputs),
            "outputs": named(case["outputs"], outputs),
        }
        if told["inputs"] is None or told["outputs"] is None or set(told["inputs"]) != set(inputs):
            continue
        stem = told["path"][: -len(".onnx")]
        if stem in TOLERANCES:
            told["tolerance"] = TOLERANCES[stem]
        traits = set()
        for node in model.graph.node:
            if node.op_type == "Identity" or node.op_type == "Glow_GaussianFill":
                continue
            traits |= {(node.op_type, a.s) for a in node.attribute if a.name in ("i0_elemKind", "Layout")}
            traits.add((node.op_type, ""))
        yield len(json.dumps(told)) + os.path.getsize(path), path, told, frozenset(traits)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = sorted(candidates(sys.argv[1]), key=lambda one: (one[0], one[1]))
    wanted = set().union(*(traits for *_, traits in found))
    chosen = [one for one in found if any(name in one[1] for name in ALWAYS)]
    covered = set().union(*(traits for *_, traits in chosen))
    while wanted - covered:
        best = max(found, key=lambda one: len(one[3] - covered) / one[0] ** 0.5)
        chosen.append(best)
        covered |= best[3]
    runs = []
    for _, path, told, _ in sorted(chosen, key=lambda one: one[2]["path"]):
        shutil.copy(path, os.path.join(HERE, told["path"]))
        runs.append(told)
    with open(os.path.join(HERE, "runs.json"), "w", encoding="utf-8", newline="\n") as file:
        lines = ",\n".join("  " + json.dumps(run) for run in runs)
        file.write('{"runs": [\n' + lines + "\n]}\n")
    print("{} runs".format(len(runs)))


if __name__ == "__main__":
    main()
