//! Upsample and Resize.
//!
//! | versions | how an output position maps to an input position |
//! |---|---|
//! | Upsample 1 to 9 | divided by the scale, which is at least 1; nearest rounds down |
//! | Resize 10 | divided by the scale; nearest rounds down when growing, up when shrinking |
//! | Resize from 11 | by attributes, whose defaults differ from both |

use lodstone_model::AttributeValue;

use super::change::{Change, floats};
use crate::Finding;

/// `height_scale` and `width_scale` of Upsample are `scales` of an image.
pub(super) fn height_and_width(change: &mut Change<'_>) -> Result<(), Finding> {
    let mut scales = vec![1.0, 1.0];
    for name in ["height_scale", "width_scale"] {
        match change.take(name) {
            Some(AttributeValue::Float(scale)) => scales.push(scale),
            _ => return Err(format!("has no attribute `{name}` with a number").into()),
        }
    }
    change.set("scales", AttributeValue::Floats(scales));
    Ok(())
}

/// `scales` of Upsample became an input.
pub(super) fn scales(change: &mut Change<'_>) -> Result<(), Finding> {
    let Some(AttributeValue::Floats(scales)) = change.take("scales") else {
        return Err("has no attribute `scales` with floats".into());
    };
    let scales = change.constant(floats(&scales));
    change.set_input(1, scales);
    Ok(())
}

/// Upsample became Resize.
pub(super) fn upsample(change: &mut Change<'_>) -> Result<(), Finding> {
    change.op.kind = "Resize".to_owned();
    if change.op.attribute("mode").is_none() {
        change.set("mode", AttributeValue::String("nearest".into()));
    }
    if change.reaches(RESIZE) {
        // The version after that, since it is known that no dim shrinks.
        change.version = RESIZE;
        explicit(change, "floor")?;
    }
    Ok(())
}

/// The version in which Resize got attributes for how it computes.
const RESIZE: i64 = 11;

/// Resize got attributes for how it computes, and an optional region of interest.
pub(super) fn resize(change: &mut Change<'_>) -> Result<(), Finding> {
    let is_nearest = change.text("mode")?.is_none_or(|mode| mode == "nearest");
    let scales = change.numbers(change.input(1));
    let nearest = match scales {
        _ if !is_nearest => "floor",
        None => return Err("takes the nearest by scales that are not constants".into()),
        Some(scales) if scales.iter().all(|scale| *scale >= 1.0) => "floor",
        Some(scales) if scales.iter().all(|scale| *scale <= 1.0) => "ceil",
        Some(_) => {
            return Err("takes the nearest while growing some dims and shrinking others".into());
        }
    };
    explicit(change, nearest)
}

fn explicit(change: &mut Change<'_>, nearest: &str) -> Result<(), Finding> {
    let text = |text: &str| AttributeValue::String(text.into());
    match change.text("mode")?.as_deref() {
        None | Some("nearest") => change.set("nearest_mode", text(nearest)),
        Some("linear" | "bilinear") => change.set("mode", text("linear")),
        Some(_) => return Err("has an unknown mode".into()),
    }
    change.set("coordinate_transformation_mode", text("asymmetric"));
    let scales = change.input(1).to_owned();
    let region = change.constant(floats(&[]));
    change.set_input(1, region);
    change.set_input(2, scales);
    Ok(())
}

/// Resize takes either scales or sizes.
pub(super) fn sizes(change: &mut Change<'_>) -> Result<(), Finding> {
    if !change.input(3).is_empty() {
        change.set_input(2, String::new());
    }
    Ok(())
}
