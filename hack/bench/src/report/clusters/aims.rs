//! Aims of the measurement of clusters, and the numbers that reach or miss them.

use std::fmt::Write as _;

use serde_json::Value;

use super::numbers::{calls, core, cpu, hourly, resident, seconds};
use super::peer;
use crate::report::figures::{Figures, short};

/// Part by which a number may exceed its aim: two runs on one machine differ by as much.
const BAND: f64 = 1.15;

/// Largest share of the p99 of clusters alone that they may have beside one that misbehaves.
const BESIDE: f64 = 2.0;

/// Number with its upper limit.
struct Aim {
    name: String,
    aim: f64,
    measured: Option<f64>,
}

/// Formats the table of aims.
pub(super) fn table(figures: &Figures) -> String {
    let mut aims = largest(&figures.rows("sizes"));
    aims.extend(against_upstream(figures));
    aims.extend(beside(&figures.rows("neighbours")));
    let mut text = String::from(
        "## Aims\n\nUp to 15 % above an aim counts as reached.\n\n| | at most | measured | |\n|---|---:|---:|---|\n",
    );
    for Aim { name, aim, measured } in aims {
        let (number, verdict) = match measured {
            Some(measured) if measured <= aim * BAND => (short(measured), "reached"),
            Some(measured) => (short(measured), "**missed**"),
            None => ("not measured".to_owned(), ""),
        };
        let _ = writeln!(text, "| {name} | {} | {number} | {verdict} |", short(aim));
    }
    text
}

/// Returns the aims of the largest number of clusters.
fn largest(rows: &[&Value]) -> Vec<Aim> {
    let Some(largest) = rows.last() else { return Vec::new() };
    let clusters = &largest["clusters"];
    let aim = |name: &str, aim: f64, of: fn(&Value) -> Option<f64>| Aim {
        name: format!("{clusters} clusters: {name}"),
        aim,
        measured: of(largest),
    };
    let mut aims = vec![
        aim("calls per Machine and hour at rest", 2.0, hourly),
        aim("part of a core at rest", 0.5, core),
        aim("resident at rest, MiB", 400.0, resident),
    ];
    // One cluster alone is too short: its numbers are those of the start.
    let smaller = rows.iter().find(|row| row["clusters"].as_u64() > Some(1));
    if let Some(smaller) = smaller.filter(|row| row["clusters"] != *clusters) {
        let growth = |of: fn(&Value) -> Option<f64>| Some(of(largest)? / of(smaller)?);
        let per_cluster = |row: &Value| Some(seconds(row)? / row["clusters"].as_f64()?);
        let from = &smaller["clusters"];
        for (name, measured) in
            [("CPU seconds per Machine made", growth(cpu)), ("seconds per cluster made", growth(per_cluster))]
        {
            let name = format!("{name}: {clusters} clusters divided by {from}");
            aims.push(Aim { name, aim: 1.0, measured });
        }
    }
    aims
}

fn against_upstream(figures: &Figures) -> Vec<Aim> {
    let [one, five] = [1, 5].map(|clusters| peer::row(figures, clusters));
    let running = |row: &Value| row.pointer("/creation/running/last")?.as_f64();
    let aim = |name: &str, aim: f64, measured: Option<f64>| Aim { name: name.to_owned(), aim, measured };
    vec![
        aim(
            "upstream's manifest: seconds until all Machines are Running (half)",
            38.0,
            one.as_ref().and_then(running),
        ),
        aim("upstream's manifest: calls per Machine made (a quarter)", 15.0, five.as_ref().and_then(calls)),
        aim(
            "upstream's manifest: calls per Machine and hour at rest (a tenth)",
            7.0,
            one.as_ref().and_then(hourly),
        ),
        aim(
            "upstream's manifest, 5 clusters: resident, MiB (a tenth of managers, API server and etcd)",
            140.0,
            five.as_ref().and_then(resident),
        ),
    ]
}

fn beside(rows: &[&Value]) -> Vec<Aim> {
    let p99 = |row: &Value| row.pointer("/creation/machineReady/p99")?.as_f64();
    let alone = rows.iter().find(|row| row["variant"] == "none").and_then(|row| p99(row));
    let others = rows.iter().filter(|row| row["variant"] != "none");
    let aims = others.map(|row| Aim {
        name: format!(
            "p99 of a Machine's creation beside a {} cluster, divided by that without one",
            row["variant"].as_str().unwrap_or_default()
        ),
        aim: BESIDE,
        measured: p99(row).zip(alone).map(|(beside, alone)| beside / alone),
    });
    aims.collect()
}
