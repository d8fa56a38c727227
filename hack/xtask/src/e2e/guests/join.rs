//! Scenarios of protected joins: one worker joins with requests that Capstan approves, and one fetches its bootstrap data by
//! a URL. Workers that other scenarios create are used, so both cost little.

use std::process::Command;

use anyhow::{Context, bail, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::cluster::{Cluster, NAMESPACE};
use super::fields;
use crate::e2e::lab;
use crate::e2e::openstack::text;
use crate::e2e::workflows::mint;
use crate::run;

/// Annotation of a Cluster whose nodes join with requests that Capstan approves.
const ATTESTED: &str = "capstan.dev/attested-join";

/// Annotation of a Cluster whose machines fetch their bootstrap data.
const BY_URL: &str = "capstan.dev/bootstrap-data-by-url";

/// Annotation of the Secret with bootstrap data that was fetched.
const FETCHED: &str = "/metadata/annotations/capstan.dev~1bootstrap-data-fetched";

/// Reason of Capstan's approvals.
const REASON: &str = "CapstanAttestedJoin";

/// Group of the token of a node that joins with an approval.
const GROUP: &str = "system:bootstrappers:capstan:guests";

/// Time between two approvals for one token. Times in conditions have no fractions of seconds.
const PAUSE: SignedDuration = SignedDuration::from_secs(59);

/// User of the direct endpoint.
const DIRECT: &str = "direct";

/// Bridge with the address by which guests reach this machine.
const BRIDGE: &str = "br-guests";

/// Setting by which a kubelet requests a serving certificate.
const SERVING: &str = "serverTLSBootstrap: true\n";

/// Lets the next worker join with an approval. Its kubelet also requests a serving certificate.
pub(super) fn attest(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    annotate(cluster, &format!("{ATTESTED}=true"))?;
    let settings = kubelet_settings(cluster)?;
    write_kubelet_settings(cluster, &format!("{}\n{SERVING}", settings.trim_end()))
}

/// The kubelet of one worker must have a client and a serving certificate with Capstan's approval. Later nodes join as the
/// first ones did.
pub(super) fn attested(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let approved = approvals(cluster, "kubernetes.io/kube-apiserver-client-kubelet")?;
    ensure!(!approved.is_empty(), "Capstan has approved no request for a client certificate");
    check_pauses(&approved)?;
    for request in &approved {
        let user = text(request, "/spec/username");
        ensure!(user.starts_with("system:bootstrap:"), "the request is of user {user}");
        let groups = request.pointer("/spec/groups").map(Value::to_string).unwrap_or_default();
        ensure!(groups.contains(GROUP) && !groups.contains("kubeadm"), "the user has the groups {groups}");
    }
    cluster.until("Capstan has approved a serving certificate", || {
        Ok(approvals(cluster, "kubernetes.io/kubelet-serving")?.iter().any(is_issued))
    })?;
    let served = approvals(cluster, "kubernetes.io/kubelet-serving")?;
    let user = served.first().map(|request| text(request, "/spec/username")).unwrap_or_default();
    let node = user.strip_prefix("system:node:").with_context(|| format!("user {user:?} is no Node"))?;
    let health = format!("/api/v1/nodes/{node}/proxy/healthz");
    cluster.until(&format!("kubelet of {node} responds over TLS"), || {
        Ok(cluster.workload(&["get", "--raw", &health])? == "ok")
    })?;
    // A kubelet without a serving certificate does not respond, and Capstan reaches etcd through kubelets.
    let settings = kubelet_settings(cluster)?;
    write_kubelet_settings(cluster, settings.trim_end_matches(SERVING))?;
    annotate(cluster, &format!("{ATTESTED}-"))
}

/// Lets the next worker fetch its bootstrap data from an address of this machine.
pub(super) fn by_url(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let address = address()?;
    let [port] = lab::ports()?;
    cluster.lab.restart_with(&format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\nbootstrapData:\n  listen: {address}:{port}\n  \
         url: https://{address}:{port}\n"
    ))?;
    annotate(cluster, &format!("{BY_URL}=true"))
}

/// One worker must have fetched its data, once. The fields of its configuration have the same effects as on others.
pub(super) fn fetched(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    mint(cluster.lab, DIRECT, "system:masters")?;
    let mut found = Vec::new();
    for worker in cluster.workers()? {
        // Bootstrap data are in Capstan's own store, and not in the host.
        let get = ["-n", NAMESPACE, "get", "secret", text(&worker, "/metadata/name"), "-o", "json"];
        let secret: Value = serde_json::from_str(&cluster.lab.kubectl(DIRECT, &get)?)?;
        let mark = text(&secret, FETCHED).to_owned();
        if !mark.is_empty() {
            found.push((worker, mark));
        }
    }
    let [(worker, mark)] = found.as_slice() else {
        bail!("{} workers have fetched their bootstrap data, not 1", found.len());
    };
    ensure!(mark.starts_with("first-boot "), "the data was fetched for {mark}");
    let events = cluster.host(&["get", "events", "--field-selector=reason=BootstrapDataFetchedAgain"])?;
    ensure!(events.trim().is_empty(), "the data was fetched twice: {events}");
    fields::on(cluster, worker, &fields::EFFECTS)?;
    annotate(cluster, &format!("{BY_URL}-"))
}

fn annotate(cluster: &Cluster<'_>, annotation: &str) -> anyhow::Result<()> {
    cluster.host(&["annotate", "cluster", "guests", annotation]).map(|_| ())
}

/// Returns the requests to a signer that Capstan has approved.
fn approvals(cluster: &Cluster<'_>, signer: &str) -> anyhow::Result<Vec<Value>> {
    let selector = format!("--field-selector=spec.signerName={signer}");
    let mut requests = cluster.workload_items(&["get", "certificatesigningrequests", &selector])?;
    requests.retain(is_approved);
    Ok(requests)
}

/// A kubelet that ends before it has read its certificate, as sometimes at its first start, makes another request. Capstan
/// approves that one only a minute later.
fn check_pauses(approved: &[Value]) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for request in approved {
        let conditions = request.pointer("/status/conditions").and_then(Value::as_array);
        let approval = conditions.into_iter().flatten().find(|it| text(it, "/type") == "Approved");
        let time = approval.map(|it| text(it, "/lastUpdateTime")).unwrap_or_default();
        times.push(time.parse::<Timestamp>().with_context(|| format!("approved at {time:?}"))?);
    }
    times.sort();
    let is_apart = times.windows(2).all(|pair| pair[1].duration_since(pair[0]) >= PAUSE);
    ensure!(is_apart, "Capstan has approved requests at {times:?}, although the pause is a minute");
    Ok(())
}

/// Returns true if Capstan has approved a request, and has not withdrawn that.
fn is_approved(request: &Value) -> bool {
    let conditions = || request.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let is_ours = |it: &Value| text(it, "/type") == "Approved" && text(it, "/reason") == REASON;
    conditions().any(is_ours) && !conditions().any(|it| text(it, "/type") == "Failed")
}

fn is_issued(request: &Value) -> bool {
    !text(request, "/status/certificate").is_empty()
}

/// Returns the settings that the kubelets of joining nodes get.
fn kubelet_settings(cluster: &Cluster<'_>) -> anyhow::Result<String> {
    let map = cluster.workload_json(&["get", "configmap", "kubelet-config", "-n", "kube-system"])?;
    Ok(text(&map, "/data/kubelet").to_owned())
}

fn write_kubelet_settings(cluster: &Cluster<'_>, settings: &str) -> anyhow::Result<()> {
    let change = json!({"data": {"kubelet": settings}}).to_string();
    let map = ["patch", "configmap", "kubelet-config", "-n", "kube-system"];
    cluster.workload(&[&map[..], &["--type=merge", "-p", &change]].concat()).map(|_| ())
}

/// Returns the address of this machine in the external network of the guests.
pub(super) fn address() -> anyhow::Result<String> {
    let shown = run::output(Command::new("ip").args(["-4", "-o", "address", "show", "dev", BRIDGE]))?;
    address_in(&shown).with_context(|| format!("{BRIDGE} has no address: {shown}"))
}

fn address_in(shown: &str) -> Option<String> {
    let address = shown.split_once(" inet ")?.1.split_once('/')?.0;
    Some(address.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_the_output_of_ip() {
        let shown = "7: br-guests    inet 172.24.0.1/16 scope global br-guests\\       valid_lft forever\n";
        assert_eq!(address_in(shown).as_deref(), Some("172.24.0.1"));
        assert_eq!(address_in(""), None);
    }

    #[test]
    fn a_second_approval_comes_a_minute_later() {
        let at =
            |time: &str| json!({"status": {"conditions": [{"type": "Approved", "lastUpdateTime": time}]}});
        let first = at("2026-01-02T03:04:05Z");
        assert!(check_pauses(&[at("2026-01-02T03:05:05Z"), first.clone()]).is_ok());
        assert!(check_pauses(&[first, at("2026-01-02T03:04:35Z")]).is_err());
    }

    #[test]
    fn only_approvals_of_capstan_count() {
        let of = |reason: &str| json!({"status": {"conditions": [{"type": "Approved", "reason": reason}]}});
        assert!(is_approved(&of(REASON)) && !is_approved(&of("AutoApproved")));
        assert!(!is_issued(&of(REASON)));
        let mut withdrawn = of(REASON);
        let conditions = withdrawn["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({"type": "Failed", "reason": REASON}));
        assert!(!is_approved(&withdrawn));
    }
}
