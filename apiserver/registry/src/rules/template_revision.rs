//! Revisions of machine templates: an edit that needs other Machines gives a template the next number.

use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use apiserver_types::{
    FIRST_REVISION, PIN_REVISIONS, TEMPLATE_DIGESTS, TEMPLATE_REVISION, revision_annotation,
};
use serde_json::{Map, Value, json};

use crate::rules::json_fields::annotation;

/// Label of an object that the topology of a Cluster made.
const TOPOLOGY_OWNED: &str = "topology.cluster.x-k8s.io/owned";

/// Most contents whose digests a template keeps.
const MOST_DIGESTS: usize = 20;

/// Returns true if a topology made the template. Its controller makes another template instead of a change.
pub(crate) fn is_of_topology(template: &Value) -> bool {
    object::at(template, "metadata.labels").is_some_and(|labels| labels.get(TOPOLOGY_OWNED).is_some())
}

/// Numbers the content of a template. `content` returns the part of it that needs other Machines if it changes.
pub(crate) fn number(new: &mut Value, old: Option<&Value>, content: impl Fn(&Value) -> Value) {
    let Some(old) = old else {
        // A copy of a template, or one that was moved here, keeps its number.
        let known = annotation(new, TEMPLATE_REVISION).and_then(|text| text.parse::<i64>().ok());
        if known.is_none_or(|number| number <= FIRST_REVISION) || is_of_topology(new) {
            write(new, None, None);
        }
        return;
    };
    let (before, now) = (content(old), content(new));
    if before == now || is_of_topology(old) || is_of_topology(new) {
        let kept = [TEMPLATE_REVISION, TEMPLATE_DIGESTS].map(|key| annotation(old, key).map(str::to_owned));
        let [number, digests] = kept;
        return write(new, number, digests);
    }
    let (number, digests) = next(revision(old), annotation(old, TEMPLATE_DIGESTS), &before, &now);
    write(new, revision_annotation(number), Some(digests));
}

/// Returns the number of the present content of a template.
pub(crate) fn revision(template: &Value) -> i64 {
    let number = annotation(template, TEMPLATE_REVISION).and_then(|text| text.parse().ok());
    number.unwrap_or(FIRST_REVISION)
}

/// Returns the number of a changed content, and the digests of all known contents. Pure.
fn next(number: i64, digests: Option<&str>, before: &Value, now: &Value) -> (i64, String) {
    let entry = |entry: &str| {
        let (number, digest) = entry.split_once(':')?;
        Some((number.parse::<i64>().ok()?, digest.to_owned()))
    };
    let mut known: Vec<(i64, String)> = digests.unwrap_or_default().split(',').filter_map(entry).collect();
    if !known.iter().any(|(known, _)| *known == number) {
        known.push((number, digest(before)));
    }
    let now = digest(now);
    let found = known.iter().find(|(_, digest)| *digest == now).map(|(number, _)| *number);
    let highest = known.iter().map(|(number, _)| *number).max().unwrap_or(number);
    let next = found.unwrap_or_else(|| highest.saturating_add(1));
    if found.is_none() {
        known.push((next, now));
    }
    known.sort();
    let surplus = known.len().saturating_sub(MOST_DIGESTS);
    let entries: Vec<String> =
        known.iter().skip(surplus).map(|(number, digest)| format!("{number}:{digest}")).collect();
    (next, entries.join(","))
}

/// Returns 64 bits of FNV-1a over a content, with the fields in alphabetical order. It only tells the contents of one
/// template apart.
fn digest(content: &Value) -> String {
    let hash = sorted(content).to_string().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort();
            Value::Object(names.into_iter().map(|name| (name.clone(), sorted(&fields[name]))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// Sets or removes the two annotations.
fn write(template: &mut Value, number: Option<String>, digests: Option<String>) {
    let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let is_bare = number.is_none() && digests.is_none();
    if is_bare && !metadata.contains_key("annotations") {
        return;
    }
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
    if annotations.is_null() && !is_bare {
        *annotations = Value::Object(Map::new());
    }
    let Some(annotations) = annotations.as_object_mut() else { return };
    for (key, value) in [(TEMPLATE_REVISION, number), (TEMPLATE_DIGESTS, digests)] {
        match value {
            Some(value) => drop(annotations.insert(key.to_owned(), json!(value))),
            None => drop(annotations.remove(key)),
        }
    }
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// Returns a content without nulls, and without empty lists and objects, which typed clients drop. An empty list of
/// taints means no taints, and a missing one kubeadm's own.
pub(crate) fn without_empty(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(fields) => {
            let kept = fields.iter().filter_map(|(key, value)| {
                let is_taints = key == "taints" && value.is_array();
                let value = if is_taints { Some(value.clone()) } else { without_empty(value) };
                Some((key.clone(), value?))
            });
            let kept: Map<String, Value> = kept.collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(items) if items.is_empty() => None,
        other => Some(other.clone()),
    }
}

/// Returns the warning about an edit of a template of `kind` that replaces Machines: it names their owners.
///
/// # Errors
/// 503 if the owners cannot be read.
pub(crate) async fn warning(
    kind: &str,
    new: &Value,
    old: Option<&Value>,
    others: &dyn ObjectReader,
) -> ApiResult<Option<String>> {
    let number = revision(new);
    if old.is_none_or(|old| revision(old) == number) {
        return Ok(None);
    }
    let namespace = object::namespace(new);
    let refers = |owner: &Value, path: &str| {
        let reference = object::at(owner, path);
        let field = |name: &str| reference.and_then(|it| it.get(name)).and_then(Value::as_str);
        field("kind") == Some(kind) && field("name") == Some(object::name(new))
    };
    let mut owners = Vec::new();
    for owner in others.all("cluster.x-k8s.io", "machinedeployments", namespace).await? {
        let paths = ["spec.template.spec.bootstrap.configRef", "spec.template.spec.infrastructureRef"];
        let is_pinned = annotation(&owner, PIN_REVISIONS) == Some("true");
        if !is_pinned && paths.iter().any(|path| refers(&owner, path)) {
            owners.push(format!("MachineDeployment {}", object::name(&owner)));
        }
    }
    for owner in others.all("controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes", namespace).await? {
        if refers(&owner, "spec.machineTemplate.spec.infrastructureRef") {
            owners.push(format!("KubeadmControlPlane {}", object::name(&owner)));
        }
    }
    let users = owners.join(", ");
    Ok((!owners.is_empty()).then(|| {
        format!("spec.template.spec: this is revision {number} of the template; it replaces the Machines of {users}")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(flavor: &str, annotations: Option<Value>) -> Value {
        let mut template =
            json!({"metadata": {"name": "t"}, "spec": {"template": {"spec": {"flavor": flavor}}}});
        if let Some(annotations) = annotations {
            template["metadata"]["annotations"] = annotations;
        }
        template
    }

    fn content(template: &Value) -> Value {
        template["spec"].clone()
    }

    fn edited(old: &Value, flavor: &str) -> Value {
        // The client sends no annotations, as one that applies a manifest.
        let mut new = template(flavor, None);
        number(&mut new, Some(old), content);
        new
    }

    #[test]
    fn each_new_content_has_the_next_number_and_an_earlier_one_has_its_own_again() {
        let mut numbers = Vec::new();
        let mut known = template("a", None);
        number(&mut known, None, content);
        assert_eq!(known, template("a", None), "nothing is added to a template that was never edited");
        for flavor in ["a", "b", "b", "c", "a", "b", "d"] {
            known = edited(&known, flavor);
            numbers.push(revision(&known));
        }
        assert_eq!(numbers, [1, 2, 2, 3, 1, 2, 4]);
        let digests = annotation(&known, TEMPLATE_DIGESTS).unwrap();
        assert_eq!(digests.split(',').count(), 4, "{digests}");
    }

    #[test]
    fn clients_cannot_change_the_number() {
        let second = edited(&template("a", None), "b");
        let mut forged = second.clone();
        forged["metadata"]["annotations"] =
            json!({TEMPLATE_REVISION: "9", TEMPLATE_DIGESTS: "9:x", "own": "1"});
        number(&mut forged, Some(&second), content);
        assert_eq!(revision(&forged), 2);
        assert_eq!(forged["metadata"]["annotations"]["own"], "1");
        for wrong in ["0", "1", "x", "-1"] {
            let mut new = template("a", Some(json!({TEMPLATE_REVISION: wrong})));
            number(&mut new, None, content);
            assert_eq!(new, template("a", None), "{wrong}");
        }
        let mut moved = second.clone();
        number(&mut moved, None, content);
        assert_eq!(moved, second, "a template that is moved keeps its number");
    }

    #[test]
    fn a_template_of_a_topology_has_no_revisions() {
        let mut old = template("a", None);
        old["metadata"]["labels"] = json!({TOPOLOGY_OWNED: ""});
        let mut new = old.clone();
        new["spec"]["template"]["spec"]["flavor"] = json!("b");
        number(&mut new, Some(&old), content);
        assert_eq!(revision(&new), 1);
        new["metadata"]["annotations"] = json!({TEMPLATE_REVISION: "4"});
        number(&mut new, None, content);
        assert_eq!(revision(&new), 1, "a copy of a template of a class");
    }

    #[test]
    fn the_number_goes_on_after_old_digests_are_forgotten() {
        let mut known = template("0", None);
        for flavor in 1..40 {
            known = edited(&known, &flavor.to_string());
        }
        assert_eq!(revision(&known), 40);
        assert_eq!(annotation(&known, TEMPLATE_DIGESTS).unwrap().split(',').count(), MOST_DIGESTS);
        assert_eq!(revision(&edited(&known, "39")), 40);
        assert_eq!(revision(&edited(&known, "0")), 41, "it is not known any more");
    }

    #[test]
    fn what_typed_clients_drop_is_no_edit() {
        let given = json!({"files": [], "a": {"b": null, "c": {}}, "taints": [], "n": 1});
        assert_eq!(without_empty(&given), Some(json!({"taints": [], "n": 1})));
        assert_eq!(without_empty(&json!({"a": {}})), None);
        assert_eq!(digest(&json!({"a": 1, "b": 2})), digest(&json!({"b": 2, "a": 1})));
    }
}
