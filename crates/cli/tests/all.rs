//! Tests of the commands, in one binary.

mod common;

mod cat;
mod checkpoint;
mod command;
mod convert;
mod diff;
mod documents;
#[cfg(target_os = "linux")]
mod exhausted;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod faults;
mod habits;
mod hints;
mod inspect;
mod keywords;
mod program;
mod recover;
mod remote;
mod reported;
mod run;
mod scan;
mod streams;
mod train;
mod verdicts;
mod verify;
