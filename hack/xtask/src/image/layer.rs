//! The layer of the image: the program, the files that it needs, and nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use flate2::{Compression, GzBuilder};

/// User and group of the program.
pub(super) const USER: u64 = 65532;

/// CAs that the program trusts for clouds, as the distribution of the build machine has them.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Byte in the head of gzip for an unknown operating system.
const UNKNOWN_SYSTEM: u8 = 255;

/// Uncompressed layer.
pub(super) struct Layer(Vec<u8>);

/// Entry of the layer.
struct Entry {
    content: Option<Vec<u8>>,
    mode: u32,
    owner: u64,
}

impl Entry {
    const fn directory(mode: u32, owner: u64) -> Self {
        Self { content: None, mode, owner }
    }

    const fn file(content: Vec<u8>, mode: u32) -> Self {
        Self { content: Some(content), mode, owner: 0 }
    }
}

/// Returns the libraries and the loader that a program needs, by the paths at which it looks for them. A static program
/// needs none.
pub(super) fn libraries(binary: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(binary).output().context("ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let path = |line: &str| {
        // Either `libc.so.6 => /lib/libc.so.6 (0x…)` or `/lib64/ld-linux.so.2 (0x…)`.
        let path = line.split_once("=> ").map_or(line, |(_, path)| path);
        path.trim().split(' ').next().filter(|path| path.starts_with('/')).map(PathBuf::from)
    };
    let mut all: Vec<PathBuf> = text.lines().filter_map(path).collect();
    all.sort();
    Ok(all)
}

impl Layer {
    /// Packs the layer: sorted by name, without times.
    pub(super) fn new(binary: &Path, libraries: &[PathBuf]) -> anyhow::Result<Self> {
        let mut entries = BTreeMap::new();
        entries.insert("capstan".to_owned(), Entry::file(read(binary)?, 0o755));
        for library in libraries {
            let name = library.display().to_string().trim_start_matches('/').to_owned();
            entries.insert(name, Entry::file(read(library)?, 0o755));
        }
        let passwd = format!(
            "root:x:0:0:root:/:/sbin/nologin\ncapstan:x:{USER}:{USER}:capstan:/var/lib/capstan:/sbin/nologin\n"
        );
        for (name, text) in [
            ("etc/passwd", passwd),
            ("etc/group", format!("root:x:0:\ncapstan:x:{USER}:\n")),
            ("etc/nsswitch.conf", "hosts: files dns\n".to_owned()),
        ] {
            entries.insert(name.to_owned(), Entry::file(text.into_bytes(), 0o644));
        }
        let certificates = CERTIFICATES.trim_start_matches('/').to_owned();
        entries.insert(certificates, Entry::file(read(Path::new(CERTIFICATES))?, 0o644));
        let parents: Vec<String> = entries.keys().flat_map(|name| parents(name)).collect();
        for parent in parents.into_iter().chain(["etc/capstan", "var", "var/lib"].map(str::to_owned)) {
            entries.insert(parent, Entry::directory(0o755, 0));
        }
        entries.insert("tmp".to_owned(), Entry::directory(0o1777, 0));
        entries.insert("var/lib/capstan".to_owned(), Entry::directory(0o700, USER));
        pack(&entries).map(Self)
    }

    pub(super) fn tar(&self) -> &[u8] {
        &self.0
    }

    /// Compresses the layer, without a name or a time.
    pub(super) fn compressed(&self) -> anyhow::Result<Vec<u8>> {
        let builder = GzBuilder::new().mtime(0).operating_system(UNKNOWN_SYSTEM);
        let mut encoder = builder.write(Vec::new(), Compression::best());
        std::io::Write::write_all(&mut encoder, &self.0)?;
        Ok(encoder.finish()?)
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))
}

/// Returns the directories above a file.
fn parents(name: &str) -> Vec<String> {
    name.match_indices('/').filter_map(|(at, _)| name.get(..at)).map(str::to_owned).collect()
}

fn pack(entries: &BTreeMap<String, Entry>) -> anyhow::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, entry) in entries {
        let content = entry.content.as_deref().unwrap_or_default();
        let mut header = tar::Header::new_gnu();
        header.set_mode(entry.mode);
        header.set_uid(entry.owner);
        header.set_gid(entry.owner);
        header.set_mtime(0);
        header.set_size(u64::try_from(content.len())?);
        let is_directory = entry.content.is_none();
        header.set_entry_type(if is_directory { tar::EntryType::Directory } else { tar::EntryType::Regular });
        let path = if is_directory { format!("{name}/") } else { name.clone() };
        builder.append_data(&mut header, path, content)?;
    }
    Ok(builder.into_inner()?)
}
