//! `LSTM` and `GRU` with their usual activations: the product of the state with a packed matrix, then all gates in one pass.

use lodstone_model::DType;

use super::Task;
use super::layout::{Floats, Order, ordered, tensor};
use super::product::{Finish, Lines, Packed, part_of};
use crate::budget::Charge;
use crate::dense::Dense;
use crate::fused::curves::{sigmoid, tanh};
use crate::fused::wide;
use crate::item::Outcome;
use crate::kernels::Call;
use crate::value::Value;

/// The sizes of an operator.
#[derive(Clone, Copy)]
struct Sizes {
    steps: usize,
    batch: usize,
    inputs: usize,
    hidden: usize,
    gates: usize,
}

/// The tensors of an operator.
struct Tensors<'t> {
    sizes: Sizes,
    /// The directions that are computed: whether they are reversed.
    directions: &'static [bool],
    x: Floats,
    weights: [&'t Dense; 2],
    biases: Option<Floats>,
    hidden: Option<Floats>,
    cell: Option<Floats>,
}

/// The weights of a direction.
struct Cell {
    sizes: Sizes,
    input: Packed,
    /// The parts of the recurrent weights that are multiplied with the same state.
    recurrent: Vec<Packed>,
    /// What is added to the product of the input, and of each recurrent part.
    biases: Vec<Vec<f32>>,
    _charge: Charge,
}

/// The state of all sequences of a batch.
struct State {
    hidden: Vec<f32>,
    /// The cell state of an LSTM.
    cell: Vec<f32>,
}

/// Computes a step for all sequences from the product of their inputs, and the state.
type Step = fn(&Cell, &[f32], &mut State, &mut [Vec<f32>]) -> Outcome<()>;

/// Returns whether the input and both weights are tensors in single precision.
pub(super) fn fits(inputs: &[Option<&Value>]) -> bool {
    let single = |input: &Option<&Value>| {
        let dense = input.and_then(|it| it.dense().ok());
        dense.is_some_and(|it| it.dtype() == DType::Float32 && it.dims().len() == 3)
    };
    inputs.get(..3).is_some_and(|inputs| inputs.iter().all(single))
}

/// Computes an LSTM, or returns `None` if the kernel must run instead.
pub(super) fn lstm(task: &Task<'_>) -> Outcome<Option<Vec<Dense>>> {
    run(task, 4, &[4], lstm_step)
}

/// Computes a GRU, or returns `None` if the kernel must run instead.
pub(super) fn gru(task: &Task<'_>) -> Outcome<Option<Vec<Dense>>> {
    match Call::new(task.op, &[])?.int("linear_before_reset", 0) {
        0 => run(task, 3, &[2, 1], gru_step),
        _ => run(task, 3, &[3], linear_gru_step),
    }
}

/// Computes all directions. `parts` are the numbers of gates of the parts of the recurrent weights.
fn run(task: &Task<'_>, gates: usize, parts: &[usize], step: Step) -> Outcome<Option<Vec<Dense>>> {
    let Some(tensors) = Tensors::of(task, gates)? else { return Ok(None) };
    let Sizes { steps, batch, inputs, hidden, .. } = tensors.sizes;
    let (count, width) = (tensors.directions.len(), gates * hidden);
    let mut all = task.buffers.take(steps * count * batch * hidden);
    let (mut last, mut cells) = (Vec::new(), Vec::new());
    let _workspace = task.budget.reserve((steps * batch * width * size_of::<f32>()) as u64)?;
    for (number, is_reversed) in tensors.directions.iter().enumerate() {
        let cell = tensors.cell(number, parts, task)?;
        // One product for all steps: the weights are read once.
        let mut of_inputs = vec![0.0; steps * batch * width];
        let rows = Lines { apart: inputs, each: inputs, values: &tensors.x };
        let finish = Finish { bias: cell.biases.first().map(Vec::as_slice), clamp: None };
        cell.input.multiply(&rows, finish, &mut of_inputs, |_, _| Ok(()))?;
        let first = |state: &Option<Floats>| match state {
            Some(state) => part_of(state, number * batch * hidden, batch * hidden).to_vec(),
            None => vec![0.0; batch * hidden],
        };
        let mut state = State { hidden: first(&tensors.hidden), cell: first(&tensors.cell) };
        let mut products: Vec<Vec<f32>> =
            parts.iter().map(|gates| vec![0.0; batch * gates * hidden]).collect();
        for at in 0..steps {
            let at = if *is_reversed { steps - 1 - at } else { at };
            let of_inputs = part_of(&of_inputs, at * batch * width, batch * width);
            step(&cell, of_inputs, &mut state, &mut products)?;
            let made = all.chunks_exact_mut(batch * hidden).nth(at * count + number);
            if let Some(made) = made {
                made.copy_from_slice(&state.hidden);
            }
        }
        last.extend(state.hidden);
        cells.extend(state.cell);
    }
    let whole = |values, dims: &[usize]| tensor(values, dims.to_vec(), Order::RowMajor);
    let mut made =
        vec![whole(all, &[steps, count, batch, hidden])?, whole(last, &[count, batch, hidden])?];
    if gates == 4 {
        made.push(whole(cells, &[count, batch, hidden])?);
    }
    Ok(Some(made))
}

impl<'t> Tensors<'t> {
    /// Returns the tensors of an operator, or `None` if something in it is unusual.
    fn of(task: &Task<'t>, gates: usize) -> Outcome<Option<Self>> {
        let call = Call::new(task.op, &[])?;
        let given = |number: usize| task.inputs.get(number).copied().flatten();
        let usual: &[&str] =
            if gates == 4 { &["Sigmoid", "Tanh", "Tanh"] } else { &["Sigmoid", "Tanh"] };
        let activations = call.texts("activations").unwrap_or_default();
        let mut activations = activations.iter().zip(usual.iter().cycle());
        let is_usual = activations.all(|(found, usual)| found.eq_ignore_ascii_case(usual))
            && call.float("clip", 0.0) <= 0.0
            && call.int("input_forget", 0) == 0
            && call.int("layout", 0) == 0
            && given(4).is_none()
            && given(7).is_none();
        let directions: &[bool] = match call.text("direction").as_deref() {
            None | Some("forward") => &[false],
            Some("reverse") => &[true],
            Some("bidirectional") => &[false, true],
            _ => return Ok(None),
        };
        let dense = |number: usize| given(number).and_then(|it| it.dense().ok());
        let (true, Some(x), Some(input), Some(recurrent)) =
            (is_usual, dense(0), dense(1), dense(2))
        else {
            return Ok(None);
        };
        let ([steps, batch, inputs], [_, _, hidden]) = (x.dims(), recurrent.dims()) else {
            return Ok(None);
        };
        let sizes = Sizes { steps: *steps, batch: *batch, inputs: *inputs, hidden: *hidden, gates };
        let (count, width) = (directions.len(), gates.saturating_mul(*hidden));
        let fits = |number: usize, dims: &[usize]| match given(number) {
            Some(Value::Dense(it)) => it.dims() == dims && it.dtype() == DType::Float32,
            it => it.is_none() && number > 2,
        };
        let are_expected = fits(1, &[count, width, *inputs])
            && fits(2, &[count, width, *hidden])
            && fits(3, &[count, width.saturating_mul(2)])
            && fits(5, &[count, *batch, *hidden])
            && fits(6, &[count, *batch, *hidden]);
        if !are_expected || x.count() == 0 || recurrent.count() == 0 {
            return Ok(None);
        }
        let floats =
            |number: usize| dense(number).map(|it| ordered(it, Order::RowMajor)).transpose();
        Ok(Some(Self {
            sizes,
            directions,
            x: ordered(x, Order::RowMajor)?,
            weights: [input, recurrent],
            biases: floats(3)?,
            hidden: floats(5)?,
            cell: floats(6)?,
        }))
    }

    /// Packs the weights of a direction.
    fn cell(&self, number: usize, parts: &[usize], task: &Task<'_>) -> Outcome<Cell> {
        let sizes @ Sizes { inputs, hidden, gates, .. } = self.sizes;
        let width = gates * hidden;
        let nbytes = Packed::nbytes_of([1, inputs, width]).saturating_add(Packed::nbytes_of([
            parts.len(),
            hidden,
            width,
        ]));
        let charge = task.budget.reserve(nbytes as u64)?;
        let packed = |of: &Dense, inner: usize, gates: [usize; 2]| {
            let [first, count] = gates.map(|gate| gate * hidden);
            let values = ordered(of, Order::RowMajor)?;
            let values = part_of(&values, (number * width + first) * inner, count * inner);
            Ok::<_, lodstone_schema::Finding>(Packed::new(
                [1, inner, count],
                inner,
                |_, row, column| values.get(column * inner + row).copied().unwrap_or_default(),
            ))
        };
        let [input, recurrent] = self.weights;
        let input = packed(input, inputs, [0, gates])?;
        let both = match &self.biases {
            Some(biases) => part_of(biases, number * 2 * width, 2 * width).to_vec(),
            None => vec![0.0; 2 * width],
        };
        let (of_input, of_state) = both.split_at(width);
        let (mut biases, mut made, mut first) = (vec![of_input.to_vec()], Vec::new(), 0);
        for gates in parts {
            made.push(packed(recurrent, hidden, [first, *gates])?);
            biases.push(part_of(of_state, first * hidden, gates * hidden).to_vec());
            first += gates;
        }
        Ok(Cell { sizes, input, recurrent: made, biases, _charge: charge })
    }
}

impl Cell {
    /// Multiplies the states of a batch with a part of the recurrent weights.
    fn multiply(&self, part: usize, states: &[f32], products: &mut [Vec<f32>]) -> Outcome<()> {
        let hidden = self.sizes.hidden;
        let rows = Lines { apart: hidden, each: hidden, values: states };
        let bias = self.biases.get(part + 1).map(Vec::as_slice);
        match (self.recurrent.get(part), products.get_mut(part)) {
            (Some(packed), Some(out)) => {
                packed.multiply(&rows, Finish { bias, clamp: None }, out, |_, _| Ok(()))
            }
            _ => Err(lodstone_schema::Finding::internal("a part of a cell is missing")),
        }
    }
}

/// Gates: input, output, forget, cell.
fn lstm_step(
    cell: &Cell,
    of_inputs: &[f32],
    state: &mut State,
    products: &mut [Vec<f32>],
) -> Outcome<()> {
    cell.multiply(0, &state.hidden, products)?;
    let size = cell.sizes.hidden;
    let sums = products.iter_mut().take(1).flat_map(|all| all.chunks_exact_mut(4 * size));
    let states = state.hidden.chunks_exact_mut(size).zip(state.cell.chunks_exact_mut(size));
    for ((sums, of_inputs), (hidden, long)) in
        sums.zip(of_inputs.chunks_exact(4 * size)).zip(states)
    {
        wide(|| {
            add(sums, of_inputs);
            let [input, output, forget, fresh] = split(sums, size);
            let gates = input.iter().zip(output).zip(forget).zip(fresh);
            for ((((input, output), forget), fresh), (hidden, long)) in
                gates.zip(hidden.iter_mut().zip(long))
            {
                *long = sigmoid(*forget) * *long + sigmoid(*input) * tanh(*fresh);
                *hidden = sigmoid(*output) * tanh(*long);
            }
        });
    }
    Ok(())
}

/// Gates: update, reset, hidden. The reset gate is applied to the product of the state.
fn linear_gru_step(
    cell: &Cell,
    of_inputs: &[f32],
    state: &mut State,
    products: &mut [Vec<f32>],
) -> Outcome<()> {
    cell.multiply(0, &state.hidden, products)?;
    let size = cell.sizes.hidden;
    let sums = products.iter_mut().take(1).flat_map(|all| all.chunks_exact_mut(3 * size));
    let states = state.hidden.chunks_exact_mut(size);
    for ((sums, of_inputs), hidden) in sums.zip(of_inputs.chunks_exact(3 * size)).zip(states) {
        wide(|| {
            let (gates, fresh) = sums.split_at_mut(2 * size);
            let (of_gates, of_fresh) = of_inputs.split_at(2 * size);
            add(gates, of_gates);
            let [update, reset] = split(gates, size);
            let both = update.iter().zip(reset).zip(fresh.iter().zip(of_fresh));
            for (((update, reset), (fresh, of_fresh)), hidden) in both.zip(hidden) {
                let fresh = tanh(of_fresh + sigmoid(*reset) * fresh);
                *hidden = fresh + sigmoid(*update) * (*hidden - fresh);
            }
        });
    }
    Ok(())
}

/// Gates: update, reset, hidden. The reset gate is applied to the state.
fn gru_step(
    cell: &Cell,
    of_inputs: &[f32],
    state: &mut State,
    products: &mut [Vec<f32>],
) -> Outcome<()> {
    cell.multiply(0, &state.hidden, products)?;
    let size = cell.sizes.hidden;
    let gates = products.iter_mut().take(1).flat_map(|all| all.chunks_exact_mut(2 * size));
    let states = state.hidden.chunks_exact(size).zip(state.cell.chunks_exact_mut(size));
    for ((gates, of_inputs), (hidden, kept)) in
        gates.zip(of_inputs.chunks_exact(3 * size)).zip(states)
    {
        wide(|| {
            let (of_gates, _) = of_inputs.split_at(2 * size);
            add(gates, of_gates);
            gates.iter_mut().for_each(|gate| *gate = sigmoid(*gate));
            let [_, reset] = split(gates, size);
            let kept = kept.iter_mut().zip(reset).zip(hidden);
            kept.for_each(|((kept, reset), hidden)| *kept = reset * hidden);
        });
    }
    cell.multiply(1, &state.cell, products)?;
    let [gates, fresh] = products else { return Ok(()) };
    let sums = gates.chunks_exact(2 * size).zip(fresh.chunks_exact(size));
    let states = state.hidden.chunks_exact_mut(size);
    for (((gates, fresh), of_inputs), hidden) in
        sums.zip(of_inputs.chunks_exact(3 * size)).zip(states)
    {
        wide(|| {
            let [update, _] = split(gates, size);
            let [_, _, of_fresh] = split(of_inputs, size);
            let fresh = fresh.iter().zip(of_fresh).zip(update);
            for (((fresh, of_fresh), update), hidden) in fresh.zip(hidden) {
                let fresh = tanh(fresh + of_fresh);
                *hidden = fresh + update * (*hidden - fresh);
            }
        });
    }
    Ok(())
}

#[inline(always)]
fn add(sums: &mut [f32], values: &[f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// Returns the parts of `size` elements.
#[inline(always)]
fn split<const COUNT: usize>(values: &[f32], size: usize) -> [&[f32]; COUNT] {
    std::array::from_fn(|at| part_of(values, at * size, size))
}
