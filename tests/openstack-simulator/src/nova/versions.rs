//! Version documents of Nova.

use serde_json::{Value, json};

use super::LARGEST;
use crate::http::{Reply, Request};

fn current(base_url: &str) -> Value {
    json!({
        "id": "v2.1", "status": "CURRENT", "version": format!("2.{LARGEST}"), "min_version": "2.1",
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": format!("{base_url}/compute/v2.1/")}],
    })
}

/// All versions.
pub(super) fn all(request: &Request) -> Reply {
    Reply::ok(&json!({"versions": [current(&request.base_url)]}))
}

/// The one version.
pub(super) fn one(request: &Request) -> Reply {
    let mut version = current(&request.base_url);
    if let Some(version) = version.as_object_mut() {
        let media = json!([{
            "base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1",
        }]);
        version.insert("media-types".to_owned(), media);
    }
    Reply::ok(&json!({"version": version}))
}
