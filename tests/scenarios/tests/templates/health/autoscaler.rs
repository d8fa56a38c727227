//! Scaling with the requests of cluster-autoscaler: up, down, from zero, and into a cloud without room.

use std::time::{Duration, Instant};

use apiserver_types::{Machine, MachineDeployment, OpenStackMachineTemplate};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::reader::Reader;
use super::rules::autoscaler;
use super::{Scene, WORKERS};
use crate::objects::{INTERVAL, text};

/// Longest time until cluster-autoscaler sees that a Machine never comes. It waits for 15 minutes by itself.
const IN_TIME: Duration = Duration::from_secs(60);

/// Bounds of a node group.
const BOUNDS: [(&str, &str); 2] = [
    ("cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size", "0"),
    ("cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", "3"),
];

/// Scales the MachineDeployment up and down. Records what cluster-autoscaler reads.
pub(super) async fn up_and_down(reader: &mut Reader) {
    let (deployments, machines) = (reader.api::<MachineDeployment>(), reader.api::<Machine>());
    let mut marked = String::new();
    for (replicas, is_down) in [(2, false), (1, true)] {
        let scale = deployments.get_scale(WORKERS).await.unwrap();
        let selector = scale.status.as_ref().and_then(|it| it.selector.clone()).unwrap();
        let workers = machines.list(&ListParams::default().labels(&selector)).await.unwrap().items;
        reader.lines.push(format!(
            "autoscaler: spec={:?} status={:?} selected={}",
            scale.spec.and_then(|it| it.replicas),
            scale.status.map(|it| it.replicas),
            workers.len()
        ));
        assert!(workers.iter().all(|it| it.spec.provider_id.is_some()), "a worker has no provider id");
        if is_down {
            marked = workers.iter().map(ResourceExt::name_any).min().unwrap();
            reader.mark(&marked).await;
        }
        reader.scale(replicas).await;
        reader.until_workers(replicas).await;
    }
    assert!(machines.get_opt(&marked).await.unwrap().is_none(), "the marked Machine still exists");
}

impl Scene {
    /// Returns the Machines of the group in v1beta1, in which cluster-autoscaler reads failures.
    async fn instances(&self) -> Vec<Value> {
        let selector = self.reader.selector().await;
        let all = self.reader.namespace.list("/apis/cluster.x-k8s.io/v1beta1", "machines").await;
        let wanted: Vec<(&str, &str)> = selector.split(',').filter_map(|it| it.split_once('=')).collect();
        let has = |it: &Value| wanted.iter().all(|(key, value)| it["metadata"]["labels"][*key] == *value);
        all.into_iter().filter(has).collect()
    }

    /// Scales the group up, and waits until a Machine of it has failed. Returns its name and message.
    async fn fail(&self, replicas: usize) -> (String, String) {
        let begun = Instant::now();
        self.reader.scale(replicas).await;
        loop {
            let instances = self.instances().await;
            if let Some(failed) = instances.iter().find(|it| autoscaler(it) == "failed") {
                eprintln!("a failure is visible after {:?}", begun.elapsed());
                let message = text(failed, "/status/failureMessage");
                assert_ne!(text(failed, "/status/phase"), "Failed", "there may be room later");
                return (text(failed, "/metadata/name").to_owned(), message.to_owned());
            }
            let states: Vec<&str> = instances.iter().map(autoscaler).collect();
            assert!(begun.elapsed() < IN_TIME, "no Machine has failed: {states:?}");
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Deletes a Machine as cluster-autoscaler does after a failure: it marks it, and lowers the number.
    async fn give_up(&self, machine: &str, replicas: usize) {
        self.reader.mark(machine).await;
        self.reader.scale(replicas).await;
        self.reader.until_workers(replicas).await;
        let left = self.reader.api::<Machine>().get_opt(machine).await.unwrap();
        assert!(left.is_none(), "the failed Machine still exists");
    }

    /// Returns cores and memory of a group without Machines: those of its template.
    async fn capacity(&self) -> (String, String) {
        let group = self.reader.api::<MachineDeployment>().get(WORKERS).await.unwrap();
        let reference = group.spec.template.spec.infrastructure_ref;
        let templates = self.reader.api::<OpenStackMachineTemplate>();
        let template = serde_json::to_value(templates.get(&reference.name).await.unwrap()).unwrap();
        let part = |name: &str| text(&template, &format!("/status/capacity/{name}")).to_owned();
        (part("cpu"), part("memory"))
    }

    /// Gives the group another template, whose servers no host can take.
    async fn make_impossible(&self) {
        let spec = json!({"template": {"spec": {"flavor": {"filter": {"name": "x1.impossible"}},
            "image": {"filter": {"name": "ubuntu-2204-kube-v1.33.0"}}}}});
        let object = json!({"metadata": {"name": "impossible"}, "spec": spec});
        let object: OpenStackMachineTemplate = serde_json::from_value(object).unwrap();
        self.reader.api().create(&PostParams::default(), &object).await.unwrap();
        let change = json!({"infrastructureRef": {"name": "impossible"}});
        self.patch_group(json!({"spec": {"template": {"spec": change}}})).await;
    }

    async fn patch_group(&self, change: Value) {
        let api = self.reader.api::<MachineDeployment>();
        api.patch(WORKERS, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_autoscaler_scales_from_zero_and_sees_exhausted_quotas_and_missing_hosts_in_time() {
    let scene = Scene::start("group", "none.txt").await;
    scene.create().await;
    scene.progress.until_available().await.unwrap();
    let bounds: serde_json::Map<_, _> =
        BOUNDS.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    scene.patch_group(json!({"metadata": {"annotations": bounds}})).await;

    scene.reader.scale(0).await;
    scene.reader.until_workers(0).await;
    assert_eq!(scene.capacity().await, ("1".to_owned(), "2048Mi".to_owned()), "of m1.small");
    scene.reader.scale(1).await;
    scene.reader.until_workers(1).await;

    let inventory = scene.world.counts();
    scene.world.cloud.set_quota("demo", "instances", 2);
    let (machine, message) = scene.fail(2).await;
    assert!(message.to_lowercase().contains("quota"), "{message}");
    scene.give_up(&machine, 1).await;
    assert_eq!(scene.world.counts(), inventory);
    let states: Vec<&str> = scene.instances().await.iter().map(autoscaler).collect();
    assert_eq!(states, ["running"], "the worker that has a server stays");
    // A failure ends with its cause.
    scene.fail(2).await;
    scene.world.cloud.set_quota("demo", "instances", -1);
    scene.reader.until_workers(2).await;
    let states: Vec<&str> = scene.instances().await.iter().map(autoscaler).collect();
    assert_eq!(states, ["running"; 2]);

    scene.reader.scale(0).await;
    scene.reader.until_workers(0).await;
    scene.make_impossible().await;
    let (machine, message) = scene.fail(1).await;
    assert!(message.contains("No valid host was found"), "{message}");
    scene.give_up(&machine, 0).await;
    let servers = scene.world.cloud.inventory("demo").servers;
    assert_eq!(servers.len(), 1, "only the control plane is left: {servers:?}");
    scene.end().await;
}
