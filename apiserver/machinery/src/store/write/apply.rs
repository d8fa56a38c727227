//! Server-side apply: merges a configuration into the object and updates its field managers.

use apiserver_structured_merge::{Applied, ApplyError, Conflicts};
use serde_json::Value;

use super::update::{Method, Modification};
use super::{create, identity};
use crate::admission::{Action, Creation};
use crate::object;
use crate::resource::Resource;
use crate::status::{ApiError, ApiResult};
use crate::store::{FieldValidation, Kind, ObjectStore, Origin, Target, WriteOptions, Written};

/// Number of lost races between creating and changing before an apply fails.
const ATTEMPTS: usize = 20;

/// Configuration that a client applies.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// The fields of the configuration.
    pub fields: Value,
    /// If true, it takes over conflicting fields from other managers.
    pub force: bool,
    /// Warnings about duplicate keys in it.
    pub duplicates: Vec<String>,
}

impl Configuration {
    /// Returns the warnings about duplicate keys. They are reported after the merge, like upstream's.
    ///
    /// # Errors
    /// 400 in strict validation, if there are any.
    pub(crate) fn duplicate_warnings(&self, validation: FieldValidation) -> ApiResult<Vec<String>> {
        match validation {
            FieldValidation::Strict if !self.duplicates.is_empty() => Err(ApiError::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
                self.duplicates.join("\n  ")
            ))),
            FieldValidation::Warn => Ok(self.duplicates.clone()),
            FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
        }
    }
}

/// Result of an apply.
#[derive(Debug, Clone, PartialEq)]
pub struct AppliedObject {
    /// The object and the warnings for the client.
    pub written: Written,
    /// True if the object did not exist before.
    pub created: bool,
}

impl ObjectStore {
    /// Applies a configuration to an object, which is created if it does not exist. If another client wrote first, the
    /// apply starts again with the newest object.
    ///
    /// # Errors
    /// 400, 403 (creating), 404, 409, 413, 422, 500 (a configuration that the schema does not know),
    /// 503.
    pub async fn apply(
        &self,
        kind: Kind<'_>,
        name: &str,
        configuration: &Configuration,
        target: Target,
        options: &WriteOptions,
        creation: &Creation<'_>,
    ) -> ApiResult<AppliedObject> {
        let (api_version, name_of_kind) = (kind.resource.api_version(), &kind.resource.kind);
        if target == Target::Object {
            check_kind(&configuration.fields, &api_version, name_of_kind)?;
        }
        for _ in 0..ATTEMPTS {
            match self.apply_to_existing(kind, name, configuration, target, options, creation).await {
                Err(error) if error.code == 404 && target == Target::Object => {}
                other => return other.map(|written| AppliedObject { written, created: false }),
            }
            match self.apply_to_nothing(kind, name, configuration, options, creation).await {
                Err(error) if error.reason == "AlreadyExists" => {}
                other => return other.map(|written| AppliedObject { written, created: true }),
            }
        }
        Err(ApiError::modified(kind.resource, name))
    }

    async fn apply_to_existing(
        &self,
        kind: Kind<'_>,
        name: &str,
        configuration: &Configuration,
        target: Target,
        options: &WriteOptions,
        creation: &Creation<'_>,
    ) -> ApiResult<Written> {
        let (origin, method) = (Origin::Applied, Method::Patch);
        let skips_unchanged =
            target.unchanged_field().is_some_and(|field| configuration.fields.get(field).is_none());
        let modification = Modification {
            target,
            options,
            origin,
            has_managers: true,
            skips_unchanged,
            method,
            scale: None,
        };
        let mut warnings = Vec::new();
        let change = |live: &Value| {
            // For a subresource, this is checked only if the object exists.
            check_kind(&configuration.fields, &kind.resource.api_version(), &kind.resource.kind)?;
            let applied = self.merge(kind, Some(live), configuration, target, options)?;
            warnings = configuration.duplicate_warnings(options.field_validation)?;
            Ok(applied.object)
        };
        let applied = self.modify(kind, creation.namespace, name, modification, change).await;
        Written::with_warnings(applied, warnings)
    }

    async fn apply_to_nothing(
        &self,
        kind: Kind<'_>,
        name: &str,
        configuration: &Configuration,
        options: &WriteOptions,
        creation: &Creation<'_>,
    ) -> ApiResult<Written> {
        let resource = kind.resource;
        creation.permissions.require(create_action(resource, name, creation.namespace)).await?;
        let object = self.merge(kind, None, configuration, Target::Object, options)?.object;
        let warnings = configuration.duplicate_warnings(options.field_validation)?;
        Written::with_warnings(self.create_merged(kind, name, object, options, creation).await, warnings)
    }

    async fn create_merged(
        &self,
        kind: Kind<'_>,
        name: &str,
        mut object: Value,
        options: &WriteOptions,
        creation: &Creation<'_>,
    ) -> ApiResult<Written> {
        let resource = kind.resource;
        let uid = object::meta(&object, "uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(ApiError::conflict(resource, name, &why));
        }
        create::set_namespace(kind, creation.namespace, &mut object)?;
        identity::check_names(&object, creation.namespace, name)?;
        kind.stored.strategy.admit(&mut object, creation).await?;
        self.create_applied(kind, creation.namespace, object, options).await
    }

    /// Returns the live object with the configuration merged into it.
    fn merge(
        &self,
        kind: Kind<'_>,
        live: Option<&Value>,
        configuration: &Configuration,
        target: Target,
        options: &WriteOptions,
    ) -> ApiResult<Applied> {
        let api_version = kind.resource.api_version();
        let field_manager = self.field_managers.write(kind, &api_version, &options.manager, target);
        let field_manager =
            field_manager.ok_or_else(|| ApiError::internal(format!("{api_version} is not served")))?;
        let fields = &configuration.fields;
        let applied = field_manager.apply(live, fields, configuration.force);
        applied.map_err(|error| refusal(fields, &api_version, &kind.resource.kind, &error))
    }
}

/// Checks that a configuration has the kind and version of its URL, and no field managers.
pub(crate) fn check_kind(fields: &Value, api_version: &str, kind: &str) -> ApiResult<()> {
    let part = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let given = (part("apiVersion"), part("kind"));
    if given != (api_version, kind) {
        return Err(ApiError::bad_request(format!("invalid object type: {}", kind_text(given.0, given.1))));
    }
    if object::at(fields, "metadata.managedFields").is_some_and(|managers| !managers.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}

/// Formats a kind like upstream: `group/version, Kind=Name`.
fn kind_text(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

fn create_action<'a>(resource: &'a Resource, name: &'a str, namespace: &'a str) -> Action<'a> {
    Action {
        verb: "create",
        group: &resource.group,
        version: &resource.version,
        resource: &resource.plural,
        subresource: "",
        namespace,
        name,
    }
}

pub(crate) fn refusal(fields: &Value, api_version: &str, kind: &str, error: &ApplyError) -> ApiError {
    match error {
        ApplyError::Conflicts(conflicts) => conflict(conflicts),
        ApplyError::Mismatch(mismatch) => {
            let (namespace, name) = (object::namespace(fields), object::name(fields));
            let kind = kind_text(api_version, kind);
            let text =
                format!("failed to create typed patch object ({namespace}/{name}; {kind}): {mismatch}");
            ApiError::untyped(500, text)
        }
        other => ApiError::untyped(500, other.to_string()),
    }
}

fn conflict(conflicts: &Conflicts) -> ApiError {
    let causes = conflicts
        .iter()
        .map(|conflict| (format!("conflict with {}", conflict.manager), conflict.path.to_string()));
    ApiError::apply_conflict(&conflicts.to_string(), causes)
}
