//! Question of the command, and the SubjectAccessReview that asks it.

use kube::Client;
use serde_json::{Value, json};

use super::resource::Resource;
use super::{Endpoint, ExplainAccessArguments};
use crate::error::{ExitCode, Failure};

/// Extra attribute with the realm of a user.
const REALM: &str = "capstan.dev/realm";

/// Realm of users whom the host cluster has identified.
const HOST: &str = "host";

/// Realm of users with a certificate of the server's own CA.
const OWN: &str = "own";

/// Begin of the user names of service accounts, before the namespace, a colon and the name.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Name of the user of a request without credentials.
const ANONYMOUS: &str = "system:anonymous";

/// User and request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) user: String,
    pub(super) groups: Vec<String>,
    pub(super) uid: Option<String>,
    pub(super) realm: String,
    pub(super) endpoint: Endpoint,
    pub(super) verb: String,
    pub(super) object: Object,
}

/// Object of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Object {
    Path(String),
    Resource { resource: Resource, subresource: String, namespace: String, name: String },
}

impl Question {
    /// Returns the question of the arguments.
    ///
    /// # Errors
    /// The server has no such kind, or the arguments contradict each other.
    pub(super) async fn of(client: &Client, arguments: &ExplainAccessArguments) -> Result<Self, Failure> {
        let object = match (&arguments.resource, &arguments.path) {
            (Some(name), _) => Object::Resource {
                resource: Resource::find(client, name, arguments.namespace.is_some()).await?,
                subresource: arguments.subresource.clone().unwrap_or_default(),
                namespace: arguments.namespace.clone().unwrap_or_default(),
                name: arguments.name.clone().unwrap_or_default(),
            },
            (None, path) => Object::Path(path.clone().unwrap_or_default()),
        };
        Ok(Self {
            user: arguments.user.clone(),
            groups: groups(&arguments.user, &arguments.groups),
            uid: arguments.uid.clone(),
            realm: realm(arguments)?,
            endpoint: arguments.endpoint,
            verb: arguments.verb.clone(),
            object,
        })
    }

    /// Returns the review.
    pub(super) fn review(&self) -> Value {
        let mut spec = json!({"user": self.user, "groups": self.groups, "extra": {REALM: [self.realm]}});
        if let Some(uid) = &self.uid {
            spec["uid"] = json!(uid);
        }
        match &self.object {
            Object::Path(path) => spec["nonResourceAttributes"] = json!({"verb": self.verb, "path": path}),
            Object::Resource { resource, subresource, namespace, name } => {
                spec["resourceAttributes"] = json!({"verb": self.verb, "group": resource.group,
                    "version": resource.version, "resource": resource.plural, "subresource": subresource,
                    "namespace": namespace, "name": name});
            }
        }
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
    }
}

/// Returns the groups with those that the server itself adds to a user of this name.
pub(super) fn groups(user: &str, given: &[String]) -> Vec<String> {
    let mut groups = given.to_vec();
    if let Some((namespace, _)) = user.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':')) {
        groups.push("system:serviceaccounts".to_owned());
        groups.push(format!("system:serviceaccounts:{namespace}"));
    }
    let everyone = if user == ANONYMOUS { "system:unauthenticated" } else { "system:authenticated" };
    groups.push(everyone.to_owned());
    let mut seen = std::collections::HashSet::new();
    groups.retain(|group| seen.insert(group.clone()));
    groups
}

fn realm(arguments: &ExplainAccessArguments) -> Result<String, Failure> {
    match (arguments.endpoint, arguments.as_realm.as_deref()) {
        (Endpoint::Host, None | Some(HOST)) => Ok(HOST.to_owned()),
        (Endpoint::Host, Some(other)) => {
            let text = format!("--as-realm {other}: all users of --endpoint host have the realm {HOST}");
            Err(Failure::new(ExitCode::Failed, text))
        }
        (Endpoint::Direct, realm) => Ok(realm.unwrap_or(OWN).to_owned()),
    }
}
