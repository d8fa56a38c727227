//! Tokens of a real Keystone of each kind, and a Keystone that is stopped.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::endpoint::{CACHE_TTL, Endpoint};
use super::stopped::StoppedKeystone;
use crate::e2e::lab::{Lab, until};
use crate::e2e::openstack::{OpenStack, text};

/// Name of the second domain. It has a slash, as the name of a user has one between domain and user.
const DOMAIN: &str = "e2e/other";

/// Users of both domains. Their names differ in the domain only.
const USERS: [&str; 2] = ["keystone:Default/demo", "keystone:e2e%2Fother/demo"];

/// Path of a request that needs a permission.
const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines";

/// Binding of the user of the domain `Default`.
const BINDING: &str = "keystone-user";

/// Longest time by which a refusal may be later than the lifetime of the answers: for the requests, on a busy machine.
const LATE: Duration = Duration::from_secs(10);

/// Each kind of token names its user or is refused, a revoked one is refused in time, and known ones work while Keystone is
/// stopped.
pub(in crate::e2e) fn tokens(lab: &Lab, openstack: &OpenStack) -> anyhow::Result<()> {
    let made = Made(openstack.records(&["tokens", DOMAIN])?);
    let checked = check(lab, openstack, &made);
    let removed = openstack.records(&["remove", DOMAIN]);
    checked.and_then(|()| removed.map(drop))
}

/// Users and tokens, as `records.py` has made them.
struct Made(Value);

impl Made {
    fn token(&self, kind: &str) -> anyhow::Result<&str> {
        let token = text(&self.0, &format!("/tokens/{kind}"));
        ensure!(!token.is_empty(), "there is no token {kind}");
        Ok(token)
    }

    fn id(&self, what: &str) -> &str {
        text(&self.0, &format!("/{what}"))
    }
}

fn check(lab: &Lab, openstack: &OpenStack, made: &Made) -> anyhow::Result<()> {
    let tokens = made.0.pointer("/tokens").and_then(Value::as_object).context("there are no tokens")?;
    let lines = tokens.values().filter_map(Value::as_str).map(|token| format!("token: {token}\n"));
    // The search for secrets in the logs reads the file.
    lab.file("keystone-tokens.yaml", &lines.collect::<String>())?;
    let endpoint = Endpoint::start(lab, openstack)?;
    users(&endpoint, made)?;
    refusals(&endpoint, openstack, made)?;
    permissions(lab, &endpoint, made)?;
    revocation(&endpoint, openstack, made)?;
    silence(&endpoint, openstack, made)
}

/// Each token has the user and the groups of its scope.
fn users(endpoint: &Endpoint, made: &Made) -> anyhow::Result<()> {
    let project = format!("keystone:project:{}", made.id("project"));
    let member = format!("{project}:member");
    let of_trust = vec![project.clone(), member.clone(), format!("{project}:reader")];
    let of_domain = vec![format!("keystone:domain:{}:reader", made.id("domain"))];
    let (own, other) = ((USERS[0], "user"), (USERS[1], "other"));
    for (kind, (name, id), groups) in [
        ("restricted", own, vec![project, member]),
        ("unscoped", own, Vec::new()),
        ("trust", other, of_trust),
        ("domain", other, of_domain),
        ("system", other, vec!["keystone:system:reader".to_owned()]),
    ] {
        let answer = endpoint.review(made.token(kind)?)?;
        let user = answer.user().with_context(|| format!("token {kind}"))?;
        let is_named = text(user, "/username") == name && text(user, "/uid") == made.id(id);
        ensure!(is_named, "token {kind}: the user is {user}");
        ensure!(has_exactly(user, groups), "token {kind}: the groups are {user}");
        let unscoped = text(user, "/extra/capstan.dev~1unscoped/0");
        ensure!((unscoped == "true") == (kind == "unscoped"), "token {kind}: {user}");
        let credential = text(user, "/extra/capstan.dev~1keystone-application-credential/0");
        let expected = if kind == "restricted" { made.id("credential") } else { "" };
        ensure!(credential == expected, "token {kind}: {user}");
    }
    let answer = endpoint.review_by(&format!("X-Auth-Token: {}", made.token("password")?))?;
    let user = answer.user()?;
    ensure!(text(user, "/username") == USERS[0], "token password: {user}");
    ensure!(text(user, "/extra/capstan.dev~1keystone-methods/0") == "password", "token password: {user}");
    Ok(())
}

/// Returns true if a user has these groups and that of all authenticated users.
fn has_exactly(user: &Value, mut groups: Vec<String>) -> bool {
    groups.push("system:authenticated".to_owned());
    let found = user.pointer("/groups").and_then(Value::as_array).into_iter().flatten();
    let mut found: Vec<&str> = found.filter_map(Value::as_str).collect();
    groups.sort();
    found.sort_unstable();
    found == groups
}

/// Tokens with access rules are for no other requests, and tokens that cannot validate themselves and revoked ones are not
/// accepted.
fn refusals(endpoint: &Endpoint, openstack: &OpenStack, made: &Made) -> anyhow::Result<()> {
    for kind in ["access-rules", "foreign-rules"] {
        let token = made.token(kind)?;
        for answer in [endpoint.review(token)?, endpoint.get("/apis", token)?] {
            answer.check("403", "no access rule").with_context(|| format!("token {kind}"))?;
        }
    }
    let foreign = endpoint.get(MACHINES, made.token("foreign-rules")?)?;
    foreign.check("403", "the service \\\"container-infra\\\"").context("rules of another service")?;
    let impersonating = endpoint.review(made.token("impersonating")?)?;
    impersonating.check("503", "trust with impersonation")?;
    let revoked = made.token("revoked")?;
    openstack.records(&["end", revoked])?;
    endpoint.review(revoked)?.check("401", "Unauthorized").context("a token that was revoked before")
}

/// A binding gives permissions to the user that it names, and neither to the user of the same name in another domain nor
/// to a token without a scope.
fn permissions(lab: &Lab, endpoint: &Endpoint, made: &Made) -> anyhow::Result<()> {
    let user = format!("--user={}", USERS[0]);
    let binding = ["create", "rolebinding", BINDING, "-n", "default", "--clusterrole=view", &user];
    lab.kubectl("direct", &binding)?;
    for kind in ["password", "restricted", "access-rules"] {
        let token = made.token(kind)?;
        until("the user may list Machines", || Ok(endpoint.get(MACHINES, token)?.code == "200"))?;
    }
    for kind in ["trust", "domain", "system"] {
        let refused = endpoint.get(MACHINES, made.token(kind)?)?;
        refused.check("403", USERS[1]).with_context(|| format!("token {kind}"))?;
    }
    let unscoped = made.token("unscoped")?;
    endpoint.get(MACHINES, unscoped)?.check("403", "log in with a project")?;
    endpoint.get("/apis", unscoped)?.check("200", "APIGroupList")?;
    lab.kubectl("direct", &["delete", "rolebinding", BINDING, "-n", "default"]).map(drop)
}

/// A token that was revoked after its first use is refused when its answer has ended.
fn revocation(endpoint: &Endpoint, openstack: &OpenStack, made: &Made) -> anyhow::Result<()> {
    let token = made.token("revoked-later")?;
    endpoint.review(token)?.user()?;
    openstack.records(&["end", token])?;
    let revoked = Instant::now();
    until("the revoked token is refused", || {
        let answer = endpoint.review(token)?;
        ensure!(["201", "401"].contains(&answer.code.as_str()), "{}: {}", answer.code, answer.body);
        Ok(answer.code == "401")
    })?;
    let taken = revoked.elapsed();
    ensure!(taken < CACHE_TTL + LATE, "the revoked token is refused after {taken:?}");
    Ok(())
}

/// While Keystone is stopped, a known token works with a warning, and an unknown one gets 503. After that, both work.
fn silence(endpoint: &Endpoint, openstack: &OpenStack, made: &Made) -> anyhow::Result<()> {
    let (known, unknown) = (made.token("password")?, made.token("unknown")?);
    endpoint.review(known)?.user()?;
    let stopped = StoppedKeystone::begin(openstack)?;
    let refused = endpoint.review(unknown)?;
    refused.check("503", "no response within 3 s")?;
    ensure!(text(&refused.body, "/reason") == "ServiceUnavailable", "{}", refused.body);
    ensure!(refused.head.contains("\nretry-after: "), "{}", refused.head);
    until("the answer about the known token is old", || {
        let answer = endpoint.review(known)?;
        ensure!(text(answer.user()?, "/username") == USERS[0], "{}", answer.body);
        let is_old = answer.stale_age().is_some();
        let has_warning =
            answer.head.contains("keystone does not answer; the user is known by its answer of");
        ensure!(has_warning == is_old, "{} {}", answer.head, answer.body);
        Ok(is_old)
    })?;
    stopped.end()?;
    until("Keystone decides about the unknown token", || Ok(endpoint.review(unknown)?.code == "201"))?;
    let answer = endpoint.review(known)?;
    ensure!(text(answer.user()?, "/username") == USERS[0], "{}", answer.body);
    ensure!(answer.stale_age().is_none(), "Keystone answers again: {}", answer.body);
    Ok(())
}
