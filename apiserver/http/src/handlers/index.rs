//! `/`: the paths there are.

use serde_json::json;

use crate::handlers::health;
use crate::response::{self, Answer};
use crate::state::ApiServer;

/// What is there beside discovery.
const PATHS: [&str; 5] = ["/metrics", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"];

/// The index of one face: a host's own kinds are not ours to show.
pub(crate) fn serve(server: &ApiServer, proxied: bool) -> Answer {
    let registry = server.registry();
    let shown = registry.resources().iter().filter(|resource| !proxied || resource.hosted);
    let mut paths: Vec<String> = PATHS.iter().map(ToString::to_string).collect();
    paths.push("/apis".to_owned());
    for resource in shown {
        if resource.group.is_empty() {
            paths.push("/api".to_owned());
            paths.push(format!("/api/{}", resource.version));
        } else {
            paths.push(format!("/apis/{}", resource.group));
            paths.push(format!("/apis/{}/{}", resource.group, resource.version));
        }
    }
    paths.extend(health::paths(server));
    paths.sort();
    paths.dedup();
    response::bytes(200, "application/json", json!({"paths": paths}).to_string())
}
