//! User of a validated token. A pure function of the token and the time.

use std::sync::Arc;

use apiserver_access::{AccessRule, AccessRules, CREDENTIAL_ID, TokenLimits, UNSCOPED, User};
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
    oauth2_credential: Option<BoundCredential>,
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
    access_rules: Option<Vec<RuleOfService>>,
}

/// Access rule for any service. A field that is missing or null equals that of no request.
#[derive(Debug, Clone, Deserialize)]
struct RuleOfService {
    service: Option<String>,
    method: Option<String>,
    path: Option<String>,
}

/// Client certificate that a token of OAuth 2.0 is bound to.
#[derive(Debug, Clone, Deserialize)]
struct BoundCredential {
    #[serde(rename = "x5t#S256")]
    thumbprint: Option<String>,
}

impl ValidatedToken {
    /// Returns the time at which the token ends.
    pub(crate) fn end(&self) -> Timestamp {
        self.expires_at.saturating_add(SKEW).unwrap_or(self.expires_at)
    }

    /// Returns the user of the token, with the limits of the token. Access rules count if they are for a service of this type.
    ///
    /// # Errors
    /// The token is not accepted here, for this reason.
    pub(crate) fn user(&self, now: Timestamp, service_type: &str) -> Result<User, &'static str> {
        if now >= self.end() {
            return Err("it has expired");
        }
        if self.oauth1.is_some() {
            return Err("it was issued by OAuth 1, which delegates the rights of a user to a program");
        }
        let certificate = match &self.oauth2_credential {
            None => None,
            Some(BoundCredential { thumbprint: Some(thumbprint) }) => {
                // Keystone pads it, against the RFC.
                Some(thumbprint.trim_end_matches('=').to_owned())
            }
            Some(_) => return Err("it is bound to a credential other than a client certificate"),
        };
        let limits = TokenLimits { requests: self.access_rules(service_type), certificate };
        let domain = self.user.domain.name.as_deref().unwrap_or(&self.user.domain.id);
        let name = format!("{PREFIX}{}/{}", escaped(domain), escaped(&self.user.name));
        let mut user = User::authenticated(name, self.groups());
        user.uid = Some(self.user.id.clone());
        user.extra = self.attributes().into_iter().filter(|(_, values)| !values.is_empty()).collect();
        user.limits = (limits != TokenLimits::default()).then(|| Arc::new(limits));
        Ok(user)
    }

    /// Returns the access rules for a service of this type. `None` for a token without access rules.
    fn access_rules(&self, service_type: &str) -> Option<AccessRules> {
        let rules = self.application_credential.as_ref()?.access_rules.as_ref()?;
        let own = rules.iter().filter(|rule| rule.service.as_deref() == Some(service_type));
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let own = own.map(|rule| AccessRule { method: text(&rule.method), path: text(&rule.path) });
        Some(AccessRules::new(service_type, own.collect()))
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
        token(changes).user(at("2029-12-31T00:00:00Z"), "container-infra")
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
    fn ia_52_access_rules_are_limits_of_the_token() {
        let limits = |rules: Value| {
            let credential = json!({"id": "c", "name": "n", "access_rules": rules});
            user(&json!({"application_credential": credential})).unwrap().limits
        };
        assert_eq!(limits(Value::Null), None);
        let rule = |service: &str| json!({"id": "r", "service": service, "method": "GET", "path": "/**"});
        let may_read = |rules: Value| {
            let limits = limits(rules).unwrap();
            limits.requests.as_ref().unwrap().allow("GET", "/apis/g")
        };
        assert!(may_read(json!([rule("compute"), rule("container-infra")])));
        assert!(!may_read(json!([rule("compute")])), "a rule for another service");
        assert!(!may_read(json!([])), "an empty list allows nothing");
        assert!(!may_read(json!([{"service": "container-infra", "path": "/apis/**"}])), "an incomplete rule");
        let empty = json!({"service": null, "method": null, "path": null});
        assert!(!may_read(json!([empty])) && may_read(json!([empty, rule("container-infra")])));
    }

    #[test]
    fn ia_52_a_token_of_a_client_certificate_names_its_thumbprint() {
        let bound = |credential: Value| user(&json!({"oauth2_credential": credential}));
        let certificate = |credential| bound(credential).unwrap().limits.unwrap().certificate.clone();
        assert_eq!(certificate(json!({"x5t#S256": "abc-_="})).as_deref(), Some("abc-_"));
        assert_eq!(certificate(json!({"x5t#S256": "abc-_"})).as_deref(), Some("abc-_"));
        assert_eq!(bound(Value::Null).unwrap().limits, None);
    }

    #[test]
    fn a_token_with_a_restriction_that_is_not_enforced_is_refused() {
        for (changes, expected) in [
            (json!({"OS-OAUTH1": {"consumer_id": "c"}}), "OAuth 1"),
            (json!({"oauth2_credential": {"other": "t"}}), "other than a client certificate"),
            (json!({"expires_at": "2029-12-30T23:59:29Z"}), "expired"),
        ] {
            let error = user(&changes).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(user(&json!({"expires_at": "2029-12-30T23:59:31Z"})).is_ok(), "clocks differ");
    }
}
