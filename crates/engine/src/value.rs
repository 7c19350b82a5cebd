//! The values of programs.

use bytes::Bytes;
use lodstone_model::{DType, Dim, Kind, Tensor, TensorType, ValueType};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::{ValueInfo, common_type};

use crate::dense::Dense;
use crate::item::Outcome;

/// A value of a program: an input or result of a kernel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// A dense tensor of numbers or booleans.
    Dense(Dense),
    /// A tensor of strings.
    Strings(Strings),
    /// Values of one type, in order.
    Sequence(Vec<Value>),
    /// An optional value.
    Optional(Option<Box<Value>>),
    /// Values by key.
    Map(Map),
}

/// A tensor of strings, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Strings {
    dims: Vec<usize>,
    elements: Vec<Bytes>,
}

/// A map from keys to values.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Map {
    /// The keys: a one-dimensional tensor of integers or strings.
    pub keys: Box<Value>,
    /// The value of each key.
    pub values: Vec<Value>,
}

impl Map {
    /// Creates a map.
    pub fn new(keys: Value, values: Vec<Value>) -> Self {
        Self { keys: Box::new(keys), values }
    }
}

impl Strings {
    /// Creates a tensor of strings.
    ///
    /// # Errors
    /// If the number of strings does not match the dims.
    pub fn new(dims: Vec<usize>, elements: Vec<Bytes>) -> Outcome<Self> {
        let count = dims.iter().try_fold(1_usize, |count, dim| count.checked_mul(*dim));
        match count == Some(elements.len()) {
            true => Ok(Self { dims, elements }),
            false => Err(format!("{} strings do not fill dims {dims:?}", elements.len()).into()),
        }
    }

    /// Returns the dims, outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Returns the strings in row-major order.
    pub fn elements(&self) -> &[Bytes] {
        &self.elements
    }
}

impl Value {
    /// Converts a tensor of a model, dense or of strings.
    ///
    /// # Errors
    /// If the tensor is neither, or cannot be read.
    pub fn of(tensor: &Tensor) -> Outcome<Self> {
        match &tensor.kind {
            Kind::Strings { elements } => {
                let dims = tensor.shape.iter().map(|dim| usize::try_from(*dim));
                let dims = dims.collect::<Result<_, _>>().map_err(|_| "it is too large")?;
                Ok(Self::Strings(Strings::new(dims, elements.clone())?))
            }
            _ => Dense::of(tensor).map(Self::Dense),
        }
    }

    /// Converts the value to a tensor of a model.
    ///
    /// # Errors
    /// If the value is not a tensor.
    pub fn tensor(&self) -> Outcome<Tensor> {
        match self {
            Self::Dense(dense) => dense.tensor(),
            Self::Strings(strings) => {
                let shape = strings.dims.iter().map(|dim| *dim as u64).collect();
                let mut tensor =
                    Tensor::dense(DType::String, shape, lodstone_store::Blob::default());
                tensor.kind = Kind::Strings { elements: strings.elements.clone() };
                Ok(tensor)
            }
            other => Err(other.wrong("a tensor")),
        }
    }

    /// Returns the dense tensor in this value.
    ///
    /// # Errors
    /// If the value is not a dense tensor.
    pub fn dense(&self) -> Outcome<&Dense> {
        match self {
            Self::Dense(dense) => Ok(dense),
            other => Err(other.wrong("a dense tensor")),
        }
    }

    /// Returns a description of the kind of value.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Dense(_) => "a dense tensor",
            Self::Strings(_) => "a tensor of strings",
            Self::Sequence(_) => "a sequence",
            Self::Optional(_) => "an optional value",
            Self::Map(_) => "a map",
        }
    }

    fn wrong(&self, expected: &str) -> Finding {
        format!("expected {expected}, found {}", self.kind()).into()
    }

    /// Returns the size of the elements in bytes.
    pub fn nbytes(&self) -> u64 {
        match self {
            Self::Dense(dense) => dense.nbytes(),
            Self::Strings(strings) => strings.elements.iter().map(|text| text.len() as u64).sum(),
            Self::Sequence(values) => values.iter().map(Self::nbytes).sum(),
            Self::Optional(value) => value.as_ref().map_or(0, |value| value.nbytes()),
            Self::Map(map) => map.keys.nbytes() + map.values.iter().map(Self::nbytes).sum::<u64>(),
        }
    }

    /// Returns the type, with the elements if they are a few integers or floats.
    ///
    /// # Errors
    /// If the value is nested deeper than types may be.
    pub fn info(&self) -> Outcome<ValueInfo> {
        match self {
            Self::Dense(dense) => dense.info(),
            other => Ok(ValueInfo::from(other.value_type()?)),
        }
    }

    /// Returns the type. The element type of a sequence is what its values have in common; that of an empty sequence or
    /// optional value is unknown.
    ///
    /// # Errors
    /// If the value is nested deeper than types may be.
    pub fn value_type(&self) -> Outcome<ValueType> {
        let deep = |error: lodstone_model::TooDeep| Finding::from(error.to_string());
        Ok(match self {
            Self::Dense(dense) => dense.type_info().value,
            Self::Strings(strings) => {
                let dims = strings.dims.iter().map(|dim| Dim::Known(*dim as u64)).collect();
                TensorType::new(DType::String, Some(dims)).into()
            }
            Self::Sequence(values) if values.is_empty() => ValueType::Unspecified,
            Self::Optional(None) => ValueType::Unspecified,
            Self::Sequence(values) => {
                let mut element = ValueType::Unspecified;
                for (at, value) in values.iter().enumerate() {
                    let found = value.value_type()?;
                    element = match at {
                        0 => found,
                        _ => common_type(&element, &found).unwrap_or_default(),
                    };
                }
                ValueType::list(element).map_err(deep)?
            }
            Self::Optional(Some(inside)) => {
                ValueType::optional(inside.value_type()?).map_err(deep)?
            }
            Self::Map(map) => {
                let key = map.keys.info()?.dtype();
                let value =
                    map.values.first().map_or(Ok(ValueType::Unspecified), Self::value_type)?;
                ValueType::dict(key, value).map_err(deep)?
            }
        })
    }
}

impl From<Dense> for Value {
    fn from(dense: Dense) -> Self {
        Self::Dense(dense)
    }
}
