//! Comparison with upstream's controllers: Cluster API 1.14.0 with its OpenStack provider, on the same simulated cloud.

use std::fmt::Write as _;

use serde_json::Value;

use super::numbers::{anonymous, calls, core, cpu, hourly, resident, seconds};
use crate::report::figures::{Figures, short};

/// Row of the table: what upstream needed with 1 and with 5 clusters, and Capstan's number. A number that upstream was
/// not measured for is absent.
struct Compared {
    name: &'static str,
    upstream: [Option<f64>; 2],
    ours: fn(&Value) -> Option<f64>,
}

/// Upstream's memory was measured in MB.
const MB_PER_MIB: f64 = 1.048_576;

fn at(row: &Value, pointer: &str) -> Option<f64> {
    row.pointer(pointer)?.as_f64()
}

/// Measurements of upstream's controllers on a real kube-apiserver and etcd, on the same machine beside other
/// programs: four managers, which are core, bootstrap, control plane and OpenStack.
const COMPARED: &[Compared] = &[
    Compared {
        name: "infrastructure ready, last, s",
        upstream: [Some(4.0), Some(12.0)],
        ours: |row| at(row, "/creation/infrastructure/last"),
    },
    Compared {
        name: "control plane Machines with a server, last, s",
        upstream: [Some(27.0), Some(52.0)],
        ours: |row| at(row, "/creation/controlPlaneServers/last"),
    },
    Compared {
        name: "control plane initialized, first, s",
        upstream: [Some(40.0), Some(50.0)],
        ours: |row| at(row, "/creation/initialized/first"),
    },
    Compared {
        name: "all Machines Running, s",
        upstream: [Some(78.0), Some(239.0)],
        ours: |row| at(row, "/creation/running/last"),
    },
    Compared { name: "all Clusters Available, s", upstream: [None, None], ours: seconds },
    Compared { name: "calls to the cloud per Machine made", upstream: [Some(61.8), Some(58.8)], ours: calls },
    Compared { name: "calls per Machine and hour at rest", upstream: [Some(72.0), None], ours: hourly },
    Compared {
        name: "CPU s per Machine made, with API server and etcd",
        upstream: [None, Some(5.3)],
        ours: cpu,
    },
    Compared {
        name: "CPU at rest, percent of a core, with API server and etcd",
        upstream: [Some(19.6), None],
        ours: |row| core(row).map(|core| core * 100.0),
    },
    Compared { name: "resident, managers alone, MB", upstream: [Some(287.0), Some(324.0)], ours: |_| None },
    Compared {
        name: "resident, with API server and etcd, MB",
        upstream: [Some(935.0), Some(1471.0)],
        ours: |row| resident(row).map(|mib| mib * MB_PER_MIB),
    },
    Compared {
        name: "… anonymous, managers alone, MB",
        upstream: [Some(100.0), Some(139.0)],
        ours: |row| anonymous(row).map(|mib| mib * MB_PER_MIB),
    },
    Compared {
        name: "deletion until the Cluster is gone, s",
        upstream: [Some(67.0), None],
        ours: |row| at(row, "/deletion/seconds"),
    },
    Compared {
        name: "calls per Machine deleted",
        upstream: [Some(27.7), None],
        ours: |row| Some(at(row, "/deletion/calls/count")? / at(row, "/machines")?),
    },
];

/// Returns the row of the comparison with this number of clusters.
pub(super) fn row(figures: &Figures, clusters: u64) -> Option<Value> {
    let rows = figures.rows("peer");
    let found = rows.into_iter().find(|row| row["variant"] == "" && row["clusters"] == clusters);
    found.cloned()
}

/// Returns the sections of the comparison.
pub(super) fn sections(figures: &Figures) -> String {
    let rows = [1, 5].map(|clusters| row(figures, clusters));
    let rest: Vec<&Value> = figures.rows("peer").into_iter().filter(|row| row["variant"] == "real").collect();
    let mut text = String::new();
    if rows.iter().all(Option::is_none) {
        return text;
    }
    text.push_str(
        "\n## Beside upstream's controllers\n\nClusters of 1 control plane Machine and 10 workers. A server is ACTIVE after \
         300 ms and gone after 300 ms, and its Node is Ready 500 ms later. Upstream's numbers are those of Cluster API \
         1.14.0 with its OpenStack provider on a kube-apiserver with etcd, on the same simulated cloud. They were \
         measured beside other programs, so its seconds are upper bounds. Capstan holds its own API: its memory stands \
         against that of managers, API server and etcd together.\n\n\
         | | upstream, 1 cluster | Capstan | upstream, 5 clusters | Capstan |\n|---|---:|---:|---:|---:|\n",
    );
    for Compared { name, upstream, ours } in COMPARED {
        let cell = |number: Option<f64>| number.map_or_else(String::new, short);
        let mine = rows.each_ref().map(|row| cell(row.as_ref().and_then(ours)));
        let [one, five] = upstream.map(cell);
        let _ = writeln!(text, "| {name} | {one} | {} | {five} | {} |", mine[0], mine[1]);
    }
    let name = |row: &Value| format!("{} cluster", row["clusters"]);
    super::columns(&mut text, "The same with 50 ms per call and 30 s per server", &rest, name);
    text
}
