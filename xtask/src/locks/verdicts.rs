//! The verdicts of the command on every file that is there: what opened, ran and was exported at another revision still does,
//! with the same results.
//!
//! | step | command |
//! |---|---|
//! | `open` | `inspect FILE` |
//! | `verify` | `verify FILE` |
//! | `run` | `run FILE --random-inputs 1`, and the bytes of its results, which are compared if the inputs were the same |
//! | `export` | `convert FILE OUT.onnx` |
//!
//! Subjects are the golden files of all crates, the examples, and the files below `LODSTONE_CASES`; directories count, too, as
//! models may be directories. A verdict that differs is listed in `refusals.tsv`, with its reason: a pattern of paths (`*` is any
//! text), the step, a pattern of what the command says now, the reason. A listed difference that does not occur is an error.
//! `target/locks/verdicts` has all verdicts, and the differences that are not listed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::run::{Outcome, cannot, root};

/// The expected differences.
const REFUSALS: &str = include_str!("refusals.tsv");

/// Files of these kinds are scripts, descriptions and records.
const OTHERS: [&str; 9] = ["py", "sh", "md", "tsv", "txt", "key", "lock", "rs", "toml"];

/// The largest file that is tried.
const MAX_SIZE: u64 = 64 << 20;

/// The time after which a command is stopped, which is a verdict of its own.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The verdicts on a subject, by step.
type Verdicts = BTreeMap<&'static str, Verdict>;

/// The outcome of a command.
#[derive(Clone, Default)]
struct Verdict {
    /// The exit status, or why there is none.
    status: String,
    /// The random inputs, as the command describes them.
    inputs: String,
    /// A digest of the results, if there are some.
    results: String,
    /// The error, or the first finding.
    said: String,
}

impl Verdict {
    fn is_right(&self) -> bool {
        self.status == "0"
    }

    fn equals(&self, other: &Self) -> bool {
        let is_comparable = self.is_right() && self.inputs == other.inputs;
        self.status == other.status && (!is_comparable || self.results == other.results)
    }
}

/// Compares the verdicts of two commands on all subjects.
pub(super) fn verdicts(then: &Path, now: &Path, dir: &Path) -> Result<(), Outcome> {
    let (subjects, dir) = (subjects()?, dir.join("verdicts"));
    let [before, after] = [(then, "then"), (now, "now")].map(|(program, name)| {
        let verdicts = judged(program, &subjects, &dir.join(name))?;
        written(&verdicts, &dir.join(format!("{name}.tsv")))?;
        Ok(verdicts)
    });
    let (before, after) = (before?, after?);
    let mut listed: Vec<(usize, Vec<&str>)> =
        REFUSALS.lines().map(|line| (0, line.split('\t').collect())).collect();
    if let Some((_, entry)) = listed.iter().find(|(_, entry)| entry.len() != 4) {
        return Err(Outcome::Failed(format!(
            "refusals.tsv: `{}` has not 4 fields",
            entry.join(" ")
        )));
    }
    let (mut different, mut better) = (Vec::new(), 0);
    for (name, then) in &before {
        for (step, was) in then {
            // What does not open has no further verdicts.
            let Some(is) = after.get(name).and_then(|now| now.get(step)).cloned() else { continue };
            match (was.is_right(), was.equals(&is)) {
                (_, true) => {}
                (false, false) => better += usize::from(is.is_right()),
                (true, false) => {
                    let entry = listed.iter_mut().find(|(_, entry)| {
                        matches!(entry.as_slice(), [path, of, said, _]
                            if of == step && fits(path, name) && fits(said, &is.said))
                    });
                    match entry {
                        Some((count, _)) => *count += 1,
                        None => different.push(match is.is_right() {
                            true => format!("{step} {name}: other results"),
                            false => format!("{step} {name}: now {}: {}", is.status, is.said),
                        }),
                    }
                }
            }
        }
    }
    for (_, entry) in listed.iter().filter(|(count, _)| *count == 0) {
        different.push(format!("refusals.tsv lists `{}`, which did not occur", entry.join(" ")));
    }
    let expected: usize = listed.iter().map(|(count, _)| count).sum();
    let (count, wrong) = (before.len(), different.len());
    eprintln!(
        "verdicts: {count} files, {better} are accepted now, {expected} listed, {wrong} others"
    );
    different.iter().take(50).for_each(|line| eprintln!("  {line}"));
    let all = different.iter().fold(String::new(), |text, line| text + line + "\n");
    fs::write(dir.join("different.txt"), all).map_err(cannot("write the differences"))?;
    match wrong {
        0 => Ok(()),
        _ => Err(Outcome::Failed(format!("{wrong} verdicts differ"))),
    }
}

/// Writes verdicts, one per line.
fn written(verdicts: &BTreeMap<String, Verdicts>, path: &Path) -> Result<(), Outcome> {
    let mut text = String::new();
    for (name, steps) in verdicts {
        for (step, Verdict { status, inputs, results, said }) in steps {
            let line = [name.as_str(), step, status, inputs, results, said].join("\t");
            text += &(line + "\n");
        }
    }
    fs::write(path, text).map_err(cannot("write the verdicts"))
}

/// Whether a text has the form of a pattern, in which `*` is any text.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut is_open = false;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        is_open = part.is_empty();
    }
    rest.is_empty() || is_open
}

/// Returns the files and directories that are tried, by their names.
fn subjects() -> Result<Vec<(String, PathBuf)>, Outcome> {
    let mut roots = vec![(String::from("examples"), root().join("examples"))];
    for entry in fs::read_dir(root().join("crates")).map_err(cannot("list crates"))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        roots.push((name, entry.path().join("tests/golden")));
    }
    if let Some(cases) = std::env::var_os("LODSTONE_CASES") {
        roots.push(("cases".to_owned(), PathBuf::from(cases)));
    }
    let (mut found, mut open) = (Vec::new(), roots);
    while let Some((name, path)) = open.pop() {
        let Ok(entries) = fs::read_dir(&path) else { continue };
        for entry in entries.flatten() {
            let (own, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
            let name = format!("{name}/{own}");
            let Ok(about) = fs::metadata(&path) else { continue };
            let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
            if about.is_dir() {
                open.push((name.clone(), path.clone()));
                found.push((name, path));
            } else if about.len() <= MAX_SIZE && !OTHERS.contains(&ending.as_str()) {
                found.push((name, path));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the verdicts of a command on all subjects, on all processors.
fn judged(
    program: &Path,
    subjects: &[(String, PathBuf)],
    work: &Path,
) -> Result<BTreeMap<String, Verdicts>, Outcome> {
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let judge = |thread: usize| {
            let work = work.join(thread.to_string());
            while let Some((name, path)) = subjects.get(next.fetch_add(1, Ordering::Relaxed)) {
                let of_subject = judge(program, path, &work)?;
                let mut verdicts = verdicts.lock().map_err(|_| panicked())?;
                verdicts.insert(name.clone(), of_subject);
            }
            Ok(())
        };
        let workers: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || judge(thread))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| panicked())?)
    })?;
    verdicts.into_inner().map_err(|_| panicked())
}

fn panicked() -> Outcome {
    Outcome::Failed("a thread panicked".to_owned())
}

fn judge(program: &Path, subject: &Path, work: &Path) -> Result<Verdicts, Outcome> {
    let steps: [(&'static str, &[&str], &[&str]); 4] = [
        ("open", &["inspect"], &[]),
        ("verify", &["verify"], &[]),
        ("run", &["run"], &["--random-inputs", "1", "-o", "out.npz"]),
        ("export", &["convert"], &["out.onnx", "-q"]),
    ];
    let mut found = Verdicts::new();
    for (step, before, behind) in steps {
        let _ = fs::remove_dir_all(work);
        fs::create_dir_all(work).map_err(cannot("create the directory"))?;
        let mut command = Command::new(program);
        command.args(before).arg(subject).args(behind).current_dir(work);
        let said = work.join("stderr");
        #[expect(clippy::disallowed_types, reason = "a scratch file of this command")]
        let stderr = fs::File::create(&said).map_err(cannot("create a file"))?;
        #[expect(clippy::disallowed_types, reason = "a scratch file of this command")]
        let stdout = fs::File::create(work.join("stdout")).map_err(cannot("create a file"))?;
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let status = match finished(&mut command)? {
            Some(status) => status.code().map_or("killed".to_owned(), |code| code.to_string()),
            None => "timeout".to_owned(),
        };
        let [errors, printed] = [said, work.join("stdout")].map(fs::read);
        let errors = errors.map_err(cannot("read a file"))?;
        let errors = String::from_utf8_lossy(&errors);
        let printed = printed.map_err(cannot("read a file"))?;
        let printed = String::from_utf8_lossy(&printed);
        let inputs = errors.lines().filter(|line| line.contains("random input"));
        // `verify` prints its findings below the name.
        let error = errors.lines().find_map(|line| line.strip_prefix("error: "));
        let finding = (step == "verify").then(|| printed.lines().nth(1)).flatten();
        let said = error.or(finding).unwrap_or_default().replace('\t', " ").trim().to_owned();
        let mut verdict = Verdict { status, inputs: inputs.collect(), said, ..Verdict::default() };
        if let Ok(results) = fs::read(work.join("out.npz")) {
            let digest = Sha256::digest(&results);
            let hex = |text, byte: &u8| format!("{text}{byte:02x}");
            verdict.results = digest.iter().take(6).fold(String::new(), hex);
        }
        let is_model = step != "open" || verdict.is_right();
        found.insert(step, verdict);
        if !is_model {
            break;
        }
    }
    Ok(found)
}

/// Waits for a command; `None` if it was stopped after the timeout.
fn finished(command: &mut Command) -> Result<Option<ExitStatus>, Outcome> {
    let mut child = command.spawn().map_err(cannot("start the command"))?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(cannot("wait for the command"))? {
            return Ok(Some(status));
        }
        if begun.elapsed() > TIMEOUT {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
}
