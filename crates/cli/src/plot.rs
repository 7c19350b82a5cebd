//! Plots of losses.

use plotters::prelude::*;

use crate::Failure;
use crate::console::plain;

/// Width and height, in pixels.
const SIZE: (u32, u32) = (800, 480);

/// Maximum number of points of a line; more would not be visible.
const MAX_POINTS: usize = 2000;

/// Draws a line per name over the steps, as SVG; `rows` are steps with a value per name. Values that are not finite
/// are omitted.
pub(crate) fn plot(names: &[String], rows: &[(u64, Vec<f64>)]) -> Result<String, Failure> {
    let lines: Vec<Vec<(f64, f64)>> = (0..names.len()).map(|name| line(rows, name)).collect();
    let values = || lines.iter().flatten().map(|(_, value)| *value);
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
    let space = ((high - low) * 0.05).max(f64::MIN_POSITIVE).max(high.abs() * 1e-6);
    let step = |row: Option<&(u64, Vec<f64>)>| row.map_or(1.0, |(step, _)| *step as f64);
    let first = step(rows.first());
    let last = step(rows.last()).max(first + 1.0);

    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(16)
            .x_label_area_size(36)
            .y_label_area_size(64)
            .build_cartesian_2d(first..last, low - space..high + space)?;
        chart
            .configure_mesh()
            .max_light_lines(0)
            .x_desc("step")
            .x_label_formatter(&|step| format!("{step:.0}"))
            .draw()?;
        for (number, (name, line)) in names.iter().zip(lines).enumerate() {
            let colour = Palette99::pick(number).to_rgba();
            let drawn = chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
            drawn
                .label(plain(name))
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
        }
        chart.configure_series_labels().background_style(WHITE.mix(0.8)).draw()?;
        area.present()?;
    }
    Ok(svg)
}

/// Returns the points of a line; if there are too many, means of neighbours.
fn line(rows: &[(u64, Vec<f64>)], name: usize) -> Vec<(f64, f64)> {
    let points = rows.iter().filter_map(|(step, row)| {
        let value = row.get(name).copied().filter(|value| value.is_finite())?;
        Some((*step as f64, value))
    });
    let points: Vec<(f64, f64)> = points.collect();
    let group_len = points.len().div_ceil(MAX_POINTS).max(1);
    let mean = |points: &[(f64, f64)]| {
        let (steps, values) =
            points.iter().fold((0.0, 0.0), |(a, b), (step, value)| (a + step, b + value));
        (steps / points.len() as f64, values / points.len() as f64)
    };
    points.chunks(group_len).map(mean).collect()
}
