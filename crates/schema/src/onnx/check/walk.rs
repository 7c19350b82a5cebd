//! Through a block and those inside it, in the order in which they run.
//!
//! Each value is written once, before it is read. A block sees the names of the blocks around it, as far
//! as they are known where it stands; no operator may write one of them again. A function sees nothing
//! but its inputs.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use lodstone_model::{Block, Function, Limits, Op, Parameter, ValueType, Var};

use super::{Checked, Imports, introduced, node, quoted, types, values};
use crate::{Finding, Findings};

/// A type by the name that ONNX has for it.
pub(super) type TypeName<'m> = Cow<'m, str>;

/// Blocks that are open, and what is known in them.
pub(super) struct Walk<'m> {
    pub(super) checked: Checked<'m>,
    pub(super) imports: Imports<'m>,
    /// The function that is being checked, if it is one.
    pub(super) function: Option<&'m Function>,
    frames: Vec<Frame<'m>>,
    /// Names that are known, each with the depth and the type of those that it is known at.
    names: HashMap<&'m str, Vec<(usize, Option<TypeName<'m>>)>>,
    /// Blocks that were entered: each is inside one other, or the walk would not end.
    entered: HashSet<i32>,
}

/// A block that is open.
struct Frame<'m> {
    block: &'m Block,
    place: String,
    /// The types of its values, as far as they are declared.
    declared: HashMap<&'m str, &'m ValueType>,
    inferred: Option<&'m HashMap<String, ValueType>>,
    /// Names that it made known.
    known: Vec<&'m str>,
    /// The operator that is next.
    next: usize,
    /// Blocks of the operator before it that are still to be entered, the first one last.
    inside: Vec<(&'m str, i32)>,
}

impl<'m> Walk<'m> {
    pub(super) fn new(
        checked: Checked<'m>,
        imports: Imports<'m>,
        function: Option<&'m Function>,
    ) -> Self {
        let (names, entered) = (HashMap::new(), HashSet::new());
        Self { checked, imports, function, frames: Vec::new(), names, entered }
    }

    /// Checks a block and all that are inside it.
    pub(super) fn block(&mut self, number: i32, place: &str, findings: &mut Findings) {
        self.enter(number, place.to_owned(), findings);
        while let Some(frame) = self.frames.last_mut() {
            let op = frame.next.checked_sub(1).and_then(|last| frame.block.ops.get(last));
            if let (Some((attribute, number)), Some(op)) = (frame.inside.pop(), op) {
                let place = format!("{}, {}", self.place_of(op), quoted(attribute));
                self.enter(number, place, findings);
                continue;
            }
            // What an operator writes is not seen by the blocks inside it.
            if let Some(op) = op {
                self.write(op, findings);
            }
            let Some(frame) = self.frames.last_mut() else { break };
            match frame.block.ops.get(frame.next) {
                Some(op) => {
                    frame.next += 1;
                    frame.inside = inside(op);
                    self.read(op, findings);
                }
                None => self.leave(findings),
            }
        }
    }

    /// Whether values say in full what they are: those of the main graph do.
    fn is_main(&self) -> bool {
        self.frames.len() == 1 && self.function.is_none()
    }

    /// What an operator is called: "the graph, operator 3 (`Conv` `conv1`)".
    pub(super) fn place_of(&self, op: &Op) -> String {
        let Some(frame) = self.frames.last() else { return String::new() };
        super::super::place_of(&frame.place, frame.next.saturating_sub(1), op)
    }

    fn enter(&mut self, number: i32, place: String, findings: &mut Findings) {
        let program = self.checked.program;
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(block) = program.blocks.get(index) else {
            return findings.add(place, format!("is block {number}, which is not there"));
        };
        if !self.entered.insert(number) {
            return findings.add(place, format!("is block {number}, which is elsewhere too"));
        }
        let deepest = Limits::default().depth;
        if self.frames.len() >= deepest {
            return findings.add(place, format!("is inside more than {deepest} others"));
        }
        let is_function = self.function.is_some() && self.frames.is_empty();
        self.frames.push(Frame {
            block,
            place,
            declared: block.vars.iter().map(|var| (var.name.as_str(), &var.value)).collect(),
            inferred: self.checked.inferred.get(index),
            known: Vec::new(),
            next: 0,
            inside: Vec::new(),
        });
        if !is_function && block.name.is_empty() {
            self.add("has no name", findings);
        }
        if self.is_main() && block.outputs.is_empty() {
            self.add("has no outputs", findings);
        }
        let initializers = if number == 0 { self.checked.parameters } else { &block.initializers };
        if !is_function {
            self.values(block, findings);
        }
        self.inputs(block, findings);
        self.initializers(initializers, findings);
    }

    fn add(&self, wrong: impl Into<Finding>, findings: &mut Findings) {
        if let Some(frame) = self.frames.last() {
            findings.add(frame.place.as_str(), wrong);
        }
    }

    fn add_at(&self, at: &str, wrong: impl Into<Finding>, findings: &mut Findings) {
        if let Some(frame) = self.frames.last() {
            findings.add(format!("{}, {at}", frame.place), wrong);
        }
    }

    /// What inputs and outputs say of themselves.
    fn values(&self, block: &'m Block, findings: &mut Findings) {
        let vars: HashMap<&str, &Var> =
            block.vars.iter().map(|var| (var.name.as_str(), var)).collect();
        for (what, names) in [("input", &block.inputs), ("output", &block.outputs)] {
            for (number, name) in names.iter().enumerate() {
                let at = || format!("{what} {number} ({})", quoted(name));
                if name.is_empty() {
                    self.add_at(&format!("{what} {number}"), "has no name", findings);
                }
                if self.is_main()
                    && let Some(wrong) = values::incomplete(vars.get(name.as_str()).copied())
                {
                    self.add_at(&at(), wrong, findings);
                }
            }
        }
    }

    fn inputs(&mut self, block: &'m Block, findings: &mut Findings) {
        for (number, name) in block.inputs.iter().enumerate() {
            if self.is_known_here(name) {
                let at = format!("input {number} ({})", quoted(name));
                self.add_at(&at, "has the name of an input before it", findings);
            }
            self.make_known(name, None);
        }
    }

    fn initializers(&mut self, initializers: &'m [Parameter], findings: &mut Findings) {
        let mut seen = HashSet::new();
        let is_free = self.checked.ir_version >= introduced::FREE_INITIALIZERS;
        for (number, Parameter { name, tensor }) in initializers.iter().enumerate() {
            let sparse = values::is_sparse(tensor);
            let what = if sparse { "sparse initializer" } else { "initializer" };
            let at = || format!("{what} {number} ({})", quoted(name));
            if name.is_empty() {
                self.add_at(&format!("{what} {number}"), "has no name", findings);
            } else if !seen.insert(name.as_str()) {
                self.add_at(&at(), "has the name of an initializer before it", findings);
            }
            if let Some(wrong) = values::broken(tensor) {
                self.add_at(&at(), wrong, findings);
            }
            if !is_free && !sparse && !self.is_known_here(name) {
                let version = self.checked.ir_version;
                let what = format!("is no input, which IR version {version} asks for");
                self.add_at(&at(), what, findings);
            }
            self.make_known(name, types::of_tensor(tensor));
        }
    }

    /// Checks an operator, and that what it reads is there.
    fn read(&mut self, op: &'m Op, findings: &mut Findings) {
        let inputs = op.inputs.iter().flat_map(|operand| &operand.args).enumerate();
        for (number, name) in inputs.filter(|(_, name)| !name.is_empty()) {
            if !self.names.contains_key(name.as_str()) {
                let place = format!("{}, input {number}", self.place_of(op));
                let wrong = format!("reads {}, which nothing before it writes", quoted(name));
                findings.add(place, Finding::from(wrong).about_input(number));
            }
        }
        node::check(self, op, findings);
    }

    /// Makes known what an operator writes.
    fn write(&mut self, op: &'m Op, findings: &mut Findings) {
        let written = types::written(self, op);
        let outputs = op.outputs.iter().flat_map(|operand| &operand.args).enumerate();
        for (number, name) in outputs.filter(|(_, name)| !name.is_empty()) {
            if self.names.contains_key(name.as_str()) {
                let place = format!("{}, output {number}", self.place_of(op));
                let wrong = format!("writes {}, which is there already", quoted(name));
                findings.add(place, Finding::from(wrong).about_output(number));
            }
            self.make_known(name, written.get(&number).cloned());
        }
    }

    fn leave(&mut self, findings: &mut Findings) {
        debug_assert!(!self.frames.is_empty(), "a block is open");
        let Some(frame) = self.frames.last() else { return };
        for (number, name) in frame.block.outputs.iter().enumerate() {
            if !self.is_known_here(name) {
                let at = format!("output {number} ({})", quoted(name));
                self.add_at(&at, "is written by none of its operators", findings);
            }
        }
        for name in self.frames.pop().iter().flat_map(|frame| &frame.known) {
            if let Some(depths) = self.names.get_mut(name) {
                depths.pop();
                if depths.is_empty() {
                    self.names.remove(name);
                }
            }
        }
    }

    fn is_known_here(&self, name: &str) -> bool {
        let depths = self.names.get(name);
        depths.and_then(|depths| depths.last()).is_some_and(|(at, _)| *at == self.frames.len())
    }

    /// Makes a name known in the block that is open, with the type that it is declared to be of, or was
    /// inferred, or is of otherwise.
    fn make_known(&mut self, name: &'m str, otherwise: Option<TypeName<'m>>) {
        let known_here = self.is_known_here(name);
        let depth = self.frames.len();
        debug_assert!(!self.frames.is_empty(), "a block is open");
        let Some(frame) = self.frames.last_mut() else { return };
        let inferred = || frame.inferred.and_then(|inferred| inferred.get(name));
        let declared = frame.declared.get(name).and_then(|value| types::of_value(value));
        let value = declared.or_else(|| inferred().and_then(types::of_value)).or(otherwise);
        let depths = self.names.entry(name).or_default();
        match depths.last_mut().filter(|_| known_here) {
            Some((_, known)) => {
                if known.is_none() {
                    *known = value;
                }
            }
            None => {
                depths.push((depth, value));
                frame.known.push(name);
            }
        }
    }

    /// The type of a value that is known.
    pub(super) fn type_of(&self, name: &str) -> Option<&TypeName<'m>> {
        self.names.get(name)?.last()?.1.as_ref()
    }

    /// The type that a value is declared to be of in the block that is open, or was inferred.
    pub(super) fn declared(&self, name: &str) -> Option<TypeName<'m>> {
        let frame = self.frames.last()?;
        let inferred = || frame.inferred.and_then(|inferred| inferred.get(name));
        let declared = frame.declared.get(name).and_then(|value| types::of_value(value));
        declared.or_else(|| inferred().and_then(types::of_value))
    }
}

/// The blocks of an operator with the attributes that they are, the first one last.
fn inside(op: &Op) -> Vec<(&str, i32)> {
    let blocks = op.attributes.iter().flat_map(|attribute| {
        attribute.value.blocks().map(|number| (attribute.name.as_str(), number))
    });
    let mut blocks: Vec<_> = blocks.collect();
    blocks.reverse();
    blocks
}
