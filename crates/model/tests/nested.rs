//! Nested values: the maximum depth, and that nothing overflows the stack at that depth.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;

use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, MAX_DEPTH, Op, Program, Tensor, TensorType,
    TooDeep, ValueType,
};

fn tensor() -> ValueType {
    TensorType::new(DType::Float32, None).into()
}

/// Returns a type of `levels` levels around a tensor, cycling through all kinds of nesting.
fn nested(levels: usize) -> Result<ValueType, TooDeep> {
    (0..levels).try_fold(tensor(), |inner, level| match level % 4 {
        0 => ValueType::list(inner),
        1 => ValueType::optional(inner),
        2 => ValueType::dict(DType::String, inner),
        _ => ValueType::tuple(vec![tensor(), inner]),
    })
}

/// Runs `test` on a thread with a stack of 64 KiB, less than the default of any thread.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(test).unwrap();
    thread.join().unwrap();
}

#[test]
fn types_are_nested_to_the_maximum_depth_and_no_deeper() {
    let deepest = nested(MAX_DEPTH).unwrap();
    assert!(nested(MAX_DEPTH + 1).is_err());
    for too_deep in [
        ValueType::list(deepest.clone()),
        ValueType::optional(deepest.clone()),
        ValueType::dict(DType::Int64, deepest.clone()),
        ValueType::tuple(vec![tensor(), deepest]),
    ] {
        assert!(too_deep.is_err());
    }
}

#[test]
fn the_deepest_types_are_dropped_compared_cloned_and_printed() {
    on_a_small_stack(|| {
        let mut deepest = nested(MAX_DEPTH).unwrap();
        assert_eq!(deepest.clone(), deepest);
        assert_ne!(nested(MAX_DEPTH - 1).unwrap(), deepest);
        assert!(!format!("{deepest:?}{deepest:#?}").is_empty());
        assert_eq!(deepest.tensor_type().unwrap().dtype, DType::Float32);
        assert_eq!(deepest.tensors().len(), 1 + MAX_DEPTH / 4);
        deepest.tensors_mut().into_iter().for_each(|tensor| tensor.dtype = DType::Int8);
        assert!(deepest.tensors().iter().all(|tensor| tensor.dtype == DType::Int8));
    });
}

#[test]
fn a_value_can_be_taken_out_and_nested_again() {
    let ValueType::List(element) = ValueType::list(tensor()).unwrap() else { panic!("a list") };
    assert_eq!(*element, tensor());
    let inner = element.into_inner();
    assert_eq!(ValueType::optional(inner), ValueType::optional(tensor()));
}

#[test]
fn tensors_are_returned_in_order_without_unspecified_ones() {
    let [a, b] = [DType::Int8, DType::Int16].map(|dtype| TensorType::new(dtype, None));
    let unknown = ValueType::Tensor(TensorType::default());
    let list = ValueType::list(a.clone().into()).unwrap();
    let tuple = ValueType::tuple(vec![unknown, list, b.clone().into()]).unwrap();
    assert_eq!(tuple.tensor_type(), Some(&a));
    assert_eq!(tuple.tensors(), [&a, &b]);
}

fn entry(name: &str, value: AttributeValue) -> Attribute {
    Attribute { name: name.to_owned(), value }
}

/// Returns a value of `levels` levels around an integer, alternating lists and dictionaries.
fn nested_value(levels: usize) -> Result<AttributeValue, TooDeep> {
    (0..levels).try_fold(AttributeValue::Int(1), |inner, level| match level % 2 {
        0 => AttributeValue::list(vec![AttributeValue::None, inner]),
        _ => AttributeValue::dict(vec![entry("a", inner), entry("b", AttributeValue::Int(2))]),
    })
}

#[test]
fn values_are_nested_to_the_maximum_depth_and_no_deeper() {
    let deepest = nested_value(MAX_DEPTH).unwrap();
    assert!(nested_value(MAX_DEPTH + 1).is_err());
    assert!(AttributeValue::list(vec![deepest.clone()]).is_err());
    assert!(AttributeValue::dict(vec![entry("a", deepest)]).is_err());
}

#[test]
fn the_deepest_values_are_dropped_compared_cloned_and_printed() {
    on_a_small_stack(|| {
        let deepest = nested_value(MAX_DEPTH).unwrap();
        assert_eq!(deepest.clone(), deepest);
        assert_ne!(nested_value(MAX_DEPTH - 1).unwrap(), deepest);
        assert!(!format!("{deepest:?}{deepest:#?}").is_empty());
        assert_eq!(deepest.leaves().count(), 1 + MAX_DEPTH);
    });
}

#[test]
fn variables_and_blocks_in_nested_attributes_are_returned() {
    let tensor = Tensor::from_vec(vec![1], vec![1i8]).unwrap();
    let inner = vec![
        AttributeValue::Vars(vec!["b".to_owned(), "c".to_owned()]),
        AttributeValue::Block(1),
        AttributeValue::Tensor(Box::new(tensor.clone())),
    ];
    let list = AttributeValue::list(inner).unwrap();
    let entries = vec![entry("x", AttributeValue::Var("a".to_owned())), entry("y", list)];
    let value = AttributeValue::dict(entries).unwrap();
    let op = Op { attributes: vec![entry("all", value)], ..Op::default() };
    assert_eq!(op.reads().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(op.blocks().collect::<Vec<_>>(), [1]);
    assert_eq!(op.tensors().collect::<Vec<_>>(), [&tensor]);

    let mut program = Program::new(Dialect::Paddle);
    program.blocks.push(Block { ops: vec![op], ..Block::default() });
    program.rename(&HashMap::from([("b".to_owned(), "new".to_owned())]));
    let op = &mut program.blocks[0].ops[0];
    op.attributes[0].value.edit_blocks(|block| *block += 1);
    assert_eq!(op.reads().collect::<Vec<_>>(), ["a", "new", "c"]);
    assert_eq!(op.blocks().collect::<Vec<_>>(), [2]);
}
