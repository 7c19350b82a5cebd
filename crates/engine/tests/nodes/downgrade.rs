//! Node tests that are upgraded to the newest opset, and downgraded, still pass the checker and compute the recorded
//! results. What cannot be downgraded names its operator and the lowest opset, which then succeeds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lodstone_engine::{Budget, Context, Executable, ExecutableOptions, Threads, Value};
use lodstone_model::{Attribute, AttributeValue, Model, Op, Operand, Parameter};
use lodstone_schema::onnx::downgrade::{OLDEST_OPSET, Target, minimum_opset};
use lodstone_schema::onnx::infer::{Inference, Options, infer};
use lodstone_schema::onnx::{DowngradeError, NEWEST_OPSET, UpgradeError, downgrade, upgrade};
use lodstone_schema::{Finding, Findings, conventions};

use super::{Case, MEMORY, Named, are_same, case_of, cases, finding, golden, listed, open};

/// The versions that are written: those that runtimes commonly read.
const OPSETS: [i64; 6] = [11, 13, 15, 17, 19, 21];

/// A node test of the newest opset.
struct Subject {
    model: Model,
    /// The values of the inputs that are not constants.
    inputs: Vec<Named>,
    expected: Vec<Named>,
    inference: Inference,
}

/// Returns a case of the newest opset, with its inputs as inputs or as constants; none if it has no operators of ONNX.
fn subject(model: Model, constants: bool) -> Option<Subject> {
    let Case { mut program, inputs: values, expected } = case_of(model).expect("a case");
    let (mut parameters, mut inputs) = (Vec::new(), Vec::new());
    for (name, value) in values {
        match value.tensor() {
            Ok(tensor) if constants => parameters.push(Parameter { name, tensor }),
            _ => inputs.push((name, value)),
        }
    }
    let block = program.blocks.first_mut().expect("a graph");
    block.inputs.retain(|name| !parameters.iter().any(|parameter| parameter.name == *name));
    let mut model = Model { parameters, ..Model::default() };
    model.set_main(program);
    match upgrade(&mut model, NEWEST_OPSET) {
        Err(UpgradeError::NoOperators) => return None,
        made => made.expect("upgraded"),
    }
    let inference = infer(&model, &Options::default());
    Some(Subject { model, inputs, expected, inference })
}

fn findings(model: &Model) -> Findings {
    let conventions = conventions(model.main().expect("a program"));
    let inference = (conventions.infer)(model);
    let mut broken = (conventions.check)(model, inference.as_ref());
    broken.extend(inference.map(|inference| inference.findings).unwrap_or_default());
    broken
}

/// Checks and runs a downgraded model.
fn compute(model: &Model, subject: &Subject, is_right: bool) -> Result<(), Finding> {
    let found = findings(model);
    if found.breaks_rules() && !findings(&subject.model).breaks_rules() {
        return Err(format!("the checker: {:?}", found.located).into());
    }
    if !is_right {
        return Ok(());
    }
    let mut model = model.clone();
    let mut program = model.main().cloned().ok_or("there is no program")?;
    let block = program.blocks.first_mut().ok_or("there is no graph")?;
    block.vars.clear();
    block.inputs = subject.inputs.iter().map(|(name, _)| name.clone()).collect();
    block.outputs = subject.expected.iter().map(|(name, _)| name.clone()).collect();
    model.set_main(program);
    let (budget, threads) = (Budget::new(MEMORY), Threads::default());
    let context = Context::new(&budget, &threads);
    let executable =
        Executable::new(&model, &ExecutableOptions::default(), context).map_err(finding)?;
    let inputs: Vec<(&str, Value)> =
        subject.inputs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    are_same(
        &executable.run(inputs.into_iter().collect(), context).map_err(finding)?,
        &subject.expected,
    )
}

/// Returns the opset that a refusal names.
fn needed(message: &str) -> Option<i64> {
    message.rsplit_once("needs opset ")?.1.parse().ok()
}

/// Downgrades a case to one opset; returns whether it was written.
fn attempt(subject: &Subject, opset: i64, is_right: bool) -> Result<bool, Finding> {
    let mut model = subject.model.clone();
    match downgrade(&mut model, &subject.inference, Target::Exactly(opset)) {
        Ok(reached) if reached == opset => compute(&model, subject, is_right).map(|()| true),
        Ok(reached) => Err(format!("reached opset {reached}").into()),
        Err(DowngradeError::Operators { findings, .. }) => {
            if model.main() != subject.model.main() {
                return Err("a refusal changed the model".into());
            }
            let program = model.main().ok_or("there is no program")?;
            let mut highest = 0;
            for located in &findings.located {
                let text = located.to_string();
                let needed = needed(&text).filter(|needed| *needed > opset);
                highest = highest.max(needed.ok_or_else(|| format!("no opset in: {text}"))?);
                if !program.ops().any(|op| text.contains(&op.kind)) {
                    return Err(format!("no operator in: {text}").into());
                }
            }
            let refused = |opset| {
                let target = Target::Exactly(opset);
                downgrade(&mut model.clone(), &subject.inference, target).err()
            };
            if let Some(error) = refused(highest) {
                return Err(format!("needs opset {highest}, but there: {error}").into());
            }
            if (opset..highest).any(|opset| refused(opset).is_none()) {
                return Err(format!("does not need opset {highest}").into());
            }
            Ok(false)
        }
        Err(other) => Err(other.to_string().into()),
    }
}

/// Returns how many downgrades were written.
fn check(directory: &std::path::Path) -> usize {
    let wrong = listed("wrong.tsv");
    let (mut written, mut told) = (0, Vec::new());
    for name in cases(directory) {
        let model = open(&directory.join(format!("{name}.onnx")));
        let is_right = !wrong.contains_key(&name);
        for constants in [false, true] {
            let Some(subject) = subject(model.clone(), constants) else { continue };
            for opset in OPSETS {
                let made = catch_unwind(AssertUnwindSafe(|| attempt(&subject, opset, is_right)));
                match made.unwrap_or_else(|_| Err("it panics".into())) {
                    Ok(is_written) => written += usize::from(is_written),
                    Err(what) => told.push(format!("{name}, {constants}, {opset}: {what}")),
                }
            }
        }
    }
    assert!(told.is_empty(), "{} things, {written} written:\n{}", told.len(), told.join("\n"));
    written
}

#[test]
fn downgraded_node_tests_compute_the_recorded_results() {
    let written = check(&golden());
    assert!(written > 1000, "{written}");
}

#[test]
fn all_downgraded_node_tests_compute_the_recorded_results() {
    let Some(directory) = std::env::var_os("LODSTONE_ONNX_NODE_TESTS") else { return };
    let written = check(std::path::Path::new(&directory));
    assert!(written > 10_000, "{written}");
}

#[test]
fn opsets_that_cannot_be_written_are_errors() {
    let name = cases(&golden()).into_iter().next().expect("a case");
    let subject = subject(open(&golden().join(format!("{name}.onnx"))), false).expect("a program");
    for requested in [i64::MIN, 0, OLDEST_OPSET - 1, NEWEST_OPSET + 1, i64::MAX] {
        let target = Target::Exactly(requested);
        let error = downgrade(&mut subject.model.clone(), &subject.inference, target);
        assert_eq!(error, Err(DowngradeError::Unknown { requested }));
    }
}

#[test]
fn hostile_operators_are_downgraded_or_refused_without_a_panic() {
    let mut tried = 0;
    for name in cases(&golden()) {
        let model = open(&golden().join(format!("{name}.onnx")));
        let Some(subject) = subject(model, true) else { continue };
        let infos = subject.inference.blocks.first().expect("a graph");
        for op in &subject.model.main().expect("a program").blocks[0].ops {
            for op in mutations(op) {
                let inputs: Vec<_> = op.input("").iter().map(|name| infos.get(name)).collect();
                let without_inputs = vec![None; inputs.len()];
                for inputs in [inputs, without_inputs] {
                    let opset = catch_unwind(AssertUnwindSafe(|| minimum_opset(&op, &inputs)));
                    let opset = opset.unwrap_or_else(|_| panic!("{name}: {op:?}"));
                    assert!((OLDEST_OPSET..=NEWEST_OPSET).contains(&opset), "{name}: {opset}");
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 1000, "{tried}");
}

/// Returns variants of an operator with extreme attributes, fewer inputs and inputs in other places.
fn mutations(op: &Op) -> Vec<Op> {
    let mut made = vec![op.clone()];
    for (place, attribute) in op.attributes.iter().enumerate() {
        for extreme in [i64::MIN, i64::MAX, -1, 0, 1 << 40] {
            let value = match &attribute.value {
                AttributeValue::Long(_) => AttributeValue::Long(extreme),
                AttributeValue::Longs(all) => AttributeValue::Longs(vec![extreme; all.len()]),
                _ => continue,
            };
            let mut op = op.clone();
            op.attributes[place].value = value;
            made.push(op);
        }
        let mut op = op.clone();
        op.attributes.remove(place);
        made.push(op);
    }
    for extreme in [i64::MIN, i64::MAX] {
        for name in ["axis", "num_groups", "num_outputs", "start", "end"] {
            let mut op = op.clone();
            op.attributes.retain(|attribute| attribute.name != name);
            let value = AttributeValue::Long(extreme);
            op.attributes.push(Attribute { name: name.to_owned(), value });
            made.push(op);
        }
    }
    let names = op.input("").to_vec();
    for count in 0..names.len() {
        let mut fewer = op.clone();
        fewer.inputs = vec![Operand { slot: String::new(), args: names[..count].to_vec() }];
        made.push(fewer);
    }
    let mut reversed = op.clone();
    let args = names.into_iter().rev().collect();
    reversed.inputs = vec![Operand { slot: String::new(), args }];
    made.push(reversed);
    made
}
