//! Checks of the image: it is reproducible, and the program runs from the unpacked layer without rights.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use flate2::read::GzDecoder;

use super::Image;
use crate::e2e::{Process, ports, until};
use crate::{prerequisites, run};

/// Configuration of the program in the check. The store is embedded, and the rest of the root is read-only.
const CONFIG: &str = "apiVersion: capstan.dev/v1alpha1
kind: ServerConfiguration
dataDirectory: /var/lib/capstan
audit: {path: '-'}
";

/// Mounts the unpacked layer read-only, and becomes the user of the image. `$1` is the root, `$2` the configuration.
const START: &str = r#"set -e
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
mount -t tmpfs -o uid=65532,gid=65532,mode=700 tmpfs "$1/var/lib/capstan"
mount --bind -o ro "$2" "$1/etc/capstan"
exec setpriv --no-new-privs --inh-caps=-all -- chroot --userspec=65532:65532 --groups= "$1" /capstan serve --config /etc/capstan/config.yaml
"#;

/// Runs all checks.
pub(super) fn run(binary: &Path, output: &Path, image: &Image) -> anyhow::Result<()> {
    let home = std::env::temp_dir().join(format!("capstan-image-{}", std::process::id()));
    std::fs::create_dir_all(&home)?;
    let again = super::write(binary, &home.join("again"))?;
    ensure!(again.digest == image.digest, "two builds differ: {} and {}", image.digest, again.digest);
    eprintln!("ok      two builds have the same digest");
    tools(output, &image.version, &home)?;
    start(&home, image)?;
    eprintln!("ok      the program runs from the layer as user 65532 with a read-only root, and ends with 0");
    Ok(std::fs::remove_dir_all(home)?)
}

/// Lets other programs for images read the layout.
fn tools(output: &Path, version: &str, home: &Path) -> anyhow::Result<()> {
    if let Err(error) = prerequisites::image_tools() {
        eprintln!("skipped the check with skopeo and umoci: {error:#}");
        return Ok(());
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

/// Starts the program from the layer.
fn start(home: &Path, image: &Image) -> anyhow::Result<()> {
    let (root, config) = (home.join("root"), home.join("config"));
    std::fs::create_dir_all(&root)?;
    std::fs::create_dir_all(&config)?;
    let mut archive = tar::Archive::new(GzDecoder::new(&image.layer[..]));
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(true);
    archive.unpack(&root).context("the layer cannot be unpacked; this check needs root")?;
    let [port] = ports()?;
    std::fs::write(config.join("config.yaml"), format!("{CONFIG}listen: 127.0.0.1:{port}\n"))?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", START, "sh"]).arg(&root).arg(&config);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let log = home.join("capstan.log");
    let mut process = Process::start("capstan from the image", &mut command, &log)?;
    let printed = || std::fs::read_to_string(&log).unwrap_or_default();
    let url = format!("https://127.0.0.1:{port}/readyz");
    until("the program is ready", || {
        process.check().with_context(printed)?;
        let mut curl = Command::new("curl");
        let output = curl.args(["--silent", "--insecure", &url]).output().context("curl")?;
        Ok(output.stdout == b"ok")
    })
    .with_context(printed)?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id()))?;
    for expected in ["Uid:\t65532\t65532\t65532\t65532", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"] {
        ensure!(status.lines().any(|line| line == expected), "the program does not run with {expected:?}");
    }
    match process.terminate()?.code() {
        Some(0) => Ok(()),
        _ => bail!("the program does not end with 0: {}", printed()),
    }
}
