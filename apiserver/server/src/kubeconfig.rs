//! `capstan kubeconfig`.

use std::io::Write;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::cli::KubeconfigArguments;
use crate::config;
use crate::pki::Authority;

/// Mints a client certificate and prints a kubeconfig with it.
pub(crate) fn run(arguments: &KubeconfigArguments) -> anyhow::Result<()> {
    let data = config::data_directory(arguments.data_dir.as_deref())?;
    let authority = Authority::read(&data).with_context(|| {
        format!(
            "{} holds no CA: start `capstan serve` once, or name its directory with --data-dir",
            data.display()
        )
    })?;
    let pair = authority.client(&arguments.user, &arguments.groups, arguments.expires)?;
    let encode = |text: &str| STANDARD.encode(text);
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "capstan",
        "clusters": [{"name": "capstan", "cluster": {
            "server": arguments.server, "certificate-authority-data": encode(authority.certificate())}}],
        "users": [{"name": arguments.user, "user": {
            "client-certificate-data": encode(&pair.certificate), "client-key-data": encode(&pair.key)}}],
        "contexts": [{"name": "capstan", "context": {"cluster": "capstan", "user": arguments.user}}]});
    let text = serde_saphyr::to_string(&document)?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}
