//! Objects that kustomize and Helm render.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};

use crate::{prerequisites, run};

/// Shape of an installation, in kustomize and in Helm.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) overlay: &'static str,
    mode: &'static str,
}

pub(super) const EMBEDDED: Shape = Shape { overlay: "embedded", mode: "embedded" };
pub(super) const HA: Shape = Shape { overlay: "ha-etcd", mode: "ha" };
pub(super) const EXTERNAL: Shape = Shape { overlay: "external-etcd", mode: "external" };
pub(super) const SHAPES: [Shape; 3] = [EMBEDDED, HA, EXTERNAL];

/// Values of the chart that come from files below `keys`.
const FILES: [(&str, &str); 8] = [
    ("keys.caCertificate", "pki/ca.crt"),
    ("keys.caKey", "pki/ca.key"),
    ("keys.encryption", "encryption.yaml"),
    ("etcd.ca", "etcd/client/ca.crt"),
    ("etcd.client.certificate", "etcd/client/tls.crt"),
    ("etcd.client.key", "etcd/client/tls.key"),
    ("etcd.server.certificate", "etcd/server/tls.crt"),
    ("etcd.server.key", "etcd/server/tls.key"),
];

/// Endpoints in the config of overlay `external-etcd`.
const ENDPOINTS: &str = "etcd.endpoints={https://etcd-0.example.org:2379,https://etcd-1.example.org:2379,https://etcd-2.example.org:2379}";

/// Name of the ConfigMap with the configuration. Kustomize appends a hash of the content.
const CONFIG: &str = "capstan-config";

/// Rendered objects.
pub(super) struct Objects(Vec<Value>);

/// Renders an overlay with kubectl.
pub(super) fn kustomize(kubectl: &Path, overlay: &Path) -> anyhow::Result<Objects> {
    let mut command = Command::new(kubectl);
    let text = run::output(command.arg("kustomize").arg(overlay))?;
    Objects::parse(&text)
}

/// Returns the words for Helm with the values of a shape.
pub(super) fn values(manifests: &Path, shape: &Shape) -> Vec<String> {
    let mut values =
        vec!["--set".to_owned(), format!("mode={}", shape.mode), "--set".to_owned(), ENDPOINTS.to_owned()];
    for (value, file) in FILES {
        values.push("--set-file".to_owned());
        values.push(format!("{value}={}", manifests.join("keys").join(file).display()));
    }
    values
}

/// Renders the chart with the values of a shape. Without further words, checks it with `helm lint` before.
pub(super) fn helm(manifests: &Path, shape: &Shape, more: &[&str]) -> anyhow::Result<Objects> {
    let mut values = values(manifests, shape);
    values.extend(more.iter().map(|&word| word.to_owned()));
    let run = |words: &[&str]| {
        let mut command = Command::new(prerequisites::helm()?);
        command.args(words).arg(manifests.join("chart")).args(["--namespace", "capstan-system"]);
        let output = command.args(&values).output().context("helm")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "helm {}: {text}{error}", words.join(" "));
        anyhow::Ok(text)
    };
    if more.is_empty() {
        run(&["lint", "--strict"])?;
    }
    Objects::parse(&run(&["template", "capstan"])?)
}

impl Objects {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(text).context("the rendered objects are no YAML")?;
        Ok(Self(objects.into_iter().filter(|object| !object.is_null()).collect()))
    }

    /// Returns the objects as one `List`.
    pub(super) fn list(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "List", "items": self.0})
    }

    /// Returns the objects of these kinds.
    pub(super) fn only(&self, kinds: &[&str]) -> Self {
        Self(self.0.iter().filter(|object| kinds.contains(&kind(object))).cloned().collect())
    }

    /// Returns the objects without those of these kinds.
    pub(super) fn without_kinds(&self, kinds: &[&str]) -> Self {
        Self(self.0.iter().filter(|object| !kinds.contains(&kind(object))).cloned().collect())
    }

    /// Returns the objects without those of this name.
    pub(super) fn without_name(&self, named: &str) -> Self {
        Self(self.0.iter().filter(|object| name(object) != named).cloned().collect())
    }

    /// Returns the objects that others do not have in the same form.
    pub(super) fn differing(&self, others: &Self) -> Self {
        Self(self.0.iter().filter(|object| !others.0.contains(object)).cloned().collect())
    }

    /// Returns the object with this kind and name.
    pub(super) fn find(&self, of: &str, named: &str) -> anyhow::Result<&Value> {
        let found = self.0.iter().find(|object| kind(object) == of && name(object) == named);
        found.with_context(|| format!("no {of} {named} is rendered"))
    }

    pub(super) fn find_mut(&mut self, of: &str, named: &str) -> anyhow::Result<&mut Value> {
        let found = self.0.iter_mut().find(|object| kind(object) == of && name(object) == named);
        found.with_context(|| format!("no {of} {named} is rendered"))
    }

    /// Replaces a text in all objects except Secrets.
    pub(super) fn replace_text(&mut self, from: &str, to: &str) -> anyhow::Result<()> {
        for object in
            self.0.iter_mut().filter(|object| kind(object) != "Secret" && kind(object) != "APIService")
        {
            *object = serde_json::from_str(&object.to_string().replace(from, to))?;
        }
        for object in self.0.iter_mut().filter(|object| kind(object) == "APIService") {
            let port = object.pointer_mut("/spec/service/port").context("an APIService has no port")?;
            *port = serde_json::from_str(&port.to_string().replace(from, to))?;
        }
        Ok(())
    }

    /// Returns a Pod for each Pod template, as its controller would create it.
    pub(super) fn pods(&self) -> Vec<Value> {
        let of = |object: &Value| {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name(object), "namespace": object.pointer("/metadata/namespace"),
                    "labels": object.pointer("/spec/template/metadata/labels")},
                "spec": object.pointer("/spec/template/spec")?});
            let claims = object.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
            for claim in claims.into_iter().flatten() {
                let volume =
                    json!({"name": name(claim), "persistentVolumeClaim": {"claimName": name(claim)}});
                pod.pointer_mut("/spec/volumes")?.as_array_mut()?.push(volume);
            }
            Some(pod)
        };
        self.0.iter().filter_map(of).collect()
    }

    /// Returns the objects by kind and name, without the differences that are intended: Helm creates the Namespace of a
    /// release by a flag, and it rolls Pods after a change of the config by an annotation instead of a new name.
    pub(super) fn normalized(&self) -> anyhow::Result<Normalized> {
        let mut all = BTreeMap::new();
        let is_config = |object: &&Value| kind(object) == "ConfigMap" && name(object).starts_with(CONFIG);
        let config = self.0.iter().find(is_config).map(name).unwrap_or_default();
        for object in self.0.iter().filter(|object| kind(object) != "Namespace") {
            let text = object.to_string().replace(&format!("\"{config}\""), &format!("\"{CONFIG}\""));
            let mut object: Value = serde_json::from_str(&text)?;
            if let Some(template) =
                object.pointer_mut("/spec/template/metadata").and_then(Value::as_object_mut)
            {
                template.remove("annotations");
            }
            let is_config = kind(&object) == "ConfigMap";
            if is_config && name(&object) == CONFIG {
                merge_parts(object.get_mut("data").and_then(Value::as_object_mut))?;
            }
            for value in object
                .get_mut("data")
                .and_then(Value::as_object_mut)
                .into_iter()
                .flat_map(|data| data.values_mut())
            {
                let text = value.as_str().unwrap_or_default();
                *value =
                    if is_config { serde_saphyr::from_str(text)? } else { json!(text.replace('\n', "")) };
            }
            if let Some(bundle) = object.pointer_mut("/spec/caBundle") {
                *bundle = json!(bundle.as_str().unwrap_or_default().replace('\n', ""));
            }
            let key = format!("{} {}", kind(&object), name(&object));
            ensure!(all.insert(key.clone(), object).is_none(), "{key} is rendered twice");
        }
        Ok(Normalized(all))
    }
}

/// Merges the parts of a configuration over it, as the server does. The chart has merged them already.
fn merge_parts(data: Option<&mut Map<String, Value>>) -> anyhow::Result<()> {
    let data = data.context("the ConfigMap has no data")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut config: Value = serde_saphyr::from_str(&data.get("config.yaml").map(text).unwrap_or_default())?;
    let names: Vec<String> = data.keys().filter(|name| name.ends_with(".conf")).cloned().collect();
    for name in names {
        let part = data.remove(&name).as_ref().map(text).unwrap_or_default();
        merge(&mut config, serde_saphyr::from_str(&part)?);
    }
    data.insert("config.yaml".to_owned(), json!(config.to_string()));
    Ok(())
}

fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                merge(base.entry(name).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// Objects by kind and name.
pub(super) struct Normalized(BTreeMap<String, Value>);

impl Normalized {
    /// Compares two renderings.
    ///
    /// # Errors
    /// Names each object that is in one only or that differs, with the first path that differs.
    pub(super) fn compare(&self, other: &Self) -> anyhow::Result<()> {
        let mut text = String::new();
        for key in self.0.keys().chain(other.0.keys().filter(|key| !self.0.contains_key(*key))) {
            match (self.0.get(key), other.0.get(key)) {
                (Some(one), Some(two)) => {
                    if let Some(path) = difference(one, two) {
                        let _ = write!(text, "\n{key}: {path}");
                    }
                }
                (None, _) | (_, None) => {
                    let _ = write!(text, "\n{key}: in one rendering only");
                }
            }
        }
        ensure!(text.is_empty(), "{text}");
        Ok(())
    }
}

/// Returns the first path at which two values differ.
fn difference(one: &Value, two: &Value) -> Option<String> {
    match (one, two) {
        (Value::Object(first), Value::Object(second)) => {
            let keys = first.keys().chain(second.keys().filter(|key| !first.contains_key(*key)));
            let nested = |key: &String| match (first.get(key), second.get(key)) {
                (Some(one), Some(two)) => difference(one, two).map(|path| format!(".{key}{path}")),
                (None, _) | (_, None) => Some(format!(".{key} is in one only")),
            };
            keys.into_iter().find_map(nested)
        }
        (Value::Array(first), Value::Array(second)) if first.len() == second.len() => {
            let nested = |(index, (one, two)): (usize, (&Value, &Value))| {
                difference(one, two).map(|path| format!("[{index}]{path}"))
            };
            first.iter().zip(second).enumerate().find_map(nested)
        }
        _ => (one != two).then(|| format!(": {one} and {two}")),
    }
}

pub(super) fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}
