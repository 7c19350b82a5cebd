//! Conversion of attributes to the types of a `ProgramDesc`.

use lodstone_model::{AttributeValue, ByteString, DType, Scalar};
use lodstone_schema::paddle::codes;

/// Returns a value as one of the type of `like`; `None` if it cannot be one. Names of element types become codes.
pub(super) fn convert(value: &AttributeValue, like: &AttributeValue) -> Option<AttributeValue> {
    Some(match like {
        AttributeValue::Bool(_) => AttributeValue::Bool(match value {
            AttributeValue::Bool(value) => *value,
            other => long(other)? != 0,
        }),
        AttributeValue::Int(_) => AttributeValue::Int(match value {
            AttributeValue::String(name) => dtype_code(name)?,
            other => i32::try_from(long(other)?).ok()?,
        }),
        AttributeValue::Long(_) => AttributeValue::Long(match value {
            AttributeValue::String(name) => dtype_code(name)?.into(),
            other => long(other)?,
        }),
        #[expect(clippy::cast_possible_truncation, reason = "the operator reads a float")]
        AttributeValue::Float(_) => AttributeValue::Float(double(value)? as f32),
        AttributeValue::Double(_) => AttributeValue::Double(double(value)?),
        AttributeValue::String(_) => match value {
            AttributeValue::String(text) => AttributeValue::String(text.clone()),
            // Tolerances are numbers in PIR, and text in a `ProgramDesc`.
            other => AttributeValue::from(format!("{}", double(other)?).as_str()),
        },
        AttributeValue::Bools(_) => match value {
            AttributeValue::Bools(values) => AttributeValue::Bools(values.clone()),
            other => AttributeValue::Bools(longs(other)?.iter().map(|value| *value != 0).collect()),
        },
        AttributeValue::Ints(_) => {
            let ints = longs(value)?.into_iter().map(|value| i32::try_from(value).ok());
            AttributeValue::Ints(ints.collect::<Option<_>>()?)
        }
        AttributeValue::Longs(_) => AttributeValue::Longs(longs(value)?),
        #[expect(clippy::cast_possible_truncation, reason = "the operator reads floats")]
        AttributeValue::Floats(_) => {
            AttributeValue::Floats(doubles(value)?.into_iter().map(|value| value as f32).collect())
        }
        AttributeValue::Doubles(_) => AttributeValue::Doubles(doubles(value)?),
        AttributeValue::Strings(_) => match value {
            AttributeValue::Strings(texts) => AttributeValue::Strings(texts.clone()),
            other if leaves(other)?.is_empty() => AttributeValue::Strings(Vec::new()),
            _ => return None,
        },
        AttributeValue::Scalars(_) => {
            let scalar = |leaf: &AttributeValue| match leaf {
                AttributeValue::Scalar(scalar) => Some(*scalar),
                AttributeValue::Bool(value) => Some(Scalar::Bool(*value)),
                AttributeValue::Float(_) | AttributeValue::Double(_) => {
                    double(leaf).map(Scalar::Double)
                }
                other => long(other).map(Scalar::Long),
            };
            AttributeValue::Scalars(leaves(value)?.iter().map(scalar).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// Whether a value changes nothing if an operator does not have the attribute: PaddlePaddle 3 adds attributes whose
/// defaults mean what the operator did before.
pub(super) fn is_neutral(value: &AttributeValue) -> bool {
    match value {
        AttributeValue::None => true,
        AttributeValue::Bool(value) => !value,
        AttributeValue::String(text) => text.0.is_empty(),
        AttributeValue::Int(_)
        | AttributeValue::Long(_)
        | AttributeValue::Float(_)
        | AttributeValue::Double(_) => double(value) == Some(0.0),
        other => leaves(other).is_some_and(|leaves| leaves.is_empty()),
    }
}

/// Returns an element type by its name in PIR; `None` if it is undefined.
pub(super) fn dtype(name: &ByteString) -> Option<DType> {
    DType::from_name(&name.to_string())
}

/// Returns the code of an element type.
///
/// # Errors
/// If PaddlePaddle's tensors do not have it.
pub(super) fn code(dtype: DType) -> Result<i32, lodstone_schema::Finding> {
    let code = codes::dtype_code(dtype);
    code.ok_or_else(|| format!("expected an element type that tensors have, found {dtype}").into())
}

/// Returns the code of an element type; -1 if it is undefined.
fn dtype_code(name: &ByteString) -> Option<i32> {
    match name.to_string().to_lowercase().starts_with("undefined") {
        true => Some(-1),
        false => codes::dtype_code(dtype(name)?),
    }
}

/// Returns the members of a list of any kind.
fn leaves(value: &AttributeValue) -> Option<Vec<AttributeValue>> {
    Some(match value {
        AttributeValue::List(values) => values.to_vec(),
        AttributeValue::Bools(values) => {
            values.iter().map(|it| AttributeValue::Bool(*it)).collect()
        }
        AttributeValue::Ints(values) => values.iter().map(|it| AttributeValue::Int(*it)).collect(),
        AttributeValue::Longs(values) => {
            values.iter().map(|it| AttributeValue::Long(*it)).collect()
        }
        AttributeValue::Floats(values) => {
            values.iter().map(|it| AttributeValue::Float(*it)).collect()
        }
        AttributeValue::Doubles(values) => {
            values.iter().map(|it| AttributeValue::Double(*it)).collect()
        }
        AttributeValue::Strings(values) => {
            values.iter().map(|it| AttributeValue::String(it.clone())).collect()
        }
        AttributeValue::Scalars(values) => {
            values.iter().map(|it| AttributeValue::Scalar(*it)).collect()
        }
        _ => return None,
    })
}

/// Returns an integer.
pub(super) fn long(value: &AttributeValue) -> Option<i64> {
    match value {
        AttributeValue::Bool(value) => Some((*value).into()),
        AttributeValue::Int(value) => Some((*value).into()),
        AttributeValue::Long(value) => Some(*value),
        AttributeValue::Scalar(Scalar::Bool(value)) => Some((*value).into()),
        AttributeValue::Scalar(Scalar::Long(value)) => Some(*value),
        #[expect(clippy::cast_possible_truncation, reason = "the integer is exact")]
        other => {
            double(other).filter(|it| it.fract() == 0.0 && it.abs() < 9e15).map(|it| it as i64)
        }
    }
}

/// Returns a number.
pub(super) fn double(value: &AttributeValue) -> Option<f64> {
    match value {
        AttributeValue::Float(value) => Some((*value).into()),
        AttributeValue::Double(value) | AttributeValue::Scalar(Scalar::Double(value)) => {
            Some(*value)
        }
        #[expect(clippy::cast_precision_loss, reason = "the operator reads a float")]
        AttributeValue::Int(_)
        | AttributeValue::Long(_)
        | AttributeValue::Bool(_)
        | AttributeValue::Scalar(Scalar::Bool(_) | Scalar::Long(_)) => Some(long(value)? as f64),
        _ => None,
    }
}

/// Returns integers; one number is a list of one.
pub(super) fn longs(value: &AttributeValue) -> Option<Vec<i64>> {
    match leaves(value) {
        Some(leaves) => leaves.iter().map(long).collect(),
        None => Some(vec![long(value)?]),
    }
}

/// Returns numbers; one number is a list of one.
pub(super) fn doubles(value: &AttributeValue) -> Option<Vec<f64>> {
    match leaves(value) {
        Some(leaves) => leaves.iter().map(double).collect(),
        None => Some(vec![double(value)?]),
    }
}
