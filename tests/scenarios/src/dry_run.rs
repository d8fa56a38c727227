//! Dry run of a change, with its warnings.

use anyhow::{Context, ensure};
use http::HeaderValue;
use http::header::{CONTENT_TYPE, WARNING};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

/// Sends a merge patch of the object at a path as a dry run. Returns the object, and the texts of the warnings.
///
/// # Errors
/// The refusal of the change.
pub async fn dry_run(client: &Client, path: &str, change: &Value) -> anyhow::Result<(Value, Vec<String>)> {
    let request = http::Request::patch(format!("{path}?dryRun=All"))
        .header(CONTENT_TYPE, "application/merge-patch+json")
        .body(Body::from(serde_json::to_vec(change)?))?;
    let (head, body) = client.send(request).await?.into_parts();
    let object: Value = serde_json::from_slice(&body.collect_bytes().await?)?;
    ensure!(head.status.is_success(), "{object}");
    let warnings: anyhow::Result<Vec<String>> = head.headers.get_all(WARNING).iter().map(text).collect();
    Ok((object, warnings?))
}

fn text(header: &HeaderValue) -> anyhow::Result<String> {
    let text = header.to_str()?.strip_prefix("299 - \"").and_then(|text| text.strip_suffix('"'));
    Ok(text.context("another form of a warning")?.replace("\\\"", "\"").replace("\\\\", "\\"))
}
