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

/// Programs of Kubernetes in the root folder.
const PROGRAMS: [&str; 7] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubeadm",
    "kubelet",
    "kubectl",
];

/// Root folder of the guests, and the versions of what it contains.
pub(crate) struct Image {
    pub(super) root: PathBuf,
    /// Name in Glance of the image whose nodes have the release `kubernetes`.
    pub(super) name: String,
    /// Name in Glance of the image whose nodes have the release `earlier`.
    pub(super) earlier_name: String,
    pub(super) kubernetes: String,
    /// Release before `kubernetes`. Its programs are built from the same sources, so only their version differs.
    pub(super) earlier: String,
    /// Releases of the two minors after `kubernetes`, if the root folder has them. They are built from the same sources,
    /// too: kubeadm of these sources knows the feature gates that a configuration for later minors names, not earlier ones.
    pub(super) minors: Vec<String>,
    pub(super) etcd: String,
    pub(super) coredns: String,
}

impl Image {
    /// Returns the names of all its images in Glance.
    pub(super) fn names(&self) -> Vec<String> {
        let minors = self.minors.iter().map(|release| self.name.replace(&self.kubernetes, release));
        [self.name.clone(), self.earlier_name.clone()].into_iter().chain(minors).collect()
    }
}

/// Builds the root folder, unless it exists. Returns `None` if CI must end: another process still builds the folder, or no
/// time is left for the scenarios.
pub(crate) fn image() -> anyhow::Result<Option<Image>> {
    let kubernetes = prerequisites::version("kubernetes", "k8s.io/kubernetes")?;
    let etcd = prerequisites::version("etcd", "go.etcd.io/etcd/server/v3")?;
    let coredns = prerequisites::version("coredns", "github.com/coredns/coredns")?;
    let earlier = previous_patch(&kubernetes)?;
    let cache = run::cache()?.join("guests");
    std::fs::create_dir_all(&cache).with_context(|| format!("{}", cache.display()))?;
    let key = key(&[&kubernetes, &etcd, &coredns])?;
    let root = cache.join(&key);
    // A class appends the release to the name.
    let name_of = |release: &str| format!("kube-{key}-{release}");
    let (name, earlier_name) = (name_of(&kubernetes), name_of(&earlier));
    let image = Image { root, name, earlier_name, kubernetes, earlier, minors: Vec::new(), etcd, coredns };
    let lock = File::create(cache.join("lock"))?;
    let end = awaited_until()?;
    loop {
        if SystemTime::now() > end {
            return Ok(None);
        }
        if lock.try_lock().is_ok() {
            break;
        }
        std::thread::sleep(INTERVAL);
    }
    if !image.root.exists() {
        build(&image)?;
        remove_others(&cache, &key)?;
    }
    Ok(Some(image))
}

/// Returns an image whose root folder has releases of the two minors after, too. Builds the folder, unless it exists.
pub(super) fn with_minors(mut image: Image) -> anyhow::Result<Image> {
    let base = image.root.clone();
    image.minors = vec![later_minor(&image.kubernetes, 1)?, later_minor(&image.kubernetes, 2)?];
    image.root.as_mut_os_string().push("-minors");
    if image.root.exists() {
        return Ok(image);
    }
    let mut folders = Vec::new();
    for release in &image.minors {
        for name in PROGRAMS.into_iter().filter(|name| *name != "kubectl") {
            let program = prerequisites::kubernetes_as(name, release)?;
            folders.extend(program.parent().map(|folder| folder.display().to_string()));
        }
    }
    folders.dedup();
    let mut command = Command::new("bash");
    command.arg(run::root()?.join("hack/guests/build.sh")).arg(&image.root);
    command.env("BASE", base).env("RELEASES", folders.join(" "));
    run::shown(&mut command)?;
    Ok(image)
}

/// Returns the first release of a later minor.
fn later_minor(release: &str, minors: u32) -> anyhow::Result<String> {
    let mut numbers = release.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let minor: u32 = minor.parse().with_context(|| format!("{release}: the minor is no number"))?;
    Ok(format!("{major}.{}.0", minor.saturating_add(minors)))
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
    for name in [
        "guests/build.sh",
        "guests/oci.py",
        "guests/pause.c",
        "guests/proxy.c",
        "guests/root",
        "tools/ignition",
    ] {
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

/// Returns the release of the same minor that is one patch older.
fn previous_patch(release: &str) -> anyhow::Result<String> {
    let (minor, patch) = release.rsplit_once('.').context("a release of Kubernetes has three numbers")?;
    let patch: u32 = patch.parse().with_context(|| format!("{release}: the patch is no number"))?;
    Ok(format!("{minor}.{}", patch.checked_sub(1).with_context(|| format!("{release} is the first patch"))?))
}

fn build(image: &Image) -> anyhow::Result<()> {
    prerequisites::openstack()?;
    let folder = |program: &Path| program.parent().map(Path::to_owned).context("a program is in a folder");
    let (mut kubernetes, mut earlier) = (PathBuf::new(), PathBuf::new());
    for name in PROGRAMS {
        kubernetes = folder(&prerequisites::kubernetes(name)?)?;
    }
    for name in PROGRAMS.into_iter().filter(|name| *name != "kubectl") {
        earlier = folder(&prerequisites::kubernetes_as(name, &image.earlier)?)?;
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
    command.env("EARLIER", earlier).env("EARLIER_VERSION", &image.earlier);
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
