//! Health handlers `/livez`, `/readyz` and `/healthz`: served from memory, in every state of the store.

use apiserver_schema::go_text::quoted;

use crate::request::query::Query;
use crate::request::routes;
use crate::response::{self, HttpResponse};
use crate::state::ApiServer;

/// Returns every health path.
pub(crate) fn paths(server: &ApiServer) -> Vec<String> {
    let of = |kind: &'static str| {
        let checks = results(server, kind).into_iter().map(move |(name, _)| format!("/{kind}/{name}"));
        std::iter::once(format!("/{kind}")).chain(checks)
    };
    routes::HEALTH.into_iter().flat_map(of).collect()
}

/// Serves a health path, whatever the method; `None` for any other path.
pub(crate) fn serve(server: &ApiServer, path: &str, query: &Query) -> Option<HttpResponse> {
    let (kind, check) = routes::health(path)?;
    let results = results(server, kind);
    if let Some(name) = check {
        return Some(match results.iter().find(|(check, _)| *check == name) {
            Some((_, true)) => response::bytes(200, "text/plain; charset=utf-8", "ok"),
            Some((name, false)) => {
                let why = reason(server, name);
                response::text(500, format!("internal server error: {name} failed: {why}\n"))
            }
            None => response::not_found(),
        });
    }
    Some(summary(server, kind, &results, query))
}

/// Returns the reason of a failed check. Upstream withholds all of them.
fn reason(server: &ApiServer, name: &str) -> String {
    let known = server.settings.check_reasons.iter().find(|check| check.name == name);
    known.and_then(|check| (check.reason)()).unwrap_or_else(|| "reason withheld".to_owned())
}

/// Health check `log` of upstream, where a task flushes the log. This server has no such task, and keeps the check for
/// clients that request it by name.
const LOG: (&str, bool) = ("log", true);

fn results(server: &ApiServer, kind: &str) -> Vec<(&'static str, bool)> {
    let storage = &server.storage;
    if kind == "livez" {
        return vec![("ping", true), LOG, ("etcd", !storage.is_hopeless())];
    }
    let mut results = vec![("ping", true), LOG, ("etcd", storage.answers())];
    if kind == "readyz" {
        results.push(("etcd-readiness", storage.answers()));
        results.push(("informer-sync", server.parts.objects.is_ready()));
        results.extend(server.parts.checks.iter().map(|check| (check.name, (check.is_well)())));
        results.push(("shutdown", !server.lifecycle.is_stopping()));
    }
    results
}

fn summary(server: &ApiServer, kind: &str, results: &[(&'static str, bool)], query: &Query) -> HttpResponse {
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
            lines.push_str(&format!("[-]{name} failed: {}\n", reason(server, name)));
        }
    }
    let unknown = excluded.iter().filter(|name| !results.iter().any(|(check, _)| check == *name));
    let unknown: Vec<String> = unknown.map(|name| quoted(name)).collect();
    if !unknown.is_empty() {
        let names = unknown.join(",");
        lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
    }
    match (well, query.has("verbose")) {
        (true, false) => response::text(200, "ok"),
        (true, true) => response::text(200, format!("{lines}{kind} check passed\n")),
        (false, _) => response::text(500, format!("{lines}{kind} check failed\n")),
    }
}
