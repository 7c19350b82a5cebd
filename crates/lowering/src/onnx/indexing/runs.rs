//! Runs of equal elements, or of equal slices along an axis.

use lodstone_model::DType;

use super::Made;
use crate::onnx::{Graph, Value, int};

/// Runs along an axis.
pub(crate) struct Runs {
    /// The element or slice of each run.
    pub(crate) values: Value,
    /// Whether a run begins at each element: `[elements]`.
    begins: Value,
    /// The number of elements: `[1]`.
    count: Value,
}

impl Graph {
    /// Returns the runs along an axis; without one, of the flattened tensor.
    pub(crate) fn runs(&mut self, x: &Value, axis: Option<i64>) -> Made<Runs> {
        let (x, axis) = match axis {
            Some(axis) => (x.clone(), axis),
            None => (self.reshape(x, &[-1])?, 0),
        };
        let (after, before) = (self.slice(&x, axis, 1, i64::MAX)?, self.slice(&x, axis, 0, -1)?);
        let same = self.call("Equal", &[&after, &before], [])?;
        let others: Vec<i64> = x.rank()?.numbers().filter(|other| *other != axis).collect();
        let same = self.cast(&same, DType::Int32)?;
        let same = match others.is_empty() {
            true => same,
            false => self.reduce("ReduceMin", &same, &others, false)?,
        };
        let zero = self.number(DType::Int32, 0.0)?;
        let is_other = self.call("Equal", &[&same, &zero], [])?;
        // The first element, if there is one, differs from nothing.
        let count = self.dim(&x, axis)?;
        let one = self.longs(&[1]);
        let first = self.call("Min", &[&count, &one], [])?;
        let first = self.filled_as(DType::Bool, 1.0, &first)?;
        let begins = self.concat(&[&first, &is_other], 0)?;
        let values = self.call("Compress", &[&x, &begins], [int("axis", axis)])?;
        Ok(Runs { values, begins, count })
    }
}

impl Runs {
    /// Returns the number of the run of each element: `[elements]`.
    pub(crate) fn numbers(&self, graph: &mut Graph) -> Made {
        let begins = graph.cast(&self.begins, DType::Int64)?;
        let along = graph.long(0);
        let counted = graph.call("CumSum", &[&begins, &along], [])?;
        let minus = graph.long(-1);
        graph.add(&counted, &minus)
    }

    /// Returns the number of elements of each run: `[runs]`.
    pub(crate) fn lengths(&self, graph: &mut Graph) -> Made {
        let begins = graph.places(&self.begins)?;
        let rest = graph.slice(&begins, 0, 1, i64::MAX)?;
        let ends = graph.concat(&[&rest, &self.count], 0)?;
        graph.sub(&ends, &begins)
    }
}
