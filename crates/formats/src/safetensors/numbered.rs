//! Files that are numbered parts of one model: `model-00002-of-00004.safetensors`.

/// The place of a file among its siblings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbered<'n> {
    stem: &'n str,
    /// The number of digits.
    width: usize,
    /// The number of files.
    count: usize,
}

/// The most files of one model.
const MAX_COUNT: usize = 100_000;

/// Returns the place of a file by its name, if it is one of several.
pub(super) fn numbered(name: &str) -> Option<Numbered<'_>> {
    let parts = name.strip_suffix(".safetensors")?;
    let (front, total) = parts.rsplit_once("-of-")?;
    let (stem, number) = front.rsplit_once('-')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_same_width = number.len() == total.len() && digits(number) && digits(total);
    let (at, count) = (number.parse::<usize>().ok()?, total.parse::<usize>().ok()?);
    let is_place = is_same_width && (1..=count).contains(&at) && count <= MAX_COUNT;
    is_place.then_some(Numbered { stem, width: total.len(), count })
}

impl Numbered<'_> {
    /// Returns the names of all files, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let Self { stem, width, count } = self;
        (1..=*count).map(move |at| name(stem, at, *count, *width))
    }
}

/// The number of digits in the names of new files.
pub(super) const WIDTH: usize = 5;

/// Returns the name of a file, counted from 1.
pub(super) fn name(stem: &str, at: usize, count: usize, width: usize) -> String {
    format!("{stem}-{at:0width$}-of-{count:0width$}.safetensors")
}
