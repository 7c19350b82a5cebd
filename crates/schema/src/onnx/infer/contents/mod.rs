//! Elements of small tensors, propagated through the operators that compute shapes.
//!
//! A symbol is kept as long as operators only move it, or arithmetic does not change it. Results that overflow, or that
//! frameworks compute differently, are unknown.

mod arithmetic;
mod arrange;

use std::collections::HashMap;
use std::sync::LazyLock;

use lodstone_model::Dim;

use super::node::Node;
use super::value::{Element, MAX_ELEMENTS};

/// Sets the elements of outputs, if they are known.
type Fold = fn(&mut Node<'_>) -> Option<()>;

static FOLDS: LazyLock<HashMap<&str, Fold>> =
    LazyLock::new(|| arrange::FOLDS.iter().chain(arithmetic::FOLDS).copied().collect());

/// Infers the elements of the outputs of an operator, whose types are set.
pub(super) fn follow(node: &mut Node<'_>) {
    if !super::domain_of(&node.op.domain).is_empty() {
        return;
    }
    let Some(fold) = FOLDS.get(node.op.kind.as_str()) else { return };
    // If nothing is known, the output stays as it is.
    let _ = fold(node);
    for output in &mut node.outputs {
        let count = output.shape().and_then(dims_from).map(|dims| count(&dims));
        if let (Some(contents), Some(count)) = (&output.contents, count)
            && count != Some(contents.len())
        {
            output.contents = None;
        }
    }
}

/// Returns dims as integers, if all of them are known and small.
fn dims_from(shape: &[Dim]) -> Option<Vec<usize>> {
    let size = |dim: &Dim| match dim {
        Dim::Known(size) => usize::try_from(*size).ok().filter(|e| *e <= MAX_ELEMENTS),
        _ => None,
    };
    shape.iter().map(size).collect()
}

/// Returns the number of elements of a tensor, if it is small.
fn count(dims: &[usize]) -> Option<usize> {
    let count = dims.iter().try_fold(1usize, |count, dim| count.checked_mul(*dim))?;
    (count <= MAX_ELEMENTS).then_some(count)
}

/// A tensor whose elements are propagated.
struct Array<'a> {
    elements: &'a [Element],
    dims: Vec<usize>,
}

impl<'a> Array<'a> {
    /// Returns an input, if its elements are propagated.
    fn of(node: &Node<'a>, index: usize) -> Option<Self> {
        let (elements, dims) = (node.contents(index)?, dims_from(node.shape(index)?)?);
        (count(&dims)? == elements.len()).then_some(Self { elements, dims })
    }

    /// Returns the elements at the given positions along each axis.
    fn pick(&self, places: &[Vec<usize>]) -> Option<Vec<Element>> {
        let dims: Vec<_> = places.iter().map(Vec::len).collect();
        let mut offsets = vec![0usize];
        if count(&dims)? == 0 {
            return Some(Vec::new());
        }
        for (places, dim) in places.iter().zip(&self.dims) {
            let mut next = Vec::with_capacity(offsets.len().saturating_mul(places.len()));
            for offset in offsets {
                for place in places {
                    if place >= dim {
                        return None;
                    }
                    next.push(offset.checked_mul(*dim)?.checked_add(*place)?);
                }
            }
            offsets = next;
        }
        offsets.into_iter().map(|offset| self.elements.get(offset).cloned()).collect()
    }

    /// Returns all positions along each axis.
    fn whole(&self) -> Vec<Vec<usize>> {
        self.dims.iter().map(|dim| (0..*dim).collect()).collect()
    }

    /// Broadcasts the elements to a shape.
    fn broadcast(&self, target: &[usize]) -> Option<Vec<Element>> {
        count(target)?;
        let missing = target.len().checked_sub(self.dims.len())?;
        let mut dims = vec![1; missing];
        dims.extend(&self.dims);
        let places = dims.iter().zip(target).map(|(own, wanted)| match own {
            1 => Some(vec![0; *wanted]),
            own if own == wanted => Some((0..*wanted).collect()),
            _ => None,
        });
        let places = places.collect::<Option<Vec<_>>>()?;
        Array { elements: self.elements, dims }.pick(&places)
    }
}
