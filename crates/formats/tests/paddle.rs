//! PaddlePaddle files: their contents, and byte-for-byte write-back.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests read and write files directly"
)]

pub(crate) mod hostile;

use crate::support;
use std::path::{Path, PathBuf};

use crate::support::facts::{Case, cases};
use crate::support::{blob, bytes, facts_of_all, golden, varint};
use lodstone_formats::paddle::stream::{self, Expect};
use lodstone_formats::{FORMATS, OpenOptions, WriteOptions, paddle, paddle::program};
use lodstone_model::{
    AttributeValue, ByteString, Dialect, Limits, Model, Program, Scalar, Topology,
};
use lodstone_schema::conventions;
use lodstone_store::{Blob, Location};

fn open(case: &Case) -> Model {
    let params = case.params.as_ref().map(|params| golden().join(params).into());
    let options = OpenOptions::default().with_params(params);
    paddle::open(&Location::from(&golden().join(&case.path)), &options)
        .unwrap_or_else(|error| panic!("{}: {error}", case.path))
}

fn write(model: &Model, format: &str, path: &Path, options: &WriteOptions) -> Vec<PathBuf> {
    let format = FORMATS.iter().find(|known| known.name == format).expect("a format");
    let written = format.write(model, path, options).unwrap_or_else(|error| panic!("{error}"));
    written.files.iter().map(Location::to_path_buf).collect()
}

#[test]
fn every_file_holds_what_the_framework_put_into_it() {
    for case in cases(&golden()) {
        // A program is opened with the parameters beside it.
        if case.format.starts_with("paddle-program") {
            continue;
        }
        let model = open(&case);
        assert_eq!(model.format, case.format, "{}", case.path);
        assert_eq!(facts_of_all(&model), case.tensors, "{}", case.path);
    }
}

#[test]
fn every_program_has_its_operators_inputs_and_outputs() {
    let mut programs = 0;
    for case in cases(&golden()) {
        let Some(operators) = &case.operators else { continue };
        programs += 1;
        let program = open(&case).programs.into_main().expect("a program");
        let kinds = |block: &lodstone_model::Block| {
            block.ops.iter().map(|op| op.kind.clone()).collect::<Vec<_>>()
        };
        assert_eq!(&program.blocks.iter().map(kinds).collect::<Vec<_>>(), operators);
        let interface = (conventions(&program).interface)(&program);
        if let (Some(inputs), Some(outputs)) = (&case.inputs, &case.outputs) {
            assert_eq!(&interface.inputs, inputs, "{}", case.path);
            assert_eq!(&interface.outputs, outputs, "{}", case.path);
        }
    }
    assert!(programs >= 15);
}

#[test]
fn attributes_of_every_type_have_the_values_that_were_set() {
    use serde_json::{Value, json};
    let scalar = |value: &Scalar| match value {
        Scalar::Bool(value) => json!(value),
        Scalar::Long(value) => json!(value),
        Scalar::Double(value) => json!(value),
        Scalar::Complex(value) => json!({"real": value.re, "imag": value.im}),
        Scalar::Unknown(code) => panic!("scalar of type {code}"),
    };
    let text = |value: &ByteString| match std::str::from_utf8(&value.0) {
        Ok(text) => json!(text),
        Err(_) => {
            let hex: String = value.0.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({ "hex": hex })
        }
    };
    let describe = |value: &AttributeValue| -> (&'static str, Value) {
        use AttributeValue as A;
        match value {
            A::Int(value) => ("INT", json!(value)),
            A::Long(value) => ("LONG", json!(value)),
            A::Float(value) => ("FLOAT", json!(value)),
            A::Double(value) => ("FLOAT64", json!(value)),
            A::Bool(value) => ("BOOLEAN", json!(value)),
            A::String(value) => ("STRING", text(value)),
            A::Ints(values) => ("INTS", json!(values)),
            A::Longs(values) => ("LONGS", json!(values)),
            A::Floats(values) => ("FLOATS", json!(values)),
            A::Doubles(values) => ("FLOAT64S", json!(values)),
            A::Bools(values) => ("BOOLEANS", json!(values)),
            A::Strings(values) => ("STRINGS", values.iter().map(text).collect()),
            A::Scalar(value) => ("SCALAR", scalar(value)),
            A::Scalars(values) => ("SCALARS", values.iter().map(scalar).collect()),
            A::Block(value) => ("BLOCK", json!(value)),
            A::Blocks(values) => ("BLOCKS", json!(values)),
            A::Var(value) => ("VAR", json!(value)),
            A::Vars(values) => ("VARS", json!(values)),
            other => panic!("{other:?}"),
        }
    };
    let mut types = std::collections::BTreeSet::new();
    for case in cases(&golden()) {
        let Some(attributes) = &case.attributes else { continue };
        let program = open(&case).programs.into_main().unwrap();
        let (block, index) = attributes.operator;
        let op = &program.blocks[block].ops[index];
        for (name, (kind, value)) in &attributes.values {
            let found = describe(op.attribute(name).unwrap());
            assert_eq!(found, (kind.as_str(), value.clone()), "{name}");
            types.insert(kind.clone());
        }
        assert!(op.reads().any(|name| name == "fill_constant_3.tmp_0"), "named by an attribute");
        assert_eq!(op.blocks().collect::<Vec<_>>(), [2, 1, 2]);
    }
    assert_eq!(types.len(), 18);
}

#[test]
fn what_is_written_back_is_byte_for_byte_what_was_read() {
    let scratch = tempfile::tempdir().unwrap();
    for (number, case) in cases(&golden()).iter().enumerate() {
        let model = open(case);
        let out = scratch.path().join(format!("{number}"));
        let same = WriteOptions::default().with_same(true);
        let files = write(&model, &model.format, &out, &same);
        assert!(!files.is_empty());
        for file in files {
            let written = bytes(&file);
            let name = file.strip_prefix(&out).ok().filter(|name| *name != Path::new(""));
            let original = match (name, file.extension().and_then(|e| e.to_str())) {
                (Some(name), _) => golden().join(&case.path).join(name),
                (None, Some("pdmodel")) => {
                    golden().join(case.files.keys().find(is_program).unwrap())
                }
                (None, Some("pdiparams")) => match &case.params {
                    Some(params) => golden().join(params),
                    None => golden().join(case.files.keys().find(is_params).unwrap()),
                },
                (None, Some("pdparams" | "pdopt")) => {
                    golden().join(&case.path).with_extension(file.extension().unwrap())
                }
                (None, Some("json")) => {
                    golden().join(case.files.keys().find(|file| file.ends_with("json")).unwrap())
                }
                _ => golden().join(&case.path),
            };
            assert!(written == bytes(&original), "{}: {}", case.path, file.display());
        }
    }
}

fn is_program(file: &&String) -> bool {
    ["pdmodel", "pb", "model"].iter().any(|end| file.ends_with(end))
}

fn is_params(file: &&String) -> bool {
    file.ends_with("params")
}

#[test]
fn programs_survive_text_form() {
    let mut programs = 0;
    for case in cases(&golden()).iter().filter(|case| case.operators.is_some()) {
        let Some(mut program) = open(case).programs.into_main() else { continue };
        if program.dialect != Dialect::Paddle {
            continue;
        }
        let text = program::write_text(&program).unwrap();
        let back = program::read_text(&Blob::memory(text.clone()), "text", &Limits::default());
        let mut back = back.unwrap_or_else(|error| panic!("{}: {error}", case.path));
        assert!(back == program, "{}", case.path);
        // The encoding survives too: order, presence, unknown fields.
        if program.residual.of("paddle-program").is_some() {
            let wire = program::write(&program).unwrap();
            assert!(program::write(&back).unwrap() == wire, "{}", case.path);
        }
        // Without its residuals, text is printed as by PaddlePaddle 1.8.5.
        if case.format == "paddle-program-text" {
            program.residual.clear();
            back.residual.clear();
            let printed = program::write_text(&program).unwrap();
            assert!(printed == bytes(&golden().join(&case.path)), "{}", case.path);
        }
        programs += 1;
    }
    assert!(programs >= 15);
}

#[test]
fn an_edited_operator_changes_no_other_byte() {
    let path = golden().join("2.6.2/lenet/train.pb");
    let before = bytes(&path);
    let mut program = program::read(&blob(&before), "p", &Limits::default()).unwrap();
    let op = program.blocks[0].ops.iter_mut().find(|op| op.kind == "conv2d").unwrap();
    let strides = op.attributes.iter_mut().find(|a| a.name == "strides").unwrap();
    assert_eq!(strides.value, AttributeValue::Ints(vec![1, 1]));
    strides.value = AttributeValue::Ints(vec![2, 1]);
    let after = program::write(&program).unwrap();

    assert_eq!(after.len(), before.len());
    let changed: Vec<_> = (0..before.len()).filter(|i| before[*i] != after[*i]).collect();
    assert_eq!(changed.len(), 1, "one stride, one byte");
    let edited = program::read(&blob(&after), "p", &Limits::default()).unwrap();
    assert!(edited == program);
}

#[test]
fn an_edit_keeps_unknown_fields_and_odd_encodings_everywhere_else() {
    let plain = bytes(&golden().join("2.6.2/control_flow/train.pb"));
    let read = |bytes: &[u8]| program::read(&blob(bytes), "p", &Limits::default()).unwrap();
    let odd = disturb(&plain, &["ProgramDesc"]);
    assert!(odd.len() > plain.len() + 1000);
    let mut program = read(&odd);
    assert!(program == read(&plain), "what is odd is not what is said");
    assert!(program::write(&program).unwrap() == odd);

    // One attribute of one operator: the bytes of its value.
    let op = program.blocks[1].ops.iter_mut().find(|op| op.kind == "less_than").unwrap();
    let value = op.attributes.iter_mut().find(|attribute| attribute.name == "force_cpu").unwrap();
    let AttributeValue::Bool(flag) = &mut value.value else { panic!("a flag") };
    *flag = !*flag;
    let edited = program::write(&program).unwrap();
    assert_eq!(edited.len(), odd.len());
    assert_eq!((0..odd.len()).filter(|i| edited[*i] != odd[*i]).count(), 1);
    assert!(read(&edited) == program);

    // An operator that moves to another block keeps its unknown fields.
    let op_with_unknown = [0x1a, 0x01, b'x', 0xf8, 0x06, 0x01]; // type "x", field 111
    let mut block = vec![0x08, 0x00, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    block.extend([0x01, 0x22, 6]);
    block.extend(op_with_unknown);
    let mut bytes = vec![0x0a, u8::try_from(block.len()).unwrap()];
    bytes.extend(&block);
    let mut program = read(&bytes);
    let op = program.blocks[0].ops.remove(0);
    program.blocks[0].ops = vec![op.clone(), op];
    let twice = program::write(&program).unwrap();
    let found = twice.windows(6).filter(|window| **window == op_with_unknown).count();
    assert_eq!(found, 2);
}

/// Adds an unknown field to every message of a program, and changes the order of variables and
/// operators in its blocks.
fn disturb(message: &[u8], path: &[&str]) -> Vec<u8> {
    // The numbers of message fields, by message.
    let inside: &[(u8, &str)] = match path.last() {
        Some(&"ProgramDesc") => &[(1, "BlockDesc")],
        Some(&"BlockDesc") => &[(3, "VarDesc"), (4, "OpDesc")],
        Some(&"OpDesc") => &[(1, "OpDesc.Var"), (2, "OpDesc.Var"), (4, "OpDesc.Attr")],
        Some(&"VarDesc") => &[(2, "VarType")],
        _ => &[],
    };
    let mut fields: Vec<(u8, Vec<u8>)> = Vec::new();
    let mut rest = message;
    while let Some(&tag) = rest.first() {
        let mut at = 1;
        let mut number = || {
            let (mut value, mut shift) = (0usize, 0);
            loop {
                let byte = rest[at];
                at += 1;
                value |= usize::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
                shift += 7;
                if byte & 0x80 == 0 {
                    return value;
                }
            }
        };
        let field = match tag & 7 {
            0 => {
                number();
                rest[..at].to_vec()
            }
            2 => {
                let len = number();
                let body = &rest[at..at + len];
                at += len;
                match inside.iter().find(|(field, _)| *field == tag >> 3) {
                    Some((_, name)) => {
                        let body = disturb(body, &[path, &[name]].concat());
                        [&[tag][..], &varint(body.len() as u64), &body].concat()
                    }
                    None => rest[..at].to_vec(),
                }
            }
            kind => {
                at += if kind == 5 { 4 } else { 8 };
                rest[..at].to_vec()
            }
        };
        fields.push((tag >> 3, field));
        rest = &rest[at..];
    }
    if path.last() == Some(&"BlockDesc") {
        // Alternate variables and operators.
        let (vars, others): (Vec<_>, Vec<_>) = fields.into_iter().partition(|(n, _)| *n == 3);
        let (ops, mut rest): (Vec<_>, Vec<_>) = others.into_iter().partition(|(n, _)| *n == 4);
        let (mut vars, mut ops) = (vars.into_iter(), ops.into_iter());
        loop {
            let pair = [ops.next(), vars.next()];
            if pair.iter().all(Option::is_none) {
                break;
            }
            rest.extend(pair.into_iter().flatten());
        }
        fields = rest;
    }
    // Field 111: a varint that is longer than necessary.
    let unknown = [0xf8, 0x06, 0x80, 0x80, 0x00];
    fields.into_iter().flat_map(|(_, field)| field).chain(unknown).collect()
}

#[test]
fn operators_written_from_the_model_alone_are_what_protobuf_writes() {
    // Variables are written with explicit defaults (`lod_level: 0`), which only their encoding
    // records; operators are not.
    let mut operators = 0;
    for case in cases(&golden()).iter().filter(|case| case.format == "paddle-program") {
        let Some(mut program) = open(case).programs.into_main() else { continue };
        let original = program::write(&program).unwrap();
        program.residual.clear();
        for block in &mut program.blocks {
            block.residual.clear();
            block.ops.iter_mut().for_each(|op| op.residual.clear());
            operators += block.ops.len();
        }
        let fresh = program::write(&program).unwrap();
        // For the program itself, 1.8.5 writes a field that the model does not represent.
        let compatible = program.version == Some(1_008_005);
        assert!(compatible || fresh == original, "{}", case.path);

        program.blocks.iter_mut().flat_map(|b| &mut b.vars).for_each(|v| v.residual.clear());
        let fresh = program::write(&program).unwrap();
        let back = program::read(&Blob::memory(fresh), "p", &Limits::default());
        assert!(back.unwrap() == program, "{}", case.path);
    }
    assert!(operators > 100);
}

#[test]
fn aligned_elements_begin_at_multiples_of_64_and_read_back_equal() {
    let scratch = tempfile::tempdir().unwrap();
    let options = WriteOptions::default().with_align(64);
    for (number, case) in cases(&golden()).iter().enumerate() {
        let model = open(case);
        // Pickles have no alignment.
        let other = case.format == "paddle-save";
        if model.parameters.is_empty() || other {
            continue;
        }
        let out = scratch.path().join(number.to_string());
        write(&model, &model.format, &out, &options);
        let back = paddle::open(&Location::from(&out), &OpenOptions::default()).unwrap();
        let tensors = back.parameters.iter().map(|parameter| &parameter.tensor);
        for tensor in tensors.filter(|tensor| !tensor.data.is_empty()) {
            let (_, offset) = tensor.data.file_range().unwrap();
            assert!(offset.is_multiple_of(64), "{} at {offset}", case.path);
        }
        let (mut now, mut then) = (facts_of_all(&back), facts_of_all(&model));
        now.iter_mut().chain(&mut then).for_each(|tensor| tensor.name.clear());
        assert_eq!(now, then, "{}", case.path);
    }
}

#[test]
fn a_record_is_found_by_skipping_the_others() {
    for case in cases(&golden()).iter().filter(|case| case.format.starts_with("paddle-params")) {
        let file = Blob::open(golden().join(&case.path), true).unwrap();
        for (index, expected) in case.tensors.iter().enumerate() {
            let tensor = stream::read_record(&file, index, &Limits::default());
            assert_eq!(support::facts_of(&expected.name, &tensor.unwrap()), *expected);
        }
        let beyond = case.tensors.len();
        let none = stream::read_record(&file, beyond, &Limits::default());
        assert!(none.unwrap_err().to_string().contains("records"), "{}", case.path);
    }
}

#[test]
fn the_program_decides_between_ambiguous_records() {
    let read =
        |bytes: &[u8], expect: Expect| stream::read(&blob(bytes), &[expect], &Limits::default());
    // Eight zeros are an empty vocabulary only if one is expected.
    let (_, tensors) = read(&[0; 8], Expect::Vocabulary).unwrap();
    assert_eq!(tensors[0].kind.name(), "vocab");
    for expect in [Expect::Anything, Expect::Tensor, Expect::SelectedRows] {
        assert!(read(&[0; 8], expect).is_err(), "{expect:?}");
    }
    let kinds = [
        ("2.6.2/float32.lodtensor", Expect::Tensor, "dense"),
        ("1.8.5/repeated_rows.selectedrows", Expect::SelectedRows, "selected_rows"),
        ("2.6.2/tokens.vocab", Expect::Vocabulary, "vocab"),
    ];
    for (path, right, name) in kinds {
        let content = bytes(&golden().join(path));
        for (_, expect, _) in kinds {
            let kind = read(&content, expect).map(|(_, tensors)| tensors[0].kind.name());
            assert_eq!(kind.ok(), (expect == right).then_some(name), "{path} as {expect:?}");
        }
    }
}

#[test]
fn a_tensor_past_4_gib_is_skipped_in_every_layout() {
    use std::io::{Seek, SeekFrom, Write};
    const ROWS: u64 = (1 << 32) / 4 + 3;
    let scratch = tempfile::tempdir().unwrap();
    let desc: Vec<u8> = [vec![0x08, 0x05, 0x10], varint(ROWS)].concat();
    let size = u32::try_from(desc.len()).unwrap().to_le_bytes();
    let small = [&[0; 16][..], &[2, 0, 0, 0, 0x08, 0x05], &1.5f32.to_le_bytes()].concat();
    let first = [&[0; 16][..], &size, &desc].concat();
    let last = [&[0; 4][..], &size, &desc].concat();
    let sized = |body: u64| (body).to_le_bytes();
    let data = ROWS * 4;
    let cases = [
        (first.clone(), small.clone(), false),
        (
            [&sized(first.len() as u64 + data)[..], &first].concat(),
            [&sized(small.len() as u64)[..], &small].concat(),
            true,
        ),
        (last, [0; 8].to_vec(), false),
    ];
    for (number, (head, tail, is_sized)) in cases.into_iter().enumerate() {
        let path = scratch.path().join(number.to_string());
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&head).unwrap();
        file.seek(SeekFrom::Current(data.cast_signed())).unwrap();
        file.write_all(&tail).unwrap();
        let model = paddle::open(&Location::from(&path), &OpenOptions::default()).unwrap();
        let tensor = &model.parameters[0].tensor;
        assert_eq!((tensor.shape.as_slice(), tensor.data.len()), (&[ROWS][..], data));
        assert_eq!(model.format == "paddle-params-sized", is_sized);
        if let Some(second) = model.parameters.get(1) {
            assert_eq!(*second.tensor.data.bytes().unwrap(), 1.5f32.to_le_bytes());
        }
    }
}

#[test]
fn parameters_that_do_not_fit_the_program_name_the_first_difference() {
    let open = |program: &str, params: &str| {
        let params = Some(golden().join(params).into());
        let options = OpenOptions::default().with_params(params);
        paddle::open(&Location::from(&golden().join(program)), &options).unwrap_err().to_string()
    };
    let other = open("2.6.2/lenet/inference/lenet.pdmodel", "1.8.5/lenet/combined/params");
    assert!(other.contains("record 4 should be"), "{other}");
    let fewer = open("2.6.2/lenet/train.pb", "2.6.2/lenet/inference/lenet.pdiparams");
    assert!(fewer.contains("should be `batch_norm_0.b_0_beta1_pow_acc_0`"), "{fewer}");
}

#[test]
fn dims_of_1_do_not_have_to_be_those_of_the_program() {
    // Post-training quantization saves scales with other dims than it declares.
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../lodstone/tests/golden/paddle_quantized/pairs_channels.pdmodel");
    let model = paddle::open(&Location::from(&path), &OpenOptions::default()).unwrap();
    let shapes: Vec<&[u64]> = model
        .parameters
        .iter()
        .filter(|parameter| parameter.name.ends_with("@scale"))
        .map(|parameter| parameter.tensor.shape.as_slice())
        .collect();
    assert!(shapes.contains(&&[][..]) && shapes.contains(&&[1, 4][..]), "{shapes:?}");
}

#[test]
fn a_directory_of_parameters_holds_them_together_or_each_in_a_file() {
    let lenet = golden().join("1.8.5/lenet");
    for (program, directory) in
        [("inference/__model__", "combined"), ("combined/model", "inference")]
    {
        let given = Some(Location::from(&lenet.join(directory)));
        let options = OpenOptions::default().with_params(given);
        let found = paddle::open(&Location::from(&lenet.join(program)), &options).unwrap();
        let own = Location::from(&lenet.join(program));
        let expected = paddle::open(&own, &OpenOptions::default()).unwrap();
        let values = |model: &Model| -> Vec<_> {
            let all = model.parameters.iter();
            all.map(|it| (it.name.clone(), it.tensor.data.bytes().unwrap().to_vec())).collect()
        };
        assert!(values(&found).len() > 8, "{program}");
        assert_eq!(values(&found), values(&expected), "{program}");
    }
}

#[test]
fn names_of_variables_do_not_leave_the_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let inside = scratch.path().join("model");
    std::fs::create_dir(&inside).unwrap();
    std::fs::copy(golden().join("2.6.2/float32.lodtensor"), scratch.path().join("secret")).unwrap();
    for name in ["../secret", "a/../../secret", "/etc/hostname", "link"] {
        let link = inside.join("link");
        if !link.exists() {
            std::os::unix::fs::symlink("../secret", link).unwrap();
        }
        let var = lodstone_model::Var {
            name: name.to_owned(),
            value: lodstone_model::TensorType::default().into(),
            persistable: true,
            ..Default::default()
        };
        let block = lodstone_model::Block { parent: -1, vars: vec![var], ..Default::default() };
        let program =
            Program::from(Topology { blocks: vec![block], ..Topology::new(Dialect::Paddle) });
        let model = inside.join("__model__");
        std::fs::write(&model, program::write(&program).unwrap()).unwrap();

        let options = OpenOptions::default().with_params(Some(inside.as_path().into()));
        let error = paddle::open(&Location::from(&model), &options).unwrap_err().to_string();
        assert!(error.contains("leads out of the model directory"), "{name}: {error}");
        // If it is not given explicitly, a path that leads out by name is not a parameter; a link is.
        match paddle::open(&Location::from(&model), &OpenOptions::default()) {
            Ok(found) => assert!(found.parameters.is_empty() && name != "link", "{name}"),
            Err(error) => assert!(error.to_string().contains("symbolic link"), "{name}: {error}"),
        }
    }
}

#[test]
fn reserved_properties_of_paddlepaddle_are_not_attributes() {
    use lodstone_model::{Attribute, AttributeValue, Block, Op, Reserved, Var};
    use lodstone_schema::paddle::{
        forward_block, is_target, need_check_feed, set_forward_block, set_is_target,
        set_need_check_feed, set_stop_gradient, stop_gradient,
    };
    let (name, kind) = ("paddle.is_target".to_owned(), "f".to_owned());
    let attribute = Attribute { name, value: AttributeValue::Bool(true) };
    let plain = Op { kind, attributes: vec![attribute], ..Op::default() };
    let mut target = Op { attributes: Vec::new(), ..plain.clone() };
    set_is_target(&mut target, true);
    let mut var = Var { value: lodstone_model::TensorType::default().into(), ..Var::default() };
    set_stop_gradient(&mut var, true);
    set_need_check_feed(&mut var, true);
    let mut block =
        Block { parent: -1, vars: vec![var], ops: vec![plain, target], ..Block::default() };
    set_forward_block(&mut block, Some(-1));
    let written = Program::from(Topology { blocks: vec![block], ..Topology::new(Dialect::Paddle) });

    let bytes = Blob::memory(program::write(&written).unwrap());
    let read = program::read(&bytes, "a program", &Limits::default()).unwrap();
    assert_eq!(read, written);
    let [block] = &read.blocks[..] else { panic!("a block") };
    assert_eq!(block.ops.iter().map(is_target).collect::<Vec<_>>(), [false, true]);
    assert_eq!(block.ops[0].attributes.len(), 1);
    assert!(block.ops[1].attributes.is_empty());
    assert!(need_check_feed(&block.vars[0]) && stop_gradient(&block.vars[0]));
    assert_eq!(forward_block(block), Some(-1));

    // Properties are equal regardless of the order in which they were set, and are gone after removal.
    let mut other = Var::default();
    set_need_check_feed(&mut other, true);
    set_stop_gradient(&mut other, true);
    assert_eq!(other.reserved, block.vars[0].reserved);
    set_need_check_feed(&mut other, false);
    set_stop_gradient(&mut other, false);
    assert_eq!(other.reserved, Reserved::default());
}
