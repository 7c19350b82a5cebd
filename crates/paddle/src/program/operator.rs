//! A builder of operators.

use std::fmt;

use lodstone_model::{Attribute, AttributeValue, DType, Op, Operand};
use lodstone_schema::Finding;
use lodstone_schema::numbers::exact;
use lodstone_schema::paddle::{OWN, Operator as Row, attributes, codes, operator};

use crate::program::error;
use crate::program::network::Variable;

/// An operator under construction.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    op: Op,
    /// Why an attribute does not have its value.
    wrong: Option<String>,
}

impl Operator {
    /// Creates an operator of a kind: `"conv2d"`.
    pub fn new(kind: &str) -> Self {
        Self { op: Op { kind: kind.to_owned(), ..Op::default() }, wrong: None }
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

    /// Sets an attribute to the code of an element type. If there is none, [`finish`](Self::finish) fails.
    #[must_use]
    pub fn dtype(self, name: &str, dtype: DType) -> Self {
        let code = codes::dtype_code(dtype);
        self.checked(name, code.ok_or_else(|| format!("{dtype} has no code").into()))
    }

    /// Sets an attribute to a number. If it has more than 32 bits, [`finish`](Self::finish) fails.
    pub(crate) fn int<N: Copy + fmt::Display>(self, name: &str, number: N) -> Self
    where
        i32: TryFrom<N>,
    {
        self.checked(name, exact::<i32, N>(number))
    }

    /// Sets an attribute to dims. If one has more than 32 bits, [`finish`](Self::finish) fails.
    pub(crate) fn ints(self, name: &str, dims: &[u64]) -> Self {
        let dims = dims.iter().map(|dim| exact(*dim));
        self.checked(name, dims.collect::<Result<Vec<i32>, Finding>>())
    }

    /// Sets an attribute to dims. If one is 2^63 or more, [`finish`](Self::finish) fails.
    pub(crate) fn longs(self, name: &str, dims: &[u64]) -> Self {
        let dims = dims.iter().map(|dim| exact(*dim));
        self.checked(name, dims.collect::<Result<Vec<i64>, Finding>>())
    }

    fn checked(mut self, name: &str, value: Result<impl Into<AttributeValue>, Finding>) -> Self {
        match value {
            Ok(value) => return self.attribute(name, value),
            Err(wrong) => self.wrong.get_or_insert_with(|| format!("attribute `{name}`: {wrong}")),
        };
        self
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
            .longs("shape", shape)
            .dtype("dtype", dtype)
            .attribute("value", single(value))
            .attribute("str_value", text)
    }

    /// Checks the operator against PaddlePaddle's registry and adds the defaults of missing attributes.
    ///
    /// # Errors
    /// If the registry does not have the operator, a slot or an attribute, an attribute has the wrong type, or one without
    /// a default is missing.
    pub fn finish(mut self) -> error::Result<Op> {
        let kind = self.op.kind.clone();
        let wrong = |what: String| error::operator(&kind, what);
        if let Some(what) = self.wrong {
            return wrong(what);
        }
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
