//! Time limits of the drain and of the wait for volumes, and the list of what a deletion gives up at their end. Pure.

use apiserver_types::Machine;
use apiserver_types::rollout_settings::{NODE_DRAIN_TIMEOUT, NODE_VOLUME_DETACH_TIMEOUT, timeout_seconds};
use kube::ResourceExt;

use super::decide::{Stage, Step};
use super::deletion::{self, NO_DRAIN, NO_VOLUMES};
use super::observe::{Observed, Outcome};
use crate::aggregate::one_line;
use crate::deletion_timeouts::NODE_DELETION_TIMEOUT;

/// Time limit of a stage of the deletion.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TimeLimit {
    /// `None`: the stage may last for ever. Unit: seconds.
    pub seconds: Option<i64>,
    /// Setting that decides, for people: a field of the Machine, or an annotation of its Cluster.
    pub setting: String,
}

/// Time that Nova has to detach the volumes of a server that is off. The deletion of the server detaches them, too.
/// Unit: seconds.
const DETACHMENT: i64 = 300;

/// Returns the time limit of the drain or of the wait for volumes. Nova has a few minutes to detach the volumes of a
/// server that is off, because no Node unmounts them.
pub(super) fn of(machine: &Machine, observed: &Observed, stage: Stage) -> TimeLimit {
    let limit = configured(machine, observed, stage);
    let detaches = stage == Stage::Volumes && deletion::off(observed).is_some();
    if detaches && limit.seconds.is_none_or(|seconds| seconds > DETACHMENT) {
        let setting = "the rule for servers that are off".to_owned();
        return TimeLimit { seconds: Some(DETACHMENT), setting };
    }
    limit
}

/// Returns the time limit that is configured. The Machine's own wins over that of its Cluster, also if it is 0, which
/// is for ever.
fn configured(machine: &Machine, observed: &Observed, stage: Stage) -> TimeLimit {
    let deletion = machine.spec.deletion.as_ref();
    let (own, key) = match stage {
        Stage::Drain => (deletion.and_then(|it| it.node_drain_timeout_seconds), NODE_DRAIN_TIMEOUT),
        _ => (deletion.and_then(|it| it.node_volume_detach_timeout_seconds), NODE_VOLUME_DETACH_TIMEOUT),
    };
    let of_cluster = observed.cluster.as_ref().filter(|_| own.is_none()).and_then(|cluster| {
        let seconds = timeout_seconds(cluster.annotations().get(key)?)?;
        Some((seconds, format!("annotation {key} of Cluster {}", cluster.name_any())))
    });
    let of_machine = || (own.map_or(0, i64::from), field(stage).to_owned());
    let (seconds, setting) = of_cluster.unwrap_or_else(of_machine);
    TimeLimit { seconds: Some(seconds).filter(|seconds| *seconds > 0), setting }
}

/// Returns the field of a Machine with the time limit of a stage.
pub(super) const fn field(stage: Stage) -> &'static str {
    match stage {
        Stage::Drain => "spec.deletion.nodeDrainTimeoutSeconds",
        _ => "spec.deletion.nodeVolumeDetachTimeoutSeconds",
    }
}

/// Reports whether the time of a stage has ended.
pub(super) fn is_over(machine: &Machine, observed: &Observed, stage: Stage) -> bool {
    let limit = of(machine, observed, stage).seconds.zip(deletion::started(machine, stage));
    limit.is_some_and(|(seconds, since)| observed.now.duration_since(since).as_secs() >= seconds)
}

/// Returns reason and message of the Event about what the deletion gives up in a pass that ended with `step`. `machine`
/// still has the status of the pass before, so that each is given up once.
pub(super) fn given_up(
    machine: &Machine,
    observed: &Observed,
    step: &Step,
) -> Option<(&'static str, String)> {
    let name = deletion::node_name(machine, observed)?;
    match (step, &observed.deletion.node) {
        (Step::Pause | Step::Ignore | Step::WaitForHook(Stage::PreDrainHook, _), _) => None,
        (Step::Release, Some(Outcome::Failed(error))) => {
            let own = machine.spec.deletion.as_ref().and_then(|it| it.node_deletion_timeout_seconds);
            let seconds = own.unwrap_or(NODE_DELETION_TIMEOUT);
            let message = format!(
                "Node {name:?} was left in the workload cluster after {seconds} s, the limit of \
                 spec.deletion.nodeDeletionTimeoutSeconds. Delete it with kubectl delete node {name}. Last error: {error}"
            );
            Some(("NodeLeftBehind", message))
        }
        _ => stage_given_up(machine, observed, &name),
    }
}

/// Returns the Event about a stage that the pass before waited for, and whose time has ended.
fn stage_given_up(machine: &Machine, observed: &Observed, name: &str) -> Option<(&'static str, String)> {
    let last = machine.condition("Deleting")?;
    let (stage, skip, reason, work) = match last.reason.as_str() {
        "DrainingNode" => (Stage::Drain, NO_DRAIN, "DrainGivenUp", "The drain of"),
        "WaitingForVolumeDetach" => {
            (Stage::Volumes, NO_VOLUMES, "VolumeDetachGivenUp", "The wait for the volumes of")
        }
        _ => return None,
    };
    let is_given_up = is_over(machine, observed, stage)
        && !machine.annotations().contains_key(skip)
        && deletion::touches_node(machine, observed);
    let TimeLimit { seconds, setting } = of(machine, observed, stage);
    seconds.filter(|_| is_given_up).map(|seconds| {
        let state = one_line(&last.message);
        let message = format!(
            "{work} Node {name:?} was given up after {seconds} s, the limit of {setting}. Its last state: {state}"
        );
        (reason, message)
    })
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Cluster, ClusterSpec};
    use serde_json::{Value, json};

    use super::*;
    use crate::machine::observe::DeletionObservation;

    /// Machine that has waited in a stage since 10:00:00.
    fn machine(reason: &str, deletion: &Value) -> Machine {
        serde_json::from_value(json!({
            "metadata": {"name": "m", "deletionTimestamp": "2026-11-26T10:00:00Z"},
            "spec": {"clusterName": "c", "bootstrap": {}, "deletion": deletion,
                "infrastructureRef": {"apiGroup": "g", "kind": "OpenStackMachine", "name": "m"}},
            "status": {
                "nodeRef": {"name": "n"},
                "deletion": {"nodeDrainStartTime": "2026-11-26T10:00:00Z",
                    "waitForNodeVolumeDetachStartTime": "2026-11-26T10:00:00Z"},
                "conditions": [{"type": "Deleting", "status": "True", "reason": reason,
                    "message": "not done:\n* Pod a/b", "lastTransitionTime": "2026-11-26T10:00:00Z"}],
            },
        }))
        .unwrap()
    }

    /// Observation at a time, with a Cluster that has these annotations.
    fn observed(now: &str, annotations: &[(&str, &str)]) -> Observed {
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        let pairs = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        cluster.annotations_mut().extend(pairs);
        let deletion =
            DeletionObservation { another_control_plane_machine: true, ..DeletionObservation::default() };
        Observed { cluster: Some(cluster), deletion, now: now.parse().unwrap(), ..Observed::default() }
    }

    #[test]
    fn a_cluster_limits_the_deletions_of_machines_without_a_limit_of_their_own() {
        let annotations = [(NODE_DRAIN_TIMEOUT, "30m"), (NODE_VOLUME_DETACH_TIMEOUT, "soon")];
        let observed = observed("2026-11-26T10:00:00Z", &annotations);
        let limit = |deletion: Value, stage| of(&machine("DrainingNode", &deletion), &observed, stage);
        let of_cluster = limit(json!({}), Stage::Drain);
        assert_eq!(of_cluster.seconds, Some(1800));
        assert_eq!(of_cluster.setting, "annotation capstan.dev/node-drain-timeout of Cluster c");
        let own = limit(json!({"nodeDrainTimeoutSeconds": 60}), Stage::Drain);
        assert_eq!((own.seconds, own.setting.as_str()), (Some(60), "spec.deletion.nodeDrainTimeoutSeconds"));
        assert_eq!(limit(json!({"nodeDrainTimeoutSeconds": 0}), Stage::Drain).seconds, None, "for ever");
        assert_eq!(limit(json!({}), Stage::Volumes).seconds, None, "an unusable value counts as absent");
    }

    #[test]
    fn what_a_deletion_gives_up_by_its_time_limit_is_listed() {
        let late = observed("2026-11-26T10:01:00Z", &[(NODE_VOLUME_DETACH_TIMEOUT, "1m")]);
        let limited = json!({"nodeDrainTimeoutSeconds": 60});
        let draining = machine("DrainingNode", &limited);
        let (reason, text) = given_up(&draining, &late, &Step::AwaitVolumes).unwrap();
        assert_eq!(reason, "DrainGivenUp");
        assert_eq!(
            text,
            "The drain of Node \"n\" was given up after 60 s, the limit of spec.deletion.nodeDrainTimeoutSeconds. Its last \
             state: not done: * Pod a/b"
        );
        let detaching = machine("WaitingForVolumeDetach", &limited);
        let (reason, text) = given_up(&detaching, &late, &Step::DeleteInfrastructure).unwrap();
        assert_eq!(reason, "VolumeDetachGivenUp");
        assert!(text.contains("annotation capstan.dev/node-volume-detach-timeout of Cluster c"), "{text}");
        let early = Observed { now: "2026-11-26T10:00:59Z".parse().unwrap(), ..late.clone() };
        assert_eq!(given_up(&draining, &early, &Step::AwaitVolumes), None, "the drain is done");
        assert_eq!(given_up(&draining, &late, &Step::Pause), None);
        let deleting = machine("WaitingForInfrastructureDeletion", &limited);
        assert_eq!(given_up(&deleting, &late, &Step::DeleteInfrastructure), None, "it is listed already");
        let mut excluded = draining;
        excluded.annotations_mut().insert(NO_DRAIN.to_owned(), String::new());
        assert_eq!(given_up(&excluded, &late, &Step::AwaitVolumes), None, "the user skips the drain");
    }

    #[test]
    fn nova_has_five_minutes_to_detach_the_volumes_of_a_server_that_is_off() {
        use crate::machine::fence::Verdict;
        use crate::machine::node::NodeObservation;
        let mut off = observed("2026-11-26T10:05:00Z", &[]);
        let limit = |observed: &Observed, deletion: Value| {
            of(&machine("WaitingForVolumeDetach", &deletion), observed, Stage::Volumes).seconds
        };
        off.deletion.server = Some(Verdict::Off("Nova says SHUTOFF".to_owned()));
        assert_eq!(limit(&off, json!({})), None, "the Node reports");
        let status = json!({"conditions": [{"type": "Ready", "status": "Unknown"}]});
        off.node = NodeObservation::Found(serde_json::from_value(json!({"status": status})).unwrap());
        assert_eq!(limit(&off, json!({})), Some(300));
        assert_eq!(limit(&off, json!({"nodeVolumeDetachTimeoutSeconds": 0})), Some(300), "for ever");
        assert_eq!(limit(&off, json!({"nodeVolumeDetachTimeoutSeconds": 60})), Some(60));
        let machine = machine("WaitingForVolumeDetach", &json!({}));
        assert_eq!(of(&machine, &off, Stage::Drain).seconds, None);
        let (reason, text) = given_up(&machine, &off, &Step::DeleteInfrastructure).unwrap();
        assert_eq!(reason, "VolumeDetachGivenUp");
        assert!(text.contains("after 300 s, the limit of the rule for servers that are off"), "{text}");
    }

    #[test]
    fn a_node_that_stays_is_named_with_the_command_that_deletes_it() {
        let machine = machine("DeletingNode", &json!({}));
        let mut observed = observed("2026-11-26T10:01:00Z", &[]);
        assert_eq!(given_up(&machine, &observed, &Step::Release), None);
        observed.deletion.node = Some(Outcome::Failed("connection refused".to_owned()));
        let (reason, text) = given_up(&machine, &observed, &Step::Release).unwrap();
        assert_eq!(reason, "NodeLeftBehind");
        assert!(text.contains("after 10 s") && text.contains("kubectl delete node n"), "{text}");
        assert!(text.ends_with("Last error: connection refused"), "{text}");
    }
}
