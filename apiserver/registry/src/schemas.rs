//! The schemas of all kinds, as `build.rs` made them from the types.

use apiserver_types::Descriptor;
use flate2::read::DeflateDecoder;
use serde_json::Value;

// `PACKED`: names, and the schemas behind them as JSON in DEFLATE.
include!(concat!(env!("OUT_DIR"), "/schemas.rs"));

/// The schema of a kind in one version. Unpacked and read anew each time.
pub(crate) fn of(descriptor: &Descriptor) -> Value {
    named(&format!("{}/{}/{}", descriptor.group, descriptor.version, descriptor.kind))
}

/// The schema of what a verb is sent, by the kind of that; it stands in `bodies()` of the types.
pub(crate) fn body(kind: &str) -> Value {
    named(kind)
}

/// Null, which is no schema and refuses every object, for what was not packed; a test looks for all.
fn named(name: &str) -> Value {
    let packed =
        PACKED.iter().find(|(known, _)| *known == name).map(|(_, packed)| *packed).unwrap_or_default();
    serde_json::from_reader(std::io::BufReader::new(DeflateDecoder::new(packed))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_packed_is_what_the_types_say() {
        for descriptor in apiserver_types::DESCRIPTORS {
            assert_eq!(
                Some(super::of(descriptor)),
                apiserver_types::schema(descriptor),
                "{}",
                descriptor.kind
            );
        }
        for (kind, schema) in apiserver_types::bodies() {
            assert_eq!(super::body(kind), schema, "{kind}");
        }
    }

    #[test]
    fn every_verb_has_the_schema_of_its_body() {
        for resource in crate::registry().resources() {
            for verb in &resource.verbs {
                let schema = verb.request_schema().published();
                assert!(schema.is_object(), "{}: {} is not in bodies()", verb.name(), verb.request_kind().2);
            }
        }
    }
}
