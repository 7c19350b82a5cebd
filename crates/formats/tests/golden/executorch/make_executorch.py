"""Writes the golden files of ExecuTorch, and their tensors as ExecuTorch's own readers return them: executorch==1.5.1,
torch==2.15.0."""

import hashlib
import json
import math
import os

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import ExecutorchBackendConfig, to_edge, to_edge_transform_and_lower
from executorch.exir._serialize._cord import Cord
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from executorch.exir.schema import DataLocation, Tensor, TensorDataLocation
from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer
from torch import nn
from torch.export import Dim, export

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = []
DTYPES = {
    "FLOAT": ("float32", 4),
    "HALF": ("float16", 2),
    "LONG": ("int64", 8),
    "BOOL": ("bool", 1),
    "BYTE": ("uint8", 1),
    "BFLOAT16": ("bfloat16", 2),
}


def fact(name, scalar, sizes, order, data):
    """Returns the facts of a tensor whose dims are stored in an order."""
    dtype, size = DTYPES[scalar.name]
    if data is None:
        empty = hashlib.sha256(b"").hexdigest()
        return {"name": name, "kind": "absent", "dtype": dtype, "shape": list(sizes), "sha256": empty}
    nbytes = math.prod(sizes) * size
    items = torch.frombuffer(bytearray(data[:nbytes]), dtype=torch.uint8) if nbytes else torch.empty(0, dtype=torch.uint8)
    stored = items.reshape([sizes[axis] for axis in order] + [size])
    back = [list(order).index(axis) for axis in range(len(sizes))] + [len(sizes)]
    data = stored.permute(back).contiguous().numpy().tobytes()
    sha = hashlib.sha256(data).hexdigest()
    return {"name": name, "kind": "dense", "dtype": dtype, "shape": list(sizes), "nbytes": nbytes, "sha256": sha}


def tensors_of(data):
    """Returns the tensors of a program with data in the file, each once."""
    file = deserialize_pte_binary(data)
    found = {}
    for plan in file.program.execution_plan:
        for value in plan.values:
            value = value.val
            if not isinstance(value, Tensor):
                continue
            more = value.extra_tensor_info
            if more is not None and more.location == TensorDataLocation.EXTERNAL:
                name, elements = more.fully_qualified_name, None
            elif value.data_buffer_idx == 0:
                continue
            elif value.allocation_info is not None:
                name = f"mutable.{more.mutable_data_segments_idx if more else 0}.{value.data_buffer_idx}"
                elements = bytes(file.mutable_data[value.data_buffer_idx].storage)
            else:
                name = f"constant.{value.data_buffer_idx}"
                elements = bytes(file.program.constant_buffer[value.data_buffer_idx].storage)
            if more is not None and more.fully_qualified_name:
                name = more.fully_qualified_name
            found[name] = fact(name, value.scalar_type, value.sizes, value.dim_order, elements)
    return list(found.values())


def tensors_beside(data):
    """Returns the tensors of a `.ptd` file."""
    payload = FlatTensorSerializer().deserialize(Cord(data))
    found = []
    for name, entry in payload.named_data.items():
        layout = entry.tensor_layout
        if layout is not None:
            elements = bytes(payload.buffers[entry.buffer_index])
            found.append(fact(name, layout.scalar_type, layout.sizes, layout.dim_order, elements))
    return found


def case(path, data):
    with open(os.path.join(HERE, path), "wb") as file:
        file.write(data)
    tensors = tensors_of(data) if path.endswith(".pte") else tensors_beside(data)
    files = {path: hashlib.sha256(data).hexdigest()}
    made = {"made_by": "make_executorch.py", "with": "executorch==1.5.1"}
    CASES.append({"path": path, "format": "executorch", **made, "files": files, "tensors": tensors})


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.register_buffer("halves", torch.arange(4, dtype=torch.float16))
        self.register_buffer("count", torch.tensor([1, 2]))

    def forward(self, x):
        return torch.relu(self.fc(x)) + self.count.float(), self.halves * 2


class State(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.ones(2, 2))

    def forward(self, x):
        self.state.add_(x)
        return self.state + 1


class Encoder(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x).tanh()


class Branch(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: (x + 1,), lambda x: (x * 2,), (x,))[0]


def main():
    torch.manual_seed(0)
    linear = export(Linear().eval(), (torch.randn(1, 3),))
    case("linear.pte", to_edge(linear).to_executorch().buffer)
    external = to_edge(linear).to_executorch(ExecutorchBackendConfig(external_constants=True))
    case("external.pte", external.buffer)
    external.write_tensor_data_to_file(HERE)
    beside = os.path.join(HERE, "_default_external_constant.ptd")
    with open(beside, "rb") as file:
        case("external.ptd", file.read())
    os.remove(beside)
    # The initial values of mutable buffers.
    passes = [InitializedMutableBufferPass(["state"])]
    state = to_edge(export(State(), (torch.ones(2, 2),)))
    case("mutable.pte", state.to_executorch(ExecutorchBackendConfig(passes=passes)).buffer)
    # Several methods that share weights, with dynamic dims, and methods that return constants.
    inner = nn.Linear(3, 3)
    dims = ({0: Dim("batch", min=2, max=8)},)
    methods = {
        "encode": export(Encoder(inner).eval(), (torch.randn(2, 3),), dynamic_shapes=dims),
        "decode": export(nn.Sequential(inner, nn.ReLU()).eval(), (torch.randn(2, 3),)),
    }
    constants = {"get_max": 42, "get_name": "text", "get_sizes": [1, 2]}
    case("methods.pte", to_edge(methods, constant_methods=constants).to_executorch().buffer)
    # Data of a backend in a segment, and in the tables.
    for path, extract in [("delegate.pte", True), ("delegate-inline.pte", False)]:
        lowered = to_edge_transform_and_lower(linear, partitioner=[XnnpackPartitioner()])
        config = ExecutorchBackendConfig(extract_delegate_segments=extract)
        case(path, lowered.to_executorch(config).buffer)
    # Another order of dims.
    conv = nn.Conv2d(2, 3, 2).to(memory_format=torch.channels_last).eval()
    images = torch.randn(1, 2, 4, 4).to(memory_format=torch.channels_last)
    case("channels-last.pte", to_edge(export(conv, (images,))).to_executorch().buffer)
    branch = to_edge(export(Branch(), (torch.ones(2),)))
    case("branch.pte", branch.to_executorch().buffer)
    lines = ",\n".join(" " + json.dumps(case) for case in CASES)
    with open(os.path.join(HERE, "index.json"), "w", encoding="utf-8") as file:
        file.write(f'{{"schema": 1, "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
