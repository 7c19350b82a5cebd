//! Tests of tasks.

#[cfg(target_os = "linux")]
mod limits;
mod lock;
mod results;

/// The help is the comment at the start of `main.rs`.
#[test]
fn help_lists_all_tasks() {
    let rows = include_str!("main.rs").lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("//! | `")?.split_once('`')?;
        Some(name)
    });
    let listed: Vec<_> = rows.collect();
    let tasks: Vec<_> = super::TASKS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(listed, tasks);
}
