//! Templates of ClusterClasses whose fields name Secrets or OpenStackClusterIdentities. The controllers copy them into the
//! namespace of each Cluster, and read there what they name.

use apiserver_machinery::admission::UsedObject;
use serde_json::{Value, json};

use super::{used_identities, used_secrets};

/// Fields of a kind of templates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TemplateFields {
    kind: &'static str,
    /// Paths of the names of Secrets.
    secrets: &'static [&'static str],
    /// Paths of references to an identity or a Secret.
    identities: &'static [&'static str],
}

static TEMPLATES: [TemplateFields; 4] = [
    TemplateFields {
        kind: "KubeadmConfigTemplate",
        secrets: &used_secrets::OF_KUBEADM_CONFIG_TEMPLATE,
        identities: &[],
    },
    TemplateFields {
        kind: "KubeadmControlPlaneTemplate",
        secrets: &used_secrets::OF_CONTROL_PLANE_TEMPLATE,
        identities: &[],
    },
    TemplateFields {
        kind: "OpenStackClusterTemplate",
        secrets: &[],
        identities: &used_identities::OF_CLUSTER_TEMPLATE,
    },
    TemplateFields {
        kind: "OpenStackMachineTemplate",
        secrets: &[],
        identities: &used_identities::OF_MACHINE_TEMPLATE,
    },
];

/// Effect of a value at a path of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It names nothing.
    None,
    /// It names what it contains.
    Names,
    /// It is the type of a reference, so the name in the template becomes that of a Secret or of an identity.
    Completes,
}

/// Returns the fields of a kind of templates; `None` for a kind whose templates name nothing.
pub(crate) fn of(kind: &str) -> Option<&'static TemplateFields> {
    TEMPLATES.iter().find(|template| template.kind == kind)
}

impl TemplateFields {
    /// Returns true for a template with references that can also name an identity.
    pub(crate) fn has_identities(&self) -> bool {
        !self.identities.is_empty()
    }

    /// Returns what a template names, in the namespace that it has.
    pub(crate) fn used(&self, template: &Value) -> Vec<UsedObject> {
        let mut used = used_identities::at(template, self.identities);
        used.extend(used_secrets::at(template, self.secrets));
        used
    }

    /// Returns the effect of a value at this path, a pointer that begins with `/spec`.
    pub(crate) fn effect(&self, path: &str) -> Effect {
        let path = segments(path);
        let contains = |target: &str| is_prefix(&path, target);
        let mut names = self.secrets.iter().map(|target| (*target).to_owned());
        let mut references = self.identities.iter().map(|target| format!("{target}.name"));
        let mut types = self.identities.iter().map(|target| format!("{target}.type"));
        if names.any(|target| contains(&target)) || references.any(|target| contains(&target)) {
            Effect::Names
        } else if types.any(|target| contains(&target)) {
            Effect::Completes
        } else {
            Effect::None
        }
    }
}

/// Returns what a literal value at this path of a template names.
pub(crate) fn named_by(
    fields: &TemplateFields,
    path: &str,
    value: &Value,
    namespace: &str,
) -> Vec<UsedObject> {
    let around = |inner: Value, name: String| match is_index(&name) {
        true => json!([inner]),
        false => json!({ name: inner }),
    };
    let mut template = segments(path).into_iter().rev().fold(value.clone(), around);
    match template.as_object_mut() {
        Some(root) => root.insert("metadata".to_owned(), json!({"namespace": namespace})),
        None => return Vec::new(),
    };
    fields.used(&template)
}

/// Returns the names in a pointer.
fn segments(path: &str) -> Vec<String> {
    path.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~")).collect()
}

fn is_index(name: &str) -> bool {
    name == "-" || name.parse::<usize>().is_ok()
}

/// Returns true if a pointer leads to a field at a path, or to a value that contains it.
fn is_prefix(pointer: &[String], target: &str) -> bool {
    let target: Vec<&str> = target
        .split('.')
        .flat_map(|name| match name.strip_suffix("[]") {
            Some(list) => vec![list, "[]"],
            None => vec![name],
        })
        .collect();
    let is_same = |(name, wanted): (&String, &&str)| name == wanted || (*wanted == "[]" && is_index(name));
    pointer.len() <= target.len() && pointer.iter().zip(&target).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tm_05_a_path_that_leads_to_the_name_of_a_secret_has_an_effect() {
        for (kind, path, expected) in [
            ("KubeadmConfigTemplate", "/spec/template/spec/files/-", Effect::Names),
            ("KubeadmConfigTemplate", "/spec/template/spec/files/0/contentFrom", Effect::Names),
            ("KubeadmConfigTemplate", "/spec/template/spec/files/0/contentFrom/secret/name", Effect::Names),
            ("KubeadmConfigTemplate", "/spec/template/spec/files/0/contentFrom/secret/key", Effect::None),
            ("KubeadmConfigTemplate", "/spec/template/spec/files/0/content", Effect::None),
            ("KubeadmConfigTemplate", "/spec/template/spec/users", Effect::Names),
            ("KubeadmConfigTemplate", "/spec", Effect::Names),
            ("KubeadmConfigTemplate", "/spec/template/spec/preKubeadmCommands/-", Effect::None),
            ("KubeadmControlPlaneTemplate", "/spec/template/spec/kubeadmConfigSpec/files", Effect::Names),
            ("KubeadmControlPlaneTemplate", "/spec/template/spec/files", Effect::None),
            ("OpenStackMachineTemplate", "/spec/template/spec/identityRef", Effect::Names),
            ("OpenStackMachineTemplate", "/spec/template/spec/identityRef/name", Effect::Names),
            ("OpenStackMachineTemplate", "/spec/template/spec/identityRef/type", Effect::Completes),
            ("OpenStackMachineTemplate", "/spec/template/spec/identityRef/cloudName", Effect::None),
            ("OpenStackMachineTemplate", "/spec/template/spec/flavor", Effect::None),
            ("OpenStackClusterTemplate", "/spec/template/spec/bastion", Effect::Names),
            ("OpenStackClusterTemplate", "/spec/template/spec/tags", Effect::None),
        ] {
            assert_eq!(of(kind).unwrap().effect(path), expected, "{kind} {path}");
        }
        assert!(of("OpenStackServer").is_none());
    }

    #[test]
    fn tm_05_a_literal_value_names_what_it_contains_in_the_namespace() {
        let named = |kind: &str, path: &str, value: Value| -> Vec<(String, String)> {
            let used = named_by(of(kind).unwrap(), path, &value, "ns");
            used.into_iter().map(|used| (used.namespace, used.name)).collect()
        };
        let secret = |name: &str| vec![("ns".to_owned(), name.to_owned())];
        let file = json!({"path": "/a", "contentFrom": {"secret": {"name": "s", "key": "k"}}});
        let (files, bootstrap) = ("/spec/template/spec/files", "KubeadmConfigTemplate");
        assert_eq!(named(bootstrap, &format!("{files}/-"), file.clone()), secret("s"));
        assert_eq!(named(bootstrap, files, json!([file])), secret("s"));
        assert!(named(bootstrap, &format!("{files}/-"), json!({"path": "/a", "content": "s"})).is_empty());
        assert_eq!(named(bootstrap, &format!("{files}/0/contentFrom/secret/name"), json!("t")), secret("t"));
        let (reference, machine) = ("/spec/template/spec/identityRef", "OpenStackMachineTemplate");
        assert_eq!(named(machine, &format!("{reference}/name"), json!("s")), secret("s"));
        let shared = json!({"type": "ClusterIdentity", "name": "i", "cloudName": "c"});
        assert_eq!(named(machine, reference, shared), [(String::new(), "i".to_owned())]);
        assert!(named(machine, "", json!(7)).is_empty());
    }
}
