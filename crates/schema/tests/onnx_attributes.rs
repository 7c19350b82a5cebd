//! Attributes of ONNX's operators that they do not have, and values that they do not define.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

use std::collections::HashSet;

use lodstone_model::{Attribute, AttributeValue, Op, Operand};
use lodstone_schema::finding;
use lodstone_schema::onnx::infer::{NoBodies, infer_op, is_known};
use lodstone_schema::onnx::{AttributeSpec, Operator, operator, operators};

/// An operator of a version, without attributes.
fn op(known: &Operator) -> Op {
    let outputs = vec![Operand { slot: String::new(), args: vec!["y".into()] }];
    Op { kind: known.kind.into(), domain: known.domain.into(), outputs, ..Op::default() }
}

fn value(attribute: &AttributeSpec, text: &str) -> AttributeValue {
    match attribute.kind {
        "INT" => AttributeValue::Long(text.parse().unwrap()),
        "INTS" => AttributeValue::Longs(vec![text.parse().unwrap()]),
        "STRING" => AttributeValue::String(text.into()),
        "STRINGS" => AttributeValue::Strings(vec![text.into()]),
        other => panic!("{other} has no text"),
    }
}

/// Returns the error of inference, if it rejects an attribute.
fn rejected(op: &Op, known: &Operator) -> Option<String> {
    let error = infer_op(op, known.since, &[], &mut NoBodies).err()?;
    let of_attribute = matches!(error.operand.as_deref(), Some(finding::Operand::Attribute(_)));
    of_attribute.then(|| error.to_string())
}

/// The operators with a rule, by version.
fn inferred() -> impl Iterator<Item = &'static Operator> {
    operators().filter(|it| is_known(it.domain, it.kind) && !it.deprecated)
}

#[test]
fn an_attribute_that_the_version_does_not_have_is_an_error() {
    for known in inferred() {
        let mut op = op(known);
        let other = Attribute { name: "no_such_attribute".into(), value: AttributeValue::Long(1) };
        op.attributes.push(other);
        let error =
            rejected(&op, known).unwrap_or_else(|| panic!("{} {}", known.kind, known.since));
        assert_eq!(error, "has unknown attribute `no_such_attribute`", "{}", known.kind);
    }
    for (kind, version, attribute) in [("ReduceSum", 13, "axes"), ("Clip", 11, "min")] {
        let known = operator("", kind, version).unwrap();
        let mut op = op(known);
        op.attributes.push(Attribute { name: attribute.into(), value: AttributeValue::Float(0.0) });
        let error = format!("has unknown attribute `{attribute}`");
        assert_eq!(rejected(&op, known), Some(error));
    }
}

#[test]
fn a_value_outside_of_the_set_is_an_error_that_lists_the_set() {
    let mut count = 0;
    for known in inferred() {
        for attribute in &known.attributes {
            let Some(values) = attribute.values else { continue };
            let named = format!("{} {}: {}", known.kind, known.since, attribute.name);
            let with = |text: &str| {
                let mut op = op(known);
                let value = value(attribute, text);
                op.attributes.push(Attribute { name: attribute.name.into(), value });
                rejected(&op, known)
            };
            let bogus = if attribute.kind.starts_with("INT") { "77" } else { "no_such_value" };
            let error = with(bogus).unwrap_or_else(|| panic!("{named}"));
            assert!(
                error.contains(&format!("expected `{}` of ", attribute.name)),
                "{named}: {error}"
            );
            for value in values {
                assert!(error.contains(&format!("`{value}`")), "{named}: {error}");
                let error = with(value);
                let is_other = |error: &String| !error.contains("expected `");
                assert!(error.as_ref().is_none_or(is_other), "{named}, {value}: {error:?}");
            }
            count += 1;
        }
    }
    assert!(count > 200, "{count}");
}

#[test]
fn each_row_of_values_is_of_an_attribute_that_exists() {
    for line in include_str!("../data/onnx_values.tsv").lines() {
        let [domain, attribute, kinds, values] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        for kind in kinds.split(' ').map(|kind| kind.split('@').next().unwrap()) {
            let mut of_kind = operators().filter(|it| (it.domain, it.kind) == (domain, kind));
            let has =
                of_kind.any(|it| it.attribute(attribute).is_some_and(|it| it.values.is_some()));
            assert!(has, "{line}: {kind}");
        }
        let distinct: HashSet<&str> = values.split(' ').collect();
        assert_eq!(distinct.len(), values.split(' ').count(), "{line}");
    }
}
