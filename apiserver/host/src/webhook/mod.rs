//! Webhooks outside of the host cluster, which answer SubjectAccessReviews and TokenReviews.

mod authorizer;
mod client;
mod conditions;
mod config;
#[cfg(test)]
mod tests;
mod tokens;
#[cfg(test)]
mod tokens_tests;

pub use authorizer::WebhookAuthorizer;
pub use config::{AuthorizationConfiguration, AuthorizerKind, InvalidAuthorization, WebhookSettings};
pub use tokens::{TokenWebhookError, TokenWebhookSettings, WebhookTokens};
