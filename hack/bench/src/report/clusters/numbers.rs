//! Numbers of one measurement of clusters.

use serde_json::Value;

use super::mib;

pub(super) const MIB: f64 = 1_048_576.0;

/// Number of a row: its name in a table, its name in a plot, and its value.
pub(super) struct Number {
    pub(super) name: &'static str,
    pub(super) short: &'static str,
    pub(super) of: fn(&Value) -> Option<f64>,
}

fn at(row: &Value, pointer: &str) -> Option<f64> {
    row.pointer(pointer)?.as_f64()
}

fn per_machine(row: &Value, pointer: &str) -> Option<f64> {
    Some(at(row, pointer)? / at(row, "/machines")?)
}

/// Returns the seconds until all clusters are Available; `None` if some are not.
pub(super) fn seconds(row: &Value) -> Option<f64> {
    at(row, "/creation/seconds").filter(|_| at(row, "/creation/missing") == Some(0.0))
}

/// Returns the calls per Machine for the creation.
pub(super) fn calls(row: &Value) -> Option<f64> {
    per_machine(row, "/creation/calls/count")
}

/// Returns the calls per Machine and hour at rest.
pub(super) fn hourly(row: &Value) -> Option<f64> {
    Some(per_machine(row, "/rest/calls/count")? * 3600.0 / at(row, "/rest/seconds")?)
}

/// Returns the resident memory at rest, in MiB.
pub(super) fn resident(row: &Value) -> Option<f64> {
    mib(at(row, "/rest/memory/resident"))
}

/// Returns the anonymous part of it, in MiB.
pub(super) fn anonymous(row: &Value) -> Option<f64> {
    mib(at(row, "/rest/memory/anonymous"))
}

/// Returns the used part of a core at rest.
pub(super) fn core(row: &Value) -> Option<f64> {
    Some(at(row, "/rest/used/server/cpu")? / at(row, "/rest/seconds")?)
}

/// Returns the server's CPU seconds per Machine for the creation.
pub(super) fn cpu(row: &Value) -> Option<f64> {
    per_machine(row, "/creation/used/server/cpu")
}

/// All numbers, in the order of the tables.
pub(super) const NUMBERS: &[Number] = &[
    Number { name: "Machines", short: "", of: |row| at(row, "/machines") },
    Number { name: "objects sent after, s", short: "", of: |row| at(row, "/creation/applied") },
    Number {
        name: "infrastructure ready, first, s",
        short: "",
        of: |row| at(row, "/creation/infrastructure/first"),
    },
    Number { name: "… last, s", short: "", of: |row| at(row, "/creation/infrastructure/last") },
    Number {
        name: "control plane Machines with a server, first, s",
        short: "",
        of: |row| at(row, "/creation/controlPlaneServers/first"),
    },
    Number { name: "… last, s", short: "", of: |row| at(row, "/creation/controlPlaneServers/last") },
    Number {
        name: "control plane initialized, first, s",
        short: "",
        of: |row| at(row, "/creation/initialized/first"),
    },
    Number { name: "… last, s", short: "", of: |row| at(row, "/creation/initialized/last") },
    Number { name: "all Machines Running, s", short: "", of: |row| at(row, "/creation/running/last") },
    Number {
        name: "all Machines Ready and Clusters Available, s",
        short: "seconds until all is Available",
        of: seconds,
    },
    Number {
        name: "objects not ready in time",
        short: "",
        of: |row| at(row, "/creation/missing").filter(|count| *count > 0.0),
    },
    Number {
        name: "apply to Machine Ready, p50, s",
        short: "",
        of: |row| at(row, "/creation/machineReady/p50"),
    },
    Number {
        name: "… p99, s",
        short: "p99 seconds of a Machine",
        of: |row| at(row, "/creation/machineReady/p99"),
    },
    Number {
        name: "server, CPU s for the creation",
        short: "CPU seconds of the server",
        of: |row| at(row, "/creation/used/server/cpu"),
    },
    Number { name: "… per Machine", short: "", of: cpu },
    Number {
        name: "cloud and nodes, CPU s for the creation",
        short: "",
        of: |row| at(row, "/creation/used/cloud/cpu"),
    },
    Number {
        name: "load generator, CPU s for the creation",
        short: "",
        of: |row| at(row, "/creation/used/load/cpu"),
    },
    Number { name: "load average at its end", short: "", of: |row| at(row, "/creation/load") },
    Number { name: "calls to the cloud per Machine made", short: "per Machine made", of: calls },
    Number { name: "rest that was measured, s", short: "", of: |row| at(row, "/rest/seconds") },
    Number {
        name: "objects not ready at its end",
        short: "",
        of: |row| at(row, "/rest/missing").filter(|count| *count > 0.0),
    },
    Number { name: "calls per Machine and hour at rest", short: "per Machine and hour at rest", of: hourly },
    Number { name: "resident before, MiB", short: "", of: |row| mib(at(row, "/memoryBefore/resident")) },
    Number {
        name: "… at its peak during the creation, MiB",
        short: "",
        of: |row| mib(at(row, "/creation/memory/peak")),
    },
    Number { name: "… at rest, MiB", short: "resident MiB", of: resident },
    Number { name: "… anonymous, MiB", short: "", of: anonymous },
    Number {
        name: "… objects in the watch cache, MiB",
        short: "",
        of: |row| mib(at(row, "/rest/watchCache/objects")),
    },
    Number { name: "… its history, MiB", short: "", of: |row| mib(at(row, "/rest/watchCache/history")) },
    Number {
        name: "… its encoded events, MiB",
        short: "",
        of: |row| mib(at(row, "/rest/watchCache/encoded")),
    },
    Number {
        name: "… its sets of managed fields, MiB",
        short: "",
        of: |row| mib(at(row, "/rest/watchCache/fieldSets")),
    },
    Number {
        name: "CPU at rest, percent of a core",
        short: "percent of a core",
        of: |row| core(row).map(|core| core * 100.0),
    },
    Number {
        name: "cloud and nodes at rest, percent of a core",
        short: "",
        of: |row| Some(at(row, "/rest/used/cloud/cpu")? * 100.0 / at(row, "/rest/seconds")?),
    },
    Number { name: "… resident, MiB", short: "", of: |row| mib(at(row, "/rest/cloudMemory/resident")) },
    Number { name: "load average at the end of the rest", short: "", of: |row| at(row, "/rest/load") },
    Number {
        name: "deletion until all Clusters are gone, s",
        short: "",
        of: |row| at(row, "/deletion/seconds"),
    },
    Number {
        name: "calls per Machine deleted",
        short: "",
        of: |row| per_machine(row, "/deletion/calls/count"),
    },
    Number {
        name: "server, CPU s for the deletion",
        short: "",
        of: |row| at(row, "/deletion/used/server/cpu"),
    },
    Number { name: "resources left in the cloud", short: "", of: |row| at(row, "/deletion/resources") },
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_per_machine_and_per_hour() {
        let row = json!({
            "machines": 10,
            "creation": {"seconds": 4.0, "missing": 1, "calls": {"count": 150}, "used": {"server": {"cpu": 5.0}}},
            "rest": {"seconds": 600, "calls": {"count": 5}, "used": {"server": {"cpu": 60.0}}},
        });
        assert_eq!(calls(&row), Some(15.0));
        assert_eq!(hourly(&row), Some(3.0));
        assert_eq!(core(&row), Some(0.1));
        assert_eq!(seconds(&row), None, "a cluster is not there");
        assert_eq!(resident(&row), None);
    }
}
