//! Parser of an entry of a `clouds.yaml`, with errors that a user can act on.
//!
//! No error here quotes the file: a parser's message, or a field's value, may be a password.

use std::collections::BTreeMap;

use controllers_infrastructure::{CloudError, CloudResult, Credentials, ErrorClass};
use serde::Deserialize;

const OPERATION: &str = "read clouds.yaml";

#[derive(Deserialize)]
struct File {
    clouds: Option<BTreeMap<String, Option<Entry>>>,
}

/// Entry of one cloud, as it is written. Unknown fields are ignored, as by every other reader.
#[derive(Deserialize, Default, Clone)]
#[serde(default)]
pub(crate) struct Entry {
    pub(crate) auth: Login,
    pub(crate) auth_type: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) region_name: Option<String>,
    pub(crate) interface: Option<String>,
    pub(crate) endpoint_type: Option<String>,
    pub(crate) cacert: Option<String>,
    pub(crate) verify: Option<bool>,
}

/// User and project.
#[derive(Deserialize, Default, Clone)]
#[serde(default)]
pub(crate) struct Login {
    pub(crate) auth_url: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) user_id: Option<String>,
    pub(crate) user_domain_name: Option<String>,
    pub(crate) user_domain_id: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) passcode: Option<String>,
    pub(crate) project_id: Option<String>,
    pub(crate) project_name: Option<String>,
    pub(crate) tenant_id: Option<String>,
    pub(crate) tenant_name: Option<String>,
    pub(crate) project_domain_id: Option<String>,
    pub(crate) project_domain_name: Option<String>,
    pub(crate) trust_id: Option<String>,
    pub(crate) domain_id: Option<String>,
    pub(crate) domain_name: Option<String>,
    pub(crate) default_domain: Option<String>,
    pub(crate) default_domain_id: Option<String>,
    pub(crate) application_credential_id: Option<String>,
    pub(crate) application_credential_name: Option<String>,
    pub(crate) application_credential_secret: Option<String>,
    pub(crate) identity_provider: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) access_token: Option<String>,
    pub(crate) access_token_endpoint: Option<String>,
    pub(crate) discovery_endpoint: Option<String>,
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret: Option<String>,
}

/// Login method. The names are the SDK's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Password,
    Token,
    ApplicationCredential,
    Totp,
    OidcAccessToken,
    OidcClientCredentials,
}

impl Method {
    /// All methods.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 6] = [
        Self::Password,
        Self::Token,
        Self::ApplicationCredential,
        Self::Totp,
        Self::OidcAccessToken,
        Self::OidcClientCredentials,
    ];

    /// Returns the SDK's name of the method.
    #[cfg(test)]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Password => "v3password",
            Self::Token => "v3token",
            Self::ApplicationCredential => "v3applicationcredential",
            Self::Totp => "v3totp",
            Self::OidcAccessToken => "v3oidcaccesstoken",
            Self::OidcClientCredentials => "v3oidcclientcredentials",
        }
    }
}

/// Returns the entry that the credentials name.
pub(crate) fn entry(credentials: &Credentials) -> CloudResult<Entry> {
    let file: File = serde_saphyr::from_str(&credentials.clouds_yaml).map_err(|error| {
        let place = error
            .location()
            .map(|place| format!(", line {} column {}", place.line(), place.column()))
            .unwrap_or_default();
        invalid(format!("it is not a clouds.yaml{place}"))
    })?;
    let mut clouds = file.clouds.ok_or_else(|| invalid("it has no clouds"))?;
    match clouds.remove(&credentials.cloud_name) {
        Some(entry) => Ok(entry.unwrap_or_default()),
        None => {
            let names: Vec<&str> = clouds.keys().map(String::as_str).collect();
            let name = &credentials.cloud_name;
            Err(invalid(format!("it has no cloud {name:?}; its clouds are {}", names.join(", "))))
        }
    }
}

impl Entry {
    /// Returns the URL of Keystone.
    pub(crate) fn auth_url(&self, cloud: &str) -> CloudResult<&str> {
        match self.auth.auth_url.as_deref().map(str::trim).filter(|url| !url.is_empty()) {
            Some(url) if url.starts_with("https://") || url.starts_with("http://") => Ok(url),
            Some(_) => {
                Err(invalid(format!("cloud {cloud:?}: auth.auth_url is not an http or https address")))
            }
            None if self.profile.is_some() => {
                Err(invalid(format!("cloud {cloud:?}: auth.auth_url is missing (profile is not supported)")))
            }
            None => Err(missing(cloud, "auth_url")),
        }
    }

    /// Returns `public`, `internal` or `admin`; older files have `publicURL`.
    pub(crate) fn interface(&self) -> &str {
        let word = self.interface.as_deref().or(self.endpoint_type.as_deref()).unwrap_or("public");
        word.strip_suffix("URL").unwrap_or(word)
    }

    /// Returns the login method, after a check of its fields.
    pub(crate) fn method(&self, cloud: &str) -> CloudResult<Method> {
        let method = self.named_method(cloud)?;
        self.auth.check(method, cloud)?;
        Ok(method)
    }

    fn named_method(&self, cloud: &str) -> CloudResult<Method> {
        match self.auth_type.as_deref() {
            None if self.auth.application_credential_secret.is_some() => Ok(Method::ApplicationCredential),
            None if self.auth.token.is_some() && self.auth.password.is_none() => Ok(Method::Token),
            None | Some("password" | "v3password") => Ok(Method::Password),
            Some("token" | "v3token") => Ok(Method::Token),
            Some("v3applicationcredential" | "applicationcredential" | "application_credential") => {
                Ok(Method::ApplicationCredential)
            }
            Some("v3totp") => Ok(Method::Totp),
            Some("v3oidcaccesstoken") => Ok(Method::OidcAccessToken),
            Some("v3oidcclientcredentials") => Ok(Method::OidcClientCredentials),
            Some(other) => {
                Err(invalid(format!("cloud {cloud:?}: auth_type {other:?} cannot be used by a controller")))
            }
        }
    }
}

impl Login {
    fn check(&self, method: Method, cloud: &str) -> CloudResult<()> {
        let user = self.username.is_some() || self.user_id.is_some();
        let needed = match method {
            Method::Password => vec![
                ("username", user),
                ("password", self.password.is_some()),
                ("user_domain_name", self.user_id.is_some() || self.has_user_domain()),
            ],
            Method::Token => vec![("token", self.token.is_some())],
            Method::ApplicationCredential => {
                let named = self.application_credential_name.is_some() && user;
                vec![
                    ("application_credential_id", self.application_credential_id.is_some() || named),
                    ("application_credential_secret", self.application_credential_secret.is_some()),
                ]
            }
            Method::OidcAccessToken => vec![("access_token", self.access_token.is_some())],
            Method::Totp | Method::OidcClientCredentials => vec![],
        };
        match needed.iter().find(|(_, present)| !present) {
            Some((field, _)) => Err(missing(cloud, field)),
            None => Ok(()),
        }
    }

    fn has_user_domain(&self) -> bool {
        [&self.user_domain_name, &self.user_domain_id, &self.domain_name, &self.domain_id]
            .into_iter()
            .chain([&self.default_domain, &self.default_domain_id])
            .any(Option::is_some)
    }
}

/// Creates the error of a field of `auth` that is missing.
pub(crate) fn missing(cloud: &str, field: &str) -> CloudError {
    invalid(format!("cloud {cloud:?}: auth.{field} is missing"))
}

/// Creates an error that no retry can resolve: the Secret must change.
pub(crate) fn invalid(message: impl Into<String>) -> CloudError {
    CloudError::new(ErrorClass::Credentials, OPERATION, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(yaml: &str) -> Credentials {
        Credentials {
            clouds_yaml: yaml.into(),
            cloud_name: "here".into(),
            ca_certificate: None,
            region: None,
            identity: None,
        }
    }

    fn method(yaml: &str) -> CloudResult<Method> {
        let entry = entry(&credentials(yaml))?;
        entry.auth_url("here")?;
        entry.method("here")
    }

    #[test]
    fn errors_name_the_field_and_contain_no_secret() {
        let table = [
            ("a: [hunter2", "it is not a clouds.yaml, line"),
            ("clouds: {here: {auth: {password: {x: hunter2}}}}", "it is not a clouds.yaml"),
            ("{}", "it has no clouds"),
            ("clouds: {there: {}, elsewhere: {}}", r#"no cloud "here"; its clouds are elsewhere, there"#),
            ("clouds: {here: }", r#"cloud "here": auth.auth_url is missing"#),
            ("clouds: {here: {profile: x}}", "profile is not supported"),
            ("clouds: {here: {auth: {auth_url: 'hunter2'}}}", "not an http or https address"),
            ("clouds: {here: {auth: {auth_url: 'http://k'}}}", "auth.username is missing"),
            ("clouds: {here: {auth: {auth_url: 'http://k', username: u}}}", "auth.password is missing"),
            (
                "clouds: {here: {auth: {auth_url: 'http://k', username: u, password: hunter2}}}",
                "auth.user_domain_name is missing",
            ),
            (
                "clouds: {here: {auth: {auth_url: 'http://k', application_credential_secret: hunter2}}}",
                "auth.application_credential_id is missing",
            ),
            (
                "clouds: {here: {auth_type: v3multifactor, auth: {auth_url: 'http://k'}}}",
                r#"auth_type "v3multifactor" cannot be used by a controller"#,
            ),
            (
                "clouds: {here: {auth_type: v3websso, auth: {auth_url: 'http://k'}}}",
                r#"auth_type "v3websso" cannot be used by a controller"#,
            ),
        ];
        for (yaml, expected) in table {
            let error = method(yaml).unwrap_err();
            assert_eq!(error.class, ErrorClass::Credentials, "{yaml}");
            assert!(error.to_string().contains(expected), "{yaml}: {error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn the_authentication_method_is_given_or_inferred() {
        let user = "username: u, user_domain_name: d";
        let table = [
            (format!("auth: {{auth_url: 'http://k', {user}, password: 123}}"), Method::Password),
            (format!("auth: {{auth_url: 'http://k', {user}, password: p, token: t}}"), Method::Password),
            ("auth: {auth_url: 'http://k', token: t}".into(), Method::Token),
            (
                "auth: {auth_url: 'http://k', application_credential_id: i, application_credential_secret: s}"
                    .into(),
                Method::ApplicationCredential,
            ),
            (
                format!(
                    "auth_type: v3applicationcredential, auth: {{auth_url: 'http://k', {user}, \
                     application_credential_name: i, application_credential_secret: s}}"
                ),
                Method::ApplicationCredential,
            ),
        ];
        for (fields, expected) in table {
            let yaml = format!("clouds: {{here: {{{fields}}}}}");
            assert_eq!(method(&yaml).unwrap(), expected, "{yaml}");
        }
    }

    #[test]
    fn old_interface_names_are_accepted() {
        for (yaml, expected) in [
            ("clouds: {here: {}}", "public"),
            ("clouds: {here: {interface: internal}}", "internal"),
            ("clouds: {here: {endpoint_type: adminURL}}", "admin"),
        ] {
            assert_eq!(entry(&credentials(yaml)).unwrap().interface(), expected);
        }
    }
}
