//! Label selectors: their text form, and the objects that they select.

use std::collections::BTreeMap;

use apiserver_types::{LabelSelector, LabelSelectorRequirement};

/// Returns true if labels fulfil all terms of a selector. A selector without terms selects nothing here: no owner means
/// to own every object of its namespace.
pub(crate) fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten();
    let terms = selector.match_expressions.iter().flatten();
    let is_empty = equal.clone().next().is_none() && terms.clone().next().is_none();
    !is_empty
        && equal.clone().all(|(key, value)| labels.get(key) == Some(value))
        && terms.clone().all(|term| fulfils(term, labels.get(&term.key)))
}

/// Returns the text form of a selector, as in `status.selector`: the terms in order of their keys.
pub(crate) fn text(selector: &LabelSelector) -> String {
    let equal = selector.match_labels.iter().flatten();
    let equal = equal.map(|(key, value)| (key.clone(), format!("{key}={value}")));
    let terms = selector.match_expressions.iter().flatten().map(|term| (term.key.clone(), term_text(term)));
    let mut terms: Vec<(String, String)> = equal.chain(terms).collect();
    terms.sort();
    terms.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

fn fulfils(term: &LabelSelectorRequirement, label: Option<&String>) -> bool {
    let is_among = label.is_some_and(|label| term.values.iter().flatten().any(|value| value == label));
    match term.operator.as_str() {
        "In" => is_among,
        "NotIn" => !is_among,
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        _ => false,
    }
}

fn term_text(term: &LabelSelectorRequirement) -> String {
    let mut values: Vec<&str> = term.values.iter().flatten().map(String::as_str).collect();
    values.sort_unstable();
    let (key, values) = (&term.key, values.join(","));
    match term.operator.as_str() {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "DoesNotExist" => format!("!{key}"),
        _ => key.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn term(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
        let values = (!values.is_empty()).then(|| values.iter().map(|value| (*value).to_owned()).collect());
        LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
    }

    #[test]
    fn all_terms_select_together_and_no_term_selects_nothing() {
        let selector = LabelSelector {
            match_labels: Some(labels(&[("z", "1")])),
            match_expressions: Some(vec![term("a", "In", &["y", "x"]), term("b", "DoesNotExist", &[])]),
        };
        assert_eq!(text(&selector), "a in (x,y),!b,z=1");
        assert!(selects(&selector, &labels(&[("z", "1"), ("a", "x"), ("other", "")])));
        assert!(!selects(&selector, &labels(&[("z", "1"), ("a", "x"), ("b", "")])));
        assert!(!selects(&selector, &labels(&[("z", "2"), ("a", "x")])));
        assert!(!selects(&selector, &labels(&[("z", "1")])));
        assert!(!selects(&LabelSelector::default(), &labels(&[("z", "1")])));
    }
}
