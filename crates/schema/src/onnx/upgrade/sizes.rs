//! Upsample and Resize.
//!
//! | versions | how places of the output become places of the input |
//! |---|---|
//! | Upsample 1 to 9 | divided by the scale, which is 1 or more; the nearest is the one before |
//! | Resize 10 | divided by the scale; the nearest is the one before where it grows, after where it shrinks |
//! | Resize 11 on | by attributes, whose defaults are others than that |

use lodstone_model::AttributeValue;

use super::change::{Change, floats};
use crate::Finding;

/// `height_scale` and `width_scale` of Upsample are `scales` of an image.
pub(super) fn height_and_width(change: &mut Change<'_>) -> Result<(), Finding> {
    let mut scales = vec![1.0, 1.0];
    for name in ["height_scale", "width_scale"] {
        match change.take(name) {
            Some(AttributeValue::Float(scale)) => scales.push(scale),
            _ => return Err(format!("has no number `{name}`").into()),
        }
    }
    change.set("scales", AttributeValue::Floats(scales));
    Ok(())
}

/// `scales` of Upsample became an input.
pub(super) fn scales(change: &mut Change<'_>) -> Result<(), Finding> {
    let Some(AttributeValue::Floats(scales)) = change.take("scales") else {
        return Err("has no numbers `scales`".into());
    };
    let scales = change.constant(floats(&scales));
    change.set_input(1, scales);
    Ok(())
}

/// Upsample is Resize.
pub(super) fn upsample(change: &mut Change<'_>) -> Result<(), Finding> {
    change.op.kind = "Resize".to_owned();
    if change.op.attribute("mode").is_none() {
        change.set("mode", AttributeValue::String("nearest".into()));
    }
    if change.reaches(RESIZE) {
        // Of the version after that, as it is known that nothing shrinks.
        change.version = RESIZE;
        explicit(change, "floor")?;
    }
    Ok(())
}

/// The version in which Resize says how it computes.
const RESIZE: i64 = 11;

/// Resize says how it computes, and may have a region of interest.
pub(super) fn resize(change: &mut Change<'_>) -> Result<(), Finding> {
    let is_nearest = change.text("mode")?.is_none_or(|mode| mode == "nearest");
    let scales = change.numbers(change.input(1));
    let nearest = match scales {
        _ if !is_nearest => "floor",
        None => return Err("takes the nearest by scales that are no constants".into()),
        Some(scales) if scales.iter().all(|scale| *scale >= 1.0) => "floor",
        Some(scales) if scales.iter().all(|scale| *scale <= 1.0) => "ceil",
        Some(_) => return Err("takes the nearest, and grows and shrinks at once".into()),
    };
    explicit(change, nearest)
}

fn explicit(change: &mut Change<'_>, nearest: &str) -> Result<(), Finding> {
    let text = |text: &str| AttributeValue::String(text.into());
    match change.text("mode")?.as_deref() {
        None | Some("nearest") => change.set("nearest_mode", text(nearest)),
        Some("linear" | "bilinear") => change.set("mode", text("linear")),
        Some(_) => return Err("has a mode that there is not".into()),
    }
    change.set("coordinate_transformation_mode", text("asymmetric"));
    let scales = change.input(1).to_owned();
    let region = change.constant(floats(&[]));
    change.set_input(1, region);
    change.set_input(2, scales);
    Ok(())
}

/// Resize has either scales or sizes.
pub(super) fn sizes(change: &mut Change<'_>) -> Result<(), Finding> {
    const REMOVED: &str = "tf_half_pixel_for_nn";
    if change.text("coordinate_transformation_mode")?.as_deref() == Some(REMOVED) {
        return Err(format!("transforms coordinates by `{REMOVED}`, which there is no more").into());
    }
    if !change.input(3).is_empty() {
        change.set_input(2, String::new());
    }
    Ok(())
}
