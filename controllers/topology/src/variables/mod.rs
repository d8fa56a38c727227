//! Variables of a topology: defaulting, and validation against the definitions of the class.

mod declared;
mod definitions;
mod fields;
pub mod schema;
mod value;

use std::collections::{BTreeMap, HashMap, HashSet};

use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::ClusterVariable;
use serde_json::{Map, Value, json};

pub use declared::check_declared;
pub use definitions::Definitions;
use definitions::{Definition, Index};
use fields::{get, items};

/// Lists of workers of a topology.
pub const POOLS: [&str; 2] = ["machineDeployments", "machinePools"];

/// Largest number of values in a list, and of lists of workers. These are the limits of the Cluster's schema, which is
/// checked only later and reports the excess.
const MOST_VALUES: usize = 1000;
const MOST_POOLS: usize = 2000;

/// Sets the defaults of the variables of a cluster with a topology, and returns the errors. A value of the wrong shape
/// is skipped, because the schema reports it.
pub fn default_and_validate(
    new: &mut Value,
    old: Option<&Value>,
    definitions: &Definitions<'_>,
) -> Vec<FieldError> {
    let value_lists = value_lists(new, old);
    let is_readable =
        |list: &ValueList<'_>| list.values(new).is_some_and(|values| values.len() <= MOST_VALUES);
    if value_lists.len() > 2 + POOLS.len() * MOST_POOLS || !value_lists.iter().all(is_readable) {
        return Vec::new();
    }
    let index = match Index::of(definitions) {
        Ok(index) => index,
        Err(contradiction) => {
            // Without valid definitions, values can be neither defaulted nor validated.
            return value_lists.iter().chain(&value_lists).map(|list| contradiction.at(&list.path)).collect();
        }
    };
    let mut errors = Vec::new();
    for list in &value_lists {
        match list.filled_in(new, &index) {
            Ok(values) => list.set(new, values),
            Err(found) => errors.extend(found),
        }
    }
    for list in &value_lists {
        list.validate(new, &index, &mut errors);
    }
    errors
}

/// Returns the values by name.
pub fn by_name(values: Option<&[ClusterVariable]>) -> BTreeMap<String, Value> {
    values.unwrap_or_default().iter().map(|entry| (entry.name.clone(), entry.value.0.clone())).collect()
}

/// List of values of variables.
struct ValueList<'a> {
    pointer: String,
    path: FieldPath,
    /// Set if the list must have values of all variables, and not only overrides.
    is_whole: bool,
    /// Old list.
    old: Option<&'a Value>,
}

/// Returns the values of the whole cluster, and each list of overrides that is not empty.
fn value_lists<'a>(new: &Value, old: Option<&'a Value>) -> Vec<ValueList<'a>> {
    let overrides =
        |holder: &Value| get(holder, "variables.overrides").is_some_and(|list| *list != json!([]));
    let path = FieldPath::new("spec.topology.variables");
    let before = old.and_then(|old| get(old, "spec.topology.variables"));
    let mut found =
        vec![ValueList { pointer: "/spec/topology/variables".to_owned(), path, is_whole: true, old: before }];
    if get(new, "spec.topology.controlPlane").is_some_and(overrides) {
        let path = "spec.topology.controlPlane.variables.overrides";
        found.push(ValueList {
            pointer: format!("/{}", path.replace('.', "/")),
            path: FieldPath::new(path),
            is_whole: false,
            old: old.and_then(|old| get(old, path)),
        });
    }
    for list in POOLS {
        let path = format!("spec.topology.workers.{list}");
        for (index, pool) in items(new, &path).filter(|(_, pool)| overrides(pool)) {
            let name = pool.get("name").and_then(Value::as_str).unwrap_or_default();
            let mut before = old.into_iter().flat_map(|old| items(old, &path));
            let before = before.find(|(_, other)| other.get("name") == pool.get("name"));
            found.push(ValueList {
                pointer: format!("/spec/topology/workers/{list}/{index}/variables/overrides"),
                path: FieldPath::new(path.clone()).key(name).child("variables.overrides"),
                is_whole: false,
                old: before.and_then(|(_, pool)| get(pool, "variables.overrides")),
            });
        }
    }
    found
}

impl<'a> ValueList<'a> {
    /// Returns the values with their names, or `None` if the list has another shape.
    fn values<'v>(&self, cluster: &'v Value) -> Option<Vec<(&'v str, &'v Map<String, Value>)>> {
        let Some(list) = cluster.pointer(&self.pointer) else { return Some(Vec::new()) };
        let named = |entry: &'v Value| Some((entry.get("name")?.as_str()?, entry.as_object()?));
        list.as_array()?.iter().map(named).collect()
    }

    fn set(&self, cluster: &mut Value, values: Vec<Value>) {
        if let Some(list) = cluster.pointer_mut(&self.pointer) {
            *list = Value::Array(values);
        } else if let Some(topology) = cluster.pointer_mut("/spec/topology").and_then(Value::as_object_mut)
            && !values.is_empty()
        {
            topology.insert("variables".to_owned(), Value::Array(values));
        }
    }

    /// Returns the values with defaults in their order, followed by new values.
    fn filled_in(&self, cluster: &Value, index: &Index<'_>) -> Result<Vec<Value>, Vec<FieldError>> {
        let values = self.values(cluster).unwrap_or_default();
        self.refuse_repetition(&values)?;
        let (mut found, mut errors) = (Vec::new(), Vec::new());
        for (name, entry) in &values {
            let at = self.path.key(name);
            let Some(definition) = index.get(name) else {
                errors.push(value::undefined(at, entry.get("value")));
                continue;
            };
            match value::fill_in(entry.get("value").unwrap_or(&Value::Null), definition, &at) {
                Ok(value) => {
                    let mut entry = (*entry).clone();
                    entry.insert("value".to_owned(), value);
                    found.push(Value::Object(entry));
                }
                Err(error) => errors.push(error),
            }
        }
        for definition in self.missing(&values, index) {
            if definition.schema.get("default").is_some_and(|default| !default.is_null()) {
                match value::fill_in(&Value::Null, definition, &self.path.key(definition.name)) {
                    Ok(value) => found.push(json!({"name": definition.name, "value": value})),
                    Err(error) => errors.push(error),
                }
            }
        }
        if errors.is_empty() { Ok(found) } else { Err(errors) }
    }

    fn refuse_repetition(&self, values: &[(&str, &Map<String, Value>)]) -> Result<(), Vec<FieldError>> {
        let mut before = HashSet::new();
        let repeated = values.iter().filter(|(name, _)| !before.insert(*name));
        let errors: Vec<FieldError> = repeated
            .map(|(name, entry)| {
                let detail = format!("variable {name:?} is set more than once");
                value::refuse(self.path.key(name), entry.get("value"), &detail)
            })
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Returns the required variables without a value.
    fn missing<'i, 'd>(
        &self,
        values: &[(&str, &Map<String, Value>)],
        index: &'i Index<'d>,
    ) -> Vec<&'i Definition<'d>> {
        let given: HashSet<&str> = values.iter().map(|(name, _)| *name).collect();
        index.iter().filter(|definition| self.is_whole && !given.contains(definition.name)).collect()
    }

    fn validate(&self, cluster: &Value, index: &Index<'_>, errors: &mut Vec<FieldError>) {
        let values = self.values(cluster).unwrap_or_default();
        if let Err(found) = self.refuse_repetition(&values) {
            return errors.extend(found);
        }
        for definition in self.missing(&values, index) {
            if definition.is_required {
                let detail = format!("required variable {:?} must be set", definition.name);
                errors.push(FieldError::required(self.path.clone(), &detail));
            }
        }
        let old = self.old.and_then(Value::as_array).into_iter().flatten();
        let named = |old: &'a Value| Some((old.get("name")?.as_str()?, old.get("value")?));
        let old: HashMap<&str, &Value> = old.filter_map(named).collect();
        for (name, entry) in values {
            let (at, now) = (self.path.key(name), entry.get("value"));
            let Some(definition) = index.get(name) else {
                errors.push(value::undefined(at, now));
                continue;
            };
            let before = old.get(name).copied();
            errors.extend(value::validate(now.unwrap_or(&Value::Null), before, definition, &at));
        }
    }
}

#[cfg(test)]
mod tests;
