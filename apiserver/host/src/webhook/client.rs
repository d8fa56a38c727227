//! Client of a webhook: it sends reviews to exactly the URL in a kubeconfig.

use std::path::Path;

use http::Uri;
use http::uri::PathAndQuery;
use kube::Client;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connection::{self, ConnectError};
use crate::credential;

/// Client of one webhook.
#[derive(Clone)]
pub(super) struct WebhookClient {
    client: Client,
    /// Path of the URL.
    path: String,
    /// Hash of the kubeconfig and its files.
    pub(super) fingerprint: Vec<u8>,
}

impl WebhookClient {
    /// Reads a kubeconfig. Nothing is sent yet.
    pub(super) async fn open(kubeconfig: &Path) -> Result<Self, ConnectError> {
        let mut config = connection::configuration(kubeconfig).await?;
        let fingerprint = credential::fingerprint(kubeconfig, &config);
        let path = config.cluster_url.path_and_query().map_or("/", PathAndQuery::as_str).to_owned();
        let mut parts = config.cluster_url.into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static("/"));
        config.cluster_url =
            Uri::from_parts(parts).map_err(|error| connection::unusable(kubeconfig, &error))?;
        let client = connection::client(kubeconfig, config, connection::DEADLINE)?;
        Ok(Self { client, path, fingerprint })
    }

    #[cfg(test)]
    pub(super) fn of(client: Client) -> Self {
        Self { client, path: "/authorize".to_owned(), fingerprint: Vec::new() }
    }

    /// Sends a review, and returns it with its status.
    pub(super) async fn send<T: Serialize + DeserializeOwned>(&self, review: &T) -> Result<T, kube::Error> {
        let body = serde_json::to_vec(review).map_err(kube::Error::SerdeError)?;
        let request = http::Request::post(&self.path).header("content-type", "application/json");
        self.client.request(request.body(body).map_err(kube::Error::HttpError)?).await
    }
}
