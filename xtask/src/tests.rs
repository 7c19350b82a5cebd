//! Tests of tasks.

#[cfg(target_os = "linux")]
mod limits;
mod results;
