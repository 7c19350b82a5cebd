//! Upgrades of programs of old releases to the current one.
//!
//! | before | difference |
//! |---|---|
//! | 1.9.1 | user attributes may have bare keys: `lr_mult`, or `weight_lr_mult` for an input |
//! | 0.9.0 | auxiliary states are not in the file: they follow the other inputs |
//! | 0.9.4 | auxiliary states have no initializer |
//! | 0.9.5 | `axis` -1 of `argmax` and `argmin` means no axis |
//!
//! Source of truth: `src/nnvm/legacy_json_util.cc` of MXNet 1.9.1.

use std::collections::HashMap;

use lodstone_model::{Attribute, AttributeValue, Block, ByteString, Op, Program, TensorType, Var};
use lodstone_schema::mxnet::{operator, real_name};

use super::read::remember_versions;

/// Keys of user attributes, in contrast to those of operators.
const HIDDEN: [&str; 5] = ["ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage"];

/// The version that programs are upgraded to.
pub(super) const CURRENT: i64 = 10_901;

/// Upgrades a program as MXNet 1.9.1 does.
pub(super) fn upgrade(program: &mut Program) {
    /// The version of a file that does not record one.
    const UNSAID: i64 = 800;
    let version = program.version.unwrap_or(UNSAID);
    for block in &mut program.blocks {
        if version < CURRENT {
            hide_keys(block);
        }
        if version < 900 {
            add_auxiliary_states(block);
        }
        if version < 904 {
            initialise_auxiliary_states(block);
        }
        if version < 905 {
            block.ops.iter_mut().filter(|op| takes_axis(op)).for_each(drop_axis);
        }
    }
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::String(ByteString::from(value))
}

/// Returns the indices of the variables of a block by name.
fn places(block: &Block) -> HashMap<String, usize> {
    block.vars.iter().enumerate().map(|(place, var)| (var.name.clone(), place)).collect()
}

fn hide_keys(block: &mut Block) {
    let places = places(block);
    for var in &mut block.vars {
        hide(&mut var.attributes);
    }
    let Block { vars, ops, .. } = block;
    for op in ops {
        hide(&mut op.attributes);
        let Some(known) = operator(&op.kind) else { continue };
        let args = op.inputs.first().map(|operand| operand.args.as_slice()).unwrap_or_default();
        op.attributes.retain(|attribute| {
            let split = HIDDEN.iter().find_map(|key| {
                let argument = attribute.name.strip_suffix(key)?.strip_suffix('_')?;
                Some((argument, *key))
            });
            let Some((argument, key)) = split else { return true };
            let slot = known.inputs.iter().position(|input| *input == argument);
            let place = slot.and_then(|slot| places.get(args.get(slot)?));
            let Some(var) = place.and_then(|place| vars.get_mut(*place)) else { return true };
            set(&mut var.attributes, &format!("__{key}__"), attribute.value.clone());
            false
        });
    }
}

/// Renames bare keys to hidden ones.
fn hide(attributes: &mut Vec<Attribute>) {
    let bare = |attribute: &Attribute| HIDDEN.contains(&attribute.name.as_str());
    if !attributes.iter().any(bare) {
        return;
    }
    let (bare, mut rest): (Vec<_>, Vec<_>) = attributes.drain(..).partition(bare);
    for Attribute { name, value } in bare {
        set(&mut rest, &format!("__{name}__"), value);
    }
    *attributes = rest;
}

fn set(attributes: &mut Vec<Attribute>, name: &str, value: AttributeValue) {
    match attributes.iter_mut().find(|attribute| attribute.name == name) {
        Some(attribute) => attribute.value = value,
        None => attributes.push(Attribute { name: name.to_owned(), value }),
    }
}

fn add_auxiliary_states(block: &mut Block) {
    let mut places = places(block);
    let Block { vars, ops, .. } = block;
    for op in ops {
        let Some(known) = operator(&op.kind) else { continue };
        let others = known.inputs.len().saturating_sub(known.auxiliary.len());
        let Some(operand) = op.inputs.first_mut() else { continue };
        if known.auxiliary.is_empty() || operand.args.len() != others {
            continue;
        }
        for state in &known.auxiliary {
            let name = format!("{}_{state}", op.name);
            if !places.contains_key(&name) {
                places.insert(name.clone(), vars.len());
                vars.push(Var {
                    name: name.clone(),
                    value: TensorType::default().into(),
                    attributes: op.attributes.clone(),
                    ..Var::default()
                });
            }
            operand.args.push(name);
        }
        // As MXNet leaves them.
        let versions = vec![0; operand.args.len()];
        remember_versions(op, &versions);
    }
}

fn initialise_auxiliary_states(block: &mut Block) {
    let places = places(block);
    let Block { vars, ops, .. } = block;
    for op in ops {
        let Some(known) = operator(&op.kind) else { continue };
        for (slot, name) in known.inputs.iter().zip(op.input("")) {
            let value = match *slot {
                "moving_mean" => r#"["zero", {}]"#,
                "moving_var" => r#"["one", {}]"#,
                _ => continue,
            };
            if let Some(var) = places.get(name).and_then(|place| vars.get_mut(*place)) {
                set(&mut var.attributes, "__init__", text(value));
            }
        }
    }
}

fn takes_axis(op: &Op) -> bool {
    matches!(real_name(&op.kind), "argmax" | "argmin")
}

fn drop_axis(op: &mut Op) {
    op.attributes.retain(|attribute| attribute.name != "axis" || attribute.value != text("-1"));
}
