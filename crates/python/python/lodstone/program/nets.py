"""Layers in common combinations, as in `paddle.fluid.nets`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import layers
from .._checks import checked
from ._core import Variable
from ._layer import Attr
from .layers._images import Padding, Pair

__all__ = [
    "glu",
    "img_conv_group",
    "scaled_dot_product_attention",
    "sequence_conv_pool",
    "simple_img_conv_pool",
]


@checked
def simple_img_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: Pair,
    pool_size: Pair,
    pool_stride: Pair,
    pool_padding: Padding = 0,
    pool_type: str = "max",
    global_pooling: bool = False,
    conv_stride: Pair = 1,
    conv_padding: Padding = 0,
    conv_dilation: Pair = 1,
    conv_groups: int = 1,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    act: str | None = None,
    use_cudnn: bool = True,
) -> Variable:
    """A convolution of images, and pooling.

    >>> from lodstone.program import Network, layers, nets
    >>> with Network():
    ...     y = nets.simple_img_conv_pool(layers.data("x", [1, 28, 28]), 6, 5, pool_size=2, pool_stride=2, act="relu")
    >>> y.shape
    (-1, 6, 12, 12)
    """
    made = layers.conv2d(
        input, num_filters, filter_size, conv_stride, conv_padding, conv_dilation, conv_groups, param_attr, bias_attr, act=act
    )
    return layers.pool2d(made, pool_size, pool_type, pool_stride, pool_padding, global_pooling, use_cudnn)


@checked
def img_conv_group(
    input: Variable,
    conv_num_filter: Sequence[int],
    pool_size: Pair,
    conv_padding: int | Sequence[Padding] = 1,
    conv_filter_size: int | Sequence[Pair] = 3,
    conv_act: str | None = None,
    param_attr: Attr | Sequence[Attr] = None,
    conv_with_batchnorm: bool | Sequence[bool] = False,
    conv_batchnorm_drop_rate: float | Sequence[float] = 0.0,
    pool_stride: Pair = 1,
    pool_type: str = "max",
    use_cudnn: bool = True,
) -> Variable:
    """Convolutions of images, each with batch normalization and dropout if these are given, and pooling.

    Arguments of the convolutions are one for all, or a sequence with one for each.
    """

    def each(argument: str, given: Any) -> Sequence[Any]:
        if not isinstance(given, (list, tuple)):
            return [given] * len(conv_num_filter)
        if len(given) != len(conv_num_filter):
            raise ValueError(f"argument '{argument}': expected {len(conv_num_filter)} values, found {len(given)}")
        return given

    made = input
    for filters, padding, size, attr, normalizes, drop_rate in zip(
        conv_num_filter,
        each("conv_padding", conv_padding),
        each("conv_filter_size", conv_filter_size),
        each("param_attr", param_attr),
        each("conv_with_batchnorm", conv_with_batchnorm),
        each("conv_batchnorm_drop_rate", conv_batchnorm_drop_rate),
        strict=True,
    ):
        act = None if normalizes else conv_act
        made = layers.conv2d(made, filters, size, padding=padding, param_attr=attr, act=act)
        if normalizes:
            made = layers.batch_norm(made, conv_act)
            if drop_rate:
                made = layers.dropout(made, drop_rate)
    return layers.pool2d(made, pool_size, pool_type, pool_stride, use_cudnn=use_cudnn)


@checked
def sequence_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: int,
    param_attr: Attr = None,
    act: str = "sigmoid",
    pool_type: str = "max",
    bias_attr: Attr = None,
) -> Variable:
    """A convolution of sequences, and pooling of each sequence."""
    made = layers.sequence_conv(
        input, num_filters, filter_size, param_attr=param_attr, bias_attr=bias_attr, act=act
    )
    return layers.sequence_pool(made, pool_type)


@checked
def glu(input: Variable, dim: int = -1) -> Variable:
    """A gated linear unit: the first half along a dim, multiplied by the sigmoid of the second."""
    first, second = layers.split(input, 2, dim)
    return layers.elementwise_mul(first, layers.sigmoid(second))


@checked
def scaled_dot_product_attention(
    queries: Variable, keys: Variable, values: Variable, num_heads: int = 1, dropout_rate: float = 0.0
) -> Variable:
    """Attention of queries to keys and values, each of dims [batch, length, size] (Vaswani et al., 2017).

    With several heads, all three are projected first.
    """
    given = {"queries": queries, "keys": keys, "values": values}
    for name, one in given.items():
        if len(one.shape) != 3:
            raise ValueError(f"argument '{name}': expected 3 dims, found {list(one.shape)}")
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(f"argument 'keys': their size is {keys.shape[-1]}, but that of queries is {queries.shape[-1]}")
    if keys.shape[-2] != values.shape[-2]:
        raise ValueError(f"argument 'values': their length is {values.shape[-2]}, but that of keys is {keys.shape[-2]}")
    if num_heads < 1 or keys.shape[-1] % num_heads or values.shape[-1] % num_heads:
        raise ValueError(f"argument 'num_heads': sizes {keys.shape[-1]} and {values.shape[-1]} are not multiples of {num_heads}")

    def heads(x: Variable) -> Variable:
        if num_heads == 1:
            return x
        projected = layers.fc(x, x.shape[-1], num_flatten_dims=2)
        split = layers.reshape(projected, [0, 0, num_heads, x.shape[-1] // num_heads])
        return layers.transpose(split, [0, 2, 1, 3])

    query, key, value = heads(queries), heads(keys), heads(values)
    scaled = layers.scale(query, (keys.shape[-1] // num_heads) ** -0.5)
    weights = layers.softmax(layers.matmul(scaled, key, transpose_y=True))
    if dropout_rate:
        weights = layers.dropout(weights, dropout_rate, is_test=False)
    made = layers.matmul(weights, value)
    if num_heads == 1:
        return made
    return layers.reshape(layers.transpose(made, [0, 2, 1, 3]), [0, 0, values.shape[-1]])
