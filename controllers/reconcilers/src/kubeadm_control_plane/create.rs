//! Creation of a Machine of a control plane, with its objects.

use apiserver_types::{KubeadmConfig, KubeadmControlPlane};
use controllers_runtime::ReconcileError;
use controllers_workload::ClusterKey;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};

use super::act::Actor;
use super::config::Start;
use super::observe::Observed;
use super::replica::Replica;
use super::{desired, sync};
use crate::machine_names::FreeNames;
use crate::templates::NEW_OBJECT;
use crate::{ownership, templates};

/// Reasons of `MachinesCreated` in the form of v1beta1: the object that could not be made.
const INFRASTRUCTURE: &str = "InfrastructureTemplateCloningFailed";
const BOOTSTRAP: &str = "BootstrapTemplateCloningFailed";
const MACHINE: &str = "MachineGenerationFailed";

impl Actor<'_> {
    /// Makes a Machine with its objects. What a failure leaves behind is deleted by the next pass.
    pub(super) async fn create(
        &self,
        control_plane: &mut KubeadmControlPlane,
        observed: &mut Observed,
        start: Start,
        domain: Option<String>,
    ) -> Result<(), ReconcileError> {
        let name = match self.name(control_plane, observed).await {
            Ok(name) => name,
            Err(error) => {
                observed.failure = Some((MACHINE, error.to_string()));
                return Err(error);
            }
        };
        match self.make(control_plane, observed, &name, start, domain).await {
            Ok(()) => {
                let message = format!("Created Machine {name}");
                self.tell(control_plane, "SuccessfulCreate", &message).await?;
                // The Machine has the record now.
                self.forget_remediation(control_plane).await
            }
            // Another client took the name at this moment. The next pass sees that, and takes another one.
            Err((_, error)) if error.is_conflict() => Err(error),
            Err((stage, error)) => {
                let reason = if start == Start::Init { "FailedInitialization" } else { "FailedScaleUp" };
                let message = format!("Failed to create Machine {name}: {error}");
                observed.failure = Some((stage, error.to_string()));
                self.warn(control_plane, reason, &message).await?;
                Err(error)
            }
        }
    }

    /// Returns a name for a new Machine.
    async fn name(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
    ) -> Result<String, ReconcileError> {
        let cluster = observed.cluster.name_any();
        let naming = desired::naming(control_plane, &cluster);
        let name = if naming.has_index() {
            let template = &control_plane.spec.machine_template.spec.infrastructure_ref;
            let parts = [
                ("bootstrap.cluster.x-k8s.io", "KubeadmConfig"),
                (template.api_group.as_str(), templates::kind_of(template)),
            ];
            let namespace = control_plane.namespace().unwrap_or_default();
            let cluster = ClusterKey { namespace, name: cluster };
            // An earlier step waits for the connection.
            FreeNames::read(self.context, naming, cluster, &parts, false).await?.take(self.context).await
        } else {
            naming.random()
        };
        name.map_err(|message| ReconcileError::waiting("InvalidName", message))
    }

    /// Makes the objects, none of which may exist. Returns a failure with the reason of its stage.
    async fn make(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
        name: &str,
        start: Start,
        domain: Option<String>,
    ) -> Result<(), (&'static str, ReconcileError)> {
        let cluster = observed.cluster.name_any();
        let namespace = control_plane.namespace().unwrap_or_default();
        let wish = templates::Clone {
            template: &control_plane.spec.machine_template.spec.infrastructure_ref,
            namespace: &namespace,
            name,
            cluster: &cluster,
            labels: &desired::fixed_labels(control_plane, &cluster),
            annotations: &Default::default(),
            owner: ownership::reference(control_plane, false),
            earlier: None,
        };
        // An update in place applies the object again, so that this field manager has to own it.
        let made = templates::apply_new(self.context, &wish, sync::MANAGER).await;
        let infrastructure = made.map_err(|error| (INFRASTRUCTURE, error))?;
        let params = PatchParams::apply(sync::MANAGER).force();
        let configs: Api<KubeadmConfig> = Api::namespaced(self.context.client.clone(), &namespace);
        let mut config = desired::config(control_plane, &cluster, name, start);
        config.metadata.resource_version = Some(NEW_OBJECT.to_owned());
        let made = configs.patch(name, &params, &Patch::Apply(&config)).await;
        let config = made.map_err(|error| (BOOTSTRAP, error.into()))?;
        let mut machine = desired::machine(control_plane, &cluster, name, domain);
        machine.metadata.resource_version = Some(NEW_OBJECT.to_owned());
        let (config, infrastructure) = (Some(config), Some(infrastructure));
        let parts = Replica { machine, config, infrastructure, ..Replica::default() };
        // Once the Machine exists, bootstrap data are made, and they are made only once.
        let applied = sync::apply_metadata(self.context, self.applied, control_plane, &cluster, &parts).await;
        applied.map_err(|error| (MACHINE, error))?;
        let made = self.machines(control_plane).patch(name, &params, &Patch::Apply(&parts.machine)).await;
        made.map(drop).map_err(|error| (MACHINE, error.into()))
    }
}

#[cfg(test)]
#[path = "create_tests.rs"]
mod tests;
