"""Records calls of PaddlePaddle 3.3.1's public functions: the PIR programs that it saves, and their results.

    python make_paddle_calls.py OUT_DIR

Writes `calls.jsonl.gz`, a line for each call: `name`; `pir`, the JSON of the program; `params`, its parameter file, empty if it has none;
`inputs`, the arrays by name; `outputs`, a list of [name, array]. An array is [element type, dims, bytes], and bytes are
hexadecimal. Dims are unknown to the programs where the function accepts that. A second run writes the same calls.

`internal.jsonl.gz` has the same of operators that public functions seldom or never write.
"""

import gzip
import json
import os
import sys
import tempfile

os.environ.setdefault("GLOG_minloglevel", "3")
os.environ["FLAGS_cpu_deterministic"] = "1"

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import _C_ops, nn, static
from paddle.base import core

paddle.seed(11)
RANDOM = np.random.default_rng(5)


def floats(*shape, low=-2.0, high=2.0, dtype="float32"):
    # Multiples of 1/64, which compress.
    return (np.round((RANDOM.random(shape) * (high - low) + low) * 64) / 64).astype(dtype)


def positive(*shape):
    return floats(*shape, low=0.1, high=3.0)


def integers(*shape, low=-5, high=6, dtype="int64"):
    return RANDOM.integers(low, high, shape).astype(dtype)


def booleans(*shape):
    return RANDOM.random(shape) > 0.5


X = lambda: [floats(2, 3, 4)]
IMAGE = lambda: [floats(2, 4, 8, 6)]
PAIR = lambda: [floats(2, 3, 4), floats(2, 3, 4)]

UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor", "frac",
    "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid",
    "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "numel", "rank", "nonzero", "t_", "deg2rad",
    "rad2deg", "signbit", "positive", "negative", "isreal", "logit", "digamma", "lgamma", "erfinv", "angle", "sgn",
]
DOMAINS = {
    "acos": lambda: [floats(2, 3, 4, low=-0.9, high=0.9)], "asin": lambda: [floats(2, 3, 4, low=-0.9, high=0.9)],
    "atanh": lambda: [floats(2, 3, 4, low=-0.9, high=0.9)], "erfinv": lambda: [floats(2, 3, low=-0.8, high=0.8)],
    "acosh": lambda: [floats(2, 3, 4, low=1.1, high=3.0)], "logit": lambda: [floats(2, 3, low=0.1, high=0.9)],
    **{name: lambda: [positive(2, 3, 4)] for name in ("log", "log10", "log1p", "log2", "rsqrt", "sqrt", "digamma", "lgamma")},
}
ACTIVATIONS = [
    "celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_sigmoid",
    "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softplus", "softshrink", "softsign",
    "swish", "tanh", "tanhshrink", "thresholded_relu",
]
BINARY = [
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "fmax", "fmin", "pow", "atan2", "equal", "not_equal",
    "less_than", "less_equal", "greater_than", "greater_equal", "floor_divide", "remainder", "heaviside", "hypot",
    "copysign", "allclose", "isclose", "equal_all", "dist", "lerp_", "logaddexp", "nextafter", "kron", "inner", "outer",
]
REDUCTIONS = [
    "sum", "mean", "max", "min", "prod", "amax", "amin", "logsumexp", "std", "var", "median", "nansum", "nanmean",
    "count_nonzero", "cumsum", "cumprod", "logcumsumexp",
]


def calls():
    """Yields the name of a call, the function, and its inputs."""
    for name in UNARY:
        function = getattr(paddle, name, None)
        if function:
            yield name, function, DOMAINS.get(name, X)()
    for name in ACTIVATIONS:
        yield f"F.{name}", getattr(F, name), X()
    yield "F.prelu", lambda x, w: F.prelu(x, w), [floats(2, 4, 3, 3), floats(4)]
    yield "F.maxout", lambda x: F.maxout(x, 2), IMAGE()
    yield "F.softmax axis", lambda x: F.softmax(x, axis=1), X()
    yield "F.gelu approximate", lambda x: F.gelu(x, approximate=True), X()
    yield "F.softmax_with_dtype", lambda x: F.softmax(x, dtype="float64"), X()
    for name in BINARY:
        function = getattr(paddle, name, None)
        if function:
            inputs = [positive(2, 3, 4), positive(2, 3, 4)] if name in ("pow",) else PAIR()
            if name in ("kron", "outer"):
                inputs = [floats(3), floats(4)]
            yield name, function, inputs
    yield "add broadcast", lambda x, y: x + y, [floats(2, 3, 4), floats(3, 1)]
    yield "add scalar", lambda x: 2 + x * 3 - 1, X()
    yield "divide integers", lambda x, y: x / y, [integers(2, 3), integers(2, 3, low=1)]
    yield "floor_divide integers", lambda x, y: x // y, [integers(2, 3), integers(2, 3, low=1)]
    yield "mod integers", lambda x, y: x % y, [integers(2, 3), integers(2, 3, low=1)]
    yield "pow scalar", lambda x: x**2.0, X()
    yield "rsub", lambda x: 1.0 - x, X()
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        yield name, getattr(paddle, name), [integers(2, 3), integers(2, 3)]
    yield "bitwise_not", paddle.bitwise_not, [integers(2, 3)]
    for name in ("logical_and", "logical_or", "logical_xor"):
        yield name, getattr(paddle, name), [booleans(2, 3), booleans(2, 3)]
    yield "logical_not", paddle.logical_not, [booleans(2, 3)]
    for name in REDUCTIONS:
        function = getattr(paddle, name)
        if name not in ("cumprod",):
            yield name, function, [positive(2, 3, 4)]
        yield f"{name} axis", lambda x, f=function: f(x, 1), [positive(2, 3, 4)]
    for name in ("sum", "mean", "max", "min", "prod", "logsumexp", "std", "var"):
        function = getattr(paddle, name)
        yield f"{name} keepdim", lambda x, f=function: f(x, axis=-1, keepdim=True), [positive(2, 3, 4)]
        if name not in ("prod",):
            yield f"{name} axes", lambda x, f=function: f(x, axis=[0, 2]), [positive(2, 3, 4)]
    yield "sum dtype", lambda x: paddle.sum(x, axis=0, dtype="int64"), [integers(3, 4, dtype="int32")]
    yield "sum bool", lambda x: paddle.sum(x), [booleans(3, 4)]
    yield "all", paddle.all, [booleans(2, 3)]
    yield "any axis", lambda x: paddle.any(x, axis=1), [booleans(2, 3)]
    yield "all keepdim", lambda x: paddle.all(x, axis=0, keepdim=True), [booleans(2, 3)]
    yield "cummax", lambda x: paddle.cummax(x, axis=1), X()
    yield "diff", lambda x: paddle.diff(x), X()
    yield "norm 2", lambda x: paddle.linalg.norm(x, p=2, axis=-1), X()
    yield "norm fro", lambda x: paddle.linalg.norm(x), X()
    yield "norm 1 keepdim", lambda x: paddle.linalg.norm(x, p=1, axis=1, keepdim=True), X()
    yield "norm inf", lambda x: paddle.linalg.norm(x, p=np.inf, axis=1), X()
    yield "F.normalize", lambda x: F.normalize(x, axis=1), X()
    yield "F.cosine_similarity", lambda x, y: F.cosine_similarity(x, y, axis=-1), PAIR()
    # Matrices.
    yield "matmul", paddle.matmul, [floats(2, 3, 4), floats(2, 4, 5)]
    yield "matmul transposed", lambda x, y: paddle.matmul(x, y, transpose_y=True), [floats(2, 3, 4), floats(2, 5, 4)]
    yield "matmul vectors", paddle.matmul, [floats(4), floats(4)]
    yield "bmm", paddle.bmm, [floats(2, 3, 4), floats(2, 4, 5)]
    yield "mm", paddle.mm, [floats(3, 4), floats(4, 5)]
    yield "mv", paddle.mv, [floats(3, 4), floats(4)]
    yield "dot", paddle.dot, [floats(3, 4), floats(3, 4)]
    yield "addmm", lambda x, y, z: paddle.addmm(x, y, z, beta=0.5, alpha=2.0), [floats(3, 5), floats(3, 4), floats(4, 5)]
    yield "einsum", lambda x, y: paddle.einsum("bij,bjk->bik", x, y), [floats(2, 3, 4), floats(2, 4, 5)]
    yield "einsum heads", lambda x, y: paddle.einsum("bhqd,bhkd->bhqk", x, y), [floats(2, 2, 3, 4), floats(2, 2, 5, 4)]
    yield "t", paddle.t, [floats(3, 4)]
    yield "trace", paddle.trace, [floats(3, 4)]
    yield "tril", lambda x: paddle.tril(x, -1), [floats(4, 4)]
    yield "triu", lambda x: paddle.triu(x, 1), [floats(4, 4)]
    yield "diag", paddle.diag, [floats(4)]
    yield "diagonal", paddle.diagonal, [floats(3, 4)]
    yield "diag_embed", paddle.diag_embed, [floats(2, 3)]
    yield "multi_dot", lambda x, y, z: paddle.linalg.multi_dot([x, y, z]), [floats(2, 3), floats(3, 4), floats(4, 2)]
    yield "cross", lambda x, y: paddle.cross(x, y, axis=1), PAIR()
    yield "cdist", paddle.cdist, [floats(3, 4), floats(5, 4)]
    # Shapes.
    yield "reshape", lambda x: x.reshape([0, -1]), X()
    yield "reshape computed", lambda x: x.reshape([paddle.shape(x)[0], paddle.shape(x)[1] * paddle.shape(x)[2]]), X()
    yield "reshape_like", lambda x, y: x.reshape(y.shape), [floats(2, 6), floats(3, 4)]
    yield "view", lambda x: x.view([4, 6]), X()
    yield "flatten", lambda x: x.flatten(1), X()
    yield "flatten all", lambda x: x.flatten(), X()
    yield "squeeze", lambda x: x.squeeze(1), [floats(2, 1, 3)]
    yield "squeeze all", lambda x: x.squeeze(), [floats(2, 1, 3)]
    yield "unsqueeze", lambda x: x.unsqueeze([0, 2]), X()
    yield "transpose", lambda x: x.transpose([2, 0, 1]), X()
    yield "moveaxis", lambda x: paddle.moveaxis(x, 0, 2), X()
    yield "swapaxes", lambda x: paddle.swapaxes(x, 0, 2), X()
    yield "concat", lambda x, y: paddle.concat([x, y], axis=1), [floats(2, 3), floats(2, 4)]
    yield "stack", lambda x, y: paddle.stack([x, y], axis=1), PAIR()
    yield "hstack", lambda x, y: paddle.hstack([x, y]), [floats(2, 3), floats(2, 4)]
    yield "split", lambda x: paddle.split(x, 2, axis=2), X()
    yield "split sections", lambda x: paddle.split(x, [1, -1], axis=1), X()
    yield "chunk", lambda x: paddle.chunk(x, 3, axis=1), X()
    yield "unbind", lambda x: paddle.unbind(x, axis=1), X()
    yield "unstack", lambda x: paddle.unstack(x, axis=1), X()
    yield "tile", lambda x: paddle.tile(x, [2, 1, 3]), X()
    yield "expand", lambda x: paddle.expand(x, [2, 3, 4]), [floats(3, 1)]
    yield "expand computed", lambda x, y: paddle.expand(x, [paddle.shape(y)[0], 3, -1]), [floats(3, 4), floats(2, 1)]
    yield "expand_as", paddle.expand_as, [floats(3, 1), floats(2, 3, 4)]
    yield "broadcast_to", lambda x: paddle.broadcast_to(x, [2, 3, 4]), [floats(3, 1)]
    yield "broadcast_tensors", lambda x, y: paddle.broadcast_tensors([x, y]), [floats(3, 1), floats(1, 4)]
    yield "repeat_interleave", lambda x: paddle.repeat_interleave(x, 2, axis=1), X()
    yield "repeat_interleave tensor", lambda x, n: paddle.repeat_interleave(x, n, axis=1), [floats(2, 3), integers(3, low=0, high=3)]
    yield "flip", lambda x: paddle.flip(x, [0, 2]), X()
    yield "roll", lambda x: paddle.roll(x, [1, -1], [0, 2]), X()
    yield "rot90", lambda x: paddle.rot90(x, 1, [0, 1]), X()
    yield "shape", lambda x: paddle.shape(x), X()
    yield "meshgrid", lambda x, y: paddle.meshgrid(x, y), [floats(3), floats(4)]
    yield "unfold", lambda x: F.unfold(x, 3, 1, 1), IMAGE()
    yield "fold", lambda x: F.fold(x, [4, 4], 2, 2), [floats(2, 12, 4)]
    yield "pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), IMAGE()
    yield "pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), IMAGE()
    yield "channel_shuffle", lambda x: F.channel_shuffle(x, 2), IMAGE()
    yield "temporal_shift", lambda x: F.temporal_shift(x, 2, 0.25), IMAGE()
    yield "pad", lambda x: F.pad(x, [1, 2, 0, 1]), IMAGE()
    yield "pad value", lambda x: F.pad(x, [1, 1], value=3.0, data_format="NCL"), [floats(2, 3, 4)]
    yield "pad reflect", lambda x: F.pad(x, [1, 2, 1, 1], mode="reflect"), IMAGE()
    yield "pad replicate", lambda x: F.pad(x, [1, 2, 1, 1], mode="replicate"), IMAGE()
    yield "pad all", lambda x: F.pad(x, [1, 2, 0, 1, 2, 0], pad_from_left_axis=True), X()
    yield "zeropad2d", lambda x: F.zeropad2d(x, [1, 2, 0, 1]), IMAGE()
    yield "crop", lambda x: paddle.crop(x, [1, 2, 3], [0, 1, 1]), X()
    yield "as_complex", lambda x: paddle.as_real(paddle.as_complex(x)), [floats(3, 2)]
    # Indexing.
    yield "slice", lambda x: x[:, 1:, :-1], X()
    yield "slice step", lambda x: x[:, ::2, ::-1], X()
    yield "index", lambda x: x[0], X()
    yield "index last", lambda x: x[..., -1], X()
    yield "index none", lambda x: x[:, None, 1], X()
    yield "index tensor", lambda x, i: x[i], [floats(5, 4), integers(3, low=0, high=5)]
    yield "index mask", lambda x: x[x > 0], [floats(5, 4)]
    yield "slice computed", lambda x: x[:, : paddle.shape(x)[1] - 1], X()
    yield "strided_slice", lambda x: paddle.strided_slice(x, [1, 2], [0, 3], [3, 0], [2, -1]), X()
    yield "gather", lambda x, i: paddle.gather(x, i, axis=1), [floats(3, 4), integers(5, low=0, high=4)]
    yield "gather_nd", paddle.gather_nd, [floats(3, 4), np.array([[0, 1], [2, 3]], "int64")]
    yield "index_select", lambda x, i: paddle.index_select(x, i, axis=1), [floats(3, 4), integers(5, low=0, high=4)]
    yield "index_sample", paddle.index_sample, [floats(3, 4), integers(3, 2, low=0, high=4)]
    yield "take_along_axis", lambda x, i: paddle.take_along_axis(x, i, 1), [floats(3, 4), integers(3, 2, low=0, high=4)]
    yield "put_along_axis", lambda x, i, v: paddle.put_along_axis(x, i, v, 1), [floats(3, 4), np.array([[0, 2]] * 3, "int64"), floats(3, 2)]
    yield "scatter", lambda x, i, u: paddle.scatter(x, i, u), [floats(5, 3), np.array([3, 0], "int64"), floats(2, 3)]
    yield "scatter_nd_add", paddle.scatter_nd_add, [floats(5, 3), np.array([[3], [0]], "int64"), floats(2, 3)]
    yield "scatter_nd", lambda i, u: paddle.scatter_nd(i, u, [5, 3]), [np.array([[3], [0]], "int64"), floats(2, 3)]
    yield "index_add", lambda x, i, v: paddle.index_add(x, i, 0, v), [floats(5, 3), np.array([3, 0], "int64"), floats(2, 3)]
    yield "index_put", lambda x, i, v: paddle.index_put(x, (i,), v), [floats(5, 3), np.array([3, 0], "int64"), floats(2, 3)]
    yield "masked_select", paddle.masked_select, [floats(3, 4), booleans(3, 4)]
    yield "masked_fill", lambda x, m: paddle.masked_fill(x, m, 2.0), [floats(3, 4), booleans(3, 4)]
    yield "where", paddle.where, [booleans(3, 4), floats(3, 4), floats(3, 4)]
    yield "where scalar", lambda x: paddle.where(x > 0, x, paddle.zeros_like(x)), X()
    yield "multiplex", lambda x, y, i: paddle.multiplex([x, y], i), [floats(3, 4), floats(3, 4), integers(3, 1, low=0, high=2, dtype="int32")]
    yield "setitem", set_slice, X()
    yield "setitem tensor", set_tensor, [floats(3, 4), floats(3)]
    # Searching.
    yield "argmax", lambda x: paddle.argmax(x, axis=1), X()
    yield "argmax flat", lambda x: paddle.argmax(x), X()
    yield "argmin keepdim", lambda x: paddle.argmin(x, axis=-1, keepdim=True, dtype="int32"), X()
    yield "argsort", lambda x: paddle.argsort(x, axis=1), X()
    yield "sort", lambda x: paddle.sort(x, axis=1, descending=True), X()
    yield "topk", lambda x: paddle.topk(x, 2, axis=1), X()
    yield "topk smallest", lambda x: paddle.topk(x, 2, largest=False), X()
    yield "kthvalue", lambda x: paddle.kthvalue(x, 2), X()
    yield "mode", lambda x: paddle.mode(x), [integers(3, 4).astype("float32")]
    yield "unique", lambda x: paddle.unique(x), [integers(8)]
    yield "unique all", lambda x: paddle.unique(x, return_index=True, return_inverse=True, return_counts=True), [integers(8)]
    yield "unique_consecutive", lambda x: paddle.unique_consecutive(x), [np.sort(integers(8))]
    yield "searchsorted", paddle.searchsorted, [np.sort(floats(6)), floats(3, 2)]
    yield "bucketize", paddle.bucketize, [floats(3, 2), np.sort(floats(6))]
    yield "bincount", paddle.bincount, [integers(8, low=0)]
    yield "histogram", lambda x: paddle.histogram(x, 5, -2, 2), X()
    yield "nonzero axes", lambda x: paddle.nonzero(x > 0), [floats(3, 4)]
    # Creation.
    yield "full", lambda x: paddle.full([2, 3], 1.5) + paddle.shape(x)[0], X()
    yield "full_like", lambda x: paddle.full_like(x, 2), X()
    yield "zeros", lambda x: paddle.zeros([paddle.shape(x)[0], 4]), X()
    yield "ones_like", lambda x: paddle.ones_like(x, dtype="int64"), X()
    yield "arange", lambda x: paddle.arange(paddle.shape(x)[2]), X()
    yield "arange float", lambda x: paddle.arange(0.0, 2.0, 0.25) + x, [floats(1)]
    yield "linspace", lambda x: paddle.linspace(0, 1, 5) + x, [floats(1)]
    yield "eye", lambda x: paddle.eye(4) + x, [floats(4, 4)]
    yield "to_tensor", lambda x: x + paddle.to_tensor([1.0, 2.0, 3.0, 4.0]), X()
    yield "assign", lambda x: paddle.assign(x) + 1, X()
    yield "clone", lambda x: x.clone() * 2, X()
    yield "one_hot", lambda x: F.one_hot(x, 6), [integers(4, low=0, high=6)]
    yield "sequence_mask", lambda x: F.sequence_mask(x, 7), [integers(4, low=0, high=6)]
    yield "tril_indices", lambda x: paddle.tril_indices(3, 4) + x, [integers(1)]
    for dtype in ("float64", "int32", "int64", "bool", "float16"):
        yield f"cast {dtype}", lambda x, d=dtype: x.astype(d), X()
    yield "clip", lambda x: paddle.clip(x, -0.5, 0.5), X()
    yield "clip tensor", lambda x, y: paddle.clip(x, max=y), [floats(2, 3), floats(1)]
    yield "scale", lambda x: paddle.scale(x, 2.0, 1.0, bias_after_scale=False), X()
    yield "increment", lambda x: paddle.increment(x, 2.0), [floats(1)]
    yield "stanh", lambda x: paddle.stanh(x), X()
    yield "nan_to_num", lambda x: paddle.nan_to_num(x / paddle.zeros_like(x)), X()
    yield "lerp", lambda x, y: paddle.lerp(x, y, 0.3), PAIR()
    yield "add_n", lambda x, y: paddle.add_n([x, y]), PAIR()
    yield "label_smooth", lambda x: F.label_smooth(x), [floats(3, 4)]
    # Layers without parameters.
    yield "F.conv2d", lambda x, w: F.conv2d(x, w, padding=1), [floats(2, 4, 8, 6), floats(5, 4, 3, 3)]
    yield "F.conv2d same", lambda x, w: F.conv2d(x, w, stride=2, padding="SAME"), [floats(2, 4, 8, 6), floats(5, 4, 3, 3)]
    yield "F.conv2d groups", lambda x, w: F.conv2d(x, w, groups=4, dilation=2), [floats(2, 4, 8, 6), floats(4, 1, 3, 3)]
    yield "F.conv2d NHWC", lambda x, w: F.conv2d(x, w, data_format="NHWC"), [floats(2, 8, 6, 4), floats(5, 4, 3, 3)]
    yield "F.conv1d", lambda x, w: F.conv1d(x, w, padding=1), [floats(2, 4, 9), floats(5, 4, 3)]
    yield "F.conv3d", lambda x, w: F.conv3d(x, w), [floats(1, 2, 5, 5, 5), floats(3, 2, 3, 3, 3)]
    yield "F.conv2d_transpose", lambda x, w: F.conv2d_transpose(x, w, stride=2, padding=1, output_padding=1), [floats(2, 4, 5, 6), floats(4, 3, 3, 3)]
    yield "F.conv2d_transpose size", lambda x, w: F.conv2d_transpose(x, w, stride=2, output_size=[12, 13]), [floats(2, 4, 5, 6), floats(4, 3, 3, 3)]
    yield "F.conv1d_transpose", lambda x, w: F.conv1d_transpose(x, w, stride=2), [floats(2, 4, 5), floats(4, 3, 3)]
    yield "F.max_pool2d", lambda x: F.max_pool2d(x, 2, 2), IMAGE()
    yield "F.max_pool2d mask", lambda x: F.max_pool2d(x, 2, 2, return_mask=True), IMAGE()
    yield "F.max_pool2d ceil", lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), IMAGE()
    yield "F.avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1, exclusive=False), IMAGE()
    yield "F.avg_pool1d", lambda x: F.avg_pool1d(x, 2, 2), [floats(2, 4, 8)]
    yield "F.max_pool1d", lambda x: F.max_pool1d(x, 2, 2), [floats(2, 4, 8)]
    yield "F.max_pool3d", lambda x: F.max_pool3d(x, 2, 2), [floats(1, 2, 4, 4, 4)]
    yield "F.lp_pool2d", lambda x: F.lp_pool2d(x, 2.0, 2), IMAGE()
    yield "F.adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 1), IMAGE()
    yield "F.adaptive_avg_pool2d 3", lambda x: F.adaptive_avg_pool2d(x, [3, 2]), IMAGE()
    yield "F.adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 2), IMAGE()
    yield "F.adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 2), [floats(2, 4, 8)]
    for mode in ("nearest", "bilinear", "bicubic"):
        yield f"F.interpolate {mode}", lambda x, m=mode: F.interpolate(x, [10, 9], mode=m), IMAGE()
        yield f"F.interpolate scale {mode}", lambda x, m=mode: F.interpolate(x, scale_factor=2, mode=m), IMAGE()
    yield "F.interpolate corners", lambda x: F.interpolate(x, [10, 9], mode="bilinear", align_corners=True), IMAGE()
    yield "F.interpolate computed", lambda x, y: F.interpolate(x, paddle.shape(y)[2:], mode="bilinear"), [floats(2, 4, 8, 6), floats(1, 1, 5, 7)]
    yield "F.interpolate linear", lambda x: F.interpolate(x, [9], mode="linear", data_format="NCW"), [floats(2, 3, 5)]
    yield "F.interpolate trilinear", lambda x: F.interpolate(x, [4, 5, 6], mode="trilinear", data_format="NCDHW"), [floats(1, 2, 3, 3, 3)]
    yield "F.grid_sample", lambda x, g: F.grid_sample(x, g), [floats(2, 4, 8, 6), floats(2, 3, 5, 2, low=-1.0, high=1.0)]
    yield "F.affine_grid", lambda t: F.affine_grid(t, [2, 3, 4, 5]), [floats(2, 2, 3)]
    yield "F.layer_norm", lambda x, w, b: F.layer_norm(x, 4, w, b), [floats(2, 3, 4), floats(4), floats(4)]
    yield "F.layer_norm bare", lambda x: F.layer_norm(x, 4), X()
    yield "F.batch_norm", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), [floats(2, 4, 8, 6), floats(4), positive(4), floats(4), floats(4)]
    yield "F.instance_norm", lambda x: F.instance_norm(x), IMAGE()
    yield "F.group_norm", lambda x, w, b: F.group_norm(x, 2, weight=w, bias=b), [floats(2, 4, 8, 6), floats(4), floats(4)]
    yield "F.local_response_norm", lambda x: F.local_response_norm(x, 3), IMAGE()
    yield "F.rms_norm", lambda x, w: F.rms_norm(x, [4], w), [floats(2, 3, 4), floats(4)]
    yield "F.linear", lambda x, w, b: F.linear(x, w, b), [floats(2, 3, 4), floats(4, 5), floats(5)]
    yield "F.bilinear", lambda x, y, w: F.bilinear(x, y, w), [floats(2, 3), floats(2, 4), floats(5, 3, 4)]
    yield "F.embedding", lambda i, w: F.embedding(i, w, padding_idx=0), [integers(2, 3, low=0, high=6), floats(6, 4)]
    yield "F.dropout", lambda x: F.dropout(x, 0.3, training=False), X()
    yield "F.dropout scaled", lambda x: F.dropout(x, 0.3, training=False, mode="downscale_in_infer"), X()
    yield "F.swiglu", lambda x: F.swiglu(x), X()
    yield "F.scaled_dot_product_attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [floats(2, 5, 2, 4) for _ in range(3)]
    yield "F.scaled_dot_product_attention mask", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), [*(floats(2, 5, 2, 4) for _ in range(3)), floats(2, 2, 5, 5)]
    yield "F.scaled_dot_product_attention causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [floats(2, 5, 2, 4) for _ in range(3)]
    # Losses.
    yield "F.cross_entropy", lambda x, y: F.cross_entropy(x, y), [floats(4, 5), integers(4, low=0, high=5)]
    yield "F.cross_entropy soft", lambda x, y: F.cross_entropy(x, F.softmax(y), soft_label=True), [floats(4, 5), floats(4, 5)]
    yield "F.nll_loss", lambda x, y: F.nll_loss(x, y), [floats(4, 5), integers(4, low=0, high=5)]
    yield "F.mse_loss", F.mse_loss, PAIR()
    yield "F.l1_loss", F.l1_loss, PAIR()
    yield "F.smooth_l1_loss", F.smooth_l1_loss, PAIR()
    yield "F.kl_div", lambda x, y: F.kl_div(x, F.softmax(y)), PAIR()
    yield "F.binary_cross_entropy", lambda x, y: F.binary_cross_entropy(F.sigmoid(x), F.sigmoid(y)), PAIR()
    yield "F.binary_cross_entropy_with_logits", lambda x, y: F.binary_cross_entropy_with_logits(x, F.sigmoid(y)), PAIR()
    yield "F.margin_ranking_loss", lambda x, y, z: F.margin_ranking_loss(x, y, F.tanh(z)), [*PAIR(), floats(2, 3, 4)]
    yield "F.log_loss", lambda x, y: F.log_loss(F.sigmoid(x), F.sigmoid(y)), [floats(4, 1), floats(4, 1)]
    # Detection.
    ops = paddle.vision.ops
    yield "roi_align", lambda x, b, n: ops.roi_align(x, b, n, 3), [floats(1, 4, 8, 8), np.array([[0, 0, 5, 5], [1, 2, 7, 6]], "float32"), np.array([2], "int32")]
    yield "roi_pool", lambda x, b, n: ops.roi_pool(x, b, n, 3), [floats(1, 4, 8, 8), np.array([[0, 0, 5, 5], [1, 2, 7, 6]], "float32"), np.array([2], "int32")]
    yield "yolo_box", lambda x, s: ops.yolo_box(x, s, [10, 13, 16, 30], 3, 0.01, 32), [floats(1, 16, 4, 4), np.array([[64, 64]], "int32")]
    yield "prior_box", lambda x, y: ops.prior_box(x, y, [4.0], [8.0], [2.0], flip=True), [floats(1, 3, 4, 4), floats(1, 3, 16, 16)]
    yield "box_coder", lambda p, t: ops.box_coder(p, [0.1, 0.1, 0.2, 0.2], t), [np.sort(positive(5, 4)), np.sort(positive(3, 4))]
    yield "nms", lambda b, s: ops.nms(b, 0.5, s), [np.concatenate([np.sort(positive(6, 2)), np.sort(positive(6, 2)) + 3], 1), positive(6)]
    yield "deform_conv2d", lambda x, o, w: ops.deform_conv2d(x, o, w, padding=1), [floats(1, 2, 5, 5), floats(1, 18, 5, 5), floats(3, 2, 3, 3)]
    yield "matrix_nms", lambda b, s: ops.matrix_nms(b, s, 0.05, 0.05, 10, 5, background_label=-1)[0], [np.sort(positive(1, 6, 4)), positive(1, 3, 6)]
    yield "distribute_fpn_proposals", lambda r, n: ops.distribute_fpn_proposals(r, 2, 5, 4, 224, rois_num=n), [np.array([[0, 0, 50, 50], [0, 0, 300, 300], [0, 0, 100, 900]], "float32"), np.array([3], "int32")]
    # Branches and loops.
    yield "cond", branch, X()
    yield "cond shapes", branch_shapes, [floats(3, 4)]
    yield "while", loop, [integers(1, low=3, high=6)]
    yield "while nested", nested_loop, X()
    yield "while list", loop_with_list, X()
    yield "in place", in_place, X()


def changed():
    """Yields calls of operators that compute something else than in 2.6.2, with the inputs for which they do."""
    halves = np.array([[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 0.49999997, np.nan, np.inf, -0.0, 7.3]], "float32")
    yield "round halves", paddle.round, [halves]
    yield "round float64", paddle.round, [halves.astype("float64")]
    odd = np.array([[1.0, np.nan, 2.0], [3.0, 0.5, -np.inf], [4.0, 4.0, 1.5]], "float32")
    for name in ("max", "min", "amax", "amin"):
        function = getattr(paddle, name)
        yield f"{name} nan", function, [odd]
        yield f"{name} nan axis", lambda x, f=function: f(x, axis=1), [odd]
        yield f"{name} nan keepdim", lambda x, f=function: f(x, axis=[-2], keepdim=True), [odd.astype("float64")]
    for name in ("maximum", "minimum"):
        function = getattr(paddle, name)
        yield f"{name} nan", function, [odd, odd.T.copy()]
        yield f"{name} nan broadcast", function, [odd[:, :1].copy(), np.array([[1.0, np.nan, 2.5]], "float32")]
        yield f"{name} nan rank", function, [np.array([2.0, np.nan, 1.0], "float32"), odd]
        yield f"{name} integers", function, [np.array([[1, 5]]), np.array([[4], [2]])]
    rows = np.arange(1.0, 25.0, dtype="float32").reshape(2, 3, 4)
    yield "trace axes", lambda x: paddle.trace(x, 1, 2, 0), [rows]
    yield "trace axes from end", lambda x: paddle.trace(x, -1, -1, -2), [rows]
    steps = np.array([[-1.5, 0.0, 2.0], [0.0, 0.5, np.nan]], "float32")
    yield "heaviside rank", paddle.heaviside, [steps[1].copy(), np.array([[0.25], [0.75]], "float32")]
    yield "heaviside rank of second", paddle.heaviside, [steps, np.array([0.25, 0.5, 0.75], "float32")]
    limits = np.array([[-0.5, 0.5, -0.50000006, 0.3, 0.50000006, np.nan, np.inf]], "float32")
    yield "F.hardshrink limits", lambda x: F.hardshrink(x, 0.5), [limits]
    fractions = np.array([[1.0009766, 1.0004883, -2.7182817, 65519.0, 65520.0, 3e-8, 1e-7, 0.1, 4.6862965]], "float32")
    for dtype in ("float16", "bfloat16"):
        yield f"cast {dtype}", lambda x, d=dtype: x.astype(d).astype("float32"), [fractions]
        yield f"cast {dtype} of truths", lambda x, d=dtype: (x > 1).astype(d).astype("float32"), [fractions]
        yield f"full {dtype}", lambda x, d=dtype: paddle.full([2], 4.686296, d).astype("float32") + x, [fractions[:, :1].copy()]
        yield f"full_like {dtype}", lambda x, d=dtype: paddle.full_like(x, -6.2412038, d).astype("float32"), [fractions]
    line = (np.arange(12.0, dtype="float32") ** 1.5).reshape(1, 2, 6)
    yield "F.interpolate linear to one", lambda x: F.interpolate(x, [1], mode="linear", data_format="NCW"), [line]
    yield "F.interpolate linear scale to one", lambda x: F.interpolate(x, scale_factor=0.2, mode="linear", data_format="NCW"), [line]
    cube = (np.arange(48.0, dtype="float32") ** 1.5).reshape(1, 1, 4, 3, 4)
    yield "F.interpolate trilinear to one", lambda x: F.interpolate(x, [2, 1, 1], mode="trilinear", data_format="NCDHW"), [cube]
    image = (np.arange(24.0, dtype="float32") ** 1.5).reshape(1, 1, 4, 6)
    yield "F.interpolate bilinear to one", lambda x: F.interpolate(x, [1, 2], mode="bilinear"), [image]
    weighted = lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, pos_weight=w, reduction="none")
    logits, shares = np.array([[-1.0, 0.5, 2.0]], "float32"), np.array([[0.25, 1.0, 0.6]], "float32")
    yield "F.binary_cross_entropy_with_logits weighted", weighted, [logits, shares, np.array([2.0, 3.0, 0.5], "float32")]
    yield "strided_slice backward", lambda x: paddle.strided_slice(x, [1, 2], [2, -1], [-5, -4], [-1, -2]), [rows]
    # What 2.6.2 requires.
    image = np.arange(24.0, dtype="float32").reshape(1, 2, 3, 4)
    like = np.zeros((1, 1, 5, 7), "float32")
    yield "F.pad computed", pad_to, [image, like]
    yield "F.interpolate list", resize_to, [image, like]
    yield "slice computed", lambda x, n: x[:, : n[0]], [rows, np.array([2])]
    yield "strided_slice computed", lambda x, n: paddle.strided_slice(x, [1], [0], [n], [2]), [rows, np.array([3])]
    yield "F.sequence_mask computed", lambda x, n: F.sequence_mask(x, n), [np.array([1, 3]), np.array([4])]
    yield "clip computed", lambda x, n: paddle.clip(x, n, 5.0), [rows, np.array([2.5], "float32")]
    # Slices along the last axis are compared in another order than in NumPy.
    slices = np.array([[[0, 1, 1], [1, 1, 0]], [[1, 0, 1], [0, 1, 1]]], "float32")
    for axis in (0, 1, 2):
        yield f"unique slices {axis}", lambda x, a=axis: paddle.unique(x, True, True, True, axis=a), [slices]
    sizes = [112.0, 111.99999, 223.99998, 224.0, 223.9997, 447.9997, 448.0, 447.99]
    regions = np.array([[0, 0, size, size] for size in sizes], "float32")
    # Regions at the borders of levels.
    yield "distribute_fpn_proposals borders", levels, [regions, np.array([5, 3], "int32")]
    yield "distribute_fpn_proposals float64", levels, [regions.astype("float64"), np.array([8], "int32")]


def internal():
    """Yields calls of functions that write operators which are not those of one public function."""
    global RANDOM
    RANDOM, place = np.random.default_rng(6), paddle.CPUPlace()
    yield "print", lambda x: static.Print(x * 2) + 1, X()
    yield "full_", overwritten, X()
    yield "slice_array_dense", array_item, X()
    yield "create_array_like", array_like, X()
    yield "shape", lambda x: _C_ops.shape(x), X()
    yield "shape of slice", lambda x: _C_ops.shape(x[:, 1:]), X()
    for dtype in ("float32", "int64", "bool"):
        yield f"empty {dtype}", lambda x, d=dtype: _C_ops.empty([2, 1, 4], getattr(paddle, d), place).astype("float32") * 0 + x, X()
        yield f"empty_like {dtype}", lambda x, d=dtype: _C_ops.empty_like(x, getattr(paddle, d), place).astype("float32") * 0 + x, X()
    yield "memcpy", lambda x: _C_ops.memcpy(x, 0) + 1, X()
    yield "memcpy_d2h", lambda x: _C_ops.memcpy_d2h(x, 0) + 1, X()
    yield "memcpy_h2d", lambda x: _C_ops.memcpy_h2d(x, 1) + 1, X()
    yield "npu_identity", lambda x: _C_ops.npu_identity(x, -1) + 1, X()
    yield "share_data", lambda x: _C_ops.share_data(x) + 1, X()
    yield "trans_layout", lambda x: _C_ops.trans_layout(x, [2, 0, 1]) + 1, X()
    yield "trans_layout back", lambda x: _C_ops.trans_layout(_C_ops.trans_layout(x, [0, 2, 3, 1]) * 2, [0, 3, 1, 2]), IMAGE()
    for number, what in enumerate(("zeros", "ones")):
        yield f"{what} of a shape", lambda x, n=number: paddle.maximum(x, paddle.full([3, 1], n)), X()
        yield f"{what} like a tensor", lambda x, n=number: paddle.maximum(x, paddle.full_like(x, n)), X()
    yield "assert", None, [floats(2, 3)], record_checked


def overwritten(x):
    y = x * 2
    z = _C_ops.full_(y, [2, 3, 4], 1.5, paddle.float32, paddle.CPUPlace())
    return z + 1, y, x


def array_of(x):
    array = paddle.tensor.create_array("float32")
    for number in range(3):
        array = paddle.tensor.array_write(x * (number + 1), paddle.full([1], number, "int64"), array)
    return array


def array_item(x):
    return _C_ops.slice_array_dense(array_of(x), [1])


def array_like(x):
    places = [paddle.full([1], number, "int64") for number in range(3)]
    copy = _C_ops.create_array_like(array_of(x), 0.5)
    copy = paddle.tensor.array_write(x - 1, places[1], copy)
    return [paddle.tensor.array_read(copy, place) + x for place in places]


def levels(regions, counts):
    _, order, counts = paddle.vision.ops.distribute_fpn_proposals(regions, 2, 5, 4, 224, rois_num=counts)
    return [order, *counts]


def pad_to(x, like):
    return F.pad(x, [0, like.shape[3] - x.shape[3], like.shape[2] - x.shape[2], 0])


def resize_to(x, like):
    return F.interpolate(x, [like.shape[2], like.shape[3]], mode="bilinear")


def set_slice(x):
    y = x + 0.0
    y[:, 1] = 0.5
    return y


def set_tensor(x, v):
    y = x * 1.0
    y[:, 2] = v
    return y


def branch(x):
    if x.sum() > 0:
        return x * 2, x.max()
    return x - 1, x.min()


def branch_shapes(x):
    if paddle.shape(x)[0] > 2:
        y = x[:2]
    else:
        y = x
    return y + 1


def loop(n):
    i, total = paddle.zeros([1], "int64"), paddle.zeros([1], "int64")
    while i < n:
        if i % 2 == 0:
            total = total + i
        else:
            total = total - 1
        i = i + 1
    return total, i


def nested_loop(x):
    i = paddle.zeros([1], "int64")
    while i < 2:
        j = paddle.zeros([1], "int64")
        while j < 3:
            x = x + 0.5 * (i + j).astype("float32")
            j = j + 1
        i = i + 1
    return x


def loop_with_list(x):
    i, parts = paddle.zeros([1], "int64"), []
    while i < 3:
        parts.append(x * (i + 1).astype("float32"))
        i = i + 1
    return paddle.concat(parts, axis=0)


def in_place(x):
    y = x + 1
    F.relu_(y)
    y.scale_(2.0)
    y.add_(x)
    return y, x


LAYERS = {
    "nn.LSTM": lambda: nn.LSTM(4, 6),
    "nn.GRU": lambda: nn.GRU(4, 6, direction="bidirect"),
    "nn.SimpleRNN": lambda: nn.SimpleRNN(4, 6, num_layers=2),
    "nn.LSTMCell": lambda: nn.RNN(nn.LSTMCell(4, 6)),
    "nn.MultiHeadAttention": lambda: nn.MultiHeadAttention(4, 2),
    "nn.TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(4, 2, 8, activation="relu", normalize_before=True),
    "nn.Linear": lambda: nn.Linear(4, 3),
    "nn.LayerNorm": lambda: nn.LayerNorm([3, 4]),
    "nn.PReLU": lambda: nn.PReLU(3),
    "nn.BatchNorm1D": lambda: nn.BatchNorm1D(3),
    "nn.InstanceNorm1D": lambda: nn.InstanceNorm1D(3),
    "nn.Conv1D": lambda: nn.Conv1D(3, 5, 3, padding=1),
    "nn.ZeroPad1D": lambda: nn.ZeroPad1D([1, 2]),
    "nn.Flatten": lambda: nn.Flatten(),
}


class Call(nn.Layer):
    """A layer that calls a function. Its source is translated, if it has branches or loops."""

    def __init__(self, function, count):
        super().__init__()
        self.count = count
        self.function = function if getattr(function, "__module__", "") == __name__ and function.__name__ != "<lambda>" else paddle.jit.not_to_static(function)

    def forward(self, a, b=None, c=None, d=None, e=None):
        if self.count == 1:
            return self.function(a)
        if self.count == 2:
            return self.function(a, b)
        if self.count == 3:
            return self.function(a, b, c)
        if self.count == 4:
            return self.function(a, b, c, d)
        return self.function(a, b, c, d, e)


def described(array):
    return [array.dtype.name, list(array.shape), array.tobytes().hex()]


def record(folder, name, function, inputs):
    """Saves a function, and returns the line of its results. Dims are unknown if the function accepts that."""
    names = [f"x{number}" for number in range(len(inputs))]
    path = os.path.join(folder, "inference")
    for unknown in (True, False):
        specs = [
            static.InputSpec([None if unknown else dim for dim in array.shape], str(array.dtype), name)
            for name, array in zip(names, inputs)
        ]
        try:
            paddle.disable_static()
            layer = function if isinstance(function, nn.Layer) else Call(function, len(inputs))
            net = paddle.jit.to_static(layer, input_spec=specs, full_graph=True)
            paddle.jit.save(net, path, input_spec=specs)
            break
        except Exception:
            if not unknown:
                raise
    paddle.enable_static()
    executor = static.Executor(paddle.CPUPlace())
    program, feeds, targets = static.load_inference_model(path, executor)
    feed = {name: array for name, array in zip(names, inputs) if name in feeds}
    results = [np.asarray(value) for value in executor.run(program, feed=feed, fetch_list=targets)]
    if any(value.dtype == object for value in results):
        raise ValueError("PaddlePaddle returns no value")
    with open(f"{path}.json") as file:
        pir = json.load(file)
    params = ""
    if os.path.exists(f"{path}.pdiparams"):
        with open(f"{path}.pdiparams", "rb") as file:
            params = file.read().hex()
    ops = pir["program"]["regions"][0]["blocks"][0]["ops"]
    outputs = {}
    for op in ops:
        if op["#"] == "1.fetch":
            attributes = {attribute["N"]: attribute["AT"]["D"] for attribute in op["A"]}
            outputs[attributes["col"]] = attributes["name"]
    return {
        "name": name, "pir": pir, "params": params,
        "inputs": {name: described(array) for name, array in feed.items()},
        "outputs": [[outputs[column], described(value)] for column, value in enumerate(results)],
    }


def record_checked(folder, name, _, inputs):
    """Returns the line of a program that checks a condition, which no saved model does, because nothing reads the result."""
    [x] = inputs
    paddle.enable_static()
    program = static.Program()
    with static.program_guard(program):
        value = static.data("x0", x.shape, str(x.dtype))
        static.nn.control_flow.Assert(value.sum() < 1e6, [value])
        y = value + 1
        paddle._pir_ops.fetch(y, "y", 0)
    found = static.Executor(paddle.CPUPlace()).run(program, feed={"x0": x}, fetch_list=[y])
    path = os.path.join(folder, "program.json")
    core.serialize_pir_program(program, path, 4, True, False, False)
    with open(path) as file:
        pir = json.load(file)
    return {
        "name": name, "pir": pir, "params": "", "inputs": {"x0": described(x)},
        "outputs": [["y", described(np.asarray(found[0]))]],
    }


def attempt(folder, name, function, inputs, record=record):
    """Records a call in a process of its own, because PaddlePaddle may crash; returns the line, or None and the reason."""
    line, reason = os.path.join(folder, "line.json"), os.path.join(folder, "reason.txt")
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            recorded = json.dumps(record(folder, name, function, inputs), separators=(",", ":"))
            with open(line, "w") as file:
                file.write(recorded + "\n")
            os._exit(0)
        except BaseException as error:
            with open(reason, "w") as file:
                file.write((str(error).strip().splitlines() or [repr(error)])[-1][:150])
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if status == 0:
        with open(line) as file:
            return file.read(), None
    if not os.path.exists(reason):
        return None, "it crashed"
    with open(reason) as file:
        return None, file.read()


def write(path, every):
    lines, refused = [], []
    for name, function, inputs, *how in every:
        with tempfile.TemporaryDirectory() as folder:
            line, reason = attempt(folder, name, function, inputs, *how)
        if line:
            lines.append(line)
        else:
            refused.append(f"{name}: {reason}")
    with open(path, "wb") as file:
        with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=9, mtime=0, filename="") as packed:
            packed.write("".join(lines).encode())
    print(f"{len(lines)} calls; PaddlePaddle refused {len(refused)}:", *refused, sep="\n  ")


def main(out):
    every = list(calls())
    paddle.disable_static()
    for name, make in LAYERS.items():
        layer = make()
        layer.eval()
        every.append((name, layer, [floats(2, 3, 4)]))
    every += changed()
    write(os.path.join(out, "calls.jsonl.gz"), every)
    write(os.path.join(out, "internal.jsonl.gz"), internal())


if __name__ == "__main__":
    main(sys.argv[1])
