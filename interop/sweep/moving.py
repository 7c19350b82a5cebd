"""Calls of operators that move elements: reshapes, slices, copies, indices."""
import numpy as np

from .chance import BOOL, F32, F64, I32, I64, Call, array, calls

SHAPED = {"outputs": ["Out", "XShape"], "silent": ["XShape"]}


def any_type(r):
    return r.pick(F32, F32, F64, I32, I64, BOOL)


def shaped(kind, inputs, attributes):
    """Returns a call; the newer kinds also return the original dims."""
    return Call(inputs, attributes, **(SHAPED if kind.endswith(("2", "_range")) else {}))


def factors(r, count, parts):
    """Returns numbers whose product is `count`."""
    dims = []
    for _ in range(parts - 1):
        dims.append(r.pick(*[dim for dim in range(1, count + 1) if count % dim == 0]))
        count //= dims[-1]
    return dims + [count]


@calls("reshape", "reshape2")
def reshape(r, kind):
    x = r.numbers(r.shape(1), any_type(r) if kind == "reshape2" else r.type())
    dims = factors(r, x.size, r.int(1, 4))
    for place in range(min(len(dims), x.ndim)):
        if dims[place] == x.shape[place] and r.flag():
            dims[place] = 0
    if r.flag():
        dims[r.int(0, len(dims) - 1)] = -1
    way = r.int(0, 5)
    if way == 0:
        return shaped(kind, {"X": x, "Shape": array(*dims, dtype=r.pick(I32, I64) if kind == "reshape2" else I32)}, {})
    if way == 1 and 0 not in dims:
        tensors = [array(dim, dtype=I32) for dim in dims]
        return shaped(kind, {"X": x, "ShapeTensor": tensors}, {"shape": [-1] * len(dims)})
    return shaped(kind, {"X": x}, {"shape": dims})


@calls("transpose", "transpose2")
def transpose(r, kind):
    x = r.numbers(r.shape(1, 5, 4), any_type(r) if kind == "transpose2" else r.type())
    return shaped(kind, {"X": x}, {"axis": [int(axis) for axis in r.random.permutation(x.ndim)]})


@calls("squeeze", "squeeze2")
def squeeze(r, kind):
    x = r.numbers(tuple(r.pick(1, 1, 3) for _ in range(r.int(1, 4))), any_type(r))
    return shaped(kind, {"X": x}, {"axes": r.axes(x.ndim, 0)})


@calls("unsqueeze", "unsqueeze2")
def unsqueeze(r, kind):
    x = r.numbers(r.shape(0, 3), any_type(r))
    rank = x.ndim + r.int(1, 2)
    axes = sorted(r.some(range(rank), rank - x.ndim)[:rank - x.ndim])
    if len(axes) == 1 and r.flag(0.4):
        axes = [axes[0] - rank]
    if r.flag(0.2):
        return shaped(kind, {"X": x, "AxesTensor": array(*axes, dtype=I32)}, {})
    return shaped(kind, {"X": x}, {"axes": axes})


@calls("flatten", "flatten2")
def flatten(r, kind):
    x = r.numbers(r.shape(1), r.type())
    return shaped(kind, {"X": x}, {"axis": r.int(0, x.ndim)})


@calls("flatten_contiguous_range")
def flatten_range(r, kind):
    x = r.numbers(r.shape(1, 5, 4), r.type())
    start = r.int(0, x.ndim - 1)
    stop = r.int(start, x.ndim - 1)
    signed = lambda axis: axis - x.ndim if r.flag(0.3) else axis
    return shaped(kind, {"X": x}, {"start_axis": signed(start), "stop_axis": signed(stop)})


@calls("concat")
def concat(r, kind):
    shape, dtype = r.shape(1), any_type(r)
    axis = r.axis(len(shape))
    parts = []
    for _ in range(r.int(1, 4)):
        dims = list(shape)
        dims[axis] = r.dim(4)
        parts.append(r.numbers(tuple(dims), dtype))
    if r.flag(0.15):
        return Call({"X": parts, "AxisTensor": array(axis, dtype=I32)}, {"axis": 0})
    return Call({"X": parts}, {"axis": axis})


@calls("split")
def split(r, kind):
    shape, count = list(r.shape(1)), r.int(1, 4)
    axis, sections = r.axis(len(shape)), [r.dim(3) for _ in range(count)]
    by_number = r.flag()
    shape[axis] = count * sections[0] if by_number else sum(sections)
    x = r.numbers(tuple(shape), any_type(r))
    if by_number:
        return Call({"X": x}, {"num": count, "axis": axis}, {"Out": count})
    # With a negative axis, PaddlePaddle returns the wrong parts.
    axis %= x.ndim
    if r.flag(0.4):
        sections[r.int(0, count - 1)] = -1
    return Call({"X": x}, {"sections": sections, "axis": axis}, {"Out": count})


@calls("stack")
def stack(r, kind):
    shape, dtype = r.shape(0, 3), r.type()
    parts = [r.numbers(shape, dtype) for _ in range(r.int(1, 4))]
    return Call({"X": parts}, {"axis": r.axis(len(shape) + 1)}, ["Y"])


@calls("unstack", "unbind")
def unstack(r, kind):
    x = r.numbers(r.shape(1, 4, 4), r.type())
    axis = r.axis(x.ndim)
    count = x.shape[axis]
    if kind == "unbind":
        return Call({"X": x}, {"axis": axis}, {"Out": count})
    return Call({"X": x}, {"axis": axis, "num": count}, {"Y": count})


@calls("slice")
def slice_(r, kind):
    x = r.numbers(r.shape(1), any_type(r))
    axes = sorted(r.some(range(x.ndim)))
    starts, ends, gone = [], [], []
    for axis in axes:
        dim = x.shape[axis]
        start = r.int(0, dim - 1)
        end = r.int(start + 1, dim)
        if end == start + 1 and r.flag(0.4):
            gone.append(axis)
        starts.append(start - dim if r.flag(0.3) else start)
        ends.append(r.pick(end, end - dim) if end < dim else r.pick(end, end + 90))
    if r.flag(0.15):
        inputs = {"Input": x, "StartsTensor": array(*starts, dtype=I32), "EndsTensor": array(*ends, dtype=I32)}
        hidden = [-1] * len(axes)
        return Call(inputs, {"axes": axes, "starts": hidden, "ends": hidden, "infer_flags": hidden})
    return Call({"Input": x}, {"axes": axes, "starts": starts, "ends": ends, "decrease_axis": gone})


@calls("strided_slice")
def strided_slice(r, kind):
    x = r.numbers(r.shape(1), r.type())
    axes = sorted(r.some(range(x.ndim)))
    starts, ends, strides = [], [], []
    for axis in axes:
        dim, stride = x.shape[axis], r.pick(1, 2, 3, -1, -2)
        first, last = sorted(r.ints(2, 0, dim - 1))
        if stride < 0:
            start, end = last, first - 1
            end = end if end >= 0 else -dim - 1
        else:
            start, end = first, last + 1
        starts.append(start - dim if r.flag(0.3) else start)
        ends.append(end)
        strides.append(stride)
    flags = [1] * len(axes)
    return Call({"Input": x}, {"axes": axes, "starts": starts, "ends": ends, "strides": strides, "infer_flags": flags})


@calls("expand_v2")
def expand(r, kind):
    shape = tuple(r.pick(1, 1, r.int(2, 4)) for _ in range(r.int(1, 3)))
    x = r.numbers(shape, any_type(r))
    wanted = [-1 if r.flag(0.2) else r.int(1, 4) if dim == 1 else dim for dim in shape]
    wanted = [r.int(1, 3) for _ in range(r.int(0, 2))] + wanted
    if r.flag(0.2):
        return Call({"X": x, "Shape": array(*wanted, dtype=I32)}, {"shape": [-1] * len(wanted)})
    return Call({"X": x}, {"shape": wanted})


@calls("expand_as_v2")
def expand_as(r, kind):
    wanted = r.shape(1)
    shape = tuple(1 if r.flag(0.4) else dim for dim in wanted)[r.int(0, len(wanted) - 1):]
    return Call({"X": r.numbers(shape, r.type())}, {"target_shape": list(wanted)})


@calls("tile")
def tile(r, kind):
    x = r.numbers(r.shape(1, 3, 4), any_type(r))
    repeats = r.ints(r.int(1, 4), 1, 3)
    if r.flag(0.2):
        return Call({"X": x, "RepeatTimes": array(*repeats, dtype=I32)}, {"repeat_times": [1]})
    return Call({"X": x}, {"repeat_times": repeats})


@calls("flip")
def flip(r, kind):
    x = r.numbers(r.shape(1), any_type(r))
    return Call({"X": x}, {"axis": r.axes(x.ndim)})


@calls("roll")
def roll(r, kind):
    x = r.numbers(r.shape(1), r.type())
    axes = r.axes(x.ndim) if r.flag(0.8) else []
    return Call({"X": x}, {"shifts": r.ints(len(axes) or 1, -7, 7), "axis": axes})


@calls("meshgrid")
def mesh(r, kind):
    dtype, count = r.type(), r.int(1, 4)
    return Call({"X": [r.numbers((r.dim(4),), dtype) for _ in range(count)]}, {}, {"Out": count})


@calls("pad")
def pad(r, kind):
    x = r.numbers(r.shape(1, 4, 4), r.floating())
    return Call({"X": x}, {"paddings": r.ints(2 * x.ndim, 0, 3), "pad_value": r.number(-2, 2)})


@calls("pad3d")
def pad3d(r, kind):
    last, dims, mode = r.flag(0.4), r.dims(3, 5), r.pick("constant", "reflect", "replicate", "circular")
    most = {"reflect": lambda dim: dim - 1, "circular": lambda dim: dim}.get(mode, lambda dim: 3)
    paddings = [r.int(0, most(dim)) for dim in reversed(dims) for _ in range(2)]
    x = r.numbers((r.int(1, 2), *dims, 2) if last else (r.int(1, 2), 2, *dims), r.type())
    attributes = {"paddings": paddings, "mode": mode, "value": float(r.int(-2, 2))}
    return Call({"X": x}, {**attributes, "data_format": "NDHWC" if last else "NCDHW"})


@calls("tril_triu")
def triangle(r, kind):
    x = r.numbers(r.shape(2), r.type())
    return Call({"X": x}, {"diagonal": r.int(-6, 6), "lower": r.flag()})


@calls("shape", "size")
def dims(r, kind):
    return Call({"Input": r.numbers(r.shape(0), r.type())})


@calls("gather")
def gather(r, kind):
    x = r.numbers(r.shape(1), r.type())
    axis, dtype = r.int(0, x.ndim - 1) if r.flag() else 0, r.pick(I32, I64)
    index = r.integers((r.dim(5),), 0, x.shape[axis] - 1, dtype)
    if r.flag(0.2):
        index = index[:, None]
    if r.flag(0.2):
        return Call({"X": x, "Index": index, "Axis": array(axis, dtype=r.pick(I32, I64))}, {"axis": 0})
    return Call({"X": x, "Index": index}, {"axis": axis})


@calls("gather_nd")
def gather_nd(r, kind):
    x = r.numbers(r.shape(1, 4, 4), r.type())
    depth, rows = r.int(1, x.ndim), r.shape(0, 2, 3)
    columns = [r.integers(rows, 0, x.shape[axis] - 1) for axis in range(depth)]
    return Call({"X": x, "Index": np.stack(columns, -1).astype(r.pick(I32, I64))})


@calls("index_select")
def index_select(r, kind):
    x = r.numbers(r.shape(1), r.type())
    axis = r.axis(x.ndim)
    index = r.integers((r.dim(5),), 0, x.shape[axis] - 1, r.pick(I32, I64))
    return Call({"X": x, "Index": index}, {"dim": axis})


@calls("index_sample")
def index_sample(r, kind):
    x = r.numbers(r.dims(2), r.type())
    index = r.integers((x.shape[0], r.dim(4)), 0, x.shape[1] - 1, r.pick(I32, I64))
    return Call({"X": x, "Index": index})


@calls("take_along_axis")
def take_along_axis(r, kind):
    x = r.numbers(r.shape(1, 3), r.type())
    # With a negative axis, PaddlePaddle reads outside of the tensor.
    axis, shape = r.int(0, x.ndim - 1), list(x.shape)
    shape[axis] = r.dim(4)
    index = r.integers(tuple(shape), 0, x.shape[axis] - 1, r.pick(I32, I64))
    return Call({"Input": x, "Index": index}, {"Axis": axis}, ["Result"])


@calls("masked_select")
def masked_select(r, kind):
    x = r.numbers(r.shape(1, 3), r.type())
    mask = r.bools(x.shape)
    mask.reshape(-1)[r.int(0, mask.size - 1)] = True
    return Call({"X": x, "Mask": mask}, {}, ["Y"])


@calls("where_index")
def where_index(r, kind):
    x = r.bools(r.shape(1))
    x.reshape(-1)[r.int(0, x.size - 1)] = True
    return Call({"Condition": r.pick(x, x.astype(I64), x.astype(F32))})


@calls("scatter")
def scatter(r, kind):
    x = r.numbers(r.shape(1, 3), r.type())
    overwrite, dtype = r.flag(), r.pick(I32, I64)
    if overwrite:
        # If several updates have one target, any of them may win.
        ids = np.array(r.some(range(x.shape[0])), dtype)
    else:
        ids = r.integers((r.dim(5),), 0, x.shape[0] - 1, dtype)
    updates = r.numbers((len(ids), *x.shape[1:]), x.dtype.name)
    return Call({"X": x, "Ids": ids, "Updates": updates}, {"overwrite": overwrite})


@calls("scatter_nd_add")
def scatter_nd_add(r, kind):
    x = r.numbers(r.shape(1, 3, 4), r.type())
    depth, rows = r.int(1, x.ndim), r.shape(1, 2, 3)
    columns = [r.integers(rows, 0, x.shape[axis] - 1) for axis in range(depth)]
    updates = r.numbers((*rows, *x.shape[depth:]), x.dtype.name)
    return Call({"X": x, "Index": np.stack(columns, -1).astype(r.pick(I32, I64)), "Updates": updates})
