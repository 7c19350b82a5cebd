//! The values of programs.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use lodstone_model::{DType, Dim, Kind, Tensor, TensorType, ValueType};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::{ValueInfo, common_type};
use smallvec::SmallVec;

use crate::budget::{Budget, Charge};
use crate::error::Outcome;
use crate::tensor::Dense;

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
#[derive(Clone, Debug)]
pub struct Strings {
    dims: Vec<usize>,
    elements: Arc<Vec<Bytes>>,
    /// The charge for the strings, which all copies share; `None` if the values of a run do not count them.
    charge: Option<Arc<Charge>>,
}

impl PartialEq for Strings {
    fn eq(&self, other: &Self) -> bool {
        (&self.dims, &self.elements) == (&other.dims, &other.elements)
    }
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

/// The memory of a value without its elements, in bytes: its handle in a list, half of it again while the list grows, and
/// the owner of its bytes, with what an allocator adds.
pub(crate) const VALUE: u64 = size_of::<Value>() as u64 * 3 / 2 + 96;

/// The memory of the owner and the list of the bytes of a tensor of its own, in bytes.
pub(crate) const STORAGE: u64 = 160;

/// The memory of a string without its characters, in bytes: its handle, its owner, and what an allocator adds.
pub(crate) const STRING: u64 = size_of::<Bytes>() as u64 + 48;

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
            true => Ok(Self { dims, elements: Arc::new(elements), charge: None }),
            false => Err(format!("{} strings do not fill dims {dims:?}", elements.len()).into()),
        }
    }

    /// Returns the dims, outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Returns the memory that the strings take. Strings that share their characters take them once.
    fn memory(&self) -> u64 {
        /// The number of bytes from which on shared characters are looked for.
        const MANY: u64 = 1 << 16;
        let characters = |text: &Bytes| text.len() as u64;
        let handles = (self.elements.len() as u64).saturating_mul(STRING);
        let mut all = self.elements.iter().map(characters).fold(0, u64::saturating_add);
        if all > MANY && all > handles {
            let mut places = HashSet::new();
            let distinct =
                self.elements.iter().filter(|it| places.insert((it.as_ptr().addr(), it.len())));
            all = distinct.map(characters).fold(0, u64::saturating_add);
        }
        handles.saturating_add(all)
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
                tensor.kind = Kind::Strings { elements: strings.elements.to_vec() };
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

    /// Returns the size of the elements in bytes, which several values may share.
    pub fn nbytes(&self) -> u64 {
        match self {
            Self::Dense(dense) => dense.nbytes(),
            Self::Strings(strings) => strings.elements.iter().map(|text| text.len() as u64).sum(),
            Self::Sequence(values) => values.iter().map(Self::nbytes).sum(),
            Self::Optional(value) => value.iter().map(|value| value.nbytes()).sum(),
            Self::Map(map) => map.keys.nbytes() + map.values.iter().map(Self::nbytes).sum::<u64>(),
        }
    }

    /// Returns the number of elements of a tensor.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Dense(dense) => dense.count() as u64,
            Self::Strings(strings) => strings.elements.len() as u64,
            Self::Sequence(_) | Self::Optional(_) | Self::Map(_) => 0,
        }
    }

    /// Returns the memory of the values in this value without their elements: a sequence takes some for each of its items.
    pub(crate) fn handles(&self) -> u64 {
        let all = |values: &[Self]| {
            let inside = values.iter().map(Self::handles).fold(0, u64::saturating_add);
            inside.saturating_add((values.len() as u64).saturating_mul(VALUE))
        };
        match self {
            Self::Dense(_) | Self::Strings(_) | Self::Optional(None) => 0,
            Self::Sequence(values) => all(values),
            Self::Optional(Some(value)) => value.handles().saturating_add(VALUE),
            Self::Map(map) => {
                map.keys.handles().saturating_add(VALUE).saturating_add(all(&map.values))
            }
        }
    }

    /// Gives elements without a charge one of nothing.
    pub(crate) fn uncounted(&mut self, nothing: &Arc<Charge>) {
        match self {
            Self::Dense(dense) if dense.charge().is_none() => dense.charged(Arc::clone(nothing)),
            Self::Strings(strings) => {
                strings.charge.get_or_insert_with(|| Arc::clone(nothing));
            }
            Self::Dense(_) | Self::Optional(None) => {}
            Self::Sequence(values) => values.iter_mut().for_each(|it| it.uncounted(nothing)),
            Self::Optional(Some(value)) => value.uncounted(nothing),
            Self::Map(map) => {
                map.keys.uncounted(nothing);
                map.values.iter_mut().for_each(|it| it.uncounted(nothing));
            }
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

/// The address and the size of elements.
type Place = (usize, u64);

/// Gives values charges for their elements. Values that share elements share the charge.
pub(crate) struct Charging<'b> {
    budget: &'b Budget,
    /// The charges of elements, the newest last. Elements that are dropped meanwhile may be
    /// replaced by others in their place, of the same size.
    known: SmallVec<[(Place, Arc<Charge>); 4]>,
}

impl<'b> Charging<'b> {
    /// The number of charges among which those of shared elements are looked for.
    const RECENT: usize = 16;

    /// Begins with the charges of values that others may share elements with.
    pub(crate) fn new<'v>(budget: &'b Budget, sources: impl Iterator<Item = &'v Value>) -> Self {
        let charge = |value: &Value| match value {
            Value::Dense(dense) => {
                Some(((dense.address(), dense.stored_nbytes()), Arc::clone(dense.charge()?)))
            }
            _ => None,
        };
        Self { budget, known: sources.filter_map(charge).collect() }
    }

    /// Charges the elements of a value that have no charge.
    pub(crate) fn charge(&mut self, value: &mut Value) {
        match value {
            Value::Dense(dense) if dense.charge().is_none() => {
                let (address, bytes) = (dense.address(), dense.stored_nbytes());
                dense.charged(self.of((address, bytes), bytes.saturating_add(STORAGE)));
            }
            Value::Strings(strings) if strings.charge.is_none() => {
                let (address, memory) = (Arc::as_ptr(&strings.elements).addr(), strings.memory());
                strings.charge = Some(self.of((address, memory), memory));
            }
            Value::Dense(_) | Value::Strings(_) | Value::Optional(None) => {}
            Value::Sequence(values) => values.iter_mut().for_each(|value| self.charge(value)),
            Value::Optional(Some(value)) => self.charge(value),
            Value::Map(map) => {
                self.charge(&mut map.keys);
                map.values.iter_mut().for_each(|value| self.charge(value));
            }
        }
    }

    /// Returns the charge for elements at an address.
    fn of(&mut self, place: Place, bytes: u64) -> Arc<Charge> {
        let mut recent = self.known.iter().rev().take(Self::RECENT);
        if let Some((_, charge)) = recent.find(|(known, _)| *known == place) {
            return Arc::clone(charge);
        }
        if self.known.len() >= 4 * Self::RECENT {
            self.known.drain(..2 * Self::RECENT);
        }
        let charge = Arc::new(self.budget.charge(bytes));
        self.known.push((place, Arc::clone(&charge)));
        charge
    }
}
