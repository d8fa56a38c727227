//! Authorization filter.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver_access::rbac;
use apiserver_access::{Attributes, Authorizer, Decision, Realm, Rule, User, Verdict};
use apiserver_machinery::admission::{Action, Caller, GrantedRule, Permissions, Uncovered};
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_schema::{AuthorizationAnswer, AuthorizationQuestion};
use async_trait::async_trait;
use futures::future::BoxFuture;

use crate::request::Call;
use crate::request::query::Query;
use crate::request::request_info::{RequestInfo, Subject, UNKNOWN};
use crate::state::ApiServer;

/// Annotation with the name of the authorizer that decided.
const AUTHORIZER: &str = "capstan.dev/authorizer";

/// Annotation with the age of the data behind the decision, in seconds.
const AGE: &str = "capstan.dev/decision-age";

/// Interval at which the permission for a machine's watch is checked again. The watch must end within a minute after the
/// permission, as one does after its client certificate.
const PERMISSION_CHECK: Duration = Duration::from_secs(30);

/// Reason in the audit log if the authorizers failed: upstream's words. The response has the error.
const FAILED: &str = "internal error";

/// Decision of an authorizer, for the audit log, and its consequence.
#[derive(Debug)]
pub(crate) struct Decided {
    /// `allow` or `forbid`; none if the authorizer failed.
    pub(crate) word: Option<&'static str>,
    /// Decision as a metric's label.
    pub(crate) counted: &'static str,
    /// Reason for the audit log.
    pub(crate) reason: String,
    pub(crate) result: ApiResult<()>,
    /// Name of the authorizer that decided; empty if none did.
    authorizer: String,
    /// Age of the data behind the decision, if they are not those of now.
    age: Option<Duration>,
}

impl Decided {
    /// Returns the name of the authorizer that decided; empty if none did.
    pub(crate) fn authorizer(&self) -> &str {
        &self.authorizer
    }

    /// Returns the origin of the decision as annotations of the audit event.
    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        if !self.authorizer.is_empty() {
            all.insert(AUTHORIZER.to_owned(), self.authorizer.clone());
        }
        if let Some(age) = self.age {
            all.insert(AGE.to_owned(), age.as_secs().to_string());
        }
        all
    }

    /// Returns the warning of a permission by old data.
    pub(crate) fn warning(&self) -> Option<String> {
        self.age.filter(|_| self.result.is_ok()).map(by_old_data)
    }
}

/// Returns the text about a permission by data of this age.
pub(crate) fn by_old_data(age: Duration) -> String {
    format!("decided by the permissions that the host cluster had {} s ago", age.as_secs())
}

pub(crate) async fn authorize(
    server: &ApiServer,
    info: &RequestInfo,
    query: &Query,
    user: &Arc<User>,
    proxied: bool,
) -> Decided {
    let attributes = attributes(info, query, user);
    let started = Instant::now();
    let decided = decide(authorizer(server, proxied), &attributes).await;
    server.telemetry.metrics.authorized(&decided.authorizer, decided.counted, started.elapsed());
    decided
}

/// Returns the authorizer of requests through the front proxy, or of those on the direct endpoint.
fn authorizer(server: &ApiServer, proxied: bool) -> &Arc<dyn Authorizer> {
    if proxied { &server.parts.hosted_authorizer } else { &server.parts.authorizer }
}

async fn decide(authorizer: &Arc<dyn Authorizer>, attributes: &Attributes) -> Decided {
    let Verdict { decision, reason: why, authorizer, age } = authorizer.judge(attributes).await;
    let (reason, counted) = match decision {
        Decision::Allow => {
            let (word, counted) = (Some("allow"), "allowed");
            return Decided { word, counted, reason: why, result: Ok(()), authorizer, age };
        }
        Decision::Deny(reason) => (reason, "denied"),
        Decision::NoOpinion(reason) => (reason, "no-opinion"),
        Decision::Error(reason) => {
            let error = ApiError::unavailable(format!("permission could not be checked: {reason}"));
            return Decided {
                word: None,
                counted: "error",
                reason: FAILED.to_owned(),
                result: Err(error),
                authorizer,
                age: None,
            };
        }
    };
    let error = refusal(attributes, &reason);
    Decided { word: Some("forbid"), counted, reason, result: Err(error), authorizer, age }
}

/// Returns the refusal of a request.
pub(super) fn refusal(attributes: &Attributes, reason: &str) -> ApiError {
    let text = attributes.refusal(reason);
    if attributes.is_resource() {
        ApiError::forbidden(&attributes.group, &attributes.resource, &attributes.name, &text).denial()
    } else {
        ApiError::forbidden_path(&text)
    }
}

/// Completes when a machine may not open its watch any more: its Machine is gone, or the object belongs to another one. Until
/// the authorizers can decide again, the watch goes on. Never completes for other users: as in upstream, a change of their
/// roles ends no watch.
pub(crate) fn permission_ends(server: &ApiServer, call: &Call) -> BoxFuture<'static, ()> {
    if call.user.realm != Realm::Machine {
        return Box::pin(std::future::pending());
    }
    let authorizer = Arc::clone(authorizer(server, call.proxied));
    let attributes = attributes(&call.info, &call.query, &call.user);
    Box::pin(async move {
        loop {
            tokio::time::sleep(PERMISSION_CHECK).await;
            if let Decision::Deny(_) | Decision::NoOpinion(_) = authorizer.authorize(&attributes).await {
                return;
            }
        }
    })
}

pub(crate) async fn require(server: &ApiServer, attributes: &Attributes, proxied: bool) -> ApiResult<()> {
    decide(authorizer(server, proxied), attributes).await.result
}

/// Permissions of a request's user beyond the request itself, by the authorizer of the same endpoint.
#[derive(Debug)]
pub(crate) struct UserPermissions {
    authorizer: Arc<dyn Authorizer>,
    user: Arc<User>,
    /// Name in the path of the request.
    name: String,
    requires_use: bool,
    requires_secret_read: bool,
}

impl UserPermissions {
    pub(crate) fn new(server: &ApiServer, call: &Call) -> Self {
        Self::of(server, &call.info, &call.user, call.proxied)
    }

    /// Returns the permissions for a request that may write an object.
    pub(crate) fn of_write(
        server: &ApiServer,
        info: &RequestInfo,
        user: &Arc<User>,
        proxied: bool,
    ) -> Option<Arc<dyn Permissions>> {
        if info.is_read_only() {
            return None;
        }
        Some(Arc::new(Self::of(server, info, user, proxied)))
    }

    fn of(server: &ApiServer, info: &RequestInfo, user: &Arc<User>, proxied: bool) -> Self {
        Self {
            authorizer: Arc::clone(authorizer(server, proxied)),
            user: Arc::clone(user),
            name: info.resource().map(|path| path.name.clone()).unwrap_or_default(),
            requires_use: server.settings.requires_use,
            requires_secret_read: requires_secret_read(server.settings.requires_secret_read, user, proxied),
        }
    }
}

/// Returns true if a user needs the permission to read Secrets that an object newly names. Controllers do not: they copy
/// references that a user was allowed to write.
fn requires_secret_read(setting: Option<bool>, user: &User, proxied: bool) -> bool {
    let is_through_host = proxied && user.realm == Realm::Host;
    !user.is_internal() && setting.unwrap_or(!is_through_host)
}

#[async_trait]
impl Permissions for UserPermissions {
    async fn require(&self, action: Action<'_>) -> ApiResult<()> {
        let attributes = Attributes {
            user: Arc::clone(&self.user),
            verb: action.verb.to_owned(),
            group: action.group.to_owned(),
            version: action.version.to_owned(),
            resource: action.resource.to_owned(),
            subresource: action.subresource.to_owned(),
            namespace: action.namespace.to_owned(),
            name: action.name.to_owned(),
            ..Attributes::default()
        };
        decide(&self.authorizer, &attributes).await.result
    }

    async fn answer(&self, question: &AuthorizationQuestion) -> AuthorizationAnswer {
        let user = match &question.service_account {
            None => Arc::clone(&self.user),
            Some((namespace, name)) => Arc::new(service_account(namespace, name)),
        };
        let question = question.clone();
        let attributes = Attributes {
            user,
            verb: question.verb,
            path: question.path,
            group: question.group,
            version: if question.resource.is_empty() { String::new() } else { "*".to_owned() },
            resource: question.resource,
            subresource: question.subresource,
            namespace: question.namespace,
            name: question.name,
            ..Attributes::default()
        };
        let Verdict { decision, reason, .. } = self.authorizer.judge(&attributes).await;
        match decision {
            Decision::Allow => AuthorizationAnswer { allowed: true, reason, error: String::new() },
            Decision::Deny(reason) | Decision::NoOpinion(reason) => {
                AuthorizationAnswer { allowed: false, reason, error: String::new() }
            }
            Decision::Error(error) => AuthorizationAnswer { allowed: false, reason: String::new(), error },
        }
    }

    fn requires_use(&self) -> bool {
        self.requires_use
    }

    fn is_internal(&self) -> bool {
        self.user.is_internal()
    }

    fn requires_secret_read(&self) -> bool {
        self.requires_secret_read
    }

    fn may_send(&self, method: &str, path: &str) -> bool {
        let rules = self.user.limits.as_ref().and_then(|limits| limits.requests.as_ref());
        rules.is_none_or(|rules| rules.allow(method, path))
    }

    fn caller(&self) -> Caller {
        let user = &self.user;
        Caller {
            username: user.name.clone(),
            groups: user.groups.clone(),
            uid: user.uid.clone(),
            extra: user.extra.clone(),
            audit_id: String::new(),
        }
    }

    fn requested_name(&self) -> &str {
        &self.name
    }

    async fn uncovered(&self, namespace: &str, rules: &[GrantedRule]) -> Uncovered {
        let wanted: Vec<Rule> = rules.iter().cloned().map(rule).collect();
        let held = self.authorizer.rules(&self.user, namespace).await;
        Uncovered { rules: rbac::uncovered(&held.rules, &wanted), unknown: held.unknown }
    }
}

/// Returns the user of a service account.
fn service_account(namespace: &str, name: &str) -> User {
    let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    User::authenticated(format!("system:serviceaccount:{namespace}:{name}"), groups)
}

fn rule(granted: GrantedRule) -> Rule {
    let GrantedRule { verbs, groups, resources, names, paths } = granted;
    Rule { verbs, groups, resources, names, paths }
}

/// Returns the attributes of a request.
pub(crate) fn attributes(info: &RequestInfo, query: &Query, user: &Arc<User>) -> Attributes {
    let mut attributes =
        Attributes { user: Arc::clone(user), verb: info.verb.to_owned(), ..Attributes::default() };
    match &info.subject {
        Subject::Path => attributes.path.clone_from(&info.path),
        Subject::Resource(path) => {
            attributes.group.clone_from(&path.group);
            attributes.version.clone_from(&path.version);
            attributes.resource.clone_from(&path.resource);
            attributes.subresource.clone_from(&path.subresource);
            path.namespace_of_permission().clone_into(&mut attributes.namespace);
            attributes.name.clone_from(&path.name);
            if matches!(info.verb, "list" | "watch" | "deletecollection") {
                query.text("fieldSelector").clone_into(&mut attributes.field_selector);
                query.text("labelSelector").clone_into(&mut attributes.label_selector);
            }
        }
    }
    // A method without a verb is its own verb.
    if attributes.verb == UNKNOWN {
        attributes.verb = info.method.as_str().to_lowercase();
    }
    attributes
}

#[cfg(test)]
mod tests {
    use apiserver_access::{AccessRule, AccessRules, TokenLimits};

    use super::*;

    /// Authorizer with one verdict about all requests.
    #[derive(Debug)]
    struct Always(Verdict);

    #[async_trait]
    impl Authorizer for Always {
        async fn judge(&self, _: &Attributes) -> Verdict {
            self.0.clone()
        }
    }

    #[tokio::test]
    async fn iz_05_the_audit_log_has_the_origin_of_a_decision_and_the_age_of_its_data() {
        let reason = || "why".to_owned();
        for (decision, name, age, word, in_log, annotations, is_warned) in [
            (Decision::Allow, "RBAC", None, Some("allow"), "why", vec![(AUTHORIZER, "RBAC")], false),
            (
                Decision::Allow,
                "HostMirror",
                Some(75),
                Some("allow"),
                "why",
                vec![(AUTHORIZER, "HostMirror"), (AGE, "75")],
                true,
            ),
            (
                Decision::Deny(reason()),
                "Webhook/a",
                None,
                Some("forbid"),
                "why",
                vec![(AUTHORIZER, "Webhook/a")],
                false,
            ),
            (Decision::NoOpinion(reason()), "", Some(75), Some("forbid"), "why", vec![(AGE, "75")], false),
            (Decision::Error(reason()), "", Some(75), None, "internal error", vec![], false),
        ] {
            let case = format!("{decision:?}");
            let age = age.map(Duration::from_secs);
            let verdict = Verdict { decision, reason: reason(), authorizer: name.to_owned(), age };
            let authorizer: Arc<dyn Authorizer> = Arc::new(Always(verdict));
            let decided = decide(&authorizer, &Attributes::default()).await;
            assert_eq!((decided.word, decided.reason.as_str()), (word, in_log), "{case}");
            let annotations = annotations.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
            assert_eq!(decided.annotations(), annotations.collect::<BTreeMap<_, _>>(), "{case}");
            assert_eq!(decided.warning().is_some(), is_warned, "{case}");
            assert_eq!(decided.result.is_ok(), word == Some("allow"), "{case}");
        }
    }

    #[test]
    fn ia_52_other_parts_can_ask_which_requests_the_token_is_for() {
        let may_send = |requests: Option<AccessRules>| {
            let limits = Some(Arc::new(TokenLimits { requests, certificate: None }));
            let permissions = UserPermissions {
                authorizer: Arc::new(Always(Verdict::of(Decision::Allow, ""))),
                user: Arc::new(User { limits, ..User::authenticated("alice", []) }),
                name: String::new(),
                requires_use: false,
                requires_secret_read: false,
            };
            ["PATCH", "POST"].map(|method| permissions.may_send(method, "/a/plan"))
        };
        let rule = AccessRule { method: "POST".to_owned(), path: "/*/plan".to_owned() };
        assert_eq!(may_send(Some(AccessRules::new("container-infra", vec![rule]))), [false, true]);
        assert_eq!(may_send(None), [true, true]);
    }

    #[test]
    fn tm_05_secrets_need_the_permission_to_read_them_by_default_except_through_the_host() {
        let user = |realm: Realm| User::authenticated("alice", []).in_realm(realm);
        let (own, host) = (user(Realm::Own), user(Realm::Host));
        let table = [
            (None, &own, false, true),
            (None, &host, false, true),
            (None, &host, true, false),
            // A front proxy passes on users of the host only.
            (None, &own, true, true),
            (Some(true), &host, true, true),
            (Some(true), &own, false, true),
            (Some(false), &host, true, false),
            (Some(false), &own, false, false),
        ];
        for (setting, user, proxied, expected) in table {
            let found = requires_secret_read(setting, user, proxied);
            assert_eq!(found, expected, "{setting:?} {:?} {proxied}", user.realm);
        }
        let controller = User::controller("machine");
        assert!(!requires_secret_read(None, &controller, false));
        assert!(!requires_secret_read(Some(true), &controller, false));
    }
}
