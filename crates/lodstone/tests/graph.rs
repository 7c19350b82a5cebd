//! The differences between programs, operator by operator.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lodstone::diff::{Diff, OperatorChange, ProgramDifference};
use lodstone::inspect::{GraphFormat, write_graph};
use lodstone::model::Topology;
use lodstone::{DiffOptions, Model, diff, open};
use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, Dim, Op, Operand, Parameter, Program,
    TensorType, ValueType, Var,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A model of each dialect, with operators in sequence, in branches and in blocks.
const MODELS: [&str; 9] = [
    "examples/digits/paddle",
    "examples/digits/mxnet",
    "crates/formats/tests/golden/paddle/2.6.2/control_flow/inference",
    "crates/formats/tests/golden/paddle/2.6.2/attributes.pb",
    "crates/formats/tests/golden/onnx/blocks/loop.onnx",
    "crates/formats/tests/golden/onnx/functions.onnx",
    "crates/formats/tests/golden/onnx/attributes.onnx",
    "crates/formats/tests/golden/glow/member_types.onnx",
    "crates/formats/tests/golden/glow/exportParallelizedGraphWithTwoConstFoldingRecords.onnxtxt",
];

fn model(path: &str) -> Model {
    open(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn compared(a: &Model, b: &Model) -> Diff {
    diff(a.clone(), b, &DiffOptions::default()).expect("compared")
}

fn programs(a: &Model, b: &Model) -> ProgramDifference {
    compared(a, b).program.expect("two programs")
}

fn edited(path: &str, edit: impl FnOnce(&mut Program)) -> ProgramDifference {
    let before = model(path);
    let mut after = before.clone();
    edit(after.main_mut().expect("a program"));
    programs(&before, &after)
}

fn changes(report: &ProgramDifference) -> Vec<(Vec<OperatorChange>, usize)> {
    let place = |operator: &lodstone::diff::OperatorDifference| {
        let place = operator.a.as_ref().or(operator.b.as_ref()).expect("a place");
        (operator.changes.clone(), place.number)
    };
    report.operators.iter().map(place).collect()
}

/// Adds a prefix to every name that is not part of the interface.
fn rename_all(program: &mut Program) {
    let seen: Vec<String> = program
        .blocks
        .iter()
        .take(1)
        .flat_map(|block| block.inputs.iter().chain(&block.outputs))
        .cloned()
        .collect();
    let names =
        program.ops().flat_map(Op::writes).filter(|name| !seen.contains(&(*name).to_owned()));
    let names: HashMap<String, String> =
        names.map(|name| (name.to_owned(), format!("other/{name}"))).collect();
    program.rename(&names);
    for op in program.blocks.iter_mut().flat_map(|block| &mut block.ops) {
        if !op.name.is_empty() {
            op.name = format!("other/{}", op.name);
        }
    }
}

#[test]
fn a_program_equals_itself() {
    for path in MODELS {
        // Opened twice: constants have different addresses, but are equal.
        let report = programs(&model(path), &model(path));
        let operators = model(path).programs.into_main().expect("a program").ops().count();
        assert!(report.same, "{path}: {report:?}");
        assert_eq!(report.equal, operators, "{path}");
        assert_eq!((report.ambiguous, report.moved), (0, 0), "{path}");
    }
}

#[test]
fn each_renamed_value_is_reported_once() {
    for path in MODELS {
        let report = edited(path, rename_all);
        let operators = model(path).programs.into_main().expect("a program").ops().count();
        assert_eq!(report.operators.len(), 0, "{path}: {:?}", report.operators);
        assert_eq!(report.equal, operators, "{path}");
        for (old, new) in &report.renamed {
            assert_eq!(*new, format!("other/{old}"), "{path}");
        }
        assert!(!report.renamed.is_empty() && !report.same, "{path}");
    }
}

#[test]
fn each_kind_of_edit_is_reported() {
    use OperatorChange as C;
    let path = "examples/digits/paddle";
    let relu = |program: &Program| {
        program.blocks[0].ops.iter().position(|op| op.kind == "relu").expect("an operator")
    };
    let at = relu(model(path).main().expect("a program"));

    let report = edited(path, |program| {
        let ops = &mut program.blocks[0].ops;
        ops[at]
            .attributes
            .push(Attribute { name: "new".to_owned(), value: AttributeValue::Int(7) });
    });
    assert_eq!(changes(&report), [(vec![C::Attributes], at)]);
    let detail = &report.operators[0].details[0];
    assert_eq!(
        (detail.what.as_str(), &detail.a, detail.b.as_deref()),
        ("attribute new", &None, Some("7"))
    );

    let report = edited(path, |program| program.blocks[0].ops[at].kind = "gelu".to_owned());
    assert_eq!(changes(&report), [(vec![C::Kind], at)]);
    assert_eq!(report.kinds, [("gelu".to_owned(), 0, 1), ("relu".to_owned(), 2, 1)]);

    // The readers of the removed operator read its input instead.
    let report = edited(path, |program| {
        let removed = program.blocks[0].ops.remove(at);
        let (from, to) = (removed.writes().next().expect("a value"), removed.reads().next());
        for op in &mut program.blocks[0].ops {
            for arg in op.inputs.iter_mut().flat_map(|operand| &mut operand.args) {
                if arg == from {
                    *arg = to.expect("a value").to_owned();
                }
            }
        }
    });
    assert_eq!(changes(&report), [(vec![C::Removed], at), (vec![C::Rewired], at + 1)]);

    let report = edited(path, |program| {
        let mut added = program.blocks[0].ops[at].clone();
        added.kind = "tanh".to_owned();
        added.outputs[0].args[0] = "nobody_reads_this".to_owned();
        program.blocks[0].ops.insert(at + 1, added);
    });
    assert_eq!(changes(&report), [(vec![C::Added], at + 1)]);

    let report = edited(path, |program| {
        let first = program.blocks[0].ops[0].outputs[0].args[0].clone();
        program.blocks[0].ops[at].inputs[0].args[0] = first;
    });
    assert_eq!(changes(&report), [(vec![C::Rewired], at)]);
    assert_eq!(report.operators[0].details[0].what, "input X");

    let report = edited(path, |program| {
        let var = &mut program.blocks[0].vars[3];
        let stops = lodstone_schema::paddle::stop_gradient(var);
        lodstone_schema::paddle::set_stop_gradient(var, !stops);
    });
    assert!(report.operators.is_empty() && !report.same);
    assert!(report.details[0].what.starts_with("variable "), "{:?}", report.details);
}

#[test]
fn source_lines_of_a_script_are_not_compared() {
    let report = edited("examples/digits/paddle", |program| {
        for op in &mut program.blocks[0].ops {
            let value = AttributeValue::Strings(vec!["File \"train.py\", line 3".into()]);
            op.attributes.retain(|attribute| attribute.name != "op_callstack");
            op.attributes.push(Attribute { name: "op_callstack".to_owned(), value });
        }
    });
    assert!(report.same, "{report:?}");
}

/// Returns an ONNX program; each operator reads the outputs of others.
fn onnx(ops: &[(&str, &[&str], &str)]) -> Model {
    let op = |(kind, inputs, output): &(&str, &[&str], &str)| {
        let operand = |args: Vec<String>| vec![Operand { slot: String::new(), args }];
        Op {
            kind: (*kind).to_owned(),
            inputs: operand(inputs.iter().map(ToString::to_string).collect()),
            outputs: operand(vec![(*output).to_owned()]),
            ..Op::default()
        }
    };
    let block = Block {
        ops: ops.iter().map(op).collect(),
        inputs: vec!["x".to_owned()],
        outputs: vec!["y".to_owned()],
        ..Block::default()
    };
    let program = Program::from(Topology { blocks: vec![block], ..Topology::new(Dialect::Onnx) });
    Model { programs: program.into(), ..Model::default() }
}

#[test]
fn the_order_of_independent_operators_is_not_a_difference() {
    let before = onnx(&[("Abs", &["x"], "a"), ("Neg", &["x"], "b"), ("Add", &["a", "b"], "y")]);
    let after = onnx(&[("Neg", &["x"], "b"), ("Abs", &["x"], "a"), ("Add", &["a", "b"], "y")]);
    let report = programs(&before, &after);
    assert!(report.same, "{report:?}");
    assert_eq!((report.equal, report.moved), (3, 1));
}

#[test]
fn operators_are_paired_by_their_dependents() {
    // The numbers in all names are one higher, as exporters write them if an operator is inserted at the start.
    let before = onnx(&[("Abs", &["x"], "1"), ("Abs", &["1"], "2"), ("Abs", &["2"], "y")]);
    let after = onnx(&[
        ("Neg", &["x"], "n"),
        ("Abs", &["n"], "p"),
        ("Abs", &["p"], "q"),
        ("Abs", &["q"], "y"),
    ]);
    let report = programs(&before, &after);
    let found = changes(&report);
    assert_eq!(found, [(vec![OperatorChange::Rewired], 0), (vec![OperatorChange::Added], 0)]);
    let renamed: Vec<_> = report.renamed.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(renamed, [("1", "p"), ("2", "q")]);
}

#[test]
fn operators_that_cannot_be_distinguished_are_counted() {
    let before = onnx(&[("Abs", &["x"], "a"), ("Abs", &["x"], "b"), ("Add", &["a", "b"], "y")]);
    let after = onnx(&[
        ("Abs", &["x"], "c"),
        ("Abs", &["x"], "d"),
        ("Abs", &["x"], "e"),
        ("Sum", &["c", "d", "e"], "y"),
    ]);
    let report = programs(&before, &after);
    assert!(report.ambiguous > 0, "{report:?}");
    assert_eq!(report.operators.iter().filter(|o| o.changes == [OperatorChange::Added]).count(), 1);
}

#[test]
fn large_and_hostile_programs_are_compared_in_time() {
    // A chain of 100,000 with an edit in the middle, and all values renamed.
    let chain = |name: &str, edit: bool| {
        let mut ops = Vec::new();
        for number in 0..100_000 {
            let kind = if edit && number == 50_000 { "Neg" } else { "Abs" };
            let input = if number == 0 { "x".to_owned() } else { format!("{name}{}", number - 1) };
            ops.push((kind, input, format!("{name}{number}")));
        }
        let borrowed: Vec<[&str; 1]> = ops.iter().map(|(_, input, _)| [input.as_str()]).collect();
        let rows: Vec<(&str, &[&str], &str)> = ops
            .iter()
            .zip(&borrowed)
            .map(|((kind, _, output), input)| (*kind, &input[..], output.as_str()))
            .collect();
        onnx(&rows)
    };
    let report = programs(&chain("a", false), &chain("b", true));
    let kinds: Vec<_> = report.operators.iter().flat_map(|o| o.changes.clone()).collect();
    assert!(kinds.len() <= 4, "{kinds:?}");
    assert!(report.equal >= 99_998);

    // Many equal operators, one more of them in one of the programs.
    let equal: Vec<(&str, &[&str], &str)> = vec![("Abs", &["x"], ""); 100_000];
    let report = programs(&onnx(&equal), &onnx(&equal[1..]));
    assert_eq!(report.equal + report.operators.len(), 100_000);

    // A block that contains itself, and missing blocks.
    let mut odd = onnx(&[("If", &["x"], "y"), ("If", &["x"], "z")]);
    let ops = &mut odd.main_mut().expect("a program").blocks[0].ops;
    ops[0].attributes =
        vec![Attribute { name: "then".to_owned(), value: AttributeValue::Block(0) }];
    ops[1].attributes =
        vec![Attribute { name: "then".to_owned(), value: AttributeValue::Block(-7) }];
    assert!(programs(&odd, &odd.clone()).same);
}

#[test]
fn the_name_of_an_operator_does_not_identify_it() {
    let model = onnx(&[("Abs", &["x\n    1  Neg(x) -> y"], "y")]);
    let mut out = Vec::new();
    write_graph(&model, GraphFormat::Text, 10, &mut out).expect("a graph");
    let text = String::from_utf8(out).expect("text");
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains(r"Abs(x\n    1  Neg(x) -> y)"), "{text}");
}

#[test]
fn labels_of_arrows_are_short() {
    let mut model = onnx(&[("Sum", &["x"; 1000], "y")]);
    let shape = Some(vec![Dim::Known(1); 10_000]);
    let value = ValueType::tensor(TensorType::new(DType::Float32, shape));
    let main = &mut model.main_mut().expect("a program").blocks[0];
    main.inputs = vec!["x".to_owned()];
    main.vars = vec![Var { name: "x".to_owned(), value, ..Var::default() }];
    for format in [GraphFormat::Dot, GraphFormat::Mermaid] {
        let mut out = Vec::new();
        write_graph(&model, format, 10, &mut out).expect("a graph");
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count() / 1000, 1);
        assert!(out.len() < 1_000_000, "{}", out.len());
    }
}

#[test]
fn names_of_parameters_in_programs_are_compared() {
    // A parameter with another name has another name in the program.
    let before = model("examples/digits/mxnet");
    let mut after = before.clone();
    let old = after.parameters[0].name.clone();
    let variable = old.trim_start_matches("arg:").to_owned();
    after.parameters[0] = Parameter { name: format!("{old}_2"), ..after.parameters[0].clone() };
    let names = HashMap::from([(variable.clone(), format!("{variable}_2"))]);
    after.main_mut().expect("a program").rename(&names);
    let report = programs(&before, &after);
    assert!(report.operators.is_empty(), "{report:?}");
    assert_eq!(report.renamed, [(variable.clone(), format!("{variable}_2"))]);
}

#[test]
fn an_attribute_with_its_default_is_not_a_difference() {
    // Before version 13, the default of `axis` was 1.
    let path = "crates/formats/tests/golden/onnx_upgrade/flatten_Softmax.onnx";
    let said = |axis: i64| {
        move |program: &mut Program| {
            let value = AttributeValue::Long(axis);
            let softmax = program.blocks[0].ops.first_mut().expect("an operator");
            softmax.attributes.push(Attribute { name: "axis".to_owned(), value });
        }
    };
    assert!(edited(path, said(1)).operators.is_empty());
    assert_eq!(changes(&edited(path, said(0))), [(vec![OperatorChange::Attributes], 0)]);
}
