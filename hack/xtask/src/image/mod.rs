//! Command `cargo xtask image`: the container image, as an OCI layout. It needs no container engine.

mod check;
mod elf;
mod layer;
mod layout;
pub(crate) mod program;
mod sbom;

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::run;
use layer::Layer;
use layout::Layout;
pub(crate) use layout::hex;
use program::{Architecture, Profile};

/// Largest layer with a release build, as compressed bytes: a node pulls it in seconds.
const LARGEST: usize = 20 << 20;

/// Linkage of a program that needs no library of the machine.
const STATIC: &str = "static";

/// Directory of the layout, below the target directory of cargo.
const DIRECTORY: &str = "image";

/// Builds the container image as an OCI layout in target/image, with an SBOM.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Build the image twice, compare both, and run the program from the unpacked layer
    #[arg(long)]
    check: bool,
    /// Build without optimisation: minutes instead of a quarter of an hour, for checks
    #[arg(long)]
    quick: bool,
    /// Architectures of the image [default: that of this machine]
    #[arg(long, value_name = "ARCHITECTURE", value_delimiter = ',')]
    architecture: Vec<Architecture>,
    /// Use these programs instead of builds, one for each architecture
    #[arg(long, value_name = "FILE", conflicts_with = "architecture")]
    binary: Vec<PathBuf>,
    /// Directory of the layout [default: target/image]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
}

/// Builds the image. Prints its digest.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let is_release = arguments.binary.is_empty() && !arguments.quick;
    let profile = if arguments.quick { Profile::Quick } else { Profile::Release };
    let programs = if arguments.binary.is_empty() {
        programs(&arguments.architecture, profile)?
    } else {
        arguments.binary.clone()
    };
    let output = match &arguments.output {
        Some(output) => output.clone(),
        None => run::target()?.join(DIRECTORY),
    };
    let image = build(&programs, &output, is_release)?;
    eprintln!(
        "copy it to a registry: skopeo copy --all oci:{}:{} docker://…",
        output.display(),
        image.version
    );
    if arguments.check {
        check::run(&programs, &output, &image)?;
    }
    Ok(())
}

/// Builds the programs of the image. Without architectures, the program is for this machine.
pub(crate) fn programs(architectures: &[Architecture], profile: Profile) -> anyhow::Result<Vec<PathBuf>> {
    let own = [Architecture::of_this_machine()?];
    let architectures = if architectures.is_empty() { own.as_slice() } else { architectures };
    architectures.iter().map(|it| program::of_image(*it, profile)).collect()
}

/// Writes the layout of these programs. Prints its digest.
///
/// # Errors
/// A layer of a release is too large.
pub(crate) fn build(programs: &[PathBuf], output: &Path, is_release: bool) -> anyhow::Result<Image> {
    let image = write(programs, output)?;
    for part in &image.parts {
        let size = part.layer.len();
        ensure!(!is_release || size <= LARGEST, "the layer has {size} bytes, more than {LARGEST}");
        eprintln!("layer {} ({} KiB, {})", part.architecture, size >> 10, part.linkage);
    }
    eprintln!("image {}", image.digest);
    Ok(image)
}

/// Returns the parts of a static program as a CycloneDX document.
pub(crate) fn sbom() -> anyhow::Result<Value> {
    sbom::create(&[])
}

/// Image that was written.
pub(crate) struct Image {
    /// Digest of the index of all architectures.
    digest: String,
    version: String,
    parts: Vec<Part>,
}

impl Image {
    /// Returns the architectures of its programs, in their order.
    ///
    /// # Errors
    /// A program is not static, so that it needs the libraries of this machine.
    pub(crate) fn static_architectures(&self) -> anyhow::Result<Vec<&'static str>> {
        let static_part = |part: &Part| {
            ensure!(part.linkage == STATIC, "the program for {} is not static", part.architecture);
            Ok(part.architecture)
        };
        self.parts.iter().map(static_part).collect()
    }
}

/// Image of one architecture.
struct Part {
    architecture: &'static str,
    /// `static`, or `glibc` if the layer has the C library of this machine.
    linkage: &'static str,
    /// The compressed layer.
    layer: Vec<u8>,
}

/// Descriptors of a part in the layout: of its manifest, and of the manifest of its SBOM.
struct Descriptors {
    manifest: Value,
    sbom: Value,
}

/// Writes the layout. The same inputs make the same bytes.
fn write(programs: &[PathBuf], output: &Path) -> anyhow::Result<Image> {
    let version = version()?;
    let mut layout = Layout::create(output)?;
    let (mut parts, mut manifests, mut sboms) = (Vec::new(), Vec::new(), Vec::new());
    for program in programs {
        let (part, descriptors) = add(&mut layout, program, &version)?;
        let is_twice = parts.iter().any(|other: &Part| other.architecture == part.architecture);
        ensure!(!is_twice, "two programs are for {}", part.architecture);
        parts.push(part);
        manifests.push(descriptors.manifest);
        sboms.push(descriptors.sbom);
    }
    let index = json!({"schemaVersion": 2, "mediaType": layout::INDEX, "manifests": manifests});
    let mut index = layout.add(layout::INDEX, index.to_string().as_bytes())?;
    let digest = index.get("digest").and_then(Value::as_str).unwrap_or_default().to_owned();
    set(&mut index, "annotations", json!({"org.opencontainers.image.ref.name": version}));
    layout.finish(&[vec![index], sboms].concat())?;
    Ok(Image { digest, version, parts })
}

/// Adds the image of one architecture.
fn add(layout: &mut Layout, program: &Path, version: &str) -> anyhow::Result<(Part, Descriptors)> {
    let elf = elf::read(program)?;
    let libraries = if elf.is_static { Vec::new() } else { layer::libraries(program)? };
    // The libraries of another architecture are not on this machine.
    ensure!(elf.is_static || !libraries.is_empty(), "{}: its libraries are not found", program.display());
    let linkage = if elf.is_static { STATIC } else { "glibc" };
    let layer = Layer::new(program, &libraries)?;
    let diff_id = layout::digest(layer.tar());
    let compressed = layer.compressed()?;
    let labels = labels(version, linkage);
    let config = config(elf.architecture, &diff_id, &labels);
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
    set(&mut manifest, "platform", json!({"architecture": elf.architecture, "os": "linux"}));
    let part = Part { architecture: elf.architecture, linkage, layer: compressed };
    Ok((part, Descriptors { manifest, sbom }))
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

fn config(architecture: &str, diff_id: &str, labels: &Value) -> Value {
    json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": architecture,
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
    })
}

/// Returns the name that OCI and Debian have for the architecture of this machine.
pub(crate) fn architecture() -> anyhow::Result<&'static str> {
    Architecture::of_this_machine().map(Architecture::name)
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

    /// Builds the image of two programs that have no libraries, so that it needs only files.
    fn image(output: &Path) -> Image {
        let programs = [("amd64", 62), ("arm64", 183)].map(|(name, machine)| {
            let program = output.with_extension(name);
            std::fs::write(&program, elf::head(machine, true)).unwrap();
            program
        });
        write(&programs, output).unwrap()
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
        let [index, sbom, _] = &top.manifests()[..] else { panic!("{top:?}") };
        assert_eq!(index.digest().to_string(), second.digest);
        let index = ImageIndex::from_reader(&blob(&output, index)[..]).unwrap();
        let architectures: Vec<&Arch> =
            index.manifests().iter().map(|it| it.platform().as_ref().unwrap().architecture()).collect();
        assert_eq!(architectures, [&Arch::Amd64, &Arch::ARM64]);
        let manifest = &index.manifests()[0];
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
