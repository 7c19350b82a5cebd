#![no_main]

lodstone_fuzz::target!("chunks");
