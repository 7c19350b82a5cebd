//! Hostile checkpoints of several processes: metadata that lies, and files that are missing, cut or outside.

use crate::generate::Kind::{Length, Path};
use crate::generate::fields::{self, as_it_is, lies};
use crate::generate::pickle::short_frame;
use crate::generate::{Hostile, alone, file};

/// Returns hostile checkpoints that are made of the golden one in `folder`; `outside` is a path of the length of the first
/// file's name.
fn all_of(folder: &str, main: &'static str, names: &[&'static str], outside: &str) -> Vec<Hostile> {
    let read = |name: &str| file(&format!("{folder}/{name}"));
    let (honest, files) = (read(main), names.iter().map(|name| (*name, read(name))));
    let files: Vec<(&str, Vec<u8>)> = files.collect();
    // Adds the files, one of which is missing or has other bytes.
    let with = |hostile: Hostile, changed: &str, bytes: Option<&[u8]>| {
        let others = files.iter().filter(|(name, _)| *name != changed);
        let mut beside: Vec<(&str, &[u8])> =
            others.map(|(name, whole)| (*name, whole.as_slice())).collect();
        beside.extend(bytes.map(|bytes| (changed, bytes)));
        hostile.beside(&beside).directory()
    };
    let mut all = Vec::new();
    let whole = Hostile::new(Length, format!("{folder}: an honest one"), main, honest.clone());
    all.push(with(whole, "", None).readable("it is honest"));
    for (name, bytes) in &files {
        let what = format!("{folder}: without {name}");
        let without = Hostile::new(Path, what, main, honest.clone());
        all.push(with(without, name, None));
        for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            let what = format!("{folder}: {name} cut at {cut}");
            let hostile = Hostile::new(Length, what, main, honest.clone());
            all.push(with(hostile, name, bytes.get(..cut)));
        }
    }
    let made = lies(&honest, &fields::pickle(&honest), as_it_is);
    for hostile in alone(main, made, short_frame) {
        let hostile = hostile.perhaps("most values of the metadata are not read");
        all.push(with(hostile, "", None));
    }
    let name = names.first().expect("a file").as_bytes();
    let at = honest.windows(name.len()).position(|bytes| bytes == name).expect("its name");
    let mut escaping = honest;
    escaping[at..at + name.len()].copy_from_slice(outside.as_bytes());
    let escapes = Hostile::new(Path, format!("{folder}: a file outside"), main, escaping);
    all.push(with(escapes, "", None).refused(&["Escapes"], &[]));
    all
}

pub(crate) fn torch() -> Vec<Hostile> {
    let mut all = all_of("torch/distributed", ".metadata", &["__0_0.distcp"], "../../secret");
    let ranks = ["__0_0.distcp", "__1_0.distcp", "__2_0.distcp", "__3_0.distcp"];
    all.extend(all_of("torch_sharded/mixed-safetensors", ".metadata", &ranks, "../../secret"));
    all
}

pub(crate) fn paddle() -> Vec<Hostile> {
    let ranks = ["0_0.distcp", "1_0.distcp", "2_0.distcp", "3_0.distcp"];
    all_of("paddle_sharded/3.3.1/flattened", "0.metadata", &ranks, "../secrets")
}
