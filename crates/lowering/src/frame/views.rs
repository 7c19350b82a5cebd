//! Tensors that operators write to, and views of them, for dialects that have these.
//!
//! A value of the program refers to a tensor with elements of its own, its base, through views. When an operator writes to a
//! value, the base gets a new version: what was written is scattered back through the views. A value is computed again from
//! its base when it is read after the base has changed.

use lodstone_model::DType;
use lodstone_schema::Finding;

use crate::onnx::{Graph, Value};

type Outcome<T = Value> = Result<T, Finding>;

/// A function of a tensor that shares its elements.
pub(crate) trait View: Clone {
    /// Returns the view of a tensor.
    fn apply(&self, graph: &mut Graph, input: &Value) -> Outcome;

    /// Returns the tensor `parent`, in which the elements of its view are those of `new`. By default, the view of all places
    /// says which these are.
    fn scatter(&self, graph: &mut Graph, parent: &Value, new: &Value) -> Outcome {
        graph.scattered_view(self, parent, new)
    }
}

impl Graph {
    /// Returns a tensor in which the elements of a view, at the places that the view of all places has, are those of `new`.
    pub(crate) fn scattered_view(
        &mut self,
        view: &impl View,
        parent: &Value,
        new: &Value,
    ) -> Outcome {
        let places = self.element_places(parent)?;
        let places = view.apply(self, &places)?;
        let places = self.cast(&places, DType::Int64)?;
        self.written_at(parent, &places, new)
    }
}

/// A value: its base, and the views that lead to it.
#[derive(Clone, Debug)]
pub(crate) struct Reference<V> {
    pub(crate) base: usize,
    pub(crate) views: Vec<V>,
    /// The version of the base at which `value` was computed.
    pub(crate) version: u64,
    pub(crate) value: Value,
    /// Whether the value is a view or a copy depends on strides that are unknown here.
    pub(crate) is_ambiguous: bool,
}

/// A tensor with elements of its own.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) value: Value,
    pub(crate) version: u64,
    /// The name of the parameter or input that it is.
    pub(crate) state: Option<String>,
}

/// All tensors with elements of their own.
#[derive(Debug, Default)]
pub(crate) struct Tensors {
    pub(crate) bases: Vec<Base>,
}

impl Tensors {
    /// Adds a tensor with elements of its own.
    pub(crate) fn add<V>(&mut self, value: Value, state: Option<String>) -> Reference<V> {
        let base = self.bases.len();
        self.bases.push(Base { value: value.clone(), version: 0, state });
        Reference { base, views: Vec::new(), version: 0, value, is_ambiguous: false }
    }

    fn base<V>(&self, reference: &Reference<V>) -> Outcome<&Base> {
        self.bases.get(reference.base).ok_or_else(|| Finding::internal("a tensor was lost"))
    }

    /// Returns the value of a reference now.
    pub(crate) fn read<V: View>(&self, graph: &mut Graph, reference: &mut Reference<V>) -> Outcome {
        let base = self.base(reference)?;
        if reference.version != base.version {
            let mut value = base.value.clone();
            for view in &reference.views {
                value = view.apply(graph, &value)?;
            }
            (reference.value, reference.version) = (value, base.version);
        }
        Ok(reference.value.clone())
    }

    /// Returns the whole tensor that a reference without views refers to.
    pub(crate) fn whole<V>(&self, reference: &mut Reference<V>) -> Outcome {
        let base = self.base(reference)?;
        (reference.value, reference.version) = (base.value.clone(), base.version);
        Ok(base.value.clone())
    }

    /// Makes a value of any type and dims the next one of a parameter.
    pub(crate) fn assign<V>(&mut self, reference: &mut Reference<V>, value: Value) -> Outcome<()> {
        let base = self.bases.get_mut(reference.base);
        let base = base.ok_or_else(|| Finding::internal("a tensor was lost"))?;
        base.value = value.clone();
        base.version += 1;
        (reference.value, reference.version) = (value, base.version);
        Ok(())
    }

    /// Writes a value of the same type and dims to a reference.
    pub(crate) fn write<V: View>(
        &mut self,
        graph: &mut Graph,
        reference: &mut Reference<V>,
        value: Value,
    ) -> Outcome<()> {
        if reference.is_ambiguous {
            let what =
                "whether it writes to a view or a copy depends on strides, which is not supported";
            return Err(what.into());
        }
        let mut parents = vec![self.base(reference)?.value.clone()];
        for view in reference.views.iter().take(reference.views.len().saturating_sub(1)) {
            let parent = parents.last().cloned().ok_or_else(|| Finding::internal("no parent"))?;
            parents.push(view.apply(graph, &parent)?);
        }
        let mut new = value.clone();
        for view in reference.views.iter().rev() {
            let parent = parents.pop().ok_or_else(|| Finding::internal("no parent"))?;
            new = view.scatter(graph, &parent, &new)?;
        }
        self.assign(reference, new)?;
        reference.value = value;
        Ok(())
    }
}
