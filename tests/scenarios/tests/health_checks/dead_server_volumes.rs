//! Deletion of a worker whose server is off, and which has the Cinder volume of a claim: proof, detachment, and the end
//! of both when the server runs again.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::Machine;
use controllers_infrastructure::{Cloud, CloudConnector, Credentials, NewVolume, PowerState, Volume};
use controllers_infrastructure_openstack::{AllowedEndpoints, OpenStackConnector};
use k8s_openapi::api::core::v1::{Event, Node};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::dead_server::run_protected;
use crate::scene::Scene;

/// Time in which a deletion that nothing holds up would be over.
const QUIET: Duration = Duration::from_secs(4);

/// Hook that holds a deletion before the server is deleted.
const HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/test";

/// Worker with a Pod that may not be evicted, and with the volume of a claim.
struct Worker<'a> {
    scene: &'a Scene,
    cloud: Arc<dyn Cloud>,
    machine: String,
    node: String,
    server: String,
    volume: String,
}

impl<'a> Worker<'a> {
    async fn start(scene: &'a Scene) -> Self {
        let machine = scene.names().await.remove(0);
        let node = scene.node_of(&machine).await;
        run_protected(scene, &node).await;
        let cloud = scene.world.project().await.unwrap();
        let server = cloud.servers_named(&machine).await.unwrap().remove(0).id;
        let new = NewVolume { name: "pvc-1".to_owned(), size_gib: 1, ..NewVolume::default() };
        let volume = cloud.create_volume(&new).await.unwrap().id;
        let worker = Self { scene, cloud, machine, node, server, volume };
        worker.until_volume_is("available").await;
        assert!(scene.world.cloud.attach_volume(&worker.volume, &worker.server));
        worker
    }

    async fn volume(&self) -> Volume {
        self.cloud.volume(&self.volume).await.unwrap()
    }

    async fn until_volume_is(&self, status: &str) {
        self.scene.until(status, async || self.volume().await.status == status).await;
    }

    /// Starts or stops the server, as another client of Nova does.
    async fn power(&self, state: PowerState) {
        self.power_by(self.cloud.as_ref(), state).await;
    }

    async fn power_by(&self, client: &dyn Cloud, state: PowerState) {
        client.set_power_state(&self.server, state).await.unwrap();
        let status = if state == PowerState::On { "ACTIVE" } else { "SHUTOFF" };
        let is_over = async || {
            let server = self.cloud.server(&self.server).await.unwrap();
            server.status == status && server.task_state.is_none()
        };
        self.scene.until(status, is_over).await;
    }

    async fn until_ready_is(&self, status: &str) {
        let nodes: Api<Node> = Api::all(self.scene.workload().await);
        let is_so = async || {
            let node = nodes.get(&self.node).await.unwrap();
            let conditions = node.status.unwrap_or_default().conditions.unwrap_or_default();
            conditions.iter().any(|it| it.type_ == "Ready" && it.status == status)
        };
        self.scene.until(&format!("Ready {status}"), is_so).await;
    }

    /// Returns the value of the taint of a Node that is out of service.
    async fn taint(&self) -> Option<String> {
        let nodes: Api<Node> = Api::all(self.scene.workload().await);
        let taints = nodes.get(&self.node).await.unwrap().spec.unwrap_or_default().taints.unwrap_or_default();
        let taint = taints.into_iter().find(|it| it.key == "node.kubernetes.io/out-of-service");
        taint.and_then(|taint| taint.value)
    }

    async fn until_tainted(&self, value: Option<&str>) {
        let is_so = async || self.taint().await.as_deref() == value;
        self.scene.until(&format!("the taint {value:?}"), is_so).await;
    }

    /// Waits until the deletion is in a stage, with these words in its text. Returns the text.
    async fn until_deleting(&self, reason: &str, words: &str) -> String {
        let machines: Api<Machine> = self.scene.api();
        let text = async || {
            let machine = machines.get(&self.machine).await.unwrap();
            let found = machine.condition("Deleting").filter(|it| it.reason == reason).cloned();
            found.map(|it| it.message).filter(|text| text.contains(words))
        };
        self.scene.until(words, async || text().await.is_some()).await;
        text().await.unwrap_or_default()
    }

    async fn annotate(&self, value: Value) {
        let machines: Api<Machine> = self.scene.api();
        let change = Patch::Merge(json!({"metadata": {"annotations": {HOOK: value}}}));
        machines.patch(&self.machine, &PatchParams::default(), &change).await.unwrap();
    }

    async fn until_gone(&self) {
        let machines: Api<Machine> = self.scene.api();
        let is_gone = async || machines.get_opt(&self.machine).await.unwrap().is_none();
        self.scene.until("the end of the Machine", is_gone).await;
    }

    async fn events(&self, reason: &str) -> Vec<String> {
        let events: Api<Event> = self.scene.api();
        let params = ListParams::default().fields(&format!("reason={reason}"));
        events.list(&params).await.unwrap().items.into_iter().filter_map(|it| it.message).collect()
    }
}

/// Connects to Nova as an administrator.
async fn administrator(scene: &Scene) -> Arc<dyn Cloud> {
    let credentials = Credentials {
        clouds_yaml: scene.world.cloud.clouds_yaml("admin"),
        cloud_name: "openstack".to_owned(),
        ca_certificate: None,
        region: None,
        identity: None,
    };
    OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&credentials).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_volumes_of_a_dead_worker_are_detached_once_nova_proves_that_its_server_is_off() {
    let scene = Scene::start("dead-volumes").await;
    let worker = Worker::start(&scene).await;
    worker.annotate(json!("")).await;

    // The health check has the Machine deleted. Its server runs, and may write to the volume.
    scene.hollow.kubelet_dead(&worker.machine, true);
    worker.until_deleting("DrainingNode", "nothing proves that its server is off: Nova says ACTIVE").await;
    tokio::time::sleep(QUIET).await;
    assert_eq!((worker.volume().await.status.as_str(), worker.taint().await), ("in-use", None));

    worker.power(PowerState::Off).await;
    worker.until_volume_is("available").await;
    assert_eq!(worker.taint().await.as_deref(), Some("capstan"));
    worker.until_deleting("WaitingForPreTerminateHook", "").await;
    assert_eq!(worker.cloud.server(&worker.server).await.unwrap().status, "SHUTOFF", "the hook holds it");
    let message = worker.events("ServerIsOff").await.remove(0);
    assert!(message.contains("Nova says SHUTOFF, and its action stop ended with Success"), "{message}");
    assert!(message.contains("event compute_stop_instance, request req-"), "{message}");

    // The detachment is newer than the stop, and proves nothing. A start ends the proof.
    let newest = worker.cloud.actions(&worker.server).await.unwrap().remove(0);
    assert_eq!(newest.action, "detach_volume");
    tokio::time::sleep(QUIET).await;
    assert_eq!(worker.taint().await.as_deref(), Some("capstan"), "the server is still off");
    scene.hollow.kubelet_dead(&worker.machine, false);
    worker.power(PowerState::On).await;
    worker.until_tainted(None).await;
    worker.until_ready_is("True").await;
    assert_eq!(worker.events("ServerMayRun").await.len(), 1);

    worker.annotate(Value::Null).await;
    worker.until_gone().await;
    assert_eq!(worker.volume().await.status, "available", "it belongs to the claim");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_runs_again_keeps_its_volumes_and_its_node_is_in_service() {
    let scene = Scene::start("dead-again").await;
    let worker = Worker::start(&scene).await;

    // Nova refuses to detach volumes of a locked server to its owner.
    worker.power(PowerState::Off).await;
    assert!(scene.world.cloud.set_locked(&worker.server, true));
    let text = worker.until_deleting("WaitingForVolumeDetach", "is locked").await;
    assert!(text.contains(&worker.volume) && text.contains("after 300 s"), "{text}");
    assert!(text.contains("action stop ended with Success"), "{text}");
    assert_eq!(worker.taint().await.as_deref(), Some("capstan"));
    assert_eq!(worker.volume().await.status, "in-use");

    // The lock does not bind an administrator.
    worker.power_by(administrator(&scene).await.as_ref(), PowerState::On).await;
    worker.until_ready_is("True").await;
    worker.until_tainted(None).await;
    worker.until_deleting("DrainingNode", "disruption budget").await;
    assert!(scene.world.cloud.set_locked(&worker.server, false));
    tokio::time::sleep(QUIET).await;
    assert_eq!((worker.volume().await.status.as_str(), worker.taint().await), ("in-use", None));
    scene.end().await;
}
