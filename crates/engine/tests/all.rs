//! Tests of the engine, in one binary. `memory` has its own allocator, `threads` examines its whole process.

mod fast;
mod hostile;
mod layers;
mod models;
mod nodes;
