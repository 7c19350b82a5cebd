//! Sealed models: every change is found and named.
#![expect(clippy::disallowed_methods, reason = "tests damage files")]

use crate::cases;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::scope;

use lodstone::formats::{FORMATS, Format};
use lodstone::model::Dialect;
use lodstone::store::Error as StoreError;
use lodstone::verify::{DefectKind, Verification};
use lodstone::{
    ConvertOptions, Error, Loss, OpenOptions, Progress, Target, WriteOptions, convert, open,
    open_with, recover, seal, verify,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn digits() -> PathBuf {
    root().join("examples/digits/paddle")
}

/// Returns a model that can be written in a format.
fn source(format: &Format) -> PathBuf {
    match (format.name, format.holds.program) {
        ("paddle-save", _) => cases::golden().join("paddle/2.6.2/lenet/saved/lenet"),
        ("mxnet-states", _) => cases::golden().join("mxnet_states/1.9.1/trainer_adam.states"),
        ("torch-distributed", _) => cases::golden().join("torch_sharded/dtensor"),
        ("paddle-distributed", _) => cases::golden().join("paddle_sharded/3.3.1/flattened"),
        ("executorch", _) => cases::golden().join("executorch/linear.pte"),
        ("torchscript", _) => cases::golden().join("torch/script.pt"),
        // The nets of a predictor are written back only.
        ("caffe2-predictor", _) | (_, None | Some(Dialect::Paddle)) => digits(),
        (_, Some(Dialect::Onnx)) => cases::golden().join("onnx/external/one.onnx"),
        (_, Some(Dialect::Glow)) => cases::golden().join("glow/dag.onnx"),
        (_, Some(Dialect::Mxnet)) => root().join("examples/digits/mxnet"),
        (_, Some(Dialect::Caffe2)) => {
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../lowering/tests/golden/caffe2/conv")
        }
        (_, Some(Dialect::Pir)) => cases::golden().join("paddle/3.3.1/pir"),
        (_, Some(Dialect::Torch)) => cases::golden().join("torch/export.pt2"),
        (name, Some(_)) => panic!("there is no model for {name}"),
    }
}

/// Writes a model in a format; only one of its tensors if the format holds one.
fn written(format: &Format, dir: &Path, sealed: bool) -> PathBuf {
    let out = dir.join("m").with_extension(format.extension);
    let model = open(source(format)).expect("a model");
    let options = |include: &[&str]| {
        ConvertOptions::default()
            .with_to(Some(Target::Format(format.name.to_owned())))
            .with_include(include.iter().map(ToString::to_string).collect())
            .with_allow(Loss::ALL.to_vec())
            .with_weights_only(format.name == "caffe2-predictor")
            .with_write(WriteOptions::default().with_seal(sealed))
    };
    if convert(model.clone(), &out, &options(&[])).is_err() {
        convert(model, &out, &options(&["conv2d_0.w_0"])).expect("one tensor");
    }
    out
}

fn sealed(path: &Path) {
    seal(path, &OpenOptions::default(), false, &Progress::default()).expect("sealed");
}

fn checked(path: &Path) -> Verification {
    verify(path, &OpenOptions::default(), &Progress::default()).expect("verified")
}

/// Returns all files in a directory, recursively.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// Returns the next pseudo-random number (xorshift64).
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Returns whether all readable bytes of a model are as expected.
fn reads_as(path: &Path, expected: &[Vec<u8>]) -> Result<bool, Error> {
    let model = open(path)?;
    let mut equal = model.parameters.len() == expected.len();
    for (parameter, expected) in model.parameters.iter().zip(expected) {
        equal &= parameter.tensor.data.bytes()? == *expected;
    }
    Ok(equal)
}

#[test]
fn one_flipped_bit_anywhere_is_found_in_every_format() {
    let mut state = 1;
    for format in FORMATS {
        let dir = tempfile::tempdir().expect("a directory");
        let path = written(format, dir.path(), true);
        let whole = checked(&path);
        assert!(whole.whole && whole.sealed && whole.pieces > 0, "{}: {whole:?}", format.name);
        let model = open(&path).expect("a model");
        let values: Vec<Vec<u8>> = model
            .parameters
            .iter()
            .map(|parameter| parameter.tensor.data.bytes().expect("bytes").to_vec())
            .collect();
        drop(model);
        let files: Vec<(PathBuf, Vec<u8>)> = files(dir.path())
            .into_iter()
            .map(|path| (path.clone(), std::fs::read(path).expect("a file")))
            .collect();
        let total: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
        for _ in 0..1000 {
            let place = random(&mut state);
            let (mut at, bit) = (usize::try_from(place >> 3).expect("64 bits") % total, place & 7);
            let hit = files.iter().find(|(_, bytes)| {
                let inside = at < bytes.len();
                at -= if inside { 0 } else { bytes.len() };
                inside
            });
            let (file, bytes) = hit.expect("inside");
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            std::fs::write(file, &damaged).expect("write");
            let found = checked(&path);
            let place = format!("{}: byte {at}, bit {bit} of {}", format.name, file.display());
            assert!(!found.whole, "{place}");
            let by_seal = found.findings.iter().any(|defect| defect.kind == DefectKind::Seal);
            assert!(by_seal, "{place}: {:?}", found.findings);
            // Without verification, nothing else than the sealed bytes is returned either.
            if let Ok(equal) = reads_as(&path, &values) {
                assert!(equal, "{place} was read");
            }
            std::fs::write(file, bytes).expect("write");
        }
        assert!(checked(&path).whole, "{}", format.name);
    }
}

#[test]
fn the_damaged_tensor_and_piece_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("large.npy");
    let len = 40_u64 << 20;
    let mut bytes = Vec::from(*b"\x93NUMPY\x01\x00\x76\x00");
    bytes
        .extend(format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({len},), }}").bytes());
    bytes.resize(127, b' ');
    bytes.push(b'\n');
    bytes.resize(128 + usize::try_from(len).expect("small"), 7);
    std::fs::write(&path, &bytes).expect("write");
    sealed(&path);
    bytes[128 + (33 << 20)] = 6;
    std::fs::write(&path, &bytes).expect("write");
    let found = checked(&path);
    let [defect] = found.findings.as_slice() else { panic!("{:?}", found.findings) };
    assert_eq!(defect.tensor.as_deref(), Some("#0"));
    assert_eq!(
        (defect.piece, defect.offset, defect.len),
        (Some(2), Some(33_554_560), Some(8 << 20))
    );
    let message = format!(
        "`{}` is damaged: checksum mismatch: tensor `#0`, chunk 3 of 3 (bytes 33554560..41943168)",
        path.display()
    );
    assert_eq!(defect.message, message);
    // Undamaged tensors can be read.
    let model = open(&path).expect("the header is whole");
    let data = &model.parameters[0].tensor.data;
    data.slice(0, 32 << 20).expect("inside").bytes().expect("two whole pieces");
    assert_eq!(data.bytes().expect_err("the third").to_string(), message);
    let unverified = OpenOptions::default().with_verify(false);
    let model = open_with(&path, &unverified).expect("a model");
    assert_eq!(model.parameters[0].tensor.data.bytes().expect("not compared")[33 << 20], 6);
}

#[test]
fn a_seal_is_found_by_every_path_to_the_model() {
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["inference.pdmodel", "inference.pdiparams"] {
        std::fs::copy(digits().join(name), dir.path().join(name)).expect("copied");
    }
    sealed(dir.path());
    let paths = ["", "inference", "inference.pdmodel", "inference.pdiparams"];
    for path in paths.map(|name| dir.path().join(name)) {
        let found = checked(&path);
        assert!(found.whole && found.sealed && found.files == 2, "{}: {found:?}", path.display());
    }
    // Parameters of another training run, of the same size, are distinguished.
    let params = dir.path().join("inference.pdiparams");
    let mut bytes = std::fs::read(&params).expect("a file");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&params, &bytes).expect("write");
    for path in paths.map(|name| dir.path().join(name)) {
        assert!(!checked(&path).whole, "{}", path.display());
    }
    std::fs::remove_file(&params).expect("removed");
    for path in ["", "inference", "inference.pdmodel", "inference.pdiparams"] {
        let found = checked(&dir.path().join(path));
        let missing = |defect: &lodstone::verify::Defect| defect.kind == DefectKind::Missing;
        assert!(found.findings.iter().any(missing), "{path}: {found:?}");
    }
}

#[test]
fn sealing_again_hides_damage_only_on_request() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = written(lodstone_format("safetensors"), dir.path(), true);
    let seal_file = dir.path().join("lodstone.seal");
    let first = std::fs::read(&seal_file).expect("a seal");
    sealed(&path);
    assert!(std::fs::read(&seal_file).expect("a seal") == first, "the same model, the same seal");
    let mut bytes = std::fs::read(&path).expect("a file");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).expect("write");
    let again = |replace| seal(&path, &OpenOptions::default(), replace, &Progress::default());
    assert!(again(false).expect_err("damage").to_string().contains("is damaged"));
    assert!(std::fs::read(&seal_file).expect("a seal") == first);
    again(true).expect("asked for");
    assert!(checked(&path).whole);
}

fn lodstone_format(name: &str) -> &'static Format {
    FORMATS.iter().find(|format| format.name == name).expect("a format")
}

#[test]
fn models_in_one_directory_are_sealed_separately() {
    let dir = tempfile::tempdir().expect("a directory");
    let paths =
        ["safetensors", "npz"].map(|format| written(lodstone_format(format), dir.path(), true));
    assert!(paths.iter().all(|path| checked(path).sealed));
    // Together they are not a model; the sealed files are verified nevertheless.
    std::fs::copy(&paths[0], dir.path().join("other.safetensors")).expect("copied");
    let found = checked(dir.path());
    assert!(found.whole && found.sealed && found.files == 2, "{found:?}");
    assert!(found.warnings[0].starts_with("only the seal was checked: "), "{found:?}");
    std::fs::remove_file(dir.path().join("other.safetensors")).expect("removed");
    // An overwritten file is not compared with the seal of the old file.
    let mut model = open(&paths[0]).expect("a model");
    model.parameters.truncate(1);
    let conversion = convert(model, &paths[0], &ConvertOptions::default()).expect("written");
    assert!(conversion.report.warnings.iter().any(|warning| warning.contains("lodstone.seal")));
    let found = checked(&paths[0]);
    assert!(found.whole && !found.sealed, "{found:?}");
    assert!(checked(&paths[1]).sealed);
}

#[test]
fn files_added_after_sealing_are_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = written(lodstone_format("paddle-vars"), dir.path(), false);
    let unsealed = checked(&path);
    assert!(unsealed.whole && !unsealed.sealed);
    std::fs::remove_file(path.join("__model__")).expect("removed");
    sealed(&path);
    std::fs::copy(path.join("conv2d_0.w_0"), path.join("another")).expect("copied");
    let found = checked(&path);
    let [defect] = found.findings.as_slice() else { panic!("{:?}", found.findings) };
    assert!(defect.message.ends_with("is not in the seal"), "{}", defect.message);
}

#[test]
fn a_missing_parameter_is_found_even_without_a_seal() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = written(lodstone_format("paddle-vars"), dir.path(), false);
    std::fs::remove_file(path.join("conv2d_0.w_0")).expect("removed");
    let found = checked(&path);
    let [defect] = found.findings.as_slice() else { panic!("{:?}", found.findings) };
    assert_eq!(defect.kind, DefectKind::Missing);
    assert!(defect.message.contains("`conv2d_0.w_0`"), "{}", defect.message);
}

#[test]
fn a_program_without_parameters_is_whole_only_if_it_was_opened_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("inference.pdmodel");
    std::fs::copy(digits().join("inference.pdmodel"), &program).expect("copied");
    assert!(checked(&program).whole);
    for path in [dir.path().to_path_buf(), dir.path().join("inference")] {
        let found = checked(&path);
        assert!(!found.whole, "{}: {found:?}", path.display());
        assert_eq!(found.findings[0].kind, DefectKind::Missing);
    }
}

#[test]
fn checksums_in_a_file_are_verified() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = written(lodstone_format("npz"), dir.path(), false);
    let mut bytes = std::fs::read(&path).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).expect("write");
    let found = checked(&path);
    let [defect] = found.findings.as_slice() else { panic!("{:?}", found.findings) };
    assert_eq!(defect.kind, DefectKind::Checksum);
}

#[test]
fn there_is_no_verdict_for_files_that_are_not_models() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("notes.txt");
    for expected in [false, true] {
        let found = verify(&path, &OpenOptions::default(), &Progress::default());
        assert!(found.is_err(), "{found:?}");
        assert_eq!(path.exists(), expected);
        std::fs::write(&path, "nothing of the kind").expect("write");
    }
}

#[test]
fn a_model_and_its_seal_are_published_together() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = written(lodstone_format("safetensors"), dir.path(), true);
    let old = std::fs::read(&path).expect("a file");
    let mut model = open(&path).expect("a model");
    model.parameters.truncate(1);
    // After any number of steps, the files are whole: the old ones, or, once the write is finished, the new ones.
    for steps in 0.. {
        let left = AtomicUsize::new(steps);
        let count = move |left: usize| left.checked_sub(1);
        let progress =
            Progress::watched(move |_| match left.fetch_update(Relaxed, Relaxed, count) {
                Ok(_) => Ok(()),
                Err(_) => Err(StoreError::Cancelled),
            });
        let write = WriteOptions::default().with_seal(true).with_progress(progress);
        let options = ConvertOptions::default().with_write(write);
        let done = convert(model.clone(), &path, &options);
        recover(dir.path()).expect("recovered");
        let found = checked(&path);
        assert!(found.whole && found.sealed, "after {steps} steps: {:?}", found.findings);
        match &done {
            Ok(_) => {
                assert_eq!(found.tensors, 1);
                assert!(steps > 10, "{steps}");
                break;
            }
            Err(_) if found.tensors == 1 => {
                std::fs::write(&path, &old).expect("written");
                seal(&path, &OpenOptions::default(), true, &Progress::default()).expect("sealed");
            }
            Err(_) => assert!(std::fs::read(&path).expect("a file") == old),
        }
    }
}

#[test]
fn writers_in_one_directory_keep_the_seals_of_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let model = open(digits()).expect("a model");
    let write = |name: &str, seal: bool, include: &[&str]| {
        let options = ConvertOptions::default()
            .with_include(include.iter().map(ToString::to_string).collect())
            .with_allow(Loss::ALL.to_vec())
            .with_write(WriteOptions::default().with_seal(seal));
        convert(model.clone(), dir.path().join(name), &options).expect("written");
    };
    let is_sealed = |name: &str| {
        let found = checked(&dir.path().join(name));
        assert!(found.whole, "{name}: {:?}", found.findings);
        found.sealed
    };
    for _ in 0..20 {
        let together = Barrier::new(2);
        let both = |name: &str, seal: bool, include: &[&str]| {
            together.wait();
            write(name, seal, include);
        };
        scope(|scope| {
            scope.spawn(|| both("a.npz", true, &[]));
            both("b.npz", true, &[]);
        });
        assert!(is_sealed("a.npz") && is_sealed("b.npz"));
        // One model is removed from the seal while another is sealed.
        scope(|scope| {
            scope.spawn(|| both("a.npz", false, &["conv2d_0.w_0"]));
            both("b.npz", true, &["conv2d_0.w_0"]);
        });
        assert!(!is_sealed("a.npz") && is_sealed("b.npz"));
    }
}

#[test]
fn a_file_replaced_during_sealing_is_not_compared_with_the_seal() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = written(lodstone_format("npz"), dir.path(), false);
    let other = dir.path().join("other");
    std::fs::copy(&path, &other).expect("copied");
    let (from, to) = (other, path.clone());
    let moved = AtomicUsize::new(0);
    // Sealing reads everything before its first observable step.
    let progress = Progress::watched(move |_| {
        if moved.fetch_add(1, Relaxed) == 0 {
            std::fs::rename(&from, &to).expect("moved");
        }
        Ok(())
    });
    let error = seal(&path, &OpenOptions::default(), false, &progress).expect_err("replaced");
    assert!(error.to_string().contains("changed while it was read"), "{error}");
    assert!(!checked(&path).sealed);
}

#[test]
fn a_write_through_a_link_updates_the_seals_on_both_sides() {
    let dir = tempfile::tempdir().expect("a directory");
    let (store, links) = (dir.path().join("store"), dir.path().join("links"));
    for path in [&store, &links] {
        std::fs::create_dir(path).expect("a directory");
    }
    let real = written(lodstone_format("safetensors"), &store, true);
    let link = links.join("m.safetensors");
    std::os::unix::fs::symlink(&real, &link).expect("a link");
    sealed(&link);
    assert!(checked(&real).sealed && checked(&link).sealed);
    let mut model = open(&real).expect("a model");
    model.parameters.truncate(1);
    let conversion = convert(model.clone(), &link, &ConvertOptions::default()).expect("converted");
    assert_eq!(conversion.report.warnings.len(), 2, "{:?}", conversion.report.warnings);
    for path in [&real, &link] {
        let found = checked(path);
        assert!(found.whole && !found.sealed && found.tensors == 1, "{found:?}");
    }
    let write = WriteOptions::default().with_seal(true);
    convert(model, &link, &ConvertOptions::default().with_write(write)).expect("sealed");
    assert!(checked(&link).sealed && std::fs::read_link(&link).is_ok());
}

#[test]
fn a_crash_while_a_model_is_replaced_through_a_link_keeps_its_seal() {
    let format = lodstone_format("safetensors");
    let before = |dir: &Path, by_link: bool| {
        let (store, links) = (dir.join("store"), dir.join("links"));
        for path in [&store, &links] {
            std::fs::create_dir(path).expect("a directory");
        }
        let real = written(format, &store, !by_link);
        let link = links.join("m.safetensors");
        std::os::unix::fs::symlink(&real, &link).expect("a link");
        if by_link {
            sealed(&link);
        }
        assert!(checked(&link).sealed && checked(&link).whole);
        (real, link)
    };
    for by_link in [false, true] {
        for stop in 0.. {
            let dir = tempfile::tempdir().expect("a directory");
            let (real, link) = before(dir.path(), by_link);
            let mut model = open(&real).expect("a model");
            model.parameters.truncate(1);
            let steps = AtomicUsize::new(0);
            let progress = Progress::watched(move |_| match steps.fetch_add(1, Relaxed) == stop {
                true => Err(StoreError::Cancelled),
                false => Ok(()),
            });
            let write = WriteOptions::default().with_seal(true).with_progress(progress);
            let options = ConvertOptions::default().with_write(write);
            let done = convert(model, &link, &options).is_ok();
            // An interrupted write of several files is rejected by name until it is finished.
            recover(dir.path().join("store")).expect("recovered");
            recover(dir.path().join("links")).expect("recovered");
            let found = checked(&link);
            assert!(found.sealed && found.whole, "by_link {by_link}, step {stop}: {found:?}");
            if done {
                assert_eq!(found.tensors, 1);
                break;
            }
        }
    }
}

#[test]
fn a_model_that_is_replaced_during_verification_is_not_damaged() {
    let dir = tempfile::tempdir().expect("a directory");
    let [one, two, away] = ["one", "two", "away"].map(|name| dir.path().join(name));
    for (path, byte) in [(&one, 1u8), (&two, 2)] {
        // One file that takes long to read, and one that is read after it.
        let tensor = |name: &str, len: usize| lodstone::Parameter {
            name: name.to_owned(),
            tensor: lodstone::Tensor::dense(
                lodstone::DType::Uint8,
                vec![len as u64],
                vec![byte; len].into(),
            ),
        };
        let parameters = vec![tensor("a", 64 << 20), tensor("b", 100)];
        let model = lodstone::Model { parameters, ..lodstone::Model::default() };
        let write = WriteOptions::default().with_seal(true);
        let to = Some(Target::Format("paddle-vars".to_owned()));
        convert(model, path, &ConvertOptions::default().with_to(to).with_write(write))
            .expect("written");
    }
    let progress = Progress::default();
    let found = scope(|scope| {
        let verified = scope.spawn(|| verify(&one, &OpenOptions::default(), &progress));
        while progress.done() == 0 {
            std::hint::spin_loop();
        }
        std::fs::rename(&one, &away).expect("renamed");
        std::fs::rename(&two, &one).expect("renamed");
        verified.join().expect("no panic")
    });
    let error = found.expect_err("it changed");
    assert!(matches!(&error, Error::ChangedMeanwhile(path) if *path == one), "{error}");
    assert!(error.to_string().contains("changed during verification"), "{error}");
    assert!(checked(&one).whole);
}
