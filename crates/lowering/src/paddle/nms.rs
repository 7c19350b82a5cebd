//! Suppression of boxes that overlap better ones, for exported programs.
//!
//! The rules differ from the native functions in what ONNX cannot express: an image without boxes has no row, and boxes
//! less than a pixel apart and empty boxes are suppressed as [`suppression`](crate::onnx::suppression) has it.

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::boxes::Overlap;
use crate::onnx::required::required_dim;
use crate::onnx::suppression::{BOTTOM, Suppression};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("matrix_nms", matrix_nms),
    ("multiclass_nms", multiclass_nms),
    ("multiclass_nms2", multiclass_nms),
    ("multiclass_nms3", multiclass_nms),
    ("nms", nms),
];

/// Boxes of classes, for which scores decide.
struct Candidates {
    /// `[batch, boxes, 4]`
    boxes: Value,
    /// `[batch, classes, boxes]`; that of the background is infinitely low.
    scores: Value,
    batch: Batch,
}

/// What the batch is.
enum Batch {
    /// The images.
    Images,
    /// The classes of a single image, each of which has boxes of its own.
    Classes,
    /// The images of each class. All have the same boxes; scores of those of other images are infinitely low.
    ClassesOfImages {
        /// The number of images.
        images: Value,
    },
}

impl Candidates {
    fn of(op: &mut Operator<'_>) -> Outcome<Self> {
        let (boxes, scores) = (op.input("BBoxes")?, op.input("Scores")?);
        let is_by_class = scores.rank()? == 2;
        let (boxes, scores) = if is_by_class {
            let scores = op.transpose(&scores, &[1, 0])?;
            (op.transpose(&boxes, &[1, 0, 2])?, op.unsqueeze(&scores, &[1])?)
        } else {
            (boxes, scores)
        };
        if boxes.rank()? != 3 || scores.rank()? != 3 {
            return Err("expected boxes of rank 3, and scores of rank 2 or 3".into());
        }
        let background = op.int("background_label")?;
        let scores = if background < 0 {
            scores
        } else {
            let axis = if is_by_class { 0 } else { 1 };
            let count = op.extent(&scores, axis)?;
            let classes = op.counting(&count, DType::Int64)?;
            let background = op.long(background);
            let is_background = op.call("Equal", &[&classes, &background], [])?;
            let behind: &[i64] = if is_by_class { &[1, 2] } else { &[1] };
            let is_background = op.unsqueeze(&is_background, behind)?;
            let lowest = op.number(scores.dtype(), f64::NEG_INFINITY)?;
            op.choose(&is_background, &lowest, &scores)?
        };
        match is_by_class {
            true => Self::by_class(op, boxes, scores),
            false => Ok(Self { boxes, scores, batch: Batch::Images }),
        }
    }

    /// Divides the boxes of each class among their images, by `RoisNum` or LoD. `boxes` are `[classes, boxes, 4]`, `scores`
    /// `[classes, 1, boxes]`.
    fn by_class(op: &mut Operator<'_>, boxes: Value, scores: Value) -> Outcome<Self> {
        let rows = op.input("BBoxes")?;
        let (own, images) = match (op.optional("RoisNum")?, op.offsets("BBoxes")) {
            (Some(counts), _) if required_dim(&counts, 0) == Ok(1) => {
                return Ok(Self { boxes, scores, batch: Batch::Classes });
            }
            (None, Some(offsets)) if required_dim(&offsets, 0) == Ok(2) => {
                return Ok(Self { boxes, scores, batch: Batch::Classes });
            }
            (Some(counts), _) => (op.images_by_counts(&rows, &counts)?, op.extent(&counts, 0)?),
            (None, Some(offsets)) => {
                let own = op.images_by_offsets(&rows, &offsets)?;
                let (count, one) = (op.extent(&offsets, 0)?, op.long(1));
                (own, op.sub(&count, &one)?)
            }
            (None, None) => {
                let what = "the images of the boxes must be known by `RoisNum` or LoD";
                return Err(Finding::from(what).about_slot("BBoxes"));
            }
        };
        let numbers = op.counting(&images, DType::Int64)?;
        let column = op.unsqueeze(&numbers, &[1])?;
        // [images, boxes]
        let is_own = op.call("Equal", &[&column, &own], [])?;
        let lowest = op.number(scores.dtype(), f64::NEG_INFINITY)?;
        // [classes, images, boxes]
        let scores = op.choose(&is_own, &scores, &lowest)?;
        let (first, last) = (op.dim(&boxes, 0)?, op.dim(&boxes, 1)?);
        let [middle, four] = [op.reshape(&images, &[1])?, op.longs(&[4])];
        let dims = op.concat(&[&first, &middle, &last, &four], 0)?;
        let boxes = op.unsqueeze(&boxes, &[1])?;
        let boxes = op.call("Expand", &[&boxes, &dims], [])?;
        let all = op.call("Mul", &[&first, &middle], [])?;
        let dims = op.concat(&[&all, &last, &four], 0)?;
        let boxes = op.call("Reshape", &[&boxes, &dims], [int("allowzero", 1)])?;
        let one = op.longs(&[1]);
        let dims = op.concat(&[&all, &one, &last], 0)?;
        let scores = op.call("Reshape", &[&scores, &dims], [int("allowzero", 1)])?;
        Ok(Self { boxes, scores, batch: Batch::ClassesOfImages { images } })
    }
}

/// Suppresses boxes in each class, and keeps the best of each image: rows of class, score and box, by class, then by
/// score.
fn multiclass_nms(op: &mut Operator<'_>) -> Outcome {
    let above = f64::from(op.float("score_threshold")?).max(BOTTOM);
    let how = Suppression::above(op.float("nms_threshold")?.into());
    let how = Suppression { edge: op.edge("normalized")?, above: Some(above), ..how };
    if op.attribute("nms_eta").is_some() {
        how.check_factor("nms_eta", op.float("nms_eta")?)?;
    }
    let Candidates { boxes, scores, batch } = Candidates::of(op)?;
    let (first, most) = (op.int("nms_top_k")?, op.int("keep_top_k")?);
    let all = scores;
    let scores = match required_dim(&all, 2) {
        _ if first < 0 => all.clone(),
        Ok(count) if count <= first => all.clone(),
        _ => {
            let [best, places] = op.highest(&all, Some(first), true)?;
            let none = op.constant_like(&all, all.dtype(), f64::NEG_INFINITY)?;
            op.put_elements(&none, &places, &best, 2, "none")?
        }
    };
    let corners = op.corners(&boxes)?;
    let chosen = op.suppressed(&corners, &scores, how)?;
    let found = op.call("GatherND", &[&all, &chosen], [])?;
    let images = match &batch {
        Batch::Images => Some(op.extent(&all, 0)?),
        Batch::Classes => None,
        Batch::ClassesOfImages { images } => Some(images.clone()),
    };
    let kept = match &images {
        _ if most < 0 => None,
        Some(images) if required_dim(&all, 0) != Ok(1) => {
            let (image, _) = image_and_class(op, &chosen, &batch)?;
            Some(op.best_of_images(&found, Some((&image, images)), most)?)
        }
        _ => Some(op.best_of_images(&found, None, most)?),
    };
    let (chosen, found) = match kept {
        Some(kept) => (op.gather(&chosen, &kept, 0)?, op.gather(&found, &kept, 0)?),
        None => (chosen, found),
    };
    let is_by_class = !matches!(batch, Batch::Images);
    // With boxes of each class, they are in their own order.
    let (chosen, found) = if is_by_class {
        let (image, class) = image_and_class(op, &chosen, &batch)?;
        let place = op.slice(&chosen, 1, 2, 3)?;
        let count = op.extent(&boxes, 1)?;
        let classes = op.classes()?;
        let keys = op.mul(&image, &classes)?;
        let keys = op.add(&keys, &class)?;
        let keys = op.mul(&keys, &count)?;
        let keys = op.add(&keys, &place)?;
        let keys = op.reshape(&keys, &[-1])?;
        let [_, order] = op.highest(&keys, None, false)?;
        (op.gather(&chosen, &order, 0)?, op.gather(&found, &order, 0)?)
    } else {
        (chosen, found)
    };
    let (image, class) = image_and_class(op, &chosen, &batch)?;
    let mut column = |place: i64| op.slice(&chosen, 1, place, place + 1);
    let (of_batch, place) = (column(0)?, column(2)?);
    let places = op.concat(&[&of_batch, &place], 1)?;
    let found_boxes = op.call("GatherND", &[&boxes, &places], [])?;
    let labels = op.cast(&class, boxes.dtype())?;
    let found = op.unsqueeze(&found, &[1])?;
    let rows = op.concat(&[&labels, &found, &found_boxes], 1)?;
    op.put("Out", &rows)?;
    let index = if is_by_class {
        let count = op.classes()?;
        let first = op.mul(&place, &count)?;
        op.add(&first, &class)?
    } else {
        let count = op.extent(&boxes, 1)?;
        let first = op.mul(&image, &count)?;
        op.add(&first, &place)?
    };
    let index = op.cast(&index, DType::Int32)?;
    op.put("Index", &index)?;
    let count = images.unwrap_or_else(|| op.long(1));
    let image = op.reshape(&image, &[-1])?;
    let counts = op.image_counts(&image, &count, None)?;
    let offsets = op.offsets_of(&counts)?;
    if op.kind() != "multiclass_nms3" {
        op.put_offsets("Out", std::slice::from_ref(&offsets));
        op.put_offsets("Index", &[offsets]);
    }
    let counts = op.cast(&counts, DType::Int32)?;
    op.put("NmsRoisNum", &counts)
}

impl Operator<'_> {
    /// Returns the number of classes, each of which has boxes of its own.
    fn classes(&mut self) -> Outcome<Value> {
        let scores = self.input("Scores")?;
        self.extent(&scores, 1)
    }
}

/// Returns the images and the classes of chosen boxes, as columns.
fn image_and_class(
    op: &mut Operator<'_>,
    chosen: &Value,
    batch: &Batch,
) -> Outcome<(Value, Value)> {
    let first = op.slice(chosen, 1, 0, 1)?;
    Ok(match batch {
        Batch::Images => (first, op.slice(chosen, 1, 1, 2)?),
        Batch::Classes => {
            let zero = op.long(0);
            (op.mul(&first, &zero)?, first)
        }
        Batch::ClassesOfImages { images } => {
            (op.call("Mod", &[&first, images], [])?, op.div(&first, images)?)
        }
    })
}

/// Lowers scores by the overlap with better boxes of the class, and keeps the best of each image, by score.
fn matrix_nms(op: &mut Operator<'_>) -> Outcome {
    let Candidates { boxes, scores, batch } = Candidates::of(op)?;
    if !matches!(batch, Batch::Images) {
        return Err("expected scores of rank 3".into());
    }
    let (first, most) = (op.int("nms_top_k")?, op.int("keep_top_k")?);
    let (least, last) = (op.float("score_threshold")?, op.float("post_threshold")?);
    let (edge, dtype) = (op.edge("normalized")?, scores.dtype());
    let lowest = op.number(dtype, f64::NEG_INFINITY)?;
    let least = op.number(dtype, least.into())?;
    let is_above = op.call("Greater", &[&scores, &least], [])?;
    let scores = op.choose(&is_above, &scores, &lowest)?;
    // [batch, classes, candidates]
    let [scores, places] = op.highest(&scores, (first >= 0).then_some(first), true)?;
    let own = op.rows(&boxes, &places)?;
    let corners = op.corners(&own)?;
    let (column, line) = (op.spread(&corners, &[3])?, op.spread(&corners, &[2])?);
    let overlap = op.overlap(&column, &line, Overlap::Strict(edge))?;
    let one = op.number(dtype, 1.0)?;
    // The overlap of each box with the better ones.
    let behind = op.long(-1);
    let overlap = op.call("Trilu", &[&overlap, &behind], [int("upper", 0)])?;
    let greatest = op.reduce("ReduceMax", &overlap, &[3], false)?;
    let greatest = op.unsqueeze(&greatest, &[2])?;
    let decay = if op.flag("use_gaussian")? {
        let (far, near) = (op.mul(&greatest, &greatest)?, op.mul(&overlap, &overlap)?);
        let way = op.sub(&far, &near)?;
        let sigma = op.float("gaussian_sigma")?;
        let way = op.times(&way, sigma.into())?;
        op.call("Exp", &[&way], [])?
    } else {
        let (rest, all) = (op.sub(&one, &overlap)?, op.sub(&one, &greatest)?);
        op.div(&rest, &all)?
    };
    // Only better boxes lower a score.
    let count = op.extent(&scores, 2)?;
    let numbers = op.counting(&count, DType::Int64)?;
    let own_number = op.unsqueeze(&numbers, &[1])?;
    let is_better = op.call("Less", &[&numbers, &own_number], [])?;
    let decay = op.choose(&is_better, &decay, &one)?;
    let decay = op.reduce("ReduceMin", &decay, &[3], false)?;
    let decay = op.call("Min", &[&decay, &one], [])?;
    let lowered = op.mul(&scores, &decay)?;
    let last = op.number(dtype, last.into())?;
    let bottom = op.number(dtype, BOTTOM)?;
    let is_kept = op.call("Greater", &[&lowered, &last], [])?;
    let is_found = op.call("Greater", &[&scores, &bottom], [])?;
    let is_kept = op.call("And", &[&is_kept, &is_found], [])?;
    let lowered = op.choose(&is_kept, &lowered, &lowest)?;
    let flat = op.longs(&[0, -1]);
    let lowered = op.call("Reshape", &[&lowered, &flat], [])?;
    let places = op.call("Reshape", &[&places, &flat], [])?;
    let [best, order] = op.highest(&lowered, (most >= 0).then_some(most), true)?;
    let is_kept = op.call("Greater", &[&best, &bottom], [])?;
    let rows = op.call("NonZero", &[&is_kept], [])?;
    let rows = op.transpose(&rows, &[1, 0])?;
    let found = op.call("GatherND", &[&best, &rows], [])?;
    let order = op.call("GatherND", &[&order, &rows], [])?;
    let class = op.div(&order, &count)?;
    let image = op.slice(&rows, 1, 0, 1)?;
    let order = op.unsqueeze(&order, &[1])?;
    let pairs = op.concat(&[&image, &order], 1)?;
    let place = op.call("GatherND", &[&places, &pairs], [])?;
    let place = op.unsqueeze(&place, &[1])?;
    let pairs = op.concat(&[&image, &place], 1)?;
    let found_boxes = op.call("GatherND", &[&boxes, &pairs], [])?;
    let (class, found) = (op.cast(&class, dtype)?, op.unsqueeze(&found, &[1])?);
    let class = op.unsqueeze(&class, &[1])?;
    let out = op.concat(&[&class, &found, &found_boxes], 1)?;
    op.put("Out", &out)?;
    let count = op.extent(&boxes, 1)?;
    let begin = op.mul(&image, &count)?;
    let index = op.add(&begin, &place)?;
    let index = op.cast(&index, DType::Int32)?;
    op.put("Index", &index)?;
    let image = op.reshape(&image, &[-1])?;
    let count = op.extent(&boxes, 0)?;
    let counts = op.image_counts(&image, &count, None)?;
    let offsets = op.offsets_of(&counts)?;
    if !op.wants("RoisNum") {
        op.put_offsets("Out", std::slice::from_ref(&offsets));
        op.put_offsets("Index", &[offsets]);
    }
    let counts = op.cast(&counts, DType::Int32)?;
    op.put("RoisNum", &counts)
}

/// The indices of the boxes that overlap no earlier kept one.
fn nms(op: &mut Operator<'_>) -> Outcome {
    let (boxes, overlap) = (op.input("Boxes")?, op.float("iou_threshold")?);
    let count = op.extent(&boxes, 0)?;
    let numbers = op.counting(&count, DType::Float32)?;
    let scores = op.call("Neg", &[&numbers], [])?;
    let scores = op.unsqueeze(&scores, &[0, 1])?;
    let boxes = op.unsqueeze(&boxes, &[0])?;
    let corners = op.corners(&boxes)?;
    // [kept, 3]: image, class, box
    let kept = op.suppressed(&corners, &scores, Suppression::above(overlap.into()))?;
    let place = op.long(2);
    let y = op.gather(&kept, &place, 1)?;
    op.put("KeepBoxesIdxs", &y)
}
