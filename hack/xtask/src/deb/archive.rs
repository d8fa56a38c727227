//! Form of a Debian package: an `ar` archive with two compressed `tar` archives. The same inputs make the same bytes.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::ensure;
use flate2::{Compression, GzBuilder};

/// Byte in the head of gzip for an unknown operating system.
const UNKNOWN_SYSTEM: u8 = 255;

/// Time of all files: 2024-01-01. lintian refuses files from before 1984. Unit: seconds since 1970.
const MODIFIED: u64 = 1_704_067_200;

/// File of a package.
#[derive(Debug, Clone)]
pub(super) struct File {
    pub(super) content: Vec<u8>,
    pub(super) mode: u32,
}

/// Files by their paths, without a slash at the beginning.
pub(super) type Files = BTreeMap<String, File>;

/// Packs a package.
pub(super) fn pack(control: &Files, data: &Files) -> anyhow::Result<Vec<u8>> {
    let mut archive = b"!<arch>\n".to_vec();
    member(&mut archive, "debian-binary", b"2.0\n")?;
    member(&mut archive, "control.tar.gz", &compressed(&tar(control)?)?)?;
    member(&mut archive, "data.tar.gz", &compressed(&tar(data)?)?)?;
    Ok(archive)
}

/// Appends a member of an `ar` archive: a head of 60 characters, the content, and a byte that makes the length even.
fn member(archive: &mut Vec<u8>, name: &str, content: &[u8]) -> anyhow::Result<()> {
    let head = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, "100644", content.len());
    ensure!(head.len() == 60, "{name}: the head of the member has {} characters", head.len());
    archive.extend_from_slice(head.as_bytes());
    archive.extend_from_slice(content);
    if content.len() % 2 == 1 {
        archive.push(b'\n');
    }
    Ok(())
}

fn tar(files: &Files) -> anyhow::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut directories: Vec<String> = Vec::new();
    for (name, file) in files {
        for (at, _) in name.match_indices('/') {
            let directory = name.get(..=at).unwrap_or_default().to_owned();
            if !directories.contains(&directory) {
                append(&mut builder, &directory, tar::EntryType::Directory, 0o755, &[])?;
                directories.push(directory);
            }
        }
        append(&mut builder, name, tar::EntryType::Regular, file.mode, &file.content)?;
    }
    Ok(builder.into_inner()?)
}

fn append(
    builder: &mut tar::Builder<Vec<u8>>,
    name: &str,
    kind: tar::EntryType,
    mode: u32,
    content: &[u8],
) -> anyhow::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_username("root")?;
    header.set_groupname("root")?;
    header.set_mtime(MODIFIED);
    header.set_size(u64::try_from(content.len())?);
    Ok(builder.append_data(&mut header, name, content)?)
}

/// Compresses bytes, without a name or a time.
pub(crate) fn compressed(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let builder = GzBuilder::new().mtime(0).operating_system(UNKNOWN_SYSTEM);
    let mut encoder = builder.write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dpkg_reads_the_package_and_two_builds_are_the_same() {
        let file = |text: &str, mode| File { content: text.as_bytes().to_vec(), mode };
        let control =
            "Package: lab\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: lab\n";
        let control = Files::from([("control".to_owned(), file(control, 0o644))]);
        let data = Files::from([("usr/bin/lab".to_owned(), file("odd", 0o755))]);
        let package = pack(&control, &data).unwrap();
        assert_eq!(package, pack(&control, &data).unwrap());
        if !crate::run::is_there("dpkg-deb") {
            return;
        }
        let path = std::env::temp_dir().join(format!("capstan-deb-{}.deb", std::process::id()));
        std::fs::write(&path, package).unwrap();
        let output = std::process::Command::new("dpkg-deb").arg("--contents").arg(&path).output().unwrap();
        std::fs::remove_file(path).unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("-rwxr-xr-x root/root") && text.contains("usr/bin/lab"), "{text}");
    }
}
