//! Glow programs lowered to ONNX: the expected operators, consistent types, and named losses. (`cargo xtask interop`
//! compares the results of runs.)
#![expect(clippy::disallowed_methods, reason = "tests write files directly")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use lodstone::model::Dialect;
use lodstone::verify::DefectKind;
use lodstone::{
    ConvertOptions, Error, Loss, Model, OpenOptions, Progress, Target, convert, open, verify,
};
use lodstone_model::{DType, Dim, Op, Program};
use lodstone_schema::glow::{SAVE, Type};
use lodstone_schema::onnx::infer::{Options, infer};
use tempfile::TempDir;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden").join(name)
}

/// Returns every file with Glow operators; with `LODSTONE_CASES`, those of a larger collection.
fn files() -> Vec<PathBuf> {
    let more =
        std::env::var_os("LODSTONE_CASES").map(|cases| Path::new(&cases).join("glow/golden"));
    let folders = [golden("glow"), golden("glow_run")].into_iter().chain(more);
    let entries = folders.flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| {
        path.extension().is_some_and(|end| end == "onnx" || end == "onnxtxt" || end == "zip")
    });
    files.sort();
    files
}

fn load(path: &Path) -> Model {
    open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn is_glow(model: &Model) -> bool {
    model.main().is_some_and(|program| program.dialect == Dialect::Glow)
}

fn program(model: &Model) -> &Program {
    model.main().expect("a program")
}

/// Converts a model to ONNX, and opens the written file, which must be valid.
fn converted(model: &Model, allow: &[Loss]) -> Result<Model, Error> {
    let directory = TempDir::new().expect("a directory");
    let out = directory.path().join("model.onnx");
    let to = Some(Target::Format("onnx".to_owned()));
    let options = ConvertOptions::default().with_to(to).with_allow(allow.to_vec());
    convert(model.clone(), &out, &options)?;
    let found = verify(&out, &OpenOptions::default(), &Progress::default()).expect("opens");
    // Constants that the Glow file omits are also missing in ONNX.
    let wrong = found.findings.iter().find(|defect| {
        defect.kind != DefectKind::Missing && !defect.message.ends_with("has no elements")
    });
    assert!(wrong.is_none(), "{wrong:?}");
    let mut model = load(&out);
    model.load().expect("reads");
    Ok(model)
}

fn kinds(model: &Model) -> Vec<&str> {
    program(model).ops().map(|op| op.kind.as_str()).collect()
}

/// Returns the types that Glow declares, by the name of the value.
fn declared(model: &Model) -> HashMap<String, Type> {
    let mut types = HashMap::new();
    let block = &program(model).blocks[0];
    for op in &block.ops {
        for (number, name) in op.writes().enumerate() {
            let prefix = if op.kind == SAVE { "o1".to_owned() } else { format!("o{number}") };
            if let Ok(ty) = Type::of(op, &prefix) {
                types.insert(name.to_owned(), ty);
            }
        }
    }
    types
}

#[test]
fn inferred_types_equal_those_that_glow_declares() {
    let (mut files_tried, mut compared) = (0, 0);
    for path in files() {
        let model = load(&path);
        if !is_glow(&model) {
            continue;
        }
        files_tried += 1;
        let allow = [Loss::CustomOperators, Loss::Hints];
        let made = converted(&model, &allow).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let found = infer(&made, &Options::default());
        assert!(found.findings.is_empty(), "{}: {:?}", path.display(), found.findings);
        for (name, ty) in declared(&model) {
            let Some(value) = found.blocks[0].get(&name) else { continue };
            let dims = ty.shape.iter().map(|dim| Dim::Known(dim.unsigned_abs()));
            let dims: Vec<Dim> = dims.collect();
            assert_eq!(value.dtype(), ty.kind.dtype(), "{}: `{name}`", path.display());
            assert_eq!(value.shape(), Some(&dims[..]), "{}: `{name}`", path.display());
            compared += 1;
        }
    }
    assert!(files_tried >= 100 && compared >= 300, "{files_tried} files, {compared} values");
}

#[test]
fn recorded_runs_are_lowered_to_these_operators() {
    let expected: &[(&str, &[&str])] = &[
        ("onnx__glow_custom_op_topk_quantized", &["DequantizeLinear", "TopK", "QuantizeLinear"]),
        (
            "onnx__glow_custom_op_channelwise_quantized_group_conv",
            &[
                "QuantizeLinear",
                "Transpose",
                "DequantizeLinear",
                "DequantizeLinear",
                "Transpose",
                "DequantizeLinear",
                "Conv",
                "QuantizeLinear",
                "Transpose",
                "DequantizeLinear",
            ],
        ),
        ("onnx__legalizeNames", &["Clip", "Neg", "Ceil", "Exp", "Floor", "Clip"]),
        ("caffe2__swish_op_net", &["Sigmoid", "Mul"]),
        ("onnx__TopK", &["TopK"]),
        ("onnx__cumsum", &["CumSum"]),
        ("onnx__softmax11", &["Reshape", "Softmax", "Reshape"]),
    ];
    for (name, kinds_expected) in expected {
        let model = load(&golden("glow_run").join(format!("{name}.onnx")));
        let made = converted(&model, &[]).expect("nothing is lost");
        assert_eq!(kinds(&made), *kinds_expected, "{name}");
    }
}

#[test]
fn names_of_inputs_outputs_and_nodes_are_kept() {
    let model = load(&golden("glow_run/onnx__glow_custom_op_topk_quantized.onnx"));
    let made = converted(&model, &[]).expect("nothing is lost");
    let (before, after) = (&program(&model).blocks[0], &program(&made).blocks[0]);
    assert_eq!((&before.inputs, &before.outputs), (&after.inputs, &after.outputs));
    let said = |model: &Model| -> Vec<_> {
        let vars = &program(model).blocks[0].vars;
        vars.iter().map(|var| (var.name.clone(), var.attributes.clone())).collect()
    };
    assert_eq!(said(&model), said(&made), "the text of placeholders says what they are");
    let nodes: Vec<&str> = before.ops.iter().map(|op| op.name.as_str()).collect();
    let kept = after.ops.iter().filter(|op| nodes.contains(&op.name.as_str())).count();
    assert!(kept > 0, "{nodes:?}");
    assert_eq!(
        (program(&made).version, &program(&made).operator_versions[..]),
        (Some(10), &[(String::new(), 21)][..])
    );
}

#[test]
fn compiler_hints_of_a_program_are_a_named_loss() {
    let model = load(&golden("glow/dag.onnxtxt"));
    let Err(Error::Lossy(losses)) = converted(&model, &[]) else { panic!("nothing was lost") };
    assert_eq!(losses.keys().collect::<Vec<_>>(), [&Loss::Hints]);
    let places = &losses[&Loss::Hints];
    assert!(places.iter().any(|place| place.ends_with("`partitionName`")), "{places:?}");
    assert!(places.iter().any(|place| place == "`numPartitions`"), "{places:?}");
    let made = converted(&model, &[Loss::Hints]).expect("allowed");
    assert!(made.metadata.keys().all(|key| !key.starts_with("partition")), "{:?}", made.metadata);
}

/// Returns the text of a single Glow node.
fn text_of(kind: &str, inputs: &str, attributes: &str) -> String {
    format!(
        r#"ir_version: 7 producer_name: "GlowONNXModelWriter" opset_import {{ version: 9 }}
        graph {{ name: "glow"
          node {{ op_type: "Glow_{kind}" name: "it" output: "it" {inputs} {attributes} }}
          node {{ op_type: "Identity" name: "save" input: "it" output: "out" }}
          input {{ name: "in" {FLOATS} }}
          output {{ name: "out" {FLOATS} }}
        }}"#
    )
}

const FLOATS: &str = r#"type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } } } }
    doc_string: "$offline:0$trainable:0$layout:*$elemKind:float""#;

fn of_text(text: &str) -> Model {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("model.onnxtxt");
    fs::write(&path, text).expect("written");
    let mut model = load(&path);
    model.load().expect("reads");
    model
}

fn typed(shape: &str) -> String {
    format!(
        r#"attribute {{ name: "o0_elemKind" s: "float" type: STRING }}
        attribute {{ name: "o0_shape" {shape} type: INTS }}"#
    )
}

#[test]
fn operators_without_an_equivalent_are_named_and_kept_if_allowed() {
    let members = r#"attribute { name: "Mean" f: 0 type: FLOAT }
        attribute { name: "Scale" f: 1 type: FLOAT } attribute { name: "Seed" f: 1 type: FLOAT }"#;
    let attributes = typed("ints: 2") + members;
    let model = of_text(&text_of("GaussianFill", r#"input: "in""#, &attributes));
    let Err(Error::Lossy(losses)) = converted(&model, &[]) else { panic!("nothing was lost") };
    let place = "the graph, operator 0 (`Glow_GaussianFill` `it`): \
                 its random numbers come from Glow's own generator";
    assert_eq!(losses[&Loss::CustomOperators], [place]);
    let made = converted(&model, &[Loss::CustomOperators]).expect("allowed");
    let kept: Vec<&Op> = program(&made).ops().collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(
        (kept[0].kind.as_str(), kept[0].domain.as_str()),
        ("GaussianFill", "com.facebook.glow")
    );
    assert_eq!(kept[0].attributes, program(&model).blocks[0].ops[0].attributes);
    let sets = &program(&made).operator_versions;
    assert!(sets.contains(&("com.facebook.glow".to_owned(), 1)), "{sets:?}");
}

#[test]
fn contradictory_nodes_are_rejected_with_their_location() {
    let model = of_text(&text_of("Relu", r#"input: "in""#, &typed("ints: 3")));
    let error = converted(&model, &[]).expect_err("three are not two").to_string();
    let expected =
        "operator 0 (`Glow_Relu` `it`): result 0 is float32[3] in Glow, but float32[2] in ONNX";
    assert!(error.contains(expected), "{error}");
    let lost = of_text(&text_of("Relu", r#"input: "nowhere""#, &typed("ints: 2")));
    let error = converted(&lost, &[]).expect_err("there is no input").to_string();
    assert!(error.contains("an input is never defined"), "{error}");
}

#[test]
fn constants_without_elements_are_reported() {
    let warned = |name: &str| {
        let directory = TempDir::new().expect("a directory");
        let to = Some(Target::Format("onnx".to_owned()));
        let options = ConvertOptions::default().with_to(to);
        let out = directory.path().join("model.onnx");
        let model = load(&golden("glow").join(name));
        let done = convert(model, &out, &options).expect("a model");
        done.report.warnings.iter().any(|warning| warning.contains("without elements"))
    };
    assert!(warned("all_elemkinds_constants_nodata.onnx"));
    assert!(!warned("all_elemkinds_constants.onnx"));
}

#[test]
fn a_splat_of_many_elements_is_not_stored() {
    let value = r#"attribute { name: "Value" f: 2.5 type: FLOAT }"#;
    let huge = format!("ints: {}", 1u64 << 40);
    let text = text_of("Splat", "", &(typed(&huge) + value));
    let made = converted(&of_text(&text.replace("dim_value: 2", "dim_value: 1099511627776")), &[]);
    let made = made.expect("it is a constant and its dims");
    assert!(made.nbytes() < 100, "{}", made.nbytes());
    assert_eq!(kinds(&made), ["Expand"]);
    assert!(made.parameters.iter().any(|p| p.tensor.dtype == DType::Float32));
}

/// Returns reproducible pseudo-random numbers.
fn numbers(mut state: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(state >> 33).expect("31 bits") % below.max(1)
    }
}

/// Checks that a model is rejected, or that the converted model is valid.
#[test]
fn damaged_programs_are_rejected_or_converted_to_valid_ones() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("model.onnx");
    let mut written = 0;
    for (seed, source) in files().into_iter().enumerate() {
        let bytes = fs::read(&source).expect("a file");
        if source.extension().is_none_or(|end| end != "onnx") || bytes.len() > 4096 {
            continue;
        }
        let mut below = numbers(seed as u64);
        for _ in 0..30 {
            let mut damaged = bytes.clone();
            for _ in 0..=below(3) {
                let place = below(damaged.len());
                damaged[place] = [0, 1, 0x7f, 0xff, damaged[place] ^ 1][below(5)];
            }
            fs::write(&path, &damaged).expect("written");
            let Ok(model) = open(&path) else { continue };
            if is_glow(&model) && converted(&model, Loss::ALL).is_ok() {
                written += 1;
            }
        }
    }
    assert!(written > 100, "{written}");
}
