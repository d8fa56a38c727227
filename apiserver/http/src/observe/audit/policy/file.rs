//! File of an audit policy: its form in YAML or JSON, and its checks.

use apiserver_machinery::metadata::subdomain_errors;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::rule::{ALL, GroupResources, Rule};
use super::{Level, Policy, Stages, sealed};
use crate::observe::audit::Stage;
use crate::request::yaml;

const API_VERSION: &str = "audit.k8s.io/v1";

const KIND: &str = "Policy";

const LEVELS: [&str; 4] = ["None", "Metadata", "Request", "RequestResponse"];

const STAGES: [&str; 4] = ["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"];

/// Form of the file. Unknown fields are errors: a misspelt restriction would widen a rule.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PolicyFile {
    api_version: String,
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: Option<IgnoredAny>,
    #[serde(default)]
    rules: Vec<RuleFile>,
    #[serde(default)]
    omit_stages: Vec<String>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RuleFile {
    level: String,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupFile>,
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    paths: Vec<String>,
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct GroupFile {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

impl Policy {
    /// Reads a policy in YAML or JSON: `audit.k8s.io/v1` `Policy`.
    ///
    /// # Errors
    /// The text names the first field that is unknown or invalid. Among others, a rule may not name a resource whose
    /// bodies are secrets with a level that records bodies.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: PolicyFile =
            serde_saphyr::from_str_with_options(text, yaml::options()).map_err(|error| error.to_string())?;
        if file.api_version != API_VERSION || file.kind != KIND {
            let (version, kind) = (&file.api_version, &file.kind);
            return Err(format!(
                "expected apiVersion {API_VERSION} and kind {KIND}, found {version:?} and {kind:?}"
            ));
        }
        if file.rules.is_empty() {
            return Err("rules: Required value: a policy without rules records nothing".to_owned());
        }
        let mut errors = Vec::new();
        let omitted = stages(&file.omit_stages, &FieldPath::new("omitStages"), &mut errors);
        let at = FieldPath::new("rules");
        let rules = file.rules.into_iter().enumerate();
        let rules =
            rules.filter_map(|(index, rule)| read_rule(rule, &at.index(index), &mut errors)).collect();
        match errors.first() {
            Some(error) => Err(error.to_string()),
            None => Ok(Self { rules: Some(rules), omitted, omits_managed_fields: file.omit_managed_fields }),
        }
    }
}

fn read_rule(file: RuleFile, at: &FieldPath, errors: &mut Vec<FieldError>) -> Option<Rule> {
    let omitted = stages(&file.omit_stages, &at.child("omitStages"), errors);
    check_paths(&file, &at.child("nonResourceURLs"), errors);
    let Some(level) = Level::parse(&file.level) else {
        let at = at.child("level");
        errors.push(match file.level.as_str() {
            "" => FieldError::required(at, ""),
            other => FieldError::not_supported(at, &json!(other), &LEVELS),
        });
        return None;
    };
    for (index, group) in file.resources.iter().enumerate() {
        check_group(group, level, &at.child("resources").index(index), errors);
    }
    let resources = file.resources.into_iter().map(|group| GroupResources {
        group: group.group,
        resources: group.resources,
        names: group.resource_names,
    });
    Some(Rule {
        level,
        users: file.users,
        groups: file.user_groups,
        verbs: file.verbs,
        resources: resources.collect(),
        namespaces: file.namespaces,
        paths: file.paths,
        omitted,
        omits_managed_fields: file.omit_managed_fields,
    })
}

fn stages(words: &[String], at: &FieldPath, errors: &mut Vec<FieldError>) -> Stages {
    let stage = |(index, word): (usize, &String)| {
        let stage = Stage::parse(word);
        if stage.is_none() {
            errors.push(FieldError::not_supported(at.index(index), &json!(word), &STAGES));
        }
        stage
    };
    words.iter().enumerate().filter_map(stage).collect()
}

fn check_paths(file: &RuleFile, at: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, path) in file.paths.iter().enumerate().filter(|(_, path)| *path != ALL) {
        let wrong = if !path.starts_with('/') {
            "must begin with a /, or be * alone"
        } else if path.trim_end_matches(ALL).contains(ALL) || path.ends_with("**") {
            "may have one *, at its end"
        } else {
            continue;
        };
        errors.push(FieldError::invalid_text(at.index(index), path, wrong));
    }
    let is_of_objects = !file.resources.is_empty() || !file.namespaces.is_empty();
    if !file.paths.is_empty() && is_of_objects {
        let why = "a rule is either for paths, or for resources and namespaces";
        errors.push(FieldError::invalid(at.clone(), &json!(file.paths), why));
    }
}

fn check_group(group: &GroupFile, level: Level, at: &FieldPath, errors: &mut Vec<FieldError>) {
    if !group.group.is_empty() && !subdomain_errors(&group.group).is_empty() {
        let why = "must be the name of an API group, without version, or empty for the core group";
        errors.push(FieldError::invalid_text(at.child("group"), &group.group, why));
    }
    if group.resources.is_empty() && !group.resource_names.is_empty() {
        let why = "must name at least one resource, because resourceNames is set";
        errors.push(FieldError::required(at.child("resources"), why));
    }
    let records_bodies = level > Level::Metadata;
    for (index, pattern) in group.resources.iter().enumerate() {
        if records_bodies && sealed::is_named(&group.group, pattern) {
            let why = format!("bodies of {pattern:?} are secrets: use level Metadata, or remove it here");
            errors.push(FieldError::forbidden(at.child("resources").index(index), &why));
        }
    }
}
