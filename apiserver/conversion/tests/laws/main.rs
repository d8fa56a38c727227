//! Property tests of every conversion, with random objects of every kind that has an older version.
//!
//! `CAPSTAN_KIND=MachineSet cargo test -p apiserver-conversion --test laws` tests one kind. `PROPTEST_CASES=1000` tests
//! more objects, and `CAPSTAN_SEED=7` other ones.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::as_conversions,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking"
)]

mod edit;
#[path = "../generator/mod.rs"]
mod generator;

use apiserver_conversion::{Lossless, conversion};
use apiserver_schema::Schema;
use apiserver_schema::field_errors::FieldPath;
use apiserver_types::{DESCRIPTORS, Descriptor};
use generator::{Width, objects};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::Value;

/// Kind in an older version and in the stored one.
struct Pair {
    older: Descriptor,
    stored: Descriptor,
    conversion: Lossless,
}

impl Pair {
    fn name(&self) -> String {
        format!("{} {}", self.older.kind, self.older.version)
    }
}

/// Returns every kind with a conversion, or the requested one.
fn pairs() -> Vec<Pair> {
    let wanted = std::env::var("CAPSTAN_KIND").ok();
    let pair = |older: &Descriptor| {
        let conversion = conversion(older.group, older.kind, older.version)?;
        let is_same = |other: &&Descriptor| (other.group, other.kind) == (older.group, older.kind);
        let stored = *DESCRIPTORS.iter().find(is_same)?;
        Some(Pair { older: *older, stored, conversion })
    };
    let pairs = DESCRIPTORS.iter().filter_map(pair);
    let pairs: Vec<Pair> =
        pairs.filter(|pair| wanted.as_deref().is_none_or(|kind| kind == pair.older.kind)).collect();
    assert!(!pairs.is_empty(), "no kind {wanted:?} has an older version");
    pairs
}

/// Tests a law with many objects, and reports the smallest counterexample.
fn holds<T: std::fmt::Debug>(
    pair: &Pair,
    of: impl Strategy<Value = T>,
    law: impl Fn(T) -> Result<(), String>,
) {
    let asked = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let config = Config {
        cases: asked("PROPTEST_CASES").unwrap_or(12),
        rng_seed: RngSeed::Fixed(asked("CAPSTAN_SEED").map_or(1, u64::from)),
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    let result = runner.run(&of, |object| law(object).map_err(TestCaseError::fail));
    if let Err(error) = result {
        panic!("{}: {error}", pair.name());
    }
}

fn same(found: &Value, expected: &Value, what: &str) -> Result<(), String> {
    let (found, expected) = (edit::without_notes(found), edit::without_notes(expected));
    let at = edit::first_difference(&found, &expected, "");
    at.map_or(Ok(()), |at| Err(format!("{what} differs at {at}\nfound    {found}\nexpected {expected}")))
}

#[test]
fn a_stored_object_survives_a_round_trip_through_the_older_version() {
    for pair in pairs() {
        holds(&pair, objects(&pair.stored, Width::Schema), |stored| {
            let served = pair.conversion.served(stored.clone());
            same(&pair.conversion.stored(served), &stored, "the stored object")
        });
    }
}

#[test]
fn an_older_object_survives_a_round_trip_through_the_stored_version() {
    for pair in pairs() {
        holds(&pair, objects(&pair.older, Width::Schema), |older| {
            let stored = pair.conversion.stored(older.clone());
            same(&pair.conversion.served(stored), &pair.conversion.defaulted(older), "the older object")
        });
    }
}

/// Returns every error of an object by the schema of its version.
fn errors(schema: &Schema, object: &Value) -> Result<(), String> {
    // As in the server, defaults come first: a version can require a field that it sets itself.
    let mut object = object.clone();
    schema.fill_in(&mut object);
    let errors: Vec<String> =
        schema.validate(&object, None, &FieldPath::default()).iter().map(ToString::to_string).collect();
    if errors.is_empty() { Ok(()) } else { Err(format!("{}\n{object}", errors.join("\n"))) }
}

#[test]
fn a_converted_object_is_valid_in_its_version() {
    for pair in pairs() {
        let [older, stored] = [&pair.older, &pair.stored]
            .map(|version| Schema::compile(&apiserver_types::schema(version).unwrap()).unwrap());
        holds(&pair, objects(&pair.stored, Width::Usual), |object| {
            errors(&stored, &object)?;
            errors(&older, &pair.conversion.served(object))
        });
        holds(&pair, objects(&pair.older, Width::Usual), |object| {
            errors(&older, &object)?;
            errors(&stored, &pair.conversion.stored(object))
        });
    }
}

/// The schema of the other version knows every field of the generated object. An unknown field would be pruned.
#[test]
fn a_converted_object_has_no_unknown_field() {
    for pair in pairs() {
        let [older, stored] = [&pair.older, &pair.stored]
            .map(|version| Schema::compile(&apiserver_types::schema(version).unwrap()).unwrap());
        let known = |schema: &Schema, object: Value| {
            let mut pruned = edit::body(&object);
            let unknown = schema.prune(&mut pruned, &FieldPath::default());
            if unknown.is_empty() { Ok(()) } else { Err(format!("unknown: {unknown:?}\n{object}")) }
        };
        holds(&pair, objects(&pair.stored, Width::Schema), |object| {
            known(&older, pair.conversion.served(object))
        });
        holds(&pair, objects(&pair.older, Width::Schema), |object| {
            known(&stored, pair.conversion.stored(object))
        });
    }
}

#[test]
fn an_edit_in_the_older_version_reaches_the_stored_object() {
    for pair in pairs() {
        let edits = (objects(&pair.stored, Width::Usual), any::<prop::sample::Index>());
        holds(&pair, edits, |(object, place)| {
            let seen = pair.conversion.served(object);
            let Some(changed) = edit::changed(&seen, place) else { return Ok(()) };
            let arrived = pair.conversion.stored(changed.clone());
            let plain = |object: &Value| pair.conversion.stored(edit::without_notes(object));
            edit::arrives(&plain(&seen), &plain(&changed), &arrived)
        });
    }
}

#[test]
fn an_edit_in_the_stored_version_reaches_the_older_object() {
    for pair in pairs() {
        let edits = (objects(&pair.older, Width::Usual), any::<prop::sample::Index>());
        holds(&pair, edits, |(object, place)| {
            let kept = pair.conversion.stored(object);
            let Some(changed) = edit::changed(&kept, place) else { return Ok(()) };
            let seen = pair.conversion.served(changed.clone());
            let plain = |object: &Value| pair.conversion.served(edit::without_notes(object));
            edit::arrives(&plain(&kept), &plain(&changed), &seen)
        });
    }
}
