//! Tests of a Cluster's topology against its class: versions, upgrades, and changes of the class.

use async_trait::async_trait;
use serde_json::json;

use super::*;

/// Objects besides the Cluster: plural and object.
#[derive(Debug, Default)]
struct World(Vec<(&'static str, Value)>);

#[async_trait]
impl ObjectReader for World {
    async fn find(&self, _: &str, plural: &str, namespace: &str, name: &str) -> ApiResult<Option<Value>> {
        let is_it = |object: &Value| object::name(object) == name && object::namespace(object) == namespace;
        Ok(self.all("", plural, namespace).await?.into_iter().find(is_it))
    }

    async fn all(&self, _: &str, plural: &str, namespace: &str) -> ApiResult<Vec<Value>> {
        let is_in = |object: &Value| namespace.is_empty() || object::namespace(object) == namespace;
        let own = self.0.iter().filter(|(found, object)| *found == plural && is_in(object));
        Ok(own.map(|(_, object)| object.clone()).collect())
    }
}

fn class(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {
        "infrastructure": {"templateRef": {"apiVersion": "i/v1", "kind": "ATemplate"}},
        "controlPlane": {"templateRef": {"apiVersion": "c/v1", "kind": "BTemplate"}},
        "workers": {"machineDeployments": [{"class": "w"}]}}})
}

fn cluster(version: &str) -> Value {
    json!({"metadata": {"name": "c", "namespace": "ns"}, "spec": {
        "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "p"},
        "topology": {"classRef": {"name": "a"}, "version": version}}})
}

/// Control plane, deployment and its Machine, all at one version.
fn running(version: &str) -> Vec<(&'static str, Value)> {
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c", "topology.cluster.x-k8s.io/owned": ""});
    let template = json!({"spec": {"version": version}});
    vec![
        ("clusterclasses", class("a")),
        (
            "kubeadmcontrolplanes",
            json!({"metadata": {"name": "p", "namespace": "ns"},
            "spec": {"version": version}, "status": {"version": version}}),
        ),
        (
            "machinedeployments",
            json!({"metadata": {"name": "d", "namespace": "ns", "labels": labels},
            "spec": {"selector": {"matchLabels": {"d": "d"}}, "template": template}}),
        ),
        (
            "machinepools",
            json!({"metadata": {"name": "e", "namespace": "ns", "labels": labels},
            "spec": {"template": template}}),
        ),
        (
            "machines",
            json!({"metadata": {"name": "m", "namespace": "ns", "labels": {"d": "d"}},
            "spec": {"version": version}}),
        ),
    ]
}

async fn validated(new: &Value, old: Option<&Value>, world: World) -> (Vec<String>, Vec<String>) {
    let verdict = validate(new, old, &world).await.unwrap();
    (verdict.errors.iter().map(ToString::to_string).collect(), verdict.warnings)
}

#[tokio::test]
async fn a_version_may_rise_one_minor_after_the_last_upgrade_completed() {
    let found = async |to: &str, world: Vec<(&'static str, Value)>| {
        validated(&cluster(to), Some(&cluster("v1.33.1")), World(world)).await.0
    };
    let at = |what: &str, to: &str| vec![format!("spec.topology.version: Invalid value: {to:?}: {what}")];
    for to in ["v1.33.1", "v1.33.2", "v1.34.0", "v1.34.0-rc.1"] {
        assert_eq!(found(to, running("v1.33.1")).await, Vec::<String>::new(), "{to}");
    }
    for (to, expected) in [
        ("v1.33.0", "version cannot be decreased from \"1.33.1\" to \"1.33.0\""),
        ("v1.35.0-rc.1", "version cannot be increased from \"1.33.1\" to \"1.35.0-rc.1\""),
    ] {
        assert_eq!(found(to, running("v1.33.1")).await, at(expected, to));
    }
    let mut knowing = running("v1.33.1");
    knowing[0].1["spec"]["upgrade"] = json!({"external": {"generateUpgradePlanExtension": "e"}});
    assert_eq!(found("v1.36.0", knowing).await, Vec::<String>::new());
    let former = running("v1.32.0");
    assert_eq!(
        found("v1.34.0", former).await,
        at(
            "version cannot be changed: [Cluster.spec.topology.version 1.33.1 was not propagated to control plane yet (control plane version 1.32.0), \
             there are still MachineDeployments completing a previous upgrade: [d], \
             there are still MachinePools completing a previous upgrade: [e]]",
            "v1.34.0"
        )
    );
}

#[tokio::test]
async fn a_cancelled_upgrade_goes_back_to_the_version_that_the_control_plane_takes() {
    let found = async |stop: &str, step: Option<&str>, world: Vec<(&'static str, Value)>| {
        let (mut new, mut old) = (cluster("v1.34.0"), cluster("v1.36.0"));
        for (cluster, stop) in [(&mut new, Some(stop)), (&mut old, None)] {
            cluster["metadata"]["annotations"] = json!({
                "capstan.dev/upgrade-stop": stop, "topology.internal.cluster.x-k8s.io/upgrade-step": step,
            });
        }
        validated(&new, Some(&old), World(world)).await.0
    };
    let (now, before) = (|| running("v1.34.0"), || running("v1.33.0"));
    assert_eq!(found("v1.34.0", None, now()).await, [""; 0]);
    assert_eq!(found("v1.34.0", Some("v1.34.0"), before()).await, [""; 0], "the step is recorded first");
    let mut newer = now();
    newer[2].1["spec"]["template"]["spec"]["version"] = json!("v1.35.0");
    let expected = "spec.topology.version: Invalid value: \"v1.34.0\": version cannot be decreased from \"1.36.0\" \
                    to \"1.34.0\"";
    for (case, stop, step, world) in [
        ("the annotation names another version", "v1.35.0", None, now()),
        ("another step has begun", "v1.34.0", Some("v1.35.0"), now()),
        ("the control plane has not taken it", "v1.34.0", None, before()),
        ("workers are newer", "v1.34.0", None, newer),
    ] {
        assert_eq!(found(stop, step, world).await, [expected], "{case}");
    }
}

#[tokio::test]
async fn an_upgrade_is_refused_while_another_is_in_progress() {
    let old = cluster("v1.33.1");
    let with = |index: usize, pointer: &str, value: Value| {
        let mut world = running("v1.33.1");
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = world[index].1.pointer_mut(parent).unwrap();
        parent[name] = value;
        world
    };
    let rolling = "there are still MachineDeployments completing a previous upgrade: [d]";
    for (world, expected) in [
        (with(1, "/status", json!({})), "control plane is currently provisioning"),
        (
            with(1, "/status/version", json!("v1.32.9")),
            "control plane is still completing a previous upgrade",
        ),
        (
            with(1, "/status/versions", json!([{"version": "v1.33.1"}, {"version": "v1.33.0"}])),
            "control plane is still completing a previous upgrade",
        ),
        (with(4, "/spec/version", json!("v1.32.9")), rolling),
        (with(4, "/status", json!({"nodeInfo": {"kubeletVersion": "v1.32.9"}})), rolling),
        (
            with(4, "/spec", json!({})),
            "failed to check if MachineDeployment d is upgrading: Machine m has no version",
        ),
        (
            with(1, "/metadata/name", json!("q")),
            "failed to check if control plane is upgrading: failed to get control plane object: failed to retrieve KubeadmControlPlane ns/p: KubeadmControlPlane.controlplane.cluster.x-k8s.io \"p\" not found",
        ),
    ] {
        let (errors, _) = validated(&cluster("v1.34.0"), Some(&old), World(world)).await;
        let expected = format!(
            "spec.topology.version: Invalid value: \"v1.34.0\": version cannot be changed: {expected}"
        );
        assert_eq!(errors, [expected]);
    }
    let mut unset = old.clone();
    unset["spec"]["controlPlaneRef"].take();
    unset["spec"].as_object_mut().unwrap().remove("controlPlaneRef");
    let (errors, _) = validated(&cluster("v1.34.0"), Some(&unset), World(running("v1.33.1"))).await;
    assert!(errors[0].ends_with("cannot get object - object reference not set"), "{errors:?}");
    let mut blocked = cluster("v1.34.0");
    blocked["metadata"]["annotations"] =
        json!({"runtime.cluster.x-k8s.io/pending-hooks": "X,AfterClusterUpgrade"});
    let (errors, _) = validated(&blocked, Some(&old), World(running("v1.33.1"))).await;
    assert!(errors[0].ends_with("when the \"AfterClusterUpgrade\" hook is still blocking"), "{errors:?}");
    blocked["metadata"]["annotations"] =
        json!({"unsafe.topology.cluster.x-k8s.io/disable-update-version-check": ""});
    let (errors, warnings) = validated(&blocked, Some(&old), World(running("v1.30.0"))).await;
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(
        warnings,
        [
            "Skipping version validation for Cluster because annotation \"unsafe.topology.cluster.x-k8s.io/disable-update-version-check\" is set."
        ]
    );
}

#[tokio::test]
async fn a_missing_or_unreconciled_class_is_reported() {
    let (old, new) = (cluster("v1.33.1"), cluster("v1.33.1"));
    let warning = "Cluster refers to ClusterClass ns/a, but this ClusterClass does not exist. Cluster topology has not been fully validated. The ClusterClass must be created to reconcile the Cluster";
    assert_eq!(validated(&new, None, World::default()).await, (vec![], vec![warning.to_owned()]));
    assert_eq!(validated(&new, Some(&old), World::default()).await, (vec![], vec![warning.to_owned()]));
    let mut deleted = new.clone();
    deleted["metadata"]["deletionTimestamp"] = json!("2026-11-21T06:00:00Z");
    assert_eq!(validated(&deleted, Some(&old), World::default()).await, (vec![], vec![]));
    let (errors, _) = validated(&cluster("v1.34.0"), Some(&old), World::default()).await;
    assert_eq!(errors, ["spec.topology.class: Internal error: ClusterClass ns/a not found"]);
    let mut unready = class("a");
    unready["metadata"]["generation"] = json!(1);
    unready["status"] = json!({"observedGeneration": 1});
    let (errors, warnings) = validated(&new, None, World(vec![("clusterclasses", unready)])).await;
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(
        warnings,
        [
            "Cluster refers to ClusterClass ns/a, but this ClusterClass hasn't been successfully reconciled. Cluster topology has not been fully validated. Please take a look at the ClusterClass status"
        ]
    );
}

#[tokio::test]
async fn a_class_can_only_be_replaced_by_a_compatible_one() {
    let to = |name: &str| {
        let mut to = cluster("v1.33.1");
        to["spec"]["topology"]["classRef"]["name"] = json!(name);
        to
    };
    let mut other = class("b");
    other["spec"]["infrastructure"]["templateRef"]["apiVersion"] = json!("j/v1");
    other["spec"]["controlPlane"]["machineInfrastructure"] =
        json!({"templateRef": {"apiVersion": "i/v1", "kind": "MTemplate"}});
    let classes = || World(vec![("clusterclasses", class("a")), ("clusterclasses", other.clone())]);
    assert_eq!(
        validated(&to("b"), Some(&to("a")), classes()).await.0,
        [
            "spec.infrastructure.templateRef.apiVersion: Forbidden: group of apiVersion cannot be changed from \"i\" to \"j\" to prevent incompatible changes in the Clusters",
            "spec.controlPlane.machineInfrastructure.templateRef.apiVersion: Forbidden: group of apiVersion cannot be changed from \"\" to \"i\" to prevent incompatible changes in the Clusters",
            "spec.controlPlane.machineInfrastructure.templateRef.kind: Forbidden: kind cannot be changed from \"\" to \"MTemplate\" to prevent incompatible changes in the Clusters",
        ]
    );
    assert_eq!(
        validated(&to("b"), Some(&to("x")), classes()).await.0,
        [
            "spec.topology.class: Forbidden: valid ClusterClass with name \"ns/x\" could not be retrieved, change from class \"ns/x\" to class \"ns/b\" cannot be validated. Error: ClusterClass.cluster.x-k8s.io \"x\" not found"
        ]
    );
    let unmanaged = json!({"metadata": {"name": "c", "namespace": "ns"}, "spec": {"paused": true}});
    assert_eq!(
        validated(&to("a"), Some(&unmanaged), classes()).await.0,
        ["spec.topology.class: Forbidden: classRef cannot be set on an existing Cluster"]
    );
    let mut taken = to("a");
    taken["metadata"]["annotations"] =
        json!({"unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check": ""});
    assert_eq!(validated(&taken, Some(&unmanaged), classes()).await.0, Vec::<String>::new());
}

#[tokio::test]
async fn a_topology_cannot_use_what_its_class_lacks() {
    let mut new = cluster("v1.33.1");
    let topology = &mut new["spec"]["topology"];
    topology["controlPlane"] = json!({"healthCheck": {"checks": {"nodeStartupTimeoutSeconds": 1}}});
    topology["workers"] = json!({"machineDeployments": [
        {"name": "x", "class": "w", "replicas": 1, "healthCheck": {"enabled": true}},
        {"name": "y", "class": "v", "healthCheck": {"remediation": {"maxInFlight": "x"}}}]});
    let mut class = class("a");
    class["spec"]["kubernetesVersions"] = json!(["v1.33.0"]);
    class["spec"]["workers"]["machineDeployments"][0]["metadata"] =
        json!({"annotations": {"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "1"}});
    assert_eq!(
        validated(&new, None, World(vec![("clusterclasses", class)])).await.0,
        [
            "spec.topology.version: Invalid value: \"v1.33.1\": version must match one of the versions defined in the ClusterClass",
            "spec.topology.workers.machineDeployments[1].class: Invalid value: \"v\": MachineDeploymentClass with name \"v\" does not exist in ClusterClass \"a\"",
            "spec.topology.controlPlane.healthCheck: Forbidden: can be only set if spec.controlPlane.machineInfrastructure is set in ClusterClass",
            "spec.topology.controlPlane.healthCheck.checks.nodeStartupTimeoutSeconds: Invalid value: 1: must be at least 30s",
            "spec.topology.workers.machineDeployments[x].healthCheck.enable: Forbidden: cannot be set to true as healthCheck definition is not available in the Cluster topology or the ClusterClass",
            "spec.topology.workers.machineDeployments[y].healthCheck.remediation.maxInFlight: Invalid value: \"x\": must be either an int or a percentage: invalid value for IntOrString: invalid type: string is not a percentage",
            "spec.topology.workers.machineDeployments[x].replicas: Invalid value: 1: cannot be set for cluster \"c\" in namespace \"ns\" if the source class \"w\" of this MachineDeploymentTopology has autoscaler annotations",
        ]
    );
}
