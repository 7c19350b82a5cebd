//! How the values of a pickle lie in each other, seen before anybody goes through them: nobody has to
//! fear circles then, and how deep they are is bounded.

use std::collections::HashMap;

use lodstone_model::Limits;

use super::shapes::{Shapes, Value};
use super::tree::Id;
use crate::Result;

/// Whether each reachable value is or holds a tensor; each is looked at once, however often it is
/// shared. What `is_tensor` says is one is not looked into.
///
/// # Errors
/// If values lie in circles, or too deep.
pub(crate) fn survey(
    shapes: &Shapes,
    limits: &Limits,
    is_tensor: impl Fn(Id) -> Result<bool>,
) -> Result<HashMap<Id, bool>> {
    /// A value whose children are being looked at.
    struct Open {
        id: Id,
        children: std::vec::IntoIter<Id>,
        holds: bool,
        height: usize,
    }
    let open = |id: Id| -> Result<Open> {
        let holds = is_tensor(id)?;
        let children = if holds { Vec::new() } else { children(shapes, id)? };
        Ok(Open { id, children: children.into_iter(), holds, height: 0 })
    };
    let too_deep = |id| shapes.tree.over_limit(id, format!("values at most {} deep", limits.depth));
    // None while a value is open: one that is met again then lies in itself.
    let root = shapes.tree.root();
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
            Some(None) => {
                let found = "one that holds itself";
                return Err(shapes.tree.error(child, "values that end", found));
            }
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

/// The values that a value holds: those of a dict without its keys.
fn children(shapes: &Shapes, id: Id) -> Result<Vec<Id>> {
    Ok(match shapes.value(id)? {
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => items.to_vec(),
        Value::Dict(pairs) | Value::Record(_, pairs) => {
            pairs.iter().flat_map(|(key, value)| [*key, *value]).collect()
        }
        _ => Vec::new(),
    })
}
