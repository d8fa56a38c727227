//! Load balancer of a cluster in a real Octavia, verified by Octavia's own records.

mod healing;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::lab::{Lab, until};
use super::openstack::{Access, HOST, OpenStack, get, text};
use crate::run;

/// Access as a user of the host, with the namespace of the cluster.
const ACCESS: Access = Access { user: HOST.user, namespace: "balanced" };

/// Ports of the cluster's listeners: the API server's, and the additional one of the manifest.
const PORTS: [u64; 2] = [6443, 8132];

/// Creates a cluster with a load balancer and one control plane Machine, and deletes both. The Machine must become a
/// member of each pool and leave it. In between the load balancer breaks twice. No resource may be left in the project.
pub(super) fn load_balancer(lab: &Lab, openstack: &OpenStack) -> anyhow::Result<()> {
    let before = openstack.records(&["inventory"])?;
    lab.kubectl(ACCESS.user, &["apply", "-f", &manifest(lab, openstack)?])?;
    until("each listener has its member", || members(openstack, 1)).with_context(|| state(lab, openstack))?;
    let endpoint = get(lab, &ACCESS, "cluster/c", "{.spec.controlPlaneEndpoint.host}")?;
    ensure!(endpoint.starts_with("172.24."), "the endpoint is {endpoint:?}, not a floating IP");
    healing::healed(lab, openstack).with_context(|| state(lab, openstack))?;
    let after = get(lab, &ACCESS, "cluster/c", "{.spec.controlPlaneEndpoint.host}")?;
    ensure!(after == endpoint, "the endpoint changed from {endpoint} to {after}");
    lab.kubectl(ACCESS.user, &["-n", ACCESS.namespace, "delete", "machine", "m", "--timeout=120s"])?;
    until("no pool has a member", || members(openstack, 0)).with_context(|| state(lab, openstack))?;
    lab.kubectl(ACCESS.user, &["-n", ACCESS.namespace, "delete", "cluster", "c", "--timeout=180s"])
        .with_context(|| state(lab, openstack))?;
    until("the project has the same resources as before", || Ok(openstack.records(&["inventory"])? == before))
        .with_context(|| format!("{:#}", openstack.records(&["inventory"]).unwrap_or_default()))
}

/// Returns true if the only load balancer is ACTIVE, and each of its listeners has a pool with this number of members.
fn members(openstack: &OpenStack, expected: usize) -> anyhow::Result<bool> {
    let balancers = openstack.records(&["load-balancers"])?;
    let list = |it: &Value, key: &str| it.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let balancers = balancers.as_array().context("no list of load balancers")?;
    let [balancer] = balancers.as_slice() else { return Ok(false) };
    let listeners = list(balancer, "listeners");
    let names: Vec<&str> = listeners.iter().map(|it| text(it, "/name")).collect();
    let has_ports = PORTS.iter().all(|port| names.iter().any(|name| name.ends_with(&port.to_string())));
    let counts =
        listeners.iter().map(|it| list(it, "pools").iter().map(|pool| list(pool, "members").len()).sum());
    let counts: Vec<usize> = counts.collect();
    Ok(text(balancer, "/provisioning_status") == "ACTIVE"
        && has_ports
        && counts.len() == PORTS.len()
        && counts.iter().all(|count| *count == expected))
}

fn state(lab: &Lab, openstack: &OpenStack) -> String {
    let kinds = "cluster,openstackcluster,machine,openstackmachine";
    let objects = lab.kubectl(ACCESS.user, &["-n", ACCESS.namespace, "describe", kinds]).unwrap_or_default();
    format!("{objects}\n{:#}", openstack.records(&["load-balancers"]).unwrap_or_default())
}

/// Writes the manifest that also the scenario with the simulator applies, with the credentials of this cloud.
fn manifest(lab: &Lab, openstack: &OpenStack) -> anyhow::Result<String> {
    let path = run::root()?.join("tests/scenarios/tests/load_balancer.yaml");
    let template = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let text = template
        .replace("NAMESPACE", ACCESS.namespace)
        .replace("CLOUDS\n", &openstack.clouds_block()?)
        .replace("cloudName: openstack", "cloudName: lab");
    lab.file("load_balancer.yaml", &text)
}
