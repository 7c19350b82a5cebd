//! States of MXNet's optimizers: their contents, byte-for-byte write-back, and rejected files.
#![expect(clippy::disallowed_methods, reason = "tests read and write files directly")]

pub(crate) mod hostile;

use crate::support;
use std::path::{Path, PathBuf};

use crate::support::facts::{self, Case};
use crate::support::{Random, blob, bytes, facts_of_all};
use lodstone_formats::{Error, FORMATS, Format, OpenOptions, Probe, WriteOptions, mxnet::states};
use lodstone_model::{DType, Limits, Model, Parameter, Tensor};
use lodstone_store::{Blob, Location};
use serde_json::Value;

fn golden() -> PathBuf {
    support::golden().with_file_name("mxnet_states")
}

fn cases() -> Vec<Case> {
    facts::cases(&golden())
}

/// Returns the facts in `index.json` beyond the tensors.
fn metadata(path: &str) -> Value {
    let index: Value = serde_json::from_slice(&bytes(&golden().join("index.json"))).unwrap();
    let case = index["cases"].as_array().unwrap().iter().find(|case| case["path"] == path).unwrap();
    case["metadata"].clone()
}

/// Returns the detected format of a file.
fn detected(path: &Path) -> Option<&'static str> {
    let content = bytes(path);
    let head = &content[..content.len().min(4096)];
    let probe =
        Probe { path: &Location::from(path), head, len: content.len() as u64, entries: None };
    FORMATS.iter().find(|format| (format.detect)(&probe)).map(|format| format.name)
}

fn open(path: &Path) -> Result<Model, Error> {
    (states::FORMAT.read)(&Location::from(path), &OpenOptions::default())
}

fn opened(path: &str) -> Model {
    open(&golden().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn read(file: &[u8]) -> Result<Model, Error> {
    states::read_blob(&blob(file), &Limits::default())
}

fn write(model: &Model) -> Result<Vec<u8>, Error> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.states");
    let written = states::FORMAT.write(model, &path, &WriteOptions::default());
    assert_eq!(written.is_ok(), path.exists());
    written.map(|_| bytes(&path))
}

#[test]
fn every_file_holds_what_the_optimizer_had() {
    let all = cases();
    assert!(all.len() > 60, "{}", all.len());
    for case in all {
        let path = golden().join(&case.path);
        assert_eq!(detected(&path), Some("mxnet-states"), "{}", case.path);
        let model = opened(&case.path);
        assert_eq!(model.format, case.format, "{}", case.path);
        assert_eq!(facts_of_all(&model), case.tensors, "{}", case.path);
        let said = model
            .metadata
            .iter()
            .map(|(path, value)| (path.clone(), serde_json::from_str::<Value>(value).unwrap()));
        assert_eq!(Value::Object(said.collect()), metadata(&case.path), "{}", case.path);
        assert!(model.report.warnings.is_empty(), "{}: {:?}", case.path, model.report.warnings);
        for Parameter { name, tensor } in &model.parameters {
            assert_eq!(tensor.broken_indices().unwrap(), None, "{}: {name}", case.path);
        }
    }
}

#[test]
fn every_file_is_written_back_byte_for_byte_from_a_file_and_from_memory() {
    for case in cases() {
        let content = bytes(&golden().join(&case.path));
        assert!(write(&opened(&case.path)).unwrap() == content, "{}", case.path);
        assert!(write(&read(&content).unwrap()).unwrap() == content, "{} in memory", case.path);
    }
}

#[test]
fn elements_of_python_3_are_slices_of_the_file() {
    for path in ["1.9.1/trainer_adam.states", "1.9.1/module_sgd.states", "1.9.1/protocol5.states"] {
        for parameter in opened(path).parameters {
            assert!(parameter.tensor.blobs().all(|blob| blob.file_range().is_some()), "{path}");
        }
    }
}

#[test]
fn elements_may_change_and_nothing_else() {
    let path = "1.9.1/trainer_adam.states";
    let mut model = opened(path);
    let values = vec![7; usize::try_from(model.parameters[0].tensor.data.len()).unwrap()];
    model.parameters[0].tensor.data = Blob::memory(values.clone());
    let back = read(&write(&model).unwrap()).unwrap();
    assert_eq!(back.parameters[0].tensor.data.read().unwrap(), values);
    assert_eq!(facts_of_all(&back)[1..], facts_of_all(&opened(path))[1..]);
    assert_eq!(back.metadata, model.metadata);

    let edits: [fn(&mut Model); 5] = [
        |model| model.parameters[0].name.push('x'),
        |model| drop(model.parameters.pop()),
        |model| model.parameters.swap(0, 1),
        |model| drop(model.metadata.insert("optimizer.lr".to_owned(), "0.5".to_owned())),
        |model| {
            let zeros = blob(&[0; 12]);
            model.parameters[0].tensor = Tensor::dense(DType::Int32, vec![3], zeros);
        },
    ];
    for edit in edits {
        let mut model = opened(path);
        edit(&mut model);
        let error = write(&model).unwrap_err();
        assert!(error.to_string().contains("edited states"), "{error}");
    }
    let fresh = Model { parameters: opened(path).parameters, ..Model::default() };
    let error = write(&fresh).unwrap_err();
    assert!(matches!(error, Error::Incompatible { .. }), "{error}");
}

#[test]
fn imports_from_outside_mxnet_are_named_and_not_called() {
    let cases: [(&[u8], &str); 7] = [
        (b"cos\nsystem\n(S'id'\ntR.", "`os.system`, which was neither imported nor called"),
        (b"\x80\x02}K\x00cos\nsystem\nX\x02\x00\x00\x00id\x85Rs.", "`os.system`"),
        (b"\x80\x02}c__main__\nMyOptimizer\n)\x81}b\x86.", "`__main__.MyOptimizer`"),
        (b"\x80\x02}cmxnet.optimizer\nOpt\n)\x81}b\x86.", "`mxnet.optimizer.Opt`"),
        // A class whose instances are created with an argument.
        (b"\x80\x02}K\x00cmxnet.ndarray\nNDArray\nK\x01\x85R}bs.", "`NDArray(None)` and the state"),
        (
            b"((dccopy_reg\n_reconstructor\n(c__builtin__\nobject\nc__builtin__\nobject\nNtRt.",
            "`_reconst",
        ),
        (b"\x80\x02]K\x00a.", "a dict of states, alone or with their optimizer"),
    ];
    for (pickle, expected) in cases {
        let error = read(pickle).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_array_that_is_not_a_record_is_an_error_with_its_location() {
    let content = bytes(&golden().join("1.9.1/trainer_adam.states"));
    let place = content.windows(4).position(|window| window == 0xf993_fac9_u32.to_le_bytes());
    let mut damaged = content;
    damaged[place.unwrap() + 11] = 0x80;
    let error = read(&damaged).unwrap_err().to_string();
    assert!(error.contains(&format!("in the array at offset {}", place.unwrap())), "{error}");
    assert!(error.contains("expected a number of dims, found -"), "{error}");
}

#[test]
fn empty_states_are_detected_by_name_and_other_pickles_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (name, pickle, format) in [
        ("plain.states", &b"\x80\x04}\x94(K\x00NK\x01Nu."[..], Some("mxnet-states")),
        ("python2.states", b"(dp0\nI0\nNsI1\nNs.", Some("mxnet-states")),
        ("epoch.states", b"\x80\x04}\x94\x8c\x05epoch\x94K\x03s.", Some("paddle")),
        ("plain.pdparams", b"\x80\x04}\x94(K\x00NK\x01Nu.", Some("paddle")),
        // A file that only mentions MXNet.
        (
            "words.pdopt",
            b"\x80\x04}\x94\x8c\x01a\x94\x8c\x12see mxnet.ndarray.x\x94s.",
            Some("paddle"),
        ),
        ("notes.states", b"state of things: mxnet.ndarray", None),
    ] {
        std::fs::write(at(name), pickle).unwrap();
        assert_eq!(detected(&at(name)), format, "{name}");
    }
    let model = open(&at("python2.states")).unwrap();
    assert_eq!(model.metadata["1"], "null");
}

/// Returns a dict of one array of bytes as Python 2 pickles it, with protocol 0 or 2.
fn python_2(protocol: u8, values: &[u8]) -> Vec<u8> {
    let mut record = 0xf993_fac8_u32.to_le_bytes().to_vec();
    record.extend(1u32.to_le_bytes());
    record.extend((values.len() as u64).to_le_bytes());
    record.extend([1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
    record.extend(values);
    let mut pickle =
        b"(dI0\ncmxnet.ndarray\nNDArray\n(NtR(dS'handle'\nc__builtin__\nbytearray\n(".to_vec();
    if protocol == 0 {
        pickle.push(b'V');
        for byte in record {
            match byte {
                b'\\' | b'\n' => pickle.extend(format!("\\u{byte:04x}").bytes()),
                byte => pickle.push(byte),
            }
        }
        pickle.push(b'\n');
    } else {
        let text: String = record.into_iter().map(char::from).collect();
        pickle.push(b'X');
        pickle.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        pickle.extend(text.bytes());
    }
    pickle.extend(b"S'latin-1'\ntRsbs.");
    pickle
}

#[test]
fn elements_written_as_text_are_read_the_same_from_anywhere() {
    let mut random = Random::new(5);
    let whole: Vec<u8> = (0..300_000u32)
        .map(|_| if random.below(3) == 0 { b'\\' } else { random.next().to_be_bytes()[0] })
        .collect();
    for protocol in [0, 2] {
        let pickle = python_2(protocol, &whole);
        let model = read(&pickle).unwrap();
        let data = &model.parameters[0].tensor.data;
        assert!(data.read().unwrap() == whole);
        for _ in 0..300 {
            let start = random.below(whole.len());
            let len = random.below((whole.len() - start).min(3000) + 1);
            let mut buffer = vec![0; len];
            data.read_at(start as u64, &mut buffer).unwrap();
            assert!(buffer == whole[start..start + len], "{start} {len}");
        }
        assert!(write(&model).unwrap() == pickle);
    }
}

#[test]
fn accepted_pickles_are_written_back() {
    let files: Vec<Vec<u8>> =
        cases().iter().map(|case| bytes(&golden().join(&case.path))).collect();
    let mut random = Random::new(11);
    let mut taken = 0;
    for round in 0..2000 {
        let mut content = files[random.below(files.len())].clone();
        for _ in 0..=random.below(2) {
            let place = random.below(content.len());
            content[place] = random.next().to_be_bytes()[0];
        }
        let Ok(model) = read(&content) else { continue };
        taken += 1;
        assert!(write(&model).unwrap() == content, "round {round}");
    }
    assert!(taken > 300, "{taken}");
}

#[test]
fn the_format_declares_what_it_can_hold() {
    let Format { holds, extension, .. } = &states::FORMAT;
    assert!(holds.tensors && holds.sparse && holds.metadata && holds.program.is_none());
    assert_eq!(*extension, "states");
}
