"""Deliberate differences between our runtime and PaddlePaddle 2.6.2, and rules that PaddlePaddle cannot run.

`docs/numerics.md` has the same for users.
"""
import numpy as np

# Rules for operators of older releases, which have no kernel in this one.
GONE = {
    "one_hot": "2.6.2 has `one_hot_v2` alone",
    "pad2d": "2.6.2 has no kernel for it",
    "flatten": "2.6.2 has `flatten2` and `flatten_contiguous_range` alone",
    "flatten_grad": "2.6.2 has `flatten2` and `flatten_contiguous_range` alone",
    "squeeze": "2.6.2 has `squeeze2` alone",
    "squeeze_grad": "2.6.2 has `squeeze2` alone",
    "unsqueeze": "2.6.2 has `unsqueeze2` alone",
    "unsqueeze_grad": "2.6.2 has `unsqueeze2` alone",
}


class Difference:
    """Calls that may differ: where `where(result)` holds."""

    def __init__(self, reason, where):
        self.reason, self.where = reason, where

    def covers(self, result):
        return self.where(result)


def has(result, test, *names):
    """Whether a tensor that was fed, of these names or any, has an element for which a test holds."""
    arrays = [array for name, array in result.feed.items() if not names or name in names]
    return any(test(array).any() for array in arrays if array.dtype.kind == "f")


def is_counted(result):
    """Whether what counts for a result is no finite number."""
    counts = [array for name, array in result.feed.items() if name.endswith("@GRAD") and array.dtype.kind == "f"]
    return any((~np.isfinite(array)).any() for array in counts)


# Gradients that are exact where what they are of is no number.
EXACT = {
    "relu_grad", "relu6_grad", "leaky_relu_grad", "clip_grad", "reduce_max_grad", "reduce_min_grad", "pool2d_grad",
    "pool3d_grad", "hard_swish_grad", "selu_grad", "elementwise_max_grad", "elementwise_min_grad",
}

# Functions that PaddlePaddle computes by steps of which one is no number where the argument is infinite.
ENDS = {"sqrt", "logsigmoid", "logsumexp", "softshrink", "thresholded_relu", "pow", "elementwise_pow"}

DIFFERENCES = [
    Difference(
        "`gather_grad` along an axis that is not the first: PaddlePaddle gives every row what counts for the first one",
        lambda result: result.kind == "gather_grad" and (result.attributes.get("axis", 0) != 0 or "Axis" in result.feed),
    ),
    Difference(
        "gradients of what is laid over others from an axis on: PaddlePaddle gives what was in memory before",
        lambda result: result.kind in {"elementwise_max_grad", "elementwise_min_grad", "elementwise_pow_grad"}
        and result.attributes.get("axis", -1) != -1,
    ),
    Difference(
        "`depthwise_conv2d_transpose_grad` with `SAME` and dilations: PaddlePaddle goes back through them, and forth without",
        lambda result: result.kind == "depthwise_conv2d_transpose_grad"
        and result.attributes.get("padding_algorithm") == "SAME" and max(result.attributes["dilations"]) > 1,
    ),
    Difference(
        "`depthwise_conv2d_transpose_grad` in NHWC where the result is as high as it has channels: PaddlePaddle takes it for "
        "NCHW",
        lambda result: result.kind == "depthwise_conv2d_transpose_grad"
        and result.attributes.get("data_format") == "NHWC"
        and result.feed["Output_out@GRAD"].shape[1] == result.feed["Output_out@GRAD"].shape[3],
    ),
    Difference(
        "`p_norm_grad` of an order below 1 where an element is 0: PaddlePaddle has no number, ours have 0",
        lambda result: result.kind == "p_norm_grad" and 0 < float(result.attributes["porder"]) < 1
        and has(result, lambda array: array == 0, "X"),
    ),
    Difference(
        "the greatest element of windows in three dimensions that are padded, if it is no number: PaddlePaddle keeps it, "
        "in ours what is padded takes its place",
        lambda result: result.kind == "pool3d" and has(result, np.isnan),
    ),
    Difference(
        "`max_pool2d_with_index_grad` where there is no greatest element: PaddlePaddle changes what lies before in memory",
        lambda result: result.kind.endswith("with_index_grad") and any((array == -1).any() for array in result.feed.values()),
    ),
    Difference(
        "`group_norm_grad` with a scale of 0: PaddlePaddle finds what was normalized by dividing by the scale",
        lambda result: result.kind == "group_norm_grad" and has(result, lambda array: array == 0, "Scale"),
    ),
    Difference(
        "functions of infinite numbers: PaddlePaddle gives none, ours have the limit",
        lambda result: result.kind in ENDS and has(result, np.isinf),
    ),
    Difference(
        "negative powers of -0: PaddlePaddle takes it for 0",
        lambda result: result.kind in {"pow", "elementwise_pow"}
        and has(result, lambda array: (array == 0) & np.signbit(array)),
    ),
    Difference(
        "gradients of what is infinite, and such for which what is infinite or no number counts: PaddlePaddle multiplies "
        "by 0, and has no number where ours have 0",
        lambda result: "_grad" in result.kind and (is_counted(result) or has(result, np.isinf)),
    ),
    Difference(
        "gradients of what is no number, of other functions than those that choose",
        lambda result: "_grad" in result.kind and result.kind not in EXACT and has(result, np.isnan),
    ),
    Difference(
        "pictures with numbers that are infinite or none: a share of 0 of them counts in PaddlePaddle, or does not",
        lambda result: "_interp" in result.kind and has(result, lambda array: ~np.isfinite(array)),
    ),
    Difference(
        "`sigmoid_cross_entropy_with_logits` where all labels are ignored: PaddlePaddle divides 0 by 0",
        lambda result: result.kind.startswith("sigmoid_cross_entropy") and result.attributes.get("normalize"),
    ),
    Difference(
        "`grid_sampler` at the nearest element where two are as near: PaddlePaddle rounds places that it has computed "
        "in other steps",
        lambda result: result.kind.startswith("grid_sampler") and result.attributes.get("mode") == "nearest",
    ),
    Difference(
        "`grid_sampler_grad` of double precision is refused",
        lambda result: result.kind == "grid_sampler_grad" and result.problem.endswith("expected float32, found float64"),
    ),
    Difference(
        "`max_pool2d_with_index` of windows that are not all alike (`adaptive`) is refused",
        lambda result: result.kind.startswith("max_pool") and "numbers of windows that divide" in result.problem,
    ),
    Difference(
        "`max_pool2d_with_index` of windows that are larger than all there is is refused",
        lambda result: result.kind.startswith("max_pool")
        and (" is more than " in result.problem or "expected positions of a window" in result.problem),
    ),
    Difference(
        "`top_k` of what is no number: PaddlePaddle's order has no place for it",
        lambda result: result.kind == "top_k" and has(result, np.isnan),
    ),
    Difference(
        "convolutions that give no elements, because no window fits, are refused",
        lambda result: "conv" in result.kind
        and any(not array.size for array in [*result.feed.values(), *result.wanted.values()]),
    ),
]
