//! Acting as somebody else, for those who may.

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver_access::{Attributes, User};
use apiserver_machinery::metadata::is_subdomain;
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
    user: Arc<User>,
    proxied: bool,
) -> ApiResult<Arc<User>> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(user);
    }
    if proxied {
        let why = format!("User {:?} cannot impersonate: the host does that, not this endpoint", user.name);
        return Err(ApiError::forbidden_path(&why));
    }
    let wanted = Wanted::read(headers);
    remove(headers);
    if wanted == Wanted::default() {
        return Ok(user);
    }
    if wanted.user.is_empty() {
        let why = format!("requested {} without impersonating a user name", wanted.in_go());
        return Err(ApiError::bad_request(why));
    }
    for (group, resource, subresource, namespace, name) in wanted.permissions() {
        let attributes = Attributes {
            user: Arc::clone(&user),
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
    Ok(Arc::new(wanted.into_user()))
}

fn remove(headers: &mut HeaderMap) {
    let names: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with(PREFIX)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
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

    /// Namespace and name, where the user is a service account: with names that one can have.
    fn service_account(&self) -> Option<(&str, &str)> {
        let (namespace, name) = self.user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        let is_good = is_subdomain(name) && is_subdomain(namespace) && !namespace.contains('.');
        is_good.then_some((namespace, name))
    }

    /// As upstream prints it, which clients have seen: in Go's form.
    fn in_go(&self) -> String {
        let list = |values: &[String]| {
            let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
            format!("[]string{{{}}}", quoted.join(", "))
        };
        let groups = if self.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&self.groups) };
        let extra: Vec<String> =
            self.extra.iter().map(|(key, values)| format!("{key:?}:{}", list(values))).collect();
        let extra = if extra.is_empty() {
            "map[string][]string(nil)".to_owned()
        } else {
            format!("map[string][]string{{{}}}", extra.join(", "))
        };
        let uid = self.uid.as_deref().unwrap_or_default();
        format!("&user.DefaultInfo{{Name:{:?}, UID:{uid:?}, Groups:{groups}, Extra:{extra}}}", self.user)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(headers: &[(&'static str, &str)]) -> Wanted {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let wanted = Wanted::read(&map);
        remove(&mut map);
        assert!(map.is_empty(), "{map:?}");
        wanted
    }

    #[test]
    fn headers_that_ask_for_nobody_are_nothing() {
        assert_eq!(wanted(&[(USER, ""), ("impersonate-foo", "x")]), Wanted::default());
        let nameless = wanted(&[(GROUP, "dev"), ("impersonate-extra-scopes", "a")]);
        let expected = "&user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"dev\"}, \
                        Extra:map[string][]string{\"scopes\":[]string{\"a\"}}}";
        assert_eq!(nameless.in_go(), expected);
        let expected = "&user.DefaultInfo{Name:\"\", UID:\"7\", Groups:[]string(nil), \
                        Extra:map[string][]string(nil)}";
        assert_eq!(wanted(&[(UID, "7")]).in_go(), expected);
    }

    #[test]
    fn only_what_can_be_a_service_account_gets_their_groups() {
        let groups = |user: &str| wanted(&[(USER, user)]).into_user().groups;
        let account = ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"];
        assert_eq!(groups("system:serviceaccount:a:b"), account);
        for user in ["system:serviceaccount:a:b:c", "system:serviceaccount:a:", "system:serviceaccount:A:b"] {
            assert_eq!(groups(user), ["system:authenticated"], "{user}");
        }
    }
}
