//! Root folder of the guests: built once, in the background of CI, and kept in the cache.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};

use crate::{prerequisites, run};

/// Environment variable with the time until which a build is awaited, in seconds of the Unix epoch. CI sets it.
const AWAIT_UNTIL: &str = "CAPSTAN_AWAIT_GUESTS_UNTIL";

/// Interval in which another process's build is checked.
const INTERVAL: Duration = Duration::from_secs(1);

/// Root folder of the guests, and the versions of what it contains.
pub(crate) struct Image {
    pub(super) root: PathBuf,
    /// Name in Glance.
    pub(super) name: String,
    pub(super) kubernetes: String,
    pub(super) etcd: String,
    pub(super) coredns: String,
}

/// Builds the root folder, unless it exists. Returns `None` if another process still builds it when CI must end.
pub(crate) fn image() -> anyhow::Result<Option<Image>> {
    let kubernetes = prerequisites::version("kubernetes", "k8s.io/kubernetes")?;
    let etcd = prerequisites::version("etcd", "go.etcd.io/etcd/server/v3")?;
    let coredns = prerequisites::version("coredns", "github.com/coredns/coredns")?;
    let cache = run::cache()?.join("guests");
    std::fs::create_dir_all(&cache).with_context(|| format!("{}", cache.display()))?;
    let key = key(&[&kubernetes, &etcd, &coredns])?;
    let root = cache.join(&key);
    let image = Image { root, name: format!("kube-{kubernetes}-{key}"), kubernetes, etcd, coredns };
    let lock = File::create(cache.join("lock"))?;
    let end = awaited_until()?;
    while lock.try_lock().is_err() {
        if SystemTime::now() > end {
            return Ok(None);
        }
        std::thread::sleep(INTERVAL);
    }
    if !image.root.exists() {
        build(&image)?;
        remove_others(&cache, &key)?;
    }
    Ok(Some(image))
}

fn awaited_until() -> anyhow::Result<SystemTime> {
    let forever = SystemTime::now() + Duration::from_hours(24);
    let Some(text) = std::env::var_os(AWAIT_UNTIL) else { return Ok(forever) };
    let seconds = text.to_string_lossy().parse().with_context(|| format!("{AWAIT_UNTIL} is no time"))?;
    Ok(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Returns a key of everything that the folder is built from.
fn key(versions: &[&str]) -> anyhow::Result<String> {
    let hack = run::root()?.join("hack");
    let mut hasher = DefaultHasher::new();
    versions.hash(&mut hasher);
    for name in ["guests/build.sh", "guests/oci.py", "guests/pause.c", "guests/root", "tools/ignition"] {
        hash(&hack.join(name), &mut hasher)?;
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn hash(path: &Path, hasher: &mut DefaultHasher) -> anyhow::Result<()> {
    if !path.is_dir() {
        let content = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
        content.hash(hasher);
        return Ok(());
    }
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    entries.sort();
    for entry in entries {
        entry.file_name().hash(hasher);
        hash(&entry, hasher)?;
    }
    Ok(())
}

fn build(image: &Image) -> anyhow::Result<()> {
    prerequisites::openstack()?;
    let folder = |program: &Path| program.parent().map(Path::to_owned).context("a program is in a folder");
    let mut kubernetes = PathBuf::new();
    for name in [
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-proxy",
        "kubeadm",
        "kubelet",
        "kubectl",
    ] {
        kubernetes = folder(&prerequisites::kubernetes(name)?)?;
    }
    prerequisites::built_etcd()?;
    let etcd = folder(&prerequisites::etcdctl()?)?;
    let coredns = folder(&prerequisites::coredns()?)?;
    eprintln!("building the root folder of the guests, once (two minutes)");
    let mut command = Command::new("bash");
    command.arg(run::root()?.join("hack/guests/build.sh")).arg(&image.root);
    command.env("KUBERNETES", kubernetes).env("ETCD", etcd).env("COREDNS", coredns);
    command.env("KUBERNETES_VERSION", &image.kubernetes).env("ETCD_VERSION", &image.etcd);
    command.env("COREDNS_VERSION", &image.coredns).env("IGNITION", ignition()?);
    run::shown(&mut command)?;
    if !image.root.exists() {
        bail!("hack/guests/build.sh has not made {}", image.root.display());
    }
    Ok(())
}

/// Builds Ignition, and returns its path. Debian has chroot in another folder than Flatcar.
fn ignition() -> anyhow::Result<PathBuf> {
    prerequisites::libraries_of_ignition()?;
    let module = "github.com/coreos/ignition";
    let version = prerequisites::version("ignition", module)?;
    let internal = format!("{module}/internal");
    let flags =
        format!("-s -w -X {internal}/distro.chrootCmd=/usr/sbin/chroot -X {internal}/version.Raw={version}");
    let home = run::cache()?.join("tools").join(format!("ignition-{version}"));
    std::fs::create_dir_all(&home).with_context(|| format!("{}", home.display()))?;
    let program = home.join("ignition");
    let mut command = Command::new("go");
    command.args(["build", "-trimpath", "-ldflags", &flags, "-o"]).arg(&program).arg(&internal);
    command.current_dir(run::root()?.join("hack/tools/ignition")).env("CGO_ENABLED", "1");
    run::shown(&mut command)?;
    Ok(program)
}

/// Removes folders that were built from other sources: each has 1.1 GB.
fn remove_others(cache: &Path, key: &str) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(cache)? {
        let entry = entry?;
        if entry.file_name() != key && entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())
                .with_context(|| format!("{}: cannot be removed", entry.path().display()))?;
        }
    }
    Ok(())
}
