//! Sliding windows, and pooling.

use lodstone_model::{DType, Dim};

use super::Rule;
use super::dims::{Checked, mapped};
use super::node::{Node, Numbers, Outcome};
use crate::{Finding, places};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("AveragePool", pool),
    ("GlobalAveragePool", global),
    ("GlobalLpPool", global),
    ("GlobalMaxPool", global),
    ("LpPool", pool),
    ("MaxPool", pool),
    ("MaxUnpool", unpool),
];

/// A window that slides over spatial dims.
pub(super) struct Window {
    pub(super) kernel: Vec<Dim>,
    pub(super) strides: Vec<i64>,
    pub(super) dilations: Vec<i64>,
    pub(super) padding: Padding,
    /// Whether incomplete windows at the end count.
    pub(super) ceil: bool,
}

/// The padding of the spatial dims.
pub(super) enum Padding {
    /// Pads at the beginnings and at the ends.
    Given(Vec<i64>, Vec<i64>),
    /// The padding that gives one result for each step.
    Same,
}

impl Window {
    /// Reads the window of an operator from its attributes.
    pub(super) fn of(node: &Node<'_>, kernel: Vec<Dim>) -> Checked<Self> {
        let count = kernel.len();
        let each = |name: &str, default: i64, least: i64| -> Checked<Vec<i64>> {
            let numbers = match node.ints_attribute(name) {
                Some(numbers) => numbers.to_vec(),
                None => vec![default; count],
            };
            match numbers.iter().find(|number| **number < least) {
                _ if numbers.len() != count => {
                    Err(format!("expected {count} `{name}`, found {}", numbers.len()).into())
                }
                Some(number) => {
                    Err(format!("expected `{name}` of at least {least}, found {number}").into())
                }
                None => Ok(numbers),
            }
        };
        let strides = each("strides", 1, 1)?;
        let dilations = each("dilations", 1, 1)?;
        let none = vec![0; 2 * count];
        let pads = node.ints_attribute("pads").unwrap_or(&none);
        let wrong = |wrong: String| Err(Finding::from(wrong).about_attribute("pads"));
        if pads.len() != none.len() {
            return wrong(format!("expected {} `pads`, found {}", none.len(), pads.len()));
        }
        if let Some(found) = pads.iter().find(|pad| **pad < 0) {
            return wrong(format!("expected `pads` of at least 0, found {found}"));
        }
        let paddings = [
            ("NOTSET", Some(pads)),
            ("", Some(pads)),
            ("VALID", Some(&none)),
            ("SAME_UPPER", None),
            ("SAME_LOWER", None),
        ];
        let padding = match node.choice("auto_pad", &paddings)? {
            Some(pads) => {
                let (begins, ends) = pads.split_at(count);
                Padding::Given(begins.to_vec(), ends.to_vec())
            }
            None => Padding::Same,
        };
        Ok(Self { kernel, strides, dilations, padding, ceil: node.flag("ceil_mode") })
    }

    /// Returns the number of window positions along each dim.
    pub(super) fn places(&self, spatial: &[Dim]) -> Checked<Vec<Dim>> {
        let sizes = self.kernel.iter().zip(&self.dilations);
        let steps = self.strides.iter().zip(sizes);
        let dims = spatial.iter().zip(steps).enumerate();
        dims.map(|(at, (dim, (stride, (size, dilation))))| {
            let stride = i128::from(*stride);
            let pads = match &self.padding {
                Padding::Same if stride == 1 => return Ok(dim.clone()),
                Padding::Same => {
                    return mapped(dim, "places", |n| Some((n + stride - 1) / stride));
                }
                Padding::Given(begins, ends) => {
                    (i128::from(places::at(begins, at)?), i128::from(places::at(ends, at)?))
                }
            };
            let Dim::Known(size) = size else { return Ok(Dim::Unknown) };
            // The distance between the first and the last element of the window.
            let reach = i128::from(*dilation) * (i128::from(*size) - 1);
            if stride == 1 && reach == pads.0 + pads.1 {
                return Ok(dim.clone());
            }
            mapped(dim, "positions of a window", |n| {
                let room = n + pads.0 + pads.1 - reach - 1;
                if room < 0 {
                    // Some runtimes treat negative padding as zero.
                    return Some(if self.ceil {
                        (room + stride - 1).div_euclid(stride) + 1
                    } else {
                        room.div_euclid(stride) + 1
                    });
                }
                if !self.ceil {
                    return Some(room / stride + 1);
                }
                let count = (room + stride - 1) / stride + 1;
                // A window that would start in the padding at the end does not count.
                Some(count - i128::from((count - 1) * stride >= n + pads.0))
            })
        })
        .collect()
    }
}

/// Reads `kernel_shape`, which must have `count` dims.
pub(super) fn kernel_shape(node: &Node<'_>, count: usize) -> Checked<Option<Vec<Dim>>> {
    let Some(sizes) = node.ints_attribute("kernel_shape") else { return Ok(None) };
    if sizes.len() != count {
        return Err(Finding::from(format!(
            "expected {count} dims in `kernel_shape`, found {}",
            sizes.len()
        ))
        .about_attribute("kernel_shape"));
    }
    let dim = |size: &i64| {
        let known = u64::try_from(*size).ok().filter(|size| *size > 0).map(Dim::Known);
        known.ok_or_else(|| {
            let wrong = format!("expected `kernel_shape` of at least 1, found {size}");
            Finding::from(wrong).about_attribute("kernel_shape")
        })
    };
    sizes.iter().map(dim).collect::<Checked<_>>().map(Some)
}

/// [batch, channels, spatial..]
pub(super) fn pool(node: &mut Node<'_>) -> Outcome {
    let shape = match node.at_least(0, 3)? {
        Some([batch, channels, spatial @ ..]) => {
            let kernel = kernel_shape(node, spatial.len())?
                .ok_or("expected a `kernel_shape`, found none")?;
            let places = Window::of(node, kernel)?.places(spatial)?;
            let head = [batch.clone(), channels.clone()];
            Some(head.into_iter().chain(places).collect())
        }
        _ => None,
    };
    node.tensor(1, DType::Int64, shape.clone());
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

pub(super) fn global(node: &mut Node<'_>) -> Outcome {
    let shape = match node.at_least(0, 2)? {
        Some([batch, channels, spatial @ ..]) => {
            let head = [batch.clone(), channels.clone()];
            Some(head.into_iter().chain(spatial.iter().map(|_| Dim::Known(1))).collect())
        }
        _ => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// The inverse of pooling. The output has the given shape, or the smallest that could have been pooled.
fn unpool(node: &mut Node<'_>) -> Outcome {
    let Some(shape) = node.at_least(0, 2)? else {
        node.tensor(0, node.dtype(0), None);
        return Ok(());
    };
    // Each value has an index.
    let mut shape = shape.to_vec();
    node.unify(1, &mut shape.iter_mut().collect::<Vec<_>>())?;
    let (head, spatial) = shape.split_at(2);
    node.unify(2, &mut [&mut Dim::Known(shape.len() as u64)])?;
    let kernel =
        kernel_shape(node, spatial.len())?.ok_or("expected a `kernel_shape`, found none")?;
    let window = Window::of(node, kernel)?;
    let result = match node.numbers("output_shape", 2) {
        Numbers::Known(dims) if dims.len() == shape.len() => {
            dims.iter().map(|n| u64::try_from(*n).map_or(Dim::Unknown, Dim::Known)).collect()
        }
        Numbers::Known(_) | Numbers::Unknown => vec![Dim::Unknown; shape.len()],
        Numbers::Absent => {
            let mut result = head.to_vec();
            let sides = spatial.iter().zip(&window.kernel).zip(&window.strides).enumerate();
            for (at, ((dim, size), stride)) in sides {
                let pads = match &window.padding {
                    Padding::Given(begins, ends) => [begins, ends].map(|p| p.get(at).copied()),
                    Padding::Same => [None; 2],
                };
                let pads: i128 = pads.iter().flatten().map(|pad| i128::from(*pad)).sum();
                let stride = i128::from(*stride);
                let Dim::Known(size) = size else { continue };
                let size = i128::from(*size);
                result.push(mapped(dim, "a dim", |n| {
                    Some((n - 1).checked_mul(stride)? + size - pads)
                })?);
            }
            result
        }
    };
    node.tensor(0, node.dtype(0), Some(result));
    Ok(())
}
