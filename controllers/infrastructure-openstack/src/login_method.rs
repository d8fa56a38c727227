//! Login methods of the SDK, over the transport of the session.
//!
//! The SDK's own client follows redirects and resolves names without a check, and it has no setting for either (0.22.8). Its
//! login methods take an HTTP client, so they get ours.

use std::collections::HashMap;

use openstack_sdk::AuthError;
use openstack_sdk::auth::Auth;
use openstack_sdk::auth::authtoken::{AuthToken, AuthTokenScope};
use openstack_sdk_auth_applicationcredential::ApplicationCredentialAuthenticator;
use openstack_sdk_auth_core::types::{Domain, Project};
use openstack_sdk_auth_core::{AuthReceiptResponse, OpenStackAuthType};
use openstack_sdk_auth_oidcaccesstoken::OidcAccessTokenAuthenticator;
use openstack_sdk_auth_oidcclientcredentials::OidcClientCredentialsAuthenticator;
use openstack_sdk_auth_password::PasswordAuthenticator;
use openstack_sdk_auth_receipt::ReceiptAuthenticator;
use openstack_sdk_auth_token::TokenAuthenticator;
use openstack_sdk_auth_totp::TotpAuthenticator;
use reqwest::Url;
use secrecy::SecretString;

use crate::clouds_yaml::{Login, Method};
use crate::transport::Transport;

/// Values of a login, by the SDK's names.
type Values = HashMap<String, SecretString>;

/// Login of one user.
pub(crate) struct LoginRequest {
    method: Method,
    /// Address of version 3 of Keystone, with a slash at its end.
    identity: Url,
    values: Values,
    scope: AuthTokenScope,
}

impl LoginRequest {
    /// Creates a login. The URLs in it have been checked.
    pub(crate) fn new(login: &Login, method: Method, identity: Url) -> Self {
        Self { method, identity, values: values(login), scope: scope(login, method) }
    }

    /// Logs in. A token of another scope than the requested one is exchanged: OpenID Connect gives no other.
    pub(crate) async fn send(&self, transport: &Transport) -> Result<AuthToken, AuthError> {
        let first = match self.call(transport, plugin(self.method), &self.values, None).await {
            Err(AuthError::AuthReceipt(receipt)) => self.answer_receipt(transport, receipt).await?,
            other => other?,
        };
        if self.scope == AuthTokenScope::Unscoped || self.scope.matches(&first.get_scope()) {
            return Ok(first);
        }
        let values = Values::from([("token".to_owned(), first.token)]);
        self.call(transport, &TokenAuthenticator, &values, None).await
    }

    /// Sends the further factors that Keystone wants, if the credentials have them.
    async fn answer_receipt(
        &self,
        transport: &Transport,
        receipt: Box<AuthReceiptResponse>,
    ) -> Result<AuthToken, AuthError> {
        let hints = serde_json::to_value(&receipt)?;
        match self.call(transport, &ReceiptAuthenticator, &self.values, Some(&hints)).await {
            Err(AuthError::Plugin { .. }) => Err(AuthError::AuthReceipt(receipt)),
            other => other,
        }
    }

    async fn call(
        &self,
        transport: &Transport,
        plugin: &dyn OpenStackAuthType,
        values: &Values,
        hints: Option<&serde_json::Value>,
    ) -> Result<AuthToken, AuthError> {
        match plugin.auth(transport.http(), &self.identity, values, Some(&self.scope), hints).await? {
            Auth::AuthToken(token) => Ok(*token),
            _ => Err(AuthError::AuthValueNotSupplied("token".to_owned())),
        }
    }
}

impl std::fmt::Debug for LoginRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginRequest").field("method", &self.method).finish_non_exhaustive()
    }
}

fn plugin(method: Method) -> &'static dyn OpenStackAuthType {
    match method {
        Method::Password => &PasswordAuthenticator,
        Method::Token => &TokenAuthenticator,
        Method::ApplicationCredential => &ApplicationCredentialAuthenticator,
        Method::Totp => &TotpAuthenticator,
        Method::OidcAccessToken => &OidcAccessTokenAuthenticator,
        Method::OidcClientCredentials => &OidcClientCredentialsAuthenticator,
    }
}

/// Returns the values of a login. A user has one domain: by its name, else by its id, else the default one.
fn values(login: &Login) -> Values {
    let domain_name = login.user_domain_name.as_ref().or(login.domain_name.as_ref());
    let default = login.default_domain_id.as_ref().or(login.default_domain.as_ref());
    let domain_id = match domain_name {
        None => login.user_domain_id.as_ref().or(login.domain_id.as_ref()).or(default),
        Some(_) => login.user_domain_id.as_ref(),
    };
    let all = [
        ("username", login.username.as_ref()),
        ("user_id", login.user_id.as_ref()),
        ("user_domain_name", domain_name),
        ("user_domain_id", domain_id),
        ("password", login.password.as_ref()),
        ("token", login.token.as_ref()),
        ("passcode", login.passcode.as_ref()),
        ("application_credential_id", login.application_credential_id.as_ref()),
        ("application_credential_secret", login.application_credential_secret.as_ref()),
        ("identity_provider", login.identity_provider.as_ref()),
        ("protocol", login.protocol.as_ref()),
        ("access_token", login.access_token.as_ref()),
        ("access_token_endpoint", login.access_token_endpoint.as_ref()),
        ("client_id", login.client_id.as_ref()),
        ("client_secret", login.client_secret.as_ref()),
    ];
    let given = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.as_str().into())));
    given.collect()
}

/// Returns the scope of a login. An application credential implies its project; Keystone refuses a login that names one
/// as well.
fn scope(login: &Login, method: Method) -> AuthTokenScope {
    let id = login.project_id.as_ref().or(login.tenant_id.as_ref());
    let name = login.project_name.as_ref().or(login.tenant_name.as_ref());
    if method == Method::ApplicationCredential || (id.is_none() && name.is_none()) {
        return AuthTokenScope::Unscoped;
    }
    let domain_name = login.project_domain_name.clone();
    let default = login.default_domain_id.as_ref().or(login.default_domain.as_ref());
    let default = default.filter(|_| domain_name.is_none());
    let domain_id = login.project_domain_id.as_ref().or(default).cloned();
    let domain =
        (domain_id.is_some() || domain_name.is_some()).then_some(Domain { id: domain_id, name: domain_name });
    // Keystone looks at the name first, and then requires a domain.
    let name = name.filter(|_| id.is_none()).cloned();
    AuthTokenScope::Project(Project { id: id.cloned(), name, domain })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn login(fields: &serde_json::Value) -> Login {
        serde_json::from_value(fields.clone()).unwrap()
    }

    #[test]
    fn the_scope_is_the_project_by_its_id_or_by_its_name_and_domain() {
        let of = |fields, method| serde_json::to_value(scope(&login(&fields), method)).unwrap();
        assert_eq!(of(json!({"project_id": "p"}), Method::Password), json!({"project": {"id": "p"}}));
        let both = json!({"tenant_id": "p", "project_name": "n"});
        assert_eq!(of(both, Method::Token), json!({"project": {"id": "p"}}));
        let named = json!({"project_name": "n", "default_domain": "d"});
        assert_eq!(of(named, Method::Password), json!({"project": {"name": "n", "domain": {"id": "d"}}}));
        let named = json!({"project_name": "n", "project_domain_name": "x", "default_domain": "d"});
        assert_eq!(of(named, Method::Password), json!({"project": {"name": "n", "domain": {"name": "x"}}}));
        assert_eq!(of(json!({"project_id": "p"}), Method::ApplicationCredential), json!("unscoped"));
        assert_eq!(of(json!({}), Method::Password), json!("unscoped"));
    }

    #[test]
    fn the_default_domain_is_that_of_a_user_without_one() {
        let of = |fields| {
            let values = values(&login(&fields));
            let has = |name: &str| values.contains_key(name);
            (has("user_domain_name"), has("user_domain_id"))
        };
        assert_eq!(of(json!({"username": "u", "default_domain": "d"})), (false, true));
        assert_eq!(
            of(json!({"username": "u", "user_domain_name": "n", "default_domain": "d"})),
            (true, false)
        );
        assert_eq!(of(json!({"username": "u", "domain_name": "n"})), (true, false));
        assert_eq!(of(json!({"username": "u"})), (false, false));
    }

    #[test]
    fn each_method_is_the_one_of_the_sdk_with_its_name() {
        for method in Method::ALL {
            let known = plugin(method).get_supported_auth_methods();
            assert!(known.contains(&method.name()), "{method:?}: {known:?}");
        }
    }
}
