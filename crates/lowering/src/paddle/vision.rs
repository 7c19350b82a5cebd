//! Resizing and sampling of images.

use lodstone_model::{Attribute, DType};

use lodstone_schema::numbers::length;
use lodstone_schema::paddle::Release;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::resizing::{Picks, Places, Repeats, Rounding, Scale};
use crate::onnx::{self, Precision, Value, float, int, text};

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
            let count = length(spatial);
            return Ok(Size::Dims(self.reshape(&dims, &[count])?));
        }
        if let Some(scale) = self.optional("Scale")? {
            let scale = self.cast(&scale, DType::Float32)?;
            let scale = self.reshape(&scale, &[-1])?;
            let dims = self.longs(&[length(spatial)]);
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
    single: Single,
    /// How nearest elements are picked, where `Resize` may pick others.
    picked: Option<Picked>,
}

/// How the nearest elements of the axes are picked.
struct Picked {
    picks: Picks,
    sizes: Vec<onnx::Size>,
    scales: Vec<Scale>,
}

impl Picked {
    /// Returns how the nearest elements are picked, unless `Resize` is known to pick the same.
    fn of(op: &mut Operator<'_>, x: &Value, size: &Size, corners: bool) -> Outcome<Option<Self>> {
        let picks = match corners {
            true => Picks::Corners,
            false => Picks::Down { offset: 0.0, repeats: Repeats::Never },
        };
        let (sizes, scales) = match size {
            Size::Dims(all) => {
                let sizes = op.sizes_in(all)?;
                let scales = vec![Scale::Absent; sizes.len()];
                (sizes, scales)
            }
            Size::Scales(all) => match all.info().floats() {
                Some(scales) => {
                    let mut sizes = Vec::new();
                    for (axis, scale) in (2..).zip(&scales) {
                        let dim = op.size_of(x, axis)?;
                        sizes.push(op.scaled(&dim, *scale, Precision::Single)?);
                    }
                    (sizes, scales.into_iter().map(Scale::Known).collect())
                }
                None => {
                    let (_, sizes) = scaled(op, x, all)?;
                    let sizes = op.sizes_in(&sizes)?;
                    let places = 0..length(sizes.len());
                    let scale = |place| op.gather_scalar(all, place).map(Scale::Value);
                    (sizes, places.map(scale).collect::<Outcome<_>>()?)
                }
            },
        };
        let dims = x.known_dims().zip(onnx::known_sizes(&sizes));
        let is_resize = dims.is_some_and(|(dims, sizes)| {
            let mut axes = dims.iter().skip(2).zip(&sizes).zip(&scales);
            axes.all(|((dim, size), scale)| match scale {
                Scale::Absent => picks.is_resize(*dim, *size, None),
                Scale::Known(scale) => picks.is_resize(*dim, *size, Some(*scale)),
                Scale::Value(_) => false,
            })
        });
        Ok((!is_resize).then_some(Self { picks, sizes, scales }))
    }

    fn picked(&self, op: &mut Operator<'_>, x: &Value) -> Outcome<Option<Value>> {
        op.picked(x, self.picks, &self.sizes, &self.scales)
    }

    /// Returns the places of the nearest elements of an axis, which is the `number`th of the size.
    fn places(&self, op: &mut Operator<'_>, number: usize, dim: i64) -> Outcome<Value> {
        let (Some(size), Some(scale)) = (self.sizes.get(number), self.scales.get(number)) else {
            return Err(format!("expected more than {number} sizes").into());
        };
        op.nearest(self.picks, &onnx::Size::Known(dim), size, scale)
    }
}

/// Which dims of a bicubic image become 1. PaddlePaddle places their element half an element before the first one, as no
/// mode of ONNX does.
enum Single {
    Never,
    Axes(Vec<bool>),
    /// The sizes are computed.
    Computed,
}

impl Single {
    fn of(op: &mut Operator<'_>, x: &Value, size: &Size, is_static: bool) -> Outcome<Self> {
        let scales = if is_static { op.floats("scale")? } else { Vec::new() };
        let results = match (size, x.known_dims()) {
            (Size::Dims(sizes), _) => sizes.info().ints(),
            (Size::Scales(_), Some(dims)) if !scales.is_empty() => {
                Some(sizes(dims.get(2..).unwrap_or_default(), &scales)?)
            }
            (Size::Scales(_), _) => None,
        };
        let enlarges = !scales.is_empty() && scales.iter().all(|scale| *scale >= 2.0);
        Ok(match (size, results) {
            (_, Some(sizes)) if !sizes.contains(&1) => Self::Never,
            (_, Some(sizes)) => Self::Axes(sizes.iter().map(|size| *size == 1).collect()),
            (Size::Scales(_), None) if enlarges => Self::Never,
            (_, None) => Self::Computed,
        })
    }
}

/// Returns the dims times the scales, or the single scale.
fn sizes(dims: &[i64], scales: &[f32]) -> Outcome<Vec<i64>> {
    let scaled = dims.iter().zip(scales.iter().cycle());
    scaled.map(|(dim, scale)| Precision::Single.scaled(*dim, f64::from(*scale))).collect()
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
        let places = match (corners, mode) {
            (true, _) => Places::AlignCorners,
            (false, "nearest") => Places::Asymmetric,
            // Up to 3.2, a dim of 1 is the first element; two-dimensional images still are, and one-dimensional gradients.
            (false, _)
                if half
                    && mode == "linear"
                    && spatial != 2
                    && op.kind() != "linear_interp_v2_grad"
                    && !op.is_older_than(Release::new(3, 3)) =>
            {
                Places::HalfPixel
            }
            (false, "cubic") => Places::HalfPixel,
            (false, _) if half => Places::HalfPixelUnlessSingle,
            (false, _) => Places::Asymmetric,
        };
        let attributes = [
            text("mode", mode),
            places.attribute(),
            if corners { Rounding::HalfUp } else { Rounding::Down }.attribute(),
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
                    match sizes(dims, known)? == dims {
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
        let single = match (corners, mode) {
            (false, "cubic") => Single::of(op, x, &size, is_static)?,
            _ => Single::Never,
        };
        let picked = match mode {
            "nearest" => Picked::of(op, x, &size, corners)?,
            _ => None,
        };
        Ok(Self { attributes, size, single, picked })
    }

    /// Resizes an image.
    fn resized(&self, op: &mut Operator<'_>, x: &Value) -> Outcome<Value> {
        if let Some(picked) = &self.picked
            && let Some(y) = picked.picked(op, x)?
        {
            return Ok(y);
        }
        let (mut x, mut parts) = (x.clone(), Vec::new());
        match (&self.single, &self.size) {
            (Single::Never, Size::Dims(all) | Size::Scales(all)) => parts.push(all.clone()),
            _ => {
                for axis in 2..x.rank()?.number() {
                    let (extended, part) = self.extended(op, &x, axis, axis - 2)?;
                    x = extended;
                    parts.push(part);
                }
            }
        }
        let front = match &self.size {
            Size::Dims(_) => op.call("Shape", &[&x], [int("end", 2)])?,
            Size::Scales(_) => op.singles(&[1.0, 1.0]),
        };
        let parts: Vec<&Value> = [&front].into_iter().chain(&parts).collect();
        self.emit(op, &x, &parts)
    }

    /// Emits the operator; `parts` are the sizes or scales of all axes.
    fn emit(&self, op: &mut Operator<'_>, x: &Value, parts: &[&Value]) -> Outcome<Value> {
        let size = op.concat(parts, 0)?;
        let (scales, sizes) = match &self.size {
            Size::Dims(_) => (None, Some(&size)),
            Size::Scales(_) => (Some(&size), None),
        };
        let inputs = [Some(x), None, scales, sizes];
        let [resized] = op.emit_all("Resize", &inputs, self.attributes.clone())?;
        Ok(resized)
    }

    /// Returns an image, and the size or the scale of its axis, which is the `place`th of the size. If the axis becomes 1 and
    /// `single` covers it, it gets three times the first element and the second one: the middle of these is the element
    /// that PaddlePaddle computes.
    fn extended(
        &self,
        op: &mut Operator<'_>,
        x: &Value,
        axis: i64,
        place: i64,
    ) -> Outcome<(Value, Value)> {
        let (Size::Dims(all) | Size::Scales(all)) = &self.size;
        let size = op.slice(all, 0, place, place + 1)?;
        let is_known_single = match &self.single {
            Single::Never => return Ok((x.clone(), size)),
            Single::Axes(axes) => {
                match usize::try_from(place).ok().and_then(|place| axes.get(place)) {
                    Some(true) => true,
                    Some(false) => return Ok((x.clone(), size)),
                    None => return Err(format!("expected {place} sizes").into()),
                }
            }
            Single::Computed => false,
        };
        let dim = op.dim(x, axis)?;
        let (one, last) = (op.longs(&[1]), op.plus(&dim, -1.0)?);
        let second = op.call("Min", &[&last, &one], [])?;
        let first = op.longs(&[0, 0, 0]);
        let four = op.concat(&[&first, &second], 0)?;
        let quarter = op.singles(&[0.25]);
        if is_known_single {
            let size = if matches!(self.size, Size::Dims(_)) { size } else { quarter };
            return Ok((op.gather(x, &four, axis)?, size));
        }
        let (begin, end, step) = (op.long(0), op.reshape(&dim, &[])?, op.long(1));
        let all = op.call("Range", &[&begin, &end, &step], [])?;
        let both = op.concat(&[&four, &all], 0)?;
        let result = match &self.size {
            Size::Dims(_) => size.clone(),
            Size::Scales(_) => {
                let exact = op.cast(&dim, DType::Float32)?;
                let exact = op.mul(&exact, &size)?;
                op.cast(&exact, DType::Int64)?
            }
        };
        let length = op.longs(&[4]);
        let is_single = op.call("Equal", &[&result, &one], [])?;
        let zero = op.longs(&[0]);
        let start = op.choose(&is_single, &zero, &length)?;
        let past = op.add(&dim, &length)?;
        let end = op.choose(&is_single, &length, &past)?;
        let chosen = op.call("Slice", &[&both, &start, &end, &zero], [])?;
        let size = match &self.size {
            Size::Dims(_) => size,
            Size::Scales(_) => op.choose(&is_single, &quarter, &size)?,
        };
        Ok((op.gather(x, &chosen, axis)?, size))
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
        if let Some(picked) = &self.picked {
            let places = picked.places(op, axis, dim)?;
            return op.gather(&own, &places, 0);
        }
        let (own, size) = self.extended(op, &own, 0, length(axis))?;
        let line = match &self.size {
            Size::Dims(_) => op.longs(&[dim]),
            Size::Scales(_) => op.singles(&[1.0]),
        };
        self.emit(op, &own, &[&size, &line])
    }
}

fn resize(op: &mut Operator<'_>, mode: &str, dims: usize) -> Outcome {
    let x = op.input("X")?;
    let layout = op.layout("data_layout")?;
    let x = op.channels_first(&x, layout)?;
    let y = Resizing::of(op, &x, mode, dims)?.resized(op, &x)?;
    let y = op.in_layout(&y, layout)?;
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
