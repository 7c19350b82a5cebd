//! Checkpoints of programs: saved by operators and as serials, restored, resumed; those of PaddlePaddle, too.

#![expect(clippy::disallowed_methods, reason = "looks with its own eyes")]
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
