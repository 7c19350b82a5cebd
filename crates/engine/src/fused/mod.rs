//! Fused element-wise operators: several operators in one pass. Each block of elements goes through all operators while
//! it is in the cache, and blocks are distributed over all processors.
//!
//! Results equal those of the kernels, except for `Erf` and `Gelu`, which are equally accurate here and vectorized.
//! Tensors that are not single precision, or that broadcast with more than one element, are left to the kernels.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;

use burn_backend::{Shape, TensorData};
use burn_flex::FlexTensor;
use lodstone_model::{AttributeValue, Op};
use lodstone_schema::Finding;
use lodstone_schema::onnx::dtype;
use pulp::Arch;
use rayon::prelude::*;

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
}

/// A function over blocks of `N` inputs. A boolean is 1 or 0.
type Apply<const N: usize> = fn([&[f32]; N], &mut [f32]);

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
#[derive(Debug)]
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
#[derive(Debug)]
pub(crate) struct Chain {
    links: Vec<Link>,
    /// The registers that the chain reads, and the class of their elements.
    reads: Vec<(usize, Lane)>,
    /// The values that the chain returns, and their registers.
    makes: Vec<(usize, usize, Lane)>,
}

/// An input of a chain.
enum Read<'r> {
    Numbers(&'r [f32]),
    Truths(&'r [u8]),
    /// One value for all elements.
    All(f32),
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
        for ((_, inputs, outputs), rule) in ops.iter().zip(&rules) {
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
        threads: &Threads,
    ) -> Outcome<Option<Vec<(usize, Value)>>> {
        let view = |(register, lane): &(usize, Lane)| {
            let value = registers.get(*register)?.as_ref()?;
            Some((Item::of(value.dense().ok()?).ok()?, *lane))
        };
        let views: Option<Vec<(Item, Lane)>> = self.reads.iter().map(view).collect();
        let Some((shape, made)) = views.and_then(|views| self.made(&views, threads)) else {
            return Ok(None);
        };
        let whole = |(values, (_, register, lane)): (Vec<f32>, &(usize, usize, Lane))| {
            let shape = Shape::from(shape.clone());
            let data = match lane {
                Lane::Number => TensorData::new(values, shape),
                Lane::Truth => {
                    TensorData::new(values.iter().map(|it| *it != 0.0).collect::<Vec<_>>(), shape)
                }
            };
            Ok((*register, Item::from_data(data).dense()?.into()))
        };
        made?.into_iter().zip(&self.makes).map(whole).collect::<Outcome<_>>().map(Some)
    }

    /// Returns the dims and elements of the results, or `None` if the kernels must run instead.
    fn made(
        &self,
        views: &[(Item, Lane)],
        threads: &Threads,
    ) -> Option<(Vec<usize>, Outcome<Elements>)> {
        let mut shape: Option<Vec<usize>> = None;
        let mut singles = 0;
        for (item, _) in views {
            let found = item.shape();
            match (&shape, found.iter().product::<usize>()) {
                (_, 1) => singles = singles.max(found.len()),
                (Some(known), _) if *known != found => return None,
                _ => shape = Some(found),
            }
        }
        // A single element is not worth a chain, and may have a lower rank than the results.
        let shape = shape.filter(|shape| shape.len() >= singles)?;
        let read = |(item, lane)| Read::of(item, lane);
        let reads: Vec<Read<'_>> =
            views.iter().map(|(item, lane)| (item, *lane)).map(read).collect::<Option<_>>()?;
        let count = shape.iter().product();
        if !reads.iter().all(|read| read.has(count)) || !self.makes_whole(&reads) {
            return None;
        }
        let made = match count <= ALONE {
            true => self.pass(&reads, count),
            false => threads.run(|| self.pass(&reads, count)).flatten(),
        };
        Some((shape, made))
    }

    /// Returns whether all results have the same number of elements as the inputs.
    fn makes_whole(&self, reads: &[Read<'_>]) -> bool {
        let mut whole: Vec<bool> = reads.iter().map(|read| !matches!(read, Read::All(_))).collect();
        for link in &self.links {
            whole.push(link.inputs().iter().any(|input| whole.get(*input) == Some(&true)));
        }
        self.makes.iter().all(|(value, _, _)| whole.get(*value) == Some(&true))
    }

    /// Computes all elements of the results.
    fn pass(&self, reads: &[Read<'_>], count: usize) -> Outcome<Elements> {
        let mut made: Elements = self.makes.iter().map(|_| vec![0.0; count]).collect();
        let mut pieces: Vec<Vec<&mut [f32]>> = Vec::new();
        pieces.resize_with(count.div_ceil(PIECE), Vec::new);
        for values in &mut made {
            for (piece, part) in pieces.iter_mut().zip(values.chunks_mut(PIECE)) {
                piece.push(part);
            }
        }
        let empty = || vec![Vec::new(); reads.len() + self.links.len()];
        let numbered = |values: &mut Elements, (at, outs): (usize, Vec<&mut [f32]>)| {
            let begin = at * PIECE;
            self.piece(reads, begin..count.min(begin + PIECE), values, outs)
        };
        if count <= ALONE {
            let mut values = empty();
            pieces.into_iter().enumerate().try_for_each(|piece| numbered(&mut values, piece))?;
        } else {
            let least = ALONE / PIECE / 2;
            let pieces = pieces.into_par_iter().enumerate().with_min_len(least);
            pieces.try_for_each_init(empty, numbered)?;
        }
        Ok(made)
    }

    /// Takes one block through all operators, with `values` as scratch space.
    fn piece(
        &self,
        reads: &[Read<'_>],
        place: Range<usize>,
        values: &mut [Vec<f32>],
        outs: Vec<&mut [f32]>,
    ) -> Outcome<()> {
        for (read, room) in reads.iter().zip(values.iter_mut()) {
            read.fill(&place, room)?;
        }
        for (link, at) in self.links.iter().zip(reads.len()..) {
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
        for ((value, _, _), out) in self.makes.iter().zip(outs) {
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
    fn link(&self, inputs: &[usize]) -> Option<Link> {
        Some(match self {
            Self::One(_, apply) => Link::One(*apply, inputs.try_into().ok()?),
            Self::Two(_, apply) => Link::Two(*apply, inputs.try_into().ok()?),
            Self::Three(_, apply) => Link::Three(*apply, inputs.try_into().ok()?),
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

impl<'r> Read<'r> {
    fn of(item: &'r Item, lane: Lane) -> Option<Self> {
        match (item, lane) {
            (Item::Float(tensor), Lane::Number) => {
                let numbers = tensor.as_slice::<f32>()?;
                Some(match numbers {
                    [one] => Self::All(*one),
                    _ => Self::Numbers(numbers),
                })
            }
            (Item::Bool(tensor), Lane::Truth) => {
                let truths = bytes(tensor)?;
                Some(match truths {
                    [one] => Self::All(f32::from(*one)),
                    _ => Self::Truths(truths),
                })
            }
            _ => None,
        }
    }

    /// Returns whether the input has `count` elements, or one for all.
    fn has(&self, count: usize) -> bool {
        match self {
            Self::Numbers(numbers) => numbers.len() == count,
            Self::Truths(truths) => truths.len() == count,
            Self::All(_) => true,
        }
    }

    /// Copies a block into the scratch space, unless it can be read in place.
    fn fill(&self, place: &Range<usize>, room: &mut Vec<f32>) -> Outcome<()> {
        match self {
            Self::Numbers(_) => {}
            Self::Truths(truths) => {
                room.clear();
                let truths = truths.get(place.clone());
                let truths = truths.ok_or_else(|| {
                    Finding::internal("an input of a chain is too short for a block")
                })?;
                room.extend(truths.iter().map(|truth| f32::from(*truth)));
            }
            Self::All(value) => {
                room.clear();
                room.resize(place.len(), *value);
            }
        }
        Ok(())
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

/// Returns whether a single operator is worth a chain, because its kernel is slow per element.
pub(crate) fn is_slow(op: &Op) -> bool {
    matches!(op.kind.as_str(), "Erf" | "Gelu" | "Where")
}

fn rule(op: &Op) -> Option<Rule> {
    use Lane::{Number, Truth};
    let of = |takes, gives| Some(Rule { takes, gives });
    macro_rules! one {
        ($of:expr) => {
            of(Takes::One([Number], |inputs, out| each(inputs, out, $of)), Number)
        };
    }
    macro_rules! two {
        ($of:expr) => {
            of(Takes::Two([Number; 2], |inputs, out| both(inputs, out, $of)), Number)
        };
    }
    macro_rules! compare {
        ($of:expr) => {{
            let apply: Apply<2> = |inputs, out| both(inputs, out, |a, b| truth($of(&a, &b)));
            of(Takes::Two([Number; 2], apply), Truth)
        }};
    }
    macro_rules! logic {
        ($of:expr) => {
            of(Takes::Two([Truth; 2], |inputs, out| both(inputs, out, $of)), Truth)
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
                of(Takes::One([Truth], |inputs, out| each(inputs, out, |a| a)), Number)
            } else {
                None
            }
        }
        "Div" => two!(|a, b| a / b),
        "Equal" => compare!(f32::eq),
        "Erf" => one!(erf),
        "Exp" => one!(f32::exp),
        "Gelu" if !is_text(op, "approximate", "tanh") => {
            one!(|a| 0.5 * a * (erf(a * std::f32::consts::FRAC_1_SQRT_2) + 1.0))
        }
        "Greater" => compare!(f32::gt),
        "GreaterOrEqual" => compare!(f32::ge),
        "Less" => compare!(f32::lt),
        "LessOrEqual" => compare!(f32::le),
        "Log" => one!(f32::ln),
        "Mul" => two!(|a, b| a * b),
        "Neg" => one!(|a: f32| -a),
        "Not" => of(Takes::One([Truth], |inputs, out| each(inputs, out, |a| 1.0 - a)), Truth),
        "Or" => logic!(f32::max),
        "Sqrt" => one!(f32::sqrt),
        "Sub" => two!(|a, b| a - b),
        "Tanh" => one!(f32::tanh),
        "Where" => of(Takes::Three([Truth, Number, Number], choose), Number),
        _ => None,
    }
}

fn is_text(op: &Op, name: &str, text: &str) -> bool {
    matches!(op.attribute(name), Some(AttributeValue::String(found)) if found.to_string() == text)
}

/// Compiles a loop for the widest vectors of the processor. This does not change results: each element is computed
/// exactly as written here.
fn wide(work: impl FnOnce()) {
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
