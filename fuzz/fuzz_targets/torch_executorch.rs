#![no_main]

lodstone_fuzz::target!("torch_executorch");
