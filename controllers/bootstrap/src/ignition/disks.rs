//! Disks, filesystems and mounts of an Ignition configuration.

use apiserver_types::{Filesystem, KubeadmConfigSpec, Partition, PartitionTableType};
use serde_json::{Value, json};

use crate::setup::DocumentError;

/// Returns a field that Ignition has no form for.
pub(super) fn check(spec: &KubeadmConfigSpec) -> Option<&'static str> {
    let other_table = |it: &Partition| it.table_type.is_some_and(|kind| kind != PartitionTableType::Gpt);
    if partitions(spec).iter().any(other_table) {
        return Some("diskSetup.partitions[].tableType other than gpt");
    }
    if filesystems_of(spec).iter().any(|it| it.replace_fs.is_some()) {
        return Some("diskSetup.filesystems[].replaceFS");
    }
    let part = filesystems_of(spec).iter().any(|it| it.partition.is_some());
    part.then_some("diskSetup.filesystems[].partition")
}

fn partitions(spec: &KubeadmConfigSpec) -> &[Partition] {
    spec.disk_setup.as_ref().and_then(|it| it.partitions.as_deref()).unwrap_or_default()
}

fn filesystems_of(spec: &KubeadmConfigSpec) -> &[Filesystem] {
    spec.disk_setup.as_ref().and_then(|it| it.filesystems.as_deref()).unwrap_or_default()
}

/// Returns the disks. One partition covers the whole disk; other layouts are ignored, as upstream does.
pub(super) fn disks(spec: &KubeadmConfigSpec) -> Vec<Value> {
    let disk = |partition: &Partition| {
        let mut disk =
            json!({"device": partition.device, "wipeTable": partition.overwrite.unwrap_or_default()});
        if partition.layout == Some(true) {
            disk["partitions"] = json!([{}]);
        }
        disk
    };
    partitions(spec).iter().map(disk).collect()
}

/// Returns the filesystems.
pub(super) fn filesystems(spec: &KubeadmConfigSpec) -> Vec<Value> {
    let filesystem = |filesystem: &Filesystem| {
        let mut mount = json!({
            "device": filesystem.device,
            "format": filesystem.filesystem,
            "wipeFilesystem": filesystem.overwrite.unwrap_or_default(),
        });
        if let Some(label) = &filesystem.label {
            mount["label"] = label.as_str().into();
        }
        if let Some(options) = &filesystem.extra_opts {
            mount["options"] = json!(options);
        }
        let name = filesystem.label.as_deref().unwrap_or(&filesystem.device);
        json!({"name": name, "mount": mount})
    };
    filesystems_of(spec).iter().map(filesystem).collect()
}

/// Returns the units of the mounts.
pub(super) fn mounts(spec: &KubeadmConfigSpec) -> Result<Vec<Value>, DocumentError> {
    spec.mounts.iter().flatten().map(|mount| unit(spec, mount)).collect()
}

fn unit(spec: &KubeadmConfigSpec, mount: &[String]) -> Result<Value, DocumentError> {
    let [what, path, options @ ..] = mount else {
        return Err(DocumentError::Unsupported("mounts: an entry needs a filesystem and a path".to_owned()));
    };
    let label = what.strip_prefix("LABEL=").unwrap_or(what);
    let known = filesystems_of(spec).iter().find(|it| it.label.as_deref() == Some(label));
    let device = known.map(|it| it.device.as_str()).ok_or_else(|| {
        let message = format!("mounts: {what:?} is the label of no filesystem in diskSetup.filesystems");
        DocumentError::Unsupported(message)
    })?;
    let mut contents = format!("[Unit]\nBefore=local-fs.target\n[Mount]\nWhat={device}\nWhere={path}\n");
    if !options.is_empty() {
        contents.push_str(&format!("Options={}\n", options.join(",")));
    }
    contents.push_str("[Install]\nRequiredBy=local-fs.target\n");
    // systemd finds a mount only if its unit has the name of the path.
    let name = path.trim_matches('/').replace('-', "\\x2d").replace('/', "-");
    Ok(json!({"name": format!("{name}.mount"), "enabled": true, "contents": contents}))
}
