"""Exports one-operator modules with PyTorch, with inputs and what they return, to the current directory.

    pip install torch==2.15 torchvision numpy
    python make_cases.py

NAME.pt2, and NAME-io.npz with inputs (in:NAME) and outputs (out:INDEX). Each module is exported as it is traced; some
names end with `.core`: the same in Core ATen (`run_decompositions`), or with `.dyn`: with a dynamic first dim, and inputs of
another size than the traced ones. The committed files are a selection.
"""

import copy
import math
import sys
import warnings

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from torch import nn

warnings.filterwarnings("ignore")
torch.manual_seed(0)
ONLY = sys.argv[1] if len(sys.argv) > 1 else ""
made, failed = 0, []


def R(*shape):
    return torch.randn(*shape)


def P(*shape):
    return torch.rand(*shape) + 0.2


def I(high, *shape):
    return torch.randint(0, high, shape)


def B(*shape):
    return torch.rand(*shape) > 0.5


class Wrapped(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *xs):
        return self.function(*xs)


def flat(outputs):
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    if isinstance(outputs, (list, tuple)):
        return [value for output in outputs for value in flat(output)]
    if outputs is None:
        return []
    return [torch.tensor(outputs)]


def write(name, program, inputs, expected):
    # Where an operator was called: paths of the machine.
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)
    torch.export.save(program, name + ".pt2")
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    arrays = {f"in:{n}": x.numpy() for n, x in zip(names, inputs)}
    arrays |= {f"out:{i}": x.detach().resolve_conj().numpy() for i, x in enumerate(flat(expected))}
    np.savez(name + "-io.npz", **arrays)


def case(name, function, *inputs, dyn=None, core=True):
    """`dyn` are inputs of another size of the first dim."""
    global made
    if ONLY and not name.startswith(ONLY):
        return
    module = function if isinstance(function, nn.Module) else Wrapped(function)
    module.eval()
    copies = lambda xs: tuple(x.clone() for x in xs)
    try:
        with torch.no_grad():
            # A module may change its state.
            expected = copy.deepcopy(module)(*copies(inputs))
            program = torch.export.export(module, copies(inputs))
        write(name, program, inputs, expected)
        made += 1
        if core:
            write(name + ".core", program.run_decompositions(), inputs, expected)
            made += 1
    except Exception as error:
        failed.append(f"{name}: {str(error)[:200]}")
    if dyn is None:
        return
    try:
        shapes = tuple({0: torch.export.Dim.AUTO} if x.dim() and x.shape != y.shape else None for x, y in zip(inputs, dyn))
        if isinstance(function, nn.Module):
            program = torch.export.export(module, copies(inputs), dynamic_shapes=shapes)
        else:
            program = torch.export.export(module, copies(inputs), dynamic_shapes=(shapes,))
        with torch.no_grad():
            write(name + ".dyn", program, dyn, copy.deepcopy(module)(*copies(dyn)))
            if core:
                write(name + ".dyn.core", program.run_decompositions(), dyn, copy.deepcopy(module)(*copies(dyn)))
        made += 1
    except Exception as error:
        failed.append(f"{name}.dyn: {str(error)[:200]}")


def unary():
    for op in ("abs acos asin atan ceil cos cosh erf erfc exp exp2 expm1 floor frac log log10 log1p log2 neg reciprocal round "
               "rsqrt sigmoid sign sin sinc sinh sqrt square tan tanh trunc deg2rad rad2deg isfinite isinf isnan logit "
               "nan_to_num signbit positive sgn asinh acosh atanh").split():
        x = torch.rand(3, 4) * 0.8 + 0.1
        if op == "acosh":
            x = x + 1
        if op in "ceil floor round trunc frac sign abs neg erf tanh expm1 exp sgn signbit".split():
            x = R(3, 4) * 3
        case(f"unary_{op}", getattr(torch, op), x)
    case("unary_nan", lambda x: (torch.isnan(x), torch.isinf(x), torch.isfinite(x), torch.nan_to_num(x), torch.isposinf(x)),
         torch.tensor([1.0, float("nan"), float("inf"), -float("inf")]))
    case("unary_round_decimals", lambda x: torch.round(x, decimals=2), R(8))
    case("unary_int", lambda x: (torch.sqrt(x), torch.neg(x), torch.floor(x), torch.square(x), torch.sin(x)), I(9, 3, 4))
    case("unary_bool", lambda x: (torch.logical_not(x), ~x), B(3, 4))
    case("unary_bitwise_not", lambda x: ~x, I(9, 3, 4))
    case("unary_dyn", lambda x: torch.exp(x) + 1, R(3, 4), dyn=(R(5, 4),))


def activations():
    for op in ("relu gelu silu mish hardswish hardsigmoid hardtanh relu6 leaky_relu elu selu celu softplus logsigmoid softsign "
               "hardshrink softshrink tanhshrink").split():
        case(f"act_{op}", getattr(F, op), R(3, 6) * 3)
    case("act_gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), R(3, 6))
    case("act_elu_alpha", lambda x: F.elu(x, 0.5), R(3, 6))
    case("act_celu_alpha", lambda x: F.celu(x, 0.5), R(3, 6))
    case("act_softplus_beta", lambda x: F.softplus(x, beta=2.0, threshold=3.0), R(3, 6) * 3)
    case("act_glu", lambda x: F.glu(x, 1), R(3, 6))
    case("act_threshold", lambda x: F.threshold(x, 0.3, -2.0), R(3, 6))
    case("act_prelu", nn.PReLU(4), R(2, 4, 3))
    case("act_prelu_one", nn.PReLU(), R(2, 4, 3))
    case("act_rrelu", nn.RReLU(), R(2, 4))
    case("act_dropout", nn.Sequential(nn.Dropout(0.5), nn.Dropout2d(0.3), nn.AlphaDropout(0.1)), R(2, 4, 5, 5))
    for dim in (0, 1, -1):
        case(f"act_softmax_{dim}", lambda x: F.softmax(x, dim), R(3, 4, 5))
        case(f"act_log_softmax_{dim}", lambda x: F.log_softmax(x, dim), R(3, 4, 5))
    case("act_softmax_dtype", lambda x: F.softmax(x, 0, dtype=torch.float64), R(3, 4))
    case("act_softmin", lambda x: F.softmin(x, 0), R(3, 4))
    case("act_inplace", lambda x: F.relu_(x + 1) + F.silu(x, inplace=False), R(3, 4))
    case("act_normalize", lambda x: F.normalize(x, dim=1), R(3, 4), dyn=(R(5, 4),))


def binary():
    for op in "add sub mul div maximum minimum atan2 fmod remainder floor_divide pow fmax fmin hypot copysign logaddexp xlogy".split():
        case(f"bin_{op}", getattr(torch, op), P(3, 4) * 3, P(4))
    for op in "add sub mul div fmod remainder floor_divide".split():
        case(f"bin_{op}_int", getattr(torch, op), I(9, 3, 4) - 4, I(4, 4) + 1)
        case(f"bin_{op}_scalar", lambda x: getattr(torch, op)(x, 2.5), R(3, 4))
        case(f"bin_{op}_int_scalar", lambda x: getattr(torch, op)(x, 2), I(9, 3, 4) - 4)
        case(f"bin_{op}_neg", getattr(torch, op), R(3, 4) * 5, R(3, 4) * 2)
    for mode in (None, "floor", "trunc"):
        case(f"bin_div_{mode}", lambda x, y: torch.div(x, y, rounding_mode=mode), R(3, 4) * 5, P(4))
        case(f"bin_div_int_{mode}", lambda x, y: torch.div(x, y, rounding_mode=mode), I(9, 3, 4) - 4, I(4, 4) + 1)
    case("bin_add_alpha", lambda x, y: torch.add(x, y, alpha=2.5), R(3, 4), R(4))
    case("bin_sub_alpha", lambda x, y: torch.sub(x, y, alpha=2), I(9, 3), I(9, 3))
    case("bin_rsub", lambda x: torch.rsub(x, 2, alpha=3), R(3))
    case("bin_rsub_op", lambda x: 1 - x, R(3))
    case("bin_pow_scalar", lambda x: (x ** 2, x ** 3, x ** 0.5, x ** -1, 2 ** x), P(3, 4))
    case("bin_pow_int", lambda x: (x ** 2, x ** 3), I(5, 3, 4))
    case("bin_float_power", lambda x: torch.float_power(x, 2), P(3))
    for op in "eq ne lt le gt ge".split():
        case(f"cmp_{op}", getattr(torch, op), I(3, 3, 4), I(3, 4))
        case(f"cmp_{op}_scalar", lambda x: getattr(torch, op)(x, 0.5), R(3, 4))
    for op in "logical_and logical_or logical_xor".split():
        case(f"logic_{op}", getattr(torch, op), B(3, 4), B(4))
        case(f"logic_{op}_int", getattr(torch, op), I(3, 3, 4), R(4))
    case("logic_ops", lambda x, y: (x & y, x | y, x ^ y), B(3, 4), B(4))
    case("bits_ops", lambda x, y: (x & y, x | y, x ^ y, x << 2, x >> 1), I(99, 3, 4), I(99, 4))
    case("promote_int_float", lambda x, y: (x + y, x * 2.5, x / 2, x + 1, y + x), I(9, 3), R(3))
    case("promote_zero_dim", lambda x, y: (x + y, y + x, x * y), R(3), torch.tensor(2.5, dtype=torch.float64))
    case("promote_bool", lambda x, y: (x + y, x * y, y * 2, x + True), I(9, 3), B(3))
    case("promote_small", lambda x, y: (x + y, x * 3, x / y), I(9, 3).to(torch.int8), I(9, 3).to(torch.uint8) + 1)
    case("promote_half", lambda x, y: x + y, R(3).half(), R(3))
    case("where", lambda c, x, y: torch.where(c, x, y), B(3, 4), R(3, 4), R(4))
    case("where_scalar", lambda c, x: (torch.where(c, x, 0.0), torch.where(c, 1, 2)), B(3, 4), R(3, 4))
    case("where_places", lambda c: torch.where(c), B(3, 4), core=False)
    case("masked_fill", lambda x, m: x.masked_fill(m, -1e9), R(3, 4), B(3, 4))
    case("masked_fill_tensor", lambda x, m, v: x.masked_fill(m, v), R(3, 4), B(4), torch.tensor(7.0))
    case("clamp", lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=0.3)), R(3, 4))
    case("clamp_tensor", lambda x, y: torch.clamp(x, min=y), R(3, 4), R(4))
    case("clamp_int", lambda x: x.clamp(2, 5), I(9, 3, 4))
    case("clamp_min_max", lambda x: (torch.clamp_min(x, 0.1), torch.clamp_max(x, 0.1)), R(3, 4))
    case("lerp", lambda x, y: (torch.lerp(x, y, 0.3), torch.lerp(x, y, 0.7)), R(3, 4), R(3, 4))
    case("addcmul", lambda x, y, z: (torch.addcmul(x, y, z, value=0.5), torch.addcdiv(x, y, z, value=2)), R(3, 4), R(4), P(3, 4))
    case("max_other", lambda x, y: (torch.max(x, y), torch.min(x, y)), R(3, 4), R(4))
    case("heaviside", torch.heaviside, torch.tensor([-1.0, 0, 2]), torch.tensor([0.5, 0.5, 0.5]))
    case("bin_dyn", lambda x, y: x * y + x.shape[0], R(3, 4), R(3, 4), dyn=(R(5, 4), R(5, 4)))


def conv():
    case("conv1d", nn.Conv1d(3, 4, 3, padding=1), R(2, 3, 8), dyn=(R(5, 3, 8),))
    case("conv2d", nn.Conv2d(3, 4, 3), R(2, 3, 8, 8), dyn=(R(4, 3, 8, 8),))
    case("conv2d_all", nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 2), (1, 2), groups=2, bias=False), R(2, 4, 9, 8))
    case("conv2d_same", nn.Conv2d(3, 4, 4, padding="same", dilation=2), R(2, 3, 9, 8))
    case("conv2d_valid", nn.Conv2d(3, 4, 3, padding="valid"), R(2, 3, 9, 8))
    case("conv2d_single", nn.Conv2d(3, 4, 3), R(3, 8, 8))
    case("conv2d_reflect", nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), R(2, 3, 8, 8))
    case("conv2d_circular", nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), R(2, 3, 8, 8))
    case("conv3d", nn.Conv3d(2, 3, 2, stride=2), R(1, 2, 5, 6, 7))
    case("convt1d", nn.ConvTranspose1d(3, 4, 3, 2, 1, output_padding=1), R(2, 3, 5))
    case("convt2d", nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2, dilation=2), R(2, 4, 5, 5))
    case("convt3d", nn.ConvTranspose3d(2, 3, 2), R(1, 2, 3, 4, 3))
    case("weight_norm", nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), R(2, 3))


def norm():
    bn = nn.BatchNorm2d(3)
    bn.running_mean.normal_(); bn.running_var.uniform_(0.5, 2); nn.init.normal_(bn.weight)
    case("batch_norm", bn, R(2, 3, 4, 4), dyn=(R(5, 3, 4, 4),))
    case("batch_norm_plain", nn.BatchNorm1d(3, affine=False), R(4, 3))
    case("batch_norm_stats", nn.BatchNorm2d(3, track_running_stats=False), R(2, 3, 4, 4))
    case("layer_norm", nn.LayerNorm(4), R(2, 3, 4), dyn=(R(5, 3, 4),))
    case("layer_norm_two", nn.LayerNorm([3, 4], elementwise_affine=False), R(2, 3, 4))
    case("layer_norm_nobias", nn.LayerNorm(4, bias=False), R(2, 3, 4))
    case("group_norm", nn.GroupNorm(2, 4), R(2, 4, 3, 3), dyn=(R(3, 4, 3, 3),))
    case("instance_norm", nn.InstanceNorm2d(3, affine=True), R(2, 3, 4, 4))
    case("rms_norm", nn.RMSNorm(4), R(2, 3, 4))
    case("local_response", nn.LocalResponseNorm(3), R(2, 5, 4, 4))


def pool():
    for n, make in ((1, nn.MaxPool1d), (2, nn.MaxPool2d), (3, nn.MaxPool3d)):
        case(f"max_pool{n}d", make(3, 2, 1), R(2, 3, *[9] * n))
        case(f"max_pool{n}d_ceil", make(2, 2, ceil_mode=True), R(2, 3, *[7] * n))
    case("max_pool2d_dilated", nn.MaxPool2d(2, 1, dilation=2), R(2, 3, 7, 7))
    case("max_pool2d_indices", nn.MaxPool2d(2, return_indices=True), R(2, 3, 6, 6))
    case("max_pool2d_single", nn.MaxPool2d(2), R(3, 6, 6))
    for n, make in ((1, nn.AvgPool1d), (2, nn.AvgPool2d), (3, nn.AvgPool3d)):
        case(f"avg_pool{n}d", make(3, 2, 1), R(2, 3, *[9] * n))
        case(f"avg_pool{n}d_exclude", make(3, 2, 1, count_include_pad=False), R(2, 3, *[9] * n))
        case(f"avg_pool{n}d_ceil", make(3, 2, 1, ceil_mode=True), R(2, 3, *[8] * n))
    case("avg_pool2d_divisor", nn.AvgPool2d(2, divisor_override=3), R(2, 3, 6, 6))
    case("avg_pool2d_divisor_pad", nn.AvgPool2d(3, 2, 1, divisor_override=5), R(2, 3, 7, 7))
    for n, make in ((1, nn.AdaptiveAvgPool1d), (2, nn.AdaptiveAvgPool2d), (3, nn.AdaptiveAvgPool3d)):
        for size in (1, 2, 3, 4):
            case(f"adaptive_avg_pool{n}d_{size}", make(size), R(2, 3, *[7] * n))
        case(f"adaptive_avg_pool{n}d_even", make(3), R(2, 3, *[6] * n))
    case("adaptive_avg_pool2d_none", nn.AdaptiveAvgPool2d((None, 2)), R(2, 3, 5, 6))
    case("adaptive_avg_pool2d_up", nn.AdaptiveAvgPool2d(7), R(2, 3, 4, 4))
    case("adaptive_max_pool1d", nn.AdaptiveMaxPool1d(3), R(2, 3, 7))
    case("adaptive_max_pool2d", nn.AdaptiveMaxPool2d(3, return_indices=True), R(2, 3, 7, 8))
    case("lp_pool2d", nn.LPPool2d(2, 2), P(2, 3, 6, 6))


def resize():
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        for args in ({"size": (7, 9)}, {"scale_factor": 2}, {"scale_factor": 1.7}, {"scale_factor": (0.6, 1.5)}):
            tag = "_".join(str(v).strip("()").replace(", ", "_") for v in args.values())
            case(f"resize_{mode}_{tag}", lambda x: F.interpolate(x, mode=mode, **args), R(2, 3, 5, 6))
        case(f"resize_{mode}_recompute", lambda x: F.interpolate(x, mode=mode, scale_factor=1.7, recompute_scale_factor=True), R(2, 3, 5, 6))
    for mode in ("bilinear", "bicubic"):
        case(f"resize_{mode}_align", lambda x: F.interpolate(x, size=(7, 9), mode=mode, align_corners=True), R(2, 3, 5, 6))
        case(f"resize_{mode}_aa", lambda x: F.interpolate(x, size=(3, 4), mode=mode, antialias=True), R(2, 3, 9, 8))
    # A dim that keeps its size, and a product of 28.999... that is 29 in single precision.
    for mode in ("nearest", "bilinear", "bicubic"):
        case(f"resize_kept_{mode}", lambda x: F.interpolate(x, mode=mode, scale_factor=(1.1, 1.16)), R(1, 1, 5, 25), core=False)
    case("resize_linear", lambda x: F.interpolate(x, size=7, mode="linear"), R(2, 3, 5))
    case("resize_nearest1d", lambda x: F.interpolate(x, size=7), R(2, 3, 5))
    case("resize_trilinear", lambda x: F.interpolate(x, size=(4, 5, 6), mode="trilinear"), R(1, 2, 3, 4, 3))
    case("resize_nearest3d", lambda x: F.interpolate(x, scale_factor=2), R(1, 2, 3, 4, 3))
    case("resize_dyn", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), R(2, 3, 5, 6), dyn=(R(4, 3, 5, 6),))
    case("pixel_shuffle", nn.PixelShuffle(2), R(2, 8, 3, 4))
    case("pixel_unshuffle", nn.PixelUnshuffle(2), R(2, 3, 4, 6))
    case("channel_shuffle", nn.ChannelShuffle(2), R(2, 4, 3, 3))
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            case(f"grid_sample_{mode}_{padding}", lambda x, g: F.grid_sample(x, g, mode, padding, False), R(2, 3, 5, 5), torch.rand(2, 4, 4, 2) * 2.4 - 1.2, core=False)
    case("grid_sample_align", lambda x, g: F.grid_sample(x, g, align_corners=True), R(2, 3, 5, 5), torch.rand(2, 4, 4, 2) * 2 - 1)
    case("affine_grid", lambda t: F.affine_grid(t, (2, 3, 4, 5), align_corners=False), R(2, 2, 3))
    case("unfold", nn.Unfold((2, 3), dilation=1, padding=1, stride=2), R(2, 3, 6, 7))
    case("fold", nn.Fold((4, 5), (2, 2)), R(2, 12, 12))
    for pads in ((1, 2), (1, 2, 3, 0), (-1, 1), (0, 0, 1, 1, 2, 0)):
        case(f"pad_{'_'.join(map(str, pads))}", lambda x: F.pad(x, pads, value=1.5), R(2, 3, 4, 5))
    case("pad_reflect", lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), R(2, 3, 4, 5))
    case("pad_replicate", lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"), R(2, 3, 4, 5))
    case("pad_circular", lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"), R(2, 3, 4, 5))


def linear():
    case("linear", nn.Linear(4, 3), R(2, 4), dyn=(R(5, 4),))
    case("linear_nd", nn.Linear(4, 3, bias=False), R(2, 5, 4), dyn=(R(6, 5, 4),))
    for tag, a, b in (("2d", R(2, 3), R(3, 4)), ("1d", R(3), R(3)), ("12", R(3), R(3, 4)), ("21", R(2, 3), R(3)), ("nd", R(2, 1, 3, 4), R(5, 4, 2)), ("31", R(2, 3, 4), R(4))):
        case(f"matmul_{tag}", torch.matmul, a, b)
    case("matmul_int", torch.matmul, I(5, 2, 3), I(5, 3, 4))
    case("mm_bmm", lambda a, b, c, d: (torch.mm(a, b), torch.bmm(c, d), torch.mv(a, b[:, 0]), torch.dot(a[0], a[1])), R(2, 3), R(3, 4), R(2, 3, 4), R(2, 4, 5))
    case("addmm", lambda x, a, b: (torch.addmm(x, a, b, beta=0.5, alpha=2), torch.addmm(x, a, b)), R(4), R(2, 3), R(3, 4))
    case("baddbmm", lambda x, a, b: torch.baddbmm(x, a, b, beta=0, alpha=2), R(2, 3, 5), R(2, 3, 4), R(2, 4, 5))
    case("addbmm", lambda x, a, b: torch.addbmm(x, a, b), R(3, 5), R(2, 3, 4), R(2, 4, 5))
    case("addmv", lambda x, a, b: torch.addmv(x, a, b, alpha=2), R(2), R(2, 3), R(3))
    case("outer", lambda a, b: (torch.outer(a, b), torch.inner(a, a), torch.addr(torch.outer(a, b), a, b)), R(3), R(4))
    for equation, *inputs in (("bij,bjk->bik", R(2, 3, 4), R(2, 4, 5)), ("ij,j", R(3, 4), R(4)), ("...ij->...ji", R(2, 3, 4)), ("bhid,bhjd->bhij", R(2, 2, 3, 4), R(2, 2, 5, 4)), ("ii->i", R(3, 3))):
        case(f"einsum_{equation.replace('->', '_').replace(',', '_').replace('.', '')}", lambda *xs: torch.einsum(equation, *xs), *inputs)
    case("tensordot", lambda a, b: torch.tensordot(a, b, dims=([1, 2], [0, 1])), R(2, 3, 4), R(3, 4, 5))
    case("bilinear", nn.Bilinear(3, 4, 2), R(5, 3), R(5, 4))
    case("cdist", lambda a, b: (torch.cdist(a, b), torch.cdist(a, b, p=1.0)), R(2, 3, 4), R(2, 5, 4))
    case("cosine", lambda a, b: F.cosine_similarity(a, b, dim=1), R(3, 4), R(3, 4))
    case("pairwise", lambda a, b: F.pairwise_distance(a, b), R(3, 4), R(3, 4))
    case("cross", lambda a, b: torch.linalg.cross(a, b), R(2, 3), R(2, 3))
    case("kron", torch.kron, R(2, 3), R(2, 2))
    case("embedding", nn.Embedding(10, 4, padding_idx=0), I(10, 2, 3), dyn=(I(10, 5, 3),))
    for mode in ("sum", "mean", "max"):
        case(f"embedding_bag_{mode}", nn.EmbeddingBag(10, 4, mode=mode), I(10, 6), torch.tensor([0, 2, 5]))


def attention():
    q, k, v = R(2, 3, 5, 4), R(2, 3, 6, 4), R(2, 3, 6, 4)
    case("sdpa", F.scaled_dot_product_attention, q, k, v, dyn=(R(4, 3, 5, 4), R(4, 3, 6, 4), R(4, 3, 6, 4)))
    case("sdpa_causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v)
    case("sdpa_mask", F.scaled_dot_product_attention, q, k, v, R(2, 1, 5, 6))
    case("sdpa_bool", F.scaled_dot_product_attention, q, k, v, B(5, 6))
    case("sdpa_scale", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3), q, k, v)
    case("sdpa_gqa", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), R(2, 4, 5, 4), R(2, 2, 6, 4), R(2, 2, 6, 4))
    mha = nn.MultiheadAttention(8, 2, batch_first=True)
    case("mha", lambda x: mha(x, x, x, need_weights=False)[0], R(2, 5, 8))
    case("mha_weights", mha, R(2, 5, 8), R(2, 5, 8), R(2, 5, 8))
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    case("encoder_layer", layer, R(2, 5, 8))
    case("encoder", nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, activation="gelu"), 2), R(2, 5, 8), dyn=(R(3, 5, 8),))


def recurrent():
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        name = kind.__name__.lower()
        case(name, kind(3, 4), R(5, 2, 3))
        case(f"{name}_deep", kind(3, 4, num_layers=2, bidirectional=True, batch_first=True, dropout=0.2), R(2, 5, 3), dyn=(R(3, 5, 3),))
        case(f"{name}_nobias", kind(3, 4, bias=False), R(5, 2, 3))
    case("rnn_relu", nn.RNN(3, 4, nonlinearity="relu"), R(5, 2, 3))
    lstm = nn.LSTM(3, 4)
    case("lstm_state", lambda x, h, c: lstm(x, (h, c)), R(5, 2, 3), R(1, 2, 4), R(1, 2, 4))
    case("lstm_cell", nn.LSTMCell(3, 4), R(2, 3))
    case("gru_cell", nn.GRUCell(3, 4), R(2, 3))
    case("rnn_cell", nn.RNNCell(3, 4), R(2, 3))


def shape():
    x = R(2, 3, 4)
    case("view", lambda x: (x.view(6, 4), x.view(2, -1), x.reshape(-1), x.reshape(4, 3, 2)), x)
    case("view_dyn", lambda x: (x.view(x.shape[0], -1), x.reshape(x.shape[0] * 3, 4)), x, dyn=(R(5, 3, 4),))
    case("flatten", lambda x: (x.flatten(), x.flatten(1), x.flatten(0, 1)), x, dyn=(R(5, 3, 4),))
    case("unflatten", lambda x: x.unflatten(2, (2, 2)), x)
    case("transpose", lambda x: (x.transpose(1, 2), x.permute(2, 0, 1), x.swapaxes(0, 1), x.movedim(0, 2), x.mT), x)
    case("t", lambda x: (x.t(), x.T), R(3, 4))
    case("unsqueeze", lambda x: (x.unsqueeze(0), x.unsqueeze(-1), x[:, None]), x)
    case("squeeze", lambda x: (x.squeeze(), x.squeeze(1), x.squeeze(0), x.squeeze((1, 3))), R(2, 1, 3, 1))
    case("expand", lambda x: (x.expand(3, 4), x.expand(2, -1, 4), x.expand_as(torch.zeros(3, 4)), x.broadcast_to(3, 4)), R(3, 1))
    case("expand_dyn", lambda x, y: x.expand(y.shape[0], 4), R(1, 4), R(3, 2), dyn=(R(1, 4), R(6, 2)))
    case("broadcast_tensors", lambda x, y: torch.broadcast_tensors(x, y), R(3, 1), R(4))
    case("repeat", lambda x: (x.repeat(2, 1, 3), x.repeat(2, 1, 1, 1), x.tile(2, 2), x.tile(2, 1, 1, 1)), x)
    case("repeat_interleave", lambda x: (x.repeat_interleave(2, 1), x.repeat_interleave(3)), x)
    case("repeat_interleave_tensor", lambda x, r: x.repeat_interleave(r, 0, output_size=6), R(3, 2), torch.tensor([1, 2, 3]), core=False)
    case("slice", lambda x: (x[1:], x[:, :2], x[..., 1:3], x[:, ::2], x[-1:], x[:, -2:], x[0], x[:, 1], x[..., -1]), x)
    case("narrow", lambda x: (x.narrow(1, 1, 2), x.narrow(2, -2, 1)), x)
    case("split", lambda x: (*x.split(2, 2), *x.split([1, 3], 2), *x.chunk(2, 1), *x.unbind(1), *x.tensor_split(3, 2)), x)
    case("split_dyn", lambda x: (*x.split(2, 2), *x.chunk(2, 1)), x, dyn=(R(5, 3, 4),))
    case("cat", lambda x, y: (torch.cat([x, y]), torch.cat([x, y], -1), torch.stack([x, y], 1), torch.hstack([x, y]), torch.vstack([x, y])), R(2, 3), R(2, 3), dyn=(R(5, 3), R(5, 3)))
    case("cat_promote", lambda x, y: torch.cat([x, y]), R(2, 3), I(5, 2, 3))
    case("roll", lambda x: (x.roll(1, 1), x.roll((1, -1), (0, 2)), x.roll(2)), x)
    case("flip", lambda x: (x.flip(1), x.flip([0, 2]), x.rot90(1, (0, 1)), x.rot90(3, (1, 2)), torch.fliplr(x)), x)
    case("tril", lambda x: (x.tril(), x.triu(1), x.tril(-1)), R(2, 3, 4))
    case("tril_bool", lambda x: x.tril(), B(3, 4))
    case("diagonal", lambda x: (x.diagonal(0, 1, 2), x.diagonal(1, 0, 1), torch.diag_embed(x[0]), torch.diag(x[0, 0])), R(2, 3, 4))
    case("trace", torch.trace, R(3, 4))
    case("unfold_tensor", lambda x: (x.unfold(1, 3, 2), x.unfold(0, 2, 1)), R(4, 7))
    case("meshgrid", lambda x, y: (*torch.meshgrid(x, y, indexing="ij"), *torch.meshgrid(x, y, indexing="xy")), R(3), R(4))
    case("size_math", lambda x: x.reshape(x.shape[0] // 2, 2, 3) * (x.shape[0] + 1) / x.numel(), R(4, 3), dyn=(R(6, 3),))
    case("contiguous", lambda x: x.transpose(0, 1).contiguous().view(-1), R(3, 4))
    case("output_size", lambda x: (x + 1, x.shape[0]), R(3, 4), dyn=(R(5, 4),))


def index():
    x = R(4, 5, 6)
    i, j = torch.tensor([0, 2, -1]), torch.tensor([1, 3, 2])
    case("index_one", lambda x, i: (x[i], x[:, i], x[..., i]), x, i)
    case("index_two", lambda x, i, j: (x[i, j], x[:, i, j], x[i, :, j], x[i[:, None], j]), x, i, j)
    case("index_mask", lambda x, m: x[m], R(4, 5), B(4, 5), core=False)
    case("index_mask_row", lambda x, m: x[m], R(4, 5), B(4), core=False)
    case("index_2d", lambda x, i: x[i.view(3, 1)], x, i)
    case("index_select", lambda x, i: x.index_select(1, i), x, torch.tensor([0, 2]))
    case("gather", lambda x, i: x.gather(1, i), R(3, 4), I(4, 3, 2))
    case("take_along", lambda x, i: torch.take_along_dim(x, i, 1), R(3, 4), I(4, 1, 2))
    case("take", torch.take, R(3, 4), I(12, 2, 3))
    case("scatter", lambda x, i, s: (x.scatter(1, i, s), x.scatter(1, i, 2.5), x.scatter_add(1, i, s)), R(3, 4), torch.tensor([[0, 1], [2, 3], [1, 0]]), R(3, 2))
    case("scatter_large_src", lambda x, i, s: x.scatter(0, i, s), R(3, 4), torch.tensor([[0, 1], [2, 0]]), R(3, 4))
    for kind in ("sum", "prod", "amax", "amin"):
        case(f"scatter_reduce_{kind}", lambda x, i, s: (x.scatter_reduce(0, i, s, kind), x.scatter_reduce(0, i, s, kind, include_self=False)), R(4), torch.tensor([0, 1, 1, 3, 0]), R(5))
    case("index_put", lambda x, i, v: x.index_put((i,), v), R(4, 5), torch.tensor([0, 2]), R(2, 5))
    case("index_put_acc", lambda x, i, j, v: x.index_put((i, j), v, accumulate=True), R(4, 5), torch.tensor([0, 2, 0]), torch.tensor([1, 3, 1]), R(3))
    case("index_put_mask", lambda x, m: x.index_put((m,), torch.tensor(0.5)), R(4, 5), B(4, 5))
    case("index_put_middle", lambda x, i, v: torch.ops.aten.index_put(x, [None, i], v), R(4, 5, 2), torch.tensor([0, 2]), R(4, 2, 2))
    case("index_add", lambda x, i, s: (x.index_add(0, i, s), x.index_add(0, i, s, alpha=2), x.index_copy(0, i, s), x.index_fill(0, i, 3.0)), R(4, 3), torch.tensor([0, 2]), R(2, 3))
    case("masked_scatter", lambda x, m, s: x.masked_scatter(m, s), R(3, 4), B(3, 4), R(12))
    case("masked_select", lambda x, m: x.masked_select(m), R(3, 4), B(3, 4), core=False)
    case("nonzero", lambda x: x.nonzero(), I(2, 3, 4), core=False)
    case("select_scatter", lambda x, s: (x.select_scatter(s, 1, 2), torch.slice_scatter(x, s[:, None], 1, 1, 2)), R(3, 4), R(3))
    case("one_hot", lambda x: F.one_hot(x, 6), I(6, 2, 3))


def inplace():
    def views(x):
        y = x.clone()
        y[0] = 1.0
        y[:, 1:3] += 2
        y[1, 2].mul_(3)
        y.view(-1)[0:2].fill_(7)
        y.t()[3].zero_()
        return y, y[0] * 2
    case("inplace_views", views, R(3, 4))
    def more(x, m):
        y = x * 2
        z = y[1]
        y.add_(1)
        w = z + 0
        z.masked_fill_(m, -5.0)
        y.diagonal().fill_(9.0)
        y[:, [0, 2]] = 4.0
        return y, z, w
    case("inplace_more", more, R(4, 4), B(4))
    def chunks(x):
        y = x + 0
        a, b = y.chunk(2, 1)
        a.copy_(b)
        b.sub_(1)
        y[..., ::2] *= 2
        return y, a, b
    case("inplace_chunks", chunks, R(3, 4))
    def put(x, i, v):
        y = x.clone()
        y.index_put_((i,), v, accumulate=True)
        y[i] = v
        y.scatter_(0, i[:, None], 2.0)
        y.clamp_(-1, 3).sigmoid_()
        return y
    case("inplace_put", put, R(4, 3), torch.tensor([1, 3]), R(2, 3))
    def cache(c, x):
        c = c.clone()
        c[:, 2:4] = x
        return c
    case("inplace_cache", cache, R(2, 6, 3), R(2, 2, 3))
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))
            self.register_buffer("x", torch.ones(3))
        def forward(self, x):
            self.count.add_(1)
            self.x.mul_(2)
            return x + self.count + self.x
    case("state", Counter(), R(2, 3))


def reduce():
    x = R(2, 3, 4)
    for op in "sum mean prod amax amin std var logsumexp".split():
        f = getattr(torch, op)
        case(f"red_{op}_dim", lambda x: (f(x, 1), f(x, -1, keepdim=True), f(x, (0, 2))) if op != "prod" else (f(x, 1), f(x, -1, keepdim=True)), x, dyn=(R(5, 3, 4),))
    case("red_all", lambda x: (x.sum(), x.mean(), x.prod(), x.max(), x.min(), x.std(), x.var(), x.norm(), x.argmax(), x.argmin(), x.median()), x)
    case("red_int", lambda x: (x.sum(), x.sum(1), x.prod(0), x.max(), x.cumsum(1), x.amax(0)), I(9, 3, 4))
    case("red_bool", lambda x: (x.sum(), x.all(), x.any(), x.all(1), x.any(0, keepdim=True)), B(3, 4))
    case("red_dtype", lambda x: (x.sum(dtype=torch.float64), x.mean(1, dtype=torch.float64)), x)
    case("red_correction", lambda x: (x.var(1, correction=0), x.std(1, unbiased=False), torch.var_mean(x, 1), torch.std_mean(x, (0, 1), keepdim=True)), x)
    case("red_max_dim", lambda x: (*x.max(1), *x.min(-1, keepdim=True), x.argmax(1), x.argmin(0, keepdim=True), *torch.aminmax(x, dim=1)), x)
    case("red_cum", lambda x: (x.cumsum(0), x.cumsum(-1), x.cumprod(1), *x.cummax(1), *x.cummin(0)), x)
    case("red_norm", lambda x: (x.norm(dim=1), x.norm(p=1, dim=1), torch.linalg.vector_norm(x, 3, dim=(0, 1)), torch.linalg.vector_norm(x, float("inf")), torch.linalg.norm(x, dim=1)), x)
    case("red_count", lambda x: (torch.count_nonzero(x), torch.count_nonzero(x, 1)), I(2, 3, 4))
    case("sort", lambda x: (*x.sort(1), *x.sort(0, descending=True), x.argsort(-1), *torch.sort(x, stable=True)), x)
    case("topk", lambda x: (*x.topk(2), *x.topk(2, 1, largest=False), *x.kthvalue(2, 1), *x.median(1)), x)
    case("unique", lambda x: torch.unique(x, return_inverse=True, return_counts=True), I(4, 9), core=False)
    case("searchsorted", lambda s, v: (torch.searchsorted(s, v), torch.searchsorted(s, v, right=True), torch.bucketize(v, s)), torch.tensor([1.0, 3, 5, 7]), R(2, 3) * 4)
    case("losses", lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"), F.smooth_l1_loss(x, y), F.binary_cross_entropy(x.sigmoid(), y.sigmoid())), R(3, 4), R(3, 4))
    case("cross_entropy", lambda x, y: (F.cross_entropy(x, y), F.nll_loss(F.log_softmax(x, 1), y, reduction="none")), R(3, 4), I(4, 3))


def create():
    case("arange", lambda x: (x + torch.arange(4), x * torch.arange(0, 2, 0.5), torch.arange(3, 9, 2), torch.arange(5, 0, -1)), R(4))
    case("arange_dyn", lambda x: torch.arange(x.shape[0]) + torch.arange(0, x.shape[0] * 2, 2), R(4), dyn=(R(7),))
    case("full", lambda x: (torch.zeros(2, 3), torch.ones(2, dtype=torch.int64), torch.full((2,), 3), torch.full((2,), 1.5), x.new_zeros(3), x.new_ones(2), x.new_full((2,), 7), torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 2.5)), R(2))
    case("full_dyn", lambda x: (torch.zeros(x.shape[0], 3) + 1, torch.zeros_like(x), x.new_ones(x.shape[0])), R(4), dyn=(R(6),))
    case("linspace", lambda x: (torch.linspace(0, 1, 7), torch.linspace(-3, 3, 5) + x), R(5))
    case("eye", lambda x: (torch.eye(3) + x, torch.eye(2, 3)), R(3))
    case("tensor", lambda x: x + torch.tensor([1.0, 2.0, 3.0]) + torch.scalar_tensor(2.0), R(3))
    case("tril_indices", lambda x: (torch.tril_indices(3, 4), torch.triu_indices(3, 4, 1)), R(1))
    case("to", lambda x: (x.to(torch.float64), x.int(), x.bool(), x.half(), x.long(), x.to(torch.uint8), x.type_as(torch.zeros(1, dtype=torch.int32))), P(3) * 5)
    case("item", lambda x, y: x * y.max().item(), R(3), R(4), core=False)


def control():
    case("cond", lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,)), R(3), core=False)
    case("cond_two", lambda x: torch.cond(x.sum() > 0, lambda x: (x + 1, x.sum()), lambda x: (x * 2, x.max()), (x,)), R(3) - 9, core=False)
    from torch._higher_order_ops.while_loop import while_loop
    from torch._higher_order_ops.scan import scan
    from torch._higher_order_ops.map import map as torch_map
    case("while", lambda x: while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5), (torch.tensor(0), x)), R(3), core=False)
    case("map", lambda x, y: torch_map(lambda a, b: a * b + 1, x, y), R(4, 3), R(3), core=False)
    case("scan", lambda s, x: scan(lambda c, x: (c + x, c * x), s, x), R(3), R(5, 3), core=False)


def quantized():
    import torch.ao.quantization.fx._decomposed  # noqa: F401
    q = torch.ops.quantized_decomposed
    case("q_per_tensor", lambda x: (q.quantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8), q.dequantize_per_tensor(q.quantize_per_tensor(x, 0.05, 3, 0, 255, torch.uint8), 0.05, 3, 0, 255, torch.uint8)), R(3, 4), core=False)
    case("q_per_channel", lambda x, s: q.dequantize_per_channel(q.quantize_per_channel(x, s, torch.zeros(3, dtype=torch.int64), 0, -127, 127, torch.int8), s, torch.zeros(3, dtype=torch.int64), 0, -127, 127, torch.int8), R(3, 4), P(3) * 0.05, core=False)
    case("fake_quantize", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 2, -8, 7), R(3, 4))
    case("fake_quantize_channel", lambda x, s: torch.fake_quantize_per_channel_affine(x, s, torch.zeros(4, dtype=torch.int32), 1, -8, 7), R(3, 4), P(4) * 0.1)
    steps = torch.arange(-6, 6).reshape(3, 4) * 0.3
    case("q_choose", lambda x: (*q.choose_qparams(x, -128, 127, 1e-6, torch.int8), *q.choose_qparams(x + 5, 0, 255, 1e-6, torch.uint8), *q.choose_qparams(x * 0, -127, 127, 0.25, torch.int8)), steps, core=False)
    zeros = torch.tensor([0.5, -1.25, 3.0, 0.0])
    case("fake_quantize_float_zeros", lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, -8, 7), steps, torch.tensor([0.3, 0.6, 0.25, 0.15]), zeros)


def vision():
    boxes = torch.rand(12, 4) * 20
    boxes[:, 2:] += boxes[:, :2]
    case("nms", lambda b, s: torchvision.ops.nms(b, s, 0.4), boxes, torch.rand(12), core=False)
    rois = torch.tensor([[0, 1.0, 1, 6, 7], [1, 0, 2, 5, 5]])
    for aligned in (True, False):
        case(f"roi_align_{aligned}", lambda x, r: torchvision.ops.roi_align(x, r, 3, 0.9, 2, aligned), R(2, 3, 8, 8), rois, core=False)
    case("deform_conv", lambda x, o, w, m: torchvision.ops.deform_conv2d(x, o, w, mask=m), R(1, 2, 6, 6), R(1, 18, 4, 4) * 0.5, R(3, 2, 3, 3), P(1, 9, 4, 4), core=False)


def complex_tensors():
    hann = torch.hann_window(16)
    stft = lambda **options: lambda x: torch.view_as_real(torch.stft(x, 16, return_complex=True, **options))
    case("complex_stft", stft(hop_length=4, window=hann), R(2, 64))
    case("complex_stft_row", stft(hop_length=5, win_length=10, window=torch.hann_window(10)), R(50))
    case("complex_stft_plain", stft(center=False, normalized=True), R(2, 40))
    case("complex_stft_whole", stft(onesided=False, pad_mode="constant"), R(1, 40))
    spectrum = lambda x: torch.stft(x, 16, 4, window=hann, return_complex=True)
    case("complex_abs", lambda x: (spectrum(x).abs(), spectrum(x).abs() ** 2), R(2, 64))
    case("complex_parts", lambda x: (spectrum(x).real, spectrum(x).imag), R(2, 64))
    case("complex_mul", lambda x: torch.view_as_real(spectrum(x) * spectrum(x).conj() * 0.5), R(2, 64))
    case("complex_sum", lambda x: torch.view_as_real(spectrum(x) + spectrum(-2 * x) - x.mean()), R(2, 64))
    case("complex_div", lambda x: torch.view_as_real(-spectrum(x) / (x.abs().sum() + 1)), R(2, 64))
    case("complex_dims", lambda x: torch.view_as_real(spectrum(x).transpose(-1, -2)[:, 1:, -3:].unsqueeze(-1).squeeze(0)), R(1, 64))
    case("complex_dyn", lambda x: spectrum(x).abs().mean(-1), R(3, 64), dyn=(R(5, 64),))
    for norm in ("backward", "ortho", "forward"):
        case(f"complex_rfft_{norm}", lambda x: torch.view_as_real(torch.fft.rfft(x, norm=norm)), R(3, 10))
        case(f"complex_irfft_{norm}", lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=1), dim=1, norm=norm), R(2, 12, 3))
    case("complex_irfft_odd", lambda x: torch.fft.irfft(torch.fft.rfft(x), n=9), R(2, 9))
    case("complex_irfft_short", lambda x: torch.fft.irfft(torch.fft.rfft(x), n=6), R(2, 12))
    case("complex_fft", lambda x: torch.view_as_real(torch.fft.fft(x, n=12, dim=0)), R(9, 3))
    case("complex_ifft", lambda x: torch.fft.ifft(torch.fft.fft(x) * 2).real, R(2, 9))
    case("complex_view", lambda x: torch.view_as_complex(x).abs(), R(3, 4, 2))
    case("complex_new", lambda x, y: (torch.view_as_real(torch.complex(x, y)), torch.complex(x, y).angle()), R(3, 4), R(3, 4))


def aliases():
    """Names that mean another operator, several to a module."""
    several = lambda names: lambda *xs: tuple(getattr(torch, name)(*xs) for name in names.split())
    case("alias_unary", several("absolute arccos arcsin arcsinh arctan arctanh fix negative"), P(3, 4) * 0.5)
    case("alias_special", lambda x: (
        torch.special.erf(x), torch.special.expit(x), torch.special.log_softmax(x, 1), torch.special.softmax(x, 0),
        torch.special.xlogy(x, x), torch.clip(x, 0.3, 0.6), torch.arccosh(x + 1),
    ), P(3, 4))
    case("alias_binary", several("arctan2 divide greater greater_equal less less_equal multiply not_equal subtract true_divide"),
         P(3, 4), P(4))
    case("alias_shapes", lambda x: (
        torch.concat([x, x], 1), torch.concatenate([x, x]), x.adjoint(), torch.moveaxis(x, 0, 1), torch.swapdims(x, 0, 1),
        torch.ger(x[0], x[1]), torch.linalg.matmul(x, x.mT), x.cpu(),
    ), R(3, 4))
    case("alias_cell", lambda x, h, w, u: torch.rnn_relu_cell(x, h, w, u), R(2, 3), R(2, 4), R(4, 3), R(4, 4))
    case("complex_copies", lambda x: torch.ops.aten.view_as_real_copy(torch.ops.aten.view_as_complex_copy(x)), R(3, 2))
    case("no_grad", lambda x: no_grad(x) * 3, R(3, 4))


def no_grad(x):
    with torch.no_grad():
        y = x * 2
    return y + 1


def sizes():
    """Arithmetic of sizes, of which the first is dynamic."""
    def whole(x):
        n, m = x.shape[0], x.shape[1]
        parts = [n % 3 + 1, n // 2, n - 1, -n + 20, n * n, max(n, 4), min(n, 4), x.numel(), x.size(0) + m, x.stride(0) + 1]
        return tuple(torch.full((part, 2), 1.0) + x.sum() for part in parts)

    case("sizes_dyn", whole, R(4, 3), dyn=(R(7, 3),))

    def choices(x):
        n = x.shape[0]
        is_near = torch.sym_not(n == 7)
        parts = [torch.sym_ite(n > 5, n, n * 2), torch.sym_ite(is_near, n, n + 1), torch.sym_ite((n < 9) & (n != 6), n, n - 1),
                 torch.sym_ite((n < 2) | (n > 3), n, n + 3), torch.sym_max(n, n - 1)]
        return tuple(torch.ones(part) + x.sum() for part in parts)

    case("choices_dyn", choices, R(4, 3), dyn=(R(7, 3),))


def strict():
    """Programs that the stricter tracer writes: it keeps what Python computes of sizes."""
    def whole(x):
        n = x.shape[0]
        parts = [math.trunc(n / 3), int(n / 2)]
        return tuple(x.new_full((part,), 1.0) for part in parts)

    def real(x):
        n = x.shape[0]
        return x * (n / 3), x * torch.sym_float(n), x / torch._sym_sqrt(n), x.new_full((n**2,), 1.0)

    for name, function, strict in (("strict_sizes", whole, True), ("strict_reals", real, False)):
        module = Method(function)
        dims = ({0: torch.export.Dim("n", min=2, max=64)},)
        program = torch.export.export(module, (R(6, 3),), dynamic_shapes=dims, strict=strict)
        x = R(7, 3)
        write(name + ".dyn", program, (x,), module(x))
    case("strict_scalar", lambda x: x * torch.ops.aten._local_scalar_dense(x[0, 0]), R(3, 4), core=False)
    case("strict_hermite", lambda x: torch.ops.aten.matrix_H(x), R(3, 4), core=False)
    case("strict_renorm", Renorm(), I(5, 4), core=False)
    module = Method(no_grad)
    program = torch.export.export(module, (R(3, 4),), strict=True)
    x = R(3, 4)
    write("strict_no_grad", program, (x,), module(x))


def rare():
    """Operators that other cases do not have, or that others are tried in the place of."""
    module, dims = Method(lambda x: x.new_full((x.numel(),), 2.0)), ({0: torch.export.Dim("n", min=2, max=64)},)
    x = R(4, 3)
    write("rare_count", torch.export.export(module, (R(6, 3),), dynamic_shapes=dims), (x,), module(x))
    case("rare_strided", lambda x: (x.as_strided([2, 2], [1, 4], 1), x.as_strided([3], [2])), R(3, 4), core=False)
    case("rare_consecutive", lambda x: torch.unique_consecutive(x, True, True), torch.tensor([1, 1, 2, 1, 1]), core=False)
    conv = nn.Conv3d(3, 6, 2, padding=(1, 0, 1), stride=(1, 2, 1), groups=3)
    case("rare_depthwise", conv, R(1, 3, 4, 5, 3), core=False)


class Method(nn.Module):
    """A function of one argument; the tracer names the argument of `Wrapped` otherwise."""
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Renorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(R(5, 3) * 2)

    def forward(self, index):
        return F.embedding(index, self.weight, max_norm=1.0)


FAMILIES = [unary, activations, binary, conv, norm, pool, resize, linear, attention, recurrent, shape, index, inplace, reduce, create,
            control, quantized, vision, complex_tensors, aliases, sizes, strict, rare]

if __name__ == "__main__":
    for family in FAMILIES:
        family()
    print(made, "cases;", len(failed), "failed")
    sys.exit("\n".join(failed) or 0)
