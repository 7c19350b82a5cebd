//! Glow's own operators as ONNX's.
//!
//! [`table`] has a decision for every kind of node: a function that says it in ONNX's operators, or why
//! there is none. What ONNX has no words for stays what it is, in a set of operators of Glow's own
//! ([`DOMAIN`]), which is a loss that has to be allowed; what contradicts itself is an error.
//!
//! Quantized graphs become what the field calls QDQ: values are raw integers, operators compute with what
//! `DequantizeLinear` makes of them, and `QuantizeLinear` makes integers again. What a placeholder or
//! a constant is in Glow stays in its text (`doc_string`), so that nothing of it is lost.
//!
//! Source of truth: what Glow's interpreter computes (commit 05dd99b9), and results that it gave.

mod conv;
mod elementwise;
mod gradient;
mod index;
mod linear;
mod loss;
mod moves;
mod node;
mod normalize;
mod pool;
mod quantize;
mod reduce;
mod segments;
mod signal;
mod sparse;
mod table;
mod vision;
mod window_gradient;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, DType, Dialect, Dim, Kind, Loss, Model, Op,
    Operand, Program, Report, Tensor, TensorType, ValueType, Var,
};
use lodstone_schema::Findings;
use lodstone_schema::glow::{
    CONSTANT_FOLDING, ElemKind, PREFIX, SAVE, STATIC_PLACEHOLDER, Storage, Type, node as node_kind,
};
use lodstone_schema::onnx::infer::ValueInfo;

use crate::onnx::{Graph, IR_VERSION, OPSET, Value};
use node::{Given, Node, Refusal, Wanted};
use table::{Decision, decision};

/// The set of operators that nodes keep which ONNX has no words for.
pub(crate) const DOMAIN: &str = "com.facebook.glow";

/// Who wrote the program that is made; Glow's name would tell its reader that it has Glow's operators.
const PRODUCER: &str = "lodstone";

/// The constants of a program, by name.
type Constants<'m> = HashMap<&'m str, &'m Tensor>;

pub(crate) fn to_onnx(model: &Model, report: &mut Report) -> Result<Model, Findings> {
    let mut findings = Findings::default();
    let Some(main) = model.program.as_ref().and_then(|program| program.blocks.first()) else {
        findings.add("the model", "expected a graph, found none");
        return Err(findings);
    };
    let mut work = Work::new(model, main, findings);
    work.storage();
    for number in work.order() {
        if let Some(op) = main.ops.get(number) {
            work.operator(number, op);
        }
    }
    work.outputs();
    if !work.findings.is_empty() {
        return Err(work.findings);
    }
    Ok(work.finish(report))
}

struct Work<'m> {
    model: &'m Model,
    main: &'m Block,
    constants: Constants<'m>,
    graph: Graph,
    /// Values of Glow that are there.
    values: HashMap<&'m str, Given>,
    /// Variables of the program that is made.
    vars: Vec<Var>,
    findings: Findings,
    losses: BTreeMap<Loss, Vec<String>>,
    /// The names of values that something reads.
    read: HashSet<String>,
    /// The names of values that are given.
    inputs: HashSet<&'m str>,
    /// Whether an operator stayed what it was.
    keeps: bool,
}

impl<'m> Work<'m> {
    fn new(model: &'m Model, main: &'m Block, findings: Findings) -> Self {
        let mut graph = Graph::default();
        let constants: Constants<'m> =
            model.parameters.iter().map(|p| (p.name.as_str(), &p.tensor)).collect();
        let operators = main.ops.iter().flat_map(|op| op.writes().chain([op.name.as_str()]));
        let values = main.inputs.iter().chain(&main.outputs).map(String::as_str);
        operators
            .chain(values)
            .chain(constants.keys().copied())
            .for_each(|name| graph.names.take(name));
        graph.names.take("");
        let (values, vars, losses) = Default::default();
        Self {
            model,
            main,
            constants,
            graph,
            values,
            vars,
            findings,
            losses,
            read: main.ops.iter().flat_map(reads).chain(main.outputs.iter().cloned()).collect(),
            inputs: main.inputs.iter().map(String::as_str).collect(),
            keeps: false,
        }
    }

    /// Takes in placeholders and constants.
    fn storage(&mut self) {
        let vars: HashMap<&str, &Var> =
            self.main.vars.iter().map(|var| (var.name.as_str(), var)).collect();
        for parameter in &self.model.parameters {
            let tensor = &parameter.tensor;
            let shape = tensor.shape.iter().map(|extent| i64::try_from(*extent).ok()).collect();
            let dense = matches!(tensor.kind, Kind::Dense | Kind::Absent);
            let found = (tensor.dtype, shape);
            match type_of(&tensor.attributes, dense.then_some(found)) {
                Ok(ty) => {
                    let value = Value::new(&parameter.name, ValueInfo::of(tensor));
                    self.values.insert(&parameter.name, Given { value, ty });
                }
                Err(what) => {
                    self.findings.add(format!("the constant `{}`", parameter.name), what);
                }
            }
        }
        let mut seen = HashSet::new();
        for name in &self.main.inputs {
            if !seen.insert(name) {
                self.findings.add("the graph", format!("`{name}` is an input again"));
            }
            if self.constants.contains_key(name.as_str()) {
                continue;
            }
            let var = vars.get(name.as_str());
            let found = var.and_then(|var| tensor_of(&var.value));
            let attributes = var.map_or(&[][..], |var| &var.attributes);
            match type_of(attributes, found) {
                Ok(ty) => {
                    let value = Value::new(name, info_of(&ty));
                    self.values.insert(name, Given { value, ty });
                }
                Err(what) => self.findings.add(format!("the variable `{name}`"), what),
            }
        }
        self.vars = self.main.vars.clone();
    }

    /// Tells outputs that nothing gives, unless it was told already what stands in the way.
    fn outputs(&mut self) {
        let mut seen = HashSet::new();
        for name in &self.main.outputs {
            if !seen.insert(name) {
                self.findings.add("the graph", format!("`{name}` is an output again"));
            }
            if self.findings.is_empty() && !self.values.contains_key(name.as_str()) {
                self.findings.add("the graph", format!("nothing gives the output `{name}`"));
            }
        }
    }

    /// The order in which operators have what they need; those that never have are told.
    fn order(&mut self) -> Vec<usize> {
        let mut writer: HashMap<&str, usize> = HashMap::new();
        for (number, op) in self.main.ops.iter().enumerate() {
            for name in op.writes().filter(|_| !is_fact(op)) {
                let is_storage = self.constants.contains_key(name) || self.inputs.contains(name);
                if is_storage || writer.insert(name, number).is_some() {
                    self.findings.add(place(number, op), format!("`{name}` is there already"));
                }
            }
        }
        // How many values an operator waits for, and who waits for a value.
        let mut waits = vec![0usize; self.main.ops.len()];
        let mut waiting: HashMap<usize, Vec<usize>> = HashMap::new();
        for (number, op) in self.main.ops.iter().enumerate() {
            if is_fact(op) {
                continue;
            }
            for name in reads(op) {
                if self.constants.contains_key(&*name) || self.inputs.contains(&*name) {
                    continue;
                }
                if let Some(writer) = writer.get(name.as_str()) {
                    waiting.entry(*writer).or_default().push(number);
                }
                // A value that nobody writes is never there.
                if let Some(waits) = waits.get_mut(number) {
                    *waits += 1;
                }
            }
        }
        let mut ready: BTreeSet<usize> =
            waits.iter().enumerate().filter(|(_, waits)| **waits == 0).map(|(n, _)| n).collect();
        let mut order = Vec::new();
        while let Some(number) = ready.pop_first() {
            order.push(number);
            for other in waiting.remove(&number).unwrap_or_default() {
                if let Some(waits) = waits.get_mut(other) {
                    *waits -= 1;
                    if *waits == 0 {
                        ready.insert(other);
                    }
                }
            }
        }
        for (number, waits) in waits.iter().enumerate() {
            if let Some(op) = self.main.ops.get(number).filter(|_| *waits > 0) {
                self.findings.add(place(number, op), "a value that it reads never is there");
            }
        }
        order
    }

    fn operator(&mut self, number: usize, op: &'m Op) {
        if is_fact(op) {
            self.lose(Loss::Hints, place(number, op));
            return;
        }
        for attribute in &op.attributes {
            let name = attribute.name.as_str();
            let is_hint = name.starts_with("NodeOpt_")
                || ["Predicate", "partitionName", "isIntermediateOutputForDAG"].contains(&name);
            if is_hint {
                self.lose(Loss::Hints, format!("{}: `{name}`", place(number, op)));
            }
        }
        let lowered = match op.kind.as_str() {
            SAVE => self.save(op),
            _ => self.node(number, op),
        };
        if let Err(what) = lowered {
            self.findings.add(place(number, op), what);
        }
    }

    /// A save node: its output is a placeholder.
    fn save(&mut self, op: &'m Op) -> Result<(), String> {
        let names = (op.input("").first(), op.output("").first());
        let (Some(input), Some(output)) = names else {
            return Err("expected an input and an output".to_owned());
        };
        let given = self.values.get(input.as_str()).cloned();
        let given = given.ok_or_else(|| format!("there is no value `{input}`"))?;
        self.graph.begin(&op.name);
        let value = self.graph.call("Identity", &[&given.value], [])?;
        let value = self.graph.name(&value, output, &op.name)?;
        if let Some(var) = self.vars.iter_mut().find(|var| var.name == *output) {
            var.value = value.value_type().clone();
        }
        self.values.insert(output, Given { value, ty: given.ty });
        Ok(())
    }

    /// A node of one of Glow's kinds.
    fn node(&mut self, number: usize, op: &'m Op) -> Result<(), String> {
        let kind = op.kind.strip_prefix(PREFIX).and_then(node_kind);
        let kind = kind.ok_or("Glow has no such operator")?;
        let mut inputs = Vec::new();
        for name in reads(op) {
            // What reads a value that was not understood is not told again.
            let Some(given) = self.values.get(name.as_str()) else { return Ok(()) };
            inputs.push(given.clone());
        }
        let results = op.output("").iter().enumerate();
        let wanted = results.map(|(index, name)| {
            let like = kind.results.get(index).and_then(|result| result.like);
            let like = like.and_then(|like| kind.inputs.iter().position(|input| *input == like));
            let ty = match like.and_then(|like| inputs.get(like)) {
                Some(input) => Ok(input.ty.clone()),
                None => Type::of(op, &format!("o{index}")),
            };
            Wanted { name: name.clone(), ty, given: None }
        });
        let wanted: Vec<Wanted> = wanted.collect();
        self.graph.begin(&op.name);
        let mut node = Node {
            graph: &mut self.graph,
            op,
            inputs: &inputs,
            wanted: wanted.clone(),
            read: &self.read,
        };
        let outcome = match decision(kind.kind) {
            Some(Decision::Rule(rule)) => rule(&mut node),
            Some(Decision::NoWords(why)) => node::no_words(why),
            None => node::no_words("nothing is known of it"),
        };
        let told = node.wanted;
        let wanted = match outcome {
            Ok(()) => told,
            Err(Refusal::Wrong(what)) => return Err(what),
            Err(Refusal::NoWords(why)) => {
                self.lose(Loss::CustomOperators, format!("{}: {why}", place(number, op)));
                self.graph.take_back();
                self.keep(op, wanted)?
            }
        };
        for (name, wanted) in op.output("").iter().zip(wanted) {
            match wanted.given {
                Some(given) => drop(self.values.insert(name, given)),
                // What nothing reads need not be computed.
                None if !self.read.contains(name) => {}
                None => return Err(format!("the result `{name}` is not told")),
            }
        }
        Ok(())
    }

    /// Keeps an operator as it is.
    fn keep(&mut self, op: &Op, wanted: Vec<Wanted>) -> Result<Vec<Wanted>, String> {
        use AttributeValue as A;
        self.keeps = true;
        let is_said = |value: &A| {
            matches!(
                value,
                A::Long(_)
                    | A::Longs(_)
                    | A::Float(_)
                    | A::Floats(_)
                    | A::String(_)
                    | A::Strings(_)
            )
        };
        if let Some(other) = op.attributes.iter().find(|attribute| !is_said(&attribute.value)) {
            return Err(format!("the attribute `{}` is of a type that no node has", other.name));
        }
        let args = reads(op).into_iter();
        let args =
            args.filter_map(|name| Some(self.values.get(name.as_str())?.value.name().into()));
        let kept = Op {
            dialect: Dialect::Onnx,
            domain: DOMAIN.to_owned(),
            kind: op.kind.strip_prefix(PREFIX).unwrap_or(&op.kind).to_owned(),
            inputs: vec![Operand { slot: String::new(), args: args.collect() }],
            ..op.clone()
        };
        self.graph.ops.push(Op { residual: Default::default(), ..kept });
        let mut told = Vec::new();
        for wanted in wanted {
            let ty = wanted.ty.clone()?;
            let info = info_of(&ty);
            self.vars.push(Var {
                name: wanted.name.clone(),
                value: info.value.clone(),
                ..Var::default()
            });
            let value = Value::new(&wanted.name, info);
            told.push(Wanted { given: Some(Given { value, ty }), ..wanted });
        }
        Ok(told)
    }

    fn lose(&mut self, loss: Loss, place: String) {
        self.losses.entry(loss).or_default().push(place);
    }

    fn finish(mut self, report: &mut Report) -> Model {
        let metadata = self.model.metadata.iter().filter(|(key, _)| {
            let is_partition = *key == "numPartitions" || key.starts_with("partition_");
            if is_partition {
                self.losses.entry(Loss::Hints).or_default().push(format!("`{key}`"));
            }
            !is_partition
        });
        let metadata = metadata.map(|(key, value)| (key.clone(), value.clone())).collect();
        for (loss, places) in self.losses {
            places.into_iter().for_each(|place| report.lose(loss, place));
        }
        let (ops, outputs) = (unsaved(self.graph.ops, &self.main.outputs), &self.main.outputs);
        let read: HashSet<&str> =
            ops.iter().flat_map(Op::reads).chain(outputs.iter().map(String::as_str)).collect();
        let was_read: HashSet<&str> = self.main.ops.iter().flat_map(Op::reads).collect();
        let is_needed = |name: &str| read.contains(name) || !was_read.contains(name);
        let kept = self.model.parameters.iter().filter(|p| is_needed(&p.name)).cloned();
        let made = self.graph.constants.into_iter().filter(|p| read.contains(p.name.as_str()));
        let parameters: Vec<_> = kept.chain(made).collect();
        // Variables of constants that are gone, and of values that are gone, go.
        let names: HashSet<&str> = (parameters.iter().map(|p| p.name.as_str()))
            .chain(ops.iter().flat_map(Op::writes))
            .chain(self.main.inputs.iter().map(String::as_str))
            .collect();
        self.vars.retain(|var| names.contains(var.name.as_str()));
        let text = |value: &str| AttributeValue::String(ByteString::from(value));
        let producer = Attribute { name: "producer_name".to_owned(), value: text(PRODUCER) };
        let mut operator_versions = vec![(String::new(), OPSET)];
        operator_versions.extend(self.keeps.then(|| (DOMAIN.to_owned(), 1)));
        let main = Block {
            vars: self.vars,
            inputs: self.main.inputs.clone(),
            outputs: self.main.outputs.clone(),
            name: self.main.name.clone(),
            parent: self.main.parent,
            ops,
            ..Block::default()
        };
        let program = Program {
            dialect: Dialect::Onnx,
            version: Some(IR_VERSION),
            operator_versions,
            attributes: vec![producer],
            blocks: vec![main],
            ..Program::default()
        };
        Model {
            format: self.model.format.clone(),
            program: Some(program),
            parameters,
            metadata,
            files: self.model.files.clone(),
            checksums: self.model.checksums.clone(),
            ..Model::default()
        }
    }
}

/// Leaves out copies that only give a value the name of an output: its writer can give it that name.
fn unsaved(ops: Vec<Op>, outputs: &[String]) -> Vec<Op> {
    let outputs: HashSet<&str> = outputs.iter().map(String::as_str).collect();
    let written: HashSet<&str> = ops.iter().flat_map(Op::writes).collect();
    let mut names: HashMap<String, String> = HashMap::new();
    let mut gone = HashSet::new();
    for (number, op) in ops.iter().enumerate() {
        let (Some(from), Some(to)) = (op.input("").first(), op.output("").first()) else {
            continue;
        };
        let is_save = op.kind == SAVE && op.domain.is_empty() && outputs.contains(to.as_str());
        let is_free = written.contains(from.as_str())
            && !outputs.contains(from.as_str())
            && !names.contains_key(from);
        if is_save && is_free {
            names.insert(from.clone(), to.clone());
            gone.insert(number);
        }
    }
    let kept = ops.iter().enumerate().filter(|(number, _)| !gone.contains(number));
    let mut kept: Vec<Op> = kept.map(|(_, op)| op.clone()).collect();
    for op in &mut kept {
        let operands = op.inputs.iter_mut().chain(&mut op.outputs);
        for name in operands.flat_map(|operand| &mut operand.args) {
            if let Some(new) = names.get(name) {
                name.clone_from(new);
            }
        }
    }
    kept
}

/// Whether an operator only says how the program came to be.
fn is_fact(op: &Op) -> bool {
    [CONSTANT_FOLDING, STATIC_PLACEHOLDER].contains(&op.kind.as_str())
}

/// The values that Glow reads for an operator: those of inputs by position, those of a member by its
/// names.
fn reads(op: &Op) -> Vec<String> {
    let by_position = op.input("");
    let Some(kind) = op.kind.strip_prefix(PREFIX).and_then(node_kind) else {
        return by_position.iter().filter(|name| !name.is_empty()).cloned().collect();
    };
    let mut names: Vec<String> = by_position.iter().take(kind.inputs.len()).cloned().collect();
    for (member, _) in &kind.members {
        if let Some(AttributeValue::Strings(values)) = op.attribute(member) {
            names.extend(values.iter().map(ToString::to_string));
        }
    }
    names
}

/// Where an operator is: "the graph, operator 3 (`Glow_Splat` `splat`)".
fn place(number: usize, op: &Op) -> String {
    let short = |name: &str| name.chars().take(100).collect::<String>();
    format!("the graph, operator {number} (`{}` `{}`)", short(&op.kind), short(&op.name))
}

/// What a value of a type of Glow is in ONNX.
fn info_of(ty: &Type) -> ValueInfo {
    let dims =
        ty.shape.iter().map(|extent| u64::try_from(*extent).map_or(Dim::Unknown, Dim::Known));
    ValueInfo::tensor(ty.kind.dtype(), Some(dims.collect()))
}

/// The type of elements and the extents of a tensor.
fn tensor_of(value: &ValueType) -> Option<(DType, Option<Vec<i64>>)> {
    let TensorType { dtype, shape, .. } = value.tensors.first()?;
    let extent = |dim: &Dim| match dim {
        Dim::Known(extent) => i64::try_from(*extent).ok(),
        _ => None,
    };
    Some((*dtype, shape.as_ref()?.iter().map(extent).collect()))
}

/// The type of a placeholder or a constant, by its text and what it is declared to be.
fn type_of(
    attributes: &[Attribute],
    found: Option<(DType, Option<Vec<i64>>)>,
) -> Result<Type, String> {
    let Some((dtype, Some(shape))) = found else {
        return Err("expected a dense tensor whose extents are known".to_owned());
    };
    let text = attributes.iter().find(|attribute| attribute.name == "doc_string");
    let storage = match text.map(|text| &text.value) {
        Some(AttributeValue::String(text)) => Storage::parse(&text.to_string())?,
        _ => Storage::default(),
    };
    let kind = storage.kind.or_else(|| plain(dtype));
    let kind = kind.ok_or_else(|| format!("nothing says what its {dtype} stand for"))?;
    if kind.dtype() != dtype {
        let (name, expected) = (kind.name(), kind.dtype());
        return Err(format!("expected {expected} elements for `{name}`, found {dtype}"));
    }
    if kind.is_quantized() && storage.quantization.is_none() {
        return Err("expected `$qScale` and `$qOffset` in its text, found none".to_owned());
    }
    let quantization = storage.quantization.filter(|_| kind.is_quantized());
    Ok(Type { kind, shape, strides: None, quantization })
}

/// The type of Glow that elements have if nothing else is said.
fn plain(dtype: DType) -> Option<ElemKind> {
    Some(match dtype {
        DType::Float32 => ElemKind::Float,
        DType::Float16 => ElemKind::Float16,
        DType::BFloat16 => ElemKind::BFloat16,
        DType::Float64 => ElemKind::Float64,
        DType::Int32 => ElemKind::Int32I,
        DType::Int64 => ElemKind::Int64I,
        DType::Bool => ElemKind::Bool,
        _ => return None,
    })
}
