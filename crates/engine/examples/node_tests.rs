//! Runs recorded node tests where there are neither files nor threads: compiled for `wasm32-unknown-unknown`, and called by
//! `interop/wasm_nodes.py`, which writes a case into the memory of this module.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a case that cannot be read fails")]

#[path = "../tests/nodes/case.rs"]
mod case;

use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use lodstone_formats::{OpenOptions, onnx};
use lodstone_model::Model;
use lodstone_store::MemoryStore;

/// A case, and then what is wrong with it.
static BUFFER: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Makes room for a case; returns its address.
#[expect(unsafe_code, reason = "the name is for the caller of the module")]
#[unsafe(no_mangle)]
pub extern "C" fn allocate(len: usize) -> *mut u8 {
    let mut buffer = BUFFER.lock().unwrap_or_else(PoisonError::into_inner);
    buffer.clear();
    buffer.resize(len, 0);
    buffer.as_mut_ptr()
}

/// Runs the case in all ways; returns the length of what is wrong, which is at the address of the case.
#[expect(unsafe_code, reason = "the name is for the caller of the module")]
#[unsafe(no_mangle)]
pub extern "C" fn check() -> usize {
    let mut buffer = BUFFER.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = std::mem::take(&mut *buffer);
    let mut wrong = String::new();
    for way in case::WAYS {
        if let Err(finding) = case::run(model(bytes.clone()), way) {
            writeln!(wrong, "{way:?}: {finding}").expect("a string");
        }
    }
    *buffer = wrong.into_bytes();
    buffer.len()
}

/// Returns the address of what is wrong.
#[expect(unsafe_code, reason = "the name is for the caller of the module")]
#[unsafe(no_mangle)]
pub extern "C" fn wrong() -> *const u8 {
    BUFFER.lock().unwrap_or_else(PoisonError::into_inner).as_ptr()
}

fn model(bytes: Vec<u8>) -> Model {
    let store = MemoryStore::default();
    store.insert("case.onnx", bytes).expect("stored");
    let read = (onnx::BINARY.read)(&store.location("case.onnx"), &OpenOptions::default());
    let mut model = read.expect("readable");
    model.load().expect("readable");
    model
}
