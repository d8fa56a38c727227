//! Scale subresource: one number of the object, written like any other update.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use apiserver_structured_merge::{
    Entries, FieldManager, Path, ScalePaths, Set, Type, VersionError, Versions, from_scale, to_scale,
};
use jiff::Timestamp;
use serde_json::Value;

use super::apply::{check_kind, refusal};
use super::identity;
use super::update::{Method, Modification};
use crate::object;
use crate::resource::Scale;
use crate::scale;
use crate::status::{ApiError, ApiResult};
use crate::store::{Configuration, Kind, ObjectStore, Origin, Target, WriteOptions, Written, WrittenObject};

/// The empty set: all fields of a Scale have managers.
static NO_FIELDS: LazyLock<Set> = LazyLock::new(Set::default);

static TYPE: LazyLock<Arc<Type>> =
    LazyLock::new(|| Arc::new(Type::of_object(&scale::schema()).unwrap_or(Type::Deduced)));

/// Change of a Scale with field managers. The flag says whether the object has a desired number of replicas.
type Change<'a> = dyn FnMut(&Value, bool) -> ApiResult<Value> + Send + 'a;

/// The number that a patch gets if the object has no desired number of replicas. No client requests it, so a result
/// with this number is a patch that does not set one.
const UNSET: i32 = i32::MIN;

impl ObjectStore {
    /// Writes the Scale that `change` returns for the present one; the object in the result is the Scale.
    ///
    /// # Errors
    /// The errors of `change`; else those of an update: 400, 404, 409, 422, 503.
    pub async fn scale(
        &self,
        kind: Kind<'_>,
        scale: &Scale,
        namespace: &str,
        name: &str,
        (options, method): (WriteOptions, Method),
        mut change: impl FnMut(&Value) -> ApiResult<Value> + Send,
    ) -> ApiResult<Written> {
        let api_version = api_version();
        let mut with_managers = |old: &Value, is_set: bool| {
            let mut shown = without_managers(old);
            if !is_set {
                shown["spec"]["replicas"] = Value::from(UNSET);
            }
            let mut new = change(&shown)?;
            if object::at(&new, "spec.replicas").is_some_and(|replicas| *replicas == UNSET) {
                let path = &scale.spec_replicas;
                return Err(ApiError::bad_request(format!(
                    "the spec replicas field {path:?} cannot be empty"
                )));
            }
            // A Scale omits zero, so no manager owns it: a client that scales to zero does not own the number.
            if object::at(&new, "spec.replicas").is_some_and(|replicas| *replicas == 0) {
                object::remove_at(&mut new, &["spec", "replicas"]);
            }
            field_manager(&api_version, &options.manager).update(Some(old), &mut new);
            Ok(new)
        };
        self.rescale(kind, scale, (namespace, name), (&options, method), &mut with_managers).await
    }

    /// Applies a configuration to the Scale of an object; the object in the result is the Scale.
    ///
    /// # Errors
    /// 400, 404, 409, 413, 422, 500 (a configuration that is no Scale), 503.
    pub async fn apply_scale(
        &self,
        kind: Kind<'_>,
        scale: &Scale,
        namespace: &str,
        name: &str,
        configuration: &Configuration,
        options: &WriteOptions,
    ) -> ApiResult<Written> {
        let (api_version, fields) = (api_version(), &configuration.fields);
        let mut warnings = Vec::new();
        let mut applied = |old: &Value, _: bool| {
            check_kind(fields, &api_version, scale::KIND)?;
            let applied =
                field_manager(&api_version, &options.manager).apply(Some(old), fields, configuration.force);
            let applied = applied.map_err(|error| refusal(fields, &api_version, scale::KIND, &error))?;
            warnings = configuration.duplicate_warnings(options.field_validation)?;
            Ok(applied.object)
        };
        let how = (options, Method::Patch);
        let written = self.rescale(kind, scale, (namespace, name), how, &mut applied).await;
        Written::with_warnings(written, warnings)
    }

    async fn rescale(
        &self,
        kind: Kind<'_>,
        scale: &Scale,
        (namespace, name): (&str, &str),
        (options, method): (&WriteOptions, Method),
        change: &mut Change<'_>,
    ) -> ApiResult<Written> {
        let (replicas, api_version) = (self.replicas(kind), kind.resource.api_version());
        let paths = ScalePaths { replicas: &replicas, api_version: &api_version };
        let change = |old: &Value| {
            let managers = object::at(old, "metadata.managedFields");
            // Field managers that cannot be decoded own nothing here.
            let managers = Entries::decode(managers).unwrap_or_default();
            let (mut present, is_set) = scale::of(scale, old)?;
            set_managers(&mut present, &to_scale(&managers, &paths));
            let wanted = change(&present, is_set)?;
            let mut new = scale::carry_over(scale, old, &wanted);
            if method == Method::Put {
                identity::check_uid(kind, &new, old)?;
            }
            // A patch of a Scale cannot name an object by its uid.
            object::set_meta(&mut new, "uid", object::meta(old, "uid"));
            let scalers = Entries::decode(object::at(&wanted, "metadata.managedFields")).unwrap_or_default();
            set_managers(&mut new, &from_scale(&managers, &scalers, &paths));
            Ok(new)
        };
        let (target, origin) = (Target::Object, Origin::Sent);
        let how = Modification {
            target,
            options,
            origin,
            has_managers: true,
            skips_unchanged: false,
            method,
            scale: Some(scale),
        };
        let written = self.modify(kind, namespace, name, how, change).await?;
        let shown = scale::shown(scale, &written.object.into_value()?)?;
        Ok(Written { object: WrittenObject::Tree(shown), warnings: written.warnings })
    }

    /// Returns the path of the number, in every version of the kind.
    fn replicas(&self, kind: Kind<'_>) -> BTreeMap<String, Path> {
        let resources = self.registry.resources().iter();
        let same =
            |group: &str, plural: &str| (group, plural) == (&*kind.resource.group, &*kind.resource.plural);
        let versions = resources.filter(|resource| same(&resource.group, &resource.plural));
        versions
            .filter_map(|resource| {
                let path = resource.scale.as_ref()?.spec_replicas.trim_start_matches('.');
                Some((resource.api_version(), Path::of_fields(path.split('.'))))
            })
            .collect()
    }
}

/// Scale as the only version of its kind.
struct ScaleVersion;

impl Versions for ScaleVersion {
    fn of_version(&self, api_version: &str) -> Option<Arc<Type>> {
        (api_version == self::api_version()).then(|| Arc::clone(&TYPE))
    }

    fn convert(&self, object: Value, _: &str, _: &str) -> Result<Value, VersionError> {
        Ok(object)
    }
}

fn api_version() -> String {
    format!("{}/{}", scale::GROUP, scale::VERSION)
}

fn field_manager<'a>(api_version: &'a str, manager: &'a str) -> FieldManager<'a> {
    let now = Timestamp::now().as_second();
    FieldManager {
        versions: &ScaleVersion,
        api_version,
        manager,
        subresource: "scale",
        reset: &NO_FIELDS,
        now,
    }
}

/// Removes the field managers, which clients of a Scale do not see.
fn without_managers(scale: &Value) -> Value {
    let mut scale = scale.clone();
    object::remove_meta(&mut scale, "managedFields");
    scale
}

fn set_managers(object: &mut Value, managers: &Entries) {
    match managers.encode() {
        Some(managers) => object::set_meta(object, "managedFields", managers),
        None => object::remove_meta(object, "managedFields"),
    }
}
