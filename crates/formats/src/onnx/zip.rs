//! An archive: the model without its tensors, and each tensor as a separate member, so that a model may exceed
//! the size limit of protobuf.
//!
//! | member | content |
//! |---|---|
//! | `P/weights` | the number of tensors, in decimal, and a line feed |
//! | `P/weight_0` and so on | a `TensorProto` each |
//! | `P/model` | `ModelProto`, binary or text, without initializers |
//!
//! All members are stored, and aligned to 64 bytes; `P` is the name of a function.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{Limits, Model, Parameter, Residual};
use lodstone_store::{Blob, Cursor, Location};

use super::external::External;
use super::read::{name_format, read_binary, read_text};
use super::tensor::Fields;
use super::{Container, detect, schema, write};
use crate::byte_map::{self, Recorded};
use crate::encoding::protobuf::holes::without_elements;
use crate::encoding::protobuf::map as protobuf;
use crate::encoding::protobuf::wire::{Message, Source};
use crate::encoding::zip::{self, Member, Writer, members};
use crate::error::Result;
use crate::options::WriteOptions;
use crate::staged::Staged;

/// The owner of the residual of a model: the archive, and the prefix of its members.
const ARCHIVE: &str = "onnx archive";

/// The alignment of members.
const ALIGNMENT: u64 = 64;

/// Returns whether a member of an archive is read.
pub(super) fn reads(member: &str) -> bool {
    let name = member.rsplit_once('/').map_or(member, |(_, name)| name);
    name == "model"
}

pub(super) fn read(
    blob: &Blob,
    origin: &str,
    files: &mut External<'_>,
    limits: &Limits,
) -> Result<Model> {
    let all = members(blob, limits)?;
    let absent = |name: &str| blob.malformed(0, format!("a member `{name}`"), "none");
    let prefix = all.first().and_then(|first| Some(first.name.split_once('/')?.0.to_owned()));
    let prefix = prefix.ok_or_else(|| absent("P/weights"))?;
    let named: HashMap<&str, &Member> =
        all.iter().map(|member| (member.name.as_str(), member)).collect();
    let member = |name: String| -> Result<Blob> {
        let found = named.get(name.as_str()).ok_or_else(|| absent(&name))?;
        Ok(found.whole())
    };
    let message = member(format!("{prefix}/model"))?;
    let inside = format!("`{prefix}/model` of {origin}");
    let mut model = match detect::container(&message.head(detect::HEAD)?) {
        Some(Container::Text) => read_text(&message, &inside, files, limits)?,
        _ => read_binary(&message, &inside, files, limits)?,
    };
    let weights = member(format!("{prefix}/weights"))?;
    // Enough for the digits of any valid count.
    let text = String::from_utf8_lossy(&weights.head(32)?).trim().to_owned();
    let max = all.len();
    let count = text.parse::<usize>().ok().filter(|count| *count <= max);
    let wrong = || weights.malformed(0, "the number of weights", format!("`{text}`"));
    for number in 0..count.ok_or_else(wrong)? {
        let name = format!("{prefix}/weight_{number}");
        let weight = member(name.clone())?;
        let parameter = tensor(&weight, &format!("`{name}` of {origin}"), files, limits)?;
        model.parameters.push(parameter);
    }
    let known = |member: &&Member| {
        let rest = member.name.strip_prefix(&prefix).and_then(|rest| rest.strip_prefix('/'));
        rest.is_some_and(|rest| rest == "model" || rest.starts_with("weight"))
    };
    for other in all.iter().filter(|member| !known(member)) {
        model.report.warn(format!("skipped `{}`: it is not part of the model", other.name));
    }
    let initialised: HashSet<&str> =
        model.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    let program =
        model.programs.main_mut().into_iter().flat_map(|program| &mut program.blocks).take(1);
    for var in program.flat_map(|block| &mut block.vars) {
        var.persistable = initialised.contains(var.name.as_str());
    }
    model.checksums = all.iter().map(Member::checksum).collect();
    name_format(&mut model, Container::Zip);
    model.residual = Residual::with_holes(ARCHIVE, prefix.into(), Arc::from([blob.clone()]));
    Ok(model)
}

fn tensor(
    blob: &Blob,
    origin: &str,
    files: &mut External<'_>,
    limits: &Limits,
) -> Result<Parameter> {
    let structure = without_elements(blob, &schema::TENSOR, limits)?;
    let source = Source::with_holes(origin, limits, &structure);
    let fields = Fields::read(&Message::new(&source, structure.bytes.clone()))?;
    let tensor = fields.tensor(&structure.holes, files)?;
    Ok(Parameter { name: fields.name, tensor })
}

/// Reads an archive with a recording cursor: its headers, and the messages in its members.
pub(super) fn map(blob: &Blob, limits: &Limits) -> Recorded {
    let weight = |member: &str| member.rsplit_once("/weight_")?.1.parse().ok();
    let recorded = byte_map::record(blob, |cursor| {
        zip::map(
            cursor,
            blob,
            limits,
            |members| members.iter().map(|member| weight(&member.name)).collect(),
            |name, member| {
                if weight(name).is_some() {
                    return protobuf::map(member, &schema::TENSOR, limits, |_, _, _| false);
                }
                let is_message = name.ends_with("/model") && !is_text(member)?;
                // The number of weights, and a model as text, are not binary.
                if !is_message {
                    return Ok(());
                }
                protobuf::map(member, &schema::MODEL, limits, |_, _, _| false)
            },
        )
    });
    byte_map::checked(recorded, || {
        read(blob, &byte_map::origin(blob), &mut External::none(), limits)
    })
}

fn is_text(member: &mut Cursor<'_>) -> Result<bool> {
    let head = member.again(0, member.remaining().min(detect::HEAD), "the model")?;
    Ok(matches!(detect::container(&head), Some(Container::Text)))
}

pub(super) fn write(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    let was = model.residual.with_holes_of(ARCHIVE).filter(|_| options.same);
    if let Some((_, [whole])) = was.map(|(prefix, whole)| (prefix, &**whole))
        && is_unedited(model, whole)?
    {
        return Staged::file(path, options, |out| out.copy(whole));
    }
    let prefix = was.map(|(prefix, _)| String::from_utf8_lossy(prefix).into_owned());
    let prefix = prefix.unwrap_or_else(|| "main".to_owned());
    let (message, weights) = write::apart(model)?;
    Staged::file(path, options, |out| {
        let mut writer = Writer::aligned(ALIGNMENT, out.position());
        let count = Blob::memory(format!("{}\n", weights.len()));
        writer.add(out, &format!("{prefix}/weights"), &[count])?;
        for (number, weight) in weights.iter().enumerate() {
            writer.add(out, &format!("{prefix}/weight_{number}"), std::slice::from_ref(weight))?;
        }
        writer.add(out, &format!("{prefix}/model"), &[message])?;
        writer.finish(out)
    })
}

/// Returns whether a model still matches the archive that it was read from.
fn is_unedited(model: &Model, whole: &Blob) -> Result<bool> {
    let then = read(whole, "the archive", &mut External::none(), &Limits::none())?;
    let ((now, holes), (then, others)) = (write::structure(model)?, write::structure(&then)?);
    let same = holes.len() == others.len() && holes.iter().zip(&others).all(|(a, b)| a.is(b));
    Ok(same && now == then)
}
