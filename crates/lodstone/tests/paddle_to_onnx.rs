//! Exported operators of PaddlePaddle compute what PaddlePaddle 2.6.2 computed, with fixed and with dynamic dims.
//!
//! Each recorded case is exported as a program of its own, written, read and run. With `LODSTONE_EXPORTED=DIR`, the
//! models are kept in `DIR` with their inputs and recorded outputs, for other runtimes to run.

#![expect(clippy::disallowed_methods, reason = "reads golden files directly")]
#![expect(clippy::cast_possible_truncation, reason = "recorded numbers fit")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lodstone::{ConvertOptions, Error, Inputs, RunOptions, Target};
use lodstone_model::{
    Attribute, AttributeValue, DType, Dim, Holder, Kind, Model, Op, Operand, Parameter, Tensor,
    TensorType, Var,
};
use lodstone_schema::paddle::{Plan, operators};
use lodstone_store::Blob;

use crate::paddle_recorded::{
    LODS, OPERATORS, Recorded, SEQUENCES, Tensors, difference, program, recorded,
};

/// The maximum difference of an element from the recorded one: relative, and absolute.
const TOLERANCE: (f64, f64) = (1e-5, 2e-6);

/// Output slots that only gradients read.
const OF_GRADIENTS: [&str; 6] =
    ["BatchCellPreAct", "BatchGate", "BatchHidden", "BatchResetHiddenPrev", "Cell", "MaxIndex"];

/// Input slots with parameters, whose dims are always known.
const PARAMETERS: [&str; 9] =
    ["Bias", "Filter", "Mean", "Scale", "Variance", "W", "Weight", "WeightList", "Alpha"];

/// Numbers of cases by kind of operator.
type Counts = BTreeMap<String, usize>;

/// What became of a case.
#[derive(Debug)]
enum Outcome {
    Same,
    /// The values of inputs that decide about shapes are not known when the program is exported.
    Unknown,
    Wrong(String),
}

/// Returns a program of a case, whose inputs have fixed or dynamic dims.
fn model(op: Op, feed: &Tensors<'_>, wanted: &Tensors<'_>, is_fixed: bool) -> Model {
    let parameters = op.inputs.iter().filter(|it| PARAMETERS.contains(&it.slot.as_str()));
    let parameters: Vec<String> = parameters.flat_map(|it| it.args.clone()).collect();
    let mut program = program(op, feed);
    let main = program.blocks.first_mut().unwrap();
    for (name, tensor) in feed {
        let var = main.vars.iter_mut().find(|var| var.name == *name).unwrap();
        let mut declared = TensorType::of(tensor);
        declared.lod_level = tensor.lod.0.len() as u32;
        if !is_fixed && !parameters.iter().any(|parameter| parameter == name) {
            declared.shape.iter_mut().flatten().for_each(|dim| *dim = Dim::Unknown);
        }
        var.value = declared.into();
    }
    for (column, (name, tensor)) in wanted.iter().enumerate() {
        if let Some(var) = main.vars.iter_mut().find(|var| var.name == *name)
            && feed.iter().all(|(fed, _)| fed != name)
        {
            // Programs declare the rank of a result, and the dims that do not change.
            let shape = vec![Dim::Unknown; tensor.shape.len()];
            var.value = TensorType::new(tensor.dtype, Some(shape)).into();
        }
        let operand = |slot: &str, name: &str| {
            vec![Operand { slot: slot.to_owned(), args: vec![name.to_owned()] }]
        };
        let column = AttributeValue::Int(i32::try_from(column).unwrap());
        main.ops.push(Op {
            kind: "fetch".to_owned(),
            inputs: operand("X", name),
            outputs: operand("Out", "fetch"),
            attributes: vec![Attribute { name: "col".to_owned(), value: column }],
            ..Op::default()
        });
    }
    let (name, value) = ("fetch".to_owned(), Holder::FetchList.into());
    main.vars.push(Var { name, value, persistable: true, ..Var::default() });
    let mut model = Model::default();
    model.set_main(program);
    model
}

fn level(offsets: &[u64]) -> Tensor {
    let bytes: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
    Tensor::dense(DType::Int64, vec![offsets.len() as u64], Blob::memory(bytes))
}

/// Exports and runs a case.
fn outcome(
    dir: &Path,
    name: &str,
    recorded: &Recorded,
    case: &serde_json::Value,
    is_fixed: bool,
) -> Outcome {
    let (op, feed, mut wanted) = recorded.case(case);
    // Some outputs are kept for gradients only, and some are variables that are updated in place.
    let of_gradients: Vec<&str> = op
        .outputs
        .iter()
        .filter(|operand| OF_GRADIENTS.contains(&operand.slot.as_str()))
        .flat_map(|operand| operand.args.iter().map(String::as_str))
        .collect();
    wanted.retain(|(name, _)| {
        !of_gradients.contains(name) && !feed.iter().any(|(fed, _)| fed == name)
    });
    let options = ConvertOptions::default().with_to(Some(Target::Format("onnx".to_owned())));
    let path = dir.join(format!("{name}.onnx"));
    match lodstone::convert(model(op, &feed, &wanted, is_fixed), path.clone(), &options) {
        Ok(_) => {}
        Err(Error::Lower(error)) if error.to_string().contains("known") => {
            return Outcome::Unknown;
        }
        Err(error) => return Outcome::Wrong(error.to_string()),
    }
    let model = lodstone::open(path).unwrap();
    let main = &model.main().unwrap().blocks[0];
    let mut given = Vec::new();
    for (name, tensor) in &feed {
        let mut plain = tensor.clone();
        plain.lod = Default::default();
        given.push(((*name).to_owned(), plain));
        for (number, offsets) in tensor.lod.0.iter().enumerate() {
            given.push((format!("{name}.lod{number}"), level(offsets)));
        }
    }
    given.retain(|(name, _)| main.inputs.contains(name));
    keep(dir, name, "inputs", &given);
    keep(
        dir,
        name,
        "outputs",
        &wanted.iter().map(|(n, t)| ((*n).to_owned(), t.clone())).collect::<Vec<_>>(),
    );
    let values = given.into_iter().map(|(name, tensor)| (Some(name), tensor.into())).collect();
    let inputs = Inputs { values, lod: Vec::new() };
    let found = match lodstone::run(&model, inputs, &RunOptions::default()) {
        Ok(found) => lodstone::run::tensors(found),
        Err(error) => return Outcome::Wrong(error.to_string()),
    };
    // LoD that is that of an input is no output.
    let levels = wanted.iter().flat_map(|(name, tensor)| {
        let found = &found;
        tensor.lod.0.iter().enumerate().filter_map(move |(number, offsets)| {
            let name = format!("{name}.lod{number}");
            let found = found.iter().find(|found| found.name == name)?;
            let what = difference(&level(offsets), &found.tensor, TOLERANCE)?;
            Some(format!("`{name}`: {what}"))
        })
    });
    let differences = wanted.iter().filter_map(|(name, wanted)| {
        let found = found.iter().find(|found| found.name == *name);
        let Some(found) = found else { return Some(format!("no output `{name}`")) };
        difference(wanted, &found.tensor, TOLERANCE).map(|what| format!("`{name}`: {what}"))
    });
    let differences: Vec<String> = differences.chain(levels).collect();
    match differences.is_empty() {
        true => Outcome::Same,
        false => Outcome::Wrong(differences.join("; ")),
    }
}

/// Writes tensors beside a model, if models are kept.
fn keep(dir: &Path, name: &str, what: &str, tensors: &[(String, Tensor)]) {
    // NumPy does not have bfloat16.
    let has_other = tensors.iter().any(|(_, tensor)| tensor.dtype == DType::BFloat16);
    if std::env::var_os("LODSTONE_EXPORTED").is_none() || tensors.is_empty() || has_other {
        return;
    }
    let parameter = |(name, tensor): &(String, Tensor)| Parameter {
        name: name.clone(),
        tensor: Tensor { lod: Default::default(), ..tensor.clone() },
    };
    let model = Model { parameters: tensors.iter().map(parameter).collect(), ..Model::default() };
    let options = ConvertOptions::default();
    lodstone::convert(model, dir.join(format!("{name}.{what}.npz")), &options).unwrap();
}

/// Exports all cases of a folder; returns what is wrong, and the numbers of cases by kind whose shapes must be known, and that
/// are right.
fn export_all(folder: &str, is_fixed: bool) -> (Vec<(String, String)>, Counts, Counts) {
    let recorded = recorded(folder);
    let temporary = tempfile::tempdir().unwrap();
    let dir = match std::env::var_os("LODSTONE_EXPORTED") {
        Some(dir) => PathBuf::from(dir),
        None => temporary.path().to_owned(),
    };
    std::fs::create_dir_all(&dir).unwrap();
    let (mut wrong, mut unknown, mut same) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    for (number, case) in recorded.cases.iter().enumerate() {
        let kind = case["kind"].as_str().unwrap();
        let (_, feed, wanted) = recorded.case(case);
        let is_sparse =
            |(_, tensor): &(&str, Tensor)| matches!(tensor.kind, Kind::SelectedRows { .. });
        if kind.ends_with("_grad") || feed.iter().chain(&wanted).any(is_sparse) {
            continue;
        }
        let how = if is_fixed { "fixed" } else { "dynamic" };
        let name = format!("{folder}_{number}_{kind}_{how}");
        match outcome(&dir, &name, &recorded, case, is_fixed) {
            Outcome::Same => *same.entry(kind.to_owned()).or_default() += 1,
            Outcome::Unknown => *unknown.entry(kind.to_owned()).or_default() += 1,
            Outcome::Wrong(what) => {
                let line = format!("{}: {what} {}", case["name"], case["attributes"]);
                wrong.push((kind.to_owned(), line));
            }
        }
    }
    (wrong, unknown, same)
}

/// Fails unless the wrong cases of each operator are as many as listed, and those whose dims must be known are of listed
/// operators, each of which has one.
fn check(is_fixed: bool, needed: &[&str], least: usize) {
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let [mut unknown, mut same]: [Counts; 2] = Default::default();
    for folder in [OPERATORS, SEQUENCES, LODS] {
        let (more, again, count) = export_all(folder, is_fixed);
        more.into_iter().for_each(|(kind, line)| wrong.entry(kind).or_default().push(line));
        again.into_iter().for_each(|(kind, count)| *unknown.entry(kind).or_default() += count);
        count.into_iter().for_each(|(kind, count)| *same.entry(kind).or_default() += count);
    }
    let is_unproven = |kind: &&str| !same.contains_key(*kind) && !PROVEN_BY_NETWORKS.contains(kind);
    let planned = operators().filter(|row| row.plan == Some(Plan::Whole)).map(|row| row.kind);
    let unproven: Vec<&str> = planned.filter(is_unproven).collect();
    assert!(unproven.is_empty(), "planned, but no case is right: {unproven:?}");
    let same: usize = same.values().sum();
    let mut news = Vec::new();
    for (kind, numbers, reason) in DIFFERENCES {
        let (expected, found) = (numbers[usize::from(!is_fixed)], wrong.remove(*kind));
        let found = found.unwrap_or_default();
        if found.len() != expected {
            let lines = found.join("\n");
            news.push(format!(
                "`{kind}`: expected {expected}, found {} ({reason}):\n{lines}",
                found.len()
            ));
        }
    }
    news.extend(wrong.into_values().flatten());
    assert!(news.is_empty(), "{} are wrong:\n{}", news.len(), news.join("\n"));
    let unknown: Vec<&str> = unknown.keys().map(String::as_str).collect();
    assert_eq!(unknown, needed, "operators whose dims or values must be known");
    assert!(same > least, "{same} cases are right");
}

/// Operators that are planned with others, and whose cases are whole networks: in `planned.rs`, `paddle_models_to_onnx.rs`
/// and `paddle_older.rs`.
const PROVEN_BY_NETWORKS: &[&str] = &[
    "conditional_block",
    "conditional_block_infer",
    "flatten",
    "pad2d",
    "select_input",
    "squeeze",
    "unsqueeze",
    "while",
];

/// Operators of which some recorded cases have other results in an export, or cannot be exported: the numbers of these
/// cases with fixed and with dynamic dims, and the reasons.
const DIFFERENCES: &[(&str, [usize; 2], &str)] = &[
    ("affine_grid", [0, 2], "the number of spatial dims must be known"),
    ("arg_max", [56, 56], "PaddlePaddle selects NaN last"),
    ("arg_min", [56, 56], "PaddlePaddle selects NaN last"),
    ("batch_norm", [11, 11], "an export is for inference, and these cases train"),
    ("bincount", [0, 1], "PaddlePaddle's counts of an empty int32 list are int32"),
    ("bipartite_match", [4, 4], "ONNX has no equivalent"),
    ("cast", [7, 7], "PaddlePaddle truncates when it casts to float16 and bfloat16"),
    (
        "conv2d",
        [0, 1],
        "PaddlePaddle has a window where the filter is larger than the image, and ONNX has none",
    ),
    ("ctc_align", [4, 4], "sequences by LoD are not exported"),
    ("cumsum", [0, 2], "PaddlePaddle's exclusive sum of a single element is the element"),
    ("elementwise_max", [6, 6], "PaddlePaddle returns the second operand if the first is NaN"),
    ("elementwise_min", [5, 5], "PaddlePaddle returns the second operand if the first is NaN"),
    ("edit_distance", [24, 24], "ONNX has no equivalent"),
    (
        "fake_quantize_dequantize_moving_average_abs_max",
        [1, 1],
        "ONNX rounds halves to even, and PaddlePaddle away from zero",
    ),
    (
        "fake_quantize_moving_average_abs_max",
        [5, 5],
        "an export is for inference, and these cases learn; ONNX rounds halves to even",
    ),
    (
        "generate_proposals",
        [2, 2],
        "ONNX has no adaptive threshold; PaddlePaddle writes a row for an image without boxes",
    ),
    (
        "generate_proposals_v2",
        [4, 4],
        "ONNX has no adaptive threshold; PaddlePaddle writes a row for an image without boxes",
    ),
    ("gru", [3, 3], "ONNX has no gate that is 1 minus a function other than the sigmoid"),
    ("linear_chain_crf", [14, 14], "it is a cost, and an export is for inference"),
    ("log_softmax", [2, 2], "PaddlePaddle clamps logits to 64 below the maximum"),
    ("logcumsumexp", [0, 1], "PaddlePaddle's exclusive result of a single element is the element"),
    ("matmul", [0, 2], "PaddlePaddle pairs matrices by index, whatever their batch dims"),
    ("max_pool2d_with_index", [39, 39], "PaddlePaddle ignores NaN"),
    ("maxout", [2, 2], "PaddlePaddle ignores NaN, depending on its place"),
    ("moving_average_abs_max_scale", [1, 1], "an export is for inference, and this case learns"),
    (
        "multiclass_nms",
        [4, 4],
        "ONNX has no adaptive threshold; PaddlePaddle writes a row if there are no boxes",
    ),
    ("multiclass_nms2", [2, 2], "ONNX has no adaptive threshold"),
    ("multiclass_nms3", [4, 4], "ONNX has no adaptive threshold"),
    ("p_norm", [104, 104], "PaddlePaddle ignores NaN"),
    (
        "pool2d",
        [0, 1],
        "PaddlePaddle has a window where it is larger than the image, and ONNX has none",
    ),
    ("quantize_linear", [1, 1], "ONNX rounds halves to even, and PaddlePaddle away from zero"),
    ("reduce_amax", [1, 1], "PaddlePaddle ignores NaN, depending on its place"),
    ("reduce_amin", [1, 1], "PaddlePaddle ignores NaN, depending on its place"),
    ("reduce_max", [68, 68], "PaddlePaddle ignores NaN, depending on its place"),
    ("reduce_min", [68, 68], "PaddlePaddle ignores NaN, depending on its place"),
    ("relu", [2, 2], "PaddlePaddle's result of NaN is 0"),
    ("softmax_with_cross_entropy", [2, 2], "PaddlePaddle clamps logits to 64 below the maximum"),
    ("split_lod_tensor", [6, 6], "branches by sequences are not exported"),
    ("squeeze2", [0, 1], "PaddlePaddle keeps dims other than 1, and ONNX refuses them"),
    ("warpctc", [32, 32], "it is a cost, and an export is for inference"),
];

/// Operators of which some recorded cases can only be exported if dims or the values of inputs are known.
const NEED_DIMS: &[&str] =
    &["concat", "cross", "gather", "pool2d", "pool3d", "split", "squeeze2", "tile", "unsqueeze2"];

#[test]
fn operators_with_fixed_dims_compute_what_paddlepaddle_computed() {
    check(true, &["concat", "gather", "split", "unsqueeze2"], 1800);
}

#[test]
fn operators_with_dynamic_dims_compute_what_paddlepaddle_computed() {
    check(false, NEED_DIMS, 1800);
}
