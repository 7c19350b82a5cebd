//! Drawings of programs: as text, for Graphviz, and for Mermaid.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::{self, Write};

use lodstone_model::{Attribute, Block, Model, Op, Program, TensorType};
use lodstone_schema::{Conventions, conventions};

use crate::error::no_program;
use crate::wiring::{Node, Use, Wiring};
use crate::words::{self, cut};
use crate::{Error, Result};

/// The notation of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphFormat {
    /// Text with one line per operator, block by block.
    Text,
    /// The language of Graphviz, for `dot`.
    Dot,
    /// A Mermaid flowchart.
    Mermaid,
}

/// Writes the program of a model as a graph of at most `limit` operators.
///
/// # Errors
/// If the model has no program, the program is larger, or writing fails.
pub fn write_graph(
    model: &Model,
    format: GraphFormat,
    limit: usize,
    out: &mut impl Write,
) -> Result<()> {
    let Some(program) = model.main() else {
        return Err(no_program(model));
    };
    let count = program.ops().count();
    if count > limit {
        return Err(Error::TooLarge { operators: count, limit });
    }
    let drawing = Drawing::new(model, program)?;
    match format {
        GraphFormat::Text => drawing.text(out),
        GraphFormat::Dot => drawing.dot(out),
        GraphFormat::Mermaid => drawing.mermaid(out),
    }
    .map_err(Error::Output)
}

struct Drawing<'a> {
    program: &'a Program,
    wiring: Wiring<'a>,
    types: HashMap<&'a str, &'a TensorType>,
    parameters: HashMap<&'a str, &'a [u64]>,
    interface: (Vec<&'a str>, Vec<&'a str>),
    conventions: &'static Conventions,
}

impl<'a> Drawing<'a> {
    fn new(model: &'a Model, program: &'a Program) -> Result<Self> {
        let conventions = conventions(program);
        let vars = program.vars().filter_map(|v| Some((v.name.as_str(), v.value.tensor_type()?)));
        let named = model.parameters.iter();
        let named = named.map(|p| ((conventions.variable_of)(&p.name), p.tensor.shape.as_slice()));
        let interface = (conventions.interface)(program);
        Ok(Self {
            program,
            wiring: Wiring::new(program).map_err(Error::Internal)?,
            types: vars.collect(),
            parameters: named.collect(),
            interface: (interface.inputs, interface.outputs),
            conventions,
        })
    }

    /// Returns the type of a value, such as `float32[2, 3]`, if it is known.
    fn type_of(&self, name: &str) -> String {
        match (self.parameters.get(name), self.types.get(name)) {
            (Some(shape), _) => format!("{shape:?}"),
            (None, Some(declared)) => declared.to_string(),
            (None, None) => String::new(),
        }
    }

    /// Returns the attributes of an operator, abbreviated.
    fn constants(&self, op: &Op) -> String {
        let counts = |attribute: &&Attribute| {
            let name = attribute.name.as_str();
            Some(name) != self.conventions.source && (self.conventions.is_semantic)(name)
        };
        let constants = op.attributes.iter().filter(counts).map(|attribute| {
            format!("{}={}", attribute.name, cut(&words::constant(&attribute.value)))
        });
        constants.collect::<Vec<_>>().join(" ")
    }

    fn text(&self, out: &mut impl Write) -> io::Result<()> {
        let mut seen = HashSet::new();
        for root in 0..self.program.blocks.len() {
            if !seen.insert(root) {
                continue;
            }
            let mut open = vec![(root, 0, 0)];
            while let Some((block, next, level)) = open.pop() {
                if next == 0 {
                    self.head(block, level, out)?;
                }
                let Some(op) = self.block(block).and_then(|block| block.ops.get(next)) else {
                    continue;
                };
                open.push((block, next + 1, level));
                self.line(op, next, level + 1, out)?;
                // Blocks are written from the end of the stack: the first inner block is pushed last.
                let inner = op.blocks().filter_map(|inner| usize::try_from(inner).ok());
                let new = |inner: &usize| *inner < self.program.blocks.len() && seen.insert(*inner);
                let inner: Vec<usize> = inner.filter(new).collect();
                open.extend(inner.into_iter().rev().map(|inner| (inner, 0, level + 1)));
            }
        }
        Ok(())
    }

    fn block(&self, number: usize) -> Option<&'a Block> {
        self.program.blocks.get(number)
    }

    fn head(&self, number: usize, level: usize, out: &mut impl Write) -> io::Result<()> {
        let Some(block) = self.block(number) else { return Ok(()) };
        let name = if block.name.is_empty() { String::new() } else { format!(" `{}`", block.name) };
        let typed = |name: &&str| format!("{name} {}", self.type_of(name)).trim_end().to_owned();
        let (inputs, outputs) = match number {
            0 => (self.interface.0.clone(), self.interface.1.clone()),
            _ => (
                block.inputs.iter().map(String::as_str).collect(),
                block.outputs.iter().map(String::as_str).collect(),
            ),
        };
        let list = |names: &[&str]| names.iter().map(typed).collect::<Vec<_>>().join(", ");
        let indent = level * 2;
        let (inputs, outputs) = (list(&inputs), list(&outputs));
        let line = format!("{:indent$}block {number}{name}({inputs}) -> ({outputs})", "");
        writeln!(out, "{}", in_one_line(&line))
    }

    fn line(&self, op: &Op, number: usize, level: usize, out: &mut impl Write) -> io::Result<()> {
        let operand = |operand: &lodstone_model::Operand| {
            let names: Vec<String> = operand
                .args
                .iter()
                .map(|name| match self.parameters.get(name.as_str()) {
                    Some(shape) => format!("{name} {shape:?}"),
                    None if name.is_empty() => "-".to_owned(),
                    None => name.clone(),
                })
                .collect();
            let slot =
                if operand.slot.is_empty() { String::new() } else { operand.slot.clone() + "=" };
            slot + &names.join(", ")
        };
        let there = op.inputs.iter().filter(|operand| !operand.args.is_empty());
        let inputs: Vec<_> = there.map(operand).collect();
        let outputs: Vec<_> = op
            .writes()
            .map(|name| format!("{name} {}", self.type_of(name)).trim_end().to_owned())
            .collect();
        let name = if op.name.is_empty() { String::new() } else { format!(" `{}`", op.name) };
        let indent = level * 2;
        let constants = self.constants(op);
        let constants =
            if constants.is_empty() { String::new() } else { format!("  {{{constants}}}") };
        let (kind, inputs) = (&op.kind, inputs.join(" "));
        let outputs =
            if outputs.is_empty() { String::new() } else { format!(" -> {}", outputs.join(", ")) };
        let line = format!("{:indent$}{number}  {kind}{name}({inputs}){outputs}{constants}", "");
        writeln!(out, "{}", in_one_line(&line))
    }

    /// Returns the label of a box: the operator and its parameters.
    fn label(&self, node: &Node<'_>) -> Vec<String> {
        let mut lines = vec![node.op.kind.clone()];
        lines.extend((!node.op.name.is_empty()).then(|| cut(&node.op.name)));
        for read in node.reads.iter().flat_map(|(_, uses)| uses) {
            if let Use::Outer(name) = read
                && let Some(shape) = self.parameters.get(name)
            {
                lines.push(format!("{} {shape:?}", cut(name)));
            }
        }
        lines
    }

    /// Returns the arrows: source, target and value.
    fn arrows(&self) -> Vec<(String, String, String)> {
        let mut arrows = Vec::new();
        let numbers = |names: &[&'a str]| -> HashMap<&'a str, usize> {
            names.iter().enumerate().rev().map(|(number, name)| (*name, number)).collect()
        };
        let (inputs, outputs) = (numbers(&self.interface.0), numbers(&self.interface.1));
        let label = |name: &str| cut(&self.type_of(name));
        let output = |node: usize, (slot, index): (usize, usize)| {
            let node = self.wiring.nodes.get(node)?;
            node.op.outputs.get(slot)?.args.get(index).map(String::as_str)
        };
        let mut fed = HashSet::new();
        for (number, node) in self.wiring.nodes.iter().enumerate() {
            // An operator that writes an input feeds it.
            for name in node.op.writes().filter(|name| node.block == 0 && fed.insert(*name)) {
                if let Some(input) =
                    inputs.get(name).filter(|_| !node.op.reads().any(|n| n == name))
                {
                    arrows.push((format!("in{input}"), format!("op{number}"), label(name)));
                }
            }
            for read in node.reads.iter().flat_map(|(_, uses)| uses) {
                match read {
                    Use::Value(from, place) => {
                        let label = output(*from, *place).map(label);
                        let (from, to) = (format!("op{from}"), format!("op{number}"));
                        arrows.push((from, to, label.unwrap_or_default()));
                    }
                    Use::Outer(name) => {
                        if let Some(input) = inputs.get(name) {
                            let (from, to) = (format!("in{input}"), format!("op{number}"));
                            arrows.push((from, to, label(name)));
                        }
                    }
                    Use::Nothing => {}
                }
            }
            for name in node.op.writes().filter(|_| node.block == 0) {
                if let Some(output) = outputs.get(name) {
                    let (from, to) = (format!("op{number}"), format!("out{output}"));
                    arrows.push((from, to, label(name)));
                }
            }
        }
        arrows
    }

    fn ends(&self) -> impl Iterator<Item = (String, &'a str)> + '_ {
        let inputs = self.interface.0.iter().enumerate().map(|(n, name)| (format!("in{n}"), *name));
        let outputs = self.interface.1.iter().enumerate();
        inputs.chain(outputs.map(|(n, name)| (format!("out{n}"), *name)))
    }

    fn dot(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "digraph model {{\n  node [shape=box];")?;
        for (id, name) in self.ends() {
            writeln!(out, "  {id} [shape=ellipse, label={}];", dot_text(&[cut(name)]))?;
        }
        for (block, contents) in self.program.blocks.iter().enumerate() {
            let name = if block == 0 { String::new() } else { format!("block {block}") };
            let name = if contents.name.is_empty() { name } else { cut(&contents.name) };
            writeln!(out, "  subgraph cluster_{block} {{\n    label={};", dot_text(&[name]))?;
            for (number, node) in self.wiring.nodes.iter().enumerate() {
                if node.block == block {
                    writeln!(out, "    op{number} [label={}];", dot_text(&self.label(node)))?;
                }
            }
            writeln!(out, "  }}")?;
        }
        for (from, to, label) in self.arrows() {
            writeln!(out, "  {from} -> {to} [label={}];", dot_text(&[label]))?;
        }
        writeln!(out, "}}")
    }

    fn mermaid(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "flowchart TD")?;
        for (id, name) in self.ends() {
            writeln!(out, "  {id}([{}])", mermaid_text(&[cut(name)]))?;
        }
        for (block, contents) in self.program.blocks.iter().enumerate() {
            let name = if contents.name.is_empty() {
                format!("block {block}")
            } else {
                cut(&contents.name)
            };
            writeln!(out, "  subgraph block{block} [{}]", mermaid_text(&[name]))?;
            for (number, node) in self.wiring.nodes.iter().enumerate() {
                if node.block == block {
                    writeln!(out, "    op{number}[{}]", mermaid_text(&self.label(node)))?;
                }
            }
            writeln!(out, "  end")?;
        }
        for (from, to, label) in self.arrows() {
            match label.is_empty() {
                true => writeln!(out, "  {from} --> {to}")?,
                false => writeln!(out, "  {from} -->|{}| {to}", mermaid_text(&[label]))?,
            }
        }
        Ok(())
    }
}

/// Escapes text to a single line: a name with a line break would be read as another operator.
fn in_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

/// Quotes text for Graphviz: quotes and backslashes are escaped, other characters are literal.
fn dot_text(lines: &[String]) -> String {
    let escaped = |line: &String| {
        let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        line.replace('\\', "\\\\").replace('"', "\\\"")
    };
    format!("\"{}\"", lines.iter().map(escaped).collect::<Vec<_>>().join("\\n"))
}

/// Quotes text for Mermaid: every character that could be special becomes a numeric entity.
fn mermaid_text(lines: &[String]) -> String {
    let mut text = String::from("\"");
    for (number, line) in lines.iter().enumerate() {
        text += if number > 0 { "<br/>" } else { "" };
        for c in line.chars() {
            match c {
                c if c.is_alphanumeric() || " _-./:,[]()".contains(c) => text.push(c),
                c if c.is_control() => text.push(' '),
                c => drop(write!(text, "#{};", u32::from(c))),
            }
        }
    }
    text + "\""
}
