"""Calls of unary and binary element-wise operators."""
import numpy as np

from .chance import BOOL, CODES, F32, F64, I32, I64, U8, Call, array, calls

# The attributes of element-wise functions.
ATTRIBUTES = {
    "relu6": lambda r: {"threshold": r.number(1, 8)},
    "leaky_relu": lambda r: {"alpha": r.number(-0.5, 1.5)},
    "elu": lambda r: {"alpha": r.number(0.1, 2)},
    "gelu": lambda r: {"approximate": r.flag()},
    "hard_sigmoid": lambda r: {"slope": r.number(0.05, 1), "offset": r.number(-1, 1)},
    "hard_swish": lambda r: {"threshold": r.number(2, 8), "scale": r.number(2, 8), "offset": r.number(0, 4)},
    "swish": lambda r: {"beta": r.number(0.5, 2)},
    "softplus": lambda r: {"beta": r.number(0.25, 3), "threshold": r.number(1, 25)},
    "brelu": lambda r: {"t_min": r.number(-2, 0), "t_max": r.number(0, 2)},
    "thresholded_relu": lambda r: {"threshold": r.number(-1, 2)},
    "hard_shrink": lambda r: {"threshold": r.number(0, 2)},
    "softshrink": lambda r: {"lambda": r.number(0, 2)},
    "selu": lambda r: {"scale": r.number(1, 2), "alpha": r.number(0.5, 2)},
    "mish": lambda r: {"threshold": r.number(1, 25)},
}

PLAIN = [
    "relu", "tanh", "sigmoid", "logsigmoid", "silu", "softsign", "exp", "floor", "ceil", "round", "sign", "sin",
    "cos", "erf", "reciprocal", "log", "log2", "log1p", "sqrt", "rsqrt",
]


@calls(*ATTRIBUTES, *PLAIN)
def function(r, kind):
    attributes = ATTRIBUTES.get(kind, lambda r: {})(r) if r.flag(0.8) else {}
    scale = r.pick(1.0, 2.0, 8.0, 20.0)
    return Call({"X": r.numbers(r.shape(0), r.floating(), scale)}, attributes)


@calls("abs", "square")
def size(r, kind):
    return Call({"X": r.numbers(r.shape(0), r.type())})


@calls("pow")
def power(r, kind):
    dtype = r.type()
    x = r.numbers(r.shape(0), dtype)
    if dtype in (I32, I64):
        return Call({"X": x}, {"factor": float(r.int(0, 3))})
    factor = r.pick(0.0, 1.0, 2.0, 3.0, -1.0, 0.5, r.number(-2, 3))
    if r.flag(0.2):
        return Call({"X": x, "FactorTensor": array(factor, dtype=F32)}) if dtype == F32 else Call({"X": x})
    return Call({"X": x}, {"factor": factor})


@calls("scale")
def scale(r, kind):
    dtype = r.type()
    attributes = {"bias": r.pick(0.0, r.number(-3, 3)), "bias_after_scale": r.flag()}
    inputs = {"X": r.numbers(r.shape(0), dtype)}
    if r.flag(0.2):
        inputs["ScaleTensor"] = array(r.number(-2, 2), dtype=F32)
    else:
        attributes["scale"] = r.pick(1.0, 0.0, r.number(-3, 3))
    return Call(inputs, attributes)


@calls("clip")
def clip(r, kind):
    dtype = r.type()
    least = float(r.int(-4, 1)) if dtype in (I32, I64) else r.number(-4, 1)
    most = least + (float(r.int(0, 5)) if dtype in (I32, I64) else r.number(0, 4))
    inputs, attributes = {"X": r.numbers(r.shape(0), dtype)}, {"min": least, "max": most}
    if r.flag(0.2):
        inputs["Min"] = array(least, dtype=dtype)
    if r.flag(0.2):
        inputs["Max"] = array(most, dtype=dtype)
    return Call(inputs, attributes)


@calls("prelu")
def prelu(r, kind):
    x = r.numbers(r.shape(2, 5, 4), r.floating())
    mode, last = r.pick("all", "channel", "element"), r.flag(0.4)
    dims = {"all": (1,), "channel": (x.shape[-1 if last else 1],), "element": (1, *x.shape[1:])}[mode]
    attributes = {"mode": mode, "data_format": "NHWC" if last else "NCHW"}
    return Call({"X": x, "Alpha": r.plain(dims, x.dtype)}, attributes)


@calls("softmax", "log_softmax")
def softmax(r, kind):
    x = r.numbers(r.shape(0 if kind == "softmax" else 1), r.floating(), r.pick(1.0, 4.0, 40.0))
    return Call({"X": x}, {"axis": r.axis(x.ndim) if x.ndim else -1})


@calls("isnan_v2", "isfinite_v2")
def finite(r, kind):
    return Call({"X": r.numbers(r.shape(0), r.type(), odd=0.8)})


@calls("logical_not")
def negation(r, kind):
    return Call({"X": truths(r, r.shape(0))})


def truths(r, shape):
    dtype = r.pick(BOOL, BOOL, F32, F64, I32, I64)
    return r.bools(shape) if dtype == BOOL else r.integers(shape, -1, 1).astype(dtype)


def laid_over(r, anywhere=True):
    """Returns the dims of two tensors, one of which is broadcast, and the axis of the broadcast."""
    x = r.shape(0, 4, 5)
    way = r.int(0, 4) if anywhere else r.pick(0, 1, 3, 4)
    if way == 0 or not x:
        return x, x, -1
    if way == 1:
        return x, x[r.int(0, len(x)):], -1
    if way == 2:
        begin = r.int(0, len(x) - 1)
        end = r.int(begin + 1, len(x))
        return x, x[begin:end], begin
    thinned = lambda: tuple(1 if r.flag(0.3) else dim for dim in x)
    if way == 3:
        return thinned(), thinned(), -1
    return x[r.int(0, len(x)):], thinned(), -1


@calls("elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_max", "elementwise_min")
def pair(r, kind):
    (x, y, axis), dtype = laid_over(r), r.type()
    left, right = r.numbers(x, dtype), r.numbers(y, dtype)
    if kind.endswith(("max", "min")) and r.flag(0.3):
        left, right = r.integers(x, -1, 1).astype(dtype), r.integers(y, -1, 1).astype(dtype)
    return Call({"X": left, "Y": right}, {"axis": axis})


@calls("elementwise_div", "elementwise_floordiv", "elementwise_mod")
def quotient(r, kind):
    (x, y, axis), dtype = laid_over(r), r.type()
    signs = r.pick(np.ones(y), -np.ones(y), r.integers(y, 0, 1) * 2 - 1)
    if dtype in (I32, I64):
        divisor = r.integers(y, 1, 5)
    else:
        divisor = r.positive(y, dtype)
    return Call({"X": r.numbers(x, dtype), "Y": (divisor * signs).astype(dtype)}, {"axis": axis})


@calls("elementwise_pow")
def raised(r, kind):
    (x, y, axis), dtype = laid_over(r), r.type()
    if dtype in (I32, I64):
        return Call({"X": r.numbers(x, dtype), "Y": r.integers(y, 0, 3, dtype)}, {"axis": axis})
    base = r.pick(r.positive(x, dtype), r.numbers(x, dtype))
    exponent = r.pick(r.plain(y, dtype), r.integers(y, -2, 3).astype(dtype))
    return Call({"X": base, "Y": exponent}, {"axis": axis})


@calls("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal")
def compared(r, kind):
    # This release broadcasts dims by `axis`, but not the elements.
    (x, y, _), dtype = laid_over(r, False), r.pick(F32, F64, I32, I64, BOOL)
    few = lambda shape: r.bools(shape) if dtype == BOOL else r.integers(shape, -1, 1).astype(dtype)
    make = few if r.flag() else lambda shape: r.numbers(shape, dtype, odd=0.4)
    return Call({"X": make(x), "Y": make(y)})


@calls("logical_and", "logical_or", "logical_xor")
def logic(r, kind):
    x, y, _ = laid_over(r, False)
    left = truths(r, x)
    right = r.integers(y, -1, 1).astype(left.dtype) if left.dtype != bool else r.bools(y)
    return Call({"X": left, "Y": right})


@calls("sum")
def total(r, kind):
    shape, dtype = r.shape(0), r.type()
    return Call({"X": [r.numbers(shape, dtype) for _ in range(r.int(1, 4))]})


@calls("where")
def where(r, kind):
    shape, dtype = r.shape(0), r.type()
    return Call({"Condition": r.bools(shape), "X": r.numbers(shape, dtype), "Y": r.numbers(shape, dtype)})


# The element types of casts: sources and targets.
CASTS = [F32, F64, I32, I64, BOOL, U8, "int8", "int16", "float16", "uint16"]


def halves(r, shape, dtype):
    """Returns half-precision numbers with random bits, without redundant NaNs."""
    bits = r.integers(shape, 0, 0xFFFF, "uint16")
    return bits if dtype == "uint16" else bits.view("float16")


@calls("cast")
def cast(r, kind):
    source, target, shape = r.pick(*CASTS), r.pick(*CASTS), r.shape(0)
    to_whole = target in (I32, I64, U8, "int8", "int16")
    if source in ("float16", "uint16") and not to_whole:
        x = halves(r, shape, source)
    elif source == "uint16":
        x = (r.integers(shape, 0, 9).astype(F32).view("uint32") >> 16).astype("uint16")
    elif source == "float16":
        x = (r.integers(shape, 0, 36) / 4).astype("float16")
    elif source in (F32, F64) and to_whole:
        # The conversion of numbers out of range depends on the processor.
        x = r.number(0, 10) * r.random.random_sample(shape)
        x = np.asarray(x if target == U8 else x * r.pick(1, -1)).astype(source)
    elif source == F32 and r.flag():
        x = np.asarray(r.random.randint(0, 2**32, shape, dtype="uint64").astype("uint32")).view(F32)
    elif source in (F32, F64):
        x = r.numbers(shape, source, r.pick(1e-6, 1e-3, 1.0, 1e4)) * r.number(0.5, 2)
        x = np.asarray(x).astype(source)
    elif source == BOOL:
        x = r.bools(shape)
    else:
        x = r.integers(shape, 0 if U8 in (source, target) else -100, 100).astype(source)
    return Call({"X": x}, {"in_dtype": CODES[source], "out_dtype": CODES[target]})


# The ranges of functions, somewhat beyond their domains.
RANGES = {
    "acos": (-1.125, 1.125), "acosh": (0.75, 40), "asin": (-1.125, 1.125), "asinh": (-40, 40), "atan": (-40, 40),
    "atanh": (-0.96875, 0.96875), "celu": (-20, 20), "cosh": (-9, 9), "expm1": (-20, 9), "log10": (-0.25, 99),
    "logit": (-0.25, 1.25), "sinh": (-9, 9), "stanh": (-20, 20), "tan": (-1.5, 1.5), "tanh_shrink": (-20, 20),
    "trunc": (-20, 20),
}


@calls(*RANGES)
def elementary(r, kind):
    least, most = RANGES[kind]
    attributes = {}
    if r.flag(0.7):
        attributes = {
            "celu": {"alpha": r.number(0.1, 2)}, "logit": {"eps": r.pick(0.0, r.number(0.001, 0.4))},
            "stanh": {"scale_a": r.number(-2, 2), "scale_b": r.number(-2, 2)},
        }.get(kind, {})
    shape, dtype = r.shape(0), r.floating()
    x = least + (most - least) * r.random.random_sample(shape)
    x = np.asarray(np.round(x * 64) / 64).astype(dtype)
    if kind == "trunc" and r.flag(0.3):
        x = r.numbers(shape, r.pick(I32, I64))
    elif x.size and r.flag(0.15):
        # The kernels disagree about other functions of infinities.
        x.reshape(-1)[0] = r.pick(np.nan, np.inf, -np.inf, -0.0) if kind in ("trunc", "atan") else np.nan
    return Call({"X": x}, attributes, gradient=False)


@calls("isinf_v2")
def infinite(r, kind):
    return Call({"X": r.numbers(r.shape(0), r.type(), odd=0.8)})


@calls("atan2")
def angle(r, kind):
    shape, dtype = r.shape(0), r.type()
    return Call({slot: r.numbers(shape, dtype, odd=0.5) for slot in ["X1", "X2"]}, gradient=False)


def whole(r, shape, dtype):
    return r.bools(shape) if dtype == BOOL else r.integers(shape, 0 if dtype == U8 else -100, 100, dtype)


@calls("bitwise_and", "bitwise_or", "bitwise_xor")
def bits(r, kind):
    (x, y, _), dtype = laid_over(r, False), r.pick(BOOL, U8, "int8", "int16", I32, I64)
    return Call({"X": whole(r, x, dtype), "Y": whole(r, y, dtype)})


@calls("bitwise_not")
def inverted(r, kind):
    return Call({"X": whole(r, r.shape(0), r.pick(BOOL, U8, "int8", "int16", I32, I64))})


@calls("elementwise_fmax", "elementwise_fmin", "elementwise_heaviside")
def numbers_of(r, kind):
    (x, y, _), dtype = laid_over(r, False), r.type()
    make = (lambda shape: r.integers(shape, -1, 1).astype(dtype)) if r.flag(0.3) else (
        lambda shape: r.numbers(shape, dtype, odd=0.5))
    return Call({"X": make(x), "Y": make(y)}, gradient=False)


@calls("lerp")
def lerp(r, kind):
    (x, y, _), dtype = laid_over(r, False), r.floating()
    weight = r.pick((1,), (), x, y)
    inputs = {"X": r.plain(x, dtype), "Y": r.plain(y, dtype), "Weight": r.plain(weight, dtype)}
    return Call(inputs, gradient=False)


@calls("kron")
def kron(r, kind):
    dtype = r.type()
    return Call({slot: r.numbers(r.shape(0, 3, 4), dtype, odd=0) for slot in "XY"}, gradient=False)


@calls("equal_all")
def equal_all(r, kind):
    x, dtype = r.shape(0, 3, 3), r.pick(F32, F64, I32, I64, BOOL)
    left = r.numbers(x, dtype, odd=0)
    right = left.copy() if r.flag(0.6) else r.numbers(r.pick(x, r.shape(0, 3, 3)), dtype, odd=0)
    return Call({"X": left, "Y": right})


@calls("isclose", "allclose")
def close(r, kind):
    x = r.numbers(r.shape(0, 3), r.floating(), odd=0.3)
    away = r.pick(0, 1, 0.125) * r.plain(x.shape, x.dtype)
    inputs, attributes = {"Input": x, "Other": (x + away).astype(x.dtype)}, {"equal_nan": r.flag()}
    if r.flag(0.3):
        inputs.update(Rtol=np.array([r.number(0, 1)]), Atol=np.array([r.number(0, 1)]))
    elif r.flag(0.5):
        attributes.update(rtol=str(r.number(0, 1)), atol=str(r.number(0, 1)))
    return Call(inputs, attributes)
