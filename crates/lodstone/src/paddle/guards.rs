//! Guards: an output of a translated program that is true if no operator read what PaddlePaddle treats in another way.
//!
//! | read | in PaddlePaddle | in ONNX |
//! |---|---|---|
//! | an index below 0 | an error | counts from the end |
//! | NaN, by an operator whose result is a number all the same | depends on the operator and the release | another number |
//!
//! All other operators return NaN if they read it, so that the outputs of the program have it.

use std::collections::{HashMap, HashSet};

use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Model, Op, Operand, Tensor, TensorType, Topology, Var,
};
use lodstone_schema::onnx::infer::{Options, ValueInfo, infer};
use lodstone_store::Blob;

/// The name of the output.
const GUARD: &str = "lodstone.guard";

/// The operators whose results are numbers even where an input is NaN, beside `Cast` to integers.
const HIDES_NAN: &[&str] = &[
    "ArgMax",
    "ArgMin",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "IsInf",
    "IsNaN",
    "Less",
    "LessOrEqual",
    "NonZero",
    "TopK",
];

/// The operators with indices, and the input that holds them.
const INDEXED: &[(&str, usize)] = &[
    ("Gather", 1),
    ("GatherElements", 1),
    ("GatherND", 1),
    ("ScatterElements", 1),
    ("ScatterND", 1),
];

/// Adds the output to a program of ONNX, and returns its name; `None` if there is nothing to guard.
///
/// # Errors
/// If the program has a value whose type is not known, or a subgraph that cannot be guarded.
pub(super) fn guard(model: &mut Model) -> Result<Option<&'static str>, Unguarded> {
    let types = infer(model, &Options::default()).blocks;
    let parameters = model.parameters.iter().map(|parameter| parameter.name.clone());
    let parameters: HashSet<String> = parameters.collect();
    let program = model.main_mut().ok_or(Unguarded)?;
    let mut guards = Guards { types, parameters, count: 0 };
    let Some(all) = guards.block(program, 0)? else { return Ok(None) };
    let main = program.blocks.first_mut().ok_or(Unguarded)?;
    main.ops.push(op("Identity", &[&all], GUARD));
    main.outputs.push(GUARD.to_owned());
    main.vars.push(truth(GUARD));
    Ok(Some(GUARD))
}

/// A program that cannot be guarded.
#[derive(Debug)]
pub(super) struct Unguarded;

struct Guards {
    /// The types of values, by block.
    types: Vec<HashMap<String, ValueInfo>>,
    parameters: HashSet<String>,
    /// The number of values that were added.
    count: usize,
}

impl Guards {
    /// Adds guards to a block; returns the value that is true if all hold, if there are any.
    fn block(
        &mut self,
        program: &mut Topology,
        number: usize,
    ) -> Result<Option<String>, Unguarded> {
        let block = program.blocks.get_mut(number).ok_or(Unguarded)?;
        let ops = std::mem::take(&mut block.ops);
        let (mut guarded, mut all) = (Vec::with_capacity(ops.len()), Vec::new());
        for mut op in ops {
            let inner = self.inside(program, &mut op, &mut guarded)?;
            let read = self.read(program, number, &op, &mut guarded)?;
            guarded.push(op);
            all.extend(read.into_iter().chain(inner));
        }
        let mut whole: Option<String> = None;
        for guard in all {
            whole = Some(match whole {
                Some(before) => self.add("And", &[&before, &guard], &mut guarded),
                None => guard,
            });
        }
        let block = program.blocks.get_mut(number).ok_or(Unguarded)?;
        block.ops = guarded;
        Ok(whole)
    }

    /// Guards what an operator reads; returns the values that are true if it does.
    fn read(
        &mut self,
        program: &Topology,
        block: usize,
        op: &Op,
        into: &mut Vec<Op>,
    ) -> Result<Vec<String>, Unguarded> {
        if !op.domain.is_empty() {
            return Ok(Vec::new());
        }
        let inputs = op.input("");
        let mut all = Vec::new();
        if let Some((_, at)) = INDEXED.iter().find(|(kind, _)| *kind == op.kind) {
            let indices = inputs.get(*at).ok_or(Unguarded)?;
            if !self.is_constant(program, block, indices) {
                let least = self.reduced("ReduceMin", indices, into);
                let zero = self.add("Sub", &[&least, &least], into);
                all.push(self.add("GreaterOrEqual", &[&least, &zero], into));
            }
        }
        if self.hides_nan(program, block, op)? {
            for input in inputs {
                let is_computed = !self.is_constant(program, block, input);
                if is_computed && self.dtype(program, block, input)?.is_float() {
                    let greatest = self.reduced("ReduceMax", input, into);
                    let is_nan = self.add("IsNaN", &[&greatest], into);
                    all.push(self.add("Not", &[&is_nan], into));
                }
            }
        }
        Ok(all)
    }

    /// Returns whether results are numbers even where an input is NaN.
    fn hides_nan(&self, program: &Topology, block: usize, op: &Op) -> Result<bool, Unguarded> {
        if op.kind != "Cast" {
            return Ok(HIDES_NAN.contains(&op.kind.as_str()));
        }
        let result = op.writes().next().ok_or(Unguarded)?;
        Ok(!self.dtype(program, block, result)?.is_float())
    }

    /// Guards the subgraphs of an operator; returns its output that is true if all guards in them hold.
    fn inside(
        &mut self,
        program: &mut Topology,
        op: &mut Op,
        into: &mut Vec<Op>,
    ) -> Result<Option<String>, Unguarded> {
        let numbers = op.blocks().map(usize::try_from).collect::<Result<Vec<_>, _>>();
        let numbers = numbers.map_err(|_| Unguarded)?;
        let mut guards = Vec::with_capacity(numbers.len());
        for number in &numbers {
            guards.push(self.block(program, *number)?);
        }
        if guards.iter().all(Option::is_none) {
            return Ok(None);
        }
        let blocks = numbers.into_iter().zip(guards);
        match op.kind.as_str() {
            "If" => self.in_branches(program, op, blocks),
            "Loop" => self.in_loop(program, op, blocks, into),
            _ => Err(Unguarded),
        }
        .map(Some)
    }

    /// Makes guards of the branches of an `If` one more output of it.
    fn in_branches(
        &mut self,
        program: &mut Topology,
        op: &mut Op,
        branches: impl Iterator<Item = (usize, Option<String>)>,
    ) -> Result<String, Unguarded> {
        for (number, guard) in branches {
            let block = program.blocks.get_mut(number).ok_or(Unguarded)?;
            let guard = guard.unwrap_or_else(|| self.yes(&mut block.ops));
            self.output(block, guard);
        }
        let result = self.name();
        op.outputs.first_mut().ok_or(Unguarded)?.args.push(result.clone());
        Ok(result)
    }

    /// Makes the guard of the body of a `Loop` one more value that the loop carries.
    fn in_loop(
        &mut self,
        program: &mut Topology,
        op: &mut Op,
        mut bodies: impl Iterator<Item = (usize, Option<String>)>,
        into: &mut Vec<Op>,
    ) -> Result<String, Unguarded> {
        let (number, guard) = bodies.next().ok_or(Unguarded)?;
        let (guard, first) = (guard.ok_or(Unguarded)?, self.yes(into));
        let arguments = op.inputs.first_mut().ok_or(Unguarded)?;
        // Before the values that a loop carries are its number of iterations and its condition.
        let carried = arguments.args.len().checked_sub(2).ok_or(Unguarded)?;
        arguments.args.push(first);
        let block = program.blocks.get_mut(number).ok_or(Unguarded)?;
        let results = op.outputs.first_mut().ok_or(Unguarded)?;
        // After the carried values come those of each iteration.
        if block.outputs.len() <= carried || results.args.len() < carried {
            return Err(Unguarded);
        }
        let (before, result) = (self.name(), self.name());
        block.vars.push(truth(&before));
        block.inputs.push(before.clone());
        let still = self.add("And", &[&before, &guard], &mut block.ops);
        block.vars.push(truth(&still));
        block.outputs.insert(carried + 1, still);
        results.args.insert(carried, result.clone());
        Ok(result)
    }

    /// Makes a guard an output of a block. An output of a block is a value of its own.
    fn output(&mut self, block: &mut Block, guard: String) {
        let name = self.add("Identity", &[&guard], &mut block.ops);
        block.vars.push(truth(&name));
        block.outputs.push(name);
    }

    /// Returns whether a name that a block sees is that of a constant.
    fn is_constant(&self, program: &Topology, block: usize, name: &str) -> bool {
        let mut constants = around(program, block).flat_map(|(_, block)| &block.initializers);
        constants.any(|constant| constant.name == name) || self.parameters.contains(name)
    }

    /// Returns the element type of a value that a block sees.
    fn dtype(&self, program: &Topology, block: usize, name: &str) -> Result<DType, Unguarded> {
        let mut types = around(program, block).filter_map(|(number, _)| self.types.get(number));
        match types.find_map(|types| types.get(name)).map(ValueInfo::dtype) {
            None | Some(DType::Unknown(_)) => Err(Unguarded),
            Some(dtype) => Ok(dtype),
        }
    }

    /// Adds the reduction of a tensor to a scalar.
    fn reduced(&mut self, kind: &str, of: &str, into: &mut Vec<Op>) -> String {
        let name = self.add(kind, &[of], into);
        if let Some(op) = into.last_mut() {
            let value = AttributeValue::Long(0);
            op.attributes.push(Attribute { name: "keepdims".to_owned(), value });
        }
        name
    }

    /// Adds the constant true.
    fn yes(&mut self, into: &mut Vec<Op>) -> String {
        let name = self.add("Constant", &[], into);
        if let Some(op) = into.last_mut() {
            let yes = Tensor::dense(DType::Bool, Vec::new(), Blob::memory(vec![1]));
            let value = AttributeValue::Tensor(Box::new(yes));
            op.attributes.push(Attribute { name: "value".to_owned(), value });
        }
        name
    }

    fn add(&mut self, kind: &str, inputs: &[&str], into: &mut Vec<Op>) -> String {
        let name = self.name();
        into.push(op(kind, inputs, &name));
        name
    }

    fn name(&mut self) -> String {
        self.count += 1;
        format!("{GUARD}.{}", self.count)
    }
}

/// Returns a block and those around it, whose names it sees, with their indices.
fn around(program: &Topology, block: usize) -> impl Iterator<Item = (usize, &Block)> {
    let numbered = |number: usize| Some((number, program.blocks.get(number)?));
    std::iter::successors(numbered(block), move |(number, block)| {
        // Blocks come after those around them.
        let outer = usize::try_from(block.parent).ok().filter(|outer| outer < number)?;
        numbered(outer)
    })
}

fn op(kind: &str, inputs: &[&str], output: &str) -> Op {
    let inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
    Op {
        kind: kind.to_owned(),
        inputs: vec![operand(inputs)],
        outputs: vec![operand(vec![output.to_owned()])],
        ..Op::default()
    }
}

fn operand(args: Vec<String>) -> Operand {
    Operand { slot: String::new(), args }
}

/// Returns the declaration of a single Boolean.
fn truth(name: &str) -> Var {
    let value = TensorType::new(DType::Bool, Some(Vec::new())).into();
    Var { name: name.to_owned(), value, ..Var::default() }
}
