//! Weights of namespaces in the queues of the controllers.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

use crate::is_object_name;

/// Values of a weight.
const RANGE: RangeInclusive<u8> = 1..=100;

/// Weight of a namespace that has none.
const DEFAULT: u8 = 1;

/// Number of passes of each namespace in its turn, in the queue of each controller. Default: 1 for each namespace.
#[derive(Debug, Clone, Default)]
pub struct NamespaceWeights(HashMap<String, u8>);

impl NamespaceWeights {
    /// Creates the weights of these namespaces. Range: 1 to 100.
    ///
    /// # Errors
    /// The first name that no namespace can have, or the first weight out of range.
    pub fn new(weights: &BTreeMap<String, i64>) -> Result<Self, String> {
        weights
            .iter()
            .map(|(namespace, weight)| checked(namespace, *weight))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns the weight of a namespace.
    pub fn of(&self, namespace: &str) -> u8 {
        self.0.get(namespace).copied().unwrap_or(DEFAULT)
    }
}

fn checked(namespace: &str, weight: i64) -> Result<(String, u8), String> {
    if !is_object_name(namespace) {
        return Err(format!("no namespace can have the name {namespace:?}"));
    }
    let in_range = u8::try_from(weight).ok().filter(|weight| RANGE.contains(weight));
    let Some(weight) = in_range else {
        let (least, most) = (*RANGE.start(), *RANGE.end());
        return Err(format!("the weight of {namespace} must be from {least} to {most}, not {weight}"));
    };
    Ok((namespace.to_owned(), weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(namespace: &str, weight: i64) -> Result<NamespaceWeights, String> {
        NamespaceWeights::new(&BTreeMap::from([(namespace.to_owned(), weight)]))
    }

    #[test]
    fn a_weight_is_from_1_to_100_and_1_by_default() {
        for weight in [1_u8, 2, 100] {
            let weights = read("team-a", i64::from(weight)).unwrap();
            assert_eq!((weights.of("team-a"), weights.of("team-b")), (weight, 1));
        }
        for weight in [0, -1, 101, 257] {
            let error = read("team-a", weight).unwrap_err();
            assert_eq!(error, format!("the weight of team-a must be from 1 to 100, not {weight}"));
        }
    }

    #[test]
    fn a_name_that_no_namespace_can_have_is_refused() {
        for name in ["", "Team", "team/a"] {
            let error = read(name, 2).unwrap_err();
            assert_eq!(error, format!("no namespace can have the name {name:?}"));
        }
    }
}
