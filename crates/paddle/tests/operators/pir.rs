//! The same operators in PIR, as PaddlePaddle 3.3.1 translates them, give the recorded results.
//!
//! `golden/make_paddle_pir.py` translates the recorded programs of one operator, and `golden/make_paddle_pir_training.py`
//! trains networks.

use std::collections::HashMap;

use lodstone_formats::paddle::pir;
use lodstone_lowering::lower;
use lodstone_lowering::pir::to_run;
use lodstone_model::{Dialect, Limits, Model, Parameter, Report, Tensor};
use lodstone_paddle::executor::{Dirs, Executor, Scope};
use lodstone_schema::paddle::{Release, loss};
use lodstone_store::Blob;
use serde_json::Value as Json;

use super::difference;
use super::recorded::{self, GRADIENTS, OPERATORS, Recorded, pir_lines, pir_tensor, recorded};

/// Cases that PaddlePaddle's translator changes, with the reason.
const CHANGED: &[(&str, &[&str], &str)] = &[
    (OPERATORS, &["elementwise_pow-3", "elementwise_pow-4"], "it drops the attribute `axis`"),
    (OPERATORS, &["fc-1", "fc-2", "fc-3"], "it writes an operator of oneDNN"),
    (OPERATORS, &["fill_constant-9", "fill_constant-12"], "it drops the attribute `str_value`"),
    (OPERATORS, &["matmul-9", "matmul-19"], "it drops how `matmul` broadcasts"),
    (OPERATORS, &["pow-6"], "it drops the input `FactorTensor`"),
    (GRADIENTS, &["meshgrid-1", "pow-6"], "it drops an input"),
    (
        OPERATORS,
        &[
            "reduce_max-6",
            "reduce_max-7",
            "reduce_mean-6",
            "reduce_mean-7",
            "reduce_min-6",
            "reduce_min-7",
            "reduce_sum-6",
            "reduce_sum-7",
        ],
        "it drops the attribute `reduce_all`",
    ),
    (
        OPERATORS,
        &["set_value-10", "set_value-11", "set_value-12"],
        "it drops values that are not scalars",
    ),
    (OPERATORS, &["strided_slice-6"], "it drops the attribute `decrease_axis`"),
];

/// Describes what is wrong with the results of a case; `None` if they are right.
fn failure(recorded: &Recorded, case: &Json, program: &Json) -> Option<String> {
    let (_, mut feed, wanted) = recorded.case(case);
    let text = serde_json::to_vec(program).unwrap();
    let limits = Limits::default();
    let program = match pir::read(&Blob::memory(text), &limits) {
        Ok(program) => program,
        Err(error) => return Some(error.to_string()),
    };
    let mut model = Model::default();
    model.set_main(program);
    if let Err(error) = to_run(&mut model) {
        return Some(error.to_string());
    }
    // The results are those of 2.6.2.
    model.main_mut().unwrap().version = Some(Release::WRITTEN.number());
    for (name, tensor) in &mut feed {
        // The translator replaces the shape that an operator keeps for its gradient by its input, if that has a use.
        if name.starts_with("XShape") && case["kind"] != "transpose2_grad" {
            tensor.shape.remove(0);
            let size = tensor.dtype.size_of(&tensor.shape).unwrap();
            tensor.data = Blob::memory(vec![0; usize::try_from(size).unwrap()]);
        }
    }
    let fetch: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let program = model.main().unwrap();
    let found =
        Executor::default().run(program, &mut Scope::default(), &feed, &fetch, &Dirs::default());
    let found = match found {
        Ok(found) => found,
        Err(error) => return Some(error.to_string()),
    };
    let pairs = wanted.iter().zip(&found);
    let differences = pairs.filter_map(|((name, wanted), found)| {
        difference(wanted, found).map(|what| format!("`{name}`: {what}"))
    });
    let differences: Vec<String> = differences.collect();
    (!differences.is_empty()).then(|| differences.join("; "))
}

#[test]
fn operators_translated_to_pir_compute_what_paddlepaddle_computed() {
    let folders: HashMap<&str, Recorded> =
        [OPERATORS, GRADIENTS].into_iter().map(|folder| (folder, recorded(folder))).collect();
    let programs = pir_lines("operators.jsonl.gz");
    assert!(programs.len() > 4600, "found {} programs", programs.len());
    let cases: HashMap<(&str, &str), &Json> = folders
        .iter()
        .flat_map(|(folder, recorded)| {
            recorded.cases.iter().map(|case| ((*folder, case["name"].as_str().unwrap()), case))
        })
        .collect();
    let is_changed = |folder: &str, name: &str| {
        CHANGED.iter().any(|(known, names, _)| *known == folder && names.contains(&name))
    };
    let mut wrong = Vec::new();
    for line in &programs {
        let (folder, name) = (line["folder"].as_str().unwrap(), line["name"].as_str().unwrap());
        let what = failure(&folders[folder], cases[&(folder, name)], &line["pir"]);
        match what {
            Some(what) if !is_changed(folder, name) => {
                wrong.push(format!("{folder}, {name}: {what}"))
            }
            None if is_changed(folder, name) => wrong.push(format!("{folder}, {name} passes")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn tensors(told: &Json) -> Vec<(&str, Tensor)> {
    told.as_object().unwrap().iter().map(|(name, told)| (name.as_str(), pir_tensor(told))).collect()
}

#[test]
fn training_programs_take_the_steps_that_paddlepaddle_took() {
    let programs = pir_lines("training.jsonl.gz");
    assert!(programs.len() >= 5);
    for line in &programs {
        let name = &line["name"];
        let text = serde_json::to_vec(&line["pir"]).unwrap();
        let mut model = Model::default();
        model.set_main(pir::read(&Blob::memory(text), &Limits::default()).unwrap());
        lower(&mut model, Dialect::Paddle, &mut Report::default()).unwrap().unwrap();
        let parameter =
            |(name, tensor): (&str, Tensor)| Parameter { name: name.to_owned(), tensor };
        model.parameters = tensors(&line["before"]).into_iter().map(parameter).collect();
        let program = model.main().unwrap();
        let loss = loss(program).unwrap_or_else(|| panic!("{name} has no loss")).to_owned();
        let feed = tensors(&line["inputs"]);
        let mut scope = Scope::of(&model).unwrap();
        for (step, wanted) in line["losses"].as_array().unwrap().iter().enumerate() {
            let mut executor = Executor::default();
            let found =
                executor.run(program, &mut scope, &feed, &[&loss], &Dirs::default()).unwrap();
            let difference = recorded::difference(&pir_tensor(wanted), &found[0], (2e-5, 1e-6));
            assert_eq!(difference, None, "{name}, step {step}");
        }
        for (variable, wanted) in tensors(&line["after"]) {
            let found = scope.tensor(variable).unwrap();
            let difference = recorded::difference(&wanted, found, (1e-4, 2e-5));
            assert_eq!(difference, None, "{name}, `{variable}`");
        }
    }
}
