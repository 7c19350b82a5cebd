//! Making values the outputs of a program.

use std::collections::{HashMap, HashSet};

use lodstone_model::{Attribute, AttributeValue, ByteString, Model, Op, Operand, ValueType, Var};

use super::{FETCH, NAME};
use crate::prune::{self, Unprunable};

/// Makes values the outputs: each is fetched under its own name.
pub(super) fn select(model: &mut Model, outputs: &[&str]) -> Result<(), Unprunable> {
    let Some(program) = model.main() else { return Ok(()) };
    let mut program = prune::pruned(program, outputs.iter().copied());
    let mut taken: HashSet<String> = program.vars().map(|var| var.name.clone()).collect();
    let Some(main) = program.blocks.first_mut() else { return Ok(()) };
    let types: HashMap<&str, &ValueType> =
        main.vars.iter().map(|var| (var.name.as_str(), &var.value)).collect();
    let types: Vec<ValueType> = outputs
        .iter()
        .map(|name| types.get(name).map(|it| (*it).clone()).unwrap_or_default()) // Not declared.
        .collect();
    for ((column, name), value) in (0_i64..).zip(outputs).zip(types) {
        let mut result = format!("{name}.{FETCH}");
        while !taken.insert(result.clone()) {
            result.push('_');
        }
        main.vars.push(Var { name: result.clone(), value, ..Var::default() });
        let operand =
            |name: &str| vec![Operand { slot: String::new(), args: vec![name.to_owned()] }];
        let attribute = |name: &str, value| Attribute { name: name.to_owned(), value };
        main.ops.push(Op {
            kind: FETCH.to_owned(),
            inputs: operand(name),
            outputs: operand(&result),
            attributes: vec![
                attribute(NAME, AttributeValue::String(ByteString::from(*name))),
                attribute("col", AttributeValue::Long(column)),
            ],
            ..Op::default()
        });
    }
    prune::retain_declared(&mut program, |_| false);
    prune::replace_main(model, program);
    Ok(())
}
