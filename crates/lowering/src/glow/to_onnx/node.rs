//! A node of Glow as its lowering sees it: inputs, members and types asked, results told.
//!
//! A quantized value is its raw integers in ONNX; [`Node::real`] is what they stand for, and
//! [`Node::put`] makes integers again of what was computed.

use std::ops::{Deref, DerefMut};

use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::{Code, Finding};

use crate::onnx::{Graph, Value, int};

/// What comes of a rule. A node without an equivalent in ONNX is refused with [`Code::NoEquivalent`].
pub(super) type Outcome<T = ()> = Result<T, Finding>;

/// How a kind of node is said.
pub(super) type Rule = fn(&mut Node<'_>) -> Outcome;

/// ONNX has no equivalent, because of `why`.
pub(super) fn no_words<T>(why: impl Into<String>) -> Outcome<T> {
    Err(Finding::new(Code::NoEquivalent, why))
}

/// A value of Glow.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// What it is in ONNX.
    pub(super) value: Value,
    /// What it is in Glow.
    pub(super) ty: Type,
}

/// A result of a node.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// What it is called.
    pub(super) name: String,
    /// What it is in Glow; nothing if the file does not say it.
    pub(super) ty: Result<Type, Finding>,
    /// What it was told to be.
    pub(super) given: Option<Given>,
}

/// A node, and what is emitted for it.
pub(super) struct Node<'a> {
    pub(super) graph: &'a mut Graph,
    pub(super) op: &'a Op,
    pub(super) inputs: &'a [Given],
    /// The constants of the program, by name.
    pub(super) constants: &'a std::collections::HashMap<&'a str, &'a Tensor>,
    pub(super) wanted: Vec<Wanted>,
    /// The names of values that something reads.
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
    /// An input by position.
    pub(super) fn given(&self, index: usize) -> Outcome<&'a Given> {
        match self.inputs.get(index) {
            Some(given) => Ok(given),
            None => Err(Finding::from(format!(
                "expected an input {index}, found {}",
                self.inputs.len()
            ))
            .about_input(index)),
        }
    }

    /// An input as it is: raw integers, if it is quantized.
    pub(super) fn raw(&self, index: usize) -> Outcome<Value> {
        Ok(self.given(index)?.value.clone())
    }

    /// The type of an input.
    pub(super) fn ty(&self, index: usize) -> Outcome<&'a Type> {
        Ok(&self.given(index)?.ty)
    }

    /// The constant that a value is, if it is one of Glow's.
    pub(super) fn constant(&self, value: &Value) -> Option<&'a Tensor> {
        self.constants.get(value.name()).copied()
    }

    /// The extents of an input.
    pub(super) fn dims(&self, index: usize) -> Outcome<&'a [i64]> {
        Ok(&self.given(index)?.ty.shape)
    }

    /// The extents of an input that has to have `N`.
    pub(super) fn ranked<const N: usize>(&self, index: usize) -> Outcome<[i64; N]> {
        let dims = self.dims(index)?;
        match dims.try_into() {
            Ok(dims) => Ok(dims),
            Err(_) => Err(Finding::from(format!(
                "expected {N} extents of input {index}, found {}",
                dims.len()
            ))
            .about_input(index)),
        }
    }

    /// The type of a result.
    pub(super) fn out(&self, index: usize) -> Outcome<Type> {
        match self.wanted.get(index) {
            Some(wanted) => Ok(wanted.ty.clone()?),
            None => Err(Finding::from(format!(
                "expected a result {index}, found {}",
                self.wanted.len()
            ))
            .about_output(index)),
        }
    }

    /// The extents of a result that has to have `N`.
    pub(super) fn out_ranked<const N: usize>(&self, index: usize) -> Outcome<[i64; N]> {
        let dims = self.out(index)?.shape;
        match dims.try_into() {
            Ok(dims) => Ok(dims),
            Err(dims) => Err(Finding::from(format!(
                "expected {N} extents of result {index}, found {}",
                dims.len()
            ))
            .about_output(index)),
        }
    }

    /// Whether something reads a result.
    pub(super) fn is_read(&self, index: usize) -> bool {
        self.wanted.get(index).is_some_and(|wanted| self.read.contains(&wanted.name))
    }

    /// A member that is an integer.
    pub(super) fn int(&self, name: &str) -> Outcome<i64> {
        match self.op.attribute(name) {
            Some(AttributeValue::Long(value)) => Ok(*value),
            _ => {
                Err(Finding::from(format!("expected an integer as `{name}`")).about_attribute(name))
            }
        }
    }

    /// A member that is 0 or not.
    pub(super) fn flag(&self, name: &str) -> Outcome<bool> {
        Ok(self.int(name)? != 0)
    }

    /// A member that is a list of integers.
    pub(super) fn ints(&self, name: &str) -> Outcome<&'a [i64]> {
        match self.op.attribute(name) {
            Some(AttributeValue::Longs(values)) => Ok(values),
            // Which kind a list without elements is nobody can tell, if its type is not said.
            Some(AttributeValue::Unknown(0)) => Ok(&[]),
            _ => Err(Finding::from(format!("expected integers as `{name}`")).about_attribute(name)),
        }
    }

    /// A member that is a number with a fraction.
    pub(super) fn float(&self, name: &str) -> Outcome<f32> {
        match self.op.attribute(name) {
            Some(AttributeValue::Float(value)) => Ok(*value),
            _ => Err(Finding::from(format!("expected a number with a fraction as `{name}`"))
                .about_attribute(name)),
        }
    }

    /// A member that is a list of such numbers.
    pub(super) fn floats(&self, name: &str) -> Outcome<&'a [f32]> {
        match self.op.attribute(name) {
            Some(AttributeValue::Floats(values)) => Ok(values),
            Some(AttributeValue::Unknown(0)) => Ok(&[]),
            _ => Err(Finding::from(format!("expected numbers with fractions as `{name}`"))
                .about_attribute(name)),
        }
    }

    /// A member that is a text.
    pub(super) fn text(&self, name: &str) -> Outcome<String> {
        match self.op.attribute(name) {
            Some(AttributeValue::String(text)) => Ok(text.to_string()),
            _ => Err(Finding::from(format!("expected a text as `{name}`")).about_attribute(name)),
        }
    }

    /// An axis of an input, which is a member.
    pub(super) fn axis(&self, name: &str, index: usize) -> Outcome<i64> {
        let (axis, rank) = (self.int(name)?, self.dims(index)?.len());
        match usize::try_from(axis) {
            Ok(place) if place < rank => Ok(axis),
            _ => {
                Err(Finding::from(format!("expected an axis of {rank} as `{name}`, found {axis}"))
                    .about_attribute(name))
            }
        }
    }

    /// What an input stands for: numbers with fractions, if it is quantized.
    pub(super) fn real(&mut self, index: usize) -> Outcome<Value> {
        let Given { value, ty } = self.given(index)?;
        self.dequantized(value, ty)
    }

    /// The same, in the type that is computed in: float, unless the result is of another type of such
    /// numbers, or both are integers.
    pub(super) fn real_as(&mut self, index: usize, dtype: DType) -> Outcome<Value> {
        let value = self.real(index)?;
        self.cast(&value, dtype)
    }

    /// The type of elements that a result is computed in.
    pub(super) fn computed(&self, index: usize) -> Outcome<DType> {
        let kind = self.out(index)?.kind;
        Ok(if kind.is_quantized() { DType::Float32 } else { kind.dtype() })
    }

    /// What a value of a type stands for.
    pub(super) fn dequantized(&mut self, value: &Value, ty: &Type) -> Outcome<Value> {
        if ty.kind.is_fused() {
            return no_words("its rows end with scales of their own");
        }
        let Some((scale, offset)) = ty.quantization else { return Ok(value.clone()) };
        let scale = self.number(DType::Float32, f64::from(scale))?;
        match zero_point(ty.kind, offset) {
            Some(None) => Ok(self.call("DequantizeLinear", &[value, &scale], [])?),
            Some(Some(zero)) => {
                let zero = self.number(ty.kind.dtype(), f64::from(zero))?;
                Ok(self.call("DequantizeLinear", &[value, &scale, &zero], [])?)
            }
            None => self.spelled(value, ty.quantization.map_or(0, |(_, offset)| offset), &scale),
        }
    }

    /// What integers stand for, by arithmetic.
    fn spelled(&mut self, value: &Value, offset: i32, scale: &Value) -> Outcome<Value> {
        let wide = self.cast(value, DType::Int64)?;
        let offset = self.long(i64::from(offset));
        let steps = self.sub(&wide, &offset)?;
        let steps = self.cast(&steps, DType::Float32)?;
        self.mul(&steps, scale)
    }

    /// What is added to a product of quantized inputs stands for; nothing are they if one of them has
    /// many scales.
    ///
    /// Runtimes that see `DequantizeLinear` of 32 bits there take its scale to be the product of the
    /// others, without a look; if it is not, it is said by arithmetic.
    pub(super) fn added(&mut self, index: usize, of: Option<[usize; 2]>) -> Outcome<Value> {
        let Given { value, ty } = self.given(index)?;
        let scale_of = |index: usize| self.given(index).ok()?.ty.quantization;
        let product = of.and_then(|[left, right]| Some(scale_of(left)?.0 * scale_of(right)?.0));
        match ty.quantization {
            Some((scale, offset)) if ty.kind == ElemKind::Int32Q && product != Some(scale) => {
                let scale = self.number(DType::Float32, f64::from(scale))?;
                self.spelled(value, offset, &scale)
            }
            _ => self.dequantized(value, ty),
        }
    }

    /// The integers of a quantized type that stand for numbers.
    pub(super) fn quantized(&mut self, value: &Value, ty: &Type) -> Outcome<Value> {
        if ty.kind.is_fused() {
            return no_words("its rows end with scales of their own");
        }
        let Some((scale, offset)) = ty.quantization else {
            return self.cast(value, ty.kind.dtype());
        };
        let value = self.cast(value, DType::Float32)?;
        let scale = self.number(DType::Float32, f64::from(scale))?;
        if ty.kind != ElemKind::Int32Q
            && let Some(Some(zero)) = zero_point(ty.kind, offset)
        {
            let zero = self.number(ty.kind.dtype(), f64::from(zero))?;
            return self.call("QuantizeLinear", &[&value, &scale, &zero], []);
        }
        // Double precision has every integer of 32 bits.
        let steps = self.div(&value, &scale)?;
        let steps = self.cast(&steps, DType::Float64)?;
        let steps = self.plus(&steps, f64::from(offset))?;
        let steps = self.call("Round", &[&steps], [])?;
        let (least, most) = limits(ty.kind);
        let least = self.number(DType::Float64, least)?;
        let most = self.number(DType::Float64, most)?;
        let steps = self.call("Clip", &[&steps, &least, &most], [])?;
        self.cast(&steps, ty.kind.dtype())
    }

    /// Tells a result that was computed in numbers with fractions, or has its type.
    pub(super) fn put(&mut self, index: usize, value: &Value) -> Outcome {
        let ty = self.out(index)?;
        let value = self.quantized(value, &ty)?;
        self.put_raw(index, &value)
    }

    /// Tells a result as it is: raw integers, if it is quantized.
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
                Finding::from(format!("{what}, and would be {found}{dims:?}")).about_output(index)
            );
        }
        let lost = || Finding::internal(format!("the node has no result {index}"));
        let wanted = self.wanted.get(index).ok_or_else(lost)?;
        let (name, op_name) = (wanted.name.clone(), if index == 0 { &*self.op.name } else { "" });
        let value = match name.as_str() {
            "" => value.clone(),
            name => self.graph.name(value, name, op_name)?,
        };
        self.wanted.get_mut(index).ok_or_else(lost)?.given = Some(Given { value, ty });
        Ok(())
    }

    /// Tells a result whose extents do not follow.
    fn put_sized(&mut self, index: usize, value: &Value, ty: &Type) -> Outcome {
        let sized = self.reshape(value, &ty.shape)?;
        if sized.known_dims().as_ref() != Some(&ty.shape) {
            return Err(Finding::from(format!("the extents of result {index} are not known"))
                .about_output(index));
        }
        self.put_raw(index, &sized)
    }

    /// An input as integers of the type that a result has: as they are, if they mean the same.
    pub(super) fn raw_like(&mut self, index: usize, result: &Type) -> Outcome<Value> {
        let Given { value, ty } = self.given(index)?;
        if ty.kind == result.kind && ty.quantization == result.quantization {
            return Ok(value.clone());
        }
        let real = self.dequantized(value, ty)?;
        self.quantized(&real, result)
    }

    /// Elements moved, not computed: an operator that takes input 0 as it is.
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

    /// A truth value as 0 or 1 of a type.
    pub(super) fn not(&mut self, value: &Value) -> Outcome<Value> {
        self.call("Not", &[value], [])
    }

    /// The number of the axis as an attribute.
    pub(super) fn axis_attribute(
        &self,
        member: &str,
        index: usize,
    ) -> Outcome<lodstone_model::Attribute> {
        Ok(int("axis", self.axis(member, index)?))
    }
}

/// The zero point of a type, if ONNX's operators have one like it: `None` inside if they have none and
/// need none.
pub(super) fn zero_point(kind: ElemKind, offset: i32) -> Option<Option<i32>> {
    match kind {
        ElemKind::Int8Q => i8::try_from(offset).ok().map(|zero| Some(zero.into())),
        ElemKind::UInt8Q => u8::try_from(offset).ok().map(|zero| Some(zero.into())),
        ElemKind::Int16Q => i16::try_from(offset).ok().map(|zero| Some(zero.into())),
        ElemKind::Int32Q if offset == 0 => Some(None),
        _ => None,
    }
}

/// The least and the most integer of a quantized type.
fn limits(kind: ElemKind) -> (f64, f64) {
    match kind {
        ElemKind::Int8Q => (i8::MIN.into(), i8::MAX.into()),
        ElemKind::Int16Q => (i16::MIN.into(), i16::MAX.into()),
        ElemKind::Int32Q => (i32::MIN.into(), i32::MAX.into()),
        // The nearest numbers of double precision that fit.
        ElemKind::Int64Q => (-9_223_372_036_854_775_808.0, 9_223_372_036_854_774_784.0),
        _ => (0.0, u8::MAX.into()),
    }
}
