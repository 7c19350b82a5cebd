//! Recurrence: cells that run over time with a state, in layers and directions.
//!
//! ONNX has the gates of an LSTM in the order input, output, forget, candidate, and those of a GRU in the order update, reset,
//! candidate. It weighs the old state of a GRU by the update gate, and the candidate by the rest.
//!
//! | framework and release | what it means there | proof |
//! |---|---|---|
//! | PaddlePaddle from 2.0, `rnn` | [`CELLS`]: input, forget, candidate, output; reset, update, candidate, where the reset gate applies to the product of the state | `lstm_cpu_kernel.h` and `gru_cpu_kernel.h` without `old_version`; recorded `rnn-1` to `rnn-8` |
//! | PaddlePaddle, `rnn`, weights | of the input and of the state, for each layer and direction; then the biases | `ParameterVector` in `phi/kernels/funcs/rnn`; recorded `rnn-2` |
//! | PaddlePaddle, `rnn`, lengths | results beyond them are 0; the state of a sequence without steps is the initial one | run with 2.6.2: `paddle.nn.LSTM` with a length of 0 |
//! | PaddlePaddle, `lstm` | [`Cell::FLUID_LSTM`]: candidate, input, forget, output | `lstm_cpu_kernel.h` with `old_api_version` |
//! | PaddlePaddle, `lstm`, `use_peepholes` | the bias of 4 gates precedes [`PEEPHOLES`]: input, forget, output | `lstm_op.cc` |
//! | PaddlePaddle, `lstm_unit` | [`Cell::UNIT_LSTM`]: input, forget, output, candidate; `forget_bias` is added before the sigmoid | `lstm_unit_op.h` |
//! | PaddlePaddle, `gru`, `gru_unit` | [`Cell::FLUID_GRU`]: update, reset, candidate; the update gate weighs the candidate, unless `origin_mode`; the reset gate applies to the state | `gru_kernel.h` |
//! | PaddlePaddle, `gru`, `gru_unit`, weights | the matrix of update and reset precedes that of the candidate in memory | `gru_compute.cc` |
//! | MXNet 1.9.1, `RNN` | [`CELLS`], as cuDNN | `rnn_impl.h`; recorded `rnn_626` |
//! | MXNet, `RNN`, parameters | those of all layers and directions, then all biases: [`unpacked`](Graph::unpacked) | `GetRnnParamSize` in `rnn-inl.h` |
//! | MXNet, `projection_size` | the projection is behind the weights of its direction; biases have none | `rnn_impl.h`; recorded `rnn_projected_1089` |
//! | MXNet, `use_sequence_length` | as documented, and cuDNN has it; the CPU's kernels ignore the lengths, and reject them with projections | `rnn-inl.h`; run with 1.9.1 |
//! | MXNet, `lstm_state_clip_*` | cuDNN clips, the CPU's kernels do not: rejected | run with 1.9.1 |
//! | PyTorch | [`CELLS`], as cuDNN | `LSTMCell` and `GRUCell` in `native/RNN.cpp`; recorded `lstm_cell`, `gru_cell` |
//! | PyTorch, `params` | the weights of the input and of the state, their biases, and the projection, for each layer and direction | `gather_params` in `native/RNN.cpp` |
//! | PyTorch, `proj_size` | the columns of the weight of the state; the projection is behind the biases; time must be known | `_lstm_impl` in `native/RNN.cpp`; run with 2.15 |
//! | PyTorch, `dropout` | between layers only, in training | `apply_layer_stack` in `native/RNN.cpp` |
//! | PyTorch, lengths and batches of 0 | time must have a step; a batch may be empty | run with 2.15 |
//! | Glow, `LSTMUnit` | [`CELLS`]: input, forget, candidate, output | `createLSTMUnit` in `Graph.h` |

use lodstone_model::{Attribute, AttributeValue, ByteString, DType, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::numbers::length;
use lodstone_store::Blob;

use super::{Graph, Value, int, text};

type Made<T = Value> = Result<T, Finding>;

/// The maximum number of layers: each becomes operators.
const MAX_LAYERS: i64 = 1 << 10;

/// The maximum number of elements of a state: only broken attributes lead to more.
const MAX_HIDDEN: i64 = 1 << 24;

/// The maximum number of steps, of all layers, that become operators.
const MAX_STEPS: i64 = 1 << 10;

/// The maximum number of elements of the matrix that reorders gates, along each side.
const MAX_GATES: i64 = 1 << 13;

/// Where weights of a framework have a gate of ONNX.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Gate {
    At(i64),
    /// There, but 1 minus it: sigmoid(-x) = 1 - sigmoid(x).
    Rest(i64),
}

use Gate::{At, Rest};

/// A kind of cell, with the order of its gates in a framework.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    kind: &'static str,
    gates: &'static [Gate],
    /// The activation, unless it is the one by default.
    activation: Option<&'static str>,
}

/// The cells that cuDNN has, by its names of the modes.
pub(crate) const CELLS: [(&str, Cell); 4] =
    [("rnn_relu", Cell::RELU), ("rnn_tanh", Cell::TANH), ("lstm", Cell::LSTM), ("gru", Cell::GRU)];

/// The weights of peepholes of PaddlePaddle's `lstm`, behind 4 gates: input, output and forget.
pub(crate) const PEEPHOLES: &[Gate] = &[At(4), At(6), At(5)];

impl Cell {
    pub(crate) const LSTM: Self =
        Self { kind: "LSTM", gates: &[At(0), At(3), At(1), At(2)], activation: None };
    pub(crate) const GRU: Self =
        Self { kind: "GRU", gates: &[At(1), At(0), At(2)], activation: None };
    pub(crate) const RELU: Self = Self { kind: "RNN", gates: &[At(0)], activation: Some("Relu") };
    pub(crate) const TANH: Self = Self { kind: "RNN", gates: &[At(0)], activation: Some("Tanh") };

    pub(crate) const FLUID_LSTM: Self =
        Self { kind: "LSTM", gates: &[At(1), At(3), At(2), At(0)], activation: None };
    pub(crate) const UNIT_LSTM: Self =
        Self { kind: "LSTM", gates: &[At(0), At(2), At(1), At(3)], activation: None };
    pub(crate) const FLUID_GRU: Self =
        Self { kind: "GRU", gates: &[Rest(0), At(1), At(2)], activation: None };
    /// That with `origin_mode`.
    pub(crate) const ORIGIN_GRU: Self =
        Self { kind: "GRU", gates: &[At(0), At(1), At(2)], activation: None };

    /// Returns the number of its states: the hidden one, and the memory of an LSTM.
    pub(crate) fn states(&self) -> usize {
        if self.is_lstm() { 2 } else { 1 }
    }

    pub(crate) fn is_lstm(&self) -> bool {
        self.kind == "LSTM"
    }

    pub(crate) const fn gates(&self) -> &'static [Gate] {
        self.gates
    }

    fn count(&self) -> i64 {
        length(self.gates.len())
    }

    /// Returns the number of elements of a gate in weights of all gates.
    pub(crate) fn gate_size(&self, width: i64) -> Made<i64> {
        let count = self.count();
        match width > 0 && width % count == 0 {
            true => Ok(width / count),
            false => Err(format!("expected the weights of {count} gates, found {width}").into()),
        }
    }
}

/// Layers of cells, of which each reads the results of the one before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    pub(crate) cell: Cell,
    pub(crate) hidden: i64,
    /// The size of the hidden state, if it is projected.
    pub(crate) projection: Option<i64>,
    pub(crate) layers: i64,
    is_both: bool,
}

impl Network {
    /// Returns a network without projections, in both directions or forward.
    pub(crate) fn new(cell: Cell, hidden: i64, layers: i64, is_both: bool) -> Made<Self> {
        match (1..=MAX_LAYERS).contains(&layers) && (1..=MAX_HIDDEN).contains(&hidden) {
            true => Ok(Self { cell, hidden, projection: None, layers, is_both }),
            false => Err(format!("expected layers of cells, found {layers} of {hidden}").into()),
        }
    }

    /// Returns the network whose hidden state is projected to a size.
    pub(crate) fn projected(self, size: i64) -> Made<Self> {
        match self.cell.is_lstm() && (1..=MAX_HIDDEN).contains(&size) {
            true => Ok(Self { projection: Some(size), ..self }),
            false => Err(format!("expected an LSTM with a projection, found size {size}").into()),
        }
    }

    pub(crate) fn directions(&self) -> usize {
        if self.is_both { 2 } else { 1 }
    }

    /// Returns the number of cells: one for each layer and direction.
    pub(crate) fn cells(&self) -> i64 {
        self.layers * length(self.directions())
    }

    /// Returns the size of the hidden state.
    pub(crate) fn state(&self) -> i64 {
        self.projection.unwrap_or(self.hidden)
    }

    fn rows(&self) -> i64 {
        self.cell.count() * self.hidden
    }
}

/// The weights of a cell, with the gates in the order of the framework.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    /// `[gates * hidden, features]`.
    pub(crate) input: Value,
    /// `[gates * hidden, state]`.
    pub(crate) state: Value,
    /// `[state, hidden]`.
    pub(crate) projection: Option<Value>,
    /// Of the input and of the state: `[gates * hidden]` each.
    pub(crate) biases: Option<[Value; 2]>,
}

/// The inputs of an operator of ONNX that runs a layer. All have a first dim of the directions.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// `[directions, gates * hidden, features]`.
    pub(crate) input: Value,
    /// `[directions, gates * hidden, hidden]`.
    pub(crate) state: Value,
    /// `[directions, 2 * gates * hidden]`.
    pub(crate) biases: Option<Value>,
    /// The lengths of the sequences: `[batch]`.
    pub(crate) lengths: Option<Value>,
    /// `[directions, batch, hidden]` each; zeros if they are absent.
    pub(crate) starts: Vec<Option<Value>>,
    /// Of the input, output and forget gate: `[directions, 3 * hidden]`.
    pub(crate) peepholes: Option<Value>,
}

/// How a layer runs.
#[derive(Clone, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) direction: &'static str,
    pub(crate) hidden: i64,
    /// Whether the reset gate applies to the product of the state, not to the state.
    pub(crate) resets_product: bool,
    /// The activations of all directions, if they are not those by default.
    pub(crate) activations: &'a [&'a str],
}

impl Run<'_> {
    fn attributes(&self, cell: &Cell) -> Vec<Attribute> {
        let mut attributes =
            vec![int("hidden_size", self.hidden), text("direction", self.direction)];
        if cell.kind == "GRU" {
            attributes.push(int("linear_before_reset", i64::from(self.resets_product)));
        }
        let mut list = |name: &str, value: AttributeValue| {
            attributes.push(Attribute { name: name.to_owned(), value });
        };
        if !self.activations.is_empty() {
            let names = self.activations.iter().map(|name| ByteString::from(*name));
            list("activations", AttributeValue::Strings(names.collect()));
        }
        let affine = self.activations.iter().filter(|name| **name == "Affine").count();
        if affine != 0 {
            list("activation_alpha", AttributeValue::Floats(vec![1.0; affine]));
            list("activation_beta", AttributeValue::Floats(vec![0.0; affine]));
        }
        attributes
    }
}

impl Graph {
    /// Joins parts along an axis.
    pub(crate) fn joined(&mut self, parts: &[Value], axis: i64) -> Made {
        match parts {
            [] => Err(Finding::internal("there are no parts to join")),
            [only] => Ok(only.clone()),
            all => self.concat(&all.iter().collect::<Vec<_>>(), axis),
        }
    }

    /// Puts gates of `size` elements along an axis into the order of ONNX.
    pub(crate) fn ordered(&mut self, x: &Value, axis: i64, gates: &[Gate], size: i64) -> Made {
        if gates.iter().zip(0..).all(|(gate, place)| *gate == At(place)) {
            return Ok(x.clone());
        }
        let mut parts = Vec::new();
        for gate in gates {
            let (At(from) | Rest(from)) = *gate;
            let part = self.slice(x, axis, from * size, (from + 1) * size)?;
            parts.push(match gate {
                At(_) => part,
                Rest(_) => self.times(&part, -1.0)?,
            });
        }
        self.joined(&parts, axis)
    }

    /// Returns weights of inputs that hold the gates of a cell: `[1, gates * size, gates * size]`.
    pub(crate) fn gate_weights(&mut self, cell: &Cell, size: i64, dtype: DType) -> Made {
        let width = cell.count() * size;
        if width > MAX_GATES {
            return Err(format!("expected gates of at most {MAX_GATES}, found {width}").into());
        }
        let row = |from: i64, factor: f32| {
            (0..width).map(move |column| if column == from { factor } else { 0.0 })
        };
        let gate = |gate: &Gate| {
            let (from, factor) = match gate {
                At(from) => (*from, 1.0),
                Rest(from) => (*from, -1.0),
            };
            (0..size).flat_map(move |place| row(from * size + place, factor))
        };
        let elements = cell.gates.iter().flat_map(gate).flat_map(f32::to_le_bytes);
        let bytes = Blob::memory(elements.collect::<Vec<u8>>());
        let width = width.unsigned_abs();
        let matrix = Tensor::dense(DType::Float32, vec![1, width, width], bytes);
        let matrix = self.tensor(matrix, "gates");
        self.cast(&matrix, dtype)
    }

    /// Takes a vector apart: the weights of all cells, then their biases.
    pub(crate) fn unpacked(
        &mut self,
        all: &Value,
        network: &Network,
        features: i64,
    ) -> Made<Vec<Weights>> {
        let (rows, state) = (network.rows(), network.state());
        let both = state * length(network.directions());
        let features = |layer: i64| if layer == 0 { features } else { both };
        // Without a projection, there are no weights of one.
        let projected = network.projection.map_or(0, |size| size * network.hidden);
        let of = |layer| rows.checked_mul(features(layer).checked_add(state + 2)?);
        let of_layers = (0..network.layers).map(of);
        let count = of_layers.sum::<Option<i64>>().and_then(|one| {
            let projected = projected.checked_mul(network.layers)?;
            one.checked_add(projected)?.checked_mul(length(network.directions()))
        });
        let count = count.ok_or("the layers have too many parameters")?;
        if all.dims()? != [count] {
            return Err(format!("expected {count} parameters, found {:?}", all.shape()?).into());
        }
        let mut at = 0;
        let mut part = |graph: &mut Self, dims: &[i64]| {
            let end = at + dims.iter().product::<i64>();
            let part = graph.slice(all, 0, at, end)?;
            at = end;
            graph.reshape(&part, dims)
        };
        let mut cells = Vec::new();
        for layer in 0..network.layers {
            for _ in 0..network.directions() {
                let input = part(self, &[rows, features(layer)])?;
                let of_state = part(self, &[rows, state])?;
                let projection = match network.projection {
                    Some(size) => Some(part(self, &[size, network.hidden])?),
                    None => None,
                };
                cells.push(Weights { input, state: of_state, projection, biases: None });
            }
        }
        for cell in &mut cells {
            cell.biases = Some([part(self, &[rows])?, part(self, &[rows])?]);
        }
        Ok(cells)
    }

    /// Runs a layer by ONNX's operator: `[time, batch, features]` to `[time, directions, batch, hidden]`, and the last states.
    pub(crate) fn layer(
        &mut self,
        x: &Value,
        cell: &Cell,
        layer: &Layer,
        run: &Run<'_>,
        results: usize,
    ) -> Made<Vec<Value>> {
        let weights = [Some(x), Some(&layer.input), Some(&layer.state), layer.biases.as_ref()];
        let starts = layer.starts.iter().map(Option::as_ref);
        let mut inputs: Vec<Option<&Value>> =
            weights.into_iter().chain([layer.lengths.as_ref()]).chain(starts).collect();
        inputs.extend(layer.peepholes.as_ref().map(Some));
        while inputs.last().is_some_and(Option::is_none) {
            inputs.pop();
        }
        self.emit(cell.kind, &inputs, run.attributes(cell), results)
    }

    /// Runs layers of cuDNN's cells over `[time, batch, features]`; returns `[time, batch, directions * hidden]`, and the last
    /// states, which are, like the initial ones, `[layers * directions, batch, hidden]`.
    pub(crate) fn network(
        &mut self,
        x: &Value,
        network: &Network,
        weights: &[Weights],
        lengths: Option<&Value>,
        starts: &[Option<Value>],
    ) -> Made<Vec<Value>> {
        let Network { cell, hidden, .. } = network;
        let directions = network.directions();
        if length(weights.len()) != network.cells() || starts.len() != cell.states() {
            let expected = format!("{} weights and {} states", network.cells(), cell.states());
            let found = format!("{} and {}", weights.len(), starts.len());
            return Err(format!("expected {expected}, found {found}").into());
        }
        if x.size(1)? == Some(0) {
            return self.of_nothing(x, network);
        }
        if network.projection.is_some() {
            return self.unrolled(x, network, weights, lengths, starts);
        }
        let lengths = lengths.map(|lengths| self.cast(lengths, DType::Int32)).transpose()?;
        let activations = vec![cell.activation; directions];
        let activations: Vec<&str> = activations.into_iter().flatten().collect();
        let direction = if network.is_both { "bidirectional" } else { "forward" };
        let run =
            Run { direction, hidden: *hidden, resets_product: true, activations: &activations };
        let (mut y, mut last) = (x.clone(), vec![Vec::new(); cell.states()]);
        for (number, weights) in weights.chunks(directions).enumerate() {
            let begin = length(number * directions);
            let mut layer = self.ordered_layer(cell, weights, *hidden)?;
            layer.lengths.clone_from(&lengths);
            for start in starts {
                layer.starts.push(match start {
                    Some(start) if network.layers == 1 => Some(start.clone()),
                    Some(start) => Some(self.slice(start, 0, begin, begin + length(directions))?),
                    None => None,
                });
            }
            let results = self.layer(&y, cell, &layer, &run, 1 + cell.states())?;
            let (out, ends) = results.split_first().ok_or("a layer has no result")?;
            y = self.directions_last(out, length(directions) * hidden)?;
            last.iter_mut().zip(ends).for_each(|(all, end)| all.push(end.clone()));
        }
        let mut results = vec![y];
        for all in &last {
            results.push(self.joined(all, 0)?);
        }
        Ok(results)
    }

    /// Returns the results of an empty batch, which ONNX's operators reject.
    fn of_nothing(&mut self, x: &Value, network: &Network) -> Made<Vec<Value>> {
        let time = x.size(0)?.ok_or("the time of an empty batch must be known")?;
        let size = length(network.directions()) * network.state();
        let mut results = vec![self.filled(x.dtype(), 0.0, &[time, 0, size])?];
        for size in [network.state(), network.hidden].into_iter().take(network.cell.states()) {
            results.push(self.filled(x.dtype(), 0.0, &[network.cells(), 0, size])?);
        }
        Ok(results)
    }

    /// Returns what the input adds to the gates of all steps: `[time, batch, gates * hidden]`.
    pub(crate) fn input_gates(&mut self, x: &Value, weights: &Weights) -> Made {
        let input = self.transpose(&weights.input, &[1, 0])?;
        let gates = self.call("MatMul", &[x, &input], [])?;
        match &weights.biases {
            Some([of_input, of_state]) => {
                let bias = self.add(of_input, of_state)?;
                self.add(&gates, &bias)
            }
            None => Ok(gates),
        }
    }

    /// Returns an element along the first axis, which is removed.
    pub(crate) fn row_of(&mut self, all: &Value, index: i64) -> Made {
        let one = self.slice(all, 0, index, index + 1)?;
        let axis = self.longs(&[0]);
        self.call("Squeeze", &[&one, &axis], [])
    }

    /// Runs layers of an LSTM whose hidden state is projected, step by step: ONNX has no operator that projects it.
    fn unrolled(
        &mut self,
        x: &Value,
        network: &Network,
        weights: &[Weights],
        lengths: Option<&Value>,
        starts: &[Option<Value>],
    ) -> Made<Vec<Value>> {
        let (time, [Some(hidden), Some(memory)], None) = (x.size(0)?, starts, lengths) else {
            return Err("projected states require initial ones, and no lengths".into());
        };
        let time = time.filter(|time| time.saturating_mul(network.cells()) <= MAX_STEPS);
        let time =
            time.ok_or_else(|| format!("projected states require {MAX_STEPS} steps at most"))?;
        let directions = network.directions();
        let (mut y, mut last) = (x.clone(), [Vec::new(), Vec::new()]);
        for (number, layer) in weights.chunks(directions).enumerate() {
            let mut sides = Vec::new();
            for (direction, own) in layer.iter().enumerate() {
                let projection = own.projection.as_ref().ok_or("a projection is missing")?;
                let gates = self.input_gates(&y, own)?;
                let [of_state, projection] = [self.turned(&own.state)?, self.turned(projection)?];
                let index = length(number * directions + direction);
                let [mut hidden, mut memory] =
                    [self.row_of(hidden, index)?, self.row_of(memory, index)?];
                let mut shown = Vec::new();
                for step in 0..time {
                    let at = if direction == 0 { step } else { time - 1 - step };
                    let own = self.row_of(&gates, at)?;
                    let product = self.call("MatMul", &[&hidden, &of_state], [])?;
                    let sum = self.add(&own, &product)?;
                    let gates = self.split_gates(&network.cell, &sum)?;
                    [hidden, memory] = self.lstm_step(gates, &memory)?;
                    hidden = self.call("MatMul", &[&hidden, &projection], [])?;
                    shown.push(self.unsqueeze(&hidden, &[0])?);
                }
                if direction == 1 {
                    shown.reverse();
                }
                sides.push(self.joined(&shown, 0)?);
                for (all, end) in last.iter_mut().zip([hidden, memory]) {
                    all.push(self.unsqueeze(&end, &[0])?);
                }
            }
            y = self.joined(&sides, 2)?;
        }
        let [hidden, memory] = last;
        Ok(vec![y, self.joined(&hidden, 0)?, self.joined(&memory, 0)?])
    }

    /// Returns the weights of all directions of a layer in the order of ONNX.
    fn ordered_layer(&mut self, cell: &Cell, weights: &[Weights], hidden: i64) -> Made<Layer> {
        let (mut inputs, mut states, mut biases) = (Vec::new(), Vec::new(), Vec::new());
        for Weights { input, state, biases: own, .. } in weights {
            let input = self.ordered(input, 0, cell.gates, hidden)?;
            inputs.push(self.unsqueeze(&input, &[0])?);
            let state = self.ordered(state, 0, cell.gates, hidden)?;
            states.push(self.unsqueeze(&state, &[0])?);
            if let Some([input, state]) = own {
                let input = self.ordered(input, 0, cell.gates, hidden)?;
                let state = self.ordered(state, 0, cell.gates, hidden)?;
                let both = self.concat(&[&input, &state], 0)?;
                biases.push(self.unsqueeze(&both, &[0])?);
            }
        }
        let (input, state) = (self.joined(&inputs, 0)?, self.joined(&states, 0)?);
        let biases = match biases.len() {
            0 => None,
            count if count == weights.len() => Some(self.joined(&biases, 0)?),
            _ => return Err("expected biases of all directions, or of none".into()),
        };
        let (lengths, starts, peepholes) = (None, Vec::new(), None);
        Ok(Layer { input, state, biases, lengths, starts, peepholes })
    }

    /// Returns `[time, directions, batch, hidden]` as `[time, batch, size]`.
    fn directions_last(&mut self, y: &Value, size: i64) -> Made {
        if y.size(1)? == Some(1) {
            let axis = self.longs(&[1]);
            return self.call("Squeeze", &[y, &axis], []);
        }
        let turned = self.transpose(y, &[0, 2, 1, 3])?;
        let dims = self.longs(&[0, 0, size]);
        self.call("Reshape", &[&turned, &dims], [])
    }

    /// Splits the gates of a cell along the last axis; returns them in the order of ONNX.
    pub(crate) fn split_gates<const N: usize>(
        &mut self,
        cell: &Cell,
        x: &Value,
    ) -> Made<[Value; N]> {
        let attributes = [int("axis", -1), int("num_outputs", cell.count())];
        let parts = self.emit("Split", &[Some(x)], attributes, cell.gates.len())?;
        let mut ordered = Vec::new();
        for gate in cell.gates {
            let (At(place) | Rest(place)) = *gate;
            let place = usize::try_from(place).ok();
            let part = place.and_then(|place| parts.get(place)).cloned();
            ordered.push(part.ok_or_else(|| Finding::internal("a gate is missing"))?);
        }
        ordered.try_into().map_err(|_| Finding::internal(format!("a cell does not have {N} gates")))
    }

    /// Computes a step of an LSTM from the sums of its gates in the order of ONNX, and the memory; returns the hidden state and
    /// the memory.
    pub(crate) fn lstm_step(&mut self, gates: [Value; 4], memory: &Value) -> Made<[Value; 2]> {
        let [input, output, forget, candidate] = gates;
        let input = self.call("Sigmoid", &[&input], [])?;
        let forget = self.call("Sigmoid", &[&forget], [])?;
        let candidate = self.call("Tanh", &[&candidate], [])?;
        let output = self.call("Sigmoid", &[&output], [])?;
        let (kept, new) = (self.mul(&forget, memory)?, self.mul(&input, &candidate)?);
        let memory = self.add(&kept, &new)?;
        let shown = self.call("Tanh", &[&memory], [])?;
        Ok([self.mul(&output, &shown)?, memory])
    }

    /// Computes a step of a cell of cuDNN from the products of the input and of the state with all weights; returns the states.
    pub(crate) fn step(
        &mut self,
        cell: &Cell,
        [of_input, of_state]: [&Value; 2],
        states: &[Value],
    ) -> Made<Vec<Value>> {
        match (cell.activation, states) {
            (Some(activation), [_]) => {
                let sum = self.add(of_input, of_state)?;
                Ok(vec![self.call(activation, &[&sum], [])?])
            }
            (None, [_, memory]) if cell.is_lstm() => {
                let sum = self.add(of_input, of_state)?;
                let gates = self.split_gates(cell, &sum)?;
                self.lstm_step(gates, memory).map(Vec::from)
            }
            (None, [hidden]) if !cell.is_lstm() => {
                let [update_x, reset_x, new_x] = self.split_gates(cell, of_input)?;
                let [update_h, reset_h, new_h] = self.split_gates(cell, of_state)?;
                let reset = self.add(&reset_x, &reset_h)?;
                let reset = self.call("Sigmoid", &[&reset], [])?;
                let update = self.add(&update_x, &update_h)?;
                let update = self.call("Sigmoid", &[&update], [])?;
                let gated = self.mul(&reset, &new_h)?;
                let new = self.add(&new_x, &gated)?;
                let new = self.call("Tanh", &[&new], [])?;
                Ok(vec![self.between(&new, hidden, &update)?])
            }
            _ => {
                let (expected, found) = (cell.states(), states.len());
                Err(format!("expected {expected} states, found {found}").into())
            }
        }
    }

    /// Returns what is a share of the way from one value to another.
    pub(crate) fn between(&mut self, from: &Value, to: &Value, share: &Value) -> Made {
        let way = self.sub(to, from)?;
        let moved = self.mul(share, &way)?;
        self.add(from, &moved)
    }
}
