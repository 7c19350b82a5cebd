//! Operators that fill a blob with stored values: the weights of an `init_net`.
//!
//! | operator | values | elements |
//! |---|---|---|
//! | `GivenTensorFill` | `floats` | float, or what `dtype` selects |
//! | `GivenTensorDoubleFill`, `GivenTensorFp16Fill` | `floats` | double, float16 |
//! | `GivenTensorIntFill`, `...Int64Fill`, `...Int16Fill`, `...BoolFill` | `ints` | int32, int64, int16, bool |
//! | `GivenTensorStringFill` | `strings` | string |
//! | `GivenTensorByteStringToUInt8Fill` | one string | uint8 |
//! | `Int8GivenTensorFill` | `s` | uint8, with `Y_scale` and `Y_zero_point` |
//! | `Int8GivenIntTensorFill` | `ints` | int32, with `Y_scale` and `Y_zero_point` |
//! | `ConstantFill` | `value` | what `dtype` selects; all are equal |
//! | `XavierFill`, `GaussianFill`, `UniformFill`, ... | none: they are drawn | float |

use std::sync::Arc;

use lodstone_model::{AttributeValue, DType, Kind, Op, Tensor};
use lodstone_store::Blob;

use super::values::{self, Piece};
use super::{argument, tensor};
use crate::encoding::protobuf::holes::content;
use crate::encoding::protobuf::wire::{Field, Message, Value};
use crate::error::Result;

/// The argument with the values.
pub(super) const VALUES: &str = "values";

/// The argument with the dims.
pub(super) const SHAPE: &str = "shape";

/// Where an operator has its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Floats,
    Ints,
    Strings,
    /// The bytes of one string.
    Bytes,
    /// One value for all elements.
    Constant,
    /// None: they are random.
    Drawn,
}

use Stored as S;

/// Every operator, where it has its values, and the type of its elements.
const FILLS: &[(&str, Stored, DType)] = &[
    ("GivenTensorFill", S::Floats, DType::Float32),
    ("GivenTensorDoubleFill", S::Floats, DType::Float64),
    ("GivenTensorFp16Fill", S::Floats, DType::Float16),
    ("GivenTensorIntFill", S::Ints, DType::Int32),
    ("GivenTensorInt64Fill", S::Ints, DType::Int64),
    ("GivenTensorInt16Fill", S::Ints, DType::Int16),
    ("GivenTensorBoolFill", S::Ints, DType::Bool),
    ("GivenTensorStringFill", S::Strings, DType::String),
    ("GivenTensorByteStringToUInt8Fill", S::Bytes, DType::Uint8),
    ("Int8GivenTensorFill", S::Bytes, DType::Uint8),
    ("Int8GivenIntTensorFill", S::Ints, DType::Int32),
    ("ConstantFill", S::Constant, DType::Float32),
    ("XavierFill", S::Drawn, DType::Float32),
    ("MSRAFill", S::Drawn, DType::Float32),
    ("UniformFill", S::Drawn, DType::Float32),
    ("UniformIntFill", S::Drawn, DType::Int32),
    ("UniqueUniformFill", S::Drawn, DType::Int32),
    ("GaussianFill", S::Drawn, DType::Float32),
];

/// Returns where an operator has its values, and the type of its elements; `None` if it fills nothing.
pub(super) fn fill(kind: &str) -> Option<(Stored, DType)> {
    let found = FILLS.iter().find(|(known, ..)| *known == kind);
    found.map(|(_, stored, dtype)| (*stored, *dtype))
}

/// Returns the type of the elements that an operator fills a blob with.
pub(super) fn dtype_of(op: &Op) -> Option<DType> {
    let (_, dtype) = fill(&op.kind)?;
    Some(match op.attribute("dtype") {
        Some(AttributeValue::Long(code))
            if matches!(op.kind.as_str(), "GivenTensorFill" | "ConstantFill") =>
        {
            tensor::dtype(i32::try_from(*code).ok()?)
        }
        _ => dtype,
    })
}

/// Returns the operator that fills a blob with elements of a type.
pub(super) fn operator(dtype: DType) -> Option<(&'static str, Stored)> {
    let is_it = |(kind, stored, known): &&(&str, Stored, DType)| {
        *known == dtype && !kind.starts_with("Int8") && !matches!(stored, S::Constant | S::Drawn)
    };
    FILLS.iter().find(is_it).map(|(kind, stored, _)| (*kind, *stored))
}

/// The maximum number of elements of a constant fill that count as stored.
const MAX_CONSTANT: u64 = 1 << 28;

/// A fill, and the argument with its values.
pub(super) struct Fill<'a> {
    stored: Stored,
    dtype: DType,
    shape: Vec<u64>,
    message: Message<'a>,
    values: Option<Message<'a>>,
}

impl<'a> Fill<'a> {
    /// Returns the fill that an operator is; `None` if it is another operator, or its shape or result depends on inputs.
    pub(super) fn of(op: &Op, message: &Message<'a>) -> Result<Option<Self>> {
        let Some((stored, _)) = fill(&op.kind) else { return Ok(None) };
        if !op.input("").is_empty() || op.output("").len() != 1 {
            return Ok(None);
        }
        let Some(dtype) = dtype_of(op) else { return Ok(None) };
        let stored = match (op.kind.as_str(), dtype) {
            ("GivenTensorFill", DType::Float32 | DType::Float64) => stored,
            ("GivenTensorFill", DType::String) => S::Strings,
            ("GivenTensorFill", DType::Bool | DType::Int16 | DType::Int32 | DType::Int64) => {
                S::Ints
            }
            ("GivenTensorFill", _) => return Ok(None),
            _ => stored,
        };
        let shape = match op.attribute(SHAPE) {
            Some(AttributeValue::Longs(dims)) => {
                dims.iter().map(|dim| u64::try_from(*dim)).collect::<Result<Vec<_>, _>>().ok()
            }
            // A scalar.
            Some(AttributeValue::None) => Some(Vec::new()),
            _ => None,
        };
        let Some(shape) = shape else { return Ok(None) };
        let mut values = None;
        for field in message.fields() {
            let field = field?;
            if field.number == 5 {
                let inner = field.message()?;
                if argument::name(&inner)? == VALUES {
                    values = Some(inner);
                }
            }
        }
        Ok(Some(Self { stored, dtype, shape, message: message.clone(), values }))
    }

    /// Returns the tensor that results.
    ///
    /// # Errors
    /// Fails if the number of values is not that of the shape.
    pub(super) fn tensor(&self, op: &Op, holes: &Arc<[Blob]>) -> Result<Tensor> {
        let shape = &self.shape;
        let count = match shape.contains(&0) {
            true => Some(0),
            false => shape.iter().try_fold(1_u64, |count, dim| count.checked_mul(*dim)),
        };
        let count =
            count.ok_or_else(|| self.wrong("dims that fit 64 bits", format!("{shape:?}")))?;
        let mut tensor = Tensor::dense(self.dtype, shape.clone(), Blob::default());
        match self.stored {
            S::Drawn => tensor.kind = Kind::Absent,
            S::Constant => match constant(op, self.dtype, count) {
                Some(data) => tensor.data = data,
                None => tensor.kind = Kind::Absent,
            },
            S::Strings => {
                let fields = self.fields(&[4, 7])?;
                let text = |field: &Field<'_>| match field.value {
                    Value::Group => Ok(content(field, holes)?.read()?),
                    _ => field.bytes(),
                };
                let elements = fields.iter().map(text).collect::<Result<Vec<_>>>()?;
                self.check(elements.len() as u64, count, "strings")?;
                tensor.kind = Kind::Strings { elements };
            }
            S::Bytes => {
                let fields = self.fields(&[4, 7])?;
                let bytes = |field: &Field<'_>| match field.value {
                    Value::Group => content(field, holes).cloned(),
                    _ => field.bytes().map(Blob::memory),
                };
                let parts = fields.iter().map(bytes).collect::<Result<Vec<_>>>()?;
                tensor.data = match <[Blob; 1]>::try_from(parts) {
                    Ok([only]) => only,
                    Err(parts) => Blob::concat(parts),
                };
                self.check(tensor.data.len(), count, "bytes")?;
            }
            S::Floats => {
                let pieces = tensor::pieces(&self.fields(&[5])?, holes)?;
                let size = |piece: &Piece| piece.blob.len() / if piece.is_tagged { 5 } else { 4 };
                let found = pieces.iter().map(size).sum();
                self.check(found, count, "floats")?;
                tensor.data = values::floats(pieces, self.dtype);
            }
            S::Ints => {
                let pieces = tensor::pieces(&self.fields(&[6])?, holes)?;
                let found: u64 = pieces.iter().map(|piece| piece.blob.len()).sum();
                let data = values::integers(pieces, self.dtype, count);
                let misfit = || {
                    let expected = format!("{count} integers as `{VALUES}`, for {:?}", self.shape);
                    self.wrong(expected, format!("{found} bytes"))
                };
                tensor.data = data.ok_or_else(misfit)?;
            }
        }
        Ok(tensor)
    }

    /// Returns the fields of the values with these numbers.
    fn fields(&self, numbers: &[u32]) -> Result<Vec<Field<'a>>> {
        let Some(values) = &self.values else { return Ok(Vec::new()) };
        let fields = values.fields().filter(|field| match field {
            Ok(field) => numbers.contains(&field.number),
            Err(_) => true,
        });
        fields.collect()
    }

    fn check(&self, found: u64, count: u64, what: &str) -> Result<()> {
        if found == count {
            return Ok(());
        }
        let expected = format!("{count} {what} as `{VALUES}`, for {:?}", self.shape);
        Err(self.wrong(expected, found.to_string()))
    }

    fn wrong(&self, expected: impl Into<String>, found: String) -> crate::error::Error {
        self.message.error(expected, found)
    }

    /// Whether the values are in the argument.
    pub(super) fn has_values(&self) -> bool {
        !matches!(self.stored, S::Constant | S::Drawn)
    }
}

/// Returns the elements of a constant fill; `None` if they are too many to count as stored, or of another type.
fn constant(op: &Op, dtype: DType, count: u64) -> Option<Blob> {
    let value = op.attribute("value");
    let float = || match value {
        Some(AttributeValue::Float(value)) => Some(*value),
        None => Some(0.0),
        _ => None,
    };
    let int = || match value {
        Some(AttributeValue::Long(value)) => Some(*value),
        None => Some(0),
        _ => None,
    };
    let element = match dtype {
        DType::Float32 => float()?.to_le_bytes().to_vec(),
        DType::Float64 => f64::from(float()?).to_le_bytes().to_vec(),
        DType::Int32 => i32::try_from(int()?).ok()?.to_le_bytes().to_vec(),
        DType::Int64 => int()?.to_le_bytes().to_vec(),
        DType::Bool => vec![u8::from(int()? != 0)],
        _ => return None,
    };
    values::repeated(element, count).filter(|_| count <= MAX_CONSTANT)
}
