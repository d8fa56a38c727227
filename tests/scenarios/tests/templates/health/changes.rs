//! Health while a cluster changes, heals, and lacks room in the cloud.

use apiserver_types::{Cluster, Machine, MachineDeployment};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{SOON, Scene, UNTIL_READ, WORKERS};
use crate::manifest::NEXT_VERSION;
use crate::progress::Wanted;

/// Servers of the cluster.
const SERVERS: i64 = 2;

impl Scene {
    async fn change<K>(&self, name: &str, change: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let api = self.reader.api::<K>();
        api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    }

    /// Reads the health while a new Machine boots, which never ends before.
    async fn during(&mut self, step: &str, phase: &str, wanted: &Wanted) {
        self.reader.rest(step, phase).await;
        self.hollow.boot_delay(SOON);
        self.progress.until(wanted).await.unwrap();
        self.hollow.boot_delay(UNTIL_READ);
    }

    /// Has a health check find the only worker to be unhealthy.
    async fn remediate(&self) {
        let check = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck", "metadata": {"name": "workers"},
            "spec": {"clusterName": self.progress.cluster,
                "selector": {"matchLabels": {"cluster.x-k8s.io/deployment-name": WORKERS}},
                "checks": {"unhealthyNodeConditions": [
                    {"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}]}},
        });
        self.world.apply(&self.template.namespace, &[check]).await.unwrap();
        let workers = ListParams::default().labels(&self.reader.selector().await);
        let worker = self.reader.api::<Machine>().list(&workers).await.unwrap().items.remove(0).name_any();
        let mark = json!({"metadata": {"annotations": {"cluster.x-k8s.io/remediate-machine": ""}}});
        self.change::<Machine>(&worker, mark).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn argo_cd_and_flux_show_a_pause_a_rollout_an_upgrade_a_remediation_and_a_lack_of_room() {
    let mut scene = Scene::start("changes", "changes.txt").await;
    scene.create().await;
    scene.progress.until_available().await.unwrap();
    let cluster = scene.progress.cluster.clone();
    scene.change::<Cluster>(&cluster, json!({"spec": {"paused": true}})).await;
    scene.reader.rest("paused", "Running").await;
    scene.change::<Cluster>(&cluster, json!({"spec": {"paused": null}})).await;
    scene.hollow.boot_delay(UNTIL_READ);

    let mut wanted = Wanted::of(&scene.template);
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap().to_string();
    scene.change::<MachineDeployment>(WORKERS, json!({"spec": {"rollout": {"after": now}}})).await;
    scene.during("rolling-out", "Provisioned", &wanted).await;

    let mut manifest = scene.template.manifest(&scene.world.cloud.address());
    let documents = manifest.upgrade();
    scene.world.apply(&scene.template.namespace, &documents).await.unwrap();
    wanted.version = NEXT_VERSION;
    scene.during("upgrading", "Provisioned", &wanted).await;

    scene.remediate().await;
    scene.during("remediating", "Provisioned", &wanted).await;

    scene.world.cloud.set_quota("demo", "instances", SERVERS);
    scene.reader.scale(2).await;
    scene.reader.rest("without-room", "Provisioning").await;
    scene.world.cloud.set_quota("demo", "instances", -1);
    wanted.workers = 2;
    scene.hollow.boot_delay(SOON);
    scene.progress.until(&wanted).await.unwrap();
    scene.reader.compare();
    scene.end().await;
}
