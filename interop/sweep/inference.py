"""Calls of operators of trained networks: quantization, recurrent cells, slices, products, patches, sequences."""
import numpy as np

from .chance import CODES, F32, F64, I32, I64, Call, array, calls


def forward(*call):
    return Call(*call, gradient=False)


@calls(
    "fake_quantize_abs_max", "fake_quantize_dequantize_abs_max", "fake_channel_wise_quantize_abs_max",
    "fake_channel_wise_quantize_dequantize_abs_max",
)
def quantize(r, kind):
    attributes = {"bit_length": r.pick(8, 8, 4), "round_type": r.int(0, 1)}
    if "channel" in kind:
        attributes["quant_axis"] = r.int(0, 1)
    x = r.plain(r.shape(2, 4)) * np.float32(1.37)
    return forward({"X": x}, attributes, ["Out", "OutScale"])


@calls(
    "fake_quantize_moving_average_abs_max", "fake_quantize_dequantize_moving_average_abs_max",
    "fake_quantize_range_abs_max",
)
def quantize_by(r, kind):
    attributes = {"bit_length": r.pick(8, 8, 4), "round_type": r.int(0, 1), "is_test": True}
    inputs = {"X": r.plain(r.shape(1, 4)) * np.float32(1.37), "InScale": r.positive((1,))}
    return forward(inputs, attributes, ["Out", "OutScale"], ["OutScale"])


@calls("moving_average_abs_max_scale")
def observe(r, kind):
    inputs = {"X": r.plain(r.shape(1)), "InAccum": r.positive((1,)), "InState": r.positive((1,))}
    return forward(inputs, {"moving_rate": 0.75, "is_test": False}, ["Out", "OutScale", "OutState", "OutAccum"])


@calls("quantize_linear", "dequantize_linear")
def linear(r, kind):
    shape, axis = r.shape(2, 4), r.pick(-1, 0, 1)
    scale = r.positive((1 if axis < 0 else shape[axis],))
    x = r.integers(shape, -127, 127).astype(F32) if kind[0] == "d" else r.plain(shape) * np.float32(1.37)
    attributes = {"quant_axis": axis, "bit_length": 8}
    if kind[0] == "q":
        attributes["round_type"] = r.int(0, 1)
    return forward({"X": x, "Scale": scale, "ZeroPoint": np.zeros(scale.shape, F32)}, attributes, ["Y"])


@calls("fake_dequantize_max_abs")
def dequantize(r, kind):
    inputs = {"X": r.integers(r.shape(1), -127, 127).astype(F32), "Scale": r.positive((1,))}
    return forward(inputs, {"max_range": 127.0})


@calls("fake_channel_wise_dequantize_max_abs")
def dequantize_channels(r, kind):
    shape, axis = r.shape(2, 4), r.int(0, 1)
    x, scales = r.integers(shape, -127, 127).astype(F32), r.positive((shape[axis],))
    if axis == 1 and r.flag():
        return forward({"X": x, "Scales": [scales, r.positive((1,))]}, {"quant_bits": [8, 8]})
    return forward({"X": x, "Scales": scales}, {"quant_bits": [8], "quant_axis": axis})


@calls("rnn")
def rnn(r, kind):
    mode, layers, both, hidden = r.pick("LSTM", "GRU", "RNN_TANH", "RNN_RELU"), r.int(1, 2), r.flag(), r.int(1, 3)
    steps, batch, width = r.int(1, 4), r.int(1, 3), r.int(1, 3)
    gates, directions = {"LSTM": 4, "GRU": 3}.get(mode, 1), 2 if both else 1
    weights, biases = [], []
    for layer in range(layers):
        for _ in range(directions):
            size = width if layer == 0 else hidden * directions
            weights += [r.plain((gates * hidden, size), scale=0.5), r.plain((gates * hidden, hidden), scale=0.5)]
            biases += [r.plain((gates * hidden,), scale=0.5) for _ in range(2)]
    states = [r.plain((layers * directions, batch, hidden)) for _ in range(2 if mode == "LSTM" else 1)]
    inputs = {"Input": r.plain((steps, batch, width)), "PreState": states, "WeightList": weights + biases}
    if r.flag():
        inputs["SequenceLength"] = r.integers((batch,), 1, steps, I32)
    attributes = {
        "mode": mode, "num_layers": layers, "is_bidirec": both, "input_size": width, "hidden_size": hidden,
        "is_test": True,
    }
    outputs = {"Out": 1, "State": len(states), "Reserve": 1, "DropoutState": 1}
    return forward(inputs, attributes, outputs, ["Reserve", "DropoutState"])


@calls("gru_unit")
def gru_unit(r, kind):
    batch, size = r.int(1, 4), r.int(1, 4)
    inputs = {"Input": r.plain((batch, 3 * size)), "HiddenPrev": r.plain((batch, size)), "Weight": r.plain((size, 3 * size))}
    if r.flag():
        inputs["Bias"] = r.plain((1, 3 * size))
    attributes = {"origin_mode": r.flag(), "activation": r.int(0, 3), "gate_activation": r.int(0, 3)}
    return forward(inputs, attributes, ["Gate", "ResetHiddenPrev", "Hidden"])


@calls("set_value")
def set_value(r, kind):
    x, axes, starts, ends, steps, dims = r.numbers(r.shape(1, 4, 5), r.type()), [], [], [], [], []
    for axis, dim in enumerate(x.shape):
        start, step = r.int(0, dim - 1), r.pick(1, 1, 2)
        end = r.int(start + 1, dim)
        if not r.flag(0.7):
            dims.append(dim)
            continue
        axes, starts, ends, steps = [*axes, axis], [*starts, start], [*ends, end], [*steps, step]
        dims.append(-(-(end - start) // step))
    if not axes:
        axes, starts, ends, steps, dims[0] = [0], [0], [1], [1], 1
    removed = [axis for axis in axes if dims[axis] == 1 and r.flag(0.3)]
    values = r.numbers([dim for axis, dim in enumerate(dims) if axis not in removed], x.dtype.name, odd=0)
    attributes = {"axes": axes, "starts": starts, "ends": ends, "steps": steps, "dtype": CODES[x.dtype.name]}
    return forward({"Input": x, "ValueTensor": values}, {**attributes, "decrease_axes": removed})


@calls("crop", "crop_tensor")
def crop(r, kind):
    x = r.numbers(r.shape(1, 4), r.type() if kind == "crop_tensor" else F32)
    offsets = [r.int(0, dim - 1) for dim in x.shape]
    shape = [r.int(1, dim - offset) for dim, offset in zip(x.shape, offsets)]
    return forward({"X": x}, {"shape": shape, "offsets": offsets})


@calls("expand")
def expand(r, kind):
    x = r.numbers(r.shape(1, 4, 4), r.type())
    return forward({"X": x}, {"expand_times": r.ints(x.ndim, 1, 3)})


@calls("unique", "unique_consecutive", "unique_with_counts")
def unique(r, kind):
    shape = r.shape(1, 1 if kind == "unique_with_counts" else 3, 5)
    x, dtype = r.integers(shape, 0, 3).astype(r.type()), r.pick(CODES[I32], CODES[I64])
    if kind == "unique_with_counts":
        return forward({"X": x}, {"dtype": dtype}, ["Out", "Index", "Count"])
    attributes = {"dtype": dtype, "axis": r.pick([], [r.int(0, x.ndim - 1)]), "return_inverse": True, "return_counts": True}
    if kind == "unique_consecutive":
        return forward({"X": x}, attributes, ["Out", "Index", "Counts"])
    attributes.update(return_index=True, is_sorted=True)
    return forward({"X": x}, attributes, ["Out", "Indices", "Index", "Counts"])


@calls("sequence_mask")
def sequence_mask(r, kind):
    attributes = {"maxlen": r.pick(-1, r.int(1, 6)), "out_dtype": CODES[r.pick(F32, F64, I32, I64)]}
    return forward({"X": r.integers(r.shape(1, 2), 1, 5, r.pick(I32, I64))}, attributes, ["Y"])


@calls("mv", "dot", "addmm")
def products(r, kind):
    dtype, (rows, inner, columns) = r.floating(), r.dims(3, 4)
    x = r.plain((rows, inner), dtype)
    if kind == "mv":
        return forward({"X": x, "Vec": r.plain((inner,), dtype)})
    if kind == "dot":
        shape = r.pick((inner,), (rows, inner))
        return forward({"X": r.plain(shape, dtype), "Y": r.plain(shape, dtype)})
    inputs = {"Input": r.plain((rows, columns), dtype), "X": x, "Y": r.plain((inner, columns), dtype)}
    return forward(inputs, {"Alpha": r.number(-2, 2), "Beta": r.number(-2, 2)})


@calls("fc")
def fc(r, kind):
    front, inner, columns = r.shape(1, 3, 3), r.dim(4), r.dim(4)
    inputs = {"Input": r.plain((*front, inner)), "W": r.plain((inner, columns)), "Bias": r.plain((columns,))}
    return forward(inputs, {"in_num_col_dims": len(front), "activation_type": r.pick("", "relu")})


@calls("einsum")
def einsum(r, kind):
    sizes = dict(zip("ijkb", r.dims(4, 4)))
    equation = r.pick("ij,jk->ik", "bij,bjk->bik", "ij,ij->i", "ij,kj->ki", "i,j->ij", "bij,bij->b")
    operands = [r.plain([sizes[letter] for letter in part]) for part in equation.split("->")[0].split(",")]
    outputs = {"Out": 1, "InnerCache": 2, "XShape": 2}
    return forward({"Operands": operands}, {"equation": equation}, outputs, ["InnerCache", "XShape"])


@calls("frobenius_norm")
def frobenius_norm(r, kind):
    x = r.plain(r.shape(2, 4), r.floating())
    return forward({"X": x}, {"dim": r.some(range(x.ndim), 2), "keep_dim": r.flag(), "reduce_all": r.flag(0.2)})


@calls("lrn")
def lrn(r, kind):
    attributes = {"n": r.pick(1, 3, 5), "k": r.number(0.5, 2), "alpha": r.number(0, 1), "beta": r.number(0, 1)}
    return forward({"X": r.plain(r.dims(4, 6))}, attributes, ["Out", "MidOut"], ["MidOut"])


@calls("data_norm")
def data_norm(r, kind):
    shape = r.dims(2)
    sums = {"BatchSize": r.positive(shape[1:]), "BatchSum": r.plain(shape[1:]), "BatchSquareSum": r.positive(shape[1:])}
    return forward({"X": r.plain(shape), **sums}, {}, ["Y", "Means", "Scales"])


@calls("deformable_conv", "deformable_conv_v1")
def deformable_conv(r, kind):
    groups, parts, batch = r.int(1, 2), r.int(1, 2), r.int(1, 2)
    kernel, strides, paddings, dilations = r.ints(2, 1, 3), r.ints(2, 1, 2), r.ints(2, 0, 1), r.ints(2, 1, 2)
    channels, dims = 2 * r.int(1, 2), (r.int(5, 7), r.int(5, 7))
    out = [(dim + 2 * pad - dilation * (size - 1) - 1) // stride + 1 for dim, pad, dilation, size, stride in
           zip(dims, paddings, dilations, kernel, strides)]
    taps = parts * kernel[0] * kernel[1]
    inputs = {
        "Input": r.plain((batch, channels, *dims)), "Filter": r.plain((2 * groups, channels // groups, *kernel)),
        "Offset": r.plain((batch, 2 * taps, *out), scale=0.5) + np.float32(0.01),
    }
    if kind == "deformable_conv":
        inputs["Mask"] = r.positive((batch, taps, *out))
    return forward(inputs, {
        "strides": strides, "paddings": paddings, "dilations": dilations, "groups": groups,
        "deformable_groups": parts, "im2col_step": 1,
    }, ["Output"])


@calls("shuffle_channel")
def shuffle_channel(r, kind):
    groups = r.int(1, 3)
    return forward({"X": r.plain((r.dim(3), groups * r.int(1, 3), r.dim(), r.dim()))}, {"group": groups})


@calls("temporal_shift")
def temporal_shift(r, kind):
    frames = r.int(1, 4)
    x = r.plain((frames * r.int(1, 2), r.int(2, 6), r.dim(3), r.dim(3)))
    return forward({"X": x}, {"seg_num": frames, "shift_ratio": r.number(0.05, 0.45)})


@calls("affine_grid")
def affine_grid(r, kind):
    batch = r.int(1, 3)
    attributes = {"output_shape": [batch, 1, r.int(2, 5), r.int(2, 5)], "align_corners": r.flag()}
    return forward({"Theta": r.plain((batch, 2, 3))}, attributes, ["Output"])


@calls("im2sequence")
def im2sequence(r, kind):
    attributes = {"kernels": r.ints(2, 1, 3), "strides": r.ints(2, 1, 3), "paddings": r.ints(4, 0, 1)}
    return forward({"X": r.plain((r.int(1, 2), r.int(1, 3), r.int(3, 6), r.int(3, 6)))}, attributes)


@calls("sequence_unpad")
def sequence_unpad(r, kind):
    rows, columns = r.int(1, 4), r.int(1, 6)
    x = r.plain((rows, columns) + r.shape(0, 2, 4), r.type())
    # The gradient requires LoD.
    return forward({"X": x, "Length": r.integers((rows,), 1, columns)})


@calls("ctc_align")
def ctc_align(r, kind):
    rows, columns = r.int(1, 4), r.int(1, 7)
    inputs = {"Input": r.integers((rows, columns), 0, 3, r.pick(I32, I64))}
    inputs["InputLength"] = r.integers((rows, 1), 0, columns, inputs["Input"].dtype.name)
    attributes = {"blank": r.int(0, 2), "merge_repeated": r.flag(), "padding_value": r.pick(0, 9)}
    return forward(inputs, attributes, ["Output", "OutputLength"])


@calls("lod_reset")
def lod_reset(r, kind):
    x = r.plain(r.shape(1, 3))
    return Call({"X": x}, {"target_lod": [0, x.shape[0]]})


@calls("split_lod_tensor")
def split_lod_tensor(r, kind):
    rows = r.int(1, 5)
    inputs = {"X": r.plain((rows,) + r.shape(1, 2, 4), r.type()), "Mask": r.bools((rows, 1))}
    return forward(inputs, {"level": 0}, ["OutTrue", "OutFalse"])


@calls("merge_lod_tensor")
def merge_lod_tensor(r, kind):
    mask, rest, dtype = r.bools((r.int(1, 5), 1)), r.shape(1, 2, 4), r.type()
    count = int(mask.sum())
    parts = {"InTrue": r.plain((count,) + rest, dtype), "InFalse": r.plain((mask.size - count,) + rest, dtype)}
    return forward({"X": mask, "Mask": mask, **parts}, {"level": 0})


@calls("add_position_encoding")
def add_position_encoding(r, kind):
    x = r.plain((r.int(1, 3), r.int(1, 6), 2 * r.int(1, 4)), r.floating())
    return Call({"X": x}, {"alpha": r.number(0, 2), "beta": r.number(0, 2)})


@calls("row_conv")
def row_conv(r, kind):
    batch, steps, width = r.int(1, 3), r.int(1, 6), r.int(1, 5)
    return Call({"X": r.plain((batch, steps, width)), "Filter": r.plain((r.int(1, 4), width))})


@calls("bpr_loss")
def bpr_loss(r, kind):
    rows, classes = r.int(1, 5), r.int(2, 6)
    inputs = {"X": r.plain((rows, classes), r.floating()), "Label": r.integers((rows, 1), 0, classes - 1)}
    return Call(inputs, outputs=["Y"])
