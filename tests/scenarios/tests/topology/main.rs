//! Tests of managed topologies with the whole server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod classes;
mod classless;
mod crashes;
mod hollow;
mod hollow_changes;
mod life;
mod many;
mod names;
mod overrides;
mod plans;
mod rebase;
mod shipped;
mod testbed;
mod upgrade;
mod upgrade_verb;

use tests_scenarios::World;

/// Class, its templates, and a Cluster of it.
const MANIFEST: &str = include_str!("class.yaml");

/// Returns the manifest for a namespace, with a Cluster of this version.
fn manifest(world: &World, namespace: &str, version: &str) -> String {
    let clouds = world.cloud.clouds_yaml("demo");
    let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
    MANIFEST.replace("NAMESPACE", namespace).replace("CLOUDS\n", &clouds).replace("VERSION", version)
}
