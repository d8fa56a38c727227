//! The two packages: `capstan`, and `capstan-etcd` with a current etcd.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::archive::{self, File, Files};
use crate::run;

/// Package, before it is packed.
pub(super) struct Package {
    pub(super) name: &'static str,
    pub(super) version: String,
    pub(super) architecture: &'static str,
    /// Fields of the control file between the architecture and the description.
    relations: String,
    description: &'static str,
    conffiles: &'static str,
    scripts: &'static [&'static str],
    files: Files,
}

const CAPSTAN: &str = "management plane for Kubernetes clusters on OpenStack
 Serves the Cluster API from one program, with its own storage, endpoint and
 identities. `capstan init` installs it on one or more machines.";

const ETCD: &str = "etcd of Capstan
 A current etcd, for the members that `capstan init` and `capstan join` set up.
 The etcd of the distribution is too old for consistent reads from the cache.";

impl Package {
    /// Returns the package `capstan` with this program.
    pub(super) fn capstan(program: &Path, version: &str, architecture: &'static str) -> anyhow::Result<Self> {
        let content = std::fs::read(program).with_context(|| program.display().to_string())?;
        let depends = glibc(&content)
            .map_or_else(String::new, |version| format!("Depends: libc6 (>= {version}), libgcc-s1\n"));
        let mut package = Self {
            name: "capstan",
            version: version.to_owned(),
            architecture,
            relations: format!("{depends}Recommends: capstan-etcd, systemd, ca-certificates\n"),
            description: CAPSTAN,
            conffiles: "/etc/capstan/config.yaml\n",
            scripts: &["postinst", "prerm", "postrm"],
            files: Files::new(),
        };
        package.add("usr/bin/capstan", content, 0o755);
        for (path, source) in [
            ("usr/lib/systemd/system/capstan.service", "capstan.service"),
            ("usr/lib/sysusers.d/capstan.conf", "capstan.sysusers"),
            ("usr/lib/tmpfiles.d/capstan.conf", "capstan.tmpfiles"),
            ("etc/capstan/config.yaml", "config.yaml"),
        ] {
            package.add(path, std::fs::read(manifest(&format!("systemd/{source}"))?)?, 0o644);
        }
        package.shells(program)?;
        package.manual(program)?;
        package.documents()?;
        Ok(package)
    }

    /// Adds the completion scripts of shells, as the program prints them.
    fn shells(&mut self, program: &Path) -> anyhow::Result<()> {
        for (shell, path) in [
            ("bash", "usr/share/bash-completion/completions/capstan"),
            ("fish", "usr/share/fish/vendor_completions.d/capstan.fish"),
            ("zsh", "usr/share/zsh/vendor-completions/_capstan"),
        ] {
            let script = run::output(Command::new(program).args(["completion", shell]))?;
            self.add(path, script.into_bytes(), 0o644);
        }
        Ok(())
    }

    /// Adds the pages of the manual, as the program writes them.
    fn manual(&mut self, program: &Path) -> anyhow::Result<()> {
        let pages = std::env::temp_dir().join(format!("capstan-manual-{}", std::process::id()));
        run::output(Command::new(program).args(["manual", "--output"]).arg(&pages))?;
        for entry in std::fs::read_dir(&pages)? {
            let path = entry?.path();
            let name =
                path.file_name().and_then(|name| name.to_str()).context("a page has no name")?.to_owned();
            let page = archive::compressed(&std::fs::read(&path)?)?;
            self.add(&format!("usr/share/man/man1/{name}.gz"), page, 0o644);
        }
        Ok(std::fs::remove_dir_all(pages)?)
    }

    /// Returns the package `capstan-etcd` with this program.
    pub(super) fn etcd(program: &Path, version: &str, architecture: &'static str) -> anyhow::Result<Self> {
        let mut package = Self {
            name: "capstan-etcd",
            version: version.trim_start_matches('v').to_owned(),
            architecture,
            relations: "Enhances: capstan\n".to_owned(),
            description: ETCD,
            conffiles: "",
            scripts: &["postinst", "prerm"],
            files: Files::new(),
        };
        // Not in /usr/bin: the distribution's package etcd-server has its etcd there.
        let content = std::fs::read(program).with_context(|| program.display().to_string())?;
        package.add("usr/lib/capstan/etcd", content, 0o755);
        let unit = std::fs::read_to_string(manifest("systemd/capstan-etcd.service")?)?;
        let unit = unit.replace("/usr/bin/etcd ", "/usr/lib/capstan/etcd ");
        package.add("usr/lib/systemd/system/capstan-etcd.service", unit.into_bytes(), 0o644);
        package.documents()?;
        Ok(package)
    }

    fn add(&mut self, path: &str, content: Vec<u8>, mode: u32) {
        self.files.insert(path.to_owned(), File { content, mode });
    }

    fn documents(&mut self) -> anyhow::Result<()> {
        let (folder, version) = (format!("usr/share/doc/{}", self.name), &self.version);
        let changelog = format!(
            "{} ({version}) unstable; urgency=medium\n\n  * Release {version}.\n\n \
             -- Capstan <capstan@localhost>  Thu, 01 Jan 1970 00:00:00 +0000\n",
            self.name
        );
        self.add(&format!("{folder}/copyright"), std::fs::read(manifest("debian/copyright")?)?, 0o644);
        let changelog = archive::compressed(changelog.as_bytes())?;
        self.add(&format!("{folder}/changelog.gz"), changelog, 0o644);
        Ok(())
    }

    /// Returns the name of the file of the package.
    pub(super) fn file_name(&self) -> String {
        format!("{}_{}_{}.deb", self.name, self.version, self.architecture)
    }

    /// Packs the package.
    pub(super) fn pack(&self) -> anyhow::Result<Vec<u8>> {
        let text = |content: String, mode| File { content: content.into_bytes(), mode };
        // Without sums, dpkg computes them when it installs the package.
        let mut control = Files::from([("control".to_owned(), text(self.control(), 0o644))]);
        if !self.conffiles.is_empty() {
            control.insert("conffiles".to_owned(), text(self.conffiles.to_owned(), 0o644));
        }
        for script in self.scripts {
            let content = std::fs::read_to_string(manifest(&format!("debian/{}.{script}", self.name))?)?;
            control.insert((*script).to_owned(), text(content, 0o755));
        }
        archive::pack(&control, &self.files)
    }

    fn control(&self) -> String {
        let size: usize = self.files.values().map(|file| file.content.len().div_ceil(1024)).sum();
        format!(
            "Package: {}\nVersion: {}\nArchitecture: {}\nMaintainer: Capstan <capstan@localhost>\nInstalled-Size: {size}\n\
             {}Section: admin\nPriority: optional\nDescription: {}\n",
            self.name, self.version, self.architecture, self.relations, self.description
        )
    }
}

fn manifest(name: &str) -> anyhow::Result<PathBuf> {
    Ok(run::root()?.join("manifests").join(name))
}

/// Returns the newest version of the C library that a program needs, by the names of its symbols' versions; `None` for a
/// static program.
fn glibc(program: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"GLIBC_";
    let versions = program.windows(NAME.len()).enumerate().filter(|(_, found)| *found == NAME);
    let numbers = versions.filter_map(|(at, _)| {
        let rest = program.get(at + NAME.len()..)?;
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        let (major, minor) = std::str::from_utf8(rest.get(..end)?).ok()?.split_once('.')?;
        let minor = minor.split('.').next()?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    numbers.max().map(|(major, minor)| format!("{major}.{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_the_c_library_counts() {
        let program = b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0";
        assert_eq!(glibc(program).as_deref(), Some("2.34"));
        assert_eq!(glibc(b"static"), None);
    }
}
