//! Serving certificates of kubelets. Kubernetes approves no request for one by itself, because only the cloud knows which
//! names and addresses a server has.

use std::time::Duration;

use apiserver_types::{KubeadmConfig, Machine};
use controllers_bootstrap::attestation;
use controllers_runtime::Severity;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Client, ResourceExt};

use super::act::Actor;
use super::attested::{self, decide, is_open, requests};
use super::stop::{Failure, Stop};
use super::tokens;

/// Signer of the serving certificates of kubelets.
const SIGNER: &str = "kubernetes.io/kubelet-serving";

/// Interval in which requests are looked for as long as a Machine exists. A kubelet renews its certificate, and it waits
/// for an answer for 15 minutes.
pub(super) const INTERVAL: Duration = Duration::from_secs(30);

impl Actor<'_> {
    /// Approves the requests of a Machine that has joined, if its Cluster has attested joins. Returns true if that has to
    /// be repeated.
    pub(super) async fn approve_serving(&self, config: &KubeadmConfig) -> bool {
        let is_attested = attested::group(self.cluster).is_some();
        let Some(node) = node_of(self.machine).filter(|_| is_attested && tokens::has_joined(self.machine))
        else {
            return false;
        };
        let Ok(client) = self.context.workloads.client(&self.key()) else { return true };
        let registered = self.context.workloads.node(&self.key(), node).ok().flatten();
        let registered = registered.and_then(|node| node.metadata.creation_timestamp.clone());
        let refused = match approve(&client, self.machine, node, registered.as_ref()).await {
            Ok(refused) => refused,
            Err(Failure::Stop(Stop { message, .. })) => Some(message),
            Err(Failure::Api(error)) => Some(error.to_string()),
        };
        if let Some(refused) = refused {
            let events = &self.context.events;
            events.record(config, Severity::Warning, "ServingCertificateNotApproved", &refused).await;
        }
        true
    }
}

fn node_of(machine: &Machine) -> Option<&str> {
    machine.status.as_ref()?.node_ref.as_ref().map(|node| node.name.as_str())
}

/// Approves the requests of a Node that are for its server. Others stay open, because an administrator may know more
/// addresses than the cloud. Those from before its registration are of an earlier server whose Node had the name. Returns
/// why one stays open.
async fn approve(
    client: &Client,
    machine: &Machine,
    node: &str,
    registered: Option<&Time>,
) -> Result<Option<String>, Failure> {
    let mut refused = None;
    let all = requests(client, SIGNER, &format!("system:node:{node}")).await?;
    for request in all.into_iter().filter(|it| is_open(it) && !is_older(it, registered)) {
        match judge(&request, machine, node) {
            Ok(()) => {
                let message = format!("names and addresses are those of Machine {}", machine.name_any());
                decide(client, request, "Approved", &message).await?;
            }
            // Without the name of the request: a kubelet repeats it under other names.
            Err(cause) => {
                refused = Some(format!(
                    "the serving certificate that the kubelet of Node {node} requests does not match Machine {}: {cause}. If \
                     that is right, find the request with kubectl get csr, and approve it with kubectl certificate approve",
                    machine.name_any()
                ));
            }
        }
    }
    Ok(refused)
}

/// Reports whether a request was made before a Node was registered.
fn is_older(request: &CertificateSigningRequest, registered: Option<&Time>) -> bool {
    let made = request.metadata.creation_timestamp.as_ref();
    made.zip(registered).is_some_and(|(made, registered)| made.0 < registered.0)
}

/// Checks that a request is for the server of a Machine.
fn judge(request: &CertificateSigningRequest, machine: &Machine, node: &str) -> Result<(), String> {
    let addresses =
        machine.status.as_ref().and_then(|status| status.addresses.as_deref()).unwrap_or_default();
    let addresses = addresses.iter().map(|it| it.address.as_str());
    // A server has the name of its OpenStackMachine.
    let known: Vec<&str> = addresses.chain([node, &machine.spec.infrastructure_ref.name]).collect();
    let read = attestation::kubelet_request(&request.spec.request.0)?;
    attestation::check_serving(&read, node, &known)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api_in_memory::FakeApi;

    const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

    /// Request of the Node `m` for the name `m` and the address 10.6.0.7, made with openssl, in base64.
    const OF_M: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQkVEQ0J0Z0lCQURBdk1SVXdFd1lEVlFRS0RBeHplWE4wWlcw\
        NmJtOWtaWE14RmpBVUJnTlZCQU1NRFhONQpjM1JsYlRwdWIyUmxPbTB3V1RBVEJnY3Foa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNB\
        QVNBWlBpcXNQNWxXZlcwCjRvdkxVY2ZNT3JuUU5TTFpPNFp3MTdwTlVIZ05KdjJIV1hrZkdnQUFIdmR5RlNyWVU0QU9YcTZxNHc5\
        bjVnUVIKa3lybDY5L1dvQ1V3SXdZSktvWklodmNOQVFrT01SWXdGREFTQmdOVkhSRUVDekFKZ2dGdGh3UUtCZ0FITUFvRwpDQ3FH\
        U000OUJBTUNBMGtBTUVZQ0lRRGJvcXNEKzdFaTFMSVJjeWVZeDR6eDY5Yms1YnpPM2tvZTVxYU9RS0M0CnJ3SWhBTmpSNHhFYm04\
        a3dpb05GZWI5R1RBT0dncU5EM240aW5GbFZObHl2UGN3egotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

    /// Returns the decision on a request, and why it stays open.
    async fn judged(signer: &str, user: &str, address: &str) -> (Option<String>, Option<String>) {
        let api = FakeApi::default();
        let request = json!({"metadata": {"name": "a"}, "status": {},
            "spec": {"request": OF_M, "signerName": signer, "username": user, "usages": []}});
        api.put(REQUESTS, json!({"items": [request]}));
        api.put(&format!("{REQUESTS}/a/approval"), request);
        let machine: Machine = serde_json::from_value(json!({
            "metadata": {"name": "machine"},
            "spec": {"clusterName": "blue", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "server"}},
            "status": {"nodeRef": {"name": "m"},
                "addresses": [{"type": "Hostname", "address": "m"}, {"type": "InternalIP", "address": address}]}}))
        .unwrap();
        let refused = approve(&api.client(), &machine, node_of(&machine).unwrap(), None).await.unwrap();
        let decided = api.get(&format!("{REQUESTS}/a/approval")).unwrap();
        let kind = decided.pointer("/status/conditions/0/type").and_then(Value::as_str);
        (kind.map(str::to_owned), refused)
    }

    #[tokio::test]
    async fn a_request_is_approved_for_the_addresses_of_its_server_and_stays_open_for_others() {
        let node = "system:node:m";
        assert_eq!(judged(SIGNER, node, "10.6.0.7").await, (Some("Approved".to_owned()), None));
        let (decision, refused) = judged(SIGNER, node, "10.6.0.8").await;
        assert_eq!(decision, None);
        let refused = refused.unwrap();
        assert!(refused.contains("does not match Machine machine: it is for 10.6.0.7. "), "{refused}");
        for (signer, user) in [(SIGNER, "system:node:n"), ("other", node), (SIGNER, "admin")] {
            assert_eq!(judged(signer, user, "10.6.0.7").await, (None, None), "{signer} {user}");
        }
    }

    #[test]
    fn a_request_of_an_earlier_server_is_left_alone() {
        let at = |time: &str| Time(time.parse().unwrap());
        let (mut request, registered) = (CertificateSigningRequest::default(), at("2026-11-26T10:00:00Z"));
        assert!(!is_older(&request, Some(&registered)) && !is_older(&request, None));
        for (time, expected) in [("2026-11-26T09:59:59Z", true), ("2026-11-26T10:00:00Z", false)] {
            request.metadata.creation_timestamp = Some(at(time));
            assert_eq!(is_older(&request, Some(&registered)), expected, "{time}");
            assert!(!is_older(&request, None), "{time}: no Node is known");
        }
    }
}
