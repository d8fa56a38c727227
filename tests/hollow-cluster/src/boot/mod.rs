//! User data of a server, as cloud-init and Ignition read it.

mod cloud_config;
mod commands;
mod ignition;
mod jinja;
mod shell;

use std::collections::BTreeMap;

pub(crate) use commands::{KubeadmCall, KubeadmVerb};

/// First line of a document that is a template.
const TEMPLATE: &str = "## template: jinja";

/// First line of a document for cloud-init.
const CLOUD_CONFIG: &str = "#cloud-config";

/// Identity of a server, which templates refer to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metadata<'a> {
    pub(crate) id: &'a str,
    pub(crate) hostname: &'a str,
}

/// Content of a document: files, commands, and a call of kubeadm.
#[derive(Debug, Clone, Default)]
pub(crate) struct BootPlan {
    /// Contents by path.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Commands in order, as the console shows them.
    pub(crate) commands: Vec<String>,
    /// `None` if the server does not become a node.
    pub(crate) kubeadm: Option<KubeadmCall>,
}

/// Reads a document. Returns `None` if it is in no format that makes a node.
pub(crate) fn plan(user_data: &[u8], metadata: Metadata<'_>) -> Option<Result<BootPlan, String>> {
    let text = std::str::from_utf8(user_data).ok()?;
    let first = text.lines().next().unwrap_or_default().trim_end();
    if first == TEMPLATE {
        let rest = text.split_once('\n').map(|(_, rest)| rest).unwrap_or_default();
        return Some(jinja::render(rest, metadata).and_then(|rendered| {
            if rendered.trim_start().starts_with(CLOUD_CONFIG) {
                cloud_config::plan(&rendered)
            } else {
                Err(format!("Unhandled non-multipart (text/x-not-multipart) userdata: {first:?}"))
            }
        }));
    }
    if first == CLOUD_CONFIG {
        return Some(cloud_config::plan(text));
    }
    text.trim_start().starts_with('{').then(|| ignition::plan(text, metadata))
}

/// Returns the text of a file.
pub(crate) fn text_file<'a>(plan: &'a BootPlan, path: &str) -> Result<&'a str, String> {
    let bytes = plan.files.get(path).ok_or_else(|| format!("open {path}: no such file or directory"))?;
    std::str::from_utf8(bytes).map_err(|error| format!("{path}: {error}"))
}
