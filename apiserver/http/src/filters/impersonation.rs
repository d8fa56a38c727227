//! Acting as somebody else, for those who may.

use std::collections::BTreeMap;

use apiserver_access::{Attributes, User};
use apiserver_machinery::status::{ApiError, ApiResult};
use http::HeaderMap;

use super::authorization;
use crate::server::ApiServer;

const PREFIX: &str = "impersonate-";
const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// Whom a request wants to be taken for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    user: String,
    groups: Vec<String>,
    uid: Option<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// Who the request is from, for all that follows: the user, or whom the user acts as. The headers
/// are taken away.
///
/// # Errors
/// 400 for headers without a user; 403 when the user may not; always through a host, which takes
/// somebody for somebody else itself.
pub(crate) async fn act_as(
    server: &ApiServer,
    headers: &mut HeaderMap,
    user: User,
    proxied: bool,
) -> ApiResult<User> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(user);
    }
    if proxied {
        let why = format!("User {:?} cannot impersonate: the host does that, not this endpoint", user.name);
        return Err(ApiError::forbidden_path(&why));
    }
    let wanted = Wanted::read(headers);
    if wanted.user.is_empty() {
        return Err(ApiError::bad_request(format!("requested {wanted:?} without impersonating a user name")));
    }
    for (group, resource, subresource, namespace, name) in wanted.permissions() {
        let attributes = Attributes {
            user: user.clone(),
            verb: "impersonate".to_owned(),
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource,
            namespace,
            name,
            ..Attributes::default()
        };
        authorization::require(server, &attributes, proxied).await?;
    }
    let names: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with(PREFIX)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
    Ok(wanted.into_user())
}

impl Wanted {
    fn read(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let groups = headers.get_all(GROUP).iter().filter_map(|value| value.to_str().ok());
        let mut wanted = Self {
            user: text(USER).to_owned(),
            groups: groups.map(str::to_owned).collect(),
            uid: Some(text(UID).to_owned()).filter(|uid| !uid.is_empty()),
            extra: BTreeMap::new(),
        };
        for (name, value) in headers {
            if let (Some(key), Ok(value)) = (name.as_str().strip_prefix(EXTRA), value.to_str()) {
                let key = crate::query::decode(key).to_lowercase();
                wanted.extra.entry(key).or_default().push(value.to_owned());
            }
        }
        wanted
    }

    fn service_account(&self) -> Option<(&str, &str)> {
        self.user.strip_prefix("system:serviceaccount:")?.split_once(':')
    }

    /// Group, resource, subresource, namespace and name of each thing that the user must be allowed
    /// to impersonate.
    fn permissions(&self) -> Vec<(&'static str, &'static str, String, String, String)> {
        const AUTHENTICATION: &str = "authentication.k8s.io";
        let none = String::new;
        let mut all = vec![match self.service_account() {
            Some((namespace, name)) => ("", "serviceaccounts", none(), namespace.to_owned(), name.to_owned()),
            None => ("", "users", none(), none(), self.user.clone()),
        }];
        all.extend(self.groups.iter().map(|group| ("", "groups", none(), none(), group.clone())));
        all.extend(self.uid.iter().map(|uid| (AUTHENTICATION, "uids", none(), none(), uid.clone())));
        for (key, values) in &self.extra {
            let each = values.iter();
            all.extend(each.map(|value| (AUTHENTICATION, "userextras", key.clone(), none(), value.clone())));
        }
        all
    }

    fn into_user(self) -> User {
        let mut groups = self.groups.clone();
        if let Some((namespace, _)) = self.service_account().filter(|_| groups.is_empty()) {
            groups.push("system:serviceaccounts".to_owned());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        // Those of our own controllers are given inside the process alone.
        groups.retain(|group| !group.starts_with("system:capstan:"));
        let mut user = if self.user == "system:anonymous" {
            let mut nobody = User::anonymous();
            nobody.groups.extend(groups.into_iter().filter(|group| group != "system:unauthenticated"));
            nobody
        } else if groups.iter().any(|group| group == "system:unauthenticated") {
            User { name: self.user, groups, ..User::default() }
        } else {
            User::authenticated(self.user, groups)
        };
        user.uid = self.uid;
        user.extra = self.extra;
        user
    }
}
