//! Pictures: [batch, channels, height, width], regions and grids in them.

use lodstone_model::{DType, Dim};

use super::Rule;
use super::dims::{Checked, merged, show};
use super::node::{Node, Outcome};
use crate::Finding;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("AffineGrid", grid),
    ("Col2Im", from_columns),
    ("GridSample", sample),
    ("ImageDecoder", decode),
    ("MaxRoiPool", pool_regions),
    ("NonMaxSuppression", suppress),
    ("RoiAlign", align),
];

/// The coordinates of each place of an output of the size that is said.
fn grid(node: &mut Node<'_>) -> Outcome {
    let theta = node.ranked(0, 3)?;
    let dims = super::generate::extents(node, 1)?;
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
            return Err(format!("expected a size of 4 or 5 extents, found {}", show(other)).into());
        }
        None => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// [batch, channels of blocks, blocks] to [batch, channels, image..]
fn from_columns(node: &mut Node<'_>) -> Outcome {
    let columns = node.ranked(0, 3)?;
    let image = super::generate::extents(node, 1)?;
    let block = node.ints(2);
    let channels = match (columns, block) {
        (Some([_, Dim::Known(all), _]), Some(block)) => {
            let size = block.iter().try_fold(1u64, |size, extent| {
                u64::try_from(*extent).ok().and_then(|extent| size.checked_mul(extent))
            });
            match size {
                Some(size) if size > 0 && all % size == 0 => Dim::Known(all / size),
                Some(size) => {
                    return Err(
                        format!("expected channels of blocks of {size}, found {all}").into()
                    );
                }
                None => return Err("expected a block of extents from 1 on".into()),
            }
        }
        _ => Dim::Unknown,
    };
    let batch = columns.and_then(|columns| columns.first()).cloned().unwrap_or(Dim::Unknown);
    let shape = image.map(|image| [batch, channels].into_iter().chain(image).collect());
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// [batch, channels] of the input, and the places of the grid.
fn sample(node: &mut Node<'_>) -> Outcome {
    let (input, grid) = (node.at_least(0, 3)?, node.at_least(1, 3)?);
    if let (Some(input), Some(grid)) = (input, grid)
        && input.len() != grid.len()
    {
        let (expected, found) = (input.len(), show(grid));
        return Err(format!("expected {expected} extents of the grid, found {found}").into());
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

/// [height, width, channels]
fn decode(node: &mut Node<'_>) -> Outcome {
    node.ranked(0, 1)?;
    let channels = match node.text("pixel_format") {
        None | Some(b"RGB" | b"BGR") => 3,
        Some(b"Grayscale") => 1,
        Some(other) => {
            let found = String::from_utf8_lossy(other);
            return Err(Finding::from(format!("expected a known `pixel_format`, found `{found}`"))
                .about_attribute("pixel_format"));
        }
    };
    let shape = vec![Dim::Unknown, Dim::Unknown, Dim::Known(channels)];
    node.tensor(0, DType::Uint8, Some(shape));
    Ok(())
}

/// [regions, channels] and what each is pooled to.
fn regions(
    node: &Node<'_>,
    regions: Option<&[Dim]>,
    pooled: Vec<Dim>,
) -> Checked<Option<Vec<Dim>>> {
    let channels = node.at_least(0, 2)?.and_then(|shape| shape.get(1)).cloned();
    let count = regions.and_then(|shape| shape.first()).cloned().unwrap_or(Dim::Unknown);
    let head = [count, channels.unwrap_or(Dim::Unknown)];
    Ok(Some(head.into_iter().chain(pooled).collect()))
}

fn pool_regions(node: &mut Node<'_>) -> Outcome {
    let pooled = node.ints_attribute("pooled_shape").ok_or("expected a `pooled_shape`")?;
    let dims: Option<Vec<_>> =
        pooled.iter().map(|extent| u64::try_from(*extent).ok().map(Dim::Known)).collect();
    let dims = dims.filter(|dims| dims.len() == 2);
    let dims =
        dims.ok_or_else(|| format!("expected 2 extents in `pooled_shape`, found {pooled:?}"))?;
    let shape = regions(node, node.ranked(1, 2)?, dims)?;
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

fn align(node: &mut Node<'_>) -> Outcome {
    node.ranked(0, 4)?;
    let side = |name: &str| {
        let side = node.int_attribute(name).unwrap_or(1);
        u64::try_from(side)
            .map(Dim::Known)
            .map_err(|_| format!("expected `{name}` from 0 on, found {side}"))
    };
    let pooled = vec![side("output_height")?, side("output_width")?];
    let boxes = node.ranked(1, 2)?;
    let batches = node.ranked(2, 1)?;
    if let (Some([count, _]), Some([found])) = (boxes, batches)
        && merged(count, found).is_none()
    {
        return Err(format!("expected a batch for each of {count} regions, found {found}").into());
    }
    let known = boxes.filter(|shape| matches!(shape.first(), Some(Dim::Known(_))));
    let shape = regions(node, known.or(batches).or(boxes), pooled)?;
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// [selected, (batch, class, box)]
fn suppress(node: &mut Node<'_>) -> Outcome {
    node.ranked(0, 3)?;
    node.ranked(1, 3)?;
    node.tensor(0, DType::Int64, Some(vec![Dim::Unknown, Dim::Known(3)]));
    Ok(())
}
