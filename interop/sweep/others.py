"""Calls of matrix products, embeddings, losses, and operators that generate tensors."""
import numpy as np

from .chance import BOOL, CODES, F32, F64, I32, I64, Call, array, calls


@calls("matmul", "matmul_v2")
def matmul(r, kind):
    dtype, (rows, inner, columns) = r.floating(), r.dims(3, 4)
    turns, batch = (r.flag(0.3), r.flag(0.3)), r.shape(0, 2, 3)
    names = ("transpose_X", "transpose_Y") if kind == "matmul" else ("trans_x", "trans_y")
    left = (inner, rows) if turns[0] else (rows, inner)
    right = (columns, inner) if turns[1] else (inner, columns)
    way = r.int(0, 5)
    if way == 0:
        x, y, turns = (inner,), r.pick((inner,), (inner, columns)), (False, False)
    elif way == 1:
        x, y, turns = (*batch, rows, inner), (inner,), (False, False)
    elif way == 2:
        x, y = (*batch, *left), right
    elif way == 3 and kind == "matmul_v2":
        thin = lambda: tuple(1 if r.flag(0.3) else dim for dim in batch)
        x, y = (*thin(), *left), (*thin(), *right)
    else:
        x, y = (*batch, *left), (*batch, *right)
    attributes = dict(zip(names, turns))
    if kind == "matmul":
        attributes["alpha"] = r.pick(1.0, 0.5, r.number(-2, 2))
    return Call({"X": r.plain(x, dtype), "Y": r.plain(y, dtype)}, attributes)


@calls("bmm")
def bmm(r, kind):
    dtype, (batch, rows, inner, columns) = r.floating(), r.dims(4, 4)
    return Call({"X": r.plain((batch, rows, inner), dtype), "Y": r.plain((batch, inner, columns), dtype)})


@calls("mul")
def mul(r, kind):
    dtype, front, inner, back = r.floating(), r.shape(1, 2, 3), r.shape(1, 2, 3), r.shape(1, 2, 3)
    attributes = {"x_num_col_dims": len(front), "y_num_col_dims": len(inner)}
    return Call({"X": r.plain((*front, *inner), dtype), "Y": r.plain((*inner, *back), dtype)}, attributes)


@calls("lookup_table", "lookup_table_v2")
def lookup(r, kind):
    height, dtype = r.int(2, 7), r.floating()
    shape = (*r.shape(1, 2), 1) if kind == "lookup_table" else r.shape(1, 3)
    ids = r.integers(shape, 0, height - 1, I64 if kind == "lookup_table" else r.pick(I32, I64))
    inputs = {"W": r.plain((height, r.dim(4)), dtype), "Ids": ids}
    return Call(inputs, {"padding_idx": r.pick(-1, r.int(0, height - 1))})


@calls("one_hot_v2")
def one_hot(r, kind):
    depth, dtype = r.int(1, 6), r.pick(F32, F64, I32, I64)
    ids = r.integers(r.shape(0, 3), 0, depth - 1, r.pick(I32, I64))
    if r.flag(0.3):
        return Call({"X": ids, "depth_tensor": array(depth, dtype=I32)}, {"dtype": CODES[dtype]})
    return Call({"X": ids}, {"depth": depth, "dtype": CODES[dtype]})


def labelled(r, axis=-1):
    """Returns rows, and a class for each."""
    shape = list(r.shape(2, 3, 5))
    count, shape[axis] = shape[axis], 1
    labels = r.integers(tuple(shape), 0, count - 1)
    shape[axis] = count
    return tuple(shape), count, labels


@calls("cross_entropy", "cross_entropy2")
def cross_entropy(r, kind):
    (shape, count, labels), dtype = labelled(r), r.floating()
    outputs, silent = (["Y", "MatchX", "XShape"], ["XShape"]) if kind.endswith("2") else (["Y"], [])
    x = r.shares(shape, dtype)
    if kind == "cross_entropy" and r.flag(0.4):
        return Call({"X": x, "Label": r.shares(shape, dtype)}, {"soft_label": True}, outputs)
    return Call({"X": x, "Label": labels}, {"ignore_index": r.pick(-100, r.int(0, count - 1))}, outputs, silent)


@calls("softmax_with_cross_entropy")
def softmax_with_cross_entropy(r, kind):
    rank = r.int(2, 4)
    axis, shape, dtype = r.axis(rank), list(r.dims(rank, 5)), r.floating()
    attributes = {"axis": axis, "numeric_stable_mode": True if axis % rank != rank - 1 else r.flag(0.7)}
    logits = r.plain(tuple(shape), dtype, r.pick(2.0, 2.0, 50.0))
    if r.flag(0.4):
        labels = np.moveaxis(r.shares(np.moveaxis(logits, axis, -1).shape, dtype), -1, axis)
        attributes["soft_label"] = True
        return Call({"Logits": logits, "Label": np.ascontiguousarray(labels)}, attributes, ["Softmax", "Loss"])
    count, shape[axis] = shape[axis], 1
    labels = r.integers(tuple(shape), 0, count - 1, r.pick(I32, I64))
    attributes["ignore_index"] = r.pick(-100, r.int(0, count - 1))
    return Call({"Logits": logits, "Label": labels}, attributes, ["Softmax", "Loss"])


@calls("sigmoid_cross_entropy_with_logits")
def sigmoid_cross_entropy(r, kind):
    shape, dtype = r.shape(2, 3), r.floating()
    attributes = {"normalize": r.flag(0.3), "ignore_index": r.pick(-100, 1)}
    inputs = {"X": r.plain(shape, dtype), "Label": r.integers(shape, 0, 1).astype(dtype)}
    if r.flag(0.2):
        inputs["pos_weight"] = r.positive(shape, dtype)
    return Call(inputs, attributes)


@calls("bce_loss")
def bce_loss(r, kind):
    shape, dtype = r.shape(1, 3), r.floating()
    x = r.random.random_sample(shape).astype(dtype)
    return Call({"X": x, "Label": r.integers(shape, 0, 1).astype(dtype)})


@calls("huber_loss")
def huber_loss(r, kind):
    shape, dtype = (r.dim(), 1), r.floating()
    pair = {"X": r.plain(shape, dtype), "Y": r.plain(shape, dtype)}
    return Call(pair, {"delta": r.number(0.25, 2)}, ["Out", "Residual"])


@calls("kldiv_loss")
def kldiv_loss(r, kind):
    shape, dtype = r.shape(1, 3), r.floating()
    pair = {"X": r.plain(shape, dtype), "Target": (r.integers(shape, -1, 3) / 2).astype(dtype)}
    return Call(pair, {"reduction": r.pick("mean", "sum", "none", "batchmean")}, ["Loss"])


@calls("log_loss")
def log_loss(r, kind):
    count = r.dim()
    pair = {"Predicted": r.number(0, 1) * r.random.random_sample((count, 1)), "Labels": r.integers((count, 1), 0, 1)}
    pair = {slot: values.astype(F32) for slot, values in pair.items()}
    return Call(pair, {"epsilon": r.pick(1e-4, 1e-2, 0.125)}, ["Loss"])


@calls("nll_loss")
def nll_loss(r, kind):
    classes, dtype, reduction = r.int(1, 5), r.floating(), r.pick("mean", "sum", "none")
    dims = r.dims(2, 3) if r.flag(0.4) else ()
    count = r.int(1, 4)
    inputs = {"X": r.plain((count, classes, *dims), dtype), "Label": r.integers((count, *dims), 0, classes - 1)}
    if r.flag():
        inputs["Weight"] = r.positive((classes,), dtype)
    attributes = {"reduction": reduction, "ignore_index": r.pick(-100, r.int(0, classes - 1))}
    return Call(inputs, attributes, ["Out", "Total_weight"], ["Total_weight"] if reduction == "none" else [])


@calls("label_smooth")
def label_smooth(r, kind):
    shape, dtype = r.shape(2, 3), r.floating()
    inputs = {"X": r.integers(shape, 0, 1).astype(dtype)}
    if r.flag(0.4):
        inputs["PriorDist"] = r.shares((1, shape[-1]), dtype)
    return Call(inputs, {"epsilon": r.number(0, 1)})


@calls("accuracy")
def accuracy(r, kind):
    count, k = r.int(1, 6), r.int(1, 3)
    out, indices = r.plain((count, k)), r.integers((count, k), 0, 3)
    inputs = {"Out": out, "Indices": indices, "Label": r.integers((count, 1), 0, 3)}
    return Call(inputs, {}, ["Accuracy", "Correct", "Total"])


@calls("fill_constant")
def fill_constant(r, kind):
    dtype, shape = r.pick(F32, F64, I32, I64, BOOL, "float16", "uint16"), list(r.shape(0, 3))
    value = float(r.int(0, 5)) if dtype in (I32, I64, BOOL) else r.number(-9, 9)
    attributes = {"shape": shape, "dtype": CODES[dtype], "value": value}
    if dtype in (F32, F64) and r.flag(0.2):
        attributes["str_value"] = r.pick("inf", "-inf", "nan", "0.1", "-1e-3")
    if r.flag(0.1) and shape:
        return Call({"ShapeTensor": array(*shape, dtype=I32)}, {**attributes, "shape": []})
    return Call({}, attributes)


@calls("fill_any_like", "fill_zeros_like")
def fill_like(r, kind):
    x = r.numbers(r.shape(0, 3), r.pick(F32, F64, I32, I64, BOOL))
    if kind == "fill_zeros_like":
        return Call({"X": x})
    dtype = r.pick(F32, F64, I32, I64, BOOL, None)
    whole = dtype in (I32, I64, BOOL) or (dtype is None and x.dtype.name not in (F32, F64))
    value = float(r.int(0, 1)) if whole else r.number(-9, 9)
    return Call({"X": x}, {"value": value, "dtype": CODES[dtype] if dtype else -1})


@calls("fill_constant_batch_size_like")
def fill_batch(r, kind):
    x, rank = r.numbers(r.shape(1, 3)), r.int(1, 3)
    place, dtype = r.int(0, rank - 1), r.pick(F32, F64, I32, I64)
    shape = list(r.dims(rank, 4))
    shape[place] = -1
    return Call({"Input": x}, {
        "shape": shape, "dtype": CODES[dtype], "value": float(r.int(-3, 3)),
        "input_dim_idx": r.int(0, x.ndim - 1), "output_dim_idx": place,
    })


@calls("assign_value")
def assign_value(r, kind):
    names = {F32: "fp32_values", F64: "fp64_values", I32: "int32_values", I64: "int64_values", BOOL: "bool_values"}
    dtype = r.pick(*names)
    values = r.numbers(r.shape(1, 3), dtype, odd=0)
    flat = [int(value) if dtype == BOOL else value for value in values.reshape(-1).tolist()]
    return Call({}, {"shape": list(values.shape), "dtype": CODES[dtype], names[dtype]: flat})


@calls("eye")
def eye(r, kind):
    dtype, columns = r.pick(F32, F64, I32, I64), r.pick(-1, r.int(1, 5))
    return Call({}, {"num_rows": r.int(1, 5), "num_columns": columns, "dtype": CODES[dtype]})


@calls("range")
def range_(r, kind):
    dtype = r.type()
    step = r.pick(1, 2, 3, -1, -2) if dtype in (I32, I64) else r.pick(0.25, 0.4, 1.5, -0.5, -0.3)
    start = r.int(-5, 5)
    end = start + (1 if step > 0 else -1) * r.int(1, 9)
    ends = {"Start": start, "End": end, "Step": step}
    return Call({slot: array(value, dtype=dtype) for slot, value in ends.items()})


@calls("linspace")
def linspace(r, kind):
    dtype = r.type()
    number = (lambda: r.int(-9, 9)) if dtype in (I32, I64) else (lambda: r.number(-9, 9))
    ends = {"Start": array(number(), dtype=dtype), "Stop": array(number(), dtype=dtype)}
    return Call({**ends, "Num": array(r.int(1, 8), dtype=I32)}, {"dtype": CODES[dtype]})
