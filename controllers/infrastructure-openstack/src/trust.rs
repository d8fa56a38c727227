//! Login of a trustee: a user to whom another one has delegated roles in a project.
//!
//! The SDK knows no such scope (0.22.8), so the token is requested here. When it ends, the connector logs in again.

use controllers_infrastructure::{CloudError, CloudResult, ErrorClass};
use http::header;
use openstack_sdk::auth::authtoken::AuthToken;
use serde_json::{Value, json};

use crate::clouds_yaml::Login;
use crate::error_mapping::{refused, unanswered, unreadable};
use crate::login::{KEYSTONE, OPERATION, send, user_domain, versioned};
use crate::transport::Transport;

/// Header of Keystone with a new token.
const TOKEN: &str = "x-subject-token";

/// Returns a token of the trust.
pub(crate) async fn log_in(
    transport: &Transport,
    auth_url: &str,
    login: &Login,
    trust: &str,
) -> CloudResult<AuthToken> {
    let body = body(login, trust).to_string().into_bytes();
    let request = http::Request::builder()
        .method(http::Method::POST)
        .uri(format!("{}/auth/tokens", versioned(auth_url)))
        .header(header::CONTENT_TYPE, "application/json");
    let answer = send(transport, request, body)
        .await
        .map_err(|error| unanswered(OPERATION, true, &error).of_service(KEYSTONE))?;
    if !answer.status().is_success() {
        let error = refused(OPERATION, &answer).of_service(KEYSTONE);
        // Keystone does not say that a trust has ended, or that the trustor has lost its roles.
        let message = format!("{} (trust {trust})", error.message);
        return Err(CloudError { message, ..error });
    }
    let token = answer.headers().get(TOKEN).and_then(|token| token.to_str().ok());
    let Some(token) = token.map(str::to_owned) else {
        return Err(unreadable(OPERATION, &answer, "the answer has no token").of_service(KEYSTONE));
    };
    let auth_info = serde_json::from_slice(answer.body())
        .map_err(|error| unreadable(OPERATION, &answer, &error.to_string()).of_service(KEYSTONE))?;
    Ok(AuthToken { token: token.into(), auth_info: Some(auth_info) })
}

/// Returns the request of a token. The project is that of the trust.
fn body(login: &Login, trust: &str) -> Value {
    let mut user = match &login.user_id {
        Some(id) => json!({"id": id}),
        None => json!({"name": login.username, "domain": user_domain(login)}),
    };
    user["password"] = json!(login.password);
    let identity = json!({"methods": ["password"], "password": {"user": user}});
    json!({"auth": {"identity": identity, "scope": {"OS-TRUST:trust": {"id": trust}}}})
}

/// Returns the error of a trust with another method than a password.
pub(crate) fn needs_password(cloud: &str) -> CloudError {
    let message =
        format!("cloud {cloud:?}: auth.trust_id needs the username and the password of the trustee");
    CloudError::new(ErrorClass::Credentials, OPERATION, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trust_is_the_only_scope_of_its_login() {
        let login = Login {
            username: Some("u".to_owned()),
            password: Some("p".to_owned()),
            user_domain_name: Some("d".to_owned()),
            project_id: Some("ignored".to_owned()),
            ..Login::default()
        };
        let body = body(&login, "t");
        assert_eq!(body["auth"]["scope"], json!({"OS-TRUST:trust": {"id": "t"}}));
        let user = json!({"name": "u", "domain": {"name": "d"}, "password": "p"});
        assert_eq!(body["auth"]["identity"]["password"]["user"], user);
        assert!(needs_password("c").to_string().contains("auth.trust_id"));
    }
}
