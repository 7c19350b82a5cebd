//! Weights of cells: those of frameworks, and those of ONNX.

use lodstone_model::{DType, Tensor};
use lodstone_schema::numbers::length;
use lodstone_store::Blob;

use super::Gate::{At, Rest};
use super::{Cell, Gate, Layer, Made, Network, Weights};
use crate::onnx::{Graph, Value};

/// The maximum number of elements of the matrix that reorders gates, along each side.
const MAX_GATES: i64 = 1 << 13;

impl Graph {
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
        let of = |layer| rows.checked_mul(features(layer).checked_add(state + 2)?);
        let of_layers = (0..network.layers).map(of);
        let count = of_layers.sum::<Option<i64>>().and_then(|one| {
            let all = match network.projection {
                Some(size) => {
                    let projected =
                        size.checked_mul(network.hidden)?.checked_mul(network.layers)?;
                    one.checked_add(projected)?
                }
                None => one,
            };
            all.checked_mul(length(network.directions()))
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

    /// Returns the weights of all directions of a layer in the order of ONNX.
    pub(super) fn ordered_layer(
        &mut self,
        cell: &Cell,
        weights: &[Weights],
        hidden: i64,
    ) -> Made<Layer> {
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
}
