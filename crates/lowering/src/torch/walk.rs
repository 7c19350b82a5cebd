//! The walk over the operators of a program.

use std::borrow::Cow;
use std::collections::HashMap;

use lodstone_model::{
    AttributeValue, Block, DType, Dim, Kind, Layout, Model, Op, Tensor, TensorType, ValueType, Var,
};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::onnx::quoted;
use lodstone_schema::torch::{SET_ATTRIBUTE, is_written, operator};
use lodstone_schema::{Code, Finding, Findings};

use super::arguments::{Arguments, Item};
use super::control::ControlRule;
use super::families::complex::parts_of;
use super::list::List;
use super::node::{Made, Node, Outcome, Rule, base_name, no_complex};
use super::script::ScriptRule;
use super::views::View;
use super::{control, families, script};
use crate::frame::views::{self, Tensors};
use crate::frame::{self, At, Dialect, Frame, Step};
use crate::onnx::{Size, Value, is_unknown};

/// The maximum number of views of views: each repeats those before.
const MAX_VIEWS: usize = 512;

/// What a name of a block stands for.
#[derive(Clone, Debug)]
pub(super) enum Bound<'m> {
    /// A tensor.
    Tensor(Reference<'m>),
    /// A size, number or truth value that the program computes.
    Number(Value),
    /// A complex tensor, whose last dim holds the parts.
    Complex(Value),
    /// A constant.
    Constant(AttributeValue),
    /// A list of numbers.
    Numbers(Vec<Value>),
    /// A list of known tensors.
    List(List),
    /// Something that is no value, such as a token.
    Object,
}

/// A tensor of the program.
type Reference<'m> = views::Reference<View<'m>>;

/// The values of a block, by name.
pub(super) type Scope<'m> = frame::Scope<Bound<'m>>;

/// The types of the variables of a block, by name.
type Vars<'m> = HashMap<&'m str, &'m Var>;

/// The values in the slots of an operator.
type Slots<'m> = Vec<(&'m str, Vec<Item>)>;

/// A program that is being translated.
pub(super) type Walk<'m> = Frame<'m, Torch<'m>>;

/// What only these programs have.
#[derive(Default)]
pub(super) struct Torch<'m> {
    pub(super) tensors: Tensors,
    /// The number of repetitions of loops that were translated one by one.
    pub(super) repetitions: i64,
    /// The variables of each block.
    vars: Vec<Vars<'m>>,
}

/// How an operator is translated.
pub(super) enum Translation {
    Constant,
    Assign,
    /// Binds its results itself.
    Script(ScriptRule),
    /// With the graphs that it runs.
    Control(ControlRule),
    Single(Rule),
}

impl<'m> Dialect<'m> for Torch<'m> {
    type Item = Bound<'m>;

    type Rule = Translation;

    const PROGRAM: &'static str = "the program";

    const IS_OPEN: bool = false;

    fn value<'i>(bound: &'i Bound<'m>) -> Option<&'i Value> {
        match bound {
            Bound::Tensor(reference) => Some(&reference.value),
            Bound::Number(value) => Some(value),
            Bound::Complex(_)
            | Bound::Constant(_)
            | Bound::Numbers(_)
            | Bound::List(_)
            | Bound::Object => None,
        }
    }

    fn rule(op: &Op) -> Outcome<Translation> {
        match op.kind.as_str() {
            "prim::Constant" => return Ok(Translation::Constant),
            SET_ATTRIBUTE => return Ok(Translation::Assign),
            kind if families::is_random(kind) => {
                return Err("it draws random numbers, which is not supported".into());
            }
            _ => {}
        }
        let script = script::rule(&op.kind).map(Translation::Script);
        let control = script.or_else(|| control::rule(&op.kind).map(Translation::Control));
        let rule = control.or_else(|| families::rule(&op.kind).map(Translation::Single));
        rule.ok_or_else(|| unsupported(&op.kind))
    }

    fn operand(walk: &mut Walk<'m>, name: &str, scope: &mut Scope<'m>) -> Step<Value> {
        match walk.item(name, scope)? {
            Item::Tensor(value) | Item::Number(value) => Ok(value),
            _ => Err("only operators of tensors can be kept".into()),
        }
    }

    fn bind_results(
        walk: &mut Walk<'m>,
        at: At,
        op: &'m Op,
        results: Vec<Value>,
        scope: &mut Scope<'m>,
    ) -> Step {
        walk.bind(at, op, results, scope)
    }

    fn apply(
        walk: &mut Walk<'m>,
        rule: Translation,
        at: At,
        op: &'m Op,
        scope: &mut Scope<'m>,
    ) -> Step {
        match rule {
            Translation::Constant => {
                let value = op.attribute("value").cloned().unwrap_or(AttributeValue::None);
                op.writes().for_each(|name| scope.bind(name, Bound::Constant(value.clone())));
                Ok(())
            }
            Translation::Assign => walk.assign(op, scope),
            Translation::Script(rule) => rule(walk, (at, op), scope),
            Translation::Control(rule) => {
                let results = rule(walk, op, scope)?;
                walk.bind(at, op, results, scope)
            }
            Translation::Single(rule) => walk.single(at, op, rule, scope),
        }
    }

    fn changed(op: &Op) -> impl Iterator<Item = &str> {
        let first = op.inputs.first().and_then(|operand| operand.args.first());
        op.writes().chain(first.filter(|_| is_written(&op.kind)).map(String::as_str))
    }

    fn states(main: &Block) -> impl Iterator<Item = &str> {
        main.vars.iter().filter(|var| var.persistable).map(|var| var.name.as_str())
    }
}

impl<'m> Walk<'m> {
    /// Starts to translate the program of a model.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn of(model: &'m Model, covers: bool) -> Result<Self, Findings> {
        let mut walk = Self::begin(model, Torch::default(), covers)?;
        let parameters = model.parameters.iter();
        let parameters = parameters.map(|it| (it.name.as_str(), Cow::Borrowed(&it.tensor)));
        walk.parameters = parameters.collect();
        let vars = walk.program.blocks.iter();
        let vars =
            vars.map(|block| block.vars.iter().map(|var| (var.name.as_str(), var)).collect());
        walk.dialect.vars = vars.collect();
        walk.states();
        Ok(walk)
    }

    /// Binds the parameters and inputs of the main block.
    fn states(&mut self) {
        let main = self.main_block();
        for var in &main.vars {
            let name = var.name.as_str();
            if main.inputs.contains(&var.name) {
                match self.fed(var) {
                    Ok(bound) => self.scope.bind(name, bound),
                    Err(finding) => {
                        self.findings.add(format!("the input {}", quoted(name)), finding);
                        self.scope.fail(name);
                    }
                }
            } else if !var.persistable {
                if matches!(var.value, ValueType::Class(_)) {
                    self.scope.bind(name, Bound::Object);
                }
            } else {
                match self.parameters.get(name).cloned() {
                    Some(tensor) => self.parameter(name, &tensor),
                    None => self.absent_parameter(name),
                }
            }
        }
    }

    fn parameter(&mut self, name: &str, tensor: &Tensor) {
        match (&tensor.kind, parts_of(tensor)) {
            (Kind::Dense, Some(parts)) => {
                let value = self.graph.tensor(parts, name);
                self.scope.bind(name, Bound::Complex(value));
            }
            (Kind::Dense, None) => {
                let value = Value::new(name, ValueInfo::of(tensor));
                let tensor = self.dialect.tensors.add(value, Some(name.to_owned()));
                self.scope.bind(name, Bound::Tensor(tensor));
            }
            (kind, _) => {
                let what =
                    format!("expected a dense tensor, found one of the kind `{}`", kind.name());
                self.findings.add(format!("the parameter {}", quoted(name)), what);
                self.scope.fail(name);
            }
        }
    }

    fn fed(&mut self, var: &Var) -> Outcome<Bound<'m>> {
        let (mut tensor, is_number) = match &var.value {
            ValueType::Tensor(tensor) => (tensor.clone(), false),
            ValueType::Scalar(dtype) => (TensorType::new(*dtype, Some(Vec::new())), true),
            other => return Err(format!("expected a tensor, found {}", other.kind()).into()),
        };
        if tensor.dtype == DType::Unspecified {
            tensor.dtype = DType::Float32;
        }
        let value = self.input(&var.name, tensor);
        Ok(match is_number {
            true => Bound::Number(value),
            false => Bound::Tensor(self.dialect.tensors.add(value, Some(var.name.clone()))),
        })
    }

    /// Returns what a name stands for now.
    pub(super) fn item(&mut self, name: &str, scope: &mut Scope<'m>) -> Step<Item> {
        if name.is_empty() {
            return Ok(Item::Absent);
        }
        if let Some(Bound::Tensor(reference)) = scope.get_mut(name) {
            return Ok(Item::Tensor(self.dialect.tensors.read(&mut self.graph, reference)?));
        }
        Ok(match scope.item(name)? {
            Bound::Tensor(_) => return Err(Finding::internal("a tensor is not read").into()),
            Bound::Number(value) => Item::Number(value.clone()),
            Bound::Numbers(values) => {
                let sizes: Vec<Size> = values.iter().cloned().map(Size::Value).collect();
                Item::Tensor(self.graph.list_of(&sizes)?)
            }
            Bound::Complex(value) => Item::Complex(value.clone()),
            Bound::Constant(value) => Item::Constant(value.clone()),
            Bound::List(list) => {
                let values = list.values();
                // The type of the elements follows from what is appended.
                let kind = if values.is_empty() { "SequenceEmpty" } else { "SequenceConstruct" };
                Item::Tensor(self.graph.call(kind, &values.iter().collect::<Vec<_>>(), [])?)
            }
            Bound::Object => return Err(format!("{} is not a tensor", quoted(name)).into()),
        })
    }

    /// Returns the values in the slots of an operator.
    fn items(&mut self, op: &'m Op, scope: &mut Scope<'m>) -> Step<Slots<'m>> {
        let mut slots = Vec::new();
        for operand in &op.inputs {
            let mut items = Vec::new();
            for (index, name) in operand.args.iter().enumerate() {
                match scope.get(name) {
                    Some(Bound::List(list)) => {
                        items.extend(list.values().into_iter().map(Item::Tensor));
                        continue;
                    }
                    Some(Bound::Numbers(values)) => {
                        items.extend(values.iter().cloned().map(Item::Number));
                        continue;
                    }
                    _ => {}
                }
                items.push(self.item(name, scope).map_err(|halt| halt.about_input(index))?);
            }
            slots.push((operand.slot.as_str(), items));
        }
        Ok(slots)
    }

    fn single(&mut self, at: At, op: &'m Op, rule: Rule, scope: &mut Scope<'m>) -> Step {
        let mut values = self.items(op, scope)?;
        let mut source = self.source(op, scope);
        if base_name(&op.kind).starts_with("as_strided") {
            self.with_memory(op, &mut values, source.as_mut(), scope)?;
        }
        let mut items = values.iter().flat_map(|(_, items)| items);
        let rule = match items.any(|item| matches!(item, Item::Complex(_))) {
            true => families::complex::rule(&op.kind, rule).ok_or_else(no_complex)?,
            false => rule,
        };
        let is_declared = self.is_declared(at.block, op);
        let arguments = Arguments::new(op, values.clone()).with_declared(is_declared);
        let mut node = Node::new(&mut self.graph, op, arguments);
        let (results, is_complex) = match rule {
            Rule::One(rule) | Rule::Number(rule) => (vec![rule(&mut node)?], false),
            Rule::Many(rule) | Rule::Numbers(rule) => (rule(&mut node)?, false),
            Rule::Made(rule) => match rule(&mut node)? {
                Made::Real(value) => (vec![value], false),
                Made::Complex(value) => (vec![value], true),
            },
            Rule::None => (Vec::new(), false),
        };
        if let Some(name) = node.arguments.unread().filter(|_| !matches!(rule, Rule::None)) {
            let what = format!("the argument {} is not supported", quoted(name));
            return Err(Finding::from(what).about_attribute(name).into());
        }
        if is_complex {
            for (name, value) in op.writes().zip(results) {
                scope.bind(name, Bound::Complex(value));
            }
            return Ok(());
        }
        if matches!(rule, Rule::Numbers(_)) {
            for name in op.writes() {
                scope.bind(name, Bound::Numbers(results.clone()));
            }
            return Ok(());
        }
        if matches!(rule, Rule::Number(_)) {
            for (name, value) in op.writes().zip(&results) {
                let bound = match Item::Number(value.clone()).number() {
                    Some(super::arguments::Number::Int(value)) => {
                        Bound::Constant(AttributeValue::Long(value))
                    }
                    Some(super::arguments::Number::Bool(value)) => {
                        Bound::Constant(AttributeValue::Bool(value))
                    }
                    _ => Bound::Number(value.clone()),
                };
                scope.bind(name, bound);
            }
            return Ok(());
        }
        if is_written(&op.kind) {
            let [result, ..] = results.as_slice() else { return Err("it has no result".into()) };
            return self.write(at, op, result, scope);
        }
        if let Some(source) = source {
            let view = |result| View { op, arguments: values.clone(), result, is_declared };
            let views: Vec<View<'m>> = (0..results.len()).map(view).collect();
            return self.bind_views(at, op, &source, views, results, scope);
        }
        self.bind(at, op, results, scope)
    }

    /// Whether the program declares the dims of the results of an operator.
    fn is_declared(&self, block: usize, op: &Op) -> bool {
        let vars = self.dialect.vars.get(block);
        let var = op.writes().next().and_then(|name| vars?.get(name));
        var.and_then(|var| var.value.tensor_type()).is_some_and(|tensor| tensor.shape.is_some())
    }

    /// Replaces a view, whose memory is that of its base, by the base.
    fn with_memory(
        &mut self,
        op: &'m Op,
        values: &mut Slots<'m>,
        source: Option<&mut Reference<'m>>,
        scope: &Scope<'m>,
    ) -> Outcome<()> {
        let first = op.inputs.first().and_then(|operand| operand.args.first());
        let Some(Bound::Tensor(view)) = first.and_then(|name| scope.get(name)) else {
            return Ok(());
        };
        if view.views.is_empty() {
            return Ok(());
        }
        if view.is_ambiguous {
            let what = "whether it has the memory of a view or a copy depends on strides";
            return Err(what.into());
        }
        let offset = Arguments::new(op, values.clone()).optional_int("storage_offset")?;
        if offset.is_none() {
            // Where the view begins is not computed.
            return Err("strides from the beginning of a view are not supported".into());
        }
        let mut base = Reference { views: Vec::new(), ..view.clone() };
        let value = self.dialect.tensors.whole(&mut base)?;
        if let Some((_, items)) = values.first_mut() {
            *items = vec![Item::Tensor(value)];
        }
        if let Some(source) = source {
            *source = base;
        }
        Ok(())
    }

    /// Returns the tensor that the results of an operator are views of.
    fn source(&self, op: &'m Op, scope: &Scope<'m>) -> Option<Reference<'m>> {
        let schema = operator(&op.kind)?;
        if !schema.results.first()?.is_alias {
            return None;
        }
        let first = op.inputs.first()?;
        match scope.get(first.args.first()?)? {
            Bound::Tensor(reference) if first.args.len() == 1 => Some(reference.clone()),
            _ => None,
        }
    }

    fn bind_views(
        &mut self,
        at: At,
        op: &'m Op,
        source: &Reference<'m>,
        views: Vec<View<'m>>,
        results: Vec<Value>,
        scope: &mut Scope<'m>,
    ) -> Step {
        if source.views.len() >= MAX_VIEWS {
            let what = format!("views of views are nested deeper than {MAX_VIEWS}");
            return Err(Finding::new(Code::Limit, what).into());
        }
        let copies = self.copies(at.block, op, source, results.first());
        if copies == Some(true) {
            return self.bind(at, op, results, scope);
        }
        for (name, (view, value)) in op.writes().zip(views.into_iter().zip(results)) {
            let value = self.result(at, name, "", &value, op)?;
            let mut reference = source.clone();
            reference.views.push(view);
            reference.value = value;
            reference.is_ambiguous |= copies.is_none();
            scope.bind(name, Bound::Tensor(reference));
        }
        Ok(())
    }

    /// Whether an operator that may return a view of its argument copies it; `None` if that depends on strides.
    fn copies(
        &self,
        block: usize,
        op: &Op,
        source: &Reference<'_>,
        result: Option<&Value>,
    ) -> Option<bool> {
        let argument = op.inputs.first().and_then(|operand| operand.args.first());
        let var = argument.and_then(|name| self.dialect.vars.get(block)?.get(name.as_str()));
        let is_strided = var.is_some_and(|var| {
            let layout = var.value.tensor_type().and_then(|tensor| tensor.layout.as_ref());
            matches!(layout, Some(Layout::Strided(_)))
        });
        match base_name(&op.kind) {
            "to" | "type_as" => {
                let is_copy = matches!(op.attribute("copy"), Some(AttributeValue::Bool(true)));
                let dtype = result.map(Value::dtype);
                Some(is_copy || dtype != Some(source.value.dtype()))
            }
            "contiguous" => Some(is_strided),
            "flatten" | "reshape" | "reshape_as" if is_strided => None,
            _ => Some(false),
        }
    }

    /// Writes the result of an operator to its first argument, in the type and dims of that.
    fn write(&mut self, at: At, op: &'m Op, result: &Value, scope: &mut Scope<'m>) -> Step {
        let name = op.inputs.first().and_then(|operand| operand.args.first());
        let name = name.ok_or("it has nothing to write to")?;
        let Some(Bound::Tensor(reference)) = scope.get(name) else {
            return Err(format!("{} is not a tensor", quoted(name)).into());
        };
        let mut reference = reference.clone();
        let before = self.dialect.tensors.read(&mut self.graph, &mut reference)?;
        if families::is_restructuring(&op.kind) {
            return Err("changing the dims of a tensor in place is not supported".into());
        }
        // An operator such as `detach_` changes nothing.
        if result.name() == before.name() {
            for name in op.writes() {
                scope.bind(name, Bound::Tensor(reference.clone()));
            }
            return Ok(());
        }
        let mut value = self.graph.cast(result, before.dtype())?;
        if value.info().shape() != before.info().shape() {
            value = match before.known_dims() {
                Some(dims) => self.graph.expand(&value, &dims)?,
                None => {
                    let dims = self.graph.call("Shape", &[&before], [])?;
                    self.graph.call("Expand", &[&value, &dims], [])?
                }
            };
        }
        let written = op.writes().next();
        if let Some(written) = written {
            value = self.result(at, written, &op.name, &value, op)?;
        }
        self.dialect.tensors.write(&mut self.graph, &mut reference, value)?;
        if let Some(written) = written {
            scope.bind(written, Bound::Tensor(reference.clone()));
        }
        scope.bind(name, Bound::Tensor(reference));
        Ok(())
    }

    /// Assigns a tensor to a parameter, which gets its type and dims, too.
    fn assign(&mut self, op: &'m Op, scope: &mut Scope<'m>) -> Step {
        let [[target], [source]] = [op.input("self"), op.input("value")] else {
            return Err("expected a parameter and its value".into());
        };
        let item = self.item(source, scope)?;
        let Some(Bound::Tensor(mut reference)) = scope.get(target).cloned() else {
            return Err(format!("{} is not a tensor", quoted(target)).into());
        };
        let Item::Tensor(value) = item else {
            return Err(format!("{} is not a tensor", quoted(source)).into());
        };
        self.dialect.tensors.assign(&mut reference, value)?;
        scope.bind(target, Bound::Tensor(reference));
        Ok(())
    }

    /// Binds the outputs of an operator to its results, as tensors of their own.
    pub(super) fn bind(
        &mut self,
        at: At,
        op: &'m Op,
        results: Vec<Value>,
        scope: &mut Scope<'m>,
    ) -> Step {
        let names: Vec<&String> = op.outputs.iter().flat_map(|operand| &operand.args).collect();
        for (index, name) in names.into_iter().enumerate() {
            if name.is_empty() {
                continue;
            }
            // A result that is not supported, and that nothing may need.
            let Some(value) = results.get(index) else {
                scope.bind(name, Bound::Object);
                continue;
            };
            let own = if index == 0 { op.name.as_str() } else { "" };
            let value = self.result(at, name, own, value, op)?;
            let bound =
                match self.dialect.vars.get(at.block).and_then(|vars| vars.get(name.as_str())) {
                    Some(Var { value: ValueType::Scalar(_), .. }) => Bound::Number(value),
                    _ => Bound::Tensor(self.dialect.tensors.add(value, None)),
                };
            scope.bind(name, bound);
        }
        Ok(())
    }

    /// Gives a result its name, and what the program declares about it.
    fn result(&mut self, at: At, name: &str, op_name: &str, value: &Value, op: &Op) -> Step<Value> {
        let value = self.declared(at.block, name, value);
        if !self.graph.is_made(&value) {
            return Ok(self.graph.current(&value));
        }
        self.named(at, name, if op.name == op_name { op_name } else { "" }, &value)
    }

    /// Adds declared dims to a value of which they were not inferred.
    fn declared(&self, block: usize, name: &str, value: &Value) -> Value {
        let var = self.dialect.vars.get(block).and_then(|vars| vars.get(name));
        let Some(ValueType::Tensor(tensor)) = var.map(|var| &var.value) else {
            return value.clone();
        };
        let (Some(dims), ValueType::Tensor(own)) = (&tensor.shape, value.value_type()) else {
            return value.clone();
        };
        let merged: Vec<Dim> = match &own.shape {
            Some(own) if own.len() != dims.len() => return value.clone(),
            Some(own) => own
                .iter()
                .zip(dims)
                .map(|(own, dim)| match own {
                    Dim::Unknown => dim.clone(),
                    Dim::Symbol(_) if is_unknown(own) => dim.clone(),
                    _ => own.clone(),
                })
                .collect(),
            None => dims.clone(),
        };
        let contents = value.info().contents.clone();
        let info = ValueInfo { contents, ..ValueInfo::tensor(own.dtype, Some(merged)) };
        Value::new(value.name(), info)
    }
}

/// An operator without arguments, for values that no operator needs.
pub(super) static EMPTY: std::sync::LazyLock<Op> = std::sync::LazyLock::new(Op::default);

fn unsupported(kind: &str) -> Finding {
    let what = match operator(kind) {
        None if !kind.starts_with("aten::") => "the operator is not part of PyTorch",
        _ => "the operator is not supported",
    };
    Finding::new(Code::NoEquivalent, what)
}
