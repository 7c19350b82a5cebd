//! Windows of images as rows of a matrix, whose channels are innermost.

use std::ops::Range;

use lodstone_schema::Finding;

use crate::error::Outcome;
use crate::gemm::{RowBlock, RowSlices, Rows, SLACK, part_of};
use crate::geometry::Windows;

/// The geometry of a convolution of one or two spatial dims.
#[derive(Debug)]
pub(super) struct Geometry {
    pub(super) channels: usize,
    /// The height and width of the images, of the windows, and of the results.
    pub(super) image: [usize; 2],
    pub(super) window: [usize; 2],
    pub(super) steps: [usize; 2],
    pub(super) strides: [usize; 2],
    pub(super) dilations: [usize; 2],
    /// The padding before the images; what is cropped before the results of a transposed convolution.
    pub(super) pads: [usize; 2],
}

/// The windows of images as rows of a matrix.
pub(super) struct Unfolded<'a, T> {
    pub(super) geometry: &'a Geometry,
    pub(super) image: &'a [T],
    /// The number of channels of a group.
    pub(super) channels: usize,
}

/// Returns the spatial dims as two, the first of which may be added.
fn plane(dims: &[usize], first: usize) -> Outcome<[usize; 2]> {
    match dims {
        [width] => Ok([first, *width]),
        [height, width] => Ok([*height, *width]),
        _ => Err(Finding::internal("a fast convolution has one or two spatial dims")),
    }
}

impl Geometry {
    /// Returns what windows do to images of the given sides.
    pub(super) fn of(
        windows: &Windows,
        channels: usize,
        sides: &[usize],
        steps: &[usize],
    ) -> Outcome<Self> {
        let before: Vec<usize> = windows.pads.iter().map(|pad| pad.0).collect();
        Ok(Self {
            channels,
            image: plane(sides, 1)?,
            window: plane(&windows.size, 1)?,
            steps: plane(steps, 1)?,
            strides: plane(&windows.strides, 1)?,
            dilations: plane(&windows.dilations, 1)?,
            pads: plane(&before, 0)?,
        })
    }

    /// Returns whether the windows are the pixels of the images.
    pub(super) fn is_pointwise(&self) -> bool {
        let [window, strides, pads] = [self.window, self.strides, self.pads];
        window == [1, 1] && strides == [1, 1] && pads == [0, 0] && self.image == self.steps
    }

    /// Returns the example of a result, and the origin of its window in the image, before the padding is removed.
    pub(super) fn origin(&self, row: usize) -> (usize, [usize; 2]) {
        let [height, width] = self.steps;
        let (line, column) = (row / width.max(1), row % width.max(1));
        let [down, right] = self.strides;
        (line / height.max(1), [line % height.max(1) * down, column * right])
    }

    /// Returns the origins of the windows of results from `first` on, as [`origin`](Self::origin) does.
    pub(super) fn origins(&self, first: usize) -> impl Iterator<Item = (usize, [usize; 2])> {
        let ([rows, columns], [down, right]) = (self.steps, self.strides);
        std::iter::successors(Some(self.origin(first)), move |&(example, [top, left])| {
            let next = match (left + right == columns * right, top + down == rows * down) {
                (false, _) => (example, [top, left + right]),
                (true, false) => (example, [top + down, 0]),
                (true, true) => (example + 1, [0, 0]),
            };
            Some(next)
        })
    }

    /// Returns how far the last element of a window is from the first.
    pub(super) fn reach(&self) -> [usize; 2] {
        let ([rows, columns], [down, right]) = (self.window, self.dilations);
        [rows.saturating_sub(1) * down, columns.saturating_sub(1) * right]
    }

    /// Returns the coordinate of an element of a window in an image, if it is not in the padding.
    pub(super) fn inside(&self, begin: usize, number: usize, axis: usize) -> Option<usize> {
        let of = |sides: &[usize; 2]| sides.get(axis).copied();
        let at = (begin + number * of(&self.dilations)?).checked_sub(of(&self.pads)?)?;
        (at < of(&self.image)?).then_some(at)
    }
}

/// Elements of a window that are neighbours in memory: those of some of its columns, with their channels.
pub(super) struct Run {
    /// The place of the first column in the window, less the padding.
    down: isize,
    right: isize,
    /// The number of columns.
    columns: usize,
    /// The channel of the first element.
    channel: usize,
    /// Where the first element is, after the first pixel of a window that is in the image.
    offset: usize,
    /// The range of the elements in the unfolded window.
    range: Range<usize>,
}

impl<T: Copy> Unfolded<'_, T> {
    /// Returns where the elements of a run begin in the images, and the columns of the run that are in an image; `None` if
    /// no column is.
    fn part(
        &self,
        group: usize,
        run: &Run,
        (example, [top, left]): (usize, [usize; 2]),
    ) -> Option<(usize, Range<usize>)> {
        let ([height, width], channels) = (self.geometry.image, self.geometry.channels);
        let line = top.checked_add_signed(run.down).filter(|line| *line < height)?;
        let begin = left.cast_signed() + run.right;
        let skipped = (-begin).max(0).cast_unsigned().min(run.columns);
        let end = (width.cast_signed() - begin).max(0).cast_unsigned().min(run.columns);
        if skipped >= end {
            return None;
        }
        // The first column in the image has all its channels, unless it is the first of the run.
        let channel = if skipped == 0 { run.channel } else { 0 };
        let column = (example * height + line) * width;
        let column = column.strict_add_signed(begin + skipped.cast_signed());
        Some((column * channels + group * self.channels + channel, skipped..end))
    }

    /// Returns the runs of some elements of a window.
    pub(super) fn runs(&self, inner: Range<usize>) -> Vec<Run> {
        let geometry = self.geometry;
        let ([_, width], [down, right]) = (geometry.window, geometry.dilations);
        let [above, before] = geometry.pads.map(usize::cast_signed);
        let [_, image] = geometry.image;
        let is_joined = right == 1 && self.channels == geometry.channels;
        let (mut runs, mut at) = (Vec::new(), inner.start);
        while at < inner.end {
            let (tap, channel) = (at / self.channels, at % self.channels);
            let (row, column) = (tap / width, tap % width);
            let columns = if is_joined { width - column } else { 1 };
            let len = (columns * self.channels - channel).min(inner.end - at);
            runs.push(Run {
                down: (row * down).cast_signed() - above,
                right: (column * right).cast_signed() - before,
                columns: (channel + len).div_ceil(self.channels),
                channel,
                offset: (row * down * image + column * right) * geometry.channels + channel,
                range: at - inner.start..at - inner.start + len,
            });
            at += len;
        }
        runs
    }

    /// Returns where the channels of a group begin in the first pixel of a window, if all of it is in the image.
    fn whole(&self, group: usize, (example, [top, left]): (usize, [usize; 2])) -> Option<usize> {
        let ([height, width], [above, before]) = (self.geometry.image, self.geometry.pads);
        let [down, right] = self.geometry.reach();
        let (top, left) = (top.checked_sub(above)?, left.checked_sub(before)?);
        let is_inside = top + down < height && left + right < width;
        let pixel = (example * height + top) * width + left;
        is_inside.then_some(pixel * self.geometry.channels + group * self.channels)
    }

    /// Writes the elements of the window with an origin; those in the padding are `blank`.
    pub(super) fn write(
        &self,
        group: usize,
        runs: &[Run],
        origin: (usize, [usize; 2]),
        blank: T,
        into: &mut [T],
    ) {
        if let Some(first) = self.whole(group, origin) {
            for run in runs {
                copy(self.image, first + run.offset, run.range.clone(), into);
            }
            return;
        }
        for run in runs {
            let Some(into) = into.get_mut(run.range.clone()) else { continue };
            let Some((first, columns)) = self.part(group, run, origin) else {
                into.fill(blank);
                continue;
            };
            let element = |column: usize| {
                (column * self.channels).saturating_sub(run.channel).min(into.len())
            };
            let (from, to) = (element(columns.start), element(columns.end));
            let (before, rest) = into.split_at_mut(from);
            let (now, after) = rest.split_at_mut(to - from);
            before.fill(blank);
            after.fill(blank);
            now.copy_from_slice(part_of(self.image, first, now.len()));
        }
    }
}

/// Copies elements of an image to a range of `into`. What follows may be overwritten, too.
#[inline(always)]
pub(super) fn copy<T: Copy>(image: &[T], mut from: usize, mut range: Range<usize>, into: &mut [T]) {
    while !range.is_empty() {
        let there = into.get_mut(range.start..).and_then(<[T]>::first_chunk_mut::<SLACK>);
        let source = image.get(from..).and_then(<[T]>::first_chunk::<SLACK>);
        let (Some(there), Some(source)) = (there, source) else {
            if let Some(into) = into.get_mut(range.clone()) {
                into.copy_from_slice(part_of(image, from, range.len()));
            }
            return;
        };
        *there = *source;
        range.start += SLACK;
        from += SLACK;
    }
}

impl Rows for Unfolded<'_, f32> {
    fn read<'r>(
        &'r self,
        block: &RowBlock,
        is_in_place: bool,
        unfolded: &'r mut Vec<f32>,
    ) -> RowSlices<'r> {
        let RowBlock { group, first, count, ref inner } = *block;
        let (runs, origins) = (self.runs(inner.clone()), self.geometry.origins(first).take(count));
        let write = |at, into: &mut [f32]| self.write(group, &runs, at, 0.0, into);
        let ([run], true) = (runs.as_slice(), is_in_place) else {
            return block.unfold(count, origins, unfolded, write);
        };
        let begin = |at| match self.whole(group, at) {
            Some(first) => Some(first + run.offset),
            None => self.part(group, run, at).filter(|it| it.1 == (0..run.columns)).map(|it| it.0),
        };
        let mut outside = Vec::new();
        let inside: Vec<Option<usize>> = origins
            .map(|at| {
                let begin = begin(at);
                outside.extend(begin.is_none().then_some(at));
                begin
            })
            .collect();
        let others = block.unfold(outside.len(), outside.into_iter(), unfolded, write);
        let mut others = (0..).map(|number| others.row(number));
        let row = |begin: Option<usize>| {
            begin.map(|begin| part_of(self.image, begin, inner.len())).or_else(|| others.next())
        };
        RowSlices::Each(inside.into_iter().filter_map(row).collect())
    }
}
