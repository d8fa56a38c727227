//! Request of a node that joins.

use std::error::Error as _;
use std::net::IpAddr;

use anyhow::{Context, bail};
use serde_json::Value;

use super::{Bundle, JoinRequest, NodeKey, PATH, Token, client};

/// Joins the installation of a server. `server` is its URL.
///
/// # Errors
/// A server of another CA, to which nothing is sent; the refusal of the server.
pub(crate) async fn join(
    server: &str,
    token: &Token,
    node: &str,
    address: IpAddr,
    key: &NodeKey,
) -> anyhow::Result<Bundle> {
    let mut request = JoinRequest {
        id: token.id.clone(),
        secret: token.secret.clone(),
        node: node.to_owned(),
        address,
        key: String::new(),
        signature: String::new(),
    };
    key.sign(&mut request)?;
    let url = format!("{}{PATH}", server.trim_end_matches('/'));
    let sending = client(std::slice::from_ref(&token.ca))?.post(&url).body(serde_json::to_vec(&request)?);
    let answer = match sending.send().await {
        Ok(answer) => answer,
        Err(error) => bail!("{server}: {}", explain(&error)),
    };
    let status = answer.status();
    let body = answer.bytes().await.with_context(|| format!("{server}: the response is incomplete"))?;
    if status != reqwest::StatusCode::OK {
        let parsed: Option<Value> = serde_json::from_slice(&body).ok();
        let message = parsed.as_ref().and_then(|it| it.get("message")).and_then(Value::as_str);
        // A server without the endpoint knows no credentials in the request.
        let is_unknown = message.is_none() || status == reqwest::StatusCode::UNAUTHORIZED;
        let unknown = "the server has no endpoint for joins: is it one of `capstan init`?";
        let message = message.filter(|_| !is_unknown).unwrap_or(unknown);
        bail!("{server} refuses node {node:?} ({status}): {message}");
    }
    // The error of the decoder may quote a key.
    serde_json::from_slice(&body)
        .map_err(|_| anyhow::anyhow!("{server}: the response is no bundle; do both nodes run one version?"))
}

/// Returns the causes of an error. A CA that the token does not name gets a remedy.
fn explain(error: &reqwest::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(current) = cause {
        text = format!("{text}: {current}");
        cause = current.source();
    }
    if text.contains("UnknownIssuer") {
        return "the certificate of the server is not signed by the CA that the token names, so nothing was sent to it. \
                Is this the address of the installation that created the token?"
            .to_owned();
    }
    text
}
