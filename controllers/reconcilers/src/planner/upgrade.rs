//! Plan of the upgrade of a Cluster: the versions that its parts take, in their order, and what holds them.

use apiserver_types::Cluster;
use controllers_runtime::ControllerContext;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::PlanError;
use super::cluster::refused;
use crate::cluster_topology::{self, UpgradePreview, UpgradeStep};
use crate::plan::held_by;

/// Returns the plan for a changed Cluster.
///
/// # Errors
/// The version cannot be reached, or the objects around the Cluster cannot be read.
pub(super) async fn plan(context: &ControllerContext, cluster: Cluster) -> Result<Value, PlanError> {
    let name = cluster.name_any();
    let mut preview = cluster_topology::upgrade_preview(context, &cluster).await.map_err(refused)?;
    let mut obstacles = held_by(&cluster, &name, Some(&cluster));
    obstacles.append(&mut preview.obstacles);
    let preview = UpgradePreview { obstacles, ..preview };
    Ok(object(&cluster.namespace().unwrap_or_default(), &name, &preview))
}

/// Returns the object to send.
fn object(namespace: &str, name: &str, preview: &UpgradePreview) -> Value {
    let (control_plane, workers) = &preview.versions;
    json!({
        "apiVersion": "capstan.dev/v1alpha1", "kind": "ClusterUpgrade",
        "metadata": {"namespace": namespace, "name": name},
        "version": preview.target,
        "upgrade": {"controlPlane": control_plane, "workers": workers},
        "steps": preview.steps.iter().map(step).collect::<Vec<_>>(),
        "obstacles": preview.obstacles, "notes": preview.notes,
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
        let found = object("ns", "c", &preview);
        assert_eq!((&found["kind"], &found["version"]), (&json!("ClusterUpgrade"), &json!("v1.34.0")));
        assert_eq!(found["upgrade"], json!({"controlPlane": ["v1.34.0"], "workers": []}));
        let steps = json!([
            {"action": "Upgrade", "kind": "KubeadmControlPlane", "name": "x", "version": "v1.34.0",
                "image": "kube-v1.34.0"},
            {"action": "Upgrade", "kind": "MachineDeployment", "name": "x", "version": "v1.34.0"},
        ]);
        assert_eq!(found["steps"], steps);
        assert_eq!((&found["obstacles"], &found["notes"]), (&json!(["held"]), &json!(["no image"])));
    }
}
