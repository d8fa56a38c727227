//! Provider suite: cases that every provider passes, against a simulator and against real clouds.
//!
//! A provider's test creates a [`World`] and calls [`run`]. Cases run one after the other, because a
//! small cloud is slow and its quotas are shared. A case is named by a sentence that can be false. It
//! deletes what it created, because deletions are under test as well. Resources that it leaves are swept
//! up after it, and are a failure.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::print_stdout,
    reason = "this is test code that providers link into their tests: a failed expectation panics"
)]

mod access;
mod actions;
mod floating_ips;
mod lists;
mod load_balancers;
mod networks;
mod ports;
mod quota;
mod refusals;
mod routers;
mod security_groups;
mod servers;
mod site;
mod sweep;
mod volumes;

use std::{
    fmt::Debug,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::{Cloud, CloudConnector, CloudResult, Credentials, ErrorClass};

/// Timeout of a wait: a busy cloud on one machine is slow.
const PATIENCE: Duration = Duration::from_secs(180);

/// Interval of a wait.
const PAUSE: Duration = Duration::from_millis(200);

/// Id that no cloud assigns.
const UNKNOWN_ID: &str = "00000000-0000-4000-8000-000000000000";

/// Contents of the cloud under test.
#[derive(Debug, Clone)]
pub struct Expectations {
    /// Name of an external network with free addresses.
    pub external_network: String,
    /// Name of an image that boots.
    pub image: String,
    /// Name of another image, to rebuild with.
    pub other_image: String,
    /// Name of a flavor with which a few servers fit.
    pub flavor: String,
    /// Name of a flavor that no host has room for, though the quota does.
    pub impossible_flavor: String,
    /// Name of a flavor with more cores than [`Expectations::tiny`] may have.
    pub large_flavor: String,
    /// An availability zone with room.
    pub zone: String,
    /// The same user with a wrong password.
    pub wrong_password: Credentials,
    /// Credentials whose `auth_url` has no listener.
    pub unreachable: Credentials,
    /// A project with quotas of a few security groups and of less cores than the large flavor has.
    pub tiny: Credentials,
}

/// Context of a case: the cloud under test, and the names that the case may use.
#[derive(Debug, Clone)]
pub struct World {
    connector: Arc<dyn CloudConnector>,
    credentials: Credentials,
    cloud: Arc<dyn Cloud>,
    expected: Expectations,
    /// Prefix of the name of every resource of this run.
    prefix: String,
    /// Volumes can only be found by name.
    names: Arc<Mutex<Vec<String>>>,
}

/// Case: its sentence and its function.
type Case = (&'static str, fn(World) -> Pin<Box<dyn Future<Output = ()> + Send>>);

/// Creates a list of cases from sentences and functions.
macro_rules! cases {
    ($($sentence:literal => $case:path,)*) => {
        vec![$(($sentence, |world| Box::pin($case(world))),)*]
    };
}

fn all() -> Vec<Case> {
    cases! {
        "connections with equal credentials share one session" => access::shared,
        "a wrong password is reported as Unauthorized" => access::wrong_password,
        "a closed port is reported as Unreachable" => access::unreachable,
        "an unknown cloud or region is reported as an error in the credentials" => access::unknown_cloud_or_region,
        "flavors, zones and server groups are listed" => lists::compute,
        "shares are listed, and a cloud without Manila has none" => lists::shares,
        "images are found by every filter" => lists::images,
        "images are created without content, found by their tags and deleted" => lists::created_images,
        "networks are filtered by whether they are external" => lists::external_networks,
        "networks are created, found by every filter, tagged and deleted" => networks::networks,
        "subnets are created, found by every filter, changed and deleted" => networks::subnets,
        "ports get addresses from the allocation pools of their subnet" => networks::pools,
        "routers connect subnets to an external network" => routers::routers,
        "security groups are created, found by every filter and deleted" => security_groups::groups,
        "security group rules are created once and deleted" => security_groups::rules,
        "ports are created, found by every filter, changed and deleted" => ports::ports,
        "an address is assigned to one port only" => ports::addresses,
        "trunks are created on ports, found by every filter, tagged and deleted before their ports" => ports::trunks,
        "a floating IP that was changed since it was read is not taken" => floating_ips::stale,
        "floating IPs are created, associated, found by every filter and deleted" => floating_ips::floating_ips,
        "load balancers are created, found by every filter and deleted with their parts" => load_balancers::load_balancers,
        "load balancers without an address and unknown parts are refused" => load_balancers::refusals,
        "volumes are created, found by name and deleted" => volumes::volumes,
        "a server boots with all requested properties, and its port outlives it" => servers::boot,
        "a server boots from a volume" => servers::boot_from_volume,
        "a server that fits on no host enters ERROR and reports the cause" => servers::unschedulable,
        "reboots are in the action log with their request ids" => actions::reboot,
        "a power-off is in the action log and leaves the server off" => actions::power_off,
        "a power-on is in the action log and leaves the server running" => actions::power_on,
        "volumes are detached from a stopped server, except the one that it boots from" => actions::detach,
        "a rebuild keeps the server's id and port" => actions::rebuild,
        "calls on unknown ids are reported as NotFound" => refusals::not_found,
        "empty ids and paths in place of ids are reported as NotFound" => refusals::empty_ids,
        "unknown zones, flavors and images are reported as Invalid" => refusals::invalid,
        "deleting a resource in use is reported as Conflict" => refusals::in_use,
        "an exhausted quota is reported as Quota" => quota::quota,
        "quotas are listed with what is in use" => quota::usage,
    }
}

impl World {
    /// Connects. `prefix` must differ from that of every other run on the same cloud.
    ///
    /// # Errors
    /// Those of the connector.
    pub async fn new(
        connector: Arc<dyn CloudConnector>,
        credentials: Credentials,
        expected: Expectations,
        prefix: &str,
    ) -> CloudResult<Self> {
        let cloud = connector.connect(&credentials).await?;
        Ok(Self { connector, credentials, cloud, expected, prefix: prefix.to_owned(), names: Arc::default() })
    }

    /// Returns a name for a resource of this run.
    fn name(&self, what: &str) -> String {
        let name = format!("{}-{what}", self.prefix);
        self.names.lock().unwrap().push(name.clone());
        name
    }
}

/// Runs every case whose sentence contains `filter`, and panics if one fails or leaves a resource.
pub async fn run(world: World, filter: &str) {
    sweep::sweep(&world).await;
    let mut failed = Vec::new();
    for (sentence, case) in all().into_iter().filter(|(sentence, _)| sentence.contains(filter)) {
        let started = Instant::now();
        // A task of its own turns a panic into a value.
        let result = tokio::spawn(case(world.clone())).await;
        let left = sweep::sweep(&world).await;
        let verdict = match (&result, left.is_empty()) {
            (Ok(()), true) => "ok",
            (Ok(()), false) => "LEFT RESOURCES",
            (Err(_), _) => "FAILED",
        };
        println!("{verdict}: {sentence} ({:.1} s)", started.elapsed().as_secs_f64());
        if verdict != "ok" {
            failed.push(format!("{sentence}: {verdict} {left:?}"));
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// Polls until there is a result.
async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(Instant::now() < deadline, "timed out, waiting until {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Checks that a call is refused with this class. Every refusal must name its call and have a message.
#[track_caller]
fn refused<T: Debug>(result: CloudResult<T>, class: ErrorClass) -> crate::CloudError {
    let error = result.unwrap_err();
    assert_eq!(error.class, class, "{error:?}");
    assert!(!error.message.is_empty() && !error.operation.is_empty(), "{error:?}");
    assert!(!error.message.contains("<br") && !error.message.contains("</"), "markup in: {error}");
    error
}

/// Returns the ids of resources.
macro_rules! ids {
    ($things:expr) => {
        $things.iter().map(|thing| thing.id.as_str()).collect::<Vec<_>>()
    };
}
use ids;
