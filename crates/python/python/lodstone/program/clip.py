"""Clipping of gradients, for optimizers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .._checks import checked, number

if TYPE_CHECKING:
    from ._core import Program, Variable

__all__ = [
    "ClipGradByGlobalNorm",
    "ClipGradByNorm",
    "ClipGradByValue",
    "GradientClip",
    "GradientClipByGlobalNorm",
    "GradientClipByNorm",
    "GradientClipByValue",
    "set_gradient_clip",
]


class GradientClip:
    """Clips gradients before parameters are updated."""

    def parts(self) -> tuple[str, float, float]:
        """Returns the form that the extension takes."""
        raise NotImplementedError


class GradientClipByValue(GradientClip):
    """Clips each element to the range from `min` [default: `-max`] to `max`."""

    @checked
    def __init__(self, max: float, min: float | None = None) -> None:
        self._max = number("max", max)
        self._min = -self._max if min is None else number("min", min)
        if self._min > self._max:
            raise ValueError(f"argument 'max': expected at least 'min', {self._min}, found {max}")

    def parts(self) -> tuple[str, float, float]:
        return "value", self._min, self._max


class GradientClipByNorm(GradientClip):
    """Scales each gradient whose norm exceeds `clip_norm`."""

    @checked
    def __init__(self, clip_norm: float) -> None:
        self._norm = number("clip_norm", clip_norm, 0.0)

    def parts(self) -> tuple[str, float, float]:
        return "norm", self._norm, 0.0


class GradientClipByGlobalNorm(GradientClip):
    """Scales all gradients if their common norm exceeds `clip_norm`."""

    @checked
    def __init__(self, clip_norm: float) -> None:
        self._norm = number("clip_norm", clip_norm, 0.0)

    def parts(self) -> tuple[str, float, float]:
        return "global_norm", self._norm, 0.0


@checked
def set_gradient_clip(
    clip: GradientClip, param_list: Iterable[Variable | str] | None = None, program: Program | None = None
) -> None:
    """Clips the gradients of a program for optimizers without `grad_clip`, which is the better choice.

    To clip those of some parameters alone, give the others a `ParamAttr` with `need_clip=False`; `param_list` is not
    supported.
    """
    from ._core import check_program, default_main_program

    if param_list is not None:
        raise ValueError("argument 'param_list': give the other parameters a `ParamAttr` with `need_clip=False`")
    program = default_main_program() if program is None else program
    check_program("program", program)
    program._grad_clip = clip


ClipGradByValue, ClipGradByNorm, ClipGradByGlobalNorm = (
    GradientClipByValue,
    GradientClipByNorm,
    GradientClipByGlobalNorm,
)
