//! Attributes that a program format cannot represent are rejected by name, not written as something else.
#![expect(clippy::unwrap_used, reason = "tests")]

use lodstone_formats::{WriteOptions, mxnet, named, paddle};
use lodstone_model::{
    Attribute, AttributeValue, Block, Dialect, Model, Op, Operand, Program, Topology, ValueType,
    Var,
};

/// Returns a program of one operator with one attribute.
fn program(dialect: Dialect, value: AttributeValue) -> Program {
    let attributes = vec![Attribute { name: "odd".to_owned(), value }];
    let output = Operand { slot: String::new(), args: vec!["y".to_owned()] };
    let (kind, name) = ("f".to_owned(), "y".to_owned());
    let op = Op { kind, name, outputs: vec![output], attributes, ..Op::default() };
    let outputs = vec!["y".to_owned()];
    let block = Block { parent: -1, ops: vec![op], outputs, ..Block::default() };
    Program::from(Topology { blocks: vec![block], ..Topology::new(dialect) })
}

#[test]
fn values_that_only_other_frameworks_have_are_refused() {
    let entry = Attribute { name: "key".to_owned(), value: AttributeValue::Int(1) };
    let values = [
        AttributeValue::None,
        AttributeValue::list(vec![AttributeValue::Int(1)]).unwrap(),
        AttributeValue::dict(vec![entry]).unwrap(),
    ];
    let dir = tempfile::tempdir().unwrap();
    for value in values {
        let error = paddle::program::write(&program(Dialect::Paddle, value.clone())).unwrap_err();
        assert!(error.to_string().contains("`odd`"), "{error}");
        let error =
            mxnet::symbol::write(&program(Dialect::Mxnet, value.clone()), false).unwrap_err();
        assert!(error.to_string().contains("`odd`"), "{error}");
        let programs = program(Dialect::Onnx, value).into();
        let model = Model { programs, ..Model::default() };
        let options = WriteOptions::default();
        let format = named("onnx").unwrap();
        let path = dir.path().join("model.onnx");
        let error = format.write(&model, &path, &options).map(drop).unwrap_err();
        assert!(error.to_string().contains("`odd`"), "{error}");
    }
}

#[test]
fn classes_that_are_no_opaque_types_are_refused_in_onnx() {
    let dir = tempfile::tempdir().unwrap();
    let write = |class: &str| {
        let mut program = program(Dialect::Onnx, AttributeValue::Long(1));
        let value = ValueType::Class(class.to_owned());
        program.blocks[0].vars.push(Var { name: "y".to_owned(), value, ..Var::default() });
        let model = Model { programs: program.into(), ..Model::default() };
        let path = dir.path().join("model.onnx");
        let format = named("onnx").unwrap();
        format.write(&model, &path, &WriteOptions::default()).map(drop)
    };
    write("opaque(domain,name)").unwrap();
    let error = write("__torch__.Tokenizer").unwrap_err().to_string();
    assert!(error.contains("the class `__torch__.Tokenizer`"), "{error}");
}
