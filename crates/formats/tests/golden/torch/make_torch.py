"""Writes the golden files of PyTorch, and their contents as PyTorch itself loads them: torch==2.15.0."""

import hashlib
import io
import json
import os
import pickle
import shutil
import struct
import tarfile
import warnings
import zipfile

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.filesystem import FileSystemWriter, SerializationFormat

warnings.simplefilter("ignore")
torch.manual_seed(0)
HERE = os.path.dirname(os.path.abspath(__file__))
CASES = []


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def elements(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    size = tensor.numel() * tensor.element_size()
    flat = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage(), 0, (size,), (1,)) if size else b""
    return bytes(flat.numpy().tobytes()) if size else b""


def dtype_of(tensor):
    name = str(tensor.dtype).removeprefix("torch.")
    return {"float4_e2m1fn_x2": "float4_e2m1fn", "qint8": "int8", "quint8": "uint8", "qint32": "int32"}.get(name, name)


def facts(name, tensor):
    tensor = tensor.detach()
    if tensor.layout == torch.sparse_coo:
        tensor = tensor.coalesce()
        parts = {"indices": ["int64", tensor.indices().t().flatten().tolist()]}
        values = facts(name, tensor.values())
        return {**values, "kind": "coo", "shape": list(tensor.shape), "parts": parts}
    if tensor.layout == torch.sparse_csr:
        parts = {
            "indptr": ["int64", tensor.crow_indices().tolist()],
            "indices": ["int64", tensor.col_indices().tolist()],
        }
        values = facts(name, tensor.values())
        return {**values, "kind": "csr", "shape": list(tensor.shape), "parts": parts}
    shape = list(tensor.shape)
    dtype = dtype_of(tensor)
    if dtype == "float4_e2m1fn":
        shape[-1] *= 2
    if tensor.is_meta:
        return {"name": name, "kind": "absent", "dtype": dtype, "shape": shape, "sha256": sha256(b"")}
    data = elements(tensor)
    return {"name": name, "kind": "dense", "dtype": dtype, "shape": shape, "nbytes": len(data), "sha256": sha256(data)}


def walk(path, value):
    """Returns the tensors of an object, by path."""
    at = lambda key: f"{path}.{key}" if path else str(key)
    if isinstance(value, torch.Tensor):
        if value.is_nested:
            return [facts(at(number), part) for number, part in enumerate(value.unbind())]
        found = [facts(path, value)]
        if value.is_quantized and value.qscheme() == torch.per_channel_affine:
            found.append(facts(f"{path}@scales", value.q_per_channel_scales()))
            found.append(facts(f"{path}@zero_points", value.q_per_channel_zero_points()))
        return found
    if isinstance(value, torch.nn.Module):
        return walk(path, value.state_dict())
    if isinstance(value, dict):
        return [fact for key, inner in value.items() for fact in walk(at(key), inner)]
    if isinstance(value, (list, tuple)):
        return [fact for number, inner in enumerate(value) for fact in walk(at(number), inner)]
    return []


def case(path, format, tensors, files=None):
    names = files or [path]
    for name in names:
        assert os.path.getsize(os.path.join(HERE, name)) < 100_000, name
    CASES.append({
        "path": path,
        "format": format,
        "made_by": "make_torch.py",
        "with": "torch==2.15.0",
        "files": {name: sha256(open(os.path.join(HERE, name), "rb").read()) for name in names},
        "tensors": tensors,
    })


def save(name, value, loads=True, **options):
    path = os.path.join(HERE, name)
    torch.save(value, path, **options)
    case(name, "torch", walk("", torch.load(path, weights_only=False) if loads else value))


DTYPES = [
    "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float4_e2m1fn_x2", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "bool", "complex32", "complex64", "complex128",
]


def dtypes():
    found = {}
    for name in DTYPES:
        dtype = getattr(torch, name)
        size = torch.empty(0, dtype=dtype).element_size()
        raw = torch.arange(15 * size, dtype=torch.uint8) % (2 if name == "bool" else 64)
        found[name] = raw.view(dtype).reshape(3, 5)
    return found


def views():
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    number = torch.arange(6.0).to(torch.complex64).reshape(2, 3) * (1 + 2j)
    return {
        "base": base,
        "tied": base,
        "transposed": base.t(),
        "sliced": base[1:3, ::2],
        "column": base[:, 2],
        "repeated": base[0, :3, None].expand(3, 4),
        "permuted": torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
        "scalar": torch.tensor(7.5),
        "empty": torch.empty(0, 4),
        "conj": number.conj(),
        "neg": number.clone().conj().imag,
        "imag": number.clone().imag,
    }


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 3, 3)
        self.norm = torch.nn.BatchNorm2d(3)
        self.tied = torch.nn.Linear(4, 4, bias=False)
        self.head = torch.nn.Linear(4, 4)
        self.head.weight = self.tied.weight
        self.register_buffer("saved", torch.arange(3.0))
        self.register_buffer("unsaved", torch.arange(2.0), persistent=False)

    def forward(self, x):
        return self.head(self.tied(self.norm(self.conv(x)).mean((2, 3)) @ torch.ones(3, 4)))


def checkpoint():
    net = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "best": 0.5,
        "names": ["a", "b"],
        "shape": torch.Size([2, 3]),
        "dtype": torch.float16,
        "device": torch.device("cpu"),
    }


def tape(name):
    """Writes the layout of PyTorch 0.1.9."""
    weight = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    bias = torch.tensor([1, 2], dtype=torch.int64)
    storages, tensors, object_ = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pickle.dump(2, storages, protocol=2)
    for key, tensor, kind in [(10, weight, torch.FloatStorage), (11, bias, torch.LongStorage)]:
        pickle.dump((key, "cpu", kind), storages, protocol=2)
        storages.write(struct.pack("<q", tensor.numel()) + tensor.numpy().tobytes())
    pickle.dump([(12, 10, 1, 3)], storages, protocol=2)
    pickle.dump(3, tensors, protocol=2)
    shapes = [
        (20, 10, torch.FloatTensor, (3, 2), (1, 3), 0),
        (21, 11, torch.LongTensor, (2,), (1,), 0),
        (22, 12, torch.FloatTensor, (2,), (1,), 1),
    ]
    for key, storage, kind, shape, strides, offset in shapes:
        # The classes of tensors are not read.
        pickle.dump((key, storage, "torch.Tensor"), tensors, protocol=2)
        rank = len(shape)
        tensors.write(struct.pack(f"<i4x{rank}q{rank}qq", rank, *shape, *strides, offset))

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            return str(value.number) if isinstance(value, Number) else None

    class Number:
        def __init__(self, number):
            self.number = number

    value = {"weight": Number(20), "bias": Number(21), "part": Number(22), "epoch": 1}
    Pickler(object_, protocol=2).dump(value)
    path = os.path.join(HERE, name)
    with tarfile.open(path, "w:", format=tarfile.PAX_FORMAT) as archive:
        for member, data in [("sys_info", io.BytesIO(pickle.dumps({}, protocol=2))), ("pickle", object_),
                             ("tensors", tensors), ("storages", storages)]:
            info = tarfile.TarInfo(member)
            info.size = len(data.getvalue())
            archive.addfile(info, io.BytesIO(data.getvalue()))
    loaded = torch.load(path, weights_only=False)
    assert loaded["part"].tolist() == [2.0, 3.0]
    case(name, "torch", walk("", loaded))


def big(name, value):
    """Rewrites a file as one of a big-endian machine."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    source = zipfile.ZipFile(buffer)
    with zipfile.ZipFile(os.path.join(HERE, name), "w") as archive:
        for member in source.namelist():
            data = source.read(member)
            if member.endswith("/byteorder"):
                data = b"big"
            if "/data/" in member:
                key = member.rsplit("/", 1)[1]
                data = value[list(value)[int(key)]].numpy().byteswap().tobytes()
            archive.writestr(zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0)), data)
    case(name, "torch", walk("", torch.load(os.path.join(HERE, name))))


def script(name, module):
    path = os.path.join(HERE, name)
    torch.jit.save(module, path)
    case(name, "torchscript", walk("", torch.jit.load(path).state_dict()))


class Scripted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)
        self.shared = self.fc
        self.names = ["a", "b"]
        self.sizes = {"x": 1}

    def forward(self, x):
        return self.shared(self.fc(x) @ torch.ones(2, 3))


def exported(name):
    class Small(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(3, 3)
            self.other = torch.nn.Linear(3, 3)
            self.other.weight = self.fc.weight
            self.register_buffer("scale", torch.tensor(2.0))
            self.constant = torch.ones(3)

        def forward(self, x):
            return self.other(self.fc(x)) * self.scale + self.constant

    program = torch.export.export(Small(), (torch.ones(1, 3),))
    path = os.path.join(HERE, name)
    torch.export.save(program, path)
    loaded = torch.export.load(path)
    case(name, "torch-exported", walk("", {**loaded.state_dict, **loaded.constants}))
    # The layout until 2.7.
    early = name.replace(".pt2", "-early.pt2")
    with zipfile.ZipFile(os.path.join(HERE, early), "w") as archive:
        members = {"serialized_state_dict.pt": dict(loaded.state_dict), "serialized_constants.pt": dict(loaded.constants)}
        archive.writestr(zipfile.ZipInfo("version", (1980, 1, 1, 0, 0, 0)), b"8.2")
        with zipfile.ZipFile(path) as newer:
            (member,) = [name for name in newer.namelist() if name.endswith("models/model.json")]
            program = newer.read(member)
        archive.writestr(zipfile.ZipInfo("serialized_exported_program.json", (1980, 1, 1, 0, 0, 0)), program)
        for member, value in members.items():
            buffer = io.BytesIO()
            torch.save(value, buffer)
            archive.writestr(zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0)), buffer.getvalue())
    case(early, "torch-exported", walk("", {**loaded.state_dict, **loaded.constants}))


def distributed(name, value, **options):
    path = os.path.join(HERE, name)
    shutil.rmtree(path, ignore_errors=True)
    dcp.save(value, storage_writer=FileSystemWriter(path, **options), no_dist=True)
    files = sorted(f"{name}/{file}" for file in os.listdir(path))
    tensors = sorted(walk("", value), key=lambda fact: fact["name"])
    case(name, "torch-distributed", tensors, files)


def shards(name, value):
    path = os.path.join(HERE, name)
    os.makedirs(path, exist_ok=True)
    names = list(value)
    weight_map = {}
    for number in range(2):
        file = f"pytorch_model-{number + 1:05}-of-00002.bin"
        part = {key: value[key] for key in names[number::2]}
        torch.save(part, os.path.join(path, file))
        weight_map.update({key: file for key in part})
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    with open(os.path.join(path, "pytorch_model.bin.index.json"), "w") as out:
        json.dump(index, out, indent=2, sort_keys=True)
    files = [f"{name}/{file}" for file in sorted(os.listdir(path))]
    order = names[0::2] + names[1::2]
    case(name, "torch", walk("", {key: value[key] for key in order}), files)


def main():
    save("dtypes.pt", dtypes())
    # PyTorch writes types without a class of storages to this layout, but fails to load them.
    save("dtypes-stream.pt", dtypes(), loads=False, _use_new_zipfile_serialization=False)
    save("views.pt", views())
    save("views-stream.pt", views(), _use_new_zipfile_serialization=False)
    save("protocol4.pt", {"w": torch.ones(2, 2), "b": torch.zeros(2)}, pickle_protocol=4)
    save("checkpoint.pt", checkpoint())
    save("state.pt", Net().state_dict())
    save("module.pt", torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)))
    indices = torch.tensor([[0, 1, 2], [1, 0, 2]])
    coo = torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.0, 3.0]), (3, 3)).coalesce()
    save("sparse.pt", {"coo": coo, "csr": coo.to_dense().to_sparse_csr()})
    per_channel = torch.quantize_per_channel(
        torch.randn(2, 3), torch.tensor([0.1, 0.2]).double(), torch.tensor([1, 2]), 0, torch.quint8
    )
    per_tensor = torch.quantize_per_tensor(torch.randn(2, 3), 0.1, 2, torch.qint8)
    save("quantized.pt", {"tensor": per_tensor, "channel": per_channel})
    save("meta.pt", {"m": torch.empty(3, 2, device="meta")})
    save("nested.pt", {"n": torch.nested.nested_tensor([torch.ones(2), torch.arange(3.0)])})
    save("list.pt", [torch.ones(2), {"a": (torch.zeros(1), 3)}])
    big("big-endian.pt", {"f": torch.arange(4.0), "i": torch.arange(3), "h": torch.arange(3, dtype=torch.int16)})
    tape("tape.pth.tar")
    script("script.pt", torch.jit.script(Scripted()))
    script("trace.pt", torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()), torch.ones(1, 2)))
    exported("export.pt2")
    state = {"w": torch.arange(12.0).reshape(3, 4), "b": torch.arange(3), "epoch": 3, "names": ["a"]}
    distributed("distributed", state)
    tensors = {"w": torch.arange(12.0).reshape(3, 4), "b": torch.arange(3)}
    distributed("distributed-safetensors", tensors, serialization_format=SerializationFormat.SAFETENSORS)
    shards("shards", {"a": torch.ones(2), "b": torch.arange(4.0), "c": torch.tensor(1)})
    with open(os.path.join(HERE, "index.json"), "w") as out:
        out.write('{"schema": 1, "cases": [\n')
        out.write(",\n".join(" " + json.dumps(found) for found in CASES))
        out.write("\n]}\n")


if __name__ == "__main__":
    main()
