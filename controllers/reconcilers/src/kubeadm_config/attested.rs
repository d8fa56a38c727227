//! Attested join: a token alone makes no node. Capstan approves the request of one machine for one Node of its own name.

use std::time::Duration;

use apiserver_types::{Cluster, Machine};
use controllers_bootstrap::attestation;
use controllers_bootstrap::token::{self, Token};
use controllers_workload::{describe, found};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::stop::Failure;
use super::tokens;

/// Annotation of a Cluster. With the value `true`, its machines join only with an approval by Capstan.
pub(super) const OPT_IN: &str = "capstan.dev/attested-join";

/// Interval in which requests are looked for until the Machine has joined. A kubelet waits for minutes.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// Time after an approval in which no other request is approved. A kubelet makes its Node within seconds of its certificate,
/// and waits five minutes for one.
const LOST: SignedDuration = SignedDuration::from_mins(1);

/// Signer of the client certificates of kubelets.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// Name of our objects in the workload cluster.
const NAME: &str = "capstan:attested-join";

/// Group of permissions.
const RBAC: &str = "rbac.authorization.k8s.io";

/// Permissions of a joining node outside namespaces, as kubeadm grants them to its own group: without an approval.
const CLUSTER_ROLES: [&str; 2] = ["system:node-bootstrapper", "kubeadm:get-nodes"];

/// Permissions of a joining node in the namespace of kubeadm's settings.
const ROLES: [&str; 2] = ["kubeadm:nodes-kubeadm-config", "kubeadm:kubelet-config"];

/// Returns the group of tokens of a Cluster whose joins are attested; `None` for kubeadm's own group.
pub(super) fn group(cluster: &Cluster) -> Option<String> {
    let is_wanted = cluster.annotations().get(OPT_IN).is_some_and(|value| value == "true");
    // The authenticator accepts no dot in a group.
    is_wanted.then(|| format!("system:bootstrappers:capstan:{}", cluster.name_any().replace('.', "-")))
}

/// Lets the group do what a join needs, apart from the approval.
pub(super) async fn permit(client: &Client, group: &str) -> Result<(), Failure> {
    let subject = || {
        Some(vec![Subject {
            api_group: Some(RBAC.to_owned()),
            kind: "Group".to_owned(),
            name: group.to_owned(),
            ..Subject::default()
        }])
    };
    let metadata = |role: &str, namespace: Option<&str>| ObjectMeta {
        name: Some(format!("{NAME}:{role}")),
        namespace: namespace.map(str::to_owned),
        ..ObjectMeta::default()
    };
    let role = |kind: &str, name: &str| RoleRef {
        api_group: RBAC.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    };
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    for name in CLUSTER_ROLES {
        let binding = ClusterRoleBinding {
            metadata: metadata(name, None),
            role_ref: role("ClusterRole", name),
            subjects: subject(),
        };
        create(&bindings, &binding).await?;
    }
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), token::NAMESPACE);
    for name in ROLES {
        let binding = RoleBinding {
            metadata: metadata(name, Some(token::NAMESPACE)),
            role_ref: role("Role", name),
            subjects: subject(),
        };
        create(&bindings, &binding).await?;
    }
    Ok(())
}

async fn create<K>(api: &Api<K>, object: &K) -> Result<(), Failure>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    match api.create(&PostParams::default(), object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        result => result.map(drop).map_err(|error| failed(&error)),
    }
}

/// Judges the requests that were made with a token, and approves one of its Machine. Returns what was refused.
///
/// The newest request is judged first: a kubelet that has lost an answer waits for its newest one.
pub(super) async fn approve(
    client: &Client,
    token: &Token,
    machine: &Machine,
) -> Result<Vec<String>, Failure> {
    let mut ours = requests(client, SIGNER, &token.user()).await?;
    ours.sort_by_key(|it| std::cmp::Reverse(it.metadata.creation_timestamp.clone()));
    let approved = ours.iter().filter_map(approved_at).max();
    let mut approved = approved.filter(|_| !tokens::rejoins(machine));
    let mut refused = Vec::new();
    for request in ours.into_iter().filter(is_open) {
        let verdict = match judge(&request, machine) {
            Ok(node) if is_used(client, &node, approved).await? => Err(used(machine)),
            verdict => verdict,
        };
        let (kind, message) = match &verdict {
            Ok(node) => ("Approved", format!("Node {node} is that of Machine {}", machine.name_any())),
            Err(cause) => ("Denied", cause.clone()),
        };
        let name = request.name_any();
        decide(client, request, kind, &message).await?;
        if verdict.is_ok() {
            approved = Some(Timestamp::now());
        }
        refused.extend(verdict.err().map(|cause| format!("CertificateSigningRequest {name}: {cause}")));
    }
    Ok(refused)
}

/// Returns true if a token has had its approval. A kubelet that ends before it has read its certificate has made no Node,
/// and makes a new request, with another key.
async fn is_used(client: &Client, node: &str, approved: Option<Timestamp>) -> Result<bool, Failure> {
    let Some(approved) = approved else { return Ok(false) };
    if Timestamp::now().duration_since(approved) < LOST {
        return Ok(true);
    }
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.get_opt(node).await.map(|node| node.is_some()).map_err(|error| failed(&error))
}

/// Returns why a second request with a token is refused, and the remedy.
fn used(machine: &Machine) -> String {
    let name = machine.name_any();
    format!(
        "a certificate was approved before for the token of Machine {name}; if its kubelet has lost that certificate, it \
         gets another one a minute later; if not, the token was stolen: delete the Machine"
    )
}

/// Returns the requests of a user to a signer.
pub(super) async fn requests(
    client: &Client,
    signer: &str,
    user: &str,
) -> Result<Vec<CertificateSigningRequest>, Failure> {
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    let fields = ListParams::default().fields(&format!("spec.signerName={signer}"));
    let all = api.list(&fields).await.map_err(|error| failed(&error))?.into_iter();
    let is_ours = |it: &CertificateSigningRequest| it.spec.username.as_deref() == Some(user);
    Ok(all.filter(|it| it.spec.signer_name == signer && is_ours(it)).collect())
}

/// Approves or denies a request.
pub(super) async fn decide(
    client: &Client,
    mut request: CertificateSigningRequest,
    kind: &str,
    message: &str,
) -> Result<(), Failure> {
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    let conditions = request.status.get_or_insert_default().conditions.get_or_insert_default();
    conditions.push(condition(kind, message));
    let name = request.name_any();
    let conditions = request.status.as_ref().and_then(|status| status.conditions.as_ref());
    let change = json!({"metadata": {"resourceVersion": request.resource_version()},
        "status": {"conditions": conditions}});
    let written = api.patch_approval(&name, &PatchParams::default(), &Patch::Merge(&change)).await;
    let written =
        found(written).map_err(|error| Failure::data(format!("CertificateSigningRequest {name}: {error}")));
    written.map(drop)
}

/// Returns true if a request was neither approved nor denied.
pub(super) fn is_open(request: &CertificateSigningRequest) -> bool {
    !has(request, "Approved") && !has(request, "Denied")
}

fn has(request: &CertificateSigningRequest, kind: &str) -> bool {
    let conditions = request.status.as_ref().and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default().iter().any(|it| it.type_ == kind)
}

/// Returns the time at which a request was approved. Without a time in its condition, the last one that there is.
fn approved_at(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let conditions = request.status.as_ref().and_then(|status| status.conditions.as_deref());
    let approved = conditions.unwrap_or_default().iter().find(|it| it.type_ == "Approved")?;
    Some(approved.last_update_time.as_ref().map_or(Timestamp::MAX, |time| time.0))
}

/// Returns the Node of a request that may be approved once, or why it may not.
fn judge(request: &CertificateSigningRequest, machine: &Machine) -> Result<String, String> {
    let node = attestation::node_of(&request.spec.request.0)?;
    // A server has the name of its OpenStackMachine.
    let (name, server) = (machine.name_any(), &machine.spec.infrastructure_ref.name);
    if !attestation::is_name_of(&node, server) {
        return Err(format!("Node {node} is not that of Machine {name}, which the token is for"));
    }
    Ok(node)
}

fn condition(kind: &str, message: &str) -> CertificateSigningRequestCondition {
    let now = Some(Time(Timestamp::now()));
    CertificateSigningRequestCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: Some("CapstanAttestedJoin".to_owned()),
        message: Some(message.to_owned()),
        last_update_time: now.clone(),
        last_transition_time: now,
    }
}

/// Returns the failure of a call to the workload cluster, whose API is not ours.
fn failed(error: &kube::Error) -> Failure {
    let reason = describe(error);
    Failure::data(format!("the workload cluster does not accept the attested join: {reason}"))
}

#[cfg(test)]
mod tests {
    use apiserver_types::MachineSpec;
    use serde_json::Value;

    use super::*;
    use crate::api_in_memory::FakeApi;

    const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

    /// Request for the Node `m`, made with openssl, in base64.
    const OF_M: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIcE1JR1JBZ0VBTUM4eEZUQVRCZ05WQkFvTURITjVjM1JsYlRw\
        dWIyUmxjekVXTUJRR0ExVUVBd3dOYzNsegpkR1Z0T201dlpHVTZiVEJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSEEwSUFC\
        THYxR3BUZDBMNDgydklICkRQVzN6dTBTZC9DN0VObGliTXFhN3R1cDBmWGtSd1hEaU5ZS2svZGJ3OG5VUGZSZllBWmFWNnY1RzZD\
        cnJ1SEIKK3U1cU5oNmdBREFLQmdncWhrak9QUVFEQWdOSEFEQkVBaUFqTnZFQXhzUFRnRGU1anVtc1IvZmo1b0tkRVlYdApLc0tk\
        KzJTd0JXVnA2Z0lnT0IyNTFuV2dDYTBmdU9aVThxK1o4MzJSVEUzTkF5WkFjYi9FWU1neHliVT0KLS0tLS1FTkQgQ0VSVElGSUNB\
        VEUgUkVRVUVTVC0tLS0tCg==";

    fn request(name: &str, user: &str, conditions: &Value) -> Value {
        json!({"metadata": {"name": name}, "status": {"conditions": conditions},
            "spec": {"request": OF_M, "signerName": SIGNER, "username": user, "usages": []}})
    }

    async fn judged(requests: &[Value], server: &str) -> (Vec<String>, usize) {
        let api = FakeApi::default();
        api.put(REQUESTS, json!({"items": requests}));
        for request in requests {
            let name = request["metadata"]["name"].as_str().unwrap();
            api.put(&format!("{REQUESTS}/{name}/approval"), request.clone());
        }
        let token = Token::parse("k3v9qz.1x5w8m2c7r4t6y0p").unwrap();
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.spec.infrastructure_ref.name = server.to_owned();
        api.crash_at(None);
        let refused = approve(&api.client(), &token, &machine).await.unwrap();
        let written = requests.iter().filter_map(|request| {
            let name = request["metadata"]["name"].as_str()?;
            let condition =
                api.get(&format!("{REQUESTS}/{name}/approval"))?["status"]["conditions"][0].clone();
            Some(format!("{name} {}", condition["type"].as_str()?))
        });
        let written: Vec<String> = written.collect();
        assert_eq!(refused.len(), written.iter().filter(|it| it.ends_with("Denied")).count());
        (written, api.writes())
    }

    #[tokio::test]
    async fn one_request_of_the_machine_for_its_own_node_is_approved() {
        let user = "system:bootstrap:k3v9qz";
        let new = |name: &str| request(name, user, &json!([]));
        assert_eq!(
            judged(&[new("a"), new("b")], "m").await,
            (vec!["a Approved".to_owned(), "b Denied".to_owned()], 2)
        );
        assert_eq!(
            judged(&[new("a")], "n").await,
            (vec!["a Denied".to_owned()], 1),
            "another machine's name"
        );
        let other = request("a", "system:bootstrap:aaaaaa", &json!([]));
        assert_eq!(judged(&[other], "m").await, (vec![], 0), "another token");
        let approved = request("a", user, &json!([{"type": "Approved", "status": "True"}]));
        let (written, writes) = judged(&[approved, new("b")], "m").await;
        assert_eq!((written, writes), (vec!["a Approved".to_owned(), "b Denied".to_owned()], 1));
        let mut newer = new("b");
        newer["metadata"]["creationTimestamp"] = json!("2026-01-02T03:04:05Z");
        let mut older = new("a");
        older["metadata"]["creationTimestamp"] = json!("2026-01-02T03:04:03Z");
        let (written, _) = judged(&[older, newer], "m").await;
        assert_eq!(written, ["a Denied", "b Approved"], "a kubelet waits for its newest request");
    }

    #[tokio::test]
    async fn a_kubelet_that_lost_its_certificate_gets_another_one_unless_there_is_its_node() {
        let approved = |ago: SignedDuration| {
            let time = Timestamp::now() - ago;
            json!([{"type": "Approved", "status": "True", "lastUpdateTime": time.to_string()}])
        };
        let user = "system:bootstrap:k3v9qz";
        let decided = async |ago: SignedDuration, is_there: bool| {
            let api = FakeApi::default();
            let new = request("b", user, &json!([]));
            api.put(REQUESTS, json!({"items": [request("a", user, &approved(ago)), new.clone()]}));
            api.put(&format!("{REQUESTS}/b/approval"), new);
            if is_there {
                api.put("/api/v1/nodes/m", json!({"metadata": {"name": "m"}}));
            }
            let token = Token::parse("k3v9qz.1x5w8m2c7r4t6y0p").unwrap();
            let mut machine = Machine::new("m", MachineSpec::default());
            machine.spec.infrastructure_ref.name = "m".to_owned();
            approve(&api.client(), &token, &machine).await.unwrap().len()
        };
        let second = SignedDuration::from_secs(1);
        assert_eq!(decided(LOST - second, false).await, 1, "its kubelet may still make its Node");
        assert_eq!(decided(LOST + second, false).await, 0);
        assert_eq!(decided(LOST + second, true).await, 1, "its certificate is in use");
    }

    #[test]
    fn the_group_is_one_that_the_authenticator_accepts() {
        let mut cluster = Cluster::new("blue.lab", apiserver_types::ClusterSpec::default());
        assert_eq!(group(&cluster), None);
        cluster.annotations_mut().insert(OPT_IN.to_owned(), "true".to_owned());
        assert_eq!(group(&cluster).as_deref(), Some("system:bootstrappers:capstan:blue-lab"));
    }
}
