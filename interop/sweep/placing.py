"""Calls of operators that regroup channels, select or update elements by index, or place diagonals."""
import numpy as np

from .chance import CODES, I32, I64, Call, calls
from .moving import any_type


@calls("maxout", "channel_shuffle")
def channels(r, kind):
    groups, last, dims = r.int(1, 4), r.flag(0.4), r.dims(2, 4)
    channels = groups * r.int(1, 3)
    shape = (r.int(1, 2), *dims, channels) if last else (r.int(1, 2), channels, *dims)
    x = r.numbers(shape, r.floating(), odd=0.5)
    where = {"axis": r.pick(3, -1) if last else 1} if kind == "maxout" else {"data_format": "NHWC" if last else "NCHW"}
    return Call({"X": x}, {"groups": groups, **where}, gradient=False)


@calls("pixel_unshuffle")
def pixel_unshuffle(r, kind):
    factor, last, channels = r.int(1, 3), r.flag(0.4), r.int(1, 3)
    dims = [factor * r.int(1, 3) for _ in range(2)]
    x = r.numbers((r.int(1, 2), *dims, channels) if last else (r.int(1, 2), channels, *dims), r.floating())
    attributes = {"downscale_factor": factor, "data_format": "NHWC" if last else "NCHW"}
    return Call({"X": x}, attributes, gradient=False)


@calls("broadcast_tensors")
def broadcast(r, kind):
    shape, dtype, count = r.shape(1), any_type(r), r.int(2, 4)
    parts = [tuple(1 if r.flag(0.3) else dim for dim in shape)[r.int(0, len(shape)):] for _ in range(count)]
    return Call({"X": [r.numbers(part, dtype) for part in parts]}, {}, {"Out": count}, gradient=False)


@calls("multiplex")
def multiplex(r, kind):
    count, shape, dtype = r.int(2, 4), r.shape(2, 4), r.type()
    ids = r.integers((shape[0], 1), 0, count - 1, I32)
    return Call({"Ids": ids, "X": [r.numbers(shape, dtype) for _ in range(count)]}, gradient=False)


@calls("index_put")
def index_put(r, kind):
    x, accumulate = r.numbers(r.shape(1, 3, 5), r.type(), odd=0), r.flag()
    if r.flag(0.3):
        # A mask of the first dims.
        mask = r.bools(x.shape[:r.int(1, x.ndim)])
        mask.reshape(-1)[r.int(0, mask.size - 1)] = True
        rest = x.shape[mask.ndim:]
        value = r.numbers(r.pick((), (1,), (int(mask.sum()), *rest)), x.dtype.name, odd=0)
        return Call({"x": x, "indices": mask, "value": value}, {"accumulate": accumulate}, ["out"], gradient=False)
    depth = r.int(1, x.ndim)
    # If several values have one target and are not added, any of them may win.
    count = r.int(1, 6) if accumulate else r.int(1, min(x.shape[:depth]))
    column = lambda dim: r.integers((count,), -dim, dim - 1) if accumulate else np.array(r.some(range(dim), dim)[:count])
    indices = [column(dim).astype(I64) for dim in x.shape[:depth]]
    shape = r.pick((), (1,), x.shape[depth:], (count, *x.shape[depth:]))
    inputs = {"x": x, "indices": indices, "value": r.numbers(shape, x.dtype.name, odd=0)}
    return Call(inputs, {"accumulate": accumulate}, ["out"], gradient=False)


@calls("index_add")
def index_add(r, kind):
    x = r.numbers(r.shape(1, 4, 5), r.type(), odd=0)
    axis, shape = r.axis(x.ndim), list(x.shape)
    shape[axis] = r.dim(4)
    index = r.integers((shape[axis],), 0, x.shape[axis] - 1, r.pick(I32, I64))
    inputs = {"X": x, "Index": index, "AddValue": r.numbers(tuple(shape), x.dtype.name, odd=0)}
    return Call(inputs, {"axis": axis}, gradient=False)


@calls("put_along_axis")
def put_along_axis(r, kind):
    x = r.numbers(r.shape(1, 3), r.type(), odd=0)
    # With a negative axis, PaddlePaddle writes outside of the tensor.
    axis, shape = r.int(0, x.ndim - 1), list(x.shape)
    shape[axis] = r.dim(4)
    index = r.integers(tuple(shape), 0, x.shape[axis] - 1, r.pick(I32, I64))
    inputs = {"Input": x, "Index": index, "Value": r.numbers(tuple(shape), x.dtype.name, odd=0)}
    attributes = {"Axis": axis, "Reduce": r.pick("assign", "add", "mul", "multiply", "amin", "amax")}
    return Call(inputs, {**attributes, "Include_self": r.flag(0.8)}, ["Result"], gradient=False)


@calls("diag_v2")
def diag(r, kind):
    # PaddlePaddle cannot make an empty diagonal.
    shape, dtype = r.shape(0, 2), r.type()
    reach = min(shape, default=1) - 1 if len(shape) == 2 else 4
    attributes = {"offset": r.int(-reach, reach), "padding_value": float(r.int(-2, 2))}
    return Call({"X": r.numbers(shape, dtype)}, attributes, gradient=False)


@calls("diag_embed")
def diag_embed(r, kind):
    x = r.numbers(r.shape(1, 3, 4), r.type())
    first, second = (int(axis) for axis in r.random.permutation(x.ndim + 1)[:2])
    signed = lambda axis: axis - x.ndim - 1 if r.flag(0.3) else axis
    return Call({"Input": x}, {"offset": r.int(-3, 3), "dim1": signed(first), "dim2": signed(second)}, gradient=False)


@calls("diagonal", "trace")
def diagonal(r, kind):
    x = r.numbers(r.shape(2, 4, 5), r.type(), odd=0)
    first, second = r.axes(x.ndim, 2)[:2]
    return Call({"Input": x}, {"offset": r.int(-5, 5), "axis1": first, "axis2": second}, gradient=False)


@calls("tril_indices", "triu_indices")
def triangle_indices(r, kind):
    names = ["rows", "cols"] if kind == "tril_indices" else ["row", "col"]
    attributes = dict(zip(names, r.ints(2, 1, 6)))
    return Call({}, {**attributes, "offset": r.int(-7, 7), "dtype": r.pick(CODES[I32], CODES[I64])}, ["out"])


@calls("fold")
def fold(r, kind):
    size, kernel = r.ints(2, 3, 7), r.ints(2, 1, 3)
    strides, dilations, paddings = r.ints(2, 1, 3), r.ints(2, 1, 2), 2 * r.ints(2, 0, 2)
    counts = []
    for axis in range(2):
        reach = size[axis] + paddings[axis] + paddings[axis + 2] - dilations[axis] * (kernel[axis] - 1) - 1
        if reach < 0:
            return fold(r, kind)
        counts.append(reach // strides[axis] + 1)
    x = r.plain((r.int(1, 2), r.int(1, 3) * kernel[0] * kernel[1], counts[0] * counts[1]), r.floating())
    attributes = {"output_sizes": size, "kernel_sizes": kernel, "strides": strides}
    return Call({"X": x}, {**attributes, "dilations": dilations, "paddings": paddings}, ["Y"], gradient=False)
