//! Layers that ONNX's operators run.

use lodstone_model::{Attribute, AttributeValue, ByteString, DType};
use lodstone_schema::numbers::length;

use super::{Cell, Made, Network, Weights};
use crate::onnx::{Graph, Value, int, text};

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
}
