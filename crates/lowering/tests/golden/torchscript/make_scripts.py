"""Traces and scripts functions with PyTorch, with inputs and what they return, to the current directory.

    pip install torch==2.15 torchvision numpy
    python make_scripts.py

NAME.pt, and NAME-io.npz with inputs (in:NAME) and outputs (out:INDEX). Each function calls many operators: aliases, views
that are copied, internal functions and operators of scripts, which an exported program does not have.
"""

import math
import sys
import warnings
import zipfile
from typing import List

import numpy as np
import torch
import torch.nn.functional as F
import torchvision

warnings.filterwarnings("ignore")
torch.manual_seed(0)
aten = torch.ops.aten
R, failed = torch.randn, []


def P(*shape):
    return torch.rand(*shape) * 0.8 + 0.1


def I(high, *shape):
    return torch.randint(0, high, shape)


def save(name, module, inputs):
    outputs = module(**inputs)
    outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    arrays = {f"in:{key}": value.detach().numpy() for key, value in inputs.items()}
    for index, output in enumerate(outputs):
        output = output if isinstance(output, torch.Tensor) else torch.tensor(output)
        arrays[f"out:{index}"] = output.detach().numpy()
    torch.jit.save(module, f"{name}.pt")
    np.savez(f"{name}-io.npz", **arrays)


def rewrite(name, version=None):
    """Writes an archive again: without the places in files of the machine, and as one of an older version."""
    with zipfile.ZipFile(f"{name}.pt") as archive:
        members = [(info, archive.read(info)) for info in archive.infolist() if not info.filename.endswith(".debug_pkl")]
    with zipfile.ZipFile(f"{name}.pt", "w") as archive:
        for info, data in members:
            if version and info.filename.endswith("/version"):
                data = f"{version}\n".encode()
            archive.writestr(zipfile.ZipInfo(info.filename), data)


def trace(name, calls, **inputs):
    """Traces calls in one function. A call that fails is left out and named."""
    good = []
    for number, call in enumerate(calls):
        try:
            call(*inputs.values())
            good.append(call)
        except Exception as error:
            failed.append(f"{name} {number}: {str(error).splitlines()[0]}")

    def function(*values):
        results = []
        for call in good:
            result = call(*values)
            results.extend(result if isinstance(result, (tuple, list)) else [result])
        return tuple(results)

    names = ", ".join(inputs)
    scope = {"function": function, "__name__": __name__}
    exec(f"def named({names}):\n    return function({names})", scope)
    save(name, torch.jit.trace(scope["named"], tuple(inputs.values())), inputs)


def script(name, function, **inputs):
    save(name, torch.jit.script(function), inputs)


trace("unary", [
    aten.absolute, aten.arccos, lambda x: aten.arccosh(x + 1), aten.arcsin, aten.arcsinh, aten.arctan, aten.arctanh,
    lambda x: aten.fix(x * 5 - 2), lambda x: aten.isneginf(-1 / (x - x)), aten.negative, aten.special_erf,
    aten.special_expit,
], x=P(3, 4))
trace("binary", [
    aten.arctan2, aten.divide, aten.greater, aten.greater_equal, aten.isclose, aten.less, aten.less_equal, aten.multiply,
    aten.not_equal, aten.special_xlogy, aten.subtract, aten.true_divide, lambda x, y: aten.divide(x, y, rounding_mode="floor"),
], x=P(3, 4), y=P(4))
trace("integers", [
    lambda x, y: aten.__iand__(x.clone(), y), lambda x, y: aten.__ior__(x.clone(), y),
    lambda x, y: aten.__ixor__(x.clone(), y), aten.bitwise_left_shift, aten.bitwise_right_shift,
], x=I(9, 3, 4), y=I(4, 4))
trace("activations", [
    lambda x, w: aten._prelu_kernel(x, w.view(1, 4, 1)), lambda x, w: aten._safe_softmax(x, 1),
    lambda x, w: aten.feature_alpha_dropout(x, 0.5, False), lambda x, w: aten.log_sigmoid_forward(x)[0],
    lambda x, w: aten.native_dropout(x, 0.5, False)[0],
    lambda x, w: aten.special_log_softmax(x, 1), lambda x, w: aten.special_softmax(x, -1),
    lambda x, w: aten.rrelu_with_noise(x, torch.zeros_like(x), 0.1, 0.3, False),
], x=R(2, 4, 3), w=P(4))
trace("attention", [
    lambda q, k, v: aten._scaled_dot_product_attention_math(q, k, v)[0],
    lambda q, k, v: aten._scaled_dot_product_attention_math(q, k, v, is_causal=True)[0],
    lambda q, k, v: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0],
    lambda q, k, v: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)[0],
], q=R(2, 2, 5, 4), k=R(2, 2, 5, 4), v=R(2, 2, 5, 4))
E4 = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
T4 = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()


class Fast(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.t = E4, T4

    def forward(self, x):
        a, t = self.a, self.t
        attended = aten._native_multi_head_attention(
            x, x, x, 8, 2, a.in_proj_weight, a.in_proj_bias, a.out_proj.weight, a.out_proj.bias, None, False
        )[0]
        s = t.self_attn
        encoded = aten._transformer_encoder_layer_fwd(
            x, 8, 2, s.in_proj_weight, s.in_proj_bias, s.out_proj.weight, s.out_proj.bias, False, False, 1e-5,
            t.norm1.weight, t.norm1.bias, t.norm2.weight, t.norm2.bias, t.linear1.weight, t.linear1.bias,
            t.linear2.weight, t.linear2.bias, None, None,
        )
        return attended, encoded


with torch.no_grad():
    x = R(2, 5, 8)
    save("encoder", torch.jit.trace(Fast().eval(), (x,)), {"x": x})
trace("composed", [
    lambda x, y, w, i: aten._embedding_bag_forward_only(w, i.view(-1), torch.tensor([0, 2, 5]), False, 0)[0],
    lambda x, y, w, i: aten.binary_cross_entropy_with_logits(x, torch.sigmoid(y)),
    lambda x, y, w, i: aten.cross(x, y), lambda x, y, w, i: aten.linalg_det(x),
    lambda x, y, w, i: aten.nll_loss(F.log_softmax(x, 1), i[0]),
], x=R(3, 3), y=R(3, 3), w=R(6, 4), i=I(3, 2, 3))
trace("convolutions", [
    lambda x, w, b: aten._convolution(x, w, b, [1, 2], [1, 0], [1, 1], False, [0, 0], 1, False, False, False, False),
    lambda x, w, b: aten._convolution_mode(x, w, b, [1, 1], "same", [1, 1], 1),
], x=R(1, 4, 5, 6), w=R(4, 4, 3, 2), b=R(4))
trace("copies", [
    aten.alias, aten.alias_copy, aten.conj, aten.conj_physical, aten.cpu, aten.detach_copy, aten.lift,
    aten.lift_fresh, aten.resolve_conj, aten.resolve_neg, lambda x: torch.ops.prims.convert_element_type(x, torch.int32),
    torch.ops.prims.view_of, lambda x: aten.diagonal_copy(x), lambda x: aten.unfold_copy(x, 1, 2, 1),
    lambda x: aten.as_strided_copy(x, [2, 2], [1, 4], 1),
    lambda x: aten.narrow_copy(x, 1, 1, 2), lambda x: aten.select_copy(x, 0, 1), lambda x: aten.slice_copy(x, 1, 1, 4, 2),
    lambda x: aten.split_copy(x, 2, 1), lambda x: aten.split_with_sizes_copy(x, [1, 3], 1),
    lambda x: aten.unbind_copy(x), lambda x: aten.unsafe_chunk(x, 2, 1), lambda x: aten.unsafe_split(x, 2, 1),
    lambda x: aten.unsafe_split_with_sizes(x, [3, 1], 1), lambda x: aten._reshape_alias(x, [4, 3], [3, 1]),
    lambda x: aten._unsafe_view(x, [2, 6]), lambda x: aten.adjoint(x), lambda x: aten.expand_copy(x, [2, 3, 4]),
    lambda x: aten.moveaxis(x, 0, 1), lambda x: aten.permute_copy(x, [1, 0]), aten.ravel,
    lambda x: aten.reshape_as(x, x.t().contiguous()), lambda x: aten.squeeze_copy(x.unsqueeze(0)),
    lambda x: aten.swapdims(x, 0, 1), aten.t_copy, lambda x: aten.transpose_copy(x, 0, 1),
    lambda x: aten.unsqueeze_copy(x, 1), lambda x: aten.view_as(x, x.t().contiguous()), lambda x: aten.view_copy(x, [12]),
    lambda x: aten.concat([x, x], 1), lambda x: aten.concatenate([x, x], 0), aten.flipud, aten.msort,
    lambda x: aten.clip(x, -0.5, 0.5), lambda x: aten.norm(x), lambda x: aten.norm(x, 1, [1], True),
    lambda x: aten.frobenius_norm(x, [0, 1]),
], x=R(3, 4))
trace("created", [
    lambda x: aten.bartlett_window(6) * x, lambda x: aten.blackman_window(6) * x, lambda x: aten.hamming_window(6) * x,
    lambda x: aten.hann_window(6) * x, lambda x: aten.hann_window(6, False) * x,
    lambda x: aten.empty_like(x).fill_(2) + x, lambda x: aten.new_empty(x, [6]).fill_(3) + x,
    lambda x: aten.empty_permuted([2, 6], [1, 0]).fill_(1) + x, lambda x: aten.empty_strided([2, 6], [6, 1]).fill_(1) + x,
    lambda x: aten.new_empty_strided(x, [2, 6], [6, 1]).fill_(4) + x,
], x=R(6))
trace("indices", [
    lambda x, i, v: aten._index_put_impl(x.clone(), [i], v), lambda x, i, v: aten._unsafe_index(x, [i]),
    lambda x, i, v: aten._unsafe_index_put(x, [i], v), lambda x, i, v: aten._unsafe_masked_index(x, x > -9, [i.view(2, 1).expand(2, 4)[:, :1].repeat(2, 4)[:4], None], 0),
    lambda x, i, v: aten.put(x, i, v[0, :2]),
], x=R(4, 4), i=torch.tensor([2, 0]), v=R(2, 4))
trace("products", [
    lambda a, b, c: aten.chain_matmul([a, b, c]), lambda a, b, c: aten.linalg_multi_dot([a, b, c]),
    lambda a, b, c: aten.ger(a[0], b[0]), lambda a, b, c: aten.linalg_matmul(a, b), lambda a, b, c: aten.linalg_vecdot(a, a + 1),
    lambda a, b, c: aten.vdot(a[0], a[1]),
], a=R(3, 4), b=R(4, 2), c=R(2, 5))
trace("normalized", [
    lambda x, w, b, m, v: aten._batch_norm_no_update(x, w, b, m, v, 0.1, 1e-5)[0],
    lambda x, w, b, m, v: aten._native_batch_norm_legit_functional(x, w, b, m, v, False, 0.1, 1e-5)[0],
    lambda x, w, b, m, v: aten.native_batch_norm(x, w, b, m, v, False, 0.1, 1e-5)[0],
], x=R(2, 3, 4), w=P(3), b=R(3), m=R(3), v=P(3))
trace("padded", [
    lambda x: aten.reflection_pad1d(x[0], [2, 1]), lambda x: aten.reflection_pad2d(x, [2, 1, 1, 0]),
    lambda x: aten.reflection_pad3d(x.unsqueeze(0), [1, 2, 0, 1, 1, 1]), lambda x: aten.replication_pad1d(x[0], [2, 3]),
    lambda x: aten.replication_pad2d(x, [2, 1, 0, 4]), lambda x: aten.replication_pad3d(x.unsqueeze(0), [1, 2, 0, 1, 3, 1]),
], x=R(3, 4, 5))
trace("pooled", [
    lambda x: aten.adaptive_max_pool3d(x, [2, 2, 1]), lambda x: aten.max_pool1d_with_indices(x[0, 0], [2], [1]),
    lambda x: aten._upsample_nearest_exact1d(x[0, 0], [7]), lambda x: aten._upsample_nearest_exact3d(x, [3, 7, 4]),
    lambda x: torchvision.ops.roi_pool(x[0], torch.tensor([[0.0, 0, 0, 3, 2], [1, 1, 1, 4, 3]]), (2, 2)),
], x=R(1, 2, 4, 4, 5))
trace("sampled", [
    lambda x, g: aten.grid_sampler_3d(x, g, 0, 0, False), lambda x, g: aten.grid_sampler_3d(x, g, 1, 1, True),
], x=R(1, 2, 3, 4, 5), g=P(1, 2, 2, 3, 3) * 2 - 1)
trace("unique", [
    lambda x: aten.unique_dim(x.view(3, 4), 0, True, True, True),
], x=torch.tensor([1, 1, 2, 2, 2, 1, 1, 3, 1, 1, 2, 2]))
trace("cells", [
    lambda x, h, w, u: aten.rnn_relu_cell(x, h, w, u),
], x=R(2, 3), h=R(2, 4), w=R(4, 3), u=R(4, 4))


def control(x: torch.Tensor, n: torch.Tensor):
    parts: List[torch.Tensor] = []
    for step in range(x.size(0)):
        row = x[step]
        if bool(row.sum() > 0):
            row = row * 2
        else:
            row = row - 1
        parts.append(row)
    count = int(n)
    total = float(n) * 0.5
    y = torch.stack(parts)
    while count > 0:
        y = y + 1
        count -= 1
    if bool(n > 2):
        y = y * total
    return y, torch.tensor(x.dim() + len(parts)), torch.tensor([x.size(1), x.numel()])


script("control", control, x=R(3, 4), n=torch.tensor(3))


def kinds(x: torch.Tensor):
    shape = x.shape
    rank = len(shape)
    y = torch.zeros([shape[0], rank], dtype=x.dtype)
    if x.is_floating_point():
        y = y + 1.5
    return y, x / 2, torch.full([2], 3.0, dtype=x.dtype)


script("kinds", kinds, x=R(2, 3))



def moved(x: torch.Tensor, n: torch.Tensor):
    k = int(n)
    torch.sym_constrain_range(k, min=0, max=5)
    torch.sym_constrain_range_for_size(k, min=0, max=5)
    return x.cpu() + k, x.narrow(0, 1, n), x.select(1, n)


def items(x: torch.Tensor, n: torch.Tensor):
    i = int(n)
    parts: List[torch.Tensor] = []
    for step in range(x.size(0)):
        parts.append(x[step] * 2)
    return parts[i], parts[-1], parts[i - 2], torch.ones(x.shape), x.t().reshape(x.size())


def strided(x: torch.Tensor):
    return x.as_strided([2, 2], [1, 4]), torch.as_strided(x, [3], [2], 5)


def numbers(x: torch.Tensor):
    n = x.size(0)
    half = n / 2
    a = torch.full([math.ceil(half), math.floor(half)], 1.0)
    b = torch.full([int(half), math.ceil(-half) + 3], 2.0)
    return a, b, x * math.floor(-half), x + int(-half), x - math.ceil(n)


def negated(x: torch.Tensor):
    n = x.size(0)
    return torch.full([-(-n)], 1.0), x * -(-(n + 1))


script("numbers", numbers, x=R(5, 2))
script("negated", negated, x=R(3, 2))
script("moved", moved, x=R(4, 3), n=torch.tensor(2))
script("items", items, x=R(3, 4), n=torch.tensor(1))
script("strided", strided, x=R(3, 4))
trace("sizes", [
    lambda x: x.view(x.size(1), -1) * x.numel(), lambda x: x.reshape(x.shape[0] * x.shape[1]), lambda x: x / x.size(0),
], x=R(2, 3))
trace("unique_consecutive", [
    lambda x, y: aten.unique_consecutive(x, True, True), lambda x, y: aten.unique_consecutive(x)[0],
    lambda x, y: aten.unique_consecutive(y, True, True), lambda x, y: aten.unique_consecutive(y, True, True, 0),
    lambda x, y: aten.unique_consecutive(y, False, True, 1),
], x=torch.tensor([1, 1, 2, 2, 2, 1, 1, 3]), y=torch.tensor([[1.0, 1, 2], [1, 1, 2], [3, 3, 3], [1, 1, 2]]))


# Archives of version 3, of PyTorch 1.5: it divided integers without a fraction, and `full` made floats.
def old_quotients(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor, k: torch.Tensor):
    return x / y, i / k, x / k, i / 2, i / 2.5, x / 2, i / -3


def old_full(x: torch.Tensor):
    return torch.full([2, 3], 2.5) + x, torch.full([3], 4.0, dtype=torch.int64), torch.full(x.shape, 1, dtype=x.dtype)


def old_in_place(x: torch.Tensor, i: torch.Tensor):
    a, b = x * 1, i * 1
    a.div_(i)
    b.div_(3)
    return a, b


def save_old(name, function, **inputs):
    torch.jit.save(torch.jit.script(function), f"{name}.pt")
    rewrite(name, version=3)
    # PyTorch replaces the operators by those that compute the same as its old releases.
    outputs = torch.jit.load(f"{name}.pt")(**inputs)
    arrays = {f"in:{key}": value.numpy() for key, value in inputs.items()}
    np.savez(f"{name}-io.npz", **arrays, **{f"out:{index}": value.numpy() for index, value in enumerate(outputs)})


save_old("old_quotients", old_quotients, x=R(2, 3), y=P(3), i=I(9, 2, 3) - 4, k=I(4, 3) + 1)
save_old("old_in_place", old_in_place, x=R(2, 3), i=I(9, 2, 3) + 1)
save_old("old_full", old_full, x=R(2, 3))
for name in ("numbers", "negated", "moved", "items", "strided", "sizes", "unique_consecutive"):
    rewrite(name)

print(f"{len(failed)} failed")
for line in failed:
    print("FAIL", line)
