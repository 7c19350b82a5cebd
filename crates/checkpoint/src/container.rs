//! The files that variables are in.

use std::collections::BTreeMap;

use lodstone_formats::paddle::stream::{self, Expect, Layout};
use lodstone_formats::{Error as FormatError, safetensors};
use lodstone_model::{Limits, Model, Parameter, Tensor};
use lodstone_paddle::program::Placement;
use lodstone_store::{Blob, Commit, Output, plain};
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// The file that variables are in.
pub(crate) const PARAMS: &str = "params";

/// The same as safetensors.
const SAFETENSORS: &str = "params.safetensors";

/// What elements begin at multiples of, in bytes.
const ALIGNMENT: u64 = 64;

/// How variables are in files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Container {
    /// One file, records end to end, as `save_combine` writes them; elements begin at multiples of 64 bytes.
    #[default]
    Combined,
    /// One file for each variable, as `save` writes them.
    Each,
    /// One file in which each record follows its size.
    Sized,
    /// One file of safetensors, which has no place for LoD and for rows of a table. Its loader initialises what is
    /// not saved; no operator loads the rest.
    Safetensors,
}

/// What is known of a tensor before it is read: its name, and what kind of record it is.
pub(crate) type Known<'a> = (&'a str, Expect);

impl Container {
    /// Where operators that load find the variables, if there are such operators.
    pub(crate) fn placement(self) -> Option<Placement> {
        let name = PARAMS.to_owned();
        match self {
            Self::Combined => Some(Placement::Combined(name)),
            Self::Sized => Some(Placement::Merged(name)),
            Self::Each => Some(Placement::Each),
            Self::Safetensors => None,
        }
    }

    /// Writes tensors, which are sorted by name; gives the names of the files.
    pub(crate) fn write(self, commit: &mut Commit, tensors: &[Parameter]) -> Result<Vec<String>> {
        let layout = Layout { sized: self == Self::Sized, align: ALIGNMENT, ..Layout::default() };
        let record = |out: &mut Output, Parameter { name, tensor }: &Parameter| {
            stream::write_record(out, name, tensor, layout)
        };
        if self == Self::Each {
            for tensor in tensors {
                commit.write(&tensor.name, |out| record(out, tensor))?;
            }
            return Ok(tensors.iter().map(|tensor| plain(&tensor.name)).collect());
        }
        let name = if self == Self::Safetensors { SAFETENSORS } else { PARAMS };
        commit.write::<FormatError>(name, |out| match self {
            Self::Safetensors => safetensors::write_to(out, tensors),
            _ => tensors.iter().try_for_each(|tensor| record(out, tensor)),
        })?;
        Ok(vec![name.to_owned()])
    }

    /// Reads tensors from files that `open` opens; elements are not read.
    pub(crate) fn read(
        self,
        known: &[Known<'_>],
        open: impl Fn(&str) -> Result<Blob>,
    ) -> Result<Vec<Parameter>> {
        let limits = Limits::default();
        let one = |blob: &Blob, (name, expect): &Known<'_>| {
            let (_, tensors) = stream::read(blob, &[*expect], &limits)?;
            Ok(named(blob, &[(name, *expect)], tensors)?)
        };
        match self {
            Self::Combined | Self::Sized => {
                let expects: Vec<Expect> = known.iter().map(|(_, expect)| *expect).collect();
                let blob = open(PARAMS)?;
                let tensors = match blob.is_empty() {
                    true => Vec::new(),
                    false => stream::read(&blob, &expects, &limits)?.1,
                };
                Ok(named(&blob, known, tensors)?)
            }
            Self::Each => {
                let parts: Result<Vec<_>> =
                    known.iter().map(|known| one(&open(&plain(known.0))?, known)).collect();
                Ok(parts?.into_iter().flatten().collect())
            }
            Self::Safetensors => {
                let blob = open(SAFETENSORS)?;
                let model = safetensors::read_blob(&blob, &limits)?;
                Ok(sorted(&blob, known, model)?)
            }
        }
    }
}

/// Records with the names that they are known by.
fn named(
    blob: &Blob,
    known: &[Known<'_>],
    tensors: Vec<Tensor>,
) -> Result<Vec<Parameter>, FormatError> {
    if known.len() != tensors.len() {
        let expected = format!("{} tensors, as the manifest says", known.len());
        return Err(blob.malformed(0, expected, tensors.len().to_string()).into());
    }
    let pair = |((name, _), mut tensor): (&Known<'_>, Tensor)| {
        // How its record was written is nothing to whoever goes on with it.
        tensor.residual = Default::default();
        Parameter { name: (*name).to_owned(), tensor }
    };
    Ok(known.iter().zip(tensors).map(pair).collect())
}

/// Tensors of a file in the order in which they are known.
fn sorted(blob: &Blob, known: &[Known<'_>], model: Model) -> Result<Vec<Parameter>, FormatError> {
    let mut tensors: BTreeMap<String, Tensor> =
        model.parameters.into_iter().map(|it| (it.name, it.tensor)).collect();
    let take = |(name, _): &Known<'_>| {
        let tensor = tensors.remove(*name);
        tensor.ok_or_else(|| blob.malformed(0, format!("a tensor `{name}`"), "none").into())
    };
    let found = known.iter().map(take).collect::<Result<Vec<_>, FormatError>>()?;
    if let Some(name) = tensors.keys().next() {
        let found = format!("`{name}`, which it does not name");
        return Err(blob.malformed(0, "the tensors that the manifest names", found).into());
    }
    named(blob, known, found)
}
