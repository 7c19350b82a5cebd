//! Standard ONNX operators by which Glow's writer encodes its own nodes, converted to these nodes.
#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lodstone::{Model, open};
use lodstone_lowering::lower;
use lodstone_model::{AttributeValue, Dialect, Op, Report};
use lodstone_schema::glow;

use crate::graphs::{of_type, ways};

fn lowered(path: &Path) -> Result<Model, String> {
    let mut model = open(path).unwrap();
    let lowered = lower(&mut model, Dialect::Glow, &mut Report::default()).unwrap();
    lowered.map(|_| model).map_err(|error| error.to_string())
}

/// Returns the only node of a program, apart from the one that saves its result.
fn node(model: &Model) -> Op {
    let ops = model.main().unwrap().ops();
    let nodes: Vec<&Op> = ops.filter(|op| op.kind != glow::SAVE).collect();
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    assert!(glow::check(model).is_empty(), "{:?}", glow::check(model));
    nodes[0].clone()
}

#[test]
fn quantized_operators_become_nodes_with_the_encoded_types() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden/glow");
    let input = "i8[8, 6, 6, 8]Some((1.0, 0))";
    let wide = "i8[8, 6, 6, 12]Some((3.8, 4))";
    let pooled = "i8[8, 6, 6, 8]Some((1.2, 3))";
    // The file, the kind, and types of values.
    type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);
    let cases: &[Case<'_>] = &[
        (
            "ChannelwiseQuantizedConvolution",
            "ChannelwiseQuantizedConvolution",
            &[
                ("i0", input),
                ("i1", "i8[12, 3, 3, 2]Some((2.5, 1))"),
                ("i2", "i32[12]Some((1.0, 0))"),
                ("i3", "float[12]None"),
                ("i4", "index32[12]None"),
                ("o0", wide),
            ],
        ),
        (
            "QuantizedConvolution",
            "Convolution",
            &[
                ("i0", input),
                ("i1", "i8[12, 3, 3, 2]Some((2.5, 1))"),
                ("i2", "i32[12]Some((0.25, 2))"),
                ("o0", wide),
            ],
        ),
        ("QuantizedAvgPool", "AvgPool", &[("i0", input), ("o0", pooled)]),
        (
            "QuantizedMaxPool",
            "MaxPool",
            &[("i0", input), ("o0", pooled), ("o1", "index64[8, 6, 6, 8]None")],
        ),
        ("QuantizedAdaptiveAvgPool", "AdaptiveAvgPool", &[("i0", input)]),
        (
            "RowwiseQuantizedFullyConnected",
            "RowwiseQuantizedFullyConnected",
            &[
                ("i0", "i8[2, 100]Some((1.0, 0))"),
                ("i1", "i8[10, 100]Some((1.0, 0))"),
                ("i4", "i32[10]Some((1.0, 0))"),
                ("o0", "i8[2, 10]Some((3.8, 4))"),
            ],
        ),
    ];
    for (file, kind, types) in cases {
        let model = lowered(&golden.join(format!("{file}.onnxtxt"))).unwrap();
        let node = node(&model);
        assert_eq!(node.kind, format!("Glow_{kind}"), "{file}");
        for (value, expected) in *types {
            assert_eq!(of_type(&node, value), *expected, "{file}: {value}");
        }
    }
}

#[test]
fn both_encodings_of_glow_give_the_same_graph() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/glow_standard");
    let mut count = 0;
    for entry in std::fs::read_dir(&golden).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(name) = file.strip_suffix(".glow.onnxtxt") else { continue };
        let ours = lowered(&golden.join(format!("{name}.onnxtxt"))).unwrap();
        let mut known = HashMap::new();
        let theirs = open(&path).unwrap();
        assert_eq!(ways(&theirs, &mut known), ways(&ours, &mut known), "{name}");
        count += 1;
    }
    assert_eq!(count, 4);
}

/// Returns an operator with attributes and inputs (the name, the code of the type, the dims of each).
fn written(kind: &str, inputs: &[(&str, i32, &[u64])], attributes: &str) -> Result<Model, String> {
    let mut text = format!(
        "ir_version: 7 producer_name: \"ONNXModelWriter\" opset_import {{ version: 9 }} graph {{ \
         name: \"glow\" output {{ name: \"out\" }} node {{ op_type: \"{kind}\" name: \"it\" \
         output: \"out\" {attributes} "
    );
    for (name, ..) in inputs {
        text += &format!("input: \"{name}\" ");
    }
    text += "}";
    for (name, number, sizes) in inputs {
        let dims: String = sizes.iter().map(|dim| format!("dim {{ dim_value: {dim} }}")).collect();
        text += &format!(
            "input {{ name: \"{name}\" type {{ tensor_type {{ elem_type: {number} shape {{ {dims} \
             }} }} }} }}"
        );
    }
    text += "}";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.onnxtxt");
    std::fs::write(&path, text).unwrap();
    lowered(&path)
}

#[test]
fn lookup_tables_become_nodes() {
    let rows: (&str, i32, &[u64]) = ("rows", 1, &[5, 3]);
    let list = |name, count| -> (&str, i32, &[u64]) { (name, 7, count) };
    let inputs = [rows, ("weights", 1, &[4]), list("indices", &[4]), list("offsets", &[2])];
    let bag = node(&written("EmbeddingBag", &inputs, "").unwrap());
    assert_eq!(bag.kind, "Glow_EmbeddingBag");
    assert_eq!(of_type(&bag, "o0"), "float[2, 3]None");
    let model = written("SparseToDense", &[list("i", &[4]), ("v", 1, &[4, 2]), ("d", 1, &[9])], "");
    let model = model.unwrap();
    let ops = model.main().unwrap().ops();
    let kinds: Vec<&str> = ops.map(|op| op.kind.as_str()).collect();
    let expected = ["Glow_Splat", "Glow_Reshape", "Glow_ScatterData", "Identity"];
    assert_eq!(kinds, expected);
    let numbers: String = (0..256).map(|number| format!("ints: {} ", 127 - number)).collect();
    let table = format!("attribute {{ name: \"values\" type: INTS {numbers} }}");
    let model = written("IntLookupTable", &[("in", 3, &[2])], &table).unwrap();
    let lookup = node(&model);
    let bytes = model.parameter(&lookup.input("")[1]).unwrap().data.bytes().unwrap();
    assert_eq!((bytes[0].cast_signed(), bytes[255].cast_signed()), (127, -128));
    let short = "attribute { name: \"values\" type: INTS ints: 1 }";
    let refused = written("IntLookupTable", &[("in", 3, &[2])], short).unwrap_err();
    assert!(refused.contains("expected 256 `values`, found 1"), "{refused}");
    let plain = [("rows", 1, &[5_u64, 3][..]), list("i", &[4]), list("lengths", &[2])];
    let refused = written("FusedRowwiseQuantizedSparseLengthsSum", &plain, "").unwrap_err();
    assert!(refused.contains("expected rows that end with their scales"), "{refused}");
}

#[test]
fn groups_that_do_not_match_are_rejected() {
    let said = "attribute { name: \"out_scale\" f: 1 type: FLOAT } \
                attribute { name: \"out_offset\" i: 0 type: INT } \
                attribute { name: \"group\" i: 3 type: INT }";
    let inputs: [(&str, i32, &[u64]); 3] =
        [("in", 3, &[1, 4, 4, 8]), ("filter", 3, &[6, 3, 3, 2]), ("bias", 6, &[6])];
    let refused = written("Conv", &inputs, said).unwrap_err();
    assert!(refused.contains("in 3 groups do not fit 8 channels"), "{refused}");
    let kept = said.replace("i: 3", "i: 4").replace("i: 0", "i: 7");
    let inputs: [(&str, i32, &[u64]); 3] =
        [("in", 3, &[1, 4, 4, 8]), ("filter", 3, &[8, 3, 3, 2]), ("bias", 6, &[8])];
    let conv = node(&written("Conv", &inputs, &kept).unwrap());
    assert_eq!(conv.attribute("Group"), Some(&AttributeValue::Long(4)));
    assert_eq!(of_type(&conv, "o0"), "i8[1, 2, 2, 8]Some((1.0, 7))");
}
