//! ClusterClass of a Cluster.

use apiserver_machinery::metadata::is_subdomain;
use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use serde_json::Value;

use crate::rules::json_fields::text;

/// API group of these kinds.
pub(crate) const GROUP: &str = "cluster.x-k8s.io";

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

    /// Returns the name of the lock of the class: its own writes and those of its Clusters take it, so that each of them
    /// agrees with the others. None for a value that cannot be a name.
    pub(crate) fn lock(&self) -> Option<String> {
        self.is_valid().then(|| format!("clusterclass/{self}"))
    }

    fn is_valid(&self) -> bool {
        is_subdomain(&self.namespace) && is_subdomain(&self.name)
    }

    pub(super) async fn find(&self, others: &dyn ObjectReader) -> ApiResult<Option<Value>> {
        // A value that cannot be a name refers to no class. The schema reports the error.
        if !self.is_valid() {
            return Ok(None);
        }
        others.find(GROUP, "clusterclasses", &self.namespace, &self.name).await
    }

    /// Returns upstream's text for a missing class.
    pub(super) fn not_found(&self) -> String {
        format!("ClusterClass.{GROUP} {:?} not found", self.name)
    }
}
