//! Operators derived from dims and elements of values, which are constants where the dims are known.

use lodstone_model::DType;
use lodstone_schema::Finding;
use lodstone_schema::numbers::Axis;

use super::required::required_dim;
use super::{Graph, Value, int, ints};

type Made = Result<Value, Finding>;

impl Graph {
    /// Returns the index of an axis; negative ones count from the end.
    pub(crate) fn place(&self, axis: i64, value: &Value) -> Result<i64, Finding> {
        value.rank()?.axis(axis).map(Axis::number)
    }

    /// Reshapes to the dims of another value with the same number of elements.
    pub(crate) fn reshape_as(&mut self, value: &Value, like: &Value) -> Made {
        match like.known_dims() {
            Some(dims) => self.reshape(value, &dims),
            None => {
                let dims = self.call("Shape", &[like], [])?;
                self.call("Reshape", &[value, &dims], [int("allowzero", 1)])
            }
        }
    }

    /// Returns a tensor of a type with the dims of another value, filled with `number`.
    pub(crate) fn constant_like(&mut self, like: &Value, dtype: DType, number: f64) -> Made {
        if let Some(dims) = like.known_dims() {
            return self.filled(dtype, number, &dims);
        }
        let dims = self.call("Shape", &[like], [])?;
        self.filled_as(dtype, number, &dims)
    }

    /// Returns a dim of a value of known rank, as a tensor of shape [1].
    pub(crate) fn dim(&mut self, value: &Value, axis: i64) -> Made {
        let axis = self.place(axis, value)?;
        self.call("Shape", &[value], [int("start", axis), int("end", axis + 1)])
    }

    /// Returns a dim as a scalar: a constant if it is known.
    pub(crate) fn extent(&mut self, value: &Value, axis: i64) -> Made {
        if let Some(size) = value.size(axis)? {
            return Ok(self.long(size));
        }
        let dim = self.dim(value, axis)?;
        self.reshape(&dim, &[])
    }

    /// Returns an element of a list, as a scalar.
    pub(crate) fn gather_scalar(&mut self, list: &Value, index: i64) -> Made {
        let index = self.long(index);
        self.gather(list, &index, 0)
    }

    /// Returns a dim as a scalar of a numeric type.
    pub(crate) fn extent_as(&mut self, value: &Value, axis: i64, dtype: DType) -> Made {
        match value.size(axis)? {
            #[expect(clippy::cast_precision_loss, reason = "the dim is rounded")]
            Some(size) => Ok(self.number(dtype, size as f64)?),
            None => {
                let size = self.extent(value, axis)?;
                self.cast(&size, dtype)
            }
        }
    }

    /// Returns the numbers from 0 to `count` (exclusive), a scalar integer, in a numeric type.
    pub(crate) fn counting(&mut self, count: &Value, dtype: DType) -> Made {
        let (zero, one) = (self.long(0), self.long(1));
        let numbers = self.call("Range", &[&zero, count, &one], [])?;
        self.cast(&numbers, dtype)
    }

    /// Returns the places at which a list of Booleans is true.
    pub(crate) fn places(&mut self, marks: &Value) -> Made {
        let places = self.call("NonZero", &[marks], [])?;
        self.reshape(&places, &[-1])
    }

    /// Returns the places of the `count` highest (or lowest) elements along the last dim, in order; fewer if there are
    /// not that many.
    pub(crate) fn highest(
        &mut self,
        x: &Value,
        count: Option<i64>,
        largest: bool,
    ) -> Result<[Value; 2], Finding> {
        let last = x.rank()?.last()?.number();
        let all = self.dim(x, last)?;
        let count = match count {
            None => all,
            Some(count) => match required_dim(x, last) {
                Ok(known) => self.longs(&[count.min(known)]),
                Err(_) => {
                    let count = self.longs(&[count]);
                    self.call("Min", &[&all, &count], [])?
                }
            },
        };
        let attributes = [int("axis", -1), int("largest", i64::from(largest))];
        self.emit_all("TopK", &[Some(x), Some(&count)], attributes)
    }

    /// Clips elements to a range.
    pub(crate) fn clamp(&mut self, x: &Value, least: f64, most: f64) -> Made {
        let (least, most) = (self.number(x.dtype(), least)?, self.number(x.dtype(), most)?);
        self.call("Clip", &[x, &least, &most], [])
    }

    /// Stacks values along a new last dim.
    pub(crate) fn stacked(&mut self, parts: &[&Value]) -> Made {
        let parts = parts.iter().map(|part| self.unsqueeze(part, &[-1]));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        self.concat(&parts.iter().collect::<Vec<_>>(), -1)
    }

    /// Transposes the last two dims.
    pub(crate) fn turned(&mut self, value: &Value) -> Made {
        let rank = value.rank()?;
        let mut order: Vec<i64> = rank.numbers().collect();
        match order.as_mut_slice() {
            [.., rows, columns] => std::mem::swap(rows, columns),
            _ => return Err(format!("expected at least rank 2, found {rank}").into()),
        }
        self.call("Transpose", &[value], [ints("perm", &order)])
    }
}
