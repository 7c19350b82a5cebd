//! `lodstone cat`.

use std::path::PathBuf;

use clap::Args;
use lodstone::open::OpenedTensor;
use lodstone::{ConvertOptions, Model, Parameter, Target};

use crate::args::options::{Allow, Clobber, Open};
use crate::stores::{Output, at, for_parts};
use crate::{Failure, console};

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone cat inference conv2d_0.w_0            as text
  lodstone cat params.pdiparams --index 17       the 18th record, without reading the others
  lodstone cat inference fc_0.b_0 -o bias.npy    as a NumPy array")]
pub(crate) struct Cat {
    /// A file, a directory, or the prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// Name of the tensor; optional if there is only one
    #[arg(conflicts_with = "index")]
    pub(crate) name: Option<String>,
    /// Index of the tensor in file order, from 0
    #[arg(long, value_name = "N")]
    pub(crate) index: Option<usize>,
    /// Write a NumPy array to this file instead of printing text
    #[arg(short, long, value_name = "FILE.npy", conflicts_with = "json")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) allow: Allow,
    #[command(flatten)]
    pub(crate) clobber: Clobber,
    #[command(flatten)]
    pub(crate) open: Open,
}

pub(crate) fn run(arguments: &Cat) -> Result<(), Failure> {
    let options = for_parts(&arguments.path, arguments.open.options()?);
    let path = at(&arguments.path)?;
    let OpenedTensor { name, tensor, warnings } = match (&arguments.name, arguments.index) {
        (Some(name), _) => lodstone::open::tensor_named(&path, name, &options)?,
        (None, Some(index)) => lodstone::open::tensor_at(&path, index, &options)?,
        (None, None) => lodstone::open::only_tensor(&path, &options)?,
    };
    console::warnings(&warnings);
    let Some(output) = &arguments.output else {
        return console::to_stdout(|out| match arguments.json {
            true => Ok(lodstone::inspect::write_json(&[Parameter { name, tensor }], out)?),
            false => Ok(lodstone::inspect::write_text(&tensor, out)?),
        });
    };
    // `.npy` holds no name.
    let parameter = Parameter { name: String::new(), tensor };
    let model = Model { parameters: vec![parameter], ..Model::default() };
    let output = Output::at(output)?;
    let options = ConvertOptions::default()
        .with_to(Some(Target::Format("npy".to_owned())))
        .with_allow(arguments.allow.losses())
        .with_write(arguments.clobber.options());
    let done = lodstone::convert(model, output.location(), &options)?;
    console::report(&done.report);
    let what = if name.is_empty() { "the tensor".to_owned() } else { format!("`{name}`") };
    let files = done.files.iter().map(|file| file.display().to_string());
    let files = files.collect::<Vec<_>>().join(", ");
    output.finish(&done.files, "")?;
    console::note(&format!("wrote {what} to {files}"));
    Ok(())
}
