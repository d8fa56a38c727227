//! Upgrade of a Cluster without a topology by the verb, step by step. The test plays the other controllers.

use std::sync::Arc;

use apiserver_types::{Cluster, KubeadmControlPlane, MachineDeployment, OpenStackMachineTemplate};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::{Controllers, CrashPoint, Side, World};

use crate::plans::texts;
use crate::upgrade_verb::{steps, upgrade};

/// Cluster with a control plane and one MachineDeployment at v1.33.0.
const MANIFEST: &str = include_str!("../whole_cluster/cluster.yaml");

/// Passes in which any upgrade of these tests ends.
const PASSES: usize = 12;

/// Cluster of a world, and its namespace.
struct Scene {
    world: World,
    namespace: &'static str,
}

/// End of an upgrade: versions of the control plane and the workers, templates, and the condition.
type End = (String, String, Vec<String>, String);

impl Scene {
    async fn start(namespace: &'static str) -> Self {
        let world = World::start().await.unwrap();
        let clouds = world.cloud.clouds_yaml("demo");
        let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
        world.create(&MANIFEST.replace("NAMESPACE", namespace).replace("CLOUDS\n", &clouds)).await.unwrap();
        let scene = Self { world, namespace };
        scene.control_plane_is_done().await;
        scene
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.world.admin(), self.namespace)
    }

    async fn request(&self, body: Value) -> Result<Value, String> {
        upgrade(&self.world.admin(), self.namespace, &body).await
    }

    async fn cluster(&self) -> Cluster {
        self.api::<Cluster>().get("blue").await.unwrap()
    }

    async fn annotate(&self, key: &str, value: Value) {
        let change = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        self.api::<Cluster>().patch("blue", &PatchParams::default(), &change).await.unwrap();
    }

    async fn control_plane(&self) -> KubeadmControlPlane {
        self.api().get("blue-control-plane").await.unwrap()
    }

    async fn workers(&self) -> MachineDeployment {
        self.api().get("blue-md-0").await.unwrap()
    }

    /// Returns the versions of the control plane and the workers.
    async fn versions(&self) -> (String, String) {
        let workers = self.workers().await.spec.template.spec.version;
        (self.control_plane().await.spec.version, workers.unwrap())
    }

    /// Reports the version of the control plane, as its controller does once all Machines have it.
    async fn control_plane_is_done(&self) {
        let status = json!({"status": {"version": self.control_plane().await.spec.version}});
        let api = self.api::<KubeadmControlPlane>();
        let params = PatchParams::default();
        api.patch_status("blue-control-plane", &params, &Patch::Merge(&status)).await.unwrap();
    }

    async fn condition(&self) -> String {
        let cluster = self.cluster().await;
        let found = cluster.condition("Upgrading");
        found.map(|it| format!("{:?} {} {}", it.status, it.reason, it.message)).unwrap_or_default()
    }

    /// Starts a process.
    fn process(&self, crash: &Arc<CrashPoint>) -> Controllers {
        Controllers::start(&self.world, crash)
    }

    /// Makes passes, and plays the control plane. Returns the changes of versions in their order.
    async fn play(&self, controllers: &Controllers) -> Vec<String> {
        let mut log = Vec::new();
        let mut before = self.versions().await;
        for _ in 0..PASSES {
            controllers.round_of_topologies().await.unwrap();
            let found = self.versions().await;
            log.extend((found.0 != before.0).then(|| format!("KubeadmControlPlane {}", found.0)));
            log.extend((found.1 != before.1).then(|| format!("MachineDeployment {}", found.1)));
            before = found;
            self.control_plane_is_done().await;
        }
        log
    }

    async fn end(&self) -> End {
        let (plane, workers) = self.versions().await;
        let templates = self.api::<OpenStackMachineTemplate>().list(&ListParams::default()).await.unwrap();
        let templates = templates.iter().map(ResourceExt::name_any).collect();
        (plane, workers, templates, self.condition().await)
    }
}

fn chain() -> Value {
    json!({"version": "v1.35.0", "through": ["v1.34.0"]})
}

#[tokio::test]
async fn the_steps_are_those_of_the_plan_and_the_templates_have_the_images_of_the_versions() {
    let scene = Scene::start("plain-chain").await;
    let never = Arc::new(CrashPoint::never());
    let controllers = scene.process(&never);
    let mut dry = chain();
    dry["dryRun"] = json!(true);
    let plan = scene.request(dry).await.unwrap();
    let expected =
        ["KubeadmControlPlane v1.34.0", "KubeadmControlPlane v1.35.0", "MachineDeployment v1.35.0"];
    assert_eq!(steps(&plan), expected);
    let images = ["v1.34.0", "v1.35.0", "v1.35.0"].map(|version| format!("ubuntu-2204-kube-{version}"));
    assert_eq!(texts(&plan["steps"], "image"), images);
    assert_eq!(scene.play(&controllers).await, [""; 0], "a dry run requests nothing");
    assert_eq!(scene.condition().await, "");

    scene.request(chain()).await.unwrap();
    controllers.round_of_topologies().await.unwrap();
    assert_eq!(
        scene.condition().await,
        "True ClusterUpgrading Cluster is upgrading to v1.35.0\n  * KubeadmControlPlane upgrading to version \
         v1.34.0 (v1.35.0 pending)\n  * MachineDeployment blue-md-0 pending upgrade to version v1.35.0"
    );
    let status = scene.cluster().await.status.unwrap();
    assert_eq!(status.control_plane.unwrap().upgrade_plan.unwrap().len(), 2);
    let other = scene.request(json!({"version": "v1.34.0"})).await.unwrap_err();
    assert!(other.contains("an upgrade to v1.35.0 is in progress"), "{other}");
    scene.control_plane_is_done().await;
    assert_eq!(scene.play(&controllers).await, expected[1..]);
    let annotations = scene.cluster().await.annotations().clone();
    for key in ["capstan.dev/upgrade", "topology.internal.cluster.x-k8s.io/upgrade-step"] {
        assert!(!annotations.contains_key(key), "{annotations:?}");
    }
    let name = scene.workers().await.spec.template.spec.infrastructure_ref.name;
    let template = scene.api::<OpenStackMachineTemplate>().get(&name).await.unwrap();
    let image = json!(template.spec)["template"]["spec"]["image"]["filter"]["name"].clone();
    assert_eq!(image, "ubuntu-2204-kube-v1.35.0");
    assert_eq!(scene.condition().await, "False NotUpgrading ");
    let again = scene.request(chain()).await.unwrap();
    assert_eq!((&again["steps"], &again["upgrade"]["workers"]), (&json!([]), &json!([])));
    assert!(!scene.cluster().await.annotations().contains_key("capstan.dev/upgrade"));
}

#[tokio::test]
async fn a_cancelled_upgrade_ends_at_the_version_of_the_control_plane_and_hooks_hold_the_workers() {
    let scene = Scene::start("plain-cancel").await;
    let controllers = scene.process(&Arc::new(CrashPoint::never()));
    scene.request(chain()).await.unwrap();
    let before = scene.request(json!({"cancel": true})).await.unwrap();
    assert_eq!(before["version"], "", "no step has begun");
    assert_eq!(scene.play(&controllers).await, [""; 0]);

    scene.request(chain()).await.unwrap();
    controllers.round_of_topologies().await.unwrap();
    let hook = "before-workers.hook.cluster.cluster.x-k8s.io/check";
    scene.annotate(hook, json!("")).await;
    let answer = scene.request(json!({"cancel": true})).await.unwrap();
    assert_eq!(answer["version"], "v1.34.0");
    scene.control_plane_is_done().await;
    assert_eq!(scene.play(&controllers).await, [""; 0], "the hook holds the workers");
    let condition = scene.condition().await;
    assert!(condition.contains(&format!("BeforeWorkersUpgrade: annotation {hook} is set")), "{condition}");
    scene.annotate(hook, Value::Null).await;
    assert_eq!(scene.play(&controllers).await, ["MachineDeployment v1.34.0"]);
    assert_eq!(scene.condition().await, "False NotUpgrading ");
    let none = scene.request(json!({"cancel": true})).await.unwrap_err();
    assert!(none.contains("no upgrade is in progress"), "{none}");
}

#[tokio::test]
async fn wrong_targets_are_refused_with_their_field_and_change_nothing() {
    let scene = Scene::start("plain-wrong").await;
    let before = scene.cluster().await.resource_version();
    for (body, expected) in [
        (json!({"version": "v1.32.0"}), "version: Invalid value: control plane upgrade plan: version v1.32"),
        (json!({"version": "v1.35.0"}), "version: Invalid value: control plane upgrade plan: from v1.33.0"),
        (json!({"version": "v2.0.0"}), "version: Invalid value: control plane upgrade plan: from v1.33.0"),
        (json!({"version": "newest"}), "version: Invalid value: \"newest\""),
        (json!({"version": "v1.35.0", "through": ["v1.36.0"]}), "through: Invalid value"),
    ] {
        let error = scene.request(body.clone()).await.unwrap_err();
        assert!(error.contains(expected), "{body}: {error}");
    }
    assert_eq!(scene.cluster().await.resource_version(), before);
    let change = Patch::Merge(json!({"spec": {"controlPlaneRef": {"name": "none"}}}));
    scene.api::<Cluster>().patch("blue", &PatchParams::default(), &change).await.unwrap();
    let error = scene.request(json!({"version": "v1.34.0"})).await.unwrap_err();
    let expected = "spec.controlPlaneRef: Invalid value: KubeadmControlPlane plain-wrong/none of";
    assert!(error.contains(expected), "{error}");
    assert!(!scene.cluster().await.annotations().contains_key("capstan.dev/upgrade"));
    assert_eq!(scene.versions().await, ("v1.33.0".to_owned(), "v1.33.0".to_owned()));
}

/// Upgrades by two minors. The first process crashes.
async fn run(namespace: &'static str, crash: &Arc<CrashPoint>) -> End {
    let scene = Scene::start(namespace).await;
    scene.request(chain()).await.unwrap();
    let first = scene.process(crash);
    tokio::select! {
        () = crash.crashed() => {}
        _ = scene.play(&first) => {}
    }
    let second = scene.process(&Arc::new(CrashPoint::never()));
    scene.play(&second).await;
    scene.end().await
}

#[tokio::test]
async fn a_crash_at_any_write_leaves_the_upgrade_to_the_next_leader() {
    let never = Arc::new(CrashPoint::never());
    let expected = Box::pin(run("plain-whole", &never)).await;
    let templates = [
        "blue-control-plane",
        "blue-control-plane-v1.34.0",
        "blue-control-plane-v1.35.0",
        "blue-md-0",
        "blue-md-0-v1.35.0",
    ];
    let (versions, condition) = (("v1.35.0".to_owned(), "v1.35.0".to_owned()), "False NotUpgrading ");
    assert_eq!((expected.0.clone(), expected.1.clone()), versions);
    assert_eq!((&expected.2[..], expected.3.as_str()), (&templates.map(str::to_owned)[..], condition));
    let effects = never.effects().len();
    assert!(effects > 10, "{:#?}", never.effects());
    for side in [Side::Before, Side::After] {
        for n in 0..effects {
            let crash = Arc::new(CrashPoint::at(n, side));
            let found = Box::pin(run("plain-crash", &crash)).await;
            assert!(crash.has_crashed(), "step {n}");
            assert_eq!(found, expected, "crash {side:?} {:?}", crash.effects().last());
        }
    }
}
