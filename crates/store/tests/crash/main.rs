//! Commits whose process is killed, at random and at every step, and whose system fails at every step:
//! the contents are either all old or all new, and the next operation cleans up.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "checks the results directly"
)]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod calls;
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

/// The number of writers of each kind to kill at random; CONTRIBUTING.md documents when to set it.
const KILLS: &str = "LODSTONE_KILLS";

/// The size of the contents for random kills.
const LARGE: usize = 64 << 20;

/// The size for kills at every step: several chunks per file, so that there are several writes.
pub(crate) const SMALL: usize = 8 * 900_000;

/// Statistics of the contents after kills.
#[derive(Debug, Default)]
struct Found {
    kills: usize,
    old: usize,
    new: usize,
    /// Rejected until the write was finished.
    unfinished: usize,
    /// Of those, mixes of old and new files.
    mixed: usize,
    left_over: usize,
    /// The progress of the killed writers.
    writing: usize,
    syncing: usize,
    publishing: usize,
    /// Killed after they were done.
    late: usize,
}

impl Found {
    /// Checks the contents after a writer, and lets the next operation clean up.
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
            // Published contents are not lost.
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
    // Measures the total time and the time from the first sync, which vary with the load of
    // the machine.
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
        // A random moment in each tenth of the time.
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
    #[expect(clippy::print_stdout, reason = "visible with `--nocapture`")]
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
fn a_recovery_may_be_killed_at_any_step() {
    for kind in [Kind::Whole, Kind::Several] {
        let mut scene = Scene::new(kind, 8 * 1000);
        scene.prepare();
        let steps = run(&scene, Kill::Never).steps;
        scene.put_right(false);
        // From the first step after which there is a write to finish.
        let begin = steps.iter().position(|step| step == "Move" || step == "Pend");
        for first in begin.expect("such a step")..steps.len() - 1 {
            for second in (0..).step_by(5) {
                scene.prepare();
                run(&scene, Kill::In(first));
                let (state, refused) = (scene.look(), scene.refused());
                // The second writer writes the same content.
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
fn live_writers_are_not_affected_by_killed_ones() {
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
