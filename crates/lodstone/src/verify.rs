//! Verification of a model: its structure, the bounds of its tensors, the rules of its framework, its
//! checksums, its seal.

use std::collections::{BTreeMap, HashSet};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use lodstone_checkpoint::Serial;
use lodstone_formats::{Error as FormatError, OpenOptions, SealEntry, Seals, called};
use lodstone_model::{DType, Indices, Kind, Model, Parameter, Tensor, some};
use lodstone_schema::{Code, Findings, Located, conventions, weights};
use lodstone_store::{
    Blob, Checks, Damage, Error as StoreError, Location, Progress, SEAL, SourceFile, Stamp,
    crc32_of,
};
use serde::Serialize;

use crate::infer::INCOMPLETE;
use crate::seal::source;
pub use crate::serial::verify_serial;
use crate::serial::{FORMAT, open_serial};
use crate::{Error, Result, open_with};

/// The result of a verification.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verification {
    /// The version of this structure.
    pub schema: u32,
    /// Whether the model is intact: all findings are [`DefectKind::Inconsistent`].
    pub whole: bool,
    /// Whether a seal covers the model: without one, a change that keeps the structure valid is not
    /// detected.
    pub sealed: bool,
    /// The format, if the model could be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The number of files read.
    pub files: usize,
    /// The number of tensors.
    pub tensors: usize,
    /// The number of chunks compared with a seal.
    pub pieces: usize,
    /// The size of the files in bytes.
    pub nbytes: u64,
    /// The defects.
    pub findings: Vec<Defect>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// A defect of a model.
#[derive(Clone, Debug, Serialize)]
pub struct Defect {
    /// The kind of defect.
    pub kind: DefectKind,
    /// The description, in a sentence.
    pub message: String,
    /// The file with the defect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The tensor with the defect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<String>,
    /// The chunk of the tensor, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub piece: Option<usize>,
    /// The offset of the chunk in the file, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The size of the chunk in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub len: Option<u64>,
}

/// The kind of a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DefectKind {
    /// The bytes violate the format.
    Structure,
    /// The bytes do not match the seal.
    Seal,
    /// The bytes do not match a checksum of the format.
    Checksum,
    /// Indices or offsets are out of range.
    Values,
    /// A part of the model is missing.
    Missing,
    /// The program violates a rule of its framework.
    Rule,
    /// The program declares contradictory shapes of a value. Runtimes warn and run the program nevertheless: the model
    /// is intact.
    Inconsistent,
}

/// Verifies a model. All of it is read.
///
/// # Errors
/// If verification is not possible: there is no model at `path`, its format is not recognized, it cannot be read, it
/// exceeds the limits of a reader, or [it changed meanwhile](Error::ChangedMeanwhile).
pub fn verify(
    path: impl Into<Location>,
    options: &OpenOptions,
    progress: &Progress,
) -> Result<Verification> {
    let path = path.into();
    let before = Snapshot::of(&path)?;
    let verified = verify_as_is(&path, options, progress);
    let is_whole = verified.as_ref().is_ok_and(|found| found.whole);
    let has_changed = match &verified {
        Err(Error::Format(error)) => {
            matches!(error.cause(), FormatError::Store(StoreError::Changed { .. }))
        }
        _ => false,
    };
    if has_changed || (!is_whole && Snapshot::of(&path)? != before) {
        return Err(Error::ChangedMeanwhile(path.to_path_buf()));
    }
    verified
}

/// Verifies a model that does not change meanwhile.
fn verify_as_is(
    path: &Location,
    options: &OpenOptions,
    progress: &Progress,
) -> Result<Verification> {
    if let Some(serial) = Serial::at(path)? {
        return verify_checkpoint(&serial, progress);
    }
    let plain = options.clone().with_verify(false).stopped_by(progress);
    let open = || open_with(path, &plain);
    // Always run both: the seal can locate the damage even if the structure cannot be read.
    let (compared, opened) = thread::scope(|scope| {
        let opened = thread::Builder::new().spawn_scoped(scope, open);
        let compared = compare_sealed(path, options, progress);
        // Sequentially if no more threads can be started.
        let joined =
            opened.map(|opened| opened.join().unwrap_or_else(|panic| resume_unwind(panic)));
        (compared, joined.unwrap_or_else(|_| open()))
    });
    let (mut found, compared) = compared?;
    match opened {
        Ok(model) => check_contents(path, &model, compared, progress, &mut found)?,
        Err(error) => match defect_of(path, error) {
            Ok(defect) => found.findings.push(defect),
            // What is there is whole, but more was to be written.
            Err(error @ Error::Checkpoint(_)) => return Err(error),
            // For example, a directory of several models: all sealed files were compared.
            Err(error) if found.sealed => {
                found.warnings.push(format!("only the seal was checked: {error}"));
            }
            Err(error) if found.findings.is_empty() => return Err(error),
            Err(_) => {}
        },
    }
    found.whole = found.findings.iter().all(|defect| defect.kind == DefectKind::Inconsistent);
    Ok(found)
}

/// Verifies a serial by the checksums in its manifest.
fn verify_checkpoint(serial: &Serial, progress: &Progress) -> Result<Verification> {
    let findings = verify_serial(serial, progress)?;
    let whole = findings.is_empty();
    let model = if whole { open_serial(serial)? } else { Model::default() };
    let findings = findings.into_iter().map(|what| plain(DefectKind::Checksum, what)).collect();
    Ok(Verification {
        schema: 1,
        format: Some(FORMAT.to_owned()),
        sealed: true,
        whole,
        tensors: model.parameters.len(),
        nbytes: model.nbytes(),
        findings,
        ..Verification::default()
    })
}

/// The identities of the file or directory at a path, of the files in the directory (or those beside a file or prefix
/// whose names start with it), and of the seal there.
#[derive(PartialEq, Eq)]
struct Snapshot(BTreeMap<PathBuf, Option<Stamp>>);

impl Snapshot {
    fn of(path: &Location) -> Result<Self> {
        let mut found = BTreeMap::new();
        let mut take = |path: &Location| {
            let stamp = path.stamp().ok();
            found.insert(path.to_path_buf(), stamp);
        };
        take(path);
        let directory = if path.is_dir()? { path.clone() } else { path.directory() };
        take(&directory.join(SEAL));
        let stem = path.stem().unwrap_or_default();
        for entry in directory.list_if_possible()? {
            if directory == *path || entry.name.starts_with(stem) {
                take(&directory.join(entry.name));
            }
        }
        Ok(Self(found))
    }
}

/// Compares all sealed files of the path with their seals; returns the seal entries of those files.
fn compare_sealed(
    path: &Location,
    options: &OpenOptions,
    progress: &Progress,
) -> Result<(Verification, HashSet<SealEntry>)> {
    let mut found = Verification { schema: 1, ..Verification::default() };
    let (mut compared, seals) = (HashSet::new(), Seals::default());
    for path in [Some(path), options.params.as_ref()].into_iter().flatten() {
        let Some(sealed) = found.unless_damaged(path, seals.models_at(path))?.flatten() else {
            continue;
        };
        for file in sealed.models.iter().flat_map(|model| &model.files) {
            let place = SealEntry { root: sealed.root.clone(), name: file.name.clone() };
            if compared.insert(place.clone()) {
                compare(&place, &file.checks, progress, &mut found)?;
            }
        }
    }
    found.sealed = !compared.is_empty();
    Ok((found, compared))
}

/// Compares the files of a model that are in other seals, and reports those that are in no seal.
fn compare_others(
    model: &Model,
    mut compared: HashSet<SealEntry>,
    progress: &Progress,
    found: &mut Verification,
) -> Result<()> {
    let (mut uncovered, seals) = (Vec::new(), Seals::default());
    for blob in &model.files {
        let path = source(blob)?.location();
        let Some(sealed) = found.unless_damaged(path, seals.of(path))? else { return Ok(()) };
        match sealed {
            None => uncovered.push(path),
            Some((place, _)) if compared.contains(&place) => {}
            Some((place, checks)) => {
                compare(&place, &checks, progress, found)?;
                compared.insert(place);
            }
        }
    }
    found.sealed = !compared.is_empty();
    if found.sealed {
        for path in uncovered {
            let message = format!("`{}` is not in the seal", path.display());
            let defect = plain(DefectKind::Seal, message);
            found.findings.push(Defect { file: Some(path.to_path_buf()), ..defect });
        }
    }
    Ok(())
}

impl Verification {
    /// Adds the findings of a seal, if the seals can be read; a damaged seal is a defect.
    fn unless_damaged<T>(
        &mut self,
        path: &Location,
        sealed: Result<T, FormatError>,
    ) -> Result<Option<T>> {
        match sealed {
            Ok(sealed) => Ok(Some(sealed)),
            Err(error) => {
                let defect = Defect { kind: DefectKind::Seal, ..defect_of(path, error.into())? };
                if self.findings.iter().all(|known| known.message != defect.message) {
                    self.findings.push(defect);
                }
                Ok(None)
            }
        }
    }
}

/// Compares a file with its seal.
fn compare(
    place: &SealEntry,
    checks: &Checks,
    progress: &Progress,
    found: &mut Verification,
) -> Result<()> {
    let path = place.root.join(&place.name);
    if !path.exists()? {
        let message = format!("`{}` does not exist, but the seal lists it", path.display());
        found
            .findings
            .push(Defect { file: Some(path.to_path_buf()), ..plain(DefectKind::Missing, message) });
        return Ok(());
    }
    let file = SourceFile::open(&path, false)?;
    if checks.len() != file.len() {
        let (sealed, found_len) = (checks.len(), file.len());
        let error = StoreError::Resized { path: path.to_path_buf(), sealed, found: found_len };
        let defect = plain(DefectKind::Seal, error.to_string());
        found.findings.push(Defect { file: Some(path.to_path_buf()), ..defect });
        return Ok(());
    }
    for damage in checks.damages(&file, progress)? {
        found.findings.push(defect_at(path.path(), damage));
    }
    found.pieces += checks.pieces();
    found.files += 1;
    found.nbytes += file.len();
    Ok(())
}

/// Checks the contents of an opened model.
fn check_contents(
    path: &Location,
    model: &Model,
    compared: HashSet<SealEntry>,
    progress: &Progress,
    found: &mut Verification,
) -> Result<()> {
    compare_others(model, compared, progress, found)?;
    found.format = Some(model.format.clone());
    let weights = weights(model);
    found.tensors = weights.len();
    found.files = model.files.len();
    found.nbytes = model.files.iter().map(Blob::len).fold(0, u64::saturating_add);
    found.warnings.clone_from(&model.report.warnings);
    if let Some(program) = model.main() {
        found.warnings.extend((conventions(program).notes)(program));
    }
    for checksum in &model.checksums {
        progress.advance(checksum.data.len())?;
        let wrong = match crc32_of(&checksum.data) {
            Ok(crc32) if crc32 == checksum.crc32 => continue,
            Ok(crc32) => {
                let (place, expected) = (&checksum.place, checksum.crc32);
                let what = format!("has the CRC-32 {crc32:08x}, expected {expected:08x}");
                plain(DefectKind::Checksum, format!("{place} {what}"))
            }
            Err(error) => defect_of(path, error.into())?,
        };
        found.findings.push(wrong);
    }
    missing(path, model, found)?;
    rules(model, found);
    for (number, Parameter { name, tensor }) in weights.iter().enumerate() {
        let name = called(name, number);
        let wrong = match &tensor.kind {
            // `rules` checks them: ONNX is the only format with such tensors.
            Kind::Coo { .. } if model.main().is_some() => Ok(None),
            _ => values(tensor),
        };
        let checked = wrong.and_then(|wrong| match wrong {
            // Read the bytes that were not read above.
            None if !found.sealed => read(tensor, progress).map(|()| None),
            wrong => Ok(wrong),
        });
        let defect = match checked {
            Ok(None) => continue,
            Ok(Some(what)) => plain(DefectKind::Values, format!("tensor `{name}`: {what}")),
            Err(error) => defect_of(path, error)?,
        };
        found.findings.push(Defect { tensor: Some(name), ..defect });
    }
    Ok(())
}

/// Reports parameters of a program that no file contains, unless the path is the program file alone, or the program was
/// saved alone into a directory, under a name that does not refer to parameters.
fn missing(path: &Location, model: &Model, found: &mut Verification) -> Result<()> {
    let file = model.files.first().and_then(|blob| source(blob).ok()).map(SourceFile::path);
    let name = file.and_then(Path::file_name).and_then(|name| name.to_str());
    let is_program_alone =
        model.files.len() == 1 && matches!(name, Some("__model__" | "__model__.txt"));
    let alone =
        model.parameters.is_empty() && path.exists()? && (!path.is_dir()? || is_program_alone);
    let Some(program) = model.main().filter(|_| !alone) else { return Ok(()) };
    let conventions = conventions(program);
    let name = |parameter: &Parameter| (conventions.variable_of)(&parameter.name).to_owned();
    let there: HashSet<String> = model.parameters.iter().map(name).collect();
    let mut absent = (conventions.parameters)(program);
    absent.retain(|name| !there.contains(name));
    let absent: Vec<_> = absent.iter().map(|name| format!("`{name}`")).collect();
    if !absent.is_empty() {
        let message = format!("missing parameters of the program: {}", some(&absent));
        found.findings.push(plain(DefectKind::Missing, message));
    }
    Ok(())
}

/// Reports broken rules of the framework and contradictory types of values in a program.
fn rules(model: &Model, found: &mut Verification) {
    let Some(program) = model.main() else { return };
    let conventions = conventions(program);
    let inference = (conventions.infer)(model);
    report((conventions.check)(model, inference.as_ref()), "broken rules", found);
    let Some(inference) = inference else { return };
    report(inference.findings, "contradictory types", found);
    if !inference.complete {
        found.warnings.push(INCOMPLETE.to_owned());
    }
}

fn report(wrong: Findings, what: &str, found: &mut Verification) {
    let kind = |located: &Located| match located.finding.code {
        Code::Inconsistent => DefectKind::Inconsistent,
        _ => DefectKind::Rule,
    };
    let defect = |located: Located| plain(kind(&located), located.to_string());
    found.findings.extend(wrong.located.into_iter().map(defect));
    let more = [
        (DefectKind::Rule, wrong.more, what),
        (DefectKind::Inconsistent, wrong.more_inconsistent, "inconsistencies"),
    ];
    for (kind, count, what) in more.into_iter().filter(|(_, count, _)| *count > 0) {
        found.findings.push(plain(kind, format!("{count} more {what}")));
    }
}

/// Reads a whole tensor.
fn read(tensor: &Tensor, progress: &Progress) -> Result<()> {
    tensor.blobs().try_for_each(|blob| {
        blob.for_each_chunk::<StoreError>(|chunk| progress.advance(chunk.len() as u64))
    })?;
    Ok(())
}

/// Checks the indices of a sparse tensor.
fn values(tensor: &Tensor) -> Result<Option<String>> {
    if let Err(error) = tensor.lod.check(tensor.shape.first().copied().unwrap_or(0)) {
        return Ok(Some(error.to_string()));
    }
    let Kind::SelectedRows { rows, height } = &tensor.kind else {
        return Ok(tensor.broken_indices()?);
    };
    let rows = Indices { dtype: DType::Int64, data: rows.clone() };
    let mut wrong = None;
    rows.for_each(|row| wrong = wrong.or((!(0..*height).contains(&row)).then_some(row)))?;
    Ok(wrong.map(|row| format!("row {row} is out of range: the whole tensor has {height} rows")))
}

fn plain(kind: DefectKind, message: String) -> Defect {
    Defect { kind, message, file: None, tensor: None, piece: None, offset: None, len: None }
}

fn defect_at(path: &Path, damage: Damage) -> Defect {
    let path = path.to_path_buf();
    let (piece, offset, len) = (Some(damage.piece), Some(damage.offset), Some(damage.len));
    let tensor = damage.tensor.clone();
    let message = StoreError::Damaged { path: path.clone(), damage: Box::new(damage) }.to_string();
    Defect { file: Some(path), tensor, piece, offset, len, ..plain(DefectKind::Seal, message) }
}

/// Converts a read error to a defect of the model; fails with the error if it does not imply a defect.
fn defect_of(path: &Location, error: Error) -> Result<Defect> {
    let Error::Format(inner) = &error else { return Err(error) };
    kind_of(path, inner.cause()).map(|kind| plain(kind, error.to_string())).ok_or(error)
}

fn kind_of(path: &Location, error: &FormatError) -> Option<DefectKind> {
    Some(match error {
        FormatError::Store(error) => match error {
            StoreError::Malformed { .. } | StoreError::OutOfRange { .. } => DefectKind::Structure,
            StoreError::Damaged { .. }
            | StoreError::Resized { .. }
            | StoreError::Unusable { .. } => DefectKind::Seal,
            _ => return None,
        },
        FormatError::Mismatch { .. } | FormatError::Json { .. } => DefectKind::Structure,
        // A part of the model is missing, rather than the model.
        FormatError::NoModel { path: absent, .. } if absent != path.path() => DefectKind::Missing,
        _ => return None,
    })
}
