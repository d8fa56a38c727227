//! Handler of `/`: the index of all paths.

use serde_json::json;

use crate::handlers::health;
use crate::response::{self, HttpResponse};
use crate::state::ApiServer;

/// Paths besides discovery.
const PATHS: [&str; 5] = ["/metrics", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"];

/// Serves the index of one endpoint. Through the host, Kubernetes' own kinds are not included.
pub(crate) fn serve(server: &ApiServer, proxied: bool) -> HttpResponse {
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
