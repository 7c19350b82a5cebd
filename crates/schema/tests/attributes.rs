//! Attributes that no release of a framework has, and values that none takes, are errors that list what is allowed.

#![expect(clippy::expect_used, reason = "tests")]

use lodstone_model::{Attribute, AttributeValue, ByteString, Op};
use lodstone_schema::caffe2::{check_arguments, closed_arguments};
use lodstone_schema::mxnet::{self, Values, attributes, check_attributes};
use lodstone_schema::onnx::quoted;

/// The operators of MXNet, by the table of values.
fn mxnet_operators() -> Vec<&'static str> {
    let table = include_str!("../data/mxnet_operators.tsv");
    table.lines().filter_map(|line| line.split('\t').next()).collect()
}

fn op(kind: &str, name: &str, value: AttributeValue) -> Op {
    Op {
        kind: kind.to_owned(),
        attributes: vec![Attribute { name: name.to_owned(), value }],
        ..Op::default()
    }
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::String(ByteString::from(value))
}

#[test]
fn every_mxnet_operator_with_attributes_rejects_a_bogus_one() {
    let kinds: Vec<&str> =
        mxnet_operators().into_iter().filter(|kind| attributes(kind).is_some()).collect();
    assert!(kinds.len() > 800, "{}", kinds.len());
    let mut open = Vec::new();
    for kind in kinds {
        match check_attributes(&op(kind, "no_such_attribute", text("1"))) {
            Ok(()) => open.push(kind),
            Err(finding) => {
                assert!(finding.message.contains("`no_such_attribute`"), "{kind}: {finding}")
            }
        }
        check_attributes(&op(kind, "__lr_mult__", text("1"))).expect("an attribute of the user");
    }
    // Operators whose attributes are those of code outside MXNet.
    let mut real: Vec<&str> = open.into_iter().map(mxnet::real_name).collect();
    real.dedup();
    let known = [
        "Custom",
        "_CustomFunction",
        "_backward_CachedOp",
        "_backward_Custom",
        "_backward_CustomFunction",
    ];
    let others: Vec<&str> = real.into_iter().filter(|kind| !known.contains(kind)).collect();
    assert_eq!(others, EMPTY, "operators that take any attribute");
}

const EMPTY: [&str; 0] = [];

#[test]
fn every_closed_set_of_mxnet_lists_its_words() {
    let (mut sets, mut booleans) = (0, 0);
    for kind in mxnet_operators() {
        for (name, values) in attributes(kind).iter().flat_map(|known| known.all()) {
            let wrong = check_attributes(&op(kind, name, text("bogus")));
            match values {
                Values::Any => assert_eq!(wrong, Ok(()), "{kind} {name}"),
                Values::Boolean { is_optional } => {
                    booleans += 1;
                    wrong.expect_err("a Boolean");
                    for value in ["True", "False", "0", "1", "true"] {
                        check_attributes(&op(kind, name, text(value))).expect("a Boolean");
                    }
                    let none = check_attributes(&op(kind, name, text("None")));
                    assert_eq!(none.is_ok(), *is_optional, "{kind} {name}");
                }
                Values::Words(words) => {
                    sets += 1;
                    let message = wrong.expect_err("a word of the set").message;
                    for word in words {
                        assert!(message.contains(&quoted(word)), "{kind} {name}: {message}");
                        check_attributes(&op(kind, name, text(word))).expect("a word of the set");
                    }
                }
            }
        }
    }
    assert!(sets > 200 && booleans > 200, "{sets} sets, {booleans} Booleans");
}

#[test]
fn every_closed_set_of_caffe2_lists_its_values() {
    let mut count = 0;
    for (kind, name, values) in closed_arguments() {
        let are_numbers = values.iter().all(|value| value.parse::<i64>().is_ok());
        let argument = |value: &str| match value.parse() {
            Ok(number) if are_numbers => AttributeValue::Long(number),
            _ => text(value),
        };
        let bogus = if are_numbers { AttributeValue::Long(99) } else { text("BOGUS") };
        let message =
            check_arguments(&op(kind, name, bogus)).expect_err("a value of the set").message;
        for value in values {
            assert!(message.contains(&quoted(value)), "{kind} {name}: {message}");
            check_arguments(&op(kind, name, argument(value))).expect("a value of the set");
        }
        count += 1;
    }
    assert!(count > 25, "{count} arguments");
}

#[test]
fn every_caffe2_operator_rejects_a_bogus_argument() {
    // `ATen` passes its arguments on.
    let kinds = include_str!("../data/caffe2_operators.txt").lines().filter(|kind| *kind != "ATen");
    for kind in kinds {
        let finding = check_arguments(&op(kind, "no_such_argument", text("1")));
        let message = finding.expect_err("an unknown argument").message;
        assert!(message.contains("`no_such_argument`"), "{kind}: {message}");
    }
    for kind in ["ATen", "OperatorOfAnotherLibrary"] {
        check_arguments(&op(kind, "no_such_argument", text("1"))).expect("its own argument");
    }
    // What only source files read, of Detectron's models among others.
    for name in ["correct_transform_coords", "pickled_builder", "recurrent_states", "hidden_size"] {
        check_arguments(&op("BBoxTransform", name, text("1"))).expect("an argument of Caffe2");
    }
}
