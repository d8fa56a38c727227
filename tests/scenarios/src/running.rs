//! All controllers as the server runs them, with their watches.

use std::sync::Arc;
use std::time::Duration;

use apiserver_access::Grant;
use apiserver_http::ApiServer;
use apiserver_machinery::resource::Resource;
use controllers_infrastructure_openstack::{AllowedEndpoints, OpenStackConnector};
use controllers_reconcilers::planner;
use controllers_runtime::{
    ApiSecrets, ControllerContext, ControllerSettings, ControllerSpec, NoEventHolds, PolicyRule, Queues,
    Recorder, ServedKind, ServerLists, TermStart,
};
use controllers_workload::WorkloadClusters;
use kube::api::ApiResource;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::controllers::client_of;
use crate::crashing_cloud::CrashingConnector;
use crate::crashing_workloads::CrashingWorkloads;
use crate::{CrashPoint, World};

/// Least time between two passes over a MachineHealthCheck.
const HEALTH_CHECK_DISTANCE: Duration = Duration::from_millis(200);

/// Time for which Nova must report a server as off before its Pods are not waited for.
const SERVER_OFF_TIME: Duration = Duration::from_secs(2);

/// Every controller.
fn all() -> impl Iterator<Item = &'static ControllerSpec> {
    controllers_reconcilers::ALL.iter().chain([&controllers_operations::CONTROLLER])
}

/// Permissions of every controller.
pub(crate) fn grants() -> impl Iterator<Item = Grant> {
    let controllers = all().flat_map(|controller| {
        let rules = controller.rules.iter().chain([&PolicyRule::EVENTS]);
        rules.map(|rule| grant(controller.identity, rule))
    });
    controllers.chain(planner::RULES.iter().map(|rule| grant(planner::IDENTITY, rule)))
}

fn grant(identity: &'static str, rule: &'static PolicyRule) -> Grant {
    Grant { identity, groups: rule.groups, resources: rule.resources, verbs: rule.verbs }
}

/// Runs every controller until `term`.
pub fn run(world: &World, term: &CancellationToken) -> JoinSet<()> {
    run_until_crash(world, &Arc::new(CrashPoint::never()), term)
}

/// Runs every controller of a process that crashes at `crash_point`, until `term` or until the set is dropped.
pub fn run_until_crash(
    world: &World,
    crash_point: &Arc<CrashPoint>,
    term: &CancellationToken,
) -> JoinSet<()> {
    let connector = Arc::new(CrashingConnector {
        connector: Arc::new(OpenStackConnector::new(AllowedEndpoints::with_loopback())),
        crash_point: Arc::clone(crash_point),
        known: tokio::sync::Mutex::default(),
    });
    let servers = Arc::new(ServerLists::default());
    let workloads = CrashingWorkloads { crash_point: Arc::clone(crash_point) };
    let timing = world.workload_timing.clone();
    let workloads = Arc::new(WorkloadClusters::with_timing(Arc::new(workloads), timing));
    let kinds = kinds(&world.server);
    // Nodes of hollow clusters change within seconds.
    let settings = Arc::new(ControllerSettings {
        health_check_distance: HEALTH_CHECK_DISTANCE,
        server_off_time: SERVER_OFF_TIME,
        ..(*world.settings).clone()
    });
    let mut running = JoinSet::new();
    for controller in all() {
        let identity = controller.identity;
        let client = client_of(world, crash_point, identity);
        let context = ControllerContext {
            connector: connector.clone(),
            secrets: Arc::new(ApiSecrets(client.clone())),
            servers: Arc::clone(&servers),
            workloads: Arc::clone(&workloads),
            events: Recorder::new(client.clone(), identity),
            event_holds: Arc::new(NoEventHolds),
            queues: Queues::default(),
            kinds: Arc::clone(&kinds),
            settings: Arc::clone(&settings),
            term: TermStart::default(),
            client,
        };
        running.spawn((controller.run)(context, term.clone()));
    }
    let end = term.clone();
    running.spawn(async move { workloads.run(end).await });
    running
}

/// Every kind that the server serves.
pub(crate) fn kinds(server: &ApiServer) -> Arc<[ServedKind]> {
    let all = server.registry().resources();
    let served = |kind: &Resource| ServedKind {
        resource: ApiResource {
            group: kind.group.clone(),
            version: kind.version.clone(),
            api_version: kind.api_version(),
            kind: kind.kind.clone(),
            plural: kind.plural.clone(),
        },
        namespaced: kind.namespaced,
        versions: (all.iter().filter(|other| other.group == kind.group && other.kind == kind.kind))
            .map(|other| other.version.clone())
            .collect(),
    };
    let stored = server.registry().stored().iter().filter(|kind| !kind.strategy.is_read_only());
    stored.map(|kind| served(kind)).collect()
}
