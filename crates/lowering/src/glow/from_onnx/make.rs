//! Nodes that many operators are built from.

use lodstone_schema::Finding;
use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::numbers::length;
use lodstone_schema::places::at_mut;

use super::graph::{MemberValue, Value, checked, count, plain};
use super::op::{Cx, Fault};

impl Cx<'_> {
    /// Adds a node; returns its first result. `suffix` is appended to the name of the operator.
    pub(crate) fn node(
        &mut self,
        kind: &'static str,
        suffix: &str,
        inputs: &[Value],
        members: Vec<(&'static str, MemberValue)>,
        result: Type,
    ) -> Result<Value, Fault> {
        let results = self.nodes(kind, suffix, inputs, members, vec![result])?;
        results.first().copied().ok_or_else(|| Finding::internal("a node has no results").into())
    }

    /// Adds a node with several results.
    pub(crate) fn nodes(
        &mut self,
        kind: &'static str,
        suffix: &str,
        inputs: &[Value],
        members: Vec<(&'static str, MemberValue)>,
        results: Vec<Type>,
    ) -> Result<Vec<Value>, Fault> {
        let name = match suffix {
            "" => self.base.clone(),
            suffix => format!("{}_{suffix}", self.base),
        };
        Ok(self.graph.node(kind, &name, inputs.to_vec(), members, results)?)
    }

    /// Reshapes a value; returns the value itself if it has the shape.
    pub(crate) fn reshape(
        &mut self,
        value: Value,
        shape: &[i64],
        suffix: &str,
    ) -> Result<Value, Fault> {
        if self.graph.shape(value) == shape {
            return Ok(value);
        }
        self.reshape_always(value, shape, suffix)
    }

    /// Reshapes a value, by a node in any case.
    pub(crate) fn reshape_always(
        &mut self,
        value: Value,
        shape: &[i64],
        suffix: &str,
    ) -> Result<Value, Fault> {
        let (old, new) = (count(self.graph.shape(value))?, checked_count(shape)?);
        if old != new {
            return Err(format!("{old} elements cannot have the shape {shape:?}").into());
        }
        let of = self.shaped(value, shape.to_vec());
        let members = vec![
            ("Dims", MemberValue::Ints(shape.to_vec())),
            ("Layout", MemberValue::Text("*".to_owned())),
        ];
        self.node("Reshape", suffix, &[value], members, of)
    }

    /// Transposes a value: result dim i is dim `order[i]`. `layout` is the layout of the result.
    pub(crate) fn transpose(
        &mut self,
        value: Value,
        order: &[usize],
        layout: &str,
        suffix: &str,
    ) -> Result<Value, Fault> {
        let shape = self.graph.shape(value);
        let pick = |axis: &usize| shape.get(*axis).copied();
        let picked: Option<Vec<_>> = order.iter().map(pick).collect();
        let fits = order.len() == shape.len();
        let Some(picked) = picked.filter(|_| fits) else {
            return Err(format!("expected rank {}, found {}", order.len(), shape.len()).into());
        };
        let of = self.shaped(value, picked);
        let order: Vec<i64> = order.iter().map(|axis| length(*axis)).collect();
        if let Some(before) = self.graph.turned_back(value, &order) {
            return Ok(before);
        }
        let members = vec![
            ("Shuffle", MemberValue::Ints(order)),
            ("Layout", MemberValue::Text(layout.to_owned())),
        ];
        self.node("Transpose", suffix, &[value], members, of)
    }

    /// Broadcasts a value to a shape by NumPy's rules; returns the value itself if it has the shape.
    pub(crate) fn broadcast(
        &mut self,
        value: Value,
        shape: &[i64],
        suffix: &str,
    ) -> Result<Value, Fault> {
        if self.graph.shape(value) == shape {
            return Ok(value);
        }
        self.broadcast_always(value, shape, suffix)
    }

    /// Broadcasts a value to a shape by NumPy's rules, by a node in any case.
    pub(crate) fn broadcast_always(
        &mut self,
        value: Value,
        shape: &[i64],
        suffix: &str,
    ) -> Result<Value, Fault> {
        let rank = self.rank(value);
        let axis = shape.len().checked_sub(rank);
        let axis =
            axis.ok_or_else(|| format!("a tensor of rank {rank} does not broadcast to {shape:?}"))?;
        self.broadcast_at(value, shape, axis, suffix)
    }

    /// Broadcasts a value whose dims begin at an axis of the shape.
    pub(crate) fn broadcast_at(
        &mut self,
        value: Value,
        shape: &[i64],
        axis: usize,
        suffix: &str,
    ) -> Result<Value, Fault> {
        let of = self.shaped(value, shape.to_vec());
        let members = vec![
            ("Axis", MemberValue::Int(length(axis))),
            ("TargetDim", MemberValue::Ints(shape.to_vec())),
        ];
        self.node("Broadcast", suffix, &[value], members, of)
    }

    /// Adds a tensor filled with one value.
    pub(crate) fn splat(&mut self, number: f32, of: Type, suffix: &str) -> Result<Value, Fault> {
        self.node("Splat", suffix, &[], vec![("Value", MemberValue::Float(number))], of)
    }

    /// Slices a tensor.
    pub(crate) fn slice(
        &mut self,
        value: Value,
        start: Vec<i64>,
        shape: Vec<i64>,
        suffix: &str,
    ) -> Result<Value, Fault> {
        let whole = self.graph.shape(value);
        let fits = whole.iter().zip(start.iter().zip(&shape)).all(|(whole, (start, dim))| {
            *start >= 0 && *dim >= 0 && start.checked_add(*dim).is_some_and(|end| end <= *whole)
        });
        if !fits || start.len() != whole.len() || shape.len() != whole.len() {
            return Err(
                format!("a slice of {shape:?} at {start:?} is out of range of {whole:?}").into()
            );
        }
        let of = self.shaped(value, shape);
        self.node("Slice", suffix, &[value], vec![("Start", MemberValue::Ints(start))], of)
    }

    /// Concatenates tensors along an axis.
    pub(crate) fn concat(
        &mut self,
        values: Vec<Value>,
        axis: usize,
        suffix: &str,
    ) -> Result<Value, Fault> {
        let first = *values.first().ok_or("expected tensors, found none")?;
        let mut shape = self.shape(first);
        let mut total = 0_i64;
        for value in &values {
            let other = self.graph.shape(*value);
            let fits = other.len() == shape.len()
                && other.iter().zip(&shape).enumerate().all(|(i, (a, b))| i == axis || a == b);
            let dim = other.get(axis).filter(|_| fits);
            let dim = dim.ok_or_else(|| format!("{other:?} does not match {shape:?}"))?;
            total = total.checked_add(*dim).ok_or("the shape is too large")?;
        }
        *at_mut(&mut shape, axis)? = total;
        let of = self.shaped(first, shape);
        let members =
            vec![("Inputs", MemberValue::Values(values)), ("Dim", MemberValue::Int(length(axis)))];
        self.node("Concat", suffix, &[], members, of)
    }

    /// Converts elements to another type.
    pub(crate) fn convert(
        &mut self,
        value: Value,
        kind: ElemKind,
        suffix: &str,
    ) -> Result<Value, Fault> {
        let of = Type { quantization: None, kind, ..self.shaped(value, self.shape(value)) };
        self.node("ConvertTo", suffix, &[value], Vec::new(), of)
    }

    /// Adds a binary element-wise operation.
    pub(crate) fn pair(
        &mut self,
        kind: &'static str,
        left: Value,
        right: Value,
        suffix: &str,
    ) -> Result<Value, Fault> {
        self.has_arithmetic(kind, left)?;
        let of = self.shaped(left, self.shape(left));
        self.node(kind, suffix, &[left, right], Vec::new(), of)
    }

    /// Rejects integers of 8 or 16 bits, which in Glow are quantized values that round and do not wrap.
    fn has_arithmetic(&self, kind: &str, value: Value) -> Result<(), Finding> {
        let kept = ["Max", "Min"].contains(&kind);
        match self.type_of(value).kind.is_quantized() && !kept {
            true => Err("Glow does not compute with integers of 8 or 16 bits".into()),
            false => Ok(()),
        }
    }

    /// Adds a unary element-wise operation.
    pub(crate) fn each(
        &mut self,
        kind: &'static str,
        value: Value,
        suffix: &str,
    ) -> Result<Value, Fault> {
        self.has_arithmetic(kind, value)?;
        let of = self.shaped(value, self.shape(value));
        self.node(kind, suffix, &[value], Vec::new(), of)
    }
}

fn checked_count(shape: &[i64]) -> Result<i64, Finding> {
    checked(plain(ElemKind::Float, shape.to_vec()))?;
    count(shape)
}
