#![no_main]

lodstone_fuzz::target!("paddle_distributed");
