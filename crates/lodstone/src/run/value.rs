//! The outputs of a run.

use lodstone_engine as engine;
use lodstone_model::{Parameter, Tensor};

use crate::Result;

/// An output of a run.
#[derive(Clone, Debug)]
pub struct Output {
    /// The name.
    pub name: String,
    /// The value.
    pub value: OutputValue,
}

/// The value of an output.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OutputValue {
    /// A tensor.
    Tensor(Tensor),
    /// Values in order.
    Sequence(Vec<OutputValue>),
    /// Values by keys.
    Map {
        /// The keys: integers or strings, one-dimensional.
        keys: Tensor,
        /// A value for each key.
        values: Vec<OutputValue>,
    },
    /// An optional value that is absent.
    Absent,
}

impl OutputValue {
    /// Converts a value of the engine.
    pub(crate) fn of(value: &engine::Value) -> Result<Self> {
        Ok(match value {
            engine::Value::Sequence(values) => {
                Self::Sequence(values.iter().map(Self::of).collect::<Result<_>>()?)
            }
            engine::Value::Optional(None) => Self::Absent,
            engine::Value::Optional(Some(value)) => Self::of(value)?,
            engine::Value::Map(map) => Self::Map {
                keys: map.keys.tensor()?,
                values: map.values.iter().map(Self::of).collect::<Result<_>>()?,
            },
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
