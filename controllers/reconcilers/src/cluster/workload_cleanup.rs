//! Cleanup of the workload cluster before its Machines are deleted, as long as its API answers: Services of type
//! LoadBalancer, whose load balancers only the workload's own controller knows for certain, and on request the
//! PersistentVolumeClaims.
//!
//! The deletion of the Cluster does not depend on it: the OpenStackCluster's controller later deletes the remaining load
//! balancers, and names the remaining volumes.

use std::collections::BTreeSet;
use std::time::Duration;

use apiserver_types::Cluster;
use controllers_runtime::{ControllerContext, paused};
use controllers_workload::Probe;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Service};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::observe::{Observed, key};
use crate::cluster_topology;
use crate::first_attempts::FirstAttempts;

/// Annotation of the Cluster or its OpenStackCluster that turns this off.
const SKIP: &str = "capstan.dev/skip-workload-cleanup";

/// Annotation of the OpenStackCluster with the volumes that are deleted with the cluster: `all`, or their ids, separated
/// by commas.
const VOLUMES: &str = "capstan.dev/delete-volumes";

/// Time after which the deletion goes on without: a cloud deletes a load balancer within minutes.
const LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// Time in which the first connection to a workload API is awaited, after a restart of this process.
const CONNECTING: SignedDuration = SignedDuration::from_mins(1);

/// Timeout of one look at a workload API.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Number of objects that a message lists.
const LISTED: usize = 5;

/// Objects of a workload cluster that are deleted before its Machines.
#[derive(Debug, Clone, Default)]
pub(super) struct Leftovers {
    pub services: Vec<Service>,
    pub claims: Vec<PersistentVolumeClaim>,
    /// The workload API is not connected yet.
    pub connecting: bool,
}

impl Leftovers {
    /// Returns true if the deletion need not wait.
    pub(super) fn is_empty(&self) -> bool {
        self.services.is_empty() && self.claims.is_empty() && !self.connecting
    }

    /// Describes what the deletion waits for.
    pub(super) fn describe(&self) -> String {
        if self.connecting {
            return "Waiting for the connection to the workload cluster".to_owned();
        }
        let name = |object: &dyn Named| object.title();
        let services = self.services.iter().map(|it| name(it));
        let all: Vec<String> = services.chain(self.claims.iter().map(|it| name(it))).collect();
        let more = all.len().saturating_sub(LISTED);
        let rest = if more > 0 { format!(", ... ({more} more)") } else { String::new() };
        let listed = all.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
        format!("Waiting for the workload cluster to delete {listed}{rest}. Annotation {SKIP} turns this off")
    }
}

trait Named {
    fn title(&self) -> String;
}

impl Named for Service {
    fn title(&self) -> String {
        format!("Service {}/{}", self.namespace().unwrap_or_default(), self.name_any())
    }
}

impl Named for PersistentVolumeClaim {
    fn title(&self) -> String {
        format!("PersistentVolumeClaim {}/{}", self.namespace().unwrap_or_default(), self.name_any())
    }
}

/// Reads the Services and claims that still exist in the workload cluster of a Cluster that is being deleted, if its
/// Machines are not being deleted yet. The time limit counts from the first look of this process: before that, a pause or a
/// hook may have held up the deletion for hours, and a new process has no connection yet.
pub(super) async fn observe(
    context: &ControllerContext,
    cluster: &Cluster,
    observed: &Observed,
    looks: &FirstAttempts,
) -> Leftovers {
    let uid = cluster.uid().unwrap_or_default();
    if paused(cluster, Some(cluster)) || cluster_topology::holds_deletion(cluster) {
        looks.forget(&uid);
        return Leftovers::default();
    }
    if observed.kubeconfig.is_none() || is_skipped(cluster, observed) || has_begun(observed) {
        return Leftovers::default();
    }
    let age = observed.now.duration_since(looks.first(&uid, observed.now));
    if age > LIMIT {
        return Leftovers::default();
    }
    let Ok(client) = context.workloads.client(&key(cluster)) else {
        return Leftovers { connecting: is_connecting(&observed.probe, age), ..Leftovers::default() };
    };
    let requested = observed.infrastructure.as_ref().and_then(|it| it.annotations().get(VOLUMES)).cloned();
    // An API that does not answer is no reason to keep the Machines.
    let found = tokio::time::timeout(TIMEOUT, read(&client, requested.as_deref())).await;
    found.ok().and_then(Result::ok).unwrap_or_default()
}

/// Returns true if no attempt to connect has ended yet.
fn is_connecting(probe: &Probe, age: SignedDuration) -> bool {
    probe.last_success.is_none() && probe.failures == 0 && age < CONNECTING
}

fn is_skipped(cluster: &Cluster, observed: &Observed) -> bool {
    let set = |value: Option<&String>| value.is_some_and(|value| value != "false");
    let infrastructure = observed.infrastructure.as_ref();
    set(cluster.annotations().get(SKIP))
        || set(infrastructure.and_then(|infrastructure| infrastructure.annotations().get(SKIP)))
}

/// Returns true if everything that is deleted next is being deleted already, or nothing is left.
fn has_begun(observed: &Observed) -> bool {
    let Some(stage) = observed.descendants.iter().map(|it| it.stage()).min() else { return true };
    observed.descendants.iter().filter(|it| it.stage() == stage).all(|it| it.deleting)
}

async fn read(client: &Client, volumes: Option<&str>) -> Result<Leftovers, kube::Error> {
    let all = ListParams::default();
    let services = Api::<Service>::all(client.clone()).list(&all).await?.items;
    let services: Vec<Service> = services.into_iter().filter(is_balanced).collect();
    let mut leftovers = Leftovers { services, ..Leftovers::default() };
    let Some(volumes) = volumes.filter(|_| leftovers.services.is_empty()) else { return Ok(leftovers) };
    let claims = Api::<PersistentVolumeClaim>::all(client.clone()).list(&all).await?.items;
    let of_driver = Api::<PersistentVolume>::all(client.clone()).list(&all).await?.items;
    let pods = Api::<Pod>::all(client.clone()).list(&all).await?.items;
    leftovers.claims = deleted_claims(claims, &of_driver, &pods, volumes);
    Ok(leftovers)
}

fn is_balanced(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
}

/// Returns the claims whose volumes the user has deleted. One that is being deleted and that a Pod uses stays until the
/// Pod ends, so it is not awaited. Pure.
fn deleted_claims(
    claims: Vec<PersistentVolumeClaim>,
    volumes: &[PersistentVolume],
    pods: &[Pod],
    requested: &str,
) -> Vec<PersistentVolumeClaim> {
    let requested: Vec<&str> = requested.split(',').map(str::trim).filter(|id| !id.is_empty()).collect();
    let is_requested = |claim: &PersistentVolumeClaim| {
        let name = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
        let volume = volumes.iter().find(|volume| volume.metadata.name.as_deref() == name);
        let csi = volume.and_then(|volume| volume.spec.as_ref()?.csi.as_ref());
        let csi = csi.filter(|csi| csi.driver == "cinder.csi.openstack.org");
        csi.is_some_and(|csi| requested.contains(&"all") || requested.contains(&csi.volume_handle.as_str()))
    };
    let used = used_claims(pods);
    let is_stuck = |claim: &PersistentVolumeClaim| {
        let id = (claim.namespace().unwrap_or_default(), claim.name_any());
        claim.metadata.deletion_timestamp.is_some() && used.contains(&id)
    };
    claims.into_iter().filter(|claim| is_requested(claim) && !is_stuck(claim)).collect()
}

/// Returns namespace and name of the claims of Pods that have not ended.
fn used_claims(pods: &[Pod]) -> BTreeSet<(String, String)> {
    let has_ended = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    };
    let of_pod = |pod: &Pod| {
        let namespace = pod.namespace().unwrap_or_default();
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.clone()).unwrap_or_default();
        let claims = volumes.into_iter().filter_map(|volume| volume.persistent_volume_claim);
        claims.map(|claim| (namespace.clone(), claim.claim_name)).collect::<Vec<_>>()
    };
    pods.iter().filter(|pod| !has_ended(pod)).flat_map(of_pod).collect()
}

/// Deletes what is not being deleted yet. Describes what was done. An object that cannot be deleted stays.
pub(super) async fn delete(
    context: &ControllerContext,
    cluster: &Cluster,
    leftovers: &Leftovers,
) -> Vec<String> {
    let Ok(client) = context.workloads.client(&key(cluster)) else { return Vec::new() };
    let mut made = Vec::new();
    for service in leftovers.services.iter().filter(|it| it.metadata.deletion_timestamp.is_none()) {
        let api: Api<Service> = Api::namespaced(client.clone(), &service.namespace().unwrap_or_default());
        if api.delete(&service.name_any(), &Default::default()).await.is_ok() {
            made.push(format!("deleted {} of the workload cluster", service.title()));
        }
    }
    for claim in leftovers.claims.iter().filter(|it| it.metadata.deletion_timestamp.is_none()) {
        let namespace = claim.namespace().unwrap_or_default();
        let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
        if api.delete(&claim.name_any(), &Default::default()).await.is_ok() {
            made.push(format!("deleted {} of the workload cluster", claim.title()));
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterSpec, Machine, MachineSpec};
    use serde_json::{Value, json};

    use super::super::descendants;
    use super::*;
    use crate::api_in_memory::FakeApi;

    fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn claim(name: &str, volume: &str, deleting: bool) -> PersistentVolumeClaim {
        let deleted = deleting.then_some("2026-01-01T00:00:00Z");
        let metadata = json!({"name": name, "namespace": "default", "deletionTimestamp": deleted});
        parsed(json!({"metadata": metadata, "spec": {"volumeName": volume}}))
    }

    fn volume(name: &str, driver: &str, handle: &str) -> PersistentVolume {
        let csi = json!({"driver": driver, "volumeHandle": handle});
        parsed(json!({"metadata": {"name": name}, "spec": {"csi": csi}}))
    }

    #[test]
    fn r17_4_only_claims_whose_volumes_the_user_has_deleted_are_deleted() {
        let cinder = "cinder.csi.openstack.org";
        let volumes = [volume("a", cinder, "id-a"), volume("b", cinder, "id-b"), volume("n", "nfs", "id-n")];
        let claims = || vec![claim("one", "a", false), claim("two", "b", true), claim("nfs", "n", false)];
        let source = json!({"name": "v", "persistentVolumeClaim": {"claimName": "two"}});
        let pod = |phase: &str| -> Pod {
            parsed(json!({
                "metadata": {"name": "p", "namespace": "default"}, "status": {"phase": phase},
                "spec": {"containers": [], "volumes": [source.clone()]},
            }))
        };
        let names = |requested: &str, pods: &[Pod]| -> Vec<String> {
            let found = deleted_claims(claims(), &volumes, pods, requested);
            found.iter().map(ResourceExt::name_any).collect()
        };
        assert_eq!(names("all", &[]), ["one", "two"]);
        assert_eq!(names("all", &[pod("Running")]), ["one"], "a Pod uses it, so it is not awaited");
        assert_eq!(names("all", &[pod("Succeeded")]), ["one", "two"]);
        assert_eq!(names("id-b, x", &[]), ["two"]);
        assert_eq!(names("", &[]), Vec::<String>::new());
    }

    #[test]
    fn r17_4_only_services_with_a_load_balancer_are_deleted() {
        let service = |kind: &str| -> Service {
            parsed(json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"type": kind}}))
        };
        assert!(is_balanced(&service("LoadBalancer")));
        assert!(!is_balanced(&service("ClusterIP")) && !is_balanced(&service("NodePort")));
        let mut leftovers = Leftovers::default();
        assert!(leftovers.is_empty());
        leftovers.services.push(service("LoadBalancer"));
        assert!(leftovers.describe().contains("to delete Service default/web."), "{}", leftovers.describe());
        let probe = Probe::default();
        assert!(is_connecting(&probe, SignedDuration::from_secs(10)));
        assert!(!is_connecting(&probe, CONNECTING));
        assert!(!is_connecting(&Probe { failures: 1, ..probe }, SignedDuration::from_secs(10)));
    }

    /// After a pause or a hook of ten minutes, and after a restart, the load balancers of Services stayed in the cloud.
    #[tokio::test]
    async fn the_time_limit_counts_from_the_first_look_that_nothing_holds_up() {
        let context = FakeApi::default().context("cluster-controller");
        let mut cluster = Cluster::new("blue", ClusterSpec::default());
        cluster.metadata.uid = Some("u".to_owned());
        cluster.metadata.deletion_timestamp = parsed(json!("2026-11-26T10:00:00Z"));
        let workers = [Machine::new("w", MachineSpec::default())];
        let mut observed = Observed {
            kubeconfig: Some(Vec::new()),
            descendants: descendants::of_machines(&cluster, &[], &workers),
            ..Observed::default()
        };
        let looks = FirstAttempts::default();
        let table = [
            ("a pause of hours", "2026-11-26T14:00:00Z", true, false),
            ("the first look after it", "2026-11-26T14:00:01Z", false, true),
            ("no connection within a minute", "2026-11-26T14:01:01Z", false, false),
            ("another pause", "2026-11-26T15:00:00Z", true, false),
            ("the first look after that", "2026-11-26T15:00:01Z", false, true),
            ("ten minutes later", "2026-11-26T15:10:02Z", false, false),
        ];
        for (case, at, is_paused, waits) in table {
            observed.now = at.parse().unwrap();
            cluster.spec.paused = Some(is_paused);
            let found = observe(&context, &cluster, &observed, &looks).await;
            assert_eq!(found.connecting, waits, "{case}");
        }
        let of_new_process = observe(&context, &cluster, &observed, &FirstAttempts::default()).await;
        assert!(of_new_process.connecting);
    }
}
