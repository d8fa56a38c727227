//! Warnings about what cloud-init changes because it takes a part of a file or a command for Jinja.

use apiserver_types::KubeadmConfigSpec;
use controllers_bootstrap::{File, jinja};

/// Returns a warning for each file and command that cloud-init changes, with its place and the remedy.
pub(super) fn warnings(files: &[File], spec: &KubeadmConfigSpec) -> Vec<String> {
    let of_files = files.iter().filter(|file| file.encoding.is_none()).filter_map(|file| {
        let offset = jinja::suspicious(std::str::from_utf8(&file.content).ok()?)?;
        let remedy = "Give the content in encoding base64 to keep it";
        Some(warning(&format!("file {}", file.path), offset, remedy))
    });
    of_files.chain(of_commands(spec)).collect()
}

fn of_commands(spec: &KubeadmConfigSpec) -> impl Iterator<Item = String> {
    let lists = [
        ("bootCommands", &spec.boot_commands),
        ("preKubeadmCommands", &spec.pre_kubeadm_commands),
        ("postKubeadmCommands", &spec.post_kubeadm_commands),
    ];
    lists.into_iter().flat_map(|(field, commands)| {
        commands.iter().flatten().enumerate().filter_map(move |(index, command)| {
            let offset = jinja::suspicious(command)?;
            let remedy = "Move the command into a file whose content is in encoding base64";
            Some(warning(&format!("spec.{field}[{index}]"), offset, remedy))
        })
    })
}

fn warning(place: &str, offset: usize, remedy: &str) -> String {
    format!("{place}: cloud-init takes the text at byte {offset} for Jinja, and changes it. {remedy}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_and_commands_that_cloud_init_changes_are_named_with_their_place() {
        let file = |path: &str, content: &str| File::of_root(path, "0644", content);
        let files = [file("/a", "{{ local_hostname }}"), file("/b", "x {{ .Values }}"), file("/c", "\u{e9}")];
        let spec: KubeadmConfigSpec = serde_json::from_value(json!({
            "bootCommands": ["hostname {{ local_hostname }}"],
            "preKubeadmCommands": ["true", "echo ${#list[@]}"],
            "postKubeadmCommands": ["docker ps --format '{{.ID}}'"],
        }))
        .unwrap();
        let changed = |place: &str, offset: usize| {
            format!("{place}: cloud-init takes the text at byte {offset} for Jinja, and changes it. ")
        };
        let expected = [
            changed("file /b", 2) + "Give the content in encoding base64 to keep it",
            changed("spec.preKubeadmCommands[1]", 6)
                + "Move the command into a file whose content is in encoding base64",
            changed("spec.postKubeadmCommands[0]", 20)
                + "Move the command into a file whose content is in encoding base64",
        ];
        assert_eq!(warnings(&files, &spec), expected);
    }
}
