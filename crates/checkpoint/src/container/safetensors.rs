//! Variables in one safetensors file.

use std::collections::BTreeMap;

use lodstone_formats::{Error as FormatError, safetensors};
use lodstone_model::{Limits, Parameter, Tensor};
use lodstone_store::Commit;

use super::{Layout, Open};
use crate::error::Result;
use crate::manifest::SavedVariable;

/// All tensors in one file.
pub(super) static LAYOUT: Layout = Layout { file: Some(FILE), write, read };

/// The name of the file.
const FILE: &str = "params.safetensors";

fn write(commit: &mut Commit, tensors: &[Parameter]) -> Result<Vec<String>> {
    commit.write::<FormatError>(FILE, |out| safetensors::write_to(out, tensors))?;
    Ok(vec![FILE.to_owned()])
}

/// Opens the tensors of the file, in the order of the manifest.
fn read(variables: &[SavedVariable], open: Open<'_>) -> Result<Vec<Parameter>> {
    let blob = open(FILE)?;
    let model = safetensors::read_blob(&blob, &Limits::default())?;
    let mut tensors: BTreeMap<String, Tensor> =
        model.parameters.into_iter().map(|it| (it.name, it.tensor)).collect();
    let take = |variable: &SavedVariable| {
        let name = &variable.name;
        let absent = || blob.malformed(0, format!("a tensor `{name}`"), "none");
        Ok(super::parameter(variable, tensors.remove(name).ok_or_else(absent)?))
    };
    let parameters = variables.iter().map(take).collect::<Result<_>>()?;
    match tensors.into_keys().next() {
        None => Ok(parameters),
        Some(name) => {
            let found = format!("`{name}`, which is not listed");
            Err(blob.malformed(0, "the tensors that the manifest lists", found).into())
        }
    }
}
