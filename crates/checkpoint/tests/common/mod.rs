//! Managers and tensors for the tests.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod saver;

use std::path::Path;

use lodstone_checkpoint::{Container, Manager, ManagerOptions};
use lodstone_model::{DType, Kind, Lod, Parameter, Tensor};
use lodstone_store::Blob;

pub(crate) fn manager(dir: &Path, keep: usize) -> Manager {
    Manager::open(dir, ManagerOptions::default().with_keep(Some(keep))).unwrap()
}

/// All containers.
pub(crate) const CONTAINERS: [Container; 4] =
    [Container::Combined, Container::Each, Container::Sized, Container::Safetensors];

/// Opens a manager for a container.
pub(crate) fn of(container: Container, dir: &Path) -> Manager {
    Manager::open(dir, ManagerOptions::default().with_container(container)).unwrap()
}

/// A tensor of pseudo-random bytes.
pub(crate) fn bytes(name: &str, len: usize, seed: u64) -> Parameter {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let made: Vec<u8> = next.flatten().take(len).collect();
    let tensor = Tensor::dense(DType::Uint8, vec![len as u64], Blob::memory(made));
    Parameter { name: name.to_owned(), tensor }
}

/// Tensors of every kind that a container can hold.
pub(crate) fn plain_tensors() -> Vec<(Container, Vec<Parameter>)> {
    let table = Tensor {
        kind: Kind::SelectedRows { rows: Blob::memory(vec![1, 0, 0, 0, 0, 0, 0, 0]), height: 9 },
        ..Tensor::dense(DType::Float32, vec![1, 2], Blob::memory(vec![7; 8]))
    };
    let grouped = Tensor {
        lod: Lod(vec![vec![0, 1, 3]]),
        ..Tensor::dense(DType::Int64, vec![3], Blob::memory(vec![5; 24]))
    };
    let none = Tensor::dense(DType::Float16, vec![0, 4], Blob::default());
    let named = |(name, tensor): (&str, Tensor)| Parameter { name: name.to_owned(), tensor };
    let odd: Vec<_> = [("t", table), ("layer/g", grouped), ("none", none)].map(named).into();
    vec![
        (Container::Combined, odd.clone()),
        (Container::Each, odd.clone()),
        (Container::Sized, odd),
        (Container::Safetensors, vec![bytes("z", 5, 1), bytes("a", 20_000_000, 2)]),
        (Container::Combined, Vec::new()),
        (Container::Safetensors, Vec::new()),
    ]
}

/// Fails unless a tensor equals the expected one, in every byte.
pub(crate) fn assert_same(found: &Tensor, wanted: &Parameter, container: Container) {
    let Parameter { name, tensor } = wanted;
    assert_eq!(
        (found.dtype, &found.shape, &found.lod),
        (tensor.dtype, &tensor.shape, &tensor.lod),
        "{container:?} {name}"
    );
    for (found, wanted) in found.blobs().zip(tensor.blobs()) {
        assert_eq!(found.bytes().unwrap(), wanted.bytes().unwrap(), "{container:?} {name}");
    }
}

/// Returns the names of all entries of a directory, including hidden ones, sorted.
pub(crate) fn entries(dir: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().into_string().unwrap()
    };
    let mut names: Vec<String> = std::fs::read_dir(dir).unwrap().map(name).collect();
    names.sort();
    names
}
