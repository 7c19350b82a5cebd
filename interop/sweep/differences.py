"""Deliberate differences from PaddlePaddle 2.6.2, and rules that PaddlePaddle cannot run.

`docs/numerics.md` describes the differences for users.
"""
import numpy as np

# Rules for operators of older releases, which have no kernel in 2.6.2, and for operators that require LoD, which calls
# do not have.
GONE = {
    "one_hot": "2.6.2 has only `one_hot_v2`",
    "expand_as": "2.6.2 has only `expand_as_v2`",
    "lstm_unit": "2.6.2 has only `rnn`",
    "box_clip": "it requires LoD",
    "gru": "it requires LoD",
    "lstm": "it requires LoD",
    "sequence_concat": "it requires LoD",
    "sequence_concat_grad": "it requires LoD",
    "sequence_conv": "it requires LoD",
    "sequence_enumerate": "it requires LoD",
    "sequence_erase": "it requires LoD",
    "sequence_expand": "it requires LoD",
    "sequence_expand_as": "it requires LoD",
    "sequence_expand_as_grad": "it requires LoD",
    "sequence_pad": "it requires LoD",
    "sequence_pad_grad": "it requires LoD",
    "sequence_pool": "it requires LoD",
    "sequence_reshape": "it requires LoD",
    "sequence_reshape_grad": "it requires LoD",
    "sequence_reverse": "it requires LoD",
    "sequence_scatter": "it requires LoD",
    "sequence_scatter_grad": "it requires LoD",
    "sequence_slice": "it requires LoD",
    "sequence_slice_grad": "it requires LoD",
    "sequence_softmax": "it requires LoD",
    "sequence_unpad_grad": "it requires LoD",
    "pad2d": "2.6.2 has no kernel for it",
    "space_to_depth": "2.6.2 does not have it",
    "flatten": "2.6.2 has only `flatten2` and `flatten_contiguous_range`",
    "flatten_grad": "2.6.2 has only `flatten2` and `flatten_contiguous_range`",
    "squeeze": "2.6.2 has only `squeeze2`",
    "squeeze_grad": "2.6.2 has only `squeeze2`",
    "unsqueeze": "2.6.2 has only `unsqueeze2`",
    "unsqueeze_grad": "2.6.2 has only `unsqueeze2`",
}


class Difference:
    """A reason for which the calls that satisfy `where(result)` may differ."""

    def __init__(self, reason, where):
        self.reason, self.where = reason, where

    def covers(self, result):
        return self.where(result)


def has(result, test, *names):
    """Returns whether an input (with one of these names, if any) has an element that satisfies a test."""
    arrays = [array for name, array in result.feed.items() if not names or name in names]
    return any(test(array).any() for array in arrays if array.dtype.kind == "f")


def has_infinite_gradient(result):
    """Returns whether the gradient of a result is not finite."""
    gradients = [array for name, array in result.feed.items() if name.endswith("@GRAD") and array.dtype.kind == "f"]
    return any((~np.isfinite(array)).any() for array in gradients)


# Gradients that agree with PaddlePaddle's for NaN inputs.
EXACT = {
    "relu_grad", "relu6_grad", "leaky_relu_grad", "clip_grad", "reduce_max_grad", "reduce_min_grad", "pool2d_grad",
    "pool3d_grad", "hard_swish_grad", "selu_grad", "elementwise_max_grad", "elementwise_min_grad",
}

# Functions for which an intermediate result of PaddlePaddle is NaN if the argument is infinite.
ENDS = {"sqrt", "logsigmoid", "logsumexp", "softshrink", "thresholded_relu", "pow", "elementwise_pow"}

DIFFERENCES = [
    Difference(
        "`gather_grad` along an axis other than the first: PaddlePaddle gives every row the gradient of the first row",
        lambda result: result.kind == "gather_grad"
        and (result.attributes.get("axis", 0) != 0 or "Axis" in result.feed),
    ),
    Difference(
        "gradients of elementwise operators that broadcast from an `axis`: PaddlePaddle returns uninitialized memory",
        lambda result: result.kind in {"elementwise_max_grad", "elementwise_min_grad", "elementwise_pow_grad"}
        and result.attributes.get("axis", -1) != -1,
    ),
    Difference(
        "`depthwise_conv2d_transpose_grad` with `SAME` and dilations: PaddlePaddle ignores the dilations in the "
        "forward pass only",
        lambda result: result.kind == "depthwise_conv2d_transpose_grad"
        and result.attributes.get("padding_algorithm") == "SAME" and max(result.attributes["dilations"]) > 1,
    ),
    Difference(
        "`depthwise_conv2d_transpose_grad` in NHWC if the height of the result equals its channels: PaddlePaddle "
        "assumes NCHW",
        lambda result: result.kind == "depthwise_conv2d_transpose_grad"
        and result.attributes.get("data_format") == "NHWC"
        and result.feed["Output_out@GRAD"].shape[1] == result.feed["Output_out@GRAD"].shape[3],
    ),
    Difference(
        "`p_norm_grad` of an order below 1 for an element of 0: PaddlePaddle returns NaN, Lodstone 0",
        lambda result: result.kind == "p_norm_grad" and 0 < float(result.attributes["porder"]) < 1
        and has(result, lambda array: array == 0, "X"),
    ),
    Difference(
        "the maximum of padded 3-D windows with NaN: PaddlePaddle returns NaN, Lodstone the padding",
        lambda result: result.kind == "pool3d" and has(result, np.isnan),
    ),
    Difference(
        "`max_pool2d_with_index_grad` of a window without a maximum: PaddlePaddle writes outside of the tensor",
        lambda result: result.kind.endswith("with_index_grad")
        and any((array == -1).any() for array in result.feed.values()),
    ),
    Difference(
        "`group_norm_grad` with a scale of 0: PaddlePaddle divides by the scale to restore the normalized input",
        lambda result: result.kind == "group_norm_grad" and has(result, lambda array: array == 0, "Scale"),
    ),
    Difference(
        "functions of infinite numbers: PaddlePaddle returns NaN, Lodstone the limit",
        lambda result: result.kind in ENDS and has(result, np.isinf),
    ),
    Difference(
        "negative powers of -0: PaddlePaddle ignores the sign",
        lambda result: result.kind in {"pow", "elementwise_pow"}
        and has(result, lambda array: (array == 0) & np.signbit(array)),
    ),
    Difference(
        "gradients with infinite inputs or with output gradients that are not finite: PaddlePaddle multiplies by 0 and "
        "returns NaN, Lodstone 0",
        lambda result: "_grad" in result.kind and (has_infinite_gradient(result) or has(result, np.isinf)),
    ),
    Difference(
        "gradients with NaN inputs, except of functions that select an element",
        lambda result: "_grad" in result.kind and result.kind not in EXACT and has(result, np.isnan),
    ),
    Difference(
        "interpolation of infinities and NaN: a weight of 0 has an effect in one implementation only",
        lambda result: "_interp" in result.kind and has(result, lambda array: ~np.isfinite(array)),
    ),
    Difference(
        "`sigmoid_cross_entropy_with_logits` if all labels are ignored: PaddlePaddle divides 0 by 0",
        lambda result: result.kind.startswith("sigmoid_cross_entropy") and result.attributes.get("normalize"),
    ),
    Difference(
        "`grid_sampler` with the mode `nearest` if two elements are equally near: PaddlePaddle's positions are rounded "
        "differently",
        lambda result: result.kind.startswith("grid_sampler") and result.attributes.get("mode") == "nearest",
    ),
    Difference(
        "`grid_sampler_grad` in double precision is not supported",
        lambda result: result.kind == "grid_sampler_grad"
        and result.problem.endswith("expected float32, found float64"),
    ),
    Difference(
        "`max_pool2d_with_index` with windows larger than the padded input is not supported",
        lambda result: result.kind.startswith("max_pool")
        and "expected windows of at most" in result.problem,
    ),
    Difference(
        "`top_k` of NaN: PaddlePaddle's order is undefined",
        lambda result: result.kind == "top_k" and has(result, np.isnan),
    ),
    Difference(
        "`collect_fpn_proposals` with an image without regions: PaddlePaddle leaves its number of regions unset",
        lambda result: result.kind == "collect_fpn_proposals"
        and (result.found.get("RoisNum_out", np.ones(1)) == 0).any(),
    ),
    Difference(
        "averages and samples of images without elements are not supported: PaddlePaddle returns NaN or 0",
        lambda result: result.kind in {"grid_sampler", "pool2d", "pool2d_grad", "pool3d", "pool3d_grad"}
        and any(end in result.problem for end in (" has no elements to sample", " has no elements to pool")),
    ),
    Difference(
        "sums over no elements are 0: PaddlePaddle leaves the result uninitialized",
        lambda result: any(not array.size for array in result.feed.values())
        and "elements differ" in result.problem
        # A bias is added to the sum.
        and all((array == (result.feed.get("Bias", 0) if result.kind == "bilinear_tensor_product" else 0)).all()
                for array in result.found.values()),
    ),
    Difference(
        "`sum` of tensors without elements: PaddlePaddle skips them, and returns a scalar",
        lambda result: result.kind == "sum" and not any(array.size for array in result.feed.values()),
    ),
    Difference(
        "`unbind` and `unstack` of an empty axis are not supported: they have no results",
        lambda result: result.kind in {"unbind", "unstack"} and "expected at least 1 part, found 0" in result.problem,
    ),
    Difference(
        "convolutions with empty results, because no window fits, are not supported",
        lambda result: "conv" in result.kind
        and any(not array.size for array in [*result.feed.values(), *result.wanted.values()]),
    ),
]
