//! `lodstone cat`.

use lodstone::{ConvertOptions, Model, One, Parameter, Target};

use crate::args::Cat;
use crate::stores::at;
use crate::{Failure, say};

pub(crate) fn run(arguments: &Cat) -> Result<(), Failure> {
    let (path, options) = (at(&arguments.path)?, arguments.open.options()?);
    let One { name, tensor, warnings } = match (&arguments.name, arguments.index) {
        (Some(name), _) => lodstone::open_named(&path, name, &options)?,
        (None, Some(index)) => lodstone::open_record(&path, index, &options)?,
        (None, None) => lodstone::open_only(&path, &options)?,
    };
    warnings.iter().for_each(|warning| say::warning(warning));
    let Some(output) = &arguments.output else {
        return say::to_stdout(|out| Ok(lodstone::write_text(&tensor, out)?));
    };
    // The name goes with the command, not into the file.
    let parameter = Parameter { name: String::new(), tensor };
    let model = Model { parameters: vec![parameter], ..Model::default() };
    let to = Some(Target::Format("npy".to_owned()));
    lodstone::convert(model, at(output)?, &ConvertOptions::default().with_to(to))?;
    let what = if name.is_empty() { "the tensor".to_owned() } else { format!("`{name}`") };
    say::note(&format!("wrote {what} to {}", output.display()));
    Ok(())
}
