//! Request to an OpenStack service, as data.

use http::Method;
use serde_json::Value;

/// Services that are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Service {
    /// Nova.
    Compute,
    /// Neutron.
    Network,
    /// Glance.
    Image,
    /// Cinder.
    Volume,
    /// Octavia.
    LoadBalancer,
    /// Manila.
    Share,
    /// Keystone.
    Identity,
}

impl Service {
    /// Every service, in the order of their limiters.
    pub(crate) const ALL: [Self; 7] = [
        Self::Compute,
        Self::Network,
        Self::Image,
        Self::Volume,
        Self::LoadBalancer,
        Self::Share,
        Self::Identity,
    ];

    /// Returns the name of the project, by which operators know the service.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Compute => "Nova",
            Self::Network => "Neutron",
            Self::Image => "Glance",
            Self::Volume => "Cinder",
            Self::LoadBalancer => "Octavia",
            Self::Share => "Manila",
            Self::Identity => "Keystone",
        }
    }
}

/// Parts of paths that are words of the services. Every other part is an id or a name.
const WORDS: [&str; 45] = [
    "action",
    "add_router_interface",
    "add_subports",
    "application_credentials",
    "detail",
    "details.json",
    "extensions",
    "flavors",
    "floatingips",
    "healthmonitors",
    "images",
    "import",
    "info",
    "lbaas",
    "limits",
    "listeners",
    "loadbalancers",
    "members",
    "networks",
    "os-availability-zone",
    "os-extra_specs",
    "os-instance-actions",
    "os-interface",
    "os-keypairs",
    "os-quota-sets",
    "os-server-groups",
    "os-volume_attachments",
    "pools",
    "ports",
    "quotas",
    "remote-consoles",
    "remove_router_interface",
    "remove_subports",
    "routers",
    "security-group-rules",
    "security-groups",
    "servers",
    "shares",
    "snapshots",
    "subnets",
    "tags",
    "trunks",
    "usage",
    "users",
    "volumes",
];

/// One call.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) service: Service,
    pub(crate) method: Method,
    /// Path below the service's root, encoded, e.g. `/servers/1`.
    pub(crate) path: String,
    /// Query, encoded, without the question mark.
    pub(crate) query: String,
    pub(crate) body: Option<Value>,
    /// Revision that a Neutron resource must have, or the call is refused.
    pub(crate) revision: Option<u64>,
}

impl Request {
    fn new(service: Service, method: Method, path: impl Into<String>) -> Self {
        Self { service, method, path: path.into(), query: String::new(), body: None, revision: None }
    }

    /// Creates a read.
    pub(crate) fn get(service: Service, path: impl Into<String>) -> Self {
        Self::new(service, Method::GET, path)
    }

    /// Creates a create call, or an action.
    pub(crate) fn post(service: Service, path: impl Into<String>, body: Value) -> Self {
        Self { body: Some(body), ..Self::new(service, Method::POST, path) }
    }

    /// Creates a change.
    pub(crate) fn put(service: Service, path: impl Into<String>, body: Value) -> Self {
        Self { body: Some(body), ..Self::new(service, Method::PUT, path) }
    }

    /// Creates a delete call.
    pub(crate) fn delete(service: Service, path: impl Into<String>) -> Self {
        Self::new(service, Method::DELETE, path)
    }

    /// Guards a change of a Neutron resource by the revision at which it was read.
    pub(crate) fn guarded_by(self, revision: Option<u64>) -> Self {
        Self { revision, ..self }
    }

    /// Adds a query parameter.
    pub(crate) fn with(mut self, key: &str, value: &str) -> Self {
        if !self.query.is_empty() {
            self.query.push('&');
        }
        self.query.push_str(&encode(key));
        self.query.push('=');
        self.query.push_str(&encode(value));
        self
    }

    /// Adds a query parameter if there is a value for it.
    pub(crate) fn with_some(self, key: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds a query parameter of comma-separated values, if there are any.
    pub(crate) fn with_list(self, key: &str, values: &[String]) -> Self {
        if values.is_empty() { self } else { self.with(key, &values.join(",")) }
    }

    /// Returns the name of this call in errors, e.g. `POST /servers`.
    pub(crate) fn operation(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// Returns the path with `{id}` in place of everything that may be an id or a name, for traces.
    pub(crate) fn path_template(&self) -> String {
        let part = |part: &str| if WORDS.contains(&part) { part.to_owned() } else { "{id}".to_owned() };
        let parts: Vec<String> = self.path.split('/').skip(1).map(part).collect();
        format!("/{}", parts.join("/"))
    }

    /// Returns true if two calls have the effect of one.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.method == Method::GET || self.method == Method::PUT || self.method == Method::DELETE
    }

    /// Returns true if the call changes nothing.
    pub(crate) fn is_read(&self) -> bool {
        self.method == Method::GET
    }

    /// Returns true if an id in the path is empty or consists of dots. After normalisation by a server or a
    /// proxy, such a path names another object, often the whole collection.
    pub(crate) fn names_nothing(&self) -> bool {
        self.path.split('/').skip(1).any(|part| matches!(part, "" | "." | ".."))
    }
}

/// Percent-encodes everything but RFC 3986's unreserved characters; for paths and queries alike.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_encoded() {
        let request = Request::get(Service::Network, "/ports")
            .with("name", "a b&c=d/é")
            .with_some("id", None)
            .with_list("tags", &["x".into(), "y".into()])
            .with_list("not-tags", &[]);
        assert_eq!(request.query, "name=a%20b%26c%3Dd%2F%C3%A9&tags=x%2Cy");
    }

    #[test]
    fn a_template_has_no_ids_and_no_names() {
        let template = |path: &str| Request::get(Service::Compute, path).path_template();
        assert_eq!(template("/servers/5f0c/action"), "/servers/{id}/action");
        assert_eq!(template("/os-keypairs/alice"), "/os-keypairs/{id}");
        assert_eq!(template("/ports/5f0c/tags/team%2Fsecret"), "/ports/{id}/tags/{id}");
    }

    #[test]
    fn an_id_cannot_escape_its_path() {
        for id in ["", ".", ".."] {
            let path = format!("/servers/{}", encode(id));
            assert!(Request::delete(Service::Compute, path).names_nothing(), "{id:?}");
        }
        let path = format!("/servers/{}", encode("../flavors"));
        assert_eq!(path, "/servers/..%2Fflavors");
        assert!(!Request::delete(Service::Compute, "/servers/1").names_nothing());
    }
}
