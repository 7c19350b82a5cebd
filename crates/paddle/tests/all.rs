//! Tests of programs of PaddlePaddle, in one binary.

mod bits;
mod support;

mod backward;
mod checkpoints;
mod control;
mod initializers;
mod layers;
mod models;
mod operators;
mod optimizers;
mod programs;
mod pruned;
