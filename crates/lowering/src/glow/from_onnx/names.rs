//! Names as Glow assigns them: legal and unique.

use std::collections::{HashMap, HashSet};

/// The names of a program.
#[derive(Debug, Default)]
pub(crate) struct Names {
    taken: HashSet<String>,
    /// The names of the source program, which keep the numbers at their ends.
    original: HashSet<String>,
    /// The number to try next for each prefix, so that assigning names takes linear time.
    next: HashMap<String, u64>,
}

/// The maximum length of a name; Glow truncates longer ones.
const LONGEST: usize = 500;

impl Names {
    pub(crate) fn new(original: impl Iterator<Item = String>) -> Self {
        Self { original: original.collect(), ..Self::default() }
    }

    /// Returns a legal, unused name derived from `name`.
    pub(crate) fn give(&mut self, name: &str) -> String {
        let legal = legal(name);
        if self.taken.insert(legal.clone()) {
            return legal;
        }
        let stem = match legal.rsplit_once("__") {
            Some((stem, digits)) if is_number(digits) && !self.original.contains(&legal) => stem,
            _ => &legal,
        };
        let next = self.next.entry(stem.to_owned()).or_insert(1);
        loop {
            let name = format!("{stem}__{next}");
            *next += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a name of letters, digits and `_` that does not begin with a digit.
fn legal(name: &str) -> String {
    let is_legal = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let first = name.chars().next();
    let mut legal = String::with_capacity(name.len() + 1);
    if first.is_none_or(|first| first.is_ascii_digit()) {
        legal.push('A');
    }
    // Glow replaces each byte, not each character, by `_`.
    for letter in name.chars() {
        match is_legal(letter) {
            true => legal.push(letter),
            false => legal.extend(std::iter::repeat_n('_', letter.len_utf8())),
        }
    }
    if legal.len() > LONGEST {
        let hash = legal.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        legal.truncate(LONGEST);
        legal += &format!("_trunc_{hash}");
    }
    legal
}
