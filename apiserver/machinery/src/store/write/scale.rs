//! The subresource `scale`: one number of the object, written as any other update.

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

/// Nothing is exempt in a Scale.
static NO_FIELDS: LazyLock<Set> = LazyLock::new(Set::default);

static TYPE: LazyLock<Arc<Type>> =
    LazyLock::new(|| Arc::new(Type::of_object(&scale::schema()).unwrap_or(Type::Deduced)));

/// What a write makes of a Scale that has its managers, and that is_set how many replicas are wanted or does not.
type Change<'a> = dyn FnMut(&Value, bool) -> ApiResult<Value> + Send + 'a;

/// What a patch finds where the object does not say how many replicas it wants: no number that anybody wants, so that
/// a patch which leaves it is_set nothing either.
const UNSET: i32 = i32::MIN;

impl ObjectStore {
    /// Writes the Scale that `change` makes of the present one; the answer's object is the Scale.
    ///
    /// # Errors
    /// What `change` refuses; else as updates do: 400, 404, 409, 422, 503.
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
            // A Scale does not say zero, so that nobody owns it: whoever scales to it leaves the number to others.
            if object::at(&new, "spec.replicas").is_some_and(|replicas| *replicas == 0) {
                object::remove_at(&mut new, &["spec", "replicas"]);
            }
            field_manager(&api_version, &options.manager).update(Some(old), &mut new);
            Ok(new)
        };
        self.rescale(kind, scale, (namespace, name), (&options, method), &mut with_managers).await
    }

    /// Applies a configuration to the Scale of an object; the answer's object is the Scale.
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
            // FieldManagers that cannot be read own nothing here.
            let managers = Entries::decode(managers).unwrap_or_default();
            let (mut present, is_set) = scale::of(scale, old)?;
            set_managers(&mut present, &to_scale(&managers, &paths));
            let wanted = change(&present, is_set)?;
            let mut new = scale::carry_over(scale, old, &wanted);
            if method == Method::Put {
                identity::check_uid(kind, &new, old)?;
            }
            // A patch of a Scale names no object by its uid.
            object::set_meta(&mut new, "uid", object::meta(old, "uid"));
            let scalers = Entries::decode(object::at(&wanted, "metadata.managedFields")).unwrap_or_default();
            set_managers(&mut new, &from_scale(&managers, &scalers, &paths));
            Ok(new)
        };
        let (target, origin) = (Target::Object, Origin::Sent);
        let how =
            Modification { target, options, origin, has_managers: true, skips_unchanged: false, method };
        let written = self.modify(kind, namespace, name, how, change).await?;
        let shown = scale::shown(scale, &written.object.into_value()?)?;
        Ok(Written { object: WrittenObject::Tree(shown), warnings: written.warnings })
    }

    /// Where the number stands, in every version of the kind.
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

/// Scale as the only version of a kind of its own.
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

/// Clients do not see the managers of a Scale.
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
