//! Tests of the decision on an upgrade.

use std::time::Duration;

use apiserver_types::{ClusterSpec, ContractVersionedObjectReference, Topology};

use super::hooks::{Answer, PENDING_HOOKS, Servers};
use super::*;

/// Every hook in the life of a Cluster.
const SERVED: [Hook; 9] = [
    Hook::BeforeClusterCreate,
    Hook::AfterControlPlaneInitialized,
    Hook::BeforeClusterUpgrade,
    Hook::BeforeControlPlaneUpgrade,
    Hook::AfterControlPlaneUpgrade,
    Hook::BeforeWorkersUpgrade,
    Hook::AfterWorkersUpgrade,
    Hook::AfterClusterUpgrade,
    Hook::BeforeClusterDelete,
];

/// Cluster of a class, with a control plane and workers whose Machines have their versions.
struct Life {
    cluster: Cluster,
    plane: Option<String>,
    workers: Option<String>,
    /// Hooks whose servers hold the Cluster up. All others agree.
    held: Vec<Hook>,
}

impl Life {
    /// Returns a Cluster that exists with these versions, and is to have that one.
    fn upgraded(from: &str, to: &str) -> Self {
        let topology = Topology { version: to.to_owned(), ..Topology::default() };
        let spec = ClusterSpec {
            topology: Some(topology),
            infrastructure_ref: Some(ContractVersionedObjectReference::default()),
            ..ClusterSpec::default()
        };
        let cluster = Cluster::new("c", spec);
        let versions = Some(from.to_owned());
        Self { cluster, plane: versions.clone(), workers: versions, held: Vec::new() }
    }

    fn pending(&self) -> &str {
        self.cluster.annotations().get(PENDING_HOOKS).map(String::as_str).unwrap_or_default()
    }

    /// Makes a pass. Returns the hooks that were due, and the changes of versions.
    fn pass(&mut self) -> Vec<String> {
        let listed: Vec<String> = (30..35).map(|minor| format!("v1.{minor}.0")).collect();
        let state = self.plane.clone().map(|version| control_plane::State { version, ..Default::default() });
        let group = workers::Group {
            topology_name: "a".to_owned(),
            object: self.workers.as_ref().map(|_| "c-a".to_owned()).unwrap_or_default(),
            version: self.workers.clone(),
            ..workers::Group::default()
        };
        let (mut log, groups) = (Vec::new(), [group]);
        let mut servers = Servers { hooks: SERVED.into_iter().collect(), ..Servers::default() };
        let found = loop {
            let hooks = Hooks::with(&self.cluster, servers.clone());
            let source = Source::Listed(&listed);
            let found = decide_topology(hooks, &self.cluster, source, state.as_ref(), &groups).unwrap();
            let Some(hook) = found.hooks.due() else { break found };
            assert!(!servers.answers.contains_key(&hook), "{hook} has been answered");
            log.push(hook.name());
            let answer = match self.held.contains(&hook) {
                true => Answer::Waits("not yet".to_owned(), Duration::from_secs(30)),
                false => Answer::Agreed,
            };
            servers.answers.insert(hook, answer);
        };
        self.write(&found, &mut log);
        log
    }

    fn write(&mut self, found: &Upgrade, log: &mut Vec<String>) {
        let pending = found.hooks.pending().unwrap_or_default();
        self.cluster.annotations_mut().insert(PENDING_HOOKS.to_owned(), pending);
        let version = Some(found.control_plane.version.clone());
        let is_held = found.hooks.blocking.iter().any(|(hook, _)| *hook == Hook::BeforeClusterCreate);
        if self.plane != version && !is_held {
            log.push(format!("plane {}", found.control_plane.version));
            self.plane = version;
        }
        let group = found.workers.iter().find(|it| it.is_written() && !is_held);
        if let Some(group) = group.filter(|it| self.workers.as_ref() != Some(&it.version)) {
            log.push(format!("workers {}", group.version));
            self.workers = Some(group.version.clone());
        }
    }
}

/// The order is upstream's.
#[test]
fn the_hooks_of_a_chain_come_in_their_order_and_each_blocks_what_follows_it() {
    let steps: [&[&str]; 4] = [
        &["BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "plane v1.32.0"],
        &["AfterControlPlaneUpgrade", "BeforeControlPlaneUpgrade", "plane v1.33.0"],
        &["AfterControlPlaneUpgrade", "BeforeWorkersUpgrade", "workers v1.33.0"],
        &["AfterWorkersUpgrade", "AfterClusterUpgrade"],
    ];
    let mut life = Life::upgraded("v1.31.0", "v1.33.0");
    for step in steps {
        assert_eq!(life.pass(), step);
    }
    assert_eq!((life.pass(), life.pending()), (Vec::new(), ""));
    // Each is held once.
    let mut life = Life::upgraded("v1.31.0", "v1.33.0");
    for step in steps {
        for (at, hook) in step.iter().enumerate() {
            let Some(hook) = Hook::of(controllers_extensions::API_VERSION, hook) else { continue };
            life.held = vec![hook];
            let passed = life.pass();
            assert!(passed.ends_with(&[hook.name()]), "{hook}: {passed:?}");
            assert_eq!(life.pass(), [step[at]], "those before it have agreed, and nothing goes past it");
        }
        life.held.clear();
        life.pass();
    }
    assert_eq!(life.pending(), "");
}

#[test]
fn the_hooks_of_a_creation_come_once() {
    let mut life = Life::upgraded("", "v1.33.0");
    life.cluster.spec.infrastructure_ref = None;
    (life.plane, life.workers) = (None, None);
    life.held = vec![Hook::BeforeClusterCreate];
    assert_eq!(life.pass(), ["BeforeClusterCreate"]);
    assert_eq!(life.pending(), "");
    life.held.clear();
    assert_eq!(life.pass(), ["BeforeClusterCreate", "plane v1.33.0", "workers v1.33.0"]);
    assert_eq!(life.pending(), "AfterControlPlaneInitialized");
    life.cluster.spec.infrastructure_ref = Some(ContractVersionedObjectReference::default());
    assert_eq!(life.pass(), [""; 0], "its control plane was not reachable yet");
    let status = life.cluster.status.get_or_insert_default();
    status.initialization.get_or_insert_default().control_plane_initialized = Some(true);
    assert_eq!(life.pass(), ["AfterControlPlaneInitialized"]);
    assert_eq!((life.pass(), life.pending()), (Vec::new(), ""));
}

/// The controller announced the step, and ended before the control plane got the version.
#[test]
fn the_hooks_after_a_step_wait_until_the_control_plane_has_its_version() {
    let mut life = Life::upgraded("v1.31.0", "v1.32.0");
    let all = "AfterClusterUpgrade,AfterControlPlaneUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade";
    let annotations = life.cluster.annotations_mut();
    annotations.insert(PENDING_HOOKS.to_owned(), all.to_owned());
    annotations.insert(UPGRADE_STEP.to_owned(), "v1.32.0".to_owned());
    assert_eq!(life.pass(), ["BeforeControlPlaneUpgrade", "plane v1.32.0"]);
    assert_eq!(life.pending(), all);
    assert_eq!(life.pass()[..2], ["AfterControlPlaneUpgrade", "BeforeWorkersUpgrade"]);
}

#[test]
fn workers_that_do_not_follow_have_no_hooks() {
    let mut life = Life::upgraded("v1.33.0", "v1.33.0");
    let names = "AfterClusterUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade";
    life.cluster.annotations_mut().insert(PENDING_HOOKS.to_owned(), names.to_owned());
    assert_eq!(life.pass(), ["AfterClusterUpgrade"], "the upgrade was cancelled before its first step");
}

#[test]
fn the_upgrade_ends_only_after_the_hooks_of_its_workers() {
    let topology = Topology { version: "v1.34.0".to_owned(), ..Topology::default() };
    let spec = ClusterSpec { topology: Some(topology), ..ClusterSpec::default() };
    let mut cluster = Cluster::new("c", spec);
    let names = "AfterClusterUpgrade,AfterWorkersUpgrade";
    cluster.annotations_mut().insert(PENDING_HOOKS.to_owned(), names.to_owned());
    let annotation = "after-workers.hook.cluster.cluster.x-k8s.io/x";
    cluster.annotations_mut().insert(annotation.to_owned(), String::new());
    let state = control_plane::State { version: "v1.34.0".to_owned(), ..Default::default() };
    let held = decide(&cluster, Source::Listed(&[]), Some(&state), &[]).unwrap();
    assert_eq!(held.hooks.pending().as_deref(), Some(names));
    cluster.annotations_mut().remove(annotation);
    let ended = decide(&cluster, Source::Listed(&[]), Some(&state), &[]).unwrap();
    assert_eq!(ended.hooks.pending(), None);
}

/// Two steps of a chain, played to their end.
#[test]
fn a_chain_of_four_minors_lets_the_workers_stop_once_before_the_end() {
    let topology = Topology { version: "v1.34.0".to_owned(), ..Topology::default() };
    let spec = ClusterSpec { topology: Some(topology), ..ClusterSpec::default() };
    let mut cluster = Cluster::new("c", spec);
    let listed: Vec<String> = (30..35).map(|minor| format!("v1.{minor}.0")).collect();
    let (mut version, mut workers) = ("v1.30.0".to_owned(), "v1.30.0".to_owned());
    let mut log = Vec::new();
    for _ in 0..20 {
        let state = control_plane::State { version: version.clone(), ..Default::default() };
        let group = workers::Group {
            topology_name: "a".to_owned(),
            version: Some(workers.clone()),
            ..workers::Group::default()
        };
        let found = decide(&cluster, Source::Listed(&listed), Some(&state), &[group]).unwrap();
        let pending = found.hooks.pending().unwrap_or_default();
        cluster.annotations_mut().insert(PENDING_HOOKS.to_owned(), pending);
        if found.control_plane.version != version {
            log.push(format!("control plane {}", found.control_plane.version));
            version = found.control_plane.version;
        }
        if found.workers[0].version != workers {
            log.push(format!("workers {}", found.workers[0].version));
            workers.clone_from(&found.workers[0].version);
        }
    }
    let expected = [
        "control plane v1.31.0",
        "control plane v1.32.0",
        "control plane v1.33.0",
        "workers v1.33.0",
        "control plane v1.34.0",
        "workers v1.34.0",
    ];
    assert_eq!(log, expected);
    assert_eq!(cluster.annotations()[PENDING_HOOKS], "", "no hook is left");
}

/// The group waited for its own Machines, and the preflight checks refused to make these.
#[test]
fn a_version_that_another_client_has_set_is_taken_back_or_explained() {
    let topology = Topology { version: "v1.33.0".to_owned(), ..Topology::default() };
    let spec = ClusterSpec { topology: Some(topology), ..ClusterSpec::default() };
    let cluster = Cluster::new("c", spec);
    let state = |version: &str| control_plane::State { version: version.to_owned(), ..Default::default() };
    for version in ["v1.32.0", "v1.34.0"] {
        let group = workers::Group {
            topology_name: "a".to_owned(),
            version: Some(version.to_owned()),
            is_upgrading: true,
            ..workers::Group::default()
        };
        let found = decide(&cluster, Source::Listed(&[]), Some(&state("v1.33.0")), &[group]).unwrap();
        let found = (found.workers[0].version.as_str(), found.workers[0].progress);
        assert_eq!(found, ("v1.33.0", workers::Progress::Starting), "{version}");
    }
    let (hooks, ahead) = (Hooks::of(&cluster), state("v1.34.0"));
    let error = decide_topology(hooks, &cluster, Source::Listed(&[]), Some(&ahead), &[]).unwrap_err();
    let expected = "is not above v1.34.0. The control plane is ahead of spec.topology.version";
    assert!(error.contains(expected), "{error}");
}
