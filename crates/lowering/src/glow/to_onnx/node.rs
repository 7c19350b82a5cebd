//! A Glow node as its rule sees it: inputs, members and types, and the results to set.
//!
//! In ONNX, a quantized value is its raw integers; [`Node::real`] dequantizes it, and [`Node::put`] quantizes a computed
//! value again.

use std::ops::{Deref, DerefMut};

use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::glow::Type;
use lodstone_schema::{Code, Finding};

use crate::onnx::quantization::Grid;
use crate::onnx::{Graph, Value, int};

/// The result of a rule. A node without an equivalent in ONNX is rejected with [`Code::NoEquivalent`].
pub(super) type Outcome<T = ()> = Result<T, Finding>;

/// The rule that translates a kind of node.
pub(super) type Rule = fn(&mut Node<'_>) -> Outcome;

/// Reports that ONNX has no equivalent, because of `why`.
pub(super) fn no_equivalent<T>(why: impl Into<String>) -> Outcome<T> {
    Err(Finding::new(Code::NoEquivalent, why))
}

/// A Glow value.
#[derive(Clone, Debug)]
pub(super) struct GlowValue {
    /// The ONNX value.
    pub(super) value: Value,
    /// The Glow type.
    pub(super) ty: Type,
}

/// A result of a node.
#[derive(Clone, Debug)]
pub(super) struct OutputSpec {
    /// The name of the result.
    pub(super) name: String,
    /// The Glow type; the finding if the file does not declare it.
    pub(super) ty: Result<Type, Finding>,
    /// The value that the rule set.
    pub(super) given: Option<GlowValue>,
}

/// A node, and the operators that are emitted for it.
pub(super) struct Node<'a> {
    pub(super) graph: &'a mut Graph,
    pub(super) op: &'a Op,
    pub(super) inputs: &'a [GlowValue],
    /// The constants of the program, by name.
    pub(super) constants: &'a std::collections::HashMap<&'a str, &'a Tensor>,
    pub(super) wanted: Vec<OutputSpec>,
    /// The names of values that are read.
    pub(super) read: &'a std::collections::HashSet<String>,
}

impl Deref for Node<'_> {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        self.graph
    }
}

impl DerefMut for Node<'_> {
    fn deref_mut(&mut self) -> &mut Graph {
        self.graph
    }
}

impl<'a> Node<'a> {
    /// Returns an input by position.
    pub(super) fn given(&self, index: usize) -> Outcome<&'a GlowValue> {
        match self.inputs.get(index) {
            Some(given) => Ok(given),
            None => {
                Err(Finding::from(format!("expected input {index}, found {}", self.inputs.len()))
                    .about_input(index))
            }
        }
    }

    /// Returns an input as it is: raw integers, if it is quantized.
    pub(super) fn raw(&self, index: usize) -> Outcome<Value> {
        Ok(self.given(index)?.value.clone())
    }

    /// Returns the type of an input.
    pub(super) fn ty(&self, index: usize) -> Outcome<&'a Type> {
        Ok(&self.given(index)?.ty)
    }

    /// Returns the tensor of a value that is a constant.
    pub(super) fn constant(&self, value: &Value) -> Option<&'a Tensor> {
        self.constants.get(value.name()).copied()
    }

    /// Returns the dims of an input.
    pub(super) fn dims(&self, index: usize) -> Outcome<&'a [i64]> {
        Ok(&self.given(index)?.ty.shape)
    }

    /// Returns the dims of an input, which must have rank `N`.
    pub(super) fn ranked<const N: usize>(&self, index: usize) -> Outcome<[i64; N]> {
        let dims = self.dims(index)?;
        match dims.try_into() {
            Ok(dims) => Ok(dims),
            Err(_) => Err(Finding::from(format!(
                "expected rank {N} of input {index}, found {}",
                dims.len()
            ))
            .about_input(index)),
        }
    }

    /// Returns the type of a result.
    pub(super) fn out(&self, index: usize) -> Outcome<Type> {
        match self.wanted.get(index) {
            Some(wanted) => Ok(wanted.ty.clone()?),
            None => {
                Err(Finding::from(format!("expected result {index}, found {}", self.wanted.len()))
                    .about_output(index))
            }
        }
    }

    /// Returns the dims of a result, which must have rank `N`.
    pub(super) fn out_ranked<const N: usize>(&self, index: usize) -> Outcome<[i64; N]> {
        let dims = self.out(index)?.shape;
        match dims.try_into() {
            Ok(dims) => Ok(dims),
            Err(dims) => Err(Finding::from(format!(
                "expected rank {N} of result {index}, found {}",
                dims.len()
            ))
            .about_output(index)),
        }
    }

    /// Whether a result is read.
    pub(super) fn is_read(&self, index: usize) -> bool {
        self.wanted.get(index).is_some_and(|wanted| self.read.contains(&wanted.name))
    }

    /// Returns the integer member `name`.
    pub(super) fn int(&self, name: &str) -> Outcome<i64> {
        match self.op.attribute(name) {
            Some(AttributeValue::Long(value)) => Ok(*value),
            _ => {
                Err(Finding::from(format!("expected an integer as `{name}`")).about_attribute(name))
            }
        }
    }

    /// Whether the member `name` is not 0.
    pub(super) fn flag(&self, name: &str) -> Outcome<bool> {
        Ok(self.int(name)? != 0)
    }

    /// Returns the member `name`, a list of integers.
    pub(super) fn ints(&self, name: &str) -> Outcome<&'a [i64]> {
        match self.op.attribute(name) {
            Some(AttributeValue::Longs(values)) => Ok(values),
            // The element type of an empty list is unknown if the file does not declare it.
            Some(AttributeValue::Unknown(0)) => Ok(&[]),
            _ => Err(Finding::from(format!("expected integers as `{name}`")).about_attribute(name)),
        }
    }

    /// Returns the float member `name`.
    pub(super) fn float(&self, name: &str) -> Outcome<f32> {
        match self.op.attribute(name) {
            Some(AttributeValue::Float(value)) => Ok(*value),
            _ => Err(Finding::from(format!("expected a float as `{name}`")).about_attribute(name)),
        }
    }

    /// Returns the member `name`, a list of floats.
    pub(super) fn floats(&self, name: &str) -> Outcome<&'a [f32]> {
        match self.op.attribute(name) {
            Some(AttributeValue::Floats(values)) => Ok(values),
            Some(AttributeValue::Unknown(0)) => Ok(&[]),
            _ => Err(Finding::from(format!("expected floats as `{name}`")).about_attribute(name)),
        }
    }

    /// Returns the string member `name`, which some nodes do not have.
    pub(super) fn optional_text(&self, name: &str) -> Outcome<Option<String>> {
        self.op.attribute(name).map(|_| self.text(name)).transpose()
    }

    /// Returns the string member `name`.
    pub(super) fn text(&self, name: &str) -> Outcome<String> {
        match self.op.attribute(name) {
            Some(AttributeValue::String(text)) => Ok(text.to_string()),
            _ => Err(Finding::from(format!("expected a string as `{name}`")).about_attribute(name)),
        }
    }

    /// Returns the member `name`, an axis of an input.
    pub(super) fn axis(&self, name: &str, index: usize) -> Outcome<i64> {
        let (axis, rank) = (self.int(name)?, self.dims(index)?.len());
        match usize::try_from(axis) {
            Ok(place) if place < rank => Ok(axis),
            _ => Err(Finding::from(format!(
                "expected an axis of rank {rank} as `{name}`, found {axis}"
            ))
            .about_attribute(name)),
        }
    }

    /// Returns an input, dequantized if it is quantized.
    pub(super) fn real(&mut self, index: usize) -> Outcome<Value> {
        let GlowValue { value, ty } = self.given(index)?;
        self.dequantized(value, ty)
    }

    /// Returns an input, dequantized if it is quantized and cast to the type of the computation.
    pub(super) fn real_as(&mut self, index: usize, dtype: DType) -> Outcome<Value> {
        let value = self.real(index)?;
        self.cast(&value, dtype)
    }

    /// Returns the element type in which a result is computed: `float32` for quantized results.
    pub(super) fn computed(&self, index: usize) -> Outcome<DType> {
        let kind = self.out(index)?.kind;
        Ok(if kind.is_quantized() { DType::Float32 } else { kind.dtype() })
    }

    /// Dequantizes a value of a type.
    pub(super) fn dequantized(&mut self, value: &Value, ty: &Type) -> Outcome<Value> {
        match grid_of(ty)? {
            Some(grid) => self.graph.dequantized(value, grid),
            None => Ok(value.clone()),
        }
    }

    /// Returns the addend of a product of inputs `of`, dequantized; `None` if one of them has several scales.
    pub(super) fn added(&mut self, index: usize, of: Option<[usize; 2]>) -> Outcome<Value> {
        let GlowValue { value, ty } = self.given(index)?;
        let scale_of = |index: usize| self.given(index).ok()?.ty.quantization;
        let product = of.and_then(|[left, right]| Some(scale_of(left)?.0 * scale_of(right)?.0));
        match grid_of(ty)? {
            Some(grid) => self.graph.addend(value, grid, product),
            None => Ok(value.clone()),
        }
    }

    /// Quantizes a value to a type.
    pub(super) fn quantized(&mut self, value: &Value, ty: &Type) -> Outcome<Value> {
        let Some(grid) = grid_of(ty)? else { return self.cast(value, ty.kind.dtype()) };
        let value = self.cast(value, DType::Float32)?;
        self.graph.quantized(&value, grid)
    }

    /// Sets a result from a value that was computed in floats, or has the result's type.
    pub(super) fn put(&mut self, index: usize, value: &Value) -> Outcome {
        let ty = self.out(index)?;
        let value = self.quantized(value, &ty)?;
        self.put_raw(index, &value)
    }

    /// Sets a result as it is: raw integers, if it is quantized.
    pub(super) fn put_raw(&mut self, index: usize, value: &Value) -> Outcome {
        let ty = self.out(index)?;
        let dims = match value.known_dims() {
            Some(dims) => dims,
            None => return self.put_sized(index, value, &ty),
        };
        if dims != ty.shape || value.dtype() != ty.kind.dtype() {
            let (expected, found) = (ty.kind.dtype(), value.dtype());
            let what = format!("result {index} is {expected}{:?} in Glow", ty.shape);
            return Err(
                Finding::from(format!("{what}, but {found}{dims:?} in ONNX")).about_output(index)
            );
        }
        let lost = || Finding::internal(format!("result {index} of the node does not exist"));
        let wanted = self.wanted.get(index).ok_or_else(lost)?;
        let (name, op_name) = (wanted.name.clone(), if index == 0 { &*self.op.name } else { "" });
        let value = match name.as_str() {
            "" => value.clone(),
            name => self.graph.name(value, name, op_name)?,
        };
        self.wanted.get_mut(index).ok_or_else(lost)?.given = Some(GlowValue { value, ty });
        Ok(())
    }

    /// Sets a result whose dims cannot be inferred.
    fn put_sized(&mut self, index: usize, value: &Value, ty: &Type) -> Outcome {
        let sized = self.reshape(value, &ty.shape)?;
        if sized.known_dims().as_ref() != Some(&ty.shape) {
            return Err(Finding::from(format!("the dims of result {index} are unknown"))
                .about_output(index));
        }
        self.put_raw(index, &sized)
    }

    /// Returns an input as integers of the type of a result; unchanged if both have the same quantization.
    pub(super) fn raw_like(&mut self, index: usize, result: &Type) -> Outcome<Value> {
        let GlowValue { value, ty } = self.given(index)?;
        if ty.kind == result.kind && ty.quantization == result.quantization {
            return Ok(value.clone());
        }
        let real = self.dequantized(value, ty)?;
        self.quantized(&real, result)
    }

    /// Sets result 0 to the output of an operator that only moves the elements of input 0.
    pub(super) fn moved<const N: usize>(
        &mut self,
        kind: &str,
        more: &[&Value],
        attributes: [lodstone_model::Attribute; N],
    ) -> Outcome {
        let value = self.raw_like(0, &self.out(0)?)?;
        let inputs: Vec<&Value> = std::iter::once(&value).chain(more.iter().copied()).collect();
        let moved = self.call(kind, &inputs, attributes)?;
        self.put_raw(0, &moved)
    }

    /// Returns the negation of a Boolean value.
    pub(super) fn not(&mut self, value: &Value) -> Outcome<Value> {
        self.call("Not", &[value], [])
    }

    /// Returns the attribute `axis` for the axis of a member.
    pub(super) fn axis_attribute(
        &self,
        member: &str,
        index: usize,
    ) -> Outcome<lodstone_model::Attribute> {
        Ok(int("axis", self.axis(member, index)?))
    }
}

/// Returns the grid of a type, if it is quantized.
pub(super) fn grid_of(ty: &Type) -> Outcome<Option<Grid>> {
    if ty.kind.is_fused() {
        return no_equivalent("its rows end with their own scales");
    }
    let grid =
        |(scale, offset): (f32, i32)| Grid { scale, zero: offset.into(), dtype: ty.kind.dtype() };
    Ok(ty.quantization.map(grid))
}
