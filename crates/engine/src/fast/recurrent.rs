//! `LSTM` and `GRU` with their usual activations: the product of the state with a packed matrix, then all gates in one pass.

use lodstone_model::{DType, Op};
use lodstone_schema::Finding;

use super::call::FastCall;
use crate::call::Call;
use crate::error::Outcome;
use crate::gemm::{Buffer, Columns, Epilogue, PackedMatrix, Raw, StridedRows, part_of};
use crate::layout::{numbers, ordered, raw, tensor};
use crate::simd::curves::{sigmoid, tanh};
use crate::simd::wide;
use crate::tensor::{Dense, Order};
use crate::value::Value;

/// The packed weights of `LSTM` or `GRU`.
#[derive(Debug)]
pub(crate) struct Cells {
    kind: Kind,
    inputs: usize,
    hidden: usize,
    /// The cell of each direction, and whether it takes the steps in reverse.
    directions: Vec<(Cell, bool)>,
}

/// The kind of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Lstm,
    /// The reset gate is applied to the state.
    Gru,
    /// The reset gate is applied to the product of the state.
    LinearGru,
}

/// The recurrent operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gates {
    Lstm,
    Gru,
}

/// The attributes of an operator that its packed weights depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Unrolled {
    kind: Kind,
    /// Whether each direction takes the steps in reverse.
    directions: &'static [bool],
}

/// The weights of a direction.
#[derive(Debug)]
struct Cell {
    hidden: usize,
    input: PackedMatrix,
    /// The parts of the recurrent weights that are multiplied with the same state.
    recurrent: Vec<PackedMatrix>,
    /// What is added to the product of the input, and of each recurrent part.
    biases: Vec<Vec<f32>>,
}

/// The state of all sequences of a batch.
struct State {
    hidden: Vec<f32>,
    /// The cell state of an LSTM. For a GRU, what the reset gate leaves of the state.
    cell: Vec<f32>,
}

impl Kind {
    /// Returns the numbers of gates whose recurrent weights are multiplied with the same state.
    fn parts(self) -> &'static [usize] {
        match self {
            Self::Lstm => &[4],
            Self::Gru => &[2, 1],
            Self::LinearGru => &[3],
        }
    }

    fn gates(self) -> usize {
        self.parts().iter().sum()
    }
}

impl Unrolled {
    /// Returns the attributes of an operator, or `None` if something in it is unusual. `is_given` returns whether it has an
    /// input.
    pub(crate) fn of(
        gates: Gates,
        op: &Op,
        is_given: impl Fn(usize) -> bool,
    ) -> Outcome<Option<Self>> {
        let call = Call::new(op, &[])?;
        let (kind, usual): (_, &[&str]) = match gates {
            Gates::Lstm => (Kind::Lstm, &["Sigmoid", "Tanh", "Tanh"]),
            Gates::Gru if call.int("linear_before_reset", 0) == 0 => {
                (Kind::Gru, &["Sigmoid", "Tanh"])
            }
            Gates::Gru => (Kind::LinearGru, &["Sigmoid", "Tanh"]),
        };
        let activations = call.texts("activations").unwrap_or_default();
        let mut named = activations.iter().zip(usual.iter().cycle());
        let is_usual = activations.len().is_multiple_of(usual.len())
            && named.all(|(name, usual)| name.eq_ignore_ascii_case(usual))
            && call.float("clip", 0.0) <= 0.0
            && call.int("input_forget", 0) == 0
            && call.int("layout", 0) == 0
            && !is_given(4)
            && !is_given(7);
        let directions: &[bool] = match call.text("direction").as_deref() {
            None | Some("forward") => &[false],
            Some("reverse") => &[true],
            Some("bidirectional") => &[false, true],
            _ => return Ok(None),
        };
        Ok(is_usual.then_some(Self { kind, directions }))
    }
}

impl Cells {
    /// Packs the weights of an operator, or returns `None` if there is no fast kernel for it.
    pub(crate) fn new(
        of: &Unrolled,
        input: &Dense,
        recurrent: &Dense,
        bias: Option<&Dense>,
    ) -> Outcome<Option<Self>> {
        let Unrolled { kind, directions } = *of;
        let ([_, _, inputs], [_, _, hidden]) = (input.dims(), recurrent.dims()) else {
            return Ok(None);
        };
        let (inputs, hidden) = (*inputs, *hidden);
        let (count, width) = (directions.len(), kind.gates().saturating_mul(hidden));
        let fits = |it: &Dense, dims: &[usize]| {
            it.dims() == dims && it.dtype() == DType::Float32 && it.count() > 0
        };
        let are_expected = fits(input, &[count, width, inputs])
            && fits(recurrent, &[count, width, hidden])
            && bias.is_none_or(|bias| fits(bias, &[count, width.saturating_mul(2)]));
        if !are_expected {
            return Ok(None);
        }
        let input = raw(input, Order::RowMajor)?;
        let recurrent = raw(recurrent, Order::RowMajor)?;
        let bias = bias.map(|bias| ordered(bias, Order::RowMajor)).transpose()?;
        let direction = |(number, is_reversed): (usize, &bool)| {
            let bias = bias.as_deref().map(|bias| part_of(bias, number * 2 * width, 2 * width));
            let input = part_of(&input, number * width * inputs, width * inputs);
            let recurrent = part_of(&recurrent, number * width * hidden, width * hidden);
            Ok((Cell::new([input, recurrent], bias, [inputs, hidden], kind)?, *is_reversed))
        };
        let directions = directions.iter().enumerate().map(direction).collect::<Outcome<_>>()?;
        Ok(Some(Self { kind, inputs, hidden, directions }))
    }

    /// Returns the size of the packed weights in bytes.
    pub(super) fn nbytes(&self) -> u64 {
        let cells = self.directions.iter().map(|(cell, _)| cell);
        cells.flat_map(|it| it.recurrent.iter().chain([&it.input])).map(PackedMatrix::nbytes).sum()
    }

    /// Computes all directions, or returns `None` if the kernel must run instead.
    pub(crate) fn run(&self, call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
        let given = |number: usize| call.input(number);
        let Some(Value::Dense(x)) = given(0) else { return Ok(None) };
        let &[steps, batch, inputs] = x.dims() else { return Ok(None) };
        let (count, hidden) = (self.directions.len(), self.hidden);
        let fits = |number: usize| match given(number) {
            Some(Value::Dense(state)) => {
                state.dims() == [count, batch, hidden] && state.dtype() == DType::Float32
            }
            state => state.is_none(),
        };
        let is_single = x.dtype() == DType::Float32 && x.count() > 0;
        if inputs != self.inputs || !is_single || !fits(5) || !fits(6) {
            return Ok(None);
        }
        let x = ordered(x, Order::RowMajor)?;
        let state = |number: usize| -> Outcome<Vec<f32>> {
            Ok(match given(number).and_then(|state| state.dense().ok()) {
                Some(state) => ordered(state, Order::RowMajor)?.to_vec(),
                None => vec![0.0; count * batch * hidden],
            })
        };
        let (mut last, mut long) = (state(5)?, state(6)?);
        let (size, width) = (batch * hidden, self.kind.gates() * hidden);
        let mut all = call.buffers.take(steps * count * size)?;
        // Products of all steps and of one, the state of one direction, and those of all.
        let working = (steps + 1) * batch * width + 2 * size + 2 * count * size;
        let _workspace = call.budget.reserve((working * size_of::<f32>()) as u64)?;
        let mut of_inputs = vec![0.0; steps * batch * width];
        let states = last.chunks_exact_mut(size).zip(long.chunks_exact_mut(size));
        for (number, ((cell, is_reversed), (last, long))) in
            self.directions.iter().zip(states).enumerate()
        {
            // One product for all steps: the weights are read once.
            let rows = StridedRows { stride: inputs, group_width: inputs, values: &x };
            let epilogue =
                Epilogue { bias: cell.biases.first().map(Vec::as_slice), ..Epilogue::default() };
            cell.input.multiply(&rows, epilogue, &mut of_inputs, |_, _| Ok(()))?;
            let mut state = State { hidden: last.to_vec(), cell: long.to_vec() };
            let parts = self.kind.parts().iter();
            let mut products: Vec<Vec<f32>> = parts.map(|gates| vec![0.0; gates * size]).collect();
            for at in 0..steps {
                let at = if *is_reversed { steps - 1 - at } else { at };
                let of_inputs = part_of(&of_inputs, at * batch * width, batch * width);
                match self.kind {
                    Kind::Lstm => cell.lstm_step(of_inputs, &mut state, &mut products)?,
                    Kind::Gru => cell.gru_step(of_inputs, &mut state, &mut products)?,
                    Kind::LinearGru => {
                        cell.linear_gru_step(of_inputs, &mut state, &mut products)?;
                    }
                }
                let step = all.chunks_exact_mut(size).nth(at * count + number);
                let step = step.ok_or_else(|| Finding::internal("a step has no results"))?;
                step.copy_from_slice(&state.hidden);
            }
            last.copy_from_slice(&state.hidden);
            long.copy_from_slice(&state.cell);
        }
        let state = |values| numbers(values, vec![count, batch, hidden], Order::RowMajor);
        let all = tensor(all, vec![steps, count, batch, hidden], Order::RowMajor)?;
        let mut outputs = vec![all, state(last)?];
        if self.kind == Kind::Lstm {
            outputs.push(state(long)?);
        }
        Ok(Some(outputs))
    }
}

impl Cell {
    /// Packs the weights of a direction: those of the input and the recurrent ones, each with `width` rows.
    fn new(
        [input, recurrent]: [&[Raw]; 2],
        bias: Option<&[f32]>,
        [inputs, hidden]: [usize; 2],
        kind: Kind,
    ) -> Outcome<Self> {
        let width = kind.gates() * hidden;
        let packed = |values: &[Raw], inner: usize, [first, count]: [usize; 2]| {
            let values = part_of(values, first * inner, count * inner);
            let mut columns = Columns::new(values, inner);
            PackedMatrix::new(
                [1, inner, count],
                inner,
                Buffer::constant,
                |[_, row, column], into| {
                    columns.read([row, column], into);
                },
            )
        };
        let (of_input, of_state) = match bias {
            Some(bias) => bias.split_at(width),
            None => (&[][..], &[][..]),
        };
        let filled = |bias: &[f32], [first, count]: [usize; 2]| match bias {
            [] => vec![0.0; count],
            _ => part_of(bias, first, count).to_vec(),
        };
        let mut biases = vec![filled(of_input, [0, width])];
        let (mut parts, mut first) = (Vec::new(), 0);
        for gates in kind.parts() {
            let rows = [first, gates * hidden];
            parts.push(packed(recurrent, hidden, rows)?);
            biases.push(filled(of_state, rows));
            first += gates * hidden;
        }
        let input = packed(input, inputs, [0, width])?;
        Ok(Self { hidden, input, recurrent: parts, biases })
    }

    /// Multiplies the states of a batch with a part of the recurrent weights.
    fn multiply(&self, part: usize, states: &[f32], products: &mut [Vec<f32>]) -> Outcome<()> {
        let hidden = self.hidden;
        let rows = StridedRows { stride: hidden, group_width: hidden, values: states };
        let bias = self.biases.get(part + 1).map(Vec::as_slice);
        match (self.recurrent.get(part), products.get_mut(part)) {
            (Some(packed), Some(out)) => {
                packed.multiply(&rows, Epilogue { bias, ..Epilogue::default() }, out, |_, _| Ok(()))
            }
            _ => Err(Finding::internal("a part of a cell is missing")),
        }
    }

    /// Gates: input, output, forget, cell.
    fn lstm_step(
        &self,
        of_inputs: &[f32],
        state: &mut State,
        products: &mut [Vec<f32>],
    ) -> Outcome<()> {
        self.multiply(0, &state.hidden, products)?;
        let size = self.hidden;
        let sums = products.iter_mut().take(1).flat_map(|all| all.chunks_exact_mut(4 * size));
        let states = state.hidden.chunks_exact_mut(size).zip(state.cell.chunks_exact_mut(size));
        for ((sums, of_inputs), (hidden, long)) in
            sums.zip(of_inputs.chunks_exact(4 * size)).zip(states)
        {
            wide!({
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
        &self,
        of_inputs: &[f32],
        state: &mut State,
        products: &mut [Vec<f32>],
    ) -> Outcome<()> {
        self.multiply(0, &state.hidden, products)?;
        let size = self.hidden;
        let sums = products.iter_mut().take(1).flat_map(|all| all.chunks_exact_mut(3 * size));
        let states = state.hidden.chunks_exact_mut(size);
        for ((sums, of_inputs), hidden) in sums.zip(of_inputs.chunks_exact(3 * size)).zip(states) {
            wide!({
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
        &self,
        of_inputs: &[f32],
        state: &mut State,
        products: &mut [Vec<f32>],
    ) -> Outcome<()> {
        self.multiply(0, &state.hidden, products)?;
        let size = self.hidden;
        let gates = products.iter_mut().take(1).flat_map(|all| all.chunks_exact_mut(2 * size));
        let states = state.hidden.chunks_exact(size).zip(state.cell.chunks_exact_mut(size));
        for ((gates, of_inputs), (hidden, kept)) in
            gates.zip(of_inputs.chunks_exact(3 * size)).zip(states)
        {
            wide!({
                let (of_gates, _) = of_inputs.split_at(2 * size);
                add(gates, of_gates);
                gates.iter_mut().for_each(|gate| *gate = sigmoid(*gate));
                let [_, reset] = split(gates, size);
                let kept = kept.iter_mut().zip(reset).zip(hidden);
                kept.for_each(|((kept, reset), hidden)| *kept = reset * hidden);
            });
        }
        self.multiply(1, &state.cell, products)?;
        let [gates, fresh] = products else { return Ok(()) };
        let sums = gates.chunks_exact(2 * size).zip(fresh.chunks_exact(size));
        let states = state.hidden.chunks_exact_mut(size);
        for (((gates, fresh), of_inputs), hidden) in
            sums.zip(of_inputs.chunks_exact(3 * size)).zip(states)
        {
            wide!({
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
