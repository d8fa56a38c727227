//! Checks of the image: it is reproducible, and the program runs from the unpacked layer without rights.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde_json::Value;

use super::{Image, Part, layer};
use crate::e2e::{Process, ports, until};
use crate::sandbox::{self, Sandbox};
use crate::{prerequisites, run};

/// Configuration of the program in the check. The store is embedded, and the rest of the root is read-only.
const CONFIG: &str = "apiVersion: capstan.dev/v1alpha1
kind: ServerConfiguration
dataDirectory: /var/lib/capstan
audit: {path: '-'}
";

/// Mounts the unpacked layer read-only. `$1` is the root, `$2` the configuration, `$3` a folder for the objects, and the rest
/// the command.
const START: &str = r#"set -e
root=$1 config=$2 data=$3
shift 3
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount --bind "$data" "$root/var/lib/capstan"
mount --bind -o ro "$config" "$root/etc/capstan"
exec "$@"
"#;

/// Words that become the user of the image. The root and the command follow.
const USER: [&str; 3] = ["chroot", "--userspec=65532:65532", "--groups="];

/// File name of the emulator in the root of a layer for another architecture. No program has run with it so far.
const EMULATOR: &str = "qemu";

/// Runs all checks.
pub(super) fn run(programs: &[PathBuf], output: &Path, image: &Image) -> anyhow::Result<()> {
    let home = std::env::temp_dir().join(format!("capstan-image-{}", std::process::id()));
    std::fs::create_dir_all(&home)?;
    let again = super::write(programs, &home.join("again"))?;
    ensure!(
        again.digest == image.digest,
        "two layouts of the same program differ: {} and {}",
        image.digest,
        again.digest
    );
    eprintln!("ok      two layouts of the same program have the same digest");
    tools(output, &image.version, &home)?;
    let sandbox = Sandbox::of_container(&home)?;
    sandbox.refuses()?;
    for part in &image.parts {
        start(&home.join(part.architecture), part, &sandbox).with_context(|| part.architecture)?;
        eprintln!(
            "ok      {}: the program runs from the layer as user 65532 with a read-only root and a filter of system calls, creates an object, and ends with 0",
            part.architecture
        );
    }
    Ok(std::fs::remove_dir_all(home)?)
}

/// Lets other programs for images read the layout.
fn tools(output: &Path, version: &str, home: &Path) -> anyhow::Result<()> {
    if let Err(error) = prerequisites::image_tools() {
        return run::skip("the check with skopeo and umoci", error);
    }
    let layout = format!("{}:{version}", output.display());
    let inspected = run::output(Command::new("skopeo").args(["inspect", &format!("oci:{layout}")]))?;
    ensure!(inspected.contains("org.opencontainers.image.version"), "skopeo: {inspected}");
    let copies = [
        format!("docker-archive:{}", home.join("archive.tar").display()),
        format!("oci:{}:{version}", home.join("copy").display()),
    ];
    for copy in copies {
        let mut skopeo = Command::new("skopeo");
        run::output(skopeo.args(["--insecure-policy", "copy", &format!("oci:{layout}"), &copy]))?;
    }
    run::output(Command::new("umoci").args(["unpack", "--image", &layout]).arg(home.join("bundle")))?;
    ensure!(home.join("bundle/rootfs/capstan").exists(), "umoci has unpacked no program");
    eprintln!("ok      skopeo inspects and copies the image, and umoci unpacks it");
    Ok(())
}

/// Layer that was unpacked, with the folders that are mounted in it.
struct Root<'a> {
    home: PathBuf,
    sandbox: &'a Sandbox,
    /// The emulator and the program, as paths in the root.
    program: Vec<String>,
}

impl<'a> Root<'a> {
    fn unpack(home: &Path, part: &Part, sandbox: &'a Sandbox) -> anyhow::Result<Self> {
        for folder in ["root", "config", "data"] {
            std::fs::create_dir_all(home.join(folder))?;
        }
        let mut archive = tar::Archive::new(GzDecoder::new(&part.layer[..]));
        archive.set_preserve_permissions(true);
        archive.set_preserve_ownerships(true);
        archive.unpack(home.join("root")).context("the layer cannot be unpacked; this check needs root")?;
        let owner = Some(u32::try_from(layer::USER)?);
        std::os::unix::fs::chown(home.join("data"), owner, owner)?;
        let mut program = vec!["/capstan".to_owned()];
        if part.architecture != super::architecture()? {
            std::fs::copy(prerequisites::emulator(part.architecture)?, home.join("root").join(EMULATOR))?;
            program.insert(0, format!("/{EMULATOR}"));
        }
        Ok(Self { home: home.to_owned(), sandbox, program })
    }

    /// Returns a command of the program in the root.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", START, "sh"]);
        command.args(["root", "config", "data"].map(|folder| self.home.join(folder)));
        command.args(self.sandbox.words()).args(USER).arg(self.home.join("root"));
        command.args(&self.program).args(arguments);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }
}

/// Starts the program from the layer.
fn start(home: &Path, part: &Part, sandbox: &Sandbox) -> anyhow::Result<()> {
    let root = Root::unpack(home, part, sandbox)?;
    let [port] = ports()?;
    std::fs::write(home.join("config/config.yaml"), format!("{CONFIG}listen: 127.0.0.1:{port}\n"))?;
    let version = run::output(&mut root.command(&["version"]))?;
    ensure!(version.starts_with("capstan "), "{version}");
    let log = home.join("capstan.log");
    let mut serve = root.command(&["serve", "--config", "/etc/capstan/config.yaml"]);
    let mut process = Process::start("capstan from the image", &mut serve, &log)?;
    let printed = || std::fs::read_to_string(&log).unwrap_or_default();
    let url = format!("https://127.0.0.1:{port}");
    until("the program is ready", || {
        process.check().with_context(printed)?;
        let mut curl = Command::new("curl");
        let output =
            curl.args(["--silent", "--insecure", &format!("{url}/readyz")]).output().context("curl")?;
        Ok(output.stdout == b"ok")
    })
    .with_context(printed)?;
    sandbox::verify(process.id())?;
    user(process.id())?;
    create(&root, &url)?;
    match process.terminate()?.code() {
        Some(0) => Ok(()),
        _ => bail!("the program does not end with 0: {}", printed()),
    }
}

/// Checks that the process has the user of the image.
fn user(process: u32) -> anyhow::Result<()> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let is_user = |line: &str| line == "Uid:\t65532\t65532\t65532\t65532";
    ensure!(status.lines().any(is_user), "the program does not run as user {}", layer::USER);
    Ok(())
}

/// Creates an object as an administrator, whose certificate the program signs.
fn create(root: &Root<'_>, url: &str) -> anyhow::Result<()> {
    let arguments = ["kubeconfig", "--data-dir", "/var/lib/capstan", "--break-glass", "--reason", "check"];
    let text = run::output(&mut root.command(&[&arguments[..], &["--expires", "1h"]].concat()))?;
    let kubeconfig: Value = serde_saphyr::from_str(&text)?;
    for (name, field) in [("user.crt", "client-certificate-data"), ("user.key", "client-key-data")] {
        let data = kubeconfig.pointer(&format!("/users/0/user/{field}")).and_then(Value::as_str);
        std::fs::write(root.home.join(name), STANDARD.decode(data.context(field)?)?)?;
    }
    let namespace = r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "check"}}"#;
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--insecure", "--output", "/dev/null", "--write-out", "%{http_code}"]);
    curl.arg("--cert").arg(root.home.join("user.crt")).arg("--key").arg(root.home.join("user.key"));
    curl.args(["--header", "Content-Type: application/json", "--data", namespace]);
    let code = run::output(curl.arg(format!("{url}/api/v1/namespaces")))?;
    ensure!(code == "201", "the namespace is not created: code {code}");
    Ok(())
}
