//! Constants that are packed for the kernels that read them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::Op;
use lodstone_schema::Finding;

use super::{Implementation, Node, Registers};
use crate::call::Call;
use crate::context::Context;
use crate::error::{Error, Outcome, Result};
use crate::fast::{
    Affine, Cells, Convolution, Form, Integers, Kept, Key, Kind, Matrix, Prepared, Unrolled,
    Weighted, dilation, is_dense, is_transposed, special, tiles,
};
use crate::tensor::Dense;
use crate::threads::each;

/// The constants of a program, and what is packed of them.
pub(super) struct Constants<'a> {
    pub(super) registers: &'a Registers,
    /// The names of constants of the program, by their registers; `None` for one that exists in this plan alone.
    pub(super) names: &'a [Option<String>],
    pub(super) prepared: &'a Prepared,
}

/// A normalization of the results of a convolution: its operator, and its inputs without the first.
type Normalization = (Op, Vec<Option<usize>>);

impl Constants<'_> {
    fn dense(&self, register: Option<usize>) -> Option<&Dense> {
        self.registers.get(register?)?.as_ref()?.dense().ok()
    }

    /// Packs the filters of convolutions and the right matrices of products. A normalization of their results becomes a
    /// convolution whose filter is normalized; the one that it reads remains if something else reads it.
    pub(super) fn prepare(
        &self,
        mut nodes: Vec<Node>,
        outputs: &[usize],
        context: Context<'_>,
    ) -> Result<Vec<Node>> {
        let is = |node: &Node, kind: &str| {
            matches!(node.op.domain.as_str(), "" | "ai.onnx")
                && node.op.kind == kind
                && matches!(&node.outputs[..], [Some(_)])
        };
        let is_convolution = |node: &Node| is(node, "Conv") || is(node, "ConvTranspose");
        let convolutions: HashMap<usize, (Op, Vec<Option<usize>>)> = nodes
            .iter()
            .filter(|node| is_convolution(node))
            .flat_map(|node| {
                let outputs = node.outputs.iter().flatten();
                outputs.map(|output| (*output, (node.op.clone(), node.inputs.clone())))
            })
            .collect();
        let normalizations: Vec<_> = nodes
            .iter_mut()
            .filter(|node| is(node, "BatchNormalization"))
            .filter_map(|node| {
                let [Some(input), statistics @ ..] = &node.inputs[..] else { return None };
                let (op, inputs) = convolutions.get(input)?;
                let normalization = (node.op.clone(), statistics.to_vec());
                Some((*input, op, inputs, normalization, node))
            })
            .collect();
        let replaced = self.each(normalizations, context, |(input, op, inputs, by, node)| {
            let made = self.convolution(op, inputs, Some(&by), context);
            let made = made.map_err(|finding| node.failed(finding))?;
            Ok(made.map(|made| {
                (node.op, node.inputs) = (op.clone(), inputs.clone());
                node.implementation = Implementation::Weighted(made);
                input
            }))
        })?;
        let replaced: HashSet<usize> = replaced.into_iter().flatten().collect();
        let mut read: HashSet<usize> = outputs.iter().copied().collect();
        read.extend(
            nodes.iter().flat_map(|node| node.inputs.iter().flatten().chain(&node.captured)),
        );
        nodes.retain(|node| {
            let mut outputs = node.outputs.iter().flatten();
            !outputs.any(|output| replaced.contains(output) && !read.contains(output))
        });
        self.each(nodes.iter_mut().collect(), context, |node| {
            let Implementation::Kernel(kernel) = node.implementation else { return Ok(()) };
            if is_convolution(node) {
                let made = self.convolution(&node.op, &node.inputs, None, context);
                if let Some(made) = made.map_err(|finding| node.failed(finding))? {
                    node.implementation = Implementation::Weighted(made);
                    return Ok(());
                }
            }
            if let Some(made) = self.cells(node, context).map_err(|finding| node.failed(finding))? {
                node.implementation = Implementation::Packed(made, kernel);
            }
            let made = self.integers(node, context).map_err(|finding| node.failed(finding))?;
            if let Some(made) = made {
                node.implementation = Implementation::Packed(made, kernel);
            }
            if let Some(special) = special(&node.op)
                && node.outputs.len() <= special.results
            {
                node.implementation = Implementation::Special(special, kernel);
            }
            if is(node, "MatMul") || is(node, "Gemm") {
                let made = self.matrix(&node.op, &node.inputs, context);
                if let Some(made) = made.map_err(|finding| node.failed(finding))? {
                    node.implementation = Implementation::Weighted(made);
                }
            }
            Ok(())
        })?;
        Ok(nodes)
    }

    /// Returns the results of a function of each item, which run on all threads if the constants are large.
    fn each<I: Send, R: Send>(
        &self,
        items: Vec<I>,
        context: Context<'_>,
        of: impl Fn(I) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let constants = self.registers.iter().flatten().filter_map(|it| it.dense().ok());
        let bytes = constants.map(Dense::nbytes).sum();
        let mut made: Vec<Option<Result<R>>> = Vec::new();
        made.resize_with(items.len(), || None);
        let pairs = items.into_iter().zip(&mut made).collect();
        let work = || {
            each(pairs, |(): &mut (), _, (item, into)| {
                *into = Some(of(item));
                Ok(())
            })
        };
        context.threads.run_if(bytes, work).flatten().map_err(Error::Program)?;
        made.into_iter().flatten().collect()
    }

    /// Packs the filter of a convolution, and of a normalization of its result, once for all plans; `None` if it is not
    /// constant, or there is no fast kernel for it.
    fn convolution(
        &self,
        op: &Op,
        inputs: &[Option<usize>],
        normalization: Option<&Normalization>,
        context: Context<'_>,
    ) -> Outcome<Option<Arc<Kept>>> {
        let [_, filter, bias @ ..] = inputs else { return Ok(None) };
        let statistics = normalization.map(|(_, inputs)| &inputs[..]).unwrap_or_default();
        let constants: Vec<Option<usize>> =
            inputs.iter().skip(1).chain(statistics).copied().collect();
        let make = || {
            let Some(filter) = self.dense(*filter) else { return Ok(None) };
            let bias = bias.first().and_then(|register| self.dense(*register));
            let affine = match normalization {
                Some((op, statistics)) => {
                    let statistics: Vec<&Dense> =
                        statistics.iter().filter_map(|register| self.dense(*register)).collect();
                    match Affine::new(op, &statistics)? {
                        Some(affine) => Some(affine),
                        None => return Ok(None),
                    }
                }
                None => None,
            };
            let made = Convolution::new(op, filter, bias, affine.as_ref(), None)?;
            Ok(made.map(Weighted::Convolution))
        };
        let epsilon =
            |(op, _): &Normalization| Ok::<_, Finding>(Call::new(op, &[])?.float("epsilon", 1e-5));
        let epsilon: Option<f32> = normalization.map(epsilon).transpose()?;
        let form = Form::Convolution {
            is_transposed: is_transposed(op),
            tiles: tiles(op)?,
            groups: Call::new(op, &[])?.int("group", 1),
            dilation: dilation(op)?,
            is_dense: is_dense(op)?,
            epsilon: epsilon.map(f32::to_bits),
        };
        self.kept(&constants, form, make, context)
    }

    /// Packs the right matrix of a product once for all plans; `None` if it is not constant, or there is no fast kernel for
    /// it.
    fn matrix(
        &self,
        op: &Op,
        inputs: &[Option<usize>],
        context: Context<'_>,
    ) -> Outcome<Option<Arc<Kept>>> {
        let [_, constants @ ..] = inputs else { return Ok(None) };
        let make = || {
            let [right, bias @ ..] = constants else { return Ok(None) };
            let Some(right) = self.dense(*right) else { return Ok(None) };
            let bias = bias.first().and_then(|register| self.dense(*register));
            Ok(Matrix::new(op, right, bias)?.map(Weighted::Matrix))
        };
        let call = Call::new(op, &[])?;
        if call.int("transA", 0) != 0 {
            return Ok(None);
        }
        let bits = |name: &str| call.float(name, 1.0).to_bits();
        let form = Form::Matrix {
            is_turned: call.int("transB", 0) != 0,
            alpha: bits("alpha"),
            beta: bits("beta"),
        };
        self.kept(constants, form, make, context)
    }

    /// Packs the weights of recurrent cells once for all plans; `None` if they are not constant, or there is no fast kernel
    /// for them.
    fn cells(&self, node: &Node, context: Context<'_>) -> Outcome<Option<Arc<Kept>>> {
        let given = |number: usize| node.inputs.get(number).copied().flatten();
        let is_own = matches!(node.op.domain.as_str(), "" | "ai.onnx");
        let Some(unrolled) = Unrolled::of(&node.op, |number| given(number).is_some())? else {
            return Ok(None);
        };
        let make = || {
            let (Some(input), Some(recurrent)) = (self.dense(given(1)), self.dense(given(2)))
            else {
                return Ok(None);
            };
            let made = Cells::new(&unrolled, input, recurrent, self.dense(given(3)))?;
            Ok(made.map(Weighted::Cells))
        };
        match is_own {
            true => self.kept(&[1, 2, 3].map(given), Form::Cells(unrolled.clone()), make, context),
            false => Ok(None),
        }
    }

    /// Packs the weights of a product of 8-bit integers once for all plans; `None` if they are not constant, or there is no
    /// fast kernel for them.
    fn integers(&self, node: &Node, context: Context<'_>) -> Outcome<Option<Arc<Kept>>> {
        let given = |number: usize| node.inputs.get(number).copied().flatten();
        let Some(kind) = Kind::of(&node.op)? else { return Ok(None) };
        let [weights, zero] = kind.weights().map(given);
        let make = || {
            let Some(weights) = self.dense(weights) else { return Ok(None) };
            Ok(Integers::new(kind, &node.op, weights, self.dense(zero))?.map(Weighted::Integers))
        };
        let groups = Call::new(&node.op, &[])?.int("group", 1);
        self.kept(&[weights, zero], Form::Integers { kind, groups }, make, context)
    }

    /// Returns what is packed of constants; `None` if one of them is not constant, or there is no fast kernel.
    fn kept(
        &self,
        constants: &[Option<usize>],
        form: Form,
        make: impl FnOnce() -> Outcome<Option<Weighted>>,
        context: Context<'_>,
    ) -> Outcome<Option<Arc<Kept>>> {
        if !constants.iter().all(|it| it.is_none() || self.dense(*it).is_some()) {
            return Ok(None);
        }
        let name = |register: &Option<usize>| match register {
            Some(register) => Some(Some(self.names.get(*register)?.clone()?)),
            None => Some(None),
        };
        let key = constants.iter().map(name).collect::<Option<_>>();
        let key = key.map(|constants| Key { constants, form });
        self.prepared.get(key, make, context.budget)
    }
}
