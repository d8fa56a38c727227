//! Layer check: dependencies between crates must match a committed list. Some dependencies are forbidden even if the
//! list contains them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::run;

/// Crates and the dependencies that they must not have, with the reason.
const FORBIDDEN: [(&str, &[&str], &str); 12] = [
    ("apiserver-conversion", &["tokio", "hyper", "apiserver-", "storage-"], "it only converts JSON"),
    (
        "apiserver-structured-merge",
        &["tokio", "http", "hyper", "apiserver-", "storage-"],
        "it only processes field sets and JSON",
    ),
    ("apiserver-types", &["tokio", "hyper", "etcd-client", "apiserver-"], "clients link it"),
    (
        "apiserver-cli",
        &[
            "storage-",
            "controllers-",
            "apiserver-machinery",
            "apiserver-registry",
            "apiserver-http",
            "apiserver-server",
        ],
        "its commands are clients of the API",
    ),
    (
        "apiserver-machinery",
        &["apiserver-types", "apiserver-registry", "hyper"],
        "it must be independent of kinds",
    ),
    (
        "apiserver-http",
        &["apiserver-types", "apiserver-registry", "storage-"],
        "it serves the kinds that the registry passes to it",
    ),
    ("storage-", &["serde_json", "apiserver-", "controllers-"], "a store holds bytes, not kinds"),
    (
        "controllers-",
        &["storage-", "apiserver-machinery", "apiserver-registry", "apiserver-http"],
        "controllers are clients",
    ),
    (
        "controllers-topology",
        &["tokio", "http", "hyper", "kube", "controllers-"],
        "it only computes patches and variables, and the registry uses it",
    ),
    ("apiserver-access", &["apiserver-", "storage-"], "it is independent of kinds and of stores"),
    ("apiserver-executor", &["apiserver-", "storage-"], "it is independent of kinds and of HTTP"),
    (
        "apiserver-schema",
        &["tokio", "http", "hyper", "apiserver-", "storage-"],
        "it only processes schemas and JSON, without a server",
    ),
];

/// Exceptions from [`FORBIDDEN`], with the reason.
const EXCEPTIONS: [(&str, &str, &str); 2] = [
    (
        "storage-cache",
        "apiserver-executor",
        "a watch cache is a supervised task, and the supervisor is independent of kinds",
    ),
    (
        "storage-etcd",
        "apiserver-executor",
        "the etcd client and HTTP/2 connections poll their tasks in the same way",
    ),
];

/// Dependency of a crate of the workspace. Dependencies of tests alone are excluded.
struct Edge {
    from: String,
    to: String,
}

fn edges() -> anyhow::Result<(Vec<Edge>, Vec<String>)> {
    let text =
        run::output(&mut run::cargo(&["metadata", "--format-version", "1", "--no-deps", "--locked"])?)?;
    let metadata: Value = serde_json::from_str(&text)?;
    let packages =
        metadata.get("packages").and_then(Value::as_array).context("cargo metadata lists no packages")?;
    let text =
        |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let names: Vec<String> = packages.iter().map(|package| text(package, "name")).collect();
    let mut edges = Vec::new();
    for package in packages {
        for dependency in package.get("dependencies").and_then(Value::as_array).into_iter().flatten() {
            if text(dependency, "kind") != "dev" {
                edges.push(Edge { from: text(package, "name"), to: text(dependency, "name") });
            }
        }
    }
    Ok((edges, names))
}

fn golden() -> anyhow::Result<PathBuf> {
    Ok(run::root()?.join("hack/xtask/layers.golden"))
}

/// Returns the edges between crates of the workspace, one per line.
fn own_edges(edges: &[Edge], names: &[String]) -> String {
    let own = edges.iter().filter(|edge| names.contains(&edge.to));
    let lines: BTreeSet<String> = own.map(|edge| format!("{} -> {}\n", edge.from, edge.to)).collect();
    lines.into_iter().collect()
}

/// Writes the list of edges.
pub(crate) fn generate() -> anyhow::Result<()> {
    let (edges, names) = edges()?;
    let path = golden()?;
    std::fs::write(&path, own_edges(&edges, &names))
        .with_context(|| format!("{}: cannot be written", path.display()))
}

/// Dependency that only some crates may have.
struct Reserved {
    dependency: String,
    users: Vec<String>,
    reason: String,
}

/// Returns the dependencies that `deny.toml` reserves for crates of this workspace. `cargo deny` checks the resolved
/// graph against the same list. This check reads only the manifests, without a graph.
fn reserved(names: &[String]) -> anyhow::Result<Vec<Reserved>> {
    let path = run::root()?.join("deny.toml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let document: toml::Table = text.parse().with_context(|| path.display().to_string())?;
    let entries = document.get("bans").and_then(|bans| bans.get("deny")).and_then(toml::Value::as_array);
    let text = |entry: &toml::Value, field: &str| {
        entry.get(field).and_then(toml::Value::as_str).unwrap_or_default().to_owned()
    };
    let mut reserved = Vec::new();
    for entry in entries.context("deny.toml has no bans.deny")? {
        let wrappers = entry.get("wrappers").and_then(toml::Value::as_array).into_iter().flatten();
        let users: Vec<String> = wrappers.filter_map(toml::Value::as_str).map(str::to_owned).collect();
        if users.iter().any(|user| names.contains(user)) {
            reserved.push(Reserved {
                dependency: text(entry, "crate"),
                users,
                reason: text(entry, "reason"),
            });
        }
    }
    Ok(reserved)
}

/// Compares the edges with the list, and reports forbidden ones.
pub(crate) fn check() -> anyhow::Result<()> {
    let (edges, names) = edges()?;
    let reserved = reserved(&names)?;
    let mut errors = Vec::new();
    for edge in &edges {
        for (from, to, reason) in FORBIDDEN {
            let source = edge.from == from || (from.ends_with('-') && edge.from.starts_with(from));
            let target = to.iter().any(|to| edge.to == *to || (to.ends_with('-') && edge.to.starts_with(to)));
            let is_exception = EXCEPTIONS.iter().any(|(from, to, _)| edge.from == *from && edge.to == *to);
            if source && target && !is_exception {
                errors.push(format!("{} must not depend on {}: {reason}", edge.from, edge.to));
            }
        }
        if let Some(Reserved { users, reason, .. }) = reserved.iter().find(|it| it.dependency == edge.to)
            && !users.contains(&edge.from)
        {
            let users = users.join(" and ");
            errors.push(format!("{} must not depend on {}: only {users} may ({reason})", edge.from, edge.to));
        }
    }
    let expected = std::fs::read_to_string(golden()?).unwrap_or_default();
    if own_edges(&edges, &names) != expected {
        errors.push(
            "the edges differ from hack/xtask/layers.golden: if they are intended, run `cargo xtask generate`"
                .to_owned(),
        );
    }
    if errors.is_empty() { Ok(()) } else { bail!("{}", errors.join("\n")) }
}
