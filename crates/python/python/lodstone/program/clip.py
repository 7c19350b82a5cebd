"""Clipping of gradients, for optimizers."""

from __future__ import annotations

__all__ = [
    "ClipGradByGlobalNorm",
    "ClipGradByNorm",
    "ClipGradByValue",
    "GradientClip",
    "GradientClipByGlobalNorm",
    "GradientClipByNorm",
    "GradientClipByValue",
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


ClipGradByValue, ClipGradByNorm, ClipGradByGlobalNorm = (
    GradientClipByValue,
    GradientClipByNorm,
    GradientClipByGlobalNorm,
)
