//! Commits whose process is killed, at random and at every step, and whose system fails at every step:
//! what is there is all of the old or all of the new, and what comes next puts everything right.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "looks with its own eyes")]

mod child;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod scene;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod trace;

use std::process::Stdio;
use std::time::Duration;

use child::{Ended, Kill, run, writer_of};
use common::{Random, recover};
use scene::{Kind, NEXT, Scene, State};

/// How many writers of each kind are killed at random; CONTRIBUTING.md says when to set it.
const KILLS: &str = "LODSTONE_KILLS";

/// What the writers that are killed at random write over.
const LARGE: usize = 64 << 20;

/// Several pieces for each file, so that there are several writes.
pub(crate) const SMALL: usize = 8 * 900_000;

/// What was found after the writers were killed.
#[derive(Debug, Default)]
struct Found {
    kills: usize,
    old: usize,
    new: usize,
    /// Refused until it was finished.
    unfinished: usize,
    /// Of those, where some files were old and some new.
    mixed: usize,
    left_over: usize,
    /// How far the writers had come.
    writing: usize,
    syncing: usize,
    publishing: usize,
    /// They had done all before they were killed.
    late: usize,
}

impl Found {
    /// Looks at what a writer left, and lets what comes next put it right.
    fn look(&mut self, scene: &mut Scene, ended: &Ended, by_writing: bool) {
        self.kills += 1;
        let (state, refused) = (scene.look(), scene.refused());
        scene.check_surroundings();
        assert!(state != State::Mix || refused > 0, "a mix is taken for a model: {ended:?}");
        assert!(refused == 0 || scene.kind == Kind::Several, "{ended:?}");
        assert!(ended.killed || (state, refused) == (State::New, 0), "{ended:?}");
        match (state, refused) {
            (State::Old, 0) => self.old += 1,
            (State::New, 0) => self.new += 1,
            _ => self.unfinished += 1,
        }
        self.mixed += usize::from(state == State::Mix);
        self.left_over += usize::from(!scene.left_over().is_empty());
        match ended.steps.last().map(String::as_str) {
            Some("done") => self.late += 1,
            Some("Stage" | "Create" | "Write" | "MakeDirectory") | None => self.writing += 1,
            Some("Sync") => self.syncing += 1,
            Some(_) => self.publishing += 1,
        }
        if refused > 0 && !by_writing {
            // Nothing is lost that was promised.
            let next = scene.next();
            scene.put_right(false);
            assert_eq!(scene.seed, next, "finished as new");
        } else {
            scene.put_right(by_writing);
        }
    }
}

fn kills() -> usize {
    let asked = std::env::var(KILLS).ok();
    asked.map_or(20, |asked| asked.parse().expect("a number"))
}

fn killed_at_random(kind: Kind) {
    let (mut scene, mut random) = (Scene::new(kind, LARGE), Random::new(kind as u64 + 99));
    // How long it takes, and how long from when it waits for the disk. It changes with what else the
    // machine does.
    let (mut times, mut ends) = (Vec::new(), Vec::new());
    let mut found = Found::default();
    let middle = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    for number in 0..kills() {
        if number % 50 == 0 {
            for _ in 0..3 {
                scene.prepare();
                let ended = run(&scene, Kill::Never);
                assert!(!ended.killed && scene.left_over().is_empty(), "{ended:?}");
                scene.put_right(false);
                times.push(ended.took);
                ends.push(ended.synced);
            }
        }
        // A tenth of the time after the other, and a random moment in it.
        let mut moment = |time: Duration| {
            let tenth = u32::try_from(number / 2 % 10).expect("small");
            (time * (1000 * tenth + u32::try_from(random.below(1000)).expect("small"))) / 10_000
        };
        let kill = match number % 2 {
            0 => Kill::After(moment(middle(&mut times))),
            _ => Kill::AfterSync(moment(middle(&mut ends))),
        };
        scene.prepare();
        let ended = run(&scene, kill);
        found.look(&mut scene, &ended, number % 8 == 7);
    }
    #[expect(clippy::print_stdout, reason = "for who asks with `--nocapture`")]
    {
        println!("{kind:?}, a write of {:?}: {found:?}", middle(&mut times));
    }
    let hit = found.writing + found.syncing + found.publishing;
    assert!(found.writing > 0 && found.syncing + found.publishing > 0, "{found:?}");
    assert!(hit * 3 > found.kills, "most writers were not killed while they wrote: {found:?}");
}

#[test]
fn a_file_is_old_or_new_whenever_its_writer_is_killed() {
    killed_at_random(Kind::File);
}

#[test]
fn a_new_directory_is_absent_or_whole_whenever_its_writer_is_killed() {
    killed_at_random(Kind::New);
}

#[test]
fn a_whole_directory_is_old_or_new_whenever_its_writer_is_killed() {
    killed_at_random(Kind::Whole);
}

#[test]
fn several_files_are_old_or_new_or_refused_whenever_their_writer_is_killed() {
    killed_at_random(Kind::Several);
}

#[test]
fn a_writer_may_be_killed_at_any_step() {
    for kind in Kind::ALL {
        let mut scene = Scene::new(kind, SMALL);
        let mut found = Found::default();
        for step in 0.. {
            scene.prepare();
            let ended = run(&scene, Kill::In(step));
            found.look(&mut scene, &ended, step % 2 == 0);
            if !ended.killed {
                for expected in kind.steps() {
                    assert!(ended.names().contains(expected), "{kind:?}: {expected}: {ended:?}");
                }
                break;
            }
            assert_eq!(ended.steps.len(), step + 1, "{kind:?}: {ended:?}");
        }
        assert!(found.kills > kind.steps().len() && found.old > 0 && found.new > 0, "{found:?}");
        assert!(found.left_over > 0, "{kind:?}: {found:?}");
        assert_eq!(found.mixed > 0, kind == Kind::Several, "{kind:?}: {found:?}");
    }
}

#[test]
fn who_finishes_a_write_may_be_killed_too() {
    for kind in [Kind::Whole, Kind::Several] {
        let mut scene = Scene::new(kind, 8 * 1000);
        scene.prepare();
        let steps = run(&scene, Kill::Never).steps;
        scene.put_right(false);
        // From where the first could be killed so that there is something to finish.
        let begin = steps.iter().position(|step| step == "Move" || step == "Pend");
        for first in begin.expect("such a step")..steps.len() - 1 {
            for second in (0..).step_by(5) {
                scene.prepare();
                run(&scene, Kill::In(first));
                let (state, refused) = (scene.look(), scene.refused());
                // The second writes what the first wrote.
                let ended = run(&scene, Kill::In(second));
                let (now, still) = (scene.look(), scene.refused());
                assert!(now != State::Mix || still > 0, "{first}, {second}: {ended:?}");
                assert!(
                    (state, refused) == (State::Old, 0) || now == State::New || still > 0,
                    "{first}, {second}: what was published is lost: {ended:?}"
                );
                scene.check_surroundings();
                scene.put_right(second % 2 == 0);
                if !ended.killed {
                    break;
                }
            }
        }
    }
}

#[test]
fn writers_that_live_are_not_harmed_by_others_that_are_killed() {
    const WRITERS: u64 = 4;
    const ROUNDS: u64 = 25;
    for kind in [Kind::File, Kind::Whole, Kind::Several] {
        let (mut scene, mut random) = (Scene::new(kind, 8 * 40_000), Random::new(7));
        let (mut lived, mut there) = (0, vec![scene.seed]);
        for round in 1..=ROUNDS {
            let started: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let seed = (round * WRITERS + writer) * NEXT;
                    let lives = random.below(2) == 0;
                    let last = if lives {
                        usize::MAX
                    } else {
                        usize::try_from(random.below(40)).expect("small")
                    };
                    let mut command = writer_of(&scene, seed, last);
                    (lives, seed, command.stdin(Stdio::null()).spawn().expect("a child"))
                })
                .collect();
            let before = there.clone();
            let mut done = Vec::new();
            for (lives, seed, child) in started {
                let output = child.wait_with_output().expect("a child");
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(!lives || output.status.success(), "{kind:?}, round {round}: {said}");
                lived += usize::from(lives);
                if output.status.success() {
                    done.push(seed);
                }
                there.push(seed);
            }
            recover(scene.root()).expect("recovered");
            recover(scene.model()).expect("recovered");
            let found = there.iter().copied().find(|seed| scene.is_all(*seed));
            let found = found.unwrap_or_else(|| panic!("{kind:?}, round {round}: a mix"));
            assert!(
                done.is_empty() || !before.contains(&found),
                "{kind:?}: what was written is lost"
            );
            assert_eq!(scene.left_over(), [""; 0], "{kind:?}, round {round}");
            (scene.seed, there) = (found, vec![found]);
            scene.prepare();
            scene.check_surroundings();
        }
        assert!(lived > 10, "{kind:?}: {lived}");
    }
}
