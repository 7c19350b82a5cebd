//! PaddlePaddle's conventions, on programs that the tests build.

use lodstone_model::{
    Attribute, AttributeValue, Block, Dialect, Holder, Op, Operand, Program, TensorType, Topology,
    ValueType, Var,
};
use lodstone_schema::paddle::{
    CALLSTACK, CONVENTIONS, Choice, Release, interface, operator, saved, set_need_check_feed,
    unknown_operators,
};

fn var(name: &str, value: impl Into<ValueType>, persistable: bool) -> Var {
    Var { name: name.to_owned(), value: value.into(), persistable, ..Var::default() }
}

fn op(kind: &str, input: (&str, &str), output: (&str, &str), col: Option<i32>) -> Op {
    let operand =
        |(slot, name): (&str, &str)| Operand { slot: slot.to_owned(), args: vec![name.to_owned()] };
    let attribute = |value| Attribute { name: "col".to_owned(), value: AttributeValue::Int(value) };
    Op {
        kind: kind.to_owned(),
        inputs: vec![operand(input)],
        outputs: vec![operand(output)],
        attributes: col.map(attribute).into_iter().collect(),
        ..Op::default()
    }
}

fn program(vars: Vec<Var>, ops: Vec<Op>) -> Program {
    Program::from(Topology {
        blocks: vec![Block { parent: -1, vars, ops, ..Block::default() }],
        ..Topology::new(Dialect::Paddle)
    })
}

#[test]
fn the_registry_has_slots_and_releases() {
    let conv2d = operator("conv2d").expect("an operator");
    assert_eq!(conv2d.releases, ["1.8.5", "2.6.2", "3.3.1"]);
    let inputs: Vec<_> = conv2d.inputs.iter().map(|slot| slot.name).collect();
    assert_eq!(inputs, ["Input", "Filter", "Bias", "ResidualData"]);
    assert!(conv2d.inputs[2].optional && !conv2d.inputs[0].optional);
    assert!(operator("sum").expect("an operator").inputs[0].several);
    assert!(operator("no_such_operator").is_none());
}

#[test]
fn attributes_decide_what_computes_an_operator() {
    let since = |kind: &str, given: Option<(&str, AttributeValue)>, release| {
        let made = op(kind, ("X", "x"), ("Out", "y"), None);
        let attribute = |(name, value): (&str, _)| Attribute { name: name.to_owned(), value };
        let attributes = given.into_iter().map(attribute).collect();
        operator(kind)?.choose(&Op { attributes, ..made }, release)
    };
    let choice = |kind: &str, given| since(kind, given, Release::WRITTEN);
    let flag = |name| Some((name, AttributeValue::Bool(true)));
    let order = |order| Some(("porder", AttributeValue::Float(order)));
    assert_eq!(choice("relu", None), Some(Choice::Lowered));
    assert_eq!(choice("while", None), Some(Choice::Native));
    assert_eq!(choice("sum", None), Some(Choice::NativeIfSparse));
    assert_eq!(choice("dropout", None), Some(Choice::Native));
    assert_eq!(choice("dropout", flag("is_test")), Some(Choice::Lowered));
    assert_eq!(choice("lookup_table_grad", None), Some(Choice::Lowered));
    assert_eq!(choice("lookup_table_grad", flag("is_sparse")), Some(Choice::Native));
    assert_eq!(choice("cast", Some(("out_dtype", AttributeValue::Int(4)))), Some(Choice::Native));
    assert_eq!(choice("cast", Some(("out_dtype", AttributeValue::Int(5)))), Some(Choice::Lowered));
    let half = || Some(("out_dtype", AttributeValue::Int(4)));
    assert_eq!(since("cast", half(), Release::new(3, 1)), Some(Choice::Native));
    assert_eq!(since("cast", half(), Release::new(3, 2)), Some(Choice::Lowered));
    assert_eq!(choice("reduce_max", None), Some(Choice::NativeIfNan));
    assert_eq!(since("reduce_max", None, Release::new(3, 0)), Some(Choice::Lowered));
    assert_eq!(choice("p_norm", None), Some(Choice::Lowered));
    assert_eq!(choice("p_norm", order(f32::NEG_INFINITY)), Some(Choice::NativeIfNan));
    assert_eq!(choice("go", None), None);
    assert_eq!(choice("no_such_operator", None), None);
}

#[test]
fn persistable_values_are_saved_by_name_each_once() {
    let mut program = program(
        vec![
            var("conv2d_2", TensorType::default(), true),
            var("conv2d_10", TensorType::default(), true),
            var("feed", Holder::FeedMinibatch, true),
            var("fetch", Holder::FetchList, true),
            var("reader", Holder::Reader(Vec::new()), true),
            var("holder", Holder::Raw, true),
            var("temporary", TensorType::default(), false),
            var("rows", Holder::SelectedRows(TensorType::default()), true),
        ],
        Vec::new(),
    );
    let sub_block =
        vec![var("in_sub_block", TensorType::default(), true), program.blocks[0].vars[0].clone()];
    program.blocks.push(Block { index: 1, vars: sub_block, ..Block::default() });
    let names: Vec<_> = saved(&program).iter().map(|var| var.name.as_str()).collect();
    assert_eq!(names, ["conv2d_10", "conv2d_2", "in_sub_block", "rows"]);
}

#[test]
fn inputs_and_outputs_go_by_column_not_by_order() {
    let program = program(
        Vec::new(),
        vec![
            op("feed", ("X", "feed"), ("Out", "second"), Some(1)),
            op("feed", ("X", "feed"), ("Out", "first"), Some(0)),
            op("fetch", ("X", "last"), ("Out", "fetch"), Some(2)),
            op("fetch", ("X", "middle"), ("Out", "fetch"), Some(1)),
        ],
    );
    let interface = interface(&program);
    assert_eq!(interface.inputs, ["first", "second"]);
    assert_eq!(interface.outputs, ["middle", "last"]);
}

#[test]
fn variables_declared_as_fed_are_inputs_without_feed_operators() {
    let mut image = var("image", TensorType::default(), false);
    set_need_check_feed(&mut image, true);
    let program = program(vec![image, var("other", TensorType::default(), false)], Vec::new());
    assert_eq!(interface(&program).inputs, ["image"]);
}

#[test]
fn source_lines_are_counted_and_removed() {
    let mut program = program(
        Vec::new(),
        ["a", "b", "c"].map(|_| op("relu", ("X", "x"), ("Out", "y"), None)).to_vec(),
    );
    let lines = |lines: &[&str]| Attribute {
        name: CALLSTACK.to_owned(),
        value: AttributeValue::Strings(lines.iter().map(|line| (*line).into()).collect()),
    };
    program.blocks[0].ops[0].attributes.push(lines(&["train.py, line 3"]));
    program.blocks[0].ops[1].attributes.push(lines(&[]));
    assert_eq!(CONVENTIONS.count_source(&program), 1, "an empty list does not count");
    CONVENTIONS.strip_source(&mut program);
    assert_eq!(CONVENTIONS.count_source(&program), 0);
    assert!(program.ops().all(|op| op.attributes.is_empty()));
}

#[test]
fn custom_operators_are_unknown_and_gradients_of_known_ones_are_not() {
    let kinds = ["relu", "my_op", "conv2d_grad", "my_op", "conv2d_grad_grad", "my_op_grad"];
    let ops = kinds.map(|kind| op(kind, ("X", "x"), ("Out", "y"), None)).to_vec();
    assert_eq!(unknown_operators(&program(Vec::new(), ops)), [("", "my_op"), ("", "my_op_grad")]);
}
