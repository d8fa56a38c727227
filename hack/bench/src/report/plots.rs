//! Plots of the results, as SVG.

use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;
use serde_json::{Value, json};

use super::figures::{Figures, RowFilter, cpu, rate};
use super::growth;
use super::tables::{OPERATIONS, SERVERS};

/// Colour of each server, distinguishable for colour-blind readers.
pub(super) const COLOURS: [RGBColor; 5] = [
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
    RGBColor(0, 114, 178),
    RGBColor(86, 180, 233),
    RGBColor(150, 150, 150),
];

pub(super) const SIZE: (u32, u32) = (900, 420);

/// Draws the plots that have numbers, and returns their file names and titles.
pub(crate) fn draw(figures: &Figures, out: &Path) -> anyhow::Result<Vec<(String, &'static str)>> {
    let mut drawn = Vec::new();
    let mut add = |name: &str, text: &'static str, is_drawn: bool| {
        if is_drawn {
            drawn.push((name.to_owned(), text));
        }
    };
    let in_flight = |number: u64| [("inFlight", json!(number))];
    let name = "operations-per-second.svg";
    let text = "Operations per second, 64 in flight";
    add(name, text, bars(figures, &out.join(name), text, &in_flight(64), rate)?);
    let name = "cpu-per-operation.svg";
    let text = "Milliseconds of the server's CPU time per operation, 16 in flight";
    add(name, text, bars(figures, &out.join(name), text, &in_flight(16), cpu("server"))?);
    for (name, text, lines) in growth::all(figures) {
        add(name, text, growth::draw(&out.join(name), text, lines)?);
    }
    Ok(drawn)
}

/// Draws a group of bars per operation and a bar per server. The scale is logarithmic, because the values
/// differ by more than the height of a plot.
fn bars(
    figures: &Figures,
    path: &Path,
    title: &str,
    having: RowFilter<'_>,
    of: impl Fn(&Value) -> Option<f64>,
) -> anyhow::Result<bool> {
    let mut all = Vec::new();
    for (group, operation) in OPERATIONS.into_iter().enumerate() {
        let having = [having, &[("operation", json!(operation))]].concat();
        for (index, server) in SERVERS.into_iter().enumerate() {
            if let Some(figure) = figures.of("operations", server, &having, &of) {
                all.push((group, index, figure.median));
            }
        }
    }
    let values = || all.iter().map(|(_, _, value)| *value).filter(|value| *value > 0.0);
    let (Some(low), Some(high)) = (values().reduce(f64::min), values().reduce(f64::max)) else {
        return Ok(false);
    };
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let groups = u32::try_from(OPERATIONS.len())?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..f64::from(groups), (low / 2.0..high * 1.5).log_scale())?;
    let label = |x: &f64| operation_at(*x).unwrap_or_default().to_owned();
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(OPERATIONS.len() * 2 + 1)
        .x_label_formatter(&label)
        .draw()?;
    for (index, server) in SERVERS.into_iter().enumerate() {
        let colour = COLOURS[index];
        let mine = all.iter().filter(|(_, own, value)| *own == index && *value > 0.0);
        let bars = mine.map(|(group, index, value)| {
            let width = 0.8 / 5.0;
            let left = small(*group) + 0.1 + small(*index) * width;
            Rectangle::new([(left, low / 2.0), (left + width * 0.9, *value)], colour.filled())
        });
        chart.draw_series(bars)?.label(server).legend(move |point| square(point, colour));
    }
    legend(&mut chart)?;
    area.present()?;
    Ok(true)
}

/// Returns the operation whose group has its middle at this position.
fn operation_at(x: f64) -> Option<&'static str> {
    let index = (0..OPERATIONS.len()).find(|index| (x - small(*index) - 0.5).abs() < 0.01)?;
    OPERATIONS.get(index).copied()
}

pub(super) fn small(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::MAX, f64::from)
}

pub(super) fn square((x, y): (i32, i32), colour: RGBColor) -> Rectangle<(i32, i32)> {
    Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled())
}

pub(super) fn legend<'a, X: Ranged<ValueType = f64>, Y: Ranged<ValueType = f64>>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
) -> anyhow::Result<()> {
    let mut labels = chart.configure_series_labels();
    let labels = labels.position(SeriesLabelPosition::UpperRight).border_style(BLACK.mix(0.3));
    labels.background_style(WHITE.mix(0.9)).draw().map_err(|error| anyhow!("{error}"))
}
