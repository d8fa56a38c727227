//! `/livez`, `/readyz`, `/healthz`.

use std::sync::Arc;

use crate::query::Query;
use crate::response::{self, Answer};
use crate::server::ApiServer;

/// One thing that must be well, beyond what the server checks itself.
#[derive(Clone)]
pub struct Check {
    /// Its name in the path and the answer.
    pub name: &'static str,
    /// Whether it is.
    pub is_well: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Answers a health path; `None` when it is none.
pub(crate) async fn serve(server: &ApiServer, path: &str, query: &Query) -> Option<Answer> {
    let mut parts = path.trim_matches('/').splitn(2, '/');
    let kind = parts.next().unwrap_or_default();
    if !matches!(kind, "livez" | "readyz" | "healthz") {
        return None;
    }
    let results = results(server, kind).await;
    if let Some(name) = parts.next() {
        return Some(match results.iter().find(|(check, _)| *check == name) {
            Some((_, true)) => ok("ok".to_owned()),
            Some((name, false)) => failed(format!("internal server error: {name} failed: reason withheld\n")),
            None => response::not_found(),
        });
    }
    Some(summary(kind, &results, query))
}

async fn results(server: &ApiServer, kind: &str) -> Vec<(&'static str, bool)> {
    let storage = server.parts.objects.ping().await.is_ok();
    let mut results = vec![("ping", true), ("etcd", storage)];
    if kind == "readyz" {
        results.push(("etcd-readiness", storage));
        results.push(("informer-sync", server.parts.objects.is_ready()));
        results.extend(server.parts.checks.iter().map(|check| (check.name, (check.is_well)())));
        results.push(("shutdown", !server.parts.shutdown.is_cancelled()));
    }
    results
}

fn summary(kind: &str, results: &[(&'static str, bool)], query: &Query) -> Answer {
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut lines = String::new();
    let mut well = true;
    for (name, result) in results {
        if excluded.contains(name) {
            lines.push_str(&format!("[+]{name} excluded: ok\n"));
        } else if *result {
            lines.push_str(&format!("[+]{name} ok\n"));
        } else {
            well = false;
            lines.push_str(&format!("[-]{name} failed: reason withheld\n"));
        }
    }
    for name in excluded.iter().filter(|name| !results.iter().any(|(check, _)| check == *name)) {
        lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {name:?}\n"));
    }
    match (well, query.has("verbose")) {
        (true, false) => ok("ok".to_owned()),
        (true, true) => ok(format!("{lines}{kind} check passed\n")),
        (false, _) => failed(format!("{lines}{kind} check failed\n")),
    }
}

fn ok(text: String) -> Answer {
    no_sniffing(response::text(200, text))
}

fn failed(text: String) -> Answer {
    no_sniffing(response::text(500, text))
}

fn no_sniffing(mut answer: Answer) -> Answer {
    response::no_sniffing(&mut answer);
    answer
}
