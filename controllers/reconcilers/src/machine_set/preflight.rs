//! Preflight checks: reasons not to create Machines at present. Texts and names are upstream's. A text also names the field
//! that is missing.

use apiserver_types::{Cluster, ContractVersionedObjectReference, MachineSet};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::ResourceExt;
use kube::api::DynamicObject;
use semver::Version;
use serde_json::Value;

use crate::machine_labels::SKIP_PREFLIGHT;
use crate::machine_versions::parse;
use crate::templates;

/// Annotation of a Cluster with the version that a stepwise upgrade is at.
const UPGRADE_STEP: &str = "topology.internal.cluster.x-k8s.io/upgrade-step";

/// End of the text of each check that fails.
pub(crate) const FAILED: &str = "preflight check failed)";

/// Minor versions by which a kubelet may be older than the API server: Kubernetes' policy.
const OLDEST_KUBELET: u64 = 3;

/// Check of a subject. Returns the reason of a failure.
type Check = fn(&Subject<'_>) -> Option<String>;

/// Objects and versions that are checked.
struct Subject<'a> {
    cluster: &'a Cluster,
    control_plane: &'a DynamicObject,
    /// Kind and full name of the control plane, for texts.
    name: String,
    wanted: Version,
    /// Version of the Machines of the set.
    machines: Option<Version>,
    /// The bootstrap data is made for kubeadm.
    is_kubeadm: bool,
}

/// Returns the texts of the checks that fail.
///
/// # Errors
/// The kind of the control plane is not served, or the API's own failure.
pub(crate) async fn check(
    context: &ControllerContext,
    set: &MachineSet,
    cluster: &Cluster,
) -> Result<Vec<String>, ReconcileError> {
    let Some(reference) = &cluster.spec.control_plane_ref else { return Ok(Vec::new()) };
    let namespace = set.namespace().unwrap_or_default();
    let template = match &set.spec.template.spec.bootstrap.config_ref {
        Some(template)
            if !set.annotations().contains_key(SKIP_PREFLIGHT) && templates::is_served(context, template) =>
        {
            templates::read(context, &namespace, template).await?
        }
        _ => None,
    };
    let skipped = set.annotations().get(SKIP_PREFLIGHT).cloned();
    let skipped = skipped.or_else(|| template?.annotations().get(SKIP_PREFLIGHT).cloned());
    let skipped = skipped.unwrap_or_default();
    let control_plane = match templates::is_served(context, reference) {
        true => templates::read(context, &namespace, reference).await?,
        false => None,
    };
    Ok(failures(set, cluster, reference, control_plane.as_ref(), &skipped))
}

/// Returns the texts of the checks that fail. Pure.
fn failures(
    set: &MachineSet,
    cluster: &Cluster,
    reference: &ContractVersionedObjectReference,
    control_plane: Option<&DynamicObject>,
    skipped: &str,
) -> Vec<String> {
    let is_skipped =
        |name: &str| skipped.split(',').any(|it| matches!(it.trim(), "All") || it.trim() == name);
    if is_skipped("All") {
        return Vec::new();
    }
    let name = format!("{} {}/{}", reference.kind, set.namespace().unwrap_or_default(), reference.name);
    let failed = |check: &str, text: &str| format!("{text} (\"{check}\" {FAILED}");
    let Some(control_plane) = control_plane else {
        return vec![failed("ControlPlaneIsStable", &format!("{name} does not exist"))];
    };
    let Some(wanted) = text(control_plane, "/spec/version").and_then(parse) else { return Vec::new() };
    let spec = &set.spec.template.spec;
    let is_kubeadm = spec.bootstrap.config_ref.as_ref().is_some_and(|it| it.kind == "KubeadmConfigTemplate");
    let machines = spec.version.as_deref().and_then(parse);
    let subject = Subject { cluster, control_plane, name, wanted, machines, is_kubeadm };
    let checks: [(&str, Check); 4] = [
        ("ControlPlaneIsStable", unstable),
        ("KubernetesVersionSkew", kubernetes_skew),
        ("KubeadmVersionSkew", kubeadm_skew),
        ("ControlPlaneVersionSkew", control_plane_skew),
    ];
    let run = checks.into_iter().filter(|(check, _)| !is_skipped(check));
    run.filter_map(|(check, run)| Some(failed(check, &run(&subject)?))).collect()
}

fn text<'a>(object: &'a DynamicObject, pointer: &str) -> Option<&'a str> {
    object.data.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Returns the version of a Cluster with a topology.
fn topology_version(cluster: &Cluster) -> Option<&str> {
    cluster.spec.topology.as_ref().map(|topology| topology.version.as_str())
}

fn unstable(subject: &Subject<'_>) -> Option<String> {
    let name = &subject.name;
    let spec = text(subject.control_plane, "/spec/version").unwrap_or_default();
    if let Some(version) = topology_version(subject.cluster).filter(|version| *version != spec) {
        let step = subject.cluster.annotations().get(UPGRADE_STEP);
        if step.map(String::as_str) != Some(spec) {
            return Some(format!("{name} has a pending version upgrade to {version}"));
        }
    }
    let entries = subject.control_plane.data.pointer("/status/versions").and_then(Value::as_array);
    let several = entries.into_iter().flatten().filter_map(|it| it.get("version")?.as_str());
    let mut running: Vec<&str> = several.collect();
    if running.is_empty() {
        running.extend(text(subject.control_plane, "/status/version"));
    }
    if running.is_empty() {
        // A provider that never reports a version would block the set for ever.
        return Some(format!("{name} is provisioning, its status.version is not set"));
    }
    let is_behind = |version: &str| parse(version).is_none_or(|version| version < subject.wanted);
    let upgrading = |version: &str| format!("{name} is upgrading, its status.versions has {version}");
    running.into_iter().find_map(|version| is_behind(version).then(|| upgrading(version)))
}

fn kubernetes_skew(subject: &Subject<'_>) -> Option<String> {
    let machines = subject.machines.as_ref()?;
    let wanted = &subject.wanted;
    let begin = format!(
        "MachineSet version ({machines}) and ControlPlane version ({wanted}) do not conform to the kubernetes version \
         skew policy as MachineSet version is"
    );
    if machines.minor > wanted.minor {
        return Some(format!("{begin} higher than ControlPlane version"));
    }
    let is_old = machines.minor.saturating_add(OLDEST_KUBELET) < wanted.minor;
    is_old.then(|| {
        format!("{begin} more than {OLDEST_KUBELET} minor versions older than the ControlPlane version")
    })
}

fn kubeadm_skew(subject: &Subject<'_>) -> Option<String> {
    let machines = subject.machines.as_ref().filter(|_| subject.is_kubeadm)?;
    let wanted = &subject.wanted;
    let differs = (machines.major, machines.minor) != (wanted.major, wanted.minor);
    differs.then(|| {
        format!(
            "MachineSet version ({machines}) and ControlPlane version ({wanted}) do not conform to kubeadm version \
             skew policy as kubeadm only supports joining with the same major+minor version as the control plane"
        )
    })
}

fn control_plane_skew(subject: &Subject<'_>) -> Option<String> {
    let machines = subject.machines.as_ref().filter(|_| topology_version(subject.cluster).is_some())?;
    (*machines != subject.wanted).then(|| {
        format!(
            "MachineSet version ({machines}) is not yet the same as the ControlPlane version ({}), waiting for version \
             to be propagated to the MachineSet",
            subject.wanted
        )
    })
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterSpec, MachineSetSpec, Topology};
    use kube::api::ApiResource;
    use serde_json::json;

    use super::*;

    fn reference(kind: &str) -> ContractVersionedObjectReference {
        let (api_group, name) = ("g".to_owned(), "cp".to_owned());
        ContractVersionedObjectReference { api_group, kind: kind.to_owned(), name }
    }

    #[allow(clippy::needless_pass_by_value, reason = "a test reads better with a literal")]
    fn check(
        machines: &str,
        spec: &str,
        status: Value,
        topology: Option<&str>,
        skipped: &str,
    ) -> Vec<String> {
        let topology =
            topology.map(|version| Topology { version: version.to_owned(), ..Topology::default() });
        let cluster = Cluster::new("c", ClusterSpec { topology, ..ClusterSpec::default() });
        let mut set = MachineSet::new("ms", MachineSetSpec::default());
        set.metadata.namespace = Some("ns".to_owned());
        set.spec.template.spec.version = Some(machines.to_owned()).filter(|it| !it.is_empty());
        set.spec.template.spec.bootstrap.config_ref = Some(reference("KubeadmConfigTemplate"));
        let resource = ApiResource::erase::<MachineSet>(&());
        let mut control_plane = DynamicObject::new("cp", &resource);
        control_plane.data = json!({"spec": {"version": spec}, "status": status});
        let found = Some(&control_plane);
        failures(&set, &cluster, &reference("KubeadmControlPlane"), found, skipped)
    }

    #[test]
    fn every_failing_check_is_reported_unless_it_is_skipped() {
        let stable = json!({"versions": [{"version": "v1.33.0"}]});
        let table = [
            ("v1.33.0", "v1.33.0", stable.clone(), None, "", vec![]),
            ("", "v1.33.0", stable.clone(), None, "", vec![]),
            ("v1.33.0", "", json!({}), None, "", vec![]),
            ("v1.33.0", "v1.33.0", json!({"version": "v1.33.0"}), None, "", vec![]),
            (
                "v1.33.0",
                "v1.33.0",
                json!({}),
                None,
                "",
                vec![
                    "KubeadmControlPlane ns/cp is provisioning, its status.version is not set \
                     (\"ControlPlaneIsStable\" preflight check failed)",
                ],
            ),
            (
                "v1.33.0",
                "v1.33.1",
                stable.clone(),
                None,
                "",
                vec!["KubeadmControlPlane ns/cp is upgrading, its status.versions has v1.33.0"],
            ),
            (
                "v1.33.0",
                "v1.33.0",
                stable.clone(),
                Some("v1.34.0"),
                "",
                vec!["has a pending version upgrade to v1.34.0"],
            ),
            ("v1.34.0", "v1.33.0", stable.clone(), None, "", vec!["higher than", "kubeadm only supports"]),
            ("v1.30.0", "v1.33.0", stable.clone(), None, "KubeadmVersionSkew", vec![]),
            ("v1.29.0", "v1.33.0", stable.clone(), None, "KubeadmVersionSkew", vec!["more than 3 minor"]),
            ("v1.33.1", "v1.33.0", stable.clone(), Some("v1.33.0"), "", vec!["not yet the same"]),
            ("v1.29.0", "v1.33.0", stable, None, "KubeadmVersionSkew, KubernetesVersionSkew", vec![]),
            ("v1.29.0", "v1.34.0", json!({}), None, "All", vec![]),
        ];
        for (machines, spec, status, topology, skipped, expected) in table {
            let found = check(machines, spec, status, topology, skipped);
            let fits = found.len() == expected.len()
                && found.iter().zip(&expected).all(|(found, expected)| found.contains(expected));
            assert!(fits, "{machines} {spec} {topology:?} {skipped}: {found:?}, expected {expected:?}");
        }
    }

    #[test]
    fn a_control_plane_that_does_not_exist_blocks() {
        let set = MachineSet::new("ms", MachineSetSpec::default());
        let cluster = Cluster::new("c", ClusterSpec::default());
        let found = failures(&set, &cluster, &reference("KubeadmControlPlane"), None, "");
        assert!(found.len() == 1 && found[0].contains("does not exist"), "{found:?}");
    }
}
