//! Changes of tags, which leave those of other tools alone.

use controllers_infrastructure::{CloudResult, TaggedKind};
use serde_json::json;

use crate::request::{Request, Service, encode};
use crate::session::Session;
use crate::{compute, network};

/// Largest number of tags that are changed one by one. More are replaced with one call.
const SINGLY: usize = 5;

/// Extension of Neutron with the tags of all resources.
const EXTENSION: &str = "standard-attr-tag";

/// Adds and removes tags of an object.
pub(crate) async fn change(
    session: &Session,
    kind: TaggedKind,
    id: &str,
    added: &[String],
    removed: &[String],
) -> CloudResult<()> {
    let (service, path) = match kind {
        TaggedKind::Server => (Service::Compute, compute::tags_path(id)),
        kind => (Service::Network, network::tags_path(kind, id)),
    };
    if service == Service::Network && !session.network_extensions().await?.iter().any(|it| it == EXTENSION) {
        return Ok(());
    }
    if added.len().saturating_add(removed.len()) > SINGLY {
        return replace(session, service, path, added, removed).await;
    }
    for tag in added {
        let one = format!("{path}/{}", encode(tag));
        session.done(&Request { body: None, ..Request::put(service, one, json!(null)) }).await?;
    }
    for tag in removed {
        match session.done(&Request::delete(service, format!("{path}/{}", encode(tag)))).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Reads the tags, and replaces them.
async fn replace(
    session: &Session,
    service: Service,
    path: String,
    added: &[String],
    removed: &[String],
) -> CloudResult<()> {
    let mut tags: Vec<String> = session.under(&Request::get(service, path.clone()), "tags").await?;
    tags.retain(|tag| !removed.contains(tag));
    tags.extend(added.iter().filter(|tag| !tags.contains(tag)).cloned().collect::<Vec<_>>());
    session.done(&Request::put(service, path, json!({"tags": tags}))).await.map(drop)
}
