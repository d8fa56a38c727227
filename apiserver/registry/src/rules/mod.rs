//! Rules that several kinds share: immutability, versions, names, selectors and templates.

pub(crate) mod admission_rules;
pub(crate) mod data_key;
pub(crate) mod grants;
pub(crate) mod immutable;
pub(crate) mod json_fields;
pub(crate) mod label_selection;
pub(crate) mod label_selector;
pub(crate) mod machine_owner;
pub(crate) mod machine_template;
pub(crate) mod name_template;
pub(crate) mod names;
pub(crate) mod path_segment;
pub(crate) mod provider_id_region;
pub(crate) mod quota_shortage;
pub(crate) mod quota_usage;
pub(crate) mod replicas;
pub(crate) mod rollout;
pub(crate) mod semver;
pub(crate) mod template_metadata;
pub(crate) mod uri;
pub(crate) mod used_identities;
pub(crate) mod version;
