//! Test fixture: a Machine with its server, and controllers that can be replaced.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use apiserver_types::{MachineOperation, OperationPhase};
use controllers_infrastructure::{BlockDevice, Image, NewServer, NewVolume};
use controllers_operations::{Clock, Controller, OperationContext};
use controllers_runtime::{ApiSecrets, Queues, Requeue, TermStart};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::FakeApi;
use crate::cloud::FakeCloud;
use crate::crash_point::CrashPoint;
use crate::nova::Nova;
use crate::workload::Workload;

pub(crate) const MACHINE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/m1";
pub(crate) const CLUSTER: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters/c1";
pub(crate) const INFRASTRUCTURE: &str =
    "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/ns/openstackmachines/m1";
const INFRASTRUCTURE_CLUSTER: &str =
    "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/ns/openstackclusters/c1";
pub(crate) const OPERATIONS: &str = "/apis/capstan.dev/v1alpha1/namespaces/ns/machineoperations/";
const SECRETS: &str = "/api/v1/namespaces/ns/secrets/";

/// Number of passes: more than any operation needs.
const PASSES: usize = 500;

/// Number of the term of all controllers.
pub(crate) const TERM: u64 = 7;

/// Clock that advances when a pass waits.
#[derive(Debug, Default)]
pub(crate) struct FakeClock(AtomicI64);

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.load(Ordering::SeqCst)).unwrap()
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst).unsigned_abs())
    }
}

/// World of one test.
pub(crate) struct World {
    pub(crate) api: FakeApi,
    pub(crate) cloud: FakeCloud,
    pub(crate) crash_point: Arc<CrashPoint>,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) workload: Workload,
    /// Second of the last restore of the store; 0: none.
    restored: AtomicI64,
}

impl World {
    /// Creates a Machine whose server boots from an image, or from a volume.
    pub(crate) fn new(from_volume: bool) -> Self {
        let crash_point = Arc::new(CrashPoint::default());
        let clock = Arc::new(FakeClock(AtomicI64::new(1_000_000)));
        let (api, cloud) = (FakeApi::new(Arc::clone(&crash_point)), FakeCloud::new(Arc::clone(&crash_point)));
        let workload = Workload::new(&crash_point);
        let restored = AtomicI64::new(0);
        let world = Self { api, cloud, crash_point, clock, workload, restored };
        let server = world.create_fixtures(from_volume);
        world.declare(&server, from_volume);
        world
    }

    /// Creates what the cloud contains at first. Returns the server's id.
    fn create_fixtures(&self, from_volume: bool) -> String {
        let mut nova = self.nova();
        nova.advance(1_000_000);
        for name in ["kube-v1.29.0", "kube-v1.30.0"] {
            let (id, name) = (format!("image-{name}"), name.to_owned());
            nova.images.push(Image { id, name, status: "active".to_owned(), ..Image::default() });
        }
        let tag = "capstan-uid-m1".to_owned();
        let root = from_volume.then(|| {
            let metadata = [("capstan".to_owned(), tag.clone())].into();
            let new =
                NewVolume { name: "m1-root".to_owned(), size_gib: 10, metadata, ..NewVolume::default() };
            nova.create_volume(&new).unwrap().id
        });
        let device = |id| BlockDevice { volume_id: Some(id), ..BlockDevice::default() };
        let new = NewServer {
            name: "m1".to_owned(),
            image_id: (!from_volume).then(|| "image-kube-v1.29.0".to_owned()),
            ports: vec!["port-1".to_owned(), "port-2".to_owned()],
            tags: vec![tag, "mine".to_owned()],
            metadata: [("k".to_owned(), "v".to_owned())].into(),
            block_devices: root.into_iter().map(device).collect(),
            ..NewServer::default()
        };
        let server = nova.create(&new).unwrap();
        nova.advance(1_000_100);
        self.clock.0.store(1_000_100, Ordering::SeqCst);
        server
    }

    fn declare(&self, server: &str, from_volume: bool) {
        let reference =
            |group: &str, kind: &str, name: &str| json!({"apiGroup": group, "kind": kind, "name": name});
        let infrastructure = "infrastructure.cluster.x-k8s.io";
        let provider_id = format!("openstack:///{server}");
        self.api.put(
            CLUSTER,
            json!({"spec": {"infrastructureRef": reference(infrastructure, "OpenStackCluster", "c1")}}),
        );
        let identity = json!({"name": "cloud", "cloudName": "c"});
        self.api.put(INFRASTRUCTURE_CLUSTER, json!({"spec": {"identityRef": identity}}));
        let machine = json!({"clusterName": "c1", "version": "v1.29.0", "providerID": provider_id,
            "bootstrap": {"dataSecretName": "boot"},
            "infrastructureRef": reference(infrastructure, "OpenStackMachine", "m1")});
        self.api.put(MACHINE, json!({"spec": machine}));
        let mut spec = json!({"flavor": {"id": "f"}, "image": {"filter": {"name": "kube-v1.29.0"}},
            "providerID": provider_id, "sshKeyName": "key"});
        if from_volume {
            spec["rootVolume"] = json!({"sizeGiB": 10});
        }
        let ports = json!([{"id": "port-1"}, {"id": "port-2"}]);
        let status =
            json!({"instanceID": server, "resources": {"ports": ports}, "resolved": {"flavorID": "f"}});
        self.api.put(INFRASTRUCTURE, json!({"spec": spec, "status": status}));
        // Base64 of `clouds: {}` and of `join`.
        self.api.put(&format!("{SECRETS}cloud"), json!({"data": {"clouds.yaml": "Y2xvdWRzOiB7fQ=="}}));
        self.api.put(&format!("{SECRETS}boot"), json!({"data": {"value": "am9pbg=="}}));
    }

    pub(crate) fn nova(&self) -> MutexGuard<'_, Nova> {
        self.cloud.nova.lock().unwrap()
    }

    /// Gives the server this status, as another client of Nova would.
    pub(crate) fn set_status(&self, status: &str) {
        let mut nova = self.nova();
        nova.instances.values_mut().for_each(|instance| status.clone_into(&mut instance.server.status));
    }

    pub(crate) fn controller(&self) -> Controller {
        let client = self.api.client();
        let clock: Arc<dyn Clock> = Arc::<FakeClock>::clone(&self.clock);
        Controller::new(OperationContext {
            secrets: Arc::new(ApiSecrets(client.clone())),
            client,
            connector: Arc::new(self.cloud.clone()),
            workloads: Arc::clone(&self.workload.clusters),
            clock,
            queues: Queues::default(),
            term: TermStart::in_order(TERM),
        })
        .with_restore(Some(Timestamp::from_second(self.restored.load(Ordering::SeqCst)).unwrap()))
    }

    /// Replaces an operation by the one of a backup, and lets new controllers know of the restore.
    pub(crate) fn restore(&self, name: &str, backup: Value) {
        self.pass_time(1);
        self.restored.store(self.clock.0.load(Ordering::SeqCst), Ordering::SeqCst);
        self.api.put(&path(name), backup);
    }

    /// Creates an operation.
    pub(crate) fn request(&self, name: &str, mut spec: Value) {
        spec["machineName"] = json!("m1");
        let created = Timestamp::from_second(self.clock.0.load(Ordering::SeqCst)).unwrap();
        let metadata = json!({"creationTimestamp": created.to_string()});
        self.api.put(&path(name), json!({"metadata": metadata, "spec": spec}));
    }

    /// Advances the clock.
    pub(crate) fn pass_time(&self, seconds: i64) {
        let now = self.clock.0.fetch_add(seconds, Ordering::SeqCst) + seconds;
        self.nova().advance(now);
    }

    /// Makes passes until the operation is over and retired, with a new controller after each crash.
    pub(crate) async fn finish(&self, name: &str) -> MachineOperation {
        self.until(name, |operation| operation.metadata.finalizers.is_none() && is_over(operation)).await
    }

    /// Makes passes until a condition on the operation holds.
    pub(crate) async fn until(
        &self,
        name: &str,
        condition: impl Fn(&MachineOperation) -> bool,
    ) -> MachineOperation {
        if self.workload.is_followed() {
            self.workload.connected().await;
        }
        let mut controller = self.controller();
        for _ in 0..PASSES {
            let next = controller.pass("ns", name).await;
            self.play_node();
            if self.crash_point.has_crashed() {
                self.crash_point.restart();
                controller = self.controller();
                continue;
            }
            if let Ok(Requeue::After(pause) | Requeue::Retry(pause)) = next {
                self.pass_time(i64::try_from(pause.as_secs()).unwrap().clamp(5, 60));
            }
            if let Some(operation) = self.operation(name).filter(&condition) {
                return operation;
            }
        }
        panic!("it does not end: {:#?}", self.operation(name).unwrap().status);
    }

    pub(crate) fn operation(&self, name: &str) -> Option<MachineOperation> {
        let mut operation: MachineOperation = serde_json::from_value(self.api.get(&path(name))?).unwrap();
        // An empty list counts as none.
        operation.metadata.finalizers = operation.metadata.finalizers.filter(|all| !all.is_empty());
        Some(operation)
    }
}

pub(crate) fn path(name: &str) -> String {
    format!("{OPERATIONS}{name}")
}

pub(crate) fn is_over(operation: &MachineOperation) -> bool {
    use OperationPhase::{Cancelled, Complete, Failed};
    matches!(phase(operation), Some(Complete | Failed | Cancelled))
}

pub(crate) fn phase(operation: &MachineOperation) -> Option<OperationPhase> {
    operation.status.as_ref().and_then(|status| status.phase)
}

/// Returns the message of the result.
pub(crate) fn message(operation: &MachineOperation) -> String {
    let result = operation.status.as_ref().and_then(|status| status.result.as_ref());
    result.and_then(|result| result.message.clone()).unwrap_or_default()
}

/// Returns the message of the condition Progressing.
pub(crate) fn progress(operation: &MachineOperation) -> String {
    operation.condition("Progressing").map(|condition| condition.message.clone()).unwrap_or_default()
}
