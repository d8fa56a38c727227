//! Generators of texts and numbers.

use proptest::prelude::*;
use proptest::string::string_regex;
use serde_json::Value;

use super::Width;

/// Longest text without a bound of its own.
const LONG: u64 = 12;

pub(super) fn text(schema: &Value, width: Width) -> BoxedStrategy<Value> {
    match schema["format"].as_str() {
        Some("date-time") => return moment(),
        Some("uuid") => return "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}".prop_map(Value::from).boxed(),
        Some("ipv4") => return "10([.][1-9][0-9]){3}".prop_map(Value::from).boxed(),
        Some("byte") => return "([A-Za-z0-9+/]{4}){1,3}".prop_map(Value::from).boxed(),
        _ => {}
    }
    let least = schema["minLength"].as_u64().unwrap_or(0).max(u64::from(width == Width::Usual));
    let most = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
    if let Some(pattern) = schema["pattern"].as_str() {
        return matching(pattern, least, most);
    }
    let most = most.min(least + LONG);
    let letters = if width == Width::Usual { "[a-z0-9]" } else { "[ -~äß☃\\n]" };
    string_regex(&format!("{letters}{{{least},{most}}}")).unwrap().prop_map(Value::from).boxed()
}

/// Returns a generator of texts that match a pattern within a length.
fn matching(pattern: &str, least: u64, most: u64) -> BoxedStrategy<Value> {
    // The generator does not know anchors, and repeats without bound up to 32 times.
    let inner = pattern.trim_start_matches('^').trim_end_matches('$').replace("\\/", "/");
    let short = [("]*", "]{0,3}"), (")*", "){0,2}"), ("]+", "]{1,3}"), (")+", "){1,2}")];
    let inner = short.iter().fold(inner, |text, (from, to)| text.replace(from, to));
    let texts = string_regex(&inner).unwrap_or_else(|error| panic!("{pattern}: {error}"));
    let fits = move |text: &String| (least..=most).contains(&u64::try_from(text.chars().count()).unwrap());
    texts.prop_filter("longer or shorter than the schema admits", fits).prop_map(Value::from).boxed()
}

fn moment() -> BoxedStrategy<Value> {
    (2020..2030, 1..=12, 1..=28, 0..24, 0..60, 0..60)
        .prop_map(|(year, month, day, hour, minute, second)| {
            format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z").into()
        })
        .boxed()
}

pub(super) fn integer(schema: &Value, width: Width) -> BoxedStrategy<Value> {
    let bound =
        |keyword: &str| schema[keyword].as_f64().map(|bound| format!("{bound:.0}").parse::<i64>().unwrap());
    let (edge, far) = match schema["format"].as_str() {
        Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (-(1 << 53), 1 << 53),
    };
    let least = bound("minimum").unwrap_or(if width == Width::Usual { 1 } else { edge });
    let most = bound("maximum").unwrap_or(far);
    match width {
        Width::Usual => (least..=most.min(least.saturating_add(1000))).prop_map(Value::from).boxed(),
        Width::Schema => prop_oneof![least..=most, Just(least), Just(most), Just(0.max(least).min(most))]
            .prop_map(Value::from)
            .boxed(),
    }
}
