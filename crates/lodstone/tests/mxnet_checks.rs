//! What MXNet programs declare is checked: attributes, types of inputs, dims, and shapes of parameters.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use std::path::{Path, PathBuf};

use crate::mxnet_runs::{differ, difference_within, exported, inputs, names, near, recorded};
use lodstone::model::{Attribute, AttributeValue, ByteString, TensorType};
use lodstone::run::tensors;
use lodstone::verify::Verification;
use lodstone::{
    ConvertOptions, DType, Dim, MemoryStore, Model, OpenOptions, Parameter, Progress, RunOptions,
    convert, open, run, verify,
};
use lodstone_schema::mxnet::{Values, attributes};

fn golden(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder)
}

/// Returns the models in a folder whose names begin with one of some words, and their inputs.
fn models_in(folder: &str, words: &[&str]) -> Vec<(String, Model, Vec<Parameter>)> {
    let folder = golden(folder);
    let is_it = |name: &String| words.iter().any(|word| name.starts_with(word));
    let one = |name: String| {
        let model = open(folder.join(&name)).expect("a model");
        let (given, _) = recorded(&folder, &name);
        (name, model, given)
    };
    names(&folder).into_iter().filter(is_it).map(one).collect()
}

fn models(words: &[&str]) -> Vec<(String, Model, Vec<Parameter>)> {
    models_in("../../../lowering/tests/golden/mxnet", words)
}

/// Models of many operators, whose dims MXNet infers.
const INFERRED: &str = "mxnet_inferred";

#[test]
fn programs_whose_dims_are_inferred_return_what_mxnet_returned() {
    let folder = golden(INFERRED);
    let all = names(&folder);
    assert!(all.len() >= 9, "{} models", all.len());
    for name in all {
        let wrong = difference_within(&folder, &name, &|_| near(&name));
        assert_eq!(wrong, None, "{name}");
    }
}

/// Returns the error of a model with another attribute of an operator.
fn error_with(model: &Model, place: (usize, usize), name: &str, given: &[Parameter]) -> String {
    let mut changed = model.clone();
    let main = changed.programs.main_mut().expect("a program");
    let op = &mut main.blocks[place.0].ops[place.1];
    op.attributes.retain(|attribute| attribute.name != name);
    let value = AttributeValue::String(ByteString::from("bogus"));
    op.attributes.push(Attribute { name: name.to_owned(), value });
    let error = run(&changed, inputs(given), &RunOptions::default());
    error.map(|_| String::new()).unwrap_or_else(|error| error.to_string())
}

#[test]
fn bogus_attributes_and_values_are_errors_of_every_operator() {
    let (mut operators, mut sets) = (0, 0);
    for (name, model, given) in models(&[""]) {
        let blocks = &model.main().expect("a program").blocks;
        // Subgraphs are only walked with the operators that run them.
        for (number, op) in blocks[0].ops.iter().enumerate() {
            let error = error_with(&model, (0, number), "no_such_attribute", &given);
            let is_named = error.contains("`no_such_attribute`") && error.contains(&op.kind);
            assert!(is_named, "{name}, {}: {error}", op.kind);
            operators += 1;
            for (attribute, values) in attributes(&op.kind).iter().flat_map(|known| known.all()) {
                let first = match values {
                    Values::Any => continue,
                    Values::Boolean { .. } => "`True`".to_owned(),
                    Values::Words(words) => format!("`{}`", words[0]),
                };
                let error = error_with(&model, (0, number), attribute, &given);
                let is_listed = error.contains("`bogus`") && error.contains(&first);
                assert!(is_listed, "{name}, {}, {attribute}: {error}", op.kind);
                sets += 1;
            }
        }
    }
    assert!(operators > 200 && sets > 200, "{operators} operators, {sets} sets");
}

/// Exports a model with unknown dims, and returns how its results differ from the recorded ones.
fn open_difference(name: &str, mut model: Model, open_axes: &[usize]) -> Option<String> {
    let (given, expected) = recorded(&golden(INFERRED), name);
    let main = model.programs.main_mut().expect("a program");
    for var in &mut main.blocks[0].vars {
        let Some(input) = given.iter().find(|it| it.name == var.name) else { continue };
        let dim = |(axis, dim): (usize, &u64)| match open_axes.contains(&axis) {
            true => Dim::Unknown,
            false => Dim::Known(*dim),
        };
        let dims = input.tensor.shape.iter().enumerate().map(dim).collect();
        var.value = TensorType::new(input.tensor.dtype, Some(dims)).into();
    }
    let exported = exported(model, &[]).expect("an export");
    let found = run(&exported, inputs(&given), &RunOptions::default()).expect("a run");
    differ(&tensors(found), &expected, &|_| near(name))
}

#[test]
fn windows_of_unknown_dims_are_those_of_known_ones() {
    let all = models_in(INFERRED, &["windows_", "pad_reflect_"]);
    assert_eq!(all.len(), 3);
    for (name, model, _) in all {
        assert_eq!(open_difference(&name, model, &[0, 2, 3]), None, "{name}");
    }
}

#[test]
fn fills_have_the_unknown_dims_of_the_values_that_they_meet() {
    let all = models_in(INFERRED, &["cell_", "open_fill_"]);
    assert!(all.len() >= 6, "{} models", all.len());
    for (name, model, _) in all {
        assert_eq!(open_difference(&name, model, &[0]), None, "{name}");
    }
    for (name, model, _) in models_in(INFERRED, &["rnn_open_state_"]) {
        assert_eq!(open_difference(&name, model, &[0, 1]), None, "{name}");
    }
}

#[test]
fn a_dim_that_nothing_determines_is_an_error_with_its_place() {
    let (_, mut model, given) = models_in(INFERRED, &["open_fill_"]).remove(0);
    let main = &mut model.main_mut().expect("a program").blocks[0];
    // Without the operators that give it a dim.
    let fill = main.ops.iter().find(|op| op.kind == "_full").expect("a fill").clone();
    main.outputs = vec![fill.output("")[0].clone()];
    main.ops = vec![fill];
    let error = run(&model, inputs(&given), &RunOptions::default()).expect_err("an error");
    let error = error.to_string();
    assert!(error.contains("`_full`") && error.contains("dim 0 of `shape`"), "{error}");
}

/// Returns the element type of the only input of an export.
fn exported_type(model: Model, options: &ConvertOptions) -> lodstone::Result<DType> {
    let location = MemoryStore::default().location("exported.onnx");
    convert(model, location.clone(), options)?;
    let exported = lodstone::open(location)?;
    let main = exported.main().expect("a program");
    let input = main.vars().find(|var| var.name == "data").expect("an input");
    Ok(input.value.tensor_type().expect("a tensor").dtype)
}

#[test]
fn inputs_have_the_declared_types_those_of_parameters_or_the_given_ones() {
    let shapes = |dims: &[u64]| {
        let dims = dims.iter().map(|dim| Dim::Known(*dim)).collect();
        ConvertOptions::default().with_input_shapes(vec![("data".to_owned(), dims)])
    };
    let model = |word: &str| models(&[word]).remove(0).1;
    let declared = exported_type(model("half_1"), &shapes(&[2, 3]));
    assert_eq!(declared.expect("an export"), DType::Float16);
    let by_use = exported_type(model("half_by_use"), &shapes(&[3, 4]));
    assert_eq!(by_use.expect("an export"), DType::Float16);
    let plain = model("act_");
    let none = exported_type(plain.clone(), &shapes(&[2, 3]));
    assert_eq!(none.expect("an export"), DType::Float32);
    let types = |dtype| vec![("data".to_owned(), dtype)];
    let given = shapes(&[2, 3]).with_input_types(types(DType::Float64));
    assert_eq!(exported_type(plain, &given).expect("an export"), DType::Float64);

    let options = shapes(&[2, 3]).with_input_types(types(DType::Float32));
    let error = exported_type(model("half_1"), &options).expect_err("a contradiction").to_string();
    assert!(error.contains("`data`: expected float16"), "{error}");
    let unknown = vec![("x".to_owned(), DType::Float32)];
    let options = ConvertOptions::default().with_input_types(unknown);
    let error = exported_type(model("act_"), &options).expect_err("an unknown input").to_string();
    assert!(error.contains("there is no input `x`"), "{error}");
}

#[test]
fn an_unknown_type_of_a_variable_is_an_error() {
    let (_, mut model, given) = models(&["half_1"]).remove(0);
    let var = &mut model.main_mut().expect("a program").blocks[0].vars[0];
    for attribute in var.attributes.iter_mut().filter(|it| it.name == "__dtype__") {
        attribute.value = AttributeValue::String(ByteString::from("77"));
    }
    let error = run(&model, inputs(&given), &RunOptions::default()).expect_err("an error");
    assert!(error.to_string().contains("from 0 to 12"), "{error}");
}

fn verification(path: &Path) -> Verification {
    verify(path, &OpenOptions::default(), &Progress::default()).expect("a verification")
}

#[test]
fn parameters_that_contradict_attributes_are_not_whole() {
    let path = golden("mxnet_parameters").join("contradictory-symbol.json");
    let found = verification(&path);
    assert!(!found.whole, "{found:?}");
    let found: Vec<&str> = found.findings.iter().map(|it| it.message.as_str()).collect();
    assert!(
        found[0].contains("`fc`")
            && found[0].contains("[2, ?] of `weight`")
            && found[0].contains("[3, 5]"),
        "{found:?}"
    );
    // All others are whole.
    for name in names(&golden("../../../lowering/tests/golden/mxnet")) {
        let found = verification(
            &golden("../../../lowering/tests/golden/mxnet").join(format!("{name}-symbol.json")),
        );
        assert!(found.whole, "{name}: {:?}", found.findings);
    }
}

#[test]
fn a_file_of_weights_notes_parameters_that_the_program_replaces() {
    let model = open(golden("mxnet_parameters").join("fixed_gamma-symbol.json")).expect("a model");
    let location = MemoryStore::default().location("weights.safetensors");
    let options = ConvertOptions::default().with_weights_only(true);
    let done = convert(model.clone(), location, &options).expect("a conversion");
    let notes = done.report.warnings.join("; ");
    assert!(notes.contains("`fc1_gamma`") && notes.contains("fix_gamma"), "{notes}");
    // Of a gamma of ones, and of one that is used, there is nothing to note.
    let mut free = model;
    let op = &mut free.main_mut().expect("a program").blocks[0].ops[1];
    let value = AttributeValue::String(ByteString::from("False"));
    op.attributes.push(Attribute { name: "fix_gamma".to_owned(), value });
    let location = MemoryStore::default().location("weights.safetensors");
    let done = convert(free, location, &options).expect("a conversion");
    assert!(!done.report.warnings.iter().any(|it| it.contains("fix_gamma")), "{done:?}");
}

#[test]
fn missing_parameters_are_named_by_an_export() {
    let model = open(golden("mxnet_parameters").join("missing-symbol.json")).expect("a model");
    let dims = vec![Dim::Known(4), Dim::Known(5)];
    let options = ConvertOptions::default().with_input_shapes(vec![("data".to_owned(), dims)]);
    let location = MemoryStore::default().location("exported.onnx");
    let error = convert(model, location, &options).expect_err("an error").to_string();
    for name in ["`bn_moving_var`", "`fc2_bias`"] {
        assert!(error.contains(&format!("the parameter {name}")), "{error}");
    }
}
