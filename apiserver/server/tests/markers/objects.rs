//! Objects with secrets: requests that succeed, that conflict, and that are refused in many ways.

use serde_json::{Value, json};

use crate::caller::Caller;
use crate::scan::Markers;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Kind with secrets in its objects.
struct Kind {
    collection: &'static str,
    api_version: &'static str,
    kind: &'static str,
    /// Path of a text that is a secret.
    pointer: &'static str,
    /// Returns the fields of an object with this value at the path.
    fields: fn(&Value) -> Value,
}

const KINDS: [Kind; 4] = [
    Kind {
        collection: "/api/v1/namespaces/default/secrets",
        api_version: "v1",
        kind: "Secret",
        pointer: "/stringData/key",
        fields: |value| json!({"stringData": {"key": value}}),
    },
    Kind {
        collection: "/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/default/kubeadmconfigs",
        api_version: "bootstrap.cluster.x-k8s.io/v1beta2",
        kind: "KubeadmConfig",
        pointer: "/spec/files/0/content",
        fields: |value| json!({"spec": {"files": [{"path": "/etc/a", "content": value}]}}),
    },
    Kind {
        collection: "/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/default/kubeadmconfigs",
        api_version: "bootstrap.cluster.x-k8s.io/v1beta2",
        kind: "KubeadmConfig",
        pointer: "/spec/users/0/passwd",
        fields: |value| json!({"spec": {"users": [{"name": "core", "passwd": value}]}}),
    },
    Kind {
        collection: "/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/default/kubeadmconfigtemplates",
        api_version: "bootstrap.cluster.x-k8s.io/v1beta2",
        kind: "KubeadmConfigTemplate",
        pointer: "/spec/template/spec/files/0/content",
        fields: |value| json!({"spec": {"template": {"spec": {"files": [{"path": "/etc/a", "content": value}]}}}}),
    },
];

impl Kind {
    fn object(&self, name: &str, value: &Value) -> Value {
        let mut object = (self.fields)(value);
        object["apiVersion"] = json!(self.api_version);
        object["kind"] = json!(self.kind);
        object["metadata"] = json!({"name": name});
        object
    }
}

/// Returns bodies of a create that are refused, each with the secret as a value or as a part of one.
fn refused_bodies(kind: &Kind, secret: &str) -> Vec<String> {
    let object = |value: Value| kind.object("refused", &value);
    let mut wrong_parent = object(json!(secret));
    let parent = kind.pointer.rsplit_once('/').unwrap().0;
    *wrong_parent.pointer_mut(parent).unwrap() = json!(secret);
    let mut bad_name = object(json!(secret));
    bad_name["metadata"]["name"] = json!("not a name");
    let mut wrong_kind = object(json!(secret));
    wrong_kind["kind"] = json!("Other");
    let good = object(json!(secret)).to_string();
    let mut bodies = vec![
        object(json!([secret])).to_string(),
        object(json!({ secret: secret })).to_string(),
        wrong_parent.to_string(),
        bad_name.to_string(),
        wrong_kind.to_string(),
        good[..good.len() - 1].to_owned(),
        good.replace('}', ""),
        format!("\"{secret}\""),
        format!("[{good}]"),
        good.replace(secret, &format!("{secret}\\x")),
        format!("{secret} {good}"),
    ];
    if kind.kind == "Secret" {
        let with = |field: &str, value: Value| {
            let mut object = kind.object("refused", &json!("a"));
            // A text of `stringData` replaces that of `data`.
            if value.is_object() {
                object.as_object_mut().unwrap().remove("stringData");
            }
            object[field] = value;
            object.to_string()
        };
        bodies.extend([
            with("data", json!({"key": format!("{secret} is no base64!")})),
            with("data", json!(secret)),
            with("data", json!({"not a key": secret})),
            with("type", json!(["kubernetes.io/tls", secret])),
        ]);
    }
    bodies
}

/// Sends everything about one kind. `name`: name of the object that exists afterwards.
async fn of_kind(caller: &Caller, kind: &Kind, name: &str, secret: &str) {
    let (collection, good) = (kind.collection, kind.object(name, &json!(secret)));
    let one = format!("{collection}/{name}");
    caller.json("POST", collection, &good, 201).await;
    caller.json("POST", collection, &good, 409).await;
    let mut stale = good.clone();
    stale["metadata"]["resourceVersion"] = json!("1");
    caller.json("PUT", &one, &stale, 409).await;
    for body in refused_bodies(kind, secret) {
        let (code, _) = caller.send("POST", collection, JSON, &body).await;
        assert!((400..500).contains(&code), "{code}: {body}");
        caller.send("PUT", &one, JSON, &body).await;
        caller.send("PATCH", &one, MERGE, &body).await;
        caller.send("PATCH", &one, APPLY, &body).await;
        caller.send("POST", collection, "application/yaml", &body).await;
        caller.send("POST", collection, "application/vnd.kubernetes.protobuf", &body).await;
        caller.send("POST", collection, "text/plain", &body).await;
    }
    let mut unknown = kind.object("refused", &json!(secret));
    unknown[secret] = json!(secret);
    caller.json("POST", &format!("{collection}?fieldValidation=Strict"), &unknown, 400).await;
    caller.json("POST", &format!("{collection}?dryRun=All&fieldValidation=Warn"), &unknown, 201).await;
    let pointer = if kind.kind == "Secret" { "/data/key" } else { kind.pointer };
    for patch in [
        json!([{"op": "test", "path": pointer, "value": secret}, {"op": "remove", "path": "/none"}]),
        json!([{"op": "test", "path": pointer, "value": format!("{secret}x")}]),
        json!([{"op": "replace", "path": format!("{pointer}/x"), "value": secret}]),
        json!([{"op": "add", "path": "/metadata/labels", "value": ["a"]}]),
        json!([{"op": secret, "path": pointer, "value": secret}]),
        json!({"op": "add", "path": pointer, "value": secret}),
    ] {
        let (code, _) = caller.send("PATCH", &one, PATCH, &patch.to_string()).await;
        assert!((400..500).contains(&code), "{code}: {patch}");
    }
    caller.send("PATCH", &one, STRATEGIC, &good.to_string()).await;
    for manager in ["first", "second"] {
        let mut applied = kind.object("applied", &json!(format!("{secret}{manager}")));
        applied["metadata"]["labels"] = json!({"manager": manager});
        let path = format!("{collection}/applied?fieldManager={manager}");
        caller.send("PATCH", &path, APPLY, &applied.to_string()).await;
    }
    caller.json("PATCH", &one, &json!({}), 415).await;
}

/// Sends requests about every kind with secrets. Returns the text that is in an object without secrets.
pub(crate) async fn exchange(caller: &Caller, markers: &mut Markers) {
    for (number, kind) in KINDS.iter().enumerate() {
        let place = format!("{} of a {}", kind.pointer.rsplit('/').next().unwrap(), kind.kind);
        let secret = markers.plant(&place);
        of_kind(caller, kind, &format!("planted-{number}"), &secret).await;
    }
    let immutable = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "immutable"}, "immutable": true,
        "stringData": {"key": markers.plant("value of an immutable Secret")}});
    caller.json("POST", KINDS[0].collection, &immutable, 201).await;
    let changed = json!({"stringData": {"key": markers.plant("new value of an immutable Secret")}});
    let path = format!("{}/immutable", KINDS[0].collection);
    assert_eq!(caller.send("PATCH", &path, MERGE, &changed.to_string()).await.0, 422);
    let join = json!({"apiVersion": KINDS[1].api_version, "kind": "KubeadmConfig", "metadata": {"name": "join"},
        "spec": {"joinConfiguration": {"discovery": {"tlsBootstrapToken": markers.plant("TLS bootstrap token of a KubeadmConfig"),
            "bootstrapToken": {"apiServerEndpoint": "192.0.2.1:6443", "unsafeSkipCAVerification": true,
                "token": markers.plant("join token of a KubeadmConfig")}}}}});
    caller.send("POST", KINDS[1].collection, JSON, &join.to_string()).await;
}
