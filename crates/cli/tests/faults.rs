//! Commands that write, disturbed at each of their system calls: one fails, or the process is killed. The files are all
//! old or all new, or refused until the write is finished, and the next write leaves nothing else.

#![expect(clippy::disallowed_methods, reason = "makes the directories that are written to")]

use std::collections::BTreeMap;
use std::path::Path;

use lodstone_conformance::system::{Disturbance, ERRORS, disturb};

use crate::checkpoint::serials;
use crate::common::{Outcome, command, dir, files, large, run};
use crate::recover::interrupt;

/// A command that writes.
struct Write {
    /// Makes the contents of the directory.
    begin: fn(&Path),
    /// `@` is the directory; `SOURCE` is a model beside it.
    arguments: &'static [&'static str],
    /// A command that refuses what is not finished.
    look: &'static [&'static str],
    /// Whether the work is done in steps, which the same command continues.
    in_steps: bool,
    /// Whether each step leaves whole files, so that readers need not wait for the last.
    open: bool,
}

/// If it is set, every call is disturbed; CONTRIBUTING.md documents it.
const KILLS: &str = "LODSTONE_KILLS";

/// About as many calls of a command are disturbed otherwise.
const CALLS: usize = 40;

const SOURCE: &str = "source.safetensors";

fn old(dir: &Path, names: &[&str]) {
    for name in names {
        std::fs::write(dir.join(name), "old").expect("written");
    }
}

const WRITE: Write =
    Write { begin: |_| (), arguments: &[], look: &[], in_steps: false, open: false };

const RESHARD: Write = Write {
    arguments: &["checkpoint", "reshard", SOURCE, "@/new", "--shards", "2"],
    look: &["verify", "@/new"],
    in_steps: true,
    ..WRITE
};

/// Returns the files of a directory that readers see.
fn visible(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = files(dir);
    let is_hidden = |name: &str| name.starts_with('.') && name.ends_with(".lodstone");
    // A run that is resumed writes the losses of its own steps.
    let is_losses = |name: &str| name.starts_with("losses.");
    files.retain(|name, _| !name.split('/').any(|name| is_hidden(name) || is_losses(name)));
    files
}

/// Returns the hidden files and directories of unfinished writes.
fn hidden(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("UTF-8");
        if name.starts_with('.') && name.ends_with(".lodstone") && name != ".lock.lodstone" {
            found.push(name);
        } else if entry.path().is_dir() {
            found.extend(hidden(&entry.path()));
        }
    }
    found
}

impl Write {
    /// Makes the directory, beside the source.
    fn prepare(&self, there: &Path) -> std::path::PathBuf {
        large(&there.join(SOURCE), 3, 40);
        let dir = there.join("target");
        std::fs::create_dir(&dir).expect("a directory");
        (self.begin)(&dir);
        dir
    }

    fn put(arguments: &[&str], dir: &Path) -> Vec<String> {
        let (dir, source) = (dir.to_str().expect("UTF-8"), dir.with_file_name(SOURCE));
        let source = source.to_str().expect("UTF-8");
        arguments.iter().map(|word| word.replace('@', dir).replace(SOURCE, source)).collect()
    }

    fn check(&self) {
        let there = dir();
        let dir = self.prepare(&there.path().canonicalize().expect("a directory"));
        let undisturbed = command(Self::put(self.arguments, &dir));
        let ended = disturb(undisturbed, &dir, usize::MAX, Disturbance::Kill);
        assert!(ended.code == Some(0) && ended.calls > 20, "{ended:?}");
        let new = visible(&dir);
        let all = std::env::var_os(KILLS).is_some();
        for number in (0..ended.calls).step_by(if all { 1 } else { ended.calls / CALLS + 1 }) {
            self.check_at(number, Disturbance::Kill, &new);
            self.check_at(number, Disturbance::Fail(ERRORS[number % ERRORS.len()]), &new);
        }
    }

    /// Disturbs a call, and checks what is there.
    fn check_at(&self, number: usize, by: Disturbance, new: &BTreeMap<String, Vec<u8>>) {
        let there = dir();
        let dir = self.prepare(&there.path().canonicalize().expect("a directory"));
        let (old, before) = (visible(&dir), hidden(&dir));
        let arguments = Self::put(self.arguments, &dir);
        let ended = disturb(command(&arguments), &dir, number, by);
        let (found, left) = (visible(&dir), hidden(&dir));
        let what = format!("{arguments:?}, call {number}, {by:?}: {ended:?}, {left:?}");
        let seen: Outcome = run(Self::put(self.look, &dir));
        let (is_old, is_new) = (found == old, found == *new);
        let is_refused = seen.code == Some(2) || (self.open && seen.code == Some(0));
        assert!(is_old || is_new || is_refused, "{what}: {seen:?}");
        match ended.code {
            Some(0) => assert!(is_new, "{what}: {:?}", found.keys()),
            None => assert_eq!(by, Disturbance::Kill, "{what}"),
            Some(2) => {
                assert!(ended.said.contains("error: "), "{what}");
                let is_unfinished = ended.said.contains(" is unfinished");
                assert!(left.is_empty() || left == before || is_unfinished, "{what}");
            }
            _ => panic!("{what}"),
        }
        // The same command does all that is left.
        if self.in_steps {
            let again = run(&arguments);
            assert!(again.code == Some(0) || is_new, "{what}: {again:?}");
        }
        let below = std::fs::read_dir(&dir)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path());
        for place in below.filter(|path| path.is_dir()).chain([dir.clone()]) {
            run(["recover", place.to_str().expect("UTF-8")]);
        }
        let end = visible(&dir);
        assert!(end == *new || (!self.in_steps && end == old), "{what}: {:?}", end.keys());
        assert_eq!(hidden(&dir), [""; 0], "{what}");
    }
}

#[test]
fn converting_to_a_file() {
    Write {
        begin: |dir| old(dir, &["model.npz", "other"]),
        arguments: &["convert", SOURCE, "@/model.npz"],
        look: &["verify", "@/model.npz"],
        ..WRITE
    }
    .check();
}

#[test]
fn converting_to_several_files() {
    Write {
        begin: |dir| old(dir, &["m.pdmodel", "m.pdiparams", "other"]),
        arguments: &["convert", "examples/digits/paddle", "@/m.pdmodel"],
        look: &["verify", "@/m.pdmodel"],
        ..WRITE
    }
    .check();
}

#[test]
fn resharding_for_pytorch() {
    Write {
        arguments: &[
            "checkpoint",
            "reshard",
            SOURCE,
            "@/new",
            "--shards",
            "2",
            "--to",
            "torch-distributed",
        ],
        ..RESHARD
    }
    .check();
}

#[test]
fn resharding_for_paddlepaddle() {
    Write {
        arguments: &[
            "checkpoint",
            "reshard",
            SOURCE,
            "@/new",
            "--shards",
            "2",
            "--to",
            "paddle-distributed",
        ],
        ..RESHARD
    }
    .check();
}

#[test]
fn resharding_to_safetensors() {
    RESHARD.check();
}

#[test]
fn sealing() {
    Write {
        begin: |dir| large(&dir.join("model.safetensors"), 2, 40),
        arguments: &["seal", "@"],
        look: &["verify", "@"],
        ..WRITE
    }
    .check();
}

#[test]
fn pruning() {
    Write {
        begin: |dir| drop(serials(dir)),
        arguments: &["checkpoint", "prune", "@", "--keep", "1"],
        look: &["checkpoint", "verify", "@"],
        in_steps: true,
        open: true,
    }
    .check();
}

#[test]
fn restoring() {
    Write {
        begin: |dir| drop(serials(dir)),
        arguments: &["checkpoint", "restore", "@", "@/weights.safetensors"],
        look: &["verify", "@/weights.safetensors"],
        ..WRITE
    }
    .check();
}

#[test]
fn recovering() {
    Write {
        begin: |dir| {
            old(dir, &["m.pdmodel", "m.pdiparams", "other"]);
            interrupt(dir);
        },
        arguments: &["recover", "@"],
        look: &["verify", "@/m.pdmodel"],
        in_steps: true,
        ..WRITE
    }
    .check();
}

#[test]
fn training() {
    Write {
        arguments: &[
            "train",
            "examples/digits/training",
            "--data",
            "examples/digits/train.npz",
            "--batch-size",
            "8",
            "--steps",
            "1",
            "--checkpoint",
            "@/run",
            "--resume",
            "--output",
            "@/out",
        ],
        look: &["checkpoint", "verify", "@/run"],
        in_steps: true,
        open: true,
        ..WRITE
    }
    .check();
}
