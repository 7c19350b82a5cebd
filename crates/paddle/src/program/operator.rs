//! A builder of operators.

use lodstone_model::{Attribute, AttributeValue, DType, Op, Operand};
use lodstone_schema::paddle::{OWN, Operator as Row, attributes, codes, operator};

use crate::program::error::{self, Result};
use crate::program::network::Variable;

/// An operator under construction.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    op: Op,
}

impl Operator {
    /// Creates an operator of a kind: `"conv2d"`.
    pub fn new(kind: &str) -> Self {
        Self { op: Op { kind: kind.to_owned(), ..Op::default() } }
    }

    /// Returns the kind of the operator.
    pub fn kind(&self) -> &str {
        &self.op.kind
    }

    /// Sets the variables of an input slot.
    #[must_use]
    pub fn input<'v>(mut self, slot: &str, vars: impl IntoIterator<Item = &'v Variable>) -> Self {
        self.op.inputs.push(operand(slot, vars));
        self
    }

    /// Sets the variables of an output slot.
    #[must_use]
    pub fn output<'v>(mut self, slot: &str, vars: impl IntoIterator<Item = &'v Variable>) -> Self {
        self.op.outputs.push(operand(slot, vars));
        self
    }

    /// Sets an attribute.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: impl Into<AttributeValue>) -> Self {
        self.op.attributes.push(Attribute { name: name.to_owned(), value: value.into() });
        self
    }

    /// Sets an attribute to the code of an element type.
    #[must_use]
    pub fn dtype(self, name: &str, dtype: DType) -> Self {
        self.attribute(name, codes::dtype_code(dtype).unwrap_or(-1))
    }

    /// Returns `fill_constant` with a number, also as `str_value`, which is exact.
    pub(crate) fn filled(shape: &[u64], dtype: DType, value: f64) -> Self {
        let text = match dtype {
            DType::Int32 | DType::Int64 => format!("{value:.0}"),
            _ => format!("{value:?}"),
        };
        Self::filled_as(shape, dtype, value, &text)
    }

    /// Returns `fill_constant` with its own `str_value`.
    pub(crate) fn filled_as(shape: &[u64], dtype: DType, value: f64, text: &str) -> Self {
        Self::new("fill_constant")
            .attribute("shape", dims(shape))
            .dtype("dtype", dtype)
            .attribute("value", single(value))
            .attribute("str_value", text)
    }

    /// Checks the operator against PaddlePaddle's registry and adds the defaults of missing attributes.
    ///
    /// # Errors
    /// If the registry does not have the operator, a slot or an attribute, an attribute has the wrong type, or one without
    /// a default is missing.
    pub fn finish(mut self) -> Result<Op> {
        let kind = self.op.kind.clone();
        let wrong = |what: String| error::operator(&kind, what);
        let is_available =
            |row: &&'static Row| !row.releases.is_empty() || row.kind.starts_with(OWN);
        let Some(known) = operator(&kind).filter(is_available) else {
            return wrong("PaddlePaddle does not have this operator".to_owned());
        };
        for (operands, slots) in
            [(&self.op.inputs, &known.inputs), (&self.op.outputs, &known.outputs)]
        {
            for operand in operands {
                let Some(slot) = slots.iter().find(|slot| slot.name == operand.slot) else {
                    return wrong(format!("slot `{}` does not exist", operand.slot));
                };
                if operand.args.len() > 1 && !slot.several {
                    return wrong(format!("slot `{}` takes a single variable", operand.slot));
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
                (None, None, _) => {
                    return wrong(format!("attribute `{}` is missing", parameter.name));
                }
            }
        }
        // New operators have the forward role; the registry's default means that none is set.
        for attribute in &mut self.op.attributes {
            if attribute.name == "op_role" && attribute.value == AttributeValue::Int(NO_ROLE) {
                attribute.value = AttributeValue::Int(0);
            }
        }
        Ok(self.op)
    }
}

/// Converts a number for an attribute.
#[expect(clippy::cast_possible_truncation, reason = "attributes are float32")]
pub(crate) fn single(value: f64) -> f32 {
    value as f32
}

/// Converts dims for an attribute.
pub(crate) fn dims(shape: &[u64]) -> Vec<i64> {
    shape.iter().map(|dim| i64::try_from(*dim).unwrap_or(i64::MAX)).collect()
}

/// The role of an operator without one.
const NO_ROLE: i32 = 0x1000;

fn operand<'v>(slot: &str, vars: impl IntoIterator<Item = &'v Variable>) -> Operand {
    let args = vars.into_iter().map(|var| var.name().to_owned()).collect();
    Operand { slot: slot.to_owned(), args }
}

/// Whether two values have the same type.
fn is_like(a: &AttributeValue, b: &AttributeValue) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}
