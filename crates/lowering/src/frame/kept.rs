//! Operators without an equivalent, which are kept in a domain of their own with permission.
//!
//! | of the source | of the result |
//! |---|---|
//! | the kind: `library::filter.out` | the same, with `_` for what identifiers lack: `library__filter_out` |
//! | operands that are single tensors, slot by slot | inputs, in this order |
//! | attributes, as far as they mean something to the operator | attributes of ONNX's types; others are an error |
//! | declared types of results | types of outputs; unknown where there are none |

use lodstone_model::{Attribute, AttributeValue, ByteString, DType, Op, ValueType};
use lodstone_schema::conventions;
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::onnx::quoted;

use super::{At, Dialect, Frame, Scope, Step};
use crate::onnx::Value;

impl<'m, D: Dialect<'m>> Frame<'m, D> {
    /// Keeps an operator in a domain.
    pub(super) fn keep(
        &mut self,
        at: At,
        op: &'m Op,
        domain: &str,
        scope: &mut Scope<D::Item>,
    ) -> Step {
        if op.blocks().next().is_some() {
            return Err("operators that run blocks cannot be kept".into());
        }
        let names = op.inputs.iter().flat_map(|operand| &operand.args);
        let inputs = names.map(|name| match name.is_empty() {
            true => Ok(None),
            false => D::operand(self, name, scope).map(Some),
        });
        let inputs: Vec<Option<Value>> = inputs.collect::<Step<_>>()?;
        let results = op.outputs.iter().flat_map(|operand| &operand.args);
        let infos = results.map(|name| self.declared_type(at, name));
        let infos: Vec<ValueInfo> = infos.collect::<Step<_>>()?;
        let semantic = conventions(self.program).is_semantic;
        let attributes = op.attributes.iter().filter(|it| semantic(&it.name));
        let attributes = attributes.filter(|it| it.value != AttributeValue::None).map(plain);
        let attributes: Vec<Attribute> = attributes.collect::<Step<_>>()?;
        let is_part = |one: char| one.is_ascii_alphanumeric() || one == '_';
        let kind: String = op.kind.chars().map(|it| if is_part(it) { it } else { '_' }).collect();
        let inputs: Vec<Option<&Value>> = inputs.iter().map(Option::as_ref).collect();
        let made = self.graph.emit_typed(&kind, &inputs, attributes, infos);
        if let Some(kept) = self.graph.ops.last_mut() {
            domain.clone_into(&mut kept.domain);
        }
        D::bind_results(self, at, op, made, scope)?;
        if !self.kept.contains(&op.kind) {
            self.kept.push(op.kind.clone());
        }
        Ok(())
    }

    /// Returns the declared type of a result.
    fn declared_type(&self, at: At, name: &str) -> Step<ValueInfo> {
        let mut block = self.program.blocks.get(at.block);
        while let Some(it) = block {
            if let Some(var) = it.vars.iter().find(|var| var.name == name) {
                return match &var.value {
                    ValueType::Tensor(tensor) => {
                        Ok(ValueInfo::tensor(tensor.dtype, tensor.shape.clone()))
                    }
                    _ => Err(format!("{} is not declared to be a tensor", quoted(name)).into()),
                };
            }
            let parent = usize::try_from(it.parent).ok().filter(|parent| *parent < at.block);
            block = parent.and_then(|parent| self.program.blocks.get(parent));
        }
        Ok(ValueInfo::tensor(DType::Unspecified, None))
    }
}

/// Returns an attribute in a form that ONNX has.
fn plain(attribute: &Attribute) -> Step<Attribute> {
    use AttributeValue as V;
    let value = match &attribute.value {
        V::Bool(value) => V::Long(i64::from(*value)),
        V::Int(value) => V::Long(i64::from(*value)),
        #[expect(clippy::cast_possible_truncation, reason = "ONNX has no attributes of float64")]
        V::Double(value) => V::Float(*value as f32),
        V::Bools(values) => V::Longs(values.iter().map(|value| i64::from(*value)).collect()),
        V::Ints(values) => V::Longs(values.iter().map(|value| i64::from(*value)).collect()),
        #[expect(clippy::cast_possible_truncation, reason = "ONNX has no attributes of float64")]
        V::Doubles(values) => V::Floats(values.iter().map(|value| *value as f32).collect()),
        V::Type(value) if let Some(tensor) = value.tensor_type() => {
            V::String(ByteString::from(tensor.dtype.to_string().as_str()))
        }
        V::Long(_)
        | V::Float(_)
        | V::String(_)
        | V::Longs(_)
        | V::Floats(_)
        | V::Strings(_)
        | V::Tensor(_) => attribute.value.clone(),
        _ => {
            let name = quoted(&attribute.name);
            return Err(format!("the attribute {name} has a type that ONNX lacks").into());
        }
    };
    Ok(Attribute { name: attribute.name.clone(), value })
}
