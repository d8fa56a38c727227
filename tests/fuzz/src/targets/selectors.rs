//! Targets for selectors. A parsed selector has no text form to compare with, so the check is that texts with
//! the same meaning select the same.

use apiserver_machinery::selectors::{FieldSelector, LabelSelector};
use serde_json::{Map, Value};

use crate::finding::{Verdict, demand};

/// Selectable fields beside name and namespace.
const SELECTABLE: [&str; 2] = ["spec.nodeName", "type"];

/// Returns the input as text; invalid UTF-8 is refused before a selector is parsed.
fn text(input: &[u8]) -> String {
    String::from_utf8_lossy(input).into_owned()
}

/// Returns labels for the check: the words of the selector itself, in pairs.
fn labels_of(text: &str) -> Map<String, Value> {
    let is_sign = |character: char| " ,=!()<>".contains(character);
    let words: Vec<&str> = text.split(is_sign).filter(|word| !word.is_empty()).take(64).collect();
    let pair = |pair: &[&str]| Some((pair.first()?.to_string(), Value::from(pair.get(1).copied()?)));
    words.windows(2).filter_map(pair).collect()
}

pub(super) fn labels(input: &[u8]) -> Verdict {
    let text = text(input);
    let selector = match LabelSelector::parse(&text) {
        Ok(selector) => selector,
        Err(refusal) => return refused(&text, &refusal),
    };
    let again = LabelSelector::parse(&format!(" \t{text}\r\n "));
    demand(again.as_ref() == Ok(&selector), || format!("space around {text:?} makes it {again:?}"))?;
    if selector.is_empty() {
        return Ok(());
    }
    let twice = LabelSelector::parse(&format!("{text},{text}"))
        .map_err(|error| crate::Finding(format!("{text:?} is valid once and not twice: {error}")))?;
    for labels in [None, Some(&Map::new()), Some(&labels_of(&text))] {
        let same = selector.matches(labels) == twice.matches(labels);
        demand(same, || format!("{text:?} selects other labels if it occurs twice: {labels:?}"))?;
    }
    Ok(())
}

pub(super) fn fields(input: &[u8]) -> Verdict {
    let text = text(input);
    let selector = match FieldSelector::parse(&text, &SELECTABLE) {
        Ok(selector) => selector,
        Err(refusal) => return refused(&text, &refusal),
    };
    let again = FieldSelector::parse(&format!("{text},"), &SELECTABLE);
    // The comma may be part of the last value.
    if !text.ends_with('\\') {
        demand(again.as_ref() == Ok(&selector), || format!("an empty term makes {text:?} {again:?}"))?;
    }
    if let Some(name) = selector.name().map(str::to_owned) {
        let escaped = name.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        let read = FieldSelector::parse(&format!("metadata.name={escaped}"), &[]);
        let found = read.as_ref().ok().and_then(FieldSelector::name);
        demand(found == Some(&name), || format!("the name {name:?} of {text:?} is read as {found:?}"))?;
    }
    std::hint::black_box(selector.matches(|path| (path != "type").then(|| text.clone())));
    Ok(())
}

fn refused(text: &str, refusal: &apiserver_machinery::status::ApiError) -> Verdict {
    let has_message = refusal.code == 400 && !refusal.message.is_empty();
    demand(has_message, || format!("{text:?} is refused with {refusal:?}"))
}
