//! Making values of a program its outputs.

use std::collections::HashSet;

use lodstone_model::{Model, Program, ValueType, Var};
use lodstone_schema::{conventions, select};

use crate::adapt::globs;
use crate::error::no_program;
use crate::names::{MAX_SUGGESTIONS, similar};
use crate::{Error, Result};

/// Makes values of the main graph the outputs of the program of a model, in this order, and removes what they do not depend on:
/// operators, inputs, and parameters. Operators with other effects, such as files, stay. A name stands for the value of
/// that name, or, as a pattern (`*`, `?`, `[..]`, `{a,b}`), for all computed values that match, in the order of the program.
///
/// ```
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/golden/onnx_models/images.onnx");
/// let mut model = lodstone::open(path)?;
/// lodstone::convert::select_outputs(&mut model, &["relu*".to_owned()])?;
/// assert_eq!(model.parameters.len(), 2); // Of the first convolution.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the model has no program, a name stands for no value, or a value cannot be an output; then nothing is changed.
pub fn select_outputs(model: &mut Model, names: &[String]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let names = matching(model, names)?;
    select_named(model, &names)
}

/// Makes these values the outputs.
pub(crate) fn select_named(model: &mut Model, names: &[String]) -> Result<()> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let inferred = model.main().and_then(|program| (conventions(program).infer)(model));
    select(model, &names).map_err(|error| Error::output(&error.variable, error.finding))?;
    let Some(main) = model.main_mut().and_then(|program| program.blocks.first_mut()) else {
        return Ok(());
    };
    // Programs with rules of inference declare the types of their outputs.
    let Some(known) = inferred.as_ref().and_then(|inferred| inferred.blocks.first()) else {
        return Ok(());
    };
    let declared: HashSet<String> = main.vars.iter().map(|var| var.name.clone()).collect();
    for name in names.into_iter().filter(|name| !declared.contains(*name)) {
        if let Some(info) = known.get(name).filter(|info| info.value != ValueType::Unspecified) {
            let (name, value) = (name.to_owned(), info.value.clone());
            main.vars.push(Var { name, value, ..Var::default() });
        }
    }
    Ok(())
}

/// Returns the values that names and patterns stand for, each once.
///
/// # Errors
/// As [`select_outputs`].
pub(crate) fn matching(model: &Model, names: &[String]) -> Result<Vec<String>> {
    let program = model.main().ok_or_else(|| no_program(model))?;
    let values = values(program);
    let mut found: Vec<&str> = Vec::new();
    let mut seen = HashSet::new();
    for name in names {
        match values.get(name.as_str()) {
            Some(value) => found.extend(seen.insert(*value).then_some(*value)),
            None => {
                let patterns = globs(std::slice::from_ref(name))?;
                let computed = computed(program).filter(|value| patterns.is_match(value));
                let before = found.len();
                let mut is_matched = false;
                for value in computed {
                    is_matched = true;
                    found.extend(seen.insert(value).then_some(value));
                }
                if !is_matched && found.len() == before {
                    return Err(no_output(model, name, |_| true));
                }
            }
        }
    }
    Ok(found.into_iter().map(str::to_owned).collect())
}

/// Returns the values that operators of the main graph compute.
fn computed(program: &Program) -> impl Iterator<Item = &str> {
    let main = program.blocks.first();
    main.into_iter().flat_map(|main| &main.ops).flat_map(|op| op.writes())
}

/// Returns the names of the values of the main graph: variables, results, inputs and parameters.
pub(crate) fn values(program: &Program) -> HashSet<&str> {
    let main = program.blocks.first();
    let vars = main.iter().flat_map(|main| &main.vars).map(|var| var.name.as_str());
    let ops = main.iter().flat_map(|main| &main.ops);
    let used = ops.flat_map(|op| op.writes().chain(op.reads()));
    let inputs = main.iter().flat_map(|main| main.inputs.iter().chain(&main.outputs));
    vars.chain(used).chain(inputs.map(String::as_str)).collect()
}

/// Returns the error for a value that a program does not compute. It suggests the outputs of the operator of this name, or
/// the most similar of the values that `is_computed` accepts.
pub(crate) fn no_output(model: &Model, name: &str, is_computed: impl Fn(&str) -> bool) -> Error {
    let main = model.main().and_then(|program| program.blocks.first());
    let ops = || main.iter().flat_map(|main| &main.ops);
    let own = ops().filter(|op| !name.is_empty() && op.name == name).flat_map(|op| op.writes());
    let own = own.filter(|it| is_computed(it)).take(MAX_SUGGESTIONS);
    let own: Vec<String> = own.map(str::to_owned).collect();
    let vars = main.iter().flat_map(|main| &main.vars).map(|var| var.name.as_str());
    let known = ops().flat_map(|op| op.writes()).chain(vars);
    let mut seen = HashSet::new();
    let known = known.filter(|it| !it.is_empty() && is_computed(it) && seen.insert(*it));
    let similar = if own.is_empty() { similar(name, known) } else { own };
    Error::NoSuchOutput { name: name.to_owned(), similar }
}
