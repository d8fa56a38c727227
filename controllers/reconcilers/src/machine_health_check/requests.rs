//! Requests for external remediation: objects made from a template, one for each unhealthy Machine.

use std::collections::BTreeMap;

use apiserver_types::{ContractVersionedObjectReference, Machine, MachineHealthCheck};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};

use crate::ownership;
use crate::templates::{self, CLONED_FROM_GROUP_KIND};

/// State of the object with the name of a Machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// It is a request for the remediation of the Machine.
    Ours {
        /// Uid of the request.
        uid: String,
        deleting: bool,
    },
    /// It is something else.
    Foreign,
}

/// Template of a health check, and the requests that exist.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Requests {
    pub template: ContractVersionedObjectReference,
    /// Reason why no request can be made from the template. For people.
    pub missing: Option<String>,
    /// By the name of the Machine.
    pub existing: BTreeMap<String, Request>,
}

/// Reads the template and the requests of a health check; `None` if its Machines are remediated by their owners.
///
/// # Errors
/// The API's own failure.
pub(super) async fn observe(
    context: &ControllerContext,
    check: &MachineHealthCheck,
    machines: &[Machine],
) -> Result<Option<Requests>, ReconcileError> {
    let Some(template) = template(check) else { return Ok(None) };
    let namespace = check.namespace().unwrap_or_default();
    let mut requests = Requests { template, missing: None, existing: BTreeMap::new() };
    let (group, kind) =
        (requests.template.api_group.clone(), templates::kind_of(&requests.template).to_owned());
    requests.missing = missing(context, &namespace, &requests.template).await?;
    if templates::resource(context, &group, &kind).is_none() {
        return Ok(Some(requests));
    }
    let (api, _) = templates::api(context, &namespace, &group, &kind)?;
    let mut objects: BTreeMap<String, DynamicObject> =
        api.list(&ListParams::default()).await?.items.into_iter().map(|it| (it.name_any(), it)).collect();
    for machine in machines {
        let name = machine.name_any();
        if let Some(object) = objects.remove(&name) {
            requests.existing.insert(name, state(&object, machine, &requests.template));
        }
    }
    Ok(Some(requests))
}

/// Returns the template of a health check's requests.
fn template(check: &MachineHealthCheck) -> Option<ContractVersionedObjectReference> {
    let reference = check.spec.remediation.as_ref()?.template_ref.as_ref()?;
    let (group, _) = reference.api_version.rsplit_once('/')?;
    Some(ContractVersionedObjectReference {
        api_group: group.to_owned(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
    })
}

async fn missing(
    context: &ControllerContext,
    namespace: &str,
    template: &ContractVersionedObjectReference,
) -> Result<Option<String>, ReconcileError> {
    let (kind, name, group) = (&template.kind, &template.name, &template.api_group);
    let remedy = "create it, or correct spec.remediation.templateRef";
    if !kind.ends_with("Template") {
        return Ok(Some(format!(
            "{kind} {name} of group {group} is no template; correct spec.remediation.templateRef"
        )));
    }
    let request = templates::kind_of(template);
    for kind in [kind.as_str(), request] {
        if templates::resource(context, group, kind).is_none() {
            return Ok(Some(format!(
                "kind {kind} of group {group} is not served here; correct spec.remediation.templateRef"
            )));
        }
    }
    let found = templates::read(context, namespace, template).await?;
    Ok(found.is_none().then(|| format!("{kind} {name} does not exist; {remedy}")))
}

/// Returns the state of the object with the name of a Machine. The Machine's own server or bootstrap data, which it
/// controls, are no requests even if the template is of their kind.
fn state(object: &DynamicObject, machine: &Machine, template: &ContractVersionedObjectReference) -> Request {
    let uid = machine.metadata.uid.as_ref();
    let origin = format!("{}.{}", template.kind, template.api_group);
    let is_owned = object
        .owner_references()
        .iter()
        .any(|owner| Some(&owner.uid) == uid && owner.controller != Some(true));
    if !is_owned || object.annotations().get(CLONED_FROM_GROUP_KIND) != Some(&origin) {
        return Request::Foreign;
    }
    Request::Ours {
        uid: object.uid().unwrap_or_default(),
        deleting: object.metadata.deletion_timestamp.is_some(),
    }
}

/// Makes the request for the remediation of a Machine.
///
/// # Errors
/// The API's own failure.
pub(super) async fn create(
    context: &ControllerContext,
    requests: &Requests,
    machine: &Machine,
) -> Result<(), ReconcileError> {
    let none = BTreeMap::new();
    let wish = templates::Clone {
        template: &requests.template,
        namespace: &machine.namespace().unwrap_or_default(),
        name: &machine.name_any(),
        cluster: &machine.spec.cluster_name,
        labels: &none,
        annotations: &none,
        owner: ownership::reference(machine, false),
        earlier: None,
    };
    templates::clone(context, &wish).await.map(|_| ())
}

/// Deletes the request for the remediation of a Machine.
///
/// # Errors
/// The API's own failure.
pub(super) async fn delete(
    context: &ControllerContext,
    requests: &Requests,
    machine: &Machine,
    uid: &str,
) -> Result<(), ReconcileError> {
    let kind = templates::kind_of(&requests.template);
    let namespace = machine.namespace().unwrap_or_default();
    let (api, _) = templates::api(context, &namespace, &requests.template.api_group, kind)?;
    ownership::delete(&api, &machine.name_any(), Some(uid.to_owned())).await
}

#[cfg(test)]
mod tests {
    use apiserver_types::MachineSpec;
    use kube::api::ApiResource;

    use super::*;

    #[test]
    fn only_an_object_that_a_health_check_made_is_a_request() {
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.metadata.uid = Some("u".to_owned());
        let template = ContractVersionedObjectReference {
            api_group: "g".to_owned(),
            kind: "RebootTemplate".to_owned(),
            name: "t".to_owned(),
        };
        let resource = ApiResource { group: "g".into(), ..ApiResource::erase::<Machine>(&()) };
        let object = |controller, origin: &str| {
            let mut object = DynamicObject::new("m", &resource);
            object.metadata.owner_references = Some(vec![ownership::reference(&machine, controller)]);
            object.annotations_mut().insert(CLONED_FROM_GROUP_KIND.to_owned(), origin.to_owned());
            object
        };
        let of = |controller, origin| state(&object(controller, origin), &machine, &template);
        let ours = Request::Ours { uid: String::new(), deleting: false };
        assert_eq!(of(false, "RebootTemplate.g"), ours);
        assert_eq!(of(true, "RebootTemplate.g"), Request::Foreign, "a part of the Machine");
        assert_eq!(of(false, "OtherTemplate.g"), Request::Foreign);
        let mut unowned = object(false, "RebootTemplate.g");
        unowned.metadata.owner_references = None;
        assert_eq!(state(&unowned, &machine, &template), Request::Foreign);
    }
}
