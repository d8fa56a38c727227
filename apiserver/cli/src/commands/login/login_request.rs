//! Body of a login: a pure function of the settings.

use serde_json::{Value, json};

use super::settings::Settings;
use crate::error::Failure;

/// Returns the body of `POST /v3/auth/tokens`.
///
/// # Errors
/// A setting is missing.
pub(super) fn body(settings: &Settings, passcode: Option<&str>) -> Result<Value, Failure> {
    let identity = identity(settings, passcode)?;
    let mut auth = json!({"identity": identity});
    // An application credential has its project. Keystone refuses another one beside it.
    let is_bound = identity.get("application_credential").is_some();
    if let Some(scope) = scope(settings).filter(|_| !is_bound) {
        auth["scope"] = scope;
    }
    Ok(json!({"auth": auth}))
}

fn identity(settings: &Settings, passcode: Option<&str>) -> Result<Value, Failure> {
    if settings.has("application_credential_id") || settings.has("application_credential_name") {
        return application_credential(settings);
    }
    if let Some(token) = settings.get("token").filter(|_| !settings.has("password")) {
        return Ok(json!({"methods": ["token"], "token": {"id": token}}));
    }
    let mut user = user(settings)?;
    let password = settings.required("password", "a password, a token or an application credential")?;
    user["password"] = json!(password);
    let mut identity = json!({"methods": ["password"], "password": {"user": user.clone()}});
    if let Some(code) = passcode.or_else(|| settings.get("passcode")) {
        identity["methods"] = json!(["password", "totp"]);
        if let Some(fields) = user.as_object_mut() {
            fields.remove("password");
        }
        user["passcode"] = json!(code);
        identity["totp"] = json!({"user": user});
    }
    Ok(identity)
}

fn application_credential(settings: &Settings) -> Result<Value, Failure> {
    let secret =
        settings.required("application_credential_secret", "the secret of the application credential")?;
    let credential = match settings.get("application_credential_id") {
        Some(id) => json!({"id": id, "secret": secret}),
        None => {
            let name = settings.get("application_credential_name");
            json!({"name": name, "secret": secret, "user": user(settings)?})
        }
    };
    Ok(json!({"methods": ["application_credential"], "application_credential": credential}))
}

fn user(settings: &Settings) -> Result<Value, Failure> {
    if let Some(id) = settings.get("user_id") {
        return Ok(json!({"id": id}));
    }
    let name = settings.required("username", "the name of the user")?;
    Ok(json!({"name": name, "domain": domain(settings, "user_domain")}))
}

/// Returns the domain of a user or a project: its own, else the one that the settings name for both, else Keystone's own
/// default. OpenStack's clients read the settings in the same way.
fn domain(settings: &Settings, of: &str) -> Value {
    for place in [of, "domain"] {
        let own = |key: &str| settings.get(&format!("{place}_{key}"));
        if let Some(name) = own("name") {
            return json!({"name": name});
        }
        if let Some(id) = own("id") {
            return json!({"id": id});
        }
    }
    let default = settings.get("default_domain_id").or_else(|| settings.get("default_domain"));
    json!({"id": default.unwrap_or("default")})
}

fn scope(settings: &Settings) -> Option<Value> {
    let either = |a: &str, b: &str| settings.get(a).or_else(|| settings.get(b));
    if let Some(id) = either("project_id", "tenant_id") {
        return Some(json!({"project": {"id": id}}));
    }
    if let Some(name) = either("project_name", "tenant_name") {
        return Some(json!({"project": {"name": name, "domain": domain(settings, "project_domain")}}));
    }
    if settings.get("system_scope").is_some_and(|it| it == "all") {
        return Some(json!({"system": {"all": true}}));
    }
    if let Some(id) = settings.get("domain_id") {
        return Some(json!({"domain": {"id": id}}));
    }
    settings.get("domain_name").map(|name| json!({"domain": {"name": name}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)], passcode: Option<&str>) -> Result<Value, Failure> {
        body(&Settings::of("test", pairs), passcode)
    }

    const PASSWORD: [(&str, &str); 4] =
        [("username", "alice"), ("password", "p"), ("user_domain_name", "Default"), ("project_name", "blue")];

    #[test]
    fn a_password_login_has_user_and_project_with_their_domains() {
        let user = json!({"name": "alice", "domain": {"name": "Default"}, "password": "p"});
        let scope = json!({"project": {"name": "blue", "domain": {"id": "default"}}});
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        assert_eq!(of(&PASSWORD, None).unwrap(), json!({"auth": {"identity": identity, "scope": scope}}));
    }

    #[test]
    fn a_passcode_is_a_second_method() {
        let found = of(&PASSWORD, Some("123456")).unwrap();
        assert_eq!(found["auth"]["identity"]["methods"], json!(["password", "totp"]));
        let user = json!({"name": "alice", "domain": {"name": "Default"}, "passcode": "123456"});
        assert_eq!(found["auth"]["identity"]["totp"]["user"], user);
    }

    #[test]
    fn an_application_credential_has_no_scope() {
        let pairs =
            [("application_credential_id", "i"), ("application_credential_secret", "s"), ("project_id", "p")];
        let identity = json!({"methods": ["application_credential"],
            "application_credential": {"id": "i", "secret": "s"}});
        assert_eq!(of(&pairs, None).unwrap(), json!({"auth": {"identity": identity}}));
        let pairs =
            [("application_credential_name", "n"), ("application_credential_secret", "s"), ("user_id", "u")];
        let found = of(&pairs, None).unwrap();
        assert_eq!(found["auth"]["identity"]["application_credential"]["user"], json!({"id": "u"}));
    }

    #[test]
    fn a_token_is_scoped_again() {
        let found = of(&[("token", "t"), ("tenant_id", "p")], None).unwrap();
        assert_eq!(found["auth"]["identity"], json!({"methods": ["token"], "token": {"id": "t"}}));
        assert_eq!(found["auth"]["scope"], json!({"project": {"id": "p"}}));
    }

    #[test]
    fn a_domain_is_the_own_one_then_that_of_both_then_the_default() {
        let domains = |pairs: &[(&str, &str)]| {
            let own = [("username", "alice"), ("password", "p"), ("project_name", "blue")];
            let found = of(&[&own[..], pairs].concat(), None).unwrap();
            let of = |pointer: &str| found.pointer(pointer).cloned().unwrap_or_default();
            (of("/auth/identity/password/user/domain"), of("/auth/scope/project/domain"))
        };
        let (id, name) = (|it: &str| json!({"id": it}), |it: &str| json!({"name": it}));
        for (pairs, user, project) in [
            (&[][..], id("default"), id("default")),
            (&[("default_domain_id", "d")][..], id("d"), id("d")),
            (&[("domain_name", "both"), ("default_domain_id", "d")][..], name("both"), name("both")),
            (&[("domain_id", "both"), ("user_domain_name", "u")][..], name("u"), id("both")),
            (&[("domain_name", "both"), ("project_domain_id", "p")][..], name("both"), id("p")),
        ] {
            assert_eq!(domains(pairs), (user, project), "{pairs:?}");
        }
    }

    #[test]
    fn a_missing_setting_is_named() {
        for (pairs, expected) in [
            (&[][..], "username"),
            (&[("username", "u")][..], "password"),
            (&[("application_credential_id", "i")][..], "application_credential_secret"),
        ] {
            let failure = of(pairs, None).unwrap_err().to_string();
            assert!(failure.contains(expected), "{failure}");
        }
    }
}
