//! A program with indices instead of names: its variables, its operators, and the last use of each variable.

use std::collections::{BTreeSet, HashMap, HashSet};

use lodstone_formats::paddle::stream::Expect;
use lodstone_model::{Dialect, Op, Program};
use lodstone_schema::Finding;
use lodstone_schema::paddle::{EMPTY, forward_block};

use crate::executor::error::{Error, OpPosition, Result};
use crate::executor::files;
use crate::executor::random::RANDOM_STATE;

/// The maximum nesting of blocks.
const DEEPEST: usize = 64;

/// The index of a variable of a program.
pub(crate) type Slot = usize;

/// A program with indices instead of names.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) program: Program,
    pub(crate) vars: Vec<Variable>,
    pub(crate) blocks: Vec<Block>,
    /// The slots of names in the first block.
    pub(crate) names: HashMap<String, Slot>,
    /// The slots of names in the other blocks, by index.
    inner_names: Vec<HashMap<String, Slot>>,
    /// Variables from which gradients read the values that blocks left.
    pub(crate) left: HashSet<Slot>,
    /// The variable with the state of random numbers, if the program has it.
    pub(crate) random: Option<Slot>,
}

/// A variable.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// Whether it is stored in the scope.
    pub(crate) persistable: bool,
    /// The expected contents of a file with the variable.
    pub(crate) expect: Expect,
}

/// A block.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) steps: Vec<Step>,
    /// The block's own variables, which are removed when it has run.
    pub(crate) own: Vec<Slot>,
}

/// An operator.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) place: OpPosition,
    /// The variables of each input slot.
    inputs: Vec<(String, Vec<Option<Slot>>)>,
    /// The variables of each output slot.
    outputs: Vec<(String, Vec<Option<Slot>>)>,
    /// The variables that the operator reads, also those that attributes name.
    pub(crate) read: Vec<Slot>,
    /// The slots of all names in the operator.
    pub(crate) named: Vec<(String, Slot)>,
    /// The variables whose last use is this operator.
    pub(crate) last: Vec<Slot>,
    /// The block that the operator runs.
    pub(crate) block: Option<usize>,
    /// The directory whose files are published when it has run, because no later operator of its block saves there.
    pub(crate) publishes: Option<String>,
}

impl Step {
    /// Returns the variables of an input slot.
    pub(crate) fn inputs(&self, slot: &str) -> &[Option<Slot>] {
        of(&self.inputs, slot)
    }

    /// Returns the variables of an output slot.
    pub(crate) fn outputs(&self, slot: &str) -> &[Option<Slot>] {
        of(&self.outputs, slot)
    }

    /// Returns all variables of input slots.
    pub(crate) fn reads(&self) -> impl Iterator<Item = Slot> {
        self.inputs.iter().flat_map(|(_, slots)| slots.iter().copied().flatten())
    }

    /// Returns all variables of output slots.
    pub(crate) fn writes(&self) -> impl Iterator<Item = Slot> {
        self.outputs.iter().flat_map(|(_, slots)| slots.iter().copied().flatten())
    }

    /// Returns the slot of a name in the operator.
    pub(crate) fn slot(&self, name: &str) -> Option<Slot> {
        self.named.iter().find(|(known, _)| known == name).map(|(_, slot)| *slot)
    }
}

fn of<'a>(slots: &'a [(String, Vec<Option<Slot>>)], slot: &str) -> &'a [Option<Slot>] {
    slots.iter().find(|(name, _)| name == slot).map_or(&[], |(_, slots)| slots)
}

impl Layout {
    /// Lays out a program; `fetch` is read after it.
    ///
    /// # Errors
    /// If it is not a PaddlePaddle program, its blocks run each other in a cycle, or an operator names a variable that
    /// no block declares.
    pub(crate) fn new(program: &Program, fetch: &[String]) -> Result<Self> {
        let wrong = |what: String| Err(Error::Program(what.into()));
        if program.dialect != Dialect::Paddle {
            return Err(Error::Dialect(program.dialect));
        }
        if program.blocks.is_empty() {
            return wrong("the program has no blocks".to_owned());
        }
        check_nesting(program)?;
        let mut plan = Self {
            program: program.clone(),
            vars: Vec::new(),
            blocks: Vec::new(),
            names: HashMap::new(),
            inner_names: Vec::new(),
            left: HashSet::new(),
            random: None,
        };
        let mut scopes = plan.declare(program)?;
        for number in 0..program.blocks.len() {
            let block = plan.block(program, number, &scopes)?;
            plan.blocks.push(block);
        }
        plan.names = scopes.first_mut().map(std::mem::take).ok_or_else(|| lost(0))?;
        plan.inner_names = scopes;
        plan.left = plan.left_for_gradients();
        let lasts = |slot: &Slot| plan.vars.get(*slot).is_some_and(|var| var.persistable);
        plan.random = plan.names.get(RANDOM_STATE).copied().filter(lasts);
        for name in fetch {
            if !plan.names.contains_key(name) {
                let what = "the program does not have this variable".to_owned();
                return Err(Error::Variable { name: name.clone(), finding: what.into() });
            }
        }
        plan.check_loops()?;
        plan.find_last(fetch)?;
        Ok(plan)
    }

    /// Assigns slots to all variables; returns the slots of the names that each block sees.
    fn declare(&mut self, program: &Program) -> Result<Vec<HashMap<String, Slot>>> {
        let mut scopes: Vec<HashMap<String, Slot>> = Vec::new();
        for (number, block) in program.blocks.iter().enumerate() {
            let parent = usize::try_from(block.parent).ok();
            let mut names = match parent {
                None => HashMap::new(),
                Some(parent) if parent < number => {
                    scopes.get(parent).cloned().ok_or_else(|| lost(parent))?
                }
                Some(parent) => {
                    let what = format!("block {number} has parent {parent}, which comes after it");
                    return Err(Error::Program(what.into()));
                }
            };
            // A gradient block sees the variables of its forward block.
            let forward = forward_block(block).and_then(|forward| usize::try_from(forward).ok());
            let of = forward.filter(|forward| *forward < number).and_then(|it| scopes.get(it));
            for var in forward.and_then(|it| program.blocks.get(it)).map_or(&[][..], |it| &it.vars)
            {
                if let Some(slot) = of.and_then(|of| of.get(&var.name)) {
                    names.insert(var.name.clone(), *slot);
                }
            }
            let mut own = HashSet::new();
            for var in &block.vars {
                if !own.insert(&var.name) {
                    let what = format!("block {number} declares `{}` twice", var.name);
                    return Err(Error::Program(what.into()));
                }
                names.insert(var.name.clone(), self.vars.len());
                self.vars.push(Variable {
                    name: var.name.clone(),
                    persistable: var.persistable,
                    expect: (&var.value).into(),
                });
            }
            scopes.push(names);
        }
        Ok(scopes)
    }

    fn block(
        &self,
        program: &Program,
        number: usize,
        scopes: &[HashMap<String, Slot>],
    ) -> Result<Block> {
        let (Some(block), Some(names)) = (program.blocks.get(number), scopes.get(number)) else {
            return Err(lost(number));
        };
        let mut steps = Vec::with_capacity(block.ops.len());
        for (at, op) in block.ops.iter().enumerate() {
            let place = OpPosition::of(number, at, op);
            let slot = |name: &String| match name.as_str() {
                "" | EMPTY => Ok(None),
                known => names.get(known).copied().map(Some).ok_or_else(|| {
                    let what = format!("no block declares `{known}`");
                    Error::Operator { place: place.clone(), finding: what.into() }
                }),
            };
            let slots = |operands: &[lodstone_model::Operand]| {
                let one = |operand: &lodstone_model::Operand| {
                    let slots = operand.args.iter().map(slot).collect::<Result<Vec<_>>>()?;
                    Ok((operand.slot.clone(), slots))
                };
                operands.iter().map(one).collect::<Result<Vec<_>>>()
            };
            let (inputs, outputs) = (slots(&op.inputs)?, slots(&op.outputs)?);
            let (mut named, mut read) = (Vec::new(), Vec::new());
            for (name, is_read) in
                op.reads().map(|name| (name, true)).chain(op.writes().map(|name| (name, false)))
            {
                if let Some(slot) = slot(&name.to_owned())? {
                    named.push((name.to_owned(), slot));
                    read.extend(is_read.then_some(slot));
                }
            }
            let block = op.blocks().next().and_then(|block| usize::try_from(block).ok());
            let last = Vec::new();
            let publishes = None;
            steps.push(Step { place, inputs, outputs, read, named, last, block, publishes });
        }
        let mut seen = HashSet::new();
        for (step, op) in steps.iter_mut().zip(&block.ops).rev() {
            if let Some(prefix) =
                files::saved_under(op).filter(|prefix| seen.insert(prefix.clone()))
            {
                step.publishes = Some(prefix);
            }
        }
        let own = block.vars.iter().filter_map(|var| names.get(&var.name).copied());
        let own = own.filter(|slot| self.vars.get(*slot).is_some_and(|var| !var.persistable));
        Ok(Block { steps, own: own.collect() })
    }

    /// Returns a block by index.
    ///
    /// # Errors
    /// An internal error if it does not exist: indices of blocks are checked when the plan is made.
    pub(crate) fn block_of(&self, number: usize) -> std::result::Result<&Block, Finding> {
        let block = self.blocks.get(number);
        block.ok_or_else(|| Finding::internal(format!("the plan has no block {number}")))
    }

    /// Returns the slot of a name in a block.
    pub(crate) fn slot(&self, block: usize, name: &str) -> Option<Slot> {
        let names = if block == 0 { Some(&self.names) } else { self.inner_names.get(block) };
        names?.get(name).copied()
    }

    fn left_for_gradients(&self) -> HashSet<Slot> {
        let steps = self.blocks.iter().flat_map(|block| &block.steps);
        let gradients = steps.filter(|step| step.place.kind.ends_with("_grad"));
        let slots = gradients.flat_map(|step| [step.inputs("StepScopes"), step.inputs("Scope")]);
        slots.flatten().copied().flatten().collect()
    }

    /// Finds the last uses of variables in the first block. (Variables of inner blocks are removed when their block has
    /// run.)
    fn find_last(&mut self, fetch: &[String]) -> Result<()> {
        let touched: Vec<BTreeSet<Slot>> = (0..self.blocks.len())
            .map(|block| self.touched(block))
            .collect::<std::result::Result<_, _>>()
            .map_err(Error::Program)?;
        let mut seen: BTreeSet<Slot> =
            fetch.iter().filter_map(|name| self.names.get(name).copied()).collect();
        let vars = &self.vars;
        let first = self.blocks.first_mut().ok_or_else(|| lost(0))?;
        let own: HashSet<Slot> = first.own.iter().copied().collect();
        for step in first.steps.iter_mut().rev() {
            let mut here: BTreeSet<Slot> = step.named.iter().map(|(_, slot)| *slot).collect();
            if let Some(block) = step.block {
                here.extend(touched.get(block).ok_or_else(|| lost(block))?);
            }
            let is_let_go = |slot: &Slot| {
                own.contains(slot) && vars.get(*slot).is_some_and(|var| !var.persistable)
            };
            step.last = here.difference(&seen).copied().filter(is_let_go).collect();
            seen.extend(here);
        }
        Ok(())
    }

    /// Fails if a loop has no block, or its block never changes the condition.
    fn check_loops(&self) -> Result<()> {
        for step in self.blocks.iter().flat_map(|block| &block.steps) {
            let wrong = |what: String| {
                Err(Error::Operator { place: step.place.clone(), finding: what.into() })
            };
            if step.place.kind != "while" {
                continue;
            }
            let Some(block) = step.block else {
                return wrong("the operator has no block".to_owned());
            };
            let condition = step.inputs("Condition").first().copied().flatten();
            if let Some(condition) = condition
                && !self.writes(block, condition).map_err(Error::Program)?
            {
                let name = self.vars.get(condition).map_or("", |var| &var.name);
                return wrong(format!(
                    "the block never changes `{name}`, so the loop would not end"
                ));
            }
        }
        Ok(())
    }

    /// Whether a block, or a block inside it, writes a variable.
    fn writes(&self, block: usize, slot: Slot) -> std::result::Result<bool, Finding> {
        for step in &self.block_of(block)?.steps {
            if step.outputs.iter().any(|(_, slots)| slots.contains(&Some(slot))) {
                return Ok(true);
            }
            if let Some(inner) = step.block
                && self.writes(inner, slot)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns all variables that a block and the blocks inside it name.
    fn touched(&self, block: usize) -> std::result::Result<BTreeSet<Slot>, Finding> {
        let mut touched = BTreeSet::new();
        for step in &self.block_of(block)?.steps {
            touched.extend(step.named.iter().map(|(_, slot)| *slot));
            if let Some(inner) = step.block {
                touched.extend(self.touched(inner)?);
            }
        }
        Ok(touched)
    }
}

/// Reports a missing block, although all indices of blocks were checked before.
fn lost(number: usize) -> Error {
    Error::Program(Finding::internal(format!("the program has no block {number}")))
}

/// Returns the operator of a step.
pub(crate) fn op_of<'p>(program: &'p Program, place: &OpPosition) -> Option<&'p Op> {
    program.blocks.get(place.block)?.ops.get(place.number)
}

/// Fails if a block runs itself, directly or indirectly, is run by two operators, or is nested too deep.
fn check_nesting(program: &Program) -> Result<()> {
    let mut run_by: HashMap<usize, OpPosition> = HashMap::new();
    for (number, block) in program.blocks.iter().enumerate() {
        for (at, op) in block.ops.iter().enumerate() {
            for inner in op.blocks() {
                let place = OpPosition::of(number, at, op);
                let inner =
                    usize::try_from(inner).ok().filter(|inner| *inner < program.blocks.len());
                let wrong = |what: String| {
                    Err(Error::Operator { place: place.clone(), finding: what.into() })
                };
                let Some(inner) = inner else {
                    return wrong("the block does not exist".to_owned());
                };
                if inner <= number {
                    return wrong(format!("the operator runs block {inner}, which contains it"));
                }
                let parent = program.blocks.get(inner).map(|block| block.parent);
                if parent.and_then(|parent| usize::try_from(parent).ok()) != Some(number) {
                    return wrong(format!(
                        "the operator runs block {inner}, which has another parent"
                    ));
                }
                if let Some(other) = run_by.insert(inner, place.clone()) {
                    return wrong(format!(
                        "the operator runs block {inner}, which {other} also runs"
                    ));
                }
            }
        }
    }
    let depth = |mut number: usize| {
        let mut depth = 0;
        while let Some(place) = run_by.get(&number) {
            (number, depth) = (place.block, depth + 1);
        }
        depth
    };
    match (0..program.blocks.len()).find(|block| depth(*block) > DEEPEST) {
        Some(block) => {
            let wrong = format!("block {block} is nested deeper than {DEEPEST} blocks");
            Err(Error::Program(wrong.into()))
        }
        None => Ok(()),
    }
}
