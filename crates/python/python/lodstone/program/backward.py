"""`fluid.backward`: gradients."""

from ._backward import append_backward, gradients

__all__ = ["append_backward", "gradients"]
