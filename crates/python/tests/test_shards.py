"""Files of a checkpoint that several processes write, without a framework."""

import json

import numpy
import pytest
from lodstone import LodstoneError
from lodstone._lodstone import ShardFiles, ShardPublication, Tensor, write_shard

ROWS = numpy.arange(6 << 20, dtype=numpy.float32).reshape(6, -1)


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    """The directory of a checkpoint with one tensor of 24 MiB, and the place of its elements."""
    directory = tmp_path_factory.mktemp("run") / "step"
    publication = ShardPublication(directory, False)
    value = Tensor("w", "float32", ROWS.shape, ROWS.tobytes())
    shape = list(ROWS.shape)
    file = write_shard((publication.staged(), False), "0.safetensors", [("w", "float32", shape)], {}, lambda _: value)
    publication.publish("torch-distributed", ".metadata", b"", [file])
    (part,) = [part for part in json.loads(file)["parts"] if part.get("tensor") == "w"]
    return directory, part["offset"]


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("rows", [(0, 6), (1, 3), (2, 6), (5, 6)])
def test_rows_are_read_into_memory(rows, verify, step):
    directory, offset = step
    begin, end = rows
    memory = numpy.zeros_like(ROWS[begin:end])
    start = offset + begin * ROWS[0].nbytes
    ShardFiles(directory, verify).read_to([("0.safetensors", start, memory.data)])
    assert numpy.array_equal(memory, ROWS[begin:end])


@pytest.mark.parametrize("shared", [False, True])
def test_many_are_read_at_once_even_if_they_share_memory(shared, step):
    directory, offset = step
    memory = numpy.zeros(ROWS.shape[1:], ROWS.dtype) if shared else None
    targets = [memory if shared else numpy.zeros_like(row) for row in ROWS]
    places = [("0.safetensors", offset + number * ROWS[0].nbytes, target.data) for number, target in enumerate(targets)]
    ShardFiles(directory, True).read_to(places[::-1])
    for row, target in zip(ROWS, targets, strict=True):
        assert any(numpy.array_equal(target, row) for row in ROWS) if shared else numpy.array_equal(target, row)
    ShardFiles(directory, True).read_to([])


@pytest.mark.parametrize("target", [bytes(8), memoryview(bytearray(16))[::2], memoryview(bytes(8)), 3, "text"])
def test_memory_to_read_to_is_writable_and_contiguous(target, step):
    directory, offset = step
    with pytest.raises((BufferError, TypeError)):
        ShardFiles(directory, True).read_to([("0.safetensors", offset, target)])


def test_reads_beyond_the_end_of_a_file_are_errors(step):
    directory, offset = step
    files = ShardFiles(directory, True)
    for start in [offset + ROWS.nbytes - 4, 2**63, 2**64 - 4]:
        with pytest.raises(LodstoneError):
            files.read_to([("0.safetensors", offset, bytearray(8)), ("0.safetensors", start, bytearray(8))])
