"""Layers of images and volumes: convolutions, pooling, resizing, sampling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

from ..._checks import positive, wrong
from .._core import Variable
from .._layer import Attr, Layer, choice, required, sizes
from ..initializer import Normal, Xavier
from ._nn import channels, known

__all__ = [
    "adaptive_pool2d",
    "affine_channel",
    "affine_grid",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "deformable_conv",
    "fsp_matrix",
    "grid_sampler",
    "image_resize",
    "image_resize_short",
    "lrn",
    "pixel_shuffle",
    "pool2d",
    "pool3d",
    "resize_bilinear",
    "resize_nearest",
    "resize_trilinear",
    "shuffle_channel",
    "space_to_depth",
    "temporal_shift",
    "unfold",
]

Pair = int | Sequence[int]
Padding = str | int | Sequence[int] | Sequence[Sequence[int]]


def _groups(groups: int | None, argument: str = "groups") -> int:
    return 1 if groups is None else positive(argument, groups)


def _is_last(argument: str, layout: str, rank: int) -> bool:
    """Returns whether channels are the last dim."""
    return choice(argument, layout, {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}[rank]).endswith("C")


def _window(rank: int, padding: Padding, argument: str, is_last: bool) -> dict[str, Any]:
    """Returns the attributes of padding: `"SAME"`, `"VALID"`, or the sizes at the borders of the spatial dims.

    There is a size for all borders, one for each dim, one for each border, or a pair for each dim of the tensor.
    """
    if isinstance(padding, str):
        return {"paddings": [0] * rank, "padding_algorithm": choice(argument, padding.upper(), ("SAME", "VALID"))}
    given: Any = padding
    if not isinstance(given, int) and not hasattr(given, "__len__"):
        raise TypeError(wrong(argument, "an int, a str or a sequence of ints", given))
    if not isinstance(given, int) and len(given) == rank + 2 and not any(isinstance(one, int) for one in given):
        pairs = [sizes(argument, pair, 2) for pair in given]
        outer, inner = ([pairs[0], pairs[-1]], pairs[1:-1]) if is_last else (pairs[:2], pairs[2:])
        if any(any(pair) for pair in outer):
            raise ValueError(f"argument '{argument}': the batch and the channels cannot be padded")
        given = [size for pair in inner for size in pair]
    if isinstance(given, int) or len(given) != 2 * rank:
        return {"paddings": sizes(argument, given, rank)}
    borders = sizes(argument, given, 2 * rank)
    is_symmetric = borders[::2] == borders[1::2]
    return {"paddings": borders[::2] if is_symmetric else borders}


def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: Pair,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """A convolution of images: [batch, channels, height, width], or with `"NHWC"` [batch, height, width, channels].

    `padding` is `"SAME"`, `"VALID"`, a size for all borders, one for the height and one for the width, one for each
    border, or a pair for each dim.
    """
    return _conv("conv2d", 2, input, num_filters, filter_size, stride, padding, dilation, groups, param_attr, bias_attr, act, name, data_format)


def conv3d(
    input: Variable,
    num_filters: int,
    filter_size: Pair,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """A convolution of volumes: [batch, channels, depth, height, width], or with `"NDHWC"` channels last.

    `padding` is that of `conv2d`.
    """
    return _conv("conv3d", 3, input, num_filters, filter_size, stride, padding, dilation, groups, param_attr, bias_attr, act, name, data_format)


def _conv(
    kind: str,
    rank: int,
    x: Variable,
    filters: int,
    size: Pair,
    stride: Pair,
    padding: Padding,
    dilation: Pair,
    groups: int | None,
    weight: Attr,
    bias: Attr,
    act: str | None,
    name: str | None,
    layout: str,
) -> Variable:
    layer = Layer(kind, name)
    is_last = _is_last("data_format", layout, rank)
    among, window = _groups(groups), sizes("filter_size", size, rank)
    filter = _filter(layer, x, channels(x, is_last), filters, window, among, weight)
    attrs = {
        "strides": sizes("stride", stride, rank),
        **_window(rank, padding, "padding", is_last),
        "dilations": sizes("dilation", dilation, rank),
        "groups": among,
        "data_format": layout if is_last else None,
    }
    made = layer.result(kind, {"Input": x, "Filter": filter}, attrs, "Output")
    return layer.activated(layer.biased(made, bias, filters, rank + 1 if is_last else 1), act)


def _filter(
    layer: Layer, x: Variable, inputs: int, filters: int, window: Sequence[int], groups: int, attr: Attr
) -> Variable:
    """Adds the filter of a convolution."""
    if inputs % groups or filters % groups:
        raise ValueError(f"argument 'groups': {inputs} channels and {filters} filters are not multiples of {groups}")
    if min(window) < 1:
        raise ValueError(f"argument 'filter_size': {list(window)} is not positive")
    # The fan-in counts all channels, whatever the groups.
    default = Normal(0.0, sqrt(2.0 / (prod(window) * inputs)))
    return layer.parameter(required("param_attr", attr), [filters, inputs // groups, *window], x.dtype, default)


def deformable_conv(
    input: Variable,
    offset: Variable,
    mask: Variable | None,
    num_filters: int,
    filter_size: Pair,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int | None = None,
    deformable_groups: int | None = None,
    im2col_step: int | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    modulated: bool = True,
    name: str | None = None,
) -> Variable:
    """A convolution of images at shifted positions (Dai et al., 2017), weighted by `mask` if `modulated`."""
    if modulated and mask is None:
        raise ValueError("argument 'mask': a modulated convolution has one")
    layer = Layer("deformable_conv", name)
    among, window = _groups(groups), sizes("filter_size", filter_size, 2)
    filter = _filter(layer, input, channels(input), num_filters, window, among, param_attr)
    attrs = {
        "strides": sizes("stride", stride, 2),
        "paddings": sizes("padding", padding, 2),
        "dilations": sizes("dilation", dilation, 2),
        "groups": among,
        "deformable_groups": _groups(deformable_groups, "deformable_groups"),
        "im2col_step": im2col_step,
    }
    inputs = {"Input": input, "Offset": offset, "Filter": filter}
    if modulated:
        made = layer.result("deformable_conv", {**inputs, "Mask": mask}, attrs, "Output")
    else:
        made = layer.result("deformable_conv_v1", inputs, attrs, "Output")
    return layer.biased(made, bias_attr, num_filters, 1)


def conv2d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Pair | None = None,
    filter_size: Pair | None = None,
    padding: Padding = 0,
    stride: Pair = 1,
    dilation: Pair = 1,
    groups: int | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """A transposed convolution of images. The filter size follows from the output size, or is given."""
    layer = Layer("conv2d_transpose", name)
    is_last = _is_last("data_format", data_format, 2)
    borders = _window(2, padding, "padding", is_last)
    strides, dilations = sizes("stride", stride, 2), sizes("dilation", dilation, 2)
    among = _groups(groups)
    inputs = channels(input, is_last)
    if inputs % among or num_filters % among:
        raise ValueError(f"argument 'groups': {inputs} channels and {num_filters} filters are not multiples of {among}")
    wanted = None if output_size is None else sizes("output_size", output_size, 2)
    if filter_size is not None:
        window = sizes("filter_size", filter_size, 2)
    elif wanted is None:
        raise ValueError("argument 'filter_size': give it, or `output_size`")
    else:
        image = known("input", input, input.shape[1:3] if is_last else input.shape[2:4])
        pads = borders["paddings"]
        totals = [2 * pads[0], 2 * pads[1]] if len(pads) == 2 else [pads[0] + pads[1], pads[2] + pads[3]]
        window = [
            (wanted[i] - (image[i] - 1) * strides[i] + totals[i] - 1) // dilations[i] + 1 for i in (0, 1)
        ]
    shape = [inputs, num_filters // among, *window]
    filter = layer.parameter(required("param_attr", param_attr), shape, input.dtype, Xavier())
    attrs = {
        "strides": strides,
        **borders,
        "dilations": dilations,
        "groups": among,
        "output_size": wanted,
        "data_format": data_format if is_last else None,
    }
    made = layer.result("conv2d_transpose", {"Input": input, "Filter": filter}, attrs, "Output")
    return layer.activated(layer.biased(made, bias_attr, num_filters, 3 if is_last else 1), act)


def pool2d(
    input: Variable,
    pool_size: Pair = -1,
    pool_type: str = "max",
    pool_stride: Pair = 1,
    pool_padding: Padding = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """Maxima or means (`"max"`, `"avg"`) of windows of images, or with `global_pooling` of whole images.

    `pool_padding` is that of `conv2d`. `exclusive` leaves the padding out of means.
    """
    return _pool("pool2d", 2, input, pool_size, pool_type, pool_stride, pool_padding, global_pooling, ceil_mode, name, exclusive, data_format, use_cudnn)


def pool3d(
    input: Variable,
    pool_size: Pair = -1,
    pool_type: str = "max",
    pool_stride: Pair = 1,
    pool_padding: Padding = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCDHW",
) -> Variable:
    """Maxima or means (`"max"`, `"avg"`) of windows of volumes, or with `global_pooling` of whole volumes."""
    return _pool("pool3d", 3, input, pool_size, pool_type, pool_stride, pool_padding, global_pooling, ceil_mode, name, exclusive, data_format)


def _pool(
    kind: str,
    rank: int,
    x: Variable,
    size: Pair,
    how: str,
    stride: Pair,
    padding: Padding,
    is_global: bool,
    ceil_mode: bool,
    name: str | None,
    exclusive: bool,
    layout: str,
    use_cudnn: bool | None = None,
) -> Variable:
    is_last = _is_last("data_format", layout, rank)
    window = sizes("pool_size", size, rank)
    if not is_global and min(window) < 1:
        raise ValueError(f"argument 'pool_size': expected positive sizes, found {window}")
    attrs = {
        "pooling_type": choice("pool_type", how, ("max", "avg")),
        "ksize": window,
        "strides": sizes("pool_stride", stride, rank),
        **_window(rank, padding, "pool_padding", is_last),
        "global_pooling": is_global or None,
        "ceil_mode": ceil_mode or None,
        "exclusive": None if exclusive else False,
        "use_cudnn": use_cudnn,
        "data_format": layout if is_last else None,
    }
    return Layer(kind, name).result(kind, {"X": x}, attrs)


def adaptive_pool2d(
    input: Variable, pool_size: Pair, pool_type: str = "max", require_index: bool = False, name: str | None = None
) -> Variable | list[Variable]:
    """Maxima or means of images, pooled to a height and width; with `require_index`, also the indices of the maxima."""
    attrs = {"ksize": sizes("pool_size", pool_size, 2), "adaptive": True}
    layer = Layer("adaptive_pool2d", name)
    if choice("pool_type", pool_type, ("max", "avg")) == "max":
        # In PaddlePaddle 2.6, the windows of an adaptive `pool2d` are others.
        mask, out = layer.results("max_pool2d_with_index", {"X": input}, attrs, ["Mask", "Out"])
        return [out, mask] if require_index else out
    if require_index:
        raise ValueError("argument 'require_index': means have no indices")
    return layer.result("pool2d", {"X": input}, {"pooling_type": pool_type, **attrs})


def image_resize(
    input: Variable,
    out_shape: Sequence[int] | None = None,
    scale: float | None = None,
    name: str | None = None,
    resample: str = "BILINEAR",
    actual_shape: None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """Images of another size: a height and width, or a factor.

    `resample` is `"BILINEAR"` or `"NEAREST"`, or for volumes `"TRILINEAR"`, with a depth, too. A size that is only known
    when the program runs (`actual_shape`) is not supported.
    """
    if actual_shape is not None:
        raise ValueError("argument 'actual_shape': give the size as `out_shape`")
    method = choice("resample", resample.upper(), ("BILINEAR", "NEAREST", "TRILINEAR")).lower()
    dims = ["out_d", "out_h", "out_w"] if method == "trilinear" else ["out_h", "out_w"]
    is_last = _is_last("data_format", data_format, len(dims))
    attrs: dict[str, Any] = {"interp_method": method, "align_corners": align_corners, "align_mode": align_mode}
    if out_shape is not None and scale is None:
        attrs |= zip(dims, sizes("out_shape", out_shape, len(dims)), strict=True)
    elif scale is not None and out_shape is None:
        attrs["scale"] = [float(scale)] * len(dims)
    else:
        raise ValueError("argument 'out_shape': give either it or `scale`")
    attrs["data_layout"] = data_format if is_last else None
    kind = f"{method}_interp_v2"
    return Layer(kind, name).result(kind, {"X": input}, attrs)


def image_resize_short(input: Variable, out_short_len: int, resample: str = "BILINEAR") -> Variable:
    """Images whose shorter side has another length, of the same proportions."""
    sides = known("input", input, input.shape[2:4])
    shape = [int(side * (out_short_len / min(sides)) + 0.5) for side in sides]
    shape[sides.index(min(sides))] = out_short_len
    return image_resize(input, shape, resample=resample)


def resize_bilinear(
    input: Variable,
    out_shape: Sequence[int] | None = None,
    scale: float | None = None,
    name: str | None = None,
    actual_shape: None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """Images of another size, interpolated linearly."""
    return image_resize(input, out_shape, scale, name, "BILINEAR", actual_shape, align_corners, align_mode, data_format)


def resize_nearest(
    input: Variable,
    out_shape: Sequence[int] | None = None,
    scale: float | None = None,
    name: str | None = None,
    actual_shape: None = None,
    align_corners: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """Images of another size, with the nearest pixels."""
    return image_resize(input, out_shape, scale, name, "NEAREST", actual_shape, align_corners, data_format=data_format)


def resize_trilinear(
    input: Variable,
    out_shape: Sequence[int] | None = None,
    scale: float | None = None,
    name: str | None = None,
    actual_shape: None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCDHW",
) -> Variable:
    """Volumes of another size, interpolated linearly."""
    return image_resize(input, out_shape, scale, name, "TRILINEAR", actual_shape, align_corners, align_mode, data_format)


def lrn(
    input: Variable,
    n: int = 5,
    k: float = 1.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """Local response normalization over `n` channels."""
    is_last = _is_last("data_format", data_format, 2)
    attrs = {"n": n, "k": k, "alpha": alpha, "beta": beta, "data_format": data_format if is_last else None}
    return Layer("lrn", name).result("lrn", {"X": input}, attrs, extra=["MidOut"])


def pixel_shuffle(x: Variable, upscale_factor: int) -> Variable:
    """Channels, rearranged to images that are larger by a factor."""
    return Layer("pixel_shuffle").result("pixel_shuffle", {"X": x}, {"upscale_factor": upscale_factor})


def space_to_depth(x: Variable, blocksize: int, name: str | None = None) -> Variable:
    """Images with sides smaller by a factor, and more channels, in the order of PaddlePaddle's kernel.

    PaddlePaddle 2.6 does not have the operator.
    """
    return Layer("space_to_depth", name).result("space_to_depth", {"X": x}, {"blocksize": blocksize})


def shuffle_channel(x: Variable, group: int, name: str | None = None) -> Variable:
    """Channels, in the order of their position in groups."""
    return Layer("shuffle_channel", name).result("shuffle_channel", {"X": x}, {"group": group})


def affine_channel(
    x: Variable, scale: Variable, bias: Variable, data_layout: str = "NCHW", name: str | None = None, act: str | None = None
) -> Variable:
    """Each channel, multiplied by a factor and added to a bias."""
    layer = Layer("affine_channel", name)
    inputs = {"X": x, "Scale": scale, "Bias": bias}
    return layer.activated(layer.result("affine_channel", inputs, {"data_layout": data_layout}), act)


def affine_grid(theta: Variable, out_shape: Sequence[int], name: str | None = None) -> Variable:
    """The positions at which `grid_sampler` samples images to transform them."""
    attrs = {"output_shape": list(out_shape), "align_corners": True}
    return Layer("affine_grid", name).result("affine_grid", {"Theta": theta}, attrs, "Output")


def grid_sampler(x: Variable, grid: Variable, name: str | None = None) -> Variable:
    """Images, sampled at the positions of a grid."""
    return Layer("grid_sampler", name).result("grid_sampler", {"X": x, "Grid": grid}, None, "Output")


def fsp_matrix(x: Variable, y: Variable) -> Variable:
    """The mean products of the channels of two feature maps (Yim et al., 2017)."""
    height, width = known("x", x, x.shape[2:4])
    flat = [Layer("flatten").result("reshape2", {"X": one}, {"shape": [0, 0, height * width]}, extra=["XShape"]) for one in (x, y)]
    products = Layer("fsp").result("matmul_v2", {"X": flat[0], "Y": flat[1]}, {"trans_x": False, "trans_y": True})
    return Layer("scale").result("scale", {"X": products}, {"scale": 1.0 / (height * width), "bias": 0.0})


def temporal_shift(x: Variable, seg_num: int, shift_ratio: float = 0.25, name: str | None = None) -> Variable:
    """Frames of videos with a part of their channels shifted in time."""
    attrs = {"seg_num": seg_num, "shift_ratio": shift_ratio}
    return Layer("temporal_shift", name).result("temporal_shift", {"X": x}, attrs)


def unfold(
    x: Variable,
    kernel_sizes: Pair,
    strides: Pair = 1,
    paddings: int | Sequence[int] = 0,
    dilations: Pair = 1,
    name: str | None = None,
) -> Variable:
    """The windows of images, as columns."""
    pads = [paddings] * 4 if isinstance(paddings, int) else list(paddings)
    attrs = {
        "kernel_sizes": sizes("kernel_sizes", kernel_sizes, 2),
        "strides": sizes("strides", strides, 2),
        "paddings": pads * 2 if len(pads) == 2 else pads,
        "dilations": sizes("dilations", dilations, 2),
    }
    return Layer("unfold", name).result("unfold", {"X": x}, attrs, "Y")
