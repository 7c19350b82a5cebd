"""Progress and cancellation of long work."""

import _thread
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import DIGITS

import lodstone
import lodstone.numpy
from lodstone import _options


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "large.safetensors"
    rows = np.arange(1 << 22, dtype=np.float32)
    lodstone.numpy.save_file({str(number): rows for number in range(8)}, path)
    return path


def test_progress_is_reported(large, tmp_path):
    told = []
    lodstone.convert(large, tmp_path / "out.npz", progress=told.append)
    assert told == sorted(told) and told[-1] >= 8 << 24


def test_an_exception_of_progress_stops_the_work(large, tmp_path):
    class Enough(Exception):
        pass

    def stop(done):
        raise Enough

    with pytest.raises(Enough):
        lodstone.convert(large, tmp_path / "out.npz", seal=True, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_stops_the_work(large, tmp_path):
    """No temporary files remain."""
    out = tmp_path / "out.npz"
    # Processes started in the background ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(done):
        _thread.interrupt_main()

    with pytest.raises(KeyboardInterrupt):
        lodstone.convert(large, out, seal=True, progress=interrupt)
    signal.signal(signal.SIGINT, before)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_ends_the_command():
    """The command ends at once, although Python defers signals until a native function returns."""
    code = """if True:
        import os, signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from lodstone import __main__, _lodstone
        _lodstone.main = lambda _: os.kill(os.getpid(), signal.SIGINT)
        __main__.main()
    """
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert ended.returncode == -signal.SIGINT and ended.stderr == b""


def test_other_threads_run_meanwhile(large, tmp_path):
    counted, ended = [0], threading.Event()

    def count():
        while not ended.is_set():
            counted[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    lodstone.convert(large, tmp_path / "out.npz")
    during = counted[0] - before
    ended.set()
    thread.join()
    assert during > 10


def test_many_threads_read_one_model(large):
    model = lodstone.open(large)
    sums = []
    read = lambda name: sums.append(int(lodstone.numpy.array(model[name])[-1]))
    threads = [threading.Thread(target=read, args=(name,)) for name in model]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sums == [(1 << 22) - 1] * 8


def test_diff_and_scan():
    found = lodstone.diff("examples/digits/paddle", "examples/digits/mxnet")
    assert not found["same"]
    assert lodstone.diff(lodstone.open("examples/digits/paddle"), "examples/digits/paddle")["same"]
    assert lodstone.scan("examples/digits/mxnet")["clean"]


def test_the_command():
    for arguments, status in ((["inspect", "none"], 2), (["verify", "examples/digits/paddle"], 0), (["--help"], 0)):
        done = subprocess.run([sys.executable, "-m", "lodstone", *arguments], capture_output=True)
        assert done.returncode == status, done.stderr


def test_an_interrupt_stops_loading(large):
    """The rest of the file is not read."""
    read = []

    def interrupt(done):
        read.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lodstone.numpy.load_file(large, progress=interrupt)
    loaded = lodstone.numpy.load_file(large, progress=read.append)
    assert len(loaded) == 8 and read[-1] >= 8 << 24


def test_byte_maps(tmp_path):
    path = DIGITS / "inference.pdiparams"
    (file,) = lodstone.byte_map(path)["files"]
    assert sum(field["len"] for field in file["fields"]) == path.stat().st_size and "error" not in file
    (bias,) = lodstone.byte_map(DIGITS, tensor="fc_0.b_0")["files"]
    assert {field["tensor"] for field in bias["fields"]} == {10}
    cut = tmp_path / "cut.pdiparams"
    cut.write_bytes(path.read_bytes()[:102])
    (file,) = lodstone.byte_map(cut)["files"]
    assert "record 1" in file["error"] and file["fields"][-1]["name"] == "unread"
    with pytest.raises(lodstone.LodstoneError, match="has no byte map"):
        lodstone.byte_map(__file__)


def test_unknown_options_are_errors(tmp_path):
    for call, similar in (
        (lambda: lodstone.convert(DIGITS, tmp_path / "x.npz", wheights_only=True), "weights_only"),
        (lambda: lodstone.open(DIGITS).session(thread=1), "threads"),
    ):
        with pytest.raises(TypeError, match=f"unknown option .*did you mean {similar}?"):
            call()
    for options, known in (
        ({"cast": "float61"}, "float16"),
        ({"names": "structure"}, "structured"),
        ({"allow": "fp16_rounding"}, "fp16-rounding"),
        ({"external_data": "two"}, "each"),
    ):
        with pytest.raises(ValueError, match=f"unknown value .*the values are .*`{known}`"):
            lodstone.convert(DIGITS, tmp_path / "x.npz", **options)
    with pytest.raises(TypeError, match="unexpected keyword"):
        lodstone.load_file(DIGITS, param="x")


def test_options_have_defaults():
    assert _options.ConvertOptions.__annotations__.keys() == _options.CONVERTING.keys()
    assert _options.RunOptions.__annotations__.keys() == _options.RUNNING.keys()


def test_origins_name_operators_and_parameters_of_the_source():
    found = lodstone.origins(DIGITS)
    kinds = [(one["kind"], [source["kind"] for source in one["sources"]]) for one in found["operators"]]
    assert kinds[0] == ("Conv", ["conv2d"])
    norm = next(one for one in found["operators"] if one["kind"] == "BatchNormalization")
    assert norm["sources"][0]["momentum"] == 0.9
    made = {one["name"]: one["parameters"] for one in found["constants"]}
    assert made["conv2d_0.w_0"] == ["conv2d_0.w_0"]


def test_values_become_outputs(tmp_path):
    lodstone.convert(DIGITS, tmp_path / "part.onnx", outputs="conv2d_*.tmp_0")
    part = lodstone.open(tmp_path / "part.onnx")
    assert [value["name"] for value in part.inspect()["outputs"]] == ["conv2d_0.tmp_0", "conv2d_1.tmp_0"]
    with pytest.raises(lodstone.OutputError):
        lodstone.convert(DIGITS, tmp_path / "none.onnx", outputs=["nothing"])
