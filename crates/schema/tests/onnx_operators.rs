//! The tables of ONNX's operators and releases.

use std::collections::{BTreeSet, HashMap};

use lodstone_model::{AttributeValue, DType};
use lodstone_schema::onnx::{
    self, Count, NEWEST_OPSET, Presence, domains, ir_version_of_opset, newest_ir_version,
    newest_opset, operator, operators, versions,
};

#[test]
fn an_operator_is_the_newest_version_of_its_opset() {
    assert_eq!(operator("", "Clip", 5).unwrap().since, 1);
    assert_eq!(operator("", "Clip", 6).unwrap().since, 6);
    assert_eq!(operator("ai.onnx", "Clip", 12).unwrap().since, 12);
    assert_eq!(operator("", "Clip", i64::MAX).unwrap().since, 13);
    assert_eq!(operator("", "LayerNormalization", 16), None);
    assert_eq!(operator("ai.onnx.ml", "Clip", 4), None);
    assert_eq!(operator("", "Clip", 0), None);
    assert_eq!(operator("", "NoSuch", 20), None);
    assert!(operator("", "Upsample", 10).unwrap().deprecated);
    assert!(operator("", "Upsample", 1).unwrap().experimental);
    assert!(operator("", "LayerNormalization", 17).unwrap().is_function);
}

#[test]
fn an_operator_declares_its_inputs_and_outputs() {
    let conv = operator("", "Conv", 11).unwrap();
    let names: Vec<_> = conv.inputs.iter().map(|input| (input.name, input.presence)).collect();
    let expected = [("X", Presence::Single), ("W", Presence::Single), ("B", Presence::Optional)];
    assert_eq!(names, expected);
    assert_eq!(conv.input_count, Count::Between(2, 3));
    assert_eq!(conv.types_of("T").unwrap(), ["tensor(double)", "tensor(float)", "tensor(float16)"]);
    let pad = conv.attribute("auto_pad").unwrap();
    assert_eq!(pad.default, Some(AttributeValue::String("NOTSET".into())));
    assert_eq!((pad.kind, pad.required), ("STRING", false));
    assert_eq!(conv.attribute("group").unwrap().default, Some(AttributeValue::Long(1)));
    assert!(operator("", "Concat", 13).unwrap().attribute("axis").unwrap().required);

    let normalize = operator("", "BatchNormalization", 9).unwrap();
    assert_eq!(normalize.output_count, Count::Of(vec![1, 5]));
    assert!(!normalize.output_count.admits(3));
    assert_eq!(normalize.output_count.to_string(), "1 or 5");

    let scan = operator("", "Scan", 9).unwrap();
    assert_eq!(scan.input_count, Count::From(1));
    assert_eq!(scan.input(7).unwrap().presence, Presence::Variadic);
    assert!(!scan.input(7).unwrap().homogeneous);
    let map = operator("ai.onnx.ml", "CastMap", 1).unwrap();
    assert_eq!(
        map.types_of("T1").unwrap(),
        ["map(int64,tensor(float))", "map(int64,tensor(string))"]
    );
}

#[test]
fn the_table_is_complete() {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut seen = BTreeSet::new();
    for operator in operators() {
        *counts.entry(operator.domain).or_default() += 1;
        let name = format!("{} {} {}", operator.domain, operator.kind, operator.since);
        assert!(seen.insert(name.clone()), "{name} is there twice");
        // The domain of ONNX Runtime has one version.
        let newest = if operator.domain == "com.microsoft" {
            Some(1)
        } else {
            newest_opset(operator.domain)
        };
        assert!(operator.since <= newest.unwrap(), "{name}");
        for formal in operator.inputs.iter().chain(&operator.outputs) {
            let known = operator.types_of(formal.types).is_some_and(|types| !types.is_empty());
            assert!(known || formal.types.contains('('), "{name}: {}", formal.types);
        }
        for attribute in &operator.attributes {
            let kind = attribute.default.as_ref().map(onnx::attribute_kind);
            assert!(kind.is_none_or(|kind| kind == attribute.kind), "{name}: {}", attribute.name);
        }
        let of_kind: Vec<_> = versions(operator.domain, operator.kind).collect();
        assert!(of_kind.is_sorted_by(|a, b| a.since < b.since), "{name}");
    }
    // The number of schemas that `onnx.defs.get_all_schemas_with_history()` of 1.23.2 returns, and that of onnxruntime 1.31.1.
    let expected = [
        ("ai.onnx", 629),
        ("ai.onnx.ml", 25),
        ("ai.onnx.preview", 1),
        ("ai.onnx.preview.training", 4),
        ("com.microsoft", 136),
    ];
    assert_eq!(counts, HashMap::from(expected));
    assert!(domains().all(|domain| counts.contains_key(domain)));
}

#[test]
fn a_release_has_the_ir_version_of_its_opsets() {
    assert_eq!((newest_opset(""), newest_opset("ai.onnx.ml")), (Some(NEWEST_OPSET), Some(5)));
    assert_eq!(newest_opset("com.microsoft"), None);
    assert_eq!(newest_ir_version(), 14);
    let first = |opset| ir_version_of_opset("ai.onnx", opset);
    assert_eq!([1, 8, 9, 15, 19, 21, 28, 29].map(first)[..7], [3, 3, 4, 8, 9, 10, 14].map(Some));
    assert_eq!(first(29), None);
    let types = [DType::Float32, DType::BFloat16, DType::Float8E5M2, DType::Int4, DType::Int2];
    assert_eq!(types.map(onnx::dtype::ir_version), [1, 4, 9, 10, 13]);
}
