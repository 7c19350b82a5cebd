//! Walks a block and its subgraphs in execution order.
//!
//! Each value is written once, before it is read. A block sees the names that are defined in the blocks around it before
//! it; no operator may write them again. A function sees only its inputs.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use lodstone_model::{Block, Function, Op, Parameter, ValueType, Var};

use super::{Checked, Imports, introduced, node, quoted, types, values};
use crate::onnx::scopes::Scopes;
use crate::{Finding, Findings};

/// A type, by its ONNX name.
pub(super) type TypeName<'m> = Cow<'m, str>;

/// The open blocks, and the values that are defined in them.
pub(super) struct Walk<'m> {
    pub(super) checked: Checked<'m>,
    pub(super) imports: Imports<'m>,
    /// The function that is checked, if any.
    pub(super) function: Option<&'m Function>,
    /// The visible values and their types, as far as these are known.
    scopes: Scopes<'m, Option<TypeName<'m>>>,
    /// The declared types of the values of each open block.
    declared: Vec<Declared<'m>>,
    /// The blocks that were entered: each may belong to one operator only.
    entered: HashSet<i32>,
}

/// The types of the values of a block.
struct Declared<'m> {
    vars: HashMap<&'m str, &'m ValueType>,
    inferred: Option<&'m HashMap<String, ValueType>>,
}

impl<'m> Declared<'m> {
    fn of(&self, name: &str) -> Option<TypeName<'m>> {
        let inferred = || self.inferred.and_then(|inferred| inferred.get(name));
        let declared = self.vars.get(name).and_then(|value| types::of_value(value));
        declared.or_else(|| inferred().and_then(types::of_value))
    }
}

impl<'m> Walk<'m> {
    pub(super) fn new(
        checked: Checked<'m>,
        imports: Imports<'m>,
        function: Option<&'m Function>,
    ) -> Self {
        let (scopes, declared) = (Scopes::new(checked.program), Vec::new());
        Self { checked, imports, function, scopes, declared, entered: HashSet::new() }
    }

    /// Checks the main graph or the function, including subgraphs.
    pub(super) fn check(&mut self, findings: &mut Findings) {
        let (number, place, entered) = match self.function {
            Some(function) => {
                let place = format!("the function {}", quoted(&function.name));
                (function.block, place, self.scopes.function(function))
            }
            None => (0, "the graph".to_owned(), self.scopes.graph()),
        };
        let checked = entered.and_then(|()| self.block(number, findings));
        if let Err(finding) = checked {
            findings.add(place, finding);
        }
    }

    /// Checks the entered block.
    fn block(&mut self, number: i32, findings: &mut Findings) -> Result<(), Finding> {
        self.entered.insert(number);
        let (block, index) = {
            let scope = self.scopes.innermost()?;
            (scope.block, scope.number)
        };
        self.declared.push(Declared {
            vars: block.vars.iter().map(|var| (var.name.as_str(), &var.value)).collect(),
            inferred: self.checked.inferred.get(index),
        });
        let is_function = self.function.is_some() && self.scopes.depth() == 1;
        if !is_function && block.name.is_empty() {
            self.add("has no name", findings);
        }
        if self.is_main() && block.outputs.is_empty() {
            self.add("has no outputs", findings);
        }
        let initializers = if index == 0 { self.checked.parameters } else { &block.initializers };
        if !is_function {
            self.values(block, findings);
        }
        self.inputs(block, findings)?;
        self.initializers(initializers, findings)?;
        for (number, op) in block.ops.iter().enumerate() {
            self.scopes.reach(number, op)?;
            self.read(op, findings);
            // Subgraphs do not see the outputs of their operator.
            for (attribute, body) in inside(op) {
                match self.enter(body) {
                    Ok(()) => self.block(body, findings)?,
                    Err(wrong) => {
                        findings.add(format!("{}, {}", self.place(), quoted(attribute)), wrong);
                    }
                }
            }
            self.write(op, findings)?;
        }
        for (number, name) in block.outputs.iter().enumerate() {
            if !self.is_known_here(name) {
                let at = format!("output {number} ({})", quoted(name));
                self.add_at(&at, "is not defined by the block", findings);
            }
        }
        self.declared.pop();
        self.scopes.leave().map(|_| ())
    }

    /// Enters a subgraph of the current operator.
    fn enter(&mut self, number: i32) -> Result<(), Finding> {
        match self.entered.contains(&number) {
            true => Err(format!("block {number} also belongs to another operator").into()),
            false => self.scopes.body(number),
        }
    }

    /// Whether values must have complete types, as in the main graph.
    fn is_main(&self) -> bool {
        self.scopes.depth() == 1 && self.function.is_none()
    }

    /// Returns the place of the current operator: "the graph, operator 3 (`Conv` `conv1`)".
    pub(super) fn place(&self) -> String {
        self.scopes.place()
    }

    fn add(&self, wrong: impl Into<Finding>, findings: &mut Findings) {
        match self.scopes.innermost() {
            Ok(scope) => findings.add(&*scope.place, wrong),
            Err(lost) => findings.add("the model", lost),
        }
    }

    fn add_at(&self, at: &str, wrong: impl Into<Finding>, findings: &mut Findings) {
        match self.scopes.innermost() {
            Ok(scope) => findings.add(format!("{}, {at}", scope.place), wrong),
            Err(lost) => findings.add("the model", lost),
        }
    }

    /// Checks the names and types of inputs and outputs.
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

    fn inputs(&mut self, block: &'m Block, findings: &mut Findings) -> Result<(), Finding> {
        for (number, name) in block.inputs.iter().enumerate() {
            if self.is_known_here(name) {
                let at = format!("input {number} ({})", quoted(name));
                self.add_at(&at, "has the name of another input", findings);
            }
            self.make_known(name, None)?;
        }
        Ok(())
    }

    fn initializers(
        &mut self,
        initializers: &'m [Parameter],
        findings: &mut Findings,
    ) -> Result<(), Finding> {
        let mut seen = HashSet::new();
        let is_free = self.checked.ir_version >= introduced::FREE_INITIALIZERS;
        for (number, Parameter { name, tensor }) in initializers.iter().enumerate() {
            let sparse = values::is_sparse(tensor);
            let what = if sparse { "sparse initializer" } else { "initializer" };
            let at = || format!("{what} {number} ({})", quoted(name));
            if name.is_empty() {
                self.add_at(&format!("{what} {number}"), "has no name", findings);
            } else if !seen.insert(name.as_str()) {
                self.add_at(&at(), "has the name of another initializer", findings);
            }
            if let Some(wrong) = values::broken(tensor) {
                self.add_at(&at(), wrong, findings);
            }
            if !is_free && !sparse && !self.is_known_here(name) {
                let version = self.checked.ir_version;
                let what = format!("is not an input, which IR version {version} requires");
                self.add_at(&at(), what, findings);
            }
            self.make_known(name, types::of_tensor(tensor))?;
        }
        Ok(())
    }

    /// Checks an operator, and that its inputs are defined.
    fn read(&mut self, op: &'m Op, findings: &mut Findings) {
        let inputs = op.inputs.iter().flat_map(|operand| &operand.args).enumerate();
        for (number, name) in inputs.filter(|(_, name)| !name.is_empty()) {
            if self.scopes.see(name).is_none() {
                let place = format!("{}, input {number}", self.place());
                let wrong = format!("reads {}, which is not defined before it", quoted(name));
                findings.add(place, Finding::from(wrong).about_input(number));
            }
        }
        node::check(self, op, findings);
    }

    /// Defines the outputs of an operator.
    fn write(&mut self, op: &'m Op, findings: &mut Findings) -> Result<(), Finding> {
        let written = types::written(self, op);
        let outputs = op.outputs.iter().flat_map(|operand| &operand.args).enumerate();
        for (number, name) in outputs.filter(|(_, name)| !name.is_empty()) {
            if self.scopes.see(name).is_some() {
                let place = format!("{}, output {number}", self.place());
                let wrong = format!("writes {}, which is already defined", quoted(name));
                findings.add(place, Finding::from(wrong).about_output(number));
            }
            self.make_known(name, written.get(&number).cloned())?;
        }
        Ok(())
    }

    fn is_known_here(&self, name: &str) -> bool {
        self.scopes.innermost().is_ok_and(|scope| scope.names.contains_key(name))
    }

    /// Defines a name in the innermost block, with its declared or inferred type there, or `found` if it has none.
    fn make_known(&mut self, name: &'m str, found: Option<TypeName<'m>>) -> Result<(), Finding> {
        let value = self.declared(name).or(found);
        let names = &mut self.scopes.innermost_mut()?.names;
        let known = names.entry(name).or_default();
        *known = known.take().or(value);
        Ok(())
    }

    /// Returns the type of a visible value.
    pub(super) fn type_of(&self, name: &str) -> Option<&TypeName<'m>> {
        self.scopes.see(name)?.as_ref()
    }

    /// Returns the declared or inferred type of a value of the innermost block.
    pub(super) fn declared(&self, name: &str) -> Option<TypeName<'m>> {
        self.declared.last()?.of(name)
    }
}

/// Returns the subgraphs of an operator, each with the name of its attribute.
fn inside(op: &Op) -> impl Iterator<Item = (&str, i32)> {
    op.attributes.iter().flat_map(|attribute| {
        attribute.value.blocks().map(|number| (attribute.name.as_str(), number))
    })
}
