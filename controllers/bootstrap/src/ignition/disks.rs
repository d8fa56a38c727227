//! Disks, filesystems and mounts of an Ignition configuration.

use apiserver_types::{Filesystem, KubeadmConfigSpec, Partition, PartitionTableType};
use serde_json::{Value, json};

use crate::setup::DocumentError;

/// Type GUIDs of partitions in a GPT, by their names in Cluster API. Windows has one type for all its filesystems.
const PARTITION_TYPES: [(&str, &str); 6] = [
    ("Linux", "0fc63daf-8483-4772-8e79-3d69d8477de4"),
    ("LinuxSwap", "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f"),
    ("LinuxRAID", "a19d880f-05fc-4d3b-a006-743f0f84911e"),
    ("LVM", "e6d6d379-f507-44c2-a23c-238f2a3df928"),
    ("Fat32", "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7"),
    ("NTFS", "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7"),
];

/// Type of partitions that only an MBR has.
const EXTENDED: &str = "LinuxExtended";

/// Share of a partition that fills its disk.
const WHOLE: i32 = 100;

/// Returns a field that Ignition has no form for.
pub(super) fn check(spec: &KubeadmConfigSpec) -> Option<&'static str> {
    let other_table = |it: &Partition| it.table_type.is_some_and(|kind| kind != PartitionTableType::Gpt);
    if partitions(spec).iter().any(other_table) {
        return Some("diskSetup.partitions[].tableType other than gpt");
    }
    if partitions(spec).iter().any(|it| !is_whole(it)) {
        // Sizes in Ignition are absolute, and the size of the disk is not known here.
        return Some("diskSetup.partitions[].diskLayout other than one partition of 100 percent");
    }
    let layouts = partitions(spec).iter().flat_map(|it| it.disk_layout.iter().flatten());
    if layouts.into_iter().any(|part| part.partition_type.as_deref() == Some(EXTENDED)) {
        return Some("diskSetup.partitions[].diskLayout[].partitionType LinuxExtended");
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

/// Reports whether a disk has no layout of its own, or one partition that fills it.
fn is_whole(partition: &Partition) -> bool {
    let layout = partition.disk_layout.as_deref().unwrap_or_default();
    layout.is_empty() || matches!(layout, [part] if part.percentage == WHOLE)
}

/// Returns the entry of the partition that fills the disk, if there is one. Its size is not given: it takes all space.
fn whole(partition: &Partition) -> Option<Value> {
    let Some([part]) = partition.disk_layout.as_deref() else {
        return (partition.layout == Some(true)).then(|| json!({}));
    };
    let mut entry = json!({"number": 1});
    if let Some(name) = part.partition_type.as_deref() {
        let guid = PARTITION_TYPES.iter().find(|(known, _)| *known == name).map_or(name, |(_, guid)| guid);
        entry["typeGuid"] = guid.into();
    }
    Some(entry)
}

/// Returns the disks.
pub(super) fn disks(spec: &KubeadmConfigSpec) -> Vec<Value> {
    let disk = |partition: &Partition| {
        let mut disk =
            json!({"device": partition.device, "wipeTable": partition.overwrite.unwrap_or_default()});
        if let Some(entry) = whole(partition) {
            disk["partitions"] = json!([entry]);
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
