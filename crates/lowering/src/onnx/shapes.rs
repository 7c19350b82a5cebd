//! Operators that are emitted everywhere, with what is constant about them.

use lodstone_model::DType;
use lodstone_schema::Finding;
use lodstone_schema::onnx::dtype;

use super::{Graph, Value, int, ints};

type Made = Result<Value, Finding>;

impl Graph {
    /// Other extents of as many elements.
    pub(crate) fn reshape(&mut self, value: &Value, dims: &[i64]) -> Made {
        if value.known_dims().as_deref() == Some(dims) {
            return Ok(value.clone());
        }
        let dims = self.longs(dims);
        // Extents are what they are, 0 too.
        self.call("Reshape", &[value, &dims], [int("allowzero", 1)])
    }

    /// Extents in another order.
    pub(crate) fn transpose(&mut self, value: &Value, order: &[i64]) -> Made {
        if order.iter().zip(0..).all(|(axis, place)| *axis == place) {
            return Ok(value.clone());
        }
        self.call("Transpose", &[value], [ints("perm", order)])
    }

    /// With an extent of one at each of `axes`.
    pub(crate) fn unsqueeze(&mut self, value: &Value, axes: &[i64]) -> Made {
        let axes = self.longs(axes);
        self.call("Unsqueeze", &[value, &axes], [])
    }

    /// Elements from `start` to before `end` along an axis.
    pub(crate) fn slice(&mut self, value: &Value, axis: i64, start: i64, end: i64) -> Made {
        self.slices(value, &[axis], &[start], &[end])
    }

    /// Elements from `starts` to before `ends` along each of `axes`.
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

    /// One behind the other along an axis.
    pub(crate) fn concat(&mut self, values: &[&Value], axis: i64) -> Made {
        self.call("Concat", values, [int("axis", axis)])
    }

    /// Repeated to extents.
    pub(crate) fn expand(&mut self, value: &Value, dims: &[i64]) -> Made {
        if value.known_dims().as_deref() == Some(dims) {
            return Ok(value.clone());
        }
        let dims = self.longs(dims);
        self.call("Expand", &[value, &dims], [])
    }

    /// Elements of `value` along an axis, by number.
    pub(crate) fn gather(&mut self, value: &Value, numbers: &Value, axis: i64) -> Made {
        self.call("Gather", &[value, numbers], [int("axis", axis)])
    }

    /// Elements of another type.
    pub(crate) fn cast(&mut self, value: &Value, to: DType) -> Made {
        if value.dtype() == to {
            return Ok(value.clone());
        }
        let code = dtype::code(to).ok_or_else(|| format!("ONNX has no type {to}"))?;
        self.call("Cast", &[value], [int("to", i64::from(code))])
    }

    /// Every element `number`, of a type and extents; nothing so large is stored.
    pub(crate) fn filled(&mut self, dtype: DType, number: f64, dims: &[i64]) -> Made {
        let value = self.one_number(dtype, number)?;
        let value = super::tensor("value", value);
        let dims = self.longs(dims);
        self.call("ConstantOfShape", &[&dims], [value])
    }

    /// The integers from 0 to before `count`.
    pub(crate) fn range(&mut self, count: i64) -> Made {
        let (first, end, step) = (self.long(0), self.long(count), self.long(1));
        self.call("Range", &[&first, &end, &step], [])
    }

    /// One of the reductions `ReduceX` over axes.
    pub(crate) fn reduce(&mut self, kind: &str, value: &Value, axes: &[i64], keep: bool) -> Made {
        let axes = self.longs(axes);
        self.call(kind, &[value, &axes], [int("keepdims", i64::from(keep))])
    }

    /// The sum.
    pub(crate) fn add(&mut self, left: &Value, right: &Value) -> Made {
        self.call("Add", &[left, right], [])
    }

    /// The difference.
    pub(crate) fn sub(&mut self, left: &Value, right: &Value) -> Made {
        self.call("Sub", &[left, right], [])
    }

    /// The product.
    pub(crate) fn mul(&mut self, left: &Value, right: &Value) -> Made {
        self.call("Mul", &[left, right], [])
    }

    /// The quotient.
    pub(crate) fn div(&mut self, left: &Value, right: &Value) -> Made {
        self.call("Div", &[left, right], [])
    }

    /// Each element plus a number.
    pub(crate) fn plus(&mut self, value: &Value, number: f64) -> Made {
        let number = self.number(value.dtype(), number)?;
        self.add(value, &number)
    }

    /// Each element times a number.
    pub(crate) fn times(&mut self, value: &Value, number: f64) -> Made {
        let number = self.number(value.dtype(), number)?;
        self.mul(value, &number)
    }

    /// `left` where `choose`, else `right`.
    pub(crate) fn choose(&mut self, choose: &Value, left: &Value, right: &Value) -> Made {
        self.call("Where", &[choose, left, right], [])
    }
}
