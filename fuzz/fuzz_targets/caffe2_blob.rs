#![no_main]

lodstone_fuzz::target!("caffe2_blob");
