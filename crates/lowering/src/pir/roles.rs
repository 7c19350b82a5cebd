//! Roles of operators: which compute gradients, which update parameters, and from which value gradients begin.
//!
//! PIR does not store roles. A gradient operator has a name that ends with `_grad`; an optimizer writes a parameter
//! in the slot `ParamOut`; the operators between the two, such as those that clip gradients, depend on gradients.

use std::collections::HashSet;

use lodstone_model::{AttributeValue, Op};
use lodstone_schema::paddle::{BACKWARD, LOSS, OPTIMIZES};

use super::walk::{Walk, attribute};

const ROLE: &str = "op_role";

/// Sets the roles of the operators of a program that computes gradients.
pub(super) fn assign(walk: &mut Walk<'_>) {
    let Some(main) = walk.blocks.first_mut() else { return };
    let computes = |op: &Op| op.kind.ends_with("_grad");
    let Some(first) = main.ops.iter().position(computes) else { return };
    // The first gradient is a constant of the shape of the loss.
    let given: HashSet<String> = main
        .ops
        .get(first)
        .into_iter()
        .flat_map(|op| &op.inputs)
        .filter(|slot| slot.slot.ends_with("@GRAD"))
        .flat_map(|slot| slot.args.iter().cloned())
        .collect();
    let mut gradients: HashSet<String> = HashSet::new();
    let mut seed = None;
    for (number, op) in main.ops.iter_mut().enumerate() {
        let updates = !op.output("ParamOut").is_empty();
        let fills = op.kind.starts_with("fill_");
        let begins = fills && number < first && op.writes().any(|name| given.contains(name));
        let depends = op.reads().any(|name| gradients.contains(name));
        let role = match () {
            () if updates => OPTIMIZES,
            () if begins => BACKWARD | LOSS,
            () if op.kind.ends_with("_grad") || depends => BACKWARD,
            () => continue,
        };
        if begins {
            seed = op.input("X").first().cloned().zip(op.output("Out").first().cloned());
        }
        op.attributes.retain(|it| it.name != ROLE);
        op.attributes.push(attribute(ROLE, AttributeValue::Int(role)));
        gradients.extend(op.writes().map(str::to_owned));
    }
    // The gradient of the loss has its name.
    if let Some((loss, gradient)) = seed {
        let name = walk.names.fresh(&format!("{loss}@GRAD"));
        walk.rename(&gradient, &name);
    }
}
