#![no_main]

lodstone_fuzz::target!("mxnet_params");
