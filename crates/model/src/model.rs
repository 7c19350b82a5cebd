//! A model: what there is, whoever wrote it.

use std::collections::{BTreeMap, HashMap, HashSet};

use lodstone_store::{Blob, Progress};

use crate::{Program, Programs, Report, Residual, Tensor};

/// Programs, parameters by name, and what the files say about themselves.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The format it was read from: `npz`, `safetensors`.
    pub format: String,
    /// The topologies that the files hold: [`main`](Self::main) and others, or none.
    pub programs: Programs,
    /// Tensors in the order of the file.
    pub parameters: Vec<Parameter>,
    /// The names by which layers know parameters (`conv1.weight`), by the names that they have here, where files
    /// record both.
    pub structured_names: BTreeMap<String, String>,
    /// Free-form facts of the file (safetensors' `__metadata__`).
    pub metadata: BTreeMap<String, String>,
    /// What the format said about the file as a whole beyond this.
    pub residual: Residual,
    /// The files that it was read from, each whole.
    pub files: Vec<Blob>,
    /// Checksums that the files carry for parts of themselves.
    pub checksums: Vec<Checksum>,
    /// What was noticed while reading.
    pub report: Report,
}

/// A tensor and its name; the name is empty where the files do not say one.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The name.
    pub name: String,
    /// The tensor.
    pub tensor: Tensor,
}

/// A checksum that a file carries for a part of itself; reading does not compare it.
#[derive(Clone, Debug)]
pub struct Checksum {
    /// What it is of: "member `w.npy`".
    pub place: String,
    /// The bytes.
    pub data: Blob,
    /// Their CRC-32, by the file.
    pub crc32: u32,
}

impl Model {
    /// The main program, if there is one.
    pub fn main(&self) -> Option<&Program> {
        self.programs.main()
    }

    /// The main program, for edits.
    pub fn main_mut(&mut self) -> Option<&mut Program> {
        self.programs.main_mut()
    }

    /// Makes a program the main one; the others stay.
    pub fn set_main(&mut self, program: Program) {
        self.programs.insert(Programs::MAIN, program);
    }

    /// The parameter called `name`.
    pub fn parameter(&self, name: &str) -> Option<&Tensor> {
        self.parameters.iter().find(|p| p.name == name).map(|p| &p.tensor)
    }

    /// Whether all structured names are of parameters that are still there, under the same names.
    pub fn are_structured_names_current(&self) -> bool {
        let known: HashSet<&str> = self.parameters.iter().map(|p| p.name.as_str()).collect();
        self.structured_names.keys().all(|name| known.contains(name.as_str()))
    }

    /// Reads all tensors into memory.
    ///
    /// After that their files are needed no more, and may change. It is one stretch of memory, freed
    /// when the last tensor is dropped; the addresses in it are multiples of 64. Tensors that share
    /// bytes go on to share them.
    ///
    /// # Errors
    /// What reading gives, if there is not so much memory, or if a file changed meanwhile.
    pub fn load(&mut self) -> lodstone_store::Result<()> {
        self.load_with(&Progress::default())
    }

    /// Reads all tensors into memory, counts the bytes, and stops when it is asked to.
    ///
    /// # Errors
    /// As [`load`](Self::load), and [`lodstone_store::Error::Cancelled`].
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

    /// All tensors: the parameters, then the constants of the programs.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let constants = self.programs.iter().flat_map(|(_, program)| program.constants());
        self.parameters.iter().map(|parameter| &parameter.tensor).chain(constants)
    }

    /// Size of all parameters in bytes.
    pub fn nbytes(&self) -> u64 {
        self.parameters.iter().map(|parameter| parameter.tensor.nbytes()).sum()
    }
}
