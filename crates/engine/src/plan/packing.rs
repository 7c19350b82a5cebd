//! Constants that are packed for the kernels that read them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::Op;
use lodstone_schema::Finding;

use super::{Implementation, Node, Path, Registers};
use crate::call::Call;
use crate::context::Context;
use crate::error::{Error, Outcome, Result};
use crate::fast::{
    Affine, Cells, Convolution, Form, Gates, IntegerKind, Integers, Key, Matrix, PackCache,
    PackedConstants, PackedOperator, Packing, Unrolled, adjacent_strides, dilation, is_dense,
    is_transposed,
};
use crate::operator::{Fusion, Operator};
use crate::tensor::Dense;
use crate::threads::each;

/// The constants of a program, and their packed forms.
pub(super) struct Constants<'a> {
    pub(super) registers: &'a Registers,
    /// The names of constants of the program, by their registers; `None` for one that exists in this plan alone.
    pub(super) names: &'a [Option<String>],
    pub(super) packed: &'a PackCache,
}

/// A normalization of the results of a convolution: its operator, and its inputs without the first.
type Normalization = (Op, Vec<Option<usize>>);

/// A convolution, and its inputs.
struct Convolved {
    operator: &'static Operator,
    op: Op,
    inputs: Vec<Option<usize>>,
}

impl Convolved {
    fn of(node: &Node) -> Option<Self> {
        let (op, inputs) = (node.op.clone(), node.inputs.clone());
        Some(Self { operator: node.operator()?, op, inputs })
    }
}

impl Node {
    fn packing(&self) -> Option<Packing> {
        self.operator()?.packing
    }

    /// Returns whether the operator is folded into the convolution that it reads.
    fn is_normalization(&self) -> bool {
        self.operator().is_some_and(|it| matches!(it.fusion, Some(Fusion::Normalization)))
    }
}

impl Constants<'_> {
    fn dense(&self, register: Option<usize>) -> Option<&Dense> {
        self.registers.get(register?)?.as_ref()?.dense().ok()
    }

    /// Packs the filters of convolutions and the right matrices of products. A normalization of their results becomes a
    /// convolution whose filter is normalized; the one that it reads remains if something else reads it.
    pub(super) fn pack(
        &self,
        mut nodes: Vec<Node>,
        outputs: &[usize],
        context: Context<'_>,
    ) -> Result<Vec<Node>> {
        let is_single = |node: &Node| matches!(&node.outputs[..], [Some(_)]);
        let is_convolution = |node: &Node| node.packing() == Some(Packing::Convolution);
        let convolutions: HashMap<usize, Convolved> = nodes
            .iter()
            .filter(|node| is_single(node) && is_convolution(node))
            .flat_map(|node| {
                let outputs = node.outputs.iter().flatten();
                outputs.filter_map(|output| Some((*output, Convolved::of(node)?)))
            })
            .collect();
        let normalizations: Vec<_> = nodes
            .iter_mut()
            .filter(|node| is_single(node) && node.is_normalization())
            .filter_map(|node| {
                let [Some(input), statistics @ ..] = &node.inputs[..] else { return None };
                let convolution = convolutions.get(input)?;
                let normalization = (node.op.clone(), statistics.to_vec());
                Some((*input, convolution, normalization, node))
            })
            .collect();
        let replaced = self.each(normalizations, context, |(input, convolution, by, node)| {
            let Convolved { operator, op, inputs } = convolution;
            let packed = self.convolution(op, inputs, Some(&by), context);
            let packed = packed.map_err(|finding| node.failed(finding))?;
            Ok(packed.map(|packed| {
                (node.op, node.inputs) = (op.clone(), inputs.clone());
                node.implementation = Implementation::Kernel(operator, Path::Packed(packed));
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
            let Implementation::Kernel(operator, Path::Reference) = node.implementation else {
                return Ok(());
            };
            let packed = self.packed(node, operator, context);
            let packed = packed.map_err(|finding| node.failed(finding))?;
            let fast = operator.fast.filter(|fast| node.outputs.len() <= fast.outputs);
            if let Some(path) = packed.or(fast.map(Path::Fast)) {
                node.implementation = Implementation::Kernel(operator, path);
            }
            Ok(())
        })?;
        Ok(nodes)
    }

    /// Packs the constants of an operator; `None` if there is no fast kernel for them.
    fn packed(
        &self,
        node: &Node,
        operator: &Operator,
        context: Context<'_>,
    ) -> Outcome<Option<Path>> {
        let is_single = matches!(&node.outputs[..], [Some(_)]);
        Ok(match operator.packing {
            Some(Packing::Convolution) if is_single => {
                self.convolution(&node.op, &node.inputs, None, context)?.map(Path::Packed)
            }
            Some(Packing::Matrix) if is_single => {
                self.matrix(&node.op, &node.inputs, context)?.map(Path::Packed)
            }
            Some(Packing::Cells(gates)) => {
                self.cells(gates, node, context)?.map(Path::PackedOrReference)
            }
            Some(Packing::Integers(kind)) => {
                self.integers(kind, node, context)?.map(Path::PackedOrReference)
            }
            Some(Packing::Convolution | Packing::Matrix) | None => None,
        })
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
        let mut results: Vec<Option<Result<R>>> = Vec::new();
        results.resize_with(items.len(), || None);
        let pairs = items.into_iter().zip(&mut results).collect();
        let work = || {
            each(pairs, |(): &mut (), _, (item, into)| {
                *into = Some(of(item));
                Ok(())
            })
        };
        context.threads.run_if(bytes, work).flatten().map_err(Error::Program)?;
        results.into_iter().flatten().collect()
    }

    /// Packs the filter of a convolution, and of a normalization of its result, once for all plans; `None` if it is not
    /// constant, or there is no fast kernel for it.
    fn convolution(
        &self,
        op: &Op,
        inputs: &[Option<usize>],
        normalization: Option<&Normalization>,
        context: Context<'_>,
    ) -> Outcome<Option<Arc<PackedConstants>>> {
        let [_, filter, bias @ ..] = inputs else { return Ok(None) };
        let statistics = normalization.map(|(_, inputs)| &inputs[..]).unwrap_or_default();
        let constants: Vec<Option<usize>> =
            inputs.iter().skip(1).chain(statistics).copied().collect();
        let pack = || {
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
            let convolution = Convolution::new(op, filter, bias, affine.as_ref(), None)?;
            Ok(convolution.map(PackedOperator::Convolution))
        };
        let epsilon =
            |(op, _): &Normalization| Ok::<_, Finding>(Call::new(op, &[])?.float("epsilon", 1e-5));
        let epsilon: Option<f32> = normalization.map(epsilon).transpose()?;
        let form = Form::Convolution {
            is_transposed: is_transposed(op),
            adjacent: adjacent_strides(op)?,
            groups: Call::new(op, &[])?.int("group", 1),
            dilation: dilation(op)?,
            is_dense: is_dense(op)?,
            epsilon: epsilon.map(f32::to_bits),
        };
        self.cached(&constants, form, pack, context)
    }

    /// Packs the right matrix of a product once for all plans; `None` if it is not constant, or there is no fast kernel for
    /// it.
    fn matrix(
        &self,
        op: &Op,
        inputs: &[Option<usize>],
        context: Context<'_>,
    ) -> Outcome<Option<Arc<PackedConstants>>> {
        let [_, constants @ ..] = inputs else { return Ok(None) };
        let pack = || {
            let [right, bias @ ..] = constants else { return Ok(None) };
            let Some(right) = self.dense(*right) else { return Ok(None) };
            let bias = bias.first().and_then(|register| self.dense(*register));
            Ok(Matrix::new(op, right, bias)?.map(PackedOperator::Matrix))
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
        self.cached(constants, form, pack, context)
    }

    /// Packs the weights of recurrent cells once for all plans; `None` if they are not constant, or there is no fast kernel
    /// for them.
    fn cells(
        &self,
        gates: Gates,
        node: &Node,
        context: Context<'_>,
    ) -> Outcome<Option<Arc<PackedConstants>>> {
        let register = |number: usize| node.inputs.get(number).copied().flatten();
        let unrolled = Unrolled::of(gates, &node.op, |number| register(number).is_some())?;
        let Some(unrolled) = unrolled else { return Ok(None) };
        let pack = || {
            let (Some(input), Some(recurrent)) = (self.dense(register(1)), self.dense(register(2)))
            else {
                return Ok(None);
            };
            let cells = Cells::new(&unrolled, input, recurrent, self.dense(register(3)))?;
            Ok(cells.map(PackedOperator::Cells))
        };
        self.cached(&[1, 2, 3].map(register), Form::Cells(unrolled.clone()), pack, context)
    }

    /// Packs the weights of a product of 8-bit integers once for all plans; `None` if they are not constant, or there is no
    /// fast kernel for them.
    fn integers(
        &self,
        kind: IntegerKind,
        node: &Node,
        context: Context<'_>,
    ) -> Outcome<Option<Arc<PackedConstants>>> {
        let register = |number: usize| node.inputs.get(number).copied().flatten();
        let Some(is_transposed) = kind.is_transposed(&node.op)? else { return Ok(None) };
        let [weights, zero] = kind.weights().map(register);
        let pack = || {
            let Some(weights) = self.dense(weights) else { return Ok(None) };
            let integers =
                Integers::new((kind, is_transposed), &node.op, weights, self.dense(zero))?;
            Ok(integers.map(PackedOperator::Integers))
        };
        let groups = Call::new(&node.op, &[])?.int("group", 1);
        self.cached(&[weights, zero], Form::Integers { kind, is_transposed, groups }, pack, context)
    }

    /// Returns packed constants, once for all plans; `None` if one of them is not constant, or there is no fast kernel.
    fn cached(
        &self,
        constants: &[Option<usize>],
        form: Form,
        pack: impl FnOnce() -> Outcome<Option<PackedOperator>>,
        context: Context<'_>,
    ) -> Outcome<Option<Arc<PackedConstants>>> {
        if !constants.iter().all(|it| it.is_none() || self.dense(*it).is_some()) {
            return Ok(None);
        }
        let name = |register: &Option<usize>| match register {
            Some(register) => Some(Some(self.names.get(*register)?.clone()?)),
            None => Some(None),
        };
        let key = constants.iter().map(name).collect::<Option<_>>();
        let key = key.map(|constants| Key { constants, form });
        self.packed.get(key, pack, context.budget)
    }
}
