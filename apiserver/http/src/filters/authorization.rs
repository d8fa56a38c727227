//! May they.

use apiserver_access::{Attributes, Decision, User};
use apiserver_machinery::admission::{Action, Permissions};
use apiserver_machinery::status::{ApiError, ApiResult};
use async_trait::async_trait;

use crate::request_info::{RequestInfo, Subject};
use crate::server::ApiServer;

pub(crate) async fn authorize(
    server: &ApiServer,
    info: &RequestInfo,
    user: &User,
    proxied: bool,
) -> ApiResult<()> {
    require(server, &attributes(info, user), proxied).await
}

pub(super) async fn require(server: &ApiServer, attributes: &Attributes, proxied: bool) -> ApiResult<()> {
    let authorizer = if proxied { &server.parts.hosted_authorizer } else { &server.parts.authorizer };
    let reason = match authorizer.authorize(attributes).await {
        Decision::Allow => return Ok(()),
        Decision::Deny(reason) | Decision::NoOpinion(reason) => reason,
        Decision::Error(reason) => {
            return Err(ApiError::unavailable(format!("permission could not be checked: {reason}")));
        }
    };
    let text = attributes.refusal(&reason);
    if !attributes.is_resource() {
        return Err(ApiError::forbidden_path(&text));
    }
    Err(ApiError::forbidden(&attributes.group, &attributes.resource, &attributes.name, &text))
}

/// The permissions of a request's user beyond the request itself, asked for on the same face.
#[derive(Debug)]
pub(crate) struct UserPermissions<'a> {
    pub(crate) server: &'a ApiServer,
    pub(crate) user: &'a User,
    pub(crate) proxied: bool,
}

#[async_trait]
impl Permissions for UserPermissions<'_> {
    async fn require(&self, action: Action<'_>) -> ApiResult<()> {
        let attributes = Attributes {
            user: self.user.clone(),
            verb: action.verb.to_owned(),
            group: action.group.to_owned(),
            version: action.version.to_owned(),
            resource: action.resource.to_owned(),
            subresource: action.subresource.to_owned(),
            namespace: action.namespace.to_owned(),
            name: action.name.to_owned(),
            path: String::new(),
        };
        require(self.server, &attributes, self.proxied).await
    }
}

fn attributes(info: &RequestInfo, user: &User) -> Attributes {
    let mut attributes =
        Attributes { user: user.clone(), verb: info.verb.to_owned(), ..Attributes::default() };
    match &info.subject {
        Subject::Path => attributes.path.clone_from(&info.path),
        Subject::Resource(path) => {
            attributes.group.clone_from(&path.group);
            attributes.version.clone_from(&path.version);
            attributes.resource.clone_from(&path.resource);
            attributes.subresource.clone_from(&path.subresource);
            attributes.namespace.clone_from(&path.namespace);
            attributes.name.clone_from(&path.name);
        }
    }
    attributes
}
