//! Images: [batch, channels, height, width], and regions and grids in them.

use lodstone_model::{DType, Dim};

use super::Rule;
use super::dims::{MAX_RANK, merged, show};
use super::node::{Node, Outcome};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("AffineGrid", grid),
    ("Col2Im", from_columns),
    ("GridSample", sample),
    ("ImageDecoder", decode),
    ("MaxRoiPool", pool_regions),
    ("NonMaxSuppression", suppress),
    ("RoiAlign", align),
];

/// The coordinates of each position of an output of the given size.
fn grid(node: &mut Node<'_>) -> Outcome {
    let theta = node.ranked(0, 3)?;
    let dims = super::generate::dims_from(node, 1)?;
    let shape = match dims.as_deref() {
        Some([batch, _, spatial @ ..]) if matches!(spatial.len(), 2 | 3) => {
            let batch = theta.and_then(|theta| merged(batch, theta.first()?));
            let batch = batch
                .unwrap_or_else(|| dims.iter().flatten().next().cloned().unwrap_or(Dim::Unknown));
            let coordinates = Dim::Known(spatial.len() as u64);
            Some(
                std::iter::once(batch)
                    .chain(spatial.iter().cloned())
                    .chain([coordinates])
                    .collect(),
            )
        }
        Some(other) => {
            return Err(format!("expected a size of 4 or 5 dims, found {}", show(other)).into());
        }
        None => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// Input: [batch, channels * block size, blocks]; output: [batch, channels, image..].
fn from_columns(node: &mut Node<'_>) -> Outcome {
    let columns = node.ranked(0, 3)?;
    let mut rank = Dim::Unknown;
    node.unify(1, &mut [&mut rank])?;
    node.unify(2, &mut [&mut rank])?;
    for (name, each) in [("dilations", 1), ("pads", 2), ("strides", 1)] {
        let Some(numbers) = node.ints_attribute(name) else { continue };
        let found = numbers.len() as u64;
        rank = merged(&rank, &Dim::Known(found / each))
            .filter(|_| found.is_multiple_of(each))
            .ok_or_else(|| {
                format!(
                    "expected {each} values of `{name}` for each dim of the image, found {found}"
                )
            })?;
    }
    let image = match (super::generate::dims_from(node, 1)?, &rank) {
        (None, Dim::Known(rank)) => {
            let rank = usize::try_from(*rank).ok().filter(|rank| *rank <= MAX_RANK);
            rank.map(|rank| vec![Dim::Unknown; rank])
        }
        (image, _) => image,
    };
    let block = node.ints(2);
    let channels = match (columns, block) {
        (Some([_, Dim::Known(all), _]), Some(block)) => {
            let size = block.iter().try_fold(1u64, |size, dim| {
                u64::try_from(*dim).ok().and_then(|dim| size.checked_mul(dim))
            });
            match size {
                Some(size) if size > 0 && all % size == 0 => Dim::Known(all / size),
                Some(size) => {
                    return Err(format!(
                        "expected a multiple of the block size {size} as channels, found {all}"
                    )
                    .into());
                }
                None => return Err("expected a block of dims of at least 1".into()),
            }
        }
        _ => Dim::Unknown,
    };
    let batch = columns.and_then(|columns| columns.first()).cloned().unwrap_or(Dim::Unknown);
    let shape = image.map(|image| [batch, channels].into_iter().chain(image).collect());
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// Output: [batch, channels] of the input, and the spatial dims of the grid.
fn sample(node: &mut Node<'_>) -> Outcome {
    let (input, grid) = (node.at_least(0, 3)?, node.at_least(1, 3)?);
    if let (Some(input), Some(grid)) = (input, grid)
        && input.len() != grid.len()
    {
        let (expected, found) = (input.len(), show(grid));
        return Err(format!("expected rank {expected} of the grid, found {found}").into());
    }
    if let Some([_, places @ .., last]) = grid {
        let spatial = Dim::Known(places.len() as u64);
        if merged(last, &spatial).is_none() {
            return Err(format!("expected {spatial} coordinates per position, found {last}").into());
        }
    }
    let shape = match (input, grid) {
        (Some([batch, channels, ..]), Some([other, places @ .., _])) => {
            let batch = merged(batch, other)
                .ok_or_else(|| format!("expected a grid for a batch of {batch}, found {other}"))?;
            Some([batch, channels.clone()].into_iter().chain(places.iter().cloned()).collect())
        }
        (Some([batch, channels, spatial @ ..]), None) => {
            let places = spatial.iter().map(|_| Dim::Unknown);
            Some([batch.clone(), channels.clone()].into_iter().chain(places).collect())
        }
        _ => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// Output: [height, width, channels].
fn decode(node: &mut Node<'_>) -> Outcome {
    node.ranked(0, 1)?;
    let channels = node.choice("pixel_format", &[("RGB", 3), ("BGR", 3), ("Grayscale", 1)])?;
    let shape = vec![Dim::Unknown, Dim::Unknown, Dim::Known(channels)];
    node.tensor(0, DType::Uint8, Some(shape));
    Ok(())
}

/// Pools each region, which is given by `numbers` values. Output: [regions, channels, height, width].
fn regions(node: &mut Node<'_>, numbers: u64, [height, width]: [Dim; 2]) -> Outcome {
    let [mut batch, mut channels, mut rows, mut columns, mut count] = [const { Dim::Unknown }; 5];
    let mut numbers = Dim::Known(numbers);
    node.unify(0, &mut [&mut batch, &mut channels, &mut rows, &mut columns])?;
    node.unify(1, &mut [&mut count, &mut numbers])?;
    // The image of each region, if this input is present.
    node.unify(2, &mut [&mut count])?;
    node.tensor(0, node.dtype(0), Some(vec![count, channels, height, width]));
    Ok(())
}

fn pool_regions(node: &mut Node<'_>) -> Outcome {
    let pooled = node.ints_attribute("pooled_shape").ok_or("expected a `pooled_shape`")?;
    let dims: Option<Vec<_>> = pooled.iter().map(|dim| dim_of(*dim)).collect();
    let dims = dims.and_then(|dims| <[Dim; 2]>::try_from(dims).ok());
    let dims = dims.ok_or_else(|| {
        format!("expected 2 dims of at least 1 in `pooled_shape`, found {pooled:?}")
    })?;
    regions(node, 5, dims)
}

fn dim_of(dim: i64) -> Option<Dim> {
    u64::try_from(dim).ok().filter(|dim| *dim > 0).map(Dim::Known)
}

fn align(node: &mut Node<'_>) -> Outcome {
    let side = |name: &str| {
        let side = node.int_or(name, 1);
        u64::try_from(side)
            .map(Dim::Known)
            .map_err(|_| format!("expected `{name}` of at least 0, found {side}"))
    };
    let dims = [side("output_height")?, side("output_width")?];
    regions(node, 4, dims)
}

/// Output: [selected, (batch, class, box)].
fn suppress(node: &mut Node<'_>) -> Outcome {
    node.ranked(0, 3)?;
    node.ranked(1, 3)?;
    node.tensor(0, DType::Int64, Some(vec![Dim::Unknown, Dim::Known(3)]));
    Ok(())
}
