//! `lodstone convert`.

use lodstone::{
    ConvertOptions, DType, ExternalData, Loss, Progress, Renames, Target, WriteOptions, some,
};

use crate::args::Convert;
use crate::say::{self, count, plain, size};
use crate::stores::at;
use crate::{Failure, progress};

pub(crate) fn run(arguments: &Convert) -> Result<(), Failure> {
    let model = lodstone::open_with(at(&arguments.input)?, &arguments.open.options()?)?;
    let from = model.format.clone();
    let to = arguments.to.clone().map(|name| match name.as_str() {
        "same" => Target::Same,
        _ => Target::Format(name),
    });
    let progress = Progress::default();
    let allowed = |loss: &Loss| arguments.allow.iter().any(|name| name == loss.name());
    let options = ConvertOptions::default()
        .with_to(to)
        .with_include(arguments.include.clone())
        .with_exclude(arguments.exclude.clone())
        .with_renames(
            arguments.rename.as_deref().map(Renames::load).transpose()?.unwrap_or_default(),
        )
        .with_transpose(arguments.transpose.clone())
        .with_cast(arguments.cast.as_deref().and_then(DType::from_name))
        .with_opset(arguments.opset)
        .with_input_shapes(arguments.input_shape.clone())
        .with_allow(Loss::ALL.iter().copied().filter(allowed).collect())
        .with_weights_only(arguments.weights_only)
        .with_strip_source(arguments.strip_source)
        .with_write(
            WriteOptions::default()
                .with_align(arguments.align)
                .with_external_data(arguments.external_data.as_deref().map(|how| match how {
                    "one" => ExternalData::One,
                    "each" => ExternalData::Each,
                    _ => ExternalData::Inside,
                }))
                .with_max_shard_size(arguments.max_shard_size)
                .with_seal(arguments.seal)
                .with_progress(progress.clone()),
        );
    let total = model.nbytes();
    progress::cancel_when_asked(&progress)?;
    let out = at(&arguments.output)?;
    let convert = || lodstone::convert(model, out, &options);
    let conversion = progress::show(&progress, Some(total), convert)?;

    conversion.report.warnings.iter().for_each(|warning| say::warning(warning));
    for (loss, places) in &conversion.report.losses {
        say::warning(&format!("lost {}: {}", loss.describe(), some(places)));
    }
    let tensors = count(conversion.tensors, "tensor");
    let nbytes = size(conversion.nbytes);
    let mut done = format!("{from} -> {}: {tensors}, {nbytes}\n", conversion.format);
    match conversion.files.as_slice() {
        [first, .., last] if conversion.files.len() > 4 => {
            let number = count(conversion.files.len(), "file");
            let [first, last] = [first, last].map(|file| plain(&file.display().to_string()));
            done += &format!("wrote {number}: {first} .. {last}\n");
        }
        files => {
            for file in files {
                done += &format!("wrote {}\n", plain(&file.display().to_string()));
            }
        }
    }
    say::out(done.as_bytes())
}
