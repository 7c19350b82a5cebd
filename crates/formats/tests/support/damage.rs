//! Damage that applies to every format: cuts and mutations of valid files.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lodstone_formats::{Format, Structure, WriteOptions};
use lodstone_store::MemoryStore;

use super::Random;
use super::counting::peak_of;
use super::subjects::read;

/// A format to be damaged.
pub struct Subject {
    pub format: &'static Format,
    pub structure: Structure,
}

impl Subject {
    /// Reads bytes, and fails on a panic, excessive memory, or an error without details; returns whether
    /// the bytes were accepted as a file of this format.
    pub fn takes(&self, bytes: &[u8], what: &str) -> bool {
        let (result, peak) =
            peak_of(|| catch_unwind(AssertUnwindSafe(|| read(self.format, bytes))));
        let result = result.unwrap_or_else(|_| panic!("{}: panics: {what}", self.format.name));
        let allowed = bytes.len() * self.structure.memory_factor + self.structure.memory_constant;
        assert!(peak <= allowed, "{what}: held {peak} bytes for {}", bytes.len());
        // A program that was read can be written, or is rejected.
        if let Some(model) = result.as_ref().ok().filter(|model| model.main().is_some()) {
            let path = MemoryStore::default().location("written");
            let write = || self.format.write(model, path, &WriteOptions::default()).map(drop);
            let written = catch_unwind(AssertUnwindSafe(write));
            let _ = written.unwrap_or_else(|_| panic!("{}: panics: {what}", self.format.name));
        }
        if let Err(error) = &result {
            let message = error.to_string();
            let says = |word| message.contains(word);
            let expected = says("expected") && says("found") && says("offset");
            let is_limit = says("limit of this reader") && says("offset");
            // Damage can turn a file into one of another kind.
            let is_other = says("is not supported") || says("is an array of");
            assert!(expected || is_limit || is_other, "{what}: {message}");
        }
        result.is_ok()
    }

    /// Cuts a file at `places`; each cut must be an error.
    pub fn cut(
        &self,
        name: &str,
        content: &[u8],
        places: impl IntoIterator<Item = usize>,
    ) -> usize {
        let mut count = 0;
        for place in places {
            let what = format!("{name} cut at {place}");
            assert!(!self.takes(&content[..place], &what), "{what} is taken for whole");
            count += 1;
        }
        count
    }

    /// Flips, sets, removes, repeats and inserts bytes of files, 10,000 times; returns how often that
    /// was an error.
    pub fn mutate(&self, files: &[(String, Vec<u8>)], seed: u64) -> usize {
        let mut random = Random::new(seed);
        let mut noticed = 0;
        for round in 0..10_000 {
            let (name, content) = &files[random.below(files.len())];
            let mut bytes = content.clone();
            for _ in 0..=random.below(4) {
                self.change(&mut bytes, &mut random);
            }
            noticed += usize::from(!self.takes(&bytes, &format!("{name}, mutation {round}")));
        }
        noticed
    }

    fn change(&self, bytes: &mut Vec<u8>, random: &mut Random) {
        if bytes.is_empty() {
            return;
        }
        let Structure { tokens, head, tail, .. } = self.structure;
        let place = match random.below(8) {
            0 => random.below(bytes.len()),
            1..4 if tail > 0 => bytes.len() - 1 - random.below(bytes.len().min(tail)),
            _ => random.below(bytes.len().min(head)),
        };
        let some = place..(place + random.below(16)).min(bytes.len());
        let token = tokens[random.below(tokens.len())];
        match random.below(7) {
            0 => bytes[place] ^= 1 << random.below(8),
            1 => bytes[place] = random.next() as u8,
            2 => bytes[place] = token,
            3 => bytes.insert(place, token),
            4 => drop(bytes.drain(some)),
            5 => drop(bytes.splice(place..place, bytes[some].to_vec())),
            _ => bytes[some].fill(token),
        }
    }
}
