//! Recurrent operators, which Glow does not have: their steps are unrolled.

use lodstone_schema::Finding;
use lodstone_schema::numbers::{exact, length};
use lodstone_schema::places::at;

use super::graph::{MemberValue, Value};
use super::op::{Cx, Fault, Outcome, Rule};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("GRU", |cx| recurrent(cx, &GRU)),
    ("LSTM", |cx| recurrent(cx, &LSTM)),
    ("RNN", |cx| recurrent(cx, &RNN)),
];

/// A kind of recurrent operator.
struct Cell {
    /// The names of its gates, in the order of the weights.
    gates: &'static [&'static str],
    activations: &'static [&'static str],
    has_memory: bool,
    step: fn(&mut Steps<'_, '_>, Value, State) -> Result<State, Fault>,
}

const RNN: Cell = Cell { gates: &["H"], activations: &["Tanh"], has_memory: false, step: rnn };
const GRU: Cell = Cell {
    gates: &["Z", "R", "Htild"],
    activations: &["Sigmoid", "Tanh"],
    has_memory: false,
    step: gru,
};
const LSTM: Cell = Cell {
    gates: &["I", "O", "F", "Ctild"],
    activations: &["Sigmoid", "Tanh", "Tanh"],
    has_memory: true,
    step: lstm,
};

/// The state between steps: the hidden state and the cell state.
#[derive(Clone, Copy)]
struct State {
    hidden: Value,
    memory: Value,
}

/// The weights of a gate for the input and the hidden state, with their biases.
#[derive(Clone, Copy)]
struct Gate {
    name: &'static str,
    input: Value,
    hidden: Value,
    biases: Option<(Value, Value)>,
}

/// One direction.
struct Steps<'s, 'a> {
    cx: &'s mut Cx<'a>,
    gates: Vec<Gate>,
    /// The peephole weights for input, output and forget gate, if any.
    peepholes: Option<[Value; 3]>,
    activations: Vec<&'static str>,
    clip: Option<f32>,
    resets_after: bool,
    forgets_by_input: bool,
}

/// The sizes of a recurrent operator.
struct Sizes {
    steps: i64,
    batch: i64,
    input: i64,
    hidden: i64,
    directions: i64,
}

fn recurrent(cx: &mut Cx<'_>, cell: &Cell) -> Outcome {
    let value = cx.input(0)?;
    let weights = cx.input(1)?;
    let recurrence = cx.input(2)?;
    let (x, r) = (cx.shape(value), cx.shape(recurrence));
    let ([steps, batch, input], [directions, _, hidden]) = (&*x, &*r) else {
        return Err("expected rank 3 of the input and the weights".into());
    };
    let sizes = Sizes {
        steps: *steps,
        batch: *batch,
        input: *input,
        hidden: *hidden,
        directions: *directions,
    };
    check(cx, cell, &sizes)?;
    let backward = match cx.text("direction", "forward")?.as_str() {
        "forward" => vec![false],
        "reverse" => vec![true],
        "bidirectional" => vec![false, true],
        other => return Err(format!("expected a direction, found `{other}`").into()),
    };
    if length(backward.len()) != sizes.directions {
        return Err(format!(
            "`direction` does not match weights for {} directions",
            sizes.directions
        )
        .into());
    }
    let bias = cx.optional(3)?;
    let first = initial(cx, &sizes, 5, "initial_h")?;
    let memory = match cell.has_memory {
        true => initial(cx, &sizes, 6, "initial_c")?,
        false => first,
    };
    let inputs = each_step(cx, value, &sizes)?;
    let mut given: Vec<Vec<Value>> = Vec::new();
    let mut last: Vec<State> = Vec::new();
    for (direction, is_backward) in (0_i64..).zip(&backward) {
        let gates = gates(cx, cell, &sizes, direction, (weights, recurrence, bias))?;
        let peepholes = match cell.has_memory {
            true => peepholes(cx, &sizes, direction)?,
            false => None,
        };
        let start = State {
            hidden: row_of(cx, first, &sizes, direction, "H")?,
            memory: match cell.has_memory {
                true => row_of(cx, memory, &sizes, direction, "C")?,
                false => first,
            },
        };
        let activations = activations(cx, cell, direction)?;
        let (resets_after, forgets_by_input) =
            (cx.flag("linear_before_reset", false)?, cx.flag("input_forget", false)?);
        let clip = match cx.op.attribute("clip") {
            Some(_) => Some(cx.float("clip", 0.0)?),
            None => None,
        };
        let mut steps =
            Steps { cx, gates, peepholes, activations, clip, resets_after, forgets_by_input };
        let mut state = start;
        let mut hidden = Vec::new();
        let forward = inputs.iter().copied();
        let ordered: Vec<Value> =
            if *is_backward { forward.rev().collect() } else { forward.collect() };
        for input in ordered {
            state = (cell.step)(&mut steps, input, state)?;
            hidden.push(state.hidden);
        }
        if *is_backward {
            hidden.reverse();
        }
        given.push(hidden);
        last.push(state);
    }
    outputs(cx, cell, &sizes, &given, &last)
}

/// Rejects attributes and inputs that the steps do not implement.
fn check(cx: &Cx<'_>, cell: &Cell, sizes: &Sizes) -> Result<(), Fault> {
    if cx.int("layout", 0)? != 0 {
        return Err("expected the time axis before the batch, found `layout` 1".into());
    }
    if cx.has(4) && cx.ints(4)?.iter().any(|length| *length != sizes.steps) {
        return Err("Glow does not support sequences of different lengths".into());
    }
    let weights = cx.info(1).and_then(super::known::dims_from);
    let rows = sizes.hidden.checked_mul(length(cell.gates.len()));
    let expected = rows.map(|rows| vec![sizes.directions, rows, sizes.input]);
    if expected.is_none() || expected != weights {
        return Err(format!("expected weights {expected:?}, found {weights:?}").into());
    }
    for name in ["activation_alpha", "activation_beta"] {
        if cx.op.attribute(name).is_some() {
            return Err(format!("expected activations without `{name}`").into());
        }
    }
    Ok(())
}

/// Returns the kinds of nodes for the activations of the operator.
fn activations(cx: &Cx<'_>, cell: &Cell, direction: i64) -> Result<Vec<&'static str>, Fault> {
    let Some(names) = cx.texts("activations")? else { return Ok(cell.activations.to_vec()) };
    let count = cell.activations.len();
    let skipped = exact::<usize, i64>(direction)?.saturating_mul(count);
    let own = names.iter().skip(skipped).take(count);
    let own = own.map(|name| match name.to_ascii_lowercase().as_str() {
        "relu" => Ok("Relu"),
        "sigmoid" => Ok("Sigmoid"),
        "tanh" => Ok("Tanh"),
        _ => Err(format!("expected `Relu`, `Sigmoid` or `Tanh`, found `{name}`")),
    });
    let own: Vec<_> = own.collect::<Result<_, _>>()?;
    match own.len() == count {
        true => Ok(own),
        false => {
            Err(format!("expected {count} activations per direction, found {}", own.len()).into())
        }
    }
}

fn initial(cx: &mut Cx<'_>, sizes: &Sizes, index: usize, name: &str) -> Result<Value, Fault> {
    let shape = vec![sizes.directions, sizes.batch, sizes.hidden];
    match cx.optional(index)? {
        Some(value) if cx.shape(value) == shape => Ok(value),
        Some(value) => Err(format!("expected {shape:?}, found {:?}", cx.shape(value)).into()),
        None => {
            let value = cx.input(0)?;
            let of = cx.shaped(value, shape);
            cx.splat(0.0, of, name)
        }
    }
}

/// Returns the input of each step: `[batch, input]`.
fn each_step(cx: &mut Cx<'_>, value: Value, sizes: &Sizes) -> Result<Vec<Value>, Fault> {
    let (batch, input) = (sizes.batch, sizes.input);
    let mut steps = Vec::new();
    for step in 0..sizes.steps {
        let slice = format!("X{step}_slice");
        let value = cx.slice(value, vec![step, 0, 0], vec![1, batch, input], &slice)?;
        steps.push(cx.reshape_always(value, &[batch, input], &format!("X{step}_reshape"))?);
    }
    Ok(steps)
}

/// Returns the state of a direction: `[batch, hidden]`.
fn row_of(
    cx: &mut Cx<'_>,
    value: Value,
    sizes: &Sizes,
    direction: i64,
    name: &str,
) -> Result<Value, Fault> {
    let (batch, hidden) = (sizes.batch, sizes.hidden);
    let start = vec![direction, 0, 0];
    let value = cx.slice(value, start, vec![1, batch, hidden], &format!("{name}_slice"))?;
    cx.reshape_always(value, &[batch, hidden], &format!("{name}_reshape"))
}

fn gates(
    cx: &mut Cx<'_>,
    cell: &Cell,
    sizes: &Sizes,
    direction: i64,
    (weights, recurrence, bias): (Value, Value, Option<Value>),
) -> Result<Vec<Gate>, Fault> {
    let hidden = sizes.hidden;
    let mut gates = Vec::new();
    for (number, name) in (0_i64..).zip(cell.gates) {
        let start = number.checked_mul(hidden).ok_or("the weights are too large")?;
        let input =
            matrix(cx, weights, (direction, start, hidden), sizes.input, &format!("W{name}"))?;
        let given =
            matrix(cx, recurrence, (direction, start, hidden), hidden, &format!("R{name}"))?;
        let biases = match bias {
            Some(bias) => {
                let second = hidden
                    .checked_mul(length(cell.gates.len()))
                    .and_then(|all| all.checked_add(start))
                    .ok_or("the weights are too large")?;
                let of_input = vector(cx, bias, (direction, start, hidden), &format!("bW{name}"))?;
                let of_given = vector(cx, bias, (direction, second, hidden), &format!("bR{name}"))?;
                Some((of_input, of_given))
            }
            None => None,
        };
        gates.push(Gate { name, input, hidden: given, biases });
    }
    Ok(gates)
}

/// Returns the transposed weights of a gate: `[columns, hidden]`.
fn matrix(
    cx: &mut Cx<'_>,
    value: Value,
    (direction, start, rows): (i64, i64, i64),
    columns: i64,
    name: &str,
) -> Result<Value, Fault> {
    let part = cx.slice(value, vec![direction, start, 0], vec![1, rows, columns], name)?;
    let part = cx.reshape_always(part, &[rows, columns], &format!("{name}_reshape"))?;
    cx.transpose(part, &[1, 0], "*", &format!("{name}_transp"))
}

fn vector(
    cx: &mut Cx<'_>,
    value: Value,
    (direction, start, count): (i64, i64, i64),
    name: &str,
) -> Result<Value, Fault> {
    let part = cx.slice(value, vec![direction, start], vec![1, count], name)?;
    cx.reshape_always(part, &[count], &format!("{name}_reshape"))
}

/// Returns the peephole weights, broadcast to the batch: input, output, forget.
fn peepholes(cx: &mut Cx<'_>, sizes: &Sizes, direction: i64) -> Result<Option<[Value; 3]>, Fault> {
    let Some(value) = cx.optional(7)? else { return Ok(None) };
    let mut of = |number: i64, name: &str| -> Result<Value, Fault> {
        let start = number.checked_mul(sizes.hidden).ok_or("the weights are too large")?;
        let part = cx.slice(value, vec![direction, start], vec![1, sizes.hidden], name)?;
        let whole = cx.shaped(part, vec![sizes.batch, sizes.hidden]);
        let members = vec![("Count", MemberValue::Int(sizes.batch)), ("Axis", MemberValue::Int(0))];
        cx.node("Tile", &format!("{name}_repeat"), &[part], members, whole)
    };
    Ok(Some([of(0, "Pi")?, of(1, "Po")?, of(2, "Pf")?]))
}

impl Steps<'_, '_> {
    fn gate(&self, number: usize) -> Result<Gate, Fault> {
        self.gates.get(number).copied().ok_or_else(|| "expected more gates".into())
    }

    /// Multiplies by weights and adds the bias, if there is one.
    fn weighted(
        &mut self,
        value: Value,
        weights: Value,
        bias: Option<Value>,
        name: &str,
    ) -> Result<Value, Fault> {
        let ([rows, _], [_, columns]) = (&*self.cx.shape(value), &*self.cx.shape(weights)) else {
            return Err(Finding::internal("the operands of a gate are not matrices").into());
        };
        let (rows, columns) = (*rows, *columns);
        let of = self.cx.shaped(value, vec![rows, columns]);
        match bias {
            Some(bias) => {
                self.cx.node("FullyConnected", name, &[value, weights, bias], Vec::new(), of)
            }
            None => self.cx.node("MatMul", name, &[value, weights], Vec::new(), of),
        }
    }

    fn of_input(&mut self, gate: Gate, value: Value) -> Result<Value, Fault> {
        let bias = gate.biases.map(|(bias, _)| bias);
        self.weighted(value, gate.input, bias, &format!("{}_fc1", gate.name))
    }

    fn of_hidden(&mut self, gate: Gate, value: Value) -> Result<Value, Fault> {
        let bias = gate.biases.map(|(_, bias)| bias);
        self.weighted(value, gate.hidden, bias, &format!("{}_fc2", gate.name))
    }

    /// Returns the sum of both products.
    fn sum(&mut self, number: usize, input: Value, hidden: Value) -> Result<Value, Fault> {
        let gate = self.gate(number)?;
        let (left, right) = (self.of_input(gate, input)?, self.of_hidden(gate, hidden)?);
        self.cx.pair("Add", left, right, &format!("{}_add1", gate.name))
    }

    fn activated(&mut self, number: usize, value: Value, name: &str) -> Result<Value, Fault> {
        let kind = self.activations.get(number).copied().ok_or("expected more activations")?;
        let value = match self.clip {
            Some(most) => {
                let of = self.cx.shaped(value, self.cx.shape(value));
                let members =
                    vec![("Min", MemberValue::Float(-most)), ("Max", MemberValue::Float(most))];
                self.cx.node("Clip", &format!("{name}_clip"), &[value], members, of)?
            }
            None => value,
        };
        self.cx.each(kind, value, &format!("{name}_act"))
    }

    /// Adds the cell state, weighted by a peephole.
    fn peeped(
        &mut self,
        number: usize,
        value: Value,
        memory: Value,
        name: &str,
    ) -> Result<Value, Fault> {
        let weights = self.peepholes.and_then(|all| all.get(number).copied());
        let Some(weights) = weights else { return Ok(value) };
        let seen = self.cx.pair("Mul", weights, memory, &format!("{name}_mult"))?;
        self.cx.pair("Add", value, seen, &format!("{name}_add2"))
    }
}

fn rnn(steps: &mut Steps<'_, '_>, input: Value, state: State) -> Result<State, Fault> {
    let sum = steps.sum(0, input, state.hidden)?;
    let hidden = steps.activated(0, sum, "H")?;
    Ok(State { hidden, ..state })
}

fn gru(steps: &mut Steps<'_, '_>, input: Value, state: State) -> Result<State, Fault> {
    let update = steps.sum(0, input, state.hidden)?;
    let update = steps.activated(0, update, "Z")?;
    let reset = steps.sum(1, input, state.hidden)?;
    let reset = steps.activated(0, reset, "R")?;
    let gate = steps.gate(2)?;
    let left = steps.of_input(gate, input)?;
    let right = match steps.resets_after {
        true => {
            let right = steps.of_hidden(gate, state.hidden)?;
            steps.cx.pair("Mul", reset, right, "Htild_reset")?
        }
        false => {
            let kept = steps.cx.pair("Mul", reset, state.hidden, "Htild_reset")?;
            steps.of_hidden(gate, kept)?
        }
    };
    let new = steps.cx.pair("Add", left, right, "Htild_add")?;
    let new = steps.activated(1, new, "Htild")?;
    // (1 - z) * new + z * old
    let part = steps.cx.pair("Mul", update, new, "H_mult1")?;
    let part = steps.cx.pair("Sub", new, part, "H_sub")?;
    let old = steps.cx.pair("Mul", update, state.hidden, "H_mult2")?;
    let hidden = steps.cx.pair("Add", part, old, "H_add")?;
    Ok(State { hidden, ..state })
}

fn lstm(steps: &mut Steps<'_, '_>, input: Value, state: State) -> Result<State, Fault> {
    let forget = steps.sum(2, input, state.hidden)?;
    let forget = steps.peeped(2, forget, state.memory, "F")?;
    let forget = steps.activated(0, forget, "F")?;
    let new = steps.sum(3, input, state.hidden)?;
    let new = steps.activated(1, new, "Ctild")?;
    let take = match steps.forgets_by_input {
        true => {
            let ones = super::elementwise::filled(steps.cx, 1.0, forget, "I_splat")?;
            steps.cx.pair("Sub", ones, forget, "I_sub")?
        }
        false => {
            let take = steps.sum(0, input, state.hidden)?;
            let take = steps.peeped(0, take, state.memory, "I")?;
            steps.activated(0, take, "I")?
        }
    };
    let kept = steps.cx.pair("Mul", forget, state.memory, "C_mult1")?;
    let taken = steps.cx.pair("Mul", take, new, "C_mult2")?;
    let memory = steps.cx.pair("Add", kept, taken, "C_add")?;
    let give = steps.sum(1, input, state.hidden)?;
    let give = steps.peeped(1, give, memory, "O")?;
    let give = steps.activated(0, give, "O")?;
    let shown = steps.activated(2, memory, "H")?;
    let hidden = steps.cx.pair("Mul", give, shown, "H_mult")?;
    Ok(State { hidden, memory })
}

/// Returns all hidden states and the last ones of each direction, as far as they are used.
fn outputs(
    cx: &mut Cx<'_>,
    cell: &Cell,
    sizes: &Sizes,
    given: &[Vec<Value>],
    last: &[State],
) -> Outcome {
    let (steps, directions) = (sizes.steps, sizes.directions);
    let (batch, hidden) = (sizes.batch, sizes.hidden);
    let mut all = Vec::new();
    for step in 0..exact(steps)? {
        for direction in given {
            all.push(at(direction, step)?);
        }
    }
    let mut outputs = vec![None; 3];
    let states = last.iter().map(|state| state.hidden).collect();
    let memories = last.iter().map(|state| state.memory).collect();
    let one = vec![directions, batch, hidden];
    let whole = vec![steps, directions, batch, hidden];
    for (index, (values, shape, name)) in
        [(all, whole, "Y"), (states, one.clone(), "Y_h"), (memories, one, "Y_c")]
            .into_iter()
            .enumerate()
    {
        if cx.wants(index) && (index < 2 || cell.has_memory) {
            let rows = cx.concat(values, 0, &format!("{name}_concat"))?;
            let value = cx.reshape_always(rows, &shape, &format!("{name}_reshape"))?;
            if let Some(output) = outputs.get_mut(index) {
                *output = Some(value);
            }
        }
    }
    Ok(outputs)
}
