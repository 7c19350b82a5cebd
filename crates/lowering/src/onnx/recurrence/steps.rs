//! Single steps of cells, and layers that are unrolled into them.

use lodstone_schema::Finding;
use lodstone_schema::numbers::length;

use super::Gate::{At, Rest};
use super::{Cell, Made, Network, Weights};
use crate::onnx::{Graph, Value, int};

/// The maximum number of steps, of all layers, that become operators.
const MAX_STEPS: i64 = 1 << 10;

impl Graph {
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
    pub(super) fn unrolled(
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
}
