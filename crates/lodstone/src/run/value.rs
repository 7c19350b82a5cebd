//! The inputs and outputs of a run.

use lodstone_engine as engine;
use lodstone_model::{Parameter, Tensor};
use lodstone_schema::Finding;

/// An output of a run.
#[derive(Clone, Debug)]
pub struct Output {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Value,
}

/// The value of an input or output.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// Values in order.
    Sequence(Vec<Value>),
    /// Values by keys.
    Map {
        /// The keys: integers or strings, one-dimensional.
        keys: Tensor,
        /// A value for each key.
        values: Vec<Value>,
    },
    /// An optional value that is absent.
    Absent,
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl Value {
    /// Converts to a value of the engine.
    pub(crate) fn to_engine(&self) -> Result<engine::Value, Finding> {
        let all = |values: &[Self]| values.iter().map(Self::to_engine).collect::<Result<_, _>>();
        Ok(match self {
            Self::Tensor(tensor) => engine::Value::of(tensor)?,
            Self::Sequence(values) => engine::Value::Sequence(all(values)?),
            Self::Map { keys, values } => {
                engine::Value::Map(engine::Map::new(engine::Value::of(keys)?, all(values)?))
            }
            Self::Absent => engine::Value::Optional(None),
        })
    }

    /// Returns the tensor.
    ///
    /// # Errors
    /// If the value is not a tensor.
    pub(crate) fn tensor(&self) -> Result<&Tensor, Finding> {
        let found = match self {
            Self::Tensor(tensor) => return Ok(tensor),
            Self::Sequence(_) => "a sequence",
            Self::Map { .. } => "a map",
            Self::Absent => "no value",
        };
        Err(format!("expected a tensor, found {found}").into())
    }

    /// Converts a value of the engine.
    ///
    /// # Errors
    /// If elements cannot be put in order.
    pub(crate) fn of(value: &engine::Value) -> Result<Self, Finding> {
        let all = |values: &[engine::Value]| values.iter().map(Self::of).collect::<Result<_, _>>();
        Ok(match value {
            engine::Value::Sequence(values) => Self::Sequence(all(values)?),
            engine::Value::Optional(None) => Self::Absent,
            engine::Value::Optional(Some(value)) => Self::of(value)?,
            engine::Value::Map(map) => {
                Self::Map { keys: map.keys.tensor()?, values: all(&map.values)? }
            }
            value => Self::Tensor(value.tensor()?),
        })
    }

    /// Adds the tensors of the value, with names derived from `name`.
    pub(crate) fn flatten(self, name: String, tensors: &mut Vec<Parameter>) {
        match self {
            Self::Tensor(tensor) => tensors.push(Parameter { name, tensor }),
            Self::Absent => {}
            Self::Sequence(values) => {
                for (number, value) in values.into_iter().enumerate() {
                    value.flatten(format!("{name}.{number}"), tensors);
                }
            }
            Self::Map { keys, values } => {
                tensors.push(Parameter { name: format!("{name}.keys"), tensor: keys });
                Self::Sequence(values).flatten(name, tensors);
            }
        }
    }
}
