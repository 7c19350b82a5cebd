//! Resizing of images.

use lodstone_schema::Finding;
use lodstone_schema::places::at_mut;

use super::graph::MemberValue;
use super::op::{Cx, Fault, Outcome, Rule, from_front, narrow, one};

pub(super) const RULES: &[(&str, Rule)] = &[("Resize", resize)];

/// Returns the ratio of two dims.
fn ratio(to: i64, from: i64) -> Result<f32, Finding> {
    #[expect(clippy::cast_precision_loss, reason = "dims of images are small")]
    let ratio = to as f64 / from as f64;
    match from {
        0 => Err("an empty image cannot be resized".into()),
        _ => Ok(narrow(ratio)),
    }
}

/// Returns the scale of each axis.
fn scales(cx: &Cx<'_>, shape: &[i64], result: &[i64]) -> Result<Vec<f32>, Fault> {
    let scales = match cx.has(2) {
        true => cx.floats(2)?,
        false => Vec::new(),
    };
    if scales.is_empty() {
        let ratios = result.iter().zip(shape).map(|(to, from)| ratio(*to, *from));
        return Ok(ratios.collect::<Result<_, _>>()?);
    }
    let Some(axes) = cx.longs("axes")? else { return Ok(scales) };
    let mut all = vec![1.0; shape.len()];
    for (axis, scale) in axes.iter().zip(scales) {
        *at_mut(&mut all, from_front(*axis, shape.len())?)? = scale;
    }
    Ok(all)
}

/// Glow maps positions by `floor(i / scale)`.
fn resize(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let (shape, result) = (cx.shape(value), cx.shape_out(0)?);
    let scales = scales(cx, &shape, &result)?;
    if scales.len() != shape.len() || scales.iter().any(|scale| *scale <= 0.0 || scale.is_nan()) {
        return Err(format!("expected {} positive scales, found {scales:?}", shape.len()).into());
    }
    for (name, expected) in [("antialias", 0), ("exclude_outside", 0)] {
        if cx.int(name, expected)? != expected {
            return Err(format!("expected {expected} as `{name}`").into());
        }
    }
    if cx.text("keep_aspect_ratio_policy", "stretch")? != "stretch" && !cx.has(2) {
        return Err("expected sizes that match the inferred shape".into());
    }
    let mode = cx.text("mode", "nearest")?;
    let coordinates = cx.text("coordinate_transformation_mode", "half_pixel")?;
    let rounding = cx.text("nearest_mode", "round_prefer_floor")?;
    let is_whole = scales.iter().all(|scale| *scale >= 1.0 && scale.fract() == 0.0);
    let is_same = scales.iter().all(|scale| (*scale - 1.0).abs() < f32::EPSILON);
    let is_floor = coordinates == "asymmetric" && rounding == "floor";
    // With integer scales, pixel centers never lie exactly half way between two input pixels.
    let is_middle = is_whole && coordinates == "half_pixel" && rounding.starts_with("round_prefer");
    let fits = match mode.as_str() {
        "nearest" => is_floor || is_middle,
        "linear" => coordinates == "asymmetric",
        _ => false,
    };
    if !fits && !is_same {
        let found = format!("`{mode}`, `{coordinates}`, `{rounding}`");
        let expected = "expected coordinates `asymmetric`, and `floor` for nearest";
        return Err(format!("{expected}; found {found}").into());
    }
    if mode == "nearest" {
        let of = cx.shaped(value, result);
        let members = vec![("Scale", MemberValue::Floats(scales))];
        return one(cx.node("ResizeNearest", "", &[value], members, of)?);
    }
    let ([n, c, h, w], [along_n, along_c, along_h, along_w]) = (&*result, &*scales) else {
        return Err(format!("expected rank 4, found {}", shape.len()).into());
    };
    let value = cx.transpose(value, &[0, 2, 3, 1], "NHWC", "in")?;
    let of = cx.shaped(value, vec![*n, *h, *w, *c]);
    let scales = vec![*along_n, *along_h, *along_w, *along_c];
    let members = vec![("Scale", MemberValue::Floats(scales))];
    let large = cx.node("ResizeBilinear", "", &[value], members, of)?;
    one(cx.transpose(large, &[0, 3, 1, 2], "NCHW", "out")?)
}
