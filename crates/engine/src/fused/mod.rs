//! Fused element-wise operators: several operators in one pass. Each block of elements goes through all operators while
//! it is in the cache, and blocks are distributed over all processors.
//!
//! Results equal those of the kernels, except for `Erf`, `Exp`, `Gelu`, `Sigmoid` and `Tanh`, which are equally accurate here
//! and vectorized.
//! Tensors that are not single precision, and results with more elements than any input, are left to the kernels.
//!
//! | file | contents |
//! |---|---|
//! | `reads.rs` | the inputs of a chain |
//! | `rules.rs` | the function of each operator |

mod reads;
mod rules;
#[cfg(test)]
mod tests;

pub(crate) use rules::{Rule, maximum, minimum};

use std::collections::HashMap;
use std::ops::Range;

use lodstone_model::DType;
use lodstone_schema::Finding;

use self::reads::Read;
use self::rules::{Apply, Lane};
use crate::error::Outcome;
use crate::gemm::{Buffer, Buffers};
use crate::layout;
use crate::tensor::{Dense, Order, common};
use crate::threads::{Threads, each};
use crate::value::Value;

/// The number of elements in a block.
const PIECE: usize = 1024;

/// The number of elements that one thread handles at a time.
const SHARE: usize = 16 * PIECE;

/// The maximum number of elements that one processor handles alone.
const ALONE: usize = 64 * PIECE;

/// An operator of a chain: its function, and the indices of its inputs. The values that the chain reads have the first
/// indices; the result of each operator has the next one.
enum Link {
    One(Apply<1>, [usize; 1]),
    Two(Apply<2>, [usize; 2]),
    Three(Apply<3>, [usize; 3]),
}

/// The rule of an operator, its input registers and its output registers.
pub(crate) type Links<'o> = (Rule, &'o [Option<usize>], Vec<usize>);

/// What an operator does in the epilogue of a product, before results are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpilogueStep {
    /// It adds a tensor.
    Sum,
    /// It limits results to numbers from 0 on.
    Relu,
    /// It limits results by its second and third input.
    Clip,
}

/// The elements of each value that the chain returns.
type Elements = Vec<Vec<f32>>;

/// A chain of operators that run in one pass.
pub(crate) struct Chain {
    links: Vec<Link>,
    /// The registers that the chain reads, and the class of their elements.
    reads: Vec<(usize, Lane)>,
    /// The values that the chain returns, and their registers.
    makes: Vec<(usize, usize, Lane)>,
}

/// A chain and its inputs, ready to run.
pub(crate) struct Bound<'c> {
    chain: &'c Chain,
    reads: Vec<Read>,
    /// The dims of the results, and the order of their elements.
    dims: Vec<usize>,
    order: Order,
}

/// The result of an operator whose elements go through a chain as soon as they are computed.
#[derive(Clone, Copy)]
pub(crate) struct Before<'d> {
    pub(crate) register: usize,
    pub(crate) dims: &'d [usize],
    pub(crate) order: Order,
}

impl Chain {
    /// Creates a chain of operators, each with its input and output registers. `is_read_later` returns whether an operator
    /// outside the chain reads a register. Returns `None` if an operator cannot be part of a chain.
    pub(crate) fn of(ops: Vec<Links<'_>>, is_read_later: impl Fn(usize) -> bool) -> Option<Self> {
        let outputs = ops.iter().enumerate().rev();
        let outputs = outputs.filter_map(|(at, (_, _, outputs))| Some((*outputs.first()?, at)));
        let made: HashMap<usize, usize> = outputs.collect();
        let made = |register: usize| made.get(&register).copied();
        let mut reads: Vec<(usize, Lane)> = Vec::new();
        let mut places: HashMap<usize, usize> = HashMap::new();
        for (rule, inputs, _) in &ops {
            for (register, lane) in inputs.iter().zip(rule.takes.lanes()) {
                let register = (*register)?;
                let gives = made(register).and_then(|at| Some(ops.get(at)?.0.gives));
                let read = || reads.get(*places.get(&register)?).map(|read| read.1);
                match gives.or_else(read) {
                    Some(given) if given == *lane => {}
                    Some(_) => return None,
                    None => {
                        places.insert(register, reads.len());
                        reads.push((register, *lane));
                    }
                }
            }
            if inputs.len() != rule.takes.lanes().len() {
                return None;
            }
        }
        let value = |register: usize| {
            let read = places.get(&register).copied();
            read.or_else(|| made(register).map(|at| at + reads.len()))
        };
        let (mut links, mut makes) = (Vec::new(), Vec::new());
        for (rule, inputs, outputs) in ops {
            let [output] = &outputs[..] else { return None };
            let inputs: Vec<usize> =
                inputs.iter().map(|register| value((*register)?)).collect::<Option<_>>()?;
            if is_read_later(*output) {
                makes.push((reads.len() + links.len(), *output, rule.gives));
            }
            links.push(rule.takes.link(&inputs)?);
        }
        // Each operator reads only earlier values, so a pass finds all values that it refers to.
        let is_later = |(at, link): (usize, &Link)| {
            link.inputs().iter().any(|input| *input >= reads.len() + at)
        };
        if links.iter().enumerate().any(is_later) {
            return None;
        }
        Some(Self { links, reads, makes })
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
        let made = match count <= ALONE {
            true => bound.pass(count, buffers)?,
            false => threads.run(|| bound.pass(count, buffers))??,
        };
        let whole = |(values, (_, register, lane)): (Buffer, &(usize, usize, Lane))| {
            let dims = bound.dims.clone();
            let dense = match lane {
                Lane::Number | Lane::Limit => layout::tensor(values, dims, bound.order)?,
                Lane::Truth => {
                    let truths: Vec<u8> = values.iter().map(|it| u8::from(*it != 0.0)).collect();
                    layout::truths(truths, dims, bound.order)?
                }
            };
            Ok((*register, dense.into()))
        };
        made.into_iter().zip(&self.makes).map(whole).collect::<Outcome<_>>().map(Some)
    }

    /// Returns whether the only result is that of the last operator.
    fn makes_last(&self) -> bool {
        let last = (self.reads.len() + self.links.len()).checked_sub(1);
        matches!(&self.makes[..], [(value, _, _)] if Some(*value) == last)
    }

    /// Returns the register of the only result, if it is numbers.
    pub(crate) fn single(&self) -> Option<usize> {
        match &self.makes[..] {
            [(_, register, Lane::Number)] => Some(*register),
            _ => None,
        }
    }

    /// Binds the chain to its inputs, or returns `None` if the kernels must run instead.
    pub(crate) fn bind(
        &self,
        registers: &[Option<Value>],
        before: Option<Before<'_>>,
    ) -> Outcome<Option<Bound<'_>>> {
        let value = |(register, lane): &(usize, Lane)| {
            if before.is_some_and(|before| before.register == *register) {
                return Some(None);
            }
            let dense = registers.get(*register)?.as_ref()?.dense().ok()?;
            let expected = match lane {
                Lane::Number | Lane::Limit => DType::Float32,
                Lane::Truth => DType::Bool,
            };
            (dense.dtype() == expected).then_some(Some(dense))
        };
        let values: Option<Vec<Option<&Dense>>> = self.reads.iter().map(value).collect();
        let Some(values) = values else { return Ok(None) };
        let mut dims: Vec<usize> = before.map(|before| before.dims.to_vec()).unwrap_or_default();
        for value in values.iter().flatten() {
            match common(&dims, value.dims()) {
                Ok(both) => dims = both,
                Err(_) => return Ok(None),
            }
        }
        let order = match before {
            Some(before) if before.dims == dims => before.order,
            Some(_) => return Ok(None),
            None => order(&values, &dims),
        };
        let mut reads = Vec::with_capacity(values.len());
        for (value, (_, lane)) in values.iter().zip(&self.reads) {
            let read = match value {
                Some(value) => Read::of(value, *lane, &dims, order)?,
                None => Some(Read::Before),
            };
            match read {
                Some(read) => reads.push(read),
                None => return Ok(None),
            }
        }
        // A single element is not worth a chain.
        let is_worth = before.is_some() || dims.iter().product::<usize>() > 1;
        let bound = Bound { chain: self, reads, dims, order };
        Ok((is_worth && bound.makes_whole()).then_some(bound))
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
    fn makes_whole(&self) -> bool {
        let count: usize = self.dims.iter().product();
        let is_whole = |read: &Read| !matches!(read, Read::All(_) | Read::Spread(..));
        let mut whole: Vec<bool> =
            self.reads.iter().map(|read| count == 1 || is_whole(read)).collect();
        for link in &self.chain.links {
            whole.push(link.inputs().iter().any(|input| whole.get(*input) == Some(&true)));
        }
        self.chain.makes.iter().all(|(value, _, _)| whole.get(*value) == Some(&true))
    }

    /// Computes all elements of the results.
    fn pass(&self, count: usize, buffers: &Buffers) -> Outcome<Vec<Buffer>> {
        let makes = self.chain.makes.iter();
        let mut made: Vec<Buffer> = makes.map(|_| buffers.take(count)).collect::<Outcome<_>>()?;
        let mut parts: Vec<Vec<&mut [f32]>> = Vec::new();
        parts.resize_with(count.div_ceil(SHARE), Vec::new);
        for values in &mut made {
            for (all, part) in parts.iter_mut().zip(values.chunks_mut(SHARE)) {
                all.push(part);
            }
        }
        each(parts, |values: &mut Elements, number, mut parts| {
            values.resize_with(self.scratch_count(), Vec::new);
            let end = count.min(number * SHARE + SHARE);
            for begin in (number * SHARE..end).step_by(PIECE) {
                let place = begin..end.min(begin + PIECE);
                let mut outs = Vec::with_capacity(parts.len());
                for part in &mut parts {
                    outs.extend(part.split_off_mut(..place.len()));
                }
                self.piece(place, values, outs)?;
            }
            Ok(())
        })?;
        Ok(made)
    }

    /// Returns the number of vectors in which a block is computed.
    fn scratch_count(&self) -> usize {
        self.reads.len() + self.chain.links.len()
    }

    /// Takes results of the operator before the chain through it, in place, from element `begin` on.
    pub(crate) fn finish(&self, begin: usize, results: &mut [f32]) -> Outcome<()> {
        let mut values = vec![Vec::new(); self.scratch_count()];
        for (number, piece) in results.chunks_mut(PIECE).enumerate() {
            let begin = begin + number * PIECE;
            self.piece(begin..begin + piece.len(), &mut values, vec![piece])?;
        }
        Ok(())
    }

    /// Takes one block through all operators, with `values` as scratch space. `outs` are the places of the results; that of
    /// the first holds the results of the operator before the chain, if there is one.
    fn piece(
        &self,
        place: Range<usize>,
        values: &mut [Vec<f32>],
        mut outs: Vec<&mut [f32]>,
    ) -> Outcome<()> {
        let (reads, links) = (&self.reads, &self.chain.links);
        let ([first, ..], Some(last)) = (&mut outs[..], links.last()) else { return Ok(()) };
        let is_before = |number: &usize| matches!(reads.get(*number), Some(Read::Before));
        // The last operator writes the result where it belongs; it cannot read the same place.
        let is_overwritten = last.inputs().iter().any(is_before);
        for (read, room) in reads.iter().zip(values.iter_mut()) {
            read.fill(&place, room)?;
            if matches!(read, Read::Before) && is_overwritten {
                room.clear();
                room.extend_from_slice(first);
            }
        }
        let is_direct = self.chain.makes_last();
        for (link, at) in links.iter().zip(reads.len()..) {
            let Some((before, [out, ..])) = values.split_at_mut_checked(at) else {
                return Err(Finding::internal("an operator of a chain has no scratch space"));
            };
            if is_direct && at + 1 == self.scratch_count() {
                link.apply(&place, reads, before, &[], first)?;
            } else {
                let there = if is_overwritten { &[] } else { &first[..] };
                out.resize(place.len(), 0.0);
                link.apply(&place, reads, before, there, out)?;
            }
        }
        let rest = outs.into_iter().zip(&self.chain.makes).skip(usize::from(is_direct));
        for (out, (value, _, _)) in rest {
            let made = values.get(*value).filter(|made| made.len() == out.len());
            let lost = || Finding::internal("a result of a chain is missing");
            out.copy_from_slice(made.ok_or_else(lost)?);
        }
        Ok(())
    }
}

impl Link {
    /// Computes a block. Its inputs are read where they are, or from `values`; the results of the operator before the chain
    /// from `there`, unless that is empty.
    fn apply(
        &self,
        place: &Range<usize>,
        reads: &[Read],
        values: &[Vec<f32>],
        there: &[f32],
        out: &mut [f32],
    ) -> Outcome<()> {
        let input = |number: usize| {
            let piece = match reads.get(number) {
                Some(Read::Numbers(numbers)) => numbers.get(place.clone()),
                Some(Read::Before) if !there.is_empty() => Some(there),
                _ => values.get(number).map(Vec::as_slice),
            };
            let piece = piece.filter(|piece| piece.len() == place.len());
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
