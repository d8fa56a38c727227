use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;

use clap::Parser;
use serde_json::{Value, json};

use super::*;
use crate::cli::{Cli, Command, ServeArguments};
use crate::config::ServerConfiguration;

fn run(arguments: &[&str], root: &Path) -> anyhow::Result<()> {
    let root = root.display().to_string();
    let all = [&["capstan"], arguments, &["--root", &root]].concat();
    match Cli::parse_from(all).command {
        Command::Init(arguments) => init(&arguments),
        Command::Reset(arguments) => reset(&arguments),
        Command::Leave(arguments) => leave(&arguments),
        other => panic!("{other:?}"),
    }
}

/// Every file below a folder, with its content and its time.
fn files(root: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
            continue;
        }
        let time = path.metadata().unwrap().modified().unwrap();
        all.insert(path.display().to_string(), (std::fs::read(&path).unwrap(), time));
    }
    all
}

const INIT: [&str; 10] = [
    "init",
    "--yes",
    "--no-start",
    "--name",
    "lab",
    "--node-name",
    "a",
    "--address",
    "192.0.2.1",
    "--etcd=/usr/bin/etcd",
];

#[test]
fn a_second_run_changes_nothing_and_other_settings_are_refused() {
    let root = tempfile::tempdir().unwrap();
    run(&INIT, root.path()).unwrap();
    let first = files(root.path());
    run(&INIT, root.path()).unwrap();
    run(&["init", "--yes", "--no-start", "--etcd=/usr/bin/etcd"], root.path()).unwrap();
    assert_eq!(first, files(root.path()));
    let error = run(&[&INIT[..], &["--endpoint", "192.0.2.9"]].concat(), root.path()).unwrap_err();
    assert!(error.to_string().starts_with("--endpoint: "), "{error}");
    assert_eq!(first, files(root.path()));
    // Settings with a default count only if they are given.
    let root = tempfile::tempdir().unwrap();
    run(&[&INIT[..], &["--store", "embedded", "--port", "8443"]].concat(), root.path()).unwrap();
    run(&INIT, root.path()).unwrap();
    assert!(run(&[&INIT[..], &["--store", "etcd"]].concat(), root.path()).is_err());
}

#[test]
fn an_interrupted_run_is_continued_with_the_keys_that_are_there() {
    let root = tempfile::tempdir().unwrap();
    run(&INIT, root.path()).unwrap();
    let first = files(root.path());
    for name in ["var/lib/capstan/installation.yaml", "etc/capstan/config.yaml"] {
        std::fs::remove_file(root.path().join(name)).unwrap();
    }
    run(&INIT, root.path()).unwrap();
    let contents = |files: BTreeMap<String, (Vec<u8>, SystemTime)>| -> Vec<_> {
        files.into_iter().map(|(name, (content, _))| (name, content)).collect()
    };
    assert_eq!(contents(first), contents(files(root.path())));
}

#[test]
fn the_configuration_is_one_of_the_server_and_keys_are_private() {
    let root = tempfile::tempdir().unwrap();
    run(&[&INIT[..], &["--endpoint", "capstan.example"]].concat(), root.path()).unwrap();
    let config = root.path().join("etc/capstan/config.yaml");
    let arguments = ServeArguments { config: Some(config), ..ServeArguments::default() };
    let configuration = ServerConfiguration::load(&arguments).unwrap();
    assert_eq!(configuration.server_names, ["capstan.example", "a", "192.0.2.1"]);
    assert_eq!(configuration.listen.as_deref(), Some("0.0.0.0:7443"));
    let etcd = configuration.storage.etcd.unwrap();
    assert_eq!(etcd.endpoints, ["https://127.0.0.1:2379"]);
    for path in [etcd.ca_file.unwrap(), etcd.cert_file.unwrap(), etcd.key_file.unwrap()] {
        assert!(path.exists(), "{}", path.display());
    }
    for name in
        ["var/lib/capstan/pki/ca.key", "var/lib/capstan/encryption.yaml", "etc/capstan/admin.kubeconfig"]
    {
        let mode = root.path().join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}");
    }
}

#[test]
fn the_configuration_of_the_package_is_replaced_and_that_of_an_administrator_is_kept() {
    for (text, is_kept) in [(rendered::DEFAULT, false), ("# of an administrator\n", true)] {
        let root = tempfile::tempdir().unwrap();
        let config = root.path().join("etc/capstan/config.yaml");
        std::fs::create_dir_all(config.parent().unwrap()).unwrap();
        std::fs::write(&config, text).unwrap();
        run(&INIT, root.path()).unwrap();
        assert_eq!(std::fs::read_to_string(&config).unwrap() == text, is_kept);
    }
}

#[test]
fn pk_32_an_address_of_another_machine_is_refused_before_etcd_fails_to_listen_there() {
    let error = services::check_listener("198.51.100.77".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("--address: this machine does not have 198.51.100.77"), "{error}");
    services::check_listener("127.0.0.1".parse().unwrap()).unwrap();
}

#[test]
fn units_name_the_files_of_this_node() {
    let root = tempfile::tempdir().unwrap();
    run(&INIT, root.path()).unwrap();
    let read =
        |name: &str| std::fs::read_to_string(root.path().join("etc/systemd/system").join(name)).unwrap();
    let config = root.path().join("etc/capstan").display().to_string();
    assert!(read("capstan.service").contains(&format!("serve --config {config}/config.yaml\n")));
    // The directory of scheduled backups in docs/running.md.
    assert!(read("capstan.service").contains("ReadWritePaths=-/var/backups/capstan\n"));
    let etcd = read("capstan-etcd.service");
    assert!(etcd.contains(&format!("ExecStart=/usr/bin/etcd --config-file {config}/etcd.yaml\n")), "{etcd}");
}

#[test]
fn pk_32_keystone_is_in_the_configuration_and_its_ca_is_copied() {
    let root = tempfile::tempdir().unwrap();
    let given = root.path().join("given.crt");
    std::fs::write(&given, "CA of Keystone\n").unwrap();
    let given = given.display().to_string();
    let url = "https://keystone.example:5000/v3";
    let flags = [&INIT[..], &["--keystone-url", url, "--keystone-ca", &given]].concat();
    run(&flags, root.path()).unwrap();
    let config = root.path().join("etc/capstan/config.yaml");
    let arguments = ServeArguments { config: Some(config), ..ServeArguments::default() };
    let keystone = ServerConfiguration::load(&arguments).unwrap().keystone.unwrap();
    assert_eq!(keystone.auth_url, url);
    assert_eq!(std::fs::read_to_string(keystone.ca_file.unwrap()).unwrap(), "CA of Keystone\n");
    let record = Installation::read_file(&Layout::new(root.path()).unwrap().record()).unwrap();
    assert!(record.shared_files().contains(&Installation::KEYSTONE_CA), "nodes that join get it");
    let before = files(root.path());
    run(&flags, root.path()).unwrap();
    assert_eq!(before, files(root.path()));
    let other = [&INIT[..], &["--keystone-url", "https://other.example/v3"]].concat();
    let error = run(&other, root.path()).unwrap_err();
    assert!(error.to_string().starts_with("--keystone-url: differs"), "{error}");
}

#[test]
fn pk_21_static_pods_have_the_directories_of_the_node_and_no_unit_is_written() {
    let root = tempfile::tempdir().unwrap();
    run(&[&INIT[..], &["--static-pod", "registry.example/capstan:1"]].concat(), root.path()).unwrap();
    let read = |name: &str| -> Value {
        let path = root.path().join("etc/capstan/static-pods").join(name);
        serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let below = |path: &str| json!(root.path().join(path));
    let capstan = read("capstan.yaml");
    assert_eq!(capstan["spec"]["containers"][0]["image"], "registry.example/capstan:1");
    assert_eq!(capstan["spec"]["containers"][0]["args"][2], below("etc/capstan/config.yaml"));
    let etcd = read("capstan-etcd.yaml");
    assert_eq!(etcd["spec"]["containers"][0]["command"][2], below("etc/capstan/etcd.yaml"));
    for (pod, directories) in [
        (&capstan, &["etc/capstan", "var/lib/capstan"][..]),
        (&etcd, &["etc/capstan", "var/lib/capstan/etcd", "var/lib/capstan-etcd"][..]),
    ] {
        let spec = &pod["spec"];
        assert_eq!(spec["securityContext"]["runAsUser"], 65_532);
        for (index, directory) in directories.iter().enumerate() {
            let (volume, mount) = (&spec["volumes"][index], &spec["containers"][0]["volumeMounts"][index]);
            assert_eq!(
                (&volume["hostPath"]["path"], &mount["mountPath"]),
                (&below(directory), &below(directory))
            );
            assert_eq!(volume["name"], mount["name"]);
        }
    }
    for unit in ["etc/systemd", "etc/sysusers.d"] {
        assert!(!root.path().join(unit).exists(), "{unit}");
    }
    let before = files(root.path());
    run(&INIT, root.path()).unwrap();
    assert_eq!(before, files(root.path()), "the record has the images");
    let other = [&INIT[..], &["--static-pod", "registry.example/capstan:2"]].concat();
    let error = run(&other, root.path()).unwrap_err();
    assert!(error.to_string().starts_with("--static-pod: differs"), "{error}");
    run(&["reset", "--yes"], root.path()).unwrap();
    assert_eq!(files(root.path()), BTreeMap::new());
}

#[test]
fn a_reset_removes_all_files_and_needs_a_confirmation() {
    let root = tempfile::tempdir().unwrap();
    run(&INIT, root.path()).unwrap();
    assert!(run(&["reset"], root.path()).unwrap_err().to_string().contains("--yes"));
    run(&["reset", "--yes"], root.path()).unwrap();
    assert_eq!(files(root.path()), BTreeMap::new());
    run(&["reset", "--yes"], root.path()).unwrap();
}

#[test]
fn settings_that_do_not_fit_are_refused_by_their_flag() {
    let root = tempfile::tempdir().unwrap();
    let table: [(&[&str], &str); 9] = [
        (&["--name", "lab"], "--address: must be given: IP address"),
        (&["--address", "127.0.0.1"], "--address: "),
        (&["--address", "0.0.0.0"], "--address: "),
        (&["--address", "192.0.2.1", "--node-name", "A_B"], "--node-name: "),
        (&["--address", "192.0.2.1", "--store", "external-etcd"], "--etcd-endpoints: "),
        (&["--address", "192.0.2.1", "--name", "-"], "--name: "),
        (&["--address", "192.0.2.1", "--keystone-url", "http://keystone.example/v3"], "--keystone-url: "),
        (&["--address", "192.0.2.1", "--keystone-ca", "/etc/ca.crt"], "--keystone-ca: "),
        (&["--address", "192.0.2.1", "--static-pod", ""], "--static-pod: "),
    ];
    for (flags, expected) in table {
        let given = [&["init", "--yes", "--no-start", "--etcd=/usr/bin/etcd"], flags].concat();
        let error = run(&given, root.path()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{flags:?}: {error}");
    }
    assert_eq!(files(root.path()), BTreeMap::new(), "nothing is written before the settings are checked");
}

#[test]
fn addresses_ports_and_stores_that_do_not_fit_are_refused_by_their_flag() {
    let root = tempfile::tempdir().unwrap();
    for (flags, expected) in [
        ("--endpoint https://capstan.example:7443", "--endpoint: "),
        ("--endpoint *.example", "--endpoint: "),
        ("--port 2379", "--port: "),
        ("--port 0", "--port: "),
        ("--store embedded --node b", "--node: with --store embedded"),
        ("--store external-etcd --etcd-endpoints a:2379", "--etcd-endpoints: "),
        ("--store external-etcd --etcd-endpoints https://a:2379 --etcd-ca c", "--etcd-ca, --etcd-cert and"),
        ("--store external-etcd --etcd-endpoints http://a:2379 --etcd-ca c", "--etcd-ca, --etcd-cert and"),
        ("--etcd-ca c --etcd-cert c --etcd-key c", "--etcd-ca, --etcd-cert and"),
    ] {
        let given: Vec<&str> = INIT.into_iter().chain(flags.split(' ')).collect();
        let error = run(&given, root.path()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{flags}: {error}");
    }
    assert_eq!(files(root.path()), BTreeMap::new(), "nothing is written before the settings are checked");
}

#[test]
fn an_etcd_elsewhere_without_tls_needs_no_certificates_for_other_nodes() {
    let root = tempfile::tempdir().unwrap();
    let of = |url: &'static str| ["--store", "external-etcd", "--etcd-endpoints", url];
    let flags = [&INIT[..], &of("http://192.0.2.20:2379")].concat();
    run(&flags, root.path()).unwrap();
    let record = Installation::read_file(&Layout::new(root.path()).unwrap().record()).unwrap();
    for name in record.shared_files() {
        assert!(root.path().join("var/lib/capstan").join(name).exists(), "{name}");
    }
    run(&flags, root.path()).unwrap();
    let error = run(&[&INIT[..], &of("http://192.0.2.21:2379")].concat(), root.path()).unwrap_err();
    assert!(error.to_string().starts_with("--etcd-endpoints: differs"), "{error}");
}

#[test]
fn a_recovery_key_that_is_not_the_key_of_the_node_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("recovery.key");
    std::fs::write(&file, format!("capr1.{}\n", "A".repeat(43))).unwrap();
    let path = file.display().to_string();
    let flags = [&INIT[..], &["--recovery-key-file", &path]].concat();
    run(&flags, root.path()).unwrap();
    let before = files(root.path());
    run(&flags, root.path()).unwrap();
    std::fs::write(&file, format!("capr1.{}\n", "AAA".repeat(14) + "E")).unwrap();
    let error = run(&flags, root.path()).unwrap_err().to_string();
    assert!(error.starts_with("--recovery-key-file: "), "{error}");
    let kept = |mut all: BTreeMap<String, (Vec<u8>, SystemTime)>| {
        all.remove(&path);
        all
    };
    assert_eq!(kept(before), kept(files(root.path())));
}

#[test]
fn a_node_that_joins_finds_its_own_address_by_the_route_to_the_server() {
    assert_eq!(join::own_address("https://127.0.0.1:7443").unwrap().to_string(), "127.0.0.1");
    let error = join::own_address("https://:7443").unwrap_err().to_string();
    assert!(error.starts_with("--address: "), "{error}");
}
