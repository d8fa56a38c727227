//! Record of what was set and corrected, in an annotation of the cluster, so that it survives a restart.

use std::collections::{BTreeMap, BTreeSet};

use apiserver_types::OpenStackCluster;
use jiff::Timestamp;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use super::super::applied_rules::short_hash;
use super::Correction;

/// Annotation with the record: a JSON object.
pub(in super::super) const ANNOTATION: &str = "capstan.dev/drift";

/// Number of corrections of one field in [`INTERVAL`] after which it is left alone.
const LIMIT: usize = 3;

/// Time in which corrections are counted. Unit: seconds.
const INTERVAL: i64 = 30 * 60;

/// Limit of the fields in the record, as an annotation must not grow without end. Further ones are corrected uncounted.
const FIELDS: usize = 64;

/// Values that were set for one generation of a spec, and the corrections since. Another generation begins it again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct Drift {
    /// Generation of the spec.
    generation: i64,
    /// Hashes of the wishes that the cloud had when the last complete pass ended.
    set: BTreeSet<String>,
    /// Times of the corrections by field. Unit: seconds since 1970.
    corrected: BTreeMap<String, Vec<i64>>,
    /// Fields that are not corrected any more.
    stopped: BTreeMap<String, Fight>,
}

/// End of the corrections of a field.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Fight {
    /// Condition of the part with the field.
    condition: String,
    /// Message for a person.
    message: String,
}

impl Drift {
    /// Reads the record of a cluster. One of another generation, or that cannot be parsed, counts as none.
    pub(in super::super) fn of(object: &OpenStackCluster) -> Self {
        let generation = object.metadata.generation.unwrap_or_default();
        let text = object.annotations().get(ANNOTATION);
        let known: Option<Self> = text.and_then(|text| serde_json::from_str(text).ok());
        let known = known.filter(|known| known.generation == generation);
        known.unwrap_or_else(|| Self { generation, ..Self::default() })
    }

    /// Returns the value of the annotation; `None` if nothing is recorded.
    pub(in super::super) fn text(&self) -> Option<String> {
        let is_empty = self.set.is_empty() && self.corrected.is_empty() && self.stopped.is_empty();
        (!is_empty).then(|| serde_json::to_string(self).unwrap_or_default())
    }

    /// Returns true if a correction sets what the cloud had when the last complete pass ended. Then another client has
    /// changed it; otherwise the wish is new.
    pub(in super::super) fn is_drift(&self, correction: &Correction) -> bool {
        self.set.contains(&short_hash(&correction.wish))
    }

    /// Counts a correction. Returns a message for a person if the field is left alone from now on.
    pub(in super::super) fn note(&mut self, correction: &Correction, now: Timestamp) -> Option<String> {
        let now = now.as_second();
        for times in self.corrected.values_mut() {
            times.retain(|at| now.saturating_sub(*at) <= INTERVAL);
        }
        self.corrected.retain(|_, times| !times.is_empty());
        let is_full = self.corrected.len().saturating_add(self.stopped.len()) >= FIELDS;
        if is_full && !self.corrected.contains_key(&correction.field) {
            return None;
        }
        let times = self.corrected.entry(correction.field.clone()).or_default();
        times.push(now);
        if times.len() < LIMIT {
            return None;
        }
        self.corrected.remove(&correction.field);
        let message = format!(
            "{}. That was correction {LIMIT} within {} minutes, so Capstan does not correct this field any more. Stop \
             the client that changes it. Then change the spec, or remove the annotation {ANNOTATION}",
            correction.text(),
            INTERVAL / 60
        );
        let fight = Fight { condition: correction.condition.to_owned(), message: message.clone() };
        self.stopped.insert(correction.field.clone(), fight);
        Some(message)
    }

    /// Notes the end of a complete pass over this generation of the spec, with the wishes that the cloud has.
    pub(in super::super) fn settle(&mut self, generation: i64, wishes: &[String]) {
        if self.generation != generation {
            *self = Self { generation, ..Self::default() };
        }
        self.set = wishes.iter().map(|wish| short_hash(wish)).collect();
    }

    /// Forgets what was set, until the end of the next complete pass.
    pub(in super::super) fn forget(&mut self) {
        self.set.clear();
    }

    /// Keeps only those stopped fields for which `is_kept` is true.
    pub(super) fn retain_stopped(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.stopped.retain(|field, _| is_kept(field));
    }

    /// Returns true if a field is not corrected any more.
    pub(in super::super) fn is_stopped(&self, field: &str) -> bool {
        self.stopped.contains_key(field)
    }

    /// Returns the messages about the fields of a part that are not corrected any more; `None` without any.
    pub(in super::super) fn fight(&self, condition: &str) -> Option<String> {
        let fights = self.stopped.values().filter(|fight| fight.condition == condition);
        let messages: Vec<&str> = fights.map(|fight| fight.message.as_str()).collect();
        (!messages.is_empty()).then(|| messages.join("; "))
    }
}
