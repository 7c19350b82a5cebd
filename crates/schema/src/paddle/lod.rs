//! The LoD of an operator's outputs: the column `LoD`.
//!
//! | value | meaning |
//! |---|---|
//! | `-` | no output has LoD |
//! | `Out=X Mask=X` | outputs share the LoD of inputs; the others have none |
//! | `Out=X+` | and an output that concatenates all variables of `X` also concatenates their LoD |
//! | `computed:levels` | the native function or the rule computes it; a program declares that many [`Levels`] |
//! | `?` | not determined: no operator that is computed has it |
//!
//! | levels | number that a program declares |
//! |---|---|
//! | `declared` | that of the output's type, or of the variable whose gradient it is |
//! | `0`, `1` | this number |
//! | `X` | that of an input |
//! | `X-1` | one less, at least 0 |
//! | `X\|1` | that of an input, at least 1 |
//! | `X!Lengths` | that of an input; 0 with the input `Lengths` |

use super::types::slot;

/// The LoD of an operator's outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LodRule {
    /// Not determined. No operator that is computed has this rule.
    Unknown,
    /// The native function or the rule computes it. Programs declare a number of levels.
    Computed(Levels),
    /// Outputs share the LoD of inputs.
    Shared(SharedLod),
}

/// The number of LoD levels that a program declares for outputs whose LoD is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// That of the output's type, or of the variable whose gradient it is.
    Declared,
    /// A constant.
    Fixed(u32),
    /// That of an input.
    Of(&'static str),
    /// One less than that of an input.
    Below(&'static str),
    /// That of an input, or 1 if it has none.
    AtLeastOne(&'static str),
    /// That of an input; 0 if there is another input.
    Unless(&'static str, &'static str),
}

/// The outputs of an operator that share the LoD of inputs, each slot once. The other outputs have no LoD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLod(Vec<Share>);

/// An output slot that shares the LoD of an input slot. If the output has another number of rows, it has no LoD. If the
/// input slot has several variables, each variable of the output slot shares the LoD of the one at the same position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The output slot.
    pub output: &'static str,
    /// The input slot.
    pub input: &'static str,
    /// Whether an output that concatenates the rows of all variables also concatenates their LoD.
    pub joins: bool,
}

impl LodRule {
    pub(super) fn parse(words: &'static str) -> Option<Self> {
        Some(match words {
            "?" => Self::Unknown,
            "-" => Self::Shared(SharedLod(Vec::new())),
            _ => match words.strip_prefix("computed:") {
                Some(levels) => Self::Computed(Levels::parse(levels)?),
                None => {
                    let shares = words.split(' ').map(Share::parse);
                    Self::Shared(SharedLod(shares.collect::<Option<_>>()?))
                }
            },
        })
    }
}

impl Levels {
    fn parse(text: &'static str) -> Option<Self> {
        let (first, rest) = text.split_at(text.find(['-', '|', '!']).unwrap_or(text.len()));
        Some(match (slot(first), rest) {
            (Some(slot), "") => Self::Of(slot),
            (Some(slot), "-1") => Self::Below(slot),
            (Some(slot), "|1") => Self::AtLeastOne(slot),
            (Some(of), other) => Self::Unless(of, slot(other.strip_prefix('!')?)?),
            (None, _) if text == "declared" => Self::Declared,
            (None, _) => Self::Fixed(text.parse().ok()?),
        })
    }

    /// Returns the number of levels, beside those of the output's type. `of` returns the number of levels of the first
    /// variable of an input slot, `None` if the slot is empty.
    pub fn count(self, of: impl Fn(&str) -> Option<u32>) -> u32 {
        // An empty slot has no levels.
        let levels = |slot| of(slot).unwrap_or(0);
        match self {
            Self::Declared => 0,
            Self::Fixed(levels) => levels,
            Self::Of(slot) => levels(slot),
            Self::Below(slot) => levels(slot).saturating_sub(1),
            Self::AtLeastOne(slot) => levels(slot).max(1),
            Self::Unless(_, other) if of(other).is_some() => 0,
            Self::Unless(slot, _) => levels(slot),
        }
    }
}

impl Share {
    fn parse(word: &'static str) -> Option<Self> {
        let (output, source) = word.split_once('=')?;
        let input = source.trim_end_matches('+');
        Some(Self { output, input, joins: source.ends_with('+') })
    }
}

impl SharedLod {
    /// Returns the rule that no output has LoD.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns the source of the LoD of an output slot, if any.
    pub fn source(&self, output: &str) -> Option<Share> {
        self.0.iter().copied().find(|share| share.output == output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_number_of_levels_is_refused() {
        let unknown =
            ["computed", "computed:", "computed:x", "computed:X-2", "computed:X+1", "Out"];
        let read: Vec<_> = unknown.iter().filter(|it| LodRule::parse(it).is_some()).collect();
        assert!(read.is_empty(), "{read:?}");
        let of = |slot: &str| (slot == "X").then_some(2);
        let numbers = [("declared", 0), ("1", 1), ("X", 2), ("X-1", 1), ("Y|1", 1), ("X!Y", 2)];
        for (text, number) in numbers.into_iter().chain([("X|1", 2), ("Y-1", 0), ("Y!X", 0)]) {
            assert_eq!(Levels::parse(text).map(|it| it.count(of)), Some(number), "{text}");
        }
    }
}
