//! Common operators with constant arguments.

use lodstone_model::DType;
use lodstone_schema::Finding;
use lodstone_schema::onnx::dtype;

use super::{Graph, Value, int, ints};

type Made = Result<Value, Finding>;

impl Graph {
    /// Reshapes to dims with the same number of elements.
    pub(crate) fn reshape(&mut self, value: &Value, dims: &[i64]) -> Made {
        if value.known_dims().as_deref() == Some(dims) {
            return Ok(value.clone());
        }
        let dims = self.longs(dims);
        // Dims of 0 are taken literally.
        self.call("Reshape", &[value, &dims], [int("allowzero", 1)])
    }

    /// Transposes the dims.
    pub(crate) fn transpose(&mut self, value: &Value, order: &[i64]) -> Made {
        if order.iter().zip(0..).all(|(axis, place)| *axis == place) {
            return Ok(value.clone());
        }
        self.call("Transpose", &[value], [ints("perm", order)])
    }

    /// Inserts dims of 1 at `axes`.
    pub(crate) fn unsqueeze(&mut self, value: &Value, axes: &[i64]) -> Made {
        let axes = self.longs(axes);
        self.call("Unsqueeze", &[value, &axes], [])
    }

    /// Slices elements from `start` to `end` (exclusive) along an axis.
    pub(crate) fn slice(&mut self, value: &Value, axis: i64, start: i64, end: i64) -> Made {
        self.slices(value, &[axis], &[start], &[end])
    }

    /// Slices elements from `starts` to `ends` (exclusive) along each of `axes`.
    pub(crate) fn slices(
        &mut self,
        value: &Value,
        axes: &[i64],
        starts: &[i64],
        ends: &[i64],
    ) -> Made {
        let (starts, ends, axes) = (self.longs(starts), self.longs(ends), self.longs(axes));
        self.call("Slice", &[value, &starts, &ends, &axes], [])
    }

    /// Concatenates values along an axis.
    pub(crate) fn concat(&mut self, values: &[&Value], axis: i64) -> Made {
        self.call("Concat", values, [int("axis", axis)])
    }

    /// Broadcasts to dims.
    pub(crate) fn expand(&mut self, value: &Value, dims: &[i64]) -> Made {
        if value.known_dims().as_deref() == Some(dims) {
            return Ok(value.clone());
        }
        let dims = self.longs(dims);
        self.call("Expand", &[value, &dims], [])
    }

    /// Gathers elements of `value` along an axis, by index.
    pub(crate) fn gather(&mut self, value: &Value, numbers: &Value, axis: i64) -> Made {
        self.call("Gather", &[value, numbers], [int("axis", axis)])
    }

    /// Casts to another type.
    pub(crate) fn cast(&mut self, value: &Value, to: DType) -> Made {
        if value.dtype() == to {
            return Ok(value.clone());
        }
        let code = dtype::code(to).ok_or_else(|| format!("ONNX does not have type {to}"))?;
        self.call("Cast", &[value], [int("to", i64::from(code))])
    }

    /// Creates a tensor of a type and dims that is filled with `number`; only the value is stored.
    pub(crate) fn filled(&mut self, dtype: DType, number: f64, dims: &[i64]) -> Made {
        let dims = self.longs(dims);
        self.filled_as(dtype, number, &dims)
    }

    /// Creates a tensor of a type that is filled with `number`; `dims` is a list of its dims.
    pub(crate) fn filled_as(&mut self, dtype: DType, number: f64, dims: &Value) -> Made {
        let value = super::tensor("value", self.one_number(dtype, number)?);
        self.call("ConstantOfShape", &[dims], [value])
    }

    /// Returns the integers from 0 to `count` (exclusive).
    pub(crate) fn range(&mut self, count: i64) -> Made {
        let (first, end, step) = (self.long(0), self.long(count), self.long(1));
        self.call("Range", &[&first, &end, &step], [])
    }

    /// Reduces over axes by the operator `kind`.
    pub(crate) fn reduce(&mut self, kind: &str, value: &Value, axes: &[i64], keep: bool) -> Made {
        let axes = self.longs(axes);
        self.call(kind, &[value, &axes], [int("keepdims", i64::from(keep))])
    }

    /// Adds two values.
    pub(crate) fn add(&mut self, left: &Value, right: &Value) -> Made {
        self.call("Add", &[left, right], [])
    }

    /// Subtracts two values.
    pub(crate) fn sub(&mut self, left: &Value, right: &Value) -> Made {
        self.call("Sub", &[left, right], [])
    }

    /// Multiplies two values.
    pub(crate) fn mul(&mut self, left: &Value, right: &Value) -> Made {
        self.call("Mul", &[left, right], [])
    }

    /// Divides two values.
    pub(crate) fn div(&mut self, left: &Value, right: &Value) -> Made {
        self.call("Div", &[left, right], [])
    }

    /// Adds a constant to each element.
    pub(crate) fn plus(&mut self, value: &Value, number: f64) -> Made {
        let number = self.number(value.dtype(), number)?;
        self.add(value, &number)
    }

    /// Multiplies each element by a constant.
    pub(crate) fn times(&mut self, value: &Value, number: f64) -> Made {
        let number = self.number(value.dtype(), number)?;
        self.mul(value, &number)
    }

    /// Selects `left` where `choose` is true, and `right` elsewhere.
    pub(crate) fn choose(&mut self, choose: &Value, left: &Value, right: &Value) -> Made {
        self.call("Where", &[choose, left, right], [])
    }
}
