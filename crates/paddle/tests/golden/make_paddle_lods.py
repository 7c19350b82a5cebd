"""Records the LoD that PaddlePaddle 2.6.2 assigns to the results of operators and of their gradients.

    python make_paddle_lods.py OUT_DIR

Writes the same files as `make_paddle_operators.py`: a case for each operator, and one for its gradient. Each input of
an operator has a different LoD, so that the LoD of a result identifies the input that it comes from.
"""

import sys

import make_paddle_gradients as gradients
import make_paddle_operators as operators
from make_paddle_operators import F32, Lod, Recorder, bools, integers, normal, np, numbers, paddle, shares


class Both(gradients.Gradients):
    """Records operators and their gradients, unless these are not computed."""

    with_gradients = True

    def run(self, *call):
        Recorder.run(self, *call)
        if self.with_gradients:
            super().run(*call)


record = operators.record = Both()
case = record.case


def lods():
    def of(place, array):
        return Lod(array, [[place + 1, len(array) - place - 1]])

    x, y = of(0, normal(5, 5)), of(1, normal(5, 5, key="y"))
    for kind in ["elementwise_add", "elementwise_sub", "elementwise_mul", "less_than", "matmul", "matmul_v2", "mul"]:
        case(kind, {"X": x, "Y": y})
    case("where", {"Condition": of(2, bools(5, 5)), "X": x, "Y": y})
    case("bmm", {"X": of(0, normal(5, 2, 3)), "Y": of(1, normal(5, 3, 2))})
    for kind in ["abs", "isnan_v2", "fill_any_like", "relu", "exp", "softmax"]:
        case(kind, {"X": x})
    case("expand_v2", {"X": x}, {"shape": [5, 5]})
    case("expand_as_v2", {"X": x}, {"target_shape": [5, 5]})
    case("tile", {"X": x}, {"repeat_times": [1, 2]})
    case("gather", {"X": x, "Index": of(1, numbers(4, 0, 0, 1, 2))})
    case("gather_nd", {"X": x, "Index": of(1, integers(5, 1, low=0, high=5))})
    case("index_select", {"X": x, "Index": of(1, numbers(4, 0, 0))}, {"dim": 1})
    case("index_sample", {"X": x, "Index": of(1, integers(5, 2, low=0, high=5))})
    case("scatter", {"X": x, "Ids": of(1, numbers(4, 0, 3, 1, 2)), "Updates": of(2, normal(5, 5, key="z"))})
    distinct = of(0, np.arange(25, dtype=F32).reshape(5, 5))
    case("top_k_v2", {"X": distinct}, {"k": 2}, ["Out", "Indices"])
    case("argsort", {"X": distinct}, {}, ["Out", "Indices"])
    case("cumsum", {"X": x})
    case("slice", {"Input": x}, {"axes": [1], "starts": [1], "ends": [4]})
    strided = {"axes": [1], "starts": [0], "ends": [5], "strides": [2], "infer_flags": [1]}
    case("strided_slice", {"Input": x}, strided)
    case("pad", {"X": x}, {"paddings": [0, 0, 1, 1]})
    case("transpose2", {"X": x}, {"axis": [0, 1]}, ["Out", "XShape"], ["XShape"])
    case("reshape2", {"X": x}, {"shape": [5, 5, 1]}, ["Out", "XShape"], ["XShape"])
    three = [x, y, of(2, normal(5, 5, key="z"))]
    case("concat", {"X": three}, {"axis": 1})
    case("concat", {"X": three}, {"axis": 0})
    case("concat", {"X": [normal(5, 5), x]}, {"axis": 0})
    two_levels = Lod(normal(5, 5), [[1, 1], [2, 3]])
    case("concat", {"X": [two_levels, two_levels]}, {"axis": 0})
    case("stack", {"X": three}, {"axis": 1}, ["Y"])
    case("unbind", {"X": of(0, normal(5, 2))}, {"axis": 1}, {"Out": 2})
    case("unstack", {"X": of(0, normal(5, 2))}, {"axis": 1, "num": 2}, {"Y": 2})
    case("split", {"X": of(0, normal(5, 4))}, {"num": 2, "axis": 1}, {"Out": 2})
    case("huber_loss", {"X": of(0, normal(5, 1)), "Y": of(1, normal(5, 1, key="y"))}, {"delta": 1.0}, ["Out", "Residual"])
    case("log_loss", {"Predicted": of(0, shares(5, 1)), "Labels": of(1, shares(5, 1))}, {"epsilon": 1e-4}, ["Loss"])
    case("kldiv_loss", {"X": x, "Target": y}, {"reduction": "none"}, ["Loss"])
    label = of(1, integers(5, 1, low=0, high=5))
    case("softmax_with_cross_entropy", {"Logits": x, "Label": label}, {}, ["Softmax", "Loss"])
    case("cross_entropy", {"X": of(0, shares(5, 5)), "Label": label}, {}, ["Y"])
    image = of(0, normal(5, 4, 3, 3))
    case("pool2d", {"X": image}, {"pooling_type": "max", "ksize": [2, 2]})
    case("conv2d", {"Input": image, "Filter": normal(2, 4, 2, 2)}, {}, ["Output"])
    case("bilinear_interp_v2", {"X": image}, {"out_h": 2, "out_w": 2})
    case("pixel_shuffle", {"X": image}, {"upscale_factor": 2})
    case("grid_sampler", {"X": image, "Grid": of(1, normal(5, 2, 2, 2, scale=0.25))}, {}, ["Output"])
    case("mean", {"X": x})
    case("increment", {"X": Lod(normal(1), [[0, 1]])}, {"step": 2.0})
    case("add_position_encoding", {"X": of(0, normal(5, 4))}, {"alpha": 2.0, "beta": 1.0})
    record.with_gradients = False
    case("mv", {"X": x, "Vec": of(1, normal(5))})
    case("dot", {"X": x, "Y": y})
    case("addmm", {"Input": of(2, normal(5, 5, key="z")), "X": x, "Y": y})
    case("fc", {"Input": x, "W": y, "Bias": normal(5)}, {"in_num_col_dims": 1})
    equation = {"equation": "ij,jk->ik"}
    outputs = {"Out": 1, "InnerCache": 2, "XShape": 2}
    case("einsum", {"Operands": [x, y]}, equation, outputs, ["InnerCache", "XShape"])
    case("frobenius_norm", {"X": x}, {"dim": [1]})
    case("lrn", {"X": image}, {}, ["Out", "MidOut"], ["MidOut"])
    sums = {slot: shares(1, 5)[0] for slot in ["BatchSize", "BatchSum", "BatchSquareSum"]}
    case("data_norm", {"X": x, **sums}, {}, ["Y", "Means", "Scales"])
    case("expand", {"X": x}, {"expand_times": [1, 2]})
    case("crop", {"X": x}, {"shape": [5, 2], "offsets": [0, 1]})
    case("crop_tensor", {"X": x}, {"shape": [5, 2], "offsets": [0, 1]})
    steps = {"axes": [0], "starts": [1], "ends": [2], "steps": [1], "dtype": 5}
    case("set_value", {"Input": x, "ValueTensor": normal(1, 5, key="v")}, steps)
    case("unique_consecutive", {"X": of(0, numbers(1, 2, 3, 4, 5))}, {"axis": [], "dtype": 3}, ["Out"])
    case("sequence_mask", {"X": of(0, numbers(1, 2, 3, 0, 1))}, {"maxlen": 3, "out_dtype": 5}, ["Y"])
    scale = np.ones(1, F32)
    for kind in ["fake_quantize_abs_max", "fake_quantize_dequantize_abs_max"]:
        case(kind, {"X": x}, {}, ["Out", "OutScale"])
    for kind in ["fake_channel_wise_quantize_abs_max", "fake_channel_wise_quantize_dequantize_abs_max"]:
        case(kind, {"X": x}, {}, ["Out", "OutScale"])
    for kind in [
        "fake_quantize_moving_average_abs_max", "fake_quantize_dequantize_moving_average_abs_max",
        "fake_quantize_range_abs_max",
    ]:
        case(kind, {"X": x, "InScale": scale}, {"is_test": True}, ["Out", "OutScale"], ["OutScale"])
    case("moving_average_abs_max_scale", {"X": x}, {"is_test": True}, ["Out", "OutScale"], ["OutScale"])
    case("fake_dequantize_max_abs", {"X": x, "Scale": scale}, {"max_range": 127.0})
    case("fake_channel_wise_dequantize_max_abs", {"X": x, "Scales": np.ones(5, F32)}, {"quant_bits": [8]})
    for kind in ["quantize_linear", "dequantize_linear"]:
        case(kind, {"X": x, "Scale": scale, "ZeroPoint": scale}, {"quant_axis": -1}, ["Y"])
    case("shuffle_channel", {"X": image}, {"group": 2})
    case("temporal_shift", {"X": image}, {"seg_num": 5})
    filters = {"strides": [1, 1], "paddings": [0, 0], "dilations": [1, 1], "groups": 1, "deformable_groups": 1}
    deformed = {"Input": image, "Offset": of(1, normal(5, 8, 2, 2)), "Filter": normal(2, 4, 2, 2)}
    case("deformable_conv_v1", deformed, {**filters, "im2col_step": 1}, ["Output"])
    deformed["Mask"] = of(2, normal(5, 4, 2, 2))
    case("deformable_conv", deformed, {**filters, "im2col_step": 1}, ["Output"])
    case("affine_grid", {"Theta": of(0, normal(5, 2, 3))}, {"output_shape": [5, 1, 2, 2]}, ["Output"])
    step = {"Input": of(0, normal(5, 6)), "HiddenPrev": of(1, normal(5, 2)), "Weight": normal(2, 6)}
    case("gru_unit", step, {}, ["Gate", "ResetHiddenPrev", "Hidden"])
    found, prior = of(0, operators.corners(5)), of(1, operators.corners(5, key="p"))
    case("iou_similarity", {"X": found, "Y": prior}, {"box_normalized": True})
    encoding = {"code_type": "encode_center_size", "variance": [0.1, 0.1, 0.2, 0.2]}
    case("box_coder", {"PriorBox": prior, "TargetBox": found}, encoding, ["OutputBox"])
    case("polygon_box_transform", {"Input": image}, {}, ["Output"])
    case("anchor_generator", {"Input": of(0, normal(5, 1, 5, 5))}, {
        "anchor_sizes": [4.0], "aspect_ratios": [1.0], "variances": [1.0] * 4, "stride": [4.0, 4.0],
    }, ["Anchors", "Variances"])
    inputs = {"Input": of(0, normal(5, 1, 5, 5)), "Image": of(1, normal(5, 1, 9, 9))}
    case("prior_box", inputs, {"min_sizes": [2.0], "variances": [1.0] * 4}, ["Boxes", "Variances"])
    inputs = {"X": of(0, normal(5, 6, 1, 1)), "ImgSize": of(1, integers(5, 2, low=9, high=20, dtype="int32"))}
    case("yolo_box", inputs, {"anchors": [3, 4], "class_num": 1}, ["Boxes", "Scores"])
    pooled = {"pooled_height": 1, "pooled_width": 1}
    images = of(1, normal(5, 2, 9, 9))
    rois = Lod(operators.corners(5, size=8.0), [[1, 1, 1, 1, 1]])
    case("roi_align", {"X": images, "ROIs": rois}, pooled)
    case("roi_pool", {"X": images, "ROIs": rois}, pooled, ["Out", "Argmax"], ["Argmax"])
    unit = of(0, shares(5, 3))
    for kind in [
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "celu", "cosh", "expm1", "log10", "logit", "sinh", "stanh",
        "tan", "tanh_shrink", "trunc",
    ]:
        case(kind, {"X": unit if kind != "acosh" else of(0, shares(5, 3) + 1)})
    case("isinf_v2", {"X": x})
    case("atan2", {"X1": x, "X2": y})
    for kind in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
        case(kind, {"X": of(0, integers(5, 2)), "Y": of(1, integers(5, 2, key="y"))})
    case("bitwise_not", {"X": of(0, integers(5, 2))})
    for kind in ["elementwise_fmax", "elementwise_fmin", "elementwise_heaviside"]:
        case(kind, {"X": x, "Y": y})
    case("lerp", {"X": x, "Y": y, "Weight": of(2, normal(5, 1))})
    case("kron", {"X": x, "Y": Lod(normal(1, 2), [[1]])})
    case("kron", {"X": Lod(normal(1, 2), [[1]]), "Y": y})
    for kind in ["reduce_amax", "reduce_amin"]:
        case(kind, {"X": x}, {"dim": [1]})
    case("isclose", {"Input": x, "Other": y})
    case("allclose", {"Input": x, "Other": y})
    case("dist", {"X": x, "Y": y})
    case("maxout", {"X": image}, {"groups": 2})
    case("channel_shuffle", {"X": image}, {"groups": 2})
    case("pixel_unshuffle", {"X": of(0, normal(5, 1, 2, 2))}, {"downscale_factor": 2})
    case("broadcast_tensors", {"X": [of(0, normal(5, 1)), y]}, {}, {"Out": 2})
    case("multiplex", {"Ids": of(0, integers(5, 1, low=0, high=2, dtype="int32")), "X": [of(1, normal(5, 2)), of(2, normal(5, 2, key="z"))]})
    case("multi_dot", {"X": [x, y]})
    case("cross", {"X": of(0, normal(5, 3)), "Y": of(1, normal(5, 3, key="y"))}, {"dim": 1})
    case("cumprod", {"X": x}, {"dim": 1})
    case("logcumsumexp", {"X": x}, {"axis": 1})
    index = of(1, numbers(4, 0, 0, 1, 2))
    case("index_put", {"x": x, "indices": index, "value": of(2, normal(5, 5, key="z"))}, {"accumulate": True}, ["out"])
    case("index_add", {"X": x, "Index": index, "AddValue": of(2, normal(5, 5, key="z"))}, {"axis": 0})
    placed = {"Input": x, "Index": of(1, integers(5, 2, low=0, high=5)), "Value": of(2, normal(5, 2, key="z"))}
    case("put_along_axis", placed, {"Axis": 1, "Reduce": "add"}, ["Result"])
    rows = Lod(np.sort(normal(5, 4)), [[1, 4]])
    case("searchsorted", {"SortedSequence": rows, "Values": y})
    case("bincount", {"X": of(0, numbers(4, 0, 0, 1, 2))})
    case("histogram", {"X": x}, {"bins": 5})
    case("diag_v2", {"X": x})
    case("diag_v2", {"X": of(0, normal(5))})
    case("diag_embed", {"Input": x})
    case("diagonal", {"Input": of(0, normal(5, 2, 5))}, {"axis1": 1, "axis2": 2})
    case("trace", {"Input": of(0, normal(5, 2, 5))}, {"axis1": 1, "axis2": 2})
    products = {"X": x, "Y": y, "Weight": Lod(normal(5, 5, 5), [[3, 2]]), "Bias": normal(1, 5)}
    case("bilinear_tensor_product", products)
    folds = {"output_sizes": [2, 2], "kernel_sizes": [2, 1], "strides": [1, 1], "paddings": [0] * 4, "dilations": [1, 1]}
    case("fold", {"X": of(0, normal(5, 4, 2))}, folds, ["Y"])
    for kind in ["kthvalue", "mode"]:
        case(kind, {"X": distinct}, {}, ["Out", "Indices"])
    for kind in ["cummax", "cummin"]:
        case(kind, {"x": distinct}, {"axis": 1}, ["out", "indices"])
    case("nms", {"Boxes": of(0, operators.corners(5))}, {"iou_threshold": 1.0}, ["KeepBoxesIdxs"])


def main(directory):
    paddle.enable_static()
    record.family("lods")
    lods()
    for line in record.failed:
        print(line, file=sys.stderr)
    record.write(directory)
    print(f"{len(record.cases)} cases")
    sys.exit(1 if record.failed else 0)


if __name__ == "__main__":
    main(sys.argv[1])
