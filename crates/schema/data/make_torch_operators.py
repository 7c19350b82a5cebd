#!/usr/bin/env python3
"""Writes torch_operators.tsv: the schemas of PyTorch's operators.

    pip install torch==2.15 torchvision
    python make_torch_operators.py

Columns: the operator with its overload, its arguments, its results. Arguments and results are as PyTorch prints them.
Schemas that write to `out`, gradients, and operators of single backends are left out.
"""

from pathlib import Path

import torch
import torchvision

assert torchvision.__version__

NAMESPACES = ("aten", "prims", "quantized", "_quantized", "quantized_decomposed", "torchvision")
BACKENDS = ("_foreach_", "_fused_", "_cudnn", "cudnn_", "miopen_", "mkldnn_", "_mkldnn", "_mps", "mps_", "_cslt_",
            "_sparse_", "sparse_", "_sobol", "_thnn_", "_nested_", "_jagged_", "_cufft", "hspmm", "_spdiags",
            "_triton_", "_wrapped_", "fbgemm_", "record_stream", "_test_", "xnnpack", "vulkan", "_amp_")


def is_kept(schema):
    namespace, name = schema.name.split("::", 1)
    if namespace not in NAMESPACES or "out" in schema.overload_name.split("_"):
        return False
    if "backward" in name or name.endswith("_out") or name.startswith(BACKENDS):
        return False
    return "..." not in str(schema) and not any(argument.is_out for argument in schema.arguments)


def row(schema):
    text = str(schema)
    name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
    assert text.startswith(name + "("), text
    depth, place = 0, len(name)
    while place == len(name) or depth:
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        place += 1
    return name, text[len(name) + 1:place - 1], text[place:].removeprefix(" -> ")


def main():
    try:
        import torch.ao.quantization.fx._decomposed  # noqa: F401
    except ImportError:
        pass
    rows = {row(schema) for schema in torch._C._jit_get_all_schemas() if is_kept(schema)}
    text = "".join("\t".join(row) + "\n" for row in sorted(rows))
    Path(__file__).with_name("torch_operators.tsv").write_text(text)


if __name__ == "__main__":
    main()
