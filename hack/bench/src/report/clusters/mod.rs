//! Report of the measurement of many clusters.

mod aims;
mod numbers;
mod peer;

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::figures::{Figures, short};
use super::growth::{self, Plot};
use super::plots::small;
use numbers::{MIB, NUMBERS, Number};

/// Kinds of calls that a table names, the most frequent first.
const SHAPES: usize = 12;

const METHOD: &str = "\
Each line of clusters is measured with a new server, a new store and a new cloud. The server with its embedded store is
one process. The simulated OpenStack and all nodes are another, and the measurement is a third one. All share the cores.
Memory and CPU time are the server's, by `/proc`. All clusters are in one project, and each has a namespace and a Secret
of its own. Their shape is that of upstream's template without a load balancer. A cluster has 3 control plane Machines
and 10 workers, and cloud and nodes need no time, unless a section says otherwise.

The creation ends when all Machines are Ready and all Clusters are Available, as the watches of a client show it. The
rest begins 90 s later. Calls are those that the cloud has logged.

Calls and CPU seconds depend little on what else the machine does. Seconds do: with other programs beside it, they are
upper bounds, and the load average says how many there were. At rest, lists of a project with few Machines are up to an
hour old. So a shorter rest of one cluster shows only a part of its calls per hour, or more than the average.
[performance.md](../performance.md#many-clusters) says what bounds the numbers.

";

/// Returns the page below its first paragraph.
pub(super) fn page(figures: &Figures, pictures: &[(String, &'static str)]) -> String {
    let mut page = String::from(METHOD);
    page.push_str(&aims::table(figures));
    for (name, alternative) in pictures {
        let _ = writeln!(page, "\n![{alternative}]({name})");
    }
    let sizes = figures.rows("sizes");
    columns(&mut page, "Growth", &sizes, |row| format!("{} clusters", row["clusters"]));
    page.push_str(&peer::sections(figures));
    neighbours(&mut page, &figures.rows("neighbours"));
    if let Some(row) = peer::row(figures, 1) {
        waits(&mut page, "1 cluster of upstream's manifest", &row);
    }
    for row in sizes.iter().rev().take(1) {
        waits(&mut page, &format!("{} clusters", row["clusters"]), row);
        shapes(&mut page, row, "creation", "made", |_| 1.0);
        shapes(&mut page, row, "rest", "and hour at rest", |rest| {
            rest["seconds"].as_f64().map_or(0.0, |seconds| 3600.0 / seconds)
        });
    }
    page
}

/// Adds a table with a column per row of the results.
fn columns(page: &mut String, title: &str, rows: &[&Value], name: impl Fn(&Value) -> String) {
    if rows.is_empty() {
        return;
    }
    let names: Vec<String> = rows.iter().map(|row| name(row)).collect();
    let _ =
        writeln!(page, "\n## {title}\n\n| | {} |\n|---|{}", names.join(" | "), "---:|".repeat(rows.len()));
    for Number { name, of, .. } in NUMBERS {
        let cells: Vec<Option<f64>> = rows.iter().map(|row| of(row)).collect();
        if cells.iter().any(Option::is_some) {
            let cells: Vec<String> = cells.into_iter().map(|it| it.map_or_else(String::new, short)).collect();
            let _ = writeln!(page, "| {name} | {} |", cells.join(" | "));
        }
    }
}

fn neighbours(page: &mut String, rows: &[&Value]) {
    let Some(clusters) = rows.first().map(|row| &row["clusters"]) else { return };
    let _ = writeln!(
        page,
        "\n## {clusters} clusters beside one that misbehaves\n\nSeconds from the first object of a cluster until a Machine \
         of it is Ready, without those of the neighbour. `slow`: its cloud needs 2 s for each call. `silent`: its \
         workload API accepts calls and never answers. `failing`: its cloud refuses each server. `huge`: it has 500 \
         workers.\n\n| neighbour | p50 | p99 | longest |\n|---|---:|---:|---:|"
    );
    for row in rows {
        let at = |name: &str| row["creation"]["machineReady"][name].as_f64().map_or_else(String::new, short);
        let neighbour = row["variant"].as_str().unwrap_or_default();
        let _ = writeln!(page, "| {neighbour} | {} | {} | {} |", at("p50"), at("p99"), at("max"));
    }
}

fn waits(page: &mut String, of: &str, row: &Value) {
    let _ = writeln!(
        page,
        "\n## Waits with {of}\n\n| of each | wait | p50 s | p99 s | longest s | by |\n|---|---|---:|---:|---:|---|"
    );
    let mut waits = row["creation"]["waits"].as_array().cloned().unwrap_or_default();
    waits.sort_by(|one, other| {
        let longest = |wait: &Value| wait["max"].as_f64().unwrap_or_default();
        longest(other).total_cmp(&longest(one))
    });
    for wait in waits {
        let text = |name: &str| wait[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| wait[name].as_f64().map_or_else(String::new, short);
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} |",
            text("of"),
            text("wait"),
            number("p50"),
            number("p99"),
            number("max"),
            text("longest")
        );
    }
}

/// Adds the most frequent calls of a part of a row, per Machine.
fn shapes(page: &mut String, row: &Value, part: &str, per: &str, factor: impl Fn(&Value) -> f64) {
    let (calls, machines) = (&row[part]["calls"]["shapes"], row["machines"].as_f64().unwrap_or(1.0));
    let Some(calls) = calls.as_object() else { return };
    let mut calls: Vec<(&String, f64)> =
        calls.iter().map(|(shape, count)| (shape, count.as_f64().unwrap_or_default())).collect();
    calls.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let _ = writeln!(
        page,
        "\n## Most frequent calls with {} clusters, per Machine {per}\n\n| call | number |\n|---|---:|",
        row["clusters"]
    );
    for (shape, count) in calls.into_iter().take(SHAPES) {
        let _ = writeln!(page, "| `{shape}` | {} |", short(count * factor(&row[part]) / machines));
    }
}

/// Draws the growth plots that have numbers, and returns their file names and titles.
pub(super) fn draw(figures: &Figures, out: &Path) -> anyhow::Result<Vec<(String, &'static str)>> {
    let rows = figures.rows("sizes");
    let line = |name: &str| {
        let number = NUMBERS.iter().find(|number| number.short == name);
        let points = rows.iter().filter_map(|row| {
            let clusters = small(usize::try_from(row["clusters"].as_u64()?).ok()?);
            Some((clusters, (number?.of)(row)?))
        });
        (name.to_owned(), points.filter(|(_, y)| *y > 0.0).collect::<Vec<_>>())
    };
    let lines = |names: &[&str]| names.iter().map(|name| line(name)).collect::<Vec<_>>();
    let plots: [Plot; 3] = [
        (
            "cluster-creation.svg",
            "Creation, by number of clusters",
            lines(&[
                "seconds until all is Available",
                "CPU seconds of the server",
                "p99 seconds of a Machine",
            ]),
        ),
        (
            "cluster-calls.svg",
            "Calls to the cloud, by number of clusters",
            lines(&["per Machine made", "per Machine and hour at rest"]),
        ),
        (
            "cluster-rest.svg",
            "The server at rest, by number of clusters",
            lines(&["resident MiB", "percent of a core"]),
        ),
    ];
    let mut drawn = Vec::new();
    for (name, title, lines) in plots {
        if growth::draw(&out.join(name), title, lines)? {
            drawn.push((name.to_owned(), title));
        }
    }
    Ok(drawn)
}

/// Returns a number of bytes in MiB.
fn mib(bytes: Option<f64>) -> Option<f64> {
    bytes.map(|bytes| bytes / MIB)
}
