//! Suite that every provider passes, against a simulator and against real clouds.
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

/// World of a case.
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
        "one session serves all who have the same credentials" => access::shared,
        "a wrong password is unauthorized" => access::wrong_password,
        "a closed port is unreachable" => access::unreachable,
        "a cloud or region that is not there is the credentials' fault" => access::wrong_names,
        "flavors, zones and server groups are listed" => lists::compute,
        "images are found by every filter" => lists::images,
        "external networks are told from internal ones" => lists::external_networks,
        "networks are made, found by every filter, tagged and deleted" => networks::networks,
        "subnets are made, found by every filter, changed and deleted" => networks::subnets,
        "a subnet's address ranges are kept" => networks::pools,
        "routers connect subnets with the outside" => routers::routers,
        "security groups are made, found by every filter and deleted" => security_groups::groups,
        "rules are added once and removed" => security_groups::rules,
        "ports are made, found by every filter, changed and deleted" => ports::ports,
        "an address is given to one port only" => ports::addresses,
        "floating IPs come, lead somewhere and go" => floating_ips::floating_ips,
        "volumes are made, found by name and deleted" => volumes::volumes,
        "a server boots with all it was given, and its port outlives it" => servers::boot,
        "a server boots from a volume" => servers::boot_from_volume,
        "a server without room ends in ERROR and says why" => servers::no_room,
        "reboots are in the action log under their request ids" => actions::reboot,
        "a power-off is in the action log and leaves the server off" => actions::power_off,
        "a power-on is in the action log and leaves the server running" => actions::power_on,
        "a rebuild keeps the id and the port" => actions::rebuild,
        "what is not there is not found" => refusals::not_found,
        "an empty id names nothing" => refusals::empty_ids,
        "wrong zones, flavors and images are invalid" => refusals::invalid,
        "what is in use is a conflict" => refusals::in_use,
        "an exhausted quota is a quota" => quota::quota,
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

/// Runs every case whose sentence contains `filter`, and panics if one fails or leaves something.
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
            (Ok(()), false) => "LEFT SOMETHING",
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
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Checks that a call is refused with this class. Every refusal must name its call and have a message.
#[track_caller]
fn refused<T: Debug>(result: CloudResult<T>, class: ErrorClass) -> crate::CloudError {
    let error = result.unwrap_err();
    assert_eq!(error.class, class, "{error:?}");
    assert!(!error.message.is_empty() && !error.operation.is_empty(), "{error:?}");
    assert!(!error.message.contains("<br") && !error.message.contains("</"), "markup: {error}");
    error
}

/// Returns the ids of resources.
macro_rules! ids {
    ($things:expr) => {
        $things.iter().map(|thing| thing.id.as_str()).collect::<Vec<_>>()
    };
}
use ids;
