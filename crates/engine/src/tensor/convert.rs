//! Conversion of elements to another type.
//!
//! Floats are rounded to the nearest value of a float type, and towards 0 to an integer; they saturate, and NaN becomes 0.
//! Integers wrap around. Everything but 0 is true.

use lodstone_model::DType;
use num_traits::AsPrimitive;

use super::dense::Dense;
use super::element::{Element, numbers_of, unsupported};
use super::map::map;
use crate::error::Outcome;

impl Dense {
    /// Converts the elements to another type.
    ///
    /// # Errors
    /// If kernels do not support one of the types, or memory is insufficient.
    pub(crate) fn cast_to(&self, to: DType) -> Outcome<Self> {
        let from = self.dtype();
        if from == to {
            return Ok(self.clone());
        }
        numbers_of!(
            from,
            T => match to {
                DType::Bool => map::<T, u8>(self, to, &|from, into| {
                    into.iter_mut().zip(from).for_each(|(into, from)| {
                        let is_zero = matches!(
                            from.partial_cmp(&pulp::bytemuck::Zeroable::zeroed()),
                            Some(std::cmp::Ordering::Equal)
                        );
                        *into = u8::from(!is_zero);
                    });
                }),
                _ => numbers_of!(to, U => cast::<T, U>(self, to), Err(unsupported(to))),
            },
            Err(unsupported(from))
        )
    }
}

fn cast<T: Element + AsPrimitive<U>, U: Element>(x: &Dense, to: DType) -> Outcome<Dense> {
    map::<T, U>(x, to, &|from, into| {
        into.iter_mut().zip(from).for_each(|(into, from)| *into = from.as_());
    })
}
