//! Damaged ONNX models are checked and upgraded, or rejected, without side effects.

use std::path::{Path, PathBuf};

use lodstone_formats::{OpenOptions, onnx};
use lodstone_model::{Attribute, AttributeValue, Block, DType, Limits, MAX_DEPTH, Op, Program};
use lodstone_schema::onnx::{check, newest_opset, operators, upgrade};
use lodstone_store::{Blob, Location};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A reproducible sequence of pseudorandom numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % end as u64).expect("below a `usize`")
    }
}

/// Returns a value that an attribute should not have.
fn odd(random: &mut Random) -> AttributeValue {
    use AttributeValue as A;
    match random.below(10) {
        0 => A::Long(i64::MIN),
        1 => A::Long(1),
        2 => A::Longs(Vec::new()),
        3 => A::Longs(vec![i64::MAX, -1]),
        4 => A::Float(f32::INFINITY),
        5 => A::Floats(vec![0.5, f32::INFINITY]),
        6 => A::String("linear".into()),
        7 => A::Reference { name: "axes".to_owned(), kind: 7 },
        8 => A::Block(0),
        _ => A::Unknown(77),
    }
}

/// Makes a random change to a program.
fn mutate(program: &mut Program, kinds: &[&str], random: &mut Random) {
    let number = random.below(program.blocks.len());
    let block = &mut program.blocks[number];
    if random.below(8) == 0 {
        let version = i64::try_from(random.below(30)).unwrap();
        program.operator_versions.iter_mut().for_each(|(_, is)| *is = version);
        return;
    }
    if random.below(8) == 0 && !block.vars.is_empty() {
        let var = random.below(block.vars.len());
        block.vars[var].value.tensors_mut().into_iter().for_each(|tensor| tensor.shape = None);
        return;
    }
    let names: Vec<String> = block.ops.iter().flat_map(Op::reads).map(str::to_owned).collect();
    let index = random.below(block.ops.len().max(1));
    let Some(op) = block.ops.get_mut(index) else { return };
    let attribute = random.below(op.attributes.len().max(1));
    match random.below(6) {
        0 if !op.attributes.is_empty() => drop(op.attributes.remove(attribute)),
        1 if !op.attributes.is_empty() => op.attributes[attribute].value = odd(random),
        2 => op.kind = kinds[random.below(kinds.len())].to_owned(),
        3 if !names.is_empty() => op.inputs[0].args.push(names[random.below(names.len())].clone()),
        4 => drop(op.inputs[0].args.pop()),
        _ => drop(op.outputs[0].args.pop()),
    }
}

#[test]
fn a_valid_mutated_model_is_valid_after_an_upgrade() {
    let mut kinds: Vec<&str> = operators().map(|operator| operator.kind).collect();
    kinds.sort_unstable();
    let (mut random, mut upgraded, mut right) = (Random(7), 0, 0);
    for entry in Location::from(&golden("onnx_upgrade")).list().unwrap() {
        if !entry.name.ends_with(".onnx") {
            continue;
        }
        let path = golden("onnx_upgrade").join(&entry.name);
        let whole = (onnx::BINARY.read)(&Location::from(&path), &OpenOptions::default()).unwrap();
        for _ in 0..800 {
            let mut model = whole.clone();
            for _ in 0..=random.below(3) {
                mutate(model.main_mut().unwrap(), &kinds, &mut random);
            }
            let before = check(&model);
            let program = model.main().cloned();
            if upgrade(&mut model, newest_opset("").unwrap()).is_err() {
                assert_eq!(model.main(), program.as_ref());
                continue;
            }
            upgraded += 1;
            if before.is_empty() {
                right += 1;
                let after = check(&model);
                let ops: Vec<_> = program.iter().flat_map(|program| program.ops()).collect();
                assert!(after.is_empty(), "{}: {after:?}, of {ops:?}", entry.name);
            }
        }
    }
    assert!(upgraded > 10_000 && right > 3000, "{upgraded} upgraded, {right} right");
}

#[test]
fn cyclic_blocks_do_not_make_an_upgrade_loop() {
    let read = |name: &str| {
        let path = golden("onnx_upgrade").join(format!("{name}.onnx"));
        (onnx::BINARY.read)(&Location::from(&path), &OpenOptions::default()).unwrap()
    };
    for name in ["if", "scan"] {
        let mut model = read(name);
        let blocks = &mut model.main_mut().unwrap().blocks;
        let value = AttributeValue::Blocks(vec![0, 1, 1, -1, 99]);
        let attributes = vec![Attribute { name: "body".to_owned(), value }];
        let (domain, kind) = ("other".to_owned(), "If".to_owned());
        blocks[1].ops.push(Op { domain, kind, attributes, ..Op::default() });
        blocks[1].parent = 1;
        blocks.push(Block { index: 99, parent: 99, ..Block::default() });
        assert!(!check(&model).is_empty());
        upgrade(&mut model, 21).unwrap();
    }
}

/// Returns a length-delimited protobuf field.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    // A varint of two bytes.
    let [low, high] = [bytes.len() % 128 + 128, bytes.len() / 128];
    let length = [low, high].map(|part| u8::try_from(part).unwrap());
    [&[number << 3 | 2], length.as_slice(), bytes].concat()
}

/// Returns a model whose input has a type of nested sequences around a tensor.
fn sequences(levels: usize) -> Vec<u8> {
    let tensor = field(1, &[8, 1]);
    let value = (0..levels).fold(tensor, |inner, _| field(4, &field(1, &inner)));
    let input = [field(1, b"x"), field(2, &value)].concat();
    [vec![8, 8], field(7, &field(11, &input))].concat()
}

#[test]
fn types_nested_deeper_than_the_model_allows_are_refused() {
    let limits = Limits::default().with_depth(1000);
    let open = |levels| onnx::read_blob(&Blob::memory(sequences(levels)), "a model", &limits);
    let model = open(MAX_DEPTH).unwrap();
    let value = &model.programs.into_main().unwrap().blocks[0].vars[0].value;
    assert_eq!(value.tensor_type().unwrap().dtype, DType::Float32);
    let error = open(MAX_DEPTH + 1).unwrap_err().to_string();
    assert!(error.contains("values nested at most 64 levels deep"), "{error}");
}
