"""Exceptions, whose messages are those of the command."""

import errno
import os
import pickle
import subprocess
import sys

import pytest
from conftest import DIGITS, GOLDEN

import lodstone
import lodstone.numpy


def raised(kind, work):
    with pytest.raises(kind) as caught:
        work()
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and str(again) == str(caught.value)
    assert again.__dict__ == caught.value.__dict__
    return caught.value


def test_missing_models(tmp_path):
    error = raised(lodstone.NoModelError, lambda: lodstone.open(tmp_path / "none"))
    assert isinstance(error, FileNotFoundError) and error.file == tmp_path / "none"
    command = [sys.executable, "-m", "lodstone", "inspect", tmp_path / "none"]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 2 and f"error: {error}\n" in told.stderr


def test_addresses(digits):
    model = lodstone.open(f"file://{digits}")
    assert model.format == lodstone.open(digits).format
    with pytest.raises(ValueError, match="unknown scheme `gopher://`, expected .*`hf://`"):
        lodstone.open("gopher://host/model.onnx")
    # An address on this machine is refused before a request is sent.
    error = raised(PermissionError, lambda: lodstone.open("http://127.0.0.1:9/model.onnx"))
    assert "127.0.0.1 is not a public address" in str(error)


def test_hints_of_checkpoints_and_programs(tmp_path):
    error = raised(lodstone.NoModelError, lambda: lodstone.checkpoint.load(tmp_path))
    assert "lodstone.checkpoint.steps" in error.hint


def test_unknown_formats(tmp_path):
    (tmp_path / "text").write_text("no model at all")
    error = raised(lodstone.UnknownFormatError, lambda: lodstone.open(tmp_path / "text"))
    assert isinstance(error, ValueError) and error.file == tmp_path / "text"


def test_damaged_models(digits):
    path = digits / "inference.pdiparams"
    path.write_bytes(path.read_bytes()[:-7])
    error = raised(lodstone.DamagedError, lambda: lodstone.open(digits))
    assert error.file == path and "expected" in str(error)


def test_a_flipped_bit_is_found(digits):
    sealed = lodstone.seal(digits)
    assert (sealed["tensors"], sealed["seals"]) == (12, [str(digits / "lodstone.seal")])
    path = digits / "inference.pdiparams"
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    found = lodstone.verify(digits)
    assert not found["whole"] and found["findings"][0]["tensor"] == "fc_0.w_0"
    model = lodstone.open(digits)
    model["conv2d_0.w_0"].data()
    error = raised(lodstone.DamagedError, lambda: model["fc_0.w_0"].data())
    assert "fc_0.w_0" in str(error)
    raised(lodstone.DamagedError, lambda: model["fc_0.w_0"].data(private=True))
    assert lodstone.open(digits, verify=False)["fc_0.w_0"].data()


def test_losses_are_named(tmp_path):
    path = GOLDEN / "safetensors/metadata.safetensors"
    out = tmp_path / "out.pdiparams"
    error = raised(lodstone.LossyError, lambda: lodstone.convert(path, out))
    assert "metadata" in error.losses and not out.exists()
    done = lodstone.convert(path, out, allow=error.losses)
    assert done["losses"] == error.losses and out.exists()


def test_hints_are_in_the_terms_of_python(tmp_path):
    """Tracebacks show the hint; the message is that of the command."""
    out = tmp_path / "out.npz"
    error = raised(lodstone.LossyError, lambda: lodstone.convert(DIGITS, out))
    assert error.hint == "pass `weights_only=True` to write the tensors without the program"
    assert error.__notes__ == [f"hint: {error.hint}"] and "hint" not in str(error)
    lodstone.convert(DIGITS, out, weights_only=True)
    path = GOLDEN / "safetensors/metadata.safetensors"
    error = raised(lodstone.LossyError, lambda: lodstone.convert(path, tmp_path / "out.pdiparams"))
    assert error.hint.startswith("pass `allow=[")
    assert all(f'"{name}"' in error.hint for name in error.losses)
    error = raised(lodstone.NoModelError, lambda: lodstone.open(tmp_path / "none"))
    assert error.hint is None and not hasattr(error, "__notes__")


def test_names_are_attributes():
    model = lodstone.open(DIGITS)
    error = raised(lodstone.NoTensorError, lambda: model["fc_0.w"])
    assert (error.name, error.similar) == ("fc_0.w", ("fc_0.w_0", "fc_0.b_0"))
    assert error.hint == "`list(model)` returns the names of the tensors"
    [(name, image)] = model.random_inputs().items()
    error = raised(lodstone.InputError, lambda: model.run({name: image, "imge": image}))
    assert (error.name, error.similar) == ("imge", ("image",))
    error = raised(lodstone.InputError, lambda: model.run())
    assert error.name == "image" and isinstance(error, lodstone.UnsupportedError)
    error = raised(lodstone.OutputError, lambda: model.run({name: image}, fetch="fc_0.tmp_9"))
    assert error.name == "fc_0.tmp_9" and "fc_0.tmp_0" in error.similar
    assert isinstance(error, lodstone.UnsupportedError)


def test_invalid_options_are_named(tmp_path):
    def option(out, **options):
        error = raised(lodstone.OptionError, lambda: lodstone.convert(DIGITS, tmp_path / out, **options))
        assert isinstance(error, lodstone.UnsupportedError) and error.option in (error.hint or "")
        return error.option

    assert option("out.npz", weights_only=True, keep_io=True) == "keep_io"
    assert option("out.npz", weights_only=True, max_shard_size=1000) == "max_shard_size"
    assert option("out.pdmodel", custom_ops="x") == "custom_ops"
    assert option("out.npz", opset=17) == "opset"


def test_unsupported_operations():
    raised(lodstone.UnsupportedError, lambda: lodstone.convert(DIGITS, "out.unknown"))
    raised(ValueError, lambda: lodstone.convert(DIGITS, "x.npz", allow=["everything"]))
    raised(TypeError, lambda: lodstone.convert(DIGITS, "x.npz", colour="red"))


def test_missing_elements(tmp_path):
    """A model opens without the file of its weights; accessing the weights is an error."""
    import lodstone.numpy

    path = tmp_path / "one.onnx"
    path.write_bytes((GOLDEN / "onnx/external/one.onnx").read_bytes())
    model = lodstone.open(path)
    absent = next(tensor for tensor in model.tensors if tensor.kind == "absent")
    assert model.warnings and absent.shape
    for read in (lambda: absent.data(), lambda: lodstone.numpy.load_file(path), absent.__dlpack__):
        error = raised(lodstone.DamagedError, read)
        assert f"`{absent.name}`" in str(error)


def test_bytes_that_do_not_match_the_shape():
    for shape in ((3,), (2**63,), (2**63, 2**63)):
        raised(ValueError, lambda: lodstone.Tensor("x", "float32", shape, b"abcd"))


def test_invalid_arguments_are_named(tmp_path):
    out = tmp_path / "out.npz"
    for name, value in (("align", "wide"), ("rename", {"x": 1}), ("opset", 1.5), ("cast", 16)):
        error = raised(TypeError, lambda: lodstone.convert(DIGITS, out, **{name: value}))
        assert str(error).startswith(f"argument '{name}': '"), error
    error = raised(TypeError, lambda: lodstone.open(DIGITS, mmap="yes"))
    assert str(error).startswith("argument 'mmap': '")
    error = raised(TypeError, lambda: lodstone.open(DIGITS, raise_limits=0))
    assert str(error).startswith("argument 'raise_limits': ")
    assert lodstone.open(DIGITS, raise_limits=2).format == "paddle"


def test_tensors_that_cannot_be_saved_are_named(tmp_path):
    error = raised(TypeError, lambda: lodstone.numpy.save_file({"weight": {}}, tmp_path / "out.npz"))
    assert str(error) == "`weight`: expected numbers or strings, found dict"


def test_errors_of_the_system_have_an_errno(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        lodstone.verify(DIGITS, params=tmp_path / "none")
    assert caught.value.errno == errno.ENOENT and "none" in str(caught.value)


def test_no_thread_can_be_started():
    """A failure to start a thread is an `OSError`, not a panic."""
    code = "import lodstone\ntry: lodstone.open('.')\nexcept OSError as error: print('refused', error)"
    environment = {**os.environ, "RUST_MIN_STACK": str(1 << 46)}
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert told.stdout.startswith("refused") and told.stderr == ""


def test_a_model_that_changed_since_it_was_opened_is_not_loaded(digits):
    model = lodstone.open(digits)
    path = digits / "inference.pdiparams"
    os.utime(path, ns=(0, 0))
    error = raised(lodstone.LodstoneError, lambda: lodstone.numpy._read(model, None))
    assert str(error) == f"`{path}` changed while it was read: it was modified"
