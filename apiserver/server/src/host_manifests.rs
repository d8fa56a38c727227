//! Command `capstan host manifests`: the objects with which a host cluster serves Capstan's API groups.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use apiserver_admission::{GROUP, HostConfigurations, KINDS};
use apiserver_host::Options;
use apiserver_machinery::resource::Registry;
use serde_json::{Value, json};

use crate::assembly::Assembly;
use crate::cli::ManifestsArguments;
use crate::config;
use crate::output;
use crate::pki::{self, Authority};

/// Label of APIServices that kube-apiserver creates for CRDs.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Prints the objects as YAML documents.
pub(crate) fn run(arguments: &ManifestsArguments, assembly: &Assembly) -> anyhow::Result<()> {
    let data = config::data_directory(arguments.data_dir.as_deref())?;
    let ca = authority(&data)?;
    let registry = assembly.registry();
    let options = Options {
        namespace: arguments.namespace.clone(),
        service: arguments.service.clone(),
        external_name: arguments.external_name.clone(),
        port: arguments.port,
        ca,
        user: arguments.user.clone(),
        definitions: apiserver_registry::definitions(&registry, apiserver_registry::Serving::Elsewhere),
        mirror: arguments.mirror,
        write_secrets: arguments.write_secrets.clone(),
    };
    let mut objects = apiserver_host::manifests(&registry, &options);
    if let Some(kubeconfig) = &arguments.kubeconfig {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (served, left_out) = runtime.block_on(async {
            let client = apiserver_host::connect(kubeconfig).await?;
            anyhow::Ok((served_by_crds(&client, &registry).await?, replaced(&client).await?))
        })?;
        objects.retain(|object| !belongs_to(object, &served));
        explain(&served, &apiserver_host::manifests(&registry, &options))?;
        explain_replaced(&left_out)?;
    }
    Ok(output::print(&documents(&objects)?)?)
}

/// Returns the objects as YAML documents.
fn documents<'a>(objects: impl IntoIterator<Item = &'a Value>) -> anyhow::Result<String> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object)?);
    }
    Ok(text)
}

/// Returns the certificates of the CA that the host will trust. If the directory has none, creates one and prints a warning, because the user
/// may have named the wrong directory.
fn authority(data: &Path) -> anyhow::Result<String> {
    let is_new = Authority::is_missing(data);
    if is_new {
        Authority::open(data)?;
        writeln!(
            std::io::stderr().lock(),
            "{} held no CA. A new one was created there, and the manifests make the host trust only that CA.\n\
             Start the server with --data-dir {0}. If a server already runs, these manifests do not match it:\n\
             run this command again with the --data-dir of that server.",
            data.display()
        )?;
    }
    // After a rotation the file has the certificates of several CAs, and no key is beside it.
    pki::read(&data.join("pki/ca.crt"))
}

/// Returns Capstan's group-versions that the host already serves from its own CRDs.
async fn served_by_crds(client: &kube::Client, registry: &Registry) -> anyhow::Result<Vec<(String, String)>> {
    let mut served = Vec::new();
    for (group, versions) in registry.groups() {
        for version in versions.into_iter().filter(|_| !group.is_empty()) {
            let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{version}.{group}");
            let request = http::Request::get(path).body(Vec::new())?;
            match client.request::<Value>(request).await {
                Ok(found) => {
                    let label = found.pointer("/metadata/labels").and_then(|labels| labels.get(AUTOMANAGED));
                    if label == Some(&json!("true")) {
                        served.push((group.clone(), version));
                    }
                }
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error).context("cannot read the APIServices of the host"),
            }
        }
    }
    Ok(served)
}

/// Returns the host's admission configurations of providers that Capstan replaces, as `Kind/name`. A user who may not
/// read them sees none.
async fn replaced(client: &kube::Client) -> anyhow::Result<Vec<String>> {
    let mut objects = Vec::new();
    for (kind, plural) in KINDS {
        let request = http::Request::get(format!("/apis/{GROUP}/v1/{plural}")).body(Vec::new())?;
        let mut found = match client.request::<Value>(request).await {
            Ok(found) => found,
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => continue,
            Err(error) => return Err(error).context("cannot read the admission configurations of the host"),
        };
        let items = found["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        objects.extend(items.into_iter().map(|mut item| {
            item["kind"] = json!(kind);
            item
        }));
    }
    Ok(HostConfigurations::of(objects).left_out)
}

/// Prints which admission configurations of the host do not apply to Capstan's kinds.
fn explain_replaced(left_out: &[String]) -> std::io::Result<()> {
    if left_out.is_empty() {
        return Ok(());
    }
    let mut out = std::io::stderr().lock();
    writeln!(
        out,
        "these configurations belong to providers that Capstan replaces. Their rules are part of Capstan, so it never \
         calls them, also with host.admission: mirror:"
    )?;
    left_out.iter().try_for_each(|name| writeln!(out, "  {name}"))
}

/// Reports whether an object belongs to one of these group-versions, so that it must not be applied.
fn belongs_to(object: &Value, served: &[(String, String)]) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let spec =
        |field: &str| object.pointer(&format!("/spec/{field}")).and_then(Value::as_str).unwrap_or_default();
    match kind {
        "CustomResourceDefinition" => served.iter().any(|(group, _)| group == spec("group")),
        "APIService" => {
            served.iter().any(|(group, version)| group == spec("group") && version == spec("version"))
        }
        _ => false,
    }
}

/// Prints, for each group-version, how to switch it to Capstan and back.
fn explain(served: &[(String, String)], objects: &[Value]) -> anyhow::Result<()> {
    let mut out = std::io::stderr().lock();
    for (group, version) in served {
        let name = format!("{version}.{group}");
        let ours = objects.iter().find(|object| {
            object.get("kind") == Some(&json!("APIService"))
                && object.pointer("/metadata/name") == Some(&json!(name))
        });
        let spec = ours.and_then(|object| object.get("spec")).cloned().unwrap_or_default();
        let patch = json!({"metadata": {"labels": {AUTOMANAGED: Value::Null}}, "spec": spec});
        writeln!(
            out,
            "the host already serves {group}/{version} from its own CRDs, so its manifests are left out.\n\
             To switch it to Capstan (objects of the CRDs stay stored in the host, but are not visible):\n  \
             kubectl patch apiservice {name} --type=merge -p '{patch}'\n\
             To switch it back to the CRDs:\n  kubectl delete apiservice {name}"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(registry: &Registry) -> Options {
        Options {
            namespace: "capstan-system".to_owned(),
            service: "capstan".to_owned(),
            external_name: None,
            port: 7443,
            ca: "PEM".to_owned(),
            user: "capstan".to_owned(),
            definitions: apiserver_registry::definitions(registry, apiserver_registry::Serving::Elsewhere),
            mirror: false,
            write_secrets: Vec::new(),
        }
    }

    fn objects() -> (Registry, Vec<Value>) {
        let registry = apiserver_registry::registry();
        let objects = apiserver_host::manifests(&registry, &options(&registry));
        (registry, objects)
    }

    /// Returns the verbs that a role allows on a resource.
    fn verbs<'a>(role: &'a Value, group: &str, resource: &str) -> Vec<&'a str> {
        let has = |rule: &Value, field: &str, expected: &str| {
            rule[field].as_array().is_some_and(|all| all.iter().any(|found| found == expected))
        };
        let rules = role["rules"].as_array().unwrap();
        let rules =
            rules.iter().filter(|rule| has(rule, "apiGroups", group) && has(rule, "resources", resource));
        rules.flat_map(|rule| rule["verbs"].as_array().unwrap()).map(|verb| verb.as_str().unwrap()).collect()
    }

    /// Head of the files in `manifests` that this test writes.
    const HEAD: &str = "# Written by `CAPSTAN_WRITE_GOLDENS=1 cargo test --package apiserver-server host_manifests`: the output of\n\
        # `capstan host manifests`.\n";

    /// Kustomize and Helm apply these files. A role that differs from the printed one lets Capstan do too little or too
    /// much in the host, and a missing APIService hides a kind.
    #[test]
    fn the_files_in_manifests_are_what_the_command_prints() {
        let registry = apiserver_registry::registry();
        let options = Options {
            user: "system:serviceaccount:capstan-system:capstan".to_owned(),
            ca: "replaced by manifests/keys".to_owned(),
            ..options(&registry)
        };
        let objects = apiserver_host::manifests(&registry, &options);
        let mirrored = apiserver_host::manifests(&registry, &Options { mirror: true, ..options });
        let mirror = mirrored.iter().filter(|object| !objects.contains(object));
        let mirror = format!("{HEAD}{}", documents(mirror).unwrap());
        let are = |kinds: &[&str]| {
            let is_one = |object: &&Value| kinds.iter().any(|kind| object["kind"] == *kind);
            format!("{HEAD}{}", documents(objects.iter().filter(is_one)).unwrap())
        };
        let directory = std::env::var("CARGO_MANIFEST_DIR").unwrap();
        let manifests = Path::new(&directory).join("../../manifests");
        for (file, expected) in [
            ("base/service.yaml", are(&["Service"])),
            ("base/access.yaml", are(&["ClusterRole", "ClusterRoleBinding", "RoleBinding"])),
            ("apis/apis.yaml", are(&["CustomResourceDefinition", "APIService"])),
            ("components/mirror/access.yaml", mirror),
        ] {
            let path = manifests.join(file);
            if std::env::var_os("CAPSTAN_WRITE_GOLDENS").is_some() {
                std::fs::write(&path, &expected).unwrap();
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                found == expected,
                "{file} is not what the command prints; its first line has the remedy"
            );
        }
        let others = objects.iter().filter(|object| object["kind"] == "Namespace").count();
        let documents = |text: &str| text.matches("---\n").count();
        let written = documents(&are(&["Service", "ClusterRole", "ClusterRoleBinding", "RoleBinding"]))
            + documents(&are(&["CustomResourceDefinition", "APIService"]));
        assert_eq!(written + others, objects.len(), "an object of another kind is in no file");
    }

    /// An APIService for such a group would replace the host's own kinds, for example its RBAC, by those of the direct
    /// endpoint.
    #[test]
    fn the_manifests_take_no_group_of_kubernetes_from_the_host() {
        let (registry, objects) = objects();
        let own: Vec<&str> =
            registry.stored().iter().filter(|it| !it.hosted).map(|it| it.group.as_str()).collect();
        assert!(own.contains(&"rbac.authorization.k8s.io"), "{own:?}");
        let groups = objects.iter().filter_map(|it| it.pointer("/spec/group").and_then(Value::as_str));
        let taken: Vec<&str> = groups.filter(|group| own.contains(group)).collect();
        assert_eq!(taken, Vec::<&str>::new());
    }

    #[test]
    fn aggregated_host_roles_cover_every_kind_and_its_subresources() {
        let (registry, objects) = objects();
        for (name, write) in [("view", false), ("edit", true), ("admin", true)] {
            let is_role =
                |object: &&Value| object.pointer("/metadata/name") == Some(&json!(format!("capstan:{name}")));
            let role = objects.iter().find(is_role).unwrap();
            let label = format!("rbac.authorization.k8s.io/aggregate-to-{name}");
            assert_eq!(role["metadata"]["labels"][label], "true");
            for kind in registry.stored() {
                let of = |part: &str| verbs(role, &kind.group, &format!("{}{part}", kind.plural));
                if !kind.hosted {
                    assert!(of("").is_empty(), "{} is the host's own", kind.plural);
                    continue;
                }
                let mut expected = vec!["get", "list", "watch"];
                if write && !kind.strategy.is_read_only() {
                    expected = vec![
                        "create",
                        "delete",
                        "deletecollection",
                        "get",
                        "list",
                        "patch",
                        "update",
                        "watch",
                    ];
                }
                assert_eq!(of(""), expected, "{name} {}", kind.plural);
                let status = if kind.status_subresource { vec!["get"] } else { Vec::new() };
                assert_eq!(of("/status"), status, "{name} {}/status", kind.plural);
                let scale = match (&kind.scale, write) {
                    (None, _) => Vec::new(),
                    (Some(_), false) => vec!["get"],
                    (Some(_), true) => vec!["get", "patch", "update"],
                };
                assert_eq!(of("/scale"), scale, "{name} {}/scale", kind.plural);
                for verb in &kind.verbs {
                    let expected = if write { vec!["create"] } else { Vec::new() };
                    assert_eq!(of(&format!("/{}", verb.name())), expected, "{name} {}", verb.name());
                }
            }
        }
    }

    #[test]
    fn the_server_may_do_in_the_host_what_it_needs_and_no_more() {
        let (_, objects) = objects();
        let role = objects
            .iter()
            .find(|object| object["kind"] == "ClusterRole" && object["metadata"]["name"] == "capstan:server")
            .unwrap();
        assert_eq!(verbs(role, "", "namespaces"), ["get", "list", "watch"]);
        assert_eq!(verbs(role, "", "secrets"), ["get"]);
        assert_eq!(verbs(role, "", "events"), ["create", "patch"]);
        // Tokens of other issuers are not shown to the host.
        let issuer = json!({"nonResourceURLs": ["/.well-known/openid-configuration"], "verbs": ["get"]});
        assert_eq!(role["rules"][3], issuer);
        assert_eq!(role["rules"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn ho_34_secrets_are_written_only_in_namespaces_that_the_command_names() {
        let registry = apiserver_registry::registry();
        let write_secrets = ["team", "other"].map(str::to_owned).to_vec();
        let with = apiserver_host::manifests(&registry, &Options { write_secrets, ..options(&registry) });
        let without = objects().1;
        let added: Vec<&Value> = with.iter().filter(|object| !without.contains(object)).collect();
        let found: Vec<_> =
            added.iter().map(|it| (it["kind"].as_str(), it["metadata"]["namespace"].as_str())).collect();
        assert_eq!(found, ["team", "other"].map(|namespace| (Some("RoleBinding"), Some(namespace))));
        let role = added[0]["roleRef"]["name"].clone();
        let writers: Vec<&Value> = without
            .iter()
            .filter(|it| it["kind"] == "ClusterRole" && verbs(it, "", "secrets").contains(&"create"))
            .collect();
        assert_eq!(writers.len(), 1);
        assert_eq!(writers[0]["metadata"]["name"], role);
        assert_eq!(verbs(writers[0], "", "secrets"), ["get", "create", "update", "delete"]);
        assert!(without.iter().all(|it| it["roleRef"]["name"] != role), "it is bound nowhere else");
    }

    #[test]
    fn only_a_mirror_reads_the_permissions_of_the_host() {
        let registry = apiserver_registry::registry();
        let options = Options { mirror: true, ..options(&registry) };
        let mirrored = apiserver_host::manifests(&registry, &options);
        let named = |objects: &[Value], name: &str| {
            let is_role = |it: &&Value| it["kind"] == "ClusterRole" && it["metadata"]["name"] == name;
            objects.iter().find(is_role).cloned()
        };
        let role = named(&mirrored, "capstan:mirror").unwrap();
        assert_eq!(verbs(&role, "rbac.authorization.k8s.io", "roles"), ["get", "list", "watch"]);
        assert_eq!(verbs(&role, "", "serviceaccounts"), ["get", "list", "watch"]);
        for (kind, plural) in KINDS {
            assert_eq!(verbs(&role, GROUP, plural), ["get", "list", "watch"], "{kind}");
        }
        assert!(verbs(&role, "", "secrets").is_empty());
        assert_eq!(named(&objects().1, "capstan:mirror"), None);
    }
}
