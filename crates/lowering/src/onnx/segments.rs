//! Consecutive groups of rows, given by lengths or offsets.
//!
//! The group of each row is the number of groups that end before it: a one is added at each end, and a cumulative sum
//! computed. That is linear in rows and groups, and needs no loop. Rows outside of all groups are in an additional one
//! after the last, which is dropped at the end.

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::{Graph, Size, Value};

type Outcome<T = Value> = Result<T, Finding>;

/// The assignment of rows to groups.
pub(crate) struct Segments {
    /// The index of the group of each row: `[rows]`.
    pub(crate) number: Value,
    /// The first row of each group: `[groups]`.
    pub(crate) starts: Value,
    /// The number of groups.
    pub(crate) groups: Size,
    /// The number of rows.
    pub(crate) rows: Size,
}

impl Graph {
    /// Returns the groups of rows by their lengths.
    pub(crate) fn segments_of(&mut self, lengths: &Value, rows: &Size) -> Outcome<Segments> {
        let lengths = self.cast(lengths, DType::Int64)?;
        let lengths = self.reshape(&lengths, &[-1])?;
        let groups = self.size_of(&lengths, 0)?;
        let axis = self.long(0);
        let ends = self.call("CumSum", &[&lengths, &axis], [])?;
        let starts = self.sub(&ends, &lengths)?;
        let number = self.ends_before(&ends, &groups, rows)?;
        Ok(Segments { number, starts, groups, rows: rows.clone() })
    }

    /// Returns the groups of rows by their offsets, which with `has_end` include the end of the last group.
    pub(crate) fn segments_from(
        &mut self,
        offsets: &Value,
        rows: &Size,
        has_end: bool,
    ) -> Outcome<Segments> {
        let offsets = self.cast(offsets, DType::Int64)?;
        let count = self.size_of(&offsets, 0)?;
        let groups = self.difference_of(&count, &Size::Known(i64::from(has_end)))?;
        if groups.known().is_some_and(|groups| groups < 0) {
            return Err("expected an offset where the last group ends".into());
        }
        // A group ends where the next begins.
        let starts = self.cut(&offsets, 0, &Size::Known(0), &groups)?;
        let end_count = self.difference_of(&count, &Size::Known(1))?;
        let ends = self.cut(&offsets, 0, &Size::Known(1), &end_count)?;
        let number = self.ends_before(&ends, &end_count, rows)?;
        Ok(Segments { number, starts, groups, rows: rows.clone() })
    }

    /// Counts the `ends` that are not after each row.
    fn ends_before(&mut self, ends: &Value, count: &Size, rows: &Size) -> Outcome {
        // An end after all rows is counted after them.
        let last = self.scalar_of(rows)?;
        let ends = self.call("Min", &[ends, &last], [])?;
        let marked = self.sum_of(rows, &Size::Known(1))?;
        let zeros = self.filled_to(DType::Int64, 0.0, &[marked])?;
        let ones = self.filled_to(DType::Int64, 1.0, std::slice::from_ref(count))?;
        let marks = self.put_elements(&zeros, &ends, &ones, 0, "add")?;
        let axis = self.long(0);
        let number = self.call("CumSum", &[&marks, &axis], [])?;
        self.cut(&number, 0, &Size::Known(0), rows)
    }

    /// Reshapes a vector so that it broadcasts along the first axis of another value.
    pub(crate) fn along_rows(&mut self, vector: &Value, like: &Value) -> Outcome {
        let rank = like.rank()?;
        let Some(rows) = like.size(0)? else { return self.along(vector, 0, rank.number()) };
        let mut dims = vec![1; rank.count()];
        dims.iter_mut().take(1).for_each(|first| *first = rows);
        self.reshape(vector, &dims)
    }
}

impl Segments {
    /// Returns whether each row is in a group.
    pub(crate) fn is_inside(&self, graph: &mut Graph) -> Outcome {
        let groups = graph.scalar_of(&self.groups)?;
        graph.call("Less", &[&self.number, &groups], [])
    }

    /// Replaces the indices of rows outside of all groups, which have no meaning, by 0.
    pub(crate) fn numbers(&self, graph: &mut Graph, numbers: &Value) -> Outcome {
        let inside = self.is_inside(graph)?;
        let numbers = graph.cast(numbers, DType::Int64)?;
        let none = graph.long(0);
        graph.choose(&inside, &numbers, &none)
    }

    /// Returns for each row the value of its group; for rows outside of all groups, that of the last one.
    pub(crate) fn spread(&self, graph: &mut Graph, of_groups: &Value) -> Outcome {
        let last = match self.groups.known() {
            Some(groups) => Size::Known((groups - 1).max(0)),
            None => graph.difference_of(&self.groups, &Size::Known(1))?,
        };
        let last = graph.scalar_of(&last)?;
        let number = graph.call("Min", &[&self.number, &last], [])?;
        graph.gather(of_groups, &number, 0)
    }

    /// Returns the position of each row within its group.
    pub(crate) fn within(&self, graph: &mut Graph) -> Outcome {
        let (first, end, step) = (graph.long(0), graph.scalar_of(&self.rows)?, graph.long(1));
        let mut row = graph.call("Range", &[&first, &end, &step], [])?;
        if let Some(rows) = self.rows.known() {
            row = graph.reshape(&row, &[rows])?;
        }
        let start = self.spread(graph, &self.starts)?;
        graph.sub(&row, &start)
    }

    /// Sums the rows of each group: `[rows, ..]` become `[groups, ..]`.
    pub(crate) fn sum(&self, graph: &mut Graph, values: &Value) -> Outcome {
        self.reduced(graph, values, 0.0, "add")
    }

    /// Returns the greatest element of the rows of each group; those of empty groups are infinitely low.
    pub(crate) fn greatest(&self, graph: &mut Graph, values: &Value) -> Outcome {
        self.reduced(graph, values, f64::NEG_INFINITY, "max")
    }

    fn reduced(&self, graph: &mut Graph, values: &Value, empty: f64, reduction: &str) -> Outcome {
        let mut sizes = graph.sizes_of(values)?;
        let number = graph.along_rows(&self.number, values)?;
        let number = graph.expand_to(&number, &sizes)?;
        if let Some(first) = sizes.first_mut() {
            *first = graph.sum_of(&self.groups, &Size::Known(1))?;
        }
        let empty = graph.filled_to(values.dtype(), empty, &sizes)?;
        let all = graph.put_elements(&empty, &number, values, 0, reduction)?;
        graph.cut(&all, 0, &Size::Known(0), &self.groups)
    }

    /// Fills each group up to `length` rows; further rows are dropped: `[groups * length, ..]`.
    pub(crate) fn padded(
        &self,
        graph: &mut Graph,
        values: &Value,
        length: &Size,
        fill: f64,
    ) -> Outcome {
        let within = self.within(graph)?;
        let count = graph.scalar_of(length)?;
        let is_inside = self.is_inside(graph)?;
        let is_kept = graph.call("Less", &[&within, &count], [])?;
        let is_kept = graph.call("And", &[&is_inside, &is_kept], [])?;
        let place = graph.mul(&self.number, &count)?;
        let place = graph.add(&place, &within)?;
        // Dropped rows are put behind the last one.
        let all = graph.product_of(&self.groups, length)?;
        let last = graph.scalar_of(&all)?;
        let place = graph.choose(&is_kept, &place, &last)?;
        let mut sizes = graph.sizes_of(values)?;
        if let Some(first) = sizes.first_mut() {
            *first = graph.sum_of(&all, &Size::Known(1))?;
        }
        let filled = graph.filled_to(values.dtype(), fill, &sizes)?;
        let rows = graph.put_rows(&filled, &place, values, "none")?;
        graph.cut(&rows, 0, &Size::Known(0), &all)
    }
}
