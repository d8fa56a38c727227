//! Tests of the cloud-config: parsed trees, and every text byte for byte.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Read as _;

use apiserver_types::{BootstrapUser, FileEncoding, KubeadmConfigSpec};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const KUBEADM: &str = "---\nkind: JoinConfiguration\n";

fn spec(spec: Value) -> KubeadmConfigSpec {
    serde_json::from_value(spec).unwrap()
}

fn joining<'a>(spec: &'a KubeadmConfigSpec, files: &'a [File], users: &'a [BootstrapUser]) -> Setup<'a> {
    let command = Command::Join;
    Setup { command, kubeadm: KUBEADM, certificates: &[], files, discovery: None, users, report: None, spec }
}

fn tree(setup: &Setup<'_>) -> Value {
    serde_saphyr::from_str(&render(setup).unwrap()).unwrap()
}

fn file(path: &str, content: &str) -> File {
    File { path: path.to_owned(), content: content.into(), ..File::default() }
}

#[test]
fn a_worker_has_upstreams_files_and_its_line_for_kubeadm() {
    let spec = KubeadmConfigSpec::default();
    let text = render(&joining(&spec, &[], &[])).unwrap();
    assert!(text.starts_with("## template: jinja\n#cloud-config\nwrite_files:\n- path: "), "{text}");
    let expected = json!({
        "write_files": [
            {"path": "/run/kubeadm/kubeadm-join-config.yaml", "owner": "root:root", "permissions": "0640",
                "content": KUBEADM},
            {"path": "/run/cluster-api/placeholder", "owner": "root:root", "permissions": "0640",
                "content": "makes this directory exist"},
        ],
        "runcmd": ["kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml  && echo success > \
            /run/cluster-api/bootstrap-success.complete"],
    });
    assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), expected);
}

#[test]
fn the_first_node_has_its_certificates_first_and_a_log_level() {
    let spec =
        spec(json!({"verbosity": 4, "preKubeadmCommands": ["before"], "postKubeadmCommands": ["after"],
        "bootCommands": ["modprobe br_netfilter"]}));
    let certificates = [File::of_root("/etc/kubernetes/pki/ca.crt", "0640", "a\nb\n")];
    let files = [file("/a", "x")];
    let discovery = file("/discovery", "x");
    let setup = Setup {
        command: Command::Init,
        certificates: &certificates,
        discovery: Some(&discovery),
        ..joining(&spec, &files, &[])
    };
    let tree = tree(&setup);
    let paths: Vec<&str> =
        tree["write_files"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    let expected =
        ["/etc/kubernetes/pki/ca.crt", "/a", "/discovery", "/run/kubeadm/kubeadm.yaml", PLACEHOLDER];
    assert_eq!(paths, expected);
    let line = "kubeadm init --config /run/kubeadm/kubeadm.yaml --skip-token-print --v 4 && echo success > \
        /run/cluster-api/bootstrap-success.complete";
    assert_eq!(tree["runcmd"], json!(["before", line, "after"]));
    assert_eq!(tree["bootcmd"], json!(["modprobe br_netfilter"]));
}

#[test]
fn the_parts_of_a_machine_have_cloud_inits_names_and_upstreams_order() {
    let spec = spec(json!({
        "ntp": {"enabled": true},
        "diskSetup": {
            "partitions": [
                {"device": "/dev/vdb", "layout": true, "overwrite": false, "tableType": "gpt"},
                {"device": "/dev/vdc", "diskLayout": [{"percentage": 40, "partitionType": "LinuxSwap"},
                    {"percentage": 60}]},
            ],
            "filesystems": [{"label": "etcd", "filesystem": "ext4", "device": "/dev/vdb", "replaceFS": "ntfs",
                "partition": "auto", "extraOpts": ["-E", "lazy_itable_init=1"]}],
        },
        "mounts": [["LABEL=etcd", "/var/lib/etcd"]],
    }));
    let users: Vec<BootstrapUser> = serde_json::from_value(json!([{"name": "ops", "groups": "adm, sudo",
        "lockPassword": false, "passwd": "*", "homeDir": "/home/ops", "primaryGroup": "ops", "gecos": "a: b #c",
        "sudo": "ALL=(ALL) NOPASSWD:ALL", "sshAuthorizedKeys": ["ssh-ed25519 AAAA ops@lab"]}]))
    .unwrap();
    let text = render(&joining(&spec, &[], &users)).unwrap();
    let lines = text.lines().filter(|line| line.starts_with(|it: char| it.is_ascii_lowercase()));
    let keys: Vec<&str> = lines.map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(keys, ["write_files", "runcmd", "ntp", "users", "disk_setup", "fs_setup", "mounts"]);
    let tree: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(tree["ntp"], json!({"enabled": true, "servers": []}));
    assert_eq!(
        tree["users"],
        json!([{"name": "ops", "groups": "adm, sudo", "lock_passwd": false, "passwd": "*",
        "homedir": "/home/ops", "primary_group": "ops", "gecos": "a: b #c", "sudo": "ALL=(ALL) NOPASSWD:ALL",
        "ssh_authorized_keys": ["ssh-ed25519 AAAA ops@lab"]}])
    );
    assert_eq!(
        tree["disk_setup"],
        json!({
            "/dev/vdb": {"table_type": "gpt", "layout": true, "overwrite": false},
            "/dev/vdc": {"layout": [[40, "82"], 60]},
        })
    );
    assert_eq!(
        tree["fs_setup"],
        json!([{"label": "etcd", "filesystem": "ext4", "device": "/dev/vdb",
        "partition": "auto", "replace_fs": "ntfs", "extra_opts": ["-E", "lazy_itable_init=1"]}])
    );
    assert_eq!(tree["mounts"], json!([["LABEL=etcd", "/var/lib/etcd"]]));
}

#[test]
fn a_failed_bootstrap_is_reported_if_that_is_asked_for() {
    let spec = spec(json!({"postKubeadmCommands": ["after"]}));
    let tree = tree(&Setup { report: Some("m"), ..joining(&spec, &[], &[]) });
    let report = &tree["write_files"][2];
    assert_eq!((&report["path"], &report["permissions"]), (&json!(REPORT), &json!("0700")));
    let line = "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml  && echo success > \
        /run/cluster-api/bootstrap-success.complete || sh /run/cluster-api/report kubeadm $?";
    assert_eq!(tree["runcmd"], json!([line, "after", "sh /run/cluster-api/report end 0"]));
}

#[test]
fn a_disk_setup_with_one_half_has_no_empty_key_for_the_other() {
    let spec = spec(json!({"diskSetup": {"partitions": [{"device": "/dev/vdb", "layout": true}]}}));
    assert_eq!(tree(&joining(&spec, &[], &[])).get("fs_setup"), None);
}

#[test]
fn a_file_is_deferred_if_its_owner_is_a_new_user_or_its_path_is_under_a_mount() {
    let spec =
        spec(json!({"mounts": [["LABEL=etcd", "/var/lib/etcd"], ["swap", "none"], ["LABEL=r", "/run/"]]}));
    let users = [BootstrapUser { name: "ops".to_owned(), ..BootstrapUser::default() }];
    let owned = |owner: &str| File { owner: Some(owner.to_owned()), ..file("/a", "") };
    let files = [
        owned("ops:ops"),
        owned("root:ops"),
        owned("root:root"),
        file("/var/lib/etcd/x", ""),
        file("/var/lib/etcd2", ""),
        file("/none", ""),
    ];
    let tree = tree(&joining(&spec, &files, &users));
    let deferred: Vec<bool> =
        tree["write_files"].as_array().unwrap().iter().map(|it| it["defer"] == true).collect();
    let expected = [true, true, false, true, false, false, true, true];
    assert_eq!(deferred, expected, "kubeadm's file is under a mount, too");
}

#[test]
fn binary_content_and_carriage_returns_are_encoded() {
    let contents: [&[u8]; 4] = [b"a\r\nb", b"\xff\xfe", b"a\0b", "a\u{2028}b".as_bytes()];
    let spec = KubeadmConfigSpec::default();
    for content in contents {
        let files = [File { content: content.to_vec(), ..file("/a", "") }];
        let tree = tree(&joining(&spec, &files, &[]));
        assert_eq!(tree["write_files"][0]["encoding"], "base64");
        assert_eq!(tree["write_files"][0]["content"], STANDARD.encode(content));
    }
}

#[test]
fn a_jinja_expression_is_not_escaped_whatever_quotes_its_text_has() {
    let expression = r#"{{ ds.meta_data["local-ipv4"] }}"#;
    let command = format!("  echo 'a: {expression}' # b");
    let spec = spec(json!({"preKubeadmCommands": [command, format!("{command}\ntrue")]}));
    let users = [BootstrapUser { gecos: Some(command.clone()), ..BootstrapUser::default() }];
    let text = render(&joining(&spec, &[], &users)).unwrap();
    assert_eq!(text.matches(expression).count(), 3, "{text}");
    let tree: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(tree["runcmd"][0], command);
    assert_eq!(tree["runcmd"][1], format!("{command}\ntrue"));
    assert_eq!(tree["users"][0]["gecos"], command);
}

#[test]
fn the_users_encoding_is_kept_and_compressed_data_is_encoded() {
    let spec = KubeadmConfigSpec::default();
    let rendered = |encoding, content: &[u8]| {
        let encoded = File { encoding: Some(encoding), content: content.to_vec(), ..file("/a", "") };
        render(&joining(&spec, &[encoded], &[]))
    };
    let tree = |encoding, content: &[u8]| {
        serde_saphyr::from_str::<Value>(&rendered(encoding, content).unwrap()).unwrap()["write_files"][0]
            .clone()
    };
    assert_eq!(
        tree(FileEncoding::Base64, b"YQ=="),
        json!({"path": "/a", "encoding": "base64", "content": "YQ=="})
    );
    assert_eq!(
        tree(FileEncoding::Gzip, b"\x1f\x8b"),
        json!({"path": "/a", "encoding": "gzip+base64", "content": "H4s="})
    );
    let error = rendered(FileEncoding::Base64, b"\xff").unwrap_err();
    assert_eq!(error.to_string(), "file /a: the content is not in encoding base64");
}

#[test]
fn user_data_is_compressed_above_the_limit_and_refused_with_its_largest_files() {
    let spec = KubeadmConfigSpec::default();
    let small = render(&joining(&spec, &[], &[])).unwrap();
    assert_eq!(user_data(&small).unwrap(), small.as_bytes());
    let large = render(&joining(&spec, &[file("/a", &"x".repeat(LIMIT))], &[])).unwrap();
    let data = user_data(&large).unwrap();
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(data.as_slice()).read_to_string(&mut unpacked).unwrap();
    assert_eq!(unpacked, large);
    // Numbers of a fixed sequence, which gzip cannot compress well.
    let noise = |seed: u64| -> Vec<u8> {
        let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed));
        std::iter::successors(Some(seed), next).take(8000).flat_map(u64::to_le_bytes).collect()
    };
    let files = [file("/a", "x"), File { content: noise(3), ..file("/b", "") }];
    let error = user_data(&render(&joining(&spec, &files, &[])).unwrap()).unwrap_err();
    assert!(error.raw > error.compressed && error.compressed > LIMIT);
    assert_eq!(error.largest.first(), Some(&("/b".to_owned(), 64_000)));
    assert!(error.to_string().contains("/b (64000 bytes), /run/kubeadm/kubeadm-join-config.yaml"), "{error}");
}

#[test]
fn only_cloud_config_is_compressed() {
    let large = "x".repeat(LIMIT + 1).into_bytes();
    assert!(user_data_of("cloud-config", large.clone()).unwrap().starts_with(&[0x1f, 0x8b]));
    for format in ["ignition", "talos"] {
        let error = user_data_of(format, large.clone()).unwrap_err();
        assert_eq!((error.raw, error.compressed), (LIMIT + 1, LIMIT + 1));
        assert!(error.to_string().ends_with("out of the bootstrap data"), "{error}");
        assert_eq!(user_data_of(format, b"{}".to_vec()).unwrap(), b"{}");
    }
    let binary = vec![0xff; LIMIT + 1];
    assert_eq!(user_data_of("cloud-config", binary).unwrap_err().largest, []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_text_is_the_same_after_parsing(text in "([ -~]|[\\n\\t\\r: #'\"{}|>&*!%@-]|\\{\\{ '\"|\\PC|\\p{Cc}){0,40}") {
        let spec = KubeadmConfigSpec {
            pre_kubeadm_commands: Some(vec![text.clone()]),
            mounts: Some(vec![vec![text.clone(), "none".to_owned()]]),
            ..KubeadmConfigSpec::default()
        };
        let users = [BootstrapUser { name: text.clone(), gecos: Some(text.clone()), ..BootstrapUser::default() }];
        let files = [file(&text, &text), file("/next", "x")];
        let tree = tree(&joining(&spec, &files, &users));
        let written = &tree["write_files"][0];
        prop_assert_eq!(written["path"].as_str(), Some(text.as_str()));
        let content = written["content"].as_str().unwrap();
        let content = match written.get("encoding") {
            Some(_) => String::from_utf8(STANDARD.decode(content).unwrap()).unwrap(),
            None => content.to_owned(),
        };
        prop_assert_eq!(content, text.as_str());
        prop_assert_eq!(&tree["write_files"][1]["path"], "/next");
        prop_assert_eq!(tree["runcmd"][0].as_str(), Some(text.as_str()));
        prop_assert_eq!(tree["users"][0]["gecos"].as_str(), Some(text.as_str()));
        prop_assert_eq!(tree["mounts"][0][0].as_str(), Some(text.as_str()));
    }
}
