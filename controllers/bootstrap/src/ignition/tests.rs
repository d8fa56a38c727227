//! Tests of the Ignition configuration: parsed trees.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Read as _;

use apiserver_types::{BootstrapUser, FileEncoding, KubeadmConfigSpec};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::setup::Command;

fn rendered(spec: Value, files: &[File], users: Value) -> Result<Value, DocumentError> {
    let spec: KubeadmConfigSpec = serde_json::from_value(spec).unwrap();
    let users: Vec<BootstrapUser> = serde_json::from_value(users).unwrap();
    let certificates = [File::of_root("/etc/kubernetes/pki/ca.crt", "0640", "a b\n")];
    let setup = Setup {
        command: Command::Init,
        kubeadm: "---\nkind: A\n",
        certificates: &certificates,
        files,
        discovery: None,
        users: &users,
        report: Some("m"),
        spec: &spec,
    };
    Ok(serde_json::from_str(&render(&setup)?).unwrap())
}

/// Returns the content of a file.
fn content(tree: &Value, path: &str) -> String {
    let files = tree["storage"]["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == path).unwrap();
    let source = file["contents"]["source"].as_str().unwrap().strip_prefix("data:,").unwrap();
    percent_encoding::percent_decode_str(source).decode_utf8().unwrap().into_owned()
}

#[test]
fn a_script_runs_kubeadm_between_the_users_commands() {
    let spec = json!({"preKubeadmCommands": ["before"], "postKubeadmCommands": ["after"], "verbosity": 4});
    let tree = rendered(spec, &[], json!([])).unwrap();
    assert_eq!(tree["ignition"]["version"], "2.3.0");
    let script = "#!/bin/bash\nset -e\nbefore\nkubeadm init --config /etc/kubeadm.yml --skip-token-print --v 4\n\
        mkdir -p /run/cluster-api && echo success > /run/cluster-api/bootstrap-success.complete\n\
        mv /etc/kubeadm.yml /tmp/\nafter\n";
    assert_eq!(content(&tree, SCRIPT), script);
    assert_eq!(content(&tree, CONFIGURATION), "---\nkind: A\n");
    let first = json!({"filesystem": "root", "path": "/etc/kubernetes/pki/ca.crt", "mode": 416,
        "user": {"name": "root"}, "group": {"name": "root"}, "contents": {"source": "data:,a%20b%0A"}});
    assert_eq!(tree["storage"]["files"][0], first);
    assert_eq!(tree["systemd"]["units"][0]["name"], "kubeadm.service");
    assert_eq!(tree.get("passwd"), None);
    let unit = tree["systemd"]["units"][0]["contents"].as_str().unwrap();
    assert!(unit.contains("ExecStopPost=/bin/sh /etc/kubeadm-report.sh kubeadm $EXIT_STATUS\n"), "{unit}");
    let report = content(&tree, REPORT);
    assert!(report.contains("capstan-bootstrap: m ") && report.contains("journalctl -u kubeadm -n 40"));
    assert!(!report.contains("cloud-init"), "its log does not exist");
}

#[test]
fn files_are_decoded_and_have_a_default_mode() {
    let file = |path: &str, content: &str| File {
        path: path.to_owned(),
        content: content.into(),
        ..File::default()
    };
    let files = [
        File { encoding: Some(FileEncoding::Base64), ..file("/a", "YQ==\n") },
        File { append: Some(true), ..file("/b", "b") },
    ];
    let tree = rendered(json!({}), &files, json!([])).unwrap();
    assert_eq!(content(&tree, "/a"), "a");
    let entries = &tree["storage"]["files"];
    assert_eq!((&entries[1]["mode"], &entries[2]["append"]), (&json!(420), &json!(true)));
    let gzip = [File { encoding: Some(FileEncoding::Gzip), ..file("/a", "x") }];
    assert!(rendered(json!({}), &gzip, json!([])).is_err());
    let mode = [File { permissions: Some("rw".to_owned()), ..file("/a", "x") }];
    assert!(rendered(json!({}), &mode, json!([])).is_err());
}

#[test]
fn users_have_ignitions_names_and_files_for_sudo_and_passwords() {
    let users = json!([{"name": "ops", "groups": "adm, sudo", "sudo": "ALL=(ALL) ALL", "lockPassword": false,
        "passwd": "$6$", "homeDir": "/home/ops", "sshAuthorizedKeys": ["k"]}]);
    let tree = rendered(json!({}), &[], users).unwrap();
    assert_eq!(
        tree["passwd"]["users"],
        json!([{"name": "ops", "groups": ["adm", "sudo"], "passwordHash": "$6$",
        "homeDir": "/home/ops", "sshAuthorizedKeys": ["k"]}])
    );
    assert_eq!(content(&tree, "/etc/sudoers.d/ops"), "ops ALL=(ALL) ALL\n");
    assert!(content(&tree, "/etc/ssh/sshd_config").contains("Match User ops\n"));
}

#[test]
fn disks_filesystems_mounts_and_time_servers_are_converted() {
    let spec = json!({
        "ntp": {"enabled": true, "servers": ["ntp1.lab"]},
        "diskSetup": {
            "partitions": [{"device": "/dev/vdb", "layout": true, "overwrite": true},
                {"device": "/dev/vdc", "diskLayout": [{"percentage": 100, "partitionType": "LVM"}]},
                {"device": "/dev/vdd", "diskLayout": [{"percentage": 100}]}],
            "filesystems": [{"device": "/dev/vdb", "filesystem": "ext4", "label": "etcd", "extraOpts": ["-F"]}],
        },
        "mounts": [["etcd", "/var/lib/my-etcd", "noatime", "nofail"]],
    });
    let tree = rendered(spec, &[], json!([])).unwrap();
    assert_eq!(
        tree["storage"]["disks"],
        json!([
            {"device": "/dev/vdb", "wipeTable": true, "partitions": [{}]},
            {"device": "/dev/vdc", "wipeTable": false,
                "partitions": [{"number": 1, "typeGuid": "e6d6d379-f507-44c2-a23c-238f2a3df928"}]},
            {"device": "/dev/vdd", "wipeTable": false, "partitions": [{"number": 1}]},
        ])
    );
    assert_eq!(
        tree["storage"]["filesystems"],
        json!([{"name": "etcd", "mount": {"device": "/dev/vdb",
        "format": "ext4", "wipeFilesystem": false, "label": "etcd", "options": ["-F"]}}])
    );
    let units = tree["systemd"]["units"].as_array().unwrap();
    assert_eq!(units[1]["name"], "ntpd.service");
    assert_eq!(units[2]["name"], "var-lib-my\\x2detcd.mount");
    let contents = units[2]["contents"].as_str().unwrap();
    assert!(
        contents.contains("What=/dev/vdb\nWhere=/var/lib/my-etcd\nOptions=noatime,nofail\n"),
        "{contents}"
    );
    assert!(content(&tree, "/etc/ntp.conf").starts_with("server ntp1.lab\n"));
}

#[test]
fn what_ignition_has_no_form_for_is_refused() {
    let disk = |field: Value| json!({"diskSetup": field});
    let refused = [
        json!({"bootCommands": ["x"]}),
        json!({"mounts": [["unknown", "/a"]]}),
        disk(json!({"partitions": [{"device": "/dev/vdb", "layout": true, "tableType": "mbr"}]})),
        disk(
            json!({"partitions": [{"device": "/dev/vdb", "diskLayout": [{"percentage": 60}, {"percentage": 40}]}]}),
        ),
        disk(
            json!({"partitions": [{"device": "/dev/vdb", "diskLayout": [{"percentage": 100, "partitionType": "LinuxExtended"}]}]}),
        ),
        disk(json!({"filesystems": [{"device": "/dev/vdb", "filesystem": "ext4", "partition": "auto"}]})),
        disk(json!({"filesystems": [{"device": "/dev/vdb", "filesystem": "ext4", "replaceFS": "ntfs"}]})),
    ];
    for spec in refused {
        assert!(rendered(spec.clone(), &[], json!([])).is_err(), "{spec}");
    }
    assert!(rendered(json!({}), &[], json!([{"name": "ops", "inactive": true}])).is_err());
}

#[test]
fn the_users_container_linux_config_is_appended() {
    let config = |text: &str| json!({"ignition": {"containerLinuxConfig": {"additionalConfig": text}}});
    let text = "
systemd:
  units:
  - name: kubeadm.service
    enabled: true
    dropins:
    - name: 10-flatcar.conf
      contents: |
        [Unit]
        After=containerd.service
storage:
  files:
  - path: /etc/a
    mode: 0600
    contents:
      inline: x y
passwd:
  users:
  - name: core
    ssh_authorized_keys: [k]
";
    let tree = rendered(config(text), &[], json!([])).unwrap();
    let unit = &tree["systemd"]["units"][1];
    assert_eq!(unit["dropins"][0]["contents"], "[Unit]\nAfter=containerd.service\n");
    assert_eq!(content(&tree, "/etc/a"), "x y");
    let entries = tree["storage"]["files"].as_array().unwrap();
    assert_eq!(entries.last().unwrap()["mode"], 384, "octal, as in YAML 1.1");
    assert_eq!(tree["passwd"]["users"], json!([{"name": "core", "sshAuthorizedKeys": ["k"]}]));
    let error = rendered(config("storage:\n  disks: []\n"), &[], json!([])).unwrap_err();
    assert!(error.to_string().ends_with("storage.disks is not supported"), "{error}");
    let error =
        rendered(config("passwd: {users: [{password_hash: \"hunter2}]}\n"), &[], json!([])).unwrap_err();
    assert!(
        error.to_string().contains("additionalConfig: ") && !error.to_string().contains("hunter2"),
        "{error}"
    );
}

#[test]
fn remote_files_keep_their_compression_and_hash_and_other_lists_their_fields() {
    let config = |text: &str| json!({"ignition": {"containerLinuxConfig": {"additionalConfig": text}}});
    let text = "
networkd:
  units:
  - name: 00-eth0.network
    contents: x
storage:
  filesystems:
  - name: data
    mount:
      device: /dev/vdb
      format: ext4
      wipe_filesystem: true
  files:
  - path: /opt/a
    filesystem: data
    contents:
      remote:
        url: https://a.lab/a.gz
        compression: gzip
        verification:
          hash:
            function: sha512
            sum: abc
passwd:
  groups:
  - name: ops
    gid: 1500
";
    let tree = rendered(config(text), &[], json!([])).unwrap();
    assert_eq!(tree["networkd"]["units"], json!([{"name": "00-eth0.network", "contents": "x"}]));
    let mount = json!({"device": "/dev/vdb", "format": "ext4", "wipeFilesystem": true});
    assert_eq!(tree["storage"]["filesystems"], json!([{"name": "data", "mount": mount}]));
    let file = tree["storage"]["files"].as_array().unwrap().last().unwrap();
    assert_eq!(file["filesystem"], "data");
    let contents = json!({"source": "https://a.lab/a.gz", "compression": "gzip",
        "verification": {"hash": "sha512-abc"}});
    assert_eq!(file["contents"], contents);
    assert_eq!(tree["passwd"]["groups"], json!([{"name": "ops", "gid": 1500}]));
    let without = text.replace("            sum: abc\n", "");
    let error = rendered(config(&without), &[], json!([])).unwrap_err();
    assert!(error.to_string().contains("hash.function and hash.sum"), "{error}");
}

#[test]
fn the_files_of_a_document_that_openstack_would_refuse_are_compressed() {
    let file = |content: String| File { path: "/a".to_owned(), content: content.into(), ..File::default() };
    let text = "a line of a long file\n".repeat(LIMIT / 20);
    let tree = rendered(json!({}), &[file(text.clone())], json!([])).unwrap();
    assert!(tree.to_string().len() < LIMIT);
    let entries = tree["storage"]["files"].as_array().unwrap();
    let contents = &entries.iter().find(|entry| entry["path"] == "/a").unwrap()["contents"];
    assert_eq!(contents["compression"], "gzip");
    let source = contents["source"].as_str().unwrap().strip_prefix("data:;base64,").unwrap();
    let mut unpacked = String::new();
    let data = STANDARD.decode(source).unwrap();
    flate2::read::GzDecoder::new(data.as_slice()).read_to_string(&mut unpacked).unwrap();
    assert_eq!(unpacked, text);
    let short = content(&tree, "/etc/kubernetes/pki/ca.crt");
    assert_eq!(short, "a b\n", "a file that compression makes longer stays as it is");
    let small = rendered(json!({}), &[file("a line\n".repeat(100))], json!([])).unwrap();
    assert!(!small.to_string().contains("compression"), "upstream's form, while the cloud accepts it");
}
