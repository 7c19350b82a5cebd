//! Pairing of the operators of two programs.
//!
//! Operators are paired by name, then by hashes of their dependencies and dependents, then along the data flow from
//! known pairs, and the rest by similarity. The time is linear in the number of operators, times a limit for the last
//! step.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;

use lodstone_schema::Finding;
use lodstone_schema::places::at_mut;

use crate::wiring::{Node, Use, Wiring};

/// Pairs of operators.
pub(super) struct Matching {
    /// The operator of the second program, for each operator of the first.
    pub(super) a: Vec<Option<usize>>,
    /// The operator of the first program, for each operator of the second.
    pub(super) b: Vec<Option<usize>>,
    /// The number of ambiguous pairs.
    pub(super) ambiguous: usize,
}

/// The criterion by which operators have equal hashes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alike {
    /// Equal dependencies and dependents, and equally many such operators in both programs.
    Both,
    /// Equal dependencies or equal dependents.
    One,
    /// Equal dependencies and dependents, with more such operators in one program.
    More,
}

/// The maximum number of pairs that are compared by similarity.
const MAX_COMPARED: usize = 1 << 20;

/// The maximum number of readers of a value that are paired.
const MAX_READERS: usize = 32;

impl Matching {
    /// Pairs the operators of two programs.
    ///
    /// # Errors
    /// An internal error if a numbered operator is missing.
    pub(super) fn new(a: &Wiring<'_>, b: &Wiring<'_>) -> Result<Self, Finding> {
        let mut matching =
            Self { a: vec![None; a.nodes.len()], b: vec![None; b.nodes.len()], ambiguous: 0 };
        matching.unique(a, b, &names(a), &names(b), true)?;
        matching.by_hash(a, b, Alike::Both, |node| (node.forward, node.backward))?;
        matching.along(a, b)?;
        matching.by_hash(a, b, Alike::One, |node| (node.forward, 0))?;
        matching.by_hash(a, b, Alike::One, |node| (0, node.backward))?;
        matching.along(a, b)?;
        matching.by_hash(a, b, Alike::More, |node| (node.forward, node.backward))?;
        matching.by_likeness(a, b)?;
        matching.along(a, b)?;
        // Operators with the same name whose kind changed.
        matching.unique(a, b, &names(a), &names(b), false)?;
        Ok(matching)
    }

    /// Pairs two operators, unless one of them is paired already.
    fn pair(&mut self, a: usize, b: usize) -> Result<(), Finding> {
        let (of_a, of_b) = (at_mut(&mut self.a, a)?, at_mut(&mut self.b, b)?);
        if of_a.is_none() && of_b.is_none() {
            (*of_a, *of_b) = (Some(b), Some(a));
        }
        Ok(())
    }

    fn free_a(&self, a: usize) -> bool {
        self.a.get(a) == Some(&None)
    }

    fn free_b(&self, b: usize) -> bool {
        self.b.get(b) == Some(&None)
    }

    /// Pairs operators with the same name.
    fn unique<K: Hash + Eq>(
        &mut self,
        a: &Wiring<'_>,
        b: &Wiring<'_>,
        keys_a: &HashMap<K, usize>,
        keys_b: &HashMap<K, usize>,
        same_kind: bool,
    ) -> Result<(), Finding> {
        for (key, of_a) in keys_a {
            if let Some(of_b) = keys_b.get(key)
                && (!same_kind || kind(a, *of_a)? == kind(b, *of_b)?)
            {
                self.pair(*of_a, *of_b)?;
            }
        }
        Ok(())
    }

    /// Pairs operators with the same hash in order, since nothing distinguishes them.
    fn by_hash(
        &mut self,
        a: &Wiring<'_>,
        b: &Wiring<'_>,
        alike: Alike,
        hash: fn(&Node<'_>) -> (u64, u64),
    ) -> Result<(), Finding> {
        let mut groups: HashMap<(u64, u64), (Vec<usize>, Vec<usize>)> = HashMap::new();
        for (index, node) in a.nodes.iter().enumerate().filter(|(index, _)| self.free_a(*index)) {
            groups.entry(hash(node)).or_default().0.push(index);
        }
        for (index, node) in b.nodes.iter().enumerate().filter(|(index, _)| self.free_b(*index)) {
            groups.entry(hash(node)).or_default().1.push(index);
        }
        for (of_a, of_b) in groups.into_values() {
            let pairs = of_a.len().min(of_b.len());
            if of_a.len() != of_b.len() && alike != Alike::More {
                continue;
            }
            self.ambiguous += if alike == Alike::Both || pairs == 1 { 0 } else { pairs };
            of_a.into_iter().zip(of_b).try_for_each(|(a, b)| self.pair(a, b))?;
        }
        Ok(())
    }

    /// Follows the data flow between paired operators.
    fn along(&mut self, a: &Wiring<'_>, b: &Wiring<'_>) -> Result<(), Finding> {
        let known = self.a.iter().enumerate().filter_map(|(a, b)| Some((a, (*b)?)));
        let mut open: VecDeque<(usize, usize)> = known.collect();
        while let Some((of_a, of_b)) = open.pop_front() {
            let (node_a, node_b) = (a.node(of_a)?, b.node(of_b)?);
            let mut found = Vec::new();
            for (slot, uses) in &node_a.reads {
                let others = node_b.reads.iter().find(|(other, _)| other == slot);
                for (read, other) in uses.iter().zip(others.into_iter().flat_map(|(_, u)| u)) {
                    if let (Use::Value(a, _), Use::Value(b, _)) = (read, other) {
                        found.push((*a, *b));
                    }
                }
            }
            if node_a.readers.len() <= MAX_READERS && node_b.readers.len() <= MAX_READERS {
                for (reader, place) in node_a.readers.iter().filter(|(a, _)| self.free_a(*a)) {
                    let of_kind = kind(a, *reader)?;
                    let mut likely = Vec::new();
                    for (other, at) in &node_b.readers {
                        if at == place && self.free_b(*other) && kind(b, *other)? == of_kind {
                            likely.push(*other);
                        }
                    }
                    if let [other] = likely[..] {
                        found.push((*reader, other));
                    }
                }
            }
            for (next_a, next_b) in found {
                let is_free = self.free_a(next_a) && self.free_b(next_b);
                if is_free && kind(a, next_a)? == kind(b, next_b)? {
                    self.pair(next_a, next_b)?;
                    open.push_back((next_a, next_b));
                }
            }
        }
        Ok(())
    }

    /// Pairs each remaining operator with the most similar one of its kind, if a neighbour is paired.
    fn by_likeness(&mut self, a: &Wiring<'_>, b: &Wiring<'_>) -> Result<(), Finding> {
        let mut kinds: HashMap<&str, (Vec<usize>, Vec<usize>)> = HashMap::new();
        for index in (0..a.nodes.len()).filter(|index| self.free_a(*index)) {
            kinds.entry(kind(a, index)?).or_default().0.push(index);
        }
        for index in (0..b.nodes.len()).filter(|index| self.free_b(*index)) {
            kinds.entry(kind(b, index)?).or_default().1.push(index);
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_unstable();
        let mut budget = MAX_COMPARED;
        for (_, (of_a, of_b)) in kinds {
            for a_index in of_a {
                let candidates = of_b.iter().copied().filter(|b| self.free_b(*b));
                let candidates: Vec<usize> = candidates.take(budget).collect();
                budget = budget.saturating_sub(candidates.len());
                let scores = candidates.into_iter().map(|b_index| {
                    let score = self.likeness(a.node(a_index)?, b.node(b_index)?);
                    Ok((score, std::cmp::Reverse(b_index)))
                });
                let mut scores = scores.collect::<Result<Vec<_>, Finding>>()?;
                scores.retain(|(score, _)| *score > 0);
                scores.sort_unstable();
                let best = scores.pop();
                let tie = best.is_some_and(|(score, _)| {
                    scores.last().is_some_and(|(second, _)| *second == score)
                });
                if let Some((_, std::cmp::Reverse(b_index))) = best {
                    self.ambiguous += usize::from(tie);
                    self.pair(a_index, b_index)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the number of values of two operators that connect them to paired operators.
    fn likeness(&self, node_a: &Node<'_>, node_b: &Node<'_>) -> usize {
        let mut score = 0;
        for (slot, uses) in &node_a.reads {
            let others = node_b.reads.iter().find(|(other, _)| other == slot);
            for (read, other) in uses.iter().zip(others.into_iter().flat_map(|(_, u)| u)) {
                score += usize::from(self.is_same(read, other));
            }
        }
        let readers: HashSet<usize> =
            node_b.readers.iter().take(MAX_READERS).map(|(reader, _)| *reader).collect();
        let known = node_a.readers.iter().take(MAX_READERS);
        score
            + known
                .filter(|(a, _)| {
                    self.a.get(*a).is_some_and(|b| b.is_some_and(|b| readers.contains(&b)))
                })
                .count()
    }

    /// Returns whether two operators read the same values.
    pub(super) fn is_same(&self, a: &Use<'_>, b: &Use<'_>) -> bool {
        match (a, b) {
            (Use::Value(a, place), Use::Value(b, other)) => {
                place == other && self.a.get(*a) == Some(&Some(*b))
            }
            (a, b) => a == b,
        }
    }
}

fn kind<'a>(side: &Wiring<'a>, index: usize) -> Result<&'a str, Finding> {
    Ok(&side.node(index)?.op.kind)
}

/// Returns the names of operators, or of their outputs, that occur once.
fn names<'a>(side: &Wiring<'a>) -> HashMap<(usize, &'a str), usize> {
    let mut known: HashMap<(usize, &str), Option<usize>> = HashMap::new();
    for (index, node) in side.nodes.iter().enumerate() {
        let name = match node.op.name.as_str() {
            "" => node.op.writes().next().unwrap_or_default(),
            name => name,
        };
        if !name.is_empty() {
            // Blocks may use the same names; those of the main block are distinct.
            let block = usize::from(node.block > 0);
            known.entry((block, name)).and_modify(|known| *known = None).or_insert(Some(index));
        }
    }
    known.into_iter().filter_map(|(name, index)| Some((name, index?))).collect()
}
