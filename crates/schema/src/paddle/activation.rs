//! The activation functions of recurrent operators.

use lodstone_model::AttributeValue;

use crate::Finding;

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// The number itself.
    Identity,
    /// The number, or 0 if it is negative.
    Relu,
    /// The logistic function.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// The functions by the index that GRU operators of 1.x have instead of a name.
    const BY_INDEX: [Self; 4] = [Self::Identity, Self::Sigmoid, Self::Tanh, Self::Relu];

    /// Returns the function that the attribute `name` with this value selects, or `default` without one.
    ///
    /// # Errors
    /// If there is no such function.
    pub fn of(value: Option<&AttributeValue>, name: &str, default: Self) -> Result<Self, Finding> {
        let (found, told) = match value {
            Some(AttributeValue::String(kind)) => {
                let kind = kind.to_string();
                let found = Self::BY_INDEX.into_iter().find(|known| known.name() == kind);
                (found, kind)
            }
            Some(AttributeValue::Int(index)) => {
                let place = usize::try_from(*index).ok();
                let found = place.and_then(|place| Self::BY_INDEX.get(place).copied());
                (found, index.to_string())
            }
            _ => return Ok(default),
        };
        let unknown = || format!("unknown activation `{told}` as `{name}`");
        found.ok_or_else(|| Finding::from(unknown()).about_attribute(name))
    }

    /// Returns the name of the function in PaddlePaddle.
    fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Relu => "relu",
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
        }
    }
}
