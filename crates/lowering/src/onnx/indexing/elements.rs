//! Elements by index.

use lodstone_model::DType;
use lodstone_schema::Finding;
use lodstone_schema::numbers::{exact, length};

use super::Made;
use crate::onnx::{Graph, Size, Value};

/// What an index outside of a dim refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexMode {
    /// The nearest element.
    Clip,
    /// The element of the index modulo the dim.
    Wrap,
    /// Nothing: it is an error.
    Raise,
}

/// Axes that are indexed by tensors of indices, which broadcast.
#[derive(Debug)]
pub(crate) struct Indexed {
    /// The axes, in order.
    axes: Vec<i64>,
    /// The indices of each axis.
    indices: Vec<Value>,
    /// The sizes that the indices have in common.
    sizes: Vec<Size>,
}

impl Indexed {
    /// Returns the order of axes with the indexed ones first, and its inverse.
    fn fronted(&self, rank: i64) -> (Vec<i64>, Vec<i64>) {
        let rest = (0..rank).filter(|axis| !self.axes.contains(axis));
        let order: Vec<i64> = self.axes.iter().copied().chain(rest).collect();
        let mut places: Vec<(i64, i64)> = order.iter().copied().zip(0..).collect();
        places.sort_unstable();
        let inverse = places.into_iter().map(|(_, place)| place).collect();
        (order, inverse)
    }

    /// Returns the axis that the dims of the indices have in the result: that of the first one, if the axes are neighbors,
    /// and the first otherwise.
    fn place(&self) -> i64 {
        let is_adjacent = self.axes.windows(2).all(|pair| matches!(pair, [a, b] if b - a == 1));
        match self.axes.first() {
            Some(first) if is_adjacent => *first,
            _ => 0,
        }
    }
}

impl Graph {
    /// Returns indices as integers within a dim.
    pub(crate) fn indices(&mut self, indices: &Value, dim: &Size, mode: IndexMode) -> Made {
        if mode != IndexMode::Raise && dim.known().is_some_and(|dim| dim < 1) {
            return Err("expected a dim of at least 1, found 0".into());
        }
        let indices = self.cast(indices, DType::Int64)?;
        match mode {
            IndexMode::Clip => {
                let last = self.difference_of(dim, &Size::Known(1))?;
                let (first, last) = (self.long(0), self.scalar_of(&last)?);
                self.call("Clip", &[&indices, &first, &last], [])
            }
            IndexMode::Wrap => {
                let dim = self.scalar_of(dim)?;
                self.call("Mod", &[&indices, &dim], [])
            }
            IndexMode::Raise => Ok(indices),
        }
    }

    /// Returns what a list of indices, one for each of the first axes, refers to. `None` skips an axis; a mask stands for the
    /// places where it is true, and for an axis for each of its dims.
    ///
    /// # Errors
    /// If there is no index, a mask is a scalar, or a tensor has fewer axes.
    pub(crate) fn indexed(&mut self, x: &Value, list: &[Option<Value>]) -> Made<Indexed> {
        let (mut axes, mut indices, mut axis) = (Vec::new(), Vec::new(), 0);
        for index in list {
            match index {
                None => axis += 1,
                Some(mask) if mask.dtype() == DType::Bool => {
                    let rank = mask.rank()?;
                    if rank == 0 {
                        return Err("indexing with a scalar mask is not supported".into());
                    }
                    // [rank, selected]
                    let places = self.call("NonZero", &[mask], [])?;
                    for place in rank.numbers() {
                        let place = self.long(place);
                        indices.push(self.gather(&places, &place, 0)?);
                        axes.push(axis);
                        axis += 1;
                    }
                }
                Some(index) => {
                    indices.push(self.cast(index, DType::Int64)?);
                    axes.push(axis);
                    axis += 1;
                }
            }
        }
        if axis > x.rank()?.number() {
            return Err(format!("expected at most {} indices, found {axis}", x.rank()?).into());
        }
        if indices.is_empty() {
            return Err("expected an index, found none".into());
        }
        let sizes = self.broadcast_sizes(&indices)?;
        Ok(Indexed { axes, indices, sizes })
    }

    /// Returns the indices along all axes as one tensor: `[.., axes]`. ONNX counts those below 0 from the end, too.
    fn tuples(&mut self, indexed: &Indexed) -> Made {
        let mut columns = Vec::new();
        for index in &indexed.indices {
            let index = self.expand_to(index, &indexed.sizes)?;
            columns.push(self.unsqueeze(&index, &[-1])?);
        }
        match columns.as_slice() {
            [only] => Ok(only.clone()),
            all => self.concat(&all.iter().collect::<Vec<_>>(), -1),
        }
    }

    /// Returns the elements at indices. The dims of the indices take the place of the axes, or come first if these are apart.
    pub(crate) fn elements_at(&mut self, x: &Value, indexed: &Indexed) -> Made {
        if let ([axis], [index]) = (indexed.axes.as_slice(), indexed.indices.as_slice()) {
            return self.gather(x, index, *axis);
        }
        let whole = x.rank()?.number();
        let turned = self.transpose(x, &indexed.fronted(whole).0)?;
        let tuples = self.tuples(indexed)?;
        let y = self.call("GatherND", &[&turned, &tuples], [])?;
        // [indices.., rest..] -> [rest before, indices.., rest after]
        let (place, all, count) =
            (indexed.place(), y.rank()?.number(), length(indexed.sizes.len()));
        let before = (0..place).map(|axis| count + axis);
        let order = before.chain(0..count).chain(count + place..all);
        self.transpose(&y, &order.collect::<Vec<_>>())
    }

    /// Writes or reduces the elements at indices; the values are broadcast to the dims of what `elements_at` returns.
    pub(crate) fn put_at(
        &mut self,
        x: &Value,
        indexed: &Indexed,
        values: &Value,
        reduction: &str,
    ) -> Made {
        let whole = x.rank()?.number();
        let (order, inverse) = indexed.fronted(whole);
        let turned = self.transpose(x, &order)?;
        let tuples = self.tuples(indexed)?;
        let sizes = self.sizes_of(&turned)?;
        let place = indexed.place();
        let lost = || Finding::internal("an axis was lost");
        let rest = sizes.get(indexed.axes.len()..).ok_or_else(lost)?;
        let (lead, tail) = rest.split_at_checked(exact(place)?).ok_or_else(lost)?;
        let shape = [lead, &indexed.sizes[..], tail].concat();
        let values = self.expand_to(values, &shape)?;
        let behind = place + length(indexed.sizes.len());
        let order = (place..behind).chain(0..place).chain(behind..length(shape.len()));
        let values = self.transpose(&values, &order.collect::<Vec<_>>())?;
        let done = self.put_slices(&turned, &tuples, &values, reduction)?;
        self.transpose(&done, &inverse)
    }
}
