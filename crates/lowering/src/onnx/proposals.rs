//! Proposed regions: the anchors of images with the highest scores, moved, and without those that overlap better ones.
//!
//! | framework and release | what it means there | by |
//! |---|---|---|
//! | PaddlePaddle, `generate_proposals` | anchors of all cells are given; equal scores are by row, column and anchor; sides are at least 1, in v1 in the original image | `generate_proposals_kernel.cc` |
//! | Caffe2, `GenerateProposals` | the anchors of a cell are given; sides are at least `min_size` in the scaled image, and centers inside of it; boxes are clipped to whole pixels | `generate_proposals_op.cc`; recorded `generate_proposals` |
//! | Caffe2, equal scores | their order is that of a partial sort; here, it is by anchor, row and column | `generate_proposals_op.cc` |
//!
//! MXNet's `Proposal` has as many regions for each image as it declares, which repeat: its rule is of its own.

use lodstone_schema::Finding;

use super::boxes::{Corners, Edge, MAX_GROWTH, Measure, each};
use super::suppression::Suppression;
use super::{Graph, Size, Value};

type Made<T = Value> = Result<T, Finding>;

/// The anchors of each image with the highest scores, in their order.
pub(crate) struct Candidates {
    /// `[batch, candidates]`
    pub(crate) scores: Value,
    /// Their places among all anchors: `[batch, candidates]`.
    pub(crate) places: Value,
    /// `[batch, candidates, 4]`
    pub(crate) deltas: Value,
    /// `[batch, candidates, 4]`
    pub(crate) anchors: Value,
}

/// The regions of all images, by image and falling score.
pub(crate) struct Proposed {
    /// The image of each region: `[regions, 1]`.
    pub(crate) images: Value,
    /// `[regions, 4]`
    pub(crate) boxes: Value,
    /// `[regions]`
    pub(crate) scores: Value,
}

impl Graph {
    /// Returns the anchors of a cell `[anchors, 4]` at each cell of a grid of `[height, width]`: `[anchors * height * width,
    /// 4]`.
    pub(crate) fn anchors_of_cells(
        &mut self,
        anchors: &Value,
        columns: &Value,
        rows: &Value,
    ) -> Made {
        let sizes = [self.size_of(anchors, 0)?, self.size_of(rows, 0)?, self.size_of(columns, 0)?];
        let corners = self.corners(anchors)?;
        let corners = self.spread(&corners, &[1, 2])?;
        // [1, height, 1], and [width]
        let rows = self.unsqueeze(rows, &[1])?;
        let mut ways = [columns, &rows].into_iter().cycle();
        let corners = each(&corners, |corner| {
            let corner = self.add(corner, ways.next().ok_or("a coordinate was lost")?)?;
            self.expand_to(&corner, &sizes)
        })?;
        let boxes = self.stacked(&corners.each_ref())?;
        self.reshape(&boxes, &[-1, 4])
    }

    /// Returns at most `most` anchors of each image, of `scores` `[batch, anchors]`, `deltas` `[batch, anchors, 4]` and
    /// `anchors` `[anchors, 4]`.
    pub(crate) fn candidates(
        &mut self,
        scores: &Value,
        deltas: &Value,
        anchors: &Value,
        most: Option<i64>,
    ) -> Made<Candidates> {
        let [scores, places] = self.highest(scores, most, true)?;
        let (deltas, anchors) = (self.rows(deltas, &places)?, self.gather(anchors, &places, 0)?);
        Ok(Candidates { scores, places, deltas, anchors })
    }

    /// Moves anchors by deltas, and clips them to images, whose last column and row are `[batch, 1]`. Returns corners
    /// `[batch, candidates]`.
    pub(crate) fn moved_anchors(
        &mut self,
        deltas: &Value,
        anchors: &Value,
        edge: Edge,
        [last_column, last_row]: [&Value; 2],
    ) -> Made<Corners> {
        let (deltas, anchors) = (self.corners(deltas)?, self.corners(anchors)?);
        let anchors = self.centered(&anchors, Measure::half(edge))?;
        let moved = self.decoded(&deltas, &anchors, Some(MAX_GROWTH))?;
        let [left, top, right, bottom] = self.cornered(&moved, Measure::half(edge))?;
        Ok([
            self.clipped(&left, last_column)?,
            self.clipped(&top, last_row)?,
            self.clipped(&right, last_column)?,
            self.clipped(&bottom, last_row)?,
        ])
    }

    /// Returns the scores `[batch, 1, candidates]` for [`proposed`](Self::proposed): infinitely low unless all `marks` are
    /// true.
    pub(crate) fn eligible(&mut self, scores: &Value, marks: &[Value]) -> Made {
        let mut scores = scores.clone();
        let lowest = self.number(scores.dtype(), f64::NEG_INFINITY)?;
        for mark in marks {
            scores = self.choose(mark, &scores, &lowest)?;
        }
        self.unsqueeze(&scores, &[1])
    }

    /// Returns the candidates that are not suppressed. `corners` are `[batch, candidates]`, `scores` `[batch, 1,
    /// candidates]`.
    pub(crate) fn proposed(
        &mut self,
        corners: &Corners,
        scores: &Value,
        how: Suppression,
    ) -> Made<Proposed> {
        let chosen = self.suppressed(corners, scores, how)?;
        let (images, place) = (self.slice(&chosen, 1, 0, 1)?, self.slice(&chosen, 1, 2, 3)?);
        let places = self.concat(&[&images, &place], 1)?;
        let boxes = self.stacked(&corners.each_ref())?;
        let boxes = self.call("GatherND", &[&boxes, &places], [])?;
        let scores = self.call("GatherND", &[scores, &chosen], [])?;
        Ok(Proposed { images, boxes, scores })
    }

    /// Returns the deltas of anchors `[batch, anchors * 4, height, width]` by anchor, row and column: `[batch, anchors *
    /// height * width, 4]`.
    pub(crate) fn deltas_by_anchor(&mut self, deltas: &Value, anchors: &Size) -> Made {
        let sizes = self.sizes_of(deltas)?;
        let [batch, _, height, width] = sizes.as_slice() else {
            return Err(format!("expected deltas of rank 4, found rank {}", sizes.len()).into());
        };
        let cells = self.product_of(height, width)?;
        let deltas = self
            .reshape_to(deltas, &[batch.clone(), anchors.clone(), Size::Known(4), cells.clone()])?;
        let deltas = self.transpose(&deltas, &[0, 1, 3, 2])?;
        let all = self.product_of(anchors, &cells)?;
        self.reshape_to(&deltas, &[batch.clone(), all, Size::Known(4)])
    }
}
