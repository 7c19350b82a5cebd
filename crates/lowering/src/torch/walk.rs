//! The walk over the operators of a program.

use std::collections::{BTreeMap, HashMap};

use lodstone_model::{
    AttributeValue, Block, DType, Dim, Kind, Layout, Model, Op, Program, Tensor, TensorType,
    ValueType, Var,
};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::onnx::{place_of, quoted};
use lodstone_schema::torch::operator;
use lodstone_schema::{Code, Finding, Findings};

use super::arguments::{Arguments, Item};
use super::families::complex::parts_of;
use super::list::List;
use super::node::{Made, Node, Outcome, Rule, base_name, check_size, is_written, no_complex};
use super::tensors::{Reference, Tensors, View};
use super::{control, families, script};
use crate::OperatorCoverage;
use crate::onnx::{Graph, Size, Value, is_unknown};

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
    /// A parameter whose file does not have it.
    Missing,
    /// Something that is no value, such as a token.
    Object,
    /// The result of an operator that could not be translated.
    Failed,
}

/// The values of a block, by name.
pub(super) type Scope<'m> = HashMap<String, Bound<'m>>;

/// The types of the variables of a block, by name.
type Vars<'m> = HashMap<&'m str, &'m Var>;

/// The values in the slots of an operator.
type Slots<'m> = Vec<(&'m str, Vec<Item>)>;

/// A program that is being translated.
pub(super) struct Walk<'m> {
    pub(super) model: &'m Model,
    pub(super) program: &'m Program,
    pub(super) graph: Graph,
    /// The values of the main block.
    pub(super) scope: Scope<'m>,
    pub(super) tensors: Tensors,
    /// The declarations of the inputs.
    pub(super) inputs: Vec<Var>,
    pub(super) parameters: HashMap<&'m str, &'m Tensor>,
    /// The subgraphs of the result.
    pub(super) blocks: Vec<Block>,
    pub(super) findings: Findings,
    /// The number of repetitions of loops that were translated one by one.
    pub(super) repetitions: i64,
    vars: Vec<Vars<'m>>,
    pub(super) depth: usize,
    covered: Option<BTreeMap<(usize, usize), OperatorCoverage>>,
}

impl<'m> Walk<'m> {
    pub(super) fn new(model: &'m Model) -> Result<Self, Findings> {
        let Some((program, main)) =
            model.main().and_then(|program| Some((program, program.blocks.first()?)))
        else {
            let mut findings = Findings::default();
            findings.add("the model", "expected a program, found none");
            return Err(findings);
        };
        let mut graph = Graph::symbolic();
        graph.names.take("");
        let ops = main.ops.iter().flat_map(|op| op.writes().chain([op.name.as_str()]));
        let vars = main.vars.iter().map(|var| var.name.as_str());
        ops.chain(vars).for_each(|name| graph.names.take(name));
        let parameters = model.parameters.iter();
        let parameters = parameters.map(|it| (it.name.as_str(), &it.tensor)).collect();
        let vars = program.blocks.iter();
        let vars =
            vars.map(|block| block.vars.iter().map(|var| (var.name.as_str(), var)).collect());
        let mut walk = Self {
            model,
            program,
            graph,
            scope: Scope::new(),
            tensors: Tensors::default(),
            inputs: Vec::new(),
            parameters,
            blocks: Vec::new(),
            findings: Findings::default(),
            repetitions: 0,
            vars: vars.collect(),
            depth: 0,
            covered: None,
        };
        walk.states(main);
        Ok(walk)
    }

    /// Binds the parameters and inputs of the main block.
    fn states(&mut self, main: &'m Block) {
        for var in &main.vars {
            let bound = match self.parameters.get(var.name.as_str()) {
                _ if main.inputs.contains(&var.name) => match self.input(var) {
                    Ok(bound) => bound,
                    Err(finding) => {
                        self.findings.add(format!("the input {}", quoted(&var.name)), finding);
                        Bound::Failed
                    }
                },
                Some(tensor) if var.persistable => match (&tensor.kind, parts_of(tensor)) {
                    (Kind::Dense, Some(parts)) => {
                        Bound::Complex(self.graph.tensor(parts, &var.name))
                    }
                    (Kind::Dense, None) => {
                        let value = Value::new(&var.name, ValueInfo::of(tensor));
                        Bound::Tensor(self.tensors.add(value, Some(var.name.clone())))
                    }
                    _ => {
                        let found = tensor.kind.name();
                        let what =
                            format!("expected a dense tensor, found one of the kind `{found}`");
                        self.findings.add(format!("the parameter {}", quoted(&var.name)), what);
                        Bound::Failed
                    }
                },
                _ if var.persistable => Bound::Missing,
                _ if matches!(var.value, ValueType::Class(_)) => Bound::Object,
                _ => continue,
            };
            self.scope.insert(var.name.clone(), bound);
        }
    }

    fn input(&mut self, var: &Var) -> Outcome<Bound<'m>> {
        let (tensor, is_number) = match &var.value {
            ValueType::Tensor(tensor) => (tensor.clone(), false),
            ValueType::Scalar(dtype) => (TensorType::new(*dtype, Some(Vec::new())), true),
            other => return Err(format!("expected a tensor, found {}", other.kind()).into()),
        };
        let dtype = match tensor.dtype {
            DType::Unspecified => DType::Float32,
            known => known,
        };
        let mut info = ValueInfo::tensor(dtype, tensor.shape);
        self.inputs.push(Var {
            name: var.name.clone(),
            value: info.value.clone(),
            ..Var::default()
        });
        self.graph.symbolize(&mut info);
        let value = Value::new(&var.name, info);
        Ok(match is_number {
            true => Bound::Number(value),
            false => Bound::Tensor(self.tensors.add(value, Some(var.name.clone()))),
        })
    }

    /// Translates the main block.
    pub(super) fn main(&mut self) {
        let mut scope = std::mem::take(&mut self.scope);
        self.operators(0, &mut scope);
        self.scope = scope;
    }

    /// Translates the main block, and returns what became of each operator.
    pub(super) fn coverage(mut self) -> Vec<OperatorCoverage> {
        self.covered = Some(BTreeMap::new());
        self.main();
        self.covered.take().unwrap_or_default().into_values().collect()
    }

    /// Translates the operators of a block.
    pub(super) fn operators(&mut self, block: usize, scope: &mut Scope<'m>) {
        let program = self.program;
        let ops = program.blocks.get(block).map_or(&[][..], |block| &block.ops);
        for (number, op) in ops.iter().enumerate() {
            let before = self.graph.ops.len();
            let outcome = self.operator(block, op, scope);
            // Dims without a declaration are no obstacle: they are given when the program is exported, or runs.
            let is_open = |it: &&Finding| self.covered.is_some() && it.code == Code::UnknownDims;
            let finding = outcome.as_ref().err().filter(|it| !is_open(it));
            self.cover((block, number), op, before, finding);
            if let Err(finding) = outcome {
                self.findings.add(place(block, number, op), finding);
                fail(op, scope);
            }
        }
    }

    /// Returns what a name stands for now; `None` if it could not be translated.
    pub(super) fn item(&mut self, name: &str, scope: &mut Scope<'m>) -> Outcome<Option<Item>> {
        if name.is_empty() {
            return Ok(Some(Item::Absent));
        }
        match scope.get_mut(name) {
            Some(Bound::Tensor(reference)) => {
                self.tensors.read(&mut self.graph, reference).map(|it| Some(Item::Tensor(it)))
            }
            Some(Bound::Number(value)) => Ok(Some(Item::Number(value.clone()))),
            Some(Bound::Numbers(values)) => {
                let sizes: Vec<Size> = values.iter().cloned().map(Size::Value).collect();
                self.graph.list_of(&sizes).map(|list| Some(Item::Tensor(list)))
            }
            Some(Bound::Complex(value)) => Ok(Some(Item::Complex(value.clone()))),
            Some(Bound::Constant(value)) => Ok(Some(Item::Constant(value.clone()))),
            Some(Bound::List(list)) => {
                let values = list.values();
                // The type of the elements follows from what is appended.
                let kind = if values.is_empty() { "SequenceEmpty" } else { "SequenceConstruct" };
                let list = self.graph.call(kind, &values.iter().collect::<Vec<_>>(), [])?;
                Ok(Some(Item::Tensor(list)))
            }
            Some(Bound::Failed) => Ok(None),
            Some(Bound::Missing) if self.covered.is_some() => Ok(None),
            Some(Bound::Missing) => {
                Err(format!("the parameter {} has no value", quoted(name)).into())
            }
            Some(Bound::Object) => Err(format!("{} is not a tensor", quoted(name)).into()),
            None => Err(format!("{} has no value", quoted(name)).into()),
        }
    }

    /// Returns the values in the slots of an operator; `None` if one could not be computed.
    fn items(&mut self, op: &'m Op, scope: &mut Scope<'m>) -> Outcome<Option<Slots<'m>>> {
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
                let item = self.item(name, scope);
                match item.map_err(|finding| finding.about_input(index))? {
                    Some(item) => items.push(item),
                    None => return Ok(None),
                }
            }
            slots.push((operand.slot.as_str(), items));
        }
        Ok(Some(slots))
    }

    fn operator(&mut self, block: usize, op: &'m Op, scope: &mut Scope<'m>) -> Outcome<()> {
        if op.kind == "prim::Constant" {
            let value = op.attribute("value").cloned().unwrap_or(AttributeValue::None);
            op.writes().for_each(|name| {
                scope.insert(name.to_owned(), Bound::Constant(value.clone()));
            });
            return Ok(());
        }
        if op.kind == ASSIGNS {
            return self.assign(op, scope);
        }
        if let Some(rule) = script::rule(&op.kind) {
            self.graph.begin(&op.name);
            if !rule(self, (block, op), scope)? {
                fail(op, scope);
            }
            return Ok(());
        }
        if let Some(rule) = control::rule(&op.kind) {
            self.graph.begin(&op.name);
            let Some(results) = rule(self, op, scope)? else {
                fail(op, scope);
                return Ok(());
            };
            return self.bind(block, op, results, scope);
        }
        if families::is_random(&op.kind) {
            return Err("it draws random numbers, which is not supported".into());
        }
        let rule = families::rule(&op.kind).ok_or_else(|| unsupported(&op.kind))?;
        self.graph.begin(&op.name);
        let bound = self.apply(block, op, rule, scope);
        if bound.is_err() {
            self.graph.take_back();
        }
        bound
    }

    fn apply(
        &mut self,
        block: usize,
        op: &'m Op,
        rule: Rule,
        scope: &mut Scope<'m>,
    ) -> Outcome<()> {
        let Some(mut values) = self.items(op, scope)? else {
            fail(op, scope);
            return Ok(());
        };
        let mut source = self.source(op, scope);
        if base_name(&op.kind).starts_with("as_strided") {
            self.with_memory(op, &mut values, source.as_mut(), scope)?;
        }
        let mut items = values.iter().flat_map(|(_, items)| items);
        let rule = match items.any(|item| matches!(item, Item::Complex(_))) {
            true => families::complex::rule(&op.kind, rule).ok_or_else(no_complex)?,
            false => rule,
        };
        let is_declared = self.is_declared(block, op);
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
            return Err(Finding::from(what).about_attribute(name));
        }
        if is_complex {
            for (name, value) in op.writes().zip(results) {
                scope.insert(name.to_owned(), Bound::Complex(value));
            }
            return Ok(());
        }
        if matches!(rule, Rule::Numbers(_)) {
            for name in op.writes() {
                scope.insert(name.to_owned(), Bound::Numbers(results.clone()));
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
                scope.insert(name.to_owned(), bound);
            }
            return Ok(());
        }
        if is_written(&op.kind) {
            let [result, ..] = results.as_slice() else { return Err("it has no result".into()) };
            return self.write(block, op, result, scope);
        }
        if let Some(source) = source {
            let view = |result| View { op, arguments: values.clone(), result, is_declared };
            let views: Vec<View<'m>> = (0..results.len()).map(view).collect();
            return self.bind_views(block, op, &source, views, results, scope);
        }
        self.bind(block, op, results, scope)
    }

    /// Whether the program declares the dims of the results of an operator.
    fn is_declared(&self, block: usize, op: &Op) -> bool {
        let vars = self.vars.get(block);
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
        let value = self.tensors.whole(&mut base)?;
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
        block: usize,
        op: &'m Op,
        source: &Reference<'m>,
        views: Vec<View<'m>>,
        results: Vec<Value>,
        scope: &mut Scope<'m>,
    ) -> Outcome<()> {
        if source.views.len() >= MAX_VIEWS {
            let what = format!("views of views are nested deeper than {MAX_VIEWS}");
            return Err(Finding::new(Code::Limit, what));
        }
        let copies = self.copies(block, op, source, results.first());
        if copies == Some(true) {
            return self.bind(block, op, results, scope);
        }
        for (name, (view, value)) in op.writes().zip(views.into_iter().zip(results)) {
            let value = self.named(block, name, "", &value, op)?;
            let mut reference = source.clone();
            reference.views.push(view);
            reference.value = value;
            reference.is_ambiguous |= copies.is_none();
            scope.insert(name.to_owned(), Bound::Tensor(reference));
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
        let var = argument.and_then(|name| self.vars.get(block)?.get(name.as_str()));
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
    fn write(
        &mut self,
        block: usize,
        op: &'m Op,
        result: &Value,
        scope: &mut Scope<'m>,
    ) -> Outcome<()> {
        let name = op.inputs.first().and_then(|operand| operand.args.first());
        let name = name.ok_or("it has nothing to write to")?;
        let Some(Bound::Tensor(reference)) = scope.get(name) else {
            return Err(format!("{} is not a tensor", quoted(name)).into());
        };
        let mut reference = reference.clone();
        let before = self.tensors.read(&mut self.graph, &mut reference)?;
        if families::is_restructuring(&op.kind) {
            return Err("changing the dims of a tensor in place is not supported".into());
        }
        // An operator such as `detach_` changes nothing.
        if result.name() == before.name() {
            for name in op.writes() {
                scope.insert(name.to_owned(), Bound::Tensor(reference.clone()));
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
            value = self.named(block, written, &op.name, &value, op)?;
        }
        self.tensors.write(&mut self.graph, &mut reference, value)?;
        if let Some(written) = written {
            scope.insert(written.to_owned(), Bound::Tensor(reference.clone()));
        }
        scope.insert(name.clone(), Bound::Tensor(reference));
        Ok(())
    }

    /// Assigns a tensor to a parameter, which gets its type and dims, too.
    fn assign(&mut self, op: &'m Op, scope: &mut Scope<'m>) -> Outcome<()> {
        let [[target], [source]] = [op.input("self"), op.input("value")] else {
            return Err("expected a parameter and its value".into());
        };
        let Some(item) = self.item(source, scope)? else { return Ok(()) };
        let Some(Bound::Tensor(mut reference)) = scope.get(target).cloned() else {
            return Err(format!("{} is not a tensor", quoted(target)).into());
        };
        let Item::Tensor(value) = item else {
            return Err(format!("{} is not a tensor", quoted(source)).into());
        };
        self.tensors.assign(&mut reference, value)?;
        scope.insert(target.clone(), Bound::Tensor(reference));
        Ok(())
    }

    /// Binds the outputs of an operator to its results, as tensors of their own.
    pub(super) fn bind(
        &mut self,
        block: usize,
        op: &'m Op,
        results: Vec<Value>,
        scope: &mut Scope<'m>,
    ) -> Outcome<()> {
        let names: Vec<&String> = op.outputs.iter().flat_map(|operand| &operand.args).collect();
        for (index, name) in names.into_iter().enumerate() {
            if name.is_empty() {
                continue;
            }
            // A result that is not supported, and that nothing may need.
            let Some(value) = results.get(index) else {
                scope.insert(name.clone(), Bound::Object);
                continue;
            };
            let own = if index == 0 { op.name.as_str() } else { "" };
            let value = self.named(block, name, own, value, op)?;
            let bound = match self.vars.get(block).and_then(|vars| vars.get(name.as_str())) {
                Some(Var { value: ValueType::Scalar(_), .. }) => Bound::Number(value),
                _ => Bound::Tensor(self.tensors.add(value, None)),
            };
            scope.insert(name.clone(), bound);
        }
        Ok(())
    }

    /// Gives a result its name, and what the program declares about it.
    fn named(
        &mut self,
        block: usize,
        name: &str,
        op_name: &str,
        value: &Value,
        op: &Op,
    ) -> Outcome {
        check_size(value)?;
        let value = self.declared(block, name, value);
        if !self.graph.is_made(&value) {
            return Ok(self.graph.current(&value));
        }
        // The same subgraph may be translated several times.
        let unique = if block == 0 { name.to_owned() } else { self.graph.names.fresh(name) };
        let op_name =
            if block == 0 && !op_name.is_empty() && op.name == op_name { op_name } else { "" };
        self.graph.name(&value, &unique, op_name)
    }

    /// Adds declared dims to a value of which they were not inferred.
    fn declared(&self, block: usize, name: &str, value: &Value) -> Value {
        let var = self.vars.get(block).and_then(|vars| vars.get(name));
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

    /// Records what became of an operator of the program; `before` is the number of operators that were emitted before.
    fn cover(&mut self, place: (usize, usize), op: &Op, before: usize, finding: Option<&Finding>) {
        let Some(covered) = &mut self.covered else { return };
        let opset = self.graph.opset_since(before).filter(|_| finding.is_none());
        let mut finding = finding.cloned();
        if finding.is_none() && !is_known(&op.kind) {
            finding = Some(unsupported(&op.kind));
        }
        let (kind, domain) = (op.kind.clone(), String::new());
        covered.insert(place, OperatorCoverage { domain, kind, place, opset, finding });
    }
}

/// The operator that assigns a tensor to a parameter.
const ASSIGNS: &str = "prim::SetAttr";

/// An operator without arguments, for values that no operator needs.
pub(super) static EMPTY: std::sync::LazyLock<Op> = std::sync::LazyLock::new(Op::default);

fn fail(op: &Op, scope: &mut Scope<'_>) {
    for name in op.writes() {
        scope.insert(name.to_owned(), Bound::Failed);
    }
    if is_written(&op.kind) {
        let first = op.inputs.first().and_then(|operand| operand.args.first());
        if let Some(name) = first {
            scope.insert(name.clone(), Bound::Failed);
        }
    }
}

fn is_known(kind: &str) -> bool {
    ["prim::Constant", ASSIGNS].contains(&kind)
        || families::rule(kind).is_some()
        || control::rule(kind).is_some()
        || script::rule(kind).is_some()
}

fn unsupported(kind: &str) -> Finding {
    let what = match operator(kind) {
        None if !kind.starts_with("aten::") => "the operator is not part of PyTorch",
        _ => "the operator is not supported",
    };
    Finding::new(Code::NoEquivalent, what)
}

fn place(block: usize, number: usize, op: &Op) -> String {
    match block {
        0 => place_of("the graph", number, op),
        _ => place_of(&format!("subgraph {block}"), number, op),
    }
}
