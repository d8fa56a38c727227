//! Schemas of all kinds, packed by `build.rs`.

use apiserver_types::Descriptor;
use flate2::read::DeflateDecoder;
use serde_json::Value;

// `PACKED`: names, and the schemas as JSON in DEFLATE.
include!(concat!(env!("OUT_DIR"), "/schemas.rs"));

/// Returns the schema of a kind in one version. Every call unpacks it again.
pub(crate) fn of(descriptor: &Descriptor) -> Value {
    named(&format!("{}/{}/{}", descriptor.group, descriptor.version, descriptor.kind))
}

/// Returns the schema of an action's request body, by the kind of the body.
pub(crate) fn body(kind: &str) -> Value {
    named(kind)
}

/// Returns null for a name that was not packed. Null is no schema and rejects every object; a test checks that all
/// names are packed.
fn named(name: &str) -> Value {
    let packed =
        PACKED.iter().find(|(known, _)| *known == name).map(|(_, packed)| *packed).unwrap_or_default();
    serde_json::from_reader(std::io::BufReader::new(DeflateDecoder::new(packed))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use apiserver_machinery::open_api;

    #[test]
    fn embedded_schemas_match_the_types() {
        for descriptor in apiserver_types::DESCRIPTORS {
            assert_eq!(
                Some(super::of(descriptor)),
                apiserver_types::schema(descriptor),
                "{}",
                descriptor.kind
            );
        }
        for (kind, schema) in apiserver_types::bodies().into_iter().chain(apiserver_types::verb_bodies()) {
            assert_eq!(super::body(kind), schema, "{kind}");
        }
    }

    #[test]
    fn a_verb_with_the_body_of_its_kind_leaves_the_schema_of_the_kind() {
        let registry = crate::registry();
        for resource in registry.resources() {
            let document = open_api::v3(&registry, &resource.group, &resource.version);
            let name = open_api::schema_name(&resource.group, &resource.version, &resource.kind);
            for part in ["spec", "status"] {
                let expected = resource.schema.published()["properties"][part].clone();
                assert_eq!(document["components"]["schemas"][&name]["properties"][part], expected, "{name}");
            }
        }
    }

    #[test]
    fn every_action_has_a_body_schema() {
        for resource in crate::registry().resources() {
            for verb in &resource.verbs {
                let schema = verb.request_schema().published();
                assert!(schema.is_object(), "{}: {} is not in bodies()", verb.name(), verb.request_kind().2);
            }
        }
    }
}
