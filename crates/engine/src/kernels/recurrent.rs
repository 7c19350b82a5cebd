//! Recurrent cells: RNN, GRU, LSTM.

use lodstone_schema::Finding;

use super::quantize::by_range;
use crate::call::{Call, Outputs};
use crate::dims::{count, dim_at};
use crate::error::Outcome;
use crate::fast::{Gates, Packing};
use crate::operator::Operator;
use crate::tensor::{Dense, floats, product};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("GRU", |call| run(call, &["Sigmoid", "Tanh"], gru))
        .packed(Packing::Cells(Gates::Gru))
        .error(1e-6)
        .working(8, 0),
    Operator::dense("LSTM", |call| run(call, &["Sigmoid", "Tanh", "Tanh"], lstm))
        .packed(Packing::Cells(Gates::Lstm))
        .error(1e-6)
        .working(8, 0),
    Operator::dense("RNN", |call| run(call, &["Tanh"], rnn)).working(8, 0),
];

/// Computes an LSTM whose input and state are quantized by their range; the weights are not.
pub(super) fn dynamic_lstm(call: &Call<'_>) -> Outputs {
    run(call, &["Sigmoid", "Tanh", "Tanh"], lstm)
}

/// The maximum size of an element of the contributions of inputs in bytes.
const WIDE: u64 = 8;

/// One step of a cell, from the contribution of its input to all gates.
type Step = fn(&Cell<'_>, &Dense, &State) -> Outcome<State>;

/// The state of a cell: each tensor is [batch, hidden].
#[derive(Clone)]
struct State {
    hidden: Dense,
    /// The cell state of an LSTM.
    long: Option<Dense>,
}

/// The weights of one direction, with stacked gates.
struct Cell<'a> {
    call: &'a Call<'a>,
    // [inputs, gates * hidden]
    input: Dense,
    // [hidden, gates * hidden]
    recurrent: Dense,
    // [gates * hidden]: the biases of the input and of the state.
    biases: Option<(Dense, Dense)>,
    // [3 * hidden]
    peepholes: Option<Dense>,
    hidden: usize,
    curves: Vec<Curve>,
    /// Whether states are rounded to 8 bits by their range.
    is_dynamic: bool,
}

/// An activation with its parameters.
#[derive(Clone, Copy)]
enum Curve {
    Relu,
    Tanh,
    Sigmoid,
    Softsign,
    Softplus,
    LeakyRelu { alpha: f32 },
    ThresholdedRelu { alpha: f32 },
    Elu { alpha: f32 },
    Affine { alpha: f32, beta: f32 },
    ScaledTanh { alpha: f32, beta: f32 },
    HardSigmoid { alpha: f32, beta: f32 },
}

impl Curve {
    /// Returns the activation of a name, which takes its parameters from the lists. Defaults are those of ONNX's operators;
    /// where there is no such operator, or ONNX Runtime has another default, the parameter is required.
    fn named(name: &str, alphas: &mut Parameters<'_>, betas: &mut Parameters<'_>) -> Outcome<Self> {
        let mut alpha = |default| parameter(name, "activation_alpha", alphas, default);
        let mut beta = |default| parameter(name, "activation_beta", betas, default);
        Ok(match name.to_ascii_lowercase().as_str() {
            "relu" => Self::Relu,
            "tanh" => Self::Tanh,
            "sigmoid" => Self::Sigmoid,
            "softsign" => Self::Softsign,
            "softplus" => Self::Softplus,
            "leakyrelu" => Self::LeakyRelu { alpha: alpha(Some(0.01))? },
            "thresholdedrelu" => Self::ThresholdedRelu { alpha: alpha(None)? },
            "elu" => Self::Elu { alpha: alpha(Some(1.0))? },
            "affine" => Self::Affine { alpha: alpha(None)?, beta: beta(None)? },
            "scaledtanh" => Self::ScaledTanh { alpha: alpha(None)?, beta: beta(None)? },
            "hardsigmoid" => Self::HardSigmoid { alpha: alpha(Some(0.2))?, beta: beta(Some(0.5))? },
            other => return Err(Finding::internal(format!("no kernel for activation `{other}`"))),
        })
    }

    fn of(self, x: &Dense) -> Outcome<Dense> {
        match self {
            Self::Relu => x.relu(),
            Self::Tanh => x.tanh(),
            Self::Sigmoid => x.sigmoid(),
            Self::Softsign => x.softsign(),
            Self::Softplus => x.softplus(),
            Self::LeakyRelu { alpha } => x.leaky(alpha),
            Self::ThresholdedRelu { alpha } => x.thresholded(alpha),
            Self::Elu { alpha } => x.elu(alpha),
            Self::Affine { alpha, beta } => {
                floats!(x, T => |x| x * T::from(alpha) + T::from(beta))
            }
            Self::ScaledTanh { alpha, beta } => {
                floats!(x, T => |x| (x * T::from(beta)).tanh() * T::from(alpha))
            }
            Self::HardSigmoid { alpha, beta } => x.hard_sigmoid(alpha, beta),
        }
    }
}

/// Parameters of activations, in the order of those that take some.
type Parameters<'a> = std::slice::Iter<'a, f32>;

fn parameter(
    activation: &str,
    attribute: &str,
    parameters: &mut Parameters<'_>,
    default: Option<f32>,
) -> Outcome<f32> {
    let found = parameters.next().copied().or(default);
    found.ok_or_else(|| format!("expected `{attribute}` for the activation `{activation}`").into())
}

impl Cell<'_> {
    fn gate(&self, x: &Dense, number: usize) -> Outcome<Dense> {
        let at = x.dims().len().saturating_sub(1);
        x.cut(at, number * self.hidden, (number + 1) * self.hidden)
    }

    fn curve(&self, number: usize, x: &Dense) -> Outcome<Dense> {
        let limit = f64::from(self.call.float("clip", 0.0));
        let x = match limit > 0.0 {
            true => x.clamped(-limit, limit)?,
            false => x.clone(),
        };
        self.curves.get(number).ok_or("an activation is missing")?.of(&x)
    }

    /// Returns the contribution of inputs, [rows, inputs], to all gates.
    fn of_inputs(&self, x: Dense) -> Outcome<Dense> {
        let made = product(&x, &self.input)?;
        match &self.biases {
            Some((bias, _)) => made.plus(bias),
            None => Ok(made),
        }
    }

    /// Returns the contribution of the state to all gates.
    fn of_hidden(&self, hidden: &Dense) -> Outcome<Dense> {
        let hidden = match self.is_dynamic {
            true => {
                let (codes, scale) = by_range(hidden)?;
                codes.scaled(scale.into())?
            }
            false => hidden.clone(),
        };
        let made = product(&hidden, &self.recurrent)?;
        match &self.biases {
            Some((_, bias)) => made.plus(bias),
            None => Ok(made),
        }
    }
}

fn rnn(cell: &Cell<'_>, of_x: &Dense, state: &State) -> Outcome<State> {
    let sum = of_x.plus(&cell.of_hidden(&state.hidden)?)?;
    Ok(State { hidden: cell.curve(0, &sum)?, long: None })
}

/// Gates: update, reset, hidden.
fn gru(cell: &Cell<'_>, of_x: &Dense, state: &State) -> Outcome<State> {
    let old = &state.hidden;
    let of_h = cell.of_hidden(old)?;
    let sum = |number: usize| cell.gate(of_x, number)?.plus(&cell.gate(&of_h, number)?);
    let (update, reset) = (cell.curve(0, &sum(0)?)?, cell.curve(0, &sum(1)?)?);
    let fresh = if cell.call.int("linear_before_reset", 0) != 0 {
        reset.times(&cell.gate(&of_h, 2)?)?
    } else {
        cell.gate(&cell.of_hidden(&reset.times(old)?)?, 2)?
    };
    let fresh = cell.curve(1, &cell.gate(of_x, 2)?.plus(&fresh)?)?;
    // fresh + update * (old - fresh)
    let hidden = fresh.plus(&update.times(&old.minus(&fresh)?)?)?;
    Ok(State { hidden, long: None })
}

/// Gates: input, output, forget, cell; peepholes: input, output, forget.
fn lstm(cell: &Cell<'_>, of_x: &Dense, state: &State) -> Outcome<State> {
    let old = state.long.as_ref().ok_or("the cell state is missing")?;
    let all = of_x.plus(&cell.of_hidden(&state.hidden)?)?;
    let gate = |number: usize, peephole: Option<(usize, &Dense)>| {
        let sum = cell.gate(&all, number)?;
        match (peephole, &cell.peepholes) {
            (Some((number, long)), Some(peepholes)) => {
                sum.plus(&cell.gate(peepholes, number)?.times(long)?)
            }
            _ => Ok(sum),
        }
    };
    let input = cell.curve(0, &gate(0, Some((0, old)))?)?;
    let forget = match cell.call.int("input_forget", 0) != 0 {
        true => input.scaled(-1.0)?.shifted(1.0)?,
        false => cell.curve(0, &gate(2, Some((2, old)))?)?,
    };
    let fresh = cell.curve(1, &gate(3, None)?)?;
    let long = forget.times(old)?.plus(&input.times(&fresh)?)?;
    let output = cell.curve(0, &gate(1, Some((1, &long)))?)?;
    // The output of the cell is not clipped.
    let curve = cell.curves.get(2).ok_or("an activation is missing")?;
    Ok(State { hidden: output.times(&curve.of(&long)?)?, long: Some(long) })
}

/// The memory of the tensors of a step without their elements, in bytes.
const STEP: u64 = 448;

fn run(call: &Call<'_>, curves: &[&str], step: Step) -> Outputs {
    let batch_first = call.int("layout", 0) != 0;
    let swap = |item: &Dense, order: &[usize]| match batch_first {
        true => item.permuted(order),
        false => Ok(item.clone()),
    };
    // [steps, batch, inputs]
    let x = swap(call.input(0)?, &[1, 0, 2])?;
    let [steps, batch, inputs] = *x.shape().as_slice() else {
        return Err(format!("expected [steps, batch, inputs], found {:?}", x.shape()).into());
    };
    let shape = call.input(2)?.shape();
    let (Some(directions), Some(hidden)) = (shape.first(), shape.last()) else {
        return Err("expected weights for each direction".into());
    };
    let (directions, hidden) = (*directions, *hidden);
    if x.shape().contains(&0) || shape.contains(&0) {
        return Err(format!("the sequences of {:?} are empty", x.shape()).into());
    }
    let lengths = match call.longs(4)? {
        Some(lengths) => lengths.iter().map(|one| count(*one)).collect::<Outcome<Vec<_>>>()?,
        None => vec![steps; batch],
    };
    if lengths.len() != batch || lengths.iter().any(|length| *length > steps) {
        return Err(format!("expected {batch} sequence lengths, found {lengths:?}").into());
    }
    // The hidden state of each step, alone and with those of others, and what becomes of it.
    let _states = call.workspace(&[directions, steps], STEP)?;
    let _hidden = call.workspace(&[directions, steps, batch, hidden], 36)?;
    let (mut all, mut last, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    for direction in 0..directions {
        let cell = cell(call, direction, directions, hidden, curves)?;
        let begin = |number: usize| match call.optional(number) {
            // [batch, directions, hidden] or [directions, batch, hidden]
            Some(state) => {
                let state = swap(state, &[1, 0, 2])?;
                if state.shape() != [directions, batch, hidden] {
                    return Err(format!("unexpected dims of a state: {:?}", state.shape()).into());
                }
                let state = state.cut(0, direction, direction + 1)?;
                state.reshaped([batch, hidden])
            }
            None => Dense::filled(0.0, x.dtype(), &[batch, hidden]),
        };
        let long = if curves.len() == 3 { Some(begin(6)?) } else { None };
        let mut state = State { hidden: begin(5)?, long };
        let orders = [("forward", false), ("reverse", true), ("bidirectional", direction == 1)];
        let backwards = call.choice("direction", &orders)?;
        // One product for all steps: the weights are read once.
        let _workspace = call.workspace(&[steps, batch, gates(curves), hidden], WIDE)?;
        let of_inputs = cell.of_inputs(x.reshaped(vec![steps * batch, inputs])?)?;
        let mut made = Vec::with_capacity(steps);
        for number in 0..steps {
            let at = if backwards { steps - 1 - number } else { number };
            let now = of_inputs.cut(0, at * batch, (at + 1) * batch)?;
            let next = match cell.is_dynamic && !backwards {
                true => step(&cell, &now, &active(&state, &lengths, at)?)?,
                false => step(&cell, &now, &state)?,
            };
            let shown;
            (state, shown) = within(state, next, &lengths, at)?;
            made.push(shown.reshaped(vec![1, 1, batch, hidden])?);
        }
        if backwards {
            made.reverse();
        }
        all.push(Dense::joined(&made, 0)?);
        last.push(state.hidden.reshaped(vec![1, batch, hidden])?);
        if let Some(long) = state.long {
            cells.push(long.reshaped([1, batch, hidden])?);
        }
    }
    // [steps, directions, batch, hidden]
    let mut outputs = vec![
        swap(&Dense::joined(&all, 1)?, &[2, 0, 1, 3])?,
        swap(&Dense::joined(&last, 0)?, &[1, 0, 2])?,
    ];
    if !cells.is_empty() {
        outputs.push(swap(&Dense::joined(&cells, 0)?, &[1, 0, 2])?);
    }
    crate::call::all(outputs)
}

/// Sets the hidden state of sequences that ended before the last step to 0: it is not part of the range of states.
fn active(state: &State, lengths: &[usize], at: usize) -> Outcome<State> {
    if lengths.iter().all(|length| *length >= at) {
        return Ok(state.clone());
    }
    let shape = state.hidden.shape();
    let goes: Vec<bool> = lengths.iter().map(|length| *length >= at).collect();
    let goes = Dense::truths(&goes, &[lengths.len(), 1])?;
    let zero = Dense::filled(0.0, state.hidden.dtype(), &shape)?;
    Ok(State { hidden: zero.masked(&goes, &state.hidden)?, long: state.long.clone() })
}

/// Keeps the state of finished sequences, and sets their output to 0.
fn within(old: State, new: State, lengths: &[usize], at: usize) -> Outcome<(State, Dense)> {
    if lengths.iter().all(|length| *length > at) {
        let shown = new.hidden.clone();
        return Ok((new, shown));
    }
    let shape = new.hidden.shape();
    let goes: Vec<bool> = lengths.iter().map(|length| *length > at).collect();
    let goes = Dense::truths(&goes, &[lengths.len(), 1])?;
    let zero = Dense::filled(0.0, new.hidden.dtype(), &shape)?;
    let shown = zero.masked(&goes, &new.hidden)?;
    let long = match (old.long, new.long) {
        (Some(old), Some(new)) => Some(old.masked(&goes, &new)?),
        _ => None,
    };
    Ok((State { hidden: old.hidden.masked(&goes, &new.hidden)?, long }, shown))
}

/// Returns the number of gates of a cell with these activations.
fn gates(curves: &[&str]) -> usize {
    match curves.len() {
        3 => 4,
        2 => 3,
        _ => 1,
    }
}

fn cell<'a>(
    call: &'a Call<'a>,
    direction: usize,
    directions: usize,
    hidden: usize,
    curves: &[&str],
) -> Outcome<Cell<'a>> {
    // The part of a direction, which has these dims.
    let part = |item: &Dense, dims: &[usize]| {
        let (found, expected) = (item.shape(), [&[directions], dims].concat());
        if found != expected {
            return Err(format!("expected weights of dims {expected:?}, found {found:?}").into());
        }
        let one = item.cut(0, direction, direction + 1)?;
        one.reshaped(dims)
    };
    let rows = hidden.checked_mul(gates(curves)).filter(|rows| *rows <= usize::MAX / 4);
    let rows = rows.ok_or("the hidden size is too large")?;
    let biases = call.optional(3).map(|both| {
        let both = part(both, &[2 * rows])?;
        Ok::<_, Finding>((both.cut(0, 0, rows)?, both.cut(0, rows, 2 * rows)?))
    });
    let biases = biases.transpose()?;
    let names = call.texts("activations").filter(|names| !names.is_empty()).unwrap_or_else(|| {
        let all = (0..directions).flat_map(|_| curves);
        all.map(|name| (*name).to_owned()).collect()
    });
    // Parameters are assigned in order to the activations that take some.
    let (mut alphas, mut betas) =
        (call.floats("activation_alpha").iter(), call.floats("activation_beta").iter());
    let curve = |name: &String| Curve::named(name, &mut alphas, &mut betas);
    let all: Vec<Curve> = names.iter().map(curve).collect::<Outcome<_>>()?;
    let own = all.into_iter().skip(direction * curves.len()).take(curves.len()).collect();
    let inputs = dim_at(call.input(0)?.dims(), 2)?;
    let input = part(call.input(1)?, &[rows, inputs])?;
    let recurrent = part(call.input(2)?, &[rows, hidden])?;
    let peepholes = call.optional(7).map(|it| part(it, &[3 * hidden])).transpose()?;
    Ok(Cell {
        call,
        input: input.permuted(&[1, 0])?,
        recurrent: recurrent.permuted(&[1, 0])?,
        biases,
        peepholes,
        hidden,
        curves: own,
        is_dynamic: call.op.kind == "DynamicQuantizeLSTM",
    })
}
