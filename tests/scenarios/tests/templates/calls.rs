//! Calls to the cloud while a cluster is created and while it is deleted. Those at rest are counted in `rest.rs`.
//!
//! The reference is upstream's provider on the same simulator, with 1 control plane Machine and 10 workers. It made 59
//! calls per Machine for a creation.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::DeleteParams;
use tests_openstack_simulator::LoggedCall;
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use crate::progress::Progress;
use crate::source::Template;

/// Cluster of upstream's shape without a load balancer: one control plane Machine and one worker.
const MANIFEST: &str = include_str!("../whole_cluster/cluster.yaml");

/// Workers of the cluster.
const WORKERS: usize = 2;

/// Machines of the cluster.
const MACHINES: usize = 1 + WORKERS;

/// Workers of the cluster that was measured with upstream's controllers.
const REFERENCE_WORKERS: usize = 10;

/// Most calls for the creation of one Machine. Upstream makes 59.
const PER_MACHINE: usize = 15;

/// Time without a call after which a phase is over. Each wait for the cloud is shorter.
const STILL: Duration = Duration::from_secs(4);

/// Object that a call is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    /// Tokens, versions and extensions, which are read once for all clusters of a project.
    Session,
    /// Network, router, security groups and endpoint of the cluster.
    Cluster,
    /// Servers, their ports, and what they are resolved from.
    Machine,
}

impl Purpose {
    fn of(call: &LoggedCall) -> Self {
        let path = call.path.as_str();
        let is = |part: &str| path.contains(part);
        let is_of_router = call.query.contains("device_id=");
        match () {
            () if is("/v3") || is("/extensions") || path.ends_with("/v2.1/") => Self::Session,
            () if is("/floatingips") && call.query.contains("floating_ip_address") => Self::Machine,
            () if is("/floatingips/") && call.method == "PUT" && !is("/tags") => Self::Machine,
            () if is("/ports") && !is_of_router => Self::Machine,
            () if is("/network/") || is("/os-availability-zone") || is("/load-balancer/") => Self::Cluster,
            () => Self::Machine,
        }
    }
}

/// Returns method and path of a call, without ids.
pub(crate) fn shape(call: &LoggedCall) -> String {
    let part = |part: &str| {
        let is_id = part.len() >= 32 && part.chars().all(|it| it == '-' || it.is_ascii_hexdigit());
        if is_id { "{id}".to_owned() } else { part.to_owned() }
    };
    let path: Vec<String> = call.path.split('/').map(part).collect();
    format!("{} {}", call.method, path.join("/"))
}

/// Numbers of calls in the phases of a life, by purpose and shape.
#[derive(Default)]
struct Table {
    rows: BTreeMap<(Purpose, String), [usize; 2]>,
}

impl Table {
    fn add(&mut self, phase: usize, calls: &[LoggedCall]) {
        for call in calls {
            self.rows.entry((Purpose::of(call), shape(call))).or_default()[phase] += 1;
        }
    }

    fn sum(&self, phase: usize, purpose: Purpose) -> usize {
        let rows = self.rows.iter().filter(|((found, _), _)| *found == purpose);
        rows.map(|(_, counts)| counts[phase]).sum()
    }

    fn print(&self) {
        eprintln!("{:<8} {:<62} {:>8} {:>8}", "for", "call", "created", "deleted");
        for ((purpose, call), counts) in &self.rows {
            let [created, deleted] = counts;
            eprintln!("{:<8} {call:<62} {created:>8} {deleted:>8}", format!("{purpose:?}"));
        }
        for purpose in [Purpose::Session, Purpose::Cluster, Purpose::Machine] {
            let [created, deleted] = [0, 1].map(|phase| self.sum(phase, purpose));
            eprintln!("{:<8} {:<62} {created:>8} {deleted:>8}", format!("{purpose:?}"), "all");
        }
    }
}

/// Returns the manifest of a cluster in a namespace, with this number of Machines.
pub(crate) fn template(world: &World, namespace: &str, control_plane: usize, workers: usize) -> Template {
    let clouds: String =
        world.cloud.clouds_yaml("demo").lines().map(|line| format!("    {line}\n")).collect();
    let text = MANIFEST.replace("NAMESPACE", namespace).replace("CLOUDS\n", &clouds);
    // The control plane comes first.
    let text = text.replacen("replicas: 1", &format!("replicas: {control_plane}"), 1);
    let at = text.rfind("replicas: 1").unwrap();
    let (before, after) = text.split_at(at);
    Template::new(namespace, &format!("{before}{}", after.replacen('1', &workers.to_string(), 1)))
}

/// Waits until the cloud has received no call for a while. Returns the calls since the last phase.
pub(crate) async fn phase(world: &World) -> Vec<LoggedCall> {
    loop {
        let before = world.cloud.log().len();
        tokio::time::sleep(STILL).await;
        if world.cloud.log().len() == before {
            let calls = world.cloud.log();
            world.cloud.clear_log();
            return calls;
        }
    }
}

/// Returns the calls of a cluster with this number of workers.
fn extrapolated(session: usize, cluster: usize, machines: usize, workers: usize) -> usize {
    session + cluster + machines * (1 + workers) / MACHINES
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_makes_at_most_a_quarter_of_the_calls_of_upstream() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let template = template(&world, "calls", 1, WORKERS);
    let progress = Progress::new(world.admin(), &template);
    let mut table = Table::default();

    world.apply("calls", &template.documents(&world.cloud.address())).await.unwrap();
    progress.until_available().await.unwrap();
    table.add(0, &phase(&world).await);
    progress.clusters().delete(&progress.cluster, &DeleteParams::background()).await.unwrap();
    progress.until_gone(false).await.unwrap();
    table.add(1, &phase(&world).await);
    term.cancel();
    running.join_all().await;
    drop(hollow);

    table.print();
    let [session, cluster, machines] =
        [Purpose::Session, Purpose::Cluster, Purpose::Machine].map(|purpose| table.sum(0, purpose));
    for workers in [WORKERS, REFERENCE_WORKERS] {
        let created = extrapolated(session, cluster, machines, workers);
        eprintln!("1 + {workers}: {created} calls for the creation, {} per Machine", created / (1 + workers));
    }
    let machines_made = 1 + REFERENCE_WORKERS;
    let created = extrapolated(session, cluster, machines, REFERENCE_WORKERS);
    assert!(created <= PER_MACHINE * machines_made, "{created} calls for {machines_made} Machines");
}
