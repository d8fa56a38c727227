//! Command `cargo xtask image`: the container image, as an OCI layout. It needs no container engine.

mod check;
mod layer;
mod layout;
mod sbom;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::{prerequisites, run};
use layer::Layer;
use layout::Layout;

/// Largest layer with a release build, as compressed bytes: a node pulls it in seconds.
const LARGEST: usize = 20 << 20;

/// Directory of the layout, below the target directory of cargo.
const DIRECTORY: &str = "image";

/// Builds the container image as an OCI layout in target/image, with an SBOM.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Build the image twice, compare both, and run the program from the unpacked layer
    #[arg(long)]
    check: bool,
    /// Use this program instead of a release build
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Directory of the layout [default: target/image]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
}

/// Builds the image. Prints its digest.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => release()?,
    };
    let output = match &arguments.output {
        Some(output) => output.clone(),
        None => run::target()?.join(DIRECTORY),
    };
    let image = write(&binary, &output)?;
    let is_release = arguments.binary.is_none();
    ensure!(!is_release || image.size <= LARGEST, "the layer has {} bytes, more than {LARGEST}", image.size);
    eprintln!("image {} ({} MiB, {})", image.digest, image.size >> 20, image.linkage);
    eprintln!(
        "copy it to a registry: skopeo copy --all oci:{}:{} docker://…",
        output.display(),
        image.version
    );
    if arguments.check {
        check::run(&binary, &output, &image)?;
    }
    Ok(())
}

/// Image that was written.
pub(crate) struct Image {
    /// Digest of the index of all architectures.
    digest: String,
    version: String,
    /// Bytes of the compressed layer.
    size: usize,
    /// `static`, or `glibc` if the layer has the C library of this machine.
    linkage: &'static str,
    /// The compressed layer.
    layer: Vec<u8>,
}

/// Builds the program: static if the target is installed, else for glibc.
pub(crate) fn release() -> anyhow::Result<PathBuf> {
    prerequisites::build()?;
    let host = run::host()?;
    let musl = host.replace("-gnu", "-musl");
    let installed = run::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let has_musl = Path::new(installed.trim()).join("lib/rustlib").join(&musl).join("lib").is_dir();
    let target = if has_musl { musl } else { host };
    let mut command = run::cargo(&["build", "--release", "--locked", "--package", "apiserver-server"])?;
    command.args(["--bin", "capstan", "--target", &target]);
    if has_musl && run::is_there("musl-gcc") {
        // Only for C code: as a linker, musl-gcc makes programs that need the loader of musl.
        command.env(format!("CC_{}", target.replace('-', "_")), "musl-gcc");
    }
    run::shown(&mut command)?;
    Ok(run::target()?.join(target).join("release/capstan"))
}

/// Writes the layout. The same inputs make the same bytes.
fn write(binary: &Path, output: &Path) -> anyhow::Result<Image> {
    let libraries = layer::libraries(binary)?;
    let linkage = if libraries.is_empty() { "static" } else { "glibc" };
    let layer = Layer::new(binary, &libraries)?;
    let diff_id = layout::digest(layer.tar());
    let compressed = layer.compressed()?;
    let version = version()?;
    let mut layout = Layout::create(output)?;
    let labels = labels(&version, linkage);
    let config = config(&diff_id, &labels)?;
    let config = layout.add(layout::CONFIG, config.to_string().as_bytes())?;
    let blob = layout.add(layout::LAYER, &compressed)?;
    let manifest = json!({"schemaVersion": 2, "mediaType": layout::MANIFEST,
        "config": config, "layers": [blob], "annotations": labels});
    let mut manifest = layout.add(layout::MANIFEST, manifest.to_string().as_bytes())?;
    let sbom = layout.add(layout::CYCLONEDX, sbom::create(&libraries)?.to_string().as_bytes())?;
    let empty = layout.add(layout::EMPTY, b"{}")?;
    let sbom = json!({"schemaVersion": 2, "mediaType": layout::MANIFEST, "artifactType": layout::CYCLONEDX,
        "config": empty, "layers": [sbom], "subject": manifest});
    let mut sbom = layout.add(layout::MANIFEST, sbom.to_string().as_bytes())?;
    set(&mut sbom, "artifactType", json!(layout::CYCLONEDX));
    set(&mut manifest, "platform", json!({"architecture": architecture()?, "os": "linux"}));
    let index = json!({"schemaVersion": 2, "mediaType": layout::INDEX, "manifests": [manifest]});
    let mut index = layout.add(layout::INDEX, index.to_string().as_bytes())?;
    let digest = index.get("digest").and_then(Value::as_str).unwrap_or_default().to_owned();
    set(&mut index, "annotations", json!({"org.opencontainers.image.ref.name": version}));
    layout.finish(&[index, sbom])?;
    Ok(Image { digest, version, size: compressed.len(), linkage, layer: compressed })
}

fn set(descriptor: &mut Value, field: &str, value: Value) {
    if let Some(fields) = descriptor.as_object_mut() {
        fields.insert(field.to_owned(), value);
    }
}

fn labels(version: &str, linkage: &str) -> Value {
    json!({
        "org.opencontainers.image.title": "capstan",
        "org.opencontainers.image.description": "Management plane for Kubernetes clusters on OpenStack",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": version,
        "dev.capstan.image.linkage": linkage,
    })
}

fn config(diff_id: &str, labels: &Value) -> anyhow::Result<Value> {
    Ok(json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": architecture()?,
        "os": "linux",
        "config": {
            "User": format!("{0}:{0}", layer::USER),
            "ExposedPorts": {"7443/tcp": {}},
            "Env": ["SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
            "Entrypoint": ["/capstan"],
            "Cmd": ["serve", "--config", "/etc/capstan/config.yaml"],
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "cargo xtask image"}],
    }))
}

/// Returns the name that OCI and Debian have for the architecture of this machine.
pub(crate) fn architecture() -> anyhow::Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => anyhow::bail!("OCI has no name for the architecture {other} in this list"),
    }
}

/// Returns the version of the workspace.
pub(crate) fn version() -> anyhow::Result<String> {
    let text = std::fs::read_to_string(run::root()?.join("Cargo.toml"))?;
    let manifest: toml::Value = toml::from_str(&text).context("Cargo.toml")?;
    let version = manifest.get("workspace").and_then(|it| it.get("package")).and_then(|it| it.get("version"));
    version.and_then(toml::Value::as_str).map(str::to_owned).context("Cargo.toml has no version")
}

#[cfg(test)]
mod tests {
    use super::*;
    use oci_spec::image::{Arch, Descriptor, ImageConfiguration, ImageIndex, ImageManifest};

    /// Builds the image of a program that has no libraries, so that it needs only files.
    fn image(output: &Path) -> Image {
        let program = output.with_extension("program");
        std::fs::write(&program, "no program of this machine").unwrap();
        write(&program, output).unwrap()
    }

    fn blob(output: &Path, descriptor: &Descriptor) -> Vec<u8> {
        let path = output.join("blobs/sha256").join(descriptor.digest().digest());
        let content = std::fs::read(path).unwrap();
        assert_eq!(u64::try_from(content.len()).unwrap(), descriptor.size());
        assert_eq!(layout::digest(&content), descriptor.digest().to_string());
        content
    }

    #[test]
    fn every_document_of_the_layout_is_one_of_the_specification() {
        let home = std::env::temp_dir().join(format!("capstan-image-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        let first = image(&home.join("first"));
        let output = home.join("second");
        let second = image(&output);
        assert_eq!(first.digest, second.digest, "two builds of one program differ");

        let top = ImageIndex::from_file(output.join("index.json")).unwrap();
        let [index, sbom] = &top.manifests()[..] else { panic!("{top:?}") };
        assert_eq!(index.digest().to_string(), second.digest);
        let index = ImageIndex::from_reader(&blob(&output, index)[..]).unwrap();
        let manifest = &index.manifests()[0];
        let expected = if cfg!(target_arch = "aarch64") { Arch::ARM64 } else { Arch::Amd64 };
        assert_eq!(manifest.platform().as_ref().unwrap().architecture(), &expected);
        let subject = manifest.digest().clone();
        let manifest = ImageManifest::from_reader(&blob(&output, manifest)[..]).unwrap();
        let config = ImageConfiguration::from_reader(&blob(&output, manifest.config())[..]).unwrap();
        let process = config.config().as_ref().unwrap();
        assert_eq!(process.entrypoint(), &Some(vec!["/capstan".to_owned()]));
        assert_eq!(process.user(), &Some("65532:65532".to_owned()));
        blob(&output, &manifest.layers()[0]);

        let sbom = ImageManifest::from_reader(&blob(&output, sbom)[..]).unwrap();
        assert_eq!(sbom.subject().as_ref().unwrap().digest(), &subject);
        let sbom: Value = serde_json::from_slice(&blob(&output, &sbom.layers()[0])).unwrap();
        assert_eq!(sbom["bomFormat"], "CycloneDX");
        let names: Vec<&str> =
            sbom["components"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
        assert!(names.contains(&"tokio") && names.contains(&"redb"), "{names:?}");
        assert!(!names.contains(&"libfuzzer-sys"), "the program does not contain what only tests use");
        std::fs::remove_dir_all(home).unwrap();
    }
}
