//! Webhook that identifies users by their tokens, if the configuration names one.

use std::sync::Arc;

use anyhow::Context;
use apiserver_access::{Issuer, Realm};
use apiserver_host::WebhookTokens;
use apiserver_http::Supervisor;

use crate::config::ServerConfiguration;

/// Name of the webhook where issuers have their URL.
const NAME: &str = "webhook";

/// Reads the kubeconfig of the webhook, and spawns the task that follows it.
///
/// # Errors
/// The kubeconfig cannot be read or is not valid. The server then does not start.
pub(crate) async fn open(
    configuration: &ServerConfiguration,
    supervisor: &Supervisor,
) -> anyhow::Result<Option<Issuer>> {
    let Some(webhook) = &configuration.authentication.webhook else { return Ok(None) };
    let opened = WebhookTokens::open(webhook.settings()?).await;
    let verifier = Arc::new(opened.context("authentication.webhook.kubeConfigFile")?);
    let (followed, shutdown) = (Arc::clone(&verifier), supervisor.shutdown().clone());
    supervisor.spawn("kubeconfig of the token webhook", async move {
        shutdown.run_until_cancelled(followed.follow()).await;
    });
    let realm = if webhook.is_shared_with_host() { Realm::Host } else { Realm::Webhook };
    Ok(Some(Issuer { url: NAME.to_owned(), realm, verifier }))
}
