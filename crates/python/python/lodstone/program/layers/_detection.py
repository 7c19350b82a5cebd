"""Layers for the detection of objects: boxes, and parts of images in boxes."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Variable
from .._layer import Layer, variable
from ._nn import softmax
from ._tensor import transpose

__all__ = [
    "anchor_generator",
    "bipartite_match",
    "box_clip",
    "box_coder",
    "collect_fpn_proposals",
    "density_prior_box",
    "detection_output",
    "distribute_fpn_proposals",
    "generate_proposals",
    "iou_similarity",
    "matrix_nms",
    "multiclass_nms",
    "polygon_box_transform",
    "prior_box",
    "roi_align",
    "roi_pool",
    "yolo_box",
]

VARIANCE = (0.1, 0.1, 0.2, 0.2)


def anchor_generator(
    input: Variable,
    anchor_sizes: Sequence[float],
    aspect_ratios: Sequence[float],
    variance: Sequence[float] = VARIANCE,
    stride: Sequence[float] = (16.0, 16.0),
    offset: float = 0.5,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Anchors at each position of a feature map, and their variances."""
    attrs = {
        "anchor_sizes": list(anchor_sizes),
        "aspect_ratios": list(aspect_ratios),
        "variances": list(variance),
        "stride": list(stride),
        "offset": offset,
    }
    kind = "anchor_generator"
    anchors, variances = Layer(kind, name).results(kind, {"Input": input}, attrs, ["Anchors", "Variances"])
    return anchors, variances


def prior_box(
    input: Variable,
    image: Variable,
    min_sizes: Sequence[float],
    max_sizes: Sequence[float] | None = None,
    aspect_ratios: Sequence[float] = (1.0,),
    variance: Sequence[float] = VARIANCE,
    flip: bool = False,
    clip: bool = False,
    steps: Sequence[float] = (0.0, 0.0),
    offset: float = 0.5,
    name: str | None = None,
    min_max_aspect_ratios_order: bool = False,
) -> tuple[Variable, Variable]:
    """Prior boxes at each position of a feature map of an image, and their variances."""
    attrs = {
        "min_sizes": list(min_sizes),
        "max_sizes": list(max_sizes) if max_sizes else None,
        "aspect_ratios": list(aspect_ratios),
        "variances": list(variance),
        "flip": flip,
        "clip": clip,
        "step_w": steps[0],
        "step_h": steps[1],
        "offset": offset,
        "min_max_aspect_ratios_order": min_max_aspect_ratios_order,
    }
    inputs = {"Input": input, "Image": image}
    boxes, variances = Layer("prior_box", name).results("prior_box", inputs, attrs, ["Boxes", "Variances"])
    return boxes, variances


def density_prior_box(
    input: Variable,
    image: Variable,
    densities: Sequence[int],
    fixed_sizes: Sequence[float],
    fixed_ratios: Sequence[float],
    variance: Sequence[float] = VARIANCE,
    clip: bool = False,
    steps: Sequence[float] = (0.0, 0.0),
    offset: float = 0.5,
    flatten_to_2d: bool = False,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Prior boxes of several densities at each position of a feature map of an image, and their variances."""
    attrs = {
        "densities": list(densities),
        "fixed_sizes": list(fixed_sizes),
        "fixed_ratios": list(fixed_ratios),
        "variances": list(variance),
        "clip": clip,
        "step_w": steps[0],
        "step_h": steps[1],
        "offset": offset,
        "flatten_to_2d": flatten_to_2d,
    }
    kind = "density_prior_box"
    inputs = {"Input": input, "Image": image}
    boxes, variances = Layer(kind, name).results(kind, inputs, attrs, ["Boxes", "Variances"])
    return boxes, variances


def box_coder(
    prior_box: Variable,
    prior_box_var: Variable | Sequence[float] | None,
    target_box: Variable,
    code_type: str = "encode_center_size",
    box_normalized: bool = True,
    name: str | None = None,
    axis: int = 0,
) -> Variable:
    """Boxes, encoded relative to prior boxes, or decoded (`"decode_center_size"`)."""
    inputs = {"PriorBox": prior_box, "TargetBox": target_box}
    attrs = {"code_type": code_type, "box_normalized": box_normalized, "axis": axis, "variance": None}
    if isinstance(prior_box_var, Variable):
        inputs["PriorBoxVar"] = prior_box_var
    elif prior_box_var is not None:
        attrs["variance"] = list(prior_box_var)
    return Layer("box_coder", name).result("box_coder", inputs, attrs, "OutputBox")


def box_clip(input: Variable, im_info: Variable, name: str | None = None) -> Variable:
    """Boxes, clipped to their images: `im_info` has the height, width and scale of each."""
    return Layer("box_clip", name).result("box_clip", {"Input": input, "ImInfo": im_info}, None, "Output")


def iou_similarity(x: Variable, y: Variable, box_normalized: bool = True, name: str | None = None) -> Variable:
    """The intersection over union of each pair of boxes."""
    attrs = {"box_normalized": box_normalized}
    return Layer("iou_similarity", name).result("iou_similarity", {"X": x, "Y": y}, attrs)


def multiclass_nms(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
    name: str | None = None,
) -> Variable:
    """The boxes that remain after non-maximum suppression for each class: class, score and box."""
    attrs = {
        "background_label": background_label,
        "score_threshold": score_threshold,
        "nms_top_k": nms_top_k,
        "nms_threshold": nms_threshold,
        "keep_top_k": keep_top_k,
        "nms_eta": nms_eta,
        "normalized": normalized,
    }
    inputs = {"BBoxes": bboxes, "Scores": scores}
    return Layer("multiclass_nms", name).result("multiclass_nms", inputs, attrs)


def detection_output(
    loc: Variable,
    scores: Variable,
    prior_box: Variable,
    prior_box_var: Variable,
    background_label: int = 0,
    nms_threshold: float = 0.3,
    nms_top_k: int = 400,
    keep_top_k: int = 200,
    score_threshold: float = 0.01,
    nms_eta: float = 1.0,
) -> Variable:
    """The boxes that SSD detects: decoded, without those that others suppress."""
    boxes = box_coder(prior_box, prior_box_var, loc, code_type="decode_center_size")
    shares = transpose(softmax(scores), [0, 2, 1])
    shares.stop_gradient = True
    limits = (score_threshold, nms_top_k, keep_top_k, nms_threshold)
    found = multiclass_nms(boxes, shares, *limits, nms_eta=nms_eta, background_label=background_label)
    found.stop_gradient = True
    return found


def matrix_nms(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    post_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    use_gaussian: bool = False,
    gaussian_sigma: float = 2.0,
    background_label: int = 0,
    normalized: bool = True,
    return_index: bool = False,
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]:
    """The boxes whose scores remain high when boxes that they overlap decrease them; with their indices on request."""
    attrs = {
        "background_label": background_label,
        "score_threshold": score_threshold,
        "post_threshold": post_threshold,
        "nms_top_k": nms_top_k,
        "gaussian_sigma": gaussian_sigma,
        "use_gaussian": use_gaussian,
        "keep_top_k": keep_top_k,
        "normalized": normalized,
    }
    inputs = {"BBoxes": bboxes, "Scores": scores}
    found, index = Layer("matrix_nms", name).results("matrix_nms", inputs, attrs, ["Out", "Index"])
    found.stop_gradient = index.stop_gradient = True
    return (found, index) if return_index else found


def bipartite_match(
    dist_matrix: Variable,
    match_type: str | None = None,
    dist_threshold: float | None = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """The row of each column, matched by the largest distances first, or -1; and these distances."""
    attrs = {"match_type": match_type, "dist_threshold": dist_threshold}
    slots = ["ColToRowMatchIndices", "ColToRowMatchDist"]
    rows, distances = Layer("bipartite_match", name).results("bipartite_match", {"DistMat": dist_matrix}, attrs, slots)
    return rows, distances


def generate_proposals(
    scores: Variable,
    bbox_deltas: Variable,
    im_info: Variable,
    anchors: Variable,
    variances: Variable,
    pre_nms_top_n: int = 6000,
    post_nms_top_n: int = 1000,
    nms_thresh: float = 0.5,
    min_size: float = 0.1,
    eta: float = 1.0,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """The boxes of regions that a network proposes, and their probabilities."""
    attrs = {
        "pre_nms_topN": pre_nms_top_n,
        "post_nms_topN": post_nms_top_n,
        "nms_thresh": nms_thresh,
        "min_size": min_size,
        "eta": eta,
    }
    inputs = {"Scores": scores, "BboxDeltas": bbox_deltas, "ImInfo": im_info, "Anchors": anchors, "Variances": variances}
    slots = ["RpnRois", "RpnRoiProbs"]
    boxes, shares = Layer("generate_proposals", name).results("generate_proposals", inputs, attrs, slots)
    boxes.stop_gradient = shares.stop_gradient = True
    return boxes, shares


def distribute_fpn_proposals(
    fpn_rois: Variable, min_level: int, max_level: int, refer_level: int, refer_scale: int, name: str | None = None
) -> tuple[list[Variable], Variable]:
    """Boxes, by the level of a pyramid that suits their size; and the indices that restore their order."""
    layer = Layer("distribute_fpn_proposals", name)
    count = max_level - min_level + 1
    if not 0 < count <= 64:
        raise ValueError(f"arguments 'min_level' and 'max_level': expected 1 to 64 levels, found {count}")
    levels, order = [layer.temporary() for _ in range(count)], layer.temporary()
    attrs = {"min_level": min_level, "max_level": max_level, "refer_level": refer_level, "refer_scale": refer_scale}
    outputs = {"MultiFpnRois": levels, "RestoreIndex": order}
    layer.append("distribute_fpn_proposals", {"FpnRois": fpn_rois}, outputs, attrs)
    return [variable(level) for level in levels], variable(order)


def collect_fpn_proposals(
    multi_rois: Sequence[Variable],
    multi_scores: Sequence[Variable],
    min_level: int,
    max_level: int,
    post_nms_top_n: int,
    name: str | None = None,
) -> Variable:
    """The boxes of all levels with the highest scores."""
    count = max_level - min_level + 1
    inputs = {"MultiLevelRois": list(multi_rois)[:count], "MultiLevelScores": list(multi_scores)[:count]}
    attrs = {"post_nms_topN": post_nms_top_n}
    made = Layer("collect_fpn_proposals", name).result("collect_fpn_proposals", inputs, attrs, "FpnRois")
    made.stop_gradient = True
    return made


def polygon_box_transform(input: Variable, name: str | None = None) -> Variable:
    """Offsets of the corners of text boxes, as positions."""
    kind = "polygon_box_transform"
    return Layer(kind, name).result(kind, {"Input": input}, None, "Output")


def _pooled(
    kind: str, input: Variable, rois: Variable, attrs: dict[str, float], counts: Variable | None, name: str | None
) -> Variable:
    extra = ["Argmax"] if kind == "roi_pool" else []
    return Layer(kind, name).result(kind, {"X": input, "ROIs": rois, "RoisNum": counts}, attrs, extra=extra)


def roi_align(
    input: Variable,
    rois: Variable,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    name: str | None = None,
    rois_num: Variable | None = None,
) -> Variable:
    """Parts of feature maps in boxes, interpolated to one size."""
    attrs = {
        "pooled_height": pooled_height,
        "pooled_width": pooled_width,
        "spatial_scale": spatial_scale,
        "sampling_ratio": sampling_ratio,
    }
    return _pooled("roi_align", input, rois, attrs, rois_num, name)


def roi_pool(
    input: Variable,
    rois: Variable,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    rois_num: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """The maxima of parts of feature maps in boxes, pooled to one size."""
    attrs = {"pooled_height": pooled_height, "pooled_width": pooled_width, "spatial_scale": spatial_scale}
    return _pooled("roi_pool", input, rois, attrs, rois_num, name)


def yolo_box(
    x: Variable,
    img_size: Variable,
    anchors: Sequence[int],
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
) -> tuple[Variable, Variable]:
    """The boxes and scores of the output of a YOLOv3 network."""
    attrs = {
        "anchors": list(anchors),
        "class_num": class_num,
        "conf_thresh": conf_thresh,
        "downsample_ratio": downsample_ratio,
        "clip_bbox": clip_bbox,
        "scale_x_y": scale_x_y,
    }
    boxes, scores = Layer("yolo_box", name).results("yolo_box", {"X": x, "ImgSize": img_size}, attrs, ["Boxes", "Scores"])
    return boxes, scores
