//! Webhooks of the lab: one denies what the host's roles allow, and the other one knows a user by a token.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use serde_json::{Value, json};

/// User whom the authorizer denies everything.
pub(super) const DENIED: &str = "system:serviceaccount:team:mallory";

/// Token of alice.
pub(super) const OF_ALICE: &str = "token-of-alice";

/// Running webhooks.
pub(super) struct Webhooks {
    directory: PathBuf,
    is_silent: Arc<AtomicBool>,
}

impl Webhooks {
    /// Starts the webhooks on a free port. They run until the process ends.
    pub(super) fn start() -> anyhow::Result<Self> {
        let directory = std::env::temp_dir().join(format!("capstan-e2e-webhooks-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let webhooks = Self { directory, is_silent: Arc::default() };
        for name in ["authorize", "authenticate"] {
            let server = format!("http://{}/{name}", listener.local_addr()?);
            let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "w",
                "clusters": [{"name": "w", "cluster": {"server": server}}], "users": [{"name": "w", "user": {}}],
                "contexts": [{"name": "w", "context": {"cluster": "w", "user": "w"}}]});
            std::fs::write(webhooks.kubeconfig(name), kubeconfig.to_string())?;
        }
        let is_silent = Arc::clone(&webhooks.is_silent);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let is_silent = Arc::clone(&is_silent);
                std::thread::spawn(move || {
                    // A client that has given up is no error.
                    let _ = serve(&stream, &is_silent);
                });
            }
        });
        Ok(webhooks)
    }

    /// Returns the kubeconfig of a webhook: `authorize` or `authenticate`.
    pub(super) fn kubeconfig(&self, name: &str) -> String {
        self.directory.join(format!("{name}.kubeconfig")).display().to_string()
    }

    /// Answers again.
    pub(super) fn speak(&self) {
        self.is_silent.store(false, Ordering::SeqCst);
    }

    /// Closes each connection without an answer from now on.
    pub(super) fn silence(&self) {
        self.is_silent.store(true, Ordering::SeqCst);
    }
}

impl Drop for Webhooks {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn serve(mut stream: &TcpStream, is_silent: &AtomicBool) -> anyhow::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line)? > 0 && line.trim() != "" {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    if is_silent.load(Ordering::SeqCst) {
        return Ok(());
    }
    let answer = answer(&serde_json::from_slice(&body)?).context("no review")?.to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{answer}",
        answer.len()
    )?;
    Ok(())
}

/// Returns the review with its status.
fn answer(review: &Value) -> Option<Value> {
    let text = |pointer: &str| review.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let status = match text("/kind") {
        "SubjectAccessReview" => {
            let is_denied = text("/spec/user") == DENIED;
            json!({"allowed": false, "denied": is_denied, "reason": "the webhook of the lab"})
        }
        "TokenReview" if text("/spec/token") == OF_ALICE => {
            json!({"authenticated": true, "user": {"username": "alice", "groups": ["people"]}})
        }
        "TokenReview" => json!({"authenticated": false}),
        _ => return None,
    };
    let mut answer = review.clone();
    answer.as_object_mut()?.insert("status".to_owned(), status);
    Some(answer)
}
