//! Webhooks outside of the host cluster, which answer SubjectAccessReviews and TokenReviews.

mod authorizer;
mod client;
mod conditions;
mod config;
mod settings;
#[cfg(test)]
mod tests;
mod tokens;
#[cfg(test)]
mod tokens_tests;

pub use authorizer::WebhookAuthorizer;
pub use config::{AuthorizationConfiguration, AuthorizerKind, InvalidAuthorization};
pub use settings::WebhookSettings;
pub use tokens::{TokenWebhookError, TokenWebhookSettings, WebhookTokens};
