//! The ClusterClass of a Cluster, and what it defines.

use apiserver_machinery::metadata::is_subdomain;
use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use serde_json::Value;

use crate::rules::json_fields::{get, items, text};

/// API group of all these kinds.
pub(crate) const GROUP: &str = "cluster.x-k8s.io";

/// The condition with which a class's controller says that it knows all variables.
const VARIABLES_READY: &str = "VariablesReady";

/// Where a class is, as `namespace/name`.
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
    /// Where the class of a cluster is.
    pub(crate) fn of(cluster: &Value) -> Option<Self> {
        let name = text(cluster, "spec.topology.classRef.name").filter(|name| !name.is_empty())?;
        let namespace = text(cluster, "spec.topology.classRef.namespace").filter(|found| !found.is_empty());
        let namespace = namespace.unwrap_or_else(|| object::namespace(cluster));
        Some(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    pub(super) async fn find(&self, others: &dyn ObjectReader) -> ApiResult<Option<Value>> {
        // What cannot be a name is not there; why it cannot be is the schema's to say.
        if !is_subdomain(&self.namespace) || !is_subdomain(&self.name) {
            return Ok(None);
        }
        others.find(GROUP, "clusterclasses", &self.namespace, &self.name).await
    }

    /// How a reader of caches says that the class is not there.
    pub(super) fn not_found(&self) -> String {
        format!("ClusterClass.{GROUP} {:?} not found", self.name)
    }
}

/// What is known of the variables of a class.
///
/// Upstream knows them from `status` alone, where the class's controller collects what the class
/// itself and its extensions define, and looks at nothing as long as that is not up to date. Here a
/// class may well be without that controller. Until one has said anything, the class's own variables
/// are what the controller would say, unless an extension is to be asked: then nothing is known.
pub(super) enum Definitions<'a> {
    /// Not yet known.
    Unknown,
    /// As the class has them: `name`, and `required` and `schema`.
    Own(Vec<&'a Value>),
    /// As the controller has them: `name`, `definitions` and whether those contradict each other.
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
            // The controller puts them in this order.
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

/// Whether some controller has looked at the class.
fn has_controller(class: &Value) -> bool {
    get(class, "status.observedGeneration").is_some()
        || get(class, "status.variables").is_some()
        || condition(class).is_some()
}

/// Whether what the controller says of variables is about the class as it is now.
fn is_reconciled(class: &Value) -> bool {
    get(class, "metadata.generation") == get(class, "status.observedGeneration")
        && condition(class).is_some_and(|condition| condition.get("status") != Some(&Value::from("False")))
}
