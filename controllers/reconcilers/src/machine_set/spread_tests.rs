//! Tests of the spread over failure domains.

use apiserver_types::{
    ClusterInitialization, ClusterSpec, ClusterStatus, FailureDomain, MachineDeploymentSpec, MachineSpec,
    MachineStatus, NodeReference,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::machine_labels::DELETE_FIRST;

fn deployment(spread: &str) -> MachineDeployment {
    let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
    deployment.annotations_mut().insert(SPREAD_FAILURE_DOMAINS.to_owned(), spread.to_owned());
    deployment
}

fn cluster(domains: &[(&str, bool)]) -> Cluster {
    let domain = |(name, control_plane): &(&str, bool)| FailureDomain {
        name: (*name).to_owned(),
        control_plane: Some(*control_plane),
        ..FailureDomain::default()
    };
    let initialization =
        ClusterInitialization { infrastructure_provisioned: Some(true), ..ClusterInitialization::default() };
    let mut cluster = Cluster::new("c", ClusterSpec::default());
    cluster.status = Some(ClusterStatus {
        failure_domains: Some(domains.iter().map(domain).collect()),
        initialization: Some(initialization),
        ..ClusterStatus::default()
    });
    cluster
}

/// Returns a healthy Machine. The begin of its name, up to the dash, is its failure domain.
fn machine(name: &str) -> Machine {
    let mut machine = Machine::new(name, MachineSpec::default());
    let domain = name.split_once('-').map(|(domain, _)| domain.to_owned());
    machine.spec.failure_domain = domain.filter(|domain| !domain.is_empty());
    let node_ref = Some(NodeReference { name: name.to_owned() });
    machine.status = Some(MachineStatus { node_ref, ..MachineStatus::default() });
    machine
}

fn machines(names: &[&str]) -> Vec<Machine> {
    names.iter().map(|name| machine(name)).collect()
}

fn deleted(name: &str) -> Machine {
    let mut machine = machine(name);
    machine.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    machine
}

/// Returns the failure domains of this number of new Machines.
fn taken(spread: &str, own: &[Machine], others: &[Machine], count: usize) -> Vec<String> {
    let cluster = cluster(&[("c", true), ("a", true), ("b", false)]);
    let mut spread = Spread::of(&deployment(spread), Some(&cluster), own, others).unwrap();
    (0..count).filter_map(|_| spread.take()).collect()
}

#[test]
fn a_new_machine_gets_the_failure_domain_with_the_fewest_machines_of_the_deployment() {
    assert_eq!(taken("all", &[], &[], 4), ["a", "b", "c", "a"], "by name, also without control planes");
    assert_eq!(taken("c, a", &[], &[], 3), ["a", "c", "a"]);
    assert_eq!(taken("z", &[], &[], 2), ["z", "z"], "the cloud may know it before the Cluster does");
    assert_eq!(taken("all", &machines(&["a-1", "c-1"]), &[], 2), ["b", "a"]);
    let old = machines(&["a-1", "a-2", "b-1"]);
    assert_eq!(taken("all", &machines(&["b-2"]), &old, 3), ["c", "c", "a"], "those of other sets count");
    assert_eq!(taken("all", &[machine("a-1"), deleted("b-1")], &[deleted("c-1")], 2), ["b", "c"]);
    let mut actual = machine("-1");
    actual.status.as_mut().unwrap().failure_domain = Some("a".to_owned());
    assert_eq!(taken("all", &[actual], &[], 1), ["b"], "the one of the server counts if none was requested");
}

#[test]
fn a_rollout_ends_in_balance() {
    for surge in 1..=3 {
        let mut old = machines(&["a-1", "b-1", "c-1"]);
        let mut new: Vec<Machine> = Vec::new();
        let cluster = cluster(&[("a", true), ("b", true), ("c", true)]);
        let deployment = deployment("all");
        while !old.is_empty() {
            let mut spread = Spread::of(&deployment, Some(&cluster), &new, &old).unwrap();
            while new.len() < 3 && new.len() + old.len() < 3 + surge {
                let name = format!("{}-new{}", spread.take().unwrap(), new.len());
                new.push(machine(&name));
            }
            let spread = Spread::of(&deployment, Some(&cluster), &old, &new).unwrap();
            let order = (DeletionOrder::Random, Timestamp::UNIX_EPOCH);
            let excess = old.len() + new.len() - 3;
            let gone: Vec<String> =
                surplus(&old, order, excess, Some(&spread)).iter().map(|it| it.name_any()).collect();
            old.retain(|it| !gone.contains(&it.name_any()));
        }
        let mut domains: Vec<&str> = new.iter().map(domain).collect();
        domains.sort_unstable();
        assert_eq!(domains, ["a", "b", "c"], "surge {surge}");
    }
}

#[test]
fn a_scale_down_takes_from_the_fullest_failure_domain_within_the_same_state() {
    let now = Timestamp::UNIX_EPOCH;
    let gone = |own: &[Machine], others: &[Machine], count: usize, spread: Option<&str>| {
        let cluster = cluster(&[("a", true), ("b", true), ("c", true)]);
        let spread = spread.and_then(|it| Spread::of(&deployment(it), Some(&cluster), own, others));
        let gone = surplus(own, (DeletionOrder::Random, now), count, spread.as_ref());
        gone.iter().map(|it| it.name_any()).collect::<Vec<_>>()
    };
    let own = machines(&["a-1", "b-1", "b-2", "b-3", "c-1", "c-2"]);
    assert_eq!(gone(&own, &[], 0, Some("all")), [""; 0]);
    assert_eq!(gone(&own, &[], 3, Some("all")), ["b-1", "b-2", "c-1"]);
    assert_eq!(gone(&own, &[], 9, Some("all")).len(), 6);
    assert_eq!(gone(&own, &[], 2, None), ["a-1", "b-1"], "without a spread by name");
    let others = machines(&["a-7", "a-8", "a-9"]);
    assert_eq!(gone(&own, &others, 2, Some("all")), ["a-1", "b-1"], "those of other sets count");
    let mut marked = own.clone();
    marked[0].annotations_mut().insert(DELETE_FIRST.to_owned(), String::new());
    marked[4].status = None;
    marked.push(deleted("c-0"));
    assert_eq!(gone(&marked, &[], 4, Some("all")), ["c-0", "a-1", "c-1", "b-1"], "the state comes first");
    let outside = machines(&["-1", "a-1", "z-1"]);
    assert_eq!(gone(&outside, &[], 2, Some("a,b")), ["-1", "z-1"], "first those outside of the list");
}

#[test]
fn the_failure_domain_of_the_template_and_an_unusable_value_end_the_spread() {
    assert!(is_spread(&deployment("all")));
    assert!(!is_spread(&deployment("a,")));
    assert!(!is_spread(&MachineDeployment::new("md", MachineDeploymentSpec::default())));
    let mut fixed = deployment("all");
    fixed.spec.template.spec.failure_domain = Some("a".to_owned());
    assert!(!is_spread(&fixed));
    let none: [Machine; 0] = [];
    let mut spread = Spread::of(&deployment("all"), Some(&cluster(&[])), &none, &none).unwrap();
    assert_eq!(spread.take(), None, "the Cluster has none");
}

#[test]
fn all_failure_domains_are_known_only_when_the_infrastructure_is_provisioned() {
    let observed = |spread: &str, cluster: Cluster| Observed {
        deployment: Some(deployment(spread)),
        cluster: Some(cluster),
        ..Observed::default()
    };
    let fresh = || Cluster::new("c", ClusterSpec::default());
    let expected = "The failure domains of Cluster c are not known until its infrastructure is provisioned (annotation \
        capstan.dev/spread-failure-domains of MachineDeployment md)";
    assert_eq!(obstacle(&observed("all", fresh())).as_deref(), Some(expected));
    assert_eq!(obstacle(&observed("a", fresh())), None);
    assert_eq!(obstacle(&observed("all", cluster(&[]))), None);
    assert_eq!(obstacle(&Observed::default()), None);
}
