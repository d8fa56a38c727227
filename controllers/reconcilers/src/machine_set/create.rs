//! Creation of Machines with their servers and bootstrap data, and removal of what an interrupted creation left.

use std::collections::BTreeSet;

use apiserver_types::{ContractVersionedObjectReference, MachineSet};
use controllers_runtime::{ReconcileError, Severity};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};
use serde_json::Value;

use super::act::Actor;
use super::decide;
use super::observe::{self, Earlier, Observed};
use super::spread::{self, Spread};
use super::{MANAGER, METADATA_MANAGER, desired, names};
use crate::{ownership, templates};

/// Reason if the bootstrap data could not be made.
pub(super) const BOOTSTRAP: &str = "BootstrapTemplateCloningFailed";

/// Reason if the server's object could not be made.
pub(super) const INFRASTRUCTURE: &str = "InfrastructureTemplateCloningFailed";

/// Reason if the Machine could not be made.
pub(super) const MACHINE: &str = "MachineCreationFailed";

/// Part that could not be made, and why.
type Failure = (&'static str, ReconcileError);

/// Part that an attempt made: its template, and its uid.
type Made<'a> = (&'a ContractVersionedObjectReference, Option<String>);

impl Actor<'_> {
    /// Creates Machines. Stops at the first one that fails.
    pub(super) async fn create(
        &self,
        set: &MachineSet,
        observed: &mut Observed,
        count: usize,
    ) -> Result<(), ReconcileError> {
        let mut names = names::prepare(self.context, set, observed).await?;
        let mut spread = spread::of_set(observed);
        for _ in 0..count {
            let name = names.take(self.context, set).await.map_err(|message| {
                observed.failure = Some((MACHINE, message.clone()));
                ReconcileError::waiting(MACHINE, message)
            })?;
            let domain = spread.as_mut().and_then(Spread::take);
            let mut made = Vec::new();
            let created = self.create_machine(set, &name, domain, &observed.earlier, &mut made).await;
            if let Err(failure) = created {
                let may_exist = may_exist(&failure);
                let title = names.title(set, &name);
                let error =
                    self.report_failure(set, observed, (name.as_str(), title.as_str()), failure).await;
                if !may_exist {
                    self.remove(set, &name, &made).await?;
                }
                return Err(error);
            }
            let message = format!("Created Machine {name:?}");
            self.event(set, Severity::Normal, "SuccessfulCreate", &message).await;
        }
        Ok(())
    }

    /// Reports the failure of an attempt by its name and title. Returns the error of the pass.
    async fn report_failure(
        &self,
        set: &MachineSet,
        observed: &mut Observed,
        (name, title): (&str, &str),
        (reason, error): Failure,
    ) -> ReconcileError {
        // Another client took the name at this moment. The next pass sees that, and takes another one.
        if error.is_conflict() {
            return error;
        }
        let text = error.to_string().replace(name, title);
        let message = format!("Failed to create Machine {title:?}: {text}");
        self.event(set, Severity::Warning, "FailedCreate", &message).await;
        observed.failure = Some((reason, text.clone()));
        // What the API refuses, it refuses again until the template is another one.
        if is_refused(&error) { ReconcileError::waiting(reason, text) } else { error }
    }

    /// Creates bootstrap data, server and Machine of one name, none of which may exist. The Machine comes last, so that it
    /// never refers to nothing.
    async fn create_machine<'a>(
        &self,
        set: &'a MachineSet,
        name: &str,
        domain: Option<String>,
        earlier: &Earlier,
        made: &mut Vec<Made<'a>>,
    ) -> Result<(), Failure> {
        for (field, template) in templates::references(&set.spec.template.spec) {
            let reason = if field == "infrastructureRef" { INFRASTRUCTURE } else { BOOTSTRAP };
            let part = self.clone_template(set, template, name, earlier.get(field)).await;
            made.push((template, part.map_err(|error| (reason, error))?.uid()));
        }
        let intent = desired::new_machine(set, name, domain);
        let machine = self.apply(name, &intent).await.map_err(|error| (MACHINE, error))?;
        self.applied.note(&machine.uid().unwrap_or_default(), &intent, &machine);
        Ok(())
    }

    async fn clone_template(
        &self,
        set: &MachineSet,
        template: &ContractVersionedObjectReference,
        name: &str,
        earlier: Option<&DynamicObject>,
    ) -> Result<DynamicObject, ReconcileError> {
        let wish = templates::Clone {
            template,
            namespace: &set.namespace().unwrap_or_default(),
            name,
            cluster: &set.spec.cluster_name,
            labels: &desired::labels(set),
            annotations: &desired::annotations(set),
            // The Machine becomes the controller.
            owner: ownership::reference(set, false),
            earlier,
        };
        templates::apply_clone(self.context, &wish, MANAGER, METADATA_MANAGER).await
    }

    /// Removes what an attempt to create a Machine made. Another object may have the same name.
    async fn remove(&self, set: &MachineSet, name: &str, made: &[Made<'_>]) -> Result<(), ReconcileError> {
        let namespace = set.namespace().unwrap_or_default();
        for (template, uid) in made {
            let kind = templates::kind_of(template);
            let (api, _) = templates::api(self.context, &namespace, &template.api_group, kind)?;
            ownership::delete(&api, name, uid.clone()).await?;
        }
        Ok(())
    }

    /// Removes what an interrupted creation left. A set that lacks Machines is swept in each pass. Any other is swept at the
    /// begin of the process, after its own changes and at a full resync, so that its passes at rest list nothing.
    pub(super) async fn sweep(
        &self,
        set: &MachineSet,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        let key = format!("{}/leftovers", set.uid().unwrap_or_default());
        let lacks_machines = observed.machines.len() < decide::wanted(set);
        if lacks_machines || !self.applied.is_current(&key, &Value::Null, set) {
            self.remove_leftovers(set, observed).await?;
            self.applied.note(&key, &Value::Null, set);
        }
        observed.swept = true;
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
            // A set that only keeps its Machines does not need the kind.
            let Some(resource) = templates::resource(self.context, &template.api_group, kind) else {
                continue;
            };
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.context.client.clone(), &namespace, &resource);
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

/// Reports whether the Machine of a failed attempt may exist, because the answer was lost. The next pass sees it, or sweeps
/// its parts.
fn may_exist((reason, error): &Failure) -> bool {
    let is_answered =
        matches!(error, ReconcileError::Api(kube::Error::Api(status)) if (400..500).contains(&status.code));
    *reason == MACHINE && !is_answered
}

/// Reports whether the API refused an object for what it is.
pub(super) fn is_refused(error: &ReconcileError) -> bool {
    let ReconcileError::Api(kube::Error::Api(status)) = error else { return false };
    matches!(status.code, 400 | 403 | 422)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use apiserver_types::{Machine, MachineSetSpec, MachineSpec};
    use controllers_runtime::{ControllerContext, ServedKind};
    use k8s_openapi::jiff::Timestamp;
    use kube::api::ApiResource;
    use kube::core::Status;
    use serde_json::json;
    use tokio::sync::Mutex;

    use super::*;
    use crate::api_in_memory::FakeApi;
    use crate::applied::Applied;
    use crate::replica_status::Clock;

    /// Path of the objects that are made from the template of a set.
    const PARTS: &str = "/apis/g/v1/namespaces/ns/ks";

    /// Returns a set of one Machine, and what is seen of it.
    fn scene() -> (MachineSet, Observed) {
        let reference = |kind: &str, name: &str| ContractVersionedObjectReference {
            api_group: "g".to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        let mut set =
            MachineSet::new("ms", MachineSetSpec { replicas: Some(1), ..MachineSetSpec::default() });
        (set.metadata.namespace, set.metadata.uid) = (Some("ns".to_owned()), Some("u".to_owned()));
        set.spec.template.spec.infrastructure_ref = reference("KTemplate", "t");
        let mut machine = Machine::new("used", MachineSpec::default());
        machine.spec.infrastructure_ref = reference("K", "used");
        (set, Observed { machines: vec![machine], ..Observed::default() })
    }

    /// Returns the kind of these objects.
    fn served() -> ServedKind {
        let resource = ApiResource {
            group: "g".to_owned(),
            version: "v1".to_owned(),
            api_version: "g/v1".to_owned(),
            kind: "K".to_owned(),
            plural: "ks".to_owned(),
        };
        ServedKind { resource, namespaced: true, versions: vec!["v1".to_owned()] }
    }

    /// Stores two objects of the set: of its Machine, and of an interrupted creation.
    fn interrupt(api: &FakeApi, set: &MachineSet) {
        let owners = json!([ownership::reference(set, false)]);
        let part = |name: &str| {
            json!({
                "apiVersion": "g/v1", "kind": "K",
                "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "ownerReferences": owners},
            })
        };
        for name in ["left", "used"] {
            api.put(&format!("{PARTS}/{name}"), part(name));
        }
        let items = json!([part("left"), part("used")]);
        api.put(PARTS, json!({"apiVersion": "g/v1", "kind": "KList", "items": items}));
    }

    #[tokio::test]
    async fn a_set_at_its_number_is_swept_once_and_after_its_own_changes() {
        let api = FakeApi::default();
        let kinds = Arc::from([served()]);
        let context = ControllerContext { kinds, ..api.context("machineset-controller") };
        let sets = Api::namespaced(api.client(), "ns");
        let machines = Api::namespaced(api.client(), "ns");
        let (applied, turn) = (Applied::default(), Mutex::default());
        let clock: Clock = Arc::new(Timestamp::now);
        let actor =
            Actor { context: &context, api: &sets, machines, applied: &applied, clock: &clock, turn: &turn };
        let (mut set, mut observed) = scene();
        for (case, is_swept) in [("first", true), ("at rest", false), ("changed", true), ("lacks one", true)]
        {
            match case {
                "changed" => set.spec.replicas = Some(0),
                "lacks one" => {
                    set.spec.replicas = Some(2);
                    actor.sweep(&set, &mut observed).await.unwrap();
                }
                _ => {}
            }
            interrupt(&api, &set);
            observed.swept = false;
            actor.sweep(&set, &mut observed).await.unwrap();
            assert!(observed.swept, "{case}");
            assert_eq!(api.get(&format!("{PARTS}/left")).is_none(), is_swept, "{case}");
            assert!(api.get(&format!("{PARTS}/used")).is_some(), "{case}");
        }
    }

    #[test]
    fn a_refused_object_is_told_from_a_failed_call() {
        let error = |code| kube::Error::Api(Status::failure("text", "Reason").with_code(code).boxed()).into();
        assert!([400, 403, 422].into_iter().all(|code| is_refused(&error(code))));
        assert!(![404, 409, 429, 500].into_iter().any(|code| is_refused(&error(code))));
    }
}
