//! Version documents of Keystone, and the service catalog.

use http::StatusCode;
use serde_json::{Value, json};

use super::REGION;
use crate::http::{Reply, Request};
use crate::options::SimulatorOptions;

fn description(base_url: &str) -> Value {
    json!({
        "id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": format!("{base_url}/v3/")}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
    })
}

/// `GET /`: all versions.
pub(super) fn versions(request: &Request) -> Reply {
    let body = json!({"versions": {"values": [description(&request.base_url)]}});
    Reply::json(StatusCode::MULTIPLE_CHOICES, &body)
        .with_header(http::header::LOCATION, &format!("{}/v3/", request.base_url))
}

/// `GET /v3`: the one version.
pub(super) fn version(request: &Request) -> Reply {
    Reply::ok(&json!({"version": description(&request.base_url)}))
}

/// Returns the catalog of a token of `project`, with addresses as the client addresses the simulator.
pub(super) fn catalog(base_url: &str, project: &str, options: &SimulatorOptions) -> Value {
    let services = [
        ("identity", "keystone", "/v3".to_owned()),
        ("compute", "nova", "/compute/v2.1".to_owned()),
        ("network", "neutron", "/network".to_owned()),
        ("image", "glance", "/image".to_owned()),
        ("block-storage", "cinder", format!("/volume/v3/{project}")),
        ("load-balancer", "octavia", "/load-balancer".to_owned()),
        ("volumev3", "cinderv3", format!("/volume/v3/{project}")),
    ];
    let shares = ("sharev2", "manilav2", format!("/share/v2/{project}"));
    let services = services.into_iter().chain(options.shared_file_systems.then_some(shares));
    let own = services.map(|(kind, name, path)| (kind, name, format!("{base_url}{path}")));
    let other = options.object_store.as_ref().map(|url| ("object-store", "swift", format!("{url}{project}")));
    own.chain(other)
        .map(|(kind, name, url)| {
            let endpoints: Vec<Value> = ["public", "internal", "admin"]
                .iter()
                .map(|interface| {
                    json!({
                        "id": format!("{name}-{interface}"), "interface": interface,
                        "region_id": REGION, "region": REGION, "url": url,
                    })
                })
                .collect();
            json!({"id": name, "type": kind, "name": name, "endpoints": endpoints})
        })
        .collect()
}
