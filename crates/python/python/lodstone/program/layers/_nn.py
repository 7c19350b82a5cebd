"""Inputs, and layers with parameters: products, convolutions, normalization, tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

from ... import _lodstone
from .._core import Variable, default_main_program, dtype_name, network
from .._layer import Attr, Layer, ParamAttr, check, param_attr, sizes
from ..initializer import Constant, Normal, Xavier

__all__ = [
    "adaptive_pool2d",
    "affine_channel",
    "affine_grid",
    "batch_norm",
    "bilinear_tensor_product",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "data",
    "dropout",
    "embedding",
    "fc",
    "fsp_matrix",
    "grid_sampler",
    "group_norm",
    "image_resize",
    "instance_norm",
    "l2_normalize",
    "layer_norm",
    "log_softmax",
    "lrn",
    "maxout",
    "pixel_shuffle",
    "pool2d",
    "pool3d",
    "prelu",
    "resize_bilinear",
    "resize_nearest",
    "resize_trilinear",
    "shuffle_channel",
    "softmax",
    "temporal_shift",
    "unfold",
]


def data(
    name: str,
    shape: Sequence[int],
    append_batch_size: bool = True,
    dtype: Any = "float32",
    lod_level: int = 0,
    type: str = "tensor",
    stop_gradient: bool = True,
) -> Variable:
    """An input of the program: -1 is an unknown dim.

    `append_batch_size` puts an unknown dim in front, unless the shape has an unknown dim already.
    """
    if not isinstance(name, str):
        raise TypeError(f"argument 'name': expected a str, found {name!r}")
    if type != "tensor":
        raise ValueError(f"argument 'type': expected 'tensor', found {type!r}")
    dims = [-1 if size is None else int(size) for size in shape]
    if append_batch_size and not any(size < 0 for size in dims):
        dims = [-1, *dims]
    _lodstone.declare_data(network(), name, dims, dtype_name(dtype), lod_level)
    found = default_main_program().global_block().var(name)
    if not stop_gradient:
        found.stop_gradient = False
    return found


def fc(
    input: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """A fully connected layer: rows multiplied by a matrix, and a bias.

    The first `num_flatten_dims` dims are the rows. Several inputs have a matrix each, and their products are added up.
    """
    inputs = [input] if isinstance(input, Variable) else list(input)
    check({"input": inputs})
    layer = Layer("fc", name)
    products = []
    for one in inputs:
        flat = num_flatten_dims + len(one.shape) if num_flatten_dims < 0 else num_flatten_dims
        inner = known("input", one, one.shape[flat:])
        attr = _attr("param_attr", param_attr)
        weight = layer.parameter(attr, [prod(inner), size], one.dtype, Xavier())
        products.append(layer.result("mul", {"X": one, "Y": weight}, {"x_num_col_dims": flat}))
    made = products[0] if len(products) == 1 else layer.result("sum", {"X": products})
    return layer.activated(layer.biased(made, bias_attr, size, len(made.shape) - 1), act)


def _attr(argument: str, given: Attr) -> ParamAttr:
    """Returns the configuration of a parameter that a layer cannot do without."""
    found = param_attr(argument, given)
    if found is None:
        raise ValueError(f"argument '{argument}': the layer has this parameter, so it cannot be False")
    return found


def known(argument: str, x: Variable, dims: Sequence[int]) -> list[int]:
    """Returns dims, which must be known."""
    if any(size < 0 for size in dims):
        raise ValueError(f"argument '{argument}': the dims {list(dims)} of {x.name!r} must be known")
    return list(dims)


def channels(x: Variable) -> int:
    """Returns the number of channels of images, which is their second dim."""
    if len(x.shape) < 2:
        raise ValueError(f"argument 'input': {x.name!r} has no channels, which are the second dim")
    return known("input", x, x.shape[1:2])[0]


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Attr = None,
    dtype: Any = "float32",
) -> Variable:
    """Rows of a table, by index. A last dim of size 1 of the indices is replaced; others get another dim.

    With `is_sparse`, the gradient of the table has only the rows that were looked up. The row `padding_idx` is zero.
    """
    rows, width = sizes("size", size, 2)
    layer = Layer("embedding")
    table = layer.parameter(_attr("param_attr", param_attr), [rows, width], dtype_name(dtype), Xavier())
    padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else padding_idx + rows
    kind = "lookup_table" if input.shape and input.shape[-1] == 1 else "lookup_table_v2"
    attrs = {"padding_idx": padding, "is_sparse": is_sparse or None}
    return layer.result(kind, {"Ids": input, "W": table}, attrs)


Pair = int | Sequence[int]


def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: Pair,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """A convolution of images: [batch, channels, height, width]."""
    return _conv("conv2d", 2, input, num_filters, filter_size, stride, padding, dilation, groups, param_attr, bias_attr, act, name)


def conv3d(
    input: Variable,
    num_filters: int,
    filter_size: Pair,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """A convolution of volumes: [batch, channels, depth, height, width]."""
    return _conv("conv3d", 3, input, num_filters, filter_size, stride, padding, dilation, groups, param_attr, bias_attr, act, name)


def _conv(
    kind: str,
    rank: int,
    x: Variable,
    filters: int,
    size: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int | None,
    weight: Attr,
    bias: Attr,
    act: str | None,
    name: str | None,
) -> Variable:
    layer = Layer(kind, name)
    among, inputs, window = groups or 1, channels(x), sizes("filter_size", size, rank)
    if inputs % among or filters % among:
        raise ValueError(f"argument 'groups': {inputs} channels and {filters} filters are not multiples of {among}")
    if min(window) < 1:
        raise ValueError(f"argument 'filter_size': {window} is not positive")
    # The fan-in counts all channels, whatever the groups.
    default = Normal(0.0, sqrt(2.0 / (prod(window) * inputs)))
    filter = layer.parameter(_attr("param_attr", weight), [filters, inputs // among, *window], x.dtype, default)
    attrs = {
        "strides": sizes("stride", stride, rank),
        "paddings": sizes("padding", padding, rank),
        "dilations": sizes("dilation", dilation, rank),
        "groups": among,
    }
    made = layer.result(kind, {"Input": x, "Filter": filter}, attrs, "Output")
    return layer.activated(layer.biased(made, bias, filters, 1), act)


def conv2d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Pair | None = None,
    filter_size: Pair | None = None,
    padding: Pair = 0,
    stride: Pair = 1,
    dilation: Pair = 1,
    groups: int | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """A transposed convolution of images. The filter size follows from the output size, or is given."""
    layer = Layer("conv2d_transpose", name)
    pads, strides, dilations = (sizes(what, of, 2) for what, of in (("padding", padding), ("stride", stride), ("dilation", dilation)))
    among = groups or 1
    inputs = channels(input)
    wanted = None if output_size is None else sizes("output_size", output_size, 2)
    if filter_size is None:
        if wanted is None:
            raise ValueError("argument 'filter_size': give it, or `output_size`")
        image = known("input", input, input.shape[2:4])
        window = [
            (wanted[i] - (image[i] - 1) * strides[i] + 2 * pads[i] - 1) // dilations[i] + 1 for i in (0, 1)
        ]
    else:
        window = sizes("filter_size", filter_size, 2)
    filter = layer.parameter(_attr("param_attr", param_attr), [inputs, num_filters // among, *window], input.dtype, Xavier())
    attrs = {
        "strides": strides,
        "paddings": pads,
        "dilations": dilations,
        "groups": among,
        "output_size": wanted,
    }
    made = layer.result("conv2d_transpose", {"Input": input, "Filter": filter}, attrs, "Output")
    return layer.activated(layer.biased(made, bias_attr, num_filters, 1), act)


def pool2d(
    input: Variable,
    pool_size: Pair = -1,
    pool_type: str = "max",
    pool_stride: Pair = 1,
    pool_padding: Pair = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
) -> Variable:
    """Maxima or means (`"max"`, `"avg"`) of windows of images, or with `global_pooling` of whole images."""
    if pool_type not in ("max", "avg"):
        raise ValueError(f"argument 'pool_type': expected 'max' or 'avg', found {pool_type!r}")
    window = sizes("pool_size", pool_size, 2)
    if not global_pooling and any(size < 1 for size in window):
        raise ValueError(f"argument 'pool_size': expected positive sizes, found {window}")
    attrs = {
        "pooling_type": pool_type,
        "ksize": window,
        "strides": sizes("pool_stride", pool_stride, 2),
        "paddings": sizes("pool_padding", pool_padding, 2),
        "global_pooling": global_pooling or None,
        "ceil_mode": ceil_mode or None,
        "exclusive": None if exclusive else False,
        "use_cudnn": use_cudnn,
    }
    return Layer("pool2d", name).result("pool2d", {"X": input}, attrs)


def adaptive_pool2d(input: Variable, pool_size: Pair, pool_type: str = "max", name: str | None = None) -> Variable:
    """Maxima or means of images, pooled to a height and width."""
    if pool_type not in ("max", "avg"):
        raise ValueError(f"argument 'pool_type': expected 'max' or 'avg', found {pool_type!r}")
    attrs = {"ksize": sizes("pool_size", pool_size, 2), "adaptive": True}
    layer = Layer("adaptive_pool2d", name)
    if pool_type == "max":
        # In PaddlePaddle 2.6, the windows of an adaptive `pool2d` are others.
        return layer.result("max_pool2d_with_index", {"X": input}, attrs, extra=["Mask"])
    return layer.result("pool2d", {"X": input}, {"pooling_type": pool_type, **attrs})


def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Variable:
    """Normalizes each channel: by the statistics of the batch in training, by running statistics if `is_test`."""
    layer = Layer("batch_norm", name)
    if data_layout not in ("NCHW", "NHWC"):
        raise ValueError(f"argument 'data_layout': expected 'NCHW' or 'NHWC', found {data_layout!r}")
    count = channels(input) if data_layout == "NCHW" else known("input", input, input.shape[-1:])[0]
    kind = input.dtype
    scale = layer.parameter(_attr("param_attr", param_attr), [count], kind, Constant(1.0))
    offset = layer.parameter(_attr("bias_attr", bias_attr), [count], kind, Constant(0.0), "b")
    mean = layer.state(ParamAttr(moving_mean_name), [count], kind, Constant(0.0))
    variance = layer.state(ParamAttr(moving_variance_name), [count], kind, Constant(1.0))
    saved_mean, saved_variance = layer.temporary(), layer.temporary()
    # Memory that a GPU reserves for the gradient.
    reserve = {} if is_test else {"ReserveSpace": layer.temporary()}
    out = layer.temporary()
    layer.append(
        "batch_norm",
        {"X": input, "Scale": scale, "Bias": offset, "Mean": mean, "Variance": variance},
        {
            "MeanOut": mean,
            "VarianceOut": variance,
            "SavedMean": saved_mean,
            "SavedVariance": saved_variance,
            **reserve,
            "Y": out,
        },
        {
            "is_test": is_test,
            "momentum": None if momentum == 0.9 else momentum,
            "epsilon": None if epsilon == 1e-5 else epsilon,
            "data_layout": None if data_layout == "NCHW" else data_layout,
            "use_global_stats": use_global_stats or None,
        },
    )
    block = default_main_program().current_block()
    for name_ in (saved_mean, saved_variance, *reserve.values()):
        block.var(name_).stop_gradient = True
    return layer.activated(block.var(out), act)


def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-5,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Normalizes each example over its dims from `begin_norm_axis`."""
    layer = Layer("layer_norm", name)
    size = prod(known("input", input, input.shape[begin_norm_axis:]))
    inputs = {"X": input}
    if scale:
        inputs["Scale"] = layer.parameter(_attr("param_attr", param_attr), [size], input.dtype, Constant(1.0))
    if shift:
        inputs["Bias"] = layer.parameter(_attr("bias_attr", bias_attr), [size], input.dtype, Constant(0.0), "b")
    attrs = {"begin_norm_axis": begin_norm_axis, "epsilon": None if epsilon == 1e-5 else epsilon}
    mean, variance, out = layer.results("layer_norm", inputs, attrs, ["Mean", "Variance", "Y"])
    mean.stop_gradient = variance.stop_gradient = True
    return layer.activated(out, act)


def group_norm(
    input: Variable,
    groups: int,
    epsilon: float = 1e-5,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    act: str | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalizes groups of channels of each example."""
    layer = Layer("group_norm", name)
    inputs = {"X": input}
    for slot, argument, given, default, suffix in (
        ("Scale", "param_attr", param_attr, 1.0, "w"),
        ("Bias", "bias_attr", bias_attr, 0.0, "b"),
    ):
        attr = _optional(argument, given)
        if attr is not None:
            inputs[slot] = layer.parameter(attr, [channels(input)], input.dtype, Constant(default), suffix)
    attrs = {"groups": groups, "epsilon": epsilon, "data_layout": data_layout}
    made = layer.results("group_norm", inputs, attrs, ["Mean", "Variance", "Y"])[-1]
    return layer.activated(made, act)


def _optional(argument: str, given: Attr) -> ParamAttr | None:
    return param_attr(argument, given)


def instance_norm(
    input: Variable, epsilon: float = 1e-5, param_attr: Attr = None, bias_attr: Attr = None, name: str | None = None
) -> Variable:
    """Normalizes each channel of each example."""
    layer = Layer("instance_norm", name)
    count = channels(input)
    inputs = {
        "X": input,
        "Scale": layer.parameter(_attr("param_attr", param_attr), [count], input.dtype, Constant(1.0)),
        "Bias": layer.parameter(_attr("bias_attr", bias_attr), [count], input.dtype, Constant(0.0), "b"),
    }
    slots = ["SavedMean", "SavedVariance", "Y"]
    return layer.results("instance_norm", inputs, {"epsilon": epsilon}, slots)[-1]


def l2_normalize(x: Variable, axis: int, epsilon: float = 1e-12, name: str | None = None) -> Variable:
    """Vectors along an axis, divided by their norms."""
    attrs = {"axis": axis if len(x.shape) > 1 else 0, "epsilon": epsilon}
    return Layer("l2_normalize", name).result("norm", {"X": x}, attrs, extra=["Norm"])


def lrn(input: Variable, n: int = 5, k: float = 1.0, alpha: float = 1e-4, beta: float = 0.75, name: str | None = None) -> Variable:
    """Local response normalization over `n` channels."""
    attrs = {"n": n, "k": k, "alpha": alpha, "beta": beta}
    return Layer("lrn", name).result("lrn", {"X": input}, attrs, extra=["MidOut"])


def dropout(
    x: Variable,
    dropout_prob: float,
    is_test: bool = False,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "upscale_in_train",
) -> Variable:
    """Drops elements with a probability in training.

    `"upscale_in_train"` divides the others by the probability of staying; with `"downgrade_in_infer"`, the default of
    PaddlePaddle 1.x, all are multiplied by it in inference instead.
    """
    if not 0.0 <= dropout_prob <= 1.0:
        raise ValueError(f"argument 'dropout_prob': expected a number from 0 to 1, found {dropout_prob}")
    attrs = {
        "dropout_prob": float(dropout_prob),
        "is_test": is_test,
        "fix_seed": True if seed is not None else None,
        "seed": seed,
        "dropout_implementation": dropout_implementation,
    }
    return Layer("dropout", name).result("dropout", {"X": x}, attrs, extra=["Mask"])


def softmax(input: Variable, use_cudnn: bool = True, name: str | None = None, axis: int = -1) -> Variable:
    """Softmax along an axis."""
    attrs = {"axis": None if axis == -1 else axis}
    return Layer("softmax", name).result("softmax", {"X": input}, attrs)


def log_softmax(input: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """The logarithm of softmax along an axis."""
    return Layer("log_softmax", name).result("log_softmax", {"X": input}, {"axis": axis})


def prelu(x: Variable, mode: str, param_attr: Attr = None, name: str | None = None) -> Variable:
    """`x` if positive, else multiplied by a trained factor: one (`"all"`), or one for each `"channel"` or `"element"`."""
    shapes = {"all": lambda: [1], "channel": lambda: [1, channels(x), 1, 1], "element": lambda: [1, *known("x", x, x.shape[1:])]}
    if mode not in shapes:
        raise ValueError(f"argument 'mode': expected one of {list(shapes)}, found {mode!r}")
    layer = Layer("prelu", name)
    alpha = layer.parameter(_attr("param_attr", param_attr), shapes[mode](), x.dtype, Constant(0.25))
    return layer.result("prelu", {"X": x, "Alpha": alpha}, {"mode": mode})


def maxout(x: Variable, groups: int, name: str | None = None, axis: int = 1) -> Variable:
    """Maxima over groups of channels."""
    return Layer("maxout", name).result("maxout", {"X": x}, {"groups": groups, "axis": axis})


def bilinear_tensor_product(
    x: Variable,
    y: Variable,
    size: int,
    act: str | None = None,
    name: str | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
) -> Variable:
    """`size` bilinear forms of the rows of two matrices."""
    layer = Layer("bilinear_tensor_product", name)
    shape = [size, known("x", x, x.shape[1:2])[0], known("y", y, y.shape[1:2])[0]]
    inputs = {"X": x, "Y": y, "Weight": layer.parameter(_attr("param_attr", param_attr), shape, x.dtype, Xavier())}
    attr = _optional("bias_attr", bias_attr)
    if attr is not None:
        inputs["Bias"] = layer.parameter(attr, [1, size], x.dtype, Constant(0.0), "b")
    return layer.activated(layer.result("bilinear_tensor_product", inputs), act)


def image_resize(
    input: Variable,
    out_shape: Sequence[int] | None = None,
    scale: float | None = None,
    name: str | None = None,
    resample: str = "BILINEAR",
    align_corners: bool = True,
    align_mode: int = 1,
) -> Variable:
    """Images of another size: a height and width, or a factor. `resample` is `"BILINEAR"` or `"NEAREST"`."""
    kinds = {"BILINEAR": "bilinear_interp_v2", "NEAREST": "nearest_interp_v2"}
    if resample.upper() not in kinds:
        raise ValueError(f"argument 'resample': expected one of {list(kinds)}, found {resample!r}")
    if (out_shape is None) == (scale is None):
        raise ValueError("argument 'out_shape': give either it or `scale`")
    method = resample.lower()
    attrs: dict[str, Any] = {"interp_method": method, "align_corners": align_corners, "align_mode": align_mode}
    if out_shape is None:
        attrs["scale"] = [float(scale or 1.0)] * 2
    else:
        attrs["out_h"], attrs["out_w"] = sizes("out_shape", out_shape, 2)
    kind = kinds[resample.upper()]
    return Layer(kind, name).result(kind, {"X": input}, attrs)


def resize_bilinear(
    input: Variable,
    out_shape: Sequence[int] | None = None,
    scale: float | None = None,
    name: str | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
) -> Variable:
    """Images of another size, interpolated linearly."""
    return image_resize(input, out_shape, scale, name, "BILINEAR", align_corners, align_mode)


def resize_nearest(
    input: Variable,
    out_shape: Sequence[int] | None = None,
    scale: float | None = None,
    name: str | None = None,
    align_corners: bool = True,
) -> Variable:
    """Images of another size, with the nearest pixels."""
    return image_resize(input, out_shape, scale, name, "NEAREST", align_corners)


def pixel_shuffle(x: Variable, upscale_factor: int) -> Variable:
    """Channels, rearranged to images that are larger by a factor."""
    return Layer("pixel_shuffle").result("pixel_shuffle", {"X": x}, {"upscale_factor": upscale_factor})


def shuffle_channel(x: Variable, group: int, name: str | None = None) -> Variable:
    """Channels, in the order of their position in groups."""
    return Layer("shuffle_channel", name).result("shuffle_channel", {"X": x}, {"group": group})


def pool3d(
    input: Variable,
    pool_size: Pair = -1,
    pool_type: str = "max",
    pool_stride: Pair = 1,
    pool_padding: Pair = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
) -> Variable:
    """Maxima or means (`"max"`, `"avg"`) of windows of volumes, or with `global_pooling` of whole volumes."""
    if pool_type not in ("max", "avg"):
        raise ValueError(f"argument 'pool_type': expected 'max' or 'avg', found {pool_type!r}")
    attrs = {
        "pooling_type": pool_type,
        "ksize": sizes("pool_size", pool_size, 3),
        "strides": sizes("pool_stride", pool_stride, 3),
        "paddings": sizes("pool_padding", pool_padding, 3),
        "global_pooling": global_pooling,
        "ceil_mode": ceil_mode,
        "exclusive": exclusive,
    }
    return Layer("pool3d", name).result("pool3d", {"X": input}, attrs)


def resize_trilinear(
    input: Variable,
    out_shape: Sequence[int] | None = None,
    scale: float | None = None,
    name: str | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
) -> Variable:
    """Volumes of another size, interpolated linearly."""
    attrs: dict[str, Any] = {"interp_method": "trilinear", "align_corners": align_corners, "align_mode": align_mode}
    if (out_shape is None) == (scale is None):
        raise ValueError("argument 'out_shape': give either it or `scale`")
    if out_shape is None:
        attrs["scale"] = [float(scale or 1.0)] * 3
    else:
        attrs["out_d"], attrs["out_h"], attrs["out_w"] = sizes("out_shape", out_shape, 3)
    kind = "trilinear_interp_v2"
    return Layer(kind, name).result(kind, {"X": input}, attrs)


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
