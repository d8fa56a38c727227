//! Files with configurations: read as a whole, so that a bad file changes nothing.

use std::path::{Path, PathBuf};

use apiserver_machinery::object;
use apiserver_machinery::resource::Registry;
use apiserver_machinery::store::unknown_fields;
use apiserver_schema::field_errors::FieldError;
use serde_json::{Value, json};

use crate::value::{entries, text};
use crate::{GROUP, KINDS};

/// Suffix of the names in files. The API refuses it.
pub const STATIC_SUFFIX: &str = ".static.capstan.dev";

/// Largest file that is read. Unit: bytes.
const MOST: u64 = 4 * 1024 * 1024;

/// Reads the configurations in all files of a directory whose names end in `.yaml`, `.yml` or `.json`.
///
/// # Errors
/// The text names the file, the object, the field and the cause.
pub fn read_directory(directory: &Path, registry: &Registry) -> Result<Vec<Value>, String> {
    let at = directory.display();
    let unreadable = |error: std::io::Error| format!("{at}: cannot be read: {error}");
    let found = std::fs::read_dir(directory).map_err(unreadable)?;
    let found = found.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>();
    let mut paths: Vec<PathBuf> =
        found.map_err(unreadable)?.into_iter().filter(|path| is_meant(path)).collect();
    paths.sort();
    let mut all: Vec<Value> = Vec::new();
    for path in paths {
        let objects = read_file(&path).and_then(|objects| {
            objects.into_iter().map(|object| checked(object, registry)).collect::<Result<Vec<_>, _>>()
        });
        let objects = objects.map_err(|why| format!("{}: {why}", path.display()))?;
        for object in objects {
            let is_known = |other: &Value| {
                text(other, "kind") == text(&object, "kind") && object::name(other) == object::name(&object)
            };
            if all.iter().any(is_known) {
                return Err(format!("{}: {} exists twice", path.display(), shown(&object)));
            }
            all.push(object);
        }
    }
    check_bindings(&all)?;
    Ok(all)
}

/// Hidden files are those that editors and mounted volumes make.
fn is_meant(path: &Path) -> bool {
    let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned());
    !is_hidden && path.is_file() && extension.is_some_and(|it| matches!(it.as_str(), "yaml" | "yml" | "json"))
}

/// Returns the objects of a file: its documents, and the items of its lists.
fn read_file(path: &Path) -> Result<Vec<Value>, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > MOST {
        return Err(format!("it is larger than {MOST} bytes"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).map_err(|error| error.to_string())?;
    let mut objects = Vec::new();
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        if crate::value::text(&document, "kind") == "List" {
            objects.extend(entries(&document, "items").iter().cloned());
        } else {
            objects.push(document);
        }
    }
    Ok(objects)
}

/// Checks an object as a create would, and fills in its defaults.
fn checked(mut object: Value, registry: &Registry) -> Result<Value, String> {
    let name = shown(&object);
    let known = KINDS.iter().find(|(kind, _)| *kind == text(&object, "kind"));
    let expected = format!("{GROUP}/v1");
    let Some((_, plural)) = known.filter(|_| text(&object, "apiVersion") == expected) else {
        let kinds: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
        return Err(format!(
            "{name}: expected apiVersion {expected} and one of the kinds {}",
            kinds.join(", ")
        ));
    };
    let resource = registry.find(GROUP, "v1", plural).ok_or_else(|| format!("{plural} are not served"))?;
    if !object::name(&object).ends_with(STATIC_SUFFIX) {
        return Err(format!("{name}: metadata.name must end with {STATIC_SUFFIX:?}"));
    }
    let unknown = unknown_fields(resource, &mut object);
    if !unknown.is_empty() {
        return Err(format!("{name}: {}", unknown.join(", ")));
    }
    resource.schema.fill_in(&mut object);
    let mut errors = Vec::new();
    resource.schema.add_errors(&object, None, &mut errors);
    if errors.is_empty() {
        resource.strategy.prepare(&mut object, None);
        errors = resource.strategy.validate(&object, None);
    }
    if object.pointer("/spec/paramKind").is_some() {
        return Err(format!(
            "{name}: spec.paramKind is not supported in files, which do not depend on objects"
        ));
    }
    match errors.as_slice() {
        [] => Ok(object),
        errors => {
            let texts: Vec<String> = errors.iter().map(FieldError::to_string).collect();
            Err(format!("{name}: {}", texts.join("; ")))
        }
    }
}

/// Checks that each binding has a policy of a file.
fn check_bindings(all: &[Value]) -> Result<(), String> {
    let of_kind = |kind: &'static str| all.iter().filter(move |object| text(object, "kind") == kind);
    for (bindings, policies) in [
        ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"),
        ("MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicy"),
    ] {
        for binding in of_kind(bindings) {
            let policy = binding.pointer("/spec/policyName").and_then(Value::as_str).unwrap_or_default();
            if !of_kind(policies).any(|known| object::name(known) == policy) {
                return Err(format!(
                    "{}: spec.policyName: no file has the {policies} {policy:?}",
                    shown(binding)
                ));
            }
        }
    }
    Ok(())
}

fn shown(object: &Value) -> String {
    let kind = object.get("kind").cloned().unwrap_or_else(|| json!("object without a kind"));
    format!("{} {:?}", kind.as_str().unwrap_or("object"), object::name(object))
}
