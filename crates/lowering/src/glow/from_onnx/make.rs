//! Nodes that many operators are made of.

use lodstone_schema::Finding;
use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::places::at_mut;

use super::graph::{Said, Value, checked, count, plain};
use super::op::{Cx, Fault, long};

impl Cx<'_> {
    /// A node; gives its first result. `suffix` is what is after the name of the operator.
    pub(super) fn node(
        &mut self,
        kind: &'static str,
        suffix: &str,
        inputs: &[Value],
        members: Vec<(&'static str, Said)>,
        result: Type,
    ) -> Result<Value, Fault> {
        let results = self.nodes(kind, suffix, inputs, members, vec![result])?;
        results.first().copied().ok_or_else(|| Finding::internal("a node gives nothing").into())
    }

    /// A node of several results.
    pub(super) fn nodes(
        &mut self,
        kind: &'static str,
        suffix: &str,
        inputs: &[Value],
        members: Vec<(&'static str, Said)>,
        results: Vec<Type>,
    ) -> Result<Vec<Value>, Fault> {
        let name = match suffix {
            "" => self.base.clone(),
            suffix => format!("{}_{suffix}", self.base),
        };
        Ok(self.graph.node(kind, &name, inputs.to_vec(), members, results)?)
    }

    /// The same elements in another shape; the value itself if it has the shape.
    pub(super) fn reshape(
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

    /// The same elements in another shape, by a node in any case.
    pub(super) fn reshape_always(
        &mut self,
        value: Value,
        shape: &[i64],
        suffix: &str,
    ) -> Result<Value, Fault> {
        let (old, new) = (count(self.graph.shape(value))?, checked_count(shape)?);
        if old != new {
            return Err(format!("{old} elements have no shape {shape:?}").into());
        }
        let of = self.shaped(value, shape.to_vec());
        let members =
            vec![("Dims", Said::Ints(shape.to_vec())), ("Layout", Said::Text("*".to_owned()))];
        self.node("Reshape", suffix, &[value], members, of)
    }

    /// The extents in another order: result extent i is extent `order[i]`. `layout` is what the result
    /// is then.
    pub(super) fn transpose(
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
            return Err(format!("expected {} extents, found {}", order.len(), shape.len()).into());
        };
        let of = self.shaped(value, picked);
        let order: Vec<i64> = order.iter().map(|axis| long(*axis)).collect();
        if let Some(before) = self.graph.turned_back(value, &order) {
            return Ok(before);
        }
        let members =
            vec![("Shuffle", Said::Ints(order)), ("Layout", Said::Text(layout.to_owned()))];
        self.node("Transpose", suffix, &[value], members, of)
    }

    /// The value repeated to a shape by the rule of NumPy; the value itself if it has the shape.
    pub(super) fn broadcast(
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

    /// The same, by a node in any case.
    pub(super) fn broadcast_always(
        &mut self,
        value: Value,
        shape: &[i64],
        suffix: &str,
    ) -> Result<Value, Fault> {
        let rank = self.rank(value);
        let axis = shape.len().checked_sub(rank);
        let axis = axis.ok_or_else(|| format!("{rank} extents cannot become {shape:?}"))?;
        self.broadcast_at(value, shape, axis, suffix)
    }

    /// The same where extents begin at an axis of the shape.
    pub(super) fn broadcast_at(
        &mut self,
        value: Value,
        shape: &[i64],
        axis: usize,
        suffix: &str,
    ) -> Result<Value, Fault> {
        let of = self.shaped(value, shape.to_vec());
        let members =
            vec![("Axis", Said::Int(long(axis))), ("TargetDim", Said::Ints(shape.to_vec()))];
        self.node("Broadcast", suffix, &[value], members, of)
    }

    /// A tensor of one number.
    pub(super) fn splat(&mut self, number: f32, of: Type, suffix: &str) -> Result<Value, Fault> {
        self.node("Splat", suffix, &[], vec![("Value", Said::Float(number))], of)
    }

    /// A part of a tensor.
    pub(super) fn slice(
        &mut self,
        value: Value,
        start: Vec<i64>,
        shape: Vec<i64>,
        suffix: &str,
    ) -> Result<Value, Fault> {
        let whole = self.graph.shape(value);
        let fits = whole.iter().zip(start.iter().zip(&shape)).all(|(whole, (start, extent))| {
            *start >= 0
                && *extent >= 0
                && start.checked_add(*extent).is_some_and(|end| end <= *whole)
        });
        if !fits || start.len() != whole.len() || shape.len() != whole.len() {
            return Err(format!("{shape:?} from {start:?} on is not in {whole:?}").into());
        }
        let of = self.shaped(value, shape);
        self.node("Slice", suffix, &[value], vec![("Start", Said::Ints(start))], of)
    }

    /// Tensors end to end along an axis.
    pub(super) fn concat(
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
            let extent = other.get(axis).filter(|_| fits);
            let extent = extent.ok_or_else(|| format!("{other:?} does not fit {shape:?}"))?;
            total = total.checked_add(*extent).ok_or("the shape is too large")?;
        }
        *at_mut(&mut shape, axis)? = total;
        let of = self.shaped(first, shape);
        let members = vec![("Inputs", Said::Values(values)), ("Dim", Said::Int(long(axis)))];
        self.node("Concat", suffix, &[], members, of)
    }

    /// The numbers as those of another type.
    pub(super) fn convert(
        &mut self,
        value: Value,
        kind: ElemKind,
        suffix: &str,
    ) -> Result<Value, Fault> {
        let of = Type { quantization: None, kind, ..self.shaped(value, self.shape(value)) };
        self.node("ConvertTo", suffix, &[value], Vec::new(), of)
    }

    /// An operation on each element of two tensors.
    pub(super) fn pair(
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

    /// Integers of 8 or 16 bits are quantized numbers in Glow, which are rounded and do not wrap.
    fn has_arithmetic(&self, kind: &str, value: Value) -> Result<(), Finding> {
        let kept = ["Max", "Min"].contains(&kind);
        match self.type_of(value).kind.is_quantized() && !kept {
            true => Err("Glow does not compute with integers of 8 or 16 bits".into()),
            false => Ok(()),
        }
    }

    /// An operation on each element.
    pub(super) fn each(
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
