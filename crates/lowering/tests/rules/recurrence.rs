//! Recurrence with random attributes, compared with the formulas of the frameworks' kernels.

use libtest_mimic::{Failed, Trial};
use lodstone_model::{AttributeValue, Lod, Tensor};

use super::random::Random;
use super::recorded;
use super::single::{Draw, PADDLE, Run, Single, floats, ints, list, text, trials_of};

pub(crate) fn trials() -> Vec<Trial> {
    let trial = trials_of("recurrence");
    vec![
        trial("paddle", "rnn", PADDLE, paddle_rnn),
        trial("paddle", "lstm", PADDLE, paddle_lstm),
        trial("paddle", "gru", PADDLE, paddle_gru),
        trial("paddle", "lstm_unit", PADDLE, paddle_lstm_unit),
        trial("paddle", "gru_unit", PADDLE, paddle_gru_unit),
        trial("mxnet", "RNN", Single::mxnet, mxnet),
        trial("torch", "networks", Single::torch, torch),
        trial("torch", "cells", Single::torch, torch_cell),
        Trial::test("recurrence that ONNX cannot express is rejected", rejected),
    ]
}

/// Fails if an operator is translated although it lacks something, or has something that ONNX does not.
fn rejected() -> Result<(), Failed> {
    type Change = fn(&mut Single);
    let lacks: Change = |it| it.inputs.retain(|(slot, _)| !["PreState", "Bias"].contains(slot));
    let clips: Change = |it| it.attributes.push(("lstm_state_clip_min", text(-1)));
    let cases: [(Run, Draw, Change, &str); 4] = [
        (PADDLE, paddle_rnn, lacks, "states, found"),
        (PADDLE, paddle_lstm, lacks, "the weights of peepholes are missing"),
        (Single::mxnet, mxnet, clips, "MXNet clips on some devices only"),
        (Single::torch, torch, |it| drop(it.inputs.pop()), "`params`"),
    ];
    let mut random = Random(7);
    for (run, draw, change, reason) in cases {
        let is_tried = |(single, _): &(Single, Vec<Tensor>)| {
            !single.attributes.contains(&("use_peepholes", AttributeValue::Bool(false)))
        };
        let drawn = (0..100).find_map(|_| draw(&mut random).filter(is_tried));
        let (mut single, _) = drawn.ok_or("nothing was drawn")?;
        change(&mut single);
        match run(&single) {
            Err(error) if error.contains(reason) => {}
            other => return Err(format!("expected {reason}, found {other:?}").into()),
        }
    }
    Ok(())
}

const MODES: [&str; 4] = ["rnn_relu", "rnn_tanh", "lstm", "gru"];

fn gates_of(mode: &str) -> usize {
    match mode {
        "lstm" => 4,
        "gru" => 3,
        _ => 1,
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Returns a row times the columns of a matrix.
fn times_columns(row: &[f64], matrix: &[f64], columns: usize) -> Vec<f64> {
    let column = |at: usize| row.iter().enumerate().map(move |(k, x)| x * matrix[k * columns + at]);
    (0..columns).map(|at| column(at).sum()).collect()
}

/// Returns the products of the rows of a matrix with a column.
fn rows_times(matrix: &[f64], column: &[f64]) -> Vec<f64> {
    let rows = matrix.chunks(column.len());
    rows.map(|row| row.iter().zip(column).map(|(a, b)| a * b).sum()).collect()
}

/// The states of a sequence.
#[derive(Clone)]
struct State {
    hidden: Vec<f64>,
    memory: Vec<f64>,
}

/// The weights of the input and of the state, their biases, and the projection.
struct Cell {
    input: Tensor,
    state: Tensor,
    biases: [Tensor; 2],
    projection: Option<Tensor>,
}

impl Cell {
    fn draw(random: &mut Random, rows: usize, features: usize, size: usize) -> Self {
        Self {
            input: random.tensor(&[rows, features]),
            state: random.tensor(&[rows, size]),
            biases: [random.tensor(&[rows]), random.tensor(&[rows])],
            projection: None,
        }
    }

    /// Returns the next state: gates are in the order input, forget, candidate, output, and reset, update, candidate.
    fn step(&self, mode: &str, x: &[f64], state: &State, has_biases: bool) -> State {
        let of = |weights: &Tensor, bias: &Tensor, x: &[f64]| {
            let products = rows_times(&recorded::elements(weights), x).into_iter();
            let biases = recorded::elements(bias);
            let share = if has_biases { 1.0 } else { 0.0 };
            products.zip(biases).map(|(product, bias)| product + share * bias).collect::<Vec<f64>>()
        };
        let of_input = of(&self.input, &self.biases[0], x);
        let of_state = of(&self.state, &self.biases[1], &state.hidden);
        let size = of_input.len() / gates_of(mode);
        let sum =
            |gate: usize, unit: usize| of_input[gate * size + unit] + of_state[gate * size + unit];
        let units = 0..size;
        let hidden = match mode {
            "rnn_relu" => units.map(|unit| sum(0, unit).max(0.0)).collect(),
            "rnn_tanh" => units.map(|unit| sum(0, unit).tanh()).collect(),
            "lstm" => {
                let memory = units.map(|unit| {
                    sigmoid(sum(1, unit)) * state.memory[unit]
                        + sigmoid(sum(0, unit)) * sum(2, unit).tanh()
                });
                let memory: Vec<f64> = memory.collect();
                let shown = memory.iter().enumerate();
                let shown = shown.map(|(unit, it)| sigmoid(sum(3, unit)) * it.tanh());
                let shown: Vec<f64> = shown.collect();
                let hidden = match &self.projection {
                    Some(projection) => rows_times(&recorded::elements(projection), &shown),
                    None => shown,
                };
                return State { hidden, memory };
            }
            _ => units
                .map(|unit| {
                    let (reset, update) = (sigmoid(sum(0, unit)), sigmoid(sum(1, unit)));
                    let at = 2 * size + unit;
                    let new = (of_input[at] + reset * of_state[at]).tanh();
                    (1.0 - update) * new + update * state.hidden[unit]
                })
                .collect(),
        };
        State { hidden, memory: state.memory.clone() }
    }
}

/// A network over `[time, batch, features]`, with its initial states.
struct Network {
    mode: &'static str,
    dims: [usize; 3],
    layers: usize,
    directions: usize,
    hidden: usize,
    x: Tensor,
    cells: Vec<Cell>,
    /// `[layers * directions, batch, size]`.
    starts: Vec<Tensor>,
    has_biases: bool,
}

impl Network {
    fn draw(random: &mut Random, least_batch: usize, projection: Option<usize>) -> Self {
        let mode = if projection.is_some() { "lstm" } else { random.pick(&MODES) };
        let batch = random.size(least_batch, 3);
        let dims = [random.size(1, 4), batch, random.size(1, 3)];
        let (layers, directions) = (random.size(1, 3), random.size(1, 2));
        let hidden = random.size(1, 3);
        let size = projection.unwrap_or(hidden);
        let x = random.tensor(&dims);
        let mut cells = Vec::new();
        for number in 0..layers * directions {
            let features = if number < directions { dims[2] } else { directions * size };
            let mut cell = Cell::draw(random, gates_of(mode) * hidden, features, size);
            cell.projection = projection.map(|size| random.tensor(&[size, hidden]));
            cells.push(cell);
        }
        let mut starts = vec![random.tensor(&[cells.len(), batch, size])];
        if mode == "lstm" {
            starts.push(random.tensor(&[cells.len(), batch, hidden]));
        }
        Self { mode, dims, layers, directions, hidden, x, cells, starts, has_biases: true }
    }

    /// Returns all hidden states, and the last states.
    fn results(&self, lengths: &[usize]) -> Vec<Tensor> {
        let [time, batch, features] = self.dims;
        let starts: Vec<Vec<f64>> = self.starts.iter().map(recorded::elements).collect();
        let sizes: Vec<usize> = self.starts.iter().map(|it| it.shape[2] as usize).collect();
        let mut last: Vec<Vec<f64>> = vec![Vec::new(); starts.len()];
        // [time, batch] of rows.
        let rows = recorded::elements(&self.x);
        let mut rows: Vec<Vec<f64>> = rows.chunks(features).map(<[f64]>::to_vec).collect();
        for layer in 0..self.layers {
            let mut next = vec![Vec::new(); rows.len()];
            for direction in 0..self.directions {
                let number = layer * self.directions + direction;
                for sequence in 0..batch {
                    let start = |which: usize| {
                        let at = (number * batch + sequence) * sizes[which];
                        starts[which][at..at + sizes[which]].to_vec()
                    };
                    let memory = if starts.len() == 2 { start(1) } else { Vec::new() };
                    let mut state = State { hidden: start(0), memory };
                    let mut shown = vec![vec![0.0; sizes[0]]; time];
                    for step in 0..lengths[sequence] {
                        let at = if direction == 0 { step } else { lengths[sequence] - 1 - step };
                        let x = &rows[at * batch + sequence];
                        state = self.cells[number].step(self.mode, x, &state, self.has_biases);
                        shown[at].clone_from(&state.hidden);
                    }
                    for (at, hidden) in shown.into_iter().enumerate() {
                        next[at * batch + sequence].extend(hidden);
                    }
                    let ends = [state.hidden, state.memory];
                    last.iter_mut().zip(ends).for_each(|(all, end)| all.extend(end));
                }
            }
            rows = next;
        }
        let mut results = vec![list(&rows.concat(), &[time, batch, self.directions * sizes[0]])];
        let ends = last.iter().zip(&sizes);
        results.extend(ends.map(|(all, size)| list(all, &[self.cells.len(), batch, *size])));
        results
    }
}

/// Returns lengths of sequences, or none.
fn lengths(random: &mut Random, least: usize, network: &Network) -> Option<Vec<usize>> {
    let [time, batch, _] = network.dims;
    random.flag().then(|| (0..batch).map(|_| random.size(least, time)).collect())
}

fn of_lengths(lengths: &[usize]) -> Tensor {
    ints(&lengths.iter().map(|length| *length as i32).collect::<Vec<_>>())
}

/// `phi/kernels/cpu/rnn_kernel.cc` of 2.6.2.
fn paddle_rnn(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let network = Network::draw(random, 0, None);
    let lengths = lengths(random, 0, &network);
    let all = vec![network.dims[0]; network.dims[1]];
    let expected = network.results(lengths.as_ref().unwrap_or(&all));
    let mut inputs = vec![("Input", network.x)];
    inputs.extend(network.starts.into_iter().map(|it| ("PreState", it)));
    let (mut weights, mut biases) = (Vec::new(), Vec::new());
    for cell in network.cells {
        weights.extend([cell.input, cell.state]);
        biases.extend(cell.biases);
    }
    inputs.extend(weights.into_iter().chain(biases).map(|it| ("WeightList", it)));
    inputs.extend(lengths.map(|it| ("SequenceLength", of_lengths(&it))));
    let (is_test, dropout) = (random.flag(), random.pick(&[0.0, 0.5]));
    let is_random = !is_test && dropout != 0.0 && network.layers > 1;
    let attributes = vec![
        ("mode", text(network.mode.to_uppercase())),
        ("num_layers", AttributeValue::Int(network.layers as i32)),
        ("hidden_size", AttributeValue::Int(network.hidden as i32)),
        ("input_size", AttributeValue::Int(network.dims[2] as i32)),
        ("is_bidirec", AttributeValue::Bool(network.directions == 2)),
        ("is_test", AttributeValue::Bool(is_test)),
        ("dropout_prob", AttributeValue::Float(dropout)),
    ];
    let outputs = ["Out", "State", "State"][..expected.len()].to_vec();
    let is_dynamic = network.dims[1] != 0 && random.size(0, 3) == 0;
    let single = Single { kind: "rnn".to_owned(), inputs, attributes, outputs, is_dynamic };
    (!is_random).then_some((single, expected))
}

/// `src/operator/rnn_impl.h` of MXNet 1.9.1; lengths are those of cuDNN.
fn mxnet(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let projection = (random.size(0, 3) == 0).then(|| random.size(1, 3));
    let mut network = Network::draw(random, 1, projection);
    let lengths = lengths(random, 1, &network).filter(|_| projection.is_none());
    let is_open = random.size(0, 3) == 0;
    if is_open {
        // States that MXNet fills with zeros.
        for start in &mut network.starts {
            let dims: Vec<usize> = start.shape.iter().map(|dim| *dim as usize).collect();
            *start = floats(&vec![0.0; dims.iter().product()], &dims);
        }
    }
    let all = vec![network.dims[0]; network.dims[1]];
    let mut expected = network.results(lengths.as_ref().unwrap_or(&all));
    let mut parameters = Vec::new();
    for cell in &network.cells {
        let weights = [Some(&cell.input), Some(&cell.state), cell.projection.as_ref()];
        parameters.extend(weights.into_iter().flatten().flat_map(recorded::elements));
    }
    parameters.extend(network.cells.iter().flat_map(|it| &it.biases).flat_map(recorded::elements));
    let parameters: Vec<f32> = parameters.into_iter().map(|it| it as f32).collect();
    let mut inputs = vec![("", network.x), ("", floats(&parameters, &[parameters.len()]))];
    inputs.extend(network.starts.into_iter().map(|start| match is_open {
        true => ("", floats(&[], &[start.shape[0] as usize, 0, start.shape[2] as usize])),
        false => ("", start),
    }));
    let (returns, has_lengths) = (random.flag(), lengths.is_some());
    inputs.extend(lengths.map(|it| ("", of_lengths(&it))));
    let title = |flag: bool| text(if flag { "True" } else { "False" });
    let mut attributes = vec![
        ("mode", text(network.mode)),
        ("num_layers", text(network.layers)),
        ("state_size", text(network.hidden)),
        ("bidirectional", title(network.directions == 2)),
        ("state_outputs", title(returns)),
        ("use_sequence_length", title(has_lengths)),
        ("p", text(random.pick(&["0", "0.5"]))),
    ];
    attributes.extend(projection.map(|size| ("projection_size", text(size))));
    if !returns {
        expected.truncate(1);
    }
    let outputs = ["0", "1", "2"][..expected.len()].to_vec();
    let kind = "RNN".to_owned();
    Some((Single::new(kind, inputs, attributes, outputs), expected))
}

/// Returns a tensor with the first two dims exchanged.
fn exchanged(x: &Tensor) -> Tensor {
    let [first, second, size] = [x.shape[0] as usize, x.shape[1] as usize, x.shape[2] as usize];
    let elements = recorded::elements(x);
    let places = (0..second).flat_map(|row| (0..first).map(move |column| column * second + row));
    let elements = places.flat_map(|place| &elements[place * size..(place + 1) * size]);
    let elements: Vec<f64> = elements.copied().collect();
    list(&elements, &[second, first, size])
}

/// Returns a tensor without the second dim, which is 1.
fn without_batch(x: &Tensor) -> Tensor {
    Tensor { shape: vec![x.shape[0], x.shape[2]], ..x.clone() }
}

/// `aten/src/ATen/native/RNN.cpp`.
fn torch(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let projection = (random.size(0, 2) == 0).then(|| random.size(1, 2));
    let mut network = Network::draw(random, 0, projection);
    if projection.is_some_and(|size| size >= network.hidden) {
        return None;
    }
    network.has_biases = random.flag();
    let [time, batch, _] = network.dims;
    let mut expected = network.results(&vec![time; batch]);
    let is_single = batch == 1 && random.flag();
    let batch_first = !is_single && random.flag();
    if batch_first {
        network.x = exchanged(&network.x);
        expected[0] = exchanged(&expected[0]);
    } else if is_single {
        let tensors = expected.iter_mut().chain(&mut network.starts);
        tensors.chain([&mut network.x]).for_each(|it| *it = without_batch(it));
    }
    let mut inputs = vec![("input", network.x)];
    inputs.extend(network.starts.into_iter().map(|it| ("hx", it)));
    for cell in network.cells {
        let biases = cell.biases.into_iter().filter(|_| network.has_biases);
        let weights = [cell.input, cell.state].into_iter().chain(biases).chain(cell.projection);
        inputs.extend(weights.map(|it| ("params", it)));
    }
    let (train, dropout) = (random.flag(), random.pick(&[0.0, 0.5]));
    let attributes = vec![
        ("has_biases", AttributeValue::Bool(network.has_biases)),
        ("num_layers", AttributeValue::Long(network.layers as i64)),
        ("dropout", AttributeValue::Double(dropout)),
        ("train", AttributeValue::Bool(train)),
        ("bidirectional", AttributeValue::Bool(network.directions == 2)),
        ("batch_first", AttributeValue::Bool(batch_first)),
    ];
    let is_random = train && dropout != 0.0 && network.layers > 1;
    let outputs = ["0", "1", "2"][..expected.len()].to_vec();
    let is_dynamic = batch != 0 && !is_single && random.size(0, 3) == 0;
    let kind = format!("aten::{}", network.mode);
    let single = Single { kind, inputs, attributes, outputs, is_dynamic };
    (!is_random).then_some((single, expected))
}

/// The cells of `RNN.cpp`: states of rows, of which there may be none.
fn torch_cell(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let mode = random.pick(&MODES);
    let (batch, features, hidden) = (random.size(0, 3), random.size(1, 3), random.size(1, 3));
    let has_biases = random.flag();
    let cell = Cell::draw(random, gates_of(mode) * hidden, features, hidden);
    let x = random.tensor(&[batch, features]);
    let count = if mode == "lstm" { 2 } else { 1 };
    let states: Vec<Tensor> = (0..count).map(|_| random.tensor(&[batch, hidden])).collect();
    let mut ends = vec![Vec::new(); count];
    for (row, x) in recorded::elements(&x).chunks(features).enumerate() {
        let of = |state: &Tensor| recorded::elements(state)[row * hidden..][..hidden].to_vec();
        let memory = states.get(1).map_or(Vec::new(), of);
        let next = cell.step(mode, x, &State { hidden: of(&states[0]), memory }, has_biases);
        ends.iter_mut().zip([next.hidden, next.memory]).for_each(|(all, end)| all.extend(end));
    }
    let mut inputs = vec![("input", x)];
    inputs.extend(states.into_iter().map(|it| ("hx", it)));
    inputs.extend([("w_ih", cell.input), ("w_hh", cell.state)]);
    if has_biases {
        inputs.extend(["b_ih", "b_hh"].into_iter().zip(cell.biases));
    }
    let outputs = ["0", "1"][..count].to_vec();
    let kind = format!("aten::{mode}_cell");
    let expected = ends.iter().map(|all| rows(all, hidden)).collect();
    Some((Single::new(kind, inputs, Vec::new(), outputs), expected))
}

fn rows(elements: &[f64], columns: usize) -> Tensor {
    list(elements, &[elements.len() / columns, columns])
}

const ACTIVATIONS: [&str; 4] = ["identity", "sigmoid", "tanh", "relu"];

fn activated(name: &str, x: f64) -> f64 {
    match name {
        "sigmoid" => sigmoid(x),
        "tanh" => x.tanh(),
        "relu" => x.max(0.0),
        _ => x,
    }
}

/// Returns the places of the rows of sequences, in the order of their steps; and the offsets of the sequences.
fn sequences(random: &mut Random, is_reverse: bool) -> (Vec<Vec<usize>>, Vec<u64>) {
    let (mut sequences, mut offsets, mut end) = (Vec::new(), vec![0], 0);
    for _ in 0..random.size(1, 3) {
        let count = random.size(0, 4);
        let rows = end..end + count;
        sequences.push(if is_reverse { rows.rev().collect() } else { rows.collect() });
        end += count;
        offsets.push(end as u64);
    }
    (sequences, offsets)
}

/// `lstm_cpu_kernel.h` with `old_api_version`: gates are in the order candidate, input, forget, output.
fn paddle_lstm(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (size, is_reverse, has_peepholes) = (random.size(1, 3), random.flag(), random.flag());
    let (sequences, offsets) = sequences(random, is_reverse);
    let count: usize = sequences.iter().map(Vec::len).sum();
    let mut x = random.tensor(&[count, 4 * size]);
    x.lod = Lod(vec![offsets]);
    let weight = random.tensor(&[size, 4 * size]);
    let bias = random.tensor(&[1, if has_peepholes { 7 } else { 4 } * size]);
    let starts = random.flag().then(|| [(); 2].map(|()| random.tensor(&[sequences.len(), size])));
    let [gate, cell, candidate] = [(); 3].map(|()| random.pick(&ACTIVATIONS));
    let [given, by_state, biases] = [&x, &weight, &bias].map(recorded::elements);
    let states = starts.as_ref().map(|it| it.each_ref().map(recorded::elements));
    let mut expected = vec![0.0; count * size];
    for (number, rows) in sequences.iter().enumerate() {
        let start = |which: usize| match &states {
            Some(states) => states[which][number * size..][..size].to_vec(),
            None => vec![0.0; size],
        };
        let (mut hidden, mut memory) = (start(0), start(1));
        for row in rows {
            let products = times_columns(&hidden, &by_state, 4 * size);
            let sum = |gate: usize, unit: usize| {
                let at = gate * size + unit;
                given[row * 4 * size + at] + products[at] + biases[at]
            };
            let look = |number: usize, unit: usize| {
                if has_peepholes { biases[(4 + number) * size + unit] } else { 0.0 }
            };
            for unit in 0..size {
                let old = memory[unit];
                let input = activated(gate, sum(1, unit) + look(0, unit) * old);
                let forget = activated(gate, sum(2, unit) + look(1, unit) * old);
                let new = forget * old + input * activated(candidate, sum(0, unit));
                let output = activated(gate, sum(3, unit) + look(2, unit) * new);
                memory[unit] = new;
                hidden[unit] = output * activated(cell, new);
            }
            expected[row * size..][..size].copy_from_slice(&hidden);
        }
    }
    let mut inputs = vec![("Input", x), ("Weight", weight), ("Bias", bias)];
    inputs.extend(starts.into_iter().flat_map(|it| ["H0", "C0"].into_iter().zip(it)));
    let attributes = vec![
        ("use_peepholes", AttributeValue::Bool(has_peepholes)),
        ("is_reverse", AttributeValue::Bool(is_reverse)),
        ("gate_activation", text(gate)),
        ("cell_activation", text(cell)),
        ("candidate_activation", text(candidate)),
    ];
    let (kind, outputs) = ("lstm".to_owned(), vec!["Hidden"]);
    let single = Single::new(kind, inputs, attributes, outputs);
    (count != 0).then(|| (single, vec![rows(&expected, size)]))
}

/// A GRU of PaddlePaddle: update, reset, candidate. The weights of the first two precede those of the candidate.
struct Gru<'a> {
    gate: &'a str,
    candidate: &'a str,
    is_origin: bool,
    weight: Vec<f64>,
    bias: Vec<f64>,
}

impl Gru<'_> {
    /// Returns the gates, the state that is left by the reset gate, and the next state: `gru_kernel.h`.
    fn step(&self, x: &[f64], hidden: &[f64]) -> [Vec<f64>; 3] {
        let size = hidden.len();
        let (of_gates, of_new) = self.weight.split_at(2 * size * size);
        let products = times_columns(hidden, of_gates, 2 * size);
        let gates = (0..2 * size)
            .map(|at| activated(self.gate, x[at] + self.bias[at] + products[at]))
            .collect::<Vec<f64>>();
        let kept: Vec<f64> = (0..size).map(|unit| gates[size + unit] * hidden[unit]).collect();
        let products = times_columns(&kept, of_new, size);
        let new = |unit: usize| {
            let at = 2 * size + unit;
            activated(self.candidate, x[at] + self.bias[at] + products[unit])
        };
        let new: Vec<f64> = (0..size).map(new).collect();
        let next = (0..size).map(|unit| {
            let (update, old) = (gates[unit], hidden[unit]);
            match self.is_origin {
                true => update * old + (1.0 - update) * new[unit],
                false => (1.0 - update) * old + update * new[unit],
            }
        });
        let next = next.collect();
        [[gates, new].concat(), kept, next]
    }
}

fn paddle_gru(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (size, is_reverse, is_origin) = (random.size(1, 3), random.flag(), random.flag());
    let (sequences, offsets) = sequences(random, is_reverse);
    let count: usize = sequences.iter().map(Vec::len).sum();
    let mut x = random.tensor(&[count, 3 * size]);
    x.lod = Lod(vec![offsets]);
    let weight = random.tensor(&[size, 3 * size]);
    let bias = random.flag().then(|| random.tensor(&[1, 3 * size]));
    let start = random.flag().then(|| random.tensor(&[sequences.len(), size]));
    // ONNX inverts only a sigmoid.
    let gate = if is_origin { random.pick(&ACTIVATIONS) } else { "sigmoid" };
    let candidate = random.pick(&ACTIVATIONS);
    let gru = Gru {
        gate,
        candidate,
        is_origin,
        weight: recorded::elements(&weight),
        bias: bias.as_ref().map_or(vec![0.0; 3 * size], recorded::elements),
    };
    let (given, states) = (recorded::elements(&x), start.as_ref().map(recorded::elements));
    let mut expected = vec![0.0; count * size];
    for (number, rows) in sequences.iter().enumerate() {
        let begin = states.as_ref().map(|it| it[number * size..][..size].to_vec());
        let mut hidden = begin.unwrap_or(vec![0.0; size]);
        for row in rows {
            [_, _, hidden] = gru.step(&given[row * 3 * size..][..3 * size], &hidden);
            expected[row * size..][..size].copy_from_slice(&hidden);
        }
    }
    let mut inputs = vec![("Input", x), ("Weight", weight)];
    inputs.extend(bias.map(|it| ("Bias", it)).into_iter().chain(start.map(|it| ("H0", it))));
    let attributes = vec![
        ("is_reverse", AttributeValue::Bool(is_reverse)),
        ("origin_mode", AttributeValue::Bool(is_origin)),
        ("gate_activation", text(gate)),
        ("activation", text(candidate)),
    ];
    let (kind, outputs) = ("gru".to_owned(), vec!["Hidden"]);
    let single = Single::new(kind, inputs, attributes, outputs);
    (count != 0).then(|| (single, vec![rows(&expected, size)]))
}

/// `gru_unit_op.h`.
fn paddle_gru_unit(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (batch, size, is_origin) = (random.size(1, 3), random.size(1, 3), random.flag());
    let (x, before) = (random.tensor(&[batch, 3 * size]), random.tensor(&[batch, size]));
    let weight = random.tensor(&[size, 3 * size]);
    let bias = random.flag().then(|| random.tensor(&[1, 3 * size]));
    let [gate, candidate] = [(); 2].map(|()| random.size(0, 3));
    let gru = Gru {
        gate: ACTIVATIONS[gate],
        candidate: ACTIVATIONS[candidate],
        is_origin,
        weight: recorded::elements(&weight),
        bias: bias.as_ref().map_or(vec![0.0; 3 * size], recorded::elements),
    };
    let (given, states) = (recorded::elements(&x), recorded::elements(&before));
    let mut expected = [Vec::new(), Vec::new(), Vec::new()];
    for (x, hidden) in given.chunks(3 * size).zip(states.chunks(size)) {
        let made = gru.step(x, hidden);
        expected.iter_mut().zip(made).for_each(|(all, one)| all.extend(one));
    }
    let mut inputs = vec![("Input", x), ("HiddenPrev", before), ("Weight", weight)];
    inputs.extend(bias.map(|it| ("Bias", it)));
    let attributes = vec![
        ("gate_activation", AttributeValue::Int(gate as i32)),
        ("activation", AttributeValue::Int(candidate as i32)),
        ("origin_mode", AttributeValue::Bool(is_origin)),
    ];
    let outputs = vec!["Gate", "ResetHiddenPrev", "Hidden"];
    let [gates, kept, next] = expected;
    let expected = vec![rows(&gates, 3 * size), rows(&kept, size), rows(&next, size)];
    let kind = "gru_unit".to_owned();
    Some((Single::new(kind, inputs, attributes, outputs), expected))
}

/// `lstm_unit_op.h`: gates are in the order input, forget, output, candidate.
fn paddle_lstm_unit(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (batch, size) = (random.size(1, 3), random.size(1, 3));
    let (x, before) = (random.tensor(&[batch, 4 * size]), random.tensor(&[batch, size]));
    let bias = random.real(-1.0, 1.0) as f32;
    let (mut cells, mut hidden) = (Vec::new(), Vec::new());
    let (given, states) = (recorded::elements(&x), recorded::elements(&before));
    for (x, before) in given.chunks(4 * size).zip(states.chunks(size)) {
        for unit in 0..size {
            let gate = |number: usize| x[number * size + unit];
            let forget = sigmoid(gate(1) + f64::from(bias));
            let cell = forget * before[unit] + sigmoid(gate(0)) * gate(3).tanh();
            cells.push(cell);
            hidden.push(sigmoid(gate(2)) * cell.tanh());
        }
    }
    let (inputs, outputs) = (vec![("X", x), ("C_prev", before)], vec!["C", "H"]);
    let attributes = vec![("forget_bias", AttributeValue::Float(bias))];
    let expected = vec![rows(&cells, size), rows(&hidden, size)];
    let kind = "lstm_unit".to_owned();
    Some((Single::new(kind, inputs, attributes, outputs), expected))
}
