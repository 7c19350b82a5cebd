//! Findings: codes, operands, places, and messages.

use lodstone_model::{Attribute, AttributeValue, DType, Dim, Op, Operand as Slot};
use lodstone_schema::onnx::infer::{NoBodies, ValueInfo, infer_op};
use lodstone_schema::{Code, Finding, Findings, Operand};

fn op(kind: &str, inputs: &[&str], attributes: Vec<Attribute>) -> Op {
    let slot = |names: &[&str]| {
        let args = names.iter().map(ToString::to_string).collect();
        vec![Slot { slot: String::new(), args }]
    };
    Op {
        kind: kind.to_owned(),
        inputs: slot(inputs),
        outputs: slot(&["y"]),
        attributes,
        ..Op::default()
    }
}

fn rejected(op: &Op, inputs: &[&ValueInfo]) -> Finding {
    let inputs: Vec<Option<&ValueInfo>> = inputs.iter().copied().map(Some).collect();
    infer_op(op, 21, &inputs, &mut NoBodies).unwrap_err()
}

#[test]
fn a_rule_names_the_rejected_input() {
    let (floats, longs) = (DType::Float32, DType::Int64);
    let dims = |sizes: &[u64]| Some(sizes.iter().map(|it| Dim::Known(*it)).collect());
    let [a, b] = [floats, longs].map(|dtype| ValueInfo::tensor(dtype, dims(&[2])));
    let finding = rejected(&op("Concat", &["a", "b"], Vec::new()), &[&a, &b]);
    assert_eq!(finding.code, Code::Rule);
    let axis = Attribute { name: "axis".to_owned(), value: AttributeValue::Long(5) };
    let finding = rejected(&op("Gather", &["a", "b"], vec![axis]), &[&a, &b]);
    assert_eq!(finding.operand.as_deref(), Some(&Operand::Attribute("axis".to_owned())));
    assert!(finding.to_string().starts_with("`axis`: expected an axis"), "{finding}");
}

#[test]
fn a_context_comes_before_the_message_and_drops_its_operand() {
    let finding = Finding::new(Code::Limit, "it is too large").about_input(1);
    assert_eq!(finding.operand.as_deref(), Some(&Operand::Input(String::new(), 1)));
    let within = finding.within("as `Conv`");
    assert_eq!(within, Finding::new(Code::Limit, "as `Conv`: it is too large"));
    assert_eq!(within.at("the graph").to_string(), "the graph: as `Conv`: it is too large");
}

#[test]
fn only_inconsistent_shapes_break_no_rules() {
    let mut findings = Findings::default();
    findings.push(Finding::new(Code::Inconsistent, "two shapes").at("x"));
    assert!(!findings.breaks_rules() && !findings.has(Code::Rule));
    for number in 0..2000 {
        findings.push(Finding::new(Code::Inconsistent, "two shapes").at(number.to_string()));
    }
    assert_eq!(
        (findings.located.len(), findings.more, findings.more_inconsistent),
        (1000, 0, 1001)
    );
    findings.add("y", "it has no name");
    assert!(findings.breaks_rules());
    assert_eq!((findings.more, findings.count()), (1, 2002));
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "there is no register 3"))]
fn an_internal_finding_panics_with_debug_assertions() {
    let finding = Finding::internal("there is no register 3");
    assert_eq!(finding.code, Code::Internal);
    assert_eq!(finding.to_string(), "internal error: there is no register 3");
}
