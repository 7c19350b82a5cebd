//! Paths to models.

use std::path::Path;

use lodstone_formats::{FORMATS, OpenOptions, Probe, check_sealed};
use lodstone_model::Model;
use lodstone_store::{exists, is_dir, list_dir};

use crate::Result;

/// Opens a model: a file, a directory, or the prefix that its files share.
///
/// The format is found by content. Tensors are not read.
///
/// # Errors
/// If there is no model at `path`, no format knows it, or it is damaged; if it is sealed, and not all of
/// its files are.
pub fn open(path: impl AsRef<Path>) -> Result<Model> {
    open_with(path, &OpenOptions::default())
}

/// Opens a model with options.
///
/// # Errors
/// As [`open`].
pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Model> {
    let path = path.as_ref();
    let mut model = open_files(path, options)?;
    check_sealed(path, &mut model, options)?;
    Ok(model)
}

/// Opens a model of which some files may be sealed, and others not.
pub(crate) fn open_files(path: &Path, options: &OpenOptions) -> Result<Model> {
    if !exists(path) {
        return open_prefix(path, options);
    }
    let (mut head, mut len, mut entries) = (Vec::new(), 0, None);
    if is_dir(path) {
        entries = Some(list_dir(path)?);
    } else {
        let blob = options.file(path)?;
        len = blob.len();
        head = blob.head(4096)?;
    }
    let probe = Probe { path, head: &head, len, entries: entries.as_deref() };
    let mut formats = FORMATS.iter().filter(|format| (format.detect)(&probe));
    let Some(format) = formats.next() else {
        return Err(unrecognized(path, &head, entries.is_some()).into());
    };
    let opened = (format.read)(path, options);
    let mut model = opened.map_err(|error| match looks_encrypted(&head) && is_paddle(path) {
        // What only looked like a format by chance, under a name that PaddlePaddle encrypts.
        true => encrypted(path),
        false => error,
    })?;
    if entries.is_some()
        && let Some(other) = formats.next()
    {
        let (this, other) = (format.name, other.name);
        model.report.warn(format!("the directory holds a {other} model too; {this} was opened"));
    }
    Ok(model)
}

/// Opens the model whose files share the beginning `prefix` of their names.
fn open_prefix(prefix: &Path, options: &OpenOptions) -> Result<Model> {
    let prefixes = || FORMATS.iter().filter_map(|format| Some((format, format.prefix.as_ref()?)));
    let mut found = prefixes().filter(|(_, hook)| (hook.find)(prefix).is_some());
    let Some((format, _)) = found.next() else {
        let endings: Vec<_> = prefixes().flat_map(|(_, hook)| hook.endings).copied().collect();
        let endings = endings.join("`, `");
        let why = format!("there is no such file or directory, nor one with `{endings}` added");
        let path = prefix.to_path_buf();
        return Err(lodstone_formats::Error::NoModel { path, why }.into());
    };
    let mut model = (format.read)(prefix, options)?;
    if let Some((other, _)) = found.next() {
        let (this, other) = (format.name, other.name);
        model
            .report
            .warn(format!("there is a {other} model of this prefix too; {this} was opened"));
    }
    Ok(model)
}

fn unrecognized(path: &Path, head: &[u8], is_dir: bool) -> lodstone_formats::Error {
    let path = path.to_path_buf();
    if is_dir {
        let why = "no file in the directory is one of a model".to_owned();
        return lodstone_formats::Error::NoModel { path, why };
    }
    if looks_encrypted(head) {
        return encrypted(&path);
    }
    let found = match head.first_chunk::<16>() {
        Some(start) => format!("`{}`", start.escape_ascii()),
        None if head.is_empty() => "nothing: it is empty".to_owned(),
        None => format!("`{}`", head.escape_ascii()),
    };
    lodstone_formats::Error::Unrecognized { path, found }
}

fn encrypted(path: &Path) -> lodstone_formats::Error {
    lodstone_formats::Error::Encrypted { path: path.to_path_buf() }
}

/// Whether a name is one of PaddlePaddle's files.
fn is_paddle(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let name = path.file_name().and_then(|name| name.to_str());
    matches!(extension, Some("pdmodel" | "pdiparams" | "pdparams" | "pdopt" | "pdtensor"))
        || matches!(name, Some("__model__" | "__params__"))
}

/// Whether bytes look like drawn at random, as encrypted ones do: all values about equally often.
///
/// The sum over the 256 values of (count - expected)^2 / expected is about 255 for such bytes, with a
/// deviation of 23; for programs, texts and numbers it is many times that. Of few bytes, most have
/// to be different and half of them above 127, each within four deviations. Compressed bytes look
/// alike, but begin with a signature.
fn looks_encrypted(head: &[u8]) -> bool {
    const ENOUGH: usize = 512;
    const FEW: usize = 32;
    if head.len() < FEW || COMPRESSED.iter().any(|start| head.starts_with(start)) {
        return false;
    }
    let mut counts = [0u32; 256];
    for byte in head {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let total = f64::from(u32::try_from(head.len()).unwrap_or(u32::MAX));
    if head.len() >= ENOUGH {
        let expected = total / 256.0;
        let distance = |count: &u32| (f64::from(*count) - expected).powi(2) / expected;
        return (150.0..=400.0).contains(&counts.iter().map(distance).sum::<f64>());
    }
    let different = counts.iter().filter(|count| **count > 0).count();
    let missing = 256.0 * (1.0 - 1.0 / 256.0f64).powf(total);
    let different = f64::from(u32::try_from(different).unwrap_or(0));
    let high = head.iter().filter(|byte| **byte > 127).count();
    let high = f64::from(u32::try_from(high).unwrap_or(0));
    different > (256.0 - missing) * 0.85 && (high - total / 2.0).abs() < 2.0 * total.sqrt()
}

/// How files begin that are compressed: zip, gzip, zstd, xz, bzip2, 7z, png, jpeg.
const COMPRESSED: [&[u8]; 8] = [
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ",
    b"BZh",
    b"7z\xbc\xaf",
    b"\x89PNG",
    b"\xff\xd8\xff",
];
