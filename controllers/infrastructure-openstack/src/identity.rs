//! Keystone calls: application credentials of the user.

use controllers_infrastructure::{ApplicationCredential, CloudResult, NewApplicationCredential};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::request::{Request, Service, encode};
use crate::session::Session;
use crate::time::utc;

#[derive(Deserialize)]
struct ResponseBody {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    expires_at: Option<String>,
}

impl From<ResponseBody> for ApplicationCredential {
    fn from(answer: ResponseBody) -> Self {
        let expires_at = answer.expires_at.map(|text| utc(&text));
        Self { id: answer.id, name: answer.name.unwrap_or_default(), expires_at }
    }
}

/// Lists the credentials of the user. Keystone sends all of them at once.
pub(crate) async fn application_credentials(session: &Session) -> CloudResult<Vec<ApplicationCredential>> {
    let request = Request::get(Service::Identity, path(session));
    let found: Vec<ResponseBody> = session.under(&request, "application_credentials").await?;
    Ok(found.into_iter().map(ApplicationCredential::from).collect())
}

pub(crate) async fn create(
    session: &Session,
    new: &NewApplicationCredential,
) -> CloudResult<ApplicationCredential> {
    let request = Request::post(Service::Identity, path(session), body(new));
    let created: ResponseBody = session.under(&request, "application_credential").await?;
    Ok(created.into())
}

pub(crate) async fn delete(session: &Session, id: &str) -> CloudResult<()> {
    let path = format!("{}/{}", path(session), encode(id));
    session.done(&Request::delete(Service::Identity, path)).await.map(|_| ())
}

fn path(session: &Session) -> String {
    format!("/users/{}/application_credentials", encode(session.user()))
}

/// Returns the request. Without roles, Keystone takes those of the token.
fn body(new: &NewApplicationCredential) -> Value {
    let mut credential = json!({
        "name": new.name, "secret": new.secret, "description": new.description, "unrestricted": false,
        // Keystone reads no other form.
        "expires_at": new.expires_at.trim_end_matches('Z'),
    });
    if !new.roles.is_empty() {
        let roles: Vec<Value> = new.roles.iter().map(|name| json!({"name": name})).collect();
        credential["roles"] = json!(roles);
    }
    json!({"application_credential": credential})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_credential_is_restricted_and_has_the_roles_of_the_user_or_the_named_ones() {
        let mut new = NewApplicationCredential {
            name: "n".to_owned(),
            secret: "hidden".to_owned(),
            expires_at: "2026-11-21T06:00:00Z".to_owned(),
            ..NewApplicationCredential::default()
        };
        let of = body(&new)["application_credential"].clone();
        assert_eq!((&of["unrestricted"], &of["expires_at"]), (&json!(false), &json!("2026-11-21T06:00:00")));
        assert!(of.get("roles").is_none());
        new.roles = vec!["member".to_owned()];
        assert_eq!(body(&new)["application_credential"]["roles"], json!([{"name": "member"}]));
        assert!(!format!("{new:?}").contains("hidden"));
    }
}
