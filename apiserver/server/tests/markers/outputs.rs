//! Outputs: everything that a server writes, sends and serves.

use std::path::Path;

use serde_json::Value;

use crate::scene::Scene;

/// Documents that operators and programs read.
const DOCUMENTS: [&str; 12] = [
    "/metrics",
    "/readyz?verbose",
    "/livez?verbose",
    "/healthz?verbose",
    "/version",
    "/",
    "/apis",
    "/openapi/v2",
    "/debug/pprof",
    "/configz",
    "/logs",
    "/.well-known/openid-configuration",
];

/// Fields of kinds whose objects contain secrets by design. The user who may read the object may read them.
const BY_DESIGN: [(&str, &[&str]); 3] = [
    ("Secret", &["/data", "/stringData"]),
    ("KubeadmConfig", &["/spec/files", "/spec/users", "/spec/joinConfiguration/discovery"]),
    ("KubeadmConfigTemplate", &["/spec/template/spec/files"]),
];

/// Output: its name, and its bytes.
pub(crate) type Output = (String, Vec<u8>);

/// Returns everything that the server serves: documents, and all objects without the fields that are secrets by design.
pub(crate) async fn served(scene: &Scene) -> Vec<Output> {
    let mut outputs = Vec::new();
    for path in DOCUMENTS {
        outputs.push((path.to_owned(), scene.caller.send("GET", path, "", "").await.1));
    }
    let json =
        async |path: &str| -> Value { serde_json::from_slice(&scene.caller.text(path).await).unwrap() };
    let mut roots = vec!["/api/v1".to_owned()];
    for group in json("/apis").await["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            roots.push(format!("/apis/{}", version["groupVersion"].as_str().unwrap()));
        }
    }
    for root in roots {
        for resource in json(&root).await["resources"].as_array().unwrap() {
            let (name, verbs) = (resource["name"].as_str().unwrap(), &resource["verbs"]);
            if !verbs.as_array().unwrap().iter().any(|verb| verb == "list") {
                continue;
            }
            let path = format!("{root}/{name}");
            let mut list = json(&path).await;
            let kind = resource["kind"].as_str().unwrap();
            for object in list["items"].as_array_mut().unwrap() {
                hide(kind, object);
            }
            outputs.push((path, list.to_string().into_bytes()));
        }
    }
    outputs
}

/// Removes the fields that are secrets by design.
fn hide(kind: &str, object: &mut Value) {
    let fields = BY_DESIGN.iter().filter(|(of, _)| *of == kind).flat_map(|(_, fields)| *fields);
    for field in fields {
        if let Some(value) = object.pointer_mut(field) {
            *value = Value::Null;
        }
    }
}

/// Returns all files below a directory whose names begin so.
pub(crate) fn files(root: &Path, prefix: &str) -> Vec<Output> {
    let mut outputs = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() && path.strip_prefix(root).unwrap().to_string_lossy().starts_with(prefix)
            {
                outputs.push((path.display().to_string(), std::fs::read(&path).unwrap()));
            }
        }
    }
    outputs
}
