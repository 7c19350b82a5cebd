//! Archives of PyTorch: zip files whose members are in one folder.
//!
//! | member | contents |
//! |---|---|
//! | `P/data.pkl` | a pickle: the object of `torch.save`, or the module of TorchScript |
//! | `P/data/KEY` | the bytes of a storage, as a whole |
//! | `P/constants.pkl`, `P/constants/KEY` | the constants of TorchScript, in the same way |
//! | `P/code/..` | the program of TorchScript |
//! | `P/version` or `P/.data/version` | the version, in decimal |
//! | `P/byteorder` | `little` or `big`, since 2.1; before, little |
//! | `P/archive_format` | `pt2`: an exported program, since 2.8 |
//! | `serialized_exported_program.json` | an exported program of 2.1 to 2.7, without a folder |
//!
//! `P` is the stem of the name that the file had when it was saved, or `archive`. Members are stored, and aligned to 64
//! bytes; programs are deflated. Only the directory at the end of the file is complete: local headers lack sizes.
//!
//! Source of truth: `inline_container.cc` of PyTorch 2.15, and files that 1.2 to 2.15 wrote.

use std::collections::HashMap;

use lodstone_model::{Checksum, Limits};
use lodstone_store::Blob;

use crate::encoding::zip::{Member, members};
use crate::error::{Error, Result};

/// The kind of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `torch.save`.
    Saved,
    /// `torch.jit.save`, since 1.3.
    Script,
    /// `torch.jit.save` until 1.2: a program and tensors that `model.json` describes.
    EarlyScript,
    /// `torch.export.save`, since 2.8, and packages of AOTInductor.
    Exported,
    /// `torch.export.save` until 2.7.
    EarlyExported,
    /// `torch.package`.
    Package,
}

/// An open archive.
#[derive(Debug)]
pub(crate) struct Archive {
    /// The file.
    pub(crate) blob: Blob,
    pub(crate) kind: Kind,
    /// The folder of the members, with a slash; empty for those of 2.1 to 2.7.
    pub(crate) root: String,
    /// All members, in the order of the directory.
    pub(crate) members: Vec<Member>,
    /// The index of each member by its name in the folder.
    by_name: HashMap<String, usize>,
    /// Whether storages are big-endian.
    pub(crate) is_big: bool,
}

/// Maximum size in bytes of a deflated member that is read as a whole, and the part of it that depends on its deflated
/// size: those of PyTorch are stored, except for programs, which deflate to a tenth.
const MAX_INFLATED: u64 = 256 << 20;
const MAX_EXPANSION: u64 = 64;
const MIN_INFLATED: u64 = 64 << 10;

/// The members that identify each kind, the most specific first.
const KINDS: &[(&str, Kind)] = &[
    ("archive_format", Kind::Exported),
    ("serialized_exported_program.json", Kind::EarlyExported),
    (".data/extern_modules", Kind::Package),
    ("model.json", Kind::EarlyScript),
    ("constants.pkl", Kind::Script),
    ("data.pkl", Kind::Saved),
];

impl Archive {
    /// Reads the directory of an archive.
    ///
    /// # Errors
    /// Fails if the file is not a zip archive, or no archive of PyTorch, or if its members are in several folders.
    pub(crate) fn open(blob: &Blob, limits: &Limits) -> Result<Self> {
        let members = members(blob, limits)?;
        let found = KINDS.iter().find_map(|(name, kind)| {
            members.iter().find_map(|member| Some((root_of(&member.name, name)?, *kind)))
        });
        let Some((root, kind)) = found else {
            let expected = "an archive of PyTorch, with `data.pkl` or `archive_format`";
            return Err(blob.malformed(0, expected, "neither").into());
        };
        let mut by_name = HashMap::with_capacity(members.len());
        for (index, member) in members.iter().enumerate() {
            match member.name.strip_prefix(&root) {
                Some(name) => _ = by_name.insert(name.to_owned(), index),
                None => {
                    let found = format!("`{}`", member.name);
                    let expected = format!("members in the folder `{root}`");
                    return Err(blob.malformed(member.header, expected, found).into());
                }
            }
        }
        let mut archive = Self { blob: blob.clone(), kind, root, members, by_name, is_big: false };
        archive.is_big = archive.is_big_endian()?;
        Ok(archive)
    }

    fn is_big_endian(&self) -> Result<bool> {
        let Some(member) = self.member("byteorder") else { return Ok(false) };
        let whole = member.whole();
        match whole.head(16)?.trim_ascii() {
            b"little" => Ok(false),
            b"big" => Ok(true),
            other => {
                let found = format!("`{}`", other.escape_ascii());
                Err(whole.malformed(0, "`little` or `big` in `byteorder`", found).into())
            }
        }
    }

    /// Returns the member called `name` in the folder.
    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        self.by_name.get(name).and_then(|index| self.members.get(*index))
    }

    /// Returns the names of all members in the folder, with the members.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&str, &Member)> {
        let name = |member: &Member| member.name.len().min(self.root.len());
        self.members
            .iter()
            .map(move |member| (member.name.get(name(member)..).unwrap_or_default(), member))
    }

    /// Returns the bytes of the member called `name`, in the file or in memory.
    ///
    /// # Errors
    /// Fails if there is no such member, or if it is deflated and damaged or too large.
    pub(crate) fn file(&self, name: &str) -> Result<Blob> {
        let Some(member) = self.member(name) else {
            let expected = format!("a member `{}{name}`", self.root);
            return Err(self.blob.malformed(0, expected, "none").into());
        };
        self.bytes(member)
    }

    /// Returns the bytes of a member, in the file or in memory.
    ///
    /// # Errors
    /// Fails if the member is deflated, and damaged or too large.
    pub(crate) fn bytes(&self, member: &Member) -> Result<Blob> {
        if !member.deflated {
            return Ok(member.data.clone());
        }
        let max = member.data.len().saturating_mul(MAX_EXPANSION).saturating_add(MIN_INFLATED);
        let max = max.min(MAX_INFLATED);
        if member.size > max {
            let limit = format!("at most {max} bytes in the deflated `{}`", member.name);
            return Err(self.blob.over_limit(member.header, limit).into());
        }
        let read = member.whole().read();
        let inside = |error| Error::from(error).inside(format!("member `{}`", member.name));
        Ok(Blob::memory(read.map_err(inside)?))
    }

    /// Returns the checksums of all members.
    pub(crate) fn checksums(&self) -> Vec<Checksum> {
        self.members.iter().map(Member::checksum).collect()
    }

    /// Returns a storage: the member called `name` in the folder, which has `size` bytes.
    ///
    /// # Errors
    /// Fails with what was expected if there is no such member, or it has another size.
    pub(crate) fn storage(&self, name: &str, size: Option<u64>) -> Result<Blob, String> {
        let member = self.member(name);
        let Some(member) = member else {
            return Err(format!("expected a member `{}{name}`, found none", self.root));
        };
        match size {
            Some(size) if size != member.size => {
                let found = member.size;
                Err(format!("expected {size} bytes in the member `{}`, found {found}", member.name))
            }
            _ => Ok(member.whole()),
        }
    }

    /// Returns the number in the member `version`, if there is one.
    ///
    /// # Errors
    /// Fails if the member cannot be read.
    pub(crate) fn version(&self) -> Result<Option<u64>> {
        let member = self.member("version").or_else(|| self.member(".data/version"));
        let Some(member) = member else { return Ok(None) };
        let head = member.whole().head(32)?;
        let text = String::from_utf8_lossy(&head);
        let major = text.trim().split('.').next().and_then(|major| major.parse().ok());
        let found = || format!("`{}`", text.escape_debug());
        let wrong = || member.whole().malformed(0, "a version number", found());
        Ok(Some(major.ok_or_else(wrong)?))
    }
}

/// Returns the folder of a member, if its name in the folder is `name`.
fn root_of(member: &str, name: &str) -> Option<String> {
    let root = member.strip_suffix(name)?;
    // The folder is the stem of a file name.
    let is_folder = root.is_empty() || root.find('/') == Some(root.len() - 1);
    let needs_folder = !matches!(name, "serialized_exported_program.json");
    (is_folder && root.is_empty() != needs_folder).then(|| root.to_owned())
}
