#![no_main]

lodstone_fuzz::target!("safetensors_index");
