"""Layers for the detection of objects: boxes, and parts of images in boxes."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Variable
from .._layer import Layer

__all__ = [
    "anchor_generator",
    "box_clip",
    "box_coder",
    "density_prior_box",
    "iou_similarity",
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
