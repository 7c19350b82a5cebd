//! Constants: numbers and lists that PIR passes as operands, and a `ProgramDesc` as attributes.

use lodstone_model::{AttributeValue, DType};

/// The maximum number of elements of a constant that may become an attribute.
pub(super) const MAX_ELEMENTS: usize = 1 << 16;

/// The elements of a constant tensor of at most one dim.
#[derive(Clone, Debug)]
pub(super) enum Constant {
    Longs(Vec<i64>),
    Doubles(Vec<f64>),
}

impl Constant {
    /// Returns a constant of equal elements of a type.
    pub(super) fn filled(value: f64, dtype: DType, count: usize) -> Option<Self> {
        if count > MAX_ELEMENTS {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the value is that of an integer")]
        Some(match dtype.is_float() {
            true => Self::Doubles(vec![value; count]),
            false => Self::Longs(vec![value as i64; count]),
        })
    }

    /// Returns the elements as the value of an attribute.
    pub(super) fn value(&self) -> AttributeValue {
        match self {
            Self::Longs(values) => AttributeValue::Longs(values.clone()),
            Self::Doubles(values) => AttributeValue::Doubles(values.clone()),
        }
    }

    /// Returns the only element as the value of an attribute.
    pub(super) fn scalar(&self) -> Option<AttributeValue> {
        match self {
            Self::Longs(values) => match values.as_slice() {
                [value] => Some(AttributeValue::Long(*value)),
                _ => None,
            },
            Self::Doubles(values) => match values.as_slice() {
                [value] => Some(AttributeValue::Double(*value)),
                _ => None,
            },
        }
    }
}
