//! Kind of an object, by the name that a person gives it.

use http::header::ACCEPT;
use kube::Client;
use serde_json::Value;

use crate::error::{ExitCode, Failure};

/// Form of the discovery in which one document has all kinds.
const FORM: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Kind of an object in paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Resource {
    /// API group; empty for core.
    pub(super) group: String,
    /// Version; `*` if the name has a group. RBAC does not distinguish versions.
    pub(super) version: String,
    /// Plural.
    pub(super) plural: String,
    /// False for a kind without namespaces.
    is_namespaced: bool,
}

impl Resource {
    /// Returns the kind with this name. A name with a group is any: permissions can exist for kinds that are not served,
    /// such as users.
    ///
    /// # Errors
    /// No kind or several kinds have the name, or the kind has no namespaces.
    pub(super) async fn find(client: &Client, name: &str, in_namespace: bool) -> Result<Self, Failure> {
        if let Some((plural, group)) = name.split_once('.') {
            let [plural, group, version] = [plural, group, "*"].map(str::to_owned);
            return Ok(Self { group, version, plural, is_namespaced: true });
        }
        if name == "*" {
            return Ok(Self { plural: "*".to_owned(), ..Self::any() });
        }
        let mut found = Vec::new();
        for path in ["/api", "/apis"] {
            found.extend(of_name(&discover(client, path).await?, name));
        }
        let resource = one(name, found)?;
        if in_namespace && !resource.is_namespaced {
            let text = format!("--namespace: objects of {} have no namespace", resource.full_name());
            return Err(Failure::new(ExitCode::Failed, text));
        }
        Ok(resource)
    }

    fn any() -> Self {
        let [group, version] = ["*", "*"].map(str::to_owned);
        Self { group, version, plural: String::new(), is_namespaced: true }
    }

    /// Returns the plural and the group.
    pub(super) fn full_name(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }
}

async fn discover(client: &Client, path: &str) -> Result<Value, Failure> {
    let request = http::Request::get(path).header(ACCEPT, FORM).body(Vec::new());
    let request = request.map_err(|error| Failure::new(ExitCode::Failed, error.to_string()))?;
    client.request(request).await.map_err(|error| {
        Failure::api("read", "APIGroupDiscoveryList", "", path.trim_start_matches('/'), &error)
    })
}

/// Returns the kinds with a name, which is the plural, the singular or a short one. The first version of a group is its
/// preferred one.
pub(super) fn of_name(document: &Value, name: &str) -> Vec<Resource> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for group in list(&document["items"]) {
        let kinds = list(&group["versions"]).into_iter().flat_map(|version| {
            let kinds = list(&version["resources"]);
            kinds.into_iter().map(move |kind| (word(&version["version"]), kind))
        });
        let mut named = kinds.filter(|(_, kind)| {
            let is_short = list(&kind["shortNames"]).iter().any(|short| short == name);
            kind["resource"] == name || kind["singularResource"] == name || is_short
        });
        found.extend(named.next().map(|(version, kind)| Resource {
            group: word(&group["metadata"]["name"]),
            version,
            plural: word(&kind["resource"]),
            is_namespaced: kind["scope"] == "Namespaced",
        }));
    }
    found
}

pub(super) fn one(name: &str, mut found: Vec<Resource>) -> Result<Resource, Failure> {
    // As with kubectl, the core group is first.
    if let Some(core) = found.iter().position(|it| it.group.is_empty()) {
        return Ok(found.swap_remove(core));
    }
    if found.len() > 1 {
        let names: Vec<String> = found.iter().map(Resource::full_name).collect();
        let text = format!("--resource {name}: several kinds have this name: {}", names.join(", "));
        return Err(Failure::new(ExitCode::Failed, text).next("give --resource with the group"));
    }
    found.pop().ok_or_else(|| {
        let text = format!("--resource {name}: the server has no such kind");
        let next =
            "kubectl api-resources lists the kinds; --resource NAME.GROUP names one that is not served";
        Failure::new(ExitCode::Failed, text).next(next)
    })
}
