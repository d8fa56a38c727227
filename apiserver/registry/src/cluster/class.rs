//! Rules of a Cluster's topology that need other objects: its class, and what it is made of already.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::object;
use apiserver_machinery::others::{Judgement, Others};
use apiserver_machinery::status::ApiResult;
use serde_json::Value;

use super::topology::{POOLS, SKIP_ORDER};
use crate::cluster_class::{validate_change, variables};
use crate::machine_template::CLUSTER_LABEL;
use crate::shape::{annotation, get, items, text};
use crate::{replicas, version};

/// API group of all these kinds.
const GROUP: &str = "cluster.x-k8s.io";

/// Objects that a topology made have this label.
const OWNED_LABEL: &str = "topology.cluster.x-k8s.io/owned";

/// Hooks that have not come to an end, separated by commas.
const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";

/// The hook that must have, before the next change of version.
const AFTER_UPGRADE: &str = "AfterClusterUpgrade";

/// The namespace and name of the class of a cluster.
pub(crate) fn class_of(cluster: &Value) -> Option<(String, String)> {
    let name = text(cluster, "spec.topology.classRef.name").filter(|name| !name.is_empty())?;
    let namespace = text(cluster, "spec.topology.classRef.namespace").filter(|found| !found.is_empty());
    Some((namespace.unwrap_or_else(|| object::namespace(cluster)).to_owned(), name.to_owned()))
}

/// What the class, the control plane and the workers say about a change of the topology.
pub(super) async fn judge(new: &Value, old: Option<&Value>, others: &dyn Others) -> ApiResult<Judgement> {
    let mut judgement = Judgement::default();
    let topology = |cluster: &Value| get(cluster, "spec.topology").cloned();
    if topology(new).is_none() || old.is_some_and(|old| topology(old) == topology(new)) {
        return Ok(judgement);
    }
    let Some((namespace, name)) = class_of(new) else { return Ok(judgement) };
    let class = others.find(GROUP, "clusterclasses", &namespace, &name).await?;
    match &class {
        Some(class) => judge_by_class(new, class, &mut judgement.faults),
        None => judgement.warnings.push(format!(
            "Cluster refers to ClusterClass {namespace}/{name}, but this ClusterClass does not exist. \
             Cluster topology has not been fully validated. \
             The ClusterClass must be created to reconcile the Cluster"
        )),
    }
    if let Some(old) = old.filter(|old| topology(old).is_some()) {
        judge_version(new, old, class.as_ref(), others, &mut judgement).await?;
        judge_class_change(new, old, class.as_ref(), others, &mut judgement.faults).await?;
    }
    Ok(judgement)
}

/// What a class has must be chosen from.
fn judge_by_class(new: &Value, class: &Value, faults: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.topology");
    let wanted = get(new, "spec.topology.version").unwrap_or(&Value::Null);
    let mut versions = items(class, "spec.kubernetesVersions").peekable();
    if versions.peek().is_some() && !versions.any(|(_, version)| version == wanted) {
        let detail = "version must match one of the versions defined in the ClusterClass";
        faults.push(FieldError::invalid(path.child("version"), wanted, detail));
    }
    for list in POOLS {
        for (_, pool) in items(new, &format!("spec.topology.workers.{list}")) {
            let [name, of] =
                ["name", "class"].map(|field| pool.get(field).and_then(Value::as_str).unwrap_or_default());
            let at = path.child("workers").child(list).key(name);
            let mut classes = items(class, &format!("spec.workers.{list}")).map(|(_, class)| class);
            let Some(found) = classes.find(|class| class.get("class").and_then(Value::as_str) == Some(of))
            else {
                let (kind, class) = (list.trim_end_matches('s'), object::name(class));
                let kind = kind.replacen('m', "M", 1);
                let detail = format!("{kind}Class with name {of:?} does not exist in ClusterClass {class:?}");
                faults.push(FieldError::invalid(at.child("class"), &Value::from(of), &detail));
                continue;
            };
            if list == "machineDeployments" && replicas::is_autoscaled(found) {
                judge_autoscaled(new, pool, of, &at, faults);
            }
        }
    }
    variables::validate_values(new, class, faults);
}

fn judge_autoscaled(new: &Value, pool: &Value, class: &str, at: &FieldPath, faults: &mut Vec<FieldError>) {
    let Some(replicas) = pool.get("replicas") else { return };
    let (name, namespace) = (object::name(new), object::namespace(new));
    let detail = format!(
        "cannot be set for cluster {name:?} in namespace {namespace:?} if the source class {class:?} of this MachineDeploymentTopology has autoscaler annotations"
    );
    faults.push(FieldError::invalid(at.child("replicas"), replicas, &detail));
}

/// A version goes up by one minor unless the class knows the way, and when the last one has arrived.
async fn judge_version(
    new: &Value,
    old: &Value,
    class: Option<&Value>,
    others: &dyn Others,
    judgement: &mut Judgement,
) -> ApiResult<()> {
    if annotation(new, SKIP_ORDER).is_some() {
        let warning =
            format!("Skipping version validation for Cluster because annotation {SKIP_ORDER:?} is set.");
        judgement.warnings.push(warning);
        return Ok(());
    }
    let of = |cluster| text(cluster, "spec.topology.version").unwrap_or_default();
    let (wanted, before) = (of(new), of(old));
    let (Some(now), Some(then)) = (version::parse(wanted), version::parse(before)) else { return Ok(()) };
    if wanted == before {
        return Ok(());
    }
    let mut refuse = |detail: &str| {
        let path = FieldPath::new("spec.topology.version");
        judgement.faults.push(FieldError::invalid(path, &Value::from(wanted), detail));
    };
    let (to, from) = (wanted.trim_start_matches('v'), before.trim_start_matches('v'));
    if now >= (then.0, then.1.saturating_add(2), 0) && !class.is_some_and(knows_the_way) {
        refuse(&format!("version cannot be increased from {from:?} to {to:?}"));
        return Ok(());
    }
    let hooks = annotation(new, PENDING_HOOKS).unwrap_or_default();
    if hooks.split(',').any(|hook| hook.trim() == AFTER_UPGRADE) {
        refuse(&format!("version cannot be changed when the {AFTER_UPGRADE:?} hook is still blocking"));
        return Ok(());
    }
    let waits_for = waits_for(old, before, others).await?;
    match waits_for.as_slice() {
        [] => {}
        [one] => refuse(&format!("version cannot be changed: {one}")),
        many => refuse(&format!("version cannot be changed: [{}]", many.join(", "))),
    }
    Ok(())
}

fn knows_the_way(class: &Value) -> bool {
    items(class, "spec.kubernetesVersions").next().is_some()
        || text(class, "spec.upgrade.external.generateUpgradePlanExtension")
            .is_some_and(|name| !name.is_empty())
}

/// What is not at the version that was wanted so far. What is not there yet is not waited for: it
/// will be made with the new one.
async fn waits_for(old: &Value, before: &str, others: &dyn Others) -> ApiResult<Vec<String>> {
    let (namespace, from) = (object::namespace(old), before.trim_start_matches('v'));
    let mut found = Vec::new();
    if text(old, "spec.controlPlaneRef.kind") == Some("KubeadmControlPlane") {
        let name = text(old, "spec.controlPlaneRef.name").unwrap_or_default();
        let group = text(old, "spec.controlPlaneRef.apiGroup").unwrap_or_default();
        let plane = others.find(group, "kubeadmcontrolplanes", namespace, name).await?;
        let at = plane.as_ref().and_then(|plane| text(plane, "spec.version"));
        if let Some(at) = at.map(|at| at.trim_start_matches('v')).filter(|at| *at != from) {
            found.push(format!(
                "Cluster.spec.topology.version {from} was not propagated to control plane yet (control plane version {at})"
            ));
        }
    }
    for (plural, kind) in [("machinedeployments", "MachineDeployments"), ("machinepools", "MachinePools")] {
        let pools = others.all(GROUP, plural).await?;
        let late = pools.iter().filter(|pool| {
            let label = |key: &str| object::labels(pool).and_then(|labels| labels.get(key)?.as_str());
            object::namespace(pool) == namespace
                && label(CLUSTER_LABEL) == Some(object::name(old))
                && label(OWNED_LABEL).is_some()
                && text(pool, "spec.template.spec.version") != Some(before)
        });
        let late: Vec<&str> = late.map(object::name).collect();
        if !late.is_empty() {
            let late = late.join(", ");
            found.push(format!("there are still {kind} completing a previous upgrade: [{late}]"));
        }
    }
    Ok(found)
}

/// A class may be exchanged for another with templates of the same kinds.
async fn judge_class_change(
    new: &Value,
    old: &Value,
    class: Option<&Value>,
    others: &dyn Others,
    faults: &mut Vec<FieldError>,
) -> ApiResult<()> {
    let (Some(to), Some(from)) = (class_of(new), class_of(old)) else { return Ok(()) };
    if to == from {
        return Ok(());
    }
    let path = FieldPath::new("spec.topology.class");
    let key = |(namespace, name): &(String, String)| format!("{namespace}/{name}");
    let Some(class) = class else {
        let detail = format!("ClusterClass {} not found", key(&to));
        faults.push(FieldError::forbidden(path, &detail));
        return Ok(());
    };
    match others.find(GROUP, "clusterclasses", &from.0, &from.1).await? {
        Some(former) => validate_change(class, &former, faults),
        None => {
            let (to, name, from) = (key(&to), &from.1, key(&from));
            let detail = format!(
                "valid ClusterClass with name {from:?} could not be retrieved, change from class {from:?} to class {to:?} cannot be validated. Error: clusterclasses.cluster.x-k8s.io {name:?} not found"
            );
            faults.push(FieldError::forbidden(path, &detail));
        }
    }
    Ok(())
}
