//! Testbed: a cluster with one worker, as a client observes it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{Cluster, Machine, MachineOperation, OpenStackMachine};
use controllers_infrastructure::{Cloud, ImageQuery, PowerState, Server};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::{Controllers, CrashPoint, World, is_over};

const NAMESPACE: &str = "ns";
const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/w";

/// Root disk of a worker's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    Image,
    Volume,
}

/// Changes in the cloud, and their numbers. A refused call has its status in its name.
pub(crate) type Calls = BTreeMap<String, usize>;

/// Cluster with one worker.
pub(crate) struct Testbed {
    pub(crate) world: World,
    root: Root,
    /// The test's own session with the cloud.
    cloud: Arc<dyn Cloud>,
    /// Resources of the complete project.
    whole: String,
    empty: String,
}

impl Testbed {
    pub(crate) async fn new(root: Root) -> Self {
        Self::with_reboots_of(root, Duration::from_millis(1)).await
    }

    pub(crate) async fn with_reboots_of(root: Root, reboot_time: Duration) -> Self {
        Self::on(World::start_with_reboots_of(reboot_time).await.unwrap(), root).await
    }

    /// Starts a worker whose soft reboots take this duration, and whose hard ones end at once.
    pub(crate) async fn with_soft_reboots_of(root: Root, reboot_time: Duration) -> Self {
        Self::on(World::start_with_soft_reboots_of(reboot_time).await.unwrap(), root).await
    }

    async fn on(world: World, root: Root) -> Self {
        let world = world.with_one_login();
        let empty = world.counts();
        let cloud = world.project().await.unwrap();
        let clouds = world.cloud.clouds_yaml("demo");
        let clouds = clouds.lines().map(|line| format!("    {line}\n")).collect::<String>();
        let manifest = include_str!("cluster.yaml").replace("CLOUDS\n", &clouds);
        world.create(&manifest.replace("NAMESPACE", NAMESPACE)).await.unwrap();
        let mut testbed = Self { world, root, cloud, whole: String::new(), empty };
        testbed.create_worker().await;
        testbed.whole = testbed.world.counts();
        testbed
    }

    /// Creates the worker, and waits for it.
    pub(crate) async fn create_worker(&self) {
        let root = if self.root == Root::Volume { "  rootVolume: {sizeGiB: 5}" } else { "" };
        let manifest = include_str!("machine.yaml").replace("NAMESPACE", NAMESPACE).replace("ROOT", root);
        self.world.create(&manifest).await.unwrap();
        self.settle(&self.controllers()).await;
        if !self.whole.is_empty() {
            assert_eq!(self.world.counts(), self.whole, "after another worker was created");
        }
    }

    /// Returns controllers that do not crash.
    pub(crate) fn controllers(&self) -> Controllers {
        Controllers::start(&self.world, &Arc::new(CrashPoint::never()))
    }

    /// Makes rounds until all operations are over, and the worker is ready. The latter uses another process,
    /// which has no list of servers some seconds old.
    pub(crate) async fn settle(&self, controllers: &Controllers) {
        controllers.until("all operations are finished", is_over_everywhere).await.unwrap();
        controllers.round().await.unwrap();
        self.controllers().until("the worker is ready", is_ready).await.unwrap();
    }

    /// Makes rounds until the process crashes, or to the end.
    pub(crate) async fn work_until_crash(&self, crash_point: &Arc<CrashPoint>) {
        let controllers = Controllers::start(&self.world, crash_point);
        tokio::select! {
            () = crash_point.crashed() => {}
            () = self.settle(&controllers) => {}
        }
    }

    /// Makes rounds until the process crashes, and then to the end with other controllers.
    pub(crate) async fn settle_despite_crash(&self, crash_point: &Arc<CrashPoint>) {
        self.work_until_crash(crash_point).await;
        self.settle(&self.controllers()).await;
    }

    /// Reads the worker's server from Nova.
    pub(crate) async fn server(&self) -> Server {
        let inventory = self.world.cloud.inventory("demo");
        let [server] = &inventory.servers[..] else { panic!("{:?}", inventory.servers) };
        self.cloud.server(&server.id).await.unwrap()
    }

    /// Brings the worker's server into a power state, as another client of Nova would.
    pub(crate) async fn power(&self, state: PowerState) {
        let status = if state == PowerState::Off { "SHUTOFF" } else { "ACTIVE" };
        let server = self.server().await;
        if server.status != status {
            self.cloud.set_power_state(&server.id, state).await.unwrap();
        }
        while self.server().await.status != status {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Requests an action of the worker. Returns the operation's name.
    pub(crate) async fn request(&self, action: &str, body: Value) -> anyhow::Result<String> {
        let operation: MachineOperation = self.world.post(&format!("{MACHINES}/{action}"), &body).await?;
        Ok(operation.name_any())
    }

    /// Creates an operation by a manifest, as a GitOps tool does.
    pub(crate) async fn create_operation(&self, name: &str, mut spec: Value) {
        spec["machineName"] = json!("w");
        let operation = json!({"apiVersion": "capstan.dev/v1alpha1", "kind": "MachineOperation",
            "metadata": {"name": name}, "spec": spec});
        let path = "/apis/capstan.dev/v1alpha1/namespaces/ns/machineoperations";
        let _: Value = self.world.post(path, &operation).await.unwrap();
    }

    pub(crate) fn operations(&self) -> Api<MachineOperation> {
        Api::namespaced(self.world.admin(), NAMESPACE)
    }

    pub(crate) fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.world.admin(), NAMESPACE)
    }

    pub(crate) async fn operation(&self, name: &str) -> MachineOperation {
        self.operations().get(name).await.unwrap()
    }

    /// Returns the changes in the cloud since the log was cleared.
    pub(crate) fn calls(&self) -> Calls {
        let mut calls = Calls::new();
        let log = self.world.cloud.log();
        for call in log.iter().filter(|call| call.method != "GET" && !call.path.contains("/auth/")) {
            let mut parts = call.path.split('/').filter(|part| !part.is_empty()).skip(2);
            let kind = if call.path.starts_with("/volume") { parts.nth(1) } else { parts.next() };
            let what = format!("{} {}", call.method, kind.unwrap_or_default());
            let what = call.action.clone().unwrap_or(what);
            let refused = !(200..300).contains(&call.status);
            let what = if refused { format!("{what}: {}", call.status) } else { what };
            *calls.entry(what).or_default() += 1;
        }
        calls
    }

    /// Checks that all objects agree about the worker's one server, and returns its id.
    pub(crate) async fn consistent(&self, version: &str, image: &str, case: &str) -> String {
        assert_eq!(self.world.counts(), self.whole, "{case}");
        let inventory = self.world.cloud.inventory("demo");
        let [server] = &inventory.servers[..] else { panic!("{case}: {:?}", inventory.servers) };
        let seen = self.cloud.server(&server.id).await.unwrap();
        assert_eq!((seen.status.as_str(), seen.task_state), ("ACTIVE", None), "{case}");
        let query = ImageQuery { name: Some(image.to_owned()), ..ImageQuery::default() };
        let wanted = self.cloud.images(&query).await.unwrap().remove(0).id;
        let machine = self.machines().get("w").await.unwrap();
        let api: Api<OpenStackMachine> = Api::namespaced(self.world.admin(), NAMESPACE);
        let object = api.get("w").await.unwrap();
        let provider_id = object.spec.provider_id.clone();
        let id = provider_id.as_deref().and_then(|id| id.rsplit_once('/')).map(|(_, id)| id);
        assert_eq!(id, Some(server.id.as_str()), "{case}");
        assert_eq!(machine.spec.provider_id, provider_id, "{case}");
        assert_eq!(machine.spec.version.as_deref(), Some(version), "{case}");
        let status = object.status.clone().unwrap();
        assert_eq!(status.instance_id.as_ref(), Some(&server.id), "{case}");
        let resolved = status.resolved.unwrap();
        assert_eq!(resolved.image_id.as_ref(), Some(&wanted), "{case}: status.resolved.imageID");
        match self.root {
            Root::Image => assert_eq!(seen.image_id.as_ref(), Some(&wanted), "{case}: Nova's image"),
            Root::Volume => assert_eq!(seen.image_id, None, "{case}"),
        }
        assert_eq!(object.annotations().get("capstan.dev/operation"), None, "{case}");
        assert_eq!(inventory.user_data.len(), 1, "{case}");
        server.id.clone()
    }

    /// Deletes the cluster, and checks that the project is as before.
    pub(crate) async fn end(self) {
        let clusters: Api<Cluster> = Api::namespaced(self.world.admin(), NAMESPACE);
        clusters.delete("c", &DeleteParams::background()).await.unwrap();
        self.controllers().until("the cluster is deleted", cluster_is_gone).await.unwrap();
        assert_eq!(self.world.counts(), self.empty, "resources remain after the deletion of the cluster");
    }

    /// Waits until the worker is deleted, and checks that it left nothing.
    pub(crate) async fn machine_is_gone(&self, case: &str) {
        let controllers = self.controllers();
        controllers.until(&format!("{case}: the worker is deleted"), worker_is_gone).await.unwrap();
        let inventory = self.world.cloud.inventory("demo");
        assert!(inventory.servers.is_empty(), "{case}: {:?}", inventory.servers);
        assert!(inventory.volumes.is_empty(), "{case}: {:?}", inventory.volumes);
        // The router's port belongs to the cluster.
        assert_eq!(inventory.ports.len(), 1, "{case}: {:?}", inventory.ports);
    }
}

/// Returns true if every operation is over and retired.
pub(crate) async fn is_over_everywhere(client: Client) -> anyhow::Result<bool> {
    let operations = Api::<MachineOperation>::all(client).list(&ListParams::default()).await?;
    Ok(operations.iter().all(|operation| is_over(operation) && operation.finalizers().is_empty()))
}

async fn is_ready(client: Client) -> anyhow::Result<bool> {
    let all = ListParams::default();
    let objects = Api::<OpenStackMachine>::all(client.clone()).list(&all).await?;
    let machines = Api::<Machine>::all(client).list(&all).await?;
    let ready = objects.iter().all(|object| object.condition("Ready").is_some_and(|it| it.holds()));
    Ok(ready
        && machines.iter().all(|machine| {
            machine.spec.provider_id.is_some()
                && machine.condition("InfrastructureReady").is_some_and(|it| it.holds())
        }))
}

async fn cluster_is_gone(client: Client) -> anyhow::Result<bool> {
    Ok(Api::<Cluster>::all(client).list(&ListParams::default()).await?.items.is_empty())
}

async fn worker_is_gone(client: Client) -> anyhow::Result<bool> {
    let all = ListParams::default();
    let machines = Api::<Machine>::all(client.clone()).list(&all).await?;
    let objects = Api::<OpenStackMachine>::all(client.clone()).list(&all).await?;
    Ok(machines.items.is_empty() && objects.items.is_empty() && is_over_everywhere(client).await?)
}
