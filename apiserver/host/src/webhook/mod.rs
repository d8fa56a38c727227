//! Authorizers outside of the host cluster: webhooks that answer SubjectAccessReviews.

mod authorizer;
mod client;
mod conditions;
mod config;
#[cfg(test)]
mod tests;

pub use authorizer::WebhookAuthorizer;
pub use config::{AuthorizationConfiguration, AuthorizerKind, InvalidAuthorization, WebhookSettings};
