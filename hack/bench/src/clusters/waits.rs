//! Waits between the stages of clusters and Machines, with the object that waited longest.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::timeline::{Observed, Stage, Timeline};

/// Waits of a cluster. The last stages are those of all its Machines.
const OF_CLUSTER: [(&str, Stage, Stage); 4] = [
    ("apply to infrastructure", Stage::Created, Stage::Infrastructure),
    ("infrastructure to initialized", Stage::Infrastructure, Stage::Initialized),
    ("initialized to all Machines Ready", Stage::Initialized, Stage::Ready),
    ("all Machines Ready to Available", Stage::Ready, Stage::Available),
];

/// Waits of a Machine.
const OF_MACHINE: [(&str, Stage, Stage); 4] = [
    ("created to user data", Stage::Created, Stage::Bootstrap),
    ("user data to server", Stage::Bootstrap, Stage::Infrastructure),
    ("server to Node", Stage::Infrastructure, Stage::Node),
    ("Node to Ready", Stage::Node, Stage::Ready),
];

/// Durations with the names of the objects that waited.
#[derive(Debug, Default)]
pub(super) struct Waits(Vec<(Duration, String)>);

impl Waits {
    fn add(&mut self, name: &str, begin: Option<Duration>, end: Option<Duration>) {
        if let Some((begin, end)) = begin.zip(end) {
            self.0.push((end.saturating_sub(begin), name.to_owned()));
        }
    }

    /// Returns count, median, 99th percentile and maximum in seconds, and the name of the object that waited longest.
    fn summary(mut self) -> Option<Value> {
        self.0.sort();
        let at = |numerator: usize| {
            let index = (self.0.len() * numerator).div_ceil(100).saturating_sub(1);
            self.0.get(index).map(|(wait, _)| wait.as_secs_f64())
        };
        let (longest, name) = self.0.last()?;
        Some(json!({
            "count": self.0.len(), "p50": at(50), "p99": at(99), "max": longest.as_secs_f64(), "longest": name,
        }))
    }
}

/// Latest time at which a Machine of each namespace became Ready.
fn all_ready(timeline: &Timeline) -> BTreeMap<&str, Duration> {
    let mut latest: BTreeMap<&str, Duration> = BTreeMap::new();
    for machine in timeline.machines.values() {
        if let Some(at) = machine.stages.at(Stage::Ready) {
            let held = latest.entry(machine.namespace.as_str()).or_default();
            *held = at.max(*held);
        }
    }
    latest
}

/// Returns the summary of each wait.
pub(super) fn all(timeline: &Timeline) -> Vec<Value> {
    let ready = all_ready(timeline);
    let at = |cluster: &Observed, stage: Stage| match stage {
        Stage::Ready => ready.get(cluster.namespace.as_str()).copied(),
        other => cluster.stages.at(other),
    };
    let mut all = Vec::new();
    for (wait, begin, end) in OF_CLUSTER {
        let mut waits = Waits::default();
        for (name, cluster) in &timeline.clusters {
            waits.add(name, at(cluster, begin), at(cluster, end));
        }
        all.push(("cluster", wait, waits));
    }
    for (of, control_plane) in [("control plane Machine", true), ("worker", false)] {
        for (wait, begin, end) in OF_MACHINE {
            let mut waits = Waits::default();
            for (name, machine) in
                timeline.machines.iter().filter(|(_, it)| it.control_plane == control_plane)
            {
                waits.add(name, machine.stages.at(begin), machine.stages.at(end));
            }
            all.push((of, wait, waits));
        }
    }
    let named = all.into_iter().filter_map(|(of, wait, waits)| {
        let mut summary = waits.summary()?;
        summary["of"] = of.into();
        summary["wait"] = wait.into();
        Some(summary)
    });
    named.collect()
}

/// Returns the summary of the times from the first object of a cluster until each of its Machines is Ready.
pub(super) fn machines(timeline: &Timeline) -> Option<Value> {
    let mut waits = Waits::default();
    for (name, machine) in &timeline.machines {
        let cluster = timeline.clusters.get(&machine.namespace);
        let applied = cluster.and_then(|cluster| cluster.stages.at(Stage::Created));
        waits.add(name, applied, machine.stages.at(Stage::Ready));
    }
    waits.summary()
}

/// Returns the seconds from `begun` until the first and the last object has reached a stage.
pub(super) fn first_and_last<'a>(
    objects: impl Iterator<Item = &'a Observed>,
    stage: Stage,
    begun: Duration,
) -> Value {
    let times = objects.filter_map(|it| it.stages.at(stage));
    let mut times: Vec<f64> = times.map(|time| time.saturating_sub(begun).as_secs_f64()).collect();
    times.sort_by(f64::total_cmp);
    json!({"count": times.len(), "first": times.first(), "last": times.last()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_names_the_object_that_waited_longest() {
        let mut waits = Waits::default();
        for number in 1..=200 {
            waits.add(&format!("m-{number}"), Some(Duration::ZERO), Some(Duration::from_secs(number)));
        }
        waits.add("no end", Some(Duration::ZERO), None);
        let summary = waits.summary().unwrap();
        assert_eq!(
            summary,
            json!({"count": 200, "p50": 100.0, "p99": 198.0, "max": 200.0, "longest": "m-200"})
        );
        assert_eq!(Waits::default().summary(), None);
    }
}
