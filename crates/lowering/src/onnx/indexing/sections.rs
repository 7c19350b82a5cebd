//! Sections of an axis.

use lodstone_model::DType;
use lodstone_schema::numbers::{exact, length};

use super::{Bounds, Made, Span};
use crate::onnx::{Graph, Size, Value, int, known_sizes};

/// The maximum number of sections: each is a value.
const MAX_SECTIONS: i64 = 1 << 16;

/// How a framework divides an axis.
#[derive(Clone, Debug)]
pub(crate) enum Sections {
    /// Of given lengths.
    Lengths(Vec<Size>),
    /// A number of sections of one length.
    Equal(i64),
    /// A number of sections, of which the first may be longer by one.
    FirstLonger(i64),
    /// Sections of a length, of which the last may be shorter: as many as the dim has, or as given if it is unknown.
    Of(Size, usize),
    /// At most a number of sections of one length, of which the last may be shorter.
    AtMost(i64),
}

impl Graph {
    /// Divides an axis into sections.
    ///
    /// # Errors
    /// If the dim has no such sections.
    pub(crate) fn split(&mut self, x: &Value, axis: i64, how: Sections) -> Made<Vec<Value>> {
        let sizes = match (how, x.size(axis)?) {
            (Sections::Lengths(sizes), _) => sizes,
            (Sections::Equal(count), dim) => return self.equal_sections(x, axis, count, dim),
            (Sections::FirstLonger(count), dim) => {
                let count = counted(count)?;
                let Some(dim) = dim else { return self.first_longer(x, axis, count) };
                let each = |part: i64| dim / count + i64::from(part < dim % count);
                (0..count).map(|part| Size::Known(each(part))).collect()
            }
            (Sections::Of(Size::Known(size), _), Some(dim)) => last_shorter(dim, size)?,
            (Sections::Of(size, count), _) => self.with_rest(x, axis, size, count)?,
            (Sections::AtMost(count), Some(dim)) => match counted(count)? {
                count if dim == 0 => vec![Size::Known(0); exact(count)?],
                count => last_shorter(dim, (dim - 1) / count + 1)?,
            },
            (Sections::AtMost(count), None) => {
                let all = self.size_of(x, axis)?;
                let all = self.sum_of(&all, &Size::Known(counted(count)? - 1))?;
                let size = self.quotient_of(&all, count)?;
                self.with_rest(x, axis, size, exact(count)?)?
            }
        };
        counted(length(sizes.len()))?;
        if let [_] = sizes.as_slice() {
            return Ok(vec![x.clone()]);
        }
        if let (Some(known), Some(dim)) = (known_sizes(&sizes), x.size(axis)?) {
            let all = known.iter().try_fold(0_i64, |all, size| all.checked_add(*size));
            if all != Some(dim) || known.iter().any(|size| *size < 0) {
                return Err(format!("expected sizes with the sum {dim}, found {known:?}").into());
            }
        }
        let list = self.list_of(&sizes)?;
        self.emit("Split", &[Some(x), Some(&list)], [int("axis", axis)], sizes.len())
    }

    /// Divides an axis at places by Python's rule. The first section begins with the dim, and the last one ends with it.
    pub(crate) fn split_at(&mut self, x: &Value, axis: i64, places: &[i64]) -> Made<Vec<Value>> {
        counted(length(places.len()) + 1)?;
        let bound = |place: &i64| Some(Size::Known(*place));
        let starts = std::iter::once(None).chain(places.iter().map(bound));
        let ends = places.iter().map(bound).chain([None]);
        let mut section = |(start, end)| {
            let spans = self.spans(&[Span { start, end, ..Span::all(axis) }])?;
            self.sliced(x, &spans, Bounds::Clamped)
        };
        starts.zip(ends).map(&mut section).collect()
    }

    /// Returns the slices of an axis, which do not have it.
    pub(crate) fn unstacked(&mut self, x: &Value, axis: i64, count: i64) -> Made<Vec<Value>> {
        if let Some(dim) = x.size(axis)?.filter(|dim| *dim != count) {
            return Err(format!("expected {dim} slices, found {count}").into());
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        let parts = self.split(x, axis, Sections::Equal(count))?;
        self.squeezed(&parts, axis)
    }

    /// Removes an axis of 1 of each value.
    pub(crate) fn squeezed(&mut self, parts: &[Value], axis: i64) -> Made<Vec<Value>> {
        let axes = self.longs(&[axis]);
        parts.iter().map(|part| self.call("Squeeze", &[part, &axes], [])).collect()
    }

    fn equal_sections(
        &mut self,
        x: &Value,
        axis: i64,
        count: i64,
        dim: Option<i64>,
    ) -> Made<Vec<Value>> {
        let count = counted(count)?;
        if let Some(dim) = dim.filter(|dim| dim % count != 0) {
            return Err(format!("a dim of {dim} does not divide into {count} parts").into());
        }
        if count == 1 {
            return Ok(vec![x.clone()]);
        }
        let attributes = [int("axis", axis), int("num_outputs", count)];
        self.emit("Split", &[Some(x)], attributes, exact(count)?)
    }

    /// Divides an unknown dim into sections of which the first are longer.
    fn first_longer(&mut self, x: &Value, axis: i64, count: i64) -> Made<Vec<Value>> {
        let dim = self.size_of(x, axis)?;
        let (size, rest) = (self.quotient_of(&dim, count)?, self.rest_of(&dim, count)?);
        let (size, rest) = (self.scalar_of(&size)?, self.scalar_of(&rest)?);
        let numbers = self.longs(&(0..count).collect::<Vec<_>>());
        let is_longer = self.call("Less", &[&numbers, &rest], [])?;
        let more = self.cast(&is_longer, DType::Int64)?;
        let sizes = self.add(&more, &size)?;
        self.emit("Split", &[Some(x), Some(&sizes)], [int("axis", axis)], exact(count)?)
    }

    /// Returns the sizes of a number of sections, of which the last has the rest.
    fn with_rest(&mut self, x: &Value, axis: i64, size: Size, count: usize) -> Made<Vec<Size>> {
        let before = counted(length(count))? - 1;
        let all = self.size_of(x, axis)?;
        let taken = self.product_of(&size, &Size::Known(before))?;
        let rest = self.difference_of(&all, &taken)?;
        let mut sizes = vec![size; exact(before)?];
        sizes.push(rest);
        Ok(sizes)
    }
}

fn counted(count: i64) -> Made<i64> {
    match (1..=MAX_SECTIONS).contains(&count) {
        true => Ok(count),
        false => Err(format!("expected 1 to {MAX_SECTIONS} sections, found {count}").into()),
    }
}

/// Returns the sizes of sections of which the last may be shorter. An empty dim has one section.
fn last_shorter(dim: i64, size: i64) -> Made<Vec<Size>> {
    if dim == 0 && size >= 0 {
        return Ok(vec![Size::Known(0)]);
    }
    if size < 1 {
        return Err(format!("expected sections of at least 1 element, found {size}").into());
    }
    let count = counted((dim - 1) / size + 1)?;
    Ok((0..count).map(|part| Size::Known(size.min(dim - part * size))).collect())
}
