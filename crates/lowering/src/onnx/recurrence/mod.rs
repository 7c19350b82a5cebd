//! Recurrence: cells that run over time with a state, in layers and directions.
//!
//! ONNX has the gates of an LSTM in the order input, output, forget, candidate, and those of a GRU in the order update, reset,
//! candidate. It weighs the old state of a GRU by the update gate, and the candidate by the rest.
//!
//! | framework and release | what it means there | proof |
//! |---|---|---|
//! | PaddlePaddle from 2.0, `rnn` | [`CELLS`]: input, forget, candidate, output; reset, update, candidate, where the reset gate applies to the product of the state | `lstm_cpu_kernel.h` and `gru_cpu_kernel.h` without `old_api_version`; recorded `rnn-1` to `rnn-8` |
//! | PaddlePaddle, `rnn`, weights | of the input and of the state, for each layer and direction; then the biases | `ResetParameterVector` in `rnn_functor.h`; recorded `rnn-2` |
//! | PaddlePaddle, `rnn`, lengths | results beyond them are 0; the state of a sequence without steps is the initial one | `CreateMaskMatrix` in `rnn_functor.h`; run with 2.6.2 |
//! | PaddlePaddle, `rnn`, dims of 0 | a batch may be empty; without time, it crashes | run with 2.6.2 |
//! | PaddlePaddle, `rnn`, `dropout_prob` | between layers only, unless `is_test` | `RnnFunc` in `rnn_functor.h` |
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

mod layers;
mod steps;
mod weights;

use lodstone_schema::Finding;
use lodstone_schema::numbers::length;

use super::{Graph, Value};
pub(crate) use layers::{Layer, Run};

type Made<T = Value> = Result<T, Finding>;

/// The maximum number of layers: each becomes operators.
const MAX_LAYERS: i64 = 1 << 10;

/// The maximum number of elements of a state: only broken attributes lead to more.
const MAX_HIDDEN: i64 = 1 << 24;

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

impl Graph {
    /// Joins parts along an axis.
    pub(crate) fn joined(&mut self, parts: &[Value], axis: i64) -> Made {
        match parts {
            [] => Err(Finding::internal("there are no parts to join")),
            [only] => Ok(only.clone()),
            all => self.concat(&all.iter().collect::<Vec<_>>(), axis),
        }
    }
}
