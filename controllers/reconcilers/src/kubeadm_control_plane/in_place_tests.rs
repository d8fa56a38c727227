//! Tests of the decisions on updates in place of control plane Machines.

use apiserver_types::rollout_settings::ROLLOUT_POLICY;
use apiserver_types::{ConditionStatus, KubeadmConfig, OpenStackMachine};
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use serde_json::json;

use super::super::etcd_projection::Member;
use super::super::inspection::{Inspection, Workload};
use super::super::replica::examples::{going, healthy, outdated, set};
use super::super::workload_settings::Settings;
use super::*;
use crate::in_place::PENDING_HOOKS;

fn control_plane(replicas: i32, surge: i32, policy: Option<&str>) -> KubeadmControlPlane {
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}});
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "T", "name": "t"});
    let object = json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
        "metadata": {"name": "cp", "namespace": "n", "uid": "u"},
        "spec": {
            "version": "v1.33.0", "replicas": replicas, "rollout": {"strategy": rolling},
            "machineTemplate": {"spec": {"infrastructureRef": reference}},
        },
    });
    let mut control_plane: KubeadmControlPlane = serde_json::from_value(object).unwrap();
    let policy = policy.map(|policy| (ROLLOUT_POLICY.to_owned(), policy.to_owned()));
    control_plane.annotations_mut().extend(policy);
    control_plane
}

/// Returns a replica with its objects.
fn whole(mut replica: Replica) -> Replica {
    let kind = ApiResource::erase::<OpenStackMachine>(&());
    replica.infrastructure = Some(DynamicObject::new(&replica.name(), &kind));
    replica.config = Some(KubeadmConfig::new(&replica.name(), Default::default()));
    replica
}

fn old(name: &str, second: i64) -> Replica {
    whole(outdated(healthy(name, second)))
}

fn marked(mut replica: Replica, marks: &[(&str, &str)]) -> Replica {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    replica.machine.annotations_mut().extend(marks.iter().map(owned));
    replica
}

fn observed(replicas: Vec<Replica>) -> Observed {
    let mut observed = super::super::observe::examples::observed(replicas);
    let endpoint = json!({"host": "10.0.0.1", "port": 6443});
    observed.cluster.spec.control_plane_endpoint = serde_json::from_value(endpoint).unwrap();
    observed.certificates.examined = true;
    observed.settings = Settings::Read(Vec::new());
    let member = |it: &Replica| Member { name: it.name(), ..Member::default() };
    let members = Ok(observed.replicas.iter().map(member).collect());
    let inspection = Inspection { nodes: Ok(Vec::new()), pods: Default::default(), members };
    observed.workload = Workload::Reached(inspection);
    observed
}

fn named(control_plane: &KubeadmControlPlane, observed: &Observed) -> Option<String> {
    candidate(control_plane, observed)?.ok().map(Replica::name)
}

#[test]
fn only_a_machine_whose_changes_can_be_made_in_place_is_a_candidate() {
    let change = |change: fn(&mut Replica)| {
        let mut first = old("a", 1);
        change(&mut first);
        observed(vec![first, whole(healthy("b", 2)), whole(healthy("c", 3))])
    };
    let wish = control_plane(3, 0, None);
    assert_eq!(named(&wish, &change(|_| {})).as_deref(), Some("a"));
    for (case, observed) in [
        ("by date", change(|it| it.causes.push(Cause::After))),
        ("by certificates", change(|it| it.causes.push(Cause::Expiry(30)))),
        ("to be deleted", change(|it| *it = marked(it.clone(), &[(DELETE_FIRST, "")]))),
        ("to be replaced", change(|it| *it = marked(it.clone(), &[(REMEDIATE, "")]))),
        (
            "unhealthy for its health check",
            change(|it| {
                set(it, "HealthCheckSucceeded", ConditionStatus::False);
                set(it, "OwnerRemediated", ConditionStatus::False);
            }),
        ),
        ("without a config", change(|it| it.config = None)),
        ("without a server", change(|it| it.infrastructure = None)),
        ("not outdated", change(|it| it.causes.clear())),
        ("unhealthy", change(|it| set(it, "APIServerPodHealthy", ConditionStatus::False))),
    ] {
        assert_eq!(named(&wish, &observed), None, "{case}");
    }
    assert_eq!(named(&control_plane(3, 0, Some("Replace")), &change(|_| {})), None);
    assert_eq!(named(&control_plane(3, 0, Some("Perhaps")), &change(|_| {})), None);
}

#[test]
fn enough_machines_that_are_up_to_date_leave_no_candidate() {
    let new = |name: &str| whole(healthy(name, 9));
    let machines = || vec![old("a", 1), new("b"), new("c"), new("d")];
    assert_eq!(named(&control_plane(3, 1, None), &observed(machines())), None);
    assert_eq!(named(&control_plane(5, 0, None), &observed(machines())).as_deref(), Some("a"));
}

#[test]
fn a_machine_is_updated_only_where_it_would_be_deleted() {
    let machines = || observed(vec![old("a", 1), old("b", 2), old("c", 3)]);
    let with_surge = control_plane(3, 1, None);
    assert_eq!(in_question(&with_surge, &machines()), None, "a surplus Machine comes first");
    let without = control_plane(3, 0, None);
    assert_eq!(in_question(&without, &machines()).as_deref(), Some("a"));
    for (verdict, expected) in [
        (Verdict::NotAsked, Step::Delete("a".to_owned())),
        (Verdict::Refused(vec!["x".to_owned()]), Step::Delete("a".to_owned())),
        (Verdict::Accepted("a".to_owned()), Step::Update("a".to_owned())),
    ] {
        let observed = Observed { verdict, ..machines() };
        assert_eq!(decide::next_step(&without, &observed), expected);
    }
    let verdict = Verdict::Failed("no answer".to_owned(), Duration::from_secs(2));
    let observed = Observed { verdict, ..machines() };
    let Step::Hold(hold) = decide::next_step(&without, &observed) else { panic!("it does not wait") };
    assert_eq!((hold.message.as_str(), hold.wait), ("no answer", Some(Duration::from_secs(2))));
}

#[test]
fn an_unhealthy_control_plane_waits_and_an_unhealthy_machine_is_replaced() {
    let broken = |mut replica: Replica| {
        set(&mut replica, "EtcdMemberHealthy", ConditionStatus::False);
        replica
    };
    let wish = control_plane(3, 0, None);
    let other = observed(vec![old("a", 1), old("b", 2), broken(whole(healthy("c", 3)))]);
    assert_eq!(in_question(&wish, &other), None);
    assert!(matches!(decide::next_step(&wish, &other), Step::Block(_)));
    let own = observed(vec![broken(old("a", 1)), old("b", 2), whole(healthy("c", 3))]);
    assert_eq!(in_question(&wish, &own), None);
    assert_eq!(decide::next_step(&wish, &own), Step::Delete("a".to_owned()));
    let only = control_plane(3, 0, Some("InPlaceOnly"));
    let Step::Hold(hold) = decide::next_step(&only, &own) else { panic!("it does not wait") };
    assert_eq!((hold.reason, hold.wait), ("RolloutBlocked", Some(preflight::UNHEALTHY)));
    assert!(hold.message.contains("before this ends: Machine a: EtcdMemberHealthy"), "{hold:?}");
}

#[test]
fn with_the_policy_in_place_only_a_single_machine_is_updated_without_another_one() {
    let only = control_plane(1, 1, Some("InPlaceOnly"));
    let machine = || observed(vec![old("a", 1)]);
    assert_eq!(in_question(&only, &machine()).as_deref(), Some("a"));
    let step = |verdict| decide::next_step(&only, &Observed { verdict, ..machine() });
    assert_eq!(step(Verdict::Accepted("a".to_owned())), Step::Update("a".to_owned()));
    let wait = Duration::from_secs(3);
    let refused = Verdict::Refused(vec!["KubeadmConfig spec.files".to_owned()]);
    for (verdict, expected, wait) in [
        (Verdict::NotAsked, "these changes need new Machines", AGAIN),
        (refused, "these changes need new Machines. Not made in place: KubeadmConfig spec.files", AGAIN),
        (Verdict::Failed("no answer".to_owned(), wait), "no answer", wait),
    ] {
        let Step::Hold(hold) = step(verdict) else { panic!("{expected}: it does not wait") };
        assert_eq!((hold.reason, hold.wait), ("RolloutBlocked", Some(wait)));
        assert!(hold.message.ends_with(expected), "{}", hold.message);
    }
}

#[test]
fn a_begin_that_was_interrupted_is_finished_and_then_all_else_waits() {
    let wish = control_plane(3, 0, None);
    let begun = marked(old("b", 2), &[(UPDATING, "")]);
    let found = observed(vec![old("a", 1), begun, whole(healthy("c", 3))]);
    assert_eq!(decide::next_step(&wish, &found), Step::Update("b".to_owned()));
    let running = marked(whole(healthy("b", 2)), &[(UPDATING, ""), (PENDING_HOOKS, "UpdateMachine")]);
    let found = observed(vec![old("a", 1), running.clone(), whole(healthy("c", 3))]);
    assert_eq!(decide::next_step(&wish, &found), Step::AwaitUpdates(vec!["b".to_owned()]));
    assert_eq!(in_question(&wish, &found), None);
    let both = observed(vec![marked(old("a", 1), &[(UPDATING, "")]), running.clone()]);
    assert_eq!(decide::next_step(&wish, &both), Step::AwaitUpdates(vec!["a".to_owned(), "b".to_owned()]));
    let more = control_plane(5, 1, None);
    assert!(matches!(decide::next_step(&more, &found), Step::AwaitUpdates(_)), "also a scale-up");
    assert_eq!(updating(&observed(vec![going(running)])), [""; 0], "a person has deleted it");
    assert_eq!(waits(&["b".to_owned()]), "Waiting for the update in place of Machine b");
}
