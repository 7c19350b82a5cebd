//! Operators that PaddlePaddle's layers write as two, and ONNX has as one.
//!
//! | operators | become |
//! |---|---|
//! | `Conv` or `ConvTranspose`, `Add` of a parameter for each channel | the operator with a bias |

use std::collections::{HashMap, HashSet};

use lodstone_model::{Dim, Op};

use super::walk::Walk;

/// Operators that take a bias as their third input.
const BIASED: [&str; 2] = ["Conv", "ConvTranspose"];

impl Walk<'_> {
    /// Gives convolutions the biases that are added to their results.
    pub(super) fn fuse(&mut self) {
        let inner = self.blocks.iter().flat_map(|block| &block.ops);
        let mut readers: HashMap<String, usize> = HashMap::new();
        for name in self.graph.ops.iter().chain(inner).flat_map(Op::reads) {
            *readers.entry(name.to_owned()).or_default() += 1;
        }
        let returned = self.blocks.iter().flat_map(|block| &block.outputs).cloned();
        let returned: HashSet<String> = returned.collect();
        let mut writer: HashMap<String, usize> = HashMap::new();
        for (number, op) in self.graph.ops.iter().enumerate() {
            writer.extend(op.writes().map(|name| (name.to_owned(), number)));
        }
        let is_alone = |name: &str| readers.get(name) == Some(&1) && !returned.contains(name);
        let mut gone = HashSet::new();
        for number in 0..self.graph.ops.len() {
            let Some((conv, bias)) = self.bias(number, &writer, &is_alone) else { continue };
            let Some(add) = self.graph.ops.get(number) else { continue };
            let (sum, sources) = (add.output("").first().cloned(), add.sources.clone());
            let (Some(sum), Some(op)) = (sum, self.graph.ops.get_mut(conv)) else { continue };
            op.sources = op.sources.and(&sources);
            if let (Some(inputs), Some(outputs)) = (op.inputs.first_mut(), op.outputs.first_mut()) {
                inputs.args.push(bias);
                outputs.args = vec![sum.clone()];
                writer.insert(sum, conv);
                gone.insert(number);
            }
        }
        let mut number = 0;
        self.graph.ops.retain(|_| {
            number += 1;
            !gone.contains(&(number - 1))
        });
    }

    /// Returns the convolution whose result an operator adds a bias to, and the bias.
    fn bias(
        &self,
        number: usize,
        writer: &HashMap<String, usize>,
        is_alone: &impl Fn(&str) -> bool,
    ) -> Option<(usize, String)> {
        let add = self.graph.ops.get(number).filter(|op| op.kind == "Add")?;
        let [a, b] = add.input("") else { return None };
        let conv = *writer.get(a)?;
        let op = self.graph.ops.get(conv)?;
        let is_plain = BIASED.contains(&op.kind.as_str()) && op.input("").len() == 2;
        if !is_plain || !is_alone(a) {
            return None;
        }
        let spread = self.graph.ops.get(*writer.get(b)?)?;
        if !["Unsqueeze", "Reshape"].contains(&spread.kind.as_str()) {
            return None;
        }
        let bias = spread.input("").first()?;
        let [channels] = self.parameters.get(bias.as_str())?.shape.as_slice() else { return None };
        // One element for each channel: [1, channels, 1, 1], or without the first dim.
        let dims = self.graph.infos.get(b)?.shape()?;
        let rank = self.graph.infos.get(a)?.shape()?.len();
        let place = dims.len().checked_sub(rank.checked_sub(1)?)?;
        let fits = |(at, dim): (usize, &Dim)| match dim {
            Dim::Known(size) if at == place => size == channels,
            Dim::Known(size) => *size == 1,
            _ => false,
        };
        (dims.len() >= rank - 1 && dims.iter().enumerate().all(fits)).then(|| (conv, bias.clone()))
    }
}
