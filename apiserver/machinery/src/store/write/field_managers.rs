//! Field managers of a write, by kind and version.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use apiserver_structured_merge::{
    FieldManager, Path, Set, Type, VersionError, Versions, is_same, same_managers,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object;
use crate::resource::{Registry, Resource};
use crate::store::{Kind, ObjectStore, Target};

/// Fields without a manager in writes of the object itself, if `status` is a subresource.
static STATUS: LazyLock<Set> = LazyLock::new(|| Set::of([Path::of_fields(["status"])]));

/// Fields without a manager in writes of `status`.
static ALL_BUT_STATUS: LazyLock<Set> =
    LazyLock::new(|| Set::of([Path::of_fields(["spec"]), Path::of_fields(["metadata"])]));

/// The empty set: all fields have managers.
static NOTHING: LazyLock<Set> = LazyLock::new(Set::default);

/// Merge types of every kind in every version.
#[derive(Debug, Default)]
pub(crate) struct FieldManagers(HashMap<(String, String), KindVersions>);

/// One kind in all its versions.
#[derive(Debug, Default)]
struct KindVersions(Vec<Version>);

#[derive(Debug)]
struct Version {
    /// Its group and version, as in objects.
    api_version: String,
    resource: Arc<Resource>,
    /// Compiled by the first write that needs it.
    merged_as: OnceLock<Arc<Type>>,
}

impl FieldManagers {
    pub(crate) fn new(registry: &Registry) -> Self {
        let mut kinds: HashMap<(String, String), KindVersions> = HashMap::new();
        for resource in registry.resources() {
            let versions = kinds.entry((resource.group.clone(), resource.plural.clone())).or_default();
            versions.0.push(Version {
                api_version: resource.api_version(),
                resource: Arc::clone(resource),
                merged_as: OnceLock::new(),
            });
        }
        Self(kinds)
    }

    /// Returns the field manager of one write, or `None` for a kind that is not registered.
    pub(crate) fn write<'a>(
        &'a self,
        kind: Kind<'_>,
        api_version: &'a str,
        manager: &'a str,
        target: Target,
    ) -> Option<FieldManager<'a>> {
        let resource = kind.resource;
        let versions = self.0.get(&(resource.group.clone(), resource.plural.clone()))?;
        let reset: &Set = match target {
            Target::Status | Target::Approval => &ALL_BUT_STATUS,
            _ if resource.status_subresource => &STATUS,
            _ => &NOTHING,
        };
        let now = Timestamp::now().as_second();
        Some(FieldManager { versions, api_version, manager, subresource: target.subresource(), reset, now })
    }
}

impl ObjectStore {
    /// Returns the type by which configurations are merged into objects of a kind in one version.
    pub fn merge_type(&self, resource: &Resource) -> Option<Arc<Type>> {
        let versions = self.field_managers.0.get(&(resource.group.clone(), resource.plural.clone()))?;
        versions.of_version(&resource.api_version())
    }
}

impl KindVersions {
    fn find(&self, api_version: &str) -> Option<&Version> {
        self.0.iter().find(|version| version.api_version == api_version)
    }
}

impl Versions for KindVersions {
    fn of_version(&self, api_version: &str) -> Option<Arc<Type>> {
        let version = self.find(api_version)?;
        let compile = || {
            // Without merge keywords in the schema, the type is deduced from the objects.
            let free = || Type::of_object(&json!({"type": "object"}));
            let compiled = Type::of_object(&version.resource.schema.published()).or_else(|_| free());
            Arc::new(compiled.unwrap_or(Type::Deduced))
        };
        Some(Arc::clone(version.merged_as.get_or_init(compile)))
    }

    fn convert(&self, object: Value, from: &str, to: &str) -> Result<Value, VersionError> {
        let conversion = |name: &str| {
            let version = self.find(name).ok_or_else(|| VersionError(format!("{name} is not served")))?;
            Ok::<_, VersionError>(version.resource.conversion.as_ref())
        };
        let failed = |error: &dyn std::fmt::Display| VersionError(format!("from {from} to {to}: {error}"));
        let stored = match conversion(from)? {
            None => object,
            Some(conversion) => conversion.stored(object).map_err(|error| failed(&error))?,
        };
        match conversion(to)? {
            None => Ok(stored),
            Some(conversion) => conversion.served(stored).map_err(|error| failed(&error)),
        }
    }
}

/// Keeps the managers of `old` if only their times differ: then the write changes nothing.
pub(crate) fn keep_times(new: &mut Value, old: &Value) {
    if !is_same(new, old) || !same_managers(new, old) {
        return;
    }
    match object::at(old, "metadata.managedFields") {
        Some(managers) => object::set_meta(new, "managedFields", managers.clone()),
        None => object::remove_meta(new, "managedFields"),
    }
}
