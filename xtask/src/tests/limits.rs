//! Limits of tasks.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::limit::within;
use crate::run::{Outcome, run};

/// How long the processes of the test would sleep, in seconds: no other process has this argument.
const SLEEP: &str = "417.35";

#[test]
fn a_task_that_exceeds_its_time_is_stopped_with_processes_that_outlive_their_parents() {
    let begun = Instant::now();
    let outcome = within("limits", Duration::from_secs(2), || {
        let orphan = format!("setsid sleep {SLEEP} > /dev/null 2>&1 & exit 0");
        run(Command::new("sh").args(["-c", &orphan]))?;
        let first = run(Command::new("sleep").arg(SLEEP));
        assert!(matches!(first, Err(Outcome::Failed(_))), "{first:?}");
        let second = run(Command::new("sleep").arg(SLEEP));
        assert!(matches!(second, Err(Outcome::Failed(_))), "{second:?}");
        Ok(())
    });
    let Err(Outcome::Failed(what)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(what, "exceeded its budget of 2 s");
    assert_eq!(sleeping(), 0);
    assert!(begun.elapsed() < Duration::from_secs(400), "the processes have slept");
}

#[test]
fn a_task_within_its_time_has_its_own_outcome() {
    assert!(within("limits", Duration::from_secs(600), || run(&mut Command::new("true"))).is_ok());
    let failed = within("limits", Duration::from_secs(600), || run(&mut Command::new("false")));
    assert!(matches!(failed, Err(Outcome::Failed(what)) if what.starts_with("false")));
}

/// Returns the number of processes that the test left asleep.
fn sleeping() -> usize {
    let processes = fs::read_dir("/proc").expect("/proc is readable").flatten();
    let commands = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    commands.filter(|command| *command == format!("sleep\0{SLEEP}\0").into_bytes()).count()
}
