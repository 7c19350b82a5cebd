//! Hostile seals of a directory.

use lodstone_formats::{OpenOptions, Seal, SealedFile, SealedModel, TensorRanges, numpy};
use lodstone_store::{Commit, Location, Progress, SEAL, checksum};

use crate::generate::Kind::{Length, Nesting, Path, Twice};
use crate::generate::fields::{self, lies};
use crate::generate::{DEEP, Hostile, PATHS, file, nested, root};
use crate::support::{bytes, varint};

/// Returns hostile seals, each opened through the array that it lists.
pub fn seal() -> Vec<Hostile> {
    const FILE: &str = "model.npy";
    const KINDS: &[&str] = &["Seal", "Resized", "Json", "Escapes", "Damaged"];
    let model = file("numpy/shape/one.npy");
    let path = root().join("numpy/shape/one.npy");
    let opened =
        (numpy::NPY.read)(&Location::from(&path), &OpenOptions::default()).expect("a model");
    let sealed = |name: &str| {
        let (blob, mut tensors) = (&opened.files[0], TensorRanges::of(&opened));
        SealedFile::of(name.to_owned(), blob, &mut tensors, &Progress::default()).expect("read")
    };
    let encoded = |files: Vec<SealedFile>| {
        let mut seal = Seal::default();
        seal.models.push(SealedModel { format: "npy".to_owned(), files });
        let dir = tempfile::tempdir().expect("a directory");
        let mut commit = Commit::existing(dir.path(), Progress::default()).expect("a directory");
        commit.write_seal(|out| seal.write(out)).expect("written");
        commit.publish().expect("published");
        bytes(&dir.path().join(SEAL))
    };
    let with = |kind, what: &str, seal: &[u8]| {
        let hostile =
            Hostile::new(kind, what, FILE, model.clone()).beside(&[("lodstone.seal", seal)]);
        hostile.refused(KINDS, &[])
    };
    let honest = encoded(vec![sealed(FILE)]);
    let mut all = vec![with(Length, "an honest one", &honest).readable("it is honest")];
    for made in lies(&honest, &fields::json(&honest, 0), mend_seal) {
        all.push(with(made.kind, &made.what, &made.bytes));
    }
    let text = String::from_utf8(honest.clone()).expect("text");
    let edited = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        let mut bytes = text.replacen(from, to, 1).into_bytes();
        mend_seal(&mut bytes, 0, 0);
        bytes
    };
    let deep = nested("[", DEEP, "]");
    for key in ["\"models\": [", "\"files\": [", "\"parts\": [", "\"checksums\": ["] {
        all.push(
            with(Nesting, key, &edited(key, &format!("{key}{deep},"))).refused(&["Json"], &[]),
        );
    }
    for key in
        ["\"schema\": 1,", "\"format\": \"npy\",", "\"name\": \"model.npy\",", "\"offset\": 0,"]
    {
        let twice = edited(key, &format!("{key}{key}"));
        all.push(with(Twice, key, &twice).refused(&["Json"], &["duplicate field"]));
    }
    let twice = encoded(vec![sealed(FILE), sealed(FILE)]);
    all.push(with(Twice, "a file", &twice).refused(&["Seal"], &["twice"]));
    let spelled = encoded(vec![sealed("./model.npy")]);
    all.push(
        with(Twice, "a file by another name", &spelled).refused(&["Seal"], &["not normalized"]),
    );
    for (path, why) in PATHS {
        let hostile = with(Path, path, &encoded(vec![sealed(FILE), sealed(path)]));
        all.push(hostile.refused(&["Escapes"], &[why]));
    }
    let mut large = honest;
    large.splice(0..0, varint(7));
    all.push(with(Length, "a byte before it", &large).refused(&["Seal"], &["damaged"]));
    all.push(with(Length, "nothing", b"").refused(&["Seal"], &["damaged"]));
    all
}

/// Updates the checksum of a seal.
fn mend_seal(seal: &mut Vec<u8>, _: usize, _: isize) {
    let line = seal.windows(8).rposition(|window| window == b"\"self\": ").expect("a sum");
    seal.truncate(line);
    let sum = checksum(seal);
    seal.extend(format!("\"self\": \"{sum:016x}\"}}\n").bytes());
}
