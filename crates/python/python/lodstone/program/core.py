"""`fluid.core`: what scripts take from PaddlePaddle's core."""

from ._run import CPUPlace, LoDTensor, Scope, is_compiled_with_cuda

__all__ = ["CPUPlace", "LoDTensor", "Scope", "is_compiled_with_cuda"]
