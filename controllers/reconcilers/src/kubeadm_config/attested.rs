//! Attested join: a token alone makes no node. Capstan approves the request of one machine for one Node of its own name.

use std::time::Duration;

use apiserver_types::{Cluster, Machine};
use controllers_bootstrap::attestation::{self, KubeletRequest};
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

use super::approvals::Approvals;
use super::stop::Failure;
use super::tokens;

/// Annotation of a Cluster. With the value `true`, its machines join only with an approval by Capstan.
pub(super) const OPT_IN: &str = "capstan.dev/attested-join";

/// Interval in which requests are looked for until the Machine has joined. A kubelet waits for minutes.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// Time after an approval in which no request with another key is approved. A kubelet makes its Node within seconds of its
/// certificate, and waits five minutes for one.
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

/// Judges the requests that were made with a token, and approves one of its Machine. Returns what was refused, and which
/// approvals were withdrawn.
///
/// The newest request is judged first: a kubelet that has lost an answer waits for its newest one. A request with a key that
/// was approved is approved again at once: its certificate is of no use without the private key.
pub(super) async fn approve(
    client: &Client,
    token: &Token,
    machine: &Machine,
) -> Result<Vec<String>, Failure> {
    let mut ours = requests(client, SIGNER, &token.user()).await?;
    ours.sort_by_key(|it| std::cmp::Reverse(it.metadata.creation_timestamp.clone()));
    let (open, decided): (Vec<_>, Vec<_>) = ours.into_iter().partition(is_open);
    let mut approvals = if tokens::rejoins(machine) { Approvals::default() } else { Approvals::of(decided) };
    let mut refused = Vec::new();
    for request in open {
        let verdict = match judge(&request, machine) {
            Ok(asked) if approvals.have_key(&asked.key) => Ok(asked.node),
            Ok(asked) => {
                refused.extend(approvals.withdraw_for(client, &request).await?);
                let is_used = is_used(client, &asked.node, approvals.newest()).await?;
                if is_used { Err(used(machine)) } else { Ok(asked.node) }
            }
            Err(cause) => Err(cause),
        };
        let (kind, message) = match &verdict {
            Ok(node) => ("Approved", format!("Node {node} is that of Machine {}", machine.name_any())),
            Err(cause) => ("Denied", cause.clone()),
        };
        let name = request.name_any();
        let request = decide(client, request, kind, &message).await?;
        if verdict.is_ok() {
            approvals.add(request);
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

/// Approves or denies a request. Returns it with its new condition.
pub(super) async fn decide(
    client: &Client,
    mut request: CertificateSigningRequest,
    kind: &str,
    message: &str,
) -> Result<CertificateSigningRequest, Failure> {
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    let conditions = request.status.get_or_insert_default().conditions.get_or_insert_default();
    conditions.push(condition(kind, message));
    let name = request.name_any();
    let conditions = request.status.as_ref().and_then(|status| status.conditions.as_ref());
    let change = json!({"metadata": {"resourceVersion": request.resource_version()},
        "status": {"conditions": conditions}});
    let written = api.patch_approval(&name, &PatchParams::default(), &Patch::Merge(&change)).await;
    found(written).map_err(|error| Failure::data(format!("CertificateSigningRequest {name}: {error}")))?;
    Ok(request)
}

/// Returns true if a request was neither approved nor denied.
pub(super) fn is_open(request: &CertificateSigningRequest) -> bool {
    !has(request, "Approved") && !has(request, "Denied")
}

/// Returns true if a request has a condition.
pub(super) fn has(request: &CertificateSigningRequest, kind: &str) -> bool {
    let conditions = request.status.as_ref().and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default().iter().any(|it| it.type_ == kind)
}

/// Returns the content of a request that may be approved, or why it may not.
fn judge(request: &CertificateSigningRequest, machine: &Machine) -> Result<KubeletRequest, String> {
    let asked = attestation::client_request(&request.spec.request.0)?;
    // A server has the name of its OpenStackMachine.
    let (name, server) = (machine.name_any(), &machine.spec.infrastructure_ref.name);
    if !attestation::is_name_of(&asked.node, server) {
        return Err(format!("Node {} is not that of Machine {name}, which the token is for", asked.node));
    }
    Ok(asked)
}

/// Returns a condition of a request as Capstan sets it.
pub(super) fn condition(kind: &str, message: &str) -> CertificateSigningRequestCondition {
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
pub(super) fn failed(error: &kube::Error) -> Failure {
    let reason = describe(error);
    Failure::data(format!("the workload cluster does not accept the attested join: {reason}"))
}

#[cfg(test)]
#[path = "attested_tests.rs"]
mod tests;
