"""Storage for `torch.distributed.checkpoint` in one process. `interop/torch_checkpoints.py` tests several."""

import copyreg
import os
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch")
dcp = pytest.importorskip("torch.distributed.checkpoint")

from lodstone.torch.dcp import StorageReader, StorageWriter  # noqa: E402

METADATA = "torch.distributed.checkpoint.metadata"
FORMATS = f"c{METADATA}\n_MEM_FORMAT_ENCODING\n".encode()

# What a pickle can refer to, as opcodes that push it.
SHARED = {
    "class": f"c{METADATA}\nMetadata\n".encode(),
    "native class": b"ctorch\nSize\n",
    "enumeration": FORMATS,
    "member": FORMATS + b"K\x00\x85R",
    "member by name": b"cbuiltins\ngetattr\n" + FORMATS + b"\x8c\x15TORCH_PRESERVE_FORMAT\x86R",
    "function": b"ctorch.serialization\n_get_layout\n",
    "own function": b"cbuiltins\ngetattr\n",
    "element type": b"ctorch\nfloat32\n",
    "layout": b"ctorch.serialization\n_get_layout\n\x8c\x0dtorch.strided\x85R",
}

# States that set the attribute `mark`: of the dict, and of slots.
STATES = {"dict": b"}\x8c\x04markK\x01sb.", "slots": b"N}\x8c\x04markK\x01s\x86b."}


@pytest.fixture(autouse=True)
def one_process():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is")
        yield


def metadata_of(directory, data):
    directory.mkdir()
    (directory / ".metadata").write_bytes(data)
    return StorageReader(directory).read_metadata()


def values():
    found = [dcp.metadata.Metadata, dcp.metadata._MEM_FORMAT_ENCODING, *dcp.metadata._MEM_FORMAT_ENCODING]
    return [*found, torch.serialization._get_layout, torch.float32, torch.strided]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("shared", SHARED)
def test_metadata_cannot_set_attributes_of_what_it_refers_to(shared, state, tmp_path):
    with pytest.raises(pickle.UnpicklingError, match="attribute|sets `mark`|item assignment"):
        metadata_of(tmp_path / "hostile", b"\x80\x04" + SHARED[shared] + STATES[state])
    assert not any(hasattr(value, "mark") for value in values())


@pytest.mark.parametrize(
    "given, message",
    [
        (os.system, "`posix.system`, which metadata does not need"),
        (copyreg._reconstructor, "`copyreg._reconstructor`, which metadata does not need"),
        (getattr, "expected Metadata, found _StandIn"),
        ({"a": 1}, "expected Metadata, found dict"),
        (dcp.metadata._MEM_FORMAT_ENCODING(1), "expected Metadata, found _Member"),
    ],
)
def test_metadata_holds_nothing_else(given, message, tmp_path):
    with pytest.raises(pickle.UnpicklingError, match=message):
        metadata_of(tmp_path / "hostile", pickle.dumps(given))


def test_metadata_is_read_as_pytorch_reads_it(tmp_path):
    state = {
        "w": torch.arange(6.0).reshape(2, 3),
        "half": torch.ones(2, dtype=torch.bfloat16),
        "image": torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "step": 3,
    }
    dcp.save(state, checkpoint_id=tmp_path / "step-1", storage_writer=StorageWriter())
    with open(tmp_path / "step-1/.metadata", "rb") as file:
        expected = pickle.load(file)
    found = StorageReader(tmp_path / "step-1").read_metadata()
    assert found == expected
    assert type(found.state_dict_metadata["w"]) is dcp.metadata.TensorStorageMetadata
    assert {type(index) for index in found.storage_data} == {dcp.metadata.MetadataIndex}


def test_checkpoints_of_pytorch_are_loaded(tmp_path):
    given = {"w": torch.arange(6.0).reshape(2, 3), "step": 3, "nested": {"b": torch.ones(2, dtype=torch.int8)}}
    dcp.save(given, checkpoint_id=tmp_path / "step-1")
    found = {"w": torch.zeros(2, 3), "step": 0, "nested": {"b": torch.zeros(2, dtype=torch.int8)}}
    dcp.load(found, storage_reader=StorageReader(tmp_path / "step-1"))
    assert torch.equal(found["w"], given["w"]) and torch.equal(found["nested"]["b"], given["nested"]["b"])
    assert found["step"] == 3


@pytest.mark.parametrize("data, message", [(None, "the file is missing"), (b"\x80\x04cos\nsystem\n.", "`os.system`")])
def test_loads_report_why_metadata_cannot_be_read(data, message, tmp_path):
    if data:
        (tmp_path / ".metadata").write_bytes(data)
    with pytest.raises(dcp.CheckpointException, match=message):
        dcp.load({"w": torch.zeros(1)}, storage_reader=StorageReader(tmp_path))


def targets():
    """Tensors of 3 x 4 zeros that keep their elements in different ways."""
    plain = torch.zeros(3, 4)
    rows = torch.zeros(5, 4)
    return {
        "plain": (plain, plain),
        "transposed": (torch.zeros(4, 3).T, None),
        "strided": (torch.zeros(3, 8)[:, ::2], None),
        "rows of another": (rows[1:4], rows),
        "float64": (torch.zeros(3, 4, dtype=torch.float64), None),
        "parameter": (torch.nn.Parameter(torch.zeros(3, 4)), None),
    }


@pytest.mark.parametrize("dedup", [None, "content"])
@pytest.mark.parametrize("kind", targets())
def test_tensors_are_loaded_wherever_their_elements_are(kind, dedup, tmp_path):
    value = torch.arange(12.0).reshape(3, 4)
    dcp.save({"w": value}, storage_writer=StorageWriter(tmp_path / "step", dedup=dedup))
    target, whole = targets()[kind]
    version = target._version
    dcp.load({"w": target}, storage_reader=StorageReader(tmp_path / "step"))
    assert torch.equal(target.detach().to(torch.float32), value)
    # Autograd sees the change.
    assert target._version > version
    if kind == "rows of another":
        assert torch.equal(whole[[0, 4]], torch.zeros(2, 4))


@pytest.mark.parametrize("dedup", [None, "content"])
def test_damage_is_an_error_wherever_it_is_read_to(dedup, tmp_path):
    dcp.save({"w": torch.arange(12.0)}, storage_writer=StorageWriter(tmp_path / "step", dedup=dedup))
    (file,) = tmp_path.glob("step/*.safetensors") if dedup is None else tmp_path.glob("chunks/*/*")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.chmod(0o600)
    file.write_bytes(data)
    for target in [torch.zeros(12), torch.zeros(24)[::2]]:
        with pytest.raises(dcp.api.CheckpointException, match="`w`, chunk 1 of 1"):
            dcp.load({"w": target}, storage_reader=StorageReader(tmp_path / "step"))


@pytest.mark.parametrize("offsets, lengths", [((-1,), (4,)), ((9,), (4,)), ((0,), (13,)), ((2**62,), (4,)), ((0,), (-4,))])
def test_boxes_outside_of_a_chunk_are_errors(offsets, lengths, tmp_path):
    dcp.save({"w": torch.arange(12.0)}, storage_writer=StorageWriter(tmp_path / "step"))
    reader = StorageReader(tmp_path / "step")
    metadata = reader.read_metadata()
    reader.set_up_storage_reader(metadata, True)
    (index,) = metadata.storage_data
    kind = dcp.planner.LoadItemType.TENSOR
    zero = torch.Size([0])
    item = dcp.planner.ReadItem(kind, index, zero, index, torch.Size(offsets), torch.Size(lengths))

    class Planner(dcp.DefaultLoadPlanner):
        def resolve_tensor(self, item):
            return torch.zeros(max(lengths[0], 0)) if lengths[0] <= 100 else None

    with pytest.raises((ValueError, RuntimeError)):
        reader.read_data(dcp.planner.LoadPlan([item]), Planner())


def test_asynchronous_saves_copy_tensors_in_cpu_memory(tmp_path):
    given = {"w": torch.ones(4), "list": [torch.ones(3), (torch.ones(2), 5)]}
    staged = StorageWriter(tmp_path / "step-1").stage(given)
    given["w"].zero_(), given["list"][0].zero_(), given["list"][1][0].zero_()
    assert staged["w"].sum() == 4 and staged["list"][0].sum() == 3
    assert staged["list"][1][0].sum() == 2 and staged["list"][1][1] == 5


def test_collectives_are_required(tmp_path):
    with pytest.raises(ValueError, match="use_collectives=False is not supported: one process publishes"):
        StorageWriter(tmp_path / "step-1").set_up_storage_writer(True, rank=0, use_collectives=False)


def test_a_path_is_required():
    with pytest.raises(ValueError, match="no path: pass it to StorageWriter, or as checkpoint_id"):
        StorageWriter().set_up_storage_writer(True)
