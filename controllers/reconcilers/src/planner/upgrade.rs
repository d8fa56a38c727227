//! Plan of the upgrade of a Cluster: the versions that its parts take, in their order, and what holds them.

use std::time::Duration;

use apiserver_types::{Cluster, Machine};
use controllers_runtime::ControllerContext;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::cluster::{CONTROL_PLANE, WORKERS, refused};
use super::{PlanError, drains};
use crate::CONTROL_PLANE_LABEL;
use crate::cluster_topology::{self, UpgradePreview, UpgradeStep};
use crate::machine_labels::DEPLOYMENT_NAME;
use crate::plan::held_by;

/// Returns the plan for a changed Cluster. `drained`: longest time of the reads for the drains of its Machines.
///
/// # Errors
/// The version cannot be reached, or the objects around the Cluster cannot be read.
pub(super) async fn plan(
    context: &ControllerContext,
    drained: Duration,
    cluster: Cluster,
) -> Result<Value, PlanError> {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let mut preview = cluster_topology::upgrade_preview(context, &cluster).await.map_err(refused)?;
    let mut obstacles = held_by(&cluster, &name, Some(&cluster));
    obstacles.append(&mut preview.obstacles);
    let preview = UpgradePreview { obstacles, ..preview };
    let goes = |machine: &Machine| is_replaced(machine, &name, &preview.steps);
    let drains = Box::pin(drains::blocked(context, drained, &namespace, &goes)).await;
    Ok(object(&namespace, &name, &preview, &drains))
}

/// Reports whether a step of the upgrade of a Cluster replaces a Machine, unless an extension server updates it in place.
fn is_replaced(machine: &Machine, cluster: &str, steps: &[UpgradeStep]) -> bool {
    let labels = machine.labels();
    let replaces = |UpgradeStep { step, .. }: &UpgradeStep| match step.kind.as_str() {
        CONTROL_PLANE => labels.contains_key(CONTROL_PLANE_LABEL),
        WORKERS => labels.get(DEPLOYMENT_NAME) == Some(&step.name),
        _ => false,
    };
    machine.spec.cluster_name == cluster && steps.iter().any(replaces)
}

/// Returns the object to send.
fn object(namespace: &str, name: &str, preview: &UpgradePreview, drains: &[String]) -> Value {
    let (control_plane, workers) = &preview.versions;
    json!({
        "apiVersion": "capstan.dev/v1alpha1", "kind": "ClusterUpgrade",
        "metadata": {"namespace": namespace, "name": name},
        "version": preview.target,
        "upgrade": {"controlPlane": control_plane, "workers": workers},
        "steps": preview.steps.iter().map(step).collect::<Vec<_>>(),
        "obstacles": preview.obstacles, "notes": preview.notes, "drains": drains,
    })
}

fn step(of: &UpgradeStep) -> Value {
    let UpgradeStep { step, image } = of;
    let mut object =
        json!({"action": "Upgrade", "kind": step.kind, "name": step.name, "version": step.version});
    if let Some(image) = image {
        object["image"] = json!(image);
    }
    object
}

#[cfg(test)]
mod tests {
    use apiserver_types::MachineSpec;

    use super::*;
    use crate::cluster_topology::VersionStep;

    #[test]
    fn the_steps_have_versions_and_images_in_their_order() {
        let step = |kind: &str, image: Option<&str>| UpgradeStep {
            step: VersionStep { kind: kind.to_owned(), name: "x".to_owned(), version: "v1.34.0".to_owned() },
            image: image.map(str::to_owned),
        };
        let preview = UpgradePreview {
            target: "v1.34.0".to_owned(),
            versions: (vec!["v1.34.0".to_owned()], Vec::new()),
            steps: vec![step("KubeadmControlPlane", Some("kube-v1.34.0")), step("MachineDeployment", None)],
            obstacles: vec!["held".to_owned()],
            notes: vec!["no image".to_owned()],
        };
        let found = object("ns", "c", &preview, &["a budget".to_owned()]);
        assert_eq!((&found["kind"], &found["version"]), (&json!("ClusterUpgrade"), &json!("v1.34.0")));
        assert_eq!(found["upgrade"], json!({"controlPlane": ["v1.34.0"], "workers": []}));
        let steps = json!([
            {"action": "Upgrade", "kind": "KubeadmControlPlane", "name": "x", "version": "v1.34.0",
                "image": "kube-v1.34.0"},
            {"action": "Upgrade", "kind": "MachineDeployment", "name": "x", "version": "v1.34.0"},
        ]);
        assert_eq!(found["steps"], steps);
        assert_eq!((&found["obstacles"], &found["notes"]), (&json!(["held"]), &json!(["no image"])));
        assert_eq!(found["drains"], json!(["a budget"]));
    }

    #[test]
    fn the_machines_of_the_objects_that_take_a_version_are_replaced() {
        let step = |kind: &str, name: &str| UpgradeStep {
            step: VersionStep { kind: kind.to_owned(), name: name.to_owned(), version: "v1.34.0".to_owned() },
            image: None,
        };
        let machine = |label: &str, value: &str| {
            let spec = MachineSpec { cluster_name: "c".to_owned(), ..MachineSpec::default() };
            let mut machine = Machine::new("m", spec);
            machine.labels_mut().insert(label.to_owned(), value.to_owned());
            machine
        };
        let (plane, worker) = (machine(CONTROL_PLANE_LABEL, ""), machine(DEPLOYMENT_NAME, "md"));
        let [of_plane, of_md, of_other] =
            [step(CONTROL_PLANE, "cp"), step(WORKERS, "md"), step(WORKERS, "other")].map(|it| vec![it]);
        assert!(is_replaced(&plane, "c", &of_plane) && !is_replaced(&plane, "c", &of_md));
        assert!(is_replaced(&worker, "c", &of_md) && !is_replaced(&worker, "c", &of_plane));
        assert!(!is_replaced(&worker, "c", &of_other) && !is_replaced(&worker, "d", &of_md));
    }
}
