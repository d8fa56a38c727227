//! Tests of the fields of OpenStackMachines and OpenStackServers: each is in the cloud, and wrong ones create nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bastion;
mod builds;
mod images;
mod leftovers;
mod placement;
mod pools;
mod provider_ids;
mod quota;
mod restored;
mod rotation;
mod templates;
mod trunks;

use std::time::Duration;

use apiserver_types::{
    IPAddressClaim, Machine, OpenStackFloatingIPPool, OpenStackMachine, OpenStackMachineTemplate,
    OpenStackServer,
};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::{World, run};
use tokio_util::sync::CancellationToken;

/// Time within which the simulated cloud does everything.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until `look` returns a value.
async fn eventually<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let waiting = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    tokio::time::timeout(LIMIT, waiting).await.unwrap_or_else(|_| panic!("timed out, waiting until {what}"))
}

/// Returns a world with the cluster of `cluster.yaml` and further documents.
async fn world(namespace: &str, further: &[Value]) -> World {
    let world = World::start().await.unwrap();
    let clouds = world.cloud.clouds_yaml("demo");
    let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
    let manifest =
        include_str!("../cluster.yaml").replace("NAMESPACE", namespace).replace("CLOUDS\n", &clouds);
    world.create(&manifest).await.unwrap();
    for document in further {
        world.create(&document.to_string()).await.unwrap();
    }
    world
}

fn infrastructure(version: &str, kind: &str, namespace: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("infrastructure.cluster.x-k8s.io/{version}"), "kind": kind,
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    })
}

fn machine(namespace: &str, name: &str, spec: &Value) -> [Value; 2] {
    let reference =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": name});
    [
        infrastructure("v1beta2", "OpenStackMachine", namespace, name, spec),
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "clusterName": "c", "version": "v1.29.0", "bootstrap": {"dataSecretName": "bootstrap"},
                "infrastructureRef": reference,
            },
        }),
    ]
}

fn pool(namespace: &str, limit: u32) -> Value {
    let spec = json!({
        "identityRef": {"name": "credentials", "cloudName": "openstack"}, "reclaimPolicy": "Delete", "maxIPs": limit,
    });
    infrastructure("v1alpha1", "OpenStackFloatingIPPool", namespace, "pool", &spec)
}

fn plain() -> Value {
    json!({"flavor": {"filter": {"name": "m1.small"}}, "image": {"filter": {"name": "ubuntu-2204-kube-v1.29.0"}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_with_every_kind_of_part_is_created_and_leaves_nothing() {
    const NAMESPACE: &str = "parts";
    let mut spec = plain();
    spec["trunk"] = json!(true);
    spec["sshKeyName"] = json!("default");
    spec["tags"] = json!(["team/a", "blue"]);
    spec["serverMetadata"] = json!([{"key": "role", "value": "worker"}]);
    spec["rootVolume"] = json!({"sizeGiB": 20});
    spec["additionalBlockDevices"] = json!([
        {"name": "data", "sizeGiB": 2, "storage": {"type": "Volume"}},
        {"name": "scratch", "sizeGiB": 1, "storage": {"type": "Local"}},
    ]);
    spec["ports"] = json!([{
        "nameSuffix": "main", "allowedAddressPairs": [{"ipAddress": "10.9.0.0/16"}], "tags": ["fast"],
    }]);
    spec["floatingIPPoolRef"] = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackFloatingIPPool", "name": "pool"});
    let [object, owner] = machine(NAMESPACE, "full", &spec);
    let world = world(NAMESPACE, &[pool(NAMESPACE, 1), object, owner]).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let full = eventually("the machine has its floating IP", || async {
        let object = machines.get("full").await.unwrap();
        let ready = |kind: &str| object.condition(kind).is_some_and(apiserver_types::Condition::holds);
        (ready("Ready") && ready("FloatingAddressFromPoolReady")).then_some(object)
    })
    .await;
    let inventory = world.cloud.inventory("demo");
    assert_eq!(inventory.trunks.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["full-main"]);
    let volumes = inventory.volumes.iter().filter(|volume| volume.name.starts_with("full-"));
    assert_eq!(volumes.count(), 2, "{:#?}", inventory.volumes);
    let server = inventory.servers.iter().find(|server| server.name == "full").unwrap();
    assert_eq!(full.status.as_ref().unwrap().instance_id.as_ref(), Some(&server.id));
    let pools: Api<OpenStackFloatingIPPool> = Api::namespaced(world.admin(), NAMESPACE);
    let claimed = pools.get("pool").await.unwrap().status.unwrap().claimed_ips.unwrap();
    assert_eq!(claimed.len(), 1);

    let others = inventory.floating_ips.len() - 1;
    let owners: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    owners.delete("full", &DeleteParams::default()).await.unwrap();
    eventually("everything of the machine is gone", || async {
        let gone = machines.get_opt("full").await.unwrap().is_none();
        let left = world.cloud.inventory("demo");
        let ports = left.ports.iter().any(|port| port.name.starts_with("full"));
        (gone
            && !ports
            && left.trunks.is_empty()
            && !left.volumes.iter().any(|volume| volume.name.starts_with("full"))
            && left.floating_ips.len() == others)
            .then_some(())
    })
    .await;
    let claims: Api<IPAddressClaim> = Api::namespaced(world.admin(), NAMESPACE);
    assert!(claims.get_opt("full-floating-ip-address").await.unwrap().is_none());
    term.cancel();
    running.join_all().await;
}

/// Names of machines, with the field that names something wrong, its value, and the beginning of the message.
fn wrong_names() -> [(&'static str, &'static str, Value, &'static str); 10] {
    let unknown = "00000000-0000-4000-8000-000000000000";
    [
        (
            "image",
            "image",
            json!({"filter": {"name": "no-such-image"}}),
            "resolve spec.image: nothing in the cloud",
        ),
        (
            "flavor",
            "flavor",
            json!({"filter": {"name": "no-such-flavor"}}),
            "resolve spec.flavor: nothing in the cloud",
        ),
        ("network", "ports", json!([{"network": {"id": unknown}}]), "resolve spec.ports[0].network: nothing"),
        (
            "subnet",
            "ports",
            json!([{"fixedIPs": [{"subnet": {"filter": {"name": "no-such-subnet"}}}]}]),
            "resolve spec.ports[0].fixedIPs[0].subnet: nothing",
        ),
        (
            "group",
            "securityGroups",
            json!([{"filter": {"name": "no-such-group"}}]),
            "resolve spec.securityGroups[0]: ",
        ),
        (
            "servers",
            "serverGroup",
            json!({"filter": {"name": "no-such-group"}}),
            "resolve spec.serverGroup: nothing",
        ),
        ("key", "sshKeyName", json!("no-such-key"), "resolve spec.sshKeyName: Nova has no key pair"),
        ("reference", "image", json!({"imageRef": {"name": "i"}}), "Image"),
        (
            "identity",
            "identityRef",
            json!({"name": "no-such-secret", "cloudName": "openstack"}),
            "Secret wrong/no-such-secret does not exist",
        ),
        (
            "shared",
            "identityRef",
            json!({"name": "no-such-identity", "cloudName": "openstack", "type": "ClusterIdentity"}),
            "OpenStackClusterIdentity no-such-identity does not exist. Create it",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_name_is_reported_with_its_field_and_nothing_is_created() {
    const NAMESPACE: &str = "wrong";
    let table = wrong_names();
    let documents: Vec<Value> = table
        .iter()
        .flat_map(|(name, field, value, _)| {
            let mut spec = plain();
            spec[*field] = value.clone();
            machine(NAMESPACE, &format!("no-{name}"), &spec)
        })
        .collect();
    let world = world(NAMESPACE, &documents).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    for (name, _, _, expected) in &table {
        let name = format!("no-{name}");
        eventually(&format!("{name} reports {expected}"), || async {
            let object = machines.get(&name).await.unwrap();
            let ready = object.condition("InstanceReady")?;
            (!ready.holds() && ready.message.contains(expected)).then_some(())
        })
        .await;
        assert!(
            machines.get(&name).await.unwrap().annotations().get("capstan.dev/journal").is_none(),
            "{name}"
        );
    }
    let inventory = world.cloud.inventory("demo");
    let wrong = |items: &[tests_openstack_simulator::InventoryItem]| {
        items.iter().any(|it| it.name.starts_with("no-"))
    };
    assert!(!wrong(&inventory.ports) && !wrong(&inventory.servers) && !wrong(&inventory.volumes));
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bootstrap_data_is_compressed_and_too_large_data_is_refused_before_anything_is_created() {
    const NAMESPACE: &str = "large";
    let secret = |name: &str, format: &str, value: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
            "type": "cluster.x-k8s.io/secret", "stringData": {"value": value, "format": format},
        })
    };
    let cloud_config = format!("#cloud-config\nfinal_message: {}\n", "x".repeat(60_000));
    let ignition = format!("{{\"ignition\": {{\"version\": \"2.3.0\"}}, \"x\": \"{}\"}}", "x".repeat(60_000));
    let mut documents =
        vec![secret("cloud", "cloud-config", &cloud_config), secret("ignition", "ignition", &ignition)];
    for name in ["cloud", "ignition"] {
        let [object, mut owner] = machine(NAMESPACE, name, &plain());
        owner["spec"]["bootstrap"]["dataSecretName"] = json!(name);
        documents.extend([object, owner]);
    }
    let world = world(NAMESPACE, &documents).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let id = eventually("the server with compressed user data is up", || async {
        let object = machines.get("cloud").await.unwrap();
        let ready = object.condition("InstanceReady").is_some_and(apiserver_types::Condition::holds);
        object.status.filter(|_| ready)?.instance_id
    })
    .await;
    let sent = world.cloud.inventory("demo").user_data[&id].clone();
    assert!(sent.starts_with("H4sI"), "gzip in base64");
    eventually("the Ignition document is refused", || async {
        let object = machines.get("ignition").await.unwrap();
        let ready = object.condition("InstanceReady")?;
        (ready.reason == "InvalidMachineSpec" && ready.message.contains("49149 bytes")).then_some(())
    })
    .await;
    assert!(world.cloud.inventory("demo").ports.iter().all(|port| !port.name.starts_with("ignition")));
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_its_own_is_created_reported_and_deleted() {
    const NAMESPACE: &str = "alone";
    let spec = json!({
        "identityRef": {"name": "credentials", "cloudName": "openstack"}, "flavor": "m1.small", "sshKeyName": "default",
        "image": {"filter": {"name": "ubuntu-2204-kube-v1.29.0"}},
        "ports": [{"network": {"filter": {"name": "k8s-clusterapi-cluster-alone-c"}}}],
    });
    let server = infrastructure("v1alpha1", "OpenStackServer", NAMESPACE, "jump", &spec);
    let world = world(NAMESPACE, &[server]).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let servers: Api<OpenStackServer> = Api::namespaced(world.admin(), NAMESPACE);
    let status = eventually("the server is ready", || async {
        servers.get("jump").await.unwrap().status.filter(|status| status.ready)
    })
    .await;
    assert_eq!(status.instance_state.as_deref(), Some("ACTIVE"));
    assert_eq!(status.resources.unwrap().ports.unwrap().len(), 1);
    assert!(!status.addresses.unwrap().is_empty());
    servers.delete("jump", &DeleteParams::default()).await.unwrap();
    eventually("the server is gone", || async {
        let gone = servers.get_opt("jump").await.unwrap().is_none();
        let left = world.cloud.inventory("demo");
        let any = left.servers.iter().chain(&left.ports).any(|it| it.name.starts_with("jump"));
        (gone && !any).then_some(())
    })
    .await;
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_has_the_capacity_of_its_flavor_and_its_machines_follow_its_address_pairs() {
    const NAMESPACE: &str = "sized";
    let mut spec = plain();
    spec["ports"] = json!([{"allowedAddressPairs": [{"ipAddress": "10.9.0.1"}]}]);
    let world = world(NAMESPACE, &[]).await;
    let clusters: Api<apiserver_types::Cluster> = Api::namespaced(world.admin(), NAMESPACE);
    let cluster = clusters.get("c").await.unwrap();
    let template = json!({"template": {"spec": spec}});
    let mut template = infrastructure("v1beta2", "OpenStackMachineTemplate", NAMESPACE, "t", &template);
    template["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": cluster.uid(),
    }]);
    world.create(&template.to_string()).await.unwrap();
    let [mut object, owner] = machine(NAMESPACE, "follower", &spec);
    object["metadata"]["annotations"] = json!({"cluster.x-k8s.io/cloned-from-name": "t"});
    for document in [object, owner] {
        world.create(&document.to_string()).await.unwrap();
    }
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let templates: Api<OpenStackMachineTemplate> = Api::namespaced(world.admin(), NAMESPACE);
    let capacity = eventually("the template has a capacity", || async {
        templates.get("t").await.unwrap().status.and_then(|status| status.capacity)
    })
    .await;
    let capacity = json!(capacity);
    assert!(
        capacity["cpu"].is_string() && capacity["memory"].as_str().unwrap().ends_with("Mi"),
        "{capacity}"
    );
    let change = json!({"spec": {"template": {"spec": {
        "ports": [{"allowedAddressPairs": [{"ipAddress": "10.9.0.2"}]}],
    }}}});
    templates.patch("t", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    eventually("the machine has the address pair", || async {
        let ports = machines.get("follower").await.unwrap().spec.ports?;
        let pairs = ports.first()?.allowed_address_pairs.clone()?;
        (pairs.first()?.ip_address == "10.9.0.2").then_some(())
    })
    .await;
    term.cancel();
    running.join_all().await;
}
