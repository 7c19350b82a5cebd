//! Variables and operators of programs, as Python reads and edits them.

use lodstone::Dim;
use lodstone::model::{Attribute, Block, Holder, Op, Operand, Program, TensorType, ValueType, Var};
use lodstone::paddle::program as building;
use lodstone::paddle::schema::{
    is_saved, need_check_feed, set_need_check_feed, set_stop_gradient, stop_gradient,
};
use pyo3::exceptions::{PyKeyError, PyLookupError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::attributes::{from_python, to_python};
use crate::arguments::Arguments;

/// A kind of variable: its name, and the type that it has with an element type and a shape.
type VariableKind = (&'static str, fn(TensorType) -> ValueType);

const KINDS: [VariableKind; 10] = [
    ("tensor", |tensor| tensor.into()),
    ("selected_rows", |tensor| Holder::SelectedRows(tensor).into()),
    ("tensor_array", |tensor| Holder::TensorArray(tensor).into()),
    ("feed_list", |_| Holder::FeedList.into()),
    ("feed_minibatch", |_| Holder::FeedMinibatch.into()),
    ("fetch_list", |_| Holder::FetchList.into()),
    ("step_scopes", |_| Holder::StepScopes.into()),
    ("lod_rank_table", |_| Holder::LodRankTable.into()),
    ("place_list", |_| Holder::PlaceList.into()),
    ("raw", |_| Holder::Raw.into()),
];

/// Returns the index of the block that declares a variable, `block` or one around it.
pub(super) fn declaring(program: &Program, block: usize, name: &str) -> Option<usize> {
    let parent = |block: &usize| usize::try_from(program.blocks.get(*block)?.parent).ok();
    // A damaged program may have a cycle of blocks.
    let around = std::iter::successors(Some(block), parent).take(program.blocks.len());
    let declares = |number: &usize| variable(program, *number, name).is_some();
    { around }.find(declares)
}

/// Returns a variable of a block.
pub(super) fn variable<'p>(program: &'p Program, block: usize, name: &str) -> Option<&'p Var> {
    program.blocks.get(block)?.vars.iter().rev().find(|var| var.name == name)
}

pub(super) fn no_variable(block: usize, name: &str) -> PyErr {
    PyKeyError::new_err(format!("block {block} has no variable `{name}`"))
}

pub(super) fn no_operator() -> PyErr {
    PyLookupError::new_err("the operator was removed from its block, or replaced")
}

/// Describes a variable for Python.
pub(super) fn described<'py>(py: Python<'py>, var: &Var) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    facts.set_item("name", &var.name)?;
    facts.set_item("kind", kind(&var.value))?;
    let tensor = var.value.tensor_type();
    facts.set_item("dtype", tensor.map(|tensor| tensor.dtype.to_string()))?;
    let dims = tensor.and_then(|tensor| tensor.shape.as_ref());
    let dim = |dim: &Dim| match dim {
        Dim::Known(size) => i64::try_from(*size).unwrap_or(i64::MAX),
        _ => -1,
    };
    facts.set_item("shape", dims.map(|dims| dims.iter().map(dim).collect::<Vec<_>>()))?;
    facts.set_item("lod_level", tensor.map_or(0, |tensor| tensor.lod_level))?;
    facts.set_item("persistable", var.persistable)?;
    facts.set_item("is_parameter", var.is_parameter)?;
    facts.set_item("is_saved", is_saved(var))?;
    facts.set_item("stop_gradient", stop_gradient(var))?;
    facts.set_item("need_check_feed", need_check_feed(var))?;
    Ok(facts)
}

fn kind(value: &ValueType) -> &'static str {
    match value {
        ValueType::Tensor(_) | ValueType::Unspecified => "tensor",
        ValueType::Holder(Holder::SelectedRows(_)) => "selected_rows",
        ValueType::Holder(Holder::TensorArray(_)) => "tensor_array",
        other => {
            let is_kind = |(_, typed): &&VariableKind| typed(TensorType::default()) == *other;
            KINDS.iter().find(is_kind).map_or("other", |(name, _)| name)
        }
    }
}

/// Makes a variable from its description.
pub(super) fn declaration(facts: &Arguments<'_>) -> PyResult<Var> {
    let name: String = facts.get("name")?;
    if name.is_empty() {
        return Err(PyValueError::new_err("argument 'name': expected a name, found ''"));
    }
    let dtype: String = facts.get("dtype")?;
    let dtype = super::build::dtype(&dtype)?;
    let shape: Option<Vec<i64>> = facts.get("shape")?;
    let shape = shape.map(|dims| dims.into_iter().map(dim).collect::<PyResult<Vec<_>>>());
    let lod_level = facts.get("lod_level")?;
    let tensor = TensorType { lod_level, ..TensorType::new(dtype, shape.transpose()?) };
    let kind: String = facts.get("kind")?;
    let known = KINDS.iter().find(|(name, _)| *name == kind);
    let (_, typed) = known.ok_or_else(|| {
        let names = KINDS.map(|(name, _)| name).join(", ");
        let what = format!("argument 'type': expected one of {names}, found `{kind}`");
        PyValueError::new_err(what)
    })?;
    let mut var = Var {
        name,
        value: typed(tensor),
        persistable: facts.get("persistable")?,
        is_parameter: facts.get("is_parameter")?,
        ..Var::default()
    };
    set_stop_gradient(&mut var, facts.get("stop_gradient")?);
    set_need_check_feed(&mut var, facts.get("need_check_feed")?);
    Ok(var)
}

/// Returns a dim; -1 is unknown.
pub(super) fn dim(size: i64) -> PyResult<Dim> {
    match u64::try_from(size) {
        Ok(size) => Ok(Dim::Known(size)),
        Err(_) if size == -1 => Ok(Dim::Unknown),
        Err(_) => Err(PyValueError::new_err(format!(
            "argument 'shape': expected a size, or -1, found {size}"
        ))),
    }
}

/// Declares a variable, or replaces its declaration.
pub(super) fn declare(block: &mut Block, var: Var) {
    match block.vars.iter_mut().find(|known| known.name == var.name) {
        Some(known) => *known = var,
        None => block.vars.push(var),
    }
}

/// Sets properties of a variable that are not parts of its type.
pub(super) fn mark(
    program: &mut Program,
    block: usize,
    name: &str,
    persistable: Option<bool>,
    stops: Option<bool>,
) -> Option<()> {
    let vars = &mut program.blocks.get_mut(block)?.vars;
    let var = vars.iter_mut().find(|var| var.name == name)?;
    var.persistable = persistable.unwrap_or(var.persistable);
    if let Some(stops) = stops {
        set_stop_gradient(var, stops);
    }
    Some(())
}

/// Returns the index of an operator: the expected one, or that of the only equal operator.
pub(super) fn place_of(block: &Block, index: usize, operator: &Operator) -> Option<usize> {
    if block.ops.get(index) == Some(&operator.0) {
        return Some(index);
    }
    let mut places = (0..).zip(&block.ops).filter(|(_, op)| **op == operator.0);
    match (places.next(), places.next()) {
        (Some((place, _)), None) => Some(place),
        _ => None,
    }
}

/// An operator: a copy of the one in a program.
#[pyclass(frozen, module = "lodstone._lodstone")]
#[derive(Clone, Debug)]
pub(crate) struct Operator(Op);

impl Operator {
    pub(super) fn of(op: Op) -> Self {
        Self(op)
    }

    pub(super) fn op(&self) -> &Op {
        &self.0
    }
}

#[pymethods]
impl Operator {
    #[getter]
    fn r#type(&self) -> &str {
        &self.0.kind
    }

    /// The variables of the input slots.
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        slots(py, &self.0.inputs)
    }

    /// The variables of the output slots.
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        slots(py, &self.0.outputs)
    }

    fn attribute_names(&self) -> Vec<&str> {
        self.0.attributes.iter().map(|attribute| attribute.name.as_str()).collect()
    }

    fn attribute<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match self.0.attribute(name) {
            Some(value) => to_python(py, value),
            None => {
                let what = format!("operator `{}` has no attribute `{name}`", self.0.kind);
                Err(PyKeyError::new_err(what))
            }
        }
    }

    /// The operator with another value of an attribute.
    fn with_attribute(&self, name: String, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let value = from_python(&self.0.kind, &name, value)?;
        let mut op = self.0.clone();
        match op.attributes.iter_mut().find(|attribute| attribute.name == name) {
            Some(attribute) => attribute.value = value,
            None => op.attributes.push(Attribute { name, value }),
        }
        Ok(Self(op))
    }

    /// The operator without an attribute.
    fn without_attribute(&self, name: &str) -> Self {
        let mut op = self.0.clone();
        op.attributes.retain(|attribute| attribute.name != name);
        Self(op)
    }

    /// The operator with other variables in an input slot, or an output slot.
    fn with_slot(&self, is_output: bool, slot: String, args: Vec<String>) -> Self {
        let mut op = self.0.clone();
        let operands = if is_output { &mut op.outputs } else { &mut op.inputs };
        match operands.iter_mut().find(|operand| operand.slot == slot) {
            Some(operand) => operand.args = args,
            None => operands.push(Operand { slot, args }),
        }
        Self(op)
    }

    /// The operator with a variable renamed.
    fn renamed(&self, old: &str, new: &str) -> Self {
        let mut op = self.0.clone();
        let operands = op.inputs.iter_mut().chain(&mut op.outputs);
        for name in operands.flat_map(|operand| &mut operand.args).filter(|name| *name == old) {
            new.clone_into(name);
        }
        Self(op)
    }
}

fn slots<'py>(py: Python<'py>, operands: &[Operand]) -> PyResult<Bound<'py, PyDict>> {
    let named = PyDict::new(py);
    for operand in operands {
        named.set_item(&operand.slot, &operand.args)?;
    }
    Ok(named)
}

/// The parts of an operator that Python describes: its type, slots and attributes.
#[derive(FromPyObject)]
pub(crate) struct Parts<'py> {
    #[pyo3(item)]
    r#type: String,
    #[pyo3(item)]
    inputs: Vec<(String, Vec<String>)>,
    #[pyo3(item)]
    outputs: Vec<(String, Vec<String>)>,
    #[pyo3(item)]
    attrs: Bound<'py, PyDict>,
}

impl Parts<'_> {
    /// Returns the operator, whose attributes have the types of the registry.
    pub(super) fn builder(&self) -> PyResult<building::Operator> {
        let named = |names: &[String]| -> Vec<building::Variable> {
            names.iter().map(|name| building::Variable::named(name)).collect()
        };
        let mut operator = building::Operator::new(&self.r#type);
        for (slot, names) in &self.inputs {
            operator = operator.input(slot, &named(names));
        }
        for (slot, names) in &self.outputs {
            operator = operator.output(slot, &named(names));
        }
        for (name, value) in &self.attrs {
            let name: String = name.extract().map_err(|_| {
                PyTypeError::new_err(format!(
                    "operator `{}`: names of attributes are strings",
                    self.r#type
                ))
            })?;
            let value = from_python(&self.r#type, &name, &value)?;
            operator = operator.attribute(&name, value);
        }
        Ok(operator)
    }
}
