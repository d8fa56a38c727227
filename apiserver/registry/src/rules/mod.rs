//! Rules that several kinds share: immutability, versions, names, selectors and templates.

pub(crate) mod admission_rules;
pub(crate) mod class_templates;
pub(crate) mod data_key;
pub(crate) mod failure_domain_spread;
pub(crate) mod grants;
pub(crate) mod immutable;
pub(crate) mod in_place_marks;
pub(crate) mod json_fields;
pub(crate) mod label_selection;
pub(crate) mod label_selector;
pub(crate) mod machine_owner;
pub(crate) mod machine_template;
pub(crate) mod name_template;
pub(crate) mod names;
pub(crate) mod path_segment;
mod plan_lines;
mod plan_preview;
pub(crate) mod plan_verb;
pub(crate) mod protection;
pub(crate) mod provider_id_region;
pub(crate) mod quota_shortage;
pub(crate) mod quota_usage;
pub(crate) mod replicas;
pub(crate) mod rollout;
pub(crate) mod rollout_settings;
pub(crate) mod rollout_verb;
pub(crate) mod semver;
#[cfg(test)]
pub(crate) mod stored_object;
pub(crate) mod template_metadata;
pub(crate) mod template_revision;
pub(crate) mod topology_replicas;
pub(crate) mod uri;
pub(crate) mod used_identities;
pub(crate) mod used_secrets;
pub(crate) mod version;
