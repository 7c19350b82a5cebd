//! The contents of a model, independent of the format it was read from.

use std::collections::{BTreeMap, HashMap, HashSet};

use lodstone_store::{Blob, Progress};

use crate::{Program, Programs, Report, Residual, Tensor};

/// Programs, named parameters and file metadata.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The format that the model was read from, such as `npz` or `safetensors`.
    pub format: String,
    /// The programs in the files: [`main`](Self::main) and others, or none.
    pub programs: Programs,
    /// The parameters, in file order.
    pub parameters: Vec<Parameter>,
    /// Structured names of parameters (`conv1.weight`, as layers name them) by their names in `parameters`, if the
    /// files record both.
    pub structured_names: BTreeMap<String, String>,
    /// Free-form metadata of the file (`__metadata__` of safetensors).
    pub metadata: BTreeMap<String, String>,
    /// Format-specific details of the file as a whole.
    pub residual: Residual,
    /// The files that the model was read from, each as a whole.
    pub files: Vec<Blob>,
    /// Checksums stored in the files.
    pub checksums: Vec<Checksum>,
    /// Warnings and losses from reading.
    pub report: Report,
}

/// A named tensor; the name is empty if the files do not record one.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The name.
    pub name: String,
    /// The tensor.
    pub tensor: Tensor,
}

/// A checksum stored in a file for part of its bytes; reading does not verify it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checksum {
    /// The location, for messages, such as "member `w.npy`".
    pub place: String,
    /// The bytes that the checksum covers.
    pub data: Blob,
    /// The CRC-32 stored in the file.
    pub crc32: u32,
}

impl Checksum {
    /// Creates the checksum of some data.
    pub fn new(place: String, data: Blob, crc32: u32) -> Self {
        Self { place, data, crc32 }
    }
}

impl Model {
    /// Returns the main program.
    pub fn main(&self) -> Option<&Program> {
        self.programs.main()
    }

    /// Returns the main program for modification.
    pub fn main_mut(&mut self) -> Option<&mut Program> {
        self.programs.main_mut()
    }

    /// Sets the main program; other programs are kept.
    pub fn set_main(&mut self, program: Program) {
        self.programs.insert(Programs::MAIN, program);
    }

    /// Returns the parameter called `name`.
    pub fn parameter(&self, name: &str) -> Option<&Tensor> {
        self.parameters.iter().find(|p| p.name == name).map(|p| &p.tensor)
    }

    /// Returns whether every structured name belongs to a parameter that still has its recorded name.
    pub fn are_structured_names_current(&self) -> bool {
        let known: HashSet<&str> = self.parameters.iter().map(|p| p.name.as_str()).collect();
        self.structured_names.keys().all(|name| known.contains(name.as_str()))
    }

    /// Reads all tensors into memory.
    ///
    /// After that, the files are no longer needed and may change. The data is one allocation, freed when the last
    /// tensor is dropped; addresses in it are multiples of 64. Tensors that share bytes still share them.
    ///
    /// # Errors
    /// Fails if reading fails, if memory is insufficient, or if a file changed meanwhile.
    pub fn load(&mut self) -> lodstone_store::Result<()> {
        self.load_with(&Progress::default())
    }

    /// Reads all tensors into memory, reports progress in bytes, and stops when it is cancelled.
    ///
    /// # Errors
    /// The errors of [`load`](Self::load), and [`lodstone_store::Error::Cancelled`].
    pub fn load_with(&mut self, progress: &Progress) -> lodstone_store::Result<()> {
        let (mut known, mut distinct) = (HashMap::new(), Vec::new());
        let mut numbers = Vec::new();
        for blob in self.tensors().flat_map(Tensor::blobs) {
            let place = blob.file_range().map(|(file, offset)| (file.path(), offset, blob.len()));
            let number = match place {
                Some(place) => *known.entry(place).or_insert(distinct.len()),
                None => distinct.len(),
            };
            if number == distinct.len() {
                distinct.push(blob.clone());
            }
            numbers.push(number);
        }
        let bytes = Blob::read_all(&distinct, progress)?;
        Blob::check_all_unchanged(&distinct)?;
        let parameters = self.parameters.iter_mut().map(|parameter| &mut parameter.tensor);
        let constants = self.programs.iter_mut().flat_map(|program| program.constants_mut());
        let tensors = parameters.chain(constants);
        for (blob, number) in tensors.flat_map(Tensor::blobs_mut).zip(numbers) {
            let bytes = bytes.get(number);
            let bytes = bytes.ok_or_else(|| lodstone_store::internal("a blob was not read"))?;
            *blob = Blob::memory(bytes.clone());
        }
        Ok(())
    }

    /// Returns all tensors: the parameters, then the constants of the programs.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let constants = self.programs.iter().flat_map(|(_, program)| program.constants());
        self.parameters.iter().map(|parameter| &parameter.tensor).chain(constants)
    }

    /// Returns the size of all parameters in bytes.
    pub fn nbytes(&self) -> u64 {
        self.parameters.iter().map(|parameter| parameter.tensor.nbytes()).sum()
    }
}
