//! Suite cases about keys that are deleted and created again: a new entry under an old key.

use bytes::Bytes;

use super::{World, cases, events};
use crate::{EventKind, Revision, StoreError};

cases! {
    "a recreated key has a new creation revision" => new_creation_revision,
    "a recreated key rejects updates from its old revisions" => old_revision_conflicts,
    "a watch reports a recreated key as deleted, then created" => watch_reports_deletion_and_creation,
    "lists at old revisions distinguish a deleted entry from its recreation" => lists_distinguish_recreation,
    "a watch from between deletion and recreation reports only the new entry" => watch_between_deletion_and_recreation,
    "a key that is recreated a hundred times has a new creation revision each time" => hundred_recreations,
}

async fn new_creation_revision(world: World) {
    let first = world.put("a", "1").await;
    let updated = world.replace("a", first, "1b").await;
    let deleted = world.remove("a", updated).await;
    let second = world.put("a", "2").await;
    assert!(second > deleted);
    let entry = world.store().get(&world.key("a")).await.unwrap().unwrap();
    assert_eq!((entry.created, entry.modified), (second, second));
    let third = world.replace("a", second, "2b").await;
    let entry = world.store().get(&world.key("a")).await.unwrap().unwrap();
    assert_eq!((entry.created, entry.modified), (second, third));
}

async fn old_revision_conflicts(world: World) {
    let first = world.put("a", "1").await;
    let deleted = world.remove("a", first).await;
    let second = world.put("a", "2").await;
    for old in [first, deleted] {
        match world.store().update(&world.key("a"), old, Bytes::new()).await {
            Err(StoreError::Conflict { found, .. }) => assert_eq!(found, second),
            other => panic!("{other:?}"),
        }
    }
}

async fn watch_reports_deletion_and_creation(world: World) {
    let first = world.put("a", "1").await;
    let deleted = world.remove("a", first).await;
    let second = world.put("a", "2").await;
    let seen = events(&mut world.watch(first).await, 3).await;
    let kinds: Vec<_> = seen.iter().map(|event| (event.kind, event.revision)).collect();
    assert_eq!(
        kinds,
        [(EventKind::Created, first), (EventKind::Deleted, deleted), (EventKind::Created, second)]
    );
    assert_eq!(seen[1].previous.as_ref().unwrap().value, "1");
    assert_eq!(seen[2].previous, None);
}

async fn lists_distinguish_recreation(world: World) {
    let first = world.put("a", "1").await;
    let deleted = world.remove("a", first).await;
    let second = world.put("a", "2").await;
    let mut shown = Vec::new();
    for at in [first, deleted, second] {
        let page = world.list(Some(at)).await;
        shown.push(page.entries.iter().map(|entry| (entry.value.clone(), entry.created)).collect::<Vec<_>>());
    }
    assert_eq!(shown, [vec![(Bytes::from("1"), first)], vec![], vec![(Bytes::from("2"), second)]]);
}

async fn watch_between_deletion_and_recreation(world: World) {
    let first = world.put("a", "1").await;
    let deleted = world.remove("a", first).await;
    let second = world.put("a", "2").await;
    let third = world.replace("a", second, "3").await;
    let seen = events(&mut world.watch(deleted.next()).await, 2).await;
    let kinds: Vec<_> = seen.iter().map(|event| (event.kind, event.revision)).collect();
    assert_eq!(kinds, [(EventKind::Created, second), (EventKind::Updated, third)]);
}

async fn hundred_recreations(world: World) {
    let start = world.next_revision().await;
    let mut created: Vec<Revision> = Vec::new();
    for life in 0..100 {
        let revision = world.put("a", &life.to_string()).await;
        created.push(revision);
        world.remove("a", revision).await;
    }
    let seen = events(&mut world.watch(start).await, 200).await;
    for (life, pair) in seen.chunks(2).enumerate() {
        assert_eq!((pair[0].kind, pair[0].revision), (EventKind::Created, created[life]));
        let previous = pair[1].previous.as_ref().unwrap();
        assert_eq!((pair[1].kind, previous.created), (EventKind::Deleted, created[life]));
    }
    assert_eq!(world.store().get(&world.key("a")).await.unwrap(), None);
}
