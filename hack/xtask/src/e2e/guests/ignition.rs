//! Scenario of a worker that Ignition configures, as on Flatcar. Other workers boot by cloud-init.

use anyhow::Context;

use super::cluster::Cluster;
use super::fields::{self, Effect};
use super::nodes::ready;
use crate::e2e::openstack::text;
use crate::run;

/// Name of the Machine in the manifest.
const NAME: &str = "ignition";

/// Field and its effect, as `report` in `hack/guests/ignition.yaml` writes both.
const EFFECTS: [Effect; 16] = [
    ("secret", "640 daemon:adm from-a-secret"),
    ("base64", "decoded"),
    ("appended", "one line more"),
    ("user", "Operations:/home/ops:/bin/sh ops adm users"),
    ("locked", "L"),
    ("sudo", "root"),
    ("key", "ssh-ed25519 ops@lab"),
    ("password", "P users Match User login PasswordAuthentication yes"),
    ("ntp", "active 192.0.2.123"),
    ("partitions", "gpt part 63M"),
    ("disk", "ext4 rw,noatime node-data on the disk"),
    ("proxy", "HTTPS_PROXY=http://192.0.2.3:3128"),
    ("verbosity", "yes"),
    ("additional", "750 team linked # for networkd"),
    ("unit", "active started"),
    ("commands", "before after"),
];

/// Creates a worker whose user data is for Ignition. It must become Ready with the effect of each field, and can be deleted.
pub(super) fn joins(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let others = cluster.machines()?.len();
    let manifest = cluster.filled(&std::fs::read_to_string(run::root()?.join("hack/guests/ignition.yaml"))?);
    let file = cluster.lab.file("ignition.yaml", &manifest)?;
    cluster.host(&["apply", "-f", &file])?;
    ready(cluster, others + 1)?;
    let workers = cluster.workers()?;
    let worker = workers.iter().find(|it| text(it, "/metadata/name") == NAME);
    fields::on(cluster, worker.context("the worker does not exist")?, &EFFECTS)?;
    cluster.host(&["delete", "machine", NAME, "--timeout=120s"])?;
    ready(cluster, others)
}
