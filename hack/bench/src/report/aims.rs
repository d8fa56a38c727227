//! Aims of the benchmark: target ratios within one run, and the check that they are reached.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::figures::{Figures, at, cpu, growth, rate, short};

/// Aim: the measured quantity, its reference, the least ratio, and the measured ratio.
struct Aim {
    what: String,
    against: &'static str,
    aim: f64,
    measured: Option<f64>,
}

/// Share of an aim that counts as reached. Ratios of two runs on one machine differ by up to a tenth, so an
/// aim is a band, and performance is not tuned inside it.
const BAND: f64 = 0.85;

/// Largest release binary, in bytes: it still downloads in seconds, and a smaller one had no benefit.
const LARGEST_BINARY: f64 = 40e6;

/// Formats the table of aims: every ratio is the number of times by which Capstan is better.
pub(crate) fn table(figures: &Figures) -> String {
    let mut text = String::from(
        "## Aims\n\nHow many times better than the other server; of the limits, the part reached. Within 15 % of an aim \
         counts as reached.\n\n\
         | what | against | aim | measured | |\n|---|---|---:|---:|---|\n",
    );
    for Aim { what, against, aim, measured } in all(figures) {
        let (number, verdict) = match measured {
            Some(measured) if measured >= aim * BAND => (short(measured), "reached"),
            Some(measured) => (short(measured), "**missed**"),
            None => ("not measured".to_owned(), ""),
        };
        let _ = writeln!(text, "| {what} | {against} | {} | {number} | {verdict} |", short(aim));
    }
    text
}

fn all(figures: &Figures) -> Vec<Aim> {
    let mut aims = Vec::new();
    per_operation(figures, &mut aims);
    rates(figures, &mut aims);
    reads(figures, &mut aims);
    processes(figures, &mut aims);
    aims
}

/// Returns the number of the other server divided by Capstan's.
fn ratio(
    figures: &Figures,
    phase: &str,
    other: &str,
    having: &[(&str, Value)],
    of: impl Fn(&Value) -> Option<f64>,
) -> Option<f64> {
    let theirs = figures.of(phase, other, having, &of)?.median;
    let ours = figures.of(phase, "capstan", having, &of)?.median;
    Some(theirs / ours)
}

const KUBE: &str = "kube-apiserver";
const SAMPLE: &str = "sample-apiserver";

fn per_operation(figures: &Figures, aims: &mut Vec<Aim>) {
    for (operation, aim) in
        [("create", 15.0), ("get", 15.0), ("status", 20.0), ("patch", 20.0), ("apply", 20.0)]
    {
        let having = [("operation", json!(operation)), ("inFlight", json!(16))];
        let mut add = |other: &'static str, aim: f64| {
            let measured = ratio(figures, "operations", other, &having, cpu("server"));
            aims.push(Aim { what: format!("server CPU per {operation}"), against: other, aim, measured });
        };
        add(KUBE, aim);
        add(SAMPLE, 5.0);
    }
}

fn rates(figures: &Figures, aims: &mut Vec<Aim>) {
    let raw = |operation: &str, size: usize| {
        let having = [("operation", json!(operation)), ("size", json!(size)), ("inFlight", json!(64))];
        figures.of("limit", "etcd", &having, rate).map(|figure| figure.median)
    };
    for operation in ["create", "status", "patch", "apply"] {
        let having = [("operation", json!(operation)), ("inFlight", json!(64))];
        let of = |server: &str| figures.of("operations", server, &having, rate).map(|figure| figure.median);
        let what = format!("{operation} per second at 64 in flight");
        let same_size = if operation == "create" { raw("create", 1550) } else { raw("update", 5600) };
        let part = of("capstan").zip(same_size).map(|(ours, raw)| ours / raw);
        aims.push(Aim { what: what.clone(), against: "etcd's transactions", aim: 0.6, measured: part });
        let times = of("capstan").zip(of(KUBE)).map(|(ours, theirs)| ours / theirs);
        aims.push(Aim { what, against: KUBE, aim: 8.0, measured: times });
    }
    let embedded =
        figures.of("limit", "embedded", &[("inFlight", json!(64))], rate).map(|figure| figure.median);
    aims.push(Aim {
        what: "embedded store, durable creates per second at 64 in flight".into(),
        against: "etcd's transactions",
        aim: 3.0,
        measured: embedded.zip(raw("create", 1550)).map(|(ours, raw)| ours / raw),
    });
    let having = [("operation", json!("get")), ("inFlight", json!(16))];
    let measured = ratio(figures, "operations", KUBE, &having, at("/latency/p99"));
    aims.push(Aim { what: "GET p99 at 16 in flight".into(), against: KUBE, aim: 8.0, measured });
}

fn reads(figures: &Figures, aims: &mut Vec<Aim>) {
    let whole = [("size", json!(10_000)), ("readers", json!(1)), ("form", json!("whole"))];
    let what = "list of 10,000, whole".to_owned();
    let measured = ratio(figures, "lists", KUBE, &whole, at("/latency/p50"));
    aims.push(Aim { what: what.clone(), against: KUBE, aim: 25.0, measured });
    let measured = ratio(figures, "lists", "floor", &whole, at("/latency/p50"));
    aims.push(Aim { what, against: "the TLS stack", aim: 0.5, measured });
    let eight = [("size", json!(10_000)), ("readers", json!(8)), ("form", json!("whole"))];
    let measured = ratio(figures, "lists", KUBE, &eight, growth);
    let what = "peak memory growth, 8 whole lists of 10,000".into();
    aims.push(Aim { what, against: KUBE, aim: 30.0, measured });
    for (name, pointer) in [("p50", "/last/p50"), ("p99", "/last/p99")] {
        let measured = ratio(figures, "watches", KUBE, &[("watchers", json!(100))], at(pointer));
        aims.push(Aim {
            what: format!("fan-out to 100 watchers, {name}"),
            against: KUBE,
            aim: 5.0,
            measured,
        });
    }
    // The limit is ten times the idle value: the ratio says how often the measured value fits into the limit.
    let waits = |row: &Value| {
        let (alone, beside) = (row.pointer("/alone/p99")?.as_f64()?, row.pointer("/beside/p99")?.as_f64()?);
        Some(10.0 * alone / beside)
    };
    for (server, store) in [("capstan", "etcd"), ("capstan-embedded", "the embedded store")] {
        aims.push(Aim {
            what: format!("GET p99 beside a user who lists all and one who creates 2,000, on {store}"),
            against: "ten times its idle value",
            aim: 1.0,
            measured: figures.of("fairness", server, &[], waits).map(|figure| figure.median),
        });
    }
}

fn processes(figures: &Figures, aims: &mut Vec<Aim>) {
    let measured = ratio(figures, "populate", KUBE, &[("count", json!(10_000))], at("/resident"));
    aims.push(Aim { what: "resident with 10,000 Machines".into(), against: KUBE, aim: 25.0, measured });
    let measured = ratio(figures, "start", KUBE, &[], at("/seconds"));
    aims.push(Aim { what: "start to ready, empty".into(), against: KUBE, aim: 15.0, measured });
    for objects in figures.values("restart", "objects").into_iter().filter(|objects| *objects >= 100_000) {
        let ours = figures.of("restart", "capstan", &[("objects", json!(objects))], at("/seconds"));
        let measured = ours.map(|figure| 3.0 / figure.median);
        let what = format!("start to ready with {objects} objects");
        aims.push(Aim { what, against: "3 s", aim: 1.0, measured });
    }
    let ours = figures.of("binary", "capstan", &[], at("/bytes"));
    let measured = ours.map(|figure| LARGEST_BINARY / figure.median);
    aims.push(Aim { what: "binary".into(), against: "40 MB", aim: 1.0, measured });
}
