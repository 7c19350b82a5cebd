//! Pictures of another size, and sampled at places.

use lodstone_model::{Attribute, DType};

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

/// How large the result is.
enum Size {
    Extents(Value),
    Scales(Value),
}

impl Operator<'_> {
    /// What counts first: a list of extents, a tensor of them, a tensor of factors, factors, extents.
    fn size(&mut self, extents: usize) -> Outcome<Size> {
        if !self.inputs("SizeTensor")?.is_empty() || self.optional("OutSize")?.is_some() {
            return Ok(Size::Extents(self.numbers("SizeTensor", "OutSize", "scale")?));
        }
        if let Some(scale) = self.optional("Scale")? {
            let scale = self.cast(&scale, DType::Float32)?;
            let scale = self.reshape(&scale, &[-1])?;
            let dims = self.longs(&[i64::try_from(extents).unwrap_or(i64::MAX)]);
            return Ok(Size::Scales(self.call("Expand", &[&scale, &dims], [])?));
        }
        let scales = self.floats("scale")?;
        if scales.iter().all(|scale| *scale > 0.0 && scale.is_finite()) && !scales.is_empty() {
            let scales = match scales.as_slice() {
                [one] => vec![*one; extents],
                all if all.len() == extents => scales,
                other => {
                    return Err(
                        format!("expected {extents} numbers as `scale`, found {other:?}").into()
                    );
                }
            };
            return Ok(Size::Scales(self.singles(&scales)));
        }
        let names = ["out_d", "out_h", "out_w"];
        let names = names.get(names.len().saturating_sub(extents)..).unwrap_or_default();
        let sizes = names.iter().map(|name| self.int(name)).collect::<Outcome<Vec<_>>>()?;
        match sizes.iter().all(|size| *size > 0) {
            true => Ok(Size::Extents(self.longs(&sizes))),
            false => Err(format!("expected extents above 0, found {sizes:?}").into()),
        }
    }
}

/// The extents of a picture, and what they are by these factors.
fn scaled(op: &mut Operator<'_>, x: &Value, scales: &Value) -> Outcome<(Value, Value)> {
    let dims = op.call("Shape", &[x], [int("start", 2)])?;
    let exact = op.cast(&dims, DType::Float32)?;
    let sizes = op.mul(&exact, scales)?;
    Ok((dims, op.cast(&sizes, DType::Int64)?))
}

/// Whether extents stay what they are by these factors, or by the one for all.
fn is_same(dims: &[i64], scales: &[f32]) -> bool {
    let scales = scales.iter().cycle();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "as PaddlePaddle computes it"
    )]
    dims.iter().zip(scales).all(|(dim, scale)| (*dim as f32 * scale) as i64 == *dim)
}

/// The same factors, or 1 if all extents stay what they are by them.
fn copying(op: &mut Operator<'_>, x: &Value, scales: &Value) -> Outcome<Value> {
    let (dims, sizes) = scaled(op, x, scales)?;
    let same = op.call("Equal", &[&dims, &sizes], [])?;
    let same = op.cast(&same, DType::Int32)?;
    let same = op.call("ReduceMin", &[&same], [])?;
    let same = op.cast(&same, DType::Bool)?;
    let one = op.singles(&[1.0]);
    op.choose(&same, &one, scales)
}

/// How pictures are resized.
pub(super) struct Resizing {
    attributes: [Attribute; 4],
    size: Size,
}

impl Resizing {
    /// Of a picture whose channels come first.
    pub(super) fn of(
        op: &mut Operator<'_>,
        x: &Value,
        mode: &str,
        extents: usize,
    ) -> Outcome<Self> {
        if x.rank()? != extents + 2 {
            return Err(format!("expected {} extents, found {}", extents + 2, x.rank()?).into());
        }
        let (corners, half) =
            (op.flag("align_corners")?, op.int("align_mode")? == 0 || mode == "cubic");
        let (places, nearest) = match (corners, mode) {
            (true, _) => ("align_corners", "round_prefer_ceil"),
            (false, "nearest") => ("asymmetric", "floor"),
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
        let size = match op.size(extents)? {
            // Corners lie on corners of what there is, whatever the factor was; so did all in 1.x.
            Size::Scales(scales) if corners || !op.kind().contains("_v2") => {
                let (_, sizes) = scaled(op, x, &scales)?;
                Size::Extents(sizes)
            }
            // What has the same size is copied, whatever the factors are.
            Size::Scales(scales) => match (op.floats("scale")?.as_slice(), x.known_dims()) {
                (known, Some(dims)) if is_static && !known.is_empty() => {
                    let dims = dims.get(2..).unwrap_or_default();
                    match is_same(dims, known) {
                        true => Size::Extents(op.longs(dims)),
                        false => Size::Scales(scales),
                    }
                }
                _ => Size::Scales(copying(op, x, &scales)?),
            },
            size => size,
        };
        Ok(Self { attributes, size })
    }

    /// A picture of another size.
    fn resized(&self, op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
        let (sizes, scales) = match &self.size {
            Size::Extents(sizes) => {
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

    /// How much of each of `dim` elements along an extent is in each that comes out: `[out, dim]`.
    pub(super) fn shares(
        &self,
        op: &mut Operator<'_>,
        extent: usize,
        dim: i64,
        dtype: DType,
    ) -> Outcome<Value> {
        let numbers = op.range(dim)?;
        let (column, line) = (op.unsqueeze(&numbers, &[1])?, op.unsqueeze(&numbers, &[0])?);
        let own = op.call("Equal", &[&column, &line], [])?;
        let own = op.cast(&own, dtype)?;
        let place = i64::try_from(extent).map_err(|_| "it has too many extents")?;
        let size = match &self.size {
            Size::Extents(size) | Size::Scales(size) => op.slice(size, 0, place, place + 1)?,
        };
        let (sizes, scales) = match &self.size {
            Size::Extents(_) => {
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

fn resize(op: &mut Operator<'_>, mode: &str, extents: usize) -> Outcome {
    let x = op.input("X")?;
    let last = op.channels_last("data_layout")?;
    let x = if last { op.channels_to_front(&x)? } else { x };
    let y = Resizing::of(op, &x, mode, extents)?.resized(op, &x)?;
    let y = if last { op.channels_to_back(&y)? } else { y };
    op.put("Out", &y)
}

fn grid_sampler(op: &mut Operator<'_>) -> Outcome {
    let (x, grid) = (op.input("X")?, op.input("Grid")?);
    let mode = match op.text("mode")?.as_str() {
        "bilinear" => "linear",
        "nearest" => "nearest",
        other => return Err(format!("expected a way to sample as `mode`, found `{other}`").into()),
    };
    let around = match op.text("padding_mode")?.as_str() {
        known @ ("zeros" | "border" | "reflection") => text("padding_mode", known),
        other => {
            return Err(format!("expected a way to pad as `padding_mode`, found `{other}`").into());
        }
    };
    let corners = int("align_corners", i64::from(op.flag("align_corners")?));
    let y = op.call("GridSample", &[&x, &grid], [text("mode", mode), around, corners])?;
    op.put("Output", &y)
}
