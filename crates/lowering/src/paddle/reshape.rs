//! Operators that change shape or order, or split and stack tensors.

use lodstone_model::{DType, Dim};
use lodstone_schema::Finding;
use lodstone_schema::numbers::{Axis, known};
use lodstone_schema::paddle::Release;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::indexing::{Bounds, Sections, Spans};
use crate::onnx::{Size, Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("broadcast_tensors", broadcast),
    ("cast", cast),
    ("concat", concat),
    ("expand_v2", expand),
    ("flatten", |op| flatten(op)),
    ("flatten2", |op| flatten(op)),
    ("flatten_contiguous_range", flatten_range),
    ("gather", gather),
    ("reshape", reshape),
    ("reshape2", reshape),
    ("shape", shape),
    ("slice", slice),
    ("split", split),
    ("squeeze", squeeze),
    ("squeeze2", squeeze),
    ("stack", stack),
    ("transpose", transpose),
    ("transpose2", transpose),
    ("unsqueeze", unsqueeze),
    ("unsqueeze2", unsqueeze),
    ("where", choose),
];

impl Operator<'_> {
    /// Sets `Out`, and `XShape`: 0 followed by the dims of `X`, for the gradient. It has no elements.
    fn put_shaped(&mut self, x: &Value, out: &Value) -> Outcome {
        self.put("Out", out)?;
        if self.wants("XShape") {
            let shape = match x.known_dims() {
                Some(dims) => self.filled(x.dtype(), 0.0, &[&[0], dims.as_slice()].concat())?,
                None => {
                    let (zero, dims) = (self.longs(&[0]), self.call("Shape", &[x], [])?);
                    let dims = self.concat(&[&zero, &dims], 0)?;
                    self.filled_by(x.dtype(), 0.0, &dims)?
                }
            };
            self.put("XShape", &shape)?;
        }
        Ok(())
    }

    /// Returns integers from a list of tensors of one element each, one tensor, or an attribute, in this order.
    pub(super) fn numbers(&mut self, several: &str, one: &str, name: &str) -> Outcome<Value> {
        let parts = self.inputs(several)?;
        if !parts.is_empty() {
            let part = |part: &Value| {
                let part = self.reshape(part, &[1])?;
                self.cast(&part, DType::Int64)
            };
            let parts = parts.iter().map(part).collect::<Outcome<Vec<_>>>()?;
            return self.concat(&parts.iter().collect::<Vec<_>>(), 0);
        }
        if let Some(value) = self.optional(one)? {
            let value = if value.rank()? == 1 { value } else { self.reshape(&value, &[-1])? };
            return self.cast(&value, DType::Int64);
        }
        let numbers = self.ints(name)?;
        Ok(self.longs(&numbers))
    }

    /// Returns an axis from a tensor or an attribute.
    pub(super) fn axis(&self, slot: &str, name: &str) -> Outcome<i64> {
        match self.optional(slot)? {
            None => self.int(name),
            Some(_) => match self.known(slot)?.as_slice() {
                [axis] => Ok(*axis),
                other => Err(format!("expected one value as `{slot}`, found {other:?}").into()),
            },
        }
    }
}

fn cast(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let to = op.dtype("out_dtype")?.ok_or("expected an element type as `out_dtype`")?;
    let y = op.cast(&x, to)?;
    op.put("Out", &y)
}

fn concat(op: &mut Operator<'_>) -> Outcome {
    let (values, axis) = (op.inputs("X")?, op.axis("AxisTensor", "axis")?);
    let y = op.concat(&values.iter().collect::<Vec<_>>(), axis)?;
    op.put("Out", &y)
}

/// Broadcasts each tensor to the dims of all others.
fn broadcast(op: &mut Operator<'_>) -> Outcome {
    let inputs = op.inputs("X")?;
    let dims = |input: &Value| op.call("Shape", &[input], []);
    let dims = inputs.iter().map(dims).collect::<Outcome<Vec<_>>>()?;
    let mut made = Vec::new();
    for (place, input) in inputs.iter().enumerate() {
        let others = dims.iter().enumerate().filter(|(other, _)| *other != place);
        let mut y = input.clone();
        for (_, dims) in others {
            y = op.call("Expand", &[&y, dims], [])?;
        }
        made.push(y);
    }
    op.put_all("Out", &made)
}

/// -1 keeps a dim; the rank may grow.
fn expand(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let dims = op.numbers("expand_shapes_tensor", "Shape", "shape")?;
    let one = op.long(1);
    // A 1 in ONNX's shape keeps the dim.
    let (zero, found) = (op.long(0), dims.info().ints());
    let dims = match found {
        Some(found) => {
            let dims: Vec<i64> = found.iter().map(|dim| if *dim < 0 { 1 } else { *dim }).collect();
            op.longs(&dims)
        }
        None => {
            let kept = op.call("Less", &[&dims, &zero], [])?;
            op.choose(&kept, &one, &dims)?
        }
    };
    let y = op.call("Expand", &[&x, &dims], [])?;
    op.put("Out", &y)
}

fn flatten(op: &mut Operator<'_>) -> Outcome {
    let (x, axis) = (op.input("X")?, op.int("axis")?);
    let y = op.call("Flatten", &[&x], [int("axis", axis)])?;
    op.put_shaped(&x, &y)
}

fn flatten_range(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let rank = x.rank()?;
    let y = if rank == 0 {
        op.reshape(&x, &[1])?
    } else {
        let (start, stop) = (rank.axis(op.int("start_axis")?)?, rank.axis(op.int("stop_axis")?)?);
        if start > stop {
            return Err(format!("expected ascending dims, found {start} to {stop}").into());
        }
        // Without elements, no dim can be inferred.
        if let Some(dims) = x.known_dims().filter(|dims| dims.contains(&0)) {
            let merged = dims.iter().take(stop.index() + 1).skip(start.index());
            let mut flat: Vec<i64> = dims.iter().take(start.index()).copied().collect();
            flat.push(merged.copied().fold(1, i64::saturating_mul));
            flat.extend(dims.iter().skip(stop.index() + 1));
            let y = op.reshape(&x, &flat)?;
            return op.put_shaped(&x, &y);
        }
        let dim = |(axis, dim): (Axis, &Dim)| match axis == start {
            // -1 is inferred.
            true => Ok(-1),
            // 0 keeps a dim.
            false => Ok(known(dim)?.unwrap_or(0)),
        };
        let merged = rank.axes().zip(x.shape()?).filter(|(axis, _)| *axis <= start || *axis > stop);
        let dims = merged.map(dim).collect::<Outcome<Vec<i64>>>()?;
        // After the merged dims, a 0 would refer to another dim.
        let mut behind = dims.iter().skip(start.index() + 1);
        if stop > start && behind.any(|dim| *dim == 0) {
            let front = op.call("Shape", &[&x], [int("end", start.number())])?;
            let behind = op.call("Shape", &[&x], [int("start", stop.number() + 1)])?;
            let merged = op.longs(&[-1]);
            let dims = op.concat(&[&front, &merged, &behind], 0)?;
            op.call("Reshape", &[&x, &dims], [])?
        } else {
            let dims = op.longs(&dims);
            op.call("Reshape", &[&x, &dims], [])?
        }
    };
    op.put_shaped(&x, &y)
}

pub(super) fn gather(op: &mut Operator<'_>) -> Outcome {
    let (x, index) = (op.input("X")?, op.input("Index")?);
    let axis = op.axis("Axis", "axis")?;
    // In older programs, indices have a last dim of 1.
    let index = if index.rank()? == 2 { op.reshape(&index, &[-1])? } else { index };
    let y = op.gather(&x, &index, axis)?;
    op.put("Out", &y)
}

/// 0 keeps a dim, -1 is inferred.
fn reshape(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let dims = op.numbers("ShapeTensor", "Shape", "shape")?;
    let y = op.call("Reshape", &[&x, &dims], [])?;
    op.put_shaped(&x, &y)
}

fn shape(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("Input")?;
    let dims = op.call("Shape", &[&x], [])?;
    let y = op.cast(&dims, DType::Int32)?;
    op.put("Out", &y)
}

pub(super) fn slice(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("Input")?;
    let axes = op.ints("axes")?;
    let starts = op.numbers("StartsTensorList", "StartsTensor", "starts")?;
    let ends = op.numbers("EndsTensorList", "EndsTensor", "ends")?;
    let spans = Spans { axes, starts, ends, steps: None };
    let mut y = op.sliced(&x, &spans, Bounds::Clamped)?;
    let gone = op.ints("decrease_axis")?;
    if !gone.is_empty() {
        let gone = op.longs(&gone);
        y = op.call("Squeeze", &[&y, &gone], [])?;
        if y.rank()? == 0 && op.is_older_than(Release::new(2, 5)) {
            y = op.reshape(&y, &[1])?;
        }
    }
    op.put("Out", &y)
}

fn split(op: &mut Operator<'_>) -> Outcome {
    let (x, axis) = (op.input("X")?, op.axis("AxisTensor", "axis")?);
    let sections = match op.inputs("SectionsTensorList")?.is_empty() {
        true => op.ints("sections")?,
        false => op.known_each("SectionsTensorList")?,
    };
    let count = op.int("num")?;
    let how = match (sections.iter().filter(|part| **part < 0).count(), sections.len()) {
        (_, 0) => Sections::Equal(count),
        (0 | 1, _) => {
            // A section of -1 has the rest.
            let listed = sections.iter().filter(|part| **part >= 0);
            let listed = listed.fold(0, |listed: i64, part| listed.saturating_add(*part));
            let whole = op.size_of(&x, axis)?;
            let rest = match sections.iter().any(|part| *part < 0) {
                true => op.difference_of(&whole, &Size::Known(listed))?,
                false => Size::Known(0),
            };
            let part = |part: &i64| if *part < 0 { rest.clone() } else { Size::Known(*part) };
            Sections::Lengths(sections.iter().map(part).collect())
        }
        _ => return Err(format!("expected at most one -1, found {sections:?}").into()),
    };
    let made = op.split(&x, axis, how)?;
    op.put_all("Out", &made)
}

/// Dims other than 1 are kept.
fn squeeze(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let axes = op.ints("axes")?;
    let rank = x.rank()?;
    let one = |axis: i64| match x.size(axis)? {
        Some(size) => Ok::<_, Finding>(size == 1),
        None if axes.is_empty() => Err("the dims must be known to remove those of 1".into()),
        None => Ok(true),
    };
    let places = match axes.is_empty() {
        true => rank.numbers().collect(),
        false => axes.iter().map(|axis| op.place(*axis, &x)).collect::<Outcome<Vec<_>>>()?,
    };
    let mut gone = Vec::new();
    for axis in places {
        if one(axis)? && !gone.contains(&axis) {
            gone.push(axis);
        }
    }
    let y = match gone.is_empty() {
        true => x.clone(),
        false => {
            let gone = op.longs(&gone);
            op.call("Squeeze", &[&x, &gone], [])?
        }
    };
    op.put_shaped(&x, &y)
}

fn stack(op: &mut Operator<'_>) -> Outcome {
    let (values, axis) = (op.inputs("X")?, op.int("axis")?);
    let one = |value: &Value| op.unsqueeze(value, &[axis]);
    let values = values.iter().map(one).collect::<Outcome<Vec<_>>>()?;
    let y = op.concat(&values.iter().collect::<Vec<_>>(), axis)?;
    op.put("Y", &y)
}

fn transpose(op: &mut Operator<'_>) -> Outcome {
    let (x, order) = (op.input("X")?, op.ints("axis")?);
    let order = order.iter().map(|axis| op.place(*axis, &x)).collect::<Outcome<Vec<_>>>()?;
    let y = op.transpose(&x, &order)?;
    op.put_shaped(&x, &y)
}

/// Axes are inserted one after the other: each counts those before it.
fn unsqueeze(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let axes = match (op.inputs("AxesTensorList")?.len(), op.optional("AxesTensor")?) {
        (0, None) => op.ints("axes")?,
        (0, Some(_)) => op.known("AxesTensor")?,
        _ => op.known_each("AxesTensorList")?,
    };
    let mut y = x.clone();
    for axis in axes {
        y = op.unsqueeze(&y, &[axis])?;
    }
    op.put_shaped(&x, &y)
}

fn choose(op: &mut Operator<'_>) -> Outcome {
    let (condition, x, y) = (op.input("Condition")?, op.input("X")?, op.input("Y")?);
    let out = op.choose(&condition, &x, &y)?;
    op.put("Out", &out)
}
