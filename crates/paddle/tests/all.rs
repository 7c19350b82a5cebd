//! Tests of programs of PaddlePaddle that are built, in one binary.

mod support;

mod backward;
mod control;
mod initializers;
mod layers;
mod optimizers;
mod pruned;
