//! Damaged variants of recorded operators: each is exported to a valid ONNX program, or rejected with its place.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lodstone_lowering::lower;
use lodstone_model::{Dialect, Dim, Model, Parameter, Report, TensorType};
use lodstone_schema::finding::Code;
use lodstone_schema::onnx::check;

use super::hostile::{CASES, Subject, variants};
use super::recorded::{LODS, OPERATORS, SEQUENCES, program, recorded};

/// What is known about the inputs when a program is exported.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// The dims.
    Dims,
    /// The ranks.
    Ranks,
    /// The dims of the first input, and the elements of the others, which are parameters.
    Elements,
}

/// Returns a model of an operator.
fn model(subject: &Subject<'_>, known: Known) -> Model {
    let mut program = program(subject.op.clone(), &subject.feed);
    let mut model = Model::default();
    let vars = program.blocks.iter_mut().flat_map(|block| &mut block.vars);
    for var in vars {
        let place = subject.feed.iter().position(|(name, _)| *name == var.name);
        let Some((place, (name, tensor))) = place.map(|place| (place, &subject.feed[place])) else {
            continue;
        };
        let mut declared = TensorType::of(tensor);
        declared.lod_level = tensor.lod.0.len() as u32;
        match known {
            Known::Dims => {}
            Known::Ranks => {
                declared.shape.iter_mut().flatten().for_each(|dim| *dim = Dim::Unknown);
            }
            Known::Elements => {
                if place > 0 {
                    var.persistable = true;
                    let (name, tensor) = ((*name).to_owned(), tensor.clone());
                    model.parameters.push(Parameter { name, tensor });
                }
            }
        }
        var.value = declared.into();
    }
    model.set_main(program);
    model
}

/// Exports an operator; returns whether it can be, and what is wrong with the answer.
fn failure(subject: &Subject<'_>, known: Known) -> (bool, Option<String>) {
    let mut model = model(subject, known);
    let answer = catch_unwind(AssertUnwindSafe(|| {
        lower(&mut model, Dialect::Onnx, &mut Report::default()).expect("a translation")
    }));
    match answer {
        Err(_) => (false, Some("panics".to_owned())),
        Ok(Ok(_)) => {
            let findings = check(&model);
            let invalid = || format!("is invalid: {:?}", findings.located);
            (true, (!findings.is_empty()).then(invalid))
        }
        Ok(Err(error)) => {
            let mut located = error.findings.located.iter();
            let is_placed = |place: &str| {
                let begins = ["the input `", "the output `", "the parameter `"];
                place == "the program"
                    || begins.iter().any(|begin| place.starts_with(begin))
                    || place.contains(&subject.op.kind)
            };
            let is_reported =
                located.all(|it| it.finding.code != Code::Internal && is_placed(&it.place));
            (false, (!is_reported).then(|| error.to_string()))
        }
    }
}

#[test]
fn damaged_operators_are_exported_or_rejected() {
    let mut wrong: BTreeMap<String, String> = BTreeMap::new();
    let (mut exported, mut refused) = (0, 0);
    for folder in [OPERATORS, SEQUENCES, LODS] {
        let recorded = recorded(folder);
        let mut seen = BTreeMap::<&str, usize>::new();
        for case in &recorded.cases {
            let kind = case["kind"].as_str().unwrap();
            let count = seen.entry(kind).or_default();
            *count += 1;
            if *count > CASES || kind.ends_with("_grad") {
                continue;
            }
            let (op, feed, _) = recorded.case(case);
            for (number, (what, subject)) in variants(&op, &feed).into_iter().enumerate() {
                let known = [Known::Dims, Known::Ranks, Known::Elements][number % 3];
                let (is_exported, failure) = failure(&subject, known);
                *(if is_exported { &mut exported } else { &mut refused }) += 1;
                if let Some(failure) = failure {
                    let what = format!("{}: {what}, {known:?}: {failure}", case["name"]);
                    wrong.entry(kind.to_owned()).or_insert(what);
                }
            }
        }
    }
    let told: Vec<&String> = wrong.values().collect();
    assert!(wrong.is_empty(), "{} kinds fail: {told:#?}", wrong.len());
    assert!(exported > 10_000 && refused > 5_000, "{exported} exported, {refused} refused");
}
