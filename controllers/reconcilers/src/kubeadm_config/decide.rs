//! Decision on the next step of a KubeadmConfig.

use apiserver_types::{Cluster, KubeadmConfig, Machine};
use controllers_runtime::paused;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};

use super::observe::{Observed, is_control_plane};
use crate::cluster_certificates::SECRET_TYPE;

/// Next step of a KubeadmConfig.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Do nothing at all: the owner or the Cluster does not exist, or the object is being deleted.
    Ignore,
    /// Report only: the object or its Cluster is paused.
    Pause,
    /// Replace the owner references of the data Secret, whose controller has another UID or version since a move.
    RepairSecret(Box<Secret>),
    /// Report why there can be no data: the data Secret cannot be read or belongs to another object.
    Refuse(String),
    /// Wait until the infrastructure of the Cluster is provisioned.
    WaitForInfrastructure,
    /// Copy the name of the data Secret from the Machine into a status that was lost.
    Restore(String),
    /// Look after the token: the data is there, and is never rendered again.
    CareForToken,
    /// Wait until the control plane is initialized.
    WaitForControlPlane,
    /// Render the data of the first control plane node, if no other Machine does.
    Init,
    /// Render the data of a node that joins.
    Join,
}

/// Decides on the next step. Pure and total.
pub(super) fn next_step(config: &KubeadmConfig, observed: &Observed) -> Step {
    let (Some(machine), Some(cluster)) = (&observed.machine, &observed.cluster) else { return Step::Ignore };
    if paused(config, Some(cluster)) {
        return Step::Pause;
    }
    if config.metadata.deletion_timestamp.is_some() {
        return Step::Ignore;
    }
    if let Some(step) = observed.secret.as_ref().and_then(|secret| ownership(config, secret)) {
        return step;
    }
    if let Some(error) = observed.unreadable.as_ref().filter(|_| !is_rendered(config)) {
        return Step::Refuse(error.clone());
    }
    if !infrastructure_provisioned(cluster) {
        return Step::WaitForInfrastructure;
    }
    let named = machine.spec.bootstrap.data_secret_name.as_deref().filter(|name| !name.is_empty());
    if let Some(name) = named.filter(|_| !is_complete(config)) {
        return Step::Restore(name.to_owned());
    }
    if is_rendered(config) {
        return Step::CareForToken;
    }
    match (initialized(cluster), is_control_plane(machine)) {
        (true, _) => Step::Join,
        (false, true) if only_joins(config, machine) => Step::WaitForControlPlane,
        // A node that goes must not begin a cluster, nor keep another one from it.
        (false, true) if machine.metadata.deletion_timestamp.is_some() => Step::WaitForControlPlane,
        (false, true) => Step::Init,
        (false, false) => Step::WaitForControlPlane,
    }
}

/// Returns true if a control plane has made this KubeadmConfig for a node that joins. The status of the Cluster may be lost
/// by a move or a restore: a second `kubeadm init` would make a second cluster.
fn only_joins(config: &KubeadmConfig, machine: &Machine) -> bool {
    let is_controlled =
        crate::ownership::controller_of(machine).is_some_and(|it| it.kind == "KubeadmControlPlane");
    let join = config.spec.join_configuration.as_ref();
    is_controlled && join.is_some_and(|join| join.control_plane.is_some())
}

/// Returns the reference of the data Secret to its KubeadmConfig. Upstream's does not block the owner's deletion.
pub(super) fn secret_owner(config: &KubeadmConfig) -> OwnerReference {
    OwnerReference { block_owner_deletion: None, ..crate::ownership::reference(config, true) }
}

/// Returns the step that the owner of the data Secret needs, if it needs one.
fn ownership(config: &KubeadmConfig, secret: &Secret) -> Option<Step> {
    let wanted = secret_owner(config);
    let kind = KubeadmConfig::kind(&());
    let controller = secret.owner_references().iter().find(|it| it.controller == Some(true));
    match controller {
        Some(known) if *known == wanted => None,
        Some(known) if known.kind != kind || known.name != wanted.name => Some(Step::Refuse(format!(
            "Secret {} is controlled by {} {}. Delete the Secret, or give the KubeadmConfig another name",
            secret.name_any(),
            known.kind,
            known.name
        ))),
        None if secret.type_.as_deref().is_some_and(|kind| kind != SECRET_TYPE) => {
            Some(Step::Refuse(format!(
                "Secret {} has another type than {SECRET_TYPE}, so it is not bootstrap data. Delete the Secret, or give the \
                 KubeadmConfig another name",
                secret.name_any()
            )))
        }
        _ => {
            let mut secret = secret.clone();
            let owners = secret.metadata.owner_references.get_or_insert_default();
            owners.retain(|it| it.controller != Some(true) && it.uid != wanted.uid);
            owners.push(wanted);
            Some(Step::RepairSecret(Box::new(secret)))
        }
    }
}

fn infrastructure_provisioned(cluster: &Cluster) -> bool {
    let status = cluster.status.as_ref().and_then(|status| status.initialization.as_ref());
    status.and_then(|it| it.infrastructure_provisioned) == Some(true)
}

/// Returns true if the API server of the control plane has answered once.
pub(super) fn initialized(cluster: &Cluster) -> bool {
    cluster.condition("ControlPlaneInitialized").is_some_and(apiserver_types::Condition::holds)
}

pub(super) fn is_rendered(config: &KubeadmConfig) -> bool {
    let status = config.status.as_ref().and_then(|status| status.initialization.as_ref());
    status.and_then(|it| it.data_secret_created) == Some(true)
}

fn is_complete(config: &KubeadmConfig) -> bool {
    let name = config.status.as_ref().and_then(|status| status.data_secret_name.as_ref());
    is_rendered(config) && name.is_some()
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterSpec, KubeadmConfigSpec, MachineSpec};
    use serde_json::json;

    use super::*;

    fn config() -> KubeadmConfig {
        let mut config = KubeadmConfig::new("m", KubeadmConfigSpec::default());
        config.metadata.uid = Some("u".to_owned());
        config
    }

    fn cluster(initialized: bool) -> Cluster {
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        let status = if initialized { "True" } else { "False" };
        cluster.status =
            serde_json::from_value(json!({"initialization": {"infrastructureProvisioned": true},
            "conditions": [{"type": "ControlPlaneInitialized", "status": status, "reason": "R", "message": "",
                "lastTransitionTime": "2026-11-26T10:00:00Z"}]}))
            .unwrap();
        cluster
    }

    fn observed(initialized: bool, control_plane: bool) -> Observed {
        let mut machine = Machine::new("m", MachineSpec::default());
        if control_plane {
            machine.labels_mut().insert("cluster.x-k8s.io/control-plane".to_owned(), "any".to_owned());
        }
        Observed { machine: Some(machine), cluster: Some(cluster(initialized)), ..Observed::default() }
    }

    #[test]
    fn each_obstacle_comes_before_the_next_one() {
        let (mut config, mut around) = (config(), observed(false, true));
        assert_eq!(next_step(&config, &around), Step::Init);
        assert_eq!(next_step(&config, &observed(false, false)), Step::WaitForControlPlane);
        let mut going = observed(false, true);
        let time = serde_json::from_value(json!("2026-11-26T10:00:00Z")).unwrap();
        going.machine.as_mut().unwrap().metadata.deletion_timestamp = time;
        assert_eq!(next_step(&config, &going), Step::WaitForControlPlane, "it would begin a cluster and go");
        assert_eq!(next_step(&config, &observed(true, true)), Step::Join);
        config.status =
            serde_json::from_value(json!({"initialization": {"dataSecretCreated": true}})).unwrap();
        assert_eq!(next_step(&config, &around), Step::CareForToken);
        let machine = around.machine.as_mut().unwrap();
        machine.spec.bootstrap.data_secret_name = Some("old".to_owned());
        assert_eq!(next_step(&config, &around), Step::Restore("old".to_owned()));
        around.cluster.as_mut().unwrap().status = None;
        assert_eq!(next_step(&config, &around), Step::WaitForInfrastructure);
        around.secret = Some(Secret::default());
        assert!(matches!(next_step(&config, &around), Step::RepairSecret(_)));
        config.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-26T10:00:00Z")).unwrap();
        assert_eq!(next_step(&config, &around), Step::Ignore);
        around.cluster.as_mut().unwrap().spec.paused = Some(true);
        assert_eq!(next_step(&config, &around), Step::Pause);
        around.cluster = None;
        assert_eq!(next_step(&config, &around), Step::Ignore);
    }

    #[test]
    fn a_machine_that_a_control_plane_made_to_join_never_initializes_a_cluster() {
        let (mut config, mut around) = (config(), observed(false, true));
        let join = json!({"controlPlane": {}});
        config.spec.join_configuration = serde_json::from_value(join).unwrap();
        assert_eq!(next_step(&config, &around), Step::Init, "a Machine of the user may be the first");
        let owner = OwnerReference {
            kind: "KubeadmControlPlane".to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        };
        around.machine.as_mut().unwrap().metadata.owner_references = Some(vec![owner]);
        assert_eq!(next_step(&config, &around), Step::WaitForControlPlane);
        config.spec.join_configuration = None;
        assert_eq!(next_step(&config, &around), Step::Init);
    }

    #[test]
    fn a_secret_that_cannot_be_read_stops_only_what_is_not_rendered() {
        let (mut config, mut around) = (config(), observed(true, false));
        around.unreadable = Some("because".to_owned());
        assert_eq!(next_step(&config, &around), Step::Refuse("because".to_owned()));
        let status = json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "m"});
        config.status = serde_json::from_value(status).unwrap();
        assert_eq!(next_step(&config, &around), Step::CareForToken);
    }

    #[test]
    fn a_status_that_names_the_secret_is_not_restored() {
        let (mut config, mut around) = (config(), observed(true, false));
        let status = json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "m"});
        config.status = serde_json::from_value(status).unwrap();
        around.machine.as_mut().unwrap().spec.bootstrap.data_secret_name = Some("m".to_owned());
        assert_eq!(next_step(&config, &around), Step::CareForToken);
    }

    #[test]
    fn a_secret_of_an_earlier_object_is_repaired_and_one_of_another_kind_is_refused() {
        let config = config();
        let mut secret = Secret::default();
        secret.metadata.owner_references = Some(vec![secret_owner(&config)]);
        assert_eq!(ownership(&config, &secret), None);
        secret.owner_references_mut()[0].uid = "before the move".to_owned();
        let Some(Step::RepairSecret(repaired)) = ownership(&config, &secret) else { panic!("not repaired") };
        assert_eq!(repaired.owner_references(), [secret_owner(&config)]);
        secret.owner_references_mut()[0].kind = "RKE2Config".to_owned();
        assert!(matches!(ownership(&config, &secret), Some(Step::Refuse(_))));
        secret.owner_references_mut().clear();
        for (kind, expected) in [(SECRET_TYPE, true), ("Opaque", false)] {
            secret.type_ = Some(kind.to_owned());
            let is_repaired = matches!(ownership(&config, &secret), Some(Step::RepairSecret(_)));
            assert_eq!(is_repaired, expected, "{kind}");
        }
    }
}
