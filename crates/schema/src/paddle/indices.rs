//! The input of an operator that holds indices, ids or labels: the column `indices`.
//!
//! Negative ones do not count from the end, as in ONNX, but are errors, as in PaddlePaddle. The column has the slot, and what
//! differs from that:
//!
//! | word | meaning |
//! |---|---|
//! | `until=3.0` | negative indices count from the end since this release |
//! | `except=ignore_index` | the attribute with an index that stands for none |
//! | `below=depth,depth_tensor` | the attribute, or the input, with the number of classes: indices that are not below it are errors |
//! | `unless=allow_out_of_range` | the attribute that permits all indices |

use super::Release;

/// The input that holds indices.
#[derive(Debug, PartialEq, Eq)]
pub struct Indices {
    /// Its slot.
    pub slot: &'static str,
    /// The release since which negative indices count from the end.
    pub until: Option<Release>,
    /// The attribute with an index that stands for none.
    pub except: Option<&'static str>,
    /// The attribute and the input with the number of classes, if an index that is too large would not be noticed.
    pub below: Option<(&'static str, &'static str)>,
    /// The attribute that permits all indices.
    pub unless: Option<&'static str>,
}

impl Indices {
    /// Parses the column; the outer `None` is an unknown word, the inner one `-`.
    pub(super) fn parse(words: &'static str) -> Option<Option<Self>> {
        if words == "-" {
            return Some(None);
        }
        let mut words = words.split(' ');
        let slot = words.next().filter(|slot| !slot.contains('='))?;
        let mut indices = Self { slot, until: None, except: None, below: None, unless: None };
        for word in words {
            match word.split_once('=')? {
                ("until", release) => indices.until = Some(Release::parse(release)?),
                ("except", attribute) => indices.except = Some(attribute),
                ("below", count) => indices.below = Some(count.split_once(',')?),
                ("unless", attribute) => indices.unless = Some(attribute),
                _ => return None,
            }
        }
        Some(Some(indices))
    }
}
