//! Writes a Glow program as a model: operators with their types, storage with its properties.

use std::collections::HashSet;

use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, Dialect, Dim, Model, Op, Operand, Parameter,
    Program, TensorType, Topology, ValueType, Var,
};
use lodstone_schema::glow::{Member, PREFIX, SAVE, Storage, Type};
use lodstone_schema::numbers::length;
use lodstone_schema::{Finding, Origin, Origins};

use crate::glow::kinds;

use super::graph::{Graph, MemberValue, Node, Source, Value};
use super::storage;
use super::walk::Walked;

/// The producer name: Glow's reader accepts operators as nodes only from this producer.
const PRODUCER: &str = "GlowONNXModelWriter";

/// The IR version that Glow's own tools write.
const IR_VERSION: i64 = 7;
const OPSET: i64 = 9;

/// Maps values to names.
struct Writer<'g> {
    graph: &'g Graph,
    ops: Vec<Op>,
}

/// An output and its placeholder.
pub(crate) struct Saved {
    /// The name of the output in the source program.
    pub(crate) original: String,
    /// The name of its placeholder.
    pub(crate) name: String,
    pub(crate) value: Value,
}

/// Writes a graph as a model, and returns the origins of the source's values.
///
/// # Errors
/// An internal error if a value that is written has no name: the walk reports what has no equivalent.
pub(crate) fn finish(model: &Model, walked: Walked) -> Result<(Model, Origins), Finding> {
    let Walked { mut graph, outputs: saved, named, constants, .. } = walked;
    let live = live(&graph, &saved);
    let declared = model.main().and_then(|program| program.blocks.first());
    let vars = declared.map_or(&[][..], |block| block.vars.as_slice());
    let mut main = Block { parent: -1, name: "glow".to_owned(), ..Block::default() };
    let mut saves = Vec::new();
    for Saved { original, name, value } in saved {
        let of = graph.type_of(value);
        let var = vars.iter().find(|var| var.name == original);
        let mut storage = storage::of_output(var, &of);
        let save = storage.save_name.unwrap_or_else(|| format!("{name}_save"));
        let save = graph.names.give(&save);
        storage.save_name = Some(save.clone());
        main.outputs.push(name.clone());
        main.vars.push(placeholder(&name, &original, &of, storage));
        saves.push((save, name, value));
    }
    let mut outputs = std::mem::take(&mut main.vars);
    let originals = declared.map_or(&[][..], |block| block.inputs.as_slice());
    let mut originals = originals.iter().filter(|name| model.parameter(name).is_none());
    for stored in &graph.placeholders {
        let original = originals.next().map_or(stored.name.as_str(), String::as_str);
        let of = graph.type_of(stored.value);
        main.inputs.push(stored.name.clone());
        main.vars.push(placeholder(&stored.name, original, &of, stored.storage.clone()));
    }
    main.vars.append(&mut outputs);
    let mut writer = Writer { graph: &graph, ops: Vec::new() };
    for number in order(&graph, &live) {
        if let Some(node) = graph.nodes.get(number) {
            writer.node(node)?;
        }
    }
    for (save, name, value) in saves {
        writer.save(save, name, value)?;
    }
    let mut origins = Origins::default();
    for (name, constant) in constants {
        origins.insert(0, &name, Origin::Folded(constant));
    }
    for (name, value) in &named {
        // A value without an equivalent that no node reads is removed.
        if !matches!(graph.source(*value), Source::Untranslated(_)) {
            origins.insert(0, name, Origin::Value(writer.name(*value)?.into()));
        }
    }
    main.ops = writer.ops;
    let used_constants = used_constants(&graph, &live, &main);
    let written: HashSet<&str> = main
        .ops
        .iter()
        .flat_map(Op::writes)
        .chain(main.inputs.iter().map(String::as_str))
        .collect();
    origins.retain(|name| written.contains(name) || used_constants.contains(name));
    let parameters =
        graph.constants.iter().filter(|constant| used_constants.contains(&constant.stored.name));
    let parameters = parameters.map(|constant| {
        let of = graph.type_of(constant.stored.value);
        let mut tensor = constant.tensor.clone();
        let text = typed(&constant.stored.storage, &of).to_text(true);
        tensor.doc_string = Some(Box::new(text.as_str().into()));
        tensor.residual = lodstone_model::Residual::default();
        Parameter { name: constant.stored.name.clone(), tensor }
    });
    let parameters = parameters.collect();
    graph.check()?;
    let program = Program::from(Topology {
        version: Some(IR_VERSION),
        operator_versions: vec![(String::new(), OPSET)],
        attributes: vec![text("producer_name", PRODUCER)],
        blocks: vec![main],
        ..Topology::new(Dialect::Glow)
    });
    let mut metadata = model.metadata.clone();
    kinds::take(&mut metadata);
    let made = Model {
        programs: program.into(),
        parameters,
        metadata,
        residual: lodstone_model::Residual::default(),
        ..model.clone()
    };
    Ok((made, origins))
}

/// Whether a node has side effects and is kept even if its results are unused.
pub(crate) fn acts(node: &Node) -> bool {
    node.results.is_empty()
        || node.kind.results.iter().all(|result| result.like.is_some()) && node.is_own
}

/// Returns which nodes the outputs depend on, including those with side effects.
pub(crate) fn live(graph: &Graph, saved: &[Saved]) -> Vec<bool> {
    let mut live = vec![false; graph.nodes.len()];
    let mut open: Vec<Value> = saved.iter().map(|saved| saved.value).collect();
    for (node, live) in graph.nodes.iter().zip(&mut live) {
        if acts(node) {
            *live = true;
            open.extend(node.reads());
        }
    }
    while let Some(value) = open.pop() {
        if let Source::Result(number, _) = graph.source(value)
            && let Some(seen) = live.get_mut(number)
            && !std::mem::replace(seen, true)
            && let Some(node) = graph.nodes.get(number)
        {
            open.extend(node.reads());
        }
    }
    live
}

/// Returns the live nodes in topological order: the order of creation, as far as possible.
fn order(graph: &Graph, live: &[bool]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut is_done = vec![false; graph.nodes.len()];
    let first = live.iter().enumerate().filter(|(_, live)| **live).map(|(number, _)| number);
    for number in first {
        // A node is visited again after its inputs.
        let mut open = vec![(number, false)];
        while let Some((number, is_ready)) = open.pop() {
            let (Some(done), Some(node)) = (is_done.get_mut(number), graph.nodes.get(number))
            else {
                continue;
            };
            if *done {
                continue;
            }
            if is_ready {
                *done = true;
                order.push(number);
                continue;
            }
            open.push((number, true));
            let makers = node.reads().filter_map(|value| match graph.source(value) {
                Source::Result(maker, _) => Some((maker, false)),
                _ => None,
            });
            open.extend(makers.filter(|(maker, _)| !is_done.get(*maker).is_some_and(|done| *done)));
        }
    }
    order
}

/// Returns the names of the constants that operators read.
fn used_constants(graph: &Graph, live: &[bool], main: &Block) -> HashSet<String> {
    let nodes = graph.nodes.iter().zip(live).filter(|(_, live)| **live);
    let read =
        nodes.flat_map(|(node, _)| node.reads()).filter_map(|value| match graph.source(value) {
            Source::Constant(number) => graph.constants.get(number).map(|c| c.stored.name.clone()),
            _ => None,
        });
    let saved = main.ops.iter().filter(|op| op.kind == SAVE).flat_map(Op::reads).map(str::to_owned);
    read.chain(saved).collect()
}

impl Writer<'_> {
    fn name(&self, value: Value) -> Result<String, Finding> {
        let graph = self.graph;
        let name = match graph.source(value) {
            Source::Placeholder(number) => graph.placeholders.get(number).map(|s| s.name.clone()),
            Source::Constant(number) => graph.constants.get(number).map(|c| c.stored.name.clone()),
            Source::Result(node, 0) => graph.nodes.get(node).map(|node| node.name.clone()),
            Source::Result(node, result) => {
                graph.nodes.get(node).map(|node| format!("{}:{result}", node.name))
            }
            Source::Untranslated(_) => None,
        };
        name.ok_or_else(|| Finding::internal("a value that is written has no name"))
    }

    fn node(&mut self, node: &Node) -> Result<(), Finding> {
        let mut attributes = Vec::new();
        let mut inputs: Vec<Value> = node.inputs.clone();
        for (_, value) in &node.members {
            if let MemberValue::Values(values) = value {
                inputs.extend(values);
            }
        }
        for (index, value) in inputs.iter().enumerate() {
            say_type(&mut attributes, &format!("i{index}"), &self.graph.type_of(*value));
        }
        for (index, value) in node.results.iter().enumerate() {
            say_type(&mut attributes, &format!("o{index}"), &self.graph.type_of(*value));
        }
        let mut position = node.inputs.len();
        for (name, value) in &node.members {
            if let MemberValue::Values(values) = value {
                attributes.push(long(&format!("{name}_Index"), position));
                attributes.push(long(&format!("{name}Size"), values.len()));
                position += values.len();
            }
        }
        for (name, member) in &node.kind.members {
            let value = node.members.iter().find(|(known, _)| known == name);
            if let Some((_, value)) = value {
                self.member(&mut attributes, name, *member, value)?;
            }
        }
        if let Some(predicate) = node.predicate {
            attributes.push(text("Predicate", &self.name(predicate)?));
        }
        attributes.extend(node.options.iter().cloned());
        let args = inputs.iter().map(|value| self.name(*value)).collect::<Result<_, _>>()?;
        let results = node.results.iter().map(|value| self.name(*value));
        let results = results.collect::<Result<_, _>>()?;
        self.ops.push(Op {
            name: node.name.clone(),
            kind: format!("{PREFIX}{}", node.kind.kind),
            inputs: vec![Operand { slot: String::new(), args }],
            outputs: vec![Operand { slot: String::new(), args: results }],
            attributes,
            ..Op::default()
        });
        Ok(())
    }

    fn member(
        &self,
        attributes: &mut Vec<Attribute>,
        name: &str,
        member: Member,
        member_value: &MemberValue,
    ) -> Result<(), Finding> {
        let value = match member_value {
            MemberValue::Float(number) => AttributeValue::Float(*number),
            MemberValue::Floats(numbers) => AttributeValue::Floats(numbers.clone()),
            MemberValue::Int(number) => AttributeValue::Long(*number),
            MemberValue::Ints(numbers) => AttributeValue::Longs(numbers.clone()),
            MemberValue::Text(text) => AttributeValue::String(text.as_str().into()),
            MemberValue::Values(values) => {
                let names = values.iter().map(|value| Ok(self.name(*value)?.as_str().into()));
                AttributeValue::Strings(names.collect::<Result<_, Finding>>()?)
            }
        };
        attributes.push(Attribute { name: name.to_owned(), value });
        if let (Member::Values, MemberValue::Values(values)) = (member, member_value) {
            for (index, value) in values.iter().enumerate() {
                say_type(attributes, &format!("{name}_i{index}"), &self.graph.type_of(*value));
            }
        }
        Ok(())
    }

    fn save(&mut self, save: String, name: String, value: Value) -> Result<(), Finding> {
        let of = self.graph.type_of(value);
        let mut attributes = Vec::new();
        say_type(&mut attributes, "i0", &of);
        // The placeholder is the second operand of a save node.
        say_type(&mut attributes, "o1", &of);
        self.ops.push(Op {
            name: save,
            kind: SAVE.to_owned(),
            inputs: vec![Operand { slot: String::new(), args: vec![self.name(value)?] }],
            outputs: vec![Operand { slot: String::new(), args: vec![name] }],
            attributes,
            ..Op::default()
        });
        Ok(())
    }
}

fn say_type(attributes: &mut Vec<Attribute>, of: &str, known: &Type) {
    attributes.push(text(&format!("{of}_elemKind"), known.kind.name()));
    let shape = AttributeValue::Longs(known.shape.clone());
    attributes.push(Attribute { name: format!("{of}_shape"), value: shape });
    if let Some(strides) = &known.strides {
        let value = AttributeValue::Longs(strides.clone());
        attributes.push(Attribute { name: format!("{of}_strides"), value });
    }
    if let Some((scale, offset)) = known.quantization {
        let value = AttributeValue::Float(scale);
        attributes.push(Attribute { name: format!("{of}_qScale"), value });
        let value = AttributeValue::Long(offset.into());
        attributes.push(Attribute { name: format!("{of}_qOffset"), value });
    }
}

/// Completes storage properties with those that follow from the type.
fn typed(storage: &Storage, of: &Type) -> Storage {
    Storage {
        layout: storage.layout.clone().or_else(|| Some("*".to_owned())),
        kind: Some(of.kind),
        strides: of.strides.clone(),
        quantization: of.quantization,
        ..storage.clone()
    }
}

fn placeholder(name: &str, original: &str, of: &Type, storage: Storage) -> Var {
    let loader_name = (name != original).then(|| original.replace('$', "_"));
    let storage = Storage {
        offline: storage.offline.or(Some(false)),
        trainable: storage.trainable.or(Some(false)),
        loader_name: storage.loader_name.clone().or(loader_name),
        ..typed(&storage, of)
    };
    let dim = |size: &i64| u64::try_from(*size).map_or(Dim::Unknown, Dim::Known);
    let shape = Some(of.shape.iter().map(dim).collect());
    let value = ValueType::tensor(TensorType::new(of.kind.dtype(), shape));
    let attributes = vec![text(Var::DOC_STRING, &storage.to_text(false))];
    Var { name: name.to_owned(), value, attributes, ..Var::default() }
}

fn text(name: &str, value: &str) -> Attribute {
    Attribute { name: name.to_owned(), value: AttributeValue::String(ByteString::from(value)) }
}

fn long(name: &str, value: usize) -> Attribute {
    Attribute { name: name.to_owned(), value: AttributeValue::Long(length(value)) }
}
