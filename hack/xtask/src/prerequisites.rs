//! Prerequisites of the commands: installs missing tools, or names them.

mod release;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::run;
pub(crate) use release::{cargo_auditable, program_of_etcd, seccomp};

/// Version of cargo-deny.
const CARGO_DENY: &str = "0.20.2";

/// Debian package, and a file that exists if it is installed.
struct Package {
    name: &'static str,
    file: &'static str,
}

/// Build dependencies of `etcd-client`: the protobuf compiler and its well-known types.
const PROTOC: [Package; 2] = [
    Package { name: "protobuf-compiler", file: "/usr/bin/protoc" },
    Package { name: "libprotobuf-dev", file: "/usr/include/google/protobuf/descriptor.proto" },
];

/// Programs with which the end-to-end lab creates certificates and forged requests.
const LAB: [Package; 2] =
    [Package { name: "openssl", file: "/usr/bin/openssl" }, Package { name: "curl", file: "/usr/bin/curl" }];

/// Compiler that builds libFuzzer.
const COMPILER: [Package; 1] = [Package { name: "g++", file: "/usr/bin/g++" }];

/// Compiler and libraries in C that Ignition uses.
const IGNITION: [Package; 3] = [
    Package { name: "gcc", file: "/usr/bin/gcc" },
    Package { name: "libc6-dev", file: "/usr/include/stdio.h" },
    Package { name: "libblkid-dev", file: "/usr/include/blkid/blkid.h" },
];

/// Package with the etcd of the distribution.
const ETCD: Package = Package { name: "etcd-server", file: "/usr/bin/etcd" };

/// Servers of a Swift, and what its proxy needs for users of Keystone.
const SWIFT: [Package; 5] = [
    Package { name: "swift-proxy", file: "/usr/bin/swift-proxy-server" },
    Package { name: "swift-account", file: "/usr/bin/swift-account-server" },
    Package { name: "swift-container", file: "/usr/bin/swift-container-server" },
    Package { name: "swift-object", file: "/usr/bin/swift-object-server" },
    Package { name: "python3-keystonemiddleware", file: "/usr/lib/python3/dist-packages/keystonemiddleware" },
];

/// Package with callgrind, which counts instructions.
const VALGRIND: Package = Package { name: "valgrind", file: "/usr/bin/valgrind" };

/// Programs that read container images.
const IMAGES: [Package; 2] =
    [Package { name: "skopeo", file: "/usr/bin/skopeo" }, Package { name: "umoci", file: "/usr/bin/umoci" }];

/// Programs that make network namespaces, and that give several nodes one address.
const NETWORK: [Package; 3] = [
    Package { name: "iproute2", file: "/usr/sbin/ip" },
    Package { name: "haproxy", file: "/usr/sbin/haproxy" },
    Package { name: "keepalived", file: "/usr/sbin/keepalived" },
];

/// Installs programs that make network namespaces, and that give several nodes one address.
pub(crate) fn network() -> anyhow::Result<()> {
    install(&NETWORK)
}

/// Installs programs that read container images.
pub(crate) fn image_tools() -> anyhow::Result<()> {
    install(&IMAGES)
}

/// Installs the program that checks Debian packages.
pub(crate) fn lintian() -> anyhow::Result<()> {
    install(&[Package { name: "lintian", file: "/usr/bin/lintian" }])
}

/// Installs the program that makes a root of Debian.
pub(crate) fn debootstrap() -> anyhow::Result<()> {
    install(&[Package { name: "debootstrap", file: "/usr/sbin/debootstrap" }])
}

/// Returns the path of a program that runs static programs of another architecture.
pub(crate) fn emulator(architecture: &str) -> anyhow::Result<PathBuf> {
    let file = match architecture {
        "arm64" => "/usr/bin/qemu-aarch64-static",
        "amd64" => "/usr/bin/qemu-x86_64-static",
        other => bail!("there is no emulator for the architecture {other}"),
    };
    install(&[Package { name: "qemu-user-static", file }])?;
    Ok(file.into())
}

/// Installs the prerequisites to count instructions.
pub(crate) fn valgrind() -> anyhow::Result<()> {
    install(&[VALGRIND])
}

/// Installs the prerequisites to build the workspace.
pub(crate) fn build() -> anyhow::Result<()> {
    if run::is_there("protoc") && !Path::new("/usr/bin/protoc").exists() {
        // A protoc that is not Debian's comes with the well-known types.
        return Ok(());
    }
    install(&PROTOC)
}

/// Installs the prerequisites of the end-to-end lab.
pub(crate) fn lab() -> anyhow::Result<()> {
    if run::is_there("openssl") && run::is_there("curl") { Ok(()) } else { install(&LAB) }
}

/// Installs the prerequisites to build C++.
pub(crate) fn compiler() -> anyhow::Result<()> {
    if run::is_there("c++") { Ok(()) } else { install(&COMPILER) }
}

/// Installs the prerequisites to build Ignition.
pub(crate) fn libraries_of_ignition() -> anyhow::Result<()> {
    install(&IGNITION)
}

/// Checks that a real OpenStack can run on this machine. The error has the reason.
pub(crate) fn openstack() -> anyhow::Result<()> {
    let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    if !system.lines().any(|line| line == "VERSION_CODENAME=bookworm") {
        bail!("hack/openstack/up.sh needs the OpenStack packages of Debian 12 (bookworm)");
    }
    if !is_root() {
        bail!("hack/openstack/up.sh installs packages and creates bridges, so it needs root");
    }
    Ok(())
}

fn is_root() -> bool {
    run::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// Installs the etcd of the distribution. Returns its path.
pub(crate) fn distribution_etcd() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("CAPSTAN_ETCD_DISTRIBUTION") {
        return Ok(path.into());
    }
    install(&[ETCD])?;
    Ok(ETCD.file.into())
}

fn install(packages: &[Package]) -> anyhow::Result<()> {
    let missing: Vec<&str> = packages
        .iter()
        .filter(|package| !Path::new(package.file).exists())
        .map(|package| package.name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if !run::is_there("apt-get") || !is_root() {
        bail!("missing: {names}. Install them, on Debian with: sudo apt-get install -y {names}");
    }
    eprintln!("installing {names}");
    // Runlevel 1 keeps packages from starting their servers. The commands start the servers that they need.
    let environment = [("DEBIAN_FRONTEND", "noninteractive"), ("RUNLEVEL", "1")];
    run::shown(Command::new("apt-get").args(["update", "-qq"]).envs(environment))?;
    let mut command = Command::new("apt-get");
    // CI builds the guests in the background, which may install packages at the same time.
    command.args(["-o", "DPkg::Lock::Timeout=600", "install", "-y", "-qq", "--no-install-recommends"]);
    command.args(&missing).envs(environment);
    run::shown(&mut command)
}

/// Returns the path of cargo-deny. Builds it once into the cache.
pub(crate) fn cargo_deny() -> anyhow::Result<PathBuf> {
    Ok(cargo_tool("cargo-deny", CARGO_DENY)?.join("cargo-deny"))
}

/// Returns the folder with the program of a package of cargo. Builds it once into the cache.
fn cargo_tool(package: &str, version: &str) -> anyhow::Result<PathBuf> {
    let home = run::cache()?.join("tools").join(format!("{package}-{version}"));
    let programs = home.join("bin");
    if !programs.join(package).exists() {
        eprintln!("building {package} {version}, once");
        let mut command =
            run::cargo(&["install", "--locked", "--quiet", package, "--version", version, "--root"])?;
        // A target directory of its own: the workspace's settings do not apply to this tool.
        command.arg(&home).env_remove("CARGO_TARGET_DIR");
        // These tools run for seconds, and their optimized build takes minutes.
        let unoptimized = [("OPT_LEVEL", "0"), ("LTO", "off"), ("CODEGEN_UNITS", "16")];
        command.envs(unoptimized.map(|(name, value)| (format!("CARGO_PROFILE_RELEASE_{name}"), value)));
        run::shown(&mut command)?;
    }
    Ok(programs)
}

/// Returns the path of a Go program of a module in `hack/tools`. Builds it once into the cache.
pub(crate) fn go_tool(set: &str, module: &str, package: &str, name: &str) -> anyhow::Result<PathBuf> {
    let version = version(set, module)?;
    // Modules of Kubernetes with version 0.36 belong to release 1.36. The programs do not start with another version.
    let release = version.strip_prefix("v0.").filter(|_| module.starts_with("k8s.io/"));
    let release = release.map_or_else(|| version.clone(), |rest| format!("v1.{rest}"));
    go_release(set, &version, package, name, &release, None)
}

/// Returns the path of a program of Kubernetes that is built from the pinned sources, and says that it is this release
/// of the same minor.
pub(crate) fn kubernetes_as(name: &str, release: &str) -> anyhow::Result<PathBuf> {
    go_release("kubernetes", release, &format!("k8s.io/kubernetes/cmd/{name}"), name, release, None)
}

/// Builds a Go program into the folder `<set>-<version>` of the cache, unless it is there. A program for another
/// architecture is in a folder of its own.
fn go_release(
    set: &str,
    version: &str,
    package: &str,
    name: &str,
    release: &str,
    architecture: Option<&str>,
) -> anyhow::Result<PathBuf> {
    let folder = [&[set, version], architecture.as_slice()].concat().join("-");
    let home = run::cache()?.join("tools").join(folder);
    let binary = home.join(name);
    if binary.exists() {
        return Ok(binary);
    }
    if !run::is_there("go") {
        bail!(
            "{name} {version} is built with Go, which is missing. Install it, on Debian with: sudo apt-get install -y golang"
        );
    }
    std::fs::create_dir_all(&home).with_context(|| format!("{}: cannot be created", home.display()))?;
    // CI builds the programs of guests in the background, and some of them are programs of tests, too.
    let lock = std::fs::File::create(home.join("lock"))?;
    lock.lock().with_context(|| format!("{}: cannot be locked", home.display()))?;
    if binary.exists() {
        return Ok(binary);
    }
    eprintln!("building {name} {version}, once (kube-apiserver takes about ten minutes)");
    let mut numbers = release.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let base = "k8s.io/component-base/version";
    let flags =
        format!("-s -w -X {base}.gitVersion={release} -X {base}.gitMajor={major} -X {base}.gitMinor={minor}");
    // Built under another name and renamed: an interrupted build must not look like a finished one.
    let unfinished = home.join(format!("{name}.unfinished"));
    let mut command = Command::new("go");
    command.args(["build", "-trimpath", "-ldflags", &flags, "-o"]).arg(&unfinished).arg(package);
    command.current_dir(run::root()?.join("hack/tools").join(set)).env("CGO_ENABLED", "0");
    command.envs(architecture.map(|name| ("GOARCH", name)));
    run::shown(&mut command)?;
    std::fs::rename(&unfinished, &binary)
        .with_context(|| format!("{}: cannot be renamed to its final name", binary.display()))?;
    Ok(binary)
}

/// Returns the version of a module that the go.mod of a set in `hack/tools` requires.
pub(crate) fn version(set: &str, module: &str) -> anyhow::Result<String> {
    pinned(&run::root()?.join("hack/tools").join(set).join("go.mod"), module)
}

/// Returns the version of a module that a go.mod requires.
fn pinned(go_mod: &Path, module: &str) -> anyhow::Result<String> {
    let text =
        std::fs::read_to_string(go_mod).with_context(|| format!("{}: cannot be read", go_mod.display()))?;
    let found = text.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next() == Some(module)).then(|| words.next()).flatten()
    });
    found.map(str::to_owned).with_context(|| format!("{} does not require {module}", go_mod.display()))
}

/// Returns the path of a current etcd.
pub(crate) fn current_etcd() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("CAPSTAN_ETCD_CURRENT") {
        return Ok(path.into());
    }
    built_etcd()
}

/// Returns the path of the pinned etcd.
pub(crate) fn built_etcd() -> anyhow::Result<PathBuf> {
    go_tool("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", "etcd")
}

/// Returns the path of the client of the pinned etcd.
pub(crate) fn etcdctl() -> anyhow::Result<PathBuf> {
    go_tool("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/etcdctl/v3", "etcdctl")
}

/// Returns the path of the program of the pinned etcd that restores snapshots.
pub(crate) fn etcdutl() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("CAPSTAN_ETCDUTL") {
        return Ok(path.into());
    }
    go_tool("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/etcdutl/v3", "etcdutl")
}

/// Returns the path of the DNS server of workload clusters.
pub(crate) fn coredns() -> anyhow::Result<PathBuf> {
    let module = "github.com/coredns/coredns";
    go_tool("coredns", module, module, "coredns")
}

/// Returns the path of a program of the pinned Kubernetes release.
pub(crate) fn kubernetes(name: &str) -> anyhow::Result<PathBuf> {
    go_tool("kubernetes", "k8s.io/kubernetes", &format!("k8s.io/kubernetes/cmd/{name}"), name)
}

/// Returns the path of Kubernetes' sample of an aggregated server in Go.
pub(crate) fn sample_apiserver() -> anyhow::Result<PathBuf> {
    let module = "k8s.io/sample-apiserver";
    go_tool("sample-apiserver", module, module, "sample-apiserver")
}

/// Returns the path of a kubectl that is some minor versions older than the pinned release.
pub(crate) fn older_kubectl() -> anyhow::Result<PathBuf> {
    go_tool("kubectl", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kubectl", "kubectl")
}

/// Returns kubeadm of three minors, with its versions: the last one that writes v1beta3, the older kubectl's, and the
/// pinned one.
pub(crate) fn kubeadms() -> anyhow::Result<Vec<(String, PathBuf)>> {
    let module = "k8s.io/kubernetes";
    let one = |set: &str| {
        let program = go_tool(set, module, &format!("{module}/cmd/kubeadm"), "kubeadm")?;
        Ok((version(set, module)?, program))
    };
    ["kubeadm", "kubectl", "kubernetes"].into_iter().map(one).collect()
}

/// Modules that cloud-init imports.
const CLOUD_INIT: [Package; 8] = [
    Package { name: "python3-configobj", file: "/usr/lib/python3/dist-packages/configobj" },
    Package { name: "python3-jinja2", file: "/usr/lib/python3/dist-packages/jinja2" },
    Package { name: "python3-jsonpatch", file: "/usr/lib/python3/dist-packages/jsonpatch.py" },
    Package { name: "python3-jsonschema", file: "/usr/lib/python3/dist-packages/jsonschema" },
    Package { name: "python3-netifaces", file: "/usr/share/doc/python3-netifaces" },
    Package { name: "python3-oauthlib", file: "/usr/lib/python3/dist-packages/oauthlib" },
    Package { name: "python3-requests", file: "/usr/lib/python3/dist-packages/requests" },
    Package { name: "python3-yaml", file: "/usr/lib/python3/dist-packages/yaml" },
];

/// Returns a folder with the Python modules of Debian's cloud-init. The package is unpacked and not installed: an
/// installed cloud-init would configure this machine at its next start.
pub(crate) fn cloud_init() -> anyhow::Result<PathBuf> {
    install(&CLOUD_INIT)?;
    Ok(unpacked("cloud-init")?.join("usr/lib/python3/dist-packages"))
}

/// Returns a folder with the files of a package of Debian, which is not installed.
fn unpacked(name: &str) -> anyhow::Result<PathBuf> {
    let tools = run::cache()?.join("tools");
    let home = tools.join(name);
    if home.join("usr").exists() {
        return Ok(home);
    }
    let unfinished = tools.join(format!("{name}.unfinished"));
    let _ = std::fs::remove_dir_all(&unfinished);
    std::fs::create_dir_all(&unfinished).with_context(|| format!("{}", unfinished.display()))?;
    let mut download = Command::new("apt-get");
    download.args(["-qq", "-o", "APT::Sandbox::User=root", "download", name]);
    download.current_dir(&unfinished);
    if run::shown(&mut download).is_err() {
        // The machine's lists of packages may be missing, or name a version that the mirror no longer has.
        run::shown(Command::new("apt-get").args(["update", "-qq"]))?;
        run::shown(&mut download).with_context(|| format!("{name} cannot be downloaded"))?;
    }
    let entries = std::fs::read_dir(&unfinished)?.collect::<Result<Vec<_>, _>>()?;
    let package = entries.first().context("apt-get has downloaded nothing")?.path();
    run::shown(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&unfinished))?;
    std::fs::rename(&unfinished, &home).with_context(|| format!("{}", home.display()))?;
    Ok(home)
}

/// Installs a target of Rust, if rustup can get it.
pub(crate) fn rust_target(target: &str) -> anyhow::Result<()> {
    let installed =
        run::output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(run::root()?))?;
    if Path::new(installed.trim()).join("lib/rustlib").join(target).join("lib").is_dir() {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    run::shown(rustup.args(["target", "add", target]).current_dir(run::root()?))
        .with_context(|| format!("the Rust target {target} is missing"))
}

/// Returns a folder with cargo-zigbuild and Zig, which `hack/tools/zig` pins. Zig compiles and links C for other
/// architectures.
pub(crate) fn zig() -> anyhow::Result<PathBuf> {
    let pins = run::root()?.join("hack/tools/zig/requirements.txt");
    let text = std::fs::read_to_string(&pins).with_context(|| format!("{}", pins.display()))?;
    let version = text.lines().find_map(|line| line.strip_prefix("ziglang=="));
    let version = version.with_context(|| format!("{} pins no ziglang", pins.display()))?;
    let home = run::cache()?.join("tools").join(format!("zig-{version}"));
    let finished = home.join("finished");
    if !finished.exists() {
        eprintln!("installing Zig {version}, once");
        run::shown(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
        let mut pip = Command::new(home.join("bin/python"));
        run::shown(pip.args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&pins))?;
        std::fs::write(&finished, "").with_context(|| format!("{}", finished.display()))?;
    }
    Ok(home.join("bin"))
}

/// Returns the path of promtool. Debian's package of Prometheus is unpacked and not installed: it would start a server.
pub(crate) fn promtool() -> anyhow::Result<PathBuf> {
    if run::is_there("promtool") {
        return Ok("promtool".into());
    }
    Ok(unpacked("prometheus")?.join("usr/bin/promtool"))
}

/// Returns the path of the library that shows a program another time.
pub(crate) fn faketime() -> anyhow::Result<PathBuf> {
    let folder = unpacked("libfaketime")?.join("usr/lib");
    let library = Path::new("faketime/libfaketimeMT.so.1");
    let of_architecture =
        std::fs::read_dir(&folder)?.filter_map(|entry| Some(entry.ok()?.path().join(library)));
    let found = of_architecture.into_iter().find(|path| path.exists());
    found.with_context(|| {
        format!("{}: the package libfaketime has no {}", folder.display(), library.display())
    })
}

/// Returns the path of clusterctl.
pub(crate) fn clusterctl() -> anyhow::Result<PathBuf> {
    let module = "sigs.k8s.io/cluster-api";
    go_tool("cluster-api", module, &format!("{module}/cmd/clusterctl"), "clusterctl")
}

/// Returns the path of Helm.
pub(crate) fn helm() -> anyhow::Result<PathBuf> {
    go_tool("helm", "helm.sh/helm/v4", "helm.sh/helm/v4/cmd/helm", "helm")
}

/// Returns the path of kubeconform.
pub(crate) fn kubeconform() -> anyhow::Result<PathBuf> {
    let module = "github.com/yannh/kubeconform";
    go_tool("kubeconform", module, &format!("{module}/cmd/kubeconform"), "kubeconform")
}

/// Builds a program of this repository in `hack/tools`, and returns its path. Go's cache avoids needless builds.
pub(crate) fn go_program(directory: &str, name: &str) -> anyhow::Result<PathBuf> {
    let binary = run::target()?.join(name);
    let mut command = Command::new("go");
    command.args(["build", "-trimpath", "-o"]).arg(&binary).arg(".");
    command.current_dir(run::root()?.join("hack/tools").join(directory)).env("CGO_ENABLED", "0");
    run::shown(&mut command)?;
    Ok(binary)
}

/// Returns the path of a Python with the Kubernetes client and the verifier of tokens that `hack/tools/python` pins.
pub(crate) fn python_clients() -> anyhow::Result<PathBuf> {
    Ok(python("python", "kubernetes")?.join("python"))
}

/// Returns the path of the server of moto, which plays S3.
pub(crate) fn moto() -> anyhow::Result<PathBuf> {
    Ok(python("moto", "moto[server,s3]")?.join("moto_server"))
}

/// Installs the servers of a Swift, and what its proxy needs for users of Keystone.
pub(crate) fn swift() -> anyhow::Result<()> {
    install(&SWIFT)
}

/// Returns the directory of the programs of a virtual environment with the packages that a set in `hack/tools` pins.
fn python(set: &str, package: &str) -> anyhow::Result<PathBuf> {
    let pins = run::root()?.join("hack/tools").join(set).join("requirements.txt");
    let text = std::fs::read_to_string(&pins).with_context(|| format!("{}", pins.display()))?;
    let pinned = text.lines().find_map(|line| line.strip_prefix(package)?.strip_prefix("=="));
    let version = pinned.with_context(|| format!("{} pins no {package}", pins.display()))?;
    let name = package.split('[').next().unwrap_or(package);
    let home = run::cache()?.join("tools").join(format!("python-{name}-{version}"));
    let (programs, finished) = (home.join("bin"), home.join("finished"));
    // The name of the directory has one version. The others may have changed since it was made.
    if std::fs::read_to_string(&finished).ok().is_none_or(|installed| installed != text) {
        eprintln!("installing {name} {version} for Python, once");
        if let Err(error) = run::shown(Command::new("python3").args(["-m", "venv"]).arg(&home)) {
            // Debian has the module in a separate package.
            install(&[Package { name: "python3-venv", file: "/usr/share/doc/python3-venv" }])
                .with_context(|| format!("{error:#}"))?;
            run::shown(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
        }
        let mut command = Command::new(programs.join("python"));
        run::shown(command.args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&pins))?;
        std::fs::write(&finished, &text).with_context(|| format!("{}", finished.display()))?;
    }
    Ok(programs)
}
