//! The inspection of a file and everything in it.

use std::collections::{BTreeMap, BTreeSet};

use lodstone_model::Limits;
use lodstone_store::{Blob, Error as StoreError, check_relative};

use super::compressed::{self, Method};
use super::{CodeEffect, Effort, MAX_INFLATED, Opaque, Outside, Part, Pickles, Place, text};
use crate::encoding::pickle::{self, Finding, Import, Loads, Tree};
use crate::encoding::{tar, zip};
use crate::error::{Error, Result};
use crate::numpy;
use crate::numpy::survey::{self, Elements};
use crate::registry::{FORMATS, OUTSIDE, TEXTS};
use crate::unrecognized::HDF5;

/// Extensions of pickles: in such files, the scan continues after damage.
const EXTENSIONS: [&str; 22] = [
    "pdparams", "pdopt", "pdstates", "pdtensor", "info", "metadata", "distcp", "states", "pkl",
    "pickle", "pk", "p", "pt", "pth", "ckpt", "bin", "model", "joblib", "dill", "data", "sav",
    "pyt",
];

/// Maximum number of bytes of deflated numeric data to inspect: their loaders load no pickle.
const MAX_NUMERIC: u64 = 1 << 20;

/// Minimum size in bytes of an archive in a file that consists of archives: with a pickle, it has more members than fit
/// into less. So the time is linear.
const MIN_JOINED: u64 = 512;

/// Maximum number of findings per file.
const MAX_FINDINGS: usize = 100_000;

pub(super) struct Look<'a> {
    pub(super) found: Pickles,
    pub(super) limits: &'a Limits,
    pub(super) left: Effort,
}

/// A file or a member of an archive.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    /// The name in its own container.
    pub(super) name: &'a str,
    /// The full name, if it is a member.
    pub(super) member: Option<&'a str>,
    pub(super) blob: &'a Blob,
    /// The remaining levels of nested archives.
    pub(super) left: usize,
    pub(super) known: Known<'a>,
}

/// What an archive says about its members.
#[derive(Clone, Copy)]
pub(super) enum Known<'a> {
    Nothing,
    /// The members that hold numeric data, by name, with their sizes in bytes.
    Numbers(&'a BTreeMap<String, u64>),
    /// They have pickles and numeric data in turn.
    Records(&'static Outside),
}

impl Entry<'_> {
    fn part(&self) -> Part {
        // A model may have such a file beside it, but no such tensors.
        let bytes =
            self.blob.file_range().filter(|_| !is_other(self.blob)).map(|_| self.blob.clone());
        Part { member: self.member.map(str::to_owned), bytes }
    }
}

/// The kind of a file for the scan.
enum Kind {
    Zip,
    Tar,
    Compressed(Method),
    Array,
    /// Numeric data that a pickle beside it refers to.
    Numbers,
    Other,
}

impl Look<'_> {
    pub(super) fn at(&mut self, place: &Entry<'_>) -> Result<()> {
        self.left.steps.progress.advance(0)?;
        let block = tar::BLOCK as u64;
        // Deflated data may be damaged at the beginning.
        let head = self.inflated(place.blob, block)?.0.head(block)?;
        let kind = self.kind(place, &head)?;
        let max = match kind {
            Kind::Numbers => MAX_NUMERIC,
            Kind::Array if self.is_plain(place.blob)? => MAX_NUMERIC,
            _ => MAX_INFLATED,
        };
        let (there, damage) = self.inflated(place.blob, max)?;
        let (all, some) = (place.blob.len(), there.len());
        let is_cut = some < all && (some < max || max == MAX_INFLATED) && damage.is_none();
        if is_cut {
            self.unread(place, format!("only {some} of its {all} deflated bytes were scanned"));
        }
        let inside = Entry { blob: &there, ..*place };
        let is_container = matches!(kind, Kind::Zip | Kind::Tar | Kind::Compressed(_));
        let is_whole = !is_cut && damage.is_none();
        if is_container && place.left == 0 {
            self.unread(place, "it is an archive nested more than two levels deep".to_owned());
        } else if is_container && !is_whole {
            // A truncated archive is not inspected.
            return damage.map_or(Ok(()), Err);
        } else {
            self.inside(&inside, &head, &kind, all, is_whole)?;
        }
        damage.map_or(Ok(()), Err)
    }

    fn kind(&mut self, place: &Entry<'_>, head: &[u8]) -> Result<Kind> {
        let is_numbers = match place.known {
            Known::Numbers(numbers) => numbers.get(place.name) == Some(&place.blob.len()),
            Known::Nothing | Known::Records(_) => false,
        };
        Ok(match signature(head) {
            // The first bytes of numbers are those of compressed data by chance.
            Some(Kind::Compressed(method)) if is_numbers && !self.is_sound(method, place.blob) => {
                Kind::Numbers
            }
            // A short signature can match by chance, in text too.
            Some(Kind::Compressed(method))
                if method.is_vague()
                    && (!compressed::begins(method, place.blob)
                        || text::is_text(place.blob)? && !self.is_sound(method, place.blob)) =>
            {
                Kind::Other
            }
            Some(kind) => kind,
            None if is_numbers => Kind::Numbers,
            None => Kind::Other,
        })
    }

    fn is_sound(&mut self, method: Method, blob: &Blob) -> bool {
        compressed::is_sound(method, blob, |bytes| self.has_pickle(&Blob::memory(bytes)))
    }

    /// Returns whether bytes begin with a pickle, or with a part of one, that imports something.
    fn has_pickle(&mut self, blob: &Blob) -> bool {
        let loads = pickle::loads(blob, self.limits, &mut self.left.steps, |_, _| false);
        loads.imports || loads.cut
    }

    /// Returns whether a file is a numeric array, according to its header.
    fn is_plain(&mut self, blob: &Blob) -> Result<bool> {
        let head = self.inflated(blob, MAX_NUMERIC)?.0;
        let array = survey::survey(&head);
        Ok(array.is_ok_and(|array| matches!(array.elements, Elements::Plain(_))))
    }

    /// Inspects bytes in memory or in a file, which may be the beginning of `all` bytes.
    fn inside(
        &mut self,
        place: &Entry<'_>,
        head: &[u8],
        kind: &Kind,
        all: u64,
        is_whole: bool,
    ) -> Result<()> {
        let loads = self.loads(place);
        let is_joblib = match loads.has_arrays {
            true => Some(self.joblib(place)?),
            false => None,
        };
        let is_other = matches!(kind, Kind::Other);
        if is_joblib == Some(false) && !is_other {
            self.unread(place, "it begins like a pickle of joblib".to_owned());
        }
        let is_records = is_other && is_joblib.is_none() && self.records(place)?;
        let is_understood = match kind {
            Kind::Zip => self.zip(place)?,
            Kind::Tar => self.tar(place)?,
            Kind::Compressed(method) => self.compressed(place, *method)?,
            Kind::Array => self.array(place, head, all)?,
            Kind::Numbers => true,
            Kind::Other if is_records => true,
            Kind::Other if is_joblib.is_some() => is_joblib == Some(true),
            Kind::Other if loads.complete && is_whole => {
                // A short text can be such a pickle by chance: `]Q.`.
                if loads.needs_loader
                    && loads.findings.is_empty()
                    && (has_pickle_ending(place.name) || !text::is_text(place.blob)?)
                {
                    let why = "its pickle refers to unknown objects of the loader";
                    self.unread(place, why.to_owned());
                }
                true
            }
            Kind::Other if OUTSIDE.iter().any(|it| (it.is_file)(place.blob, &loads)) => true,
            Kind::Other => match self.opaque_parts(place.blob) {
                Some(opaque) => self.opaque(place, opaque)?,
                None => {
                    let is_text = text::is_text(place.blob)?;
                    if is_text && self.is_keras(place)? {
                        let why = "it describes a Keras model, and names classes and code that Keras runs";
                        self.unread(place, why.to_owned());
                    }
                    if is_text && let Some(what) = self.unrecognized(place)? {
                        self.unread(place, format!("it is {what}"));
                    }
                    is_text
                }
            },
        };
        if !is_understood && !loads.cut {
            self.found.uninterpreted.push(place.part());
        }
        self.pickled(place, head, kind, loads, is_understood)?;
        if !matches!(kind, Kind::Zip | Kind::Tar | Kind::Compressed(_)) {
            self.behind(place)?;
        }
        Ok(())
    }

    /// Adds the effects of loading a pickle by joblib; returns whether all bytes belong to it, and to the elements of its
    /// arrays. Other readers take the elements for opcodes: what they import before they fail is a finding, as in every other
    /// file that begins with a pickle. The elements are looked at as those of other models are.
    fn joblib(&mut self, place: &Entry<'_>) -> Result<bool> {
        let steps = &mut self.left.steps;
        let (loads, spans) = pickle::loads_of_joblib(place.blob, self.limits, steps);
        self.torn(place, loads.torn);
        if loads.needs_loader && loads.findings.is_empty() {
            self.unread(place, "its pickle refers to objects of the loader".to_owned());
        }
        let mut elements = Vec::new();
        for (index, span) in spans.iter().enumerate() {
            elements.push((format!("array {index}"), place.blob.slice(span.start, span.len)?));
        }
        let is_understood = loads.complete || loads.cut;
        self.add(place, loads.findings);
        self.elements(place, &elements)?;
        Ok(is_understood)
    }

    /// Adds a place where readers of pickles disagree about frames.
    fn torn(&mut self, place: &Entry<'_>, torn: Option<(u64, &str)>) {
        if let Some((offset, how)) = torn {
            let why = format!("{how} (byte {offset}), so other readers may find other opcodes");
            self.unread(place, why);
        }
    }

    /// Inspects a member of an archive that has pickles and numeric data in turn; returns whether there is nothing else.
    fn records(&mut self, place: &Entry<'_>) -> Result<bool> {
        let Known::Records(outside) = place.known else { return Ok(false) };
        let mut all = Loads::default();
        let mut read = |start| {
            all.end = start;
            all.next(place.blob, self.limits, &mut self.left.steps)
        };
        let elements = (outside.elements)(place.name, place.blob, &mut read);
        // The loader runs what is in front of an error.
        self.add(place, all.findings);
        let elements = elements.filter(|_| !all.has_arrays && all.torn.is_none());
        let Some(elements) = elements else { return Ok(false) };
        self.elements(place, &elements)?;
        Ok(true)
    }

    /// Inspects the elements of tensors in a file.
    fn elements(&mut self, place: &Entry<'_>, elements: &[(String, Blob)]) -> Result<()> {
        if place.left == 0 && !elements.is_empty() {
            self.unread(place, "its tensors are nested more than two levels deep".to_owned());
            return Ok(());
        }
        for (name, blob) in elements {
            let numbers = BTreeMap::from([(name.clone(), blob.len())]);
            self.at_member(place, name, blob, Known::Numbers(&numbers))?;
        }
        Ok(())
    }

    /// Returns whether a text is the configuration of a Keras model, which names classes that Keras imports, and code.
    fn is_keras(&self, place: &Entry<'_>) -> Result<bool> {
        if place.blob.len() > self.limits.structure_bytes || place.blob.head(1)? != b"{"[..] {
            return Ok(false);
        }
        let text = place.blob.read()?;
        let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
        Ok(has(b"\"class_name\"") && has(b"\"config\"") && has(b"keras"))
    }

    /// Returns what UTF-8 text is that the reader of its format does not recognize.
    fn unrecognized(&self, place: &Entry<'_>) -> Result<Option<&'static str>> {
        if place.blob.len() > self.limits.structure_bytes || place.blob.head(1)? == b"{"[..] {
            return Ok(None);
        }
        let text = place.blob.read()?;
        let text = std::str::from_utf8(&text);
        Ok(text.ok().and_then(|text| TEXTS.iter().find_map(|what| what(text))))
    }

    /// Returns the parts of a file that its format leaves to other software.
    fn opaque_parts(&self, blob: &Blob) -> Option<Opaque> {
        let mut formats = FORMATS.iter().filter_map(|format| format.opaque);
        formats.find_map(|opaque| opaque(blob, self.limits))
    }

    /// Inspects the parts of a file that its format does not describe; returns whether there are no other bytes.
    fn opaque(&mut self, place: &Entry<'_>, opaque: Opaque) -> Result<bool> {
        for (name, blob) in &opaque.parts {
            if place.left == 0 {
                self.unread(place, "its parts are nested more than two levels deep".to_owned());
                break;
            }
            self.at_member(place, name, blob, Known::Nothing)?;
        }
        if let Some((start, end)) = opaque.unread {
            self.unread(place, format!("bytes {start}..{end} belong to no part of its format"));
        }
        Ok(opaque.unread.is_none())
    }

    fn loads(&mut self, place: &Entry<'_>) -> Loads {
        let keeps = |number, pickle: &Tree| OUTSIDE.iter().any(|it| (it.keeps)(number, pickle));
        pickle::loads(place.blob, self.limits, &mut self.left.steps, keeps)
    }

    /// Adds the effects of loading pickles from the first byte.
    fn pickled(
        &mut self,
        place: &Entry<'_>,
        head: &[u8],
        kind: &Kind,
        loads: Loads,
        is_understood: bool,
    ) -> Result<()> {
        let is_numbers = matches!(kind, Kind::Numbers);
        // The first letter of an archive asks for an object of the loader, which loaders of archives do not have: they fail.
        if is_understood && is_zip(head) {
            return Ok(());
        }
        let is_protocol = matches!(head, [0x80, 2..=5, ..]);
        // Numbers can have any opcode by chance: what other readers find in them has a plausible name.
        let is_chance = is_understood && !is_protocol && (is_numbers || !loads.complete);
        let torn = loads.torn.filter(|_| !is_zip(head));
        self.torn(place, torn.filter(|_| !is_chance || loads.complete));
        let mut findings = loads.findings;
        findings.retain(|finding| !is_chance || finding.how != "extension");
        if loads.complete || loads.cut {
            self.add(place, findings);
            return Ok(());
        }
        // Words of a text that are no modules: `cat` in a first line, `id` in another, `config.json`. A file that is named as a
        // pickle may import a module that comes with it, and call what is in it.
        let is_named = has_pickle_ending(place.name);
        let is_module = |name: &str| {
            pickle::may_exist(name) || (is_named && name.contains('.') && pickle::is_name(name))
        };
        let is_word = |it: &Finding| {
            let is_failing = it.how == "import" || !(is_named || it.module.is_empty());
            is_failing && !is_module(&it.module)
        };
        if is_understood
            && loads.broken.as_ref().is_none_or(|it| !is_module(&it.module))
            && findings.iter().all(is_word)
            && text::is_text(place.blob)?
        {
            return Ok(());
        }
        let is_pickle = is_protocol || is_named || loads.imports;
        if (!is_understood && is_pickle) || torn.is_some() {
            findings.extend(pickle::scan_within(place.blob, self.limits, &mut self.left.steps)?);
        }
        // Importing what is no name of a module fails.
        if let Some(Import { offset, module, name }) =
            loads.broken.filter(|it| pickle::is_name(&it.module))
        {
            let is_likely = is_module(&module);
            let name = format!("{module}.{name}");
            let name = name.escape_debug();
            let why = format!("loaded as a pickle, it imports `{name}` (byte {offset}) and fails");
            if is_likely || is_protocol {
                self.unread(place, why);
            } else if !is_numbers {
                self.found.improbable.push((place.part(), why));
            }
        }
        // A complete pickle before the failure is loaded to its end.
        let is_import =
            |it: &&Finding| it.how != "path" && (it.how != "import" || pickle::is_name(&it.module));
        let first = findings.iter().filter(is_import).find(|it| it.offset < loads.end);
        if is_understood && let Some(Finding { offset, module, name, .. }) = first {
            let name = format!("{module}.{name}");
            let why = format!("its first pickle imports `{}` (byte {offset})", name.escape_debug());
            self.unread(place, why);
        }
        // Random bytes that happen to be a pickle have no plausible names.
        let is_meant = is_protocol || (is_named && text::is_text(place.blob)?);
        if !is_meant {
            findings.retain(is_likely);
        }
        findings.sort_by(|a, b| (a.offset, a.how, &a.name).cmp(&(b.offset, b.how, &b.name)));
        findings.dedup();
        self.add(place, findings);
        Ok(())
    }

    /// Inspects an archive that follows other bytes: programs that open archives find it there.
    fn behind(&mut self, place: &Entry<'_>) -> Result<()> {
        if let Some(start) = hdf5(place.blob)?.filter(|start| *start > 0) {
            self.unread(place, format!("an HDF5 file begins at byte {start}"));
        }
        let Some(start) = zip::behind(place.blob)? else { return Ok(()) };
        self.found.ambiguous = Some(format!("it is an archive after {start} other bytes"));
        // Its members are one level deeper.
        if place.left > 1 {
            let archive = place.blob.slice(start, place.blob.len() - start)?;
            self.zip(&Entry {
                blob: &archive,
                left: place.left - 1,
                known: Known::Nothing,
                ..*place
            })?;
        }
        Ok(())
    }

    /// Returns up to `max` bytes of deflated data in memory, and the error if it is damaged before.
    /// Reading in place would inflate from the beginning after every backward seek, which searches do.
    fn inflated(&mut self, blob: &Blob, max: u64) -> Result<(Blob, Option<Error>)> {
        const PIECE: u64 = 64 << 10;
        if blob.file_range().is_some() || blob.in_memory().is_some() {
            return Ok((blob.clone(), None));
        }
        let size = blob.len().min(max).min(self.left.inflated);
        self.left.inflated -= size;
        let (mut bytes, mut damage) = (Vec::new(), None);
        let (mut at, mut step) = (0, PIECE);
        while at < size && step > 0 {
            self.left.steps.progress.advance(0)?;
            let piece = blob.slice(at, step.min(size - at))?;
            match piece.read() {
                Ok(piece) => bytes.extend_from_slice(&piece),
                // Up to the exact byte: a loader may act on it before it detects the damage.
                Err(error) => {
                    damage = Some(error.into());
                    step = if at <= self.left.inflated { step / 2 } else { 0 };
                    self.left.inflated = self.left.inflated.saturating_sub(at);
                    continue;
                }
            }
            at += piece.len();
        }
        Ok((Blob::memory(bytes), damage))
    }

    /// Inspects a zip archive; returns whether the file is exactly one.
    fn zip(&mut self, place: &Entry<'_>) -> Result<bool> {
        let archive = match zip::survey(place.blob, self.limits) {
            Ok(archive) => archive,
            Err(error) => {
                let ending = ending_of(place.name).to_ascii_lowercase();
                let is_joined = OUTSIDE.iter().any(|it| it.joined.contains(&ending.as_str()));
                if is_joined && self.joined(place)? {
                    return Ok(true);
                }
                let steps = &mut self.left.steps;
                let findings = pickle::scan_within(place.blob, self.limits, steps)?;
                self.add(place, findings.into_iter().filter(is_likely).collect());
                if is_joined {
                    return Ok(false);
                }
                self.found.ambiguous = Some(error.to_string());
                return Ok(true);
            }
        };
        self.found.is_archive = true;
        if let Some(odd) = archive.odd {
            self.unread(place, odd);
        }
        let before = self.found.findings.len();
        let members: BTreeSet<&str> = archive.members.iter().map(|member| &*member.name).collect();
        let (mut numbers, mut named) = (BTreeMap::new(), BTreeSet::new());
        // Pickles of one program are in one folder.
        let mut folder = None;
        for member in &archive.members {
            let Some((outside, inside)) = outside(&member.name, &members) else { continue };
            if folder.as_ref().is_none_or(|folder| *folder == inside.folder) {
                folder = Some(inside.folder.clone());
                named.insert(&*member.name);
                let blob = member.whole();
                let found = self.named(place, outside, &member.name, &blob, &inside)?;
                numbers.extend(found.unwrap_or_default());
            }
        }
        for inner in archive.members.iter().filter(|inner| !named.contains(&*inner.name)) {
            self.at_member(place, &inner.name, &inner.whole(), Known::Numbers(&numbers))?;
            for outside in OUTSIDE.iter().filter(|it| (it.is_code)(&inner.name)) {
                self.code(place, outside, &inner.name, &inner.whole());
            }
        }
        for outside in OUTSIDE {
            self.leave_out_own(&(outside.own_modules)(&members), before);
            for (member, name) in (outside.shadows)(&members) {
                let what = "is code of the package, in place of Python's module";
                let member = self.member(place, &member);
                self.found.effects.push((member, CodeEffect { line: 1, name, what }));
            }
        }
        Ok(true)
    }

    /// Inspects a file that consists of archives, from the last to the first; returns whether there is nothing else.
    /// Each is found by the record at its end.
    fn joined(&mut self, place: &Entry<'_>) -> Result<bool> {
        let mut parts = Vec::new();
        let mut end = place.blob.len();
        while end > 0 {
            self.left.steps.progress.advance(0)?;
            let before = place.blob.slice(0, end)?;
            let Some(start) = zip::behind(&before)?.filter(|start| *start < end) else {
                return Ok(false);
            };
            let part = before.slice(start, end - start)?;
            if part.len() < MIN_JOINED || zip::survey(&part, self.limits).is_err() {
                return Ok(false);
            }
            parts.push(part);
            end = start;
        }
        for (index, part) in parts.iter().rev().enumerate() {
            let member = self.member(place, &format!("archive {index}"));
            self.zip(&Entry {
                blob: part,
                member: Some(&member),
                known: Known::Nothing,
                ..*place
            })?;
        }
        Ok(true)
    }

    /// Adds the effects of a file of a program.
    fn code(&mut self, archive: &Entry<'_>, outside: &Outside, name: &str, blob: &Blob) {
        let member = self.member(archive, name);
        let unread = |why: String| (Some(member.clone()), why);
        let text = match self.inflated(blob, MAX_INFLATED) {
            Ok((there, None)) if there.len() == blob.len() => there.bytes().map_err(Error::from),
            Ok((_, Some(error))) | Err(error) => Err(error),
            // Reported with the member.
            Ok(_) => return,
        };
        let text = match text.map(|bytes| String::from_utf8(bytes.to_vec())) {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => return self.found.unread.push(unread(error.to_string())),
            Err(error) => return self.found.unread.push(unread(error.to_string())),
        };
        match (outside.effects)(&text) {
            Ok(effects) => {
                self.found.improbable.retain(|(of, _)| of.member.as_ref() != Some(&member));
                let left = MAX_FINDINGS.saturating_sub(self.found.effects.len());
                let effects = effects.into_iter().take(left);
                self.found.effects.extend(effects.map(|effect| (member.clone(), effect)));
            }
            Err(why) => self.found.unread.push(unread(why)),
        }
    }

    /// Removes findings from index `before` on whose imports are classes in modules of a program in the archive.
    fn leave_out_own(&mut self, own: &BTreeSet<String>, before: usize) {
        let mut number = 0;
        self.found.findings.retain(|(_, finding)| {
            number += 1;
            let is_own = own.contains(&finding.module) && !finding.name.contains('.');
            number <= before || !is_own
        });
    }

    /// Inspects a pickle whose numeric data is outside of it; returns the members that hold this data.
    fn named(
        &mut self,
        archive: &Entry<'_>,
        outside: &Outside,
        name: &str,
        blob: &Blob,
        inside: &Place,
    ) -> Result<Option<BTreeMap<String, u64>>> {
        let (there, damage) = self.inflated(blob, MAX_INFLATED)?;
        let is_whole = there.len() == blob.len() && damage.is_none();
        let first = |number, _: &Tree| number == 0;
        let loads = pickle::loads(&there, self.limits, &mut self.left.steps, first);
        let numbers = match loads.kept.as_slice() {
            [pickle] if loads.complete && loads.needs_loader && is_whole && !loads.has_arrays => {
                (outside.members)(inside, pickle)
            }
            _ => None,
        };
        if numbers.is_none() && !loads.cut {
            self.at_member(archive, name, blob, Known::Nothing)?;
            return Ok(None);
        }
        let member = self.member(archive, name);
        self.check_name(&member, name);
        let place = Entry { name, member: Some(&member), blob: &there, ..*archive };
        self.add(&place, loads.findings);
        Ok(numbers)
    }

    fn tar(&mut self, place: &Entry<'_>) -> Result<bool> {
        let inside = tar::members(place.blob, self.limits)?;
        self.found.is_archive = true;
        self.found.ambiguous = inside.ambiguous.or(self.found.ambiguous.take());
        if let Some(odd) = inside.odd {
            self.unread(place, odd);
        }
        for name in inside.names {
            self.check_name(&self.member(place, &name), &name);
        }
        let names: BTreeSet<&str> = inside.members.iter().map(|(name, _)| name.as_str()).collect();
        let is_tape =
            |it: &&&'static Outside| names.len() == inside.members.len() && (it.is_tape)(&names);
        let known = match OUTSIDE.iter().find(is_tape) {
            Some(outside) => Known::Records(outside),
            None => Known::Nothing,
        };
        for (name, data) in &inside.members {
            self.at_member(place, name, data, known)?;
        }
        Ok(true)
    }

    /// Inspects compressed data; returns whether the method is supported.
    fn compressed(&mut self, place: &Entry<'_>, method: Method) -> Result<bool> {
        if let Method::Other(how) = method {
            self.unread(place, format!("it is compressed with {how}, so its contents are unknown"));
            return Ok(true);
        }
        let max = MAX_INFLATED.min(self.left.inflated);
        let inflated = compressed::inflate(method, &place.blob.bytes()?, max);
        self.left.inflated = self.left.inflated.saturating_sub(inflated.bytes.len() as u64);
        if let Some(why) = inflated.damage {
            self.unread(place, why);
        }
        // What is named as a pickle is one inside.
        let stem = place.name.rsplit_once('.').filter(|_| !has_pickle_ending(place.name));
        let name = stem.map_or(place.name, |(stem, _)| stem);
        let blob = Blob::memory(inflated.bytes);
        self.at(&Entry {
            name,
            blob: &blob,
            left: place.left - 1,
            known: Known::Nothing,
            ..*place
        })?;
        Ok(true)
    }

    /// Inspects an array, and the bytes after it, as a loader of several arrays does.
    fn array(&mut self, place: &Entry<'_>, head: &[u8], all: u64) -> Result<bool> {
        let Entry { blob, .. } = *place;
        let (start, size) = match survey::survey(blob) {
            Ok(array) => (array.start, Some(array.elements)),
            Err(_) => match survey::start(head) {
                Some(start) => (start, None),
                None => return Ok(false),
            },
        };
        let left = all.saturating_sub(start);
        if let Some(Elements::Plain(size)) = size
            && size <= left
        {
            let end = start + size;
            if end < all && all == blob.len() && place.left > 0 {
                self.found.is_arrays |= place.member.is_none();
                let next = blob.slice(end, all - end)?;
                let (left, known) = (place.left - 1, Known::Nothing);
                self.at(&Entry { blob: &next, left, known, ..*place })?;
            } else if end < all {
                self.unread(place, format!("{} bytes follow the array", all - end));
            }
            return Ok(true);
        }
        let Some(rest) = blob.len().checked_sub(start) else { return Ok(false) };
        let elements = blob.slice(start, rest)?;
        let place = Entry { blob: &elements, ..*place };
        let mut loads = self.loads(&place);
        if loads.has_arrays {
            self.unread(&place, "its pickle has arrays of joblib".to_owned());
        }
        let is_whole = loads.complete && size == Some(Elements::Objects) && rest == left;
        if !is_whole && !loads.cut {
            let found = pickle::scan_within(&elements, self.limits, &mut self.left.steps)?;
            let is_object = size == Some(Elements::Objects);
            loads.findings.extend(found);
            loads.findings.retain(|finding| is_object || is_likely(finding));
            loads
                .findings
                .sort_by(|a, b| (a.offset, a.how, &a.name).cmp(&(b.offset, b.how, &b.name)));
            loads.findings.dedup();
        }
        if loads.needs_loader && loads.findings.is_empty() {
            self.unread(&place, "its pickle refers to objects of the loader".to_owned());
        }
        loads.findings.iter_mut().for_each(|finding| finding.offset += start);
        self.add(&place, loads.findings);
        Ok(is_whole)
    }

    fn member(&self, archive: &Entry<'_>, name: &str) -> String {
        match archive.member {
            Some(outer) => format!("{outer}/{name}"),
            None => name.to_owned(),
        }
    }

    fn check_name(&mut self, member: &str, name: &str) {
        if let Err(error) = check_relative(name) {
            self.found.escapes.push((member.to_owned(), error.to_string()));
        }
    }

    fn at_member(
        &mut self,
        archive: &Entry<'_>,
        name: &str,
        blob: &Blob,
        known: Known<'_>,
    ) -> Result<()> {
        let member = self.member(archive, name);
        self.check_name(&member, name);
        if OUTSIDE.iter().any(|it| (it.is_native)(&member)) || is_executable(blob) {
            self.found.native.push(Some(member));
            return Ok(());
        }
        let place = Entry { name, member: Some(&member), blob, left: archive.left - 1, known };
        match self.at(&place) {
            Err(Error::Store(StoreError::Cancelled)) => Err(StoreError::Cancelled.into()),
            // Invalid deflated data, or a checksum mismatch.
            Err(error) => {
                self.found.ambiguous = Some(format!("member `{member}`: {error}"));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn add(&mut self, place: &Entry<'_>, mut findings: Vec<Finding>) {
        let accepted = self.left.steps.take_accepted().into_iter();
        self.found.accepted.extend(accepted.map(|name| (place.member.map(str::to_owned), name)));
        let left = MAX_FINDINGS.saturating_sub(self.found.findings.len());
        if findings.len() > left {
            findings.truncate(left);
            self.unread(place, format!("there are more than {MAX_FINDINGS} findings"));
        }
        let member = place.member.map(str::to_owned);
        self.found.findings.extend(findings.into_iter().map(|finding| (member.clone(), finding)));
    }

    fn unread(&mut self, place: &Entry<'_>, why: String) {
        self.found.unread.push((place.member.map(str::to_owned), why));
    }
}

/// Returns the row for an archive member that is a pickle with its data outside, and the place of the data; `None` for
/// other members.
fn outside(member: &str, members: &BTreeSet<&str>) -> Option<(&'static Outside, Place)> {
    OUTSIDE.iter().copied().find_map(|it| Some((it, (it.place)(member, members)?)))
}

/// Returns the start of an HDF5 file, which is at 0 or at 512 times a power of two.
fn hdf5(blob: &Blob) -> Result<Option<u64>> {
    let powers = std::iter::successors(Some(512_u64), |start| start.checked_mul(2));
    for start in std::iter::once(0).chain(powers).take_while(|start| start + 8 <= blob.len()) {
        let mut signature = [0; 8];
        blob.read_at(start, &mut signature)?;
        if signature == HDF5 {
            return Ok(Some(start));
        }
    }
    Ok(None)
}

/// Returns whether bytes are a file of another kind: a program, an archive, an array, compressed data.
fn is_other(blob: &Blob) -> bool {
    const MACHO: [&[u8]; 5] = [
        b"\xfe\xed\xfa\xce",
        b"\xfe\xed\xfa\xcf",
        b"\xce\xfa\xed\xfe",
        b"\xcf\xfa\xed\xfe",
        b"\xca\xfe\xba\xbe",
    ];
    let Ok(head) = blob.head(tar::BLOCK as u64) else { return false };
    let has_signature = match signature(&head) {
        Some(Kind::Compressed(method)) => {
            compressed::is_sound(method, blob, |bytes| compressed::may_be_pickle(&bytes))
        }
        other => other.is_some(),
    };
    let is_windows = head.starts_with(b"MZ") && head.windows(4).any(|bytes| bytes == b"PE\0\0");
    has_signature
        || is_executable(blob)
        || is_windows
        || MACHO.iter().any(|start| head.starts_with(start))
        || hdf5(blob).is_ok_and(|start| start.is_some())
}

/// Returns the kind of a file by its first bytes.
fn signature(head: &[u8]) -> Option<Kind> {
    match compressed::method(head) {
        _ if is_zip(head) => Some(Kind::Zip),
        _ if tar::is_tar(head) => Some(Kind::Tar),
        _ if numpy::is_npy(head) => Some(Kind::Array),
        method => method.map(Kind::Compressed),
    }
}

fn is_zip(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06")
}

/// Returns whether bytes are a program or library of Linux.
fn is_executable(blob: &Blob) -> bool {
    blob.head(4).is_ok_and(|head| head == b"\x7fELF")
}

fn ending_of(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, ending)| ending)
}

fn has_pickle_ending(name: &str) -> bool {
    EXTENSIONS.iter().any(|known| ending_of(name).eq_ignore_ascii_case(known))
}

/// Returns whether a finding has a plausible name: in bytes that are not a pickle, this
/// distinguishes a hidden pickle from chance. A finding that the inspection was incomplete always counts.
fn is_likely(finding: &Finding) -> bool {
    let readable = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c))
    };
    finding.how == "limit" || (readable(&finding.module) && readable(&finding.name))
}
