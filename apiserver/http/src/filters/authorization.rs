//! May they.

use apiserver_access::{Attributes, Decision, User};
use apiserver_machinery::status::{ApiError, ApiResult};

use crate::request_info::{RequestInfo, Subject};
use crate::server::ApiServer;

pub(crate) async fn authorize(
    server: &ApiServer,
    info: &RequestInfo,
    user: &User,
    proxied: bool,
) -> ApiResult<()> {
    let attributes = attributes(info, user);
    let authorizer = if proxied { &server.parts.hosted_authorizer } else { &server.parts.authorizer };
    let reason = match authorizer.authorize(&attributes).await {
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
