//! Creation of Machines with their servers and bootstrap data, and removal of what an interrupted creation left.

use std::collections::BTreeSet;

use apiserver_types::{ContractVersionedObjectReference, MachineSet};
use controllers_runtime::{ReconcileError, Severity};
use kube::ResourceExt;
use kube::api::ListParams;

use super::act::Actor;
use super::observe::{self, Observed};
use super::{MANAGER, METADATA_MANAGER, desired};
use crate::{ownership, templates};

/// Reason if the bootstrap data could not be made.
pub(super) const BOOTSTRAP: &str = "BootstrapTemplateCloningFailed";

/// Reason if the server's object could not be made.
pub(super) const INFRASTRUCTURE: &str = "InfrastructureTemplateCloningFailed";

/// Reason if the Machine could not be made.
pub(super) const MACHINE: &str = "MachineCreationFailed";

/// Part that could not be made, and why.
type Failure = (&'static str, ReconcileError);

impl Actor<'_> {
    /// Creates Machines. Stops at the first one that fails.
    pub(super) async fn create(
        &self,
        set: &MachineSet,
        observed: &mut Observed,
        count: usize,
    ) -> Result<(), ReconcileError> {
        self.remove_leftovers(set, observed).await?;
        let mut taken: Vec<String> = observed.machines.iter().map(ResourceExt::name_any).collect();
        for _ in 0..count {
            let name = desired::name(set, &taken).map_err(|message| {
                observed.failure = Some((MACHINE, message.clone()));
                ReconcileError::waiting(MACHINE, message)
            })?;
            if let Err((reason, error)) = self.create_machine(set, &name).await {
                // Each attempt has another name, and a text that changes would be written again and again.
                let all = format!("{}-*", set.name_any());
                let text = error.to_string().replace(&name, &all);
                let message = format!("Failed to create Machine {all:?}: {text}");
                self.event(set, Severity::Warning, "FailedCreate", &message).await;
                observed.failure = Some((reason, text.clone()));
                self.remove(set, &name).await?;
                // What the API refuses, it refuses again until the template is another one.
                return Err(if is_refused(&error) { ReconcileError::waiting(reason, text) } else { error });
            }
            let message = format!("Created Machine {name:?}");
            self.event(set, Severity::Normal, "SuccessfulCreate", &message).await;
            taken.push(name);
        }
        Ok(())
    }

    /// Creates bootstrap data, server and Machine of one name. The Machine comes last, so that it never refers to nothing.
    async fn create_machine(&self, set: &MachineSet, name: &str) -> Result<(), Failure> {
        let spec = &set.spec.template.spec;
        if let Some(template) = &spec.bootstrap.config_ref {
            self.clone_template(set, template, name).await.map_err(|error| (BOOTSTRAP, error))?;
        }
        let template = &spec.infrastructure_ref;
        self.clone_template(set, template, name).await.map_err(|error| (INFRASTRUCTURE, error))?;
        let intent = desired::new_machine(set, name);
        let machine = self.apply(name, &intent).await.map_err(|error| (MACHINE, error))?;
        self.applied.note(&machine.uid().unwrap_or_default(), &intent, &machine);
        Ok(())
    }

    async fn clone_template(
        &self,
        set: &MachineSet,
        template: &ContractVersionedObjectReference,
        name: &str,
    ) -> Result<(), ReconcileError> {
        let wish = templates::Clone {
            template,
            namespace: &set.namespace().unwrap_or_default(),
            name,
            cluster: &set.spec.cluster_name,
            labels: &desired::labels(set),
            annotations: &desired::annotations(set),
            // The Machine becomes the controller.
            owner: ownership::reference(set, false),
        };
        templates::apply_clone(self.context, &wish, MANAGER, METADATA_MANAGER).await?;
        Ok(())
    }

    /// Removes what an attempt to create a Machine made.
    async fn remove(&self, set: &MachineSet, name: &str) -> Result<(), ReconcileError> {
        let namespace = set.namespace().unwrap_or_default();
        for template in observe::template_references(set) {
            let kind = templates::kind_of(template);
            let (api, _) = templates::api(self.context, &namespace, &template.api_group, kind)?;
            ownership::delete(&api, name, None).await?;
        }
        Ok(())
    }

    /// Removes the objects that an interrupted creation left: the set still owns them, and no Machine refers to them.
    async fn remove_leftovers(&self, set: &MachineSet, observed: &Observed) -> Result<(), ReconcileError> {
        let namespace = set.namespace().unwrap_or_default();
        let used: BTreeSet<(&str, &str)> = observed
            .machines
            .iter()
            .flat_map(|it| it.spec.bootstrap.config_ref.iter().chain([&it.spec.infrastructure_ref]))
            .map(|reference| (reference.kind.as_str(), reference.name.as_str()))
            .collect();
        for template in observe::template_references(set) {
            let kind = templates::kind_of(template);
            let (api, _) = templates::api(self.context, &namespace, &template.api_group, kind)?;
            for object in api.list(&ListParams::default()).await? {
                let name = object.name_any();
                if ownership::refers_to(&object.metadata, set) && !used.contains(&(kind, name.as_str())) {
                    ownership::delete(&api, &name, object.uid()).await?;
                }
            }
        }
        Ok(())
    }
}

/// Reports whether the API refused an object for what it is.
fn is_refused(error: &ReconcileError) -> bool {
    let ReconcileError::Api(kube::Error::Api(status)) = error else { return false };
    matches!(status.code, 400 | 403 | 422)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_refused_object_is_told_from_a_failed_call() {
        let error = |code| kube::Error::Api(Status::failure("text", "Reason").with_code(code).boxed()).into();
        assert!([400, 403, 422].into_iter().all(|code| is_refused(&error(code))));
        assert!(![404, 409, 429, 500].into_iter().any(|code| is_refused(&error(code))));
    }
}
