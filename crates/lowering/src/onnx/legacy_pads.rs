//! Caffe2's `legacy_pad`, by which nets of Caffe and of old releases compute their padding.
//!
//! | `legacy_pad` | padding |
//! |---|---|
//! | 1, valid | none |
//! | 2, same | for one window in each stride, the larger half at the end |
//! | 3, Caffe | as declared, and at the end as much as the last window needs when their number is rounded up |
//!
//! Source of truth: `ComputeSizeAndPad` in `conv_pool_op_base.h`; recorded `conv_legacy_same`, `max_pool_same`,
//! `conv_legacy_caffe`, `average_pool_caffe`.

use lodstone_schema::{Code, Finding};

use super::windows::{Pads, Rounding, Window, Windows};

type Outcome<T> = Result<T, Finding>;

/// A way to pad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LegacyPad {
    Valid,
    Same,
    Caffe,
}

impl LegacyPad {
    /// Returns the way of the argument `legacy_pad`; `None` if the padding is explicit.
    pub(crate) fn of(code: i64) -> Outcome<Option<Self>> {
        match code {
            0 => Ok(None),
            1 => Ok(Some(Self::Valid)),
            2 => Ok(Some(Self::Same)),
            3 => Ok(Some(Self::Caffe)),
            other => {
                let what = format!("expected 0, 1, 2 or 3 as `legacy_pad`, found {other}");
                Err(Finding::from(what).about_attribute("legacy_pad"))
            }
        }
    }

    /// Checks that windows may be padded this way.
    pub(crate) fn check(self, windows: &Windows) -> Outcome<()> {
        let pads = windows.pads();
        if self == Self::Same && windows.dilations().iter().any(|it| *it != 1) {
            return Err("Caffe2 has no dilations with `legacy_pad` 2".into());
        }
        match self == Self::Caffe || pads.is_none() {
            true => Ok(()),
            false => {
                let pads = pads.list();
                Err(format!("expected no pads beside `legacy_pad`, found {pads:?}").into())
            }
        }
    }

    /// Returns how the number of windows over images of unknown dims is rounded. ONNX leaves out windows that begin behind
    /// the image, as Caffe does with padding.
    ///
    /// # Errors
    /// If there may be such windows without padding, or `is_whole` requires that there are none.
    pub(crate) fn rounding(self, windows: &Windows, is_whole: bool) -> Outcome<Rounding> {
        let is_fit = |window: Window| window.begins_inside() || !is_whole && window.end() > 0;
        match self {
            Self::Valid | Self::Same => Ok(Rounding::Down),
            Self::Caffe if windows.iter().all(is_fit) => Ok(Rounding::UpInside),
            Self::Caffe => Err(unknown("`legacy_pad` 3")),
        }
    }

    /// Returns windows with explicit padding over an image of some dims; `None` stands for unknown ones.
    ///
    /// # Errors
    /// What Caffe2 does not compute, or what depends on unknown dims.
    pub(crate) fn applied(self, windows: &Windows, dims: Option<&[i64]>) -> Outcome<Windows> {
        self.check(windows)?;
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        for (axis, window) in windows.iter().enumerate() {
            let size = dims.and_then(|dims| dims.get(axis)).copied();
            let (begin, end) = match (self, size) {
                (Self::Valid, _) => (0, 0),
                (Self::Same, Some(size)) => same(window, size)?,
                (Self::Same, None) => window.same_of_any()?,
                (Self::Caffe, Some(size)) => (window.begin(), rounded_up(window, size)?),
                (Self::Caffe, None) => (window.begin(), window.up_of_any()?),
            };
            begins.push(begin);
            ends.push(end);
        }
        windows.with_pads(&Pads { begins, ends })
    }
}

/// The finding of dims that padding depends on.
fn unknown(what: &str) -> Finding {
    Finding::new(Code::UnknownDims, format!("the dims must be known for {what}"))
}

/// Returns the pads with which each step has a result.
fn same(window: Window, size: i64) -> Outcome<(i64, i64)> {
    let total = window.lack(size)?;
    // Halves of negative pads are rounded to 0, as in C.
    let head = total / 2;
    if head < 0 {
        let kernel = window.kernel();
        return Err(format!(
            "`legacy_pad` 2 with a kernel of {kernel} crops a dim of {size}, which is not supported"
        )
        .into());
    }
    Ok((head, (total - head).max(0)))
}

/// Returns the pad at the end with which the number of steps is rounded up.
fn rounded_up(window: Window, size: i64) -> Outcome<i64> {
    if !window.fits(size)? {
        return Err("the window does not fit the image".into());
    }
    let rounding = if window.end() > 0 { Rounding::UpInside } else { Rounding::Up };
    let steps = window.count(size, rounding)?;
    if steps <= window.count(size, Rounding::Down)? {
        return Ok(window.end());
    }
    let begin = window.place(steps - 1, 0);
    if begin >= size {
        return Err(format!(
            "`legacy_pad` 3: the last window begins at {begin}, behind the {size} elements of the image, where Caffe2 \
             computes nothing"
        )
        .into());
    }
    window.end_of(size, steps)
}

impl Window {
    /// Returns the pads of `legacy_pad` 2, where they do not depend on the dim.
    fn same_of_any(self) -> Outcome<(i64, i64)> {
        let total = self.kernel() - 1;
        match self.stride() {
            1 => Ok((total / 2, total - total / 2)),
            _ => Err(unknown("`legacy_pad` 2")),
        }
    }

    /// Returns the pad at the end of `legacy_pad` 3: with a stride less one, the number of windows is rounded up. None of
    /// them may begin behind the image.
    fn up_of_any(self) -> Outcome<i64> {
        match self.begins_inside() {
            true => Ok(self.end() + self.stride() - 1),
            false => Err(unknown("`legacy_pad` 3")),
        }
    }
}
