"""Writes one-operator programs with random inputs, and what MXNet 1.9.1 returns, to the current directory.

NAME-symbol.json, NAME-0000.params, and NAME-io.npz with inputs (in:NAME) and outputs (out:INDEX:NAME).
The committed files are a selection with at least one case of each family of rules (those of many operators, whose dims MXNet
infers, are in `mxnet_inferred`); q_mkldnn is a small network that
MXNet's quantization for oneDNN rewrote. MXNET_SUBGRAPH_BACKEND must be NONE;
MXNET_MKLDNN_ENABLED=0 helps where oneDNN rejects the shapes of cells.
"""

import mxnet as mx, numpy as np, os, warnings

warnings.filterwarnings("ignore")
S = mx.sym
rng = np.random.RandomState(0)
v = S.var


def R(*s):
    return rng.randn(*s).astype("f")


cases = {}
import sys

OUT = os.environ.get("OUT", ".")


def case(name, sym, inputs, params=None, aux=None):
    if isinstance(sym, (list, tuple)):
        sym = S.Group(list(sym))
    sym.save(name + "-symbol.json")
    args = {k: mx.nd.array(x, dtype=x.dtype) for k, x in {**inputs, **(params or {})}.items()}
    shapes = {k: x.shape for k, x in inputs.items()}
    # infer missing params
    argn = sym.list_arguments()
    auxn = sym.list_auxiliary_states()
    ash, _, xsh = sym.infer_shape_partial(**{k: a.shape for k, a in args.items()})
    P = dict(params or {})
    A = dict(aux or {})
    for n, s in zip(argn, ash):
        if n not in args:
            P[n] = R(*s) * 0.5
    for n, s in zip(auxn, xsh):
        if n not in A:
            A[n] = (np.abs(R(*s)) + 0.5) if "var" in n else R(*s) * 0.1
    for n in P:
        args[n] = mx.nd.array(P[n], dtype=np.asarray(P[n]).dtype)
    ex = sym.bind(
        mx.cpu(), args, aux_states={n: mx.nd.array(x) for n, x in A.items()}, grad_req="null"
    )
    outs = ex.forward(is_train=False)
    sd = {"arg:" + k: mx.nd.array(np.asarray(x), dtype=np.asarray(x).dtype) for k, x in P.items()}
    sd.update({"aux:" + k: mx.nd.array(x) for k, x in A.items()})
    mx.nd.save(name + "-0000.params", sd)
    np.savez(
        name + "-io.npz",
        **{"in:" + k: x for k, x in inputs.items()},
        **{
            "out:%d:%s" % (i, n): o.asnumpy()
            for i, (n, o) in enumerate(zip(sym.list_outputs(), outs))
        }
    )
    cases[name] = [o.shape for o in outs]


S = mx.sym
v = S.var
d = v("data")
n = [0]


def C(name, sym, ins, params=None):
    n[0] += 1
    try:
        case("%s_%d" % (name, n[0]), sym, ins, params)
    except Exception as e:
        import glob

        for f in glob.glob("%s_%d-*" % (name, n[0])):
            os.remove(f)
        print("FAIL", name, n[0], str(e).split("\n")[0][:150])


I = S._internal
x4 = R(2, 4, 7, 9)
x3 = R(2, 3, 4)
for ax in ["None", "0", "-1", "(0, 2)", "(1,)", "(-1, 0)", "()"]:
    for kd in [0, 1]:
        for ex in [0, 1]:
            for op in ["sum", "max", "mean", "prod", "min"]:
                if op != "sum" and (kd or ex) and ax not in ("0", "(0, 2)"):
                    continue
                kw = {} if ax == "None" else {"axis": eval(ax)}
                C(op, getattr(S, op)(d, keepdims=bool(kd), exclude=bool(ex), **kw), {"data": x3})
for o in [1, 2]:
    for kw in [{}, {"axis": 0}, {"axis": (0, 1)}, {"axis": -1, "keepdims": True}]:
        C(
            "norm",
            S.norm(d, ord=o, **kw),
            {"data": x3 if "axis" not in kw or kw["axis"] != (0, 1) else R(3, 4)},
        )
for op in ["argmax", "argmin"]:
    for kw in [{}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": 2}, {"keepdims": True}]:
        C(op, getattr(S, op)(d, **kw), {"data": x3})
    C(op, getattr(S, op)(d, axis=0), {"data": R(5)})
C("argmax_channel", S.argmax_channel(d), {"data": R(3, 4)})
xn = R(2, 3, 4)
xn[0, 1, 2] = np.nan
for op in ["nansum", "nanprod"]:
    C(op, getattr(S, op)(d, axis=1), {"data": xn})
sh = R(2, 3, 4, 5, 6)
for s in [
    (0, 0, -1),
    (-1,),
    (-3, -3, 0),
    (-2,),
    (0, -2),
    (0, -4, 1, 3, -2),
    (0, -4, -1, 3, -2),
    (0, 0, -4, 2, -1, -3),
    (2, 3, -1, 6),
    (-3, -1, 0),
    (0, 0, 0, 0, -4, 2, 3),
    (120, -1),
    (720,),
]:
    C("reshape", S.Reshape(d, shape=s), {"data": sh})
for s in [
    (-1, 0),
    (0, -1, 0),
    (-3, 0),
    (0, -3),
    (8, 0, 0, 0, -1) if False else (-1, 0, 0),
    (-1, 6),
]:
    C(
        "reshape_rev",
        S.Reshape(d, shape=s, reverse=True),
        {"data": R(8, 3, 3, 3, 6) if False else sh},
    )
C("reshape_legacy", S.Reshape(d, target_shape=(2, 0)), {"data": x3})
C("reshape_legacy", S.Reshape(d, target_shape=(0, 12), keep_highest=True), {"data": x3})
for kw in [
    {},
    {"lhs_begin": 0, "lhs_end": 2, "rhs_begin": 0, "rhs_end": 1},
    {"lhs_begin": -2, "rhs_begin": 1},
]:
    C(
        "reshape_like",
        S.reshape_like(d, v("b"), **kw),
        {
            "data": R(2, 3, 4),
            "b": R(6, 4) if kw.get("lhs_end") else (R(2, 3, 4) if not kw else R(2, 12)),
        },
    )
for ax in [(), (0, 2, 1), (2, 0, 1)]:
    C("transpose", S.transpose(d, axes=ax), {"data": x3})
C("swap", S.SwapAxis(d, dim1=0, dim2=2), {"data": x3})
C("swap", S.SwapAxis(d, dim1=-1, dim2=0), {"data": x3})
for a in [0, 1, -1, 3, -4]:
    C("expand", S.expand_dims(d, axis=a), {"data": x3})
for kw in [{}, {"axis": 0}, {"axis": -1}, {"axis": (0, 2)}]:
    C("squeeze", S.squeeze(d, **kw), {"data": R(1, 3, 1)})
C("squeeze", S.squeeze(d), {"data": R(1, 1)})
for a in [0, 1, 2, -1]:
    C("concat", S.Concat(d, v("b"), v("c"), dim=a), {"data": x3, "b": x3 + 1, "c": x3 * 2})
for a in [0, 1, -1]:
    C("stack", S.stack(d, v("b"), axis=a), {"data": x3, "b": x3 + 1})
for kw in [
    dict(num_outputs=2, axis=0),
    dict(num_outputs=3, axis=1, squeeze_axis=True),
    dict(num_outputs=2, axis=-1),
    dict(num_outputs=1, axis=0),
]:
    C("split", S.SliceChannel(d, **kw), {"data": x3})
C("splitv2", S.split_v2(d, 2, axis=2), {"data": x3})
C("splitv2", S.split_v2(d, (1, 2), axis=1), {"data": x3})
C("splitv2", S.split_v2(d, (2,), axis=-1), {"data": x3})
C("splitv2", S.split_v2(d, 3, axis=1, squeeze_axis=True), {"data": x3})
for kw in [
    dict(begin=(1,), end=(None,)),
    dict(begin=(0, 1, -3), end=(2, 3, -1)),
    dict(begin=(None, None, None), end=(None, None, None), step=(-1, -1, -2)),
    dict(begin=(0, 2, 3), end=(1, 0, 0), step=(1, -1, -1)),
    dict(begin=(None, -2), end=(1, None)),
]:
    C("slice", S.slice(d, **kw), {"data": x3})
for kw in [
    dict(axis=0, begin=1, end=2),
    dict(axis=-1, begin=-3, end=-1),
    dict(axis=1, begin=0, end=None),
    dict(axis=2, begin=1, end=4),
]:
    C("slice_axis", S.slice_axis(d, **kw), {"data": x3})
for kw in [{}, {"axes": (0,)}, {"axes": (-1, 1)}]:
    C("slice_like", S.slice_like(d, v("b"), **kw), {"data": x3, "b": R(1, 2, 3)})
for kw in [dict(axis=(0,), size=(3,)), dict(axis=(2, 1), size=(4, 2)), dict(axis=(-1,), size=(5,))]:
    C("broadcast_axis", S.broadcast_axis(d, **kw), {"data": R(1, 1, 1)})
C("bto", S.broadcast_to(d, shape=(2, 0, 5)), {"data": R(1, 3, 1)})
C("bl", S.broadcast_like(d, v("b")), {"data": R(1, 3, 1), "b": R(2, 3, 4)})
C(
    "bl",
    S.broadcast_like(d, v("b"), lhs_axes=(0,), rhs_axes=(-1,)),
    {"data": R(1, 3, 1), "b": R(2, 3, 4)},
)
for r in [(2,), (2, 3), (1, 2, 3), (2, 1, 1, 3)]:
    C("tile", S.tile(d, reps=r), {"data": R(2, 3, 2)})
for kw in [
    dict(repeats=2),
    dict(repeats=3, axis=0),
    dict(repeats=2, axis=1),
    dict(repeats=2, axis=-1),
]:
    C("repeat", S.repeat(d, **kw), {"data": x3})
for a in [0, (0, 2), (-1,)]:
    C("reverse", S.reverse(d, axis=a), {"data": x3})
for m in ["constant", "edge", "reflect"]:
    C("pad", S.Pad(d, mode=m, pad_width=(0, 0, 0, 0, 1, 2, 3, 1), constant_value=-2), {"data": x4})
    C("pad", S.Pad(d, mode=m, pad_width=(0, 0, 0, 0, 1, 0, 0, 1, 2, 2)), {"data": R(1, 2, 3, 4, 5)})
for m in ["clip", "wrap"]:
    for a in [0, 1, -1]:
        C(
            "take",
            S.take(v("a"), v("i"), axis=a, mode=m),
            {"a": R(3, 4, 5), "i": np.array([[0, 2], [9, -4]], "f")},
        )
for m in ["clip", "wrap"]:
    for kw in [dict(axis=1), dict(axis=0, keepdims=True), dict(axis=-1)]:
        C(
            "pick",
            S.pick(d, v("i"), mode=m, **kw),
            {
                "data": R(3, 5),
                "i": np.array([0, 4, 9] if kw["axis"] != 0 else [0, 2, 1, 7, -1], "f"),
            },
        )
C("pick", S.pick(d, v("i"), axis=1), {"data": x3, "i": np.zeros((2, 4), "f")})
C("pick", S.pick(d, v("i"), axis=1, keepdims=True), {"data": x3, "i": np.ones((2, 1, 4), "f")})
C("batch_take", S.batch_take(d, v("i")), {"data": R(3, 4), "i": np.array([0, 2, 3], "int32")})
C(
    "gather_nd",
    S.gather_nd(d, v("i")),
    {"data": R(3, 4, 2), "i": np.array([[0, 2], [1, 3], [1, 0]], "f")},
)
C("gather_nd", S.gather_nd(d, v("i")), {"data": R(3, 4, 2), "i": np.array([[[0, 2, 1]]], "f")})
C(
    "scatter_nd",
    S.scatter_nd(d, v("i"), shape=(3, 4)),
    {"data": R(2), "i": np.array([[0, 2], [1, 3]], "f")},
)
for kw in [
    dict(depth=4),
    dict(depth=3, on_value=5, off_value=-2, dtype="int32"),
    dict(depth=5, dtype="float64"),
]:
    C("one_hot", S.one_hot(d, **kw), {"data": np.array([[0, 3], [5, -1]], "f")})
C(
    "where",
    S.where(v("c"), d, v("b")),
    {"c": (R(2, 3) > 0).astype("f"), "data": R(2, 3), "b": R(2, 3)},
)
C("where", S.where(v("c"), d, v("b")), {"c": np.array([0, 2], "int32"), "data": x3, "b": x3 * 2})
for op in ["sort", "argsort"]:
    for kw in [
        {},
        {"axis": 0, "is_ascend": False},
        {"axis": None},
        {"axis": -1, "is_ascend": True},
    ]:
        C(op, getattr(S, op)(d, **kw), {"data": x3})
for rt in ["indices", "value", "mask", "both"]:
    for kw in [
        dict(k=2),
        dict(k=1, axis=0),
        dict(k=3, axis=None),
        dict(k=2, axis=1, is_ascend=True),
        dict(k=0, axis=1),
    ]:
        C("topk", S.topk(d, ret_typ=rt, **kw), {"data": x3})
C("topk", S.topk(d, k=2, dtype="int32"), {"data": x3})
for ax in [0, 1]:
    for ul in [True, False]:
        l = {"l": np.array([2, 3], "f")} if ul else {}
        dd = R(4, 2, 3) if ax == 0 else R(2, 4, 3)
        a = (v("l"),) if ul else ()
        C(
            "sqmask",
            S.SequenceMask(d, *a, use_sequence_length=ul, value=-1.5, axis=ax),
            {"data": dd, **l},
        )
        C("sqlast", S.SequenceLast(d, *a, use_sequence_length=ul, axis=ax), {"data": dd, **l})
        if ax == 0:
            C("sqrev", S.SequenceReverse(d, *a, use_sequence_length=ul), {"data": dd, **l})
P = np.abs(x3) + 0.1
U = np.clip(x3, -0.95, 0.95)
for (
    f
) in "exp log log2 log10 log1p expm1 sqrt rsqrt cbrt rcbrt square abs sign negative reciprocal floor ceil trunc fix rint round erf gammaln gamma sin cos tan sinh cosh tanh arcsinh degrees radians relu sigmoid softsign logical_not".split():
    C(
        f,
        getattr(S, f)(d),
        {"data": P if f in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt") else x3 * 1.3},
    )
for f in "erfinv arcsin arccos arctan arctanh".split():
    C(f, getattr(S, f)(d), {"data": U})
C("arccosh", S.arccosh(d), {"data": P + 1})
C("gamma", S.gamma(d), {"data": P * 3})
C("gammaln", S.gammaln(d), {"data": P * 10})
C("round", S.round(d), {"data": np.array([-2.5, -0.5, 0.5, 1.5, 2.5], "f")})
C("rint", S.rint(d), {"data": np.array([-2.5, -0.5, 0.5, 1.5, 2.5], "f")})
C("log1p", S.log1p(d), {"data": np.array([1e-8, 1e-4, 0, -0.5], "f")})
C("expm1", S.expm1(d), {"data": np.array([1e-8, 1e-4, 0, -20, 20], "f")})
ii = np.array([[1, -2, 3], [4, 5, -7]], "int32")
for f in [
    "_plus_scalar",
    "_minus_scalar",
    "_rminus_scalar",
    "_mul_scalar",
    "_div_scalar",
    "_rdiv_scalar",
    "_power_scalar",
    "_rpower_scalar",
    "_maximum_scalar",
    "_minimum_scalar",
    "_mod_scalar",
    "_rmod_scalar",
    "_hypot_scalar",
    "_equal_scalar",
    "_not_equal_scalar",
    "_greater_scalar",
    "_greater_equal_scalar",
    "_lesser_scalar",
    "_lesser_equal_scalar",
    "_logical_and_scalar",
    "_logical_or_scalar",
    "_logical_xor_scalar",
]:
    C(f[1:], getattr(I, f)(d, scalar=-1.25), {"data": P if "power" in f else x3})
    C(f[1:] + "i", getattr(I, f)(d, scalar=2), {"data": ii if "pow" not in f else abs(ii)})
for f in [
    "add",
    "sub",
    "mul",
    "div",
    "mod",
    "maximum",
    "minimum",
    "power",
    "hypot",
    "equal",
    "not_equal",
    "greater",
    "greater_equal",
    "lesser",
    "lesser_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
]:
    a, b = (P, P[:1]) if f == "power" else (x3, x3[:1])
    a = a.copy()
    a[0, 0, 0] = b[0, 0, 0]
    a[1, 1, 1] = 0
    C("b" + f, getattr(S, "broadcast_" + f)(d, v("b")), {"data": a, "b": b})
for f in ["elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div"]:
    C(f, getattr(S, f)(d, v("b")), {"data": x3, "b": x3 + 2})
C("add_n", S.add_n(d, v("b"), v("c")), {"data": x3, "b": x3 + 2, "c": x3})
C("clip", S.clip(d, a_min=-0.5, a_max=0.7), {"data": x3})
for s in [1.0, 0.5, 3.0]:
    C("smooth", S.smooth_l1(d, scalar=s), {"data": x3})
C("hs", S.hard_sigmoid(d, alpha=0.3, beta=0.4), {"data": x3})
for t in ["float64", "int32", "float16", "uint8", "int64"]:
    C("cast", S.Cast(d, dtype=t), {"data": P * 5})
for t in ["relu", "sigmoid", "tanh", "softrelu", "softsign"]:
    C("act", S.Activation(d, act_type=t), {"data": x3})
for t in ["leaky", "elu", "selu", "gelu", "prelu"]:
    C("leaky", S.LeakyReLU(d, act_type=t, slope=0.1, name="lr"), {"data": x4})
    C("leaky", S.LeakyReLU(d, act_type=t, name="lr"), {"data": R(3, 5)})
for f in ["softmax", "log_softmax", "softmin"]:
    for kw in [{}, {"axis": 0}, {"axis": 1, "temperature": 0.7}]:
        C(f, getattr(S, f)(d, **kw), {"data": x3})
C(
    "softmaxlen",
    S.softmax(d, v("l"), axis=1, use_length=True),
    {"data": x3, "l": np.array([[1, 2, 3, 3], [3, 2, 1, 1]], "int32")},
)
for kw in [{}, dict(multi_output=True), dict(preserve_shape=True)]:
    C(
        "so",
        S.SoftmaxOutput(d, name="softmax", **kw),
        {
            "data": x3,
            "softmax_label": np.zeros(
                (
                    {"": (2, 12), "m": (2, 4), "p": (2, 3)}[list(kw)[0][0] if kw else ""]
                    if kw
                    else (2,)
                ),
                "f",
            ),
        },
    )
C("so", S.SoftmaxOutput(d, name="softmax"), {"data": R(3, 5), "softmax_label": np.zeros((3,), "f")})
for f in ["LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"]:
    C(f, getattr(S, f)(d, name="o"), {"data": R(3, 5), "o_label": R(3, 5)})
C("mk", S.MakeLoss(d), {"data": x3})
C("bg", S.BlockGrad(d), {"data": x3})
C("dp", S.Dropout(d, p=0.4), {"data": x3})
for kw in [
    dict(kernel=(3, 3), num_filter=4),
    dict(kernel=(1, 1), num_filter=6, stride=(2, 3), no_bias=True),
    dict(kernel=(3, 2), num_filter=4, pad=(2, 1), dilate=(2, 2), num_group=4),
    dict(kernel=(2, 2), num_filter=2, stride=(3, 3), pad=(1, 1)),
]:
    C("conv", S.Convolution(d, name="c", **kw), {"data": x4})
for kw in [
    dict(kernel=(3, 3), num_filter=4),
    dict(kernel=(4, 4), num_filter=6, stride=(2, 2), pad=(1, 1), no_bias=False),
    dict(kernel=(3, 2), num_filter=4, pad=(1, 1), stride=(2, 2), adj=(1, 0)),
    dict(kernel=(4, 4), num_filter=4, num_group=4, stride=(2, 2), pad=(1, 1)),
    dict(kernel=(4, 4), stride=(2, 2), target_shape=(14, 18), num_filter=3),
    dict(kernel=(3, 3), stride=(2, 2), target_shape=(13, 17), num_filter=3),
]:
    C("deconv", S.Deconvolution(d, name="c", **kw), {"data": x4})
C(
    "deconv1",
    S.Deconvolution(d, kernel=(4,), stride=(2,), num_filter=3, name="c"),
    {"data": R(2, 3, 6)},
)
C(
    "deconv3",
    S.Deconvolution(d, kernel=(2, 2, 2), stride=(2, 2, 2), num_filter=3, name="c"),
    {"data": R(1, 2, 3, 3, 3)},
)
for pt in ["max", "avg", "sum", "lp"]:
    for pc in ["valid", "full"]:
        for kw in [
            dict(kernel=(3, 3), stride=(2, 2)),
            dict(kernel=(2, 3), stride=(3, 2), pad=(1, 1)),
            dict(kernel=(3, 3), stride=(2, 3), pad=(1, 2)),
            dict(kernel=(2, 2), stride=(1, 1)),
            dict(kernel=(2, 2), stride=(3, 3)),
        ]:
            if pt == "lp":
                kw = dict(kw, p_value=2)
            C(
                "pool",
                S.Pooling(d, pool_type=pt, pooling_convention=pc, **kw),
                {"data": np.abs(x4) if pt == "lp" else x4},
            )
            if pt == "avg":
                C(
                    "poolx",
                    S.Pooling(
                        d, pool_type=pt, pooling_convention=pc, count_include_pad=False, **kw
                    ),
                    {"data": x4},
                )
    C(
        "poolg",
        S.Pooling(
            d,
            pool_type=pt,
            global_pool=True,
            kernel=(1, 1),
            **(dict(p_value=3) if pt == "lp" else {})
        ),
        {"data": np.abs(x4)},
    )
    C(
        "pool1",
        S.Pooling(
            d,
            pool_type=pt,
            kernel=(3,),
            stride=(2,),
            pad=(1,),
            pooling_convention="full",
            **(dict(p_value=1) if pt == "lp" else {})
        ),
        {"data": np.abs(R(2, 3, 8))},
    )
    C(
        "pool3",
        S.Pooling(
            d,
            pool_type=pt,
            kernel=(2, 2, 2),
            stride=(2, 2, 2),
            pooling_convention="full",
            **(dict(p_value=2) if pt == "lp" else {})
        ),
        {"data": np.abs(R(1, 2, 5, 5, 5))},
    )
for kw in [
    {},
    dict(fix_gamma=False, eps=1e-2),
    dict(axis=-1, fix_gamma=False),
    dict(use_global_stats=True, fix_gamma=False),
    dict(axis=2),
]:
    C("bn", S.BatchNorm(d, name="bn", **kw), {"data": x4})
C("bn1", S.BatchNorm(d, name="bn", fix_gamma=False), {"data": x3})
C("bn5", S.BatchNorm(d, name="bn", fix_gamma=False), {"data": R(1, 2, 3, 3, 3)})
for kw in [{}, dict(eps=0.1)]:
    C("in", S.InstanceNorm(d, name="n", **kw), {"data": x4})
for kw in [{}, dict(axis=1), dict(axis=0, eps=0.01), dict(axis=-2)]:
    C("ln", S.LayerNorm(d, name="n", **kw), {"data": x4})
for g in [1, 2, 4]:
    C("gn", S.GroupNorm(d, num_groups=g, name="n"), {"data": x4})
for m in ["instance", "channel", "spatial"]:
    C("l2", S.L2Normalization(d, mode=m, eps=0.1), {"data": x4})
for k in [1, 3, 5]:
    C("lrn", S.LRN(d, nsize=k, alpha=0.3, beta=0.6, knorm=1.5), {"data": x4})
for kw in [
    dict(num_hidden=3),
    dict(num_hidden=3, no_bias=True),
    dict(num_hidden=3, flatten=False),
    dict(num_hidden=3, flatten=False, no_bias=True),
]:
    C("fc", S.FullyConnected(d, name="fc", **kw), {"data": x3})
    C("fc", S.FullyConnected(d, name="fc", **kw), {"data": R(3, 5)})
C(
    "emb",
    S.Embedding(d, input_dim=5, output_dim=3, name="e"),
    {"data": np.array([[0, 4], [2.7, 7], [-1, 3]], "f")},
)
for ta in [0, 1]:
    for tb in [0, 1]:
        C(
            "dot",
            S.dot(d, v("b"), transpose_a=bool(ta), transpose_b=bool(tb)),
            {"data": R(4, 3) if ta else R(3, 4), "b": R(5, 4) if tb else R(4, 5)},
        )
        C(
            "bdot",
            S.batch_dot(d, v("b"), transpose_a=bool(ta), transpose_b=bool(tb)),
            {"data": R(2, 4, 3) if ta else R(2, 3, 4), "b": R(2, 5, 4) if tb else R(2, 4, 5)},
        )
        C(
            "gemm2",
            S.linalg.gemm2(d, v("b"), transpose_a=bool(ta), transpose_b=bool(tb), alpha=1.5),
            {"data": R(2, 4, 3) if ta else R(2, 3, 4), "b": R(2, 5, 4) if tb else R(2, 4, 5)},
        )
C("dot", S.dot(d, v("b")), {"data": R(4), "b": R(4)})
C("dot", S.dot(d, v("b")), {"data": R(2, 3, 4), "b": R(4)})
C("dot", S.dot(d, v("b"), transpose_a=True), {"data": R(4, 2, 3), "b": R(4, 5)})
C("dot", S.dot(d, v("b"), transpose_b=True), {"data": R(2, 4), "b": R(3, 5, 4)})
C(
    "gemm",
    S.linalg.gemm(d, v("b"), v("c"), alpha=2.0, beta=0.5),
    {"data": R(2, 3, 4), "b": R(2, 4, 5), "c": R(2, 3, 5)},
)
C("syrk", S.linalg.syrk(d, alpha=2.0), {"data": R(2, 3, 4)})
C("syrk", S.linalg.syrk(d, transpose=True), {"data": R(2, 3, 4)})
C("qk", S.contrib.interleaved_matmul_selfatt_qk(d, heads=2), {"data": R(3, 2, 24)})
C(
    "va",
    S.contrib.interleaved_matmul_selfatt_valatt(d, v("a"), heads=2),
    {"data": R(3, 2, 24), "a": R(4, 3, 3)},
)
C(
    "eqk",
    S.contrib.interleaved_matmul_encdec_qk(d, v("k"), heads=2),
    {"data": R(3, 2, 8), "k": R(5, 2, 16)},
)
C(
    "eva",
    S.contrib.interleaved_matmul_encdec_valatt(v("k"), v("a"), heads=2),
    {"k": R(5, 2, 16), "a": R(4, 3, 5)},
)
C("dsd", S.contrib.div_sqrt_dim(d), {"data": x3})
C("al", S.contrib.arange_like(d, start=1, step=0.5), {"data": x3})
C("al", S.contrib.arange_like(d, axis=1), {"data": x3})
C("al", S.contrib.arange_like(d, axis=-1, start=2), {"data": x3})
C("zl", S.zeros_like(d), {"data": x3})
C("ol", S.ones_like(d), {"data": x3})
C("sa", S.shape_array(d), {"data": x3})
C("sz", S.size_array(d), {"data": x3})
C("ar", S.broadcast_add(d, S.arange(start=0, stop=12, step=3, repeat=1)), {"data": R(1)})
C("ar", S.broadcast_add(d, S.arange(start=2, stop=5, repeat=2)), {"data": R(1)})
C("ar", S.broadcast_add(d, S.arange(5)), {"data": R(1)})
C("ones", S.broadcast_add(d, S.ones((2, 3))), {"data": R(1, 1)})
C("full", S.broadcast_add(d, S.full((2, 3), 2.5)), {"data": R(1, 1)})
C("eye", S.broadcast_add(d, S.eye(3, 4, 1)), {"data": R(1, 1)})
C("lin", S.broadcast_add(d, S.linspace(0, 1, 5)), {"data": R(1)})
for kw in [dict(block_size=2)]:
    C("d2s", S.depth_to_space(d, **kw), {"data": R(1, 8, 2, 3)})
    C("s2d", S.space_to_depth(d, **kw), {"data": R(1, 2, 4, 6)})
for s in [2, 3]:
    C("up", S.UpSampling(d, scale=s, sample_type="nearest"), {"data": x4})
    C("upb", S.UpSampling(d, scale=s, sample_type="bilinear", num_filter=4, name="u"), {"data": x4})
C(
    "ups",
    S.UpSampling(d, v("b"), scale=2, sample_type="nearest", num_args=2, multi_input_mode="sum"),
    {"data": R(1, 2, 4, 4), "b": R(1, 2, 8, 8)},
)
for o in [1, (2, 3), 5, (7, 9), (3, 9)]:
    C("aap", S.contrib.AdaptiveAvgPooling2D(d, output_size=o), {"data": x4})
for kw in [
    dict(height=5, width=4),
    dict(height=5, width=4, align_corners=False),
    dict(scale_height=2.0, scale_width=1.5, mode="size"),
    dict(mode="to_even_up"),
    dict(mode="to_even_down"),
    dict(mode="to_odd_up"),
    dict(mode="to_odd_down"),
    dict(mode="odd_scale", scale_height=2.0, scale_width=0.5),
]:
    C("brs", S.contrib.BilinearResize2D(d, **kw), {"data": R(1, 2, 6, 9)})
C("brl", S.contrib.BilinearResize2D(d, v("b"), mode="like"), {"data": x4, "b": R(1, 1, 5, 3)})
C("gga", S.GridGenerator(d, transform_type="affine", target_shape=(4, 5)), {"data": R(2, 6)})
C("ggw", S.GridGenerator(d, transform_type="warp"), {"data": R(2, 2, 4, 5)})
C(
    "st",
    S.SpatialTransformer(
        d, v("loc"), target_shape=(3, 6), transform_type="affine", sampler_type="bilinear"
    ),
    {"data": x4, "loc": R(2, 6)},
)
C("bs", S.BilinearSampler(d, v("g")), {"data": x4, "g": R(2, 2, 3, 4)})
for kw in [
    dict(kernel_size=1, max_displacement=2, stride1=1, stride2=1, pad_size=2),
    dict(kernel_size=3, max_displacement=4, stride1=2, stride2=2, pad_size=4),
    dict(kernel_size=1, max_displacement=3, stride1=1, stride2=2, pad_size=3, is_multiply=False),
]:
    C("cor", S.Correlation(d, v("b"), **kw), {"data": R(1, 3, 8, 9), "b": R(1, 3, 8, 9)})
for kw in [
    dict(kernel=(3, 3), pad=(1, 1), num_filter=2, num_deformable_group=2),
    dict(kernel=(3, 3), pad=(2, 2), dilate=(2, 2), num_filter=4, num_group=2, no_bias=True),
    dict(kernel=(2, 3), stride=(2, 2), num_filter=2),
]:
    kh, kw_ = kw["kernel"]
    st = kw.get("stride", (1, 1))
    p = kw.get("pad", (0, 0))
    dl = kw.get("dilate", (1, 1))
    oh = (7 + 2 * p[0] - dl[0] * (kh - 1) - 1) // st[0] + 1
    ow = (9 + 2 * p[1] - dl[1] * (kw_ - 1) - 1) // st[1] + 1
    C(
        "dc",
        S.contrib.DeformableConvolution(d, v("o"), name="c", **kw),
        {"data": x4, "o": R(2, 2 * kh * kw_ * kw.get("num_deformable_group", 1), oh, ow)},
    )
    C(
        "mdc",
        S.contrib.ModulatedDeformableConvolution(d, v("o"), v("m"), name="c", **kw),
        {
            "data": x4,
            "o": R(2, 2 * kh * kw_ * kw.get("num_deformable_group", 1), oh, ow),
            "m": np.abs(R(2, kh * kw_ * kw.get("num_deformable_group", 1), oh, ow)),
        },
    )
rois = np.array([[0, 0, 0, 5, 5], [1, 2, 1, 8, 6], [0, 3.3, 2.2, 12.1, 9.7]], "f")
for kw in [
    dict(pooled_size=(2, 3), spatial_scale=0.5),
    dict(pooled_size=(3, 3), spatial_scale=1.0),
]:
    C("rp", S.ROIPooling(d, v("r"), **kw), {"data": x4, "r": rois})
for kw in [
    dict(pooled_size=(2, 3), spatial_scale=0.5, sample_ratio=2),
    dict(pooled_size=(2, 2), spatial_scale=1.0),
    dict(pooled_size=(2, 2), spatial_scale=0.7, aligned=True, sample_ratio=1),
]:
    C(
        "ra",
        S.contrib.ROIAlign(d, v("r"), **kw),
        {"data": x4, "r": np.concatenate([rois, [[-1, 0, 0, 3, 3]]]).astype("f")},
    )
for kw in [
    {},
    dict(sizes=(0.3, 0.5, 0.7), ratios=(1, 2)),
    dict(sizes=(0.2,), ratios=(1, 0.5), steps=(0.3, 0.2), offsets=(0.1, 0.2)),
    dict(sizes=(0.9,), ratios=(2, 0.5), clip=True),
]:
    C("mbp", S.contrib.MultiBoxPrior(d, **kw), {"data": R(1, 1, 3, 5)})


def anc(N):
    return np.sort(rng.rand(1, N, 2, 2), axis=2).reshape(1, N, 4).astype("f")


for kw in [
    {},
    dict(nms_threshold=0.3, threshold=0.2),
    dict(force_suppress=True, nms_threshold=0.2),
    dict(nms_topk=4, nms_threshold=0.2),
    dict(clip=False, variances=(0.2, 0.2, 0.1, 0.1)),
    dict(nms_threshold=-1.0),
]:
    sc = np.exp(R(2, 4, 20))
    sc /= sc.sum(1, keepdims=True)
    C(
        "mbd",
        S.contrib.MultiBoxDetection(v("cls"), v("loc"), v("anc"), **kw),
        {"cls": sc, "loc": R(2, 80) * 0.3, "anc": anc(20)},
    )


def bx(B, N, ids=True):
    b = rng.rand(B, N, 2, 2)
    o = [rng.rand(B, N, 1), b.min(2), b.max(2)]
    if ids:
        o = [np.floor(rng.rand(B, N, 1) * 3)] + o
    return np.concatenate(o, -1).astype("f")


for kw in [
    dict(overlap_thresh=0.3),
    dict(overlap_thresh=0.2, id_index=0, topk=5),
    dict(overlap_thresh=0.2, id_index=0, force_suppress=True, valid_thresh=0.4),
    dict(overlap_thresh=0.1, id_index=0, background_id=1),
    dict(overlap_thresh=0.3, in_format="center", out_format="corner"),
    dict(overlap_thresh=0.3, in_format="corner", out_format="center", id_index=0),
    dict(overlap_thresh=0.3, topk=3),
]:
    C("nms", S.contrib.box_nms(d, coord_start=2, score_index=1, **kw), {"data": bx(2, 12)})
C(
    "nms",
    S.contrib.box_nms(d, coord_start=1, score_index=0, overlap_thresh=0.2),
    {"data": bx(1, 9, False)[0]},
)
C(
    "nms",
    S.contrib.box_nms(d, coord_start=1, score_index=0, overlap_thresh=0.2),
    {"data": bx(4, 9, False).reshape(2, 2, 9, 5)},
)
for kw in [
    dict(format="corner"),
    dict(format="center", std0=0.1, std1=0.1, std2=0.2, std3=0.2),
    dict(clip=0.5, format="center"),
]:
    C(
        "bdec",
        S.contrib.box_decode(d, v("a"), **kw),
        {"data": R(2, 3, 4), "a": np.array([[[0, 0, 2, 2], [1, 1, 4, 3], [0, 1, 1, 5]]], "f")},
    )
for f in ["corner", "center"]:
    C(
        "iou",
        S.contrib.box_iou(d, v("b"), format=f),
        {"data": bx(1, 4, False)[0, :, 1:], "b": bx(1, 5, False)[0, :, 1:]},
    )
for kw in [
    dict(
        rpn_pre_nms_top_n=50,
        rpn_post_nms_top_n=5,
        feature_stride=8,
        scales=(2, 4),
        ratios=(0.5, 1, 2),
        rpn_min_size=4,
    ),
    dict(
        rpn_pre_nms_top_n=30,
        rpn_post_nms_top_n=20,
        feature_stride=16,
        scales=(2, 4),
        ratios=(0.5, 1, 2),
        rpn_min_size=16,
        output_score=True,
        threshold=0.5,
    ),
]:
    C(
        "prop",
        S.contrib.Proposal(v("c"), v("b"), v("i"), **kw),
        {
            "c": np.abs(R(1, 12, 4, 5)),
            "b": R(1, 24, 4, 5) * 0.2,
            "i": np.array([[4 * kw["feature_stride"], 5 * kw["feature_stride"], 1.5]], "f"),
        },
    )
    C(
        "mprop",
        S.contrib.MultiProposal(v("c"), v("b"), v("i"), **kw),
        {
            "c": np.abs(R(2, 12, 4, 5)),
            "b": R(2, 24, 4, 5) * 0.2,
            "i": np.array(
                [
                    [4 * kw["feature_stride"], 5 * kw["feature_stride"], 1.5],
                    [4 * kw["feature_stride"] - 3, 4 * kw["feature_stride"], 1],
                ],
                "f",
            ),
        },
    )
for m in ["lstm", "gru", "rnn_tanh", "rnn_relu"]:
    for bi in [False, True]:
        for L in [1, 3]:
            for so in [True, False]:
                D = 2 if bi else 1
                H = 3
                Iz = 4
                ins = {"data": R(5, 2, Iz), "state": R(L * D, 2, H)}
                kw = dict(state=v("state"))
                if m == "lstm":
                    ins["state_cell"] = R(L * D, 2, H)
                    kw["state_cell"] = v("state_cell")
                g = {"lstm": 4, "gru": 3}.get(m, 1)
                nn = sum(D * g * H * ((Iz if l == 0 else H * D) + H + 2) for l in range(L))
                C(
                    "rnn",
                    S.RNN(
                        d,
                        parameters=v("p"),
                        state_size=H,
                        num_layers=L,
                        bidirectional=bi,
                        mode=m,
                        state_outputs=so,
                        name="r",
                        **kw
                    ),
                    ins,
                    {"p": R(nn) * 0.3},
                )
C(
    "rnnlen",
    S.RNN(
        d,
        parameters=v("p"),
        state=v("state"),
        sequence_length=v("l"),
        use_sequence_length=True,
        state_size=3,
        num_layers=1,
        mode="gru",
        state_outputs=True,
        name="r",
    ),
    {"data": R(5, 2, 4), "state": R(1, 2, 3), "l": np.array([3, 5], "f")},
    {"p": R(3 * 3 * (4 + 3 + 2)) * 0.3},
)
C("cropc", S.Crop(d, num_args=1, h_w=(4, 5), offset=(2, 1)), {"data": x4})
C("cropl", S.Crop(d, v("b"), num_args=2, center_crop=True), {"data": x4, "b": R(1, 1, 4, 6)})
C("bmask", S.contrib.boolean_mask(d, v("m")), {"data": R(4, 3), "m": np.array([1, 0, 1, 0], "f")})
C(
    "icopy",
    S.contrib.index_copy(d, v("i"), v("n")),
    {"data": R(4, 3), "i": np.array([2, 0], "int32"), "n": R(2, 3)},
)
C("flat", S.Flatten(d), {"data": x4})
C("flat", S.Flatten(d), {"data": R(3)})
C("sact", S.SoftmaxActivation(d), {"data": x4})
C("sact", S.SoftmaxActivation(d, mode="channel"), {"data": x3})
C("amp", S.amp_cast(d, dtype="float16"), {"data": x3})
C(
    "rpc",
    (
        S._internal._rnn_param_concat(d, v("b"), dim=0)
        if hasattr(S._internal, "_rnn_param_concat")
        else d
    ),
    {"data": R(3), "b": R(4)},
)
print(n[0])

d = v("data")
s = v("s0")
w = v("w")


def body(x, st):
    h = S.tanh(S.broadcast_add(S.dot(x, w), st))
    return h * 2, h


o, st = S.contrib.foreach(body, d, s)
case("foreach_simple", [o, st], {"data": R(5, 2, 3), "s0": R(2, 4)}, {"w": R(3, 4)})
o, st = S.contrib.foreach(
    lambda x, st: ([x[0] + st[0], x[1] * st[1]], [st[0] + x[0], st[1] + 1]),
    [d, v("d2")],
    [s, v("s1")],
)
case(
    "foreach_multi",
    list(o) + list(st),
    {"data": R(5, 2, 3), "d2": R(5, 2, 3), "s0": R(2, 3), "s1": R(2, 3)},
)
i = v("i")
o, st = S.contrib.while_loop(
    lambda i, s: i < 4,
    lambda i, s: (S.broadcast_mul(s, i) + w, [i + 1, S.broadcast_add(s, i)]),
    [i, s],
    max_iterations=7,
)
case(
    "while_simple",
    list(o if isinstance(o, (list, tuple)) else [o]) + list(st),
    {"i": np.array([[0]], "f"), "s0": R(1, 3)},
    {"w": R(1, 3)},
)
o = S.contrib.cond(S.sum(d) > 0, lambda: d * 2 + w, lambda: d - w)
case("cond_t", [o], {"data": np.abs(R(2, 3))}, {"w": R(2, 3)})
case("cond_f", [o], {"data": -np.abs(R(2, 3))}, {"w": R(2, 3)})

# Linear algebra, and operators of mx.np.

M = R(2, 4, 4)
PD = np.einsum("bij,bkj->bik", M, M) + 2 * np.eye(4, dtype="f")
PD = PD.astype("f")
b = v("b")
d = v("data")
for x in (PD, PD[0]):
    C("potrf", S.linalg.potrf(d), {"data": x})
    L = np.linalg.cholesky(x).astype("f")
    C("potri", S.linalg.potri(d), {"data": L})
    C("inv", S.linalg.inverse(d), {"data": x})
    C("inv", S.linalg.inverse(d), {"data": (M if x.ndim == 3 else M[0])})
    C("det", S.linalg.det(d), {"data": x})
    C("slogdet", S.linalg.slogdet(d), {"data": M if x.ndim == 3 else M[0]})
    C("sld", S.linalg.sumlogdiag(d), {"data": L + np.float32(0)})
    for tr in (0, 1):
        for rs in (0, 1):
            for lo in (0, 1):
                T = L if lo else np.swapaxes(L, -1, -2).copy()
                B = R(*(x.shape[:-2] + ((3, 4) if rs else (4, 3))))
                C(
                    "trsm",
                    S.linalg.trsm(
                        d, b, transpose=bool(tr), rightside=bool(rs), lower=bool(lo), alpha=1.5
                    ),
                    {"data": T, "b": B},
                )
                C(
                    "trmm",
                    S.linalg.trmm(
                        d, b, transpose=bool(tr), rightside=bool(rs), lower=bool(lo), alpha=0.5
                    ),
                    {"data": T, "b": B},
                )
    for o in (-2, -1, 0, 1, 3):
        C("xd", S.linalg.extractdiag(d, offset=o), {"data": x})
        C("md", S.linalg.makediag(d, offset=o), {"data": R(*x.shape[:-1])})
        for lo in (True, False):
            C("xt", S.linalg.extracttrian(d, offset=o, lower=lo), {"data": x})
            C("mt", S.linalg.maketrian(d, offset=o, lower=lo), {"data": R(*(x.shape[:-2] + (6,)))})
C("kr", S.khatri_rao(d, b), {"data": R(2, 3), "b": R(4, 3)})
C("kr", S.khatri_rao(d, b, v("c")), {"data": R(2, 3), "b": R(4, 3), "c": R(3, 3)})
for kw in [
    dict(axes=(0,)),
    dict(axes=(0, 2), keepdims=True),
    dict(),
    dict(axes=(0, 1, 2)),
    dict(axes=(-1,)),
]:
    C("mom", S.moments(d, **kw), {"data": x3})
C("sce", S.softmax_cross_entropy(d, b), {"data": R(4, 5), "b": np.array([0, 3, 4, 1], "f")})
C("fin", S.all_finite(d), {"data": x3})
xi = x3.copy()
xi[0, 0, 0] = np.inf
C("fin", S.all_finite(d), {"data": xi})
C("ssq", S.multi_sum_sq(d, b, num_arrays=2), {"data": x3, "b": R(5)})
C("quad", S.contrib.quadratic(d, a=2, b=-1, c=0.5), {"data": x3})
C("rste", S.contrib.round_ste(d), {"data": x3 * 3})
C("sste", S.contrib.sign_ste(d), {"data": x3})
C("ia", S.contrib.index_array(d), {"data": x3})
C("ia", S.contrib.index_array(d, axes=(1, 0)), {"data": x3})
C("ia", S.contrib.index_array(d, axes=(-1,)), {"data": x3})
C(
    "ravel",
    S.ravel_multi_index(d, shape=(4, 5, 6)),
    {"data": np.array([[0, 3], [1, 4], [5, 2]], "f")},
)
C("unravel", S.unravel_index(d, shape=(4, 5, 6)), {"data": np.array([0, 119, 37, 64], "f")})
C(
    "sset",
    I._scatter_set_nd(d, b, v("i"), shape=(3, 4)),
    {"data": R(3, 4), "b": R(2), "i": np.array([[0, 2], [1, 3]], "f")},
)
C("sa", I._slice_assign(d, b, begin=(0, 1), end=(2, 3)), {"data": x3, "b": R(2, 2, 4)})
C(
    "sa",
    I._slice_assign(d, b, begin=(None, 2, 3), end=(None, 0, None), step=(1, -1, -2)),
    {"data": x3, "b": R(2, 2, 2)},
)
C("sas", I._slice_assign_scalar(d, scalar=3, begin=(1,), end=(2,)), {"data": x3})
C(
    "sas",
    I._slice_assign_scalar(d, scalar=-2, begin=(None, 0), end=(None, 3), step=(None, 2)),
    {"data": x3},
)
for kw in [
    dict(kernel=(2, 2)),
    dict(kernel=(3, 2), stride=(2, 1), pad=(1, 0)),
    dict(kernel=(2, 3), dilate=(2, 1), pad=(0, 2)),
]:
    C("i2c", S.im2col(d, **kw), {"data": x4})
    s = mx.nd.im2col(mx.nd.array(x4), **kw).shape
    C("c2i", S.col2im(d, output_size=(7, 9), **kw), {"data": R(*s)})
C("i2c", S.im2col(d, kernel=(3,)), {"data": R(2, 3, 8)})


def boxes(*s):
    a = np.random.RandomState(3).rand(*s, 2, 2)
    a.sort(-2)
    return (a.reshape(s + (4,)) * 10 + np.array([0, 0, 1, 1])).astype("f")


C(
    "benc",
    S.contrib.box_encode(d, b, v("a"), v("r"), v("m"), v("s")),
    {
        "data": np.array([[1, 0, -1, 1], [1, 1, 0, 0]], "f"),
        "b": np.array([[0, 1, 2, 2], [2, 1, 0, 0]], "f"),
        "a": boxes(2, 4),
        "r": boxes(2, 3),
        "m": np.array([0, 0.1, 0.2, 0], "f"),
        "s": np.array([0.1, 0.1, 0.2, 0.2], "f"),
    },
)
rois = np.array(
    [[0, 0, 0, 5, 5], [1, 2.3, 1.2, 8.9, 6.6], [0, -3, -2, 4, 20], [1, 7, 6, 7, 6]], "f"
)
for kw in [
    dict(pooled_size=2, output_dim=2),
    dict(pooled_size=3, output_dim=1, group_size=2),
    dict(pooled_size=2, output_dim=2, spatial_scale=0.5),
]:
    kw = {"spatial_scale": 1.0, **kw}
    g = kw.get("group_size", kw["pooled_size"])
    C(
        "psroi",
        S.contrib.PSROIPooling(d, b, **kw),
        {"data": R(2, kw["output_dim"] * g * g, 7, 9), "b": rois},
    )
C("diag", S.diag(d), {"data": R(3)})
C("diag", S.diag(d, k=1), {"data": R(3, 4)})
C("diag", S.diag(d, k=-1, axis1=-1, axis2=0), {"data": x3})
C("diag", S.diag(d, k=-2), {"data": R(3)})
# mx.np
N = mx.sym.np
npx = mx.sym.npx


def D(name, f, ins):
    with mx.util.np_shape(True):
        vs = [mx.sym.var(k).as_np_ndarray() for k in ins]
        try:
            sym = f(*vs)
        except Exception as e:
            print("FAIL build", name, str(e)[:100])
            return
        sym = sym if not isinstance(sym, (list, tuple)) else mx.sym.Group(list(sym))
        n[0] += 1
        nm = "np_%s_%d" % (name, n[0])
        try:
            sym.save(nm + "-symbol.json")
            ex = sym.bind(
                mx.cpu(),
                {k: mx.nd.array(x, dtype=x.dtype) for k, x in ins.items()},
                grad_req="null",
            )
            outs = ex.forward(is_train=False)
            outs = [o.asnumpy() for o in outs]
            mx.nd.save(nm + "-0000.params", {"arg:unused": mx.nd.zeros(1)})
            np.savez(
                nm + "-io.npz",
                **{"in:" + k: x for k, x in ins.items()},
                **{
                    "out:%d:%s" % (i, o): a
                    for i, (o, a) in enumerate(zip(sym.list_outputs(), outs))
                }
            )
        except Exception as e:
            import glob

            for f_ in glob.glob(nm + "-*"):
                os.remove(f_)
            print("FAIL", name, str(e).split("\n")[0][:150])


ii = np.array([[1, -2, 3], [4, 5, -7]], "int32")
xf = R(2, 3)
U = np.clip(xf, -0.9, 0.9)
for f in "absolute arccos arcsin arctanh".split():
    D(f, getattr(N, f), {"data": U})
for (
    f
) in "arctan arcsinh cbrt ceil cos cosh degrees expm1 fix floor negative radians reciprocal rint sign sin sinh square tan trunc exp tanh logical_not isnan isinf isfinite isposinf isneginf".split():
    D(f, getattr(N, f), {"data": xf * 2})
    D(f + "i", getattr(N, f), {"data": ii})
for f in "log10 log1p log2 log sqrt".split():
    D(f, getattr(N, f), {"data": abs(xf) + 0.1})
    D(f + "i", getattr(N, f), {"data": abs(ii)})
D("arccosh", N.arccosh, {"data": abs(xf) + 1})
z = np.array([[np.nan, np.inf, -np.inf], [0, 1, -1]], "f")
for f in "isnan isinf isfinite isposinf isneginf".split():
    D(f, getattr(N, f), {"data": z})
for (
    f
) in "add subtract multiply true_divide mod power hypot equal not_equal greater greater_equal less less_equal maximum minimum".split():
    if not hasattr(N, f):
        continue
    g = getattr(N, f)
    p = abs(xf) + 0.2
    D("b" + f, g, {"data": p, "b": R(3) if f != "power" else R(1, 3)})
    D("bi" + f, g, {"data": abs(ii), "b": np.array([2, 3, 2], "int32")})
    D("m" + f, g, {"data": abs(ii), "b": p[:1]})
    D("s" + f, lambda a, g=g: g(a, 2), {"data": p})
    D("si" + f, lambda a, g=g: g(a, 2), {"data": abs(ii)})
    D("sf" + f, lambda a, g=g: g(a, 1.5), {"data": abs(ii)})
    D("r" + f, lambda a, g=g: g(3.5, a), {"data": p})
for f in "sum max min prod mean".split():
    for kw in [{}, dict(axis=0), dict(axis=(0, 2), keepdims=True), dict(axis=-1)]:
        D(f, lambda a: getattr(N, f)(a, **kw), {"data": x3})
    D(f + "i", lambda a: getattr(N, f)(a, axis=1), {"data": ii})
for f in "std var".split():
    for kw in [{}, dict(axis=0), dict(axis=(0, 2), keepdims=True), dict(axis=-1, ddof=1)]:
        D(f, lambda a: getattr(N, f)(a, **kw), {"data": x3})
for f in "argmax argmin".split():
    for kw in [{}, dict(axis=0), dict(axis=-1)]:
        D(f, lambda a: getattr(N, f)(a, **kw), {"data": x3})
for f in "any all".split():
    for kw in [{}, dict(axis=0), dict(axis=1, keepdims=True)]:
        D(f, lambda a: getattr(N, f)(a, **kw), {"data": np.array([[0, 1, 2], [0, 0, 3]], "f")})
for kw in [{}, dict(axis=0), dict(axis=-1)]:
    D("cumsum", lambda a: N.cumsum(a, **kw), {"data": x3})
for ax in (0, -1):
    D("cat", lambda a, b: N.concatenate([a, b], axis=ax), {"data": xf, "b": xf + 1})
    D("stack", lambda a, b: N.stack([a, b], axis=ax), {"data": xf, "b": xf + 1})
D("vstack", lambda a, b: N.vstack([a, b]), {"data": xf, "b": xf + 1})
D("hsplit", lambda a: list(N.hsplit(a, 2)), {"data": R(2, 4)})
D("split", lambda a: list(N.split(a, 2, axis=1)), {"data": R(2, 4)})
D("bto", lambda a: N.broadcast_to(a, (4, 2, 3)), {"data": xf})
D("fl", lambda a: N.full_like(a, 2.5), {"data": xf})
D("zl", lambda a: N.zeros_like(a), {"data": xf})
D("where", lambda c, a, b: N.where(c, a, b), {"data": (xf > 0).astype("f"), "a": xf, "b": R(3)})
D("wherel", lambda c, a: N.where(c, 2.0, a), {"data": (xf > 0).astype("f"), "a": xf})
D("wherer", lambda c, a: N.where(c, a, 2.0), {"data": (xf > 0).astype("f"), "a": xf})
D("tril", lambda a: N.tril(a, k=-1), {"data": R(4, 4)})
D("tril", lambda a: N.tril(a, k=1), {"data": R(2, 3, 4)})
D("mv", lambda a: N.moveaxis(a, 0, -1), {"data": x3})
D("mv", lambda a: N.moveaxis(a, (0, 1), (2, 0)), {"data": x3})
D("roll", lambda a: N.roll(a, 2), {"data": x3})
D("roll", lambda a: N.roll(a, -1, axis=1), {"data": x3})
D("roll", lambda a: N.roll(a, (1, 2), axis=(0, 2)), {"data": x3})
D("es", lambda a, b: N.einsum("ij,kj->ik", a, b), {"data": xf, "b": xf + 1})
D("dot", lambda a, b: N.dot(a, b), {"data": R(2, 3, 4), "b": R(5, 4, 2)})
D("dot", lambda a, b: N.dot(a, b), {"data": R(4), "b": R(4)})
D("mm", lambda a, b: N.matmul(a, b), {"data": R(2, 3, 4), "b": R(4, 2)})
D("td", lambda a, b: N.tensordot(a, b, axes=1), {"data": R(2, 3), "b": R(3, 4)})
D(
    "td",
    lambda a, b: N.tensordot(a, b, axes=((0, 1), (1, 0))),
    {"data": R(2, 3, 4), "b": R(3, 2, 5)},
)
D("eye", lambda a: a + N.eye(2, 3), {"data": xf})
D("id", lambda a: a + N.identity(3), {"data": R(3, 3)})
D("ar", lambda a: a + N.arange(3), {"data": xf})
D("zeros", lambda a: a + N.zeros((2, 3)) + N.ones((3,)), {"data": xf})
D("sq", lambda a: N.squeeze(a), {"data": R(1, 3, 1)})
D("ed", lambda a: N.expand_dims(a, 1), {"data": xf})
D("tr", lambda a: a.T, {"data": xf})
D("rs", lambda a: a.reshape((3, -1)), {"data": xf})
D("clip", lambda a: N.clip(a, -0.5, 0.5), {"data": xf})
D("flip", lambda a: N.flip(a, 0), {"data": xf})
D("take", lambda a, b: N.take(a, b, axis=1), {"data": xf, "b": np.array([0, 2], "int32")})


# Loops over time.
import json


def chances(*shape):
    return np.abs(R(*shape)) * 2


def ctc(labels, classes, blank, time=9):
    batch, length = labels
    low, high = (1, classes) if blank == "first" else (0, classes - 1)
    numbers = rng.randint(low, high, (batch, length)).astype("f")
    # One repeats a label, and one ends early.
    numbers[0, 1] = numbers[0, 0]
    numbers[1, 2:] = 0 if blank == "first" else -1
    return {"data": R(time, batch, classes) * 2, "label": numbers}


for blank in ("first", "last"):
    ins = ctc((3, 4), 6, blank)
    C("ctc", S.CTCLoss(d, v("label"), blank_label=blank, name="y"), ins)
    times = {"times": np.array([9, 7, 8], "f")}
    C(
        "ctc",
        S.CTCLoss(d, v("label"), v("times"), use_data_lengths=True, blank_label=blank, name="y"),
        {**ins, **times},
    )
    counts = {"counts": np.array([4, 2, 3], "f")}
    C(
        "ctc",
        S.CTCLoss(
            d,
            v("label"),
            v("times"),
            v("counts"),
            use_data_lengths=True,
            use_label_lengths=True,
            blank_label=blank,
            name="y",
        ),
        {**ins, **times, **counts},
    )
ins = ctc((3, 4), 6, "first")
ins["label"][1, :] = 0
C("ctc", S.CTCLoss(d, v("label"), name="y"), ins)

for layers, both, projection in ((1, False, 3), (2, False, 4), (2, True, 2)):
    C(
        "rnn_projected",
        S.RNN(
            d,
            v("p"),
            v("h"),
            v("c"),
            mode="lstm",
            state_size=5,
            num_layers=layers,
            bidirectional=both,
            projection_size=projection,
            state_outputs=True,
            name="y",
        ),
        {
            "data": R(4, 2, 3),
            "h": R(layers * (1 + both), 2, projection),
            "c": R(layers * (1 + both), 2, 5),
        },
    )


def imperative(name, sym, ins, outs):
    """Records what operators return that are called one by one: MXNet 1.9.1 cannot bind `quantize_asym`."""
    n[0] += 1
    name = "%s_%d" % (name, n[0])
    if isinstance(sym, (list, tuple)):
        sym = S.Group(list(sym))
    sym.save(name + "-symbol.json")
    mx.nd.save(name + "-0000.params", {})
    outs = {
        "out:%d:%s" % (i, o): x.asnumpy() for i, (o, x) in enumerate(zip(sym.list_outputs(), outs))
    }
    np.savez(name + "-io.npz", **{"in:" + k: x for k, x in ins.items()}, **outs)


for ranges in ({}, {"min_calib_range": -1.5, "max_calib_range": 2.5}):
    x = np.clip(R(2, 3, 7), -1.5, 2.5)
    outs = mx.nd.contrib.quantize_asym(mx.nd.array(x), **ranges)
    imperative("quantize_asym", S.contrib.quantize_asym(d, name="y", **ranges), {"data": x}, outs)

for layers, both in ((1, False), (2, False), (1, True), (2, True)):
    first = layers * (1 + both)
    # Of two neighboring weights, one is 0: without VNNI, oneDNN saturates the sum of both products.
    parts = []
    for layer in range(layers):
        for _ in range(1 + both):
            for columns in (3 if layer == 0 else 5 * (1 + both), 5):
                part = R(20, columns) * 0.5
                part[:, 1::2] = 0
                parts.append(part.ravel())
    parts.append(R(first * 40) * 0.3)
    ins = {
        "data": R(4, 2, 3),
        "p": np.concatenate(parts),
        "h": np.zeros((first, 2, 5), "f"),
        "c": R(first, 2, 5),
    }
    options = dict(
        mode="lstm", state_size=5, num_layers=layers, bidirectional=both, state_outputs=True
    )
    data, *rest = (mx.nd.array(x) for x in ins.values())
    made = mx.nd.contrib.quantize_asym(data)
    outs = mx.nd.contrib.quantized_rnn(made[0], *rest, *made[1:], **options)
    q = S.contrib.quantize_asym(d, name="q")
    # Python has other names of the last inputs than the operator, and so cannot make it.
    y = S.RNN(q[0], v("p"), v("h"), v("c"), name="y", **options)
    graph = json.loads(y.tojson())
    (node,) = [node for node in graph["nodes"] if node["op"] == "RNN"]
    node["op"] = "_contrib_quantized_rnn"
    node["inputs"] += [[node["inputs"][0][0], output, 0] for output in (1, 2)]
    y = S.load_json(json.dumps(graph))
    try:
        imperative("quantized_rnn", y, ins, outs)
    except mx.MXNetError as e:
        # Some processors lack it.
        print("FAIL quantized_rnn", str(e).split("\n")[0][:150])

# Fills whose dims of 0 are unknown: the first states of unrolled cells have the batch of the data.
from mxnet.gluon import rnn

for cell in (
    rnn.RNNCell(5, prefix="r_"),
    rnn.LSTMCell(5, prefix="l_"),
    rnn.GRUCell(5, prefix="g_"),
    rnn.ResidualCell(rnn.GRUCell(3, prefix="e_")),
    rnn.BidirectionalCell(rnn.LSTMCell(4, prefix="bl_"), rnn.GRUCell(4, prefix="br_")),
):
    outputs, states = cell.unroll(3, d, layout="NTC", merge_outputs=True)
    C("cell", [outputs] + states, {"data": R(2, 3, 3)})
conv = mx.gluon.contrib.rnn.Conv2DLSTMCell((2, 5, 6), 3, (3, 3), (3, 3), i2h_pad=(1, 1), prefix="c_")
C("cell_conv", conv.unroll(2, d, layout="NTC", merge_outputs=True)[0], {"data": R(2, 2, 2, 5, 6)})
state = S.zeros(shape=(2, 0, 4))
C("rnn_open_state", S.RNN(d, v("p"), state, state_size=4, num_layers=2, mode="gru", name="y"), {"data": R(5, 3, 2)},
  {"p": R(12 * (2 + 4) + 24 + 12 * 8 + 24) * 0.3})
C("open_fill", [
    S.elemwise_add(S.full((0, 4), 2.5), d),
    S.elemwise_mul(S.ones((0, 0)), d),
    S.concat(S.zeros((0, 2)), d, dim=1),
    S.elemwise_add(S.transpose(S.ones((4, 0)), axes=(1, 0)), d),
    S.elemwise_sub(d, S.reshape(S.full((0, 2, 2), 0.5), shape=(0, -1))),
], {"data": R(3, 4)})

# Element types that variables declare, or that follow from parameters.
half = lambda *shape: R(*shape).astype("float16")
h = v("data", dtype="float16")
C("half", S.broadcast_add(S.broadcast_mul(h, v("w")), v("b", dtype="float16")), {"data": half(2, 3)}, {"w": half(1, 3), "b": half(2, 1)})
C("half_by_use", S.broadcast_div(S.relu(d), v("w")), {"data": half(3, 4)}, {"w": half(1, 4)})
whole = np.array([[-7, -3, -2, -1], [0, 1, 2, 7]], "int32")
i = v("data", dtype="int32")
C("whole", [i / 2, 7 / (i + 9), i % 3, 7 % (i + 9), i * 2, i - 1, 3 - i, S.broadcast_div(i, v("y", dtype="int32"))],
  {"data": whole, "y": np.array([[2, -2, 3, -3]], "int32")})

# Windows in the padding, and behind the image.
windows = [
    dict(kernel=(2, 2), stride=(2, 2), pad=(2, 2), pooling_convention="full"),
    dict(kernel=(2, 2), stride=(2, 2), pad=(1, 1), pooling_convention="full"),
    dict(kernel=(2, 3), stride=(3, 2), pad=(0, 1), pooling_convention="full"),
    dict(kernel=(1, 2), stride=(3, 4), pad=(0, 0), pooling_convention="full"),
    dict(kernel=(3, 3), stride=(2, 2), pad=(0, 0), pooling_convention="full"),
    dict(kernel=(3, 2), stride=(2, 1), pad=(1, 1), pooling_convention="valid"),
    dict(kernel=(1, 1), stride=(2, 1), pad=(2, 1), pooling_convention="valid"),
    dict(kernel=(2, 1), stride=(1, 2), pad=(4, 0), pooling_convention="valid"),
]
for size in ((5, 7), (6, 4)):
    outs = []
    for window in windows:
        for kind in ("max", "avg", "sum", "lp"):
            for counted in (True, False) if kind == "avg" else (True,):
                more = {"p_value": 2} if kind == "lp" else {}
                options = dict(window, pool_type=kind, count_include_pad=counted, **more)
                try:
                    # oneDNN rejects some windows that MXNet's own pools take.
                    mx.nd.Pooling(mx.nd.array(R(1, 2, *size)), **options).wait_to_read()
                except mx.MXNetError:
                    continue
                outs.append(S.Pooling(d, **options))
            if kind != "lp":
                outs.append(S.Pooling_v1(d, **dict(window, pool_type=kind)))
    C("windows", outs, {"data": R(1, 2, *size)})
C("pad_reflect", S.Pad(S.Convolution(d, kernel=(3, 3), num_filter=2, name="c"), mode="reflect", pad_width=(0, 0, 0, 0, 1, 2, 2, 0)),
  {"data": R(1, 2, 6, 7)})


def several(name, calls, ins, params=None):
    """One program of several operators; a call that fails is left out and named."""
    outs = []
    for call in calls:
        try:
            out = call()
            out.simple_bind(mx.cpu(), grad_req="null", **{k: x.shape for k, x in ins.items() if k in out.list_arguments()})
            outs += list(out)
        except Exception as e:
            print("FAIL", name, str(e).split("\n")[0][:150])
    C(name, outs, ins, params)


a, b = v("a"), v("b")
names = ("_equal _greater _greater_equal _lesser _lesser_equal _not_equal _hypot _logical_and _logical_or _logical_xor _maximum "
         "_minimum _mod _power _grad_add _scatter_elemwise_div").split()
several("equal_shapes", [lambda f=f: getattr(I, f)(a, b) for f in names], {"a": np.abs(R(3, 4)) + 0.5, "b": np.abs(R(3, 4)) + 0.5})
several("old_layers", [lambda: S.Convolution_v1(d, num_filter=2, kernel=(3, 3), name="cv1"),
                       lambda: S.BatchNorm_v1(d, name="bnv1"), lambda: S.contrib.SyncBatchNorm(d, key="k", name="sbn"),
                       lambda: S.contrib.BatchNormWithReLU(d, name="bnr"),
                       lambda: S.Pooling_v1(d, kernel=(2, 2), stride=(2, 2), pool_type="max")], {"data": R(1, 2, 6, 5)})
several("zeros", [lambda: a + I._zeros(shape=(3, 4)), lambda: a + I._zeros_without_dtype(shape=(3, 4))], {"a": R(3, 4)})
several("margins", [lambda: S.SVMOutput(d, v("label"))], {"data": R(3, 4), "label": np.array([1, 0, 3], "f")})
several("sparse_embedding", [lambda: S.contrib.SparseEmbedding(d, v("w"), input_dim=5, output_dim=3)],
        {"data": np.array([1, 4, 0], "f"), "w": R(5, 3)})
low, high = v("low"), v("high")
quantize = lambda x: S.contrib.quantize(x, low, high, out_type="int8")


def eight(function):
    """Returns a quantized operator between a quantized and a dequantized tensor."""
    q = quantize(d)
    out = function(q[0], q[1], q[2])
    return S.contrib.dequantize(out[0], out[1], out[2])


bounds = {"data": R(1, 2, 6, 5).clip(-2, 2), "low": np.array([-2], "f"), "high": np.array([2], "f")}
several("q_parts", [
    lambda: eight(lambda q, l, h: S.contrib.quantized_act(q, l, h, act_type="relu")),
    lambda: eight(lambda q, l, h: S.contrib.quantized_elemwise_add(q, q, l, h, l, h)),
    lambda: eight(lambda q, l, h: S.contrib.quantized_elemwise_mul(q, q, l, h, l, h)),
    lambda: eight(lambda q, l, h: S.contrib.quantized_concat(q, q, l, l, h, h, num_args=2, dim=1)),
    lambda: eight(lambda q, l, h: S.contrib.quantized_flatten(q, l, h)),
    lambda: eight(lambda q, l, h: S.contrib.quantized_pooling(q, l, h, kernel=(2, 2), stride=(2, 2), pool_type="max")),
], bounds)


# Quantized operators by oneDNN, whose ranges are not symmetric; MXNET_SUBGRAPH_BACKEND must be NONE.
eights = np.random.RandomState(8)
signed = lambda *s: eights.randint(-127, 128, s).astype("int8")
unsigned = lambda *s: eights.randint(0, 256, s).astype("uint8")
ends = lambda *numbers: {name: np.array([number], "f") for name, number in zip("lmrsuv", numbers)}
Q = S.contrib
left, right = (v("l"), v("m")), (v("r"), v("s"))
calibrated = {"min_calib_range": -0.7, "max_calib_range": 1.0}
mixed = ends(-0.8, 1, -0.5, 0.4, -0.1, 0.2)
four = {k: mixed[k] for k in "lmrs"}


def eight_bits(name, outs, ins):
    case("quantized_" + name, outs, ins)


for name, make in (("signed", signed), ("unsigned", unsigned)):
    pair = {"a": make(3, 5), "b": make(3, 5)}
    add = lambda name, **k: Q.quantized_elemwise_add(a, b, *left, *right, name=name, **k)
    eight_bits("add_" + name, [add("open"), add("calibrated", **calibrated)], {**pair, **four})
    dense = {"a": make(4, 6), "w": signed(3, 6), "b": signed(3)}
    fc = lambda name, *i, **k: Q.quantized_fully_connected(*i, num_hidden=3, name=name, **k)
    fc = fc("y", a, v("w"), b, *left, *right, v("u"), v("v"))
    eight_bits("dense_" + name, fc, {**dense, **mixed})
    statistics = {"gamma": R(2), "beta": R(2)}
    norm = Q.quantized_batch_norm(a, v("gamma"), v("beta"), v("mean"), v("var"), *left, fix_gamma=False, eps=1e-3, name="y", **calibrated)
    eight_bits("norm_" + name, norm, {"a": make(1, 2, 3, 4), **statistics, **{k: mixed[k] for k in "lm"}})
    words = ("int8", "uint8")
    x = R(4, 6)
    types = [f(t) for t in words for f in (
        lambda t: Q.quantize(d, *left, out_type=t, name="first_" + t),
        lambda t: Q.quantize_v2(d, out_type=t, name="second_" + t),
        lambda t: Q.quantize_v2(d, out_type=t, min_calib_range=0.2, max_calib_range=0.9, name="above_" + t))]
    if make is signed:
        eight_bits("types", types, {"data": x, **{k: mixed[k] for k in "lm"}})
    eight_bits("numbers_" + name, Q.dequantize(a, *left, name="y"), {"a": make(3, 5), **{k: mixed[k] for k in "lm"}})
mul = lambda name, **k: Q.quantized_elemwise_mul(lhs=a, rhs=b, lhs_min=left[0], lhs_max=left[1], rhs_min=right[0], rhs_max=right[1], name=name, **k)
eight_bits("mul", [mul("open"), mul("calibrated", **calibrated), mul("floats", enable_float_output=True)], {"a": signed(3, 5), "b": signed(3, 5), **four})
wide = eights.randint(-(2**30), 2**30, (4, 6)).astype("int32")
requantize = [Q.requantize(a, *left, name="open"), Q.requantize(a, *left, name="calibrated", **calibrated),
              Q.requantize(a, *left, out_type="auto", min_calib_range=0.1, max_calib_range=0.3, name="above")]
eight_bits("wide", requantize, {"a": wide, **{k: mixed[k] for k in "lm"}})
conv = dict(kernel=(3, 3), num_filter=4)
image = {"a": unsigned(1, 2, 5, 5), "w": signed(4, 2, 3, 3)}
eight_bits("conv", Q.quantized_conv(data=a, weight=v("w"), min_data=left[0], max_data=left[1], min_weight=right[0], max_weight=right[1], no_bias=True, name="y", **conv), {**image, **four})
eight_bits("conv_bias", Q.quantized_conv(a, v("w"), b, *left, *right, v("u"), v("v"), name="y", **conv), {**image, "b": signed(4), **mixed})
eight_bits("embedding", Q.quantized_embedding(a, v("w"), *left, input_dim=4, output_dim=3, name="y"), {"a": np.array([0, 3, 1], "f"), "w": signed(4, 3), **{k: mixed[k] for k in "lm"}})
print(n[0])
