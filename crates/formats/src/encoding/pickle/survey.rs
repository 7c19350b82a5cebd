//! A survey of the nesting of values in a pickle, before code walks them: it finds cycles and bounds the depth.

use std::collections::HashMap;

use lodstone_model::Limits;

use super::shapes::{Shapes, Value};
use super::tree::{Id, Tree};
use crate::error::Result;

/// Returns, for each reachable value, whether it is or contains a tensor; shared values are visited
/// once. Values for which `is_tensor` returns true are not descended into.
///
/// # Errors
/// Fails if values are cyclic or nested too deeply.
pub(crate) fn survey(
    shapes: &Shapes,
    limits: &Limits,
    is_tensor: impl Fn(Id) -> Result<bool>,
) -> Result<HashMap<Id, bool>> {
    let inspect = |id| {
        let holds = is_tensor(id)?;
        Ok((holds, if holds { Vec::new() } else { children(shapes, id)? }))
    };
    survey_by(&shapes.tree, limits, inspect, |_, child| {
        Err(shapes.tree.error(child, "acyclic values", "a value that contains itself"))
    })
}

/// Does the same for values of another interpretation: `inspect` returns whether a value is a tensor, and its children.
/// `cycle` gets each value and the child of it that contains it; without these references, values are acyclic.
///
/// # Errors
/// Fails if values are nested too deeply, and with the errors of `inspect` and `cycle`.
pub(crate) fn survey_by(
    tree: &Tree,
    limits: &Limits,
    inspect: impl Fn(Id) -> Result<(bool, Vec<Id>)>,
    mut cycle: impl FnMut(Id, Id) -> Result<()>,
) -> Result<HashMap<Id, bool>> {
    /// A value whose children are being visited.
    struct Open {
        id: Id,
        children: std::vec::IntoIter<Id>,
        holds: bool,
        height: usize,
    }
    let open = |id: Id| -> Result<Open> {
        let (holds, children) = inspect(id)?;
        Ok(Open { id, children: children.into_iter(), holds, height: 0 })
    };
    let too_deep = |id| tree.over_limit(id, format!("values at most {} deep", limits.depth));
    // `None` while a value is open: reaching it again means a cycle.
    let root = tree.root();
    let mut known: HashMap<Id, Option<(bool, usize)>> = HashMap::new();
    known.insert(root, None);
    let mut path = vec![open(root)?];
    while let Some(top) = path.last_mut() {
        let Some(child) = top.children.next() else {
            let (id, result) = (top.id, (top.holds, top.height + 1));
            known.insert(id, Some(result));
            path.pop();
            if let Some(parent) = path.last_mut() {
                parent.holds |= result.0;
                parent.height = parent.height.max(result.1);
                if parent.height >= limits.depth {
                    return Err(too_deep(id));
                }
            }
            continue;
        };
        match known.get(&child) {
            Some(Some((holds, height))) => {
                top.holds |= holds;
                top.height = top.height.max(*height);
                if top.height >= limits.depth {
                    return Err(too_deep(child));
                }
            }
            Some(None) => cycle(top.id, child)?,
            None => {
                known.insert(child, None);
                let child = open(child)?;
                if path.len() >= limits.depth {
                    return Err(too_deep(child.id));
                }
                path.push(child);
            }
        }
    }
    Ok(known.into_iter().map(|(id, known)| (id, known.is_some_and(|(holds, _)| holds))).collect())
}

/// Returns the children of a value, without the keys of a dict.
fn children(shapes: &Shapes, id: Id) -> Result<Vec<Id>> {
    Ok(match shapes.value(id)? {
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => items.to_vec(),
        Value::Dict(pairs) | Value::Record(_, pairs) => {
            pairs.iter().flat_map(|(key, value)| [*key, *value]).collect()
        }
        _ => Vec::new(),
    })
}
