//! User of a validated token. A pure function of the token and the time.

use apiserver_access::{CREDENTIAL_ID, UNSCOPED, User};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

/// Prefix of the names and groups of Keystone's users. No other source of users gives it.
pub const PREFIX: &str = "keystone:";

/// Difference of the clocks of Keystone and of this server that is accepted.
const SKEW: SignedDuration = SignedDuration::from_secs(30);

/// Prefix of the attributes by which users of Keystone know themselves in other programs.
const IDENTITY: &str = "alpha.kubernetes.io/identity";

/// Token, as Keystone describes it. Other fields are not read.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ValidatedToken {
    expires_at: Timestamp,
    user: TokenUser,
    project: Option<Named>,
    domain: Option<Named>,
    system: Option<Value>,
    #[serde(default)]
    roles: Vec<Named>,
    #[serde(default)]
    methods: Vec<String>,
    #[serde(default)]
    audit_ids: Vec<String>,
    application_credential: Option<ApplicationCredential>,
    #[serde(rename = "OS-OAUTH1")]
    oauth1: Option<Value>,
    oauth2_credential: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
struct TokenUser {
    id: String,
    name: String,
    domain: Named,
    #[serde(rename = "OS-FEDERATION")]
    federation: Option<Federation>,
}

#[derive(Debug, Clone, Deserialize)]
struct Named {
    id: String,
    name: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Federation {
    #[serde(default)]
    groups: Vec<Named>,
}

#[derive(Debug, Clone, Deserialize)]
struct ApplicationCredential {
    id: String,
    access_rules: Option<Vec<Value>>,
}

impl ValidatedToken {
    /// Returns the time at which the token ends.
    pub(crate) fn end(&self) -> Timestamp {
        self.expires_at.saturating_add(SKEW).unwrap_or(self.expires_at)
    }

    /// Returns the user of the token.
    ///
    /// # Errors
    /// The token is not accepted here, for this reason.
    pub(crate) fn user(&self, now: Timestamp) -> Result<User, &'static str> {
        if now >= self.end() {
            return Err("it has expired");
        }
        if self.oauth1.is_some() {
            return Err("it was issued by OAuth 1, which delegates the rights of a user to a program");
        }
        if self.oauth2_credential.is_some() {
            return Err("it is bound to a client certificate, which is not checked here");
        }
        let credential = self.application_credential.as_ref();
        if credential.and_then(|it| it.access_rules.as_ref()).is_some_and(|rules| !rules.is_empty()) {
            return Err("its application credential has access rules, which are not enforced here");
        }
        let domain = self.user.domain.name.as_deref().unwrap_or(&self.user.domain.id);
        let name = format!("{PREFIX}{}/{}", escaped(domain), escaped(&self.user.name));
        let mut user = User::authenticated(name, self.groups());
        user.uid = Some(self.user.id.clone());
        user.extra = self.attributes().into_iter().filter(|(_, values)| !values.is_empty()).collect();
        Ok(user)
    }

    /// Returns true for a token that proves the name of its user and nothing else. Keystone gives it no roles.
    fn is_unscoped(&self) -> bool {
        self.project.is_none() && self.domain.is_none() && self.system.is_none()
    }

    fn groups(&self) -> Vec<String> {
        let mut groups = Vec::new();
        if self.is_unscoped() {
            return groups;
        }
        let of_roles = |scope: &str| {
            let roles = self.roles.iter().filter_map(|role| role.name.as_deref());
            roles.map(|role| format!("{PREFIX}{scope}:{role}")).collect::<Vec<_>>()
        };
        if let Some(project) = &self.project {
            let scope = format!("project:{}", project.id);
            groups.push(format!("{PREFIX}{scope}"));
            groups.extend(of_roles(&scope));
        } else if let Some(domain) = &self.domain {
            groups.extend(of_roles(&format!("domain:{}", domain.id)));
        } else if self.system.is_some() {
            groups.extend(of_roles("system"));
        }
        let federated = self.user.federation.iter().flat_map(|it| &it.groups);
        groups.extend(federated.map(|group| format!("{PREFIX}group:{}", group.id)));
        groups
    }

    fn attributes(&self) -> [(String, Vec<String>); 10] {
        let one = |value: Option<&String>| value.cloned().into_iter().collect::<Vec<_>>();
        let project = self.project.as_ref();
        let domain = &self.user.domain;
        let credential = self.application_credential.as_ref();
        let named = |name: &str, values| (format!("{IDENTITY}/{name}"), values);
        let ours = |name: &str, values| (format!("capstan.dev/keystone-{name}"), values);
        [
            named("roles", self.roles.iter().filter_map(|role| role.name.clone()).collect()),
            named("project/id", one(project.map(|it| &it.id))),
            named("project/name", one(project.and_then(|it| it.name.as_ref()))),
            named("user/domain/id", vec![domain.id.clone()]),
            named("user/domain/name", one(domain.name.as_ref())),
            // The audit id names the token in Keystone's own log. It opens nothing.
            ours("token", one(self.audit_ids.first())),
            (
                CREDENTIAL_ID.to_owned(),
                self.audit_ids.first().map(|id| format!("KEYSTONE={id}")).into_iter().collect(),
            ),
            ours("methods", self.methods.clone()),
            ours("application-credential", one(credential.map(|it| &it.id))),
            (UNSCOPED.to_owned(), self.is_unscoped().then(|| "true".to_owned()).into_iter().collect()),
        ]
    }
}

/// Escapes a name, so that the slash after the domain is the only one.
fn escaped(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2F")
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the body of a token with some of its fields replaced. A field that is null is removed.
    pub(crate) fn token(changes: &Value) -> ValidatedToken {
        let mut body = json!({
            "expires_at": "2030-01-01T00:00:00.000000Z", "methods": ["password"], "audit_ids": ["a1"],
            "user": {"id": "u1", "name": "alice", "domain": {"id": "d1", "name": "Default"}},
            "project": {"id": "p1", "name": "blue", "domain": {"id": "d1", "name": "Default"}},
            "roles": [{"id": "r1", "name": "member"}, {"id": "r2", "name": "reader"}]});
        for (key, value) in changes.as_object().unwrap() {
            body[key] = value.clone();
        }
        serde_json::from_value(body).unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn user(changes: &Value) -> Result<User, &'static str> {
        token(changes).user(at("2029-12-31T00:00:00Z"))
    }

    #[test]
    fn a_member_of_a_project_has_its_groups_and_attributes() {
        let user = user(&json!({})).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_deref()), ("keystone:Default/alice", Some("u1")));
        let groups = [
            "keystone:project:p1",
            "keystone:project:p1:member",
            "keystone:project:p1:reader",
            "system:authenticated",
        ];
        assert_eq!(user.groups, groups);
        let extra = |key: &str| user.extra.get(key).map(|values| values.join(","));
        assert_eq!(extra("alpha.kubernetes.io/identity/roles").as_deref(), Some("member,reader"));
        assert_eq!(extra("alpha.kubernetes.io/identity/project/name").as_deref(), Some("blue"));
        assert_eq!(extra("capstan.dev/keystone-token").as_deref(), Some("a1"));
        assert_eq!(extra(CREDENTIAL_ID).as_deref(), Some("KEYSTONE=a1"));
        assert_eq!(extra("capstan.dev/keystone-application-credential"), None);
    }

    #[test]
    fn the_groups_follow_the_scope_of_the_token() {
        let federated = json!({"id": "u", "name": "n", "domain": {"id": "d"},
            "OS-FEDERATION": {"groups": [{"id": "g1"}]}});
        let trust = json!({"id": "t", "trustor_user": {"id": "u2"}, "trustee_user": {"id": "u1"},
            "impersonation": false});
        let table = [
            (
                json!({"OS-TRUST:trust": trust, "roles": [{"id": "r", "name": "reader"}]}),
                vec!["keystone:project:p1", "keystone:project:p1:reader"],
            ),
            (json!({"project": null, "roles": []}), vec![]),
            (
                json!({"project": null, "domain": {"id": "d1", "name": "x"}}),
                vec!["keystone:domain:d1:member", "keystone:domain:d1:reader"],
            ),
            (
                json!({"project": null, "system": {"all": true}, "roles": [{"id": "r", "name": "admin"}]}),
                vec!["keystone:system:admin"],
            ),
            (json!({"project": null, "roles": [], "user": federated}), vec![]),
            (
                json!({"roles": [{"id": "r", "name": "member"}], "user": federated}),
                vec!["keystone:project:p1", "keystone:project:p1:member", "keystone:group:g1"],
            ),
        ];
        for (changes, mut expected) in table {
            expected.push("system:authenticated");
            let user = user(&changes).unwrap();
            assert_eq!(user.is_unscoped(), expected.len() == 1, "{changes}");
            assert_eq!(user.groups, expected, "{changes}");
        }
    }

    #[test]
    fn no_two_users_have_the_same_name() {
        let name = |domain: &str, name: &str| {
            user(&json!({"user": {"id": "u", "name": name, "domain": {"id": "d", "name": domain}}}))
                .unwrap()
                .name
        };
        assert_eq!(name("a/b", "c"), "keystone:a%2Fb/c");
        assert_eq!(name("a", "b/c"), "keystone:a/b%2Fc");
        assert_ne!(name("a%2Fb", "c"), name("a/b", "c"));
        assert_eq!(name("system:", "masters"), "keystone:system:/masters");
    }

    #[test]
    fn a_token_with_a_restriction_that_is_not_enforced_is_refused() {
        let credential =
            |rules: Value| json!({"application_credential": {"id": "c", "name": "n", "access_rules": rules}});
        assert!(user(&credential(Value::Null)).is_ok() && user(&credential(json!([]))).is_ok());
        for (changes, expected) in [
            (credential(json!([{"path": "/", "method": "GET", "service": "compute"}])), "access rules"),
            (json!({"OS-OAUTH1": {"consumer_id": "c"}}), "OAuth 1"),
            (json!({"oauth2_credential": {"x5t#S256": "t"}}), "client certificate"),
            (json!({"expires_at": "2029-12-30T23:59:29Z"}), "expired"),
        ] {
            let error = user(&changes).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(user(&json!({"expires_at": "2029-12-30T23:59:31Z"})).is_ok(), "clocks differ");
    }
}
