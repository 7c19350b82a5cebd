//! Runs that MXNet recorded, one or more for each family of rules, and hostile variants of them.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use crate::mxnet_runs;
use std::path::{Path, PathBuf};

use crate::mxnet_runs::{difference_within, exported, inputs, names, near, recorded};
use lodstone::model::{Attribute, AttributeValue, ByteString, ValueType};
use lodstone::ops::OperatorTarget;
use lodstone::{
    CompareOptions, ConvertOptions, Dim, Inputs, MemoryStore, Model, Parameter, RunOptions, Tensor,
    compare, convert, open, operators, run,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lowering/tests/golden/mxnet")
}

/// Values that attributes get in turn.
const HOSTILE: &[&str] = &[
    "",
    "None",
    "0",
    "-1",
    "1",
    "7",
    "-9223372036854775808",
    "9223372036854775807",
    "1e300",
    "nan",
    "inf",
    "-inf",
    "()",
    "(0, 0)",
    "(-1,)",
    "(1, 2, 3, 4, 5, 6, 7, 8)",
    "(None, None)",
    "(4294967296, 4294967296)",
    "(0, -4, -4, -4)",
    "(-3, -3, -3)",
    "True",
    "False",
    "float32",
    "int8",
    "no such word",
    "(1",
    "[1, 2]",
    "1000000",
];

#[test]
fn recorded_runs_return_what_mxnet_returned() {
    let folder = folder();
    let all = names(&folder);
    assert!(all.len() >= 40, "there are {} golden files", all.len());
    let one = |name: &String| {
        let what = difference_within(&folder, name, &|_| near(name))?;
        Some(format!("{name}: {what}"))
    };
    let wrong: Vec<String> = all.iter().filter_map(one).collect();
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

/// Runs and exports a changed model. Whatever the result is, it is no panic; an error names the operator.
fn attempt(what: &str, model: &Model, given: &[Parameter]) {
    let options = RunOptions::default().with_max_memory(Some(1 << 28)).with_max_steps(Some(10_000));
    if let Err(error) = run(model, inputs(given), &options) {
        let text = error.to_string();
        assert!(!text.contains("internal error"), "{what}: {text}");
        let is_placed =
            ["operator", "input", "output", "parameter", "memory", "bytes", "declared", "graph"];
        assert!(is_placed.iter().any(|word| text.contains(word)), "{what}: {text}");
    }
    if let Err(error) = exported(model.clone(), given) {
        assert!(!error.to_string().contains("internal error"), "{what}: {error}");
    }
}

/// Returns the recorded models with their inputs.
fn models() -> Vec<(String, Model, Vec<Parameter>)> {
    let folder = folder();
    let one = |name: String| {
        let model = open(folder.join(&name)).expect("a model");
        let (given, _) = recorded(&folder, &name);
        (name, model, given)
    };
    names(&folder).into_iter().map(one).collect()
}

#[test]
fn changed_attributes_are_errors_or_run() {
    for (name, model, given) in models() {
        let blocks = &model.main().expect("a program").blocks;
        for (block, number) in blocks
            .iter()
            .enumerate()
            .flat_map(|(at, block)| (0..block.ops.len()).map(move |op| (at, op)))
        {
            let attributes = blocks[block].ops[number].attributes.clone();
            for (at, attribute) in attributes.iter().enumerate() {
                if !matches!(attribute.value, AttributeValue::String(_)) {
                    continue;
                }
                for text in HOSTILE {
                    let mut changed = model.clone();
                    let main = changed.programs.main_mut().expect("a program");
                    let op = &mut main.blocks[block].ops[number];
                    op.attributes[at].value = AttributeValue::String(ByteString::from(*text));
                    attempt(&format!("{name}: `{}` = `{text}`", attribute.name), &changed, &given);
                }
                let mut changed = model.clone();
                let main = changed.programs.main_mut().expect("a program");
                main.blocks[block].ops[number].attributes.remove(at);
                attempt(&format!("{name}: without `{}`", attribute.name), &changed, &given);
            }
        }
    }
}

#[test]
fn unknown_attributes_are_errors_that_name_the_operator() {
    let (_, mut model, given) =
        models().into_iter().find(|(name, ..)| name.starts_with("conv")).expect("a case");
    let main = model.programs.main_mut().expect("a program");
    let value = AttributeValue::String(ByteString::from("1"));
    main.blocks[0].ops[0].attributes.push(Attribute { name: "kernels".to_owned(), value });
    let error =
        run(&model, inputs(&given), &RunOptions::default()).expect_err("an error").to_string();
    assert!(error.contains("`Convolution`") && error.contains("`kernels`"), "{error}");
}

#[test]
fn changed_inputs_are_errors_or_run() {
    for (name, model, given) in models() {
        for at in 0..given.len() {
            for change in 0..4 {
                let mut changed = given.clone();
                let Some(shape) = reshaped(&given[at].tensor, change) else { continue };
                changed[at].tensor = shape;
                attempt(&format!("{name}: input {at}, change {change}"), &model, &changed);
            }
        }
        let count = model.main().expect("a program").blocks[0].ops.len();
        for number in 0..count {
            let mut changed = model.clone();
            let main = changed.programs.main_mut().expect("a program");
            let op = &mut main.blocks[0].ops[number];
            let first = op.inputs.first_mut().and_then(|operand| operand.args.pop());
            if first.is_some() {
                attempt(&format!("{name}: operator {number} without an input"), &changed, &given);
            }
        }
    }
}

/// Returns a tensor of another shape: flat, with a dim of 1 before, with its first dim 0, or all dims known and reversed.
fn reshaped(tensor: &Tensor, change: u32) -> Option<Tensor> {
    let mut other = tensor.clone();
    match change {
        0 => other.shape = vec![tensor.shape.iter().product()],
        1 => other.shape.insert(0, 1),
        2 => {
            *other.shape.first_mut()? = 0;
            other.data = lodstone::Blob::memory(Vec::new());
        }
        _ => other.shape.reverse(),
    }
    Some(other)
}

#[test]
fn programs_are_exported_with_an_unknown_batch() {
    let mut count = 0;
    for (name, model, given) in models() {
        if !["conv_", "fc_", "pool_", "bn_", "act_", "flat_"].iter().any(|it| name.starts_with(it))
        {
            continue;
        }
        let mut open_batch = model.clone();
        let main = open_batch.programs.main_mut().expect("a program");
        for var in &mut main.blocks[0].vars {
            if let Some(input) = given.iter().find(|it| it.name == var.name) {
                let mut dims: Vec<Dim> =
                    input.tensor.shape.iter().map(|dim| Dim::Known(*dim)).collect();
                dims[0] = Dim::Unknown;
                var.value = ValueType::from(lodstone::model::TensorType::new(
                    input.tensor.dtype,
                    Some(dims),
                ));
            }
        }
        let exported = exported(open_batch, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let twice: Inputs = inputs(&given);
        run(&exported, twice, &RunOptions::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        count += 1;
    }
    assert!(count >= 5, "{count} programs");
}

#[test]
fn all_operators_are_reported_as_supported() {
    for (name, model, _) in models() {
        for target in [OperatorTarget::Onnx, OperatorTarget::Run] {
            let report = operators(&model, target).expect("a report");
            assert!(report.supported, "{name}: {report:?}");
        }
    }
}

#[test]
fn a_model_equals_its_export() {
    for (name, model, given) in models().into_iter().filter(|(name, ..)| name.starts_with("conv_"))
    {
        let exported = exported(model.clone(), &given).expect("an export");
        let options = CompareOptions::default();
        let compared = compare(&model, &exported, inputs(&given), &options).expect("a comparison");
        assert!(compared.same, "{name}: {compared:?}");
    }
}

#[test]
fn a_program_without_known_dims_asks_for_them() {
    let (_, model, _) =
        models().into_iter().find(|(name, ..)| name.starts_with("fc_")).expect("a case");
    let location = MemoryStore::default().location("exported.onnx");
    let error = convert(model, location, &ConvertOptions::default()).expect_err("an error");
    assert!(error.to_string().contains("the rank of `data` must be known"), "{error}");
}

#[test]
fn convolutions_determine_the_rank_and_the_channels_of_inputs() {
    let mut count = 0;
    for (name, model, given) in models() {
        if !name.starts_with("conv") {
            continue;
        }
        let location = MemoryStore::default().location("exported.onnx");
        convert(model, location.clone(), &ConvertOptions::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let exported = lodstone::open(location).expect("a model");
        let main = exported.main().expect("a program");
        let input = main.vars().find(|var| var.name == given[0].name).expect("an input");
        let shape = input.value.tensor_type().and_then(|tensor| tensor.shape.clone());
        let shape = shape.expect("dims");
        assert_eq!(shape.len(), given[0].tensor.shape.len(), "{name}");
        assert_eq!(shape[1], Dim::Known(given[0].tensor.shape[1]), "{name}");
        assert_eq!(shape[2], Dim::Unknown, "{name}");
        run(&exported, inputs(&given), &RunOptions::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        count += 1;
    }
    assert!(count >= 1, "{count} programs");
}

/// Draws numbers, in the engine and after an export.
#[test]
fn random_numbers_have_their_distributions() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mxnet_random/random-symbol.json");
    let list = |shape: &[u64], numbers: &[f32]| {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        Tensor::dense(lodstone::DType::Float32, shape.to_vec(), bytes.into())
    };
    let data: Vec<f32> = (0..4000_u16).map(f32::from).collect();
    let given: Vec<Parameter> = [
        ("data", list(&[4000], &data)),
        ("low", list(&[2], &[-3.0, 10.0])),
        ("high", list(&[2], &[2.0, 20.0])),
        ("chances", list(&[2, 3], &[0.5, 0.25, 0.25, 0.0, 0.9, 0.1])),
    ]
    .into_iter()
    .map(|(name, tensor)| Parameter { name: name.to_owned(), tensor })
    .collect();
    let model = open(&path).expect("a program");
    let copy = exported(model.clone(), &given).expect("an export");
    for model in [model, copy] {
        let results = run(&model, inputs(&given), &RunOptions::default()).expect("a run");
        let results = lodstone::run::tensors(results);
        let found = |name: &str| {
            let it = results.iter().find(|it| it.name.starts_with(name)).expect(name);
            (it.tensor.shape.clone(), mxnet_runs::numbers(&it.tensor))
        };
        // Mean and deviation of each row of numbers.
        let check = |name: &str, shape: &[u64], expected: &[(f64, f64)], range: (f64, f64)| {
            let (dims, numbers) = found(name);
            assert_eq!(dims, shape, "{name}");
            let is_inside = |number: &f64| *number >= range.0 && *number <= range.1;
            assert!(numbers.iter().all(is_inside), "{name}");
            for (row, (mean, deviation)) in
                numbers.chunks(numbers.len() / expected.len()).zip(expected)
            {
                let count = row.len() as f64;
                let own = row.iter().sum::<f64>() / count;
                let spread = (row.iter().map(|it| (it - own).powi(2)).sum::<f64>() / count).sqrt();
                // Five times the error of a mean.
                let near = 5.0 * deviation / count.sqrt();
                assert!((own - mean).abs() < near, "{name}: mean {own}, expected {mean}");
                assert!((spread / deviation - 1.0).abs() < 0.2, "{name}: {spread}, {deviation}");
            }
        };
        let all = (f64::MIN, f64::MAX);
        let uniform = |low: f64, high: f64| ((low + high) / 2.0, (high - low) / 12_f64.sqrt());
        check("uniform_output", &[64, 64], &[uniform(2.0, 5.0)], (2.0, 5.0));
        check("normal_output", &[64, 64], &[(1.0, 2.0)], all);
        check("exponential_output", &[64, 64], &[(0.5, 0.5)], (0.0, f64::MAX));
        check("randint_output", &[64, 64], &[(4.5, 1.25_f64.sqrt())], (3.0, 6.0));
        check("uniform_like_output", &[4000], &[uniform(-1.0, 0.0)], (-1.0, 0.0));
        check("normal_like_output", &[4000], &[(3.0, 0.1)], all);
        check("exponential_like_output", &[4000], &[(0.25, 0.25)], (0.0, f64::MAX));
        let rows = [uniform(-3.0, 2.0), uniform(10.0, 20.0)];
        check("sample_uniform_output", &[2, 400], &rows, (-3.0, 20.0));
        check("sample_normal_output", &[2, 400], &[(-3.0, 2.0), (10.0, 20.0)], all);
        check("sample_exponential_output", &[2, 400], &[(0.5, 0.5), (0.05, 0.05)], (0.0, f64::MAX));
        let classes = [(0.75, 0.83), (1.1, 0.3)];
        check("multinomial_output0", &[2, 500], &classes, (0.0, 2.0));
        let (_, logs) = found("multinomial_output1");
        let (_, drawn) = found("multinomial_output0");
        let chances = [[0.5_f64, 0.25, 0.25], [0.0, 0.9, 0.1]];
        for (number, (log, class)) in logs.iter().zip(&drawn).enumerate() {
            let place = (0..3_u8).position(|it| f64::from(it) == *class).expect("a class");
            let expected = chances[number / 500][place].ln();
            assert!((log - expected).abs() < 1e-5, "{number}: {log}, expected {expected}");
        }
        let (_, mut shuffled) = found("shuffle_output");
        let ordered: Vec<f64> = data.iter().map(|it| f64::from(*it)).collect();
        assert_ne!(shuffled, ordered);
        shuffled.sort_by(f64::total_cmp);
        assert_eq!(shuffled, ordered);
    }
}
