//! Random numbers in ONNX.

use lodstone_model::{Attribute, AttributeValue, Loss, Model, Op, Report};

use crate::glow::DOMAIN;

/// The node of normally distributed numbers, which Glow's lowering to ONNX keeps: its generator is Glow's own. Caffe2
/// draws other numbers each time anyway.
const GAUSSIAN: &str = "GaussianFill";

/// Replaces random nodes that were kept by operators of ONNX.
pub(super) fn replace(model: &mut Model) {
    let Some(main) = model.main_mut() else { return };
    let ops = main.blocks.iter_mut().take(1).flat_map(|main| &mut main.ops);
    ops.filter(|op| op.domain == DOMAIN && op.kind == GAUSSIAN).for_each(normal);
    let is_kept = main.ops().any(|op| op.domain == DOMAIN);
    if !is_kept {
        main.operator_versions.retain(|(domain, _)| domain != DOMAIN);
    }
}

fn normal(op: &mut Op) {
    /// The code of half precision in ONNX, in which Glow draws.
    const FLOAT16: i64 = 10;
    let float = |name: &str, default: f32| match op.attribute(name) {
        Some(AttributeValue::Float(number)) => *number,
        _ => default,
    };
    let attribute = |name: &str, value| Attribute { name: name.to_owned(), value };
    let attributes = vec![
        attribute("dtype", AttributeValue::Long(FLOAT16)),
        attribute("mean", AttributeValue::Float(float("Mean", 0.0))),
        attribute("scale", AttributeValue::Float(float("Scale", 1.0))),
    ];
    op.domain.clear();
    "RandomNormalLike".clone_into(&mut op.kind);
    op.attributes = attributes;
}

/// Passes on what a lowering from Glow's nodes reports about the net: not about the storage of Glow, which it has not.
pub(super) fn pass_on(inner: Report, report: &mut Report) {
    for place in inner.losses.into_iter().filter(|(loss, _)| *loss == Loss::CustomOperators) {
        let kept = place.1.into_iter().filter(|place| !place.contains(GAUSSIAN));
        kept.for_each(|place| report.lose(Loss::CustomOperators, place));
    }
}
