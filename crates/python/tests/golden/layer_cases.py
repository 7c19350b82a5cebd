"""Calls of layers, for `paddle.fluid` 1.8.5 and for `lodstone.program` alike.

A case is a function of the module of layers `L`, the package `F`, and the inputs, which returns the results.
"""

import numpy as np

CASES = []


class Case:
    def __init__(self, name, inputs, build):
        self.name, self.inputs, self.build = name, inputs, build


def floats(*shape, low=-1.0, high=1.0, seed=0):
    values = np.random.RandomState(seed + sum(shape) * 7 + len(shape)).uniform(low, high, shape)
    return values.astype("float32")


def ints(*shape, high=10, low=0, seed=0, dtype="int64"):
    return np.random.RandomState(seed + sum(shape)).randint(low, high, shape).astype(dtype)


def bools(*shape, seed=0):
    return np.random.RandomState(seed + sum(shape)).randint(0, 2, shape).astype("bool")


def add(name, inputs, build):
    assert all(name != case.name for case in CASES), name
    CASES.append(Case(name, inputs, build))


def given(F, values):
    return F.ParamAttr(initializer=F.initializer.NumpyArrayInitializer(values))


X = floats(3, 4)
POSITIVE = floats(3, 4, low=0.1, high=2.0)
IMAGE = floats(2, 4, 6, 6)
VOLUME = floats(1, 2, 4, 4, 4)

for kind in (
    "abs acos asin atan ceil cos erf exp floor logsigmoid reciprocal relu round sigmoid sign sin softsign square tanh "
    "tanh_shrink mish"
).split():
    add(kind, {"x": X}, lambda L, F, x, kind=kind: getattr(L, kind)(x))
for kind in "log rsqrt sqrt log1p".split():
    add(kind, {"x": POSITIVE}, lambda L, F, x, kind=kind: getattr(L, kind)(x))
for kind, values in {
    "brelu": {"t_min": -0.5, "t_max": 0.3},
    "elu": {"alpha": 0.7},
    "gelu": {},
    "hard_shrink": {"threshold": 0.3},
    "hard_sigmoid": {"slope": 0.3, "offset": 0.4},
    "hard_swish": {},
    "leaky_relu": {"alpha": 0.1},
    "relu6": {"threshold": 0.5},
    "selu": {},
    "softplus": {},
    "softshrink": {"alpha": 0.3},
    "stanh": {},
    "swish": {"beta": 0.5},
    "thresholded_relu": {"threshold": 0.2},
}.items():
    add(kind, {"x": X}, lambda L, F, x, kind=kind, values=values: getattr(L, kind)(x, **values))

for kind in "add sub mul max min".split():
    add(f"elementwise_{kind}", {"x": X, "y": floats(4, seed=2)}, lambda L, F, x, y, k=kind: getattr(L, f"elementwise_{k}")(x, y))
add("elementwise_add_axis", {"x": X, "y": floats(3, seed=2)}, lambda L, F, x, y: L.elementwise_add(x, y, axis=0, act="relu"))
add("elementwise_div", {"x": X, "y": POSITIVE}, lambda L, F, x, y: L.elementwise_div(x, y))
add("elementwise_pow", {"x": POSITIVE, "y": X}, lambda L, F, x, y: L.elementwise_pow(x, y))
add("elementwise_mod", {"x": ints(3, 4), "y": ints(3, 4, low=1, seed=3)}, lambda L, F, x, y: L.elementwise_mod(x, y))
add("elementwise_floordiv", {"x": ints(3, 4), "y": ints(3, 4, low=1, seed=3)}, lambda L, F, x, y: L.elementwise_floordiv(x, y))
for kind in "less_than less_equal greater_than greater_equal equal not_equal".split():
    add(kind, {"x": ints(3, 4, high=3), "y": ints(3, 4, high=3, seed=5)}, lambda L, F, x, y, k=kind: getattr(L, k)(x, y))
for kind in "logical_and logical_or logical_xor".split():
    add(kind, {"x": bools(3, 4), "y": bools(3, 4, seed=5)}, lambda L, F, x, y, k=kind: getattr(L, k)(x, y))
add("logical_not", {"x": bools(3, 4)}, lambda L, F, x: L.logical_not(x))
for kind in "sum mean max min prod".split():
    add(f"reduce_{kind}", {"x": floats(2, 3, 4)}, lambda L, F, x, k=kind: getattr(L, f"reduce_{k}")(x, dim=[0, -1], keep_dim=True))
    add(f"reduce_{kind}_all", {"x": floats(2, 3, 4)}, lambda L, F, x, k=kind: getattr(L, f"reduce_{k}")(x))
for kind in "all any".split():
    add(f"reduce_{kind}", {"x": bools(3, 4)}, lambda L, F, x, k=kind: getattr(L, f"reduce_{k}")(x, dim=1))
add("mean", {"x": X}, lambda L, F, x: L.mean(x))
add("scale", {"x": X}, lambda L, F, x: L.scale(x, 2.0, 0.5, bias_after_scale=False, act="relu"))
add("pow", {"x": POSITIVE}, lambda L, F, x: L.pow(x, 1.5))
add("clip", {"x": X}, lambda L, F, x: L.clip(x, -0.2, 0.4))
add("clip_by_norm", {"x": X}, lambda L, F, x: L.clip_by_norm(x, 1.0))
add("cumsum", {"x": X}, lambda L, F, x: L.cumsum(x, axis=1, exclusive=True, reverse=True))
add("sum", {"x": X, "y": POSITIVE}, lambda L, F, x, y: L.sum([x, y]))
add("sums", {"x": X, "y": POSITIVE}, lambda L, F, x, y: L.sums([x, y]))
add("matmul", {"x": floats(2, 3, 4), "y": floats(2, 5, 4)}, lambda L, F, x, y: L.matmul(x, y, transpose_y=True, alpha=0.5))
add("mul", {"x": floats(2, 3, 4), "y": floats(12, 5)}, lambda L, F, x, y: L.mul(x, y))
add("bmm", {"x": floats(2, 3, 4), "y": floats(2, 4, 5)}, lambda L, F, x, y: L.bmm(x, y))
add("addmm", {"i": floats(3, 5), "x": X, "y": floats(4, 5)}, lambda L, F, i, x, y: L.addmm(i, x, y, 0.5, 2.0))
add("dot", {"x": X, "y": POSITIVE}, lambda L, F, x, y: L.dot(x, y))
add("cross", {"x": floats(2, 3), "y": floats(2, 3, seed=4)}, lambda L, F, x, y: L.cross(x, y, dim=1))
add("kron", {"x": floats(2, 3), "y": floats(2, 2)}, lambda L, F, x, y: L.kron(x, y))
add("dist", {"x": X, "y": POSITIVE}, lambda L, F, x, y: L.dist(x, y, 3))
add("cos_sim", {"x": X, "y": POSITIVE}, lambda L, F, x, y: L.cos_sim(x, y))
add("logsumexp", {"x": X}, lambda L, F, x: L.logsumexp(x, dim=1))
add("allclose", {"x": X, "y": X + 1e-3}, lambda L, F, x, y: [L.allclose(x, y), L.allclose(x, y, atol=1e-2)])
add("isfinite", {"x": X}, lambda L, F, x: [L.isfinite(x), L.has_inf(x), L.has_nan(x)])

add("arithmetic", {"x": X, "y": POSITIVE}, lambda L, F, x, y: [x + y, x - y, x * y, x / y, 2 - x, x * 3, x / 2, 1 / y, -x, x + 1])
add("comparison", {"x": X, "y": POSITIVE}, lambda L, F, x, y: [x < y, x >= y])
add("indexing", {"x": floats(4, 5, 6)}, lambda L, F, x: [x[0], x[1:3], x[:, 2], x[0:2, 1:4, -1], x[::-1]])

add("fill_constant", {}, lambda L, F: [L.fill_constant([2, 3], "float32", 1.5), L.fill_constant([2], "int64", 7)])
add("fill_constant_batch_size_like", {"x": X}, lambda L, F, x: L.fill_constant_batch_size_like(x, [-1, 2], "float32", 2.5))
add("zeros", {}, lambda L, F: [L.zeros([2, 3], "float32"), L.ones([2], "int64")])
add("zeros_like", {"x": X}, lambda L, F, x: [L.zeros_like(x), L.ones_like(x)])
add("full", {"x": X}, lambda L, F, x: [L.full([2, 3], 2.5), L.full_like(x, 4)])
add("eye", {}, lambda L, F: L.eye(3, 4))
add("linspace", {}, lambda L, F: L.linspace(0.0, 2.0, 5, "float32"))
add("range", {}, lambda L, F: [L.range(1, 9, 2, "int64"), L.range(0.0, 1.0, 0.25, "float32")])
add("assign", {"x": X}, lambda L, F, x: [L.assign(x), L.assign(np.array([[1, 2], [3, 4]], "int32"))])
add("increment", {}, lambda L, F: L.increment(L.fill_constant([1], "float32", 2.0), 1.5))
add("cast", {"x": X * 5}, lambda L, F, x: [L.cast(x, "int32"), L.cast(x, "float64"), L.cast(x, "bool")])
add("concat", {"x": X, "y": floats(3, 2)}, lambda L, F, x, y: L.concat([x, y], axis=1))
add("split", {"x": floats(3, 6)}, lambda L, F, x: L.split(x, 3, dim=1) + L.split(x, [1, 2, 3], dim=-1))
add("stack", {"x": X, "y": POSITIVE}, lambda L, F, x, y: L.stack([x, y], axis=1))
add("unstack", {"x": X}, lambda L, F, x: L.unstack(x, axis=0))
add("reshape", {"x": floats(2, 3, 4)}, lambda L, F, x: [L.reshape(x, [0, -1]), L.reshape(x, [4, 6], act="relu")])
add("transpose", {"x": floats(2, 3, 4)}, lambda L, F, x: L.transpose(x, [2, 0, 1]))
add("squeeze", {"x": floats(2, 1, 4, 1)}, lambda L, F, x: [L.squeeze(x, [1]), L.squeeze(x, [])])
add("unsqueeze", {"x": X}, lambda L, F, x: [L.unsqueeze(x, [0, 2]), L.unsqueeze(x, [-1])])
add("flatten", {"x": floats(2, 3, 4)}, lambda L, F, x: L.flatten(x, axis=2))
add("slice", {"x": floats(4, 5, 6)}, lambda L, F, x: L.slice(x, [0, 2], [1, -3], [3, 100]))
add("strided_slice", {"x": floats(4, 5, 6)}, lambda L, F, x: L.strided_slice(x, [1, 2], [1, 0], [5, 6], [2, 3]))
add("expand", {"x": X}, lambda L, F, x: L.expand(x, [2, 3]))
add("expand_as", {"x": floats(1, 4), "y": floats(3, 4)}, lambda L, F, x, y: L.expand_as(x, y))
add("gather", {"x": X, "i": np.array([2, 0, 2], "int64")}, lambda L, F, x, i: L.gather(x, i))
add("gather_nd", {"x": floats(3, 4, 2), "i": np.array([[0, 1], [2, 3]], "int64")}, lambda L, F, x, i: L.gather_nd(x, i))
add("index_sample", {"x": X, "i": ints(3, 2, high=4)}, lambda L, F, x, i: L.index_sample(x, i))
add("index_select", {"x": X, "i": np.array([3, 1], "int64")}, lambda L, F, x, i: L.index_select(x, i, dim=1))
add("scatter", {"x": floats(4, 2), "i": np.array([2, 0], "int64"), "u": floats(2, 2)}, lambda L, F, x, i, u: L.scatter(x, i, u))
add("scatter_nd", {"i": np.array([[1], [3], [1]], "int64"), "u": floats(3, 2)}, lambda L, F, i, u: L.scatter_nd(i, u, [4, 2]))
add("scatter_nd_add", {"x": floats(4, 2), "i": np.array([[1], [3]], "int64"), "u": floats(2, 2)}, lambda L, F, x, i, u: L.scatter_nd_add(x, i, u))
add("one_hot", {"x": ints(4, 1, high=5)}, lambda L, F, x: L.one_hot(x, 5))
add("shape", {"x": floats(2, 3, 4)}, lambda L, F, x: [L.shape(x), L.size(x), L.rank(x)])
add("argmax", {"x": X}, lambda L, F, x: [L.argmax(x, axis=1), L.argmin(x, axis=0)])
add("argsort", {"x": X}, lambda L, F, x: L.argsort(x, axis=1, descending=True))
add("topk", {"x": X}, lambda L, F, x: L.topk(x, 2))
add("where", {"x": bools(3, 4)}, lambda L, F, x: L.where(x))
add("reverse", {"x": X}, lambda L, F, x: [L.reverse(x, 0), L.reverse(x, [0, 1])])
add("flip", {"x": X}, lambda L, F, x: L.flip(x, [1]))
add("roll", {"x": X}, lambda L, F, x: L.roll(x, [1, 2], [0, 1]))
add("diag", {"x": floats(4)}, lambda L, F, x: L.diag(x))
add("diag_embed", {"x": X}, lambda L, F, x: L.diag_embed(x, offset=1))
add("trace", {"x": X}, lambda L, F, x: L.trace(x, offset=1))
add("tril", {"x": X}, lambda L, F, x: [L.tril(x), L.triu(x, 1)])
add("multiplex", {"x": X, "y": POSITIVE, "i": ints(3, 1, high=2, dtype="int32")}, lambda L, F, x, y, i: L.multiplex([x, y], i))
add("meshgrid", {"x": floats(3), "y": floats(2)}, lambda L, F, x, y: L.meshgrid([x, y]))
add("crop_tensor", {"x": floats(4, 5)}, lambda L, F, x: L.crop_tensor(x, [2, 3], [1, 2]))
add("is_empty", {"x": X}, lambda L, F, x: L.is_empty(x))
add("unique", {"x": np.array([2, 3, 3, 1, 5, 2], "int64")}, lambda L, F, x: L.unique(x))
add("pad", {"x": X}, lambda L, F, x: L.pad(x, [0, 1, 2, 0], 0.5))
for mode in ("constant", "reflect", "edge"):
    add(f"pad2d_{mode}", {"x": IMAGE}, lambda L, F, x, mode=mode: L.pad2d(x, [1, 2, 0, 1], mode=mode))
add("arange", {}, lambda L, F: L.arange(1, 9, 3))

W = floats(4, 5, seed=9)
B = floats(5, seed=8)
add("fc", {"x": X}, lambda L, F, x: L.fc(x, 5, param_attr=given(F, W), bias_attr=given(F, B), act="relu"))
add("fc_no_bias", {"x": floats(2, 3, 4)}, lambda L, F, x: L.fc(x, 5, num_flatten_dims=2, param_attr=given(F, W), bias_attr=False))
add("fc_several", {"x": X, "y": POSITIVE}, lambda L, F, x, y: L.fc([x, y], 5, param_attr=given(F, W)))
add("embedding", {"x": ints(4, 1, high=6)}, lambda L, F, x: L.embedding(x, [6, 3], padding_idx=2, param_attr=given(F, floats(6, 3))))
add("conv2d", {"x": IMAGE}, lambda L, F, x: L.conv2d(x, 6, 3, stride=2, padding=1, groups=2, param_attr=given(F, floats(6, 2, 3, 3)), bias_attr=given(F, floats(6)), act="relu"))
add("conv3d", {"x": VOLUME}, lambda L, F, x: L.conv3d(x, 3, [1, 2, 3], padding=[0, 1, 1], param_attr=given(F, floats(3, 2, 1, 2, 3))))
add("conv2d_transpose", {"x": IMAGE}, lambda L, F, x: L.conv2d_transpose(x, 3, filter_size=3, stride=2, padding=1, param_attr=given(F, floats(4, 3, 3, 3))))
add("conv2d_transpose_size", {"x": IMAGE}, lambda L, F, x: L.conv2d_transpose(x, 3, output_size=[13, 13], filter_size=3, stride=2, param_attr=given(F, floats(4, 3, 3, 3))))
for kind in ("max", "avg"):
    add(f"pool2d_{kind}", {"x": IMAGE}, lambda L, F, x, k=kind: L.pool2d(x, 3, k, 2, 1))
    add(f"pool2d_global_{kind}", {"x": IMAGE}, lambda L, F, x, k=kind: L.pool2d(x, pool_type=k, global_pooling=True))
    add(f"adaptive_pool2d_{kind}", {"x": IMAGE}, lambda L, F, x, k=kind: L.adaptive_pool2d(x, [2, 3], k))
    add(f"pool3d_{kind}", {"x": VOLUME}, lambda L, F, x, k=kind: L.pool3d(x, 2, k, 2))
# PaddlePaddle 2.6 counts cells outside of the image differently without `exclusive`.
LAST = floats(2, 6, 5, 4)
VOLUME_LAST = floats(1, 4, 5, 4, 2)
BORDERS = {"same": "SAME", "valid": "valid", "borders": [1, 2, 0, 1], "pairs": [[0, 0], [0, 0], [2, 0], [1, 1]]}
BORDERS_LAST = {**BORDERS, "pairs": [[0, 0], [2, 0], [1, 1], [0, 0]]}
for name, border in BORDERS.items():
    add(f"conv2d_{name}", {"x": IMAGE}, lambda L, F, x, b=border: L.conv2d(x, 3, 3, stride=2, padding=b, param_attr=given(F, floats(3, 4, 3, 3))))
    add(f"pool2d_{name}", {"x": IMAGE}, lambda L, F, x, b=border: L.pool2d(x, [3, 4], "avg", 2, b))
for name, border in BORDERS_LAST.items():
    add(f"conv2d_last_{name}", {"x": LAST}, lambda L, F, x, b=border: L.conv2d(x, 3, 3, stride=2, padding=b, param_attr=given(F, floats(3, 4, 3, 3)), bias_attr=given(F, floats(3)), data_format="NHWC"))
    add(f"pool2d_last_{name}", {"x": LAST}, lambda L, F, x, b=border: L.pool2d(x, [3, 4], "max", 2, b, data_format="NHWC"))
add("conv2d_transpose_last", {"x": LAST}, lambda L, F, x: L.conv2d_transpose(x, 2, filter_size=3, stride=2, padding=[1, 0, 1, 2], param_attr=given(F, floats(4, 2, 3, 3)), bias_attr=given(F, floats(2)), data_format="NHWC"))
add("conv2d_transpose_fitted", {"x": IMAGE}, lambda L, F, x: L.conv2d_transpose(x, 3, output_size=[13, 13], stride=2, param_attr=given(F, floats(4, 3, 3, 3))))
add("conv3d_last", {"x": VOLUME_LAST}, lambda L, F, x: L.conv3d(x, 3, 2, padding="SAME", param_attr=given(F, floats(3, 2, 2, 2, 2)), bias_attr=given(F, floats(3)), data_format="NDHWC"))
add("pool3d_last", {"x": VOLUME_LAST}, lambda L, F, x: L.pool3d(x, 2, "avg", 2, [1, 0, 0, 1, 1, 1], data_format="NDHWC"))
add("resize_bilinear_last", {"x": LAST}, lambda L, F, x: L.resize_bilinear(x, [3, 7], data_format="NHWC"))
add("resize_nearest_last", {"x": LAST}, lambda L, F, x: L.resize_nearest(x, scale=2.0, align_corners=False, data_format="NHWC"))
add("resize_trilinear_last", {"x": VOLUME_LAST}, lambda L, F, x: L.resize_trilinear(x, [3, 7, 2], data_format="NDHWC"))
add("lrn_last", {"x": LAST}, lambda L, F, x: L.lrn(x, 3, data_format="NHWC"))
add("adaptive_pool2d_index", {"x": IMAGE}, lambda L, F, x: L.adaptive_pool2d(x, [2, 3], "max", require_index=True))
add("dropout_default", {"x": X}, lambda L, F, x: L.dropout(x, 0.3, is_test=True))
add("eye_batch", {"x": X}, lambda L, F, x: L.eye(2, 3, [2, 4]))
add("full_into", {"x": X}, lambda L, F, x: L.full_like(x, 2.5, L.create_tensor("float32")))
add("log_softmax_default", {"x": X}, lambda L, F, x: L.log_softmax(x))
add("nonzero_tuple", {"x": bools(3, 4)}, lambda L, F, x: L.nonzero(L.cast(x, "float32"), as_tuple=True))
add("pool2d_ceil", {"x": IMAGE}, lambda L, F, x: L.pool2d(x, 3, "avg", 2, 0, ceil_mode=True))
add("batch_norm", {"x": IMAGE}, lambda L, F, x: L.batch_norm(x, act="relu", param_attr=given(F, floats(4, low=0.5)), bias_attr=given(F, floats(4))))
add("batch_norm_test", {"x": IMAGE}, lambda L, F, x: L.batch_norm(x, is_test=True, epsilon=1e-3))
add("layer_norm", {"x": floats(2, 3, 4)}, lambda L, F, x: L.layer_norm(x, begin_norm_axis=1, param_attr=given(F, floats(12)), bias_attr=given(F, floats(12, seed=3))))
add("layer_norm_plain", {"x": floats(2, 3, 4)}, lambda L, F, x: L.layer_norm(x, scale=False, shift=False, begin_norm_axis=2))
add("group_norm", {"x": IMAGE}, lambda L, F, x: L.group_norm(x, 2, param_attr=given(F, floats(4)), bias_attr=given(F, floats(4, seed=2))))
add("instance_norm", {"x": IMAGE}, lambda L, F, x: L.instance_norm(x, param_attr=given(F, floats(4))))
add("l2_normalize", {"x": X}, lambda L, F, x: L.l2_normalize(x, axis=1))
add("lrn", {"x": IMAGE}, lambda L, F, x: L.lrn(x, n=3, k=2.0, alpha=0.01))
add("dropout_test", {"x": X}, lambda L, F, x: L.dropout(x, 0.3, is_test=True, dropout_implementation="downgrade_in_infer"))
add("softmax", {"x": floats(2, 3, 4)}, lambda L, F, x: [L.softmax(x), L.softmax(x, axis=1)])
add("log_softmax", {"x": X}, lambda L, F, x: L.log_softmax(x))
for mode, shape in {"all": [1], "channel": [1, 4, 1, 1], "element": [1, 4, 6, 6]}.items():
    add(f"prelu_{mode}", {"x": IMAGE}, lambda L, F, x, m=mode, s=shape: L.prelu(x, m, param_attr=given(F, floats(*s))))
add("maxout", {"x": IMAGE}, lambda L, F, x: L.maxout(x, 2))
add("bilinear_tensor_product", {"x": X, "y": floats(3, 5)}, lambda L, F, x, y: L.bilinear_tensor_product(x, y, 2, param_attr=given(F, floats(2, 4, 5))))
add("resize_bilinear", {"x": IMAGE}, lambda L, F, x: [L.resize_bilinear(x, [9, 11]), L.resize_bilinear(x, scale=2.0, align_corners=False, align_mode=0)])
add("resize_nearest", {"x": IMAGE}, lambda L, F, x: L.resize_nearest(x, [9, 11], align_corners=False))
add("resize_trilinear", {"x": VOLUME}, lambda L, F, x: L.resize_trilinear(x, [5, 6, 7]))
add("image_resize", {"x": IMAGE}, lambda L, F, x: L.image_resize(x, out_shape=[3, 4], resample="BILINEAR"))
add("pixel_shuffle", {"x": IMAGE}, lambda L, F, x: L.pixel_shuffle(x, 2))
add("shuffle_channel", {"x": IMAGE}, lambda L, F, x: L.shuffle_channel(x, 2))
add("affine_channel", {"x": IMAGE, "s": floats(4), "b": floats(4, seed=3)}, lambda L, F, x, s, b: L.affine_channel(x, s, b))
add("affine_grid", {"t": floats(2, 2, 3)}, lambda L, F, t: L.affine_grid(t, [2, 4, 5, 6]))
add("grid_sampler", {"x": IMAGE, "g": floats(2, 6, 6, 2)}, lambda L, F, x, g: L.grid_sampler(x, g))
add("fsp_matrix", {"x": IMAGE, "y": floats(2, 3, 6, 6)}, lambda L, F, x, y: L.fsp_matrix(x, y))
add("temporal_shift", {"x": IMAGE}, lambda L, F, x: L.temporal_shift(x, 2))
add("unfold", {"x": IMAGE}, lambda L, F, x: L.unfold(x, [2, 3], 1, 1))

SHARES = np.exp(X) / np.exp(X).sum(1, keepdims=True)
LABEL = ints(3, 1, high=4)
add("cross_entropy", {"x": SHARES, "l": LABEL}, lambda L, F, x, l: L.cross_entropy(x, l))
add("cross_entropy_soft", {"x": SHARES, "l": SHARES[::-1].copy()}, lambda L, F, x, l: L.cross_entropy(x, l, soft_label=True))
add("softmax_with_cross_entropy", {"x": X, "l": LABEL}, lambda L, F, x, l: L.softmax_with_cross_entropy(x, l, return_softmax=True))
add("sigmoid_cross_entropy_with_logits", {"x": X, "l": floats(3, 4, low=0, seed=4)}, lambda L, F, x, l: L.sigmoid_cross_entropy_with_logits(x, l))
add("square_error_cost", {"x": X, "l": POSITIVE}, lambda L, F, x, l: L.square_error_cost(x, l))
add("mse_loss", {"x": X, "l": POSITIVE}, lambda L, F, x, l: L.mse_loss(x, l))
add("smooth_l1", {"x": X, "l": POSITIVE, "w": floats(3, 4, seed=6)}, lambda L, F, x, l, w: [L.smooth_l1(x, l), L.smooth_l1(x, l, w, w, sigma=2.0)])
add("huber_loss", {"x": floats(4, 1), "l": floats(4, 1, high=3.0, seed=2)}, lambda L, F, x, l: L.huber_loss(x, l, 0.5))
# PaddlePaddle 1.8.5 has `hinge_loss` as an operator alone.
add("log_loss", {"x": floats(4, 1, low=0.1, high=0.9), "l": ints(4, 1, high=2).astype("float32")}, lambda L, F, x, l: L.log_loss(x, l))
for reduction in ("mean", "sum", "batchmean", "none"):
    add(f"kldiv_loss_{reduction}", {"x": X, "t": SHARES}, lambda L, F, x, t, r=reduction: L.kldiv_loss(x, t, reduction=r))
add("rank_loss", {"l": ints(4, 1, high=2).astype("float32"), "a": floats(4, 1), "b": floats(4, 1, seed=3)}, lambda L, F, l, a, b: L.rank_loss(l, a, b))
add("margin_rank_loss", {"l": np.array([[1], [-1], [1], [-1]], "float32"), "a": floats(4, 1), "b": floats(4, 1, seed=3)}, lambda L, F, l, a, b: L.margin_rank_loss(l, a, b, 0.2))
add("label_smooth", {"l": np.eye(4, dtype="float32")[:3]}, lambda L, F, l: L.label_smooth(l, epsilon=0.2))
add("dice_loss", {"x": SHARES, "l": LABEL}, lambda L, F, x, l: L.dice_loss(x, l))
add("accuracy", {"x": SHARES, "l": LABEL}, lambda L, F, x, l: L.accuracy(x, l, k=2))

LOD = [[0, 2, 5, 6]]
ROWS = (floats(6, 4, seed=1), LOD)
for kind in ("sum", "average", "sqrt", "max", "last", "first"):
    add(f"sequence_pool_{kind}", {"x": ROWS}, lambda L, F, x, k=kind: L.sequence_pool(x, k))
add("sequence_steps", {"x": ROWS}, lambda L, F, x: [L.sequence_first_step(x), L.sequence_last_step(x)])
add("sequence_softmax", {"x": (floats(6, 1), LOD)}, lambda L, F, x: L.sequence_softmax(x))
add("sequence_conv", {"x": ROWS}, lambda L, F, x: L.sequence_conv(x, 3, 3, param_attr=given(F, floats(12, 3)), bias_attr=given(F, floats(3)), act="tanh"))
add("sequence_expand", {"x": floats(3, 2), "y": ROWS}, lambda L, F, x, y: L.sequence_expand(x, y, ref_level=0))
add("sequence_mask", {"x": np.array([1, 3, 2], "int64")}, lambda L, F, x: [L.sequence_mask(x, maxlen=4), L.sequence_mask(x, maxlen=3, dtype="float32")])
add("lod_reset", {"x": ROWS}, lambda L, F, x: L.sequence_pool(L.lod_reset(x, target_lod=[0, 1, 6]), "sum"))
add("sequence_concat", {"x": ROWS, "y": (floats(5, 4, seed=3), [[0, 2, 4, 5]])}, lambda L, F, x, y: L.sequence_concat([x, y]))
add("sequence_expand_as", {"x": floats(3, 2), "y": ROWS}, lambda L, F, x, y: L.sequence_expand_as(x, y))
add("sequence_pad", {"x": ROWS}, lambda L, F, x: L.sequence_pad(x, L.fill_constant([1], "float32", 0.5)))
add("sequence_pad_maxlen", {"x": ROWS}, lambda L, F, x: L.sequence_pad(x, L.fill_constant([4], "float32", 0.5), maxlen=5))
add("sequence_unpad", {"x": floats(3, 4, 2), "n": np.array([2, 4, 1], "int64")}, lambda L, F, x, n: L.sequence_unpad(x, n))
add("sequence_reshape", {"x": ROWS}, lambda L, F, x: L.sequence_pool(L.sequence_reshape(x, 2), "sum"))
add("sequence_reverse", {"x": ROWS}, lambda L, F, x: L.sequence_reverse(x))
add("sequence_scatter", {"x": floats(3, 5), "i": (ints(6, 1, high=5), LOD), "u": (floats(6, 1), LOD)}, lambda L, F, x, i, u: L.sequence_scatter(x, i, u))
add("sequence_slice", {"x": ROWS, "o": np.array([[0], [1], [0]], "int64"), "n": np.array([[1], [2], [1]], "int64")}, lambda L, F, x, o, n: L.sequence_slice(x, o, n))
add("sequence_enumerate", {"x": (ints(6, 1), LOD)}, lambda L, F, x: L.sequence_enumerate(x, 3, 7))
add("lod_append", {"x": ROWS}, lambda L, F, x: L.sequence_pool(L.lod_append(x, [0, 1, 2, 3, 4, 5, 6]), "sum"))
LABELS = (ints(6, 1, high=4, seed=2), LOD)
add("linear_chain_crf", {"x": ROWS, "y": LABELS}, lambda L, F, x, y: L.linear_chain_crf(x, y, given(F, floats(6, 4))))
add("row_conv", {"x": ROWS}, lambda L, F, x: L.row_conv(x, 2, given(F, floats(3, 4)), act="tanh"))
add("bpr_loss", {"x": floats(3, 4), "y": ints(3, 1, high=4)}, lambda L, F, x, y: L.bpr_loss(x, y))
add("space_to_depth", {"x": floats(2, 8, 4, 2)}, lambda L, F, x: L.space_to_depth(x, 2))
add("warpctc", {"x": (floats(7, 4), [[0, 4, 7]]), "y": (ints(3, 1, low=1, high=4, dtype="int32"), [[0, 2, 3]])}, lambda L, F, x, y: L.warpctc(x, y, blank=0))
add("warpctc_lengths", {"x": floats(4, 2, 5), "y": ints(2, 2, high=4, dtype="int32"), "n": np.array([4, 3], "int64"), "m": np.array([2, 1], "int64")}, lambda L, F, x, y, n, m: L.warpctc(x, y, 4, True, n, m))
add("ctc_greedy_decoder", {"x": (floats(8, 4), [[0, 5, 8]])}, lambda L, F, x: L.ctc_greedy_decoder(x, 0))
add("ctc_greedy_decoder_lengths", {"x": floats(2, 5, 3), "n": np.array([[5], [3]], "int64")}, lambda L, F, x, n: L.ctc_greedy_decoder(x, 2, n, padding_value=9))
add("edit_distance", {"x": (ints(6, 1, high=3), LOD), "y": (ints(7, 1, high=3), [[0, 3, 5, 7]])}, lambda L, F, x, y: L.edit_distance(x, y))
add("edit_distance_ignored", {"x": (ints(6, 1, high=5), LOD), "y": (ints(7, 1, high=5), [[0, 3, 5, 7]])}, lambda L, F, x, y: L.edit_distance(x, y, normalized=False, ignored_tokens=[1, 2]))
add("addcmul", {"x": X, "y": POSITIVE, "z": floats(3, 4, seed=9)}, lambda L, F, x, y, z: L.addcmul(x, y, z, 0.5))
add("image_resize_short", {"x": floats(1, 2, 4, 6)}, lambda L, F, x: L.image_resize_short(x, 7))
add("deformable_conv", {"x": IMAGE, "o": floats(2, 8, 5, 5), "m": floats(2, 4, 5, 5, low=0.0)}, lambda L, F, x, o, m: L.deformable_conv(x, o, m, 3, 2, im2col_step=1, param_attr=given(F, floats(3, 4, 2, 2)), bias_attr=given(F, floats(3))))
add("deformable_conv_v1", {"x": IMAGE, "o": floats(2, 8, 4, 4)}, lambda L, F, x, o: L.deformable_conv(x, o, None, 2, 2, dilation=2, groups=2, im2col_step=1, param_attr=given(F, floats(2, 2, 2, 2)), bias_attr=False, modulated=False))
add("crop", {"x": floats(4, 5)}, lambda L, F, x: L.crop(x, [2, 3], [1, 2]))
add("crop_like", {"x": floats(4, 5), "y": floats(2, 4)}, lambda L, F, x, y: L.crop(x, y))
add("unique_with_counts", {"x": ints(7, high=4)}, lambda L, F, x: L.unique_with_counts(x))
BOXES = np.array([[0, 0, 10, 10], [1, 1, 9, 12], [20, 20, 90, 80], [3, 2, 200, 220], [50, 40, 60, 70]], "float32")
add("distribute_fpn_proposals", {"x": (BOXES, [[0, 5]])}, lambda L, F, x: (lambda levels, order: [*levels, order])(*L.distribute_fpn_proposals(x, 2, 4, 3, 56)))
add("collect_fpn_proposals", {"x": (BOXES, [[0, 5]]), "y": (BOXES[::-1].copy(), [[0, 5]]), "a": (floats(5, 1, seed=1), [[0, 5]]), "b": (floats(5, 1, seed=2), [[0, 5]])}, lambda L, F, x, y, a, b: L.collect_fpn_proposals([x, y], [a, b], 2, 3, 6))
add("bipartite_match", {"x": (floats(3, 4, low=0.0), [[0, 3]])}, lambda L, F, x: L.bipartite_match(x, "per_prediction", 0.3))
add("matrix_nms", {"x": BOXES[None], "y": floats(1, 3, 5, low=0.0)}, lambda L, F, x, y: L.matrix_nms(x, y, 0.1, 0.05, 4, 6, return_index=True))
add("generate_proposals", {"s": floats(1, 2, 3, 3, low=0.0), "d": floats(1, 8, 3, 3), "i": np.array([[48, 48, 1]], "float32"), "x": floats(1, 4, 3, 3)}, lambda L, F, s, d, i, x: L.generate_proposals(s, d, i, *L.anchor_generator(x, [16.0], [0.5, 1.0], stride=[16.0, 16.0]), pre_nms_top_n=12, post_nms_top_n=5))
add("detection_output", {"x": floats(1, 5, 4), "y": floats(1, 5, 3), "p": BOXES / 224, "v": floats(5, 4, low=0.1)}, lambda L, F, x, y, p, v: L.detection_output(x, y, p, v))
add("im2sequence", {"x": IMAGE}, lambda L, F, x: L.im2sequence(x, [2, 3], [1, 2], [1, 0, 1, 0]))
for reverse in (False, True):
    add(f"dynamic_lstm_{reverse}", {"x": (floats(6, 8), LOD)}, lambda L, F, x, r=reverse: L.dynamic_lstm(x, 8, param_attr=given(F, floats(2, 8)), bias_attr=given(F, floats(1, 14)), is_reverse=r))
    add(f"dynamic_gru_{reverse}", {"x": (floats(6, 9), LOD)}, lambda L, F, x, r=reverse: L.dynamic_gru(x, 3, param_attr=given(F, floats(3, 9)), bias_attr=given(F, floats(1, 9)), is_reverse=r))
add("dynamic_lstm_plain", {"x": (floats(6, 8), LOD)}, lambda L, F, x: L.dynamic_lstm(x, 8, param_attr=given(F, floats(2, 8)), use_peepholes=False))
add("gru_unit", {"x": floats(2, 9), "h": floats(2, 3)}, lambda L, F, x, h: L.gru_unit(x, h, 9, param_attr=given(F, floats(3, 9)), bias_attr=given(F, floats(1, 9))))
add("lstm_unit", {"x": floats(2, 3), "h": floats(2, 4), "c": floats(2, 4, seed=5)}, lambda L, F, x, h, c: L.lstm_unit(x, h, c, 0.5, param_attr=given(F, floats(7, 16)), bias_attr=given(F, floats(16))))
add("crf_decoding", {"x": ROWS}, lambda L, F, x: L.crf_decoding(x, given_named(L, F, "crf", floats(6, 4))))


def given_named(L, F, name, values):
    """A parameter that another layer has made, as `crf_decoding` expects it."""
    L.create_parameter(list(values.shape), "float32", attr=F.ParamAttr(name, F.initializer.NumpyArrayInitializer(values)))
    return F.ParamAttr(name=name)


FEATURES, PICTURE = floats(1, 4, 3, 3), floats(1, 3, 24, 24)
add("prior_box", {"x": FEATURES, "i": PICTURE}, lambda L, F, x, i: L.prior_box(x, i, [4.0], [9.0], [1.0, 2.0], flip=True, clip=True))
add("density_prior_box", {"x": FEATURES, "i": PICTURE}, lambda L, F, x, i: L.density_prior_box(x, i, [2], [8.0], [1.0]))
add("anchor_generator", {"x": FEATURES}, lambda L, F, x: L.anchor_generator(x, [32.0, 64.0], [0.5, 1.0], stride=[16.0, 16.0]))
BOXES = np.sort(floats(5, 4, low=0.0, high=1.0), axis=1)[:, [0, 1, 2, 3]]
add("iou_similarity", {"x": BOXES, "y": BOXES[:3].copy()}, lambda L, F, x, y: L.iou_similarity(x, y))
add("box_coder", {"p": BOXES, "v": floats(5, 4, low=0.1), "t": BOXES[:2].copy()}, lambda L, F, p, v, t: L.box_coder(p, v, t))
add("box_coder_decode", {"p": BOXES, "t": floats(2, 5, 4)}, lambda L, F, p, t: L.box_coder(p, [0.1, 0.1, 0.2, 0.2], t, "decode_center_size"))
add("box_clip", {"b": (BOXES * 40, [[0, 5]]), "i": np.array([[20, 25, 1]], "float32")}, lambda L, F, b, i: L.box_clip(b, i))
add("yolo_box", {"x": floats(1, 14, 3, 3), "s": np.array([[96, 96]], "int32")}, lambda L, F, x, s: L.yolo_box(x, s, [10, 13, 16, 30], 2, 0.01, 32))
add("multiclass_nms", {"b": BOXES[None].copy(), "s": floats(1, 3, 5, low=0.0)}, lambda L, F, b, s: L.multiclass_nms(b, s, 0.1, 10, 5, 0.4))
add("roi_align", {"x": IMAGE, "r": (np.array([[0, 0, 4, 4], [1, 1, 5, 3]], "float32"), [[0, 1, 2]])}, lambda L, F, x, r: L.roi_align(x, r, 2, 2, 0.8, 2))
add("roi_pool", {"x": IMAGE, "r": (np.array([[0, 0, 4, 4], [1, 1, 5, 3]], "float32"), [[0, 1, 2]])}, lambda L, F, x, r: L.roi_pool(x, r, 2, 2, 1.0))
add("polygon_box_transform", {"x": floats(1, 8, 3, 3)}, lambda L, F, x: L.polygon_box_transform(x))


def loop(L, F, x):
    """A `While` that writes an array."""
    count, limit = L.fill_constant([1], "int64", 0), L.fill_constant([1], "int64", 3)
    array = L.array_write(x, count)
    goes_on = L.less_than(count, limit)
    loop = L.While(goes_on)
    with loop.block():
        last = L.array_read(array, count)
        L.increment(count, 1)
        L.array_write(L.scale(last, 2.0), count, array)
        L.less_than(count, limit, cond=goes_on)
    return [L.array_read(array, limit), L.array_length(array)]


def switch(L, F, x):
    """A `Switch` on a value."""
    rate = L.create_global_var([1], 0.0, "float32", persistable=True)
    with L.Switch() as switch:
        with switch.case(L.less_than(x, L.fill_constant([1], "float32", 0.0))):
            L.assign(L.fill_constant([1], "float32", 0.5), rate)
        with switch.default():
            L.assign(L.fill_constant([1], "float32", 0.25), rate)
    return rate


def counted(L, F, x):
    """A `while_loop` over two variables."""
    i, limit = L.fill_constant([1], "int64", 0), L.fill_constant([1], "int64", 4)
    results = L.while_loop(lambda i, x: L.less_than(i, limit), lambda i, x: [L.increment(i), x * 2.0], [i, x])
    return list(results)


add("while", {"x": X}, loop)
for value in (-1.0, 1.0):
    number = np.array([value], "float32")
    add(f"switch_{value}", {"x": number}, switch)
    add(f"cond_{value}", {"x": number}, lambda L, F, x: L.cond(x < L.fill_constant([1], "float32", 0.0), lambda: [x * 2.0, x], lambda: [x, x * 3.0]))
for index in (0, 2, 5):
    number = np.array([index], "int64")
    add(f"switch_case_{index}", {"x": number}, lambda L, F, x: L.switch_case(x, {0: lambda: L.fill_constant([2], "float32", 1.0), 2: lambda: L.fill_constant([2], "float32", 2.0)}, default=lambda: L.fill_constant([2], "float32", 3.0)))
add("case", {"x": np.array([0.3], "float32")}, lambda L, F, x: L.case([(x < L.fill_constant([1], "float32", 0.1), lambda: x * 1.0), (x < L.fill_constant([1], "float32", 0.5), lambda: x * 2.0)], default=lambda: x * 3.0))
add("while_loop", {"x": X}, counted)

add("simple_img_conv_pool", {"x": IMAGE}, lambda L, F, x: F.nets.simple_img_conv_pool(x, 3, 3, 2, 2, conv_padding=1, param_attr=given(F, floats(3, 4, 3, 3)), act="relu"))
add("img_conv_group", {"x": IMAGE}, lambda L, F, x: F.nets.img_conv_group(x, [4, 4], 2, conv_act="relu", param_attr=[given(F, floats(4, 4, 3, 3)), given(F, floats(4, 4, 3, 3, seed=1))], conv_with_batchnorm=[True, False], pool_stride=2))
add("sequence_conv_pool", {"x": ROWS}, lambda L, F, x: F.nets.sequence_conv_pool(x, 3, 3, param_attr=given(F, floats(12, 3)), act="tanh", pool_type="sqrt"))
add("fc_of_several", {"x": X, "y": floats(3, 2)}, lambda L, F, x, y: L.fc([x, y], 3, param_attr=[given(F, floats(4, 3)), given(F, floats(2, 3))], act="tanh"))
add("glu", {"x": X}, lambda L, F, x: F.nets.glu(x, 1))
add("scaled_dot_product_attention", {"x": floats(2, 3, 4), "y": floats(2, 5, 4), "z": floats(2, 5, 6)}, lambda L, F, x, y, z: F.nets.scaled_dot_product_attention(x, y, z))

def steps(L, F, x, init, whole):
    """A loop over steps with every kind of input."""
    first = L.sequence_pool(init, "first")
    rnn = L.DynamicRNN()
    with rnn.block():
        step = rnn.step_input(x)
        static = rnn.static_input(whole)
        one, other = rnn.memory(shape=[3], value=0.5), rnn.memory(init=first, need_reorder=True)
        parts = [L.fc(part, 3, param_attr=given(F, floats(rows, 3)), bias_attr=False) for part, rows in ((step, 4), (one, 3))]
        new = L.tanh(L.elementwise_add(*parts))
        both = L.elementwise_add(L.elementwise_mul(new, L.sequence_pool(static, "sum")), other)
        rnn.update_memory(one, new)
        rnn.update_memory(other, both)
        rnn.output(new, both)
    return rnn()


def rows_by_mask(L, F, x, y):
    branches = L.IfElse(L.less_than(x, y))
    with branches.true_block():
        branches.output(L.scale(branches.input(x), -1.0), L.relu(branches.input(y)))
    with branches.false_block():
        branches.output(L.scale(branches.input(x), 2.0), branches.input(y))
    return branches()


def ranked(L, F, x):
    C = getattr(L, "control_flow", L)
    table = C.lod_rank_table(x)
    array = C.lod_tensor_to_array(x, table)
    first, second = (L.array_read(array, L.fill_constant([1], "int64", step)) for step in (0, 1))
    least = C.shrink_memory(first, L.fill_constant([1], "int64", 1), table)
    back = C.array_to_lod_tensor(array, table)
    return [C.max_sequence_len(table), second, least, back, L.reorder_lod_tensor_by_rank(x, table)]


def split_and_merged(L, F, x, m):
    C = getattr(L, "control_flow", L)
    yes, no = C.split_lod_tensor(x, m)
    return [yes, no, C.merge_lod_tensor(L.scale(yes, 2.0), no, m, m)]


add("dynamic_rnn", {"x": ROWS, "init": (floats(6, 3, seed=7), [[0, 1, 4, 6]]), "whole": (floats(6, 3, seed=5), [[0, 3, 4, 6]])}, steps)
add("if_else", {"x": floats(5, 1), "y": floats(5, 1, seed=3)}, rows_by_mask)
add("ranks", {"x": ROWS}, ranked)
add("split_and_merge", {"x": floats(4, 3), "m": np.array([[True], [False], [True], [True]])}, split_and_merged)


def two_losses(L, F, x):
    x.stop_gradient = False
    hidden = L.fc(x, 2, param_attr=given(F, floats(4, 2, seed=5)), bias_attr=False)
    first, second = L.mean(L.square(hidden)), L.mean(L.tanh(hidden))
    return [*F.gradients([first], [x]), *F.gradients([second], [x, hidden]), *F.gradients([first], [hidden])]


add("gradients_of_two_losses", {"x": X}, two_losses)
