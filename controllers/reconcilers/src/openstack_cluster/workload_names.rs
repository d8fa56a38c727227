//! Names that OpenStack's cloud provider, the Cinder CSI driver and the Manila CSI driver have for the workload cluster:
//! flags of their programs.

use std::time::Duration;

use controllers_runtime::ControllerContext;
use controllers_workload::ClusterKey;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Container, PodSpec, Secret};
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::workload_notes::WorkloadNotes;

/// Timeout of one look at a workload API.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Name that the cloud provider has for a cluster without a flag.
const CLOUD_PROVIDER_DEFAULT: &str = "kubernetes";

/// Name that a CSI driver has for a cluster without a flag.
const CSI_DEFAULT: &str = "";

/// Secret in `kube-system` that Capstan delivers, and its key with the name of the cluster.
const DELIVERED: (&str, &str) = ("cloud-config", "cluster-name");

/// End of the names of the Manila CSI driver. One that serves a protocol has the protocol before it, as in
/// `nfs.manila.csi.openstack.org`.
const MANILA_DRIVER: &str = "manila.csi.openstack.org";

/// Reads the names that are not known from the workload API, if it answers. The next pass looks again.
pub(super) async fn learn(
    context: &ControllerContext,
    namespace: &str,
    cluster: &str,
    notes: &mut WorkloadNotes,
) {
    if !notes.lacks_name() && notes.manila_name.is_some() {
        return;
    }
    let key = ClusterKey { namespace: namespace.to_owned(), name: cluster.to_owned() };
    // Of an API that does not answer, the pass would wait for the timeout.
    if context.workloads.probe(&key).failures > 0 {
        return;
    }
    let Ok(client) = context.workloads.client(&key) else { return };
    if let Ok(Err(error)) = tokio::time::timeout(TIMEOUT, read(&client, notes)).await {
        tracing::debug!(cluster, %error, "names of the workload cluster not read");
    }
}

async fn read(client: &Client, notes: &mut WorkloadNotes) -> Result<(), kube::Error> {
    if notes.lacks_name() {
        let mut pods = controllers(client).await?;
        pods.extend(daemons(client).await?);
        let delivered = match pods.iter().flat_map(|pod| &pod.containers).any(is_delivered) {
            true => delivered_name(client).await?,
            false => None,
        };
        if let Some(name) =
            name(&pods, "openstack-cloud-controller-manager", "--cluster-name", CLOUD_PROVIDER_DEFAULT)
                .or_else(|| delivered.clone())
        {
            notes.cloud_provider_name = Some(name);
        }
        if let Some(name) = name(&pods, "cinder-csi-plugin", "--cluster", CSI_DEFAULT).or(delivered) {
            notes.csi_name = Some(name);
        }
    }
    // The cloud does not show that a share is mounted on a server. So the registration of the driver, which is a short
    // list, shows whether shares may exist.
    if notes.manila_name.is_none() && has_manila_driver(client).await? {
        // An empty id is on no share. It is not noted, so that a later one is.
        let name = name(&controllers(client).await?, "manila-csi-plugin", "--cluster-id", CSI_DEFAULT);
        notes.manila_name = name.filter(|name| !name.is_empty());
    }
    Ok(())
}

/// Returns true if a container takes the name of the cluster from the Secret that Capstan delivers.
fn is_delivered(container: &Container) -> bool {
    let sources =
        container.env.iter().flatten().filter_map(|it| it.value_from.as_ref()?.secret_key_ref.as_ref());
    sources.clone().any(|it| it.name == DELIVERED.0 && it.key == DELIVERED.1)
}

async fn delivered_name(client: &Client) -> Result<Option<String>, kube::Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    let secret = secrets.get_opt(DELIVERED.0).await?;
    let bytes = secret.and_then(|secret| secret.data?.remove(DELIVERED.1));
    Ok(bytes.and_then(|bytes| String::from_utf8(bytes.0).ok()))
}

async fn has_manila_driver(client: &Client) -> Result<bool, kube::Error> {
    let drivers = Api::<CSIDriver>::all(client.clone()).list(&ListParams::default()).await?.items;
    Ok(drivers.iter().any(|driver| driver.name_any().ends_with(MANILA_DRIVER)))
}

async fn daemons(client: &Client) -> Result<Vec<PodSpec>, kube::Error> {
    let daemons = Api::<DaemonSet>::all(client.clone()).list(&ListParams::default()).await?.items;
    Ok(daemons.into_iter().filter_map(|it| it.spec?.template.spec).collect())
}

/// Reads the Pods that make volumes and shares, as opposed to those that mount them on each node.
async fn controllers(client: &Client) -> Result<Vec<PodSpec>, kube::Error> {
    let all = ListParams::default();
    let sets = Api::<StatefulSet>::all(client.clone()).list(&all).await?.items;
    let sets = sets.into_iter().filter_map(|it| it.spec?.template.spec);
    let deployments = Api::<Deployment>::all(client.clone()).list(&all).await?.items;
    let deployments = deployments.into_iter().filter_map(|it| it.spec?.template.spec);
    Ok(sets.chain(deployments).collect())
}

/// Returns the value of a program's flag, else its default; `None` if no Pod runs the program, or the value is elsewhere,
/// as in a Secret. Pure.
fn name(pods: &[PodSpec], program: &str, flag: &str, default: &str) -> Option<String> {
    let containers = pods.iter().flat_map(|pod| &pod.containers);
    let running: Vec<&Container> = containers.filter(|container| runs(container, program)).collect();
    let given = running.iter().find_map(|container| value(container, flag));
    let is_flag = |word: &str| word == flag || word.strip_prefix(flag).is_some_and(|it| it.starts_with('='));
    let has_flag = running.iter().any(|container| words(container).any(is_flag));
    given.or_else(|| (!has_flag && !running.is_empty()).then(|| default.to_owned()))
}

fn words(container: &Container) -> impl Iterator<Item = &str> {
    let lists = container.command.iter().chain(&container.args);
    lists.flatten().flat_map(|text| text.split_whitespace())
}

fn runs(container: &Container, program: &str) -> bool {
    let of_image = container.image.as_deref().is_some_and(|image| image.contains(program));
    of_image || words(container).any(|word| word.contains(program))
}

/// Returns the value of a flag, with the environment of the container in place of `$(NAME)`.
fn value(container: &Container, flag: &str) -> Option<String> {
    let mut words = words(container);
    let raw = loop {
        let word = words.next()?;
        if word == flag {
            break words.next()?;
        }
        if let Some(value) = word.strip_prefix(flag).and_then(|rest| rest.strip_prefix('=')) {
            break value;
        }
    };
    let raw = raw.trim_matches(['"', '\'']);
    let Some(variable) = raw.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')')) else {
        // A shell computes the value.
        return (!raw.contains('$')).then(|| raw.to_owned());
    };
    container.env.iter().flatten().find(|it| it.name == variable)?.value.clone()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api_in_memory::FakeApi;

    const MANAGER: &str = "openstack-cloud-controller-manager";

    fn found(container: &Value) -> Option<String> {
        let pod: PodSpec = serde_json::from_value(json!({"containers": [container]})).unwrap();
        name(&[pod], MANAGER, "--cluster-name", CLOUD_PROVIDER_DEFAULT)
    }

    #[test]
    fn r17_3_the_name_of_the_workload_cluster_is_the_flag_of_its_cloud_provider() {
        let image = "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1.34.0";
        let flag = |text: &str| json!({"name": "m", "image": image, "args": ["--v=1", text]});
        assert_eq!(found(&flag("--cluster-name=prod")).as_deref(), Some("prod"));
        assert_eq!(found(&flag("--cloud-config=/etc/cloud")).as_deref(), Some("kubernetes"));
        let variable = json!({"name": "m", "image": image, "env": [{"name": "CLUSTER_NAME", "value": "prod"}],
            "args": ["/bin/openstack-cloud-controller-manager", "--cluster-name=$(CLUSTER_NAME)"]});
        assert_eq!(found(&variable).as_deref(), Some("prod"));
        let shell = "exec openstack-cloud-controller-manager --cluster-name 'prod' --v=1";
        let shell = json!({"name": "m", "image": "mirror/manager", "command": ["sh", "-c", shell]});
        assert_eq!(found(&shell).as_deref(), Some("prod"));
        assert_eq!(found(&json!({"name": "m", "image": "nginx", "args": ["--cluster-name=other"]})), None);
    }

    /// Returns an object that runs the Manila CSI driver with these flags.
    fn runs_manila(flags: &str) -> Value {
        let command = format!("/bin/manila-csi-plugin --v=5 --nodeid=$(NODE_ID) {flags}");
        let container = json!({"name": "nfs-nodeplugin", "command": ["/bin/sh", "-c", command]});
        let metadata = json!({"labels": {"app": "manila"}});
        json!({"metadata": {"name": "manila"}, "spec": {
            "serviceName": "manila", "selector": {"matchLabels": {"app": "manila"}},
            "template": {"metadata": metadata, "spec": {"containers": [container]}},
        }})
    }

    /// Returns the id that is learned from a workload cluster with these objects.
    async fn learned(drivers: &[&str], objects: &[(&str, Value)]) -> Option<String> {
        let (api, workload) = (FakeApi::default(), FakeApi::default());
        let drivers: Vec<Value> = drivers
            .iter()
            .map(|name| json!({"metadata": {"name": name}, "spec": {"attachRequired": false}}))
            .collect();
        workload.put("/apis/storage.k8s.io/v1/csidrivers", json!({"items": drivers}));
        for plural in ["daemonsets", "deployments", "statefulsets"] {
            let items: Vec<&Value> =
                objects.iter().filter(|(of, _)| *of == plural).map(|(_, object)| object).collect();
            workload.put(&format!("/apis/apps/v1/{plural}"), json!({"items": items}));
        }
        let context = api.context_with_workload("openstackcluster-controller", &workload).await;
        let mut notes = WorkloadNotes::default();
        learn(&context, "ns", "blue", &mut notes).await;
        notes.manila_name
    }

    #[tokio::test]
    async fn r17_3_the_id_on_shares_is_the_flag_of_the_controller_of_the_manila_driver() {
        let driver = ["cinder.csi.openstack.org", "nfs.manila.csi.openstack.org"];
        let named = runs_manila("--cluster-id=\"blue\"");
        for plural in ["statefulsets", "deployments"] {
            let objects = [(plural, named.clone()), ("daemonsets", runs_manila(""))];
            assert_eq!(learned(&driver, &objects).await.as_deref(), Some("blue"), "{plural}");
        }
        for flags in ["", "--cluster-id=", "--cluster-id=\"\"", "--cluster-id=${ID}", "--cluster-id-of=other"]
        {
            let objects = [("statefulsets", runs_manila(flags))];
            assert_eq!(learned(&driver, &objects).await, None, "{flags}");
        }
        // The program of another driver, or a driver that is not registered.
        assert_eq!(learned(&driver[..1], &[("statefulsets", named)]).await, None);
        assert_eq!(learned(&driver, &[("daemonsets", runs_manila("--cluster-id=blue"))]).await, None);
    }
}
