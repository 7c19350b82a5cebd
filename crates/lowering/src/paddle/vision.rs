//! Resizing and sampling of images.

use lodstone_model::{Attribute, DType};

use lodstone_schema::paddle::Release;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, float, int, text};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("bicubic_interp_v2", |op| resize(op, "cubic", 2)),
    ("bilinear_interp", |op| resize(op, "linear", 2)),
    ("bilinear_interp_v2", |op| resize(op, "linear", 2)),
    ("grid_sampler", grid_sampler),
    ("linear_interp_v2", |op| resize(op, "linear", 1)),
    ("nearest_interp", |op| resize(op, "nearest", 2)),
    ("nearest_interp_v2", |op| resize(op, "nearest", 2)),
    ("trilinear_interp_v2", |op| resize(op, "linear", 3)),
];

/// The size of the result.
enum Size {
    Dims(Value),
    Scales(Value),
}

impl Operator<'_> {
    /// Returns the size from the first of: a list of dims, a tensor of dims, a tensor of scales, scales, dims.
    fn size(&mut self, spatial: usize) -> Outcome<Size> {
        if !self.inputs("SizeTensor")?.is_empty() || self.optional("OutSize")?.is_some() {
            let dims = self.numbers("SizeTensor", "OutSize", "scale")?;
            let count = i64::try_from(spatial).unwrap_or(i64::MAX);
            return Ok(Size::Dims(self.reshape(&dims, &[count])?));
        }
        if let Some(scale) = self.optional("Scale")? {
            let scale = self.cast(&scale, DType::Float32)?;
            let scale = self.reshape(&scale, &[-1])?;
            let dims = self.longs(&[i64::try_from(spatial).unwrap_or(i64::MAX)]);
            return Ok(Size::Scales(self.call("Expand", &[&scale, &dims], [])?));
        }
        let scales = self.floats("scale")?;
        if scales.iter().all(|scale| *scale > 0.0 && scale.is_finite()) && !scales.is_empty() {
            let scales = match scales.as_slice() {
                [one] => vec![*one; spatial],
                all if all.len() == spatial => scales,
                other => {
                    return Err(
                        format!("expected {spatial} values as `scale`, found {other:?}").into()
                    );
                }
            };
            return Ok(Size::Scales(self.singles(&scales)));
        }
        let names = ["out_d", "out_h", "out_w"];
        let names = names.get(names.len().saturating_sub(spatial)..).unwrap_or_default();
        let sizes = names.iter().map(|name| self.int(name)).collect::<Outcome<Vec<_>>>()?;
        match sizes.iter().all(|size| *size > 0) {
            true => Ok(Size::Dims(self.longs(&sizes))),
            false => Err(format!("expected positive dims, found {sizes:?}").into()),
        }
    }
}

/// Returns the dims of an image, and the dims that result from scales.
fn scaled(op: &mut Operator<'_>, x: &Value, scales: &Value) -> Outcome<(Value, Value)> {
    let dims = op.call("Shape", &[x], [int("start", 2)])?;
    let exact = op.cast(&dims, DType::Float32)?;
    let sizes = op.mul(&exact, scales)?;
    Ok((dims, op.cast(&sizes, DType::Int64)?))
}

/// Whether dims are unchanged by these scales, or by the single one.
fn is_same(dims: &[i64], scales: &[f32]) -> bool {
    let scales = scales.iter().cycle();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "as PaddlePaddle computes it"
    )]
    dims.iter().zip(scales).all(|(dim, scale)| (*dim as f32 * scale) as i64 == *dim)
}

/// Returns the scales, or 1 if all dims are unchanged by them.
fn copying(op: &mut Operator<'_>, x: &Value, scales: &Value) -> Outcome<Value> {
    let (dims, sizes) = scaled(op, x, scales)?;
    let same = op.call("Equal", &[&dims, &sizes], [])?;
    let same = op.cast(&same, DType::Int32)?;
    let same = op.call("ReduceMin", &[&same], [])?;
    let same = op.cast(&same, DType::Bool)?;
    let one = op.singles(&[1.0]);
    op.choose(&same, &one, scales)
}

/// The parameters of a resize.
pub(super) struct Resizing {
    attributes: [Attribute; 4],
    size: Size,
}

impl Resizing {
    /// Returns the parameters for an image whose channels come first.
    pub(super) fn of(
        op: &mut Operator<'_>,
        x: &Value,
        mode: &str,
        spatial: usize,
    ) -> Outcome<Self> {
        if x.rank()? != spatial + 2 {
            return Err(format!("expected rank {}, found {}", spatial + 2, x.rank()?).into());
        }
        let (corners, half) =
            (op.flag("align_corners")?, op.int("align_mode")? == 0 || mode == "cubic");
        let (places, nearest) = match (corners, mode) {
            (true, _) => ("align_corners", "round_prefer_ceil"),
            (false, "nearest") => ("asymmetric", "floor"),
            // Up to 3.2, a dim of 1 is the first element; two-dimensional images still are.
            (false, _)
                if half
                    && mode == "linear"
                    && spatial != 2
                    && !op.is_older_than(Release::new(3, 3)) =>
            {
                ("half_pixel", "floor")
            }
            (false, _) if half => ("pytorch_half_pixel", "floor"),
            (false, _) => ("asymmetric", "floor"),
        };
        let attributes = [
            text("mode", mode),
            text("coordinate_transformation_mode", places),
            text("nearest_mode", nearest),
            float("cubic_coeff_a", -0.75),
        ];
        let is_static = op.optional("Scale")?.is_none();
        let size = match op.size(spatial)? {
            // Corners are aligned, whatever the scale; in 1.x, in all cases.
            Size::Scales(scales) if corners || !op.kind().contains("_v2") => {
                let (_, sizes) = scaled(op, x, &scales)?;
                Size::Dims(sizes)
            }
            // An image of the same size is copied, whatever the scales.
            Size::Scales(scales) => match (op.floats("scale")?.as_slice(), x.known_dims()) {
                (known, Some(dims)) if is_static && !known.is_empty() => {
                    let dims = dims.get(2..).unwrap_or_default();
                    match is_same(dims, known) {
                        true => Size::Dims(op.longs(dims)),
                        false => Size::Scales(scales),
                    }
                }
                // These scales never leave a dim unchanged, or always.
                (known, _)
                    if is_static
                        && !known.is_empty()
                        && (known.iter().all(|it| *it >= 2.0)
                            || known.iter().all(|it| *it == 1.0)) =>
                {
                    Size::Scales(scales)
                }
                _ => Size::Scales(copying(op, x, &scales)?),
            },
            size => size,
        };
        Ok(Self { attributes, size })
    }

    /// Resizes an image.
    fn resized(&self, op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
        let (sizes, scales) = match &self.size {
            Size::Dims(sizes) => {
                let front = op.call("Shape", &[x], [int("end", 2)])?;
                (Some(op.concat(&[&front, sizes], 0)?), None)
            }
            Size::Scales(scales) => {
                let front = op.singles(&[1.0, 1.0]);
                (None, Some(op.concat(&[&front, scales], 0)?))
            }
        };
        let inputs = [Some(x), None, scales.as_ref(), sizes.as_ref()];
        let [resized] = op.emit_all("Resize", &inputs, self.attributes.clone())?;
        Ok(resized)
    }

    /// Returns the weight of each of the `dim` input elements in each output element along a dim: `[out, dim]`.
    pub(super) fn shares(
        &self,
        op: &mut Operator<'_>,
        axis: usize,
        dim: i64,
        dtype: DType,
    ) -> Outcome<Value> {
        let numbers = op.range(dim)?;
        let (column, line) = (op.unsqueeze(&numbers, &[1])?, op.unsqueeze(&numbers, &[0])?);
        let own = op.call("Equal", &[&column, &line], [])?;
        let own = op.cast(&own, dtype)?;
        let place = i64::try_from(axis).map_err(|_| "the rank is too high")?;
        let size = match &self.size {
            Size::Dims(size) | Size::Scales(size) => op.slice(size, 0, place, place + 1)?,
        };
        let (sizes, scales) = match &self.size {
            Size::Dims(_) => {
                let line = op.longs(&[dim]);
                (Some(op.concat(&[&size, &line], 0)?), None)
            }
            Size::Scales(_) => {
                let line = op.singles(&[1.0]);
                (None, Some(op.concat(&[&size, &line], 0)?))
            }
        };
        let inputs = [Some(&own), None, scales.as_ref(), sizes.as_ref()];
        let [resized] = op.emit_all("Resize", &inputs, self.attributes.clone())?;
        Ok(resized)
    }
}

fn resize(op: &mut Operator<'_>, mode: &str, dims: usize) -> Outcome {
    let x = op.input("X")?;
    let last = op.channels_last("data_layout")?;
    let x = if last { op.channels_to_front(&x)? } else { x };
    let y = Resizing::of(op, &x, mode, dims)?.resized(op, &x)?;
    let y = if last { op.channels_to_back(&y)? } else { y };
    op.put("Out", &y)
}

fn grid_sampler(op: &mut Operator<'_>) -> Outcome {
    let (x, grid) = (op.input("X")?, op.input("Grid")?);
    let mode = match op.text("mode")?.as_str() {
        "bilinear" => "linear",
        "nearest" => "nearest",
        other => return Err(format!("unknown `mode` `{other}`").into()),
    };
    let around = match op.text("padding_mode")?.as_str() {
        known @ ("zeros" | "border" | "reflection") => text("padding_mode", known),
        other => {
            return Err(format!("unknown `padding_mode` `{other}`").into());
        }
    };
    let corners = int("align_corners", i64::from(op.flag("align_corners")?));
    let y = op.call("GridSample", &[&x, &grid], [text("mode", mode), around, corners])?;
    op.put("Output", &y)
}
