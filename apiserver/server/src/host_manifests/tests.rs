//! Tests of the objects that `capstan host manifests` prints, and of the files in `manifests`.

use apiserver_machinery::action::ActionMethod;

use super::*;

pub(super) fn options(registry: &Registry) -> Options {
    Options {
        namespace: "capstan-system".to_owned(),
        service: "capstan".to_owned(),
        external_name: None,
        port: 7443,
        ca: "PEM".to_owned(),
        user: "capstan".to_owned(),
        definitions: apiserver_registry::definitions(registry, apiserver_registry::Serving::Elsewhere),
        mirror: false,
        one_namespace: false,
        write_secrets: Vec::new(),
        write_ca_bundle: false,
        write_crds: false,
        create_namespaces: false,
        policy_parameters: Vec::new(),
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
    let rules = rules.iter().filter(|rule| has(rule, "apiGroups", group) && has(rule, "resources", resource));
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
    // Each component has the objects that one flag adds.
    let with = |options: Options| {
        let all = apiserver_host::manifests(&registry, &options);
        let added = all.iter().filter(|object| !objects.contains(object));
        format!("{HEAD}{}", documents(added).unwrap())
    };
    let plain = || options.clone();
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
        ("components/mirror/access.yaml", with(Options { mirror: true, ..plain() })),
        ("components/ca-bundle/access.yaml", with(Options { write_ca_bundle: true, ..plain() })),
        ("components/crds/access.yaml", with(Options { write_crds: true, ..plain() })),
        ("components/namespaces/access.yaml", with(Options { create_namespaces: true, ..plain() })),
    ] {
        let path = manifests.join(file);
        if std::env::var_os("CAPSTAN_WRITE_GOLDENS").is_some() {
            std::fs::write(&path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "{file} is not what the command prints; its first line has the remedy");
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
                expected =
                    vec!["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
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
                let expected = match (verb.method(), write) {
                    (ActionMethod::Get, _) => vec!["get"],
                    (ActionMethod::Post, true) => vec!["create"],
                    (ActionMethod::Post, false) => Vec::new(),
                };
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
    let shown: Vec<_> =
        added.iter().map(|it| (it["kind"].as_str(), it["metadata"]["namespace"].as_str())).collect();
    let expected = [("Role", "team"), ("RoleBinding", "team"), ("Role", "other"), ("RoleBinding", "other")];
    assert_eq!(shown, expected.map(|(kind, namespace)| (Some(kind), Some(namespace))));
    assert_eq!(verbs(added[0], "", "secrets"), ["get", "create", "update", "delete"]);
    assert_eq!(added[1]["roleRef"]["kind"], "Role");
    assert_eq!(added[1]["roleRef"]["name"], added[0]["metadata"]["name"]);
    assert_eq!(added[1]["subjects"][0]["name"], "capstan");
    let writers: Vec<&Value> = without
        .iter()
        .filter(|it| it["rules"].is_array() && verbs(it, "", "secrets").iter().any(|verb| *verb != "get"))
        .collect();
    assert_eq!(writers, Vec::<&Value>::new(), "a role of the whole cluster writes Secrets");
}

#[test]
fn ho_30_a_ca_bundle_is_written_only_with_the_flag_and_only_in_the_apiservices_of_capstan() {
    let registry = apiserver_registry::registry();
    let with = apiserver_host::manifests(&registry, &Options { write_ca_bundle: true, ..options(&registry) });
    let without = objects().1;
    let added: Vec<&Value> = with.iter().filter(|object| !without.contains(object)).collect();
    let kinds: Vec<&Value> = added.iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["ClusterRole", "ClusterRoleBinding"]);
    assert_eq!(verbs(added[0], "apiregistration.k8s.io", "apiservices"), ["get", "patch"]);
    let mut own: Vec<&Value> =
        without.iter().filter(|it| it["kind"] == "APIService").map(|it| &it["metadata"]["name"]).collect();
    own.sort_by_key(|name| name.to_string());
    assert_eq!(added[0]["rules"][0]["resourceNames"], json!(own));
    assert_eq!(added[1]["roleRef"]["name"], added[0]["metadata"]["name"]);
    assert!(
        without
            .iter()
            .all(|it| it["rules"].is_null() || verbs(it, "apiregistration.k8s.io", "apiservices").is_empty())
    );
}

#[test]
fn ho_30_metadata_is_written_only_with_the_flag_and_only_in_the_crds_of_capstan() {
    let registry = apiserver_registry::registry();
    let with = apiserver_host::manifests(&registry, &Options { write_crds: true, ..options(&registry) });
    let without = objects().1;
    let added: Vec<&Value> = with.iter().filter(|object| !without.contains(object)).collect();
    let kinds: Vec<&Value> = added.iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["ClusterRole", "ClusterRoleBinding"]);
    let (group, plural) = ("apiextensions.k8s.io", "customresourcedefinitions");
    assert_eq!(verbs(added[0], group, plural), ["get", "patch"]);
    let crds = without.iter().filter(|it| it["kind"] == "CustomResourceDefinition");
    let mut own: Vec<&str> = crds.map(|it| it["metadata"]["name"].as_str().unwrap()).collect();
    own.sort_unstable();
    assert_eq!(added[0]["rules"][0]["resourceNames"], json!(own));
    assert!(without.iter().all(|it| it["rules"].is_null() || verbs(it, group, plural).is_empty()));
}

#[test]
fn ho_35_namespaces_are_created_only_with_the_flag_and_never_changed_or_deleted() {
    let registry = apiserver_registry::registry();
    let with =
        apiserver_host::manifests(&registry, &Options { create_namespaces: true, ..options(&registry) });
    let without = objects().1;
    let added: Vec<&Value> = with.iter().filter(|object| !without.contains(object)).collect();
    let kinds: Vec<&Value> = added.iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["ClusterRole", "ClusterRoleBinding"]);
    assert_eq!(added[0]["rules"].as_array().unwrap().len(), 1);
    assert_eq!(verbs(added[0], "", "namespaces"), ["create"]);
    assert_eq!(added[1]["roleRef"]["name"], added[0]["metadata"]["name"]);
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
    assert_eq!(verbs(&role, "", "resourcequotas"), ["get", "list", "watch"], "their status is the host's");
    for kind in ["secrets", "configmaps"] {
        assert!(verbs(&role, "", kind).is_empty(), "{kind}");
    }
    assert_eq!(named(&objects().1, "capstan:mirror"), None);
}
