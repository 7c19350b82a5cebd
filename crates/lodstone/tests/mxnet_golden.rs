//! Runs that MXNet recorded, one or more for each family of rules, and hostile variants of them.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod mxnet_runs;

use std::path::{Path, PathBuf};

use lodstone::{
    Attribute, AttributeValue, ByteString, CompareOptions, ConvertOptions, Dim, Inputs,
    MemoryStore, Model, OperatorTarget, Parameter, RunOptions, Tensor, ValueType, compare, convert,
    open, operators, run,
};
use mxnet_runs::{NEAR, difference_within, exported, inputs, names, recorded};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mxnet")
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
    // oneDNN rounds weights and sums of quantized layers that here have single precision.
    let near = |name: &str| if name.starts_with("q_") { 0.03 } else { NEAR };
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
                var.value =
                    ValueType::from(lodstone::TensorType::new(input.tensor.dtype, Some(dims)));
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
