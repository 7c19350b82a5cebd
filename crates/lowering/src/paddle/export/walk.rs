//! The walk over the operators of a program: each is lowered to ONNX's, for what is known about its variables.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{Lod, Model, Op, Program, Tensor, Var};
use lodstone_schema::paddle::{EMPTY, Release};
use lodstone_schema::{Code, Finding, Findings, Origin};

use super::integers::{Product, products};
use super::variables::{Bound, Given, ranked};
use super::{arrays, control, loops, paths, ranks};
use crate::LowerOptions;
use crate::frame::{At, Dialect, Frame, Scope, Step, Variables};
use crate::onnx::Value;
use crate::paddle::RULES;
use crate::paddle::operator::{Outcome, Rule, valueless};

/// Translates an operator that acts on variables rather than on tensors.
pub(super) type Own = for<'s, 'p> fn(&mut Walk<'p>, &mut Site<'s, 'p>) -> Step;

const OWN: &[&[(&str, Own)]] =
    &[arrays::OPERATORS, control::OPERATORS, loops::OPERATORS, paths::OPERATORS, ranks::OPERATORS];

/// Returns the kinds of operators that act on variables.
pub(super) fn own_kinds() -> impl Iterator<Item = &'static str> {
    OWN.iter().copied().flatten().map(|(kind, _)| *kind)
}

/// Whether operators of a kind only connect a program with its caller.
pub(super) fn is_interface(kind: &str) -> bool {
    matches!(kind, "feed" | "fetch" | "fetch_v2")
}

/// An operator and its place, and the variables that it sees.
pub(super) struct Site<'s, 'p> {
    pub(super) at: At,
    pub(super) op: &'p Op,
    pub(super) scope: &'s mut Scope<Bound>,
}

/// A program that is being translated.
pub(super) type Walk<'p> = Frame<'p, Paddle<'p>>;

/// What only these programs have.
pub(super) struct Paddle<'p> {
    /// The declarations of each block.
    pub(super) vars: Vec<HashMap<&'p str, &'p Var>>,
    /// The variables of each block but the main one, which hold parameters when the block begins, or nothing.
    pub(super) variables: Vec<Variables<Bound>>,
    /// The names of variables that are names of values already.
    pub(super) given: Given<'p>,
    /// The names of all variables that are read.
    read: HashSet<&'p str>,
    /// The last operators of the main block that write the fetched variables.
    last: HashMap<&'p str, usize>,
    pub(super) options: &'p LowerOptions,
    /// Products of quantized integers, by block and index.
    pub(super) products: HashMap<(usize, usize), Product<'p>>,
    /// Operators whose input is their result, by block and index.
    pub(super) left_out: HashSet<(usize, usize)>,
    pub(super) release: Release,
}

/// How an operator is translated.
pub(super) enum Translation {
    /// Inputs and outputs are bound apart.
    Interface,
    Own(Own),
    Single(Rule),
}

impl<'p> Dialect<'p> for Paddle<'p> {
    type Item = Bound;

    type Rule = Translation;

    const PROGRAM: &'static str = "the program";

    const MAIN: &'static str = "the program";

    const INNER: &'static str = "block";

    const IS_OPEN: bool = false;

    // By the versions of its variables.
    const IS_REDUCED: bool = true;

    // Loops in loops are translated again and again.
    const MAX_WORK: u64 = 64;

    fn value(bound: &Bound) -> Option<&Value> {
        match bound {
            Bound::Tensor(value, _) => Some(value),
            Bound::Array(..) | Bound::Ranks(..) => None,
        }
    }

    fn rule(op: &Op) -> Outcome<Translation> {
        let kind = op.kind.as_str();
        if is_interface(kind) {
            return Ok(Translation::Interface);
        }
        let own = OWN.iter().copied().flatten().find(|(name, _)| *name == kind);
        let own = own.map(|(_, own)| Translation::Own(*own));
        let rule = own.or_else(|| RULES.get(kind).map(Translation::Single));
        rule.ok_or_else(|| "the operator is not supported".into())
    }

    fn apply(
        walk: &mut Walk<'p>,
        rule: Translation,
        at: At,
        op: &'p Op,
        scope: &mut Scope<Bound>,
    ) -> Step {
        let site = &mut Site { at, op, scope };
        match rule {
            Translation::Interface => Ok(()),
            Translation::Own(own) => {
                walk.check_reads(site)?;
                own(walk, site)
            }
            Translation::Single(rule) => {
                walk.check_reads(site)?;
                walk.lower(site, rule)
            }
        }
    }

    fn bind_results(
        walk: &mut Walk<'p>,
        at: At,
        op: &'p Op,
        results: Vec<Value>,
        scope: &mut Scope<Bound>,
    ) -> Step {
        let site = &mut Site { at, op, scope };
        let named = op.outputs.iter().flat_map(|operand| &operand.args).zip(&results);
        named.into_iter().try_for_each(|(name, value)| walk.bind(site, name, value, Vec::new()))
    }

    /// Operators that read an array which nothing has written create an empty one, whose name derives from the operator
    /// before.
    fn base(op: &Op) -> Option<&str> {
        let keeps = is_interface(&op.kind) || ["lod_array_length", "while"].contains(&&*op.kind);
        (!keeps).then_some(&op.kind)
    }
}

impl<'p> Walk<'p> {
    /// Starts to translate a program of a model.
    ///
    /// # Errors
    /// If it has no blocks, or parameters are not supported.
    pub(super) fn of(
        model: &'p Model,
        program: &'p Program,
        options: &'p LowerOptions,
        covers: bool,
    ) -> Result<Self, Findings> {
        let main = program.blocks.first();
        let outputs = main.map_or(&[][..], |main| &main.outputs);
        let outputs: HashSet<&str> = outputs.iter().map(String::as_str).collect();
        let mut read: HashSet<&str> = program.ops().flat_map(Op::reads).collect();
        read.extend(&outputs);
        let ops = main.map_or(&[][..], |block| &block.ops);
        let writes = ops.iter().enumerate().flat_map(|(number, op)| {
            let inner = written(program, op);
            op.writes().chain(inner).map(move |name| (name, number))
        });
        let last = writes.filter(|(name, _)| outputs.contains(name)).collect();
        let vars = program.blocks.iter();
        let vars =
            vars.map(|block| block.vars.iter().map(|var| (var.name.as_str(), var)).collect());
        let dialect = Paddle {
            vars: vars.collect(),
            variables: Vec::new(),
            given: Given::default(),
            read,
            last,
            options,
            products: products(program, &outputs),
            left_out: HashSet::new(),
            release: Release::of(program),
        };
        let mut walk = Self::of_program(model, Some(program), dialect, covers)?;
        program.blocks.iter().for_each(|block| walk.reserve(block));
        for parameter in &model.parameters {
            walk.graph.names.take(&parameter.name);
            // LoD enters the program as values of its own.
            let tensor = match parameter.tensor.lod.0.is_empty() {
                true => Cow::Borrowed(&parameter.tensor),
                false => Cow::Owned(Tensor { lod: Lod::default(), ..parameter.tensor.clone() }),
            };
            walk.parameters.insert(&parameter.name, tensor);
        }
        walk.states();
        if !walk.findings.is_empty() {
            return Err(walk.findings);
        }
        walk.inputs();
        Ok(walk)
    }

    /// Fails if an operator reads what could not be translated, or no block declares.
    fn check_reads(&self, site: &Site<'_, 'p>) -> Step {
        for name in site.op.reads().filter(|name| *name != EMPTY) {
            self.declaration(site.at.block, name)?;
            site.scope.find(name)?;
        }
        Ok(())
    }

    /// Binds a variable to a tensor that the current operator computed, which gets the variable's name where that is
    /// possible.
    pub(super) fn bind(
        &mut self,
        site: &mut Site<'_, 'p>,
        variable: &str,
        value: &Value,
        lod: Vec<Value>,
    ) -> Step {
        let (_, var) = self.declaration(site.at.block, variable)?;
        let value = self.name_value(site.at, &var.name, &ranked(var, value))?;
        let lod: Vec<Value> = lod.iter().map(|level| self.graph.current(level)).collect();
        site.scope.bind(variable, Bound::Tensor(value, lod));
        Ok(())
    }

    /// Binds a variable to anything that the current operator computed.
    pub(super) fn set(&mut self, site: &mut Site<'_, 'p>, variable: &str, bound: Bound) -> Step {
        let (_, var) = self.declaration(site.at.block, variable)?;
        let bound = match bound {
            Bound::Tensor(value, lod) => {
                Bound::Tensor(self.name_value(site.at, &var.name, &value)?, lod)
            }
            other => other,
        };
        site.scope.bind(variable, bound);
        Ok(())
    }

    /// Gives a value the name of a variable, if no value has it yet.
    fn name_value(&mut self, at: At, name: &'p str, value: &Value) -> Outcome<Value> {
        let mut value = self.graph.current(value);
        let is_final = match self.dialect.last.get(name) {
            Some(last) => at.block == 0 && *last == at.number,
            None => true,
        };
        if is_final && self.graph.is_made(&value) && !self.dialect.given.has(name) {
            value = self.graph.name(&value, name, name)?;
            self.dialect.given.add(name);
        }
        self.origins.insert(at.block, name, Origin::Value(Arc::from(value.name())));
        Ok(value)
    }

    /// Returns what a variable holds.
    ///
    /// # Errors
    /// If it holds nothing.
    pub(super) fn bound(&self, site: &Site<'_, 'p>, name: &str, slot: &str) -> Step<Bound> {
        let (_, var) = self.declaration(site.at.block, name)?;
        let code = if var.persistable { Code::NoParameter } else { Code::Rule };
        let missing = || Finding { code, ..valueless(name, slot) }.into();
        site.scope.find(name)?.cloned().ok_or_else(missing)
    }

    /// Returns what the variable of an input slot holds.
    ///
    /// # Errors
    /// If the slot is empty, or the variable holds nothing.
    pub(super) fn read(&self, site: &Site<'_, 'p>, slot: &str) -> Step<Bound> {
        let missing = || Finding::from(format!("input `{slot}` is missing")).about_slot(slot);
        let name = site.op.input(slot).first().ok_or_else(missing)?;
        self.bound(site, name, slot)
    }

    /// Returns the tensor in the variable of an input slot.
    ///
    /// # Errors
    /// If it holds none.
    pub(super) fn tensor(&self, site: &Site<'_, 'p>, slot: &str) -> Step<(Value, Vec<Value>)> {
        match self.read(site, slot)? {
            Bound::Tensor(value, lod) => Ok((value, lod)),
            _ => {
                let wrong = Finding::from(format!("expected a tensor as `{slot}`"));
                Err(wrong.about_slot(slot).into())
            }
        }
    }

    /// Returns the name of the variable of an output slot; `None` if nothing reads it.
    pub(super) fn result(&self, site: &Site<'_, 'p>, slot: &str) -> Option<&'p str> {
        let name = site.op.output(slot).first().map(String::as_str);
        name.filter(|name| self.is_read(name))
    }

    /// Whether an operator reads a variable of this name, or it is fetched.
    pub(super) fn is_read(&self, name: &str) -> bool {
        self.dialect.read.contains(name)
    }
}

/// Returns the names that the blocks of an operator write.
fn written<'p>(program: &'p Program, op: &'p Op) -> Vec<&'p str> {
    let (mut names, mut seen, mut open) = (Vec::new(), HashSet::new(), vec![op]);
    while let Some(op) = open.pop() {
        for number in op.blocks().filter_map(|number| usize::try_from(number).ok()) {
            let block = program.blocks.get(number).filter(|_| seen.insert(number));
            for op in block.map_or(&[][..], |block| &block.ops) {
                names.extend(op.writes());
                open.push(op);
            }
        }
    }
    names
}
