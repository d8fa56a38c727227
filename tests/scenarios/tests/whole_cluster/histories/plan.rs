//! Random plans of lives: changes of a cluster, and what goes wrong during them.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tests_openstack_simulator::{FaultEffect, InjectedFault};
use tests_scenarios::Side;

use crate::outages::{Outages, outages};

/// Algorithm of keys that kubeadm has by default.
const RSA: &str = "RSA-2048";

/// Algorithm of keys whose generation takes no time.
const ECDSA: &str = "ECDSA-P256";

/// Change of a cluster by a user, or by the cloud.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// Scales the workers.
    Workers(usize),
    /// Scales the control plane.
    ControlPlane(usize),
    /// Deletes the worker at this place in the list, which is replaced.
    DeleteWorker(usize),
    /// Destroys the server of the worker at this place, as a failed host does. Then a user deletes the Machine.
    LoseWorker(usize),
    /// Destroys the server of one of three control plane Machines. Then a user deletes the Machine.
    LoseControlPlane(usize),
    /// Kills the kubelet of the worker at this place. A health check has the Machine replaced.
    HealWorker(usize),
    /// Kills the kubelet of one of three control plane Machines. A health check has the Machine replaced.
    HealControlPlane(usize),
    /// Gives the workers another template, with another flavor.
    Rotate,
    /// Gives the workers the next patch release, with its image.
    UpgradeWorkers,
    /// Gives the control plane the next patch release, with its image.
    UpgradeControlPlane,
}

/// Change, and what goes wrong during it.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) change: Change,
    pub(super) disruption: Disruption,
}

#[derive(Debug, Clone)]
pub(super) struct Disruption {
    /// Processes that crash, each at its n-th effect.
    pub(super) crashes: Vec<(usize, Side)>,
    pub(super) faults: Vec<InjectedFault>,
    pub(super) outages: Outages,
}

#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Algorithm of the keys of the cluster, as kubeadm's configuration names it.
    pub(super) keys: &'static str,
    pub(super) creation: Disruption,
    pub(super) stages: Vec<Stage>,
    /// Number of effects in the last stage, or in the creation if there are no stages, after which the cluster is
    /// deleted. Without it the stage comes to its end first.
    pub(super) interrupted: Option<usize>,
    pub(super) deletion: Disruption,
}

fn disruption() -> impl Strategy<Value = Disruption> {
    let side = prop_oneof![Just(Side::Before), Just(Side::After)];
    let crashes = prop::collection::vec((0..60usize, side), 0..3);
    (crashes, prop::collection::vec(fault(), 0..3), outages())
        .prop_map(|(crashes, faults, outages)| Disruption { crashes, faults, outages })
}

/// Returns a failure that passes.
fn fault() -> impl Strategy<Value = InjectedFault> {
    let status =
        |code| FaultEffect::Status { code, body: String::new(), content_type: None, retry_after: None };
    let effects = [status(500), status(503), FaultEffect::DropBeforeEffect, FaultEffect::DropAfterEffect];
    let paths = ["/servers", "/ports", "/security-groups", "/networks", "/floatingips", ""];
    let methods = ["GET", "POST", "DELETE"];
    let parts = (prop::sample::select(effects.to_vec()), prop::sample::select(paths.to_vec()));
    (parts, prop::sample::select(methods.to_vec()), 1..4u64).prop_map(|((effect, path), method, count)| {
        let fault = InjectedFault::new(effect);
        InjectedFault {
            method: Some(method.to_owned()),
            path: Some(path.to_owned()),
            count: Some(count),
            ..fault
        }
    })
}

fn plan() -> impl Strategy<Value = Plan> {
    let change = prop_oneof![
        3 => (0..4usize).prop_map(Change::Workers),
        1 => prop::sample::select(vec![1, 3]).prop_map(Change::ControlPlane),
        2 => (0..3usize).prop_map(Change::DeleteWorker),
        2 => (0..3usize).prop_map(Change::LoseWorker),
        1 => (0..3usize).prop_map(Change::LoseControlPlane),
        2 => (0..3usize).prop_map(Change::HealWorker),
        1 => (0..3usize).prop_map(Change::HealControlPlane),
        2 => Just(Change::Rotate),
        1 => Just(Change::UpgradeWorkers),
        1 => Just(Change::UpgradeControlPlane),
    ];
    let stage = (change, disruption()).prop_map(|(change, disruption)| Stage { change, disruption });
    let interrupted = prop::option::weighted(0.25, 0..80usize);
    (disruption(), prop::collection::vec(stage, 0..4), interrupted, disruption()).prop_map(
        |(creation, stages, interrupted, deletion)| Plan {
            keys: RSA,
            creation,
            stages,
            interrupted,
            deletion,
        },
    )
}

/// Returns the algorithm of the keys in the life of a seed. One of four has RSA, whose keys take a tenth of the processor
/// time of a life. The seed alone decides, so that its other choices stay those of earlier runs.
fn keys(seed: u64) -> &'static str {
    if seed.is_multiple_of(4) { RSA } else { ECDSA }
}

/// Returns the plan of a seed.
pub(super) fn planned(seed: u64) -> Plan {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let drawn = plan().new_tree(&mut TestRunner::new_with_rng(Config::default(), rng)).unwrap().current();
    Plan { keys: keys(seed), ..drawn }
}
