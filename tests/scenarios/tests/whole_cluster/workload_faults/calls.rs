//! Kinds of calls to a workload API that each change of a cluster takes.

use tests_hollow_cluster::WorkloadCall;

use super::life::Phase;

/// Verb and resource of a call.
type Call = (&'static str, &'static str);

/// Calls that a change takes only if something else comes between: the watch is behind, or another pass was first.
const RARE: [Call; 1] = [("get", "nodes")];

const CREATION: &[Call] = &[("get", "/"), ("list", "nodes"), ("watch", "nodes"), ("patch", "nodes")];
const WORKER_COMES: &[Call] = &[("get", "/"), ("list", "nodes"), ("watch", "nodes"), ("patch", "nodes")];
const WORKER_GOES: &[Call] = &[("get", "/"), ("list", "nodes"), ("watch", "nodes"), ("patch", "nodes")];
const CONTROL_PLANE_GROWS: &[Call] =
    &[("get", "/"), ("list", "nodes"), ("watch", "nodes"), ("patch", "nodes")];
const CONTROL_PLANE_SHRINKS: &[Call] =
    &[("get", "/"), ("list", "nodes"), ("watch", "nodes"), ("patch", "nodes")];
const DELETION: &[Call] = &[("get", "/"), ("list", "nodes"), ("watch", "nodes")];

fn call((verb, resource): Call) -> WorkloadCall {
    WorkloadCall { verb, resource: resource.to_owned() }
}

/// Returns the kinds of calls of a change.
pub(crate) fn calls(phase: Phase) -> Vec<WorkloadCall> {
    let calls = match phase {
        Phase::Creation => CREATION,
        Phase::WorkerComes => WORKER_COMES,
        Phase::WorkerGoes => WORKER_GOES,
        Phase::ControlPlaneGrows => CONTROL_PLANE_GROWS,
        Phase::ControlPlaneShrinks => CONTROL_PLANE_SHRINKS,
        Phase::Deletion => DELETION,
    };
    calls.iter().copied().map(call).collect()
}

/// Returns true for a call that a change rarely takes.
pub(crate) fn is_rare(made: &WorkloadCall) -> bool {
    RARE.iter().any(|rare| call(*rare) == *made)
}
