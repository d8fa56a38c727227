//! Label selectors of MachineDrainRules and of shared credentials.

use std::collections::BTreeMap;

use apiserver_types::{LabelSelector, LabelSelectorRequirement};

/// Returns true if labels fulfil all terms of a selector. No selector and no term match everything.
///
/// # Errors
/// A term cannot be evaluated.
pub fn matches(
    selector: Option<&LabelSelector>,
    labels: Option<&BTreeMap<String, String>>,
) -> Result<bool, String> {
    let Some(selector) = selector else { return Ok(true) };
    let label = |key: &str| labels.and_then(|labels| labels.get(key));
    let mut all = selector.match_labels.iter().flatten().all(|(key, value)| label(key) == Some(value));
    for term in selector.match_expressions.iter().flatten() {
        // Every term is evaluated: one that cannot be evaluated is an error for all objects alike.
        all &= fulfils(term, label(&term.key))?;
    }
    Ok(all)
}

fn fulfils(term: &LabelSelectorRequirement, label: Option<&String>) -> Result<bool, String> {
    let values = || {
        let values = term.values.as_deref().unwrap_or_default();
        if values.is_empty() {
            return Err(format!("the selector term for label {:?} has no values", term.key));
        }
        Ok(label.is_some_and(|label| values.contains(label)))
    };
    match term.operator.as_str() {
        "In" => values(),
        "NotIn" => values().map(|among| !among),
        "Exists" => Ok(label.is_some()),
        "DoesNotExist" => Ok(label.is_none()),
        other => Err(format!(
            "the selector term for label {:?} has the operator {other:?}; use In, NotIn, Exists or DoesNotExist",
            term.key
        )),
    }
}
