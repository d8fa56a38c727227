//! Bundles of add-ons for workload clusters: a real kube-apiserver accepts each of their objects.

use anyhow::{Context, ensure};
use serde_json::Value;

use super::components::{self, FOREIGN};
use super::{Packaged, monitoring, rendered};

/// Bundle for clusters with the Prometheus Operator.
const MONITORING: &str = "monitoring";

/// Folders of `manifests/addons`, in the order of their names.
const BUNDLES: [&str; 8] =
    ["calico", "cilium", "cinder-csi", "flannel", "metrics-server", MONITORING, "openstack-ccm", "traefik"];

/// Scenario: the API server of a cluster accepts the manifests in the ConfigMaps of each bundle.
pub(super) fn accepted(packaged: &Packaged<'_>) -> anyhow::Result<()> {
    let folders = std::fs::read_dir(packaged.manifests.join("addons"))?;
    let mut found = folders
        .map(|entry| anyhow::Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    found.sort();
    ensure!(found == BUNDLES, "the bundles are {found:?}");
    BUNDLES.into_iter().filter(|bundle| *bundle != MONITORING).try_for_each(|bundle| accept(packaged, bundle))
}

/// Scenario: an API server with the kinds of the Prometheus Operator accepts our monitors and alerts, those of the add-ons
/// and those of Capstan. One without these kinds refuses them, and so does one for a field that the kinds do not have.
pub(super) fn monitored(packaged: &Packaged<'_>) -> anyhow::Result<()> {
    let refused =
        accept(packaged, MONITORING).err().context("the kinds of the Prometheus Operator are there")?;
    let text = format!("{refused:#}");
    ensure!(text.contains("no matches for kind"), "{text}");
    let kinds = monitoring::Kinds::create(packaged.lab)?;
    accept(packaged, MONITORING)?;
    let component = components::COMPONENTS.iter().find(|it| it.folder == MONITORING);
    let component = component.context("there is no component of this name")?;
    let own = components::kustomize(packaged, &rendered::EMBEDDED, &[component])?.only(&FOREIGN);
    ensure!(own.list().pointer("/items/1").is_some(), "Capstan has no monitor or no alerts of its own");
    packaged.apply("own-monitoring", &own, &["--dry-run=server", "--validate=strict"])?;
    let wrong = monitoring::with_unknown_field();
    let file = packaged.lab.file("wrong-monitor.json", &wrong.to_string())?;
    let options = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", &file];
    let refused = packaged.lab.kubectl("admin", &options).err();
    let refused = format!("{:#}", refused.context("an unknown field of a monitor is accepted")?);
    ensure!(refused.contains("podMetricEndpoints"), "{refused}");
    kinds.delete(packaged.lab)
}

/// Applies each manifest in the ConfigMaps of a bundle.
fn accept(packaged: &Packaged<'_>, bundle: &str) -> anyhow::Result<()> {
    let folder = packaged.manifests.join("addons").join(bundle);
    let rendered = rendered::kustomize(&packaged.lab.tools.kubectl, &folder)?.list();
    let items = rendered.get("items").and_then(Value::as_array).context("kustomize rendered no list")?;
    let maps: Vec<&Value> = items.iter().filter(|item| item["kind"] == "ConfigMap").collect();
    ensure!(!maps.is_empty(), "bundle {bundle} has no ConfigMap");
    for map in maps {
        for (file, text) in map.get("data").and_then(Value::as_object).into_iter().flatten() {
            let text = text.as_str().context("a value of a ConfigMap is no text")?;
            apply(packaged, text).with_context(|| format!("bundle {bundle}, file {file}"))?;
        }
    }
    Ok(())
}

/// Applies a manifest strictly in a dry run. Its Namespaces are created before, because a dry run creates none.
fn apply(packaged: &Packaged<'_>, text: &str) -> anyhow::Result<()> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(text).context("it is no YAML")?;
    let (namespaces, others): (Vec<Value>, Vec<Value>) = objects
        .into_iter()
        .filter(|object| !object.is_null())
        .partition(|object| object["kind"] == "Namespace");
    let apply = |objects: &[Value], options: &[&str]| {
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let file = packaged.lab.file("addon.json", &list.to_string())?;
        packaged.lab.kubectl("admin", &[&["apply", "--server-side", "-f", &file], options].concat()).map(drop)
    };
    if !namespaces.is_empty() {
        apply(&namespaces, &[])?;
    }
    apply(&others, &["--dry-run=server", "--validate=strict"])
}
