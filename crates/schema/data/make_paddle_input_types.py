"""Writes `paddle_input_types.tsv`, beside this script: input slots of integers that the installed PaddlePaddle reads in
one type only.

    python make_paddle_input_types.py

Run with 2.6.2, whose conventions written programs follow. One line a slot: the operator, the slot, and the type. Each
operator is called with `int32` and with `int64`, in a process of its own, since PaddlePaddle may crash; a slot that
takes both has no line. The registry does not have these types: kernels read such inputs without looking at them.
"""
import os

os.environ["GLOG_minloglevel"] = "3"

import numpy as np
import paddle
from paddle import static

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "paddle_input_types.tsv")


def floats(*shape):
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


X, IMAGE, REGIONS = floats(2, 3, 4), floats(1, 2, 4, 4), floats(2, 4)
POOL = {"pooled_height": 2, "pooled_width": 2, "spatial_scale": 1.0}


class Integers:
    """Integers in the types that are tried: one tensor, or each in a tensor of its own."""

    def __init__(self, *values, each=False):
        self.values, self.each = values, each

    def arrays(self, dtype):
        return [np.array([value], dtype) for value in self.values] if self.each else [np.array(self.values, dtype)]


def each(*values):
    return Integers(*values, each=True)


def calls():
    """Yields calls: the operator, its inputs, attributes and outputs."""
    images = {"linear": (floats(1, 2, 4), 1), "bilinear": (IMAGE, 2), "nearest": (IMAGE, 2), "bicubic": (IMAGE, 2),
              "trilinear": (floats(1, 2, 3, 3, 3), 3)}
    for method, (image, dims) in images.items():
        how = {"interp_method": method, "align_corners": False}
        yield f"{method}_interp_v2", {"X": image, "OutSize": Integers(*[5] * dims)}, how, ["Out"]
        yield f"{method}_interp_v2", {"X": image, "SizeTensor": each(*[5] * dims)}, how, ["Out"]
    yield "sequence_mask", {"X": np.array([1, 2]), "MaxLenTensor": Integers(4)}, {"out_dtype": 3}, ["Y"]
    cube = {"paddings": [], "mode": "constant", "data_format": "NCDHW"}
    yield "pad3d", {"X": floats(1, 2, 3, 3, 3), "Paddings": Integers(1, 0, 0, 1, 2, 0)}, cube, ["Out"]
    yield "concat", {"X": [X, X], "AxisTensor": Integers(1)}, {}, ["Out"]
    yield "split", {"X": X, "AxisTensor": Integers(1)}, {"num": 3, "sections": []}, {"Out": 3}
    parts = {"num": 0, "sections": [-1, -1], "axis": 1}
    yield "split", {"X": X, "SectionsTensorList": each(1, 2)}, parts, {"Out": 2}
    yield "expand_v2", {"X": X, "Shape": Integers(2, 2, 3, 4)}, {}, ["Out"]
    yield "expand_v2", {"X": X, "expand_shapes_tensor": each(2, 2, 3, 4)}, {"shape": [-1] * 4}, ["Out"]
    yield "reshape2", {"X": X, "Shape": Integers(6, 4)}, {}, ["Out", "XShape"]
    yield "reshape2", {"X": X, "ShapeTensor": each(6, 4)}, {"shape": [-1, -1]}, ["Out", "XShape"]
    for kind, ends in [("slice", ["Starts", "Ends"]), ("strided_slice", ["Starts", "Ends", "Strides"])]:
        how, values = {"axes": [1], "infer_flags": [-1]}, [0, 2, 1]
        yield kind, {"Input": X, **{f"{it}Tensor": Integers(at) for it, at in zip(ends, values)}}, how, ["Out"]
        how = {**how, **{it.lower(): [-1] for it in ends}}
        yield kind, {"Input": X, **{f"{it}TensorList": each(at) for it, at in zip(ends, values)}}, how, ["Out"]
    yield "tile", {"X": X, "RepeatTimes": Integers(2, 1, 1)}, {}, ["Out"]
    yield "tile", {"X": X, "repeat_times_tensor": each(2, 1, 1)}, {"repeat_times": [-1] * 3}, ["Out"]
    for kind in ("top_k", "top_k_v2"):
        yield kind, {"X": X, "K": Integers(2)}, {}, ["Out", "Indices"]
    yield "unsqueeze2", {"X": X, "AxesTensor": Integers(1)}, {}, ["Out", "XShape"]
    yield "unsqueeze2", {"X": X, "AxesTensorList": each(1)}, {}, ["Out", "XShape"]
    for kind, how in {"uniform_random": {}, "gaussian_random": {}, "empty": {}, "fill_constant": {"value": 1.0},
                      "randint": {"low": 0, "high": 9}}.items():
        how = {**how, "dtype": 3 if kind == "randint" else 5}
        yield kind, {"ShapeTensor": Integers(2, 3)}, how, ["Out"]
        yield kind, {"ShapeTensorList": each(2, 3)}, {**how, "shape": [-1, -1]}, ["Out"]
    yield "roll", {"X": X, "ShiftsTensor": Integers(1)}, {"axis": [1]}, ["Out"]
    yield "one_hot_v2", {"X": np.array([0, 1]), "depth_tensor": Integers(3)}, {"depth": 0, "dtype": 5}, ["Out"]
    yield "crop_tensor", {"X": X, "Shape": Integers(1, 2, 2), "Offsets": Integers(0, 1, 1)}, {}, ["Out"]
    lists = {"X": X, "ShapeTensor": each(1, 2, 2), "OffsetsTensor": each(0, 1, 1)}
    yield "crop_tensor", lists, {"shape": [-1] * 3, "offsets": [-1] * 3}, ["Out"]
    lists = {f"{name}TensorList": each(at) for name, at in [("Starts", 0), ("Ends", 1), ("Steps", 1)]}
    yield "set_value", {"Input": X, **lists, "ValueTensor": floats(1)}, {"axes": [0], "dtype": 5, "shape": [1]}, ["Out"]
    yield "gather", {"X": X, "Index": np.array([0, 1]), "Axis": Integers(1)}, {}, ["Out"]
    shape = Integers(1, 1, 3, 4)
    yield "affine_grid", {"Theta": floats(1, 2, 3), "OutputShape": shape}, {"align_corners": True}, ["Output"]
    yield "linspace", {"Start": floats(1), "Stop": floats(1), "Num": Integers(4)}, {"dtype": 5}, ["Out"]
    yield "cumsum", {"X": X, "AxisTensor": Integers(1)}, {}, ["Out"]
    yield "repeat_interleave", {"X": X, "RepeatsTensor": Integers(1, 2, 1)}, {"dim": 1}, ["Out"]
    yield "gather_nd", {"X": X, "Index": Integers([0, 1])}, {}, ["Out"]
    yield "index_select", {"X": X, "Index": Integers(0, 1)}, {"dim": 1}, ["Out"]
    rows = {"X": floats(3, 2), "Updates": floats(2, 2)}
    yield "scatter", {**rows, "Ids": Integers(0, 1)}, {}, ["Out"]
    yield "scatter_nd_add", {**rows, "Index": Integers([0], [1])}, {}, ["Out"]
    yield "take_along_axis", {"Input": floats(3, 2), "Index": Integers([0, 1])}, {"Axis": 0}, ["Result"]
    whole = {"Input": floats(3, 2), "Index": Integers([0, 1]), "Value": floats(1, 2)}
    yield "put_along_axis", whole, {"Axis": 0, "Reduce": "assign"}, ["Result"]
    yield "index_sample", {"X": floats(2, 3), "Index": Integers([0, 1], [1, 2])}, {}, ["Out"]
    yield "lookup_table_v2", {"W": floats(3, 2), "Ids": Integers(0, 1)}, {}, ["Out"]
    yield "nll_loss", {"X": floats(2, 3), "Label": Integers(0, 1)}, {}, ["Out", "Total_weight"]
    labels = Integers([0], [1])
    yield "softmax_with_cross_entropy", {"Logits": floats(2, 3), "Label": labels}, {}, ["Softmax", "Loss"]
    column = np.array([[0], [1]])
    results = ["Accuracy", "Correct", "Total"]
    yield "accuracy", {"Out": floats(2, 1), "Indices": labels, "Label": column}, {}, results
    yield "accuracy", {"Out": floats(2, 1), "Indices": column, "Label": labels}, {}, results
    yield "multiplex", {"X": [floats(2, 2), floats(2, 2)], "Ids": labels}, {}, ["Out"]
    yield "segment_pool", {"X": floats(3, 2), "SegmentIds": Integers(0, 0, 1)}, {"pooltype": "SUM"}, ["Out", "SummedIds"]
    regions = {"X": IMAGE, "ROIs": REGIONS, "RoisNum": Integers(2)}
    yield "roi_align", regions, POOL, ["Out"]
    yield "roi_pool", regions, POOL, ["Out", "Argmax"]
    yield "psroi_pool", {**regions, "X": floats(1, 8, 4, 4)}, {**POOL, "output_channels": 2}, ["Out"]
    boxes = {"anchors": [10, 13, 16, 30], "class_num": 2, "conf_thresh": 0.01, "downsample_ratio": 32}
    yield "yolo_box", {"X": floats(1, 14, 2, 2), "ImgSize": Integers([32, 32])}, boxes, ["Boxes", "Scores"]
    windows = {"ksize": [2, 2], "strides": [2, 2], "unpooling_type": "max", "output_size": [4, 4]}
    yield "unpool", {"X": floats(1, 1, 2, 2), "Indices": Integers([[[0, 3], [8, 10]]])}, windows, ["Out"]
    scores = {"Input": floats(1, 2, 4), "Transition": floats(4, 4), "Length": Integers(2)}
    yield "viterbi_decode", scores, {"include_bos_eos_tag": False}, ["Scores", "Path"]
    levels = {"min_level": 2, "max_level": 3, "refer_level": 2, "refer_scale": 16}
    results = {"MultiFpnRois": 2, "RestoreIndex": 1, "MultiLevelRoIsNum": 2}
    yield "distribute_fpn_proposals", {"FpnRois": REGIONS, "RoisNum": Integers(2)}, levels, results
    lengths = {"LogitsLength": np.array([2]), "LabelLength": np.array([1])}
    yield "warpctc", {"Logits": floats(2, 1, 3), "Label": Integers([1]), **lengths}, {}, ["WarpCTCGrad", "Loss"]


def run(kind, inputs, attributes, outputs, dtype):
    """Calls an operator; raises if PaddlePaddle refuses it."""
    program, feed, slots = static.Program(), {}, {}
    outputs = outputs if isinstance(outputs, dict) else {slot: 1 for slot in outputs}
    with static.program_guard(program):
        block = program.global_block()
        for slot, value in inputs.items():
            arrays = value.arrays(dtype) if isinstance(value, Integers) else value if isinstance(value, list) else [value]
            slots[slot] = [f"{slot}{at}" for at in range(len(arrays))]
            for name, array in zip(slots[slot], arrays):
                block.create_var(name=name, shape=array.shape, dtype=array.dtype.name, is_data=True)
                feed[name] = array
        written = {slot: [f"{slot}_{at}" for at in range(count)] for slot, count in outputs.items()}
        for name in sum(written.values(), []):
            block.create_var(name=name)
        block.append_op(type=kind, inputs=slots, outputs=written, attrs=attributes)
    fetch = next(iter(written.values()))[:1]
    static.Executor(paddle.CPUPlace()).run(program, feed=feed, fetch_list=fetch, return_numpy=False)


def takes(call, dtype):
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            run(*call, dtype)
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def main():
    paddle.enable_static()
    lines = []
    for call in calls():
        taken = [dtype for dtype in ("int32", "int64") if takes(call, dtype)]
        slots = [slot for slot, value in call[1].items() if isinstance(value, Integers)]
        if not taken:
            raise SystemExit(f"PaddlePaddle refuses {call[0]} with {slots}")
        if len(taken) == 1:
            lines += [f"{call[0]}\t{slot}\t{taken[0]}\n" for slot in slots]
    with open(TABLE, "w") as table:
        table.writelines(sorted(lines))
    print(len(lines), "slots")


if __name__ == "__main__":
    main()
