"""Clipping of gradients, for optimizers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

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

    def __init__(self, max: float, min: float | None = None) -> None:
        self._max, self._min = float(max), float(-max if min is None else min)

    def parts(self) -> tuple[str, float, float]:
        return "value", self._min, self._max


class GradientClipByNorm(GradientClip):
    """Scales each gradient whose norm exceeds `clip_norm`."""

    def __init__(self, clip_norm: float) -> None:
        self._norm = float(clip_norm)

    def parts(self) -> tuple[str, float, float]:
        return "norm", self._norm, 0.0


class GradientClipByGlobalNorm(GradientClip):
    """Scales all gradients if their common norm exceeds `clip_norm`."""

    def __init__(self, clip_norm: float) -> None:
        self._norm = float(clip_norm)

    def parts(self) -> tuple[str, float, float]:
        return "global_norm", self._norm, 0.0


def set_gradient_clip(
    clip: GradientClip, param_list: Iterable[Variable | str] | None = None, program: Program | None = None
) -> None:
    """Clips the gradients of a program for optimizers without `grad_clip`, which is the better choice.

    To clip those of some parameters alone, give the others a `ParamAttr` with `need_clip=False`; `param_list` is not
    supported.
    """
    from ._core import check_program, default_main_program

    if not isinstance(clip, GradientClip):
        raise TypeError(f"argument 'clip': expected a GradientClip, found {type(clip).__name__}")
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
