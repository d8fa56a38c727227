//! Version changes of a topology: allowed versions, and conditions for the next change.

use std::cmp::Ordering;

use apiserver_machinery::object;
use apiserver_machinery::related::{ObjectReader, Verdict};
use apiserver_machinery::status::ApiResult;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use super::class::GROUP;
use super::topology::SKIP_ORDER;
use super::upgrade_stop;
use crate::rules::json_fields::{annotation, get, items, text};
use crate::rules::label_selection::LabelSelection;
use crate::rules::machine_template::CLUSTER_LABEL;
use crate::rules::semver::Semver;

/// Label of the objects that a topology has created.
pub(super) const OWNED_LABEL: &str = "topology.cluster.x-k8s.io/owned";

/// Annotation with the hooks that have not finished, separated by commas.
pub(super) const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";

/// Hook that must finish before the next version change.
pub(super) const AFTER_UPGRADE: &str = "AfterClusterUpgrade";

/// Group and kind of the control plane that this server stores.
pub(super) const CONTROL_PLANE: (&str, &str) = ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane");

/// Adds the error of a version change, if there is one.
pub(super) async fn validate(
    new: &Value,
    old: &Value,
    class: &Value,
    others: &dyn ObjectReader,
    verdict: &mut Verdict,
) -> ApiResult<()> {
    let path = FieldPath::new("spec.topology.version");
    let of = |cluster| text(cluster, "spec.topology.version").unwrap_or_default();
    let (requested, before) = (of(new), of(old));
    let then = Semver::parse_tolerant(before);
    if then.is_none() {
        let detail = "old version must be a valid semantic version";
        verdict.errors.push(FieldError::invalid(path.clone(), &Value::from(before), detail));
    }
    if annotation(new, SKIP_ORDER).is_some() {
        let warning =
            format!("Skipping version validation for Cluster because annotation {SKIP_ORDER:?} is set.");
        verdict.warnings.push(warning);
        return Ok(());
    }
    // Another check reports an invalid version.
    let (Some(now), Some(then)) = (Semver::parse_tolerant(requested), then) else { return Ok(()) };
    if let Some(detail) = validate_step(&now, &then, (new, old), class, others).await? {
        verdict.errors.push(FieldError::invalid(path, &Value::from(requested), &detail));
    }
    Ok(())
}

/// Validates that the version goes up by one minor version, unless the class defines the upgrade path, and that the
/// previous upgrade has finished. It goes down only if the verb `upgrade` has cancelled the upgrade.
async fn validate_step(
    now: &Semver,
    then: &Semver,
    (new, old): (&Value, &Value),
    class: &Value,
    others: &dyn ObjectReader,
) -> ApiResult<Option<String>> {
    let (from, to) = (then.to_string(), now.to_string());
    if from == to {
        return Ok(None);
    }
    if now.numbers < then.numbers {
        if upgrade_stop::is_stop(now, (new, old), others).await? {
            return Ok(None);
        }
        return Ok(Some(format!("version cannot be decreased from {from:?} to {to:?}")));
    }
    let ceiling = (then.numbers.0, then.numbers.1.saturating_add(2), 0);
    if now.numbers >= ceiling && !knows_the_way(class) {
        return Ok(Some(format!("version cannot be increased from {from:?} to {to:?}")));
    }
    let hooks = annotation(new, PENDING_HOOKS).unwrap_or_default();
    if hooks.split(',').any(|hook| hook == AFTER_UPGRADE) {
        return Ok(Some(format!(
            "version cannot be changed when the {AFTER_UPGRADE:?} hook is still blocking"
        )));
    }
    let mut waits_for: Vec<String> = wait_for_control_plane(old, then, others).await?.into_iter().collect();
    let namespace = object::namespace(old);
    let machines = others.all(GROUP, "machines", namespace).await?;
    for (plural, kind) in [("machinedeployments", "MachineDeployment"), ("machinepools", "MachinePool")] {
        let pools = others.all(GROUP, plural, namespace).await?;
        waits_for.extend(wait_for_pools(old, then, kind, &pools, &machines));
    }
    Ok(match waits_for.as_slice() {
        [] => None,
        [one] => Some(format!("version cannot be changed: {one}")),
        many => Some(format!("version cannot be changed: [{}]", many.join(", "))),
    })
}

fn knows_the_way(class: &Value) -> bool {
    items(class, "spec.kubernetesVersions").next().is_some()
        || text(class, "spec.upgrade.external.generateUpgradePlanExtension")
            .is_some_and(|name| !name.is_empty())
}

/// Returns the reason why the control plane has not reached the previous version. A control plane of another kind is
/// not stored here, and cannot be checked.
async fn wait_for_control_plane(
    old: &Value,
    then: &Semver,
    others: &dyn ObjectReader,
) -> ApiResult<Option<String>> {
    let part = |field: &str| text(old, &format!("spec.controlPlaneRef.{field}")).unwrap_or_default();
    let unseen = "failed to check if control plane is upgrading: failed to get control plane object";
    let (group, kind, name) = (part("apiGroup"), part("kind"), part("name"));
    if get(old, "spec.controlPlaneRef").is_none() {
        return Ok(Some(format!("{unseen}: cannot get object - object reference not set")));
    }
    if (group, kind) != CONTROL_PLANE {
        return Ok(None);
    }
    let namespace = object::namespace(old);
    let Some(plane) = others.find(group, "kubeadmcontrolplanes", namespace, name).await? else {
        return Ok(Some(format!(
            "{unseen}: failed to retrieve {kind} {namespace}/{name}: {kind}.{group} {name:?} not found"
        )));
    };
    let Some(version) = text(&plane, "spec.version").and_then(Semver::parse_tolerant) else {
        let version = text(&plane, "spec.version").unwrap_or_default();
        return Ok(Some(format!(
            "failed to check if control plane is upgrading: failed to parse control plane version {version}"
        )));
    };
    if version.to_string() != then.to_string() {
        return Ok(Some(format!(
            "Cluster.spec.topology.version {then} was not propagated to control plane yet (control plane version {version})"
        )));
    }
    Ok(wait_for_machines_of(&plane, &version).map(str::to_owned))
}

/// Returns the reason why the Machines of a control plane have not reached its version.
fn wait_for_machines_of(plane: &Value, version: &Semver) -> Option<&'static str> {
    let mut found: Vec<&str> =
        items(plane, "status.versions").filter_map(|(_, entry)| entry.get("version")?.as_str()).collect();
    if found.is_empty() {
        found.extend(text(plane, "status.version"));
    }
    if found.first().is_none_or(|first| first.is_empty()) {
        return Some("control plane is currently provisioning");
    }
    // Builds that differ and have no order count as different versions.
    let is_behind = |found: Semver| {
        !matches!(version.compare_with_builds(&found), Some(Ordering::Less | Ordering::Equal))
    };
    found
        .into_iter()
        .filter_map(Semver::parse_tolerant)
        .any(is_behind)
        .then_some("control plane is still completing a previous upgrade")
}

/// Returns the reason why the workers have not reached the previous version.
///
/// For a MachinePool, upstream reads the Nodes in the workload cluster. Here the version in the pool counts.
fn wait_for_pools(
    old: &Value,
    then: &Semver,
    kind: &str,
    pools: &[Value],
    machines: &[Value],
) -> Option<String> {
    let namespace = object::namespace(old);
    let mut late = Vec::new();
    for pool in pools {
        let label = |key: &str| object::labels(pool).and_then(|labels| labels.get(key)?.as_str());
        if object::namespace(pool) != namespace
            || label(CLUSTER_LABEL) != Some(object::name(old))
            || label(OWNED_LABEL) != Some("")
        {
            continue;
        }
        let name = object::name(pool);
        let version = text(pool, "spec.template.spec.version").unwrap_or_default();
        let Some(found) = Semver::parse_tolerant(version) else {
            return Some(format!(
                "failed to check if {kind} {name} is upgrading: failed to parse version {version}"
            ));
        };
        if found.to_string() != then.to_string() {
            late.push(name);
        } else if kind == "MachineDeployment" {
            match is_rolling(pool, version, machines) {
                Ok(true) => late.push(name),
                Ok(false) => {}
                Err(machine) => {
                    return Some(format!(
                        "failed to check if {kind} {name} is upgrading: Machine {machine} has no version"
                    ));
                }
            }
        }
    }
    (!late.is_empty())
        .then(|| format!("there are still {kind}s completing a previous upgrade: [{}]", late.join(", ")))
}

/// Reports whether a Machine of the deployment, or its Node, has another version. The error is the name of a Machine
/// without a version.
fn is_rolling<'a>(deployment: &Value, version: &str, machines: &'a [Value]) -> Result<bool, &'a str> {
    let selection = get(deployment, "spec.selector").and_then(|selector| LabelSelection::read(selector).ok());
    let Some(selection) = selection else { return Ok(false) };
    let is_own = |machine: &&Value| {
        object::namespace(machine) == object::namespace(deployment)
            && selection.matches(object::labels(machine))
    };
    for machine in machines.iter().filter(is_own) {
        let Some(found) = text(machine, "spec.version").filter(|found| !found.is_empty()) else {
            return Err(object::name(machine));
        };
        let runs = text(machine, "status.nodeInfo.kubeletVersion").filter(|runs| !runs.is_empty());
        if found != version || runs.is_some_and(|runs| runs != version) {
            return Ok(true);
        }
    }
    Ok(false)
}
