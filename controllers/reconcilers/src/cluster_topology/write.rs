//! Writer of the objects of a topology: server-side apply of what differs, and the Events about it.

use apiserver_types::Cluster;
use controllers_runtime::{ControllerContext, ReconcileError, Severity};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::blueprint::{self, FAILED, value};
use super::compare::{self, Difference};
use super::desired::{name, put};
use super::{MANAGER, naming, taken};
use crate::ownership;

/// Writer of a pass.
pub(super) struct Writer<'a> {
    context: &'a ControllerContext,
    cluster: &'a Cluster,
}

/// Template after it was brought up to date.
#[derive(Debug, Clone)]
pub(super) struct Brought {
    pub name: String,
    /// The template was made in this pass.
    pub made: Option<Value>,
}

/// Object compared with its intent.
#[derive(Debug, Clone)]
pub(super) struct Compared {
    pub difference: Difference,
    /// The object after the write, with the annotation of dry runs. `None` if the kinds differ.
    pub dry: Option<Value>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(context: &'a ControllerContext, cluster: &'a Cluster) -> Self {
        Self { context, cluster }
    }

    /// Returns the API of an object that has `apiVersion` and `kind`.
    fn api(&self, object: &Value) -> Result<Api<DynamicObject>, ReconcileError> {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let resource =
            blueprint::resource(self.context, text("apiVersion"), text("kind")).ok_or_else(|| {
                let message = format!("kind {} of {} is not served here", text("kind"), text("apiVersion"));
                ReconcileError::waiting(FAILED, message)
            })?;
        let namespace = self.cluster.namespace().unwrap_or_default();
        Ok(Api::namespaced_with(self.context.client.clone(), &namespace, &resource))
    }

    async fn patch(&self, intent: &Value, is_dry: bool) -> Result<Value, ReconcileError> {
        let params = PatchParams { dry_run: is_dry, ..PatchParams::apply(MANAGER).force() };
        self.apply(intent, &params).await
    }

    async fn apply(&self, intent: &Value, params: &PatchParams) -> Result<Value, ReconcileError> {
        let name = name(intent);
        let applied = self.api(intent)?.patch(&name, params, &Patch::Apply(intent)).await;
        Ok(value(&applied.map_err(|error| refused(error, intent))?))
    }

    /// Compares an object with its intent, by a dry run.
    ///
    /// # Errors
    /// The refusal of the API.
    pub(super) async fn compare(&self, intent: &Value, current: &Value) -> Result<Compared, ReconcileError> {
        let dry = self.patch(&compare::marked(&identified(intent, current)), true).await?;
        Ok(Compared { difference: compare::difference(current, &dry), dry: Some(dry) })
    }

    /// Compares a template with its intent. Templates of different kinds differ whatever they have.
    ///
    /// # Errors
    /// The refusal of the API.
    pub(super) async fn compare_template(
        &self,
        intent: &Value,
        current: &Value,
    ) -> Result<Compared, ReconcileError> {
        match group_kind(intent) == group_kind(current) {
            true => self.compare(intent, current).await,
            false => Ok(Compared { difference: Difference::Spec, dry: None }),
        }
    }

    /// Makes an object in a dry run. Returns it.
    ///
    /// # Errors
    /// The refusal of the API, or another object has the name.
    pub(super) async fn create_dry(&self, intent: &Value) -> Result<Value, ReconcileError> {
        self.ensure_free(intent).await?;
        let params = PatchParams { dry_run: true, ..PatchParams::apply(MANAGER) };
        self.apply(intent, &params).await
    }

    /// Brings an object to its intent, or makes it. Returns its name.
    ///
    /// # Errors
    /// The refusal of the API.
    pub(super) async fn bring(
        &self,
        intent: &Value,
        current: Option<&Value>,
    ) -> Result<String, ReconcileError> {
        let Some(current) = current else {
            self.create(intent, None).await?;
            return Ok(name(intent));
        };
        let difference = self.compare(intent, current).await?.difference;
        let intent = identified(intent, current);
        if difference != Difference::None {
            self.patch(&intent, false).await?;
            self.event(
                "TopologyUpdate",
                &format!("Updated {}{}", shown(&intent), suffix(current, &intent, difference)),
            )
            .await;
        }
        Ok(name(&intent))
    }

    /// Brings a template to its intent. Another spec makes a new template under another name; labels and annotations
    /// change in place, which replaces no Machine.
    ///
    /// # Errors
    /// The refusal of the API.
    pub(super) async fn bring_template(
        &self,
        intent: &Value,
        current: Option<&Value>,
        prefix: &str,
    ) -> Result<Brought, ReconcileError> {
        let Some(current) = current else {
            self.create(intent, None).await?;
            return Ok(Brought { name: name(intent), made: Some(intent.clone()) });
        };
        let difference = self.compare_template(intent, current).await?.difference;
        if difference == Difference::Spec {
            let intent = renamed(intent, prefix);
            self.create(&intent, Some(current)).await?;
            return Ok(Brought { name: name(&intent), made: Some(intent) });
        }
        if difference == Difference::Metadata {
            let intent = identified(intent, current);
            self.patch(&intent, false).await?;
            let message = format!("Updated {} (metadata changes)", shown(&intent));
            self.event("TopologyUpdate", &message).await;
        }
        Ok(Brought { name: name(current), made: None })
    }

    /// Ensures that the API accepts an object which the topology does not have yet. This comes before its templates are
    /// made, so that a refusal leaves nothing behind.
    ///
    /// # Errors
    /// The refusal of the API, or another object has the name.
    pub(super) async fn ensure_accepted(
        &self,
        intent: &Value,
        current: Option<&Value>,
    ) -> Result<(), ReconcileError> {
        match current {
            Some(_) => Ok(()),
            None => self.create_dry(intent).await.map(drop),
        }
    }

    /// Ensures that a new object can get its name.
    ///
    /// # Errors
    /// Another object has the name: the error has the object and what to do. Or the API's own failure.
    async fn ensure_free(&self, intent: &Value) -> Result<(), ReconcileError> {
        match self.api(intent)?.get_opt(&name(intent)).await? {
            Some(found) => {
                let message = taken::message(&shown(intent), intent, &value(&found));
                Err(ReconcileError::waiting(FAILED, message))
            }
            None => Ok(()),
        }
    }

    /// Makes an object. Its apply is not forced: fields of an object that another client has made since then conflict.
    async fn create(&self, intent: &Value, replaces: Option<&Value>) -> Result<(), ReconcileError> {
        self.ensure_free(intent).await?;
        self.apply(intent, &PatchParams::apply(MANAGER)).await?;
        let of = replaces.map(|old| format!(" as a replacement for {} (template rotation)", name(old)));
        let message = format!("Created {}{}", shown(intent), of.unwrap_or_default());
        self.event("TopologyCreate", &message).await;
        Ok(())
    }

    /// Deletes an object that is no longer wanted.
    ///
    /// # Errors
    /// The refusal of the API.
    pub(super) async fn delete(&self, object: &Value) -> Result<(), ReconcileError> {
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            return Ok(());
        }
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned);
        ownership::delete(&self.api(object)?, &name(object), uid).await?;
        self.event("TopologyDelete", &format!("Deleted {}", shown(object))).await;
        Ok(())
    }

    async fn event(&self, reason: &str, message: &str) {
        self.context.events.record(self.cluster, Severity::Normal, reason, message).await;
    }
}

/// Returns an intent with name and uid of the existing object, so that one that was deleted since is not made anew.
fn identified(intent: &Value, current: &Value) -> Value {
    let mut intent = intent.clone();
    for field in ["name", "uid"] {
        let path = format!("/metadata/{field}");
        put(&mut intent, &path, current.pointer(&path).cloned());
    }
    intent
}

/// Returns the intent of a template that replaces another one.
pub(super) fn renamed(intent: &Value, prefix: &str) -> Value {
    let mut intent = intent.clone();
    put(&mut intent, "/metadata/name", Some(json!(naming::of_template(prefix))));
    intent
}

/// Returns group and kind of an object.
fn group_kind(object: &Value) -> (&str, &str) {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    (text("apiVersion").split('/').next().unwrap_or_default(), text("kind"))
}

/// Returns kind, namespace and name of an object.
fn shown(object: &Value) -> String {
    let (_, kind) = group_kind(object);
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    format!("{kind} {namespace}/{}", name(object))
}

/// Describes a change.
fn suffix(current: &Value, intent: &Value, difference: Difference) -> String {
    let version = |object: &Value| {
        let found = object.pointer("/spec/version").or_else(|| object.pointer("/spec/template/spec/version"));
        found.and_then(Value::as_str).map(str::to_owned)
    };
    match (version(current), version(intent)) {
        (Some(from), Some(to)) if from != to => format!(" with version {from} to {to}"),
        _ if difference == Difference::Metadata => " (metadata changes)".to_owned(),
        _ => String::new(),
    }
}

/// Returns the refusal of a write with the object. A generated name is left out: each attempt has another one, and the
/// text of a condition must stay the same.
fn refused(error: kube::Error, intent: &Value) -> ReconcileError {
    let is_new = intent.pointer("/metadata/uid").is_none();
    match error {
        kube::Error::Api(mut status) if status.code != 409 && is_new => {
            let (_, kind) = group_kind(intent);
            let name = name(intent);
            let stem = name.rsplit_once('-').map_or(name.as_str(), |(stem, _)| stem);
            let stable = status.message.replace(&name, &format!("{stem}-*"));
            status.message = format!("failed to create {kind} {stem}-*: {stable}");
            kube::Error::Api(status).into()
        }
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_the_change() {
        let object = |version: &str| json!({"spec": {"version": version}});
        let of = |from, to, difference| suffix(&object(from), &object(to), difference);
        assert_eq!(of("v1.32.0", "v1.33.0", Difference::Spec), " with version v1.32.0 to v1.33.0");
        assert_eq!(of("v1.33.0", "v1.33.0", Difference::Metadata), " (metadata changes)");
        assert_eq!(of("v1.33.0", "v1.33.0", Difference::Spec), "");
    }

    #[test]
    fn the_refusal_of_a_new_object_has_no_generated_name() {
        let of = |name: &str| {
            let intent = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": name}});
            let details = json!({"name": name, "kind": "K"});
            let status =
                json!({"code": 422, "message": format!("K {name:?} is invalid"), "details": details});
            let status: kube::core::Status = serde_json::from_value(status).unwrap();
            refused(kube::Error::Api(status.boxed()), &intent).to_string()
        };
        assert_eq!(of("c-md-abcde"), "failed to create K c-md-*: K \"c-md-*\" is invalid");
        assert_eq!(of("c-md-fghkl"), of("c-md-abcde"));
    }
}
