//! Kinds of calls to a workload API that each change of a cluster takes.

use tests_hollow_cluster::WorkloadCall;

use super::life::Phase;

/// Verb and resource of a call.
type Call = (&'static str, &'static str);

/// Calls that any change may take: a new process looks again at what an earlier one has begun, and each pass over a settled
/// cluster looks for a driver of shares. A control plane that does not go yet looks at its kube-proxy.
const ANY: [Call; 7] = [
    ("get", "nodes"),
    ("get", "secrets"),
    ("delete", "secrets"),
    ("patch", "secrets"),
    ("get", "configmaps"),
    ("get", "daemonsets"),
    ("list", "csidrivers"),
];

const CREATION: &[Call] = &[
    ("create", "secrets"),
    ("delete", "secrets"),
    ("get", "/"),
    ("get", "configmaps"),
    ("get", "daemonsets"),
    ("get", "pods"),
    ("get", "pods/portforward"),
    ("get", "secrets"),
    ("list", "nodes"),
    ("patch", "nodes"),
    ("watch", "nodes"),
];

/// A worker and a control plane Machine come with the same calls.
const MACHINE_COMES: &[Call] = &[
    ("create", "secrets"),
    ("delete", "secrets"),
    ("get", "/"),
    ("get", "daemonsets"),
    ("get", "pods"),
    ("get", "pods/portforward"),
    ("get", "secrets"),
    ("list", "nodes"),
    ("patch", "nodes"),
    ("watch", "nodes"),
];

const WORKER_GOES: &[Call] = &[
    ("create", "pods/eviction"),
    ("delete", "nodes"),
    ("get", "/"),
    ("get", "daemonsets"),
    ("get", "nodes"),
    ("get", "pods"),
    ("get", "pods/portforward"),
    ("list", "nodes"),
    ("list", "pods"),
    ("list", "volumeattachments"),
    ("patch", "nodes"),
    ("watch", "nodes"),
];

const CONTROL_PLANE_SHRINKS: &[Call] = &[
    ("delete", "nodes"),
    ("get", "/"),
    ("get", "daemonsets"),
    ("get", "nodes"),
    ("get", "pods"),
    ("get", "pods/portforward"),
    ("list", "nodes"),
    ("list", "pods"),
    ("list", "volumeattachments"),
    ("patch", "nodes"),
    ("watch", "nodes"),
];

const DELETION: &[Call] = &[
    ("get", "/"),
    ("get", "pods"),
    ("get", "pods/portforward"),
    ("list", "nodes"),
    ("watch", "nodes"),
    ("list", "services"),
];

fn call((verb, resource): Call) -> WorkloadCall {
    WorkloadCall { verb, resource: resource.to_owned() }
}

/// Returns the kinds of calls of a change.
pub(crate) fn calls(phase: Phase) -> Vec<WorkloadCall> {
    let calls = match phase {
        Phase::Creation => CREATION,
        Phase::WorkerComes | Phase::ControlPlaneGrows => MACHINE_COMES,
        Phase::WorkerGoes => WORKER_GOES,
        Phase::ControlPlaneShrinks => CONTROL_PLANE_SHRINKS,
        Phase::Deletion => DELETION,
    };
    calls.iter().copied().map(call).collect()
}

/// Returns true for a call that any change may take.
pub(crate) fn may_be_taken(made: &WorkloadCall) -> bool {
    ANY.iter().any(|any| call(*any) == *made)
}
