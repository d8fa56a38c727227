//! Mapping of the claims of a verified token to a user. A pure function.

use apiserver_access::User;
use apiserver_schema::Expression;
use serde_json::{Value, json};

use crate::claims::Claims;
use crate::config::{Authenticator, Expressions};

/// Largest number of groups.
const MOST_GROUPS: usize = 256;

/// Attribute with the id of the credential.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// Returns the user of the claims.
///
/// # Errors
/// The reason why the token is refused.
pub(crate) fn user(claims: Claims, from: &Authenticator, with: &Expressions) -> Result<User, String> {
    let claims = Value::Object(claims);
    let name = name(&claims, from, with)?;
    let groups = groups(&claims, from, with)?;
    if groups.len() > MOST_GROUPS {
        return Err(format!("it has {} groups, and at most {MOST_GROUPS} are allowed", groups.len()));
    }
    let uid = uid(&claims, from, with)?;
    let mut extra = std::collections::BTreeMap::new();
    for (key, expression) in &with.extra {
        let found = evaluated(expression, &claims)?;
        let values = texts(&found).ok_or_else(|| of_texts(&format!("the extra {key:?}")))?;
        if !values.is_empty() {
            extra.insert(key.clone(), values);
        }
    }
    check_claims(&claims, from, with)?;
    let shown =
        json!({"username": name, "uid": uid.clone().unwrap_or_default(), "groups": groups, "extra": extra});
    check_rules(&with.user_rules, &shown, "user")?;
    if let Some(id) = claims.get("jti").and_then(Value::as_str) {
        extra.insert(CREDENTIAL.to_owned(), vec![format!("JTI={id}")]);
    }
    Ok(User { uid, extra, ..User::authenticated(name, groups) })
}

fn name(claims: &Value, from: &Authenticator, with: &Expressions) -> Result<String, String> {
    let of = &from.claim_mappings.username;
    let (found, prefix) = match &with.username {
        Some(expression) => (evaluated(expression, claims)?, ""),
        None => (present(claims, &of.claim)?.clone(), of.prefix.as_deref().unwrap_or_default()),
    };
    let name = found.as_str().ok_or("its user name is no text")?;
    if name.is_empty() {
        return Err("its user name is empty".to_owned());
    }
    // An address that the issuer has not verified may be that of another person.
    if of.claim == "email" && claims.get("email_verified").is_some_and(|it| *it != Value::Bool(true)) {
        return Err("its e-mail address is not verified".to_owned());
    }
    Ok(format!("{prefix}{name}"))
}

fn groups(claims: &Value, from: &Authenticator, with: &Expressions) -> Result<Vec<String>, String> {
    let of = &from.claim_mappings.groups;
    if let Some(expression) = &with.groups {
        return texts(&evaluated(expression, claims)?).ok_or_else(|| of_texts("the groups"));
    }
    let Some(found) = claims.get(&of.claim).filter(|_| !of.claim.is_empty()) else { return Ok(Vec::new()) };
    let prefix = of.prefix.as_deref().unwrap_or_default();
    let groups = texts(found).ok_or_else(|| of_texts("the groups"))?;
    Ok(groups.into_iter().map(|group| format!("{prefix}{group}")).collect())
}

fn uid(claims: &Value, from: &Authenticator, with: &Expressions) -> Result<Option<String>, String> {
    let claim = &from.claim_mappings.uid.claim;
    let found = match &with.uid {
        Some(expression) => evaluated(expression, claims)?,
        None if claim.is_empty() => return Ok(None),
        None => present(claims, claim)?.clone(),
    };
    if found.is_null() && with.uid.is_none() {
        return Ok(None);
    }
    let uid = found.as_str().ok_or("its uid is no text")?;
    Ok(Some(uid.to_owned()).filter(|uid| !uid.is_empty()))
}

fn check_claims(claims: &Value, from: &Authenticator, with: &Expressions) -> Result<(), String> {
    for rule in from.claim_validation_rules.iter().filter(|rule| !rule.claim.is_empty()) {
        if present(claims, &rule.claim)?.as_str() != Some(rule.required_value.as_str()) {
            return Err(format!("its claim {:?} is not {:?}", rule.claim, rule.required_value));
        }
    }
    check_rules(&with.claim_rules, claims, "claims")
}

fn check_rules(rules: &[(Expression, String)], value: &Value, of: &str) -> Result<(), String> {
    for (rule, message) in rules {
        if evaluated(rule, value)? != Value::Bool(true) {
            let shown = if message.is_empty() { rule.source() } else { message };
            return Err(format!("a rule for its {of} failed: {shown}"));
        }
    }
    Ok(())
}

fn evaluated(expression: &Expression, value: &Value) -> Result<Value, String> {
    expression.evaluate(value).map_err(|error| format!("{}: {error}", expression.source()))
}

fn present<'a>(claims: &'a Value, name: &str) -> Result<&'a Value, String> {
    claims.get(name).ok_or_else(|| format!("it has no claim {name:?}"))
}

/// Returns the texts of a value: one or several. Null and empty texts are none.
fn texts(value: &Value) -> Option<Vec<String>> {
    let all = match value {
        Value::Null => return Some(Vec::new()),
        Value::Array(items) => items.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?,
        other => vec![other.as_str()?],
    };
    Some(all.into_iter().filter(|text| !text.is_empty()).map(str::to_owned).collect())
}

fn of_texts(subject: &str) -> String {
    format!("{subject} are neither text nor a list of texts")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Configuration;

    /// Maps claims as an authenticator with these fields does.
    fn mapped(authenticator: &str, claims: &Value) -> Result<User, String> {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer: {{url: 'https://i', audiences: [a]}}\n{authenticator}"
        );
        let configuration = Configuration::parse(&text, &[]).unwrap();
        let (from, with) = configuration.authenticators.first().unwrap();
        user(claims.as_object().unwrap().clone(), from, with)
    }

    const PLAIN: &str = "  claimMappings: {username: {claim: sub, prefix: 'p:'}, groups: {claim: roles, prefix: 'g:'}, uid: {claim: id}}\n";

    #[test]
    fn claims_are_mapped_with_their_prefixes() {
        let user = mapped(PLAIN, &json!({"sub": "a", "roles": ["x", ""], "id": "7", "jti": "j"})).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_deref()), ("p:a", Some("7")));
        assert_eq!(user.groups, ["g:x", "system:authenticated"]);
        assert_eq!(user.extra[CREDENTIAL], ["JTI=j"]);
        for (roles, expected) in
            [(json!("x"), 1), (json!(""), 0), (json!([]), 0), (json!(null), 0), (json!(["x", "y"]), 2)]
        {
            let user = mapped(PLAIN, &json!({"sub": "a", "id": "7", "roles": roles})).unwrap();
            assert_eq!(user.groups.len(), expected + 1, "{roles}");
        }
        let many: Vec<String> = (0..257).map(|n| n.to_string()).collect();
        for (claims, expected) in [
            (json!({"id": "7"}), "no claim \"sub\""),
            (json!({"sub": "", "id": "7"}), "empty"),
            (json!({"sub": 7, "id": "7"}), "no text"),
            (json!({"sub": "a"}), "no claim \"id\""),
            (json!({"sub": "a", "id": "7", "roles": [1]}), "groups"),
            (json!({"sub": "a", "id": "7", "roles": {"x": 1}}), "groups"),
            (json!({"sub": "a", "id": "7", "roles": many}), "257 groups"),
        ] {
            let error = mapped(PLAIN, &claims).unwrap_err();
            assert!(error.contains(expected), "{claims}: {error}");
        }
    }

    #[test]
    fn an_address_must_not_be_unverified() {
        let by_email = "  claimMappings: {username: {claim: email, prefix: ''}}\n";
        let of = |verified: Value| mapped(by_email, &json!({"email": "a@b", "email_verified": verified}));
        assert!(of(json!(true)).is_ok() && mapped(by_email, &json!({"email": "a@b"})).is_ok());
        for bad in [json!(false), json!("true"), json!(null), json!(1)] {
            assert!(of(bad.clone()).unwrap_err().contains("not verified"), "{bad}");
        }
    }

    #[test]
    fn expressions_and_rules_decide() {
        let with = "  claimValidationRules:\n  - {claim: hd, requiredValue: example.org}\n  - {expression: 'claims.exp - claims.nbf <= 3600', message: 'at most one hour'}\n  claimMappings:\n    username: {expression: \"'oidc:' + claims.sub\"}\n    groups: {expression: 'claims.?roles.orValue([])'}\n    uid: {expression: 'claims.sub'}\n    extra:\n    - {key: example.org/tenant, valueExpression: 'claims.?tenant.orValue(\"\")'}\n  userValidationRules:\n  - {expression: \"user.groups.all(g, !g.startsWith('system:'))\", message: reserved}\n";
        let claims = |changes: Value| {
            let mut claims = json!({"sub": "a", "hd": "example.org", "exp": 4000, "nbf": 1000});
            changes.as_object().unwrap().iter().for_each(|(name, value)| claims[name] = value.clone());
            claims
        };
        let user = mapped(with, &claims(json!({"tenant": "t", "roles": ["x"]}))).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_deref()), ("oidc:a", Some("a")));
        assert_eq!(user.extra["example.org/tenant"], ["t"]);
        assert!(mapped(with, &claims(json!({}))).unwrap().extra.is_empty(), "an empty text is no value");
        for (changes, expected) in [
            (json!({"hd": "other"}), "\"hd\" is not \"example.org\""),
            (json!({"exp": 5000}), "at most one hour"),
            (json!({"roles": ["system:masters"]}), "a rule for its user failed: reserved"),
            (json!({"sub": 7}), "no such overload"),
            (json!({"roles": 7}), "groups"),
        ] {
            let error = mapped(with, &claims(changes.clone())).unwrap_err();
            assert!(error.contains(expected), "{changes}: {error}");
        }
    }

    /// Claims that lead to another user than in kube-apiserver, which accepts empty names and keeps empty groups.
    const DIFFERENCES: [&str; 3] = [
        r#"{"id":"7","sub":""}"#,
        r#"{"id":"7","roles":"","sub":"a"}"#,
        r#"{"id":"7","roles":["x",""],"sub":"a"}"#,
    ];

    /// A line of the recording has the number of an authenticator, the claims of a token, and the user that
    /// kube-apiserver 1.36.3 returned in a SelfSubjectReview, or null after 401.
    #[test]
    fn users_are_those_of_kube_apiserver() {
        let authenticators: Vec<String> =
            serde_json::from_str(include_str!("mapping/authenticators.json")).unwrap();
        let (mut wrong, mut different) = (Vec::new(), 0);
        for line in include_str!("mapping/recorded.jsonl").lines() {
            let (number, claims, expected): (usize, Value, Value) = serde_json::from_str(line).unwrap();
            let found = mapped(&authenticators[number], &claims);
            let shown = found.as_ref().map_or(Value::Null, |user| {
                let mut shown = json!({"username": user.name, "groups": user.groups});
                if let Some(uid) = &user.uid {
                    shown["uid"] = json!(uid);
                }
                if !user.extra.is_empty() {
                    shown["extra"] = json!(user.extra);
                }
                shown
            });
            if shown == expected {
                continue;
            }
            if DIFFERENCES.iter().any(|it| serde_json::from_str::<Value>(it).unwrap() == claims) {
                different += 1;
            } else {
                wrong.push(format!("{line}: {found:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert_eq!(different, DIFFERENCES.len());
    }
}
