//! Healing of a load balancer in ERROR: a failover that Octavia refuses, one that it makes, and another load balancer
//! behind the same address.

use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};

use super::super::lab::{Lab, until};
use super::super::openstack::{OpenStack, get, text};
use super::{ACCESS, members};
use crate::run;

/// Role with which Octavia accepts a failover.
const ROLE: &str = "load-balancer_admin";

/// Annotation with the time of the last failover.
const FAILOVER: &str = "capstan.dev/load-balancer-failover";

/// Annotation that requests another load balancer.
const RECREATE: &str = "capstan.dev/recreate-load-balancer";

/// Time without a change after which Octavia and Capstan count as done. Capstan makes changes within two seconds of each
/// other. Octavia sets the status of the load balancer after each one, so one in progress would hide the ERROR.
const REST: Duration = Duration::from_secs(10);

/// Sets the load balancer to ERROR, as a lost amphora does. Octavia refuses a failover to a member of the project, and
/// makes it for an administrator of load balancers. When it breaks again at once, the user has it replaced.
pub(super) fn healed(lab: &Lab, openstack: &OpenStack) -> anyhow::Result<()> {
    let first = at_rest(openstack)?;
    breaks(openstack, &first)?;
    look(lab, "1")?;
    until("the failover is refused", || has_event(lab, "LoadBalancerFailoverRefused"))?;
    openstack.records(&["grant", ROLE])?;
    let healed = with_role(lab, openstack, &first);
    openstack.records(&["withdraw", ROLE])?;
    healed
}

/// Changes the credentials to those of an administrator of load balancers, and has the load balancer healed.
fn with_role(lab: &Lab, openstack: &OpenStack, first: &str) -> anyhow::Result<()> {
    let credential = openstack.credential("balancer-administrator")?;
    write(lab, &openstack.clouds_with(&credential)?)?;
    // A pass with the earlier credentials would note another refusal.
    std::thread::sleep(REST);
    annotate(lab, &format!("{FAILOVER}-"))?;
    until("Octavia has failed the load balancer over", || {
        Ok(has_event(lab, "LoadBalancerFailover")? && members(openstack, 1)?)
    })?;
    let now = at_rest(openstack)?;
    ensure!(now == first, "load balancer {first} was replaced by {now}");
    breaks(openstack, first)?;
    look(lab, "2")?;
    until("the condition names the remedy", || {
        let path = r#"{.status.conditions[?(@.type=="APIEndpointReady")].message}"#;
        Ok(get(lab, &ACCESS, "openstackcluster/c", path)?.contains(RECREATE))
    })?;
    annotate(lab, &format!("{RECREATE}=1"))?;
    until("another load balancer has the members", || Ok(id(openstack)? != first && members(openstack, 1)?))?;
    at_rest(openstack)?;
    write(lab, &std::fs::read_to_string(openstack.clouds_yaml())?)?;
    openstack.records(&["revoke", text(&credential, "/id")]).map(|_| ())
}

/// Waits until the load balancer is complete and does not change. Returns its id.
fn at_rest(openstack: &OpenStack) -> anyhow::Result<String> {
    until("the load balancer is at rest", || {
        let before = openstack.records(&["load-balancers"])?;
        std::thread::sleep(REST);
        Ok(members(openstack, 1)? && openstack.records(&["load-balancers"])? == before)
    })?;
    id(openstack)
}

fn id(openstack: &OpenStack) -> anyhow::Result<String> {
    Ok(text(&openstack.records(&["load-balancers"])?, "/0/id").to_owned())
}

/// Sets the status in Octavia's database: nothing that a client may do breaks a load balancer.
fn breaks(openstack: &OpenStack, id: &str) -> anyhow::Result<()> {
    let update = format!("update load_balancer set provisioning_status = 'ERROR' where id = '{id}'");
    let mut command = Command::new("mariadb");
    command.arg("-S").arg(openstack.home().join("run/mysqld.sock")).args(["-u", "root", "octavia", "-e"]);
    run::output(command.arg(update))?;
    let status = openstack.records(&["load-balancers"])?;
    ensure!(text(&status, "/0/provisioning_status") == "ERROR", "{status:#}");
    Ok(())
}

/// Has Capstan look at the load balancer at once. By itself, it looks only after minutes.
fn look(lab: &Lab, count: &str) -> anyhow::Result<()> {
    annotate(lab, &format!("example.org/look={count}"))
}

fn annotate(lab: &Lab, annotation: &str) -> anyhow::Result<()> {
    let arguments = ["-n", ACCESS.namespace, "annotate", "--overwrite", "openstackcluster", "c", annotation];
    lab.kubectl(ACCESS.user, &arguments).map(|_| ())
}

fn has_event(lab: &Lab, reason: &str) -> anyhow::Result<bool> {
    let selector = format!("reason={reason}");
    let arguments = ["-n", ACCESS.namespace, "get", "events", "--field-selector", &selector, "-o", "json"];
    let found: Value = serde_json::from_str(&lab.kubectl(ACCESS.user, &arguments)?)?;
    Ok(found.get("items").and_then(Value::as_array).is_some_and(|items| !items.is_empty()))
}

/// Writes the Secret of the credentials.
fn write(lab: &Lab, clouds: &str) -> anyhow::Result<()> {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"clouds.yaml": clouds},
        "metadata": {"name": "credentials", "namespace": ACCESS.namespace}});
    let file = lab.file("balancer-credentials.json", &secret.to_string())?;
    lab.kubectl(ACCESS.user, &["apply", "-f", &file]).map(|_| ())
}
