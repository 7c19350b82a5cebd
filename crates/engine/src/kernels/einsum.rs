//! Einstein sums, as products of matrices.
//!
//! Each term is brought to one dim for each of its letters: repeated letters select a diagonal, and an ellipsis stands
//! for letters of its own. Terms are multiplied from left to right; letters that no later term and not the result has
//! are summed as soon as possible.

use std::collections::HashMap;

use lodstone_schema::Finding;

use crate::call::{Call, Outputs, one};
use crate::dims::{at_mut, bounded, dim_at, long};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::{Dense, product};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[Operator::dense("Einsum", einsum).working(4, 0)];

/// The maximum size of an element in bytes.
const WIDE: u64 = 8;

/// The maximum number of letters of an equation, of ellipses too.
const MAX_LETTERS: usize = 64;

/// A letter, or the number of a dim of the ellipsis counted from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Label {
    Hidden(usize),
    Letter(char),
}

/// A tensor with a label for each dim, all of them different.
#[derive(Clone)]
struct Term {
    labels: Vec<Label>,
    item: Dense,
}

fn einsum(call: &Call<'_>) -> Outputs {
    let equation = call.text("equation").ok_or("`equation` is missing")?;
    let letters: String = equation.chars().filter(|letter| !letter.is_whitespace()).collect();
    let (left, right) = match letters.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (letters.as_str(), None),
    };
    let inputs = call.all();
    let parts: Vec<&str> = left.split(',').collect();
    if parts.len() != inputs.len() || inputs.is_empty() {
        return Err(
            format!("`{equation}` has {} terms for {} inputs", parts.len(), inputs.len()).into()
        );
    }
    let kind = call.input(0)?.dtype();
    let mut named = Vec::new();
    for (part, input) in parts.iter().zip(&inputs) {
        named.push((labels(part, input.shape().len())?, input.widened()?));
    }
    let result = match right {
        Some(right) => {
            let hidden =
                named.iter().flat_map(|(labels, _)| labels).filter_map(|label| match label {
                    Label::Hidden(number) => Some(number + 1),
                    Label::Letter(_) => None,
                });
            let count = hidden.fold(0, usize::max);
            let letters = right.replace("...", "").chars().count();
            labels(right, letters + if right.contains("...") { count } else { 0 })?
        }
        None => implied(&named),
    };
    let sizes = sizes(&named)?;
    for (place, label) in result.iter().enumerate() {
        let is_repeated = result.iter().skip(place + 1).any(|other| other == label);
        if is_repeated || !sizes.contains_key(label) {
            return Err(format!("`{equation}` has an invalid result").into());
        }
    }
    let dims: Vec<usize> = result.iter().filter_map(|label| sizes.get(label)).copied().collect();
    if bounded(&dims)? == 0 || sizes.values().any(|size| *size == 0) {
        return one(Dense::filled(0.0, kind, &dims)?);
    }
    let mut terms = Vec::new();
    for (labels, item) in named {
        terms.push(Term::of(labels, item, &sizes)?);
    }
    let mut terms = terms.into_iter();
    let mut sum = terms.next().ok_or("the inputs are missing")?;
    loop {
        let rest = terms.as_slice();
        let is_kept = |label: &Label| {
            result.contains(label) || rest.iter().any(|term| term.labels.contains(label))
        };
        sum = sum.summed(&is_kept)?;
        let Some(next) = terms.next() else { break };
        let rest = terms.as_slice();
        let is_kept = |label: &Label| {
            result.contains(label) || rest.iter().any(|term| term.labels.contains(label))
        };
        let next = next.summed(&|label| is_kept(label) || sum.labels.contains(label))?;
        sum = sum.times(&next, call, &is_kept, &sizes)?;
    }
    let full = sum.arranged(&result)?.item.expanded(&dims)?;
    one(full.cast_to(kind)?)
}

/// Returns the labels of a term for a tensor of the given rank.
fn labels(term: &str, rank: usize) -> Outcome<Vec<Label>> {
    let wrong = || format!("`{term}` does not describe {rank} dims");
    let (before, behind) = match term.split_once("...") {
        Some((before, behind)) => (before, Some(behind)),
        None => (term, None),
    };
    let letters = before.chars().chain(behind.unwrap_or_default().chars());
    if letters.clone().any(|letter| !letter.is_alphabetic()) {
        return Err(format!("`{term}` has characters other than letters").into());
    }
    let hidden = rank.checked_sub(letters.count()).ok_or_else(wrong)?;
    if rank > MAX_LETTERS || (hidden > 0 && behind.is_none()) {
        return Err(wrong().into());
    }
    let mut labels: Vec<Label> = before.chars().map(Label::Letter).collect();
    labels.extend((0..hidden).rev().map(Label::Hidden));
    labels.extend(behind.unwrap_or_default().chars().map(Label::Letter));
    Ok(labels)
}

/// Returns the labels of a result that the equation does not name: the ellipsis, and the letters that appear once.
fn implied(named: &[(Vec<Label>, Dense)]) -> Vec<Label> {
    let mut counts: HashMap<Label, usize> = HashMap::new();
    for label in named.iter().flat_map(|(labels, _)| labels) {
        *counts.entry(*label).or_insert(0) += 1;
    }
    let is_there =
        |(label, count): &(Label, usize)| matches!(label, Label::Hidden(_)) || *count == 1;
    let mut labels: Vec<Label> =
        counts.into_iter().filter(is_there).map(|(label, _)| label).collect();
    labels.sort_unstable_by_key(|label| match label {
        Label::Hidden(number) => (0, MAX_LETTERS - number, ' '),
        Label::Letter(letter) => (1, 0, *letter),
    });
    labels
}

/// Returns the size of each label; dims of 1 broadcast.
fn sizes(named: &[(Vec<Label>, Dense)]) -> Outcome<HashMap<Label, usize>> {
    let mut sizes: HashMap<Label, usize> = HashMap::new();
    for (labels, item) in named {
        for (label, dim) in labels.iter().zip(item.shape()) {
            let size = sizes.entry(*label).or_insert(dim);
            *size = match (*size, dim) {
                (size, dim) if size == dim || dim == 1 => size,
                (1, dim) => dim,
                (size, dim) => return Err(format!("dims {size} and {dim} differ").into()),
            };
        }
    }
    Ok(sizes)
}

impl Term {
    /// Selects the diagonal of repeated labels.
    fn of(labels: Vec<Label>, item: Dense, sizes: &HashMap<Label, usize>) -> Outcome<Self> {
        let mut term = Self { labels, item };
        while let Some((first, second)) = term.repeated() {
            let shape = term.item.shape();
            let size = term.labels.get(first).and_then(|label| sizes.get(label)).copied();
            let size = size.ok_or_else(|| Finding::internal("a label has no size"))?;
            // Dims of 1 broadcast to the diagonal.
            let mut whole = shape.clone();
            *at_mut(&mut whole, first)? = size;
            *at_mut(&mut whole, second)? = size;
            bounded(&whole)?;
            let mut order: Vec<usize> =
                (0..shape.len()).filter(|at| ![first, second].contains(at)).collect();
            order.extend([first, second]);
            let square = term.item.expanded(&whole)?.permuted(&order)?;
            let mut dims = square.shape();
            dims.truncate(dims.len().saturating_sub(2));
            let flat = square.reshaped([dims.clone(), vec![size * size]].concat())?;
            let places: Vec<i64> = (0..size).map(|at| long(at * (size + 1))).collect();
            let at = dims.len();
            term.item = flat.selected(at, &places)?;
            let kept = term.labels.remove(first);
            term.labels.remove(second.saturating_sub(1));
            term.labels.push(kept);
        }
        Ok(term)
    }

    fn repeated(&self) -> Option<(usize, usize)> {
        self.labels.iter().enumerate().find_map(|(first, label)| {
            let mut others = self.labels.iter().enumerate().skip(first + 1);
            others.find(|(_, other)| *other == label).map(|(second, _)| (first, second))
        })
    }

    /// Sums the dims whose labels are not kept.
    fn summed(self, is_kept: &dyn Fn(&Label) -> bool) -> Outcome<Self> {
        let kept: Vec<Label> = self.labels.iter().copied().filter(is_kept).collect();
        if kept.len() == self.labels.len() {
            return Ok(self);
        }
        let gone: Vec<Label> =
            self.labels.iter().copied().filter(|label| !is_kept(label)).collect();
        let term = self.arranged(&[kept.clone(), gone].concat())?;
        let shape = term.item.shape();
        let (front, back) = shape.split_at(kept.len());
        let flat = term.item.reshaped([front, &[back.iter().product()]].concat())?;
        let at = kept.len();
        let item = flat.total(&[at])?;
        Ok(Self { labels: kept, item: item.reshaped(front)? })
    }

    /// Orders the dims by labels; labels that it does not have become dims of 1.
    fn arranged(self, labels: &[Label]) -> Outcome<Self> {
        let place = |label: &Label| self.labels.iter().position(|own| own == label);
        let order: Vec<usize> = labels.iter().filter_map(place).collect();
        if order.len() != self.labels.len() {
            return Err("the result lacks labels".into());
        }
        let found = self.item.shape();
        let dim = |label: &Label| place(label).map_or(Ok(1), |at| dim_at(&found, at));
        let dims: Vec<usize> = labels.iter().map(dim).collect::<Outcome<_>>()?;
        let item = self.item.permuted(&order)?.reshaped(dims)?;
        Ok(Self { labels: labels.to_vec(), item })
    }

    /// Multiplies two terms, and sums the labels of both that are not kept.
    fn times(
        self,
        other: &Self,
        call: &Call<'_>,
        is_kept: &dyn Fn(&Label) -> bool,
        sizes: &HashMap<Label, usize>,
    ) -> Outcome<Self> {
        let is_shared = |label: &&Label| other.labels.contains(label);
        let batch: Vec<Label> =
            self.labels.iter().filter(is_shared).filter(|label| is_kept(label)).copied().collect();
        let inner: Vec<Label> =
            self.labels.iter().filter(is_shared).filter(|label| !is_kept(label)).copied().collect();
        let alone = |term: &Self, than: &Self| {
            let own = term.labels.iter().filter(|label| !than.labels.contains(label));
            own.copied().collect::<Vec<Label>>()
        };
        let (rows, columns) = (alone(&self, other), alone(other, &self));
        let size = |labels: &[Label]| {
            let dims = labels.iter().filter_map(|label| sizes.get(label)).copied();
            dims.collect::<Vec<usize>>()
        };
        let flat = |labels: &[Label]| bounded(&size(labels));
        let (count, height, depth, width) =
            (flat(&batch)?, flat(&rows)?, flat(&inner)?, flat(&columns)?);
        let _matrices = [[count, height, depth], [count, depth, width], [count, height, width]]
            .iter()
            .map(|dims| call.workspace(dims, WIDE))
            .collect::<Outcome<Vec<_>>>()?;
        let matrices = |term: Self, labels: [&[Label]; 3], dims: [usize; 3]| {
            let labels = labels.concat();
            let item = term.arranged(&labels)?.item.expanded(&size(&labels))?;
            item.reshaped(dims)
        };
        let a = matrices(self, [&batch, &rows, &inner], [count, height, depth])?;
        let b = matrices(other.clone(), [&batch, &inner, &columns], [count, depth, width])?;
        let labels = [batch, rows, columns].concat();
        // Without inner labels, it is a product of elements.
        let made = if depth == 1 { a.times(&b)? } else { product(&a, &b)? };
        let dims = size(&labels);
        Ok(Self { labels, item: made.reshaped(dims)? })
    }
}
