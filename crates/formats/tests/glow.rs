//! Glow files: their contents, byte-for-byte write-back, and conversion between containers.
#![expect(clippy::disallowed_methods, reason = "tests read and write files directly")]

use crate::support;
use std::path::{Path, PathBuf};

use crate::support::facts::{self, Case};
use crate::support::{bytes, facts_of_all};
use lodstone_formats::{Format, OpenOptions, WriteOptions, named};
use lodstone_model::{AttributeValue, Dialect, Model};
use lodstone_store::Location;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/glow")
}

fn cases() -> Vec<Case> {
    facts::cases(&golden())
}

fn opened(path: &Path) -> Model {
    let format = named("onnx").expect("a format");
    (format.read)(&Location::from(path), &OpenOptions::default())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn written(model: &Model, format: &Format, same: bool) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.onnx");
    let options = WriteOptions::default().with_same(same);
    format.write(model, &path, &options).unwrap_or_else(|error| panic!("{error}"));
    bytes(&path)
}

#[test]
fn files_of_glow_are_read_as_recorded() {
    for case in cases() {
        let model = opened(&golden().join(&case.path));
        assert_eq!(model.format, case.format, "{}", case.path);
        assert_eq!(facts_of_all(&model), case.tensors, "{}", case.path);
        let program = model.programs.into_main().expect("a program");
        let glow = case.format.starts_with("onnx-glow");
        assert_eq!(program.dialect == Dialect::Glow, glow, "{}", case.path);
        let kinds: Vec<_> = program.blocks[0].ops.iter().map(|op| op.kind.clone()).collect();
        assert_eq!(Some(vec![kinds]), case.operators, "{}", case.path);
        let interface = (lodstone_schema::conventions(&program).interface)(&program);
        for (found, recorded) in
            [(interface.inputs, case.inputs), (interface.outputs, case.outputs)]
        {
            assert!(recorded.is_some_and(|recorded| recorded == found), "{}", case.path);
        }
    }
}

#[test]
fn a_model_that_was_not_edited_is_written_with_the_same_bytes() {
    for case in cases() {
        let path = golden().join(&case.path);
        let model = opened(&path);
        let format = named(&model.format).expect("a format");
        assert!(written(&model, format, true) == bytes(&path), "{}", case.path);
    }
}

#[test]
fn every_container_holds_the_same_model() {
    let mut compared = 0;
    for case in cases().into_iter().filter(|case| case.path.ends_with(".onnx")) {
        let binary = golden().join(&case.path);
        let expected = bytes(&binary);
        let kind = case.format.as_str();
        for (ending, container) in [("onnxtxt", "-text"), ("zip", "-zip")] {
            let other = opened(&binary.with_extension(ending));
            let format = named(kind).expect("a format");
            assert!(written(&other, format, false) == expected, "{} from {ending}", case.path);

            // Newly encoded, not copied.
            let model = opened(&binary);
            let format = named(&format!("{kind}{container}")).expect("a format");
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("model");
            std::fs::write(&path, written(&model, format, false)).unwrap();
            let again = opened(&path);
            assert_eq!(again.format, format.name, "{}", case.path);
            // Some values are NaN, which compares unequal to itself.
            let (now, then) = (format!("{:?}", again.main()), format!("{:?}", model.main()));
            assert!(now == then, "{} to {ending}", case.path);
            assert_eq!(facts_of_all(&again), facts_of_all(&model), "{}", case.path);
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn padding_of_constants_is_removed_and_written_back() {
    // Two rows of three elements with a stride of four.
    let rows: Vec<u8> = [1.0f32, 2.0, 3.0, 99.0, 4.0, 5.0, 6.0, 99.0]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let field = |number: u64, content: &[u8]| {
        [support::varint(number << 3 | 2), support::varint(content.len() as u64), content.to_vec()]
            .concat()
    };
    let model = |text: &str| {
        let tensor = [
            &[8, 2, 8, 3, 16, 1][..],
            &field(8, b"padded"),
            &field(9, &rows),
            &field(12, text.as_bytes()),
        ]
        .concat();
        let graph = [field(2, b"glow"), field(5, &tensor)].concat();
        [field(2, b"GlowONNXModelWriter"), vec![8, 7], field(7, &graph), field(8, &[16, 9])]
            .concat()
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.onnx");
    let text = "$elemKind:float$strides:4,1$layout:*";
    std::fs::write(&path, model(text)).unwrap();
    let read = opened(&path);
    let data = read.parameters[0].tensor.data.read().unwrap();
    let numbers: Vec<f32> = data.as_chunks().0.iter().map(|n| f32::from_le_bytes(*n)).collect();
    assert_eq!(numbers, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for start in 0..24 {
        let mut part = vec![0; 24 - start];
        read.parameters[0].tensor.data.read_at(start as u64, &mut part).unwrap();
        assert_eq!(part, data[start..]);
    }
    assert!(written(&read, named("onnx-glow").unwrap(), false) == model(text));
    // Strides that do not match the size.
    for strides in ["3,1", "5,1", "4,2", "4", "1,4", "-4,1", "9223372036854775807,1"] {
        std::fs::write(&path, model(&text.replace("4,1", strides))).unwrap();
        let read = (named("onnx").unwrap().read)(&Location::from(&path), &OpenOptions::default());
        let error = read.unwrap_err().to_string();
        assert!(error.contains("24 bytes of elements"), "{strides}: {error}");
    }
}

#[test]
fn an_edited_archive_is_written_anew() {
    let mut model = opened(&golden().join("dag.zip"));
    let program = model.main_mut().expect("a program");
    let op = &mut program.blocks[0].ops[0];
    op.attributes[0].value = AttributeValue::String("float16".into());
    let format = named("onnx-glow-zip").expect("a format");
    let file = written(&model, format, true);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model");
    std::fs::write(&path, &file).unwrap();
    let again = opened(&path);
    assert!(again.main() == model.main());
    assert_eq!(facts_of_all(&again), facts_of_all(&model));
    // Members have the alignment that Glow uses.
    for parameter in &again.parameters {
        let (_, offset) = parameter.tensor.data.file_range().expect("a range of the file");
        assert!(offset > 64);
    }
    assert!(file.windows(12).any(|window| window == b"main/weights"));
}
