//! Extension servers that decide whether Machines of old sets can be updated in place.

use std::time::Duration;

use apiserver_types::{
    ContractVersionedObjectReference, MachineDeployment, MachineSet, MachineSpec, template_revision,
};
use controllers_extensions::{
    AnswerCache, Caching, Call, CanUpdateMachineSetRequest, CanUpdateMachineSetResponse, ExtensionServers,
    Extensions, Hook, MachineSetObjects, NO_SETTINGS, UpdatePatch, desired_part,
};
use controllers_runtime::{ControllerContext, ReconcileError};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use super::in_place::{self, InPlace};
use super::observe::Observed;
use super::sameness;
use crate::in_place::{Answered, Change, Failures, MACHINE_FIELDS, answered, fingerprint, only_handler};
use crate::{kept_revisions, templates};

/// Path of the part of a set or template from which objects are made.
const PART: &str = "spec.template.spec";

/// Time for which an answer about the same sets and templates is used again.
const KEPT: Duration = Duration::from_mins(10);

/// Extension servers, with what they have answered.
#[derive(Debug, Default)]
pub(super) struct Updaters {
    servers: ExtensionServers,
    answers: AnswerCache<CanUpdateMachineSetResponse>,
    failures: Failures,
}

/// Server that is called in a pass.
struct Server<'a> {
    extensions: &'a Extensions,
    handler: String,
    namespace: String,
}

/// Templates of the objects of a set's Machines, as they were when the set was made.
struct Templates {
    infrastructure: DynamicObject,
    bootstrap: Option<DynamicObject>,
}

impl Updaters {
    /// Judges the old sets whose Machines may be updated in place. Without such sets, nothing is read.
    ///
    /// # Errors
    /// The API's own failure. Any other one is in the judgement.
    pub(super) async fn judge(
        &self,
        context: &ControllerContext,
        deployment: &MachineDeployment,
        observed: &Observed,
        now: Timestamp,
    ) -> Result<InPlace, ReconcileError> {
        let candidates = in_place::candidates(deployment, observed, now);
        if candidates.is_empty() {
            return Ok(InPlace::default());
        }
        let failed = |failure| InPlace { is_judged: true, failure: Some(failure), ..InPlace::default() };
        let uid = deployment.uid().unwrap_or_default();
        if let Some(failure) = self.failures.get(&uid) {
            return Ok(failed(failure));
        }
        let extensions = Extensions::read(context, &self.servers).await?;
        match self.judgement(context, &extensions, deployment, observed, (&candidates, now)).await? {
            Ok(found) => {
                self.failures.forget(&uid);
                Ok(found)
            }
            Err(text) => Ok(failed(self.failures.note(&uid, text))),
        }
    }

    /// Forgets the failures of a MachineDeployment.
    pub(super) fn forget(&self, uid: &str) {
        self.failures.forget(uid);
    }

    async fn judgement(
        &self,
        context: &ControllerContext,
        extensions: &Extensions,
        deployment: &MachineDeployment,
        observed: &Observed,
        (candidates, now): (&[&MachineSet], Timestamp),
    ) -> Result<Result<InPlace, String>, ReconcileError> {
        let mut found = InPlace::default();
        if !extensions.has(Hook::CanUpdateMachineSet) {
            return Ok(Ok(found));
        }
        found.is_judged = true;
        let namespace = deployment.namespace().unwrap_or_default();
        let mut handlers = [None, None];
        let hooks = [Hook::CanUpdateMachineSet, Hook::UpdateMachine];
        for (hook, handler) in hooks.into_iter().zip(&mut handlers) {
            match only_handler(extensions, hook, &namespace).await? {
                Ok(found) => *handler = found,
                Err(text) => return Ok(Err(text)),
            }
        }
        // Without a server that makes the changes, a moved Machine would wait for ever.
        let [Some(handler), Some(_)] = handlers else { return Ok(Ok(found)) };
        found.is_served = true;
        let Some(new) = sameness::find_new(deployment, &observed.sets, now) else { return Ok(Ok(found)) };
        let server = Server { extensions, handler, namespace };
        for old in candidates {
            match self.differences(context, &server, observed, (old, new)).await? {
                Ok(lines) => found.note(old, lines),
                Err(text) => return Ok(Err(text)),
            }
        }
        Ok(Ok(found))
    }

    /// Returns the differences between two sets that the server does not make in place, one line each.
    async fn differences(
        &self,
        context: &ControllerContext,
        server: &Server<'_>,
        observed: &Observed,
        (old, new): (&MachineSet, &MachineSet),
    ) -> Result<Result<Vec<String>, String>, ReconcileError> {
        let others = of_other_objects(&old.spec.template.spec, &new.spec.template.spec);
        if !others.is_empty() {
            return Ok(Ok(others));
        }
        let (before, after) = match (
            templates_of(context, observed, old).await?,
            templates_of(context, observed, new).await?,
        ) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(line), _) | (_, Err(line)) => return Ok(Ok(vec![line])),
        };
        let (current, desired) = (objects(old, &before), objects(new, &after));
        let request = CanUpdateMachineSetRequest { current, desired };
        let answer = self.answer(server, &request).await?;
        Ok(answer.and_then(|answer| uncovered(&request, &answer)))
    }

    async fn answer(
        &self,
        server: &Server<'_>,
        request: &CanUpdateMachineSetRequest,
    ) -> Answered<CanUpdateMachineSetResponse> {
        let Server { extensions, handler, namespace } = server;
        let sides = [&request.current, &request.desired];
        let parts = sides.into_iter().flat_map(|side| {
            // Names and annotations of the sets change in a rollout, and decide on nothing.
            let set = side.machine_set.pointer("/spec/template");
            [set, Some(&side.infrastructure_machine_template), side.bootstrap_config_template.as_ref()]
        });
        let key = format!("{namespace}/{}", fingerprint(parts.flatten()));
        let caching = Caching { cache: &self.answers, key: &key, time: KEPT };
        let call = Call { handler, namespace, settings: &NO_SETTINGS };
        answered(extensions.call_cached(&caching, &call, request).await)
    }
}

/// Returns the differences that no server can make, because Machines would need other objects.
fn of_other_objects(old: &MachineSpec, new: &MachineSpec) -> Vec<String> {
    let mut lines = Vec::new();
    let kind = |it: &ContractVersionedObjectReference| (it.api_group.clone(), it.kind.clone());
    if kind(&old.infrastructure_ref) != kind(&new.infrastructure_ref) {
        lines.push(format!("{PART}.infrastructureRef names another kind"));
    }
    let (before, after) = (&old.bootstrap, &new.bootstrap);
    if before.config_ref.as_ref().map(kind) != after.config_ref.as_ref().map(kind) {
        lines.push(format!("{PART}.bootstrap.configRef names another kind"));
    }
    if before.data_secret_name != after.data_secret_name {
        lines.push(format!("{PART}.bootstrap.dataSecretName"));
    }
    lines
}

/// Reads the templates of a set. A text says which one does not exist any more.
async fn templates_of(
    context: &ControllerContext,
    observed: &Observed,
    set: &MachineSet,
) -> Result<Result<Templates, String>, ReconcileError> {
    let (mut infrastructure, mut bootstrap) = (None, None);
    for (field, reference) in templates::references(&set.spec.template.spec) {
        let found = template(context, observed, set, (field, reference)).await?;
        if found.is_none() {
            let (kind, name) = (&reference.kind, &reference.name);
            return Ok(Err(format!("{kind} {name} of MachineSet {} does not exist", set.name_any())));
        }
        if field == "infrastructureRef" { infrastructure = found } else { bootstrap = found }
    }
    let missing = || format!("MachineSet {} names no infrastructure template", set.name_any());
    Ok(infrastructure.map(|infrastructure| Templates { infrastructure, bootstrap }).ok_or_else(missing))
}

/// Reads a template with the content that it had when the set was made.
async fn template(
    context: &ControllerContext,
    observed: &Observed,
    set: &MachineSet,
    (field, reference): (&'static str, &ContractVersionedObjectReference),
) -> Result<Option<DynamicObject>, ReconcileError> {
    let number = template_revision(set.annotations(), templates::revision_key(field));
    let present = templates::read(context, &set.namespace().unwrap_or_default(), reference).await?;
    let present = present.filter(|it| templates::revision(it) == number);
    Ok(present.or_else(|| kept_revisions::copy(&observed.revisions, reference, number)))
}

fn objects(set: &MachineSet, templates: &Templates) -> MachineSetObjects {
    MachineSetObjects {
        machine_set: desired_part(set),
        infrastructure_machine_template: desired_part(&templates.infrastructure),
        bootstrap_config_template: templates.bootstrap.as_ref().map(desired_part),
    }
}

/// Returns kind and name of an object.
fn title(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}", text("/kind"), text("/metadata/name"))
}

/// Returns the differences that stay after the changes of an answer, one line each.
fn uncovered(
    request: &CanUpdateMachineSetRequest,
    answer: &CanUpdateMachineSetResponse,
) -> Result<Vec<String>, String> {
    let (current, desired) = (&request.current, &request.desired);
    let mut lines = Vec::new();
    let mut add = |current: &Value, desired: &Value, patch: &UpdatePatch, ignored: &[&str]| {
        let title = title(desired);
        let change = Change { title: &title, current, desired, patch };
        change.uncovered(PART, ignored).map(|found| lines.extend(found))
    };
    add(&current.machine_set, &desired.machine_set, &answer.machine_set_patch, MACHINE_FIELDS)?;
    let (before, after) =
        (&current.infrastructure_machine_template, &desired.infrastructure_machine_template);
    add(before, after, &answer.infrastructure_machine_template_patch, &[])?;
    let bootstrap =
        current.bootstrap_config_template.as_ref().zip(desired.bootstrap_config_template.as_ref());
    if let Some((before, after)) = bootstrap {
        add(before, after, &answer.bootstrap_config_template_patch, &[])?;
    }
    Ok(lines)
}
