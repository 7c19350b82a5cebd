//! Changing the shape of a tensor.
//!
//! | code of `Reshape` | of `_npx_reshape` | dims |
//! |---|---|---|
//! | 0 | -2 | the next dim of the input |
//! | -1 | -1 | what remains |
//! | -2 | -4 | all remaining dims of the input |
//! | -3 | -5 | the product of the next two dims |
//! | -4 | -6 | the next dim, divided into the two that follow |
//! | | -3 | none: the next dim is 1 |

use lodstone_schema::Finding;
use lodstone_schema::numbers::length;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, axis_of, dim_of, place_in, product, rank};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Flatten", Rule::One(flatten)),
    ("Reshape", Rule::One(reshape)),
    ("SwapAxis", Rule::One(swap_axes)),
    ("_np_reshape", Rule::One(numpy_reshape)),
    ("_np_squeeze", Rule::One(squeeze)),
    ("_np_transpose", Rule::One(transpose)),
    ("_npi_squeeze", Rule::One(squeeze)),
    ("_npi_transpose", Rule::One(transpose)),
    ("_npx_reshape", Rule::One(extended_reshape)),
    ("depth_to_space", Rule::One(|node| blocks(node, "DepthToSpace"))),
    ("expand_dims", Rule::One(expand_dims)),
    ("reshape_like", Rule::One(reshape_like)),
    ("space_to_depth", Rule::One(|node| blocks(node, "SpaceToDepth"))),
    ("squeeze", Rule::One(squeeze)),
    ("transpose", Rule::One(transpose)),
];

/// What a code of a shape stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Code {
    Size(i64),
    Infer,
    Copy,
    Rest,
    Merge,
    Split,
    Drop,
}

/// A dim of a result.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Extent {
    /// A number.
    Known(i64),
    /// The product of dims of the input.
    Product(Vec<usize>),
    /// A dim of the input divided by a number.
    Quotient(usize, i64),
    /// What remains.
    Infer,
}

impl Code {
    fn of(code: i64) -> Option<Self> {
        Some(match code {
            0 => Self::Copy,
            -1 => Self::Infer,
            -2 => Self::Rest,
            -3 => Self::Merge,
            -4 => Self::Split,
            1.. => Self::Size(code),
            _ => return None,
        })
    }

    fn extended(code: i64) -> Option<Self> {
        Some(match code {
            -1 => Self::Infer,
            -2 => Self::Copy,
            -3 => Self::Drop,
            -4 => Self::Rest,
            -5 => Self::Merge,
            -6 => Self::Split,
            0.. => Self::Size(code),
            _ => return None,
        })
    }
}

/// Returns the dims that codes stand for. `known` are the dims of the input.
fn extents(codes: &[Code], known: &[Option<i64>]) -> Outcome<Vec<Extent>> {
    let mut extents = Vec::new();
    let (mut next, mut codes) = (0, codes.iter());
    let missing = || {
        format!("the shape has codes of more dims than the input, which has rank {}", known.len())
    };
    while let Some(code) = codes.next() {
        let has = |count: usize| if next + count <= known.len() { Ok(()) } else { Err(missing()) };
        match code {
            Code::Size(size) => {
                extents.push(Extent::Known(*size));
                next += 1;
            }
            Code::Infer => {
                extents.push(Extent::Infer);
                next += 1;
            }
            Code::Copy => {
                has(1)?;
                extents.push(Extent::Product(vec![next]));
                next += 1;
            }
            Code::Rest => {
                extents.extend((next..known.len()).map(|axis| Extent::Product(vec![axis])));
                next = known.len();
            }
            Code::Merge => {
                has(2)?;
                extents.push(Extent::Product(vec![next, next + 1]));
                next += 2;
            }
            Code::Split => {
                has(1)?;
                extents.extend(split(codes.next(), codes.next(), next, known)?);
                next += 1;
            }
            Code::Drop => {
                has(1)?;
                if known.get(next).copied().flatten().is_some_and(|dim| dim != 1) {
                    return Err(format!("expected dim {next} to be 1").into());
                }
                next += 1;
            }
        }
    }
    Ok(extents)
}

/// Returns the two dims that a dim is divided into, one of which may be inferred.
fn split(
    first: Option<&Code>,
    second: Option<&Code>,
    axis: usize,
    known: &[Option<i64>],
) -> Outcome<[Extent; 2]> {
    let quotient = |size: i64| match known.get(axis).copied().flatten() {
        _ if size < 1 => Err(format!("expected a positive dim to divide by, found {size}")),
        Some(dim) if dim % size == 0 => Ok(Extent::Known(dim / size)),
        Some(dim) => Err(format!("the dim {dim} cannot be divided by {size}")),
        None => Ok(Extent::Quotient(axis, size)),
    };
    Ok(match (first, second) {
        (Some(Code::Size(first)), Some(Code::Infer)) => [Extent::Known(*first), quotient(*first)?],
        (Some(Code::Infer), Some(Code::Size(second))) => {
            [quotient(*second)?, Extent::Known(*second)]
        }
        (Some(Code::Size(first)), Some(Code::Size(second))) => {
            let all = first.checked_mul(*second);
            if known.get(axis).copied().flatten().is_some_and(|dim| all != Some(dim)) {
                return Err(format!("dim {axis} is not {first} times {second}").into());
            }
            [Extent::Known(*first), Extent::Known(*second)]
        }
        _ => return Err("a divided dim needs two dims after its code, one of them a number".into()),
    })
}

/// Returns the known dims of a value.
fn sizes(value: &Value) -> Outcome<Vec<Option<i64>>> {
    let rank = rank(value)?;
    Ok((0..rank).map(|axis| dim_of(value, axis)).collect())
}

impl Node<'_> {
    /// Reshapes by the codes of `Reshape`.
    pub(super) fn recoded(&mut self, x: &Value, codes: &[i64]) -> Outcome {
        let codes: Option<Vec<Code>> = codes.iter().map(|code| Code::of(*code)).collect();
        let codes = codes.ok_or("a code of a shape is unknown")?;
        let extents = extents(&codes, &sizes(x)?)?;
        self.extended(x, extents)
    }

    /// Reshapes to dims.
    pub(super) fn extended(&mut self, x: &Value, extents: Vec<Extent>) -> Outcome {
        let known = sizes(x)?;
        let size = |axes: &[usize]| {
            let dims = axes.iter().map(|axis| known.get(*axis).copied().flatten());
            dims.collect::<Option<Vec<i64>>>()
        };
        let mut simple = Vec::new();
        for extent in extents {
            simple.push(match extent {
                Extent::Product(axes) => match size(&axes) {
                    Some(dims) => Extent::Known(product(&dims)?),
                    None => Extent::Product(axes),
                },
                other => other,
            });
        }
        let open = |extent: &&mut Extent| !matches!(extent, Extent::Known(_));
        let is_empty = simple.contains(&Extent::Known(0));
        let mut unknown = simple.iter_mut().filter(open);
        // A single dim without a number follows from the others.
        if let (Some(only), None) = (unknown.next(), unknown.next())
            && !is_empty
        {
            *only = Extent::Infer;
        }
        if let Some(all) = known.iter().copied().collect::<Option<Vec<i64>>>() {
            return self.reshape_known(x, &all, &simple);
        }
        self.reshape_dynamic(x, &simple)
    }

    fn reshape_known(&mut self, x: &Value, dims: &[i64], extents: &[Extent]) -> Outcome {
        let all = product(dims)?;
        let numbers = extents.iter().filter_map(|extent| match extent {
            Extent::Known(size) => Some(*size),
            _ => None,
        });
        let rest = product(&numbers.collect::<Vec<_>>())?;
        let count = extents.iter().filter(|extent| **extent == Extent::Infer).count();
        let inferred = match count {
            0 if rest == all => Some(1),
            1 if all.checked_rem(rest) == Some(0) => all.checked_div(rest),
            _ => None,
        };
        let shape = |inferred: i64| {
            let dims = extents.iter().map(|extent| match extent {
                Extent::Known(size) => *size,
                _ => inferred,
            });
            dims.collect::<Vec<i64>>()
        };
        match inferred {
            Some(inferred) => self.reshape(x, &shape(inferred)),
            None => Err(format!("{dims:?} cannot have the shape {:?}", shape(-1)).into()),
        }
    }

    fn reshape_dynamic(&mut self, x: &Value, extents: &[Extent]) -> Outcome {
        let mut parts = Vec::new();
        for extent in extents {
            parts.push(match extent {
                Extent::Known(size) => self.longs(&[*size]),
                Extent::Infer => self.longs(&[-1]),
                Extent::Product(axes) => {
                    let mut all: Option<Value> = None;
                    for axis in axes {
                        let dim = self.dim(x, length(*axis))?;
                        all = Some(all.map_or(Ok(dim.clone()), |all| self.mul(&all, &dim))?);
                    }
                    all.ok_or("a dim is the product of no dims")?
                }
                Extent::Quotient(axis, size) => {
                    let dim = self.dim(x, length(*axis))?;
                    let size = self.longs(&[*size]);
                    self.div(&dim, &size)?
                }
            });
        }
        let shape = self.concat(&parts.iter().collect::<Vec<_>>(), 0)?;
        self.call("Reshape", &[x, &shape], [])
    }
}

fn reshape(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let shape = node.attributes.ints("shape")?;
    let reverse = node.attributes.flag("reverse", false)?;
    let target = node.attributes.ints("target_shape")?;
    let keeps_first = node.attributes.flag("keep_highest", false)?;
    if shape.is_empty() {
        return legacy_reshape(node, &x, target, keeps_first);
    }
    coded(node, &x, &shape, reverse, Code::of)
}

/// Reshapes by codes, optionally from the last dim to the first.
fn coded(
    node: &mut Node<'_>,
    x: &Value,
    shape: &[i64],
    reverse: bool,
    code: fn(i64) -> Option<Code>,
) -> Outcome {
    let codes: Option<Vec<Code>> = shape.iter().map(|number| code(*number)).collect();
    let mut codes = codes.ok_or_else(|| wrong("shape", "dims and codes", &format!("{shape:?}")))?;
    if codes.iter().filter(|code| **code == Code::Infer).count() > 1
        && !codes.contains(&Code::Split)
    {
        return Err(wrong("shape", "at most one -1", &format!("{shape:?}")));
    }
    let mut known = sizes(x)?;
    if reverse {
        codes.reverse();
        known.reverse();
    }
    let mut all = extents(&codes, &known)?;
    if reverse {
        all.reverse();
        let last = known.len().saturating_sub(1);
        for extent in &mut all {
            match extent {
                Extent::Product(axes) => axes.iter_mut().for_each(|axis| *axis = last - *axis),
                Extent::Quotient(axis, _) => *axis = last - *axis,
                Extent::Known(_) | Extent::Infer => {}
            }
        }
    }
    node.extended(x, all)
}

/// The shape of old releases, in which 0 stands for what remains.
fn legacy_reshape(node: &mut Node<'_>, x: &Value, target: Vec<i64>, keeps_first: bool) -> Outcome {
    if target.is_empty() {
        return Err("the attribute `shape` is missing".into());
    }
    let extent = |(place, size): (usize, i64)| match size {
        _ if place == 0 && keeps_first => Ok(Extent::Product(vec![0])),
        0 => Ok(Extent::Infer),
        1.. => Ok(Extent::Known(size)),
        _ => Err(wrong("target_shape", "dims", &size.to_string())),
    };
    let all = target.into_iter().enumerate().map(extent).collect::<Outcome<Vec<_>>>()?;
    node.extended(x, all)
}

fn numpy_reshape(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let shape = node.attributes.required_ints("newshape")?;
    node.attributes.word("order", &["C"], "C")?;
    let code = |code: i64| (code >= -1).then(|| Code::extended(code)).flatten();
    coded(node, &x, &shape, false, code)
}

fn extended_reshape(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let shape = node.attributes.required_ints("newshape")?;
    let reverse = node.attributes.flag("reverse", false)?;
    node.attributes.word("order", &["C"], "C")?;
    coded(node, &x, &shape, reverse, Code::extended)
}

/// Replaces a range of dims by a range of dims of the second input.
fn reshape_like(node: &mut Node<'_>) -> Outcome {
    let [x, like] = node.exactly()?;
    let range = |value: &Value, begin: &str, end: &str| {
        let rank = rank(value)?;
        let bound = |name: &str, default: i64| {
            let place = node.attributes.int_or_none(name)?.unwrap_or(default);
            let place = if place < 0 { place.saturating_add(rank) } else { place };
            match (0..=rank).contains(&place) {
                true => Ok(place),
                false => Err(wrong(name, &format!("a place in rank {rank}"), &place.to_string())),
            }
        };
        let (begin, end) = (bound(begin, 0)?, bound(end, rank)?);
        match begin <= end {
            true => Ok::<(i64, i64), Finding>((begin, end)),
            false => Err(format!("the dims {begin} to {end} are no range").into()),
        }
    };
    let (begin, end) = range(&x, "lhs_begin", "lhs_end")?;
    let (first, last) = range(&like, "rhs_begin", "rhs_end")?;
    let front = node.call("Shape", &[&x], [int("start", 0), int("end", begin)])?;
    let middle = node.call("Shape", &[&like], [int("start", first), int("end", last)])?;
    let back = node.call("Shape", &[&x], [int("start", end)])?;
    let shape = node.concat(&[&front, &middle, &back], 0)?;
    if let Some(dims) = shape.info().ints() {
        return node.reshape(&x, &dims);
    }
    node.call("Reshape", &[&x, &shape], [int("allowzero", 1)])
}

fn flatten(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    if rank(&x)? == 2 { Ok(x) } else { node.call("Flatten", &[&x], [int("axis", 1)]) }
}

fn transpose(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let rank = rank(&x)?;
    let axes = node.attributes.ints("axes")?;
    let order: Vec<i64> = match axes.is_empty() {
        true => (0..rank).rev().collect(),
        false => axes.iter().map(|axis| place_in(rank, *axis)).collect::<Outcome<_>>()?,
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    match sorted.iter().copied().eq(0..rank) {
        true => node.transpose(&x, &order),
        false => Err(wrong("axes", &format!("each axis of rank {rank}"), &format!("{axes:?}"))),
    }
}

fn swap_axes(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let first = axis_of(&x, node.attributes.int("dim1", 0)?)?;
    let second = axis_of(&x, node.attributes.int("dim2", 0)?)?;
    let order = (0..rank(&x)?).map(|axis| match axis {
        _ if axis == first => second,
        _ if axis == second => first,
        _ => axis,
    });
    node.transpose(&x, &order.collect::<Vec<_>>())
}

fn expand_dims(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let axis = node.attributes.int("axis", None)?;
    let axis = place_in(rank(&x)?.saturating_add(1), axis)?;
    node.unsqueeze(&x, &[axis])
}

/// Removes dims of 1; without axes, all of them. At least one dim remains.
fn squeeze(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let rank = rank(&x)?;
    let axes = match node.attributes.ints_or_none("axis")? {
        Some(axes) => axes.iter().map(|axis| place_in(rank, *axis)).collect::<Outcome<Vec<_>>>()?,
        None => {
            let dims = crate::mxnet::node::known_dims(&x)?;
            (0..rank).zip(dims).filter(|(_, dim)| *dim == 1).map(|(axis, _)| axis).collect()
        }
    };
    let mut removed = axes;
    removed.sort_unstable();
    removed.dedup();
    if length(removed.len()) == rank && node.kind() == "squeeze" {
        removed.pop();
    }
    if removed.is_empty() {
        return Ok(x);
    }
    let removed = node.longs(&removed);
    node.call("Squeeze", &[&x, &removed], [])
}

fn blocks(node: &mut Node<'_>, kind: &str) -> Outcome {
    let [x] = node.exactly()?;
    let size = node.attributes.int("block_size", None)?;
    node.call(kind, &[&x], [int("blocksize", size)])
}
