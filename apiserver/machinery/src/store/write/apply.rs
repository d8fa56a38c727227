//! Server-side apply: say what you want, and own it.

use apiserver_structured_merge::{Applied, ApplyError, Conflicts};
use serde_json::Value;

use super::update::{Method, Modification};
use super::{create, identity};
use crate::admission::{Action, Creation};
use crate::object;
use crate::resource::Resource;
use crate::status::{ApiError, ApiResult};
use crate::store::{FieldValidation, Kind, ObjectStore, Origin, Target, WriteOptions, Written};

/// Lost races between creating and changing before an apply gives up.
const ATTEMPTS: usize = 20;

/// What somebody wants an object to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// The fields they have an opinion about.
    pub fields: Value,
    /// Whether it is taken from others what they own and think otherwise about.
    pub force: bool,
    /// What to say of the keys that occur duplicates in it.
    pub duplicates: Vec<String>,
}

impl Configuration {
    /// What the writer is told of its form. That is looked at when it has been merged, and no sooner.
    ///
    /// # Errors
    /// 400 in strict validation, when there is anything.
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

/// What an apply came to.
#[derive(Debug, Clone, PartialEq)]
pub struct AppliedObject {
    /// The object and what its writer should be told.
    pub written: Written,
    /// Whether there was none before.
    pub created: bool,
}

impl ObjectStore {
    /// Applies a configuration to an object, which is created when there is none. Done again on the
    /// newest object when somebody else was faster.
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
        let modification =
            Modification { target, options, origin, has_managers: true, skips_unchanged, method };
        let mut warnings = Vec::new();
        let change = |live: &Value| {
            // Of a part this is asked when there is something to have it, and not before.
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

    /// The live object with the configuration in it.
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

/// A configuration must be of the kind and version of its URL, and may not say who owns what.
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

/// A kind as upstream prints it: `group/version, Kind=Name`.
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
