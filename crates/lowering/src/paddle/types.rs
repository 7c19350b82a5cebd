//! The types of an operator's outputs: those that ONNX's inference finds for its lowering, and those of the column `types` of
//! its row.

use lodstone_model::{AttributeValue, DType, Dim, Holder, Op, TensorType, ValueType};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::types::{Dims, Element, OutputType, Relation, Size, Type, Types};
use lodstone_schema::paddle::{Computation, Release, attribute, codes, operator};

use super::operator::{absent, valueless};
use super::{VariableFacts, lower_op};

/// Returns the variables that an operator writes and that are not declared before, with their types, as 2.6.2 computes them.
///
/// # Errors
/// If nothing computes the operator, or it rejects its inputs.
pub fn output_types(
    op: &Op,
    given: &dyn VariableFacts,
) -> Result<Vec<(String, ValueInfo)>, Finding> {
    let row = operator(&op.kind);
    let types = row.map(|row| &row.types);
    let input = |name: &str| given.info(name);
    match (row, types) {
        (Some(row), Some(Types::Native { unless, outputs }))
            if unless.is_none_or(|slot| op.input(slot).is_empty())
                && (row.computation != Computation::NativeIfSparse || reads_rows(op, given)) =>
        {
            Typing { op, args: |op, slot| op.input(slot), info: &input }.outputs(outputs)
        }
        (_, Some(Types::Unlowered(unlowered))) => {
            let mut part = op.clone();
            part.outputs.retain(|operand| unlowered.iter().all(|it| it.slot != operand.slot));
            let mut outputs = lowered_types(&part, given)?;
            let lowered = |name: &str| {
                outputs.iter().find(|(known, _)| known == name).map(|(_, info)| info.clone())
            };
            let typing = Typing { op, args: |op, slot| op.output(slot), info: &lowered };
            let more = typing.outputs(unlowered)?;
            outputs.extend(more);
            Ok(outputs)
        }
        _ => lowered_types(op, given),
    }
}

fn lowered_types(op: &Op, given: &dyn VariableFacts) -> Result<Vec<(String, ValueInfo)>, Finding> {
    let lowered = lower_op(op, Release::WRITTEN, given)?;
    Ok(lowered.outputs.into_iter().map(|output| (output.variable, output.info)).collect())
}

/// Whether an operator of dense tensors or selected rows reads the latter.
fn reads_rows(op: &Op, given: &dyn VariableFacts) -> bool {
    op.input("X").iter().any(|name| given.info(name).is_some_and(|info| is_rows(&info)))
}

/// Whether a value is selected rows.
fn is_rows(info: &ValueInfo) -> bool {
    info.value.is_selected_rows()
}

/// Determines types from those of other variables of an operator.
struct Typing<'a> {
    op: &'a Op,
    /// The variables of a slot from which types follow.
    args: fn(&'a Op, &str) -> &'a [String],
    /// Their types, by name.
    info: &'a dyn Fn(&str) -> Option<ValueInfo>,
}

impl Typing<'_> {
    fn outputs(&self, types: &[OutputType]) -> Result<Vec<(String, ValueInfo)>, Finding> {
        let variables = types.iter().flat_map(|output| {
            let names = self.op.output(output.slot).iter().enumerate();
            names.map(move |(position, name)| (output, position, name))
        });
        let typed = variables.map(|(output, position, name)| {
            Ok((name.clone(), self.output(&output.value, position)?))
        });
        typed.collect()
    }

    fn output(&self, value: &Type, position: usize) -> Result<ValueInfo, Finding> {
        Ok(match value {
            Type::StepScopes => ValueType::Holder(Holder::StepScopes).into(),
            Type::Attributes => filled(self.op)?,
            Type::Of(relation, slot) => self.related(*relation, slot, position)?,
            Type::Tensor(element, dims) => {
                let dtype = match element {
                    Element::Fixed(dtype) => *dtype,
                    Element::Of(slot) => self.at(slot, 0)?.dtype(),
                };
                let dims = match dims {
                    Dims::Of(slot) => self.dims(slot)?,
                    Dims::Each(sizes) => {
                        Some(sizes.iter().map(|size| self.size(size)).collect::<Result<_, _>>()?)
                    }
                };
                ValueInfo::tensor(dtype, dims)
            }
        })
    }

    fn related(
        &self,
        relation: Relation,
        slot: &str,
        position: usize,
    ) -> Result<ValueInfo, Finding> {
        let tensor = || Ok::<_, Finding>(described(&self.at(slot, 0)?));
        let value = match relation {
            Relation::Same => self.at(slot, position)?.value,
            Relation::Copy => return self.at(slot, position),
            Relation::Rows => {
                let tensor = tensor()?;
                let levels = tensor.lod_level;
                ValueType::Tensor(unsized_rows(tensor, levels))
            }
            Relation::Sequences => ValueType::Tensor(unsized_rows(self.member(slot)?, 1)),
            Relation::Array => ValueType::Holder(Holder::TensorArray(tensor()?)),
            Relation::Steps => ValueType::Holder(Holder::TensorArray(unsized_rows(tensor()?, 0))),
            Relation::Member => ValueType::Tensor(self.member(slot)?),
            Relation::Joined => return Ok(ValueInfo::tensor(self.member(slot)?.dtype, None)),
            Relation::Length => {
                self.member(slot)?;
                return Ok(ValueInfo::tensor(DType::Int64, Some(vec![Dim::Known(1)])));
            }
            Relation::Stored => ValueType::Tensor(tensor()?),
            Relation::Common => common(self.all(slot)?, slot)?,
            Relation::Sum => {
                let all = self.all(slot)?;
                let whole = all.iter().find(|info| !is_rows(info)).or(all.first());
                whole.ok_or_else(|| absent(slot))?.value.clone()
            }
            Relation::RankTable => {
                tensor()?;
                ValueType::Holder(Holder::LodRankTable)
            }
            Relation::Labels => {
                let dims = self.dims(slot)?.map(|dims| match dims.as_slice() {
                    [batch, steps, _] => vec![batch.clone(), steps.clone()],
                    [rows, ..] => vec![rows.clone(), Dim::Known(1)],
                    [] => Vec::new(),
                });
                return Ok(ValueInfo::tensor(DType::Int64, dims));
            }
        };
        Ok(value.into())
    }

    fn size(&self, size: &Size) -> Result<Dim, Finding> {
        // A tensor of unknown rank has no known dims.
        let dims = |slot: &str| Ok::<_, Finding>(self.dims(slot)?.unwrap_or_default());
        let dim = |slot: &str, dim: usize| Ok::<_, Finding>(dims(slot)?.get(dim).cloned());
        let size = match *size {
            Size::Unknown => None,
            Size::Known(size) => Some(Dim::Known(size)),
            Size::Dim(slot, number) => dim(slot, number)?,
            Size::Last(slot) => dims(slot)?.last().cloned(),
            Size::OfRank(slot, number, rank) if dims(slot)?.len() == rank => dim(slot, number)?,
            Size::OfRank(..) => None,
            Size::If(slot, number, given) => {
                dim(slot, number)?.filter(|_| !self.op.input(given).is_empty())
            }
            Size::Multiple(slot, number, times) => match (dims(slot)?.len(), dim(slot, number)?) {
                (2, Some(Dim::Known(size))) => size.checked_mul(times).map(Dim::Known),
                _ => {
                    let wrong = format!("expected a matrix of known dims as `{slot}`");
                    return Err(Finding::from(wrong).about_slot(slot));
                }
            },
        };
        Ok(size.unwrap_or(Dim::Unknown))
    }

    /// Returns the type of a variable of a slot.
    fn at(&self, slot: &str, position: usize) -> Result<ValueInfo, Finding> {
        let name = (self.args)(self.op, slot).get(position).ok_or_else(|| absent(slot))?;
        (self.info)(name).ok_or_else(|| valueless(name, slot))
    }

    /// Returns the types of all variables of a slot.
    fn all(&self, slot: &str) -> Result<Vec<ValueInfo>, Finding> {
        let info = |name: &String| (self.info)(name).ok_or_else(|| valueless(name, slot));
        (self.args)(self.op, slot).iter().map(info).collect()
    }

    /// Returns the dims of a variable, if its rank is known.
    fn dims(&self, slot: &str) -> Result<Option<Vec<Dim>>, Finding> {
        Ok(self.at(slot, 0)?.shape().map(<[Dim]>::to_vec))
    }

    /// Returns the type of the tensors of an array.
    fn member(&self, slot: &str) -> Result<TensorType, Finding> {
        let info = self.at(slot, 0)?;
        if !info.value.is_array() {
            let wrong = format!("expected an array as `{slot}`");
            return Err(Finding::from(wrong).about_slot(slot));
        }
        Ok(described(&info))
    }
}

/// Returns the tensor type of a value; an unspecified one if it has none.
fn described(info: &ValueInfo) -> TensorType {
    info.value.tensor_type().cloned().unwrap_or_default()
}

/// Returns a type of tensors of any number of rows, with a number of LoD levels.
fn unsized_rows(mut tensor: TensorType, lod_level: u32) -> TensorType {
    if let Some(rows) = tensor.shape.as_mut().and_then(|dims| dims.first_mut()) {
        *rows = Dim::Unknown;
    }
    tensor.lod_level = lod_level;
    tensor
}

/// Returns the common type of several values: dims in which they differ are unknown.
fn common(all: Vec<ValueInfo>, slot: &str) -> Result<ValueType, Finding> {
    let mut all = all.into_iter();
    let mut first = all.next().ok_or_else(|| absent(slot))?;
    for other in all {
        if (other.value.kind(), other.dtype()) != (first.value.kind(), first.dtype()) {
            return Err(format!(
                "expected one element type, found {} and {}",
                first.dtype(),
                other.dtype()
            )
            .into());
        }
        let shapes = first.value.tensors_mut().into_iter().zip(other.value.tensors());
        for (known, other) in shapes.map(|(a, b)| (&mut a.shape, &b.shape)) {
            *known = match (known.take(), other) {
                (Some(dims), Some(more)) if dims.len() == more.len() => {
                    let either = |(a, b): (Dim, &Dim)| if a == *b { a } else { Dim::Unknown };
                    Some(dims.into_iter().zip(more).map(either).collect())
                }
                _ => None,
            };
        }
    }
    Ok(first.value)
}

/// Returns a tensor with the shape and element type of attributes.
fn filled(op: &Op) -> Result<ValueInfo, Finding> {
    let dims: Vec<i64> = match attribute(op, "shape") {
        Some(AttributeValue::Longs(dims)) => dims.clone(),
        Some(AttributeValue::Ints(dims)) => dims.iter().copied().map(i64::from).collect(),
        _ => return Err("expected dims as `shape`".into()),
    };
    let dtype = match attribute(op, "dtype") {
        Some(AttributeValue::Int(code)) => codes::dtype(*code),
        _ => return Err("expected an element type as `dtype`".into()),
    };
    let dim = |dim: i64| u64::try_from(dim).map_or(Dim::Unknown, Dim::Known);
    Ok(ValueInfo::tensor(dtype, Some(dims.into_iter().map(dim).collect())))
}
