use super::*;
use crate::kinds::cluster::why::Advice;

const SINCE: &str = "2026-11-30T08:00:00Z";

/// Returns an object with conditions: type, status and reason. Their message is "message of TYPE".
fn object(name: &str, conditions: &[(&str, &str, &str)]) -> Value {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(kind, status, reason)| {
            json!({"type": kind, "status": status, "reason": reason, "message": format!("message of {kind}"),
                "lastTransitionTime": SINCE})
        })
        .collect();
    json!({"metadata": {"name": name, "namespace": "ns"}, "status": {"conditions": conditions}})
}

fn owned(mut object: Value, kind: &str, name: &str) -> Value {
    object["metadata"]["ownerReferences"] = json!([{"kind": kind, "name": name, "controller": true}]);
    object
}

/// Returns a Cluster with a worker that has no server, in a MachineSet of a MachineDeployment.
fn blocked() -> Objects {
    let mut machine =
        object("m", &[("InfrastructureReady", "False", "NotReady"), ("Ready", "False", "NotReady")]);
    machine["spec"] = json!({"infrastructureRef": {"name": "server"}});
    let server = [("InstanceReady", "False", "QuotaExceeded"), ("Ready", "False", "QuotaExceeded")];
    Objects {
        cluster: object("c", &[("Available", "False", "NotAvailable")]),
        deployments: vec![object("md", &[("Available", "False", "NotAvailable")]), object("idle", &[])],
        sets: vec![owned(object("ms", &[("MachinesReady", "False", "NotReady")]), "MachineDeployment", "md")],
        machines: vec![owned(machine, "MachineSet", "ms")],
        servers: vec![object("server", &server)],
        ..Objects::default()
    }
}

fn names(objects: &Objects) -> Vec<String> {
    let name = |chain: &Chain<'_>| {
        let links: Vec<String> =
            chain.links.iter().map(|link| format!("{} {}", link.kind, link.name)).collect();
        links.join(" > ")
    };
    chains(objects).iter().map(name).collect()
}

fn advise(reason: &str) -> Option<Advice> {
    let advice = Advice { unblock: "Raise the quota.".to_owned(), next_try: "Within a minute.".to_owned() };
    (reason == "QuotaExceeded").then_some(advice)
}

#[test]
fn an_upgrade_by_the_verb_is_a_cause_while_it_is_in_progress() {
    let objects = |status: &str| Objects {
        cluster: object(
            "c",
            &[("Upgrading", status, "ClusterUpgrading"), ("Available", "True", "Available")],
        ),
        ..Objects::default()
    };
    assert_eq!(names(&objects("True")), ["Cluster c"]);
    assert_eq!(names(&objects("False")), [""; 0]);
}

#[test]
fn a_chain_ends_at_the_object_with_the_first_cause_and_says_what_unblocks_it() {
    let objects = blocked();
    assert_eq!(
        names(&objects),
        ["Cluster c > MachineDeployment md > MachineSet ms > Machine m > OpenStackMachine server"]
    );
    let found = answer(&objects, "2026-11-30T08:05:00Z".parse().unwrap(), advise);
    let cause = json!({
        "kind": "OpenStackMachine", "name": "server", "condition": "InstanceReady", "status": "False",
        "reason": "QuotaExceeded", "message": "message of InstanceReady", "since": SINCE, "ageSeconds": 300,
        "unblock": "Raise the quota.", "nextTry": "Within a minute.",
    });
    assert_eq!(found["cause"], cause);
    assert_eq!(found["message"], "OpenStackMachine server: QuotaExceeded: message of InstanceReady");
    assert_eq!(found["metadata"], json!({"name": "c", "namespace": "ns"}));
    let top = json!({"kind": "Cluster", "name": "c", "condition": "Available", "status": "False",
        "reason": "NotAvailable", "message": "message of Available", "since": SINCE});
    assert_eq!(found["chains"][0]["links"][0], top);
}

#[test]
fn a_cluster_that_nothing_holds_up_has_no_chain() {
    let busy = ("ScalingUp", "True", "ScalingUp");
    let objects = Objects {
        cluster: object("c", &[("Available", "True", "Available"), ("Paused", "False", "NotPaused")]),
        deployments: vec![object("md", &[busy])],
        ..Objects::default()
    };
    assert_eq!(names(&objects), [""; 0]);
    let found = answer(&objects, Timestamp::UNIX_EPOCH, advise);
    assert_eq!((&found["message"], &found["cause"]), (&json!("Nothing holds up Cluster c"), &Value::Null));
}

#[test]
fn a_rollout_that_waits_is_a_cause_although_all_machines_are_ready() {
    let objects = |message: &str| {
        let mut control_plane = object("kcp", &[("RollingOut", "True", "RollingOut")]);
        control_plane["status"]["conditions"][0]["message"] = json!(message);
        let cluster = object("c", &[("Available", "True", "Available")]);
        Objects { cluster, control_plane: Some(control_plane), ..Objects::default() }
    };
    assert_eq!(names(&objects("Rolling out 1 not up-to-date replicas")), [""; 0]);
    let waits = objects("Rolling out 1 not up-to-date replicas\n* Waiting: T t does not exist");
    assert_eq!(names(&waits), ["Cluster c > KubeadmControlPlane kcp"]);
}

#[test]
fn a_decision_about_an_unhealthy_machine_explains_more_than_the_health_check() {
    let condition = |reason: &str| {
        let unhealthy = ("HealthCheckSucceeded", "False", "UnhealthyMachine");
        let machine = object("m", &[unhealthy, ("OwnerRemediated", "False", reason)]);
        let cluster = object("c", &[("Available", "False", "NotAvailable")]);
        let objects = Objects { cluster, machines: vec![machine], ..Objects::default() };
        answer(&objects, Timestamp::UNIX_EPOCH, advise)["cause"]["reason"].clone()
    };
    assert_eq!(condition("RemediationExhausted"), "RemediationExhausted");
    assert_eq!(condition("WaitingForRemediation"), "UnhealthyMachine", "the owner has not decided");
}

#[test]
fn the_infrastructure_comes_before_the_control_plane_and_the_workers() {
    let node = |name: &str| {
        let mut machine =
            owned(object(name, &[("NodeHealthy", "False", "NotHealthy")]), "KubeadmControlPlane", "kcp");
        machine["status"]["nodeRef"] = json!({"name": "node"});
        machine
    };
    let mut objects = blocked();
    objects.infrastructure = Some(object("osc", &[("NetworkReady", "False", "NetworkNotFound")]));
    objects.control_plane = Some(object("kcp", &[("Available", "False", "NotAvailable")]));
    objects.machines.extend([node("cp-1"), node("cp-2")]);
    let found = names(&objects);
    let expected = [
        "Cluster c > OpenStackCluster osc",
        "Cluster c > KubeadmControlPlane kcp > Machine cp-1 > Node node",
    ];
    assert_eq!(found[..2], expected);
    assert_eq!((found.len(), chains(&objects)[1].others), (3, 1));
}

#[test]
fn a_pause_or_a_topology_comes_first_and_a_deletion_is_explained_by_what_is_below() {
    let mut objects = blocked();
    objects.cluster = object("c", &[("Paused", "True", "Paused")]);
    assert_eq!(names(&objects)[0], "Cluster c");
    objects.cluster = object("c", &[("RemoteConnectionProbe", "False", "ProbeFailed")]);
    assert_eq!(names(&objects)[1], "Cluster c");
    objects.cluster = object("c", &[("Deleting", "True", "WaitingForWorkersDeletion")]);
    assert!(names(&objects)[0].ends_with("OpenStackMachine server"));
    let alone = Objects { cluster: objects.cluster, ..Objects::default() };
    assert_eq!(names(&alone), ["Cluster c"]);
}

#[test]
fn an_owner_without_a_blocked_machine_is_the_end_of_its_chain() {
    let mut objects = blocked();
    objects.machines.clear();
    assert_eq!(names(&objects), ["Cluster c > MachineDeployment md > MachineSet ms"]);
    let mut scaling = object("md", &[("ScalingUp", "True", "ScalingUp")]);
    scaling["status"]["conditions"][0]["message"] =
        json!("Scaling up from 0 to 1 replicas is blocked because:");
    (objects.deployments, objects.sets) = (vec![scaling], Vec::new());
    assert_eq!(names(&objects), ["Cluster c > MachineDeployment md"]);
    objects.deployments.clear();
    assert_eq!(names(&objects), ["Cluster c"]);
}
