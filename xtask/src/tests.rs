//! Tests of tasks.

#[cfg(target_os = "linux")]
mod limits;
mod lock;
mod results;
