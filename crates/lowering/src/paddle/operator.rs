//! A PaddlePaddle operator as its rule sees it: slots, attributes, and the outputs to set.

use std::ops::{Deref, DerefMut};

use lodstone_model::{AttributeValue, DType, Dim, Op, Tensor};
use lodstone_schema::numbers::length;
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::{EMPTY, Release, attribute, codes, operator, truncates};
use lodstone_schema::{Finding, Operand};

use super::{LodInput, LodLevel, Output, VariableFacts};
use crate::onnx::{Graph, Value};

/// The result of a rule.
pub(super) type Outcome<T = ()> = Result<T, Finding>;

/// The rule that lowers a kind of operator.
pub(super) type Rule = fn(&mut Operator<'_>) -> Outcome;

/// An operator, and the ONNX operators that are emitted for it.
pub(super) struct Operator<'a> {
    op: &'a Op,
    /// The release of PaddlePaddle that the program follows.
    release: Release,
    graph: &'a mut Graph,
    given: &'a dyn VariableFacts,
    pub(super) outputs: Vec<Output>,
    /// The requested LoD levels.
    pub(super) lods: Vec<LodInput>,
    /// A slot whose value is replaced while the rule of another operator is applied.
    stand_in: Option<(&'static str, Value)>,
    /// Whether outputs are captured, not set.
    captures: bool,
    /// The outputs that were captured.
    captured: Vec<Value>,
}

fn is_there(variable: &String) -> bool {
    !variable.is_empty() && variable != EMPTY
}

impl Deref for Operator<'_> {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        self.graph
    }
}

impl DerefMut for Operator<'_> {
    fn deref_mut(&mut self) -> &mut Graph {
        self.graph
    }
}

impl<'a> Operator<'a> {
    pub(super) fn new(
        op: &'a Op,
        release: Release,
        graph: &'a mut Graph,
        given: &'a dyn VariableFacts,
    ) -> Self {
        Self {
            op,
            release,
            graph,
            given,
            outputs: Vec::new(),
            lods: Vec::new(),
            stand_in: None,
            captures: false,
            captured: Vec::new(),
        }
    }

    /// Returns the kind of the operator.
    pub(super) fn kind(&self) -> &'a str {
        &self.op.kind
    }

    /// Whether the program follows a release older than one since which the operator computes something else.
    pub(super) fn is_older_than(&self, change: Release) -> bool {
        debug_assert!(
            operator(self.kind()).is_some_and(|row| row.changes.contains(&change)),
            "the row of `{}` does not list the change in {change:?}",
            self.kind()
        );
        self.release < change
    }

    /// Whether the program follows a release that converts numbers to an element type by truncation.
    pub(super) fn truncates(&self, dtype: DType) -> bool {
        truncates(dtype, self.release)
    }

    /// Whether the operator is exported for other runtimes. What PaddlePaddle's kernels make of NaN and of extreme values
    /// is then left to the runtime, so that each operator becomes the equivalent that runtimes optimize.
    pub(super) fn is_exported(&self) -> bool {
        self.graph.is_symbolic()
    }

    /// Applies the rule of another operator to a value in place of an input; returns its outputs. Attributes that both
    /// operators have apply.
    pub(super) fn follow(
        &mut self,
        rule: Rule,
        slot: &'static str,
        value: &Value,
    ) -> Outcome<Vec<Value>> {
        self.stand_in = Some((slot, value.clone()));
        let outcome = rule(self);
        self.stand_in = None;
        outcome.map(|()| std::mem::take(&mut self.captured))
    }

    /// Returns the outputs that a function sets, instead of setting them.
    pub(super) fn captured(
        &mut self,
        function: impl FnOnce(&mut Self) -> Outcome,
    ) -> Outcome<Vec<Value>> {
        self.captures = true;
        let outcome = function(self);
        self.captures = false;
        outcome.map(|()| std::mem::take(&mut self.captured))
    }

    /// Returns all variables of an input slot.
    pub(super) fn inputs(&self, slot: &str) -> Outcome<Vec<Value>> {
        if let Some((_, value)) = self.stand_in.as_ref().filter(|(stood, _)| *stood == slot) {
            return Ok(vec![value.clone()]);
        }
        let value = |name: &String| match self.given.info(name) {
            Some(info) => Ok(Value::new(&self.given.value_of(name), info)),
            None => Err(valueless(name, slot)),
        };
        self.op.input(slot).iter().filter(|name| is_there(name)).map(value).collect()
    }

    /// Returns the variable of an optional input slot.
    pub(super) fn optional(&self, slot: &str) -> Outcome<Option<Value>> {
        let mut values = self.inputs(slot)?;
        match values.len() {
            0 | 1 => Ok(values.pop()),
            found => {
                let wrong = format!("expected one `{slot}`, found {found}");
                Err(Finding::from(wrong).about_slot(slot))
            }
        }
    }

    /// Returns the integers in the variable of an input slot, which must be known beforehand.
    pub(super) fn known(&self, slot: &str) -> Outcome<Vec<i64>> {
        let variable = self.op.input(slot).first().ok_or_else(|| absent(slot))?;
        let known = self.given.contents(variable);
        known.ok_or_else(|| unknown(slot))
    }

    /// Returns the tensor that the variable of an input slot holds in each run, if it is a parameter of an exported
    /// program.
    pub(super) fn parameter(&self, slot: &str) -> Option<&'a Tensor> {
        let given: &'a dyn VariableFacts = self.given;
        given.parameter(self.op.input(slot).first()?)
    }

    /// Returns the offsets of the innermost LoD level of the variable of an input slot, if it has LoD.
    pub(super) fn offsets(&mut self, slot: &str) -> Option<Value> {
        self.lod(slot).pop()
    }

    /// Returns the offsets of the innermost LoD level of a variable of an input slot, by its index, if it has LoD.
    pub(super) fn offsets_at(&mut self, slot: &str, number: usize) -> Option<Value> {
        let variable = self.op.input(slot).get(number)?;
        let mut levels = self.given.lod(variable);
        let innermost = levels.pop()?;
        Some(self.level(variable, levels.len(), innermost))
    }

    /// Returns the offsets of all LoD levels of the variable of an input slot, outermost first.
    pub(super) fn lod(&mut self, slot: &str) -> Vec<Value> {
        let Some(variable) = self.op.input(slot).first() else { return Vec::new() };
        let levels = self.given.lod(variable).into_iter().enumerate();
        levels.map(|(level, known)| self.level(variable, level, known)).collect()
    }

    /// Returns the offsets of a LoD level of a variable.
    fn level(&mut self, variable: &str, level: usize, known: LodLevel) -> Value {
        let info = ValueInfo::tensor(DType::Int64, Some(vec![known.count]));
        if let Some(name) = known.value {
            return Value::new(&name, info);
        }
        let asked = |lod: &&LodInput| lod.variable == variable && lod.level == level;
        if let Some(known) = self.lods.iter().find(asked) {
            return Value::new(&known.name, info);
        }
        let name = self.graph.names.fresh(&format!("{variable}.lod{level}"));
        let value = Value::new(&name, info);
        self.lods.push(LodInput { name, variable: variable.to_owned(), level });
        value
    }

    /// Returns the integers in all variables of an input slot, one for each.
    pub(super) fn known_each(&self, slot: &str) -> Outcome<Vec<i64>> {
        let one = |variable: &String| match self.given.contents(variable).as_deref() {
            Some([number]) => Ok(*number),
            _ => Err(unknown(slot)),
        };
        self.op.input(slot).iter().map(one).collect()
    }

    /// Returns the variable of a required input slot.
    pub(super) fn input(&self, slot: &str) -> Outcome<Value> {
        self.optional(slot)?.ok_or_else(|| absent(slot))
    }

    /// Whether an output slot has a variable.
    pub(super) fn wants(&self, slot: &str) -> bool {
        self.op.output(slot).iter().any(is_there)
    }

    /// Returns the number of variables in an output slot.
    pub(super) fn results(&self, slot: &str) -> i64 {
        length(self.op.output(slot).len())
    }

    /// Sets the variable of an output slot; does nothing if the slot is empty.
    pub(super) fn put(&mut self, slot: &str, value: &Value) -> Outcome {
        self.put_all(slot, std::slice::from_ref(value))
    }

    /// Sets the variables of an output slot.
    pub(super) fn put_all(&mut self, slot: &str, values: &[Value]) -> Outcome {
        if self.captures || self.stand_in.is_some() {
            self.captured.extend_from_slice(values);
            return Ok(());
        }
        let variables = self.op.output(slot);
        if variables.len() > values.len() {
            let (expected, found) = (values.len(), variables.len());
            let wrong = format!("expected at most {expected} in `{slot}`, found {found}");
            return Err(Finding::from(wrong).about(Operand::Output(slot.to_owned(), expected)));
        }
        let captured = variables.iter().zip(values).filter(|(variable, _)| is_there(variable));
        self.outputs.extend(captured.map(|(variable, value)| Output {
            slot: slot.to_owned(),
            variable: variable.clone(),
            value: value.name().to_owned(),
            info: value.info().clone(),
            lod: None,
        }));
        Ok(())
    }

    /// Groups the rows of the variables of an output slot into sequences that begin at the given offsets.
    pub(super) fn put_offsets(&mut self, slot: &str, offsets: &[Value]) {
        for (variable, offsets) in self.op.output(slot).iter().zip(offsets) {
            let is_own = |output: &&mut Output| output.slot == slot && output.variable == *variable;
            let own = self.outputs.iter_mut().filter(is_own);
            own.for_each(|output| output.lod = Some(vec![level_of(offsets)]));
        }
    }

    /// Sets the LoD of the variables of an output slot, outermost level first.
    pub(super) fn put_lod(&mut self, slot: &str, levels: &[Value]) {
        let own = self.outputs.iter_mut().filter(|output| output.slot == slot);
        own.for_each(|output| output.lod = Some(levels.iter().map(level_of).collect()));
    }

    /// Returns an attribute, or its default in the registry.
    pub(super) fn attribute(&self, name: &str) -> Option<&'a AttributeValue> {
        attribute(self.op, name)
    }

    fn wrong<T>(&self, name: &str, expected: &str) -> Outcome<T> {
        let wrong = match self.attribute(name) {
            Some(found) => format!("expected {expected} as `{name}`, found {found:?}"),
            None => format!("expected {expected} as `{name}`, found none"),
        };
        Err(Finding::from(wrong).about_attribute(name))
    }

    /// Returns the integer attribute `name`.
    pub(super) fn int(&self, name: &str) -> Outcome<i64> {
        match self.attribute(name) {
            Some(AttributeValue::Int(value)) => Ok(i64::from(*value)),
            Some(AttributeValue::Long(value)) => Ok(*value),
            _ => self.wrong(name, "an integer"),
        }
    }

    /// Returns the Boolean attribute `name`; false if it is absent and has no default.
    pub(super) fn flag(&self, name: &str) -> Outcome<bool> {
        match self.attribute(name) {
            Some(AttributeValue::Bool(value)) => Ok(*value),
            Some(AttributeValue::Int(value)) => Ok(*value != 0),
            None => Ok(false),
            _ => self.wrong(name, "a Boolean"),
        }
    }

    /// Returns the float attribute `name`.
    pub(super) fn float(&self, name: &str) -> Outcome<f32> {
        match self.attribute(name) {
            Some(AttributeValue::Float(value)) => Ok(*value),
            #[expect(clippy::cast_possible_truncation, reason = "the kernels compute with floats")]
            Some(AttributeValue::Double(value)) => Ok(*value as f32),
            _ => self.wrong(name, "a number"),
        }
    }

    /// Returns the number `name`, or the default if there is no such attribute.
    pub(super) fn float_or(&self, name: &str, default: f32) -> Outcome<f32> {
        self.attribute(name).map_or(Ok(default), |_| self.float(name))
    }

    /// Returns the string attribute `name`.
    pub(super) fn text(&self, name: &str) -> Outcome<String> {
        match self.attribute(name) {
            Some(AttributeValue::String(value)) => Ok(value.to_string()),
            _ => self.wrong(name, "a text"),
        }
    }

    /// Returns the attribute `name`, a list of integers; a single integer is a list of one.
    pub(super) fn ints(&self, name: &str) -> Outcome<Vec<i64>> {
        match self.attribute(name) {
            Some(AttributeValue::Ints(values)) => {
                Ok(values.iter().copied().map(i64::from).collect())
            }
            Some(AttributeValue::Longs(values)) => Ok(values.clone()),
            Some(AttributeValue::Int(value)) => Ok(vec![i64::from(*value)]),
            Some(AttributeValue::Long(value)) => Ok(vec![*value]),
            _ => self.wrong(name, "a list of integers"),
        }
    }

    /// Returns the attribute `name`, a list of floats; a single float is a list of one.
    pub(super) fn floats(&self, name: &str) -> Outcome<Vec<f32>> {
        match self.attribute(name) {
            Some(AttributeValue::Floats(values)) => Ok(values.clone()),
            Some(AttributeValue::Float(value)) => Ok(vec![*value]),
            // An empty list may have any type.
            Some(AttributeValue::Ints(values)) if values.is_empty() => Ok(Vec::new()),
            _ => self.wrong(name, "a list of floats"),
        }
    }

    /// Returns the attribute `name`, the code of an element type; `None` if it is negative, which stands for the input's.
    pub(super) fn dtype(&self, name: &str) -> Outcome<Option<DType>> {
        let code = self.int(name)?;
        match i32::try_from(code).map(codes::dtype) {
            _ if code < 0 => Ok(None),
            Ok(DType::Unknown(_)) | Err(_) => {
                let wrong = format!("expected an element type as `{name}`, found {code}");
                Err(Finding::from(wrong).about_attribute(name))
            }
            Ok(dtype) => Ok(Some(dtype)),
        }
    }
}

/// Returns the LoD level with these offsets.
pub(super) fn level_of(offsets: &Value) -> LodLevel {
    let count = offsets.shape().ok().and_then(<[Dim]>::first).cloned();
    LodLevel { value: Some(offsets.name().to_owned()), count: count.unwrap_or(Dim::Unknown) }
}

/// Reports a variable of an input slot that has no value.
pub(super) fn valueless(name: &str, slot: &str) -> Finding {
    Finding::from(format!("`{name}` in `{slot}` has no value")).about_slot(slot)
}

/// Reports a required input slot that is empty.
pub(super) fn absent(slot: &str) -> Finding {
    Finding::from(format!("input `{slot}` is missing")).about_slot(slot)
}

/// Reports an input slot whose integers must be known before the program runs.
fn unknown(slot: &str) -> Finding {
    Finding::from(format!("the value of `{slot}` must be known beforehand")).about_slot(slot)
}
