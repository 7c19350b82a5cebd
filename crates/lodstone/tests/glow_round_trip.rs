//! Glow programs converted to ONNX and back: the same graph, or listed here with the reason.
//!
//! With `LODSTONE_CASES`, all Glow programs in `DIR/glow` are also converted.
#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]
#![expect(clippy::print_stdout, reason = "says what was tried")]

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use lodstone::{ConvertOptions, Model, Target, convert, open};
use lodstone_lowering::lower;
use lodstone_model::{Dialect, Report};
use lodstone_schema::glow;

use crate::graphs::{of_type, ways};

/// The programs that come back with different nodes, with the reason.
const OTHERS: &[(&str, &[&str])] = &[
    (
        "a node of Glow became several operators of ONNX, which are nodes each",
        &[
            "NonMaxSuppression",
            "NonMaxSuppressionOptionalParams",
            "NonMaxSuppressionSSD",
            "NonMaxSuppressionSSD_ONNX",
            "caffe2__bucketize_op_net",
            "caffe2__dynamic_quantized_fc_predict_net",
            "caffe2__lengths_to_ranges",
            "caffe2__replace_nan_predict_net",
            "caffe2__swish_op_net",
            "lengths_to_ranges",
            "maxPoolWithArgmax",
            "mfccOneWindow",
            "mfccTwoWindow",
            "replaceNaN",
        ],
    ),
    (
        "the operator of ONNX is said by other nodes, as Glow's loader does",
        &[
            "caffe2__lpnorm_p2",
            "caffe2__modulo_op_net",
            "flipNoAxis",
            "flipWithAxis",
            "resizeBilinear",
        ],
    ),
    (
        "the operator of ONNX takes numbers of another type, which they become first",
        &["TestUniqueOffsetMapSerialization", "fp16FullyConnected", "gatherND"],
    ),
    (
        "a node that changes nothing is none",
        &["Mean", "Mean_broadcast", "caffe2__pre_partitioned_fill_test_predict_net", "castToFloat"],
    ),
    (
        "a bias of numbers that are no multiples of the products keeps them",
        &["caffe2__conv_group_quantized_pred_net"],
    ),
    (
        "integers without a scale are compared as what they stand for",
        &["caffe2__fill_test_predict_net"],
    ),
    ("what one partition gives another is saved, and is a value here", &["dag", "dag_plain"]),
    (
        "the classes of a softmax, which it does not look at, are made anew",
        &["logsoftmax", "softmax13"],
    ),
];

/// The programs that cannot be converted back, with a part of the reason.
const REFUSED: &[(&str, &[&str])] = &[
    (
        "Glow has no operator `ScatterElements`",
        &[
            "caffe2__fused_rowwise_quantized_sparse_lengths_sum_predict_net_length1",
            "caffe2__fused_rowwise_quantized_sparse_lengths_weighted_sum_avg_length_predict_net",
            "caffe2__fused_rowwise_quantized_sparse_lengths_weighted_sum_predict_net",
            "caffe2__gather_ranges",
            "caffe2__lengths_sum",
            "caffe2__rowwise_quantized_sparse_lengths_sum_predict_net",
            "lengths_sum",
            "member_types",
            "sparseLengthsSum",
        ],
    ),
    (
        "the number of non-zero elements must be known",
        &["caffe2__batch_sparse_to_dense_last_dim_1", "caffe2__fill_examples_with_indicator"],
    ),
    ("Glow has no operator `DFT`", &["audioSpectrogramOneWindow", "audioSpectrogramTwoWindow"]),
];

fn listed(list: &[(&'static str, &[&str])], name: &str) -> Option<&'static str> {
    list.iter().find(|(_, names)| names.contains(&name)).map(|(why, _)| *why)
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden").join(name)
}

fn lowered(mut model: Model, to: Dialect) -> Result<Model, String> {
    let lowered = lower(&mut model, to, &mut Report::default()).expect("there is a way");
    lowered.map(|_| model).map_err(|error| error.to_string())
}

/// Returns the Glow programs by name; if a program is in several containers, the text file.
fn files() -> BTreeMap<String, PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/glow_loaded");
    let more =
        std::env::var_os("LODSTONE_CASES").map(|cases| Path::new(&cases).join("glow/golden"));
    let folders = [golden("glow"), golden("glow_run"), own].into_iter().chain(more);
    let entries = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut files = BTreeMap::new();
    for entry in entries {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some((name, end)) = file.rsplit_once('.') else { continue };
        let mut name = name.trim_end_matches(".glowcustom").trim_end_matches(".glow");
        for before in ["onnx__", "w_", "exporter_test__exporter."] {
            name = name.strip_prefix(before).unwrap_or(name);
        }
        let name = name.trim_end_matches("__0");
        let is_first = !files.contains_key(name) || end == "onnxtxt";
        let is_glow = |path: &Path| {
            open(path).is_ok_and(|model| {
                model.main().is_some_and(|program| program.dialect == Dialect::Glow)
            })
        };
        if ["onnx", "onnxtxt"].contains(&end) && is_first && is_glow(&path) {
            files.insert(name.to_owned(), path);
        }
    }
    files
}

#[test]
fn a_glow_program_comes_back_or_is_listed() {
    let (mut equal, mut others, mut refused) = (0, 0, 0);
    let mut wrong = Vec::new();
    for (name, path) in files() {
        let model = open(&path).unwrap();
        let there = lowered(model.clone(), Dialect::Onnx).unwrap();
        let is_refused = listed(REFUSED, &name);
        let back = match (lowered(there, Dialect::Glow), is_refused) {
            (Ok(back), None) => back,
            (Ok(_), Some(_)) => {
                wrong.push(format!("{name}: is no longer refused"));
                continue;
            }
            (Err(error), Some(words)) if error.contains(words) => {
                refused += 1;
                continue;
            }
            (Err(error), _) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let findings = glow::check(&back);
        assert!(findings.is_empty(), "{name}: {findings:?}");
        assert!(back.metadata.keys().all(|key| !key.starts_with("com.facebook.glow")), "{name}");
        let mut known = HashMap::new();
        let is_equal = ways(&model, &mut known) == ways(&back, &mut known);
        match (is_equal, listed(OTHERS, &name)) {
            (true, None) => equal += 1,
            (false, Some(_)) => others += 1,
            (true, Some(_)) => wrong.push(format!("{name}: is the same graph now")),
            (false, None) => wrong.push(format!("{name}: is another graph")),
        }
    }
    println!("{equal} equal, {others} other graphs, {refused} refused");
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
    assert!(equal >= 100, "{equal}");
}

/// Returns the storage properties as text, by name.
fn storage(model: &Model) -> BTreeMap<String, glow::Storage> {
    let main = &model.main().unwrap().blocks[0];
    let vars = main.vars.iter().map(|var| (&var.name, var.doc_string()));
    let constants = model.parameters.iter().map(|p| (&p.name, p.tensor.doc_string.as_deref()));
    let said = vars.chain(constants).filter_map(|(name, text)| {
        Some((name.clone(), glow::Storage::parse(&text?.to_string()).unwrap()))
    });
    said.collect()
}

/// Quantized nodes of Glow's documentation, written to ONNX files and read back.
#[test]
fn quantized_nodes_keep_types_members_names_and_storage() {
    let dir = tempfile::tempdir().unwrap();
    let examples = [
        ("glow_run/onnx__glow_custom_op_topk_quantized.onnx", "Glow_TopK"),
        (
            "glow_run/onnx__glow_custom_op_channelwise_quantized_group_conv.onnx",
            "Glow_ChannelwiseQuantizedConvolution",
        ),
        ("glow_run/caffe2__int8convrelu_pred_net.onnx", "Glow_Convolution"),
        ("glow_run/caffe2__int8sumrelu_pred_net.onnx", "Glow_Add"),
        ("glow_run/caffe2__int8fc_3d_second_axis_predict.onnx", "Glow_FullyConnected"),
        ("glow_run/caffe2__fbfcpacked_4d_first_axis_predict_net.onnx", "Glow_FullyConnected"),
    ];
    for (file, kind) in examples {
        let mut model = open(golden(file)).unwrap();
        model.load().unwrap();
        let original = model.clone();
        for format in ["onnx", "onnx-glow-text"] {
            let out = dir.path().join(format!("{format}.onnx"));
            let to = Some(Target::Format(format.to_owned()));
            convert(model, &out, &ConvertOptions::default().with_to(to)).unwrap();
            model = open(&out).unwrap();
        }
        let mut known = HashMap::new();
        assert_eq!(ways(&original, &mut known), ways(&model, &mut known), "{file}");
        let nodes = |model: &Model| -> BTreeMap<String, String> {
            let ops = model.main().unwrap().ops();
            let node = |op: &lodstone_model::Op| {
                let types = match op.kind.as_str() {
                    glow::SAVE => of_type(op, "o1"),
                    _ => of_type(op, "o0"),
                };
                (op.name.clone(), format!("{} {types}", op.kind))
            };
            // New transpositions undo the original ones.
            ops.filter(|op| op.kind != "Glow_Transpose").map(node).collect()
        };
        assert!(nodes(&original).values().any(|node| node.starts_with(kind)), "{file}");
        assert_eq!(nodes(&original), nodes(&model), "{file}");
        let (before, after) = (storage(&original), storage(&model));
        for (name, said) in &before {
            let is_offset = said.kind == Some(glow::ElemKind::Int32I);
            assert!(is_offset || after.get(name) == Some(said), "{file}: `{name}`");
        }
    }
}
