//! Walk of all routes by callers without permissions.
//!
//! A refusal is 401 or 403, and nothing changes. Every other response is in the list of exceptions, with its code. The
//! list may only shrink: the walk fails on a response that is not in it, and on a line that is not needed any more. To
//! write it again, set `CAPSTAN_ACCEPT`; a new line needs a reason in a comment above it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::caller::{Caller, Protocol};
use crate::host::NEIGHBOUR;
use crate::routes::{self, Route};
use crate::world::World;

/// Response that is no refusal: its code, and the request.
type Exception = (u16, &'static str, String);

fn file() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/authorization/exceptions.txt"))
}

/// Walks all routes; the responses that are no refusals.
async fn walk(caller: &Caller, routes: &BTreeSet<Route>, headers: &[(&str, &str)]) -> BTreeSet<Exception> {
    let mut open = BTreeSet::new();
    for route in routes {
        let headers = [headers, &[("content-type", route.content_type())]].concat();
        let answer = caller.send(route.method, &route.path, &headers, route.body.clone()).await;
        if !matches!(answer.code, 401 | 403) {
            open.insert((answer.code, route.method, route.path.clone()));
        }
    }
    open
}

/// Lines of the list: path and methods of requests, the code of their response, and the callers who get it.
fn lines(open: &[(&str, BTreeSet<Exception>)]) -> BTreeSet<String> {
    let mut callers: BTreeMap<&Exception, Vec<&str>> = BTreeMap::new();
    for (name, exceptions) in open {
        for exception in exceptions {
            callers.entry(exception).or_default().push(name);
        }
    }
    let mut methods: BTreeMap<(&str, u16, String), Vec<&str>> = BTreeMap::new();
    for ((code, method, path), callers) in callers {
        methods.entry((path, *code, callers.join(","))).or_default().push(method);
    }
    let line = |((path, code, callers), methods): ((&str, u16, String), Vec<&str>)| {
        format!("{path} {} {code} {callers}", methods.join(","))
    };
    methods.into_iter().map(line).collect()
}

fn compare(found: &BTreeSet<String>) {
    let text = std::fs::read_to_string(file()).unwrap_or_default();
    if std::env::var_os("CAPSTAN_ACCEPT").is_some() {
        let comments: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
        let lines: Vec<&str> = comments.into_iter().chain(found.iter().map(String::as_str)).collect();
        std::fs::write(file(), lines.join("\n") + "\n").unwrap();
        return;
    }
    let listed: BTreeSet<String> =
        text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect();
    let open: Vec<&String> = found.difference(&listed).collect();
    let unneeded: Vec<&String> = listed.difference(found).collect();
    assert!(open.is_empty(), "callers who may not get a response that is not listed: {open:#?}");
    assert!(unneeded.is_empty(), "lines that are not needed any more, to be deleted: {unneeded:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_refuses_unauthorized_callers_without_changes() {
    let world = Arc::new(World::start().await);
    let routes = Arc::new(routes::all(&world.registry, &world.admin(Protocol::Http2)).await);
    let before = world.state().await;
    let hosted = |user, group| world.hosted(user, group, Protocol::Http2);
    let callers = [
        // On HTTP/2 each connection of a caller without credentials is closed after one response.
        ("anonymous", world.anonymous(Protocol::Http1)),
        ("stranger", world.user("stranger", Protocol::Http2)),
        ("neighbour", world.user(NEIGHBOUR, Protocol::Http2)),
        ("hosted-anonymous", hosted("system:anonymous", "system:unauthenticated")),
        ("hosted-stranger", hosted("stranger", "system:authenticated")),
        ("hosted-neighbour", hosted(NEIGHBOUR, "system:authenticated")),
    ];
    let walks = callers.map(|(name, caller)| {
        let routes = Arc::clone(&routes);
        tokio::spawn(async move { (name, walk(&caller, &routes, &[]).await) })
    });
    let mut open = Vec::new();
    for walk in walks {
        open.push(walk.await.unwrap());
    }
    assert!(routes.len() > 2000, "only {} routes were walked", routes.len());
    compare(&lines(&open));
    let changed: Vec<_> =
        world.state().await.into_iter().filter(|(path, state)| before.get(path) != Some(state)).collect();
    assert!(changed.is_empty(), "{changed:?}");
}

/// Requests that upstream refuses with 500 before it looks at the caller, because their path names no resource.
fn is_unclear(exception: &Exception) -> bool {
    exception.0 == 500
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unauthorized_impersonation_reaches_no_route() {
    let world = World::start().await;
    let routes = routes::all(&world.registry, &world.admin(Protocol::Http2)).await;
    let before = world.state().await;
    let admin = [("impersonate-user", "admin"), ("impersonate-group", "system:masters")];
    let hosted = |user| world.hosted(user, "system:authenticated", Protocol::Http2);
    for (name, caller, headers) in [
        ("impersonation by anonymous", world.anonymous(Protocol::Http1), &admin[..]),
        ("impersonation by a stranger", world.user("stranger", Protocol::Http2), &admin),
        ("impersonation by the neighbour", world.user(NEIGHBOUR, Protocol::Http2), &admin),
        ("impersonation through the host", hosted("stranger"), &admin),
        ("a front proxy that names no user", world.front_proxy(Protocol::Http2), &[]),
    ] {
        let mut open = walk(&caller, &routes, headers).await;
        open.retain(|exception| !is_unclear(exception));
        assert!(open.is_empty(), "{name}: {open:#?}");
    }
    // The identity headers of a client that is no front proxy are ignored.
    let forged = [("x-remote-user", "admin"), ("x-remote-group", "system:masters")];
    let stranger = world.user("stranger", Protocol::Http2);
    assert_eq!(walk(&stranger, &routes, &forged).await, walk(&stranger, &routes, &[]).await);
    assert_eq!(world.state().await, before);
}

#[tokio::test]
async fn a_web_socket_is_refused_to_unauthorized_callers() {
    let world = World::start().await;
    let upgrade = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let callers = [
        world.anonymous(Protocol::Http1),
        world.user("stranger", Protocol::Http1),
        world.user(NEIGHBOUR, Protocol::Http1),
        world.hosted("stranger", "system:authenticated", Protocol::Http1),
    ];
    for caller in callers {
        for path in ["/api/v1/namespaces/team/secrets", "/api/v1/secrets"] {
            let answer = caller.send("GET", &format!("{path}?watch=true"), &upgrade, String::new()).await;
            assert_eq!(answer.code, 403, "{path}: {}", answer.json());
        }
    }
}
