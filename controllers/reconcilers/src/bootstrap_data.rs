//! Bootstrap data that machines fetch from this server: each one once, unless an operation takes its disk.

use std::net::IpAddr;

use apiserver_types::{KubeadmConfig, Machine};
use controllers_bootstrap::delivery::{self, Data};
use controllers_runtime::{ControllerContext, PolicyRule, Severity, now};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Resource, ResourceExt};

/// Identity of the part of the server that responds to machines.
pub const IDENTITY: &str = "bootstrap-data";

/// Permissions of the identity.
pub const RULES: &[PolicyRule] = &[
    PolicyRule { groups: &["bootstrap.cluster.x-k8s.io"], resources: &["kubeadmconfigs"], verbs: &["get"] },
    PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["machines"], verbs: &["get"] },
    PolicyRule { groups: &[""], resources: &["configmaps"], verbs: &["get", "create", "update", "patch"] },
    PolicyRule::WRITE_SECRETS,
];

/// Annotation of a Secret whose data was fetched: what for, when, and by which address.
const FETCHED: &str = "capstan.dev/bootstrap-data-fetched";

/// Annotation of a Machine whose node joins again with its old data. Its value is the operation's name.
const REJOIN: &str = "capstan.dev/rejoin";

/// Purpose of the first boot, where a later one has the name of an operation.
const FIRST_BOOT: &str = "first-boot";

/// Writes of a mark that another client's write may precede.
const ATTEMPTS: usize = 3;

/// Response to a machine.
#[derive(Clone, PartialEq, Eq)]
pub enum Delivery {
    /// The complete document.
    Document(Vec<u8>),
    /// The path names no data, or the code is wrong. A response does not tell which.
    Unknown,
    /// The data was fetched before.
    Fetched,
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Document(_) => "Document",
            Self::Unknown => "Unknown",
            Self::Fetched => "Fetched",
        })
    }
}

/// Delivers the data of a path to an address. The mark is written first, so two requests never get the data.
///
/// # Errors
/// The API's own failure. The data is not marked then, or it was not delivered.
pub async fn deliver(
    context: &ControllerContext,
    path: &str,
    address: IpAddr,
) -> Result<Delivery, kube::Error> {
    let Some((namespace, name, code)) = delivery::parse(path) else { return Ok(Delivery::Unknown) };
    for attempt in 1.. {
        let Some(mut secret) = context.secrets.secret(namespace, name).await? else { break };
        let Some(document) = secret.data.as_ref().and_then(|data| data.get("value")).map(|it| it.0.clone())
        else {
            break;
        };
        if !(Data { namespace, name, document: &document }).is_code(code) {
            break;
        }
        let Some((config, machine)) = holder(context, &secret).await? else { break };
        let Some(purpose) = purpose(&secret, &machine) else {
            let message = format!(
                "{address} has asked for the bootstrap data of Machine {name}, which was fetched before"
            );
            let events = &context.events;
            events.record(&machine, Severity::Warning, "BootstrapDataFetchedAgain", &message).await;
            return Ok(Delivery::Fetched);
        };
        let mark = format!("{purpose} {} {address}", now().0);
        secret.annotations_mut().insert(FETCHED.to_owned(), mark);
        match context.secrets.replace(&secret).await {
            Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS => {}
            Err(error) => return Err(error),
            Ok(_) => {
                let message = format!("{address} has fetched the bootstrap data");
                let events = &context.events;
                events.record(&config, Severity::Normal, "BootstrapDataFetched", &message).await;
                return Ok(Delivery::Document(document));
            }
        }
    }
    Ok(Delivery::Unknown)
}

/// Returns the KubeadmConfig and the Machine that a Secret is for, while both exist.
async fn holder(
    context: &ControllerContext,
    secret: &Secret,
) -> Result<Option<(KubeadmConfig, Machine)>, kube::Error> {
    let namespace = secret.namespace().unwrap_or_default();
    let Some(name) = owner::<KubeadmConfig>(secret) else { return Ok(None) };
    let configs: Api<KubeadmConfig> = Api::namespaced(context.client.clone(), &namespace);
    let Some(config) = configs.get_opt(&name).await? else { return Ok(None) };
    let Some(name) = owner::<Machine>(&config) else { return Ok(None) };
    let machines: Api<Machine> = Api::namespaced(context.client.clone(), &namespace);
    Ok(machines.get_opt(&name).await?.map(|machine| (config, machine)))
}

fn owner<K: Resource<DynamicType = ()>>(object: &impl Resource) -> Option<String> {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.kind == K::kind(&())).map(|owner| owner.name.clone())
}

/// Returns what the data is fetched for; `None` if it was fetched for that already.
fn purpose(secret: &Secret, machine: &Machine) -> Option<String> {
    let purpose = machine.annotations().get(REJOIN).map_or(FIRST_BOOT, String::as_str);
    let fetched = secret.annotations().get(FETCHED);
    let last = fetched.and_then(|mark| mark.split(' ').next());
    // The first boot comes first. After an operation, the node has the data on its disk.
    let is_over = match last {
        None => false,
        Some(last) => last == purpose || purpose == FIRST_BOOT,
    };
    (!is_over).then(|| purpose.to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;
    use crate::api_in_memory::FakeApi;

    const SECRET: &str = "/api/v1/namespaces/ns/secrets/m";
    const MACHINE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/m";
    const CONFIG: &str = "/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/ns/kubeadmconfigs/m";
    const DOCUMENT: &[u8] = b"#cloud-config\n# a token";
    const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

    fn machine(api: &FakeApi, annotations: &serde_json::Value) {
        api.put(
            MACHINE,
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"annotations": annotations}, "spec": {"clusterName": "c",
                    "bootstrap": {}, "infrastructureRef": {"apiGroup": "i", "kind": "I", "name": "i"}}}),
        );
    }

    fn api() -> FakeApi {
        let api = FakeApi::default();
        let owner = |kind: &str, version: &str| json!({"ownerReferences": [{"kind": kind, "apiVersion": version, "name": "m", "uid": "u"}]});
        api.put(
            SECRET,
            json!({"apiVersion": "v1", "kind": "Secret", "data": {"value": STANDARD.encode(DOCUMENT)},
                "metadata": owner("KubeadmConfig", "bootstrap.cluster.x-k8s.io/v1beta2")}),
        );
        api.put(
            CONFIG,
            json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig",
                "metadata": owner("Machine", "cluster.x-k8s.io/v1beta2"), "spec": {}}),
        );
        machine(&api, &json!({}));
        api
    }

    #[tokio::test]
    async fn data_is_delivered_once_and_once_more_for_each_operation_that_takes_the_disk() {
        let api = api();
        let context = api.context(IDENTITY);
        let path = Data { namespace: "ns", name: "m", document: DOCUMENT }.path();
        let fetch = async || deliver(&context, &path, ADDRESS).await.unwrap();
        assert_eq!(fetch().await, Delivery::Document(DOCUMENT.to_vec()));
        let mark = api.get(SECRET).unwrap()["metadata"]["annotations"][FETCHED].clone();
        assert!(mark.as_str().unwrap().ends_with(" 192.0.2.7"), "{mark}");
        assert_eq!(fetch().await, Delivery::Fetched);
        machine(&api, &json!({REJOIN: "upgrade-1"}));
        assert_eq!(fetch().await, Delivery::Document(DOCUMENT.to_vec()));
        assert_eq!(fetch().await, Delivery::Fetched);
        machine(&api, &json!({}));
        assert_eq!(fetch().await, Delivery::Fetched, "the operation is over");
    }

    #[tokio::test]
    async fn a_wrong_code_and_data_of_no_machine_are_unknown() {
        let api = api();
        let context = api.context(IDENTITY);
        let path = Data { namespace: "ns", name: "m", document: DOCUMENT }.path();
        let other = Data { namespace: "ns", name: "m", document: b"other" }.path();
        for wrong in ["/", "/bootstrap/ns/none/00", other.as_str()] {
            assert_eq!(deliver(&context, wrong, ADDRESS).await.unwrap(), Delivery::Unknown, "{wrong}");
        }
        api.remove(MACHINE);
        assert_eq!(deliver(&context, &path, ADDRESS).await.unwrap(), Delivery::Unknown);
        assert!(api.get(SECRET).unwrap()["metadata"]["annotations"].is_null(), "nothing was marked");
    }
}
