//! Client certificates that expire, and CAs that are removed, while a connection is open.

use crate::caller::{Caller, Protocol};
use crate::world::World;

/// Checks that the open connection gets 401, and is closed after it.
async fn refused_and_closed(caller: &Caller, reason: &str) {
    let before = caller.connections();
    assert_eq!(caller.get("/apis").await.code, 401, "{reason}");
    assert_eq!(caller.connections(), before, "{reason}: the open connection responds");
    assert_eq!(caller.get("/apis").await.code, 401, "{reason}");
    assert_eq!(caller.connections(), before + 1, "{reason}: the connection was closed after the response");
}

#[tokio::test]
async fn an_open_connection_ends_with_its_certificate() {
    let world = World::start().await;
    let callers = [Protocol::Http1, Protocol::Http2].map(|protocol| {
        let short = world.user_until("alice", 2035, protocol);
        (short, world.user_until("bob", 2040, protocol))
    });
    for (alice, bob) in &callers {
        assert_eq!((alice.get("/apis").await.code, bob.get("/apis").await.code), (200, 200));
    }
    world.set_year(2036);
    for (alice, bob) in &callers {
        refused_and_closed(alice, "an expired certificate").await;
        let before = bob.connections();
        assert_eq!((bob.get("/apis").await.code, bob.connections()), (200, before));
    }
}

#[tokio::test]
async fn an_open_connection_ends_with_the_removal_of_its_ca() {
    let world = World::start().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        world.trust_clients(true);
        let alice = world.user("alice", protocol);
        let proxy = world.hosted("alice", "dev", protocol);
        assert_eq!((alice.get("/apis").await.code, proxy.get("/apis").await.code), (200, 200));
        world.trust_clients(false);
        refused_and_closed(&alice, "a removed CA").await;
        let before = proxy.connections();
        assert_eq!((proxy.get("/apis").await.code, proxy.connections()), (200, before));
    }
}
