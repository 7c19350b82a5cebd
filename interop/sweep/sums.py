"""Calls of operators along axes: reductions, extremes, sorting, normalization."""
import numpy as np

from .chance import BOOL, CODES, F32, F64, I32, I64, Call, array, calls


@calls("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod")
def reduce(r, kind):
    dtype = r.floating() if kind == "reduce_mean" else r.type()
    if kind == "reduce_sum" and r.flag(0.1):
        dtype = BOOL
    # Integers have no infinities.
    to = r.pick(F32, F64, I64) if kind == "reduce_sum" and r.flag(0.2) else None
    x = r.numbers(r.shape(0, 4, 5 if kind != "reduce_prod" else 3), dtype, 1.0, odd=0.0 if to == I64 else 0.3)
    attributes = {"dim": r.axes(x.ndim) if x.ndim else [], "keep_dim": r.flag(), "reduce_all": r.flag(0.2)}
    if not x.ndim:
        attributes["reduce_all"] = True
    if to:
        attributes.update(in_dtype=CODES[dtype], out_dtype=CODES[to])
    return Call({"X": x}, attributes)


@calls("reduce_all", "reduce_any")
def truth(r, kind):
    x = r.bools(r.shape(1))
    return Call({"X": x}, {"dim": r.axes(x.ndim), "keep_dim": r.flag(), "reduce_all": r.flag(0.2)})


@calls("mean")
def mean(r, kind):
    return Call({"X": r.numbers(r.shape(0), r.floating())})


@calls("arg_max", "arg_min")
def arg(r, kind):
    shape, dtype = r.shape(1), r.type()
    x = r.numbers(shape, dtype, odd=0.5) if r.flag() else r.integers(shape, -2, 2).astype(dtype)
    attributes = {"axis": r.axis(x.ndim), "keepdims": r.flag(), "flatten": r.flag(0.2)}
    return Call({"X": x}, {**attributes, "dtype": r.pick(CODES[I32], CODES[I64], -1)})


@calls("argsort")
def argsort(r, kind):
    x = r.distinct(r.shape(1, 4, 5), r.type())
    return Call({"X": x}, {"axis": r.axis(x.ndim), "descending": r.flag()}, ["Out", "Indices"])


@calls("top_k", "top_k_v2")
def top_k(r, kind):
    is_new = kind.endswith("v2")
    x = r.distinct(r.shape(1, 4, 5), r.type() if is_new else r.floating())
    attributes = {"axis": r.axis(x.ndim), "largest": r.flag()} if is_new else {}
    k = r.int(1, x.shape[attributes.get("axis", -1)])
    if r.flag(0.15):
        return Call({"X": x, "K": array(k, dtype=I32)}, {**attributes, "k": 1}, ["Out", "Indices"])
    return Call({"X": x}, {**attributes, "k": k}, ["Out", "Indices"])


@calls("cumsum")
def cumsum(r, kind):
    x = r.numbers(r.shape(1), r.type())
    attributes = {"axis": r.axis(x.ndim), "exclusive": r.flag(), "reverse": r.flag(), "flatten": r.flag(0.2)}
    return Call({"X": x}, attributes)


@calls("logsumexp")
def logsumexp(r, kind):
    x = r.numbers(r.shape(1, 4), r.floating(), r.pick(1.0, 50.0))
    return Call({"X": x}, {"axis": r.axes(x.ndim), "keepdim": r.flag(), "reduce_all": r.flag(0.2)})


@calls("p_norm")
def p_norm(r, kind):
    x = r.numbers(r.shape(1), r.floating(), 1.0)
    order = r.pick(0.0, 1.0, 2.0, 3.0, 0.5, float("inf"), float("-inf"), r.number(0.5, 4))
    return Call({"X": x}, {"porder": order, "axis": r.axis(x.ndim), "keepdim": r.flag(), "asvector": r.flag(0.2)})


@calls("squared_l2_norm")
def squared_norm(r, kind):
    return Call({"X": r.numbers(r.shape(1), r.floating())})


@calls("clip_by_norm")
def clip_by_norm(r, kind):
    return Call({"X": r.numbers(r.shape(1), F32)}, {"max_norm": r.number(0.1, 20)})


@calls("batch_norm")
def batch_norm(r, kind):
    channels, last, dtype = r.int(1, 3), r.flag(0.4), r.floating()
    dims = r.dims(r.int(0, 3), 4)
    x = r.plain((r.int(2, 3), *dims, channels) if last else (r.int(2, 3), channels, *dims), dtype)
    inputs = {
        "X": x, "Scale": r.plain((channels,), dtype), "Bias": r.plain((channels,), dtype),
        "Mean": r.plain((channels,), dtype), "Variance": r.positive((channels,), dtype),
    }
    attributes = {
        "is_test": r.flag(0.3), "use_global_stats": r.flag(0.2), "trainable_statistics": r.flag(0.1),
        "momentum": r.number(0.5, 1), "epsilon": r.pick(1e-5, 1e-3), "data_layout": "NHWC" if last else "NCHW",
    }
    outputs = {"Y": 1, "MeanOut": "Mean", "VarianceOut": "Variance", "SavedMean": 1, "SavedVariance": 1}
    is_trained = not attributes["use_global_stats"] and (
        not attributes["is_test"] or attributes["trainable_statistics"]
    )
    if is_trained:
        return Call(inputs, attributes, {**outputs, "ReserveSpace": 1}, ["ReserveSpace"])
    return Call(inputs, attributes, outputs, ["SavedMean", "SavedVariance"])


def scaled(r, inputs, count, dtype):
    """Returns the inputs with or without a scale and a bias."""
    if r.flag(0.8):
        inputs.update(Scale=r.plain((count,), dtype), Bias=r.plain((count,), dtype))
    return inputs


@calls("layer_norm")
def layer_norm(r, kind):
    x = r.plain(r.shape(2, 4), r.floating())
    begin = r.int(1, x.ndim - 1)
    inputs = scaled(r, {"X": x}, int(np.prod(x.shape[begin:])), x.dtype)
    return Call(inputs, {"begin_norm_axis": begin, "epsilon": r.pick(1e-5, 1e-3)}, ["Y", "Mean", "Variance"])


@calls("instance_norm")
def instance_norm(r, kind):
    x = r.plain((r.int(1, 2), r.int(1, 3), *r.dims(r.int(1, 3), 4)), r.floating())
    inputs = scaled(r, {"X": x}, x.shape[1], x.dtype)
    return Call(inputs, {"epsilon": r.pick(1e-5, 1e-3)}, ["Y", "SavedMean", "SavedVariance"])


@calls("group_norm")
def group_norm(r, kind):
    groups, last = r.int(1, 3), r.flag(0.4)
    channels, dims = groups * r.int(1, 3), r.dims(r.int(1, 3), 4)
    x = r.plain((r.int(1, 2), *dims, channels) if last else (r.int(1, 2), channels, *dims), r.floating())
    inputs = scaled(r, {"X": x}, channels, x.dtype)
    attributes = {"groups": groups, "epsilon": r.pick(1e-5, 1e-3), "data_layout": "NHWC" if last else "NCHW"}
    return Call(inputs, attributes, ["Y", "Mean", "Variance"])


@calls("norm")
def norm(r, kind):
    x = r.plain(r.shape(1), r.floating())
    attributes = {"axis": r.axis(x.ndim), "epsilon": r.pick(1e-10, 0.5)}
    if r.flag(0.2):
        return Call({"X": x}, {**attributes, "is_test": True}, ["Out", "Norm"], ["Norm"])
    return Call({"X": x}, attributes, ["Out", "Norm"])


@calls("affine_channel")
def affine_channel(r, kind):
    last, channels = r.flag(0.4), r.int(1, 3)
    dims = r.dims(r.pick(0, 2), 4)
    x = r.numbers((r.int(1, 2), *dims, channels) if last else (r.int(1, 2), channels, *dims), r.floating())
    inputs = {"X": x, "Scale": r.plain((channels,), x.dtype), "Bias": r.plain((channels,), x.dtype)}
    return Call(inputs, {"data_layout": "NHWC" if last else "NCHW"})


@calls("dropout")
def dropout(r, kind):
    is_test = r.flag()
    attributes = {
        "is_test": is_test, "dropout_prob": r.pick(0.0, 1.0, r.number(0.1, 0.9)), "fix_seed": True, "seed": 7,
        "dropout_implementation": r.pick("upscale_in_train", "downgrade_in_infer"),
    }
    x = r.numbers(r.shape(1), r.floating())
    # The dropped elements are random, but the gradient is determined by the mask.
    return Call({"X": x}, attributes, ["Out", "Mask"], ["Mask"] if is_test else [], forward=is_test)


@calls("reduce_amax", "reduce_amin")
def extreme(r, kind):
    x = r.numbers(r.shape(0, 4, 5), r.type(), odd=0.3)
    axes = r.axes(x.ndim) if x.ndim else []
    # With `reduce_all` and only some axes, PaddlePaddle returns uninitialized memory.
    attributes = {"dim": axes, "keep_dim": r.flag(), "reduce_all": len(axes) == x.ndim}
    return Call({"X": x}, attributes, gradient=False)


@calls("dist")
def distance(r, kind):
    shape, dtype = r.shape(0, 4), r.floating()
    thinned = tuple(1 if r.flag(0.3) else dim for dim in shape)
    order = r.pick(0.0, 1.0, 2.0, 3.0, 0.5, float("inf"), float("-inf"), r.number(0.5, 4))
    inputs = {"X": r.plain(shape, dtype, 1.0), "Y": r.plain(thinned, dtype, 1.0)}
    return Call(inputs, {"p": order}, gradient=False)


@calls("cumprod")
def cumprod(r, kind):
    x = r.numbers(r.shape(0, 4, 7), r.type(), 1.0)
    return Call({"X": x}, {"dim": r.axis(x.ndim) if x.ndim else 0}, gradient=False)


@calls("logcumsumexp")
def logcumsumexp(r, kind):
    x = r.plain(r.shape(1, 4, 7), r.floating(), r.pick(1.0, 50.0))
    attributes = {"axis": r.axis(x.ndim), "exclusive": r.flag(), "reverse": r.flag(), "flatten": r.flag(0.2)}
    return Call({"X": x}, attributes, gradient=False)


@calls("cross")
def cross(r, kind):
    shape, dtype = list(r.shape(1, 4, 4)), r.type()
    axis = r.axis(len(shape))
    shape[axis] = 3
    inputs = {slot: r.numbers(tuple(shape), dtype, odd=0) for slot in "XY"}
    return Call(inputs, {"dim": axis} if r.flag(0.7) else {}, gradient=False)


@calls("multi_dot")
def chain(r, kind):
    dims, dtype = r.ints(r.int(3, 6), 1, 5), r.floating()
    shapes = [list(pair) for pair in zip(dims, dims[1:])]
    if r.flag(0.3):
        shapes[0] = shapes[0][1:]
    if r.flag(0.3):
        shapes[-1] = shapes[-1][:1]
    return Call({"X": [r.plain(tuple(shape), dtype) for shape in shapes]}, gradient=False)


@calls("searchsorted")
def searchsorted(r, kind):
    dtype, many = r.type(), r.dim(8)
    front = r.shape(0, 2, 3)
    rows = front if r.flag() else ()
    sequence = np.sort(r.numbers((*rows, many), dtype, odd=0))
    values = r.numbers((*front, r.dim(5)), dtype, odd=0.3)
    return Call({"SortedSequence": sequence, "Values": values}, {"right": r.flag(), "out_int32": r.flag()})


@calls("bincount")
def bincount(r, kind):
    inputs = {"X": r.integers((r.int(1, 9),), 0, 7, r.pick(I32, I64))}
    if r.flag():
        inputs["Weights"] = r.numbers(inputs["X"].shape, r.type(), odd=0)
    return Call(inputs, {"minlength": r.pick(0, r.int(0, 12))})


@calls("histogram")
def histogram(r, kind):
    x = r.numbers(r.shape(1), r.type(), odd=0)
    least = r.int(-4, 2)
    attributes = r.pick({}, {"min": least, "max": least + r.int(0, 6)})
    return Call({"X": x}, {"bins": r.pick(1, 4, 8, r.int(1, 9)), **attributes})


@calls("kthvalue", "mode")
def found(r, kind):
    shape, dtype = r.shape(0, 4, 5), r.type()
    x = r.distinct(shape, dtype) if kind == "kthvalue" else r.integers(shape, -1, 2).astype(dtype)
    attributes = {"axis": r.axis(x.ndim) if x.ndim else -1, "keepdim": r.flag()}
    if kind == "kthvalue":
        attributes["k"] = r.int(1, x.shape[attributes["axis"]] if x.ndim else 1)
    return Call({"X": x}, attributes, ["Out", "Indices"], gradient=False)


@calls("cummax", "cummin")
def extremes(r, kind):
    shape, dtype = r.shape(0, 4, 7), r.type()
    x = r.numbers(shape, dtype, odd=0.5) if r.flag() else r.integers(shape, -2, 2).astype(dtype)
    attributes = {"axis": r.axis(x.ndim) if x.ndim else -1, "dtype": r.pick(CODES[I32], CODES[I64])}
    return Call({"x": x}, attributes, ["out", "indices"], gradient=False)


@calls("bilinear_tensor_product")
def bilinear(r, kind):
    (batch, left, right, many), dtype = r.dims(4, 5), r.floating()
    inputs = {"X": r.plain((batch, left), dtype), "Y": r.plain((batch, right), dtype)}
    inputs["Weight"] = r.plain((many, left, right), dtype)
    if r.flag():
        inputs["Bias"] = r.plain((1, many), dtype)
    return Call(inputs, gradient=False)
