"""`fluid.io`: programs and variables in files."""

from ..checkpoint import build_checkpoint_loader, get_checkpoint_loader, make_checkpoint
from ._files import (
    load,
    load_inference_model,
    load_params,
    load_persistables,
    load_program,
    load_vars,
    save,
    save_inference_model,
    save_params,
    save_persistables,
    save_program,
    save_vars,
)

__all__ = [
    "build_checkpoint_loader",
    "get_checkpoint_loader",
    "load",
    "load_inference_model",
    "load_params",
    "load_persistables",
    "load_program",
    "load_vars",
    "make_checkpoint",
    "save",
    "save_inference_model",
    "save_params",
    "save_persistables",
    "save_program",
    "save_vars",
]
