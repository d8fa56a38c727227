//! Tables of all results.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::figures::{Figure, Figures, RowFilter, at, cpu, growth, rate};

/// Servers, in the order of the columns.
pub(crate) const SERVERS: [&str; 5] =
    ["kube-apiserver", "sample-apiserver", "capstan", "capstan-embedded", "floor"];

/// Operations, in the order of the measurement.
pub(crate) const OPERATIONS: [&str; 6] = ["create", "get", "status", "patch", "apply", "delete"];

const MIB: f64 = 1_048_576.0;

/// Formats all tables.
pub(crate) fn all(figures: &Figures) -> String {
    let mut text = String::new();
    for in_flight in figures.values("operations", "inFlight") {
        operations(&mut text, figures, in_flight);
    }
    for_many(&mut text, figures);
    let made = [("operation", json!("create"))];
    limits(&mut text, figures, "etcd", &made, "etcd itself: create if absent, 1,550 bytes");
    let whole = [("operation", json!("update")), ("size", json!(5600))];
    limits(&mut text, figures, "etcd", &whole, "etcd itself: update if unchanged, 5,600 bytes");
    let compressed = [("operation", json!("update")), ("size", json!(2000))];
    let title = "etcd itself: update if unchanged, 2,000 bytes: what Capstan makes of the 5,600";
    limits(&mut text, figures, "etcd", &compressed, title);
    let title = "The embedded store itself: create if absent, 1,550 bytes, in the load generator's process";
    limits(&mut text, figures, "embedded", &made, title);
    lists(&mut text, figures);
    watches(&mut text, figures);
    fairness(&mut text, figures);
    processes(&mut text, figures);
    text
}

/// Forms of the lists.
const FORMS: [&str; 7] =
    ["whole", "compressed", "chunked", "label", "metadata", "metadata-protobuf", "table"];

/// Formats a table with a column per server.
fn table(text: &mut String, title: &str, rows: &[(String, [Option<Figure>; 5])]) {
    if rows.iter().all(|(_, cells)| cells.iter().all(Option::is_none)) {
        return;
    }
    let _ = writeln!(text, "\n## {title}\n\n| | {} |\n|---|{}", SERVERS.join(" | "), "---:|".repeat(5));
    for (name, cells) in rows.iter().filter(|(_, cells)| cells.iter().any(Option::is_some)) {
        let cells: Vec<String> =
            cells.iter().map(|cell| cell.map_or_else(String::new, |figure| figure.to_string())).collect();
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
}

/// Returns a table row: the same number of every server.
fn row(
    name: String,
    figures: &Figures,
    phase: &str,
    having: RowFilter<'_>,
    of: impl Fn(&Value) -> Option<f64>,
) -> (String, [Option<Figure>; 5]) {
    (name, SERVERS.map(|server| figures.of(phase, server, having, &of)))
}

fn operations(text: &mut String, figures: &Figures, in_flight: u64) {
    let mut rows = Vec::new();
    for operation in OPERATIONS {
        let having = [("operation", json!(operation)), ("inFlight", json!(in_flight))];
        let mut add = |what: &str, of: &dyn Fn(&Value) -> Option<f64>| {
            rows.push(row(format!("{operation}, {what}"), figures, "operations", &having, of));
        };
        add("per second", &rate);
        add("p50 ms", &at("/latency/p50"));
        add("p99 ms", &at("/latency/p99"));
        add("server CPU ms", &cpu("server"));
        add("etcd CPU ms", &cpu("etcd"));
        add("etcd bytes written", &written);
        add("load generator CPU ms", &cpu("load"));
    }
    table(text, &format!("Operations, {in_flight} in flight"), &rows);
}

/// Adds the table of the cost of many operations of each kind, for the server and for etcd.
fn for_many(text: &mut String, figures: &Figures) {
    let mut rows = Vec::new();
    for operation in OPERATIONS {
        let having = [("operation", json!(operation)), ("inFlight", json!(16))];
        // Milliseconds per operation times a hundred are the seconds for 100,000 operations.
        let seconds = |process: &'static str| move |row: &Value| cpu(process)(row).map(|each| each * 100.0);
        let mut add = |what: &str, of: &dyn Fn(&Value) -> Option<f64>| {
            rows.push(row(format!("{operation}, {what}"), figures, "operations", &having, of));
        };
        add("server CPU s", &seconds("server"));
        add("etcd CPU s", &seconds("etcd"));
        add("etcd written, MiB", &|row: &Value| written(row).map(|bytes| bytes * 1e5 / MIB));
    }
    table(text, "100,000 operations of each kind, 16 in flight", &rows);
}

/// Returns the bytes that etcd wrote per operation.
fn written(row: &Value) -> Option<f64> {
    Some(row.pointer("/used/etcd/written")?.as_f64()? / row["count"].as_f64()?)
}

fn limits(text: &mut String, figures: &Figures, store: &'static str, what: RowFilter<'_>, title: &str) {
    let mut lines = String::new();
    for in_flight in figures.values("limit", "inFlight") {
        let having = [what, &[("inFlight", json!(in_flight))]].concat();
        let cell = |of: &dyn Fn(&Value) -> Option<f64>| {
            figures.of("limit", store, &having, of).map_or_else(String::new, |figure| figure.to_string())
        };
        let (rate, p50, p99) = (cell(&rate), cell(&at("/latency/p50")), cell(&at("/latency/p99")));
        let _ = writeln!(
            lines,
            "| {in_flight} | {rate} | {p50} | {p99} | {} |",
            cell(&cpu(if store == "etcd" { store } else { "load" }))
        );
    }
    if !lines.is_empty() {
        let head = "| in flight | per second | p50 ms | p99 ms | CPU ms |\n|---:|---:|---:|---:|---:|";
        let _ = write!(text, "\n## {title}\n\n{head}\n{lines}");
    }
}

fn lists(text: &mut String, figures: &Figures) {
    for size in figures.values("lists", "size") {
        let mut rows = Vec::new();
        for readers in figures.values("lists", "readers") {
            for form in FORMS {
                let having = [("size", json!(size)), ("readers", json!(readers)), ("form", json!(form))];
                let mut add = |what: &str, of: &dyn Fn(&Value) -> Option<f64>| {
                    let name = format!("{form}, {readers} reading, {what}");
                    rows.push(row(name, figures, "lists", &having, of));
                };
                add("p50 ms", &at("/latency/p50"));
                add("MB/s", &|row: &Value| Some(row["bytes"].as_f64()? / row["seconds"].as_f64()? / 1e6));
                add("server CPU ms", &cpu("server"));
                add("load generator CPU ms", &cpu("load"));
                add("peak MiB", &|row: &Value| Some(row.pointer("/memory/peak")?.as_f64()? / MIB));
                add("peak growth MiB", &|row: &Value| growth(row).map(|bytes| bytes / MIB));
            }
        }
        table(text, &format!("Lists of {size}"), &rows);
    }
}

fn watches(text: &mut String, figures: &Figures) {
    let mut rows = Vec::new();
    for watchers in figures.values("watches", "watchers") {
        let having = [("watchers", json!(watchers))];
        let mut add = |what: &str, of: &dyn Fn(&Value) -> Option<f64>| {
            rows.push(row(format!("{watchers} watchers, {what}"), figures, "watches", &having, of));
        };
        add("last receipt p50 ms", &at("/last/p50"));
        add("last receipt p99 ms", &at("/last/p99"));
        add("write answered p50 ms", &at("/answered/p50"));
        for (what, cpu) in [("server", "/used/server/cpu"), ("load generator", "/used/load/cpu")] {
            add(&format!("{what} CPU ms per update"), &|row: &Value| {
                Some(row.pointer(cpu)?.as_f64()? * 1e3 / row.pointer("/last/count")?.as_f64()?)
            });
        }
        add("updates", &at("/last/count"));
    }
    for size in figures.values("informers", "size") {
        let having = [("size", json!(size))];
        let mut add = |what: &str, of: &dyn Fn(&Value) -> Option<f64>| {
            rows.push(row(format!("100 informers on {size}, {what}"), figures, "informers", &having, of));
        };
        add("last one synchronized, s", &at("/seconds"));
        add("server CPU s", &at("/used/server/cpu"));
        add("load generator CPU s", &at("/used/load/cpu"));
        add("peak growth MiB", &|row: &Value| growth(row).map(|bytes| bytes / MIB));
    }
    table(text, "Watches", &rows);
}

fn fairness(text: &mut String, figures: &Figures) {
    let mut rows = Vec::new();
    let mut add = |what: &str, pointer: &'static str| {
        rows.push(row(what.to_owned(), figures, "fairness", &[], at(pointer)));
    };
    add("GET alone, p50 ms", "/alone/p50");
    add("GET alone, p99 ms", "/alone/p99");
    add("GET beside, p50 ms", "/beside/p50");
    add("GET beside, p99 ms", "/beside/p99");
    add("create, p99 ms", "/created/p99");
    add("whole lists at the same time", "/lists");
    table(text, "A user's GET beside one who lists all in a loop and one who creates 2,000 Machines", &rows);
}

fn processes(text: &mut String, figures: &Figures) {
    let mib = |pointer: &'static str| move |row: &Value| Some(row.pointer(pointer)?.as_f64()? / MIB);
    let mut rows = vec![
        row("binary, MiB".into(), figures, "binary", &[], mib("/bytes")),
        row("start to ready, empty, s".into(), figures, "start", &[], at("/seconds")),
        row("resident idle, MiB".into(), figures, "idle", &[], mib("/resident")),
    ];
    for size in figures.values("populate", "count") {
        let having = [("count", json!(size))];
        let name = format!("resident with {size} more, MiB");
        rows.push(row(name, figures, "populate", &having, mib("/resident")));
    }
    for objects in figures.values("restart", "objects") {
        let having = [("objects", json!(objects))];
        let name = format!("start to ready with {objects}, s");
        rows.push(row(name, figures, "restart", &having, at("/seconds")));
    }
    table(text, "Processes", &rows);
}
