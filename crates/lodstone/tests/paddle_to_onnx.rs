//! Exported operators of PaddlePaddle compute what PaddlePaddle 2.6.2 computed, with fixed and with dynamic dims.
//!
//! Each recorded case is exported as a program of its own, written, read and run. With `LODSTONE_EXPORTED=DIR`, the
//! models are kept in `DIR` with their inputs and recorded outputs, for other runtimes to run.

#![expect(clippy::disallowed_methods, reason = "reads golden files directly")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "recorded numbers fit"
)]

#[expect(dead_code, reason = "other tests use more of it")]
#[path = "../../paddle/tests/paddle_operators/recorded.rs"]
mod recorded;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lodstone::{ConvertOptions, Error, Inputs, RunOptions, Target};
use lodstone_model::{
    Attribute, AttributeValue, DType, Dim, Holder, Kind, Model, Op, Operand, Parameter, Tensor,
    TensorType, Var,
};
use lodstone_store::Blob;

use recorded::{LODS, OPERATORS, Recorded, SEQUENCES, Tensors, difference, program, recorded};

/// The maximum difference of an element from the recorded one: relative, and absolute.
const TOLERANCE: (f64, f64) = (1e-5, 2e-6);

/// Output slots that only gradients read.
const OF_GRADIENTS: [&str; 6] =
    ["BatchCellPreAct", "BatchGate", "BatchHidden", "BatchResetHiddenPrev", "Cell", "MaxIndex"];

/// Input slots with parameters, whose dims are always known.
const PARAMETERS: [&str; 9] =
    ["Bias", "Filter", "Mean", "Scale", "Variance", "W", "Weight", "WeightList", "Alpha"];

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
        Ok(found) => lodstone::tensors(found),
        Err(error) => return Outcome::Wrong(error.to_string()),
    };
    let differences = wanted.iter().filter_map(|(name, wanted)| {
        let found = found.iter().find(|found| found.name == *name);
        let Some(found) = found else { return Some(format!("no output `{name}`")) };
        difference(wanted, &found.tensor, TOLERANCE).map(|what| format!("`{name}`: {what}"))
    });
    let differences: Vec<String> = differences.collect();
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

/// Exports all cases of a folder; returns what is wrong, and the number of cases by kind whose shapes must be known.
fn export_all(
    folder: &str,
    is_fixed: bool,
) -> (Vec<(String, String)>, BTreeMap<String, usize>, usize) {
    let recorded = recorded(folder);
    let temporary = tempfile::tempdir().unwrap();
    let dir = match std::env::var_os("LODSTONE_EXPORTED") {
        Some(dir) => PathBuf::from(dir),
        None => temporary.path().to_owned(),
    };
    std::fs::create_dir_all(&dir).unwrap();
    let (mut wrong, mut unknown, mut same) = (Vec::new(), BTreeMap::new(), 0);
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
            Outcome::Same => same += 1,
            Outcome::Unknown => *unknown.entry(kind.to_owned()).or_default() += 1,
            Outcome::Wrong(what) => {
                let line = format!("{}: {what} {}", case["name"], case["attributes"]);
                wrong.push((kind.to_owned(), line));
            }
        }
    }
    (wrong, unknown, same)
}

/// Fails unless the wrong cases, and those whose dims must be known, are those of listed operators, each of which has
/// one.
fn check(is_fixed: bool, known: &[(&str, &str)], needed: &[&str], least: usize) {
    let (mut wrong, mut same) = (Vec::new(), 0);
    let mut unknown: BTreeMap<String, usize> = BTreeMap::new();
    for folder in [OPERATORS, SEQUENCES, LODS] {
        let (more, again, count) = export_all(folder, is_fixed);
        wrong.extend(more);
        again.into_iter().for_each(|(kind, count)| *unknown.entry(kind).or_default() += count);
        same += count;
    }
    let is_known = |kind: &str| known.iter().any(|(known, _)| *known == kind);
    let news: Vec<&str> =
        wrong.iter().filter(|(kind, _)| !is_known(kind)).map(|(_, line)| line.as_str()).collect();
    assert!(news.is_empty(), "{} are wrong:\n{}", news.len(), news.join("\n"));
    for (kind, reason) in known {
        assert!(wrong.iter().any(|(wrong, _)| wrong == kind), "`{kind}` is right now: {reason}");
    }
    let unknown: Vec<&str> = unknown.keys().map(String::as_str).collect();
    assert_eq!(unknown, needed, "operators whose dims or values must be known");
    assert!(same > least, "{same} cases are right");
}

/// Operators of which some recorded cases have other results in an export, and the reasons.
const DIFFERENCES: &[(&str, &str)] = &[
    ("arg_max", "PaddlePaddle selects NaN last"),
    ("arg_min", "PaddlePaddle selects NaN last"),
    ("batch_norm", "an export is for inference, and these cases train"),
    ("bipartite_match", "ONNX has no equivalent"),
    ("cast", "PaddlePaddle truncates when it casts to float16 and bfloat16"),
    ("ctc_align", "sequences by LoD are not exported"),
    (
        "dequantize_linear",
        "an export takes the integers of a quantization, and these are fractions",
    ),
    ("elementwise_max", "PaddlePaddle returns the second operand if the first is NaN"),
    ("elementwise_min", "PaddlePaddle returns the second operand if the first is NaN"),
    (
        "fake_quantize_dequantize_moving_average_abs_max",
        "ONNX rounds halves to even, and PaddlePaddle away from zero",
    ),
    ("fake_quantize_moving_average_abs_max", "an export is for inference, and these cases learn"),
    ("generate_proposals", "ONNX has no suppression with an adaptive threshold"),
    ("generate_proposals_v2", "ONNX has no suppression with an adaptive threshold"),
    ("gru", "ONNX has no gate that is 1 minus a function other than the sigmoid"),
    ("log_softmax", "PaddlePaddle clamps logits to 64 below the maximum"),
    ("maxout", "PaddlePaddle ignores NaN, depending on its place"),
    ("mish", "PaddlePaddle's function is linear above a threshold that these cases lower"),
    ("moving_average_abs_max_scale", "an export is for inference, and this case learns"),
    ("multiclass_nms", "ONNX has no suppression of boxes for each class of several images"),
    ("multiclass_nms2", "ONNX has no suppression of boxes for each class of several images"),
    ("multiclass_nms3", "ONNX has no suppression of boxes for each class of several images"),
    ("p_norm", "PaddlePaddle ignores NaN"),
    ("quantize_linear", "ONNX rounds halves to even, and PaddlePaddle away from zero"),
    ("reduce_amax", "PaddlePaddle ignores NaN, depending on its place"),
    ("reduce_amin", "PaddlePaddle ignores NaN, depending on its place"),
    ("reduce_max", "PaddlePaddle ignores NaN, depending on its place"),
    ("reduce_min", "PaddlePaddle ignores NaN, depending on its place"),
    ("relu", "PaddlePaddle's result of NaN is 0"),
    ("softmax_with_cross_entropy", "PaddlePaddle clamps logits to 64 below the maximum"),
];

/// The same, if dims are known; if not, the operators cannot be exported.
const FIXED: &[(&str, &str)] = &[("max_pool2d_with_index", "PaddlePaddle ignores NaN")];

/// Operators of which some recorded cases have other results if dims are not known when they are exported, and the
/// reasons.
const DYNAMIC: &[(&str, &str)] = &[
    ("affine_grid", "the number of spatial dims must be known"),
    ("bincount", "PaddlePaddle's counts of an empty int32 list are int32"),
    (
        "conv2d",
        "PaddlePaddle has a window where the filter is larger than the image, and ONNX has none",
    ),
    ("cumsum", "PaddlePaddle's exclusive sum of a single element is the element"),
    ("logcumsumexp", "PaddlePaddle's exclusive result of a single element is the element"),
    ("matmul", "PaddlePaddle pairs matrices by index, whatever their batch dims"),
    ("pool2d", "PaddlePaddle has a window where it is larger than the image, and ONNX has none"),
    ("squeeze2", "PaddlePaddle keeps dims other than 1, and ONNX refuses them"),
];

/// Operators of which some recorded cases can only be exported if dims or the values of inputs are known.
const NEED_DIMS: &[&str] = &[
    "concat",
    "conv2d_transpose",
    "cross",
    "density_prior_box",
    "gather",
    "layer_norm",
    "max_pool2d_with_index",
    "max_pool3d_with_index",
    "polygon_box_transform",
    "pool2d",
    "pool3d",
    "roll",
    "shuffle_channel",
    "split",
    "squeeze2",
    "strided_slice",
    "temporal_shift",
    "tile",
    "unfold",
    "unsqueeze2",
];

#[test]
fn operators_with_fixed_dims_compute_what_paddlepaddle_computed() {
    let known = [DIFFERENCES, FIXED].concat();
    check(true, &known, &["concat", "gather", "split", "unsqueeze2"], 1800);
}

#[test]
fn operators_with_dynamic_dims_compute_what_paddlepaddle_computed() {
    let known = [DIFFERENCES, DYNAMIC].concat();
    check(false, &known, NEED_DIMS, 1800);
}
