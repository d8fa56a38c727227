//! Test fixture: the server and the cloud, which outlive every simulated process of controllers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use apiserver_access::{Authenticator, Chain, LocalPolicy, User};
use apiserver_http::{ApiServer, Identity, InProcess, Parts, Supervisor};
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::store::{ObjectStore, OwnNamespaces};
use apiserver_registry::{PlannerSlot, with_planner};
use controllers_infrastructure::{Cloud, CloudConnector, CloudResult, Credentials};
use controllers_infrastructure_openstack::{AllowedEndpoints, OpenStackConnector};
use controllers_runtime::ControllerSettings;
use controllers_workload::Timing;
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;
use storage_embedded::EmbeddedStore;
use tests_hollow_cluster::{HollowClusters, HollowOptions};
use tests_openstack_simulator::{Simulator, SimulatorOptions};
use tokio_util::sync::CancellationToken;

use crate::Clock;
use crate::planner::OwnPlanner;

/// API server over a store of its own, and a simulated OpenStack.
#[derive(Debug)]
pub struct World {
    /// Simulated cloud.
    pub cloud: Simulator,
    /// Clock of the operations.
    pub clock: Arc<Clock>,
    /// Settings of all controllers.
    pub settings: Arc<ControllerSettings>,
    pub(crate) server: Arc<ApiServer>,
    pub(crate) connector: Option<Arc<dyn CloudConnector>>,
    pub(crate) workload_timing: Timing,
    _directory: tempfile::TempDir,
}

impl World {
    /// Starts both. The cloud does everything at once.
    ///
    /// # Errors
    /// The failure of a start.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with_reboots_of(Duration::from_millis(1)).await
    }

    /// Starts both, and programs that play nodes in the servers of the cloud.
    ///
    /// # Errors
    /// The failure of a start.
    pub async fn start_with_hollow_clusters() -> anyhow::Result<(Self, HollowClusters)> {
        Self::start_with_hollow_clusters_of(HollowOptions::default()).await
    }

    /// Starts both, and programs with these options that play nodes.
    ///
    /// # Errors
    /// The failure of a start.
    pub async fn start_with_hollow_clusters_of(
        hollow: HollowOptions,
    ) -> anyhow::Result<(Self, HollowClusters)> {
        let instantly = Duration::from_millis(1);
        let options =
            SimulatorOptions { external_cidr: tests_hollow_cluster::loopback_range(), ..options(instantly) };
        let world = Self::start_on(options).await?;
        let hollow = HollowClusters::start(world.cloud.hypervisor(), hollow);
        Ok((world, hollow))
    }

    /// Starts both, with reboots of this duration.
    ///
    /// # Errors
    /// The failure of a start.
    pub async fn start_with_reboots_of(reboot_time: Duration) -> anyhow::Result<Self> {
        Self::start_on(options(reboot_time)).await
    }

    /// Starts both. Soft reboots take this duration, hard ones end at once.
    ///
    /// # Errors
    /// The failure of a start.
    pub async fn start_with_soft_reboots_of(reboot_time: Duration) -> anyhow::Result<Self> {
        let at_once = options(Duration::from_millis(1));
        Self::start_on(SimulatorOptions { soft_reboot_time: Some(reboot_time), ..at_once }).await
    }

    /// Starts both, with servers that take this time to build.
    ///
    /// # Errors
    /// The failure of a start.
    pub async fn start_with_builds_of(build_time: Duration) -> anyhow::Result<Self> {
        let instantly = Duration::from_millis(1);
        Self::start_on(SimulatorOptions { build_time, ..options(instantly) }).await
    }

    /// Starts both, with an Octavia whose newest version is 2 and this minor one.
    ///
    /// # Errors
    /// The failure of a start.
    pub async fn start_with_octavia(load_balancer_minor: u32) -> anyhow::Result<Self> {
        let instantly = Duration::from_millis(1);
        Self::start_on(SimulatorOptions { load_balancer_minor, ..options(instantly) }).await
    }

    async fn start_on(options: SimulatorOptions) -> anyhow::Result<Self> {
        // Another test of the same process may have done so.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let cloud = Simulator::start(options).await?;
        let directory = tempfile::tempdir()?;
        let store = Arc::new(EmbeddedStore::open(&directory.path().join("store"))?);
        let planner = PlannerSlot::default();
        let objects = Arc::new(ObjectStore::open(
            Arc::new(with_planner(&apiserver_registry::registry(), &planner)),
            store,
            Arc::new(Encryption::default()),
            Arc::new(OwnNamespaces),
            &Supervisor::default(),
            CancellationToken::new(),
        ));
        let authorizer = Arc::new(Chain(vec![Arc::new(LocalPolicy::new(crate::running::grants()))]));
        let server = Arc::new(ApiServer::new(Parts {
            objects: Arc::clone(&objects),
            authenticator: Arc::new(Authenticator::default()),
            authorizer: authorizer.clone(),
            hosted_authorizer: authorizer,
            identity: Identity { git_version: "v1.36.0".to_owned(), address: "test".to_owned() },
            checks: Vec::new(),
            supervisor: Supervisor::default(),
        }));
        let _ = planner.set(Arc::new(OwnPlanner::new(&server)));
        while !objects.is_ready() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let workload_timing = Timing::default();
        Ok(Self {
            cloud,
            clock: Arc::default(),
            settings: Arc::default(),
            server,
            connector: None,
            workload_timing,
            _directory: directory,
        })
    }

    /// Returns the same world, in which all processes share one session with the cloud. A session contains
    /// only a token, and logins would be half of the work of short-lived processes.
    #[must_use]
    pub fn with_one_login(self) -> Self {
        Self { connector: Some(Arc::new(OpenStackConnector::new(AllowedEndpoints::with_loopback()))), ..self }
    }

    /// Returns the same world, in which connections to workload clusters have these intervals.
    #[must_use]
    pub fn with_workload_timing(self, workload_timing: Timing) -> Self {
        Self { workload_timing, ..self }
    }

    /// Returns a client with all permissions.
    pub fn admin(&self) -> Client {
        let user = User::authenticated("admin", ["system:masters".to_owned()]);
        Client::new(InProcess::new(Arc::clone(&self.server), user), "default")
    }

    /// Connects to the project of the clusters, as another user of it.
    ///
    /// # Errors
    /// The failure of the login.
    pub async fn project(&self) -> CloudResult<Arc<dyn Cloud>> {
        let credentials = Credentials {
            clouds_yaml: self.cloud.clouds_yaml("demo"),
            cloud_name: "openstack".to_owned(),
            ca_certificate: None,
            region: None,
            identity: None,
        };
        OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&credentials).await
    }

    /// Creates every document of a manifest.
    ///
    /// # Errors
    /// The refusal of one.
    pub async fn create(&self, manifest: &str) -> anyhow::Result<()> {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(manifest).map_err(|error| anyhow!("{error}"))?;
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            let path = path_of(&document).context("a document without kind")?;
            let _: Value = self.post(&path, &document).await?;
        }
        Ok(())
    }

    /// Posts a body, as a user does.
    ///
    /// # Errors
    /// The refusal.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> anyhow::Result<T> {
        let request = http::Request::post(path).header("content-type", "application/json");
        Ok(self.admin().request(request.body(serde_json::to_vec(body)?)?).await?)
    }

    /// Returns the number of resources of each kind in the project.
    pub fn counts(&self) -> String {
        counts(&self.cloud)
    }
}

/// Returns the number of resources of each kind in the project of the clusters.
pub fn counts(cloud: &Simulator) -> String {
    let inventory = serde_json::to_value(cloud.inventory("demo")).unwrap_or_default();
    let kinds = inventory.as_object().cloned().unwrap_or_default();
    let lists = kinds.iter().filter_map(|(kind, things)| Some((kind, things.as_array()?)));
    let counts = lists.map(|(kind, things)| format!("{kind}={}", things.len()));
    counts.collect::<Vec<_>>().join(" ")
}

/// Returns the options of a cloud that does everything but reboots at once.
fn options(reboot_time: Duration) -> SimulatorOptions {
    let instantly = Duration::from_millis(1);
    SimulatorOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        build_time: instantly,
        reboot_time,
        power_time: instantly,
        rebuild_time: instantly,
        delete_time: instantly,
        volume_time: instantly,
        load_balancer_time: instantly,
        ..SimulatorOptions::default()
    }
}

/// Returns the path at which objects of a document's kind are created.
fn path_of(document: &Value) -> Option<String> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
    let version = text("/apiVersion")?;
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let kind = text("/kind")?.to_lowercase();
    let plural = if kind.ends_with("class") { format!("{kind}es") } else { format!("{kind}s") };
    Some(match text("/metadata/namespace") {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{plural}"),
    })
}
