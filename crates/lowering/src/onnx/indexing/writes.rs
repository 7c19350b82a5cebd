//! Writes to parts of a tensor.
//!
//! What is written through a view is scattered to the places of its elements: the view of the place of each element of
//! the tensor.

use lodstone_model::{Attribute, DType};

use super::Made;
use crate::onnx::required::{product, required_dim};
use crate::onnx::{Graph, Value, int, text};

/// What is written to an element that has a value.
fn reduced(reduction: &str) -> Option<Attribute> {
    (reduction != "none").then(|| text("reduction", reduction))
}

impl Graph {
    /// Returns the place of each element of a tensor, in order: `[dims]`.
    pub(crate) fn element_places(&mut self, x: &Value) -> Made {
        let count = match x.known_dims() {
            Some(dims) => self.long(product(&dims)?),
            None => self.call("Size", &[x], [])?,
        };
        let places = self.counting(&count, DType::Int64)?;
        self.reshape_as(&places, x)
    }

    /// Replaces the elements at places, in order.
    pub(crate) fn written_at(&mut self, x: &Value, places: &Value, values: &Value) -> Made {
        let places = self.reshape(places, &[-1])?;
        let (flat, values) = (self.reshape(x, &[-1])?, self.reshape(values, &[-1])?);
        let y = self.put_elements(&flat, &places, &values, 0, "none")?;
        self.reshape_as(&y, x)
    }

    /// Writes or reduces elements along an axis, by the index of each.
    pub(crate) fn put_elements(
        &mut self,
        x: &Value,
        indices: &Value,
        values: &Value,
        axis: i64,
        reduction: &str,
    ) -> Made {
        let attributes = [int("axis", axis)].into_iter().chain(reduced(reduction));
        let inputs = [Some(x), Some(indices), Some(values)];
        let [y] = self.emit_all("ScatterElements", &inputs, attributes)?;
        Ok(y)
    }

    /// Writes or reduces slices by the indices along the first axes of each: `[.., axes]`.
    pub(crate) fn put_slices(
        &mut self,
        x: &Value,
        indices: &Value,
        slices: &Value,
        reduction: &str,
    ) -> Made {
        let indices = self.cast(indices, DType::Int64)?;
        let inputs = [Some(x), Some(&indices), Some(slices)];
        let [y] = self.emit_all("ScatterND", &inputs, reduced(reduction))?;
        Ok(y)
    }

    /// Writes or reduces rows, by the index of each.
    pub(crate) fn put_rows(
        &mut self,
        x: &Value,
        indices: &Value,
        rows: &Value,
        reduction: &str,
    ) -> Made {
        let indices = self.cast(indices, DType::Int64)?;
        let indices = match indices.rank()?.count() {
            1 => self.unsqueeze(&indices, &[1])?,
            _ => self.reshape(&indices, &[-1, 1])?,
        };
        self.put_slices(x, &indices, rows, reduction)
    }

    /// Writes or reduces slices along an axis, by the index of each.
    pub(crate) fn put_along(
        &mut self,
        x: &Value,
        indices: &Value,
        slices: &Value,
        axis: i64,
        reduction: &str,
    ) -> Made {
        let rank = slices.rank()?;
        let axis = rank.axis(axis)?.number();
        let dims = rank.numbers().map(|other| if other == axis { -1 } else { 1 });
        let indices = self.cast(indices, DType::Int64)?;
        let indices = self.reshape(&indices, &dims.collect::<Vec<_>>())?;
        let indices = self.expand_as(&indices, slices)?;
        self.put_elements(x, &indices, slices, axis, reduction)
    }

    /// Replaces the elements of an axis from `start` to `end` (exclusive), both within the dim.
    pub(crate) fn replaced(
        &mut self,
        x: &Value,
        axis: i64,
        [start, end]: [i64; 2],
        new: &Value,
    ) -> Made {
        let dim = required_dim(x, axis)?;
        if !(0 <= start && start <= end && end <= dim) {
            return Err(format!("elements from {start} to {end} exceed a dim of {dim}").into());
        }
        let before = (start > 0).then(|| self.slice(x, axis, 0, start)).transpose()?;
        let behind = (end < dim).then(|| self.slice(x, axis, end, dim)).transpose()?;
        let parts: Vec<&Value> = before.iter().chain([new]).chain(&behind).collect();
        match parts.as_slice() {
            [only] => Ok((*only).clone()),
            parts => self.concat(parts, axis),
        }
    }
}
