//! Comparison of Capstan's verdicts about authentication files with those of a real kube-apiserver.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use apiserver_oidc::Configuration;
use tests_conformance::authentication::{
    AuthenticationCase, AuthenticationCases, OWN_ISSUER, RecordedFile, RecordedFiles,
};

/// Smallest number of files of each verdict.
const LEAST: usize = 60;

/// Returns the path of a file of the suite. The variable is read at run time: a build directory may be shared with
/// another checkout.
fn path(name: &str) -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("authentication").join(name)
}

fn cases() -> AuthenticationCases {
    AuthenticationCase::load(&path("cases")).unwrap_or_else(|error| panic!("{error:#}"))
}

/// Returns Capstan's error, if it refuses the file.
fn error(text: &str) -> Option<String> {
    Configuration::parse(text, &[OWN_ISSUER]).err().map(|error| error.to_string())
}

/// Returns the fields of errors, each with the kind of its error, as in `jwt[0].issuer.url: Required value`.
fn fields<'a>(errors: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let of_fields = errors.filter(|error| error.starts_with("jwt") || error.starts_with("anonymous"));
    of_fields.map(|error| error.splitn(3, ": ").take(2).collect::<Vec<_>>().join(": ")).collect()
}

/// Returns the names of the unknown fields in an error of strict decoding.
fn unknown(error: &str) -> Vec<&str> {
    let quoted = error.split("unknown field \"").skip(1).filter_map(|rest| rest.split('"').next());
    quoted.filter_map(|path| path.rsplit('.').next()).collect()
}

/// Fails unless the error names the fields of the recorded errors.
fn compare(id: &str, recorded: &RecordedFile, error: &str) {
    let expected = fields(recorded.errors.iter().map(String::as_str));
    if expected.is_empty() {
        for name in recorded.errors.iter().flat_map(|error| unknown(error)) {
            assert!(error.contains(name), "{id}: {error}\n{:?}", recorded.errors);
        }
        return;
    }
    assert_eq!(fields(error.split("; ")), expected, "{id}: {error}\n{:?}", recorded.errors);
}

#[test]
fn every_file_has_the_expected_verdict() {
    let cases = cases();
    for (id, case) in &cases {
        let error = error(&case.text());
        let expected = case.valid == case.difference.is_none();
        assert_eq!(error.is_none(), expected, "{id}: {error:?}\n{}", case.text());
    }
    let valid = cases.values().filter(|case| case.valid).count();
    assert!(valid >= LEAST && cases.len() - valid >= LEAST, "{valid} of {} are valid", cases.len());
}

#[test]
fn kube_apiserver_has_the_same_verdicts_with_errors_of_the_same_fields() {
    let recording = RecordedFiles::load(&path("recorded.json")).unwrap_or_else(|error| panic!("{error:#}"));
    let cases = cases();
    for (id, case) in &cases {
        let recorded = recording.of(id, case).unwrap_or_else(|error| panic!("{error:#}"));
        assert_eq!(recorded.errors.is_empty(), case.valid, "{id}: {:?}\n{}", recorded.errors, recorded.text);
        if let Some(error) = error(&case.text()).filter(|_| !case.valid) {
            compare(id, recorded, &error);
        }
    }
    assert_eq!(recording.len(), cases.len(), "a recorded case is gone: record again");
}

#[test]
fn errors_of_the_same_fields_are_equal() {
    let errors = ["jwt[0].issuer.url: Invalid value: \"a: b\": bad", "jwt: Too many: 65: must", "remove it"];
    let expected = ["jwt: Too many", "jwt[0].issuer.url: Invalid value"].map(str::to_owned);
    assert_eq!(fields(errors.into_iter()), BTreeSet::from(expected));
    assert_eq!(unknown("strict: unknown field \"jwt[0].issuer.uri\", unknown field \"a\""), ["uri", "a"]);
}
