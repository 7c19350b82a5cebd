//! Injected faults at every step of a save, and real ones: a full disk, a read-only directory, a directory that is
//! removed. Training continues, and existing serials are kept.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lodstone_checkpoint::{Manager, ManagerOptions, serials};
use lodstone_store::{Error, Progress, StepKind};
use rustix::io::Errno;

use crate::child::{KEEP, content, saver};
use crate::common::manager;

fn steps(dir: &Path) -> Vec<u64> {
    serials(dir).unwrap().iter().map(|serial| serial.step).collect()
}

/// A manager whose system fails once, in step `last`; it also records the steps.
fn failing(dir: &Path, last: usize, errno: Errno) -> (Manager, Arc<Mutex<Vec<StepKind>>>) {
    let (seen, count) = (Arc::new(Mutex::new(Vec::new())), AtomicUsize::new(0));
    let kinds = Arc::clone(&seen);
    let progress = Progress::watched(move |step| {
        kinds.lock().unwrap().push(step.kind);
        match count.fetch_add(1, Ordering::Relaxed) == last {
            true => Err(Error::io("do", step.path)(io::Error::from(errno))),
            false => Ok(()),
        }
    });
    let options = ManagerOptions::default().with_keep(Some(KEEP)).with_progress(progress);
    (Manager::open(dir, options).unwrap(), seen)
}

#[test]
fn every_step_may_fail_and_existing_serials_are_kept() {
    for errno in [Errno::NOSPC, Errno::IO] {
        let mut failed = 0;
        for last in 0.. {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path();
            let mut before = manager(dir, KEEP);
            for step in [1, 2] {
                before.save(step, &content(step)).unwrap();
            }
            drop(before);
            let (mut manager, seen) = failing(dir, last, errno);
            let result = manager.save(3, &content(3));
            let kinds = seen.lock().unwrap().clone();
            let what = format!("step {last} of {kinds:?}: {result:?}");
            let found = steps(dir);
            if kinds.len() <= last {
                assert_eq!((result.is_ok(), found), (true, vec![2, 3]), "{what}");
                break;
            }
            match &result {
                Ok(saved) => {
                    assert!(found.ends_with(&[2, 3]), "{what}");
                    // The oldest serial was moved out of its place, and the directory synced.
                    let retired = kinds.iter().position(|kind| *kind == StepKind::Retire).unwrap();
                    let is_reported = (retired..retired + 2).contains(&last);
                    assert_eq!(!saved.warnings.is_empty(), is_reported, "{what}");
                }
                // Only the sync of the directory remains.
                Err(error) => {
                    assert!(error.to_string().contains("(os error"), "{what}");
                    let appeared = kinds.contains(&StepKind::Appear) && found == [1, 2, 3];
                    assert!(found == [1, 2] || appeared, "{what}");
                    failed += 1;
                }
            }
            // Training continues, and the next save succeeds.
            assert_eq!(manager.save(4, &content(4)).unwrap().serial.step, 4, "{what}");
            assert!(steps(dir).ends_with(&[4]) && steps(dir).len() == KEEP, "{what}");
            assert_eq!(super::hidden(dir), [""; 0], "{what}");
        }
        assert!(failed > 8, "{failed}");
    }
}

/// Runs a saver that must fail, and returns its output.
fn fails(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_full_disk_leaves_existing_serials_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    manager(dir.path(), KEEP).save(1, &content(1)).unwrap();
    let saver = saver("once", 2, dir.path());
    // The shell sets a limit and ignores the signal for exceeding it, so that the write fails.
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap "" XFSZ; ulimit -f 100; exec "$@""#, "sh"]);
    command.arg(saver.get_program()).args(saver.get_args());
    command.envs(saver.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = fails(command);
    assert!(output.contains("cannot write") && output.contains("File too large"), "{output}");
    assert_eq!((steps(dir.path()), super::hidden(dir.path())), (vec![1], Vec::new()));
}

#[test]
fn a_read_only_directory_is_reported_and_can_be_read() {
    /// The user `nobody`, for tests that run as root.
    const NOBODY: u32 = 65534;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    manager(dir, KEEP).save(1, &content(1)).unwrap();
    let saver = saver("once", 2, dir);
    let mut command = saver;
    if rustix::process::geteuid().is_root() {
        let copy = dir.join("program");
        // In a separate process: files that this process opens for writing are briefly inherited by its other children.
        let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&copy).status();
        assert!(copied.unwrap().success());
        let mut other = Command::new(copy);
        other.args(command.get_args());
        other.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command = other;
        command.uid(NOBODY).gid(NOBODY);
    }
    let set = |mode| std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
    set(0o555);
    let output = command.output().unwrap();
    set(0o755);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{errors}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(format!("{errors}{printed}").contains("Permission denied"), "{errors}{printed}");
    assert_eq!(steps(dir), [1]);
    assert_eq!(serials(dir).unwrap()[0].verify(&Progress::default()).unwrap(), [""; 0]);
}

#[test]
fn a_removed_directory_is_reported_and_not_created_again() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, other) = (dir.path().join("a"), dir.path().join("b"));
    let mut manager = manager(&dir, KEEP);
    manager.save(1, &content(1)).unwrap();
    std::fs::rename(&dir, &other).unwrap();
    let error = manager.save(2, &content(2)).unwrap_err().to_string();
    assert!(error.contains(&dir.display().to_string()) && error.contains("No such"), "{error}");
    assert!(!dir.exists());
    // A new directory of the same name has its own writer.
    let _second = crate::common::manager(&dir, KEEP);
    let error = manager.save(2, &content(2)).unwrap_err().to_string();
    assert!(error.contains("it was replaced by another directory"), "{error}");
    assert_eq!(steps(&dir), [0; 0]);
    std::fs::remove_dir_all(&dir).unwrap();
    std::fs::rename(&other, &dir).unwrap();
    assert_eq!(manager.save(2, &content(2)).unwrap().serial.step, 2);
}
