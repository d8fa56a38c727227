//! Growth plots: costs as the number of objects, watches or replicas grows.

use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;
use serde_json::{Value, json};

use super::figures::{Figures, RowFilter, at, cpu};
use super::plots::{COLOURS, SIZE, legend, small, square};
use super::tables::SERVERS;

/// Line of a plot: its name and its points.
pub(super) type PlotLine = (String, Vec<(f64, f64)>);

/// File name, title and lines of a plot.
pub(super) type Plot = (&'static str, &'static str, Vec<PlotLine>);

/// Operations that are measured while the number grows.
const OPERATIONS: [&str; 3] = ["create", "get", "patch"];

/// Returns all plots; those without measurements have no points.
pub(super) fn all(figures: &Figures) -> Vec<Plot> {
    let whole = [("readers", json!(1)), ("form", json!("whole"))];
    let lists = SERVERS.map(|server| {
        (server.to_owned(), points(figures, ("lists", server, "size"), &whole, at("/latency/p50")))
    });
    let per_update = |row: &Value| {
        Some(row.pointer("/used/server/cpu")?.as_f64()? * 1e3 / row.pointer("/last/count")?.as_f64()?)
    };
    let watchers = ("growth-watchers", "capstan", "watchers");
    let changes = [
        ("last receipt, p50 ms".to_owned(), points(figures, watchers, &[], at("/last/p50"))),
        ("server CPU, ms".to_owned(), points(figures, watchers, &[], per_update)),
    ];
    vec![
        ("list-growth.svg", "Milliseconds for a whole list, by number of Machines", lists.to_vec()),
        (
            "object-growth.svg",
            "Capstan: milliseconds of CPU time per operation, by number of Machines",
            per_operation(figures, "objects", cpu("server")),
        ),
        ("watcher-growth.svg", "Capstan: milliseconds for a change, by number of watchers", changes.to_vec()),
        (
            "replica-growth.svg",
            "Capstan: milliseconds of CPU time per operation of all replicas, by number of replicas",
            per_operation(figures, "replicas", all_replicas),
        ),
    ]
}

fn per_operation(figures: &Figures, over: &'static str, of: impl Fn(&Value) -> Option<f64>) -> Vec<PlotLine> {
    let line = |operation: &str| {
        let having = [("operation", json!(operation))];
        (operation.to_owned(), points(figures, ("growth", "capstan", over), &having, &of))
    };
    OPERATIONS.map(line).to_vec()
}

/// Returns the CPU time of all replicas per operation, in milliseconds.
fn all_replicas(row: &Value) -> Option<f64> {
    let others = ["capstan-2", "capstan-3"].iter().filter_map(|replica| cpu(replica)(row));
    Some(cpu("server")(row)? + others.sum::<f64>())
}

/// Returns the points of a line: a number of one server in a phase, over a field of its rows.
fn points(
    figures: &Figures,
    (phase, server, over): (&str, &str, &'static str),
    having: RowFilter<'_>,
    of: impl Fn(&Value) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let point = |x: u64| {
        let having = [having, &[(over, json!(x))]].concat();
        let figure = figures.of(phase, server, &having, &of)?;
        Some((small(usize::try_from(x).ok()?), figure.median))
    };
    figures.values(phase, over).into_iter().filter_map(point).filter(|(_, y)| *y > 0.0).collect()
}

/// Draws a plot with two logarithmic axes: a line with slope 1 is linear cost. Returns true if there were
/// points to draw.
pub(super) fn draw(path: &Path, title: &str, lines: Vec<PlotLine>) -> anyhow::Result<bool> {
    let all = || lines.iter().flat_map(|(_, points)| points);
    let ends = |values: Vec<f64>| {
        let (low, high) = (values.iter().copied().reduce(f64::min), values.into_iter().reduce(f64::max));
        low.zip(high)
    };
    let (xs, ys) = (ends(all().map(|(x, _)| *x).collect()), ends(all().map(|(_, y)| *y).collect()));
    let Some(((left, right), (low, high))) = xs.zip(ys).filter(|((left, right), _)| left < right) else {
        return Ok(false);
    };
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(60)
        .build_cartesian_2d((left * 0.8..right * 1.25).log_scale(), (low / 2.0..high * 2.0).log_scale())?;
    chart.configure_mesh().draw()?;
    for ((name, line), colour) in lines.into_iter().zip(COLOURS).filter(|((_, line), _)| !line.is_empty()) {
        let points = line.clone().into_iter().map(|point| Circle::new(point, 4, colour.filled()));
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(2)))?
            .label(name)
            .legend(move |point| square(point, colour));
        chart.draw_series(points)?;
    }
    legend(&mut chart)?;
    area.present().map_err(|error| anyhow!("{error}"))?;
    Ok(true)
}
