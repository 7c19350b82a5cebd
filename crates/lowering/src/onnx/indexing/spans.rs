//! Spans of elements along axes.
//!
//! `Slice` clamps a start below `-dim` to the first element, and an end to before it. Backwards, such a start would thus select
//! an element, which only some frameworks do: what is emitted does not depend on it.

use lodstone_schema::Finding;
use lodstone_schema::places::at;

use super::{BEYOND, Made};
use crate::onnx::{Graph, Size, Value, required};

/// How a framework reads the bounds of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// Those below 0 count from the end; all are then clamped to the dim.
    Clamped,
    /// Those below 0 count from the end. Spans lie within the dim, and have elements.
    Within,
    /// Those below 0 count from behind the last element: -1 is the end.
    BehindLast,
    /// As `Clamped`, but backwards, a start below `-dim` is the first element, and an end of -1 or below `-dim` is before it.
    BeforeFirst,
    /// As `BeforeFirst`, but an end below `-dim` is the first element.
    ToFirst,
}

/// Elements along an axis. Without bounds, it begins or ends with the dim.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) axis: i64,
    pub(crate) start: Option<Size>,
    pub(crate) end: Option<Size>,
    pub(crate) step: Size,
}

/// Spans along several axes, with a bound for each axis.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    pub(crate) axes: Vec<i64>,
    pub(crate) starts: Value,
    pub(crate) ends: Value,
    /// `None` if all are 1.
    pub(crate) steps: Option<Value>,
}

impl Span {
    /// Returns the span of all elements.
    pub(crate) const fn all(axis: i64) -> Self {
        Self { axis, start: None, end: None, step: Size::Known(1) }
    }

    /// Returns the start or the end.
    fn bound(&self, bound: Option<&Size>, forward: i64, backward: i64) -> Made<Size> {
        Ok(match (bound, self.step.known()) {
            (Some(Size::Known(bound)), _) => Size::Known((*bound).clamp(-BEYOND, BEYOND)),
            (Some(bound), _) => bound.clone(),
            (None, Some(1..)) => Size::Known(forward),
            (None, Some(_)) => Size::Known(backward),
            (None, None) => return Err("a span by a computed step has no default bounds".into()),
        })
    }
}

impl Bounds {
    /// Returns bounds as `Slice` reads them; `None` if they depend on an unknown dim.
    fn read(self, [start, end, step]: [i64; 3], dim: Option<i64>) -> Made<Option<[i64; 2]>> {
        let exceed = |start: i64, end: i64, dim: i64| {
            Err(format!("elements from {start} to {end} exceed a dim of {dim}").into())
        };
        Ok(Some(match (self, dim) {
            (Self::Clamped, _) if step > 0 || start >= -1 => [start, end],
            (Self::Clamped, Some(dim)) if start.saturating_add(dim) < 0 => [0, 0],
            (Self::Clamped, Some(_)) | (Self::Within, None) => [start, end],
            (Self::Clamped, None) => return Ok(None),
            (Self::Within, Some(dim)) => {
                let place = |at: i64| if at < 0 { at.saturating_add(dim) } else { at };
                let (first, behind) = (place(start), place(end));
                if first < 0 || first >= behind || behind > dim && end != BEYOND {
                    return exceed(start, end, dim);
                }
                [start, end]
            }
            (Self::BehindLast, Some(dim)) => {
                let place = |at: i64| if at < 0 { at.saturating_add(dim + 1) } else { at };
                let (first, behind) = (place(start).min(dim), place(end).min(dim));
                // An empty dim has no elements, whatever the bounds.
                if dim > 0 && (first < 0 || behind < first) {
                    return exceed(start, end, dim);
                }
                [first, behind]
            }
            // `Slice` counts from the last element: -1 is before it.
            (Self::BehindLast, None) => [start, end].map(|at| match at {
                -1 => BEYOND,
                ..-1 => at + 1,
                _ => at,
            }),
            (Self::BeforeFirst | Self::ToFirst, _) if step > 0 => [start, end],
            (Self::BeforeFirst | Self::ToFirst, dim) => {
                let is_below = |at: i64| dim.map(|dim| at.saturating_add(dim) < 0);
                let start = match start {
                    ..-1 => match is_below(start) {
                        Some(true) => 0,
                        Some(false) => start,
                        None => return Ok(None),
                    },
                    _ => start,
                };
                let end = match (self, end) {
                    (_, -1) => -BEYOND,
                    (Self::ToFirst, ..-1) => match is_below(end) {
                        Some(true) => 0,
                        Some(false) => end,
                        None => return Ok(None),
                    },
                    _ => end,
                };
                [start, end]
            }
        }))
    }
}

impl Graph {
    /// Returns spans with the lists of their bounds.
    pub(crate) fn spans(&mut self, spans: &[Span]) -> Made<Spans> {
        let bounds = |bound: &dyn Fn(&Span) -> Made<Size>| {
            spans.iter().map(bound).collect::<Made<Vec<Size>>>()
        };
        let starts = bounds(&|span| span.bound(span.start.as_ref(), 0, BEYOND))?;
        let ends = bounds(&|span| span.bound(span.end.as_ref(), BEYOND, -BEYOND))?;
        let steps: Vec<Size> = spans.iter().map(|span| span.step.clone()).collect();
        let is_plain = steps.iter().all(|step| step.known() == Some(1));
        Ok(Spans {
            axes: spans.iter().map(|span| span.axis).collect(),
            starts: self.list_of(&starts)?,
            ends: self.list_of(&ends)?,
            steps: if is_plain { None } else { Some(self.list_of(&steps)?) },
        })
    }

    /// Slices spans of axes.
    ///
    /// # Errors
    /// If a step is 0, or the framework rejects the bounds.
    pub(crate) fn sliced(&mut self, x: &Value, spans: &Spans, bounds: Bounds) -> Made {
        let [starts, ends] = self.read_bounds(x, spans, bounds)?;
        let axes = self.longs(&spans.axes);
        let inputs = [Some(x), Some(&starts), Some(&ends), Some(&axes), spans.steps.as_ref()];
        let count = if spans.steps.is_some() { 5 } else { 4 };
        let [y] = self.emit_all("Slice", inputs.get(..count).unwrap_or(&inputs), [])?;
        Ok(y)
    }

    fn read_bounds(&mut self, x: &Value, spans: &Spans, bounds: Bounds) -> Made<[Value; 2]> {
        let count = spans.axes.len();
        let known = |list: &Value| list.info().ints();
        let steps = match &spans.steps {
            Some(steps) => known(steps),
            None => Some(vec![1; count]),
        };
        if steps.as_ref().is_some_and(|steps| steps.contains(&0)) {
            return Err("expected steps other than 0, found 0".into());
        }
        let (starts, ends) = (known(&spans.starts), known(&spans.ends));
        for found in [&starts, &ends, &steps].into_iter().flatten() {
            if found.len() != count {
                return Err(format!("expected {count} bounds and steps, found {found:?}").into());
            }
        }
        let is_forward = steps.as_ref().is_some_and(|steps| steps.iter().all(|step| *step > 0));
        let is_read = match bounds {
            Bounds::Clamped => {
                is_forward || starts.as_ref().is_some_and(|it| it.iter().all(|it| *it >= -1))
            }
            Bounds::BeforeFirst | Bounds::ToFirst => is_forward,
            Bounds::Within | Bounds::BehindLast => false,
        };
        if is_read {
            return Ok([spans.starts.clone(), spans.ends.clone()]);
        }
        let (Some(from), Some(to), Some(steps)) = (&starts, &ends, &steps) else {
            return self.computed_bounds(x, spans, bounds);
        };
        let mut read = Vec::new();
        for (place, axis) in spans.axes.iter().enumerate() {
            let numbers = [at(from, place)?, at(to, place)?, at(steps, place)?];
            match bounds.read(numbers, required::dim_of(x, self.place(*axis, x)?))? {
                Some(bounds) => read.push(bounds),
                None => return self.computed_bounds(x, spans, bounds),
            }
        }
        let (first, behind): (Vec<i64>, Vec<i64>) =
            read.into_iter().map(|[start, end]| (start, end)).unzip();
        Ok([self.longs(&first), self.longs(&behind)])
    }

    /// Returns bounds as `Slice` reads them, computed from the dims.
    fn computed_bounds(&mut self, x: &Value, spans: &Spans, bounds: Bounds) -> Made<[Value; 2]> {
        let (starts, ends) = (spans.starts.clone(), spans.ends.clone());
        if bounds == Bounds::Within {
            return Ok([starts, ends]);
        }
        let shape = self.call("Shape", &[x], [])?;
        let axes = self.longs(&spans.axes);
        let dims = self.gather(&shape, &axes, 0)?;
        let (zero, one) = (self.long(0), self.long(1));
        if bounds == Bounds::BehindLast {
            let behind = self.add(&dims, &one)?;
            let mut read = |bounds: &Value| {
                let counted = self.add(bounds, &behind)?;
                let is_below = self.call("Less", &[bounds, &zero], [])?;
                self.choose(&is_below, &counted, bounds)
            };
            return Ok([read(&starts)?, read(&ends)?]);
        }
        let Some(steps) = &spans.steps else {
            return Err(Finding::internal("spans without steps are not backward"));
        };
        let is_backward = self.call("Less", &[steps, &zero], [])?;
        let counted = self.add(&starts, &dims)?;
        let least = self.call("Max", &[&counted, &zero], [])?;
        let is_counted = self.call("Less", &[&starts, &zero], [])?;
        let first = self.choose(&is_counted, &least, &starts)?;
        let behind = match bounds {
            Bounds::Clamped => {
                // Backwards, no element is after the last one.
                let (last, is_below) =
                    (self.long(BEYOND), self.call("Less", &[&counted, &zero], [])?);
                self.choose(&is_below, &last, &ends)?
            }
            _ => {
                let counted = self.add(&ends, &dims)?;
                let is_below = self.call("Less", &[&counted, &zero], [])?;
                let before = self.long(-BEYOND);
                let below = if bounds == Bounds::ToFirst { &zero } else { &before };
                let read = self.choose(&is_below, below, &ends)?;
                let minus = self.long(-1);
                let is_before = self.call("Equal", &[&ends, &minus], [])?;
                self.choose(&is_before, &before, &read)?
            }
        };
        Ok([first, self.choose(&is_backward, &behind, &ends)?])
    }
}
