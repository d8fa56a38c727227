//! Tests of MachineDeployments and MachineSets with the whole server. Machines become available without a cloud.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod crashes;
mod deadlines;
mod dry_runs;
mod life;
mod machines;
mod names;
mod obstacles;
mod plans;
mod revisions;
mod template_edits;
mod testbed;
mod watches;

use tests_scenarios::World;

/// Objects of a namespace: a Cluster, templates, and the MachineDeployment `md` with two Machines.
const MANIFEST: &str = include_str!("sets.yaml");

/// Bootstrap data of its own, so that no other controller is needed.
const SECRET: &str = "{dataSecretName: bootstrap}";

/// Bootstrap data from a template.
const TEMPLATE: &str =
    "{configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: join}}";

async fn create(world: &World, namespace: &str, bootstrap: &str) {
    let manifest = MANIFEST.replace("NAMESPACE", namespace).replace("BOOTSTRAP", bootstrap);
    world.create(&manifest).await.unwrap();
}
