"""An old model, without the framework that wrote it.

A story in cells, for an editor that runs them one by one, or all at once: `python examples/old_model.py`.
The model is one of two that learnt to read handwritten digits, in PaddlePaddle 2.6 and in MXNet 1.9.
"""

# %% Somebody left us a directory. What is it?

import pathlib
import tempfile

import lodstone
import lodstone.numpy

here = pathlib.Path(__file__).parent
model = lodstone.open(here / "digits/paddle")
print(model)

# %% It is a program and its parameters. None of them has been read so far.

for name, tensor in model.items():
    print(f"{name:18} {tensor.dtype} {list(tensor.shape)}")

# %% The program says what it computes.

for operator in model.program["operators"]:
    print(operator["type"], operator["inputs"])

# %% Is it what was trained? There is no seal, so only its structure can be wrong, and it is not.

found = lodstone.verify(here / "digits/paddle")
print("whole" if found["whole"] else found["findings"], "sealed" if found["sealed"] else "not sealed")

# %% Does it tell more than it should? Yes: where the training script was.

for finding in lodstone.scan(here / "digits/paddle")["findings"]:
    print(finding["kind"], finding["message"][:60], "...")

# %% A weight is an array. It is not copied: NumPy looks at the pages of the file.

weight = lodstone.numpy.array(model["conv2d_0.w_0"])
print(weight.shape, weight.mean(), "writeable" if weight.flags.writeable else "read-only")

# %% We save it as others like it today, and seal it, so that a flipped bit is found years later.

out = pathlib.Path(tempfile.mkdtemp()) / "digits.safetensors"
done = lodstone.convert(model, out, weights_only=True, seal=True)
print(done["tensors"], "tensors,", done["nbytes"], "bytes,", *done["warnings"])
print(lodstone.verify(out)["sealed"])

# %% Is it the same? Tensor by tensor.

difference = lodstone.diff(here / "digits/paddle", out)
print("the same" if difference["same"] else difference["tensors"])

# %% And the one that MXNet trained? Other names, other weights.

difference = lodstone.diff(here / "digits/paddle", here / "digits/mxnet")
print(difference["equal"], "equal,", len(difference["tensors"]), "different")
