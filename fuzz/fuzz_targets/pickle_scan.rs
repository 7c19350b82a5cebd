#![no_main]

lodstone_fuzz::target!("pickle_scan");
