//! ClusterClass of a Cluster, and the variables that it defines.

use apiserver_machinery::metadata::is_subdomain;
use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use serde_json::Value;

use crate::rules::json_fields::{get, items, text};

/// API group of these kinds.
pub(crate) const GROUP: &str = "cluster.x-k8s.io";

/// Condition with which the class's controller reports that all variables are known.
const VARIABLES_READY: &str = "VariablesReady";

/// Key of a class: its namespace and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClassKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl std::fmt::Display for ClassKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl ClassKey {
    /// Returns the key of a cluster's class.
    pub(crate) fn of(cluster: &Value) -> Option<Self> {
        let name = text(cluster, "spec.topology.classRef.name").filter(|name| !name.is_empty())?;
        let namespace = text(cluster, "spec.topology.classRef.namespace").filter(|found| !found.is_empty());
        let namespace = namespace.unwrap_or_else(|| object::namespace(cluster));
        Some(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    pub(super) async fn find(&self, others: &dyn ObjectReader) -> ApiResult<Option<Value>> {
        // A value that cannot be a name refers to no class. The schema reports the error.
        if !is_subdomain(&self.namespace) || !is_subdomain(&self.name) {
            return Ok(None);
        }
        others.find(GROUP, "clusterclasses", &self.namespace, &self.name).await
    }

    /// Returns upstream's text for a missing class.
    pub(super) fn not_found(&self) -> String {
        format!("ClusterClass.{GROUP} {:?} not found", self.name)
    }
}

/// Known variables of a class.
///
/// Upstream takes them from `status` only. There the class's controller collects the variables of the class and of its
/// extensions. Upstream validates nothing while that status is out of date. Here a class may have no such controller.
/// If no controller has written the status, the class's own variables count, because the controller would write the
/// same. If the class has extensions, its variables are unknown.
pub(super) enum Definitions<'a> {
    /// Unknown.
    Unknown,
    /// Variables as the class has them: `name`, `required` and `schema`.
    Own(Vec<&'a Value>),
    /// Variables as the controller has them: `name`, `definitions`, and a flag for conflicting definitions.
    Collected(Vec<&'a Value>),
}

impl<'a> Definitions<'a> {
    pub(super) fn of(class: &'a Value) -> Self {
        let list = |path: &str| get(class, path).and_then(Value::as_array).into_iter().flatten().collect();
        if !has_controller(class) {
            let asks =
                |(_, patch): (usize, &Value)| get(patch, "external.discoverVariablesExtension").is_some();
            if items(class, "spec.patches").any(asks) {
                return Self::Unknown;
            }
            let mut own: Vec<&Value> = list("spec.variables");
            // The controller's order.
            own.sort_by_key(|variable| variable.get("name").and_then(Value::as_str));
            return Self::Own(own);
        }
        if is_reconciled(class) { Self::Collected(list("status.variables")) } else { Self::Unknown }
    }
}

fn condition(class: &Value) -> Option<&Value> {
    let mut conditions = items(class, "status.conditions").map(|(_, condition)| condition);
    conditions.find(|condition| condition.get("type").and_then(Value::as_str) == Some(VARIABLES_READY))
}

/// Reports whether a controller has written the status of the class.
fn has_controller(class: &Value) -> bool {
    get(class, "status.observedGeneration").is_some()
        || get(class, "status.variables").is_some()
        || condition(class).is_some()
}

/// Reports whether the variables in the status belong to the current generation of the class.
fn is_reconciled(class: &Value) -> bool {
    get(class, "metadata.generation") == get(class, "status.observedGeneration")
        && condition(class).is_some_and(|condition| condition.get("status") != Some(&Value::from("False")))
}
