//! Gradients of a program: operators that compute them, behind those whose gradients they are.
//!
//! What is appended is what PaddlePaddle 2.6.2 appends: the same operators in the same order with the same names.
//! Source of truth: `base/backward.py` and the makers of gradients (`schema/data/paddle_gradients.tsv`).

use std::collections::{BTreeMap, HashMap, HashSet};

use lodstone_model::{AttributeValue, ByteString, Op, Operand, Program, Var};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::{EMPTY, GRAD, gradient_of, gradient_ops};

use crate::error::{Error, Result, variable};
use crate::known::Known;
use crate::network::{Network, Variable};
use crate::operator::Operator;
use crate::role::{BACKWARD, LOSS, set, set_role};

impl Network {
    /// Appends operators that compute the gradients of a loss by the parameters of the main program, as far as it
    /// depends on them; gives each parameter with its gradient, in the order of the parameters.
    ///
    /// Gradients end at variables that are marked so (`stop_gradient`: what is fed, statistics), and at `no_grad`.
    ///
    /// # Errors
    /// If the loss is not one number, or it depends on parameters through an operator whose gradients are not known.
    pub fn append_backward(
        &mut self,
        loss: &Variable,
        no_grad: &[Variable],
    ) -> Result<Vec<(Variable, Variable)>> {
        let known = self.main.blocks.first().map_or(0, |block| block.vars.len());
        let pairs = append_backward(&mut self.main, loss, no_grad)?;
        let first = self.main.blocks.first();
        for var in first.into_iter().flat_map(|block| block.vars.iter().skip(known)) {
            let info = ValueInfo::from(var.value.clone());
            self.known.insert(var.name.clone(), Known { info, block: 0 });
        }
        Ok(pairs)
    }
}

/// The same for a program of any origin: of its first block.
///
/// # Errors
/// As [`Network::append_backward`].
pub fn append_backward(
    program: &mut Program,
    loss: &Variable,
    no_grad: &[Variable],
) -> Result<Vec<(Variable, Variable)>> {
    let Some(block) = program.blocks.first_mut() else {
        return variable(loss.name(), "the program has no blocks");
    };
    let vars: HashMap<&str, &Var> = block.vars.iter().map(|var| (var.name.as_str(), var)).collect();
    check_loss(&vars, loss)?;
    let mut stopped: HashSet<String> = block
        .vars
        .iter()
        .filter(|var| var.stop_gradient)
        .map(|var| var.name.clone())
        .chain(no_grad.iter().map(|var| var.name().to_owned()))
        .collect();
    let path = path(&block.ops, loss.name(), &stopped);
    stopped.extend(unused(&block.ops, &path, loss.name(), &stopped));
    let mut made = Vec::new();
    for number in path.iter().rev() {
        let Some(op) = block.ops.get(*number) else { continue };
        let gradients = gradients(op, &stopped)?;
        made.extend(gradients);
    }
    let made = summed(made);
    let made = without_branches(made, &stopped, loss.name());
    let made = reached(made, loss.name());
    let begin = beginning(&vars, loss)?;
    let parameters: Vec<Variable> = block
        .vars
        .iter()
        .filter(|var| var.is_parameter && !stopped.contains(&var.name))
        .map(|var| Variable::named(&var.name))
        .collect();
    let declared = declared(&vars, std::iter::once(&begin).chain(&made));
    let last = block.ops.iter_mut().rev().find(|op| op.writes().any(|name| name == loss.name()));
    if let Some(op) = last {
        set_role(op, LOSS);
    }
    block.vars.extend(declared);
    let first = block.ops.len();
    block.ops.push(begin);
    block.ops.extend(made);
    let mut pairs = Vec::new();
    for parameter in parameters {
        let gradient = gradient_of(parameter.name());
        let ops = block.ops.iter_mut().skip(first);
        let Some(op) = ops.rev().find(|op| op.writes().any(|name| name == gradient)) else {
            continue;
        };
        let mut names = match op.attribute("op_role_var") {
            Some(AttributeValue::Strings(names)) => names.clone(),
            _ => Vec::new(),
        };
        names.extend([parameter.name(), &gradient].map(ByteString::from));
        set(op, "op_role_var", AttributeValue::Strings(names));
        pairs.push((parameter, Variable::named(&gradient)));
    }
    Ok(pairs)
}

fn check_loss(vars: &HashMap<&str, &Var>, loss: &Variable) -> Result<()> {
    let Some(var) = vars.get(loss.name()) else {
        return variable(loss.name(), "the program has no such variable");
    };
    let tensor = var.value.tensors.first();
    let shape = tensor.and_then(|tensor| tensor.shape.as_ref());
    let is_one = |dim: &lodstone_model::Dim| *dim == lodstone_model::Dim::Known(1);
    match shape.is_some_and(|dims| dims.iter().all(is_one)) {
        true => Ok(()),
        false => variable(loss.name(), "expected one number as a loss"),
    }
}

/// The numbers of the operators that a variable depends on.
fn path(ops: &[Op], target: &str, stopped: &HashSet<String>) -> Vec<usize> {
    let mut wanted = HashSet::from([target]);
    let mut path = Vec::new();
    for (number, op) in ops.iter().enumerate().rev() {
        if op.writes().any(|name| wanted.contains(name)) {
            wanted.extend(op.reads().filter(|name| !stopped.contains(*name)));
            path.push(number);
        }
    }
    path.reverse();
    path
}

/// Variables that operators on the path write and none of them reads.
fn unused(ops: &[Op], path: &[usize], target: &str, stopped: &HashSet<String>) -> HashSet<String> {
    let mut read = HashSet::from([target]);
    let mut unused = HashSet::new();
    for op in path.iter().rev().filter_map(|number| ops.get(*number)) {
        if op.blocks().next().is_none() {
            let is_unused = |name: &&str| !read.contains(name) && !op.reads().any(|it| it == *name);
            unused.extend(op.writes().filter(is_unused).map(str::to_owned));
        }
        read.extend(op.reads().filter(|name| !stopped.contains(*name)));
    }
    unused
}

/// The gradient operators of an operator, as this pass writes them.
fn gradients(op: &Op, stopped: &HashSet<String>) -> Result<Vec<Op>> {
    let is_wanted = |name: &str| !stopped.contains(name);
    if op.blocks().next().is_some() && op.writes().any(is_wanted) {
        let what = "gradients of operators that run blocks are not appended".to_owned();
        return Err(Error::Operator { kind: op.kind.clone(), what });
    }
    let mut made = gradient_ops(op, is_wanted);
    for op in &mut made {
        op.attributes.retain(|attribute| attribute.name != "op_role_var");
        set_role(op, BACKWARD);
    }
    Ok(made)
}

/// A gradient of which there are several.
#[derive(Default)]
struct Several {
    /// What its parts are called: as it is itself, as long as there is one.
    names: Vec<String>,
    /// The operator that writes the first.
    first: usize,
    /// How many parts have been given names.
    count: usize,
}

/// Where several operators write one gradient, each writes a part, and a sum of them is computed before it is read.
fn summed(mut ops: Vec<Op>) -> Vec<Op> {
    let mut parts: BTreeMap<String, Several> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    let mut sums: Vec<(usize, Op)> = Vec::new();
    for number in 0..ops.len() {
        let read = gradient_names(ops.get(number).map_or(&[][..], |op| &op.inputs));
        for name in &read {
            if let Some(several) = parts.get_mut(name).filter(|several| several.names.len() > 1) {
                sums.push((number, sum(name, std::mem::take(&mut several.names))));
                several.names = vec![name.clone()];
                several.first = number;
            }
        }
        for (slot, place) in places(ops.get(number)) {
            let Some(name) = output(&mut ops, number, slot, place).cloned() else { continue };
            // What is changed in place stays one.
            if !name.contains(GRAD) || name == EMPTY || read.contains(&name) {
                continue;
            }
            let several = parts.entry(name.clone()).or_insert_with(|| {
                order.push(name.clone());
                Several::default()
            });
            if several.names.is_empty() {
                (several.names, several.first) = (vec![name], number);
                continue;
            }
            if several.names.len() == 1 {
                let part = several.next(&name);
                several.names = vec![part.clone()];
                let first = several.first;
                for op in ops.iter_mut().take(number).skip(first) {
                    rename(op, &name, &part);
                }
                for (_, op) in &mut sums {
                    rename(op, &name, &part);
                }
                if first == number {
                    // Both are written by this one: the first of them is renamed.
                    if let Some(op) = ops.get_mut(number) {
                        rename_first(op, &name, &part);
                    }
                }
            }
            let part = several.next(&name);
            several.names.push(part.clone());
            if let Some(name) = output(&mut ops, number, slot, place) {
                *name = part;
            }
        }
    }
    for name in order {
        if let Some(several) = parts.remove(&name).filter(|several| several.names.len() > 1) {
            sums.push((ops.len(), sum(&name, several.names)));
        }
    }
    for (number, sum) in sums.into_iter().rev() {
        ops.insert(number, sum);
    }
    ops
}

impl Several {
    fn next(&mut self, name: &str) -> String {
        let part = format!("{name}@RENAME@block0@{}", self.count);
        self.count += 1;
        part
    }
}

fn gradient_names(operands: &[Operand]) -> Vec<String> {
    let names = operands.iter().flat_map(|operand| &operand.args);
    names.filter(|name| name.contains(GRAD) && *name != EMPTY).cloned().collect()
}

fn args(op: &mut Op) -> impl Iterator<Item = &mut String> {
    op.inputs.iter_mut().chain(&mut op.outputs).flat_map(|operand| &mut operand.args)
}

fn rename(op: &mut Op, from: &str, to: &str) {
    args(op).filter(|name| *name == from).for_each(|name| to.clone_into(name));
}

fn rename_first(op: &mut Op, from: &str, to: &str) {
    let mut outputs = op.outputs.iter_mut().flat_map(|operand| &mut operand.args);
    if let Some(name) = outputs.find(|name| *name == from) {
        to.clone_into(name);
    }
}

/// Where the outputs of an operator are: slots, and places in them.
fn places(op: Option<&Op>) -> Vec<(usize, usize)> {
    let slots = op.map_or(&[][..], |op| &op.outputs).iter().enumerate();
    slots
        .flat_map(|(slot, operand)| (0..operand.args.len()).map(move |place| (slot, place)))
        .collect()
}

fn output(ops: &mut [Op], number: usize, slot: usize, place: usize) -> Option<&mut String> {
    ops.get_mut(number)?.outputs.get_mut(slot)?.args.get_mut(place)
}

fn sum(name: &str, parts: Vec<String>) -> Op {
    let operand = |slot: &str, args: Vec<String>| Operand { slot: slot.to_owned(), args };
    let mut op = Op {
        kind: "sum".to_owned(),
        inputs: vec![operand("X", parts)],
        outputs: vec![operand("Out", vec![name.to_owned()])],
        ..Op::default()
    };
    set(&mut op, "use_mkldnn", AttributeValue::Bool(false));
    set_role(&mut op, BACKWARD);
    op
}

/// Without operators whose results nobody wants, or which read gradients of nothing; what others read of these is
/// zeros.
fn without_branches(ops: Vec<Op>, stopped: &HashSet<String>, loss: &str) -> Vec<Op> {
    let mut nothing: HashSet<String> = stopped.iter().map(|name| gradient_of(name)).collect();
    nothing.insert(EMPTY.to_owned());
    let loss = gradient_of(loss);
    let mut kept = Vec::new();
    for op in ops {
        let written: Vec<String> = op.writes().map(str::to_owned).collect();
        if written.iter().all(|name| nothing.contains(name)) {
            continue;
        }
        if gradient_names(&op.inputs).iter().all(|name| nothing.contains(name)) {
            nothing.extend(written.into_iter().filter(|name| *name != loss));
            continue;
        }
        kept.push(op);
    }
    let mut made = Vec::new();
    for op in kept {
        for name in gradient_names(&op.inputs).iter().filter(|name| nothing.contains(*name)) {
            made.push(zeros(name));
        }
        made.push(op);
    }
    made
}

fn zeros(gradient: &str) -> Op {
    let operand =
        |slot: &str, name: &str| Operand { slot: slot.to_owned(), args: vec![name.to_owned()] };
    let of = gradient.split_once(GRAD).map_or(gradient, |(of, _)| of);
    let mut op = Op {
        kind: "fill_any_like".to_owned(),
        inputs: vec![operand("X", of)],
        outputs: vec![operand("Out", gradient)],
        ..Op::default()
    };
    set(&mut op, "value", AttributeValue::Float(0.0));
    set(&mut op, "dtype", AttributeValue::Int(-1));
    set_role(&mut op, BACKWARD);
    op
}

/// The operators to which the gradient of the loss comes.
fn reached(ops: Vec<Op>, loss: &str) -> Vec<Op> {
    let mut known = HashSet::from([gradient_of(loss)]);
    let mut kept = Vec::new();
    for mut op in ops {
        let read = gradient_names(&op.inputs);
        if op.kind == "sum" {
            for operand in &mut op.inputs {
                operand.args.retain(|name| known.contains(name));
            }
        }
        if op.kind != "fill_any_like" && !read.iter().any(|name| known.contains(name)) {
            continue;
        }
        known.extend(op.writes().map(str::to_owned));
        kept.push(op);
    }
    kept
}

/// The operator that the gradient of the loss begins with: it is 1.
fn beginning(vars: &HashMap<&str, &Var>, loss: &Variable) -> Result<Op> {
    let tensor = vars.get(loss.name()).and_then(|var| var.value.tensors.first());
    let Some(tensor) = tensor else { return variable(loss.name(), "expected a tensor as a loss") };
    let shape = vec![1_i64; tensor.shape.as_ref().map_or(0, Vec::len)];
    let gradient = Variable::named(&gradient_of(loss.name()));
    Operator::new("fill_constant")
        .output("Out", [&gradient])
        .attribute("shape", shape)
        .attribute("value", 1.0_f32)
        .dtype("dtype", tensor.dtype)
        .attribute("op_role", BACKWARD | LOSS)
        .finish()
}

/// The variables that operators write, of the types of those whose gradients they are.
fn declared<'o>(vars: &HashMap<&str, &Var>, ops: impl Iterator<Item = &'o Op>) -> Vec<Var> {
    let (mut seen, mut made) = (HashSet::new(), Vec::new());
    for name in ops.flat_map(Op::writes).filter(|name| *name != EMPTY) {
        if vars.contains_key(name) || !seen.insert(name) {
            continue;
        }
        let of = name.split_once(GRAD).map_or(name, |(of, _)| of);
        let value = vars.get(of).map(|var| var.value.clone()).unwrap_or_default();
        made.push(Var { name: name.to_owned(), value, ..Var::default() });
    }
    made
}
