//! Provenance of a release, as a statement of in-toto with the predicate of SLSA. It has no time, so that two builds write the
//! same. It is not signed.

use serde_json::{Value, json};

use super::source::Source;
use super::sums::Sums;

const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "https://slsa.dev/provenance/v1";

/// Identifiers of the procedure and of the program that follows it. Nothing is served there.
const PROCEDURE: &str = "https://capstan.dev/release/v1";
const BUILDER: &str = "https://capstan.dev/xtask/release";

/// Returns the statement about the files of a release.
pub(super) fn statement(version: &str, source: &Source, subjects: &Sums) -> Value {
    let sha256 = |(name, sum): (&String, &String)| json!({"name": name, "digest": {"sha256": sum}});
    let commit = json!({"name": "capstan", "digest": {"gitCommit": source.commit},
        "annotations": {"modified": source.is_modified}});
    let mut dependencies = vec![commit];
    dependencies.extend(source.pins.iter().map(sha256));
    json!({
        "_type": STATEMENT,
        "subject": subjects.iter().map(sha256).collect::<Vec<_>>(),
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": PROCEDURE,
                "externalParameters": {"version": version},
                "internalParameters": source.tools,
                "resolvedDependencies": dependencies,
            },
            "runDetails": {"builder": {"id": BUILDER}},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statement_names_each_file_the_commit_and_the_pins() {
        let sums = |name: &str| Sums::from([(name.to_owned(), "ab12".to_owned())]);
        let source = Source {
            commit: "cf5e46a8".to_owned(),
            is_modified: false,
            pins: sums("Cargo.lock"),
            tools: [("rustc", "rustc 1.95.0".to_owned())].into(),
        };
        let statement = statement("0.1.0", &source, &sums("capstan-0.1.0-linux-amd64"));
        let subject = json!([{"name": "capstan-0.1.0-linux-amd64", "digest": {"sha256": "ab12"}}]);
        assert_eq!(statement["subject"], subject);
        let definition = &statement["predicate"]["buildDefinition"];
        assert_eq!(definition["resolvedDependencies"][0]["digest"]["gitCommit"], "cf5e46a8");
        assert_eq!(definition["resolvedDependencies"][1]["name"], "Cargo.lock");
        assert_eq!(definition["internalParameters"]["rustc"], "rustc 1.95.0");
        assert_eq!(definition["externalParameters"]["version"], "0.1.0");
    }

    #[test]
    fn the_inputs_of_this_checkout_can_be_read() {
        let source = Source::read().unwrap();
        assert_eq!(source.commit.len(), 40, "{}", source.commit);
        assert!(source.pins.contains_key("Cargo.lock"));
    }
}
