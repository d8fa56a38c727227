//! Twenty Machines in a real OpenStack: the seconds and the calls to the cloud of their creation and deletion.

use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::lab::{Lab, until};
use super::openstack::{Access, DIRECT, OpenStack};

/// Number of Machines.
const COUNT: usize = 20;

/// Access to Capstan without a host in between. Metrics have no other way.
const ACCESS: Access = Access { user: DIRECT.user, namespace: "twenty" };

/// Most calls per Machine, for creation and deletion together. Upstream's controllers make 59 for the creation alone.
const MOST_CALLS: usize = 30;

/// Creates the Machines, and deletes them with their Cluster. No resource may be left in the project.
pub(super) fn machines(lab: &Lab, openstack: &OpenStack) -> anyhow::Result<()> {
    let before = openstack.records(&["inventory"])?;
    lab.kubectl("admin", &["create", "namespace", ACCESS.namespace])?;
    lab.kubectl(ACCESS.user, &["apply", "-f", &lab.file("twenty-cluster.json", &cluster(openstack)?)?])?;
    let ready = ["wait", "openstackcluster/c", "--for=jsonpath={.status.initialization.provisioned}=true"];
    kubectl(lab, &[&ready[..], &["--timeout=120s"]].concat())?;

    let (calls, begun) = (calls_of(lab)?, Instant::now());
    lab.kubectl(ACCESS.user, &["apply", "-f", &lab.file("twenty.json", &list(COUNT))?])?;
    let up = ["wait", "openstackmachines", "--all", "--for=jsonpath={.status.instanceState}=ACTIVE"];
    kubectl(lab, &[&up[..], &["--timeout=300s"]].concat())
        .with_context(|| kubectl(lab, &["get", "machines"]).unwrap_or_default())?;
    let (made, seconds) = (calls_of(lab)? - calls, begun.elapsed().as_secs_f64());
    eprintln!("  {COUNT} Machines made in {seconds:.1} s with {made} calls");

    let begun = Instant::now();
    kubectl(lab, &["delete", "machines", "--all", "--timeout=300s"])?;
    let (all, seconds) = (calls_of(lab)? - calls, begun.elapsed().as_secs_f64());
    eprintln!("  {COUNT} Machines deleted in {seconds:.1} s with {} calls", all - made);
    kubectl(lab, &["delete", "cluster", "c", "--timeout=300s"])?;
    until("the project has the same resources as before", || {
        Ok(openstack.records(&["inventory"])? == before)
    })?;
    ensure!(all <= MOST_CALLS * COUNT, "{all} calls for {COUNT} Machines");
    Ok(())
}

fn kubectl(lab: &Lab, arguments: &[&str]) -> anyhow::Result<String> {
    lab.kubectl(ACCESS.user, &[&["-n", ACCESS.namespace], arguments].concat())
}

/// Returns the calls to the cloud that Capstan has made since its start.
fn calls_of(lab: &Lab) -> anyhow::Result<usize> {
    let metrics = lab.kubectl(ACCESS.user, &["get", "--raw", "/metrics"])?;
    let lines = metrics.lines().filter(|line| line.starts_with("capstan_cloud_requests_total{"));
    let numbers = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
    Ok(numbers.sum())
}

/// Returns the manifest of the credentials and of a Cluster without load balancer.
fn cluster(openstack: &OpenStack) -> anyhow::Result<String> {
    let clouds = std::fs::read_to_string(openstack.clouds_yaml())?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"clouds.yaml": clouds},
        "metadata": {"name": "credentials", "namespace": ACCESS.namespace}});
    let reference =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": "c"});
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": ACCESS.namespace}, "spec": {"infrastructureRef": reference}});
    let infrastructure = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
        "metadata": {"name": "c", "namespace": ACCESS.namespace},
        "spec": {"identityRef": {"name": "credentials", "cloudName": "lab"}, "managedSubnets": [{"cidr": "10.8.0.0/24"}],
            "externalNetwork": {"filter": {"name": "public"}}, "managedSecurityGroups": {}}});
    let bootstrap = json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": "bootstrap", "namespace": ACCESS.namespace}, "stringData": {"value": "#cloud-config"}});
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": [secret, cluster, infrastructure, bootstrap]})
        .to_string())
}

/// Returns the manifest of the Machines.
fn list(count: usize) -> String {
    let pair = |number: usize| {
        let name = format!("m{number}");
        let metadata = json!({"name": name, "namespace": ACCESS.namespace,
            "labels": {"cluster.x-k8s.io/cluster-name": "c"}});
        let reference =
            json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": name});
        let infrastructure = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "OpenStackMachine", "metadata": metadata, "spec": {"flavor": {"filter": {"name": "m1.small"}},
                "image": {"filter": {"name": "ubuntu-2204-kube-v1.29.0"}}}});
        let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": metadata,
            "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "bootstrap"},
                "infrastructureRef": reference}});
        [infrastructure, machine]
    };
    let items: Vec<Value> = (0..count).flat_map(pair).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}
