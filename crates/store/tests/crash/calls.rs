//! Each system call of a write fails once, with each of several errors.

use lodstone_conformance::system::{Disturbance, ERRORS, Ended, disturb};

use crate::KILLS;
use crate::child::{limited, writer};
use crate::scene::{Kind, Scene, State};

/// Checks the contents after a writer whose system call failed, and the next write.
fn check(scene: &mut Scene, ended: &Ended, what: &str) {
    let (state, refused) = (scene.look(), scene.refused());
    scene.check_surroundings();
    match ended.code {
        Some(0) => assert_eq!((state, refused), (State::New, 0), "{what}"),
        Some(1) if ended.said.contains("is unfinished") => {
            assert!(scene.kind == Kind::Several && (refused > 0 || state == State::New), "{what}");
        }
        Some(1) => {
            assert_eq!(refused, 0, "{what}");
            let root = scene.root().display().to_string();
            assert!(ended.said.contains(&root) && ended.said.contains("(os error"), "{what}");
            if state == State::Old {
                assert_eq!(scene.left_over(), [""; 0], "{what}");
            } else {
                // Whether the published files are on disk is unknown.
                assert!(state == State::New && ended.said.contains("cannot sync"), "{what}");
            }
        }
        _ => panic!("{what}"),
    }
    scene.put_right(ended.calls.is_multiple_of(2));
}

/// Lets each call of a write fail once; with [`KILLS`], with each error, otherwise with one of them in turn.
fn every_call_fails(kind: Kind) {
    let all = std::env::var_os(KILLS).is_some();
    let mut scene = Scene::new(kind, 8 * 1000);
    let (mut errors, mut failed) = (0, 0);
    for number in 0.. {
        let mut made = 0;
        for _ in 0..if all { ERRORS.len() } else { 1 } {
            let errno = ERRORS[errors % ERRORS.len()];
            errors += 1;
            scene.prepare();
            let ended =
                disturb(writer(&scene, usize::MAX), scene.root(), number, Disturbance::Fail(errno));
            failed += usize::from(ended.code == Some(1));
            made = ended.calls;
            check(&mut scene, &ended, &format!("{kind:?}, call {number}, {errno:?}: {ended:?}"));
        }
        if made <= number {
            break;
        }
    }
    assert!(failed > 10, "{kind:?}: {failed}");
}

#[test]
fn every_system_call_of_a_replaced_file_may_fail() {
    every_call_fails(Kind::File);
}

#[test]
fn every_system_call_of_a_new_directory_may_fail() {
    every_call_fails(Kind::New);
}

#[test]
fn every_system_call_of_an_exchanged_directory_may_fail() {
    every_call_fails(Kind::Whole);
}

#[test]
fn every_system_call_of_several_files_may_fail() {
    every_call_fails(Kind::Several);
}

#[test]
fn any_limit_of_descriptors_leaves_old_or_new_content_and_nothing_else() {
    for kind in Kind::ALL {
        let mut scene = Scene::new(kind, 8 * 1000);
        let (mut failed, mut written) = (0, 0);
        for limit in 3..32 {
            scene.prepare();
            let output = limited(&scene, &format!("ulimit -n {limit}")).output().expect("a child");
            let what = format!("{kind:?}, at most {limit} descriptors: {output:?}");
            assert!(output.status.code().is_some(), "{what}");
            let state = if output.status.success() { State::New } else { State::Old };
            assert_eq!((scene.look(), scene.refused()), (state, 0), "{what}");
            assert_eq!(scene.left_over(), [""; 0], "{what}");
            scene.check_surroundings();
            *(if state == State::New { &mut written } else { &mut failed }) += 1;
            scene.put_right(true);
        }
        assert!(failed > 2 && written > 2, "{kind:?}: {failed} failed, {written} were written");
    }
}
