//! A program by numbers: its variables, its operators, and what each of them reads last.

use std::collections::{BTreeSet, HashMap, HashSet};

use lodstone_formats::paddle::stream::Expect;
use lodstone_model::{Dialect, Op, Program};
use lodstone_schema::Finding;
use lodstone_schema::paddle::{EMPTY, forward_block};

use crate::executor::error::{Error, Place, Result};
use crate::executor::files;
use crate::executor::random::RANDOM_STATE;

/// Most blocks that may lie in each other.
const DEEPEST: usize = 64;

/// A variable of a program, by number.
pub(crate) type Slot = usize;

/// A program by numbers.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) program: Program,
    pub(crate) vars: Vec<Variable>,
    pub(crate) blocks: Vec<Block>,
    /// What the first block calls variables.
    pub(crate) names: HashMap<String, Slot>,
    /// What the others call variables, by number.
    inner_names: Vec<HashMap<String, Slot>>,
    /// Variables by which gradients ask what blocks left.
    pub(crate) left: HashSet<Slot>,
    /// The variable that the state of random numbers is, if the program has it.
    pub(crate) random: Option<Slot>,
}

/// A variable.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// Whether it is in the scope.
    pub(crate) persistable: bool,
    /// What a file of it holds.
    pub(crate) expect: Expect,
}

/// A block.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) steps: Vec<Step>,
    /// Variables that are its own, and are gone when it has run.
    pub(crate) own: Vec<Slot>,
}

/// An operator.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) place: Place,
    /// Variables of each input slot.
    inputs: Vec<(String, Vec<Option<Slot>>)>,
    /// Variables of each output slot.
    outputs: Vec<(String, Vec<Option<Slot>>)>,
    /// Variables, by the names that the operator knows them by.
    pub(crate) named: Vec<(String, Slot)>,
    /// Variables that nobody reads after it.
    pub(crate) last: Vec<Slot>,
    /// The block that it runs.
    pub(crate) block: Option<usize>,
    /// The directory whose files are visible when it has run, because nothing after it in its block saves there.
    pub(crate) publishes: Option<String>,
}

impl Step {
    /// The variables of an input slot.
    pub(crate) fn inputs(&self, slot: &str) -> &[Option<Slot>] {
        of(&self.inputs, slot)
    }

    /// The variables of an output slot.
    pub(crate) fn outputs(&self, slot: &str) -> &[Option<Slot>] {
        of(&self.outputs, slot)
    }

    /// All variables of input slots.
    pub(crate) fn reads(&self) -> impl Iterator<Item = Slot> {
        self.inputs.iter().flat_map(|(_, slots)| slots.iter().copied().flatten())
    }

    /// All variables of output slots.
    pub(crate) fn writes(&self) -> impl Iterator<Item = Slot> {
        self.outputs.iter().flat_map(|(_, slots)| slots.iter().copied().flatten())
    }

    /// The number of a variable that the operator names.
    pub(crate) fn slot(&self, name: &str) -> Option<Slot> {
        self.named.iter().find(|(known, _)| known == name).map(|(_, slot)| *slot)
    }
}

fn of<'a>(slots: &'a [(String, Vec<Option<Slot>>)], slot: &str) -> &'a [Option<Slot>] {
    slots.iter().find(|(name, _)| name == slot).map_or(&[], |(_, slots)| slots)
}

impl Layout {
    /// Numbers a program of which `fetch` is read afterwards.
    ///
    /// # Errors
    /// If it is no program of PaddlePaddle, its blocks run each other in a circle, or an operator names a variable that
    /// no block declares.
    pub(crate) fn new(program: &Program, fetch: &[String]) -> Result<Self> {
        let wrong = |what: String| Err(Error::Program(what.into()));
        if program.dialect != Dialect::Paddle {
            return Err(Error::Dialect(program.dialect));
        }
        if program.blocks.is_empty() {
            return wrong("it has no blocks".to_owned());
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
                let what = "the program has no such variable".to_owned();
                return Err(Error::Variable { name: name.clone(), finding: what.into() });
            }
        }
        plan.check_loops()?;
        plan.find_last(fetch)?;
        Ok(plan)
    }

    /// Numbers all variables; gives for each block the numbers of the names that it sees.
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
                    let what = format!("block {number} lies in block {parent}, which is behind it");
                    return Err(Error::Program(what.into()));
                }
            };
            // Gradients see what the block left that they are of.
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
            let place = Place::of(number, at, op);
            let slot = |name: &String| match name.as_str() {
                "" | EMPTY => Ok(None),
                known => names.get(known).copied().map(Some).ok_or_else(|| {
                    let what = format!("it names `{known}`, which no block declares");
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
            let mut named = Vec::new();
            for name in op.reads().chain(op.writes()) {
                if let Some(slot) = slot(&name.to_owned())? {
                    named.push((name.to_owned(), slot));
                }
            }
            let block = op.blocks().next().and_then(|block| usize::try_from(block).ok());
            let last = Vec::new();
            let publishes = None;
            steps.push(Step { place, inputs, outputs, named, last, block, publishes });
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

    /// A block, by number.
    ///
    /// # Errors
    /// If there is none, which is a defect: numbers of blocks are checked when the plan is made.
    pub(crate) fn block_of(&self, number: usize) -> std::result::Result<&Block, Finding> {
        let block = self.blocks.get(number);
        block.ok_or_else(|| Finding::internal(format!("the plan has no block {number}")))
    }

    /// The variable that a block calls so.
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

    /// Finds for each operator of the first block what nobody reads after it. (What lies deeper is gone when its
    /// block has run.)
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

    /// Fails if a loop has no block, or never changes its condition.
    fn check_loops(&self) -> Result<()> {
        for step in self.blocks.iter().flat_map(|block| &block.steps) {
            let wrong = |what: String| {
                Err(Error::Operator { place: step.place.clone(), finding: what.into() })
            };
            if step.place.kind != "while" {
                continue;
            }
            let Some(block) = step.block else { return wrong("it has no block".to_owned()) };
            let condition = step.inputs("Condition").first().copied().flatten();
            if let Some(condition) = condition
                && !self.writes(block, condition).map_err(Error::Program)?
            {
                let name = self.vars.get(condition).map_or("", |var| &var.name);
                return wrong(format!("its block never changes `{name}`, so it would not end"));
            }
        }
        Ok(())
    }

    /// Whether a block, or one of those in it, writes a variable.
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

    /// All variables that a block and those in it name.
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

/// A block that is not there, although all numbers of blocks were checked before.
fn lost(number: usize) -> Error {
    Error::Program(Finding::internal(format!("the program has no block {number}")))
}

/// The operator of a step.
pub(crate) fn op_of<'p>(program: &'p Program, place: &Place) -> Option<&'p Op> {
    program.blocks.get(place.block)?.ops.get(place.number)
}

/// Fails if a block is run by itself, or by one that it runs, or by two operators, or lies too deep.
fn check_nesting(program: &Program) -> Result<()> {
    let mut run_by: HashMap<usize, Place> = HashMap::new();
    for (number, block) in program.blocks.iter().enumerate() {
        for (at, op) in block.ops.iter().enumerate() {
            for inner in op.blocks() {
                let place = Place::of(number, at, op);
                let inner =
                    usize::try_from(inner).ok().filter(|inner| *inner < program.blocks.len());
                let wrong = |what: String| {
                    Err(Error::Operator { place: place.clone(), finding: what.into() })
                };
                let Some(inner) = inner else {
                    return wrong("it runs a block that is not there".to_owned());
                };
                if inner <= number {
                    return wrong(format!("it runs block {inner}, in which it is"));
                }
                let parent = program.blocks.get(inner).map(|block| block.parent);
                if parent.and_then(|parent| usize::try_from(parent).ok()) != Some(number) {
                    return wrong(format!("it runs block {inner}, which lies in another"));
                }
                if let Some(other) = run_by.insert(inner, place.clone()) {
                    return wrong(format!("it runs block {inner}, which {other} runs"));
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
            let wrong = format!("block {block} lies deeper than {DEEPEST} blocks");
            Err(Error::Program(wrong.into()))
        }
        None => Ok(()),
    }
}
