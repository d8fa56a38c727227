//! Observation of the templates of a class, and of the variables that extension servers declare.

use std::time::Duration;

use apiserver_types::{ClusterClass, ExternalPatchDefinition, RemediationTemplateRef};
use controllers_extensions::{
    AnswerCache, Caching, Call, DiscoverVariablesRequest, DiscoverVariablesResponse, ExtensionError,
    ExtensionServers, Extensions, HookResponse as _, NO_SETTINGS,
};
use controllers_runtime::{ControllerContext, ReconcileError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};

use super::variables::Declared;
use crate::templates;

/// Time for which the variables of a server are kept. Upstream's.
const KEPT: Duration = Duration::from_mins(10);

/// Connections to extension servers, and their answers.
#[derive(Debug, Default)]
pub(super) struct Servers {
    connections: ExtensionServers,
    answers: AnswerCache<DiscoverVariablesResponse>,
}

/// Template that a class references.
#[derive(Debug, Clone)]
pub(super) struct Template {
    pub reference: RemediationTemplateRef,
    pub state: State,
}

/// State of a template.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// Its kind is not served here, or not in the version of the reference.
    NotServed,
    /// It does not exist.
    Missing,
    /// It exists. Its resource is the newest version of its kind.
    Found(Box<ObjectMeta>, ApiResource),
}

/// Reads the templates of a class, each one once.
///
/// # Errors
/// The API's own failure.
pub(super) async fn templates(
    context: &ControllerContext,
    class: &ClusterClass,
) -> Result<Vec<Template>, ReconcileError> {
    let namespace = class.namespace().unwrap_or_default();
    let mut found = Vec::new();
    for reference in references(class) {
        let state = match resource(context, &reference) {
            None => State::NotServed,
            Some(resource) => {
                let api = kube::Api::<DynamicObject>::namespaced_with(
                    context.client.clone(),
                    &namespace,
                    &resource,
                );
                let template = api.get_opt(&reference.name).await?;
                template.map_or(State::Missing, |it| State::Found(Box::new(it.metadata), resource))
            }
        };
        found.push(Template { reference, state });
    }
    Ok(found)
}

/// Returns the stored version of the kind of a reference, if the version of the reference is served. Every kind is stored
/// in the newest version of its contract.
fn resource(context: &ControllerContext, reference: &RemediationTemplateRef) -> Option<ApiResource> {
    let (group, version) = reference.api_version.split_once('/')?;
    let mut kinds = context.kinds.iter();
    let is_served = kinds.any(|it| {
        it.resource.group == group
            && it.resource.kind == reference.kind
            && it.versions.iter().any(|served| served == version)
    });
    templates::resource(context, group, &reference.kind).filter(|_| is_served)
}

/// Returns the external patches of a class whose handlers declare variables: name, definition and handler.
pub(super) fn declaring(
    class: &ClusterClass,
) -> impl Iterator<Item = (&str, &ExternalPatchDefinition, &str)> {
    class.spec.patches.iter().flatten().filter_map(|patch| {
        let external = patch.external.as_ref()?;
        Some((patch.name.as_str(), external, external.discover_variables_extension.as_deref()?))
    })
}

/// Calls the servers of the external patches of a class for their variables.
///
/// # Errors
/// The API's own failure.
pub(super) async fn declared(
    context: &ControllerContext,
    servers: &Servers,
    class: &ClusterClass,
) -> Result<Vec<Declared>, ReconcileError> {
    if declaring(class).next().is_none() {
        return Ok(Vec::new());
    }
    let extensions = Extensions::read(context, &servers.connections).await?;
    let namespace = class.namespace().unwrap_or_default();
    // The answer depends on nothing but what the key has anyway.
    let caching = Caching { cache: &servers.answers, key: "", time: KEPT };
    let mut declared = Vec::new();
    for (patch, external, handler) in declaring(class) {
        let settings = external.settings.as_ref().unwrap_or(&NO_SETTINGS);
        let call = Call { handler, namespace: &namespace, settings };
        let variables = match extensions.call_cached(&caching, &call, &DiscoverVariablesRequest {}).await {
            // Without an answer, no variable is known. Clusters must not lose theirs, whatever the failurePolicy.
            Ok(answer) if answer.status().is_empty() => {
                Err(format!("extension handler {handler} did not answer. Look at its logs"))
            }
            Ok(answer) => Ok(answer.variables),
            Err(ExtensionError::Api(error)) => return Err(error.into()),
            Err(error) => Err(error.to_string()),
        };
        declared.push(Declared { patch: patch.to_owned(), variables });
    }
    Ok(declared)
}

/// Returns the distinct references of a class to templates.
pub(super) fn references(class: &ClusterClass) -> Vec<RemediationTemplateRef> {
    let spec = &class.spec;
    let mut all = vec![&spec.infrastructure.template_ref, &spec.control_plane.template_ref];
    all.extend(spec.control_plane.machine_infrastructure.iter().map(|holder| &holder.template_ref));
    let workers = spec.workers.as_ref();
    for class in workers.and_then(|workers| workers.machine_deployments.as_ref()).into_iter().flatten() {
        all.extend([&class.bootstrap.template_ref, &class.infrastructure.template_ref]);
    }
    for class in workers.and_then(|workers| workers.machine_pools.as_ref()).into_iter().flatten() {
        all.extend([&class.bootstrap.template_ref, &class.infrastructure.template_ref]);
    }
    let mut distinct: Vec<RemediationTemplateRef> = Vec::new();
    for reference in all {
        if !distinct.contains(reference) {
            distinct.push(reference.clone());
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_reference_of_a_class_is_read_once() {
        let of = |name: &str| -> Value {
            json!({"templateRef": {"apiVersion": "a.example/v1", "kind": "FooTemplate", "name": name}})
        };
        let mut control_plane = of("plane");
        control_plane["machineInfrastructure"] = of("shared");
        let worker =
            |name: &str| json!({"class": name, "bootstrap": of(name), "infrastructure": of("shared")});
        let class: ClusterClass = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": "c"},
            "spec": {
                "infrastructure": of("network"), "controlPlane": control_plane,
                "workers": {"machineDeployments": [worker("a"), worker("b")], "machinePools": [worker("pool")]},
            },
        }))
        .unwrap();
        let names: Vec<String> = references(&class).into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["network", "plane", "shared", "a", "b", "pool"]);
    }
}
