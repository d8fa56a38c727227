//! Ended pauses of Machines: the cordon that a MachineOperation began before such a pause ends with it.
//!
//! A pause is by the annotation of the Machine, or by `spec.paused` of its Cluster. `clusterctl move` pauses the Cluster
//! also in its target, and must end no cordon there. It moves no operations, so the end of a pause by the Cluster ends only
//! the cordon of an operation that still exists.
//!
//! Ended pauses are in the memory of this process. If it ends before the Node is written, the Node stays unschedulable
//! until the action `uncordon`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use apiserver_types::{Cluster, Machine, MachineOperation, OperationPhase};
use controllers_runtime::{ControllerContext, ReconcileError, paused};
use controllers_workload::drain::{CORDONED_BY, is_cordoned};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::observe::Observed;
use crate::paused::is_by_annotation;

/// Pause of a Machine that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EndedPause {
    begun: Timestamp,
    /// The annotation of the Machine itself paused it; else its Cluster did.
    by_annotation: bool,
}

/// Pauses that have ended, by the uid of the Machine.
#[derive(Debug, Default)]
pub(super) struct EndedPauses(Mutex<HashMap<String, EndedPause>>);

impl EndedPauses {
    /// Returns the uid of the operation whose cordon of the Machine's Node ends now. The next passes return it again, until
    /// the Node shows the end.
    ///
    /// # Errors
    /// The operations of the Machine cannot be read.
    pub(super) async fn ended_cordon(
        &self,
        context: &ControllerContext,
        machine: &Machine,
        observed: &Observed,
    ) -> Result<Option<String>, ReconcileError> {
        let Some(pause) = self.note(machine, observed.cluster.as_ref()) else { return Ok(None) };
        let Some(node) = observed.node.found() else { return Ok(None) };
        if let Some(uid) = cordoned_by(node) {
            let namespace = machine.namespace().unwrap_or_default();
            let api: Api<MachineOperation> = Api::namespaced(context.client.clone(), &namespace);
            let mut operations = api.list(&ListParams::default()).await?.items;
            operations.retain(|it| Some(&it.spec.machine_name) == machine.metadata.name.as_ref());
            if ends(uid, &operations, pause) {
                return Ok(Some(uid.to_owned()));
            }
        }
        self.forget(&machine.uid().unwrap_or_default());
        Ok(None)
    }

    /// Forgets a Machine.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Takes over the state of a Machine, before its condition `Paused` is reported. Returns the pause that has ended.
    fn note(&self, machine: &Machine, cluster: Option<&Cluster>) -> Option<EndedPause> {
        let uid = machine.uid()?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if paused(machine, cluster) || machine.metadata.deletion_timestamp.is_some() {
            known.remove(&uid);
            return None;
        }
        if let Some(reported) = machine.condition("Paused").filter(|condition| condition.holds())
            && let Ok(begun) = reported.last_transition_time.0.parse()
        {
            known.insert(uid.clone(), EndedPause { begun, by_annotation: is_by_annotation(reported) });
        }
        known.get(&uid).copied()
    }
}

/// Returns the uid of the operation that has cordoned a Node; `None` if no operation has.
pub(super) fn cordoned_by(node: &Node) -> Option<&str> {
    let (uid, _) = node.annotations().get(CORDONED_BY)?.split_once('/')?;
    is_cordoned(node).then_some(uid)
}

/// Reports whether the cordon of an operation ends with a pause: the operation began before the pause, and all operations
/// of the Machine are over. One that is not over may need the cordon, and a later one wants it. Pure.
fn ends(uid: &str, operations: &[MachineOperation], pause: EndedPause) -> bool {
    let is_over = |operation: &MachineOperation| {
        let phase = operation.status.as_ref().and_then(|status| status.phase);
        matches!(phase, Some(OperationPhase::Complete | OperationPhase::Failed | OperationPhase::Cancelled))
    };
    let is_older = |operation: &MachineOperation| {
        let started = operation.status.as_ref().and_then(|status| status.start_time.as_ref());
        let started: Option<Timestamp> = started.and_then(|time| time.0.parse().ok());
        started.is_some_and(|started| started <= pause.begun)
    };
    let of_cordon = operations.iter().find(|it| it.metadata.uid.as_deref() == Some(uid));
    // An old operation is not kept, and one of another management cluster does not exist here.
    operations.iter().all(is_over) && of_cordon.map_or(pause.by_annotation, is_older)
}

/// Adds the end of a cordon to the merge patch of a Node.
pub(super) fn uncordon(node: &Node, patch: Option<Value>) -> Value {
    let guard = || json!({"metadata": {"resourceVersion": node.resource_version(), "uid": node.uid()}});
    let mut patch = patch.unwrap_or_else(guard);
    patch["metadata"]["annotations"][CORDONED_BY] = Value::Null;
    patch["spec"]["unschedulable"] = Value::Null;
    patch
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineSpec, Time};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;

    use super::super::FINALIZER;
    use super::super::decide::{Step, next_step};
    use super::super::node::NodeObservation;
    use super::*;
    use crate::api_in_memory::FakeApi;
    use crate::paused::condition;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn node(mark: Option<&str>) -> Node {
        let annotations = mark.map(|mark| json!({CORDONED_BY: mark})).unwrap_or_default();
        let metadata = json!({"name": "n", "resourceVersion": "1", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"unschedulable": true}})).unwrap()
    }

    fn operation(name: &str, phase: &str, second: i64) -> Value {
        json!({"apiVersion": "capstan.dev/v1alpha1", "kind": "MachineOperation",
            "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}")},
            "spec": {"action": "Cordon", "machineName": "m"},
            "status": {"phase": phase, "startTime": at(second).to_string()}})
    }

    /// Returns a pause from second 100 on.
    fn pause(by_annotation: bool) -> EndedPause {
        EndedPause { begun: at(100), by_annotation }
    }

    /// Returns a Machine whose last pass reported a pause from second 100 on.
    fn machine(cluster: Option<&Cluster>) -> Machine {
        let mut machine = Machine::new("m", MachineSpec::default());
        (machine.metadata.namespace, machine.metadata.uid) = (Some("ns".to_owned()), Some("u".to_owned()));
        machine.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        if cluster.is_none() {
            machine.annotations_mut().insert("cluster.x-k8s.io/paused".to_owned(), String::new());
        }
        let paused = condition(&machine, cluster, &Time(at(100).to_string()));
        machine.annotations_mut().clear();
        machine.status.get_or_insert_default().conditions = Some(vec![paused]);
        machine
    }

    #[test]
    fn only_a_cordon_from_before_the_pause_ends_and_none_while_an_operation_is_not_over() {
        let a = || operation("a", "Complete", 50);
        let table = [
            ("cordoned before", vec![a()], true),
            ("cordoned since", vec![operation("a", "Complete", 150)], false),
            ("its operation is not kept", vec![], true),
            ("another one runs", vec![a(), operation("b", "Running", 50)], false),
            ("another one waits", vec![a(), operation("b", "Pending", 150)], false),
            ("another one is over", vec![a(), operation("b", "Failed", 150)], true),
        ];
        for (case, operations, expected) in table {
            let operations: Vec<MachineOperation> =
                operations.into_iter().map(|it| serde_json::from_value(it).unwrap()).collect();
            assert_eq!(ends("uid-a", &operations, pause(true)), expected, "{case}");
            let is_known = !operations.is_empty();
            assert_eq!(
                ends("uid-a", &operations, pause(false)),
                expected && is_known,
                "of a Cluster: {case}"
            );
        }
    }

    #[test]
    fn the_end_of_a_pause_counts_whether_the_machine_or_its_cluster_was_paused() {
        let pauses = EndedPauses::default();
        assert_eq!(pauses.note(&machine(None), None), Some(pause(true)));
        let mut again = machine(None);
        again.annotations_mut().insert("cluster.x-k8s.io/paused".to_owned(), String::new());
        assert_eq!(pauses.note(&again, None), None, "it is paused");
        let mut over = machine(None);
        over.status = None;
        assert_eq!(pauses.note(&over, None), None, "the new pause has replaced the old one");
        let mut going = machine(None);
        going.metadata.deletion_timestamp = Some(MetaTime(at(200)));
        assert_eq!(pauses.note(&going, None), None);
        let mut cluster = Cluster::default();
        cluster.spec.paused = Some(true);
        assert_eq!(pauses.note(&machine(Some(&cluster)), Some(&cluster)), None, "the Cluster is paused");
        assert_eq!(pauses.note(&machine(Some(&cluster)), None), Some(pause(false)));
    }

    /// The target of `clusterctl move` has no operations, and a Cluster whose pause ends.
    #[tokio::test]
    async fn the_end_of_a_pause_by_the_cluster_ends_only_the_cordon_of_an_operation_that_exists() {
        let path = "/apis/capstan.dev/v1alpha1/namespaces/ns/machineoperations";
        let mut cluster = Cluster::default();
        cluster.spec.paused = Some(true);
        let node = NodeObservation::Found(Box::new(node(Some("uid-a/boot"))));
        let observed = Observed { node, ..Observed::default() };
        for (operations, expected) in [(vec![operation("a", "Complete", 50)], Some("uid-a")), (vec![], None)]
        {
            let api = FakeApi::default();
            api.put(path, json!({"items": operations}));
            let (context, pauses) = (api.context("machine-controller"), EndedPauses::default());
            let ended = pauses.ended_cordon(&context, &machine(Some(&cluster)), &observed).await.unwrap();
            assert_eq!(ended.as_deref(), expected);
        }
    }

    #[tokio::test]
    async fn a_cordon_ends_once_the_node_is_written_and_the_pause_is_forgotten() {
        let api = FakeApi::default();
        let path = "/apis/capstan.dev/v1alpha1/namespaces/ns/machineoperations";
        api.put(path, json!({"items": [operation("a", "Complete", 50)]}));
        let (context, pauses) = (api.context("machine-controller"), EndedPauses::default());
        let mut observed = Observed::default();
        let mut machine = machine(None);
        let ended = async |machine: &Machine, observed: &Observed| {
            pauses.ended_cordon(&context, machine, observed).await.unwrap()
        };
        assert_eq!(ended(&machine, &observed).await, None, "the Node is not known");
        // The pass reports the end of the pause.
        machine.status = None;
        observed.node = NodeObservation::Found(Box::new(node(Some("uid-a/boot"))));
        for _ in 0..2 {
            assert_eq!(ended(&machine, &observed).await.as_deref(), Some("uid-a"), "it is not written");
        }
        observed.ends_cordon = Some("uid-a".to_owned());
        let Step::UpdateNode(patch) = next_step(&machine, &observed) else { panic!("the Node is cordoned") };
        assert_eq!(patch.pointer("/spec/unschedulable"), Some(&Value::Null));
        assert_eq!(patch["metadata"]["annotations"].get(CORDONED_BY), Some(&Value::Null));
        assert_eq!(patch["metadata"]["resourceVersion"], "1");
        observed.ends_cordon = Some("uid-b".to_owned());
        let Step::UpdateNode(patch) = next_step(&machine, &observed) else { panic!("it has no labels") };
        assert_eq!(patch.pointer("/spec/unschedulable"), None, "another operation has cordoned it");
        let foreign = node(None);
        observed.node = NodeObservation::Found(Box::new(foreign));
        assert_eq!(ended(&machine, &observed).await, None);
        observed.node = NodeObservation::Found(Box::new(node(Some("uid-a/boot"))));
        assert_eq!(ended(&machine, &observed).await, None, "the pause is forgotten");
    }

    #[test]
    fn the_end_of_a_cordon_is_guarded_by_the_revision_of_the_node() {
        let node = node(Some("uid-a/boot"));
        let patch = uncordon(&node, None);
        let expected = json!({
            "metadata": {"resourceVersion": "1", "uid": null, "annotations": {CORDONED_BY: null}},
            "spec": {"unschedulable": null},
        });
        assert_eq!(patch, expected);
        let labelled = uncordon(&node, Some(json!({"metadata": {"labels": {"a": "b"}}})));
        assert_eq!(
            (&labelled["metadata"]["labels"]["a"], &labelled["spec"]),
            (&json!("b"), &expected["spec"])
        );
    }
}
