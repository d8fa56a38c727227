//! Impersonation filter: lets a user act as another one, with permission.

mod constrained;

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver_access::{Attributes, CREDENTIAL_ID, MACHINES, OWN_EXTRA, Realm, SystemMasters, User};
use apiserver_machinery::metadata::is_subdomain;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_schema::go_text::quoted;
use http::{HeaderMap, HeaderValue};

use super::authorization;
use crate::request::query::{Query, percent_decode};
use crate::request::request_info::RequestInfo;
use crate::state::ApiServer;

const PREFIX: &str = "impersonate-";
const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// Group that may do everything.
const MASTERS: &str = "system:masters";

/// User that a request acts as.
#[derive(Debug)]
pub(crate) struct Acting {
    pub(crate) user: Arc<User>,
    /// Verb of the constrained mode that allowed it, if one did.
    pub(crate) constraint: Option<String>,
}

/// Identity that a request acts as, by its impersonation headers.
#[derive(Debug, Default, PartialEq, Eq)]
struct Impersonation {
    user: String,
    groups: Vec<String>,
    uid: Option<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// Returns the user that the request acts as: the authenticated one, or the impersonated one. The headers are removed.
///
/// # Errors
/// 400 for headers without a user. 403 without permission, and always through a host, which impersonates users itself.
pub(crate) async fn act_as(
    server: &ApiServer,
    headers: &mut HeaderMap,
    (info, query): (&RequestInfo, &Query),
    user: Arc<User>,
    proxied: bool,
) -> ApiResult<Acting> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(Acting { user, constraint: None });
    }
    if proxied {
        let why = format!("User {:?} cannot impersonate: the host does that, not this endpoint", user.name);
        return Err(ApiError::forbidden_path(&why));
    }
    let wanted = Impersonation::read(headers)?;
    remove(headers);
    if wanted == Impersonation::default() {
        return Ok(Acting { user, constraint: None });
    }
    if wanted.user.is_empty() {
        let why = format!("requested {} without impersonating a user name", wanted.in_go());
        return Err(ApiError::bad_request(why));
    }
    if let Some(key) = wanted.extra.keys().find(|key| key.starts_with(OWN_EXTRA)) {
        let why = format!(
            "User {:?} cannot impersonate the extra attribute {key:?}: the server sets it",
            user.name
        );
        return Err(ApiError::forbidden_path(&why));
    }
    check_masters(server.settings.system_masters, &wanted, &user)?;
    let request = authorization::attributes(info, query, &user);
    let constraint = constrained::allowed(server, &wanted, &request, proxied).await;
    if constraint.is_none() {
        require_all(server, &wanted, &user, proxied).await?;
    }
    // The impersonated name is one of the same realm: a user of the host cluster never becomes one of our own CA. The limits
    // are those of the token of the request.
    let acting = wanted.into_user().in_realm(user.realm.clone());
    let user = Arc::new(User { limits: user.limits.clone(), ..acting });
    Ok(Acting { user, constraint })
}

/// Checks that the user may act in the group of administrators, if this is wanted.
///
/// # Errors
/// 403 for users of a host, and for those to whom the group gives nothing.
fn check_masters(masters: SystemMasters, wanted: &Impersonation, user: &User) -> ApiResult<()> {
    if !wanted.groups.iter().any(|group| group == MASTERS) {
        return Ok(());
    }
    // The host's administrators may impersonate its masters. Capstan's masters are others.
    if user.realm == Realm::Host {
        let why = format!("User {:?} of the host cannot impersonate the group {MASTERS:?}", user.name);
        return Err(ApiError::forbidden_path(&why));
    }
    // A binding could give the impersonated user what the setting takes.
    if !masters.admit(&user.realm) {
        let why = format!(
            "User {:?} cannot impersonate the group {MASTERS:?}: the setting systemMasters does not allow it",
            user.name
        );
        return Err(ApiError::forbidden_path(&why));
    }
    Ok(())
}

/// Requires the permission to impersonate this identity without limits.
async fn require_all(
    server: &ApiServer,
    wanted: &Impersonation,
    user: &Arc<User>,
    proxied: bool,
) -> ApiResult<()> {
    for (group, resource, subresource, namespace, name) in wanted.permissions() {
        let attributes = Attributes {
            user: Arc::clone(user),
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
    Ok(())
}

fn remove(headers: &mut HeaderMap) {
    let names: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with(PREFIX)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Decodes a header value: names are not ASCII alone.
fn text(value: &HeaderValue) -> ApiResult<String> {
    let text = std::str::from_utf8(value.as_bytes());
    text.map(str::to_owned).map_err(|_| ApiError::bad_request("the impersonation headers are not UTF-8"))
}

impl Impersonation {
    /// Reads the headers. An unreadable one is refused: without it, the request would keep the rights of its own user.
    fn read(headers: &HeaderMap) -> ApiResult<Self> {
        let mut wanted = Self {
            user: headers.get(USER).map(text).transpose()?.unwrap_or_default(),
            groups: headers.get_all(GROUP).iter().map(text).collect::<ApiResult<_>>()?,
            uid: headers.get(UID).map(text).transpose()?.filter(|uid| !uid.is_empty()),
            extra: BTreeMap::new(),
        };
        for (name, value) in headers {
            if let Some(key) = name.as_str().strip_prefix(EXTRA) {
                let key = percent_decode(&key.replace('+', " ")).to_lowercase();
                wanted.extra.entry(key).or_default().push(text(value)?);
            }
        }
        Ok(wanted)
    }

    /// Returns the namespace and name of a service account, if the user is one and both names are valid.
    fn service_account(&self) -> Option<(&str, &str)> {
        let (namespace, name) = self.user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        let is_good = is_subdomain(name) && is_subdomain(namespace) && !namespace.contains('.');
        is_good.then_some((namespace, name))
    }

    /// Formats the identity as Go does, in upstream's message.
    fn in_go(&self) -> String {
        let list = |values: &[String]| {
            let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
            format!("[]string{{{}}}", values.join(", "))
        };
        let groups = if self.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&self.groups) };
        let extra: Vec<String> =
            self.extra.iter().map(|(key, values)| format!("{}:{}", quoted(key), list(values))).collect();
        let extra = if extra.is_empty() {
            "map[string][]string(nil)".to_owned()
        } else {
            format!("map[string][]string{{{}}}", extra.join(", "))
        };
        let (user, uid) = (quoted(&self.user), quoted(self.uid.as_deref().unwrap_or_default()));
        format!("&user.DefaultInfo{{Name:{user}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
    }

    /// Returns group, resource, subresource, namespace and name of each object that the user must be allowed to
    /// impersonate.
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
        // The groups of the server's own identities are assigned inside the process alone, and that of machines by their CA.
        groups.retain(|group| !group.starts_with("system:capstan:") && group != MACHINES);
        let mut user = if self.user == "system:anonymous" {
            let mut anonymous = User::anonymous();
            anonymous.groups.extend(groups.into_iter().filter(|group| group != "system:unauthenticated"));
            anonymous
        } else {
            User::authenticated(self.user, groups)
        };
        user.uid = self.uid;
        user.extra = self.extra;
        // The credential of the request is not one of this user.
        user.extra.remove(CREDENTIAL_ID);
        user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(headers: &[(&'static str, &str)]) -> Impersonation {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let wanted = Impersonation::read(&map).unwrap();
        remove(&mut map);
        assert!(map.is_empty(), "{map:?}");
        wanted
    }

    #[test]
    fn impersonation_headers_without_a_user_impersonate_nothing() {
        assert_eq!(wanted(&[(USER, ""), ("impersonate-foo", "x")]), Impersonation::default());
        let nameless = wanted(&[(GROUP, "dev"), ("impersonate-extra-scopes", "a")]);
        let expected = "&user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"dev\"}, \
                        Extra:map[string][]string{\"scopes\":[]string{\"a\"}}}";
        assert_eq!(nameless.in_go(), expected);
        let expected = "&user.DefaultInfo{Name:\"\", UID:\"7\", Groups:[]string(nil), \
                        Extra:map[string][]string(nil)}";
        assert_eq!(wanted(&[(UID, "7")]).in_go(), expected);
    }

    #[test]
    fn iz_03_a_user_to_whom_masters_gives_nothing_cannot_impersonate_it() {
        let of = |realm: Realm| User::authenticated("alice", []).in_realm(realm);
        let (masters, dev) =
            (wanted(&[(USER, "bob"), (GROUP, MASTERS)]), wanted(&[(USER, "bob"), (GROUP, "dev")]));
        for (setting, realm, expected) in [
            (SystemMasters::All, Realm::Own, true),
            (SystemMasters::All, Realm::Keystone, true),
            (SystemMasters::All, Realm::Host, false),
            (SystemMasters::OwnOnly, Realm::Own, true),
            (SystemMasters::OwnOnly, Realm::Keystone, false),
            (SystemMasters::Off, Realm::Own, false),
        ] {
            let user = of(realm);
            let found = check_masters(setting, &masters, &user);
            assert_eq!(found.is_ok(), expected, "{setting:?} {user:?}");
            assert!(check_masters(setting, &dev, &user).is_ok(), "{setting:?} {user:?}");
        }
    }

    #[test]
    fn impersonation_headers_are_utf8_or_refused() {
        let read = wanted(&[(USER, "jürgen"), (GROUP, "größe"), (UID, "ü"), ("impersonate-extra-a", "ß")]);
        let extra = BTreeMap::from([("a".to_owned(), vec!["ß".to_owned()])]);
        let expected = Impersonation {
            user: "jürgen".to_owned(),
            groups: vec!["größe".to_owned()],
            uid: Some("ü".to_owned()),
            extra,
        };
        assert_eq!(read, expected);
        for name in [USER, GROUP, UID, "impersonate-extra-a"] {
            let mut headers = HeaderMap::new();
            headers.insert(USER, HeaderValue::from_static("bob"));
            headers.insert(name, HeaderValue::from_bytes(b"j\xfcrgen").unwrap());
            assert_eq!(Impersonation::read(&headers).unwrap_err().code, 400, "{name}");
        }
    }

    #[test]
    fn only_valid_service_account_names_get_service_account_groups() {
        let groups = |user: &str| wanted(&[(USER, user)]).into_user().groups;
        let account = ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"];
        assert_eq!(groups("system:serviceaccount:a:b"), account);
        for user in ["system:serviceaccount:a:b:c", "system:serviceaccount:a:", "system:serviceaccount:A:b"] {
            assert_eq!(groups(user), ["system:authenticated"], "{user}");
        }
    }
}
