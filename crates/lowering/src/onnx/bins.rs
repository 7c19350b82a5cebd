//! The elements of windows, as lists of places along each axis: for windows that differ in size, or that ONNX's pools do not
//! have.

use lodstone_model::DType;
use lodstone_schema::Finding;
use lodstone_schema::numbers::{exact, length};

use super::sizes::Size;
use super::{Graph, Value, int};

type Outcome<T = Value> = Result<T, Finding>;

/// The elements of the windows along an axis.
pub(crate) struct Bins {
    count: Size,
    /// The places of the elements of each window, of shape `[count, width]`. Smaller windows repeat their last place.
    pub(crate) places: Value,
    /// Of windows that differ in size.
    pub(crate) uneven: Option<Uneven>,
    /// The elements of the largest window.
    width: Size,
}

pub(crate) struct Uneven {
    /// Which places are no repetitions, of shape `[count, width]`.
    pub(crate) inside: Value,
    /// The elements of each window, of shape `[count]`.
    pub(crate) sizes: Value,
}

/// The elements of the windows of images.
struct Grid {
    /// Of shape `[batch, channels, .., width]`, with the numbers of windows between.
    elements: Value,
    /// The places of the elements of all windows in the plane, as a list.
    places: Value,
    width: Size,
}

/// Returns the order of axes in which pairs of two kinds are apart: `kept` axes before, then all first ones, then all second
/// ones.
pub(super) fn parted(kept: i64, pairs: usize) -> Vec<i64> {
    let of = |kind: i64| (0..length(pairs)).map(move |pair| kept + 2 * pair + kind);
    (0..kept).chain(of(0)).chain(of(1)).collect()
}

impl Bins {
    /// Lists the places of the elements of each window, of which it must have some.
    pub(crate) fn listed(graph: &mut Graph, windows: &[Vec<i64>]) -> Outcome<Self> {
        let sizes: Vec<i64> = windows.iter().map(|window| length(window.len())).collect();
        let width = sizes.iter().copied().fold(1, i64::max); // No windows have places of any width.
        let mut places = Vec::new();
        for window in windows {
            let last = window.last().ok_or("expected windows with elements of the image")?;
            places.extend(window.iter().chain(std::iter::repeat(last)).take(exact(width)?));
        }
        let shape = [length(windows.len()), width];
        let uneven = sizes.iter().any(|size| *size != width).then(|| {
            let inside = sizes.iter().flat_map(|size| (0..width).map(move |step| step < *size));
            let inside = graph.flags(&inside.collect::<Vec<_>>(), shape.map(i64::unsigned_abs));
            Uneven { inside, sizes: graph.longs(&sizes) }
        });
        let places = graph.longs(&places);
        let places = graph.reshape(&places, &shape)?;
        Ok(Self { places, uneven, count: Size::Known(shape[0]), width: Size::Known(width) })
    }

    /// Returns the windows of an [adaptive pool](super::adaptive) of which the number or the dim is unknown.
    pub(crate) fn adaptive(graph: &mut Graph, number: &Size, dim: &Size) -> Outcome<Self> {
        let (count, dim) = (graph.scalar_of(number)?, graph.scalar_of(dim)?);
        let one = graph.long(1);
        let numbers = graph.counting(&count, DType::Int64)?;
        let starts = graph.mul(&numbers, &dim)?;
        // The end is rounded up.
        let (rest, ends) = (graph.sub(&count, &one)?, graph.add(&starts, &dim)?);
        let ends = graph.add(&ends, &rest)?;
        let (starts, ends) = (graph.div(&starts, &count)?, graph.div(&ends, &count)?);
        let sizes = graph.sub(&ends, &starts)?;
        // No windows have places of any width.
        let least = graph.longs(&[1]);
        let all = graph.concat(&[&sizes, &least], 0)?;
        let width = graph.reduce("ReduceMax", &all, &[0], false)?;
        let steps = graph.counting(&width, DType::Int64)?;
        let (starts, lasts) = (graph.unsqueeze(&starts, &[1])?, graph.sub(&ends, &one)?);
        let (places, lasts) = (graph.add(&starts, &steps)?, graph.unsqueeze(&lasts, &[1])?);
        let inside = graph.call("LessOrEqual", &[&places, &lasts], [])?;
        let places = graph.call("Min", &[&places, &lasts], [])?;
        let uneven = Some(Uneven { inside, sizes });
        Ok(Self { places, uneven, count: number.clone(), width: Size::Value(width) })
    }
}

impl Graph {
    /// Returns the maximum of each window along the spatial axes of images `[batch, channels, ..]`, and its place in the
    /// plane of the image.
    pub(crate) fn maxima_of(&mut self, x: &Value, bins: &[Bins]) -> Outcome<[Value; 2]> {
        let counts: Vec<Size> = bins.iter().map(|bins| bins.count.clone()).collect();
        let Grid { elements, places, width } = self.elements_of(x, bins)?;
        let best = self.call("ArgMax", &[&elements], [int("axis", -1), int("keepdims", 1)])?;
        let values = self.call("GatherElements", &[&elements, &best], [int("axis", -1)])?;
        let mut shape = vec![self.size_of(x, 0)?, self.size_of(x, 1)?];
        shape.extend_from_slice(&counts);
        let (values, best) = (self.reshape_to(&values, &shape)?, self.reshape_to(&best, &shape)?);
        let all = self.product_of_all(&counts)?;
        let all = self.scalar_of(&all)?;
        let windows = self.counting(&all, DType::Int64)?;
        let width = self.scalar_of(&width)?;
        let firsts = self.mul(&windows, &width)?;
        let firsts = self.reshape_to(&firsts, &counts)?;
        let best = self.add(&best, &firsts)?;
        let places = self.gather(&places, &best, 0)?;
        Ok([values, places])
    }

    /// Returns the elements of all windows.
    fn elements_of(&mut self, x: &Value, all: &[Bins]) -> Outcome<Grid> {
        let (mut elements, mut places, mut stride) = (x.clone(), self.long(0), Size::Known(1));
        let mut width = Size::Known(1);
        // From the last axis on: each becomes one of windows, and one of the elements of a window.
        for (behind, bins) in all.iter().rev().enumerate() {
            let axis = length(all.len() - behind) + 1;
            elements = self.gather(&elements, &bins.places, axis)?;
            let step = self.scalar_of(&stride)?;
            let own = self.mul(&bins.places, &step)?;
            let own = self.with_axes(&own, 2 * behind)?;
            places = self.add(&own, &places)?;
            let dim = self.size_of(x, axis)?;
            stride = self.product_of(&stride, &dim)?;
            width = self.product_of(&width, &bins.width)?;
        }
        let elements = self.transpose(&elements, &parted(2, all.len()))?;
        let mut shape = vec![self.size_of(x, 0)?, self.size_of(x, 1)?];
        shape.extend(all.iter().map(|bins| &bins.count).chain([&width]).cloned());
        let elements = self.reshape_to(&elements, &shape)?;
        let places = self.transpose(&places, &parted(0, all.len()))?;
        let places = self.reshape(&places, &[-1])?;
        Ok(Grid { elements, places, width })
    }

    /// Appends axes of size 1.
    pub(crate) fn with_axes(&mut self, value: &Value, count: usize) -> Outcome {
        let first = value.rank()?.number();
        match count {
            0 => Ok(value.clone()),
            _ => self.unsqueeze(value, &(first..).take(count).collect::<Vec<_>>()),
        }
    }
}
