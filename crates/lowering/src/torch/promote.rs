//! Type promotion.
//!
//! The result has the highest category (truth values, integers, floats) of its operands. Within it, tensors with dims
//! count before tensors without dims, and these before numbers.

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::arguments::{Item, Number};
use super::node::{Node, Outcome};
use crate::onnx::Value;

/// The default type of floats.
pub(super) const DEFAULT: DType = DType::Float32;

/// An operand with its place in type promotion.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Tensor(Value),
    /// A number that the program computes, or that is constant.
    Computed(Value),
    Number(Number),
}

/// The category of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Category {
    Bool,
    Int,
    Float,
}

/// Returns the category of a type.
pub(super) fn category(dtype: DType) -> Outcome<Category> {
    match dtype {
        DType::Bool => Ok(Category::Bool),
        DType::Int8
        | DType::Int16
        | DType::Int32
        | DType::Int64
        | DType::Uint8
        | DType::Uint16
        | DType::Uint32
        | DType::Uint64 => Ok(Category::Int),
        DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float64 => Ok(Category::Float),
        other => Err(format!("computing with {other} is not supported").into()),
    }
}

impl Operand {
    fn dtype(&self) -> DType {
        match self {
            Self::Tensor(value) => value.dtype(),
            Self::Computed(value) => match value.dtype() {
                DType::Float64 => DEFAULT,
                dtype => dtype,
            },
            Self::Number(number) => number.dtype(),
        }
    }

    /// 0 for tensors with dims, 1 for those without, 2 for numbers.
    fn priority(&self) -> Outcome<usize> {
        match self {
            Self::Tensor(value) => Ok(usize::from(value.rank()? == 0)),
            Self::Computed(_) | Self::Number(_) => Ok(2),
        }
    }
}

/// Returns the type of the result of operands.
pub(super) fn promoted(operands: &[Operand]) -> Outcome<DType> {
    let mut groups: [Option<DType>; 3] = [None; 3];
    for operand in operands {
        let dtype = operand.dtype();
        category(dtype)?;
        if let Some(group) = groups.get_mut(operand.priority()?) {
            *group = Some(match *group {
                Some(other) => common(other, dtype)?,
                None => dtype,
            });
        }
    }
    let mut found: Option<DType> = None;
    for dtype in groups.into_iter().flatten() {
        found = Some(match found {
            Some(higher) if category(higher)? >= category(dtype)? => higher,
            // A lower group of a higher category counts, in its default type if it is a number.
            _ => dtype,
        });
    }
    found.ok_or_else(|| "expected tensors, found none".into())
}

/// Returns the type that holds two types.
pub(super) fn common(a: DType, b: DType) -> Outcome<DType> {
    if a == b {
        return Ok(a);
    }
    let (high, low) = if category(a)? >= category(b)? { (a, b) } else { (b, a) };
    if category(high)? != category(low)? {
        return Ok(high);
    }
    let bits = |dtype: DType| dtype.bits();
    let has = |dtype| a == dtype || b == dtype;
    Ok(match category(high)? {
        Category::Bool => DType::Bool,
        Category::Float if has(DType::Float16) && has(DType::BFloat16) => DType::Float32,
        Category::Float => {
            if bits(a) > bits(b) {
                a
            } else {
                b
            }
        }
        // Unsigned integers need the next larger signed ones.
        Category::Int if has(DType::Uint8) => match if a == DType::Uint8 { b } else { a } {
            DType::Int8 => DType::Int16,
            other => other,
        },
        Category::Int => {
            if bits(a) > bits(b) {
                a
            } else {
                b
            }
        }
    })
}

impl Node<'_> {
    /// Returns an operand.
    pub(super) fn operand(&self, name: &str) -> Outcome<Operand> {
        match self.arguments.items(name) {
            Some([Item::Tensor(value)]) => Ok(Operand::Tensor(value.clone())),
            Some([Item::Number(value)]) => Ok(Operand::Computed(value.clone())),
            Some([Item::Constant(_)]) | None => match self.arguments.number(name)? {
                Some(number) => Ok(Operand::Number(number)),
                None => Err(Finding::from(format!("the argument `{name}` is missing"))),
            },
            Some(_) => Err(format!("the argument `{name}` must be a tensor or number").into()),
        }
    }

    /// Returns operands, if they are present.
    pub(super) fn operands(&self, names: &[&str]) -> Outcome<Vec<Operand>> {
        names.iter().map(|name| self.operand(name)).collect()
    }

    /// Returns the value of an operand in a type.
    pub(super) fn in_type(&mut self, operand: &Operand, dtype: DType) -> Outcome {
        match operand {
            Operand::Tensor(value) | Operand::Computed(value) => self.cast(value, dtype),
            Operand::Number(number) => self.number_of(dtype, *number),
        }
    }

    /// Returns two operands in their common type.
    pub(super) fn pair(&mut self, left: &str, right: &str) -> Outcome<(Value, Value, DType)> {
        let operands = self.operands(&[left, right])?;
        let dtype = promoted(&operands)?;
        self.pair_in(&operands, dtype)
    }

    /// Returns two operands in their common type; in the default type of floats if that is not one.
    pub(super) fn float_pair(&mut self, left: &str, right: &str) -> Outcome<(Value, Value, DType)> {
        let operands = self.operands(&[left, right])?;
        let dtype = float_type(promoted(&operands)?)?;
        self.pair_in(&operands, dtype)
    }

    fn pair_in(&mut self, operands: &[Operand], dtype: DType) -> Outcome<(Value, Value, DType)> {
        let [left, right] = operands else {
            return Err(Finding::internal("expected two operands"));
        };
        Ok((self.in_type(left, dtype)?, self.in_type(right, dtype)?, dtype))
    }

    /// Returns a tensor as floats: integers are cast to the default type.
    pub(super) fn floats(&mut self, name: &str) -> Outcome {
        let value = self.tensor(name)?;
        let dtype = float_type(value.dtype())?;
        self.cast(&value, dtype)
    }
}

/// Returns a type of floats itself, and the default one for others.
pub(super) fn float_type(dtype: DType) -> Outcome<DType> {
    Ok(if category(dtype)? == Category::Float { dtype } else { DEFAULT })
}
