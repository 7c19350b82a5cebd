"""Calls of operators of detectors: boxes, their selection, and regions of images."""
import numpy as np

from .chance import F32, I32, Call, array, calls


def corners(r, *shape, size=16.0):
    """Returns boxes in an image: left, top, right, bottom."""
    low = r.random.random_sample((*shape, 2)) * 0.7
    high = low + r.random.random_sample((*shape, 2)) * 0.3 + 0.02
    return (np.concatenate([low, high], -1) * size).astype(F32)


def scores(r, *shape):
    """Returns distinct numbers between 0 and 1."""
    count = int(np.prod(shape))
    return ((r.random.permutation(count) + 0.5) / count).astype(F32).reshape(shape)


@calls("anchor_generator", "prior_box", "density_prior_box")
def grid(r, kind):
    features, image = r.plain((1, 1, r.dim(4), r.dim(4))), r.plain((1, 1, r.int(9, 40), r.int(9, 40)))
    attributes = {"variances": [0.1, 0.1, 0.2, 0.2], "offset": r.pick(0.5, 0.0, 0.25)}
    ratios = r.some([1.0, 2.0, 0.5, 3.0])
    if kind == "anchor_generator":
        attributes.update(anchor_sizes=[16.0, 32.0], aspect_ratios=ratios, stride=[8.0, r.pick(8.0, 16.0)])
        return Call({"Input": features}, attributes, ["Anchors", "Variances"], gradient=False)
    attributes.update(clip=r.flag())
    if r.flag():
        attributes.update(step_w=float(r.int(4, 9)), step_h=float(r.int(4, 9)))
    if kind == "prior_box":
        attributes.update(min_sizes=[4.0, 6.0], max_sizes=r.pick([], [8.0, 9.0]), aspect_ratios=ratios, flip=r.flag())
        attributes.update(min_max_aspect_ratios_order=r.flag())
    else:
        attributes.update(fixed_sizes=[4.0, 8.0], fixed_ratios=ratios, densities=r.ints(2, 1, 3))
        attributes.update(flatten_to_2d=r.flag())
    return Call({"Input": features, "Image": image}, attributes, ["Boxes", "Variances"], gradient=False)


@calls("box_coder")
def box_coder(r, kind):
    rows, columns, axis = r.int(1, 4), r.int(1, 4), r.int(0, 1)
    attributes = {"box_normalized": r.flag(), "code_type": r.pick("encode_center_size", "decode_center_size")}
    decodes = attributes["code_type"].startswith("decode")
    count = rows if decodes and axis == 1 else columns
    inputs = {"PriorBox": corners(r, count)}
    inputs["TargetBox"] = r.plain((rows, columns, 4), scale=0.25) if decodes else corners(r, rows)
    if decodes:
        attributes["axis"] = axis
    if r.flag():
        inputs["PriorBoxVar"] = r.positive((count, 4))
    elif r.flag():
        attributes["variance"] = [0.1, 0.1, 0.2, 0.2]
    return Call(inputs, attributes, ["OutputBox"], gradient=False)


@calls("iou_similarity")
def iou_similarity(r, kind):
    pair = {"X": corners(r, r.int(1, 5)), "Y": corners(r, r.int(1, 5))}
    return Call(pair, {"box_normalized": r.flag()}, gradient=False)


@calls("polygon_box_transform")
def polygon_box_transform(r, kind):
    return Call({"Input": r.plain((r.int(1, 2), 2 * r.int(1, 3), r.dim(), r.dim()))}, {}, ["Output"], gradient=False)


@calls("yolo_box")
def yolo_box(r, kind):
    classes, aware, anchors = r.int(1, 4), r.flag(0.3), [10, 13, 16, 30, 33, 23][:2 * r.int(1, 3)]
    batch, channels = r.int(1, 2), (classes + 5 + aware) * len(anchors) // 2
    inputs = {
        "X": r.plain((batch, channels, r.dim(4), r.dim(4)), scale=0.5),
        "ImgSize": r.integers((batch, 2), 20, 90, I32),
    }
    return Call(inputs, {
        "anchors": anchors, "class_num": classes, "conf_thresh": r.number(0, 1), "downsample_ratio": r.pick(8, 16, 32),
        "clip_bbox": r.flag(), "scale_x_y": r.pick(1.0, 1.125), "iou_aware": aware, "iou_aware_factor": 0.25,
    }, ["Boxes", "Scores"], gradient=False)


@calls("roi_align", "roi_pool")
def regions(r, kind):
    batch = r.int(1, 3)
    counts = [r.int(1, 3) for _ in range(batch)]
    x = r.distinct((batch, r.int(1, 2), 8, 9), odd=0)
    inputs = {"X": x, "ROIs": corners(r, sum(counts)), "RoisNum": array(*counts, dtype=I32)}
    attributes = {"pooled_height": r.int(1, 3), "pooled_width": r.int(1, 3), "spatial_scale": r.pick(0.5, 0.25, 1.0)}
    if kind == "roi_pool":
        return Call(inputs, attributes, ["Out", "Argmax"], ["Argmax"], gradient=False)
    attributes.update(sampling_ratio=r.pick(-1, 1, 2), aligned=r.flag())
    return Call(inputs, attributes, gradient=False)


@calls("multiclass_nms", "multiclass_nms2", "multiclass_nms3", "matrix_nms")
def suppression(r, kind):
    batch, classes, count = r.int(1, 3), r.int(1, 4), r.int(1, 12)
    inputs = {"BBoxes": corners(r, batch, count), "Scores": scores(r, batch, classes, count)}
    attributes = {
        "score_threshold": r.pick(0.01, 0.3), "nms_top_k": r.pick(-1, 4, 100), "keep_top_k": r.pick(-1, 3, 100),
        "background_label": r.pick(-1, 0), "normalized": r.flag(0.7),
    }
    if kind == "matrix_nms":
        attributes.update(post_threshold=r.pick(0.0, 0.1), use_gaussian=r.flag(), gaussian_sigma=2.0)
        return Call(inputs, attributes, ["Out", "Index", "RoisNum"], gradient=False)
    attributes.update(nms_threshold=r.pick(0.3, 0.6), nms_eta=r.pick(1.0, 1.0, 0.75))
    outputs = {"multiclass_nms": ["Out"], "multiclass_nms2": ["Out", "Index"]}
    return Call(inputs, attributes, outputs.get(kind, ["Out", "Index", "NmsRoisNum"]), gradient=False)


@calls("generate_proposals", "generate_proposals_v2")
def generate_proposals(r, kind):
    batch, anchors, height, width = r.int(1, 2), r.int(1, 3), r.dim(3), r.dim(3)
    is_old = kind == "generate_proposals"
    info = np.array([[r.int(16, 30), r.int(16, 30), r.pick(1, 2)] for _ in range(batch)], F32)
    inputs = {
        "Scores": scores(r, batch, anchors, height, width),
        "BboxDeltas": r.plain((batch, 4 * anchors, height, width), scale=0.25),
        "Anchors": corners(r, height, width, anchors, size=24.0),
        "Variances": np.ones((height, width, anchors, 4), F32),
    }
    attributes = {
        "pre_nms_topN": r.pick(4, 100), "post_nms_topN": r.pick(3, 100), "nms_thresh": r.pick(0.3, 0.7),
        "min_size": r.pick(0.0, 3.0), "eta": r.pick(1.0, 1.0, 0.75),
    }
    if not is_old:
        attributes["pixel_offset"] = r.flag()
    inputs["ImInfo" if is_old else "ImShape"] = info if is_old else info[:, :2].copy()
    return Call(inputs, attributes, ["RpnRois", "RpnRoiProbs", "RpnRoisNum"], gradient=False)


@calls("distribute_fpn_proposals")
def distribute(r, kind):
    counts = [r.int(0, 4) for _ in range(r.int(1, 3))]
    inputs = {"FpnRois": corners(r, sum(counts), size=600.0), "RoisNum": array(*counts, dtype=I32)}
    attributes = {"min_level": 2, "max_level": 5, "refer_level": 4, "refer_scale": 224, "pixel_offset": r.flag()}
    outputs = {"MultiFpnRois": 4, "RestoreIndex": 1, "MultiLevelRoIsNum": 4}
    return Call(inputs, attributes, outputs, gradient=False)


@calls("collect_fpn_proposals")
def collect(r, kind):
    levels, batch = r.int(1, 3), r.int(1, 3)
    counts = [[r.int(1, 3) for _ in range(batch)] for _ in range(levels)]
    every = scores(r, sum(map(sum, counts)), 1)
    ends = np.cumsum([0, *map(sum, counts)])
    inputs = {
        "MultiLevelRois": [corners(r, sum(own)) for own in counts],
        "MultiLevelScores": [every[start:end].copy() for start, end in zip(ends, ends[1:])],
        "MultiLevelRoIsNum": [array(*own, dtype=I32) for own in counts],
    }
    return Call(inputs, {"post_nms_topN": r.pick(3, 100)}, ["FpnRois", "RoisNum"], gradient=False)


@calls("nms")
def nms(r, kind):
    count = r.int(1, 9)
    begin = r.integers((count, 2), 0, 12)
    boxes = np.concatenate([begin, begin + r.integers((count, 2), 1, 9)], 1)
    return Call({"Boxes": boxes.astype(r.floating())}, {"iou_threshold": r.number(0, 1)}, ["KeepBoxesIdxs"])
