//! Chains of element-wise operators. Each block of elements goes through all operators while it is in the cache, and blocks are
//! distributed over all processors.

use std::collections::HashMap;
use std::ops::Range;

use lodstone_model::DType;
use lodstone_schema::Finding;
use smallvec::SmallVec;

use super::inputs::Input;
use super::rules::{Apply, Class, Function, Rule};
use crate::dims::{Dims, common};
use crate::error::Outcome;
use crate::gemm::{Buffer, Buffers};
use crate::layout;
use crate::tensor::{Dense, Order};
use crate::threads::{Threads, each};
use crate::value::Value;

/// The number of elements in a block.
pub(super) const BLOCK: usize = 1024;

/// The number of elements that one thread handles at a time.
const CHUNK: usize = 16 * BLOCK;

/// The maximum number of elements that one processor handles alone.
pub(super) const MAX_SERIAL: usize = 64 * BLOCK;

/// An operator of a chain: its function, and the indices of its inputs. The values that the chain reads have the first
/// indices; the result of each operator has the next one.
enum Link {
    One(Apply<1>, [usize; 1]),
    Two(Apply<2>, [usize; 2]),
    Three(Apply<3>, [usize; 3]),
}

/// The rule of an operator, its input registers and its output registers.
pub(crate) type ChainOp<'o> = (Rule, &'o [Option<usize>], Vec<usize>);

/// The elements of each value that the chain returns.
type Elements = Vec<Vec<f32>>;

/// A chain of operators that run in one pass.
pub(crate) struct Chain {
    links: Vec<Link>,
    /// The registers that the chain reads, and the class of their elements.
    reads: Vec<(usize, Class)>,
    /// The values that the chain returns, and their registers.
    results: Vec<(usize, usize, Class)>,
}

/// A chain and its inputs, ready to run.
pub(crate) struct Bound<'c> {
    chain: &'c Chain,
    inputs: Vec<Input>,
    /// The dims of the results, and the order of their elements.
    dims: Dims,
    order: Order,
}

/// The result of an operator whose elements go through a chain as soon as they are computed.
#[derive(Clone, Copy)]
pub(crate) struct Producer<'d> {
    pub(crate) register: usize,
    pub(crate) dims: &'d [usize],
    pub(crate) order: Order,
}

impl Chain {
    /// Creates a chain of operators, each with its input and output registers. `is_read_later` returns whether an operator
    /// outside the chain reads a register. Returns `None` if an operator cannot be part of a chain.
    pub(crate) fn of(ops: Vec<ChainOp<'_>>, is_read_later: impl Fn(usize) -> bool) -> Option<Self> {
        let outputs = ops.iter().enumerate().rev();
        let outputs = outputs.filter_map(|(at, (_, _, outputs))| Some((*outputs.first()?, at)));
        let owners: HashMap<usize, usize> = outputs.collect();
        let owner = |register: usize| owners.get(&register).copied();
        let mut reads: Vec<(usize, Class)> = Vec::new();
        let mut read_indices: HashMap<usize, usize> = HashMap::new();
        for (rule, inputs, _) in &ops {
            for (register, class) in inputs.iter().zip(rule.function.classes()) {
                let register = (*register)?;
                let result = owner(register).and_then(|at| Some(ops.get(at)?.0.result));
                let read = || reads.get(*read_indices.get(&register)?).map(|read| read.1);
                match result.or_else(read) {
                    Some(given) if given == *class => {}
                    Some(_) => return None,
                    None => {
                        read_indices.insert(register, reads.len());
                        reads.push((register, *class));
                    }
                }
            }
            if inputs.len() != rule.function.classes().len() {
                return None;
            }
        }
        let value = |register: usize| {
            let read = read_indices.get(&register).copied();
            read.or_else(|| owner(register).map(|at| at + reads.len()))
        };
        let (mut links, mut results) = (Vec::new(), Vec::new());
        for (rule, inputs, outputs) in ops {
            let [output] = &outputs[..] else { return None };
            let inputs: Vec<usize> =
                inputs.iter().map(|register| value((*register)?)).collect::<Option<_>>()?;
            if is_read_later(*output) {
                results.push((reads.len() + links.len(), *output, rule.result));
            }
            links.push(Link::new(rule.function, &inputs)?);
        }
        // Each operator reads only earlier values, so a pass finds all values that it refers to.
        let is_later = |(at, link): (usize, &Link)| {
            link.inputs().iter().any(|input| *input >= reads.len() + at)
        };
        if links.iter().enumerate().any(is_later) {
            return None;
        }
        Some(Self { links, reads, results })
    }

    /// Runs the chain on the registers. Returns the results and their registers, or `None` if the kernels must run instead.
    pub(crate) fn run(
        &self,
        registers: &[Option<Value>],
        buffers: &Buffers,
        threads: &Threads,
    ) -> Outcome<Option<Vec<(usize, Value)>>> {
        let Some(bound) = self.bind(registers, None)? else { return Ok(None) };
        let count = bound.dims.iter().product();
        let computed = match count <= MAX_SERIAL {
            true => bound.compute(count, buffers)?,
            false => threads.run(|| bound.compute(count, buffers))??,
        };
        let whole = |(values, (_, register, class)): (Buffer, &(usize, usize, Class))| {
            let dims = &bound.dims;
            let dense = match class {
                Class::Number | Class::Limit => layout::tensor(values, dims, bound.order)?,
                Class::Truth => {
                    let truths: Vec<u8> = values.iter().map(|it| u8::from(*it != 0.0)).collect();
                    layout::truths(truths, dims, bound.order)?
                }
            };
            Ok((*register, dense.into()))
        };
        computed.into_iter().zip(&self.results).map(whole).collect::<Outcome<_>>().map(Some)
    }

    /// Returns whether the only result is that of the last operator.
    fn writes_last(&self) -> bool {
        let last = (self.reads.len() + self.links.len()).checked_sub(1);
        matches!(&self.results[..], [(value, _, _)] if Some(*value) == last)
    }

    /// Returns the register of the only result, if it is numbers.
    pub(crate) fn single_result(&self) -> Option<usize> {
        match &self.results[..] {
            [(_, register, Class::Number)] => Some(*register),
            _ => None,
        }
    }

    /// Binds the chain to its inputs, or returns `None` if the kernels must run instead.
    pub(crate) fn bind(
        &self,
        registers: &[Option<Value>],
        producer: Option<Producer<'_>>,
    ) -> Outcome<Option<Bound<'_>>> {
        let value = |(register, class): &(usize, Class)| {
            if producer.is_some_and(|producer| producer.register == *register) {
                return Some(None);
            }
            let dense = registers.get(*register)?.as_ref()?.dense().ok()?;
            let expected = match class {
                Class::Number | Class::Limit => DType::Float32,
                Class::Truth => DType::Bool,
            };
            (dense.dtype() == expected).then_some(Some(dense))
        };
        let values: Option<SmallVec<[Option<&Dense>; 4]>> = self.reads.iter().map(value).collect();
        let Some(values) = values else { return Ok(None) };
        // A single element is not worth a chain.
        if producer.is_none() && values.iter().flatten().all(|value| value.count() <= 1) {
            return Ok(None);
        }
        // Without a producer, the inputs alone tell the dims.
        let mut dims: Dims =
            producer.map(|producer| Dims::from_slice(producer.dims)).unwrap_or_default();
        for value in values.iter().flatten() {
            match common(&dims, value.dims()) {
                Ok(both) => dims = both,
                Err(_) => return Ok(None),
            }
        }
        let order = match producer {
            Some(producer) if *producer.dims == *dims => producer.order,
            Some(_) => return Ok(None),
            None => order(&values, &dims),
        };
        let mut inputs = Vec::with_capacity(values.len());
        for (value, (_, class)) in values.iter().zip(&self.reads) {
            let input = match value {
                Some(value) => Input::of(value, *class, &dims, order)?,
                None => Some(Input::Produced),
            };
            match input {
                Some(input) => inputs.push(input),
                None => return Ok(None),
            }
        }
        let bound = Bound { chain: self, inputs, dims, order };
        Ok(bound.has_full_results().then_some(bound))
    }
}

/// Returns the order of results: channels are innermost if they are in some input of the same size.
fn order(values: &[Option<&Dense>], dims: &[usize]) -> Order {
    let mut whole = values.iter().flatten().filter(|value| value.dims() == dims);
    match whole.any(|value| layout::is_channels_last(value)) {
        true => Order::ChannelsLast,
        false => Order::RowMajor,
    }
}

impl Bound<'_> {
    /// Returns whether all results have the same number of elements as the inputs.
    fn has_full_results(&self) -> bool {
        let count: usize = self.dims.iter().product();
        let is_whole = |input: &Input| !matches!(input, Input::Scalar(_) | Input::Broadcast(..));
        let mut whole: Vec<bool> =
            self.inputs.iter().map(|input| count == 1 || is_whole(input)).collect();
        for link in &self.chain.links {
            whole.push(link.inputs().iter().any(|input| whole.get(*input) == Some(&true)));
        }
        self.chain.results.iter().all(|(value, _, _)| whole.get(*value) == Some(&true))
    }

    /// Computes all elements of the results.
    fn compute(&self, count: usize, buffers: &Buffers) -> Outcome<Vec<Buffer>> {
        let results = self.chain.results.iter();
        let mut computed: Vec<Buffer> =
            results.map(|_| buffers.take(count)).collect::<Outcome<_>>()?;
        let mut parts: Vec<Vec<&mut [f32]>> = Vec::new();
        parts.resize_with(count.div_ceil(CHUNK), Vec::new);
        for values in &mut computed {
            for (all, part) in parts.iter_mut().zip(values.chunks_mut(CHUNK)) {
                all.push(part);
            }
        }
        each(parts, |values: &mut Elements, number, mut parts| {
            values.resize_with(self.scratch_count(), Vec::new);
            let end = count.min(number * CHUNK + CHUNK);
            for begin in (number * CHUNK..end).step_by(BLOCK) {
                let range = begin..end.min(begin + BLOCK);
                let mut outs = Vec::with_capacity(parts.len());
                for part in &mut parts {
                    outs.extend(part.split_off_mut(..range.len()));
                }
                self.compute_block(range, values, outs)?;
            }
            Ok(())
        })?;
        Ok(computed)
    }

    /// Returns the number of vectors in which a block is computed.
    fn scratch_count(&self) -> usize {
        self.inputs.len() + self.chain.links.len()
    }

    /// Applies the chain to results of the operator before it, in place, from element `begin` on.
    pub(crate) fn apply_in_place(&self, begin: usize, results: &mut [f32]) -> Outcome<()> {
        let mut values = vec![Vec::new(); self.scratch_count()];
        for (number, piece) in results.chunks_mut(BLOCK).enumerate() {
            let begin = begin + number * BLOCK;
            self.compute_block(begin..begin + piece.len(), &mut values, vec![piece])?;
        }
        Ok(())
    }

    /// Computes one block of all operators, with `values` as scratch space. `outs` are the slices of the results; the first one
    /// holds the results of the operator before the chain, if the chain has a producer.
    fn compute_block(
        &self,
        range: Range<usize>,
        values: &mut [Vec<f32>],
        mut outs: Vec<&mut [f32]>,
    ) -> Outcome<()> {
        let (inputs, links) = (&self.inputs, &self.chain.links);
        let ([first, ..], Some(last)) = (&mut outs[..], links.last()) else { return Ok(()) };
        let is_produced = |number: &usize| matches!(inputs.get(*number), Some(Input::Produced));
        // The last operator writes the result where it belongs; it cannot read the same place.
        let is_overwritten = last.inputs().iter().any(is_produced);
        for (input, scratch) in inputs.iter().zip(values.iter_mut()) {
            input.fill(&range, scratch)?;
            if matches!(input, Input::Produced) && is_overwritten {
                scratch.clear();
                scratch.extend_from_slice(first);
            }
        }
        let is_direct = self.chain.writes_last();
        for (link, at) in links.iter().zip(inputs.len()..) {
            let Some((before, [out, ..])) = values.split_at_mut_checked(at) else {
                return Err(Finding::internal("an operator of a chain has no scratch space"));
            };
            if is_direct && at + 1 == self.scratch_count() {
                link.apply(&range, inputs, before, &[], first)?;
            } else {
                let produced = if is_overwritten { &[] } else { &first[..] };
                out.resize(range.len(), 0.0);
                link.apply(&range, inputs, before, produced, out)?;
            }
        }
        let rest = outs.into_iter().zip(&self.chain.results).skip(usize::from(is_direct));
        for (out, (value, _, _)) in rest {
            let computed = values.get(*value).filter(|values| values.len() == out.len());
            let lost = || Finding::internal("a result of a chain is missing");
            out.copy_from_slice(computed.ok_or_else(lost)?);
        }
        Ok(())
    }
}

impl Link {
    /// Creates the link of a function with these inputs, or returns `None` if their number does not match.
    fn new(function: Function, inputs: &[usize]) -> Option<Self> {
        Some(match function {
            Function::One(_, apply) => Self::One(apply, inputs.try_into().ok()?),
            Function::Two(_, apply) => Self::Two(apply, inputs.try_into().ok()?),
            Function::Three(_, apply) => Self::Three(apply, inputs.try_into().ok()?),
        })
    }

    /// Computes a block. Its inputs are read where they are, or from `values`; the results of the operator before the chain
    /// from `produced`, unless that is empty.
    fn apply(
        &self,
        range: &Range<usize>,
        inputs: &[Input],
        values: &[Vec<f32>],
        produced: &[f32],
        out: &mut [f32],
    ) -> Outcome<()> {
        let input = |number: usize| {
            let piece = match inputs.get(number) {
                Some(Input::Numbers(numbers)) => numbers.get(range.clone()),
                Some(Input::Produced) if !produced.is_empty() => Some(produced),
                _ => values.get(number).map(Vec::as_slice),
            };
            let piece = piece.filter(|piece| piece.len() == range.len());
            piece.ok_or_else(|| Finding::internal("an input of a chain is too short for a block"))
        };
        match self {
            Self::One(apply, [a]) => apply([input(*a)?], out),
            Self::Two(apply, [a, b]) => apply([input(*a)?, input(*b)?], out),
            Self::Three(apply, [a, b, c]) => {
                apply([input(*a)?, input(*b)?, input(*c)?], out);
            }
        }
        Ok(())
    }

    fn inputs(&self) -> &[usize] {
        match self {
            Self::One(_, inputs) => inputs,
            Self::Two(_, inputs) => inputs,
            Self::Three(_, inputs) => inputs,
        }
    }
}
