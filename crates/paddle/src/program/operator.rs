//! One operator, slot by slot.

use lodstone_model::{Attribute, AttributeValue, ByteString, DType, Op, Operand};
use lodstone_schema::paddle::{attributes, codes, operator};

use crate::program::error::{self, Result};
use crate::program::network::Variable;

/// An operator that is being made.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    op: Op,
}

impl Operator {
    /// An operator of a kind: `"conv2d"`.
    pub fn new(kind: &str) -> Self {
        Self { op: Op { kind: kind.to_owned(), ..Op::default() } }
    }

    /// With variables in an input slot.
    #[must_use]
    pub fn input<'v>(mut self, slot: &str, vars: impl IntoIterator<Item = &'v Variable>) -> Self {
        self.op.inputs.push(operand(slot, vars));
        self
    }

    /// With variables in an output slot.
    #[must_use]
    pub fn output<'v>(mut self, slot: &str, vars: impl IntoIterator<Item = &'v Variable>) -> Self {
        self.op.outputs.push(operand(slot, vars));
        self
    }

    /// With an attribute.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: impl Into<Given>) -> Self {
        self.op.attributes.push(Attribute { name: name.to_owned(), value: value.into().0 });
        self
    }

    /// With the code of an element type as an attribute.
    #[must_use]
    pub fn dtype(self, name: &str, dtype: DType) -> Self {
        self.attribute(name, codes::dtype_code(dtype).unwrap_or(-1))
    }

    /// `fill_constant` with a number, which is told as a text, too: that is exact.
    pub(crate) fn filled(shape: &[u64], dtype: DType, value: f64) -> Self {
        let text = match dtype {
            DType::Int32 | DType::Int64 => format!("{value:.0}"),
            _ => format!("{value:?}"),
        };
        Self::filled_as(shape, dtype, value, &text)
    }

    /// The same with a text of its own.
    pub(crate) fn filled_as(shape: &[u64], dtype: DType, value: f64, text: &str) -> Self {
        Self::new("fill_constant")
            .attribute("shape", dims(shape))
            .dtype("dtype", dtype)
            .attribute("value", single(value))
            .attribute("str_value", text)
    }

    /// The operator as PaddlePaddle's registry wants it: attributes that were not given have their defaults.
    ///
    /// # Errors
    /// If the registry has no such operator, slot or attribute, an attribute is of another type, or one is missing
    /// that has no default.
    pub fn finish(mut self) -> Result<Op> {
        let kind = self.op.kind.clone();
        let wrong = |what: String| error::operator(&kind, what);
        let Some(known) = operator(&kind).filter(|row| !row.releases.is_empty()) else {
            return wrong("PaddlePaddle has no such operator".to_owned());
        };
        for (operands, slots) in
            [(&self.op.inputs, &known.inputs), (&self.op.outputs, &known.outputs)]
        {
            for operand in operands {
                let Some(slot) = slots.iter().find(|slot| slot.name == operand.slot) else {
                    return wrong(format!("it has no slot `{}`", operand.slot));
                };
                if operand.args.len() > 1 && !slot.several {
                    return wrong(format!("its slot `{}` takes one variable", operand.slot));
                }
            }
        }
        for parameter in attributes(&kind) {
            let given = self.op.attributes.iter().find(|given| given.name == parameter.name);
            match (given, &parameter.default, &parameter.like) {
                (Some(given), _, Some(like)) if !is_like(&given.value, like) => {
                    return wrong(format!("`{}` cannot be {:?}", given.name, given.value));
                }
                (Some(_), ..) => {}
                (None, Some(default), _) => {
                    let (name, value) = (parameter.name.to_owned(), default.clone());
                    self.op.attributes.push(Attribute { name, value });
                }
                (None, None, _) => return wrong(format!("it needs `{}`", parameter.name)),
            }
        }
        // What is made here computes forward; the registry's default is "not told".
        for attribute in &mut self.op.attributes {
            if attribute.name == "op_role" && attribute.value == AttributeValue::Int(UNTOLD) {
                attribute.value = AttributeValue::Int(0);
            }
        }
        Ok(self.op)
    }
}

/// A number as attributes have it.
#[expect(clippy::cast_possible_truncation, reason = "attributes are of single precision")]
pub(crate) fn single(value: f64) -> f32 {
    value as f32
}

/// Extents as attributes have them.
pub(crate) fn dims(shape: &[u64]) -> Vec<i64> {
    shape.iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect()
}

/// The role of an operator of which none is told.
const UNTOLD: i32 = 0x1000;

fn operand<'v>(slot: &str, vars: impl IntoIterator<Item = &'v Variable>) -> Operand {
    let args = vars.into_iter().map(|var| var.name().to_owned()).collect();
    Operand { slot: slot.to_owned(), args }
}

/// Whether two values are of one type.
fn is_like(a: &AttributeValue, b: &AttributeValue) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// The value of an attribute.
#[derive(Clone, Debug)]
pub struct Given(AttributeValue);

macro_rules! given {
    ($($from:ty => $to:ident),+ $(,)?) => {
        $(impl From<$from> for Given {
            fn from(value: $from) -> Self {
                Self(AttributeValue::$to(value))
            }
        })+
    };
}

given! {
    bool => Bool,
    i32 => Int,
    i64 => Long,
    f32 => Float,
    f64 => Double,
    Vec<i32> => Ints,
    Vec<i64> => Longs,
    Vec<f32> => Floats,
    Vec<f64> => Doubles,
}

impl From<&str> for Given {
    fn from(value: &str) -> Self {
        Self(AttributeValue::String(ByteString::from(value)))
    }
}

impl From<AttributeValue> for Given {
    fn from(value: AttributeValue) -> Self {
        Self(value)
    }
}
