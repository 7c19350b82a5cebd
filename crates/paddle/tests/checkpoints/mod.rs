//! Checkpoints of programs: saved by operators and as serials, restored and resumed; also PaddlePaddle's own.

#![expect(clippy::disallowed_methods, reason = "checks files independently of the store")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod appended;
#[path = "../../../checkpoint/tests/common/mod.rs"]
mod common;
mod foreign;
mod going_on;
mod hostile;
mod killed;
mod restored;
mod serials;
mod training;
mod written;
