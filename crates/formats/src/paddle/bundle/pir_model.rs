//! PIR programs with their parameters: in one file, or in pickles written by `static.save`.

use std::collections::HashSet;

use lodstone_model::{Model, Report, Tensor, some};
use lodstone_store::{Blob, Location};

use super::layout::Bundle;
use super::pickles;
use super::read::{Found, Params, find_params, split, without_program};
use crate::paddle::pir;
use crate::paddle::stream;
use crate::{Error, OpenOptions, Result};

/// The name and title of the format, which is not written.
pub const PIR: (&str, &str) = ("paddle-pir", "Paddle 3 program (PIR)");

/// Opens the parameters of a PIR program, under the names in it.
pub(super) fn open(directory: &Location, name: &str, options: &OpenOptions) -> Result<Model> {
    let path = directory.join(name);
    let program = options.file(&path)?;
    let Found { params, warning } = find_params(directory, name, None, options)?;
    let mut report = Report::default();
    report.warnings.extend(warning);
    let params = match params {
        Params::Combined(params) => params,
        Params::Pickles(pickles) => return open_pickles(&path, program, pickles, options),
        Params::Separate(_) | Params::None => {
            let what = "a PIR program without parameters";
            return Err(Error::Unsupported { path: path.to_path_buf(), what });
        }
    };
    let names = pir::parameter_names(&path, &program, &options.limits)?;
    let blob = options.file(&params)?;
    let (layout, tensors) = stream::read(&blob, &[], &options.limits)?;
    if let Some(what) = uncounted(name, &names, &tensors) {
        return Err(Error::Mismatch { path: params.to_path_buf(), what });
    }
    report.warn(without_topology(name));
    let params = params.name().map(str::to_owned);
    let model = without_program(PIR.0, (names, tensors), params, layout, report)?;
    Ok(Model { files: vec![program, blob], ..model })
}

/// Opens the parameters of a PIR program from the pickles that `static.save` wrote beside it.
fn open_pickles(
    path: &Location,
    program: Blob,
    pickles: Vec<Location>,
    options: &OpenOptions,
) -> Result<Model> {
    let (_, name) = split(path);
    let saved = pir::parameters(path, &program, &options.limits)?;
    let types = saved.iter().filter_map(|(name, dtype)| Some((name.clone(), (*dtype)?))).collect();
    let format = PIR.0.to_owned();
    let mut model = Model { format, files: vec![program], ..Model::default() };
    model.report.warn(without_topology(name));
    let mut bundle = Bundle::default();
    pickles::add(&pickles, &types, &mut model, &mut bundle, options)?;
    bundle.remember(&mut model)?;
    let there: HashSet<&str> = model.parameters.iter().map(|p| p.name.as_str()).collect();
    let mut missing: Vec<&String> =
        saved.keys().filter(|name| !there.contains(name.as_str())).collect();
    missing.sort();
    if !missing.is_empty() {
        let missing = some(missing.iter().map(|name| format!("`{name}`")));
        let what = "parameters of the program were not found";
        model.report.warn(format!("{what}: {missing}"));
    }
    Ok(model)
}

fn without_topology(program: &str) -> String {
    format!("`{program}` is a PIR program: its parameters were opened, not its topology")
}

/// Describes the number of tensors and of names in a PIR program, if they differ.
pub(super) fn uncounted(program: &str, names: &[String], tensors: &[Tensor]) -> Option<String> {
    let (held, named) = (tensors.len(), names.len());
    (held != named).then(|| format!("it holds {held} tensors, `{program}` names {named}"))
}
