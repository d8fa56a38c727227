//! Paged lists: follows the links from page to page.

use controllers_infrastructure::CloudResult;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    request::{Request, Service},
    session::{Session, take},
};

/// Maximum of pages. A cloud that always has a next page is broken, and a project with more pages is too
/// large for us.
pub(crate) const MOST_PAGES: usize = 1000;

/// Returns all elements under `key`, of all pages.
pub(crate) async fn list<T: DeserializeOwned>(
    session: &Session,
    mut request: Request,
    key: &str,
) -> CloudResult<Vec<T>> {
    let mut all = Vec::new();
    for _ in 0..MOST_PAGES {
        let interpret = |mut page: Value| Ok((next_query(&page, key), take(&mut page, key)?));
        let (next, items): (_, Vec<T>) = session.read(&request, interpret).await?;
        let empty = items.is_empty();
        all.extend(items);
        match next {
            Some(query) if !empty && query != request.query => request.query = with_filters(&request, query),
            _ => break,
        }
    }
    Ok(all)
}

/// Adds the filters of the request, which Octavia's links lack.
fn with_filters(request: &Request, next: String) -> String {
    if request.service != Service::LoadBalancer {
        return next;
    }
    let is_position = |pair: &&str| pair.starts_with("marker=") || pair.starts_with("limit=");
    let filters = request.query.split('&').filter(|pair| !pair.is_empty() && !is_position(pair));
    filters.chain(next.split('&').filter(is_position)).collect::<Vec<_>>().join("&")
}

/// Returns the query of the next page: of `{key}_links` (Nova, Neutron, Cinder), `links` (Nova's action
/// log) or `next` (Glance). Only the query of such a link is used: its host is often one that only
/// the cloud itself can resolve.
fn next_query(page: &Value, key: &str) -> Option<String> {
    let links = page.get(format!("{key}_links")).or_else(|| page.get("links")).and_then(Value::as_array);
    let link = links
        .and_then(|links| links.iter().find(|link| link.get("rel").and_then(Value::as_str) == Some("next")))
        .and_then(|link| link.get("href"))
        .or_else(|| page.get("next"))
        .and_then(Value::as_str)?;
    link.split_once('?').map(|(_, query)| query.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_next_page_of_load_balancers_has_the_filters_of_the_first() {
        let request = Request::get(Service::LoadBalancer, "/lbaas/pools").with("loadbalancer_id", "b");
        let next = with_filters(&request, "limit=1&marker=m".to_owned());
        assert_eq!(next, "loadbalancer_id=b&limit=1&marker=m");
        let network = Request::get(Service::Network, "/ports").with("name", "b");
        assert_eq!(with_filters(&network, "name=b&marker=m".to_owned()), "name=b&marker=m");
    }

    #[test]
    fn the_next_page_is_found_in_every_link_format() {
        let table = [
            (
                json!({"servers": [], "servers_links": [{"rel": "next", "href": "http://x/servers?marker=a"}]}),
                Some("marker=a"),
            ),
            (
                json!({"servers": [], "servers_links": [{"rel": "previous", "href": "http://x?marker=a"}]}),
                None,
            ),
            (
                json!({"servers": [], "links": [{"rel": "next", "href": "http://x?limit=1&marker=b"}]}),
                Some("limit=1&marker=b"),
            ),
            (json!({"servers": [], "next": "/v2/images?marker=c"}), Some("marker=c")),
            (json!({"servers": []}), None),
        ];
        for (page, expected) in table {
            assert_eq!(next_query(&page, "servers").as_deref(), expected, "{page}");
        }
    }
}
