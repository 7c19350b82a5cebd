#![no_main]

lodstone_fuzz::target!("onnx_tensor");
