//! Two servers, of which the leader is frozen before one of its calls to the cloud, until the other one has done the work.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests_openstack_simulator::{FaultEffect, InjectedFault, Inventory, Simulator, SimulatorOptions};

use crate::client::Client;
use crate::etcd::Etcd;
use crate::late_calls::{
    CAPI, SETTLED, assert_one_of_each, create, delete, freeze_time, holder, leader, taken_over, term_ended,
    text,
};
use crate::process::{Capstan, PATIENCE};
use crate::relay::Relay;
use crate::rolling_restart::share_secrets;
use crate::slow_cloud::{Handshakes, SlowCloud};

/// Configuration of a server whose log has a line for each call with a permit, before it is sent.
const CONFIGURATION: &str = "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\nlogging:\n  format: json\n  \
                             level: 'info,controllers_infrastructure_openstack::change=debug'\n";

/// Permits that calls waited for until the controllers stopped.
const REFUSED: &str = "capstan_cloud_permits_total{result=\"refused\"} ";

/// More reads than the cloud gets while some are held.
const READS: u64 = 1_000;

/// Longest time for which the cloud holds a read: shorter than the time limit of a call.
const HELD: Duration = Duration::from_secs(50);

/// Time without a further read after which all controllers are at their reads.
const QUIET: Duration = Duration::from_millis(500);

/// Time in which a controller decides, once the cloud has answered. It ends before the Lease does.
const DECIDES: Duration = Duration::from_secs(1);

/// Time in which a signal stops all threads of a process. It is shorter than a slow handshake.
const STOPS: Duration = Duration::from_millis(100);

/// Time in which a process does what it was about to do when it was frozen.
const LATE: Duration = Duration::from_secs(1);

/// Two servers that reach etcd through relays, and the cloud through slow handshakes.
pub(crate) struct Scene {
    pub(crate) simulator: Simulator,
    cloud: SlowCloud,
    relays: [Relay; 2],
    pub(crate) servers: [Capstan; 2],
    data: [tempfile::TempDir; 2],
    _etcd: Etcd,
}

/// Server that was frozen as the leader.
pub(crate) struct Frozen {
    pub(crate) number: usize,
    /// Holder of the Lease at that time.
    holder: String,
    at: Instant,
    /// Calls that had got their permits.
    permitted: Vec<Call>,
    /// Number of calls that had waited for a permit in vain.
    pub(crate) refused: u64,
}

/// Call with a permit, as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    id: String,
    /// Method and path, e.g. `DELETE /servers/1`.
    step: String,
}

async fn server(data: &Path, relay: &Relay) -> Capstan {
    let file = data.join("capstan.yaml");
    std::fs::write(&file, CONFIGURATION).unwrap();
    let etcd = format!("http://127.0.0.1:{}", relay.port);
    let flags = ["--config", file.to_str().unwrap(), "--etcd-endpoints", etcd.as_str()];
    let server = Capstan::start(data, &flags);
    server.ready().await;
    server
}

impl Scene {
    pub(crate) async fn start() -> Self {
        let options =
            SimulatorOptions { build_time: Duration::from_millis(1), ..SimulatorOptions::default() };
        let simulator = Simulator::start(options).await.unwrap();
        let cloud = SlowCloud::start(simulator.address()).await;
        let (etcd, data) = (Etcd::started(), [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()]);
        let relays = [Relay::start(etcd.port()).await, Relay::start(etcd.port()).await];
        let first = server(data[0].path(), &relays[0]).await;
        share_secrets(data[0].path(), data[1].path());
        let second = server(data[1].path(), &relays[1]).await;
        Self { simulator, cloud, relays, servers: [first, second], data, _etcd: etcd }
    }

    pub(crate) async fn create(&self, client: &Client, manifest: &str) {
        let clouds = self.simulator.clouds_yaml("demo");
        let clouds = clouds.replace(&self.simulator.auth_url(), &self.cloud.auth_url());
        create(client, &format!("{clouds}    verify: false\n"), manifest, "ns").await;
    }

    pub(crate) fn inventory(&self) -> Inventory {
        self.simulator.inventory("demo")
    }

    /// Returns the calls of a server that got a permit, oldest first.
    fn permitted(&self, number: usize) -> Vec<Call> {
        let file = self.data[number].path().join(format!("{}.log", self.servers[number].port));
        let log = std::fs::read_to_string(file).unwrap();
        let call = |line: &str| {
            let line: Value = serde_json::from_str(line).ok()?;
            let field = |name: &str| line.get("fields")?.get(name)?.as_str().map(str::to_owned);
            let is_call = field("message")? == "sending a cloud call";
            is_call.then_some(Call { id: field("request.global_id")?, step: field("step")? })
        };
        log.lines().filter_map(call).collect()
    }

    /// Returns the number of calls of a server that waited for a permit until the controllers stopped.
    pub(crate) async fn refused(&self, number: usize) -> u64 {
        let metrics = self.servers[number].client().get("/metrics").await.unwrap().text();
        metrics.lines().find_map(|line| line.strip_prefix(REFUSED)).unwrap().parse().unwrap()
    }

    /// Freezes the leader.
    async fn stop(&self, number: usize, holder: String, refused: u64) -> Frozen {
        self.servers[number].signal("STOP");
        let at = Instant::now();
        tokio::time::sleep(STOPS).await;
        Frozen { number, holder, at, permitted: self.permitted(number), refused }
    }

    /// Freezes the leader after it has decided to delete the servers of these Machines, and before it gets the permits.
    ///
    /// The decision follows a read of the cloud. The cloud answers it only after the leader was cut off from etcd, and a
    /// permit needs a reading of the Lease.
    pub(crate) async fn freeze_before_the_permits(&self, machines: &[&str]) -> Frozen {
        let number = leader(&self.servers).await;
        let (client, next) = (self.servers[number].client(), self.servers[1 - number].client());
        let (holder, refused) = (holder(&next).await, self.refused(number).await);
        let milliseconds = u64::try_from(HELD.as_millis()).unwrap();
        self.simulator.inject(InjectedFault {
            method: Some("GET".to_owned()),
            path: Some("/servers/detail".to_owned()),
            count: Some(READS),
            ..InjectedFault::new(FaultEffect::Delay { milliseconds })
        });
        for name in machines {
            delete(&client, &machine(name)).await;
        }
        self.until_held(u64::try_from(machines.len()).unwrap()).await;
        self.relays[number].set_cut(true);
        self.simulator.clear_faults();
        tokio::time::sleep(DECIDES).await;
        self.stop(number, holder, refused).await
    }

    /// Waits until the cloud holds at least so many reads, and no more come.
    async fn until_held(&self, least: u64) {
        let held = || READS - self.simulator.faults().first().and_then(|fault| fault.count).unwrap_or(READS);
        let (end, mut known, mut since) = (Instant::now() + PATIENCE, 0, Instant::now());
        while known < least || since.elapsed() < QUIET {
            assert!(Instant::now() < end, "{known} of {least} reads");
            if held() != known {
                (known, since) = (held(), Instant::now());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Freezes the leader between the permit of a call and the call. The log has the call as soon as it has its permit, and
    /// its connection is not open yet.
    pub(crate) async fn freeze_after_the_permit(
        &self,
        is_it: impl Fn(&str) -> bool,
        begin: impl AsyncFnOnce(&Client),
    ) -> Frozen {
        let number = leader(&self.servers).await;
        let (client, next) = (self.servers[number].client(), self.servers[1 - number].client());
        let (holder, refused) = (holder(&next).await, self.refused(number).await);
        let known = self.permitted(number).len();
        self.cloud.set(Handshakes::Slow);
        begin(&client).await;
        let end = Instant::now() + PATIENCE;
        let call = loop {
            let mut new = self.permitted(number).into_iter().skip(known);
            if let Some(call) = new.find(|call| is_it(&call.step)) {
                break call;
            }
            assert!(Instant::now() < end, "no such call: {:#?}", self.permitted(number));
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let frozen = self.stop(number, holder, refused).await;
        self.cloud.set(Handshakes::Held);
        assert!(!self.cloud.has_received(&call.id), "{call:?} was sent before");
        frozen
    }

    /// Waits until the other server is the leader, and returns its client.
    pub(crate) async fn taken_over(&self, frozen: &Frozen) -> Client {
        let client = self.servers[1 - frozen.number].client();
        taken_over(&client, &frozen.holder).await;
        client
    }

    /// Lets a frozen server continue, when its time is over. It gets no further permit.
    pub(crate) async fn continues(&self, frozen: &Frozen) {
        tokio::time::sleep(freeze_time().saturating_sub(frozen.at.elapsed())).await;
        self.relays[frozen.number].set_cut(false);
        self.cloud.set(Handshakes::Prompt);
        let server = &self.servers[frozen.number];
        server.signal("CONT");
        term_ended(&server.client()).await;
        tokio::time::sleep(LATE).await;
        server.ready().await;
        assert_eq!(leader(&self.servers).await, 1 - frozen.number);
        assert_eq!(self.permitted(frozen.number), frozen.permitted, "a former leader got a permit");
    }

    pub(crate) async fn until(
        &self,
        client: &Client,
        what: &str,
        mut is_so: impl AsyncFnMut(&Client) -> bool,
    ) {
        let end = Instant::now() + SETTLED;
        while !is_so(client).await {
            assert!(Instant::now() < end, "{what}: {:#?}", self.inventory());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn until_provisioned(&self, client: &Client, path: &str) {
        let is_provisioned =
            async |client: &Client| text(client, path, "/status/phase").await == "Provisioned";
        self.until(client, &format!("{path} is not provisioned"), is_provisioned).await;
    }

    pub(crate) async fn until_gone(&self, client: &Client, name: &str) {
        let path = machine(name);
        let is_gone = async |client: &Client| client.get(&path).await.is_ok_and(|answer| answer.code == 404);
        self.until(client, &format!("{path} is not deleted"), is_gone).await;
    }

    /// Checks that there is one of each thing of these workers.
    pub(crate) fn assert_one_of_each(&self, workers: usize) {
        let found = self.inventory();
        assert_one_of_each("servers", &found.servers, workers);
        assert_one_of_each("volumes", &found.volumes, workers);
        let ports: Vec<_> = found.ports.iter().filter(|port| port.name.starts_with('w')).cloned().collect();
        assert_one_of_each("ports of workers", &ports, workers);
    }
}

pub(crate) fn machine(name: &str) -> String {
    format!("{CAPI}/ns/machines/{name}")
}
