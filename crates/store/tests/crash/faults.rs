//! Failures injected at every step, cancellation at every step, and real failures: a file
//! size limit, a read-only directory, the working directory.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use lodstone_store::{Error, Progress, Result, StepKind};
use rustix::io::Errno;

use crate::SMALL;
use crate::child::{Kill, limited, program, run, writer};
use crate::scene::{Kind, Scene, State, write};

/// Runs a write that fails in step `last`; also returns the names of the steps.
fn failing(scene: &Scene, last: usize, errno: Errno) -> (Result<()>, Vec<StepKind>) {
    let steps = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&steps);
    let progress = Progress::watched(move |step| {
        let mut seen = seen.lock().expect("no panic");
        seen.push(step.kind);
        if seen.len() != last + 1 {
            return Ok(());
        }
        Err(Error::io("do", step.path)(io::Error::from(errno)))
    });
    let result = write(scene.kind, scene.root(), scene.next(), scene.size, progress);
    let steps = steps.lock().expect("no panic").clone();
    (result, steps)
}

/// Checks the contents after step `last` of `steps` failed, and the next write.
fn check_failed(scene: &mut Scene, result: &Result<()>, steps: &[StepKind], last: usize) {
    let (what, kind) =
        (format!("{:?}, step {last} of {steps:?}: {result:?}", scene.kind), scene.kind);
    let (state, refused) = (scene.look(), scene.refused());
    scene.check_surroundings();
    let failed = steps.get(last).copied();
    match result {
        Ok(()) => {
            assert_eq!((state, refused), (State::New, 0), "{what}");
            // What cannot be removed is left for the next write.
            let removing = [StepKind::Remove, StepKind::MakeDirectory];
            assert!(failed.is_none_or(|failed| removing.contains(&failed)), "{what}");
        }
        Err(Error::Unfinished { .. }) => {
            assert!(kind == Kind::Several && (refused > 0 || state == State::New), "{what}");
        }
        Err(error) => {
            let (said, root) = (error.to_string(), scene.root().display().to_string());
            assert!(said.contains(&root) && said.contains("(os error"), "{what}");
            assert_eq!(refused, 0, "{what}");
            // Only the sync of the directory is left.
            let last_wait = failed == Some(StepKind::SyncDirectory) && state == State::New;
            assert!(state == State::Old || (last_wait && kind != Kind::Several), "{what}");
            if state == State::Old {
                assert_eq!(scene.left_over(), [""; 0], "{what}");
            }
        }
    }
    scene.put_right(last.is_multiple_of(2));
}

#[test]
fn every_step_may_fail_and_the_old_content_stays_or_the_new_is_finished() {
    for kind in Kind::ALL {
        for errno in [Errno::NOSPC, Errno::IO] {
            let mut scene = Scene::new(kind, SMALL);
            let (mut failed, mut unfinished) = (0, 0);
            for last in 0.. {
                scene.prepare();
                let (result, steps) = failing(&scene, last, errno);
                failed += usize::from(result.is_err());
                unfinished += usize::from(matches!(result, Err(Error::Unfinished { .. })));
                check_failed(&mut scene, &result, &steps, last);
                if steps.len() <= last {
                    break;
                }
            }
            assert!(failed > 10, "{kind:?}: {failed}");
            assert_eq!(unfinished > 2, kind == Kind::Several, "{kind:?}: {unfinished}");
        }
    }
}

#[test]
fn cancelling_in_any_step_leaves_all_old_or_all_new_content() {
    for kind in Kind::ALL {
        let mut scene = Scene::new(kind, SMALL);
        let mut cancelled = 0;
        for last in 0.. {
            let (handle, steps) =
                (Arc::new(OnceLock::<Progress>::new()), Arc::new(AtomicUsize::new(0)));
            let (own, seen) = (Arc::clone(&handle), Arc::clone(&steps));
            let progress = Progress::watched(move |_| {
                if seen.fetch_add(1, Ordering::Relaxed) == last {
                    own.get().expect("set below").cancel();
                }
                Ok(())
            });
            handle.set(progress.clone()).expect("once");
            scene.prepare();
            let result = write(kind, scene.root(), scene.next(), scene.size, progress);
            let (state, refused) = (scene.look(), scene.refused());
            assert_eq!(
                (refused, scene.left_over()),
                (0, Vec::new()),
                "{kind:?}, {last}: {result:?}"
            );
            match result {
                Ok(()) => assert_eq!(state, State::New, "{kind:?}, {last}"),
                Err(Error::Cancelled) => assert_eq!(state, State::Old, "{kind:?}, {last}"),
                Err(error) => panic!("{kind:?}, {last}: {error}"),
            }
            cancelled += usize::from(state == State::Old);
            scene.put_right(last % 2 == 0);
            if steps.load(Ordering::Relaxed) <= last {
                break;
            }
        }
        assert!(cancelled > 5, "{kind:?}: {cancelled}");
    }
}

/// Runs a writer that must fail, and returns its stderr.
fn fails(mut command: Command) -> String {
    let output = command.output().expect("a child");
    assert!(!output.status.success(), "{output:?}");
    assert!(output.status.code().is_some(), "it was killed: {output:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn exceeding_the_file_size_limit_leaves_the_old_content_and_nothing_else() {
    for kind in Kind::ALL {
        let mut scene = Scene::new(kind, SMALL);
        scene.prepare();
        // The shell ignores the signal for exceeding the limit, so the write fails.
        let said = fails(limited(&scene, r#"trap "" XFSZ; ulimit -f 1000"#));
        assert!(said.contains("cannot") && said.contains("File too large"), "{said}");
        assert_eq!((scene.look(), scene.left_over()), (State::Old, Vec::new()), "{kind:?}");
        scene.check_surroundings();
        scene.put_right(true);
    }
}

/// The unprivileged user for tests that run as root.
const NOBODY: u32 = 65534;

#[test]
fn a_read_only_directory_is_unchanged() {
    for kind in Kind::ALL {
        let mut scene = Scene::new(kind, 8 * 1000);
        scene.prepare();
        let directory = if kind == Kind::New { scene.root().to_path_buf() } else { scene.model() };
        let set = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&directory, mode).expect("a mode");
        };
        // Root may write everywhere, so another user runs the writer.
        let mut command = writer(&scene, usize::MAX);
        let before = directory.metadata().expect("metadata");
        if rustix::process::geteuid().is_root() {
            command = program(&scene);
            command.uid(NOBODY).gid(NOBODY);
            let open = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(scene.root(), open).expect("a mode");
            chown(&directory, Some(NOBODY), Some(NOBODY)).expect("an owner");
        }
        set(0o555);
        let said = fails(command);
        set(before.mode() & 0o7777);
        chown(&directory, Some(before.uid()), Some(before.gid())).expect("an owner");
        assert!(said.contains("cannot create a file in"), "{kind:?}: {said}");
        assert!(said.contains("Permission denied"), "{kind:?}: {said}");
        assert_eq!((scene.look(), scene.left_over()), (State::Old, Vec::new()), "{kind:?}");
        scene.check_surroundings();
    }
}

#[test]
fn the_working_directory_is_not_exchanged() {
    let inode = |scene: &Scene| scene.model().metadata().expect("metadata").ino();
    for (below, exchanged) in [("", true), ("model", false), ("model/sub", false)] {
        let mut scene = Scene::new(Kind::Whole, 8 * 1000);
        scene.prepare();
        let before = inode(&scene);
        let mut command = writer(&scene, usize::MAX);
        command.current_dir(scene.root().join(below));
        assert!(command.output().expect("a child").status.success());
        assert_eq!(scene.look(), State::New);
        assert_eq!(inode(&scene) != before, exchanged, "{below}");
        scene.check_surroundings();
        scene.put_right(false);
    }
}

#[test]
fn the_steps_are_the_same_each_time() {
    for kind in Kind::ALL {
        let mut scene = Scene::new(kind, 8 * 1000);
        let mut steps = || {
            scene.prepare();
            let steps = run(&scene, Kill::Never).steps;
            scene.put_right(false);
            steps
        };
        assert_eq!(steps(), steps(), "{kind:?}");
    }
}
