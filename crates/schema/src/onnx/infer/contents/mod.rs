//! Elements of small tensors, followed through the operators that shapes are computed with.
//!
//! A symbol stays one as long as it is only moved, and where arithmetic does nothing to it. What does not
//! fit, or is not computed as every framework does it, is unknown.

mod arithmetic;
mod arrange;

use std::collections::HashMap;
use std::sync::LazyLock;

use lodstone_model::Dim;

use super::node::Node;
use super::value::{Element, MOST_ELEMENTS};

/// Tells the elements of outputs, if they are known.
type Fold = fn(&mut Node<'_>) -> Option<()>;

static FOLDS: LazyLock<HashMap<&str, Fold>> =
    LazyLock::new(|| arrange::FOLDS.iter().chain(arithmetic::FOLDS).copied().collect());

/// Tells what is known of the elements of the outputs of an operator whose types were told.
pub(super) fn follow(node: &mut Node<'_>) {
    if !super::domain_of(&node.op.domain).is_empty() {
        return;
    }
    let Some(fold) = FOLDS.get(node.op.kind.as_str()) else { return };
    // Nothing to tell leaves nothing told.
    let _ = fold(node);
    for output in &mut node.outputs {
        let count = output.shape().and_then(extents).map(|extents| count(&extents));
        if let (Some(contents), Some(count)) = (&output.contents, count)
            && count != Some(contents.len())
        {
            output.contents = None;
        }
    }
}

/// Extents as numbers, if all of them are known and small.
fn extents(shape: &[Dim]) -> Option<Vec<usize>> {
    let extent = |dim: &Dim| match dim {
        Dim::Known(extent) => usize::try_from(*extent).ok().filter(|e| *e <= MOST_ELEMENTS),
        _ => None,
    };
    shape.iter().map(extent).collect()
}

/// How many elements a tensor has, if they are few.
fn count(extents: &[usize]) -> Option<usize> {
    let count = extents.iter().try_fold(1usize, |count, extent| count.checked_mul(*extent))?;
    (count <= MOST_ELEMENTS).then_some(count)
}

/// A tensor whose elements are followed.
struct Array<'a> {
    elements: &'a [Element],
    extents: Vec<usize>,
}

impl<'a> Array<'a> {
    /// An input, if its elements are followed.
    fn of(node: &Node<'a>, index: usize) -> Option<Self> {
        let (elements, extents) = (node.contents(index)?, extents(node.shape(index)?)?);
        (count(&extents)? == elements.len()).then_some(Self { elements, extents })
    }

    /// The elements at places along each axis, in that order.
    fn pick(&self, places: &[Vec<usize>]) -> Option<Vec<Element>> {
        let extents: Vec<_> = places.iter().map(Vec::len).collect();
        let mut offsets = vec![0usize];
        if count(&extents)? == 0 {
            return Some(Vec::new());
        }
        for (places, extent) in places.iter().zip(&self.extents) {
            let mut next = Vec::with_capacity(offsets.len().saturating_mul(places.len()));
            for offset in offsets {
                for place in places {
                    if place >= extent {
                        return None;
                    }
                    next.push(offset.checked_mul(*extent)?.checked_add(*place)?);
                }
            }
            offsets = next;
        }
        offsets.into_iter().map(|offset| self.elements.get(offset).cloned()).collect()
    }

    /// All places along each axis.
    fn whole(&self) -> Vec<Vec<usize>> {
        self.extents.iter().map(|extent| (0..*extent).collect()).collect()
    }

    /// The elements, broadcast to a shape.
    fn broadcast(&self, target: &[usize]) -> Option<Vec<Element>> {
        count(target)?;
        let missing = target.len().checked_sub(self.extents.len())?;
        let mut extents = vec![1; missing];
        extents.extend(&self.extents);
        let places = extents.iter().zip(target).map(|(own, wanted)| match own {
            1 => Some(vec![0; *wanted]),
            own if own == wanted => Some((0..*wanted).collect()),
            _ => None,
        });
        let places = places.collect::<Option<Vec<_>>>()?;
        Array { elements: self.elements, extents }.pick(&places)
    }
}
