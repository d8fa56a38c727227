//! End of an upgrade of a topology before its target: the version goes back to the one that the control plane takes.
//!
//! The rule that a version does not decrease protects the parts of a cluster, which cannot go down. Here none goes down.

use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use apiserver_types::{UPGRADE_STEP, UPGRADE_STOP};
use serde_json::Value;

use super::class::GROUP;
use super::upgrade::{CONTROL_PLANE, OWNED_LABEL};
use crate::rules::json_fields::{annotation, text};
use crate::rules::machine_template::CLUSTER_LABEL;
use crate::rules::semver::Semver;

/// Reports whether a lower version of a topology ends its upgrade. The annotation of the verb must name the version, which is
/// that of the step in progress, or without a step that of the control plane. No part may have a newer version.
pub(super) async fn is_stop(
    now: &Semver,
    (new, old): (&Value, &Value),
    others: &dyn ObjectReader,
) -> ApiResult<bool> {
    let requested = text(new, "spec.topology.version");
    if requested.is_none() || annotation(new, UPGRADE_STOP) != requested {
        return Ok(false);
    }
    let part = |field: &str| text(old, &format!("spec.controlPlaneRef.{field}")).unwrap_or_default();
    let (group, kind, name) = (part("apiGroup"), part("kind"), part("name"));
    if (group, kind) != CONTROL_PLANE {
        return Ok(false);
    }
    let namespace = object::namespace(old);
    let Some(plane) = others.find(group, "kubeadmcontrolplanes", namespace, name).await? else {
        return Ok(false);
    };
    let version = text(&plane, "spec.version");
    if annotation(old, UPGRADE_STEP).or(version) != requested || !is_at_most(version, now) {
        return Ok(false);
    }
    for plural in ["machinedeployments", "machinepools"] {
        let pools = others.all(GROUP, plural, namespace).await?;
        let mut own = pools.iter().filter(|pool| is_of(pool, old));
        if !own.all(|pool| is_at_most(text(pool, "spec.template.spec.version"), now)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_at_most(version: Option<&str>, now: &Semver) -> bool {
    let version = version.and_then(Semver::parse_tolerant);
    version.is_some_and(|version| version.numbers <= now.numbers)
}

/// Reports whether the topology of a Cluster has made an object.
fn is_of(object: &Value, cluster: &Value) -> bool {
    let label = |key: &str| object::labels(object).and_then(|labels| labels.get(key)?.as_str());
    object::namespace(object) == object::namespace(cluster)
        && label(CLUSTER_LABEL) == Some(object::name(cluster))
        && label(OWNED_LABEL) == Some("")
}
