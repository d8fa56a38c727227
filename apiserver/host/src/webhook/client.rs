//! Client of a webhook: it sends reviews to exactly the URL in a kubeconfig.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use http::uri::PathAndQuery;
use http::{Request, StatusCode, Uri};
use k8s_openapi::api::authentication::v1::TokenReview;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connection::{self, ConnectError};
use crate::credential;

/// Last error of a webhook. After its retries there is often no time for an answer, and this is then the reason.
#[derive(Debug, Default)]
pub(super) struct LastError(Mutex<Option<String>>);

impl LastError {
    /// Notes an error. The text must not have a token.
    pub(super) fn note(&self, why: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// Returns the reason why there is no answer in time.
    pub(super) fn late(&self) -> String {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.as_deref().map(|why| format!("; before that it failed: {why}"));
        format!("it did not answer in time{}", before.unwrap_or_default())
    }
}

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
        self.client.request(self.request(review)?).await
    }

    /// The same with a TokenReview. Some webhooks answer a refusal with the code 401 and the review as the body. It is
    /// then the review that counts. No part of the answer is in the error or in a log, because it may repeat the token.
    pub(super) async fn send_token(&self, review: &TokenReview) -> Result<TokenReview, kube::Error> {
        let response = self.client.send(self.request(review)?.map(Body::from)).await?;
        let code = response.status();
        let body = response.into_body().collect_bytes().await?;
        let answer: Result<TokenReview, _> = serde_json::from_slice(&body);
        match answer {
            Ok(answer) if code == StatusCode::UNAUTHORIZED && is_refusal(&answer) => Ok(answer),
            _ if !code.is_success() => {
                Err(kube::Error::Api(Status::failure("", "Other").with_code(code.as_u16()).boxed()))
            }
            answer => answer.map_err(kube::Error::SerdeError),
        }
    }

    fn request<T: Serialize>(&self, review: &T) -> Result<Request<Vec<u8>>, kube::Error> {
        let body = serde_json::to_vec(review).map_err(kube::Error::SerdeError)?;
        let request = Request::post(&self.path).header("content-type", "application/json");
        request.body(body).map_err(kube::Error::HttpError)
    }
}

/// Returns true if a webhook says that a token has no user. A `401` about Capstan's own credential does not say so.
fn is_refusal(review: &TokenReview) -> bool {
    review.status.as_ref().and_then(|status| status.authenticated) == Some(false)
}
