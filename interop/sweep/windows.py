"""Calls of image operators: windows, convolutions, resizing, positions."""
from .chance import F32, F64, I32, Call, array, calls


def around(r, spatial, size):
    """Paddings: one or two values per dim."""
    sizes = [each for each in size for _ in range(r.pick(1, 1, 2))] if spatial else []
    if len(sizes) not in (spatial, 2 * spatial):
        sizes = list(size)
    return [r.int(0, each) if r.flag(0.2) else r.int(0, each // 2) for each in sizes]


def picture(r, spatial, last, channels=None, dim=7, dtype=F32):
    channels = channels or r.int(1, 3)
    dims = r.dims(spatial, dim)
    shape = (r.int(1, 2), *dims, channels) if last else (r.int(1, 2), channels, *dims)
    return r.numbers(shape, dtype, odd=0.08)


@calls("pool2d", "pool3d")
def pool(r, kind):
    spatial = int(kind[4])
    last = r.flag(0.3)
    x = picture(r, spatial, last, dim=7 if spatial == 2 else 5, dtype=r.floating())
    size = r.ints(spatial, 1, 4)
    attributes = {
        "pooling_type": r.pick("max", "avg"), "ksize": size, "strides": r.ints(spatial, 1, 4),
        "paddings": around(r, spatial, size), "padding_algorithm": r.pick("EXPLICIT", "EXPLICIT", "SAME", "VALID"),
        "exclusive": r.flag(), "ceil_mode": r.flag(),
        **r.pick({}, {}, {}, {"global_pooling": True}, {"adaptive": True}),
        "data_format": ["NCHW", "NHWC", "NCDHW", "NDHWC"][(spatial - 2) * 2 + last],
    }
    return Call({"X": x}, attributes)


@calls("max_pool2d_with_index", "max_pool3d_with_index")
def pool_with_places(r, kind):
    spatial = int(kind[8])
    x = picture(r, spatial, False, dim=7 if spatial == 2 else 5, dtype=r.floating())
    size = r.ints(spatial, 1, 4)
    attributes = {
        "ksize": size, "strides": r.ints(spatial, 1, 3), "paddings": [r.int(0, each // 2) for each in size],
        **r.pick({}, {}, {}, {"global_pooling": True}, {"adaptive": True}),
    }
    return Call({"X": x}, attributes, ["Out", "Mask"])


@calls("conv2d", "conv3d", "depthwise_conv2d")
def conv(r, kind):
    spatial, last, dtype = (3 if "3d" in kind else 2), r.flag(0.3), r.floating()
    groups, each = (r.int(1, 3), 1) if kind.startswith("depth") else (r.pick(1, 1, 2, 3), r.int(1, 3))
    x = picture(r, spatial, last, groups * each, dtype=dtype)
    size = r.ints(spatial, 1, 3)
    filters = r.plain((groups * r.int(1, 2), each, *size), dtype)
    attributes = {
        "strides": r.ints(spatial, 1, 3), "dilations": r.ints(spatial, 1, 2), "groups": groups,
        "paddings": around(r, spatial, size), "padding_algorithm": r.pick("EXPLICIT", "EXPLICIT", "SAME", "VALID"),
        "data_format": ["NCHW", "NHWC", "NCDHW", "NDHWC"][(spatial - 2) * 2 + last],
    }
    return Call({"Input": x, "Filter": filters}, attributes, ["Output"])


@calls("conv2d_transpose", "depthwise_conv2d_transpose")
def conv_transpose(r, kind):
    last, dtype = r.flag(0.3), r.floating()
    groups, each = (r.int(1, 3), 1) if kind.startswith("depth") else (r.pick(1, 1, 2), r.int(1, 3))
    x = picture(r, 2, last, groups * each, 5, dtype)
    size, strides = r.ints(2, 1, 3), r.ints(2, 1, 3)
    filters = r.plain((groups * each, 1 if kind.startswith("depth") else r.int(1, 2), *size), dtype)
    attributes = {
        "strides": strides, "dilations": r.ints(2, 1, 2), "groups": groups, "paddings": around(r, 2, size),
        "padding_algorithm": r.pick("EXPLICIT", "EXPLICIT", "SAME", "VALID"),
        "data_format": "NHWC" if last else "NCHW",
    }
    if r.flag(0.3):
        attributes["output_padding"] = [r.int(0, step - 1) for step in strides]
    return Call({"Input": x, "Filter": filters}, attributes, ["Output"])


SPATIAL = {"linear": 1, "bilinear": 2, "nearest": 2, "bicubic": 2, "trilinear": 3}


@calls(*(f"{method}_interp_v2" for method in SPATIAL), "bilinear_interp", "nearest_interp")
def resize(r, kind):
    method = kind.split("_")[0]
    spatial, last, is_old = SPATIAL[method], r.flag(0.3), not kind.endswith("_v2")
    x = picture(r, spatial, last, dim=8 if spatial < 3 else 4, dtype=r.floating())
    attributes = {
        "interp_method": method, "align_corners": r.flag(), "align_mode": r.int(0, 1),
        "data_layout": "NHWC" if last else "NCHW",
    }
    inputs, names = {"X": x}, ["out_d", "out_h", "out_w"][3 - spatial:]
    factor = lambda: r.pick(0.2, 0.25, 0.3, 0.5, 0.75, 1.0, 1.3, 1.5, 2.0, 2.5, 3.0, r.number(0.15, 3))
    way = r.int(0, 9)
    if way < 4:
        attributes.update({name: r.dim(9) for name in names})
    elif way < 8:
        count = 1 if is_old else spatial
        factors = [factor() for _ in range(count)]
        attributes["scale"] = factors[0] if is_old else factors
        attributes.update({name: -1 for name in names})
    elif way == 8:
        inputs["OutSize"] = array(*r.dims(spatial, 9), dtype=I32)
        attributes.update({name: r.dim(9) for name in names})
    else:
        inputs["SizeTensor"] = [array(r.dim(9), dtype=I32) for _ in range(spatial)]
        attributes.update({name: r.dim(9) for name in names})
    return Call(inputs, attributes)


@calls("grid_sampler")
def grid_sampler(r, kind):
    count, dtype = r.int(1, 2), r.floating()
    x = r.plain((count, r.int(1, 3), *r.dims(2, 6)), dtype)
    grid = r.plain((count, *r.dims(2, 4), 2), dtype, r.pick(0.4, 1.0))
    attributes = {
        "mode": r.pick("bilinear", "nearest"), "padding_mode": r.pick("zeros", "border", "reflection"),
        "align_corners": r.flag(),
    }
    return Call({"X": x, "Grid": grid}, attributes, ["Output"])


@calls("unfold")
def unfold(r, kind):
    x = picture(r, 2, False, dim=7, dtype=r.floating())
    size = r.ints(2, 1, 3)
    attributes = {
        "kernel_sizes": size, "strides": r.ints(2, 1, 3), "paddings": r.ints(4, 0, 2), "dilations": r.ints(2, 1, 2),
    }
    return Call({"X": x}, attributes, ["Y"])


@calls("pixel_shuffle")
def pixel_shuffle(r, kind):
    factor, last, dtype = r.int(1, 3), r.flag(0.4), r.floating()
    x = picture(r, 2, last, factor * factor * r.int(1, 2), 4, dtype)
    return Call({"X": x}, {"upscale_factor": factor, "data_format": "NHWC" if last else "NCHW"})
