//! Pairing of the tensors of two models.

use std::collections::{HashMap, HashSet, VecDeque};

use lodstone_model::{DType, Parameter, Tensor};
use lodstone_store::Error as StoreError;

use super::DiffOptions;
use super::compare::{Relation, exact};
use crate::Result;

/// The pairs of tensors, by index, and the tensors without a pair.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    pub(super) pairs: Vec<Pair>,
    pub(super) removed: Vec<usize>,
    pub(super) added: Vec<usize>,
}

/// A tensor of one model and its counterpart in the other.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) a: usize,
    pub(super) b: usize,
    pub(super) renamed: bool,
    pub(super) moved: bool,
    /// How one became the other, if they were paired by content.
    pub(super) relation: Option<Relation>,
}

pub(super) fn pair(a: &[Parameter], b: &[Parameter], options: &DiffOptions) -> Result<Pairing> {
    let nameless = |all: &[Parameter]| all.iter().all(|p| p.name.is_empty());
    let by_place = nameless(a) && nameless(b);
    let mut pairs = if by_place { equal_in_place(a, b, options)? } else { by_name(a, b) };
    let taken = |pairs: &[Pair]| {
        let of_a: HashSet<usize> = pairs.iter().map(|pair| pair.a).collect();
        let of_b: HashSet<usize> = pairs.iter().map(|pair| pair.b).collect();
        let rest = |all: &[Parameter], taken: &HashSet<usize>| {
            (0..all.len()).filter(|n| !taken.contains(n)).collect::<Vec<_>>()
        };
        (rest(a, &of_a), rest(b, &of_b))
    };
    let (rest_a, rest_b) = taken(&pairs);
    for (of_a, of_b, relation) in by_content(a, b, rest_a, rest_b, options)? {
        let (renamed, moved) = (!by_place, by_place && of_a != of_b);
        pairs.push(Pair { a: of_a, b: of_b, renamed, moved, relation: Some(relation) });
    }
    let (mut removed, mut added) = taken(&pairs);
    if by_place {
        // Tensors at the same position correspond.
        let both: HashSet<usize> =
            removed.iter().copied().filter(|index| added.binary_search(index).is_ok()).collect();
        removed.retain(|index| !both.contains(index));
        added.retain(|index| !both.contains(index));
        pairs.extend(both.into_iter().map(|index| Pair {
            a: index,
            b: index,
            renamed: false,
            moved: false,
            relation: None,
        }));
    } else {
        mark_moved(&mut pairs);
    }
    pairs.sort_by_key(|pair| pair.a);
    Ok(Pairing { pairs, removed, added })
}

/// Pairs tensors of the same content at the same position.
fn equal_in_place(a: &[Parameter], b: &[Parameter], options: &DiffOptions) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    for (index, (of_a, of_b)) in a.iter().zip(b).enumerate() {
        let changes = exact(&of_a.tensor, &of_b.tensor, options)?;
        if changes.as_ref().is_some_and(Vec::is_empty) {
            let relation = Some(Relation::default());
            pairs.push(Pair { a: index, b: index, renamed: false, moved: false, relation });
        }
    }
    Ok(pairs)
}

/// Pairs tensors of the same name: of several, the first with the first.
fn by_name(a: &[Parameter], b: &[Parameter]) -> Vec<Pair> {
    let mut named: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (index, Parameter { name, .. }) in b.iter().enumerate() {
        if !name.is_empty() {
            named.entry(name).or_default().push_back(index);
        }
    }
    let pair = |(index, parameter): (usize, &Parameter)| {
        let b = named.get_mut(parameter.name.as_str())?.pop_front()?;
        Some(Pair { a: index, b, renamed: false, moved: false, relation: None })
    };
    a.iter().enumerate().filter_map(pair).collect()
}

/// Marks the pairs with the same name whose order differs: all but the longest increasing subsequence.
fn mark_moved(pairs: &mut [Pair]) {
    pairs.sort_by_key(|pair| pair.a);
    let places: Vec<usize> = pairs.iter().map(|pair| pair.b).collect();
    // Patience sorting: `ends[n]` is the last pair of the best sequence of n + 1 pairs.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![None; places.len()];
    let place_of = |index: &usize| places.get(*index).copied().unwrap_or(0);
    for (index, place) in places.iter().enumerate() {
        let at = ends.partition_point(|end| place_of(end) < *place);
        let previous = at.checked_sub(1).and_then(|at| ends.get(at).copied());
        if let Some(before) = before.get_mut(index) {
            *before = previous;
        }
        match ends.get_mut(at) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut in_order = HashSet::new();
    let mut next = ends.last().copied();
    while let Some(index) = next {
        in_order.insert(index);
        next = before.get(index).copied().flatten();
    }
    for (index, pair) in pairs.iter_mut().enumerate() {
        pair.moved = !pair.renamed && !in_order.contains(&index);
    }
}

/// A key that tensors with the same elements in any order have in common.
type Likeness = (DType, u64, u64);

/// The maximum number of tensors of the same content that are searched for the same shape: a model may have any number
/// of empty tensors.
const MAX_ALIKE: usize = 64;

/// Pairs tensors of the same content: as it is, reshaped, or with permuted dims. Those at the same
/// position, and then those of the same shape, are preferred.
fn by_content(
    a: &[Parameter],
    b: &[Parameter],
    rest_a: Vec<usize>,
    rest_b: Vec<usize>,
    options: &DiffOptions,
) -> Result<Vec<(usize, usize, Relation)>> {
    let of =
        |all: &[Parameter], index: usize| all.get(index).map(|parameter| parameter.tensor.clone());
    let sizes = |all: &[Parameter], rest: &[usize]| -> HashSet<(DType, u64)> {
        let tensors = rest.iter().filter_map(|index| of(all, *index));
        tensors.map(|tensor| (tensor.dtype, tensor.data.len())).collect()
    };
    // Only tensors with a candidate are read.
    let both: HashSet<_> = sizes(a, &rest_a).intersection(&sizes(b, &rest_b)).copied().collect();
    let likeness = |tensor: &Tensor| -> Result<Option<Likeness>> {
        if !both.contains(&(tensor.dtype, tensor.data.len())) {
            return Ok(None);
        }
        Ok(Some((tensor.dtype, tensor.data.len(), mixture(tensor, options)?)))
    };
    let mut alike: HashMap<Likeness, VecDeque<usize>> = HashMap::new();
    for index in rest_b {
        let Some(tensor) = of(b, index) else { continue };
        if let Some(likeness) = likeness(&tensor)? {
            alike.entry(likeness).or_default().push_back(index);
        }
    }
    let mut found = Vec::new();
    for index in rest_a {
        let Some(tensor) = of(a, index) else { continue };
        let candidates = likeness(&tensor)?.and_then(|likeness| alike.get_mut(&likeness));
        let Some(candidates) = candidates else { continue };
        let same_shape =
            |candidate: &usize| of(b, *candidate).is_some_and(|other| other.shape == tensor.shape);
        // Candidates are sorted by index.
        let there = candidates.binary_search(&index).ok();
        let alike = candidates.iter().take(MAX_ALIKE).position(same_shape);
        for at in [there, alike, Some(0)].into_iter().flatten() {
            let Some(other) = candidates.get(at).copied() else { continue };
            let Some(other_tensor) = of(b, other) else { continue };
            if let Some(changes) = exact(&tensor, &other_tensor, options)? {
                candidates.remove(at);
                found.push((index, other, Relation { changes, values: None }));
                break;
            }
        }
    }
    Ok(found)
}

/// Returns a hash of the elements that does not depend on their order.
fn mixture(tensor: &Tensor, options: &DiffOptions) -> Result<u64, StoreError> {
    let size = tensor.dtype.bits().map_or(1, |bits| bits.div_ceil(8));
    let size = usize::try_from(size).unwrap_or(1).max(1);
    let mut sum = 0_u64;
    // Chunks hold whole elements: their size is a multiple of any element size.
    tensor.data.for_each_chunk::<StoreError>(|chunk| {
        for element in chunk.chunks(size) {
            let hash = element.chunks(8).fold(0x9e37_79b9_7f4a_7c15, |hash: u64, bytes| {
                let number =
                    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
                mix(hash ^ number)
            });
            sum = sum.wrapping_add(hash);
        }
        options.progress.advance(chunk.len() as u64)
    })?;
    Ok(sum)
}

/// The finalizer of SplitMix64.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
