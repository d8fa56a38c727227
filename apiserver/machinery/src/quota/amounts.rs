//! Amounts by name.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{canonical, whole};

/// Amounts by name, such as the number of objects of a kind. An amount that is absent is zero, except in limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<String, i64>);

impl Amounts {
    /// Returns the amounts of a map of quantities. Entries that are no quantities are left out.
    pub fn of(quantities: &Value) -> Self {
        let entries = quantities.as_object().into_iter().flatten();
        Self(entries.filter_map(|(name, value)| Some((name.clone(), whole(value)?))).collect())
    }

    /// Adds an amount.
    pub fn add(&mut self, name: &str, amount: i64) {
        let sum = self.0.entry(name.to_owned()).or_default();
        *sum = sum.saturating_add(amount);
    }

    /// Adds all amounts of `other`.
    pub fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, amount)| self.add(name, *amount));
    }

    /// Returns an amount; `None` if it is absent.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.0.get(name).copied()
    }

    /// Returns an amount, or zero.
    pub fn of_name(&self, name: &str) -> i64 {
        self.get(name).unwrap_or_default()
    }

    /// Returns the names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns true if there are no amounts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the positive differences to the amounts before.
    #[must_use]
    pub fn growth(&self, before: &Self) -> Self {
        let differences =
            self.0.iter().map(|(name, amount)| (name, amount.saturating_sub(before.of_name(name))));
        Self(differences.filter(|(_, grown)| *grown > 0).map(|(name, grown)| (name.clone(), grown)).collect())
    }

    /// Returns the amounts of these names.
    #[must_use]
    pub fn only(&self, is_kept: impl Fn(&str) -> bool) -> Self {
        Self(
            self.0
                .iter()
                .filter(|(name, _)| is_kept(name))
                .map(|(name, amount)| (name.clone(), *amount))
                .collect(),
        )
    }

    /// Returns the amounts of these names as an error has them.
    pub(super) fn text(&self, names: &[&str]) -> String {
        let texts = names.iter().map(|name| format!("{name}={}", canonical(self.of_name(name))));
        texts.collect::<Vec<_>>().join(",")
    }

    /// Returns the amounts as a map of quantities.
    pub fn to_value(&self) -> Value {
        let entries = self.0.iter().map(|(name, amount)| (name.clone(), json!(canonical(*amount))));
        Value::Object(entries.collect::<Map<_, _>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_growth_is_requested() {
        let before = Amounts::of(&json!({"a": 3, "b": 2, "c": 1}));
        let after = Amounts::of(&json!({"a": 5, "b": 2, "d": "1k"}));
        assert_eq!(after.growth(&before), Amounts::of(&json!({"a": 2, "d": 1000})));
        assert_eq!(after.only(|name| name == "d").to_value(), json!({"d": "1k"}));
    }
}
