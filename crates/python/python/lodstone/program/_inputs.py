"""Inputs and tables whose shapes are stated in full, as those of `paddle.fluid` itself are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._checks import checked, integers, positive
from ._core import Variable, dtype_name
from ._layer import Attr, Layer
from .layers._nn import declared_input, looked_up


@checked
def data(name: str, shape: Sequence[int | None], dtype: Any = "float32", lod_level: int = 0) -> Variable:
    """An input of the program, with all its dims: -1 or None is an unknown one. `layers.data` adds that of the batch.

    >>> from lodstone.program import Network, data
    >>> with Network():
    ...     data("x", [None, 4])
    <lodstone.Variable 'x' float32[?, 4]>
    """
    dims = integers("shape", [-1 if size is None else size for size in shape])
    return declared_input(name, dims, dtype_name(dtype), lod_level)


@checked
def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Attr = None,
    dtype: Any = "float32",
) -> Variable:
    """Rows of a table, by index: the result has the dims of the indices, and another for the row.

    `layers.embedding` replaces a last dim of size 1 instead; the other arguments are the same.
    """
    return looked_up("lookup_table_v2", input, size, is_sparse, padding_idx, param_attr, dtype)


@checked
def one_hot(input: Variable, depth: int, allow_out_of_range: bool = False) -> Variable:
    """Rows of `depth` zeros with a one at each index: the result has the dims of the indices, and another for the row.

    `layers.one_hot` replaces a last dim of size 1 instead.
    """
    attrs = {"depth": positive("depth", depth), "allow_out_of_range": allow_out_of_range, "dtype": "float32"}
    return Layer("one_hot_v2").result("one_hot_v2", {"X": input}, attrs)
