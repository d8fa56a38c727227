//! Times at which clusters and Machines reach the stages of their creation, as a client with watches sees them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use apiserver_types::{Cluster, Condition, Machine, MachinePhase};
use futures::StreamExt;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

/// Label of the Machines of a control plane.
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

/// Longest duration of one watch. The server ends watches after 5 to 10 minutes by itself.
const WATCH_SECONDS: u32 = 290;

/// Pause before a watch that has failed is opened again.
const PAUSE: Duration = Duration::from_millis(200);

/// Stage of a cluster or of a Machine, in the order in which they follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// The object exists. A cluster exists when its first object is sent.
    Created,
    /// A Machine has its user data.
    Bootstrap,
    /// The infrastructure is provisioned.
    Infrastructure,
    /// The API of the cluster has answered for the first time.
    Initialized,
    /// A Machine has a Node.
    Node,
    /// A Machine is Running.
    Running,
    /// A Machine is Ready, or all Machines of a cluster are.
    Ready,
    /// A cluster is Available.
    Available,
}

/// First time of each stage, from the begin of the measurement.
#[derive(Debug, Clone, Default)]
pub(super) struct Stages(BTreeMap<Stage, Duration>);

impl Stages {
    pub(super) fn at(&self, stage: Stage) -> Option<Duration> {
        self.0.get(&stage).copied()
    }

    fn reach(&mut self, stage: Stage, is_reached: bool, now: Duration) {
        if is_reached {
            self.0.entry(stage).or_insert(now);
        }
    }
}

/// Cluster or Machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    pub(super) namespace: String,
    pub(super) control_plane: bool,
    pub(super) stages: Stages,
    /// Endpoint of a cluster's API.
    pub(super) endpoint: Option<(String, u16)>,
    /// True while a Machine is Ready, or a cluster Available.
    pub(super) is_ready: bool,
}

/// All clusters and Machines that exist, by namespace and name.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline {
    pub(super) clusters: BTreeMap<String, Observed>,
    pub(super) machines: BTreeMap<String, Observed>,
}

/// Timeline that watches extend.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    timeline: Arc<Mutex<Timeline>>,
    begun: Instant,
}

impl Watched {
    /// Begins to watch. The watches end when the set is dropped.
    pub(super) fn begin(client: &Client) -> (Self, JoinSet<()>) {
        let watched = Self { timeline: Arc::default(), begun: Instant::now() };
        let (clusters, machines) = (watched.clone(), watched.clone());
        let mut watches = JoinSet::new();
        watches.spawn(follow(client.clone(), move |event| clusters.cluster(event)));
        watches.spawn(follow(client.clone(), move |event| machines.machine(event)));
        (watched, watches)
    }

    /// Returns the time since the begin.
    pub(super) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Timeline> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the first object of a cluster is sent now.
    pub(super) fn applied(&self, namespace: &str) {
        let now = self.now();
        let mut timeline = self.lock();
        let observed = timeline.clusters.entry(namespace.to_owned()).or_default();
        namespace.clone_into(&mut observed.namespace);
        observed.stages.reach(Stage::Created, true, now);
    }

    fn cluster(&self, event: WatchEvent<Cluster>) {
        let now = self.now();
        let mut timeline = self.lock();
        match event {
            WatchEvent::Added(cluster) | WatchEvent::Modified(cluster) => {
                let namespace = cluster.namespace().unwrap_or_default();
                let observed = timeline.clusters.entry(namespace).or_default();
                let milestones = cluster.status.as_ref().and_then(|status| status.initialization.clone());
                let milestones = milestones.unwrap_or_default();
                let infrastructure = milestones.infrastructure_provisioned == Some(true);
                observed.stages.reach(Stage::Infrastructure, infrastructure, now);
                let initialized = milestones.control_plane_initialized == Some(true);
                observed.stages.reach(Stage::Initialized, initialized, now);
                observed.is_ready = cluster.condition("Available").is_some_and(Condition::holds);
                observed.stages.reach(Stage::Available, observed.is_ready, now);
                let endpoint = cluster.spec.control_plane_endpoint.unwrap_or_default();
                let port = endpoint.port.and_then(|port| u16::try_from(port).ok());
                observed.endpoint = endpoint.host.filter(|host| !host.is_empty()).zip(port);
            }
            WatchEvent::Deleted(cluster) => {
                timeline.clusters.remove(&cluster.namespace().unwrap_or_default());
            }
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
        }
    }

    fn machine(&self, event: WatchEvent<Machine>) {
        let now = self.now();
        let mut timeline = self.lock();
        let key =
            |machine: &Machine| format!("{}/{}", machine.namespace().unwrap_or_default(), machine.name_any());
        match event {
            WatchEvent::Added(machine) | WatchEvent::Modified(machine) => {
                let observed = timeline.machines.entry(key(&machine)).or_default();
                observed.namespace = machine.namespace().unwrap_or_default();
                observed.control_plane = machine.labels().contains_key(CONTROL_PLANE);
                observed.is_ready = machine.condition("Ready").is_some_and(Condition::holds);
                let status = machine.status.unwrap_or_default();
                let milestones = status.initialization.unwrap_or_default();
                for (stage, is_reached) in [
                    (Stage::Created, true),
                    (Stage::Bootstrap, milestones.bootstrap_data_secret_created == Some(true)),
                    (Stage::Infrastructure, milestones.infrastructure_provisioned == Some(true)),
                    (Stage::Node, status.node_ref.is_some()),
                    (Stage::Running, status.phase == Some(MachinePhase::Running)),
                    (Stage::Ready, observed.is_ready),
                ] {
                    observed.stages.reach(stage, is_reached, now);
                }
            }
            WatchEvent::Deleted(machine) => {
                timeline.machines.remove(&key(&machine));
            }
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
        }
    }
}

/// Watches all objects of a kind for ever.
async fn follow<K>(client: Client, note: impl Fn(WatchEvent<K>))
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(client);
    let mut version = "0".to_owned();
    loop {
        let parameters = WatchParams::default().timeout(WATCH_SECONDS);
        if let Ok(events) = api.watch(&parameters, &version).await {
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                match &event {
                    Ok(
                        WatchEvent::Added(object)
                        | WatchEvent::Modified(object)
                        | WatchEvent::Deleted(object),
                    ) => {
                        version = object.resource_version().unwrap_or(version);
                    }
                    Ok(WatchEvent::Bookmark(bookmark)) => {
                        bookmark.metadata.resource_version.clone_into(&mut version);
                    }
                    // The version is too old: the next watch begins with the current objects.
                    Ok(WatchEvent::Error(_)) => "0".clone_into(&mut version),
                    Err(_) => break,
                }
                if let Ok(event) = event {
                    note(event);
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
