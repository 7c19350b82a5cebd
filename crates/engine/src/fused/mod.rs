//! Fused element-wise operators: several operators in one pass. Each block of elements goes through all operators while
//! it is in the cache, and blocks are distributed over all processors.
//!
//! Results equal those of the kernels, except for `Erf` and `Gelu`, which are equally accurate here and vectorized.
//! Tensors that are not single precision, or that broadcast with more than one element, are left to the kernels.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;

use burn_flex::FlexTensor;
use lodstone_model::{AttributeValue, DType, Op};
use lodstone_schema::Finding;
use lodstone_schema::onnx::dtype;
use pulp::Arch;
use rayon::prelude::*;

use crate::dense::Dense;
use crate::fast::Buffers;
use crate::fast::layout::{self, Floats, Order, ordered};
use crate::item::{Item, Outcome};
use crate::plan::Registers;
use crate::threads::Threads;
use crate::value::Value;

/// The number of elements in a block.
const PIECE: usize = 1024;

/// The maximum number of elements that one processor handles alone.
const ALONE: usize = 64 * PIECE;

/// The class of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Number,
    Truth,
    /// A number for all elements.
    Limit,
}

/// A function over blocks of `N` inputs. A boolean is 1 or 0.
type Apply<const N: usize> = Box<dyn Fn([&[f32]; N], &mut [f32]) + Send + Sync>;

/// The function of an operator, and the class of its inputs.
enum Takes {
    One([Lane; 1], Apply<1>),
    Two([Lane; 2], Apply<2>),
    Three([Lane; 3], Apply<3>),
}

/// The element-wise function of an operator: its inputs and the class of its result.
struct Rule {
    takes: Takes,
    gives: Lane,
}

/// An operator of a chain: its function, and the indices of its inputs. The values that the chain reads have the first
/// indices; the result of each operator has the next one.
enum Link {
    One(Apply<1>, [usize; 1]),
    Two(Apply<2>, [usize; 2]),
    Three(Apply<3>, [usize; 3]),
}

/// An operator, its input registers and its output registers.
pub(crate) type Links<'o> = (&'o Op, &'o [Option<usize>], Vec<usize>);

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

/// An input of a chain, whose elements are in the order of the results.
enum Read {
    Numbers(Floats),
    Truths(Item),
    /// One value for all elements.
    All(f32),
    /// A tensor that is broadcast: the distances in elements between successive indices of each dim of the results, in
    /// their order in memory.
    Spread(Floats, Vec<usize>),
    /// The results of the operator before the chain, which are in place.
    Before,
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
    pub(crate) fn of(ops: &[Links<'_>], is_read_later: impl Fn(usize) -> bool) -> Option<Self> {
        let outputs = ops.iter().enumerate().rev();
        let outputs = outputs.filter_map(|(at, (_, _, outputs))| Some((*outputs.first()?, at)));
        let made: HashMap<usize, usize> = outputs.collect();
        let made = |register: usize| made.get(&register).copied();
        let rules: Vec<Rule> = ops.iter().map(|(op, _, _)| rule(op)).collect::<Option<_>>()?;
        let mut reads: Vec<(usize, Lane)> = Vec::new();
        let mut places: HashMap<usize, usize> = HashMap::new();
        for ((_, inputs, _), rule) in ops.iter().zip(&rules) {
            for (register, lane) in inputs.iter().zip(rule.takes.lanes()) {
                let register = (*register)?;
                let gives = made(register).and_then(|at| Some(rules.get(at)?.gives));
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
        for ((_, inputs, outputs), rule) in ops.iter().zip(rules) {
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
        registers: &Registers,
        buffers: &Buffers,
        threads: &Threads,
    ) -> Outcome<Option<Vec<(usize, Value)>>> {
        let Some(bound) = self.bind(registers, None)? else { return Ok(None) };
        let count = bound.dims.iter().product();
        let made = match count <= ALONE {
            true => bound.pass(count, buffers)?,
            false => threads.run(|| bound.pass(count, buffers))??,
        };
        let whole = |(values, (_, register, lane)): (Vec<f32>, &(usize, usize, Lane))| {
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
        registers: &Registers,
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
            match broadcast(&dims, value.dims()) {
                Some(common) => dims = common,
                None => return Ok(None),
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

/// Returns the dims of a result of two inputs, if they have one.
fn broadcast(one: &[usize], other: &[usize]) -> Option<Vec<usize>> {
    let rank = one.len().max(other.len());
    let dim = |dims: &[usize], at: usize| match (at + dims.len()).checked_sub(rank) {
        Some(at) => dims.get(at).copied().unwrap_or(1),
        None => 1,
    };
    let both = |at: usize| match (dim(one, at), dim(other, at)) {
        (1, dim) | (dim, 1) => Some(dim),
        (one, other) => (one == other).then_some(one),
    };
    (0..rank).map(both).collect()
}

/// Returns the order of results: channels are innermost if they are in some input of the same size, and rows in none.
fn order(values: &[Option<&Dense>], dims: &[usize]) -> Order {
    let mut whole = values.iter().flatten().filter(|value| value.dims() == dims).peekable();
    let is_last =
        |value: &&&Dense| Order::ChannelsLast.is_of(value) && !Order::RowMajor.is_of(value);
    match whole.peek().is_some() && whole.any(|value| is_last(&value)) {
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
    fn pass(&self, count: usize, buffers: &Buffers) -> Outcome<Elements> {
        let mut made: Elements = self.chain.makes.iter().map(|_| buffers.take(count)).collect();
        let mut pieces: Vec<Vec<&mut [f32]>> = Vec::new();
        pieces.resize_with(count.div_ceil(PIECE), Vec::new);
        for values in &mut made {
            for (piece, part) in pieces.iter_mut().zip(values.chunks_mut(PIECE)) {
                piece.push(part);
            }
        }
        let numbered = |values: &mut Elements, (at, outs): (usize, Vec<&mut [f32]>)| {
            let begin = at * PIECE;
            self.piece(begin..count.min(begin + PIECE), values, outs)
        };
        if count <= ALONE {
            let mut values = self.scratch();
            pieces.into_iter().enumerate().try_for_each(|piece| numbered(&mut values, piece))?;
        } else {
            let least = ALONE / PIECE / 2;
            let pieces = pieces.into_par_iter().enumerate().with_min_len(least);
            pieces.try_for_each_init(|| self.scratch(), numbered)?;
        }
        Ok(made)
    }

    fn scratch(&self) -> Elements {
        vec![Vec::new(); self.reads.len() + self.chain.links.len()]
    }

    /// Takes results of the operator before the chain through it, in place, from element `begin` on.
    pub(crate) fn finish(&self, begin: usize, results: &mut [f32]) -> Outcome<()> {
        let mut values = self.scratch();
        for (number, piece) in results.chunks_mut(PIECE).enumerate() {
            let begin = begin + number * PIECE;
            for (read, room) in self.reads.iter().zip(values.iter_mut()) {
                if matches!(read, Read::Before) {
                    room.clear();
                    room.extend_from_slice(piece);
                }
            }
            self.piece(begin..begin + piece.len(), &mut values, vec![piece])?;
        }
        Ok(())
    }

    /// Takes one block through all operators, with `values` as scratch space.
    fn piece(
        &self,
        place: Range<usize>,
        values: &mut [Vec<f32>],
        outs: Vec<&mut [f32]>,
    ) -> Outcome<()> {
        let (reads, chain) = (&self.reads, self.chain);
        for (read, room) in reads.iter().zip(values.iter_mut()) {
            read.fill(&place, room, &self.dims, self.order)?;
        }
        for (link, at) in chain.links.iter().zip(reads.len()..) {
            let Some((before, [out, ..])) = values.split_at_mut_checked(at) else {
                return Err(Finding::internal("an operator of a chain has no scratch space"));
            };
            out.resize(place.len(), 0.0);
            let input = |number: usize| {
                let piece = match reads.get(number) {
                    Some(Read::Numbers(numbers)) => numbers.get(place.clone()),
                    _ => before.get(number).map(Vec::as_slice),
                };
                let piece = piece.filter(|piece| piece.len() == place.len());
                piece.ok_or_else(|| {
                    Finding::internal("an input of a chain is too short for a block")
                })
            };
            match link {
                Link::One(apply, [a]) => apply([input(*a)?], out),
                Link::Two(apply, [a, b]) => apply([input(*a)?, input(*b)?], out),
                Link::Three(apply, [a, b, c]) => {
                    apply([input(*a)?, input(*b)?, input(*c)?], out);
                }
            }
        }
        for ((value, _, _), out) in chain.makes.iter().zip(outs) {
            let made = values.get(*value).filter(|made| made.len() == out.len());
            let lost = || Finding::internal("a result of a chain is missing");
            out.copy_from_slice(made.ok_or_else(lost)?);
        }
        Ok(())
    }
}

impl Takes {
    fn lanes(&self) -> &[Lane] {
        match self {
            Self::One(lanes, _) => lanes,
            Self::Two(lanes, _) => lanes,
            Self::Three(lanes, _) => lanes,
        }
    }

    /// Creates the link of an operator with these inputs, or `None` if the number of inputs does not match.
    fn link(self, inputs: &[usize]) -> Option<Link> {
        Some(match self {
            Self::One(_, apply) => Link::One(apply, inputs.try_into().ok()?),
            Self::Two(_, apply) => Link::Two(apply, inputs.try_into().ok()?),
            Self::Three(_, apply) => Link::Three(apply, inputs.try_into().ok()?),
        })
    }
}

impl Link {
    fn inputs(&self) -> &[usize] {
        match self {
            Self::One(_, inputs) => inputs,
            Self::Two(_, inputs) => inputs,
            Self::Three(_, inputs) => inputs,
        }
    }
}

impl Read {
    /// Reads a tensor for results of the given dims, in their order.
    fn of(value: &Dense, lane: Lane, dims: &[usize], order: Order) -> Outcome<Option<Self>> {
        if value.count() == 1 {
            let one = match lane {
                Lane::Number | Lane::Limit => ordered(value, Order::RowMajor)?.first().copied(),
                Lane::Truth => value.to_f64()?.first().map(|one| truth(*one != 0.0)),
            };
            return Ok(one.map(Self::All));
        }
        Ok(match lane {
            Lane::Limit => None,
            Lane::Number if value.dims() == dims => Some(Self::Numbers(ordered(value, order)?)),
            Lane::Number => {
                let own = Order::RowMajor.strides(value.dims());
                let skipped = dims.len() - value.dims().len();
                let step = |at: usize| {
                    let at = at.checked_sub(skipped)?;
                    let is_many = value.dims().get(at).is_some_and(|dim| *dim > 1);
                    own.get(at).filter(|_| is_many).map(|step| step.unsigned_abs())
                };
                let steps = order.axes(dims.len()).map(|at| step(at).unwrap_or(0)).collect();
                Some(Self::Spread(ordered(value, Order::RowMajor)?, steps))
            }
            Lane::Truth => {
                let item = Item::of(value)?;
                let is_plain = value.dims() == dims && order.is_of(value);
                let tensor = is_plain.then(|| item.bool()).transpose()?;
                tensor
                    .filter(|it| order == Order::RowMajor && bytes(it).is_some())
                    .map(|_| Self::Truths(item))
            }
        })
    }

    /// Copies a block into the scratch space, unless it can be read in place.
    fn fill(
        &self,
        place: &Range<usize>,
        room: &mut Vec<f32>,
        dims: &[usize],
        order: Order,
    ) -> Outcome<()> {
        match self {
            Self::Numbers(_) | Self::Before => {}
            Self::Truths(item) => {
                room.clear();
                let tensor = item.bool()?;
                let truths = bytes(&tensor).and_then(|truths| truths.get(place.clone()));
                let truths = truths.ok_or_else(|| {
                    Finding::internal("an input of a chain is too short for a block")
                })?;
                room.extend(truths.iter().map(|truth| f32::from(*truth)));
            }
            Self::All(value) => {
                room.clear();
                room.resize(place.len(), *value);
            }
            Self::Spread(numbers, steps) => {
                room.clear();
                let sides: Vec<(usize, usize)> = order
                    .axes(dims.len())
                    .map(|at| dims.get(at).copied().unwrap_or(1))
                    .zip(steps.iter().copied())
                    .collect();
                spread(numbers, &sides, place, room);
            }
        }
        Ok(())
    }
}

/// Appends the elements of a tensor that is broadcast: each dim of the results with the distance of its indices.
fn spread(numbers: &[f32], sides: &[(usize, usize)], place: &Range<usize>, room: &mut Vec<f32>) {
    let Some(((inner, step), outer)) = sides.split_last() else { return };
    let mut at = place.start;
    while at < place.end {
        let (mut line, column) = (at / inner, at % inner);
        let mut begin = column * step;
        for (dim, step) in outer.iter().rev() {
            begin += line % dim * step;
            line /= dim;
        }
        let run = (inner - column).min(place.end - at);
        match step {
            0 => {
                let value = numbers.get(begin).copied().unwrap_or_default();
                room.extend(std::iter::repeat_n(value, run));
            }
            1 => room.extend_from_slice(numbers.get(begin..begin + run).unwrap_or_default()),
            _ => {
                let from = numbers.get(begin..).unwrap_or_default().iter();
                room.extend(from.step_by(*step).take(run));
            }
        }
        at += run;
    }
}

/// Returns the bytes of a contiguous tensor of booleans.
fn bytes(tensor: &FlexTensor) -> Option<&[u8]> {
    let (begin, end) = tensor.layout().contiguous_offsets()?;
    tensor.bytes().get(begin..end)
}

/// Returns whether an operator may be part of a chain.
pub(crate) fn is_link(op: &Op) -> bool {
    rule(op).is_some()
}

fn rule(op: &Op) -> Option<Rule> {
    use Lane::{Limit, Number, Truth};
    let of = |takes, gives| Some(Rule { takes, gives });
    macro_rules! one {
        ($of:expr) => {
            of(Takes::One([Number], Box::new(move |inputs, out| each(inputs, out, $of))), Number)
        };
    }
    macro_rules! two {
        ($of:expr) => {
            of(Takes::Two([Number; 2], Box::new(|inputs, out| both(inputs, out, $of))), Number)
        };
    }
    macro_rules! compare {
        ($of:expr) => {{
            let apply: Apply<2> =
                Box::new(|inputs, out| both(inputs, out, |a, b| truth($of(&a, &b))));
            of(Takes::Two([Number; 2], apply), Truth)
        }};
    }
    macro_rules! logic {
        ($of:expr) => {
            of(Takes::Two([Truth; 2], Box::new(|inputs, out| both(inputs, out, $of))), Truth)
        };
    }
    if !matches!(op.domain.as_str(), "" | "ai.onnx") {
        return None;
    }
    match op.kind.as_str() {
        "Abs" => one!(f32::abs),
        "Add" => two!(|a, b| a + b),
        "And" => logic!(|a, b| a * b),
        "Cast" => {
            let to = match op.attribute("to") {
                Some(AttributeValue::Long(code)) => i32::try_from(*code).ok()?,
                _ => return None,
            };
            let is_single = dtype::from_code(to) == Some(lodstone_model::DType::Float32);
            if is_single {
                of(Takes::One([Truth], Box::new(|inputs, out| each(inputs, out, |a| a))), Number)
            } else {
                None
            }
        }
        "Div" => two!(|a, b| a / b),
        "Clip" => of(Takes::Three([Number, Limit, Limit], Box::new(clip)), Number),
        "Equal" => compare!(f32::eq),
        "Erf" => one!(erf),
        "Exp" => one!(f32::exp),
        "Gelu" if !is_text(op, "approximate", "tanh") => {
            one!(|a| 0.5 * a * (erf(a * std::f32::consts::FRAC_1_SQRT_2) + 1.0))
        }
        "Greater" => compare!(f32::gt),
        "GreaterOrEqual" => compare!(f32::ge),
        "HardSigmoid" => {
            let (alpha, beta) = (float(op, "alpha", 0.2), float(op, "beta", 0.5));
            one!(move |a: f32| least(most(a * alpha + beta, 0.0), 1.0))
        }
        "HardSwish" => one!(|a: f32| a * least(most(a * (1.0 / 6.0) + 0.5, 0.0), 1.0)),
        "LeakyRelu" => {
            let alpha = float(op, "alpha", 0.01);
            one!(move |a: f32| if a >= 0.0 { a } else { a * alpha })
        }
        "Less" => compare!(f32::lt),
        "LessOrEqual" => compare!(f32::le),
        "Log" => one!(f32::ln),
        "Max" => two!(most),
        "Min" => two!(least),
        "Mul" => two!(|a, b| a * b),
        "Neg" => one!(|a: f32| -a),
        "Not" => {
            of(Takes::One([Truth], Box::new(|inputs, out| each(inputs, out, |a| 1.0 - a))), Truth)
        }
        "Or" => logic!(f32::max),
        "Relu" => one!(|a: f32| most(a, 0.0)),
        "Sigmoid" => one!(sigmoid),
        "Sqrt" => one!(f32::sqrt),
        "Sub" => two!(|a, b| a - b),
        "Tanh" => one!(f32::tanh),
        "Where" => of(Takes::Three([Truth, Number, Number], Box::new(choose)), Number),
        _ => None,
    }
}

/// Returns a float attribute.
fn float(op: &Op, name: &str, otherwise: f32) -> f32 {
    match op.attribute(name) {
        Some(AttributeValue::Float(value)) => *value,
        _ => otherwise,
    }
}

/// The logistic function, of numbers whose exponential does not overflow.
fn sigmoid(a: f32) -> f32 {
    let small = (-a.abs()).exp();
    if a >= 0.0 { 1.0 / (1.0 + small) } else { small / (1.0 + small) }
}

/// Returns the larger of two numbers; NaN if one of them is.
fn most(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// Returns the smaller of two numbers; NaN if one of them is.
fn least(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

fn is_text(op: &Op, name: &str, text: &str) -> bool {
    matches!(op.attribute(name), Some(AttributeValue::String(found)) if found.to_string() == text)
}

/// Compiles a loop for the widest vectors of the processor. This does not change results: each element is computed
/// exactly as written here.
pub(crate) fn wide(work: impl FnOnce()) {
    Arch::new().dispatch(work);
}

fn truth(is: bool) -> f32 {
    f32::from(u8::from(is))
}

#[inline(always)]
fn each([a]: [&[f32]; 1], out: &mut [f32], of: impl Fn(f32) -> f32) {
    wide(|| out.iter_mut().zip(a).for_each(|(out, a)| *out = of(*a)));
}

#[inline(always)]
fn both([a, b]: [&[f32]; 2], out: &mut [f32], of: impl Fn(f32, f32) -> f32) {
    wide(|| out.iter_mut().zip(a).zip(b).for_each(|((out, a), b)| *out = of(*a, *b)));
}

fn clip([values, lowest, highest]: [&[f32]; 3], out: &mut [f32]) {
    let all = out.iter_mut().zip(values).zip(lowest).zip(highest);
    wide(|| all.for_each(|(((out, a), low), high)| *out = least(most(*a, *low), *high)));
}

fn choose([which, yes, no]: [&[f32]; 3], out: &mut [f32]) {
    let all = out.iter_mut().zip(which).zip(yes).zip(no);
    let one = |(((out, which), yes), no): (((&mut f32, &f32), &f32), &f32)| {
        *out = if *which != 0.0 { *yes } else { *no };
    };
    wide(|| all.for_each(one));
}

/// The error function: a rational approximation in the square, of minimal relative error up to 4 (2e-9; 4e-7 with the
/// rounding of single precision).
#[inline(always)]
fn erf(x: f32) -> f32 {
    const ABOVE: [f32; 7] = [
        -1.320_196_2e-8,
        4.684_689e-6,
        3.796_077_9e-4,
        3.849_706_4e-3,
        5.431_718e-2,
        1.852_057_6e-1,
        std::f32::consts::FRAC_2_SQRT_PI,
    ];
    const BELOW: [f32; 6] =
        [6.310_975e-5, 1.307_587_7e-3, 1.546_227_6e-2, 1.139_594e-1, 4.974_677_6e-1, 1.0];
    let square = x * x;
    let above = ABOVE.iter().fold(0.0, |sum, factor| sum * square + factor);
    let below = BELOW.iter().fold(0.0, |sum, factor| sum * square + factor);
    // From here on, the nearest single-precision value is 1.
    if square > 3.92 * 3.92 { 1.0_f32.copysign(x) } else { (x * above / below).clamp(-1.0, 1.0) }
}
