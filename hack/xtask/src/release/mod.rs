//! Command `cargo xtask release`: all files of a release in one folder, with their checksums.

mod archive;
mod check;
mod etcd;
mod folder;
mod provenance;
mod source;
mod sums;

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::Value;

use crate::image::program::{Architecture, Profile};
use crate::{deb, image, run};
use folder::Folder;
use source::Source;

/// Name of the folder, below the target directory of cargo.
const DIRECTORY: &str = "dist";

/// Builds all files of a release into target/dist.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Build again from a clone of the checkout in another folder, and compare the checksums
    #[arg(long)]
    check: bool,
    /// Build without optimisation and without a list of crates, also a checkout with changes: for trials only
    #[arg(long)]
    quick: bool,
    /// Architectures of the programs and of the image [default: that of this machine]
    #[arg(long, value_name = "ARCHITECTURE", value_delimiter = ',')]
    architecture: Vec<Architecture>,
    /// Folder of the files. An earlier release in it is replaced [default: target/dist]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
}

impl Arguments {
    const fn profile(&self) -> Profile {
        if self.quick { Profile::Quick } else { Profile::Release }
    }
}

/// Builds the release. Prints its folder.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let source = Source::read()?;
    let is_trial = arguments.quick && !arguments.check;
    ensure!(
        is_trial || !source.is_modified,
        "the checkout has changes that are in no commit: commit them, or use --quick for a trial"
    );
    let output = match &arguments.output {
        Some(output) => output.clone(),
        None => run::target()?.join(DIRECTORY),
    };
    let folder = Folder::create(&output)?;
    let version = image::version()?;
    build(folder.path(), &version, arguments)?;
    complete(folder.path(), &version, &source)?;
    folder.finish()?;
    eprintln!("release {version} of commit {} in {}", source.commit, output.display());
    if arguments.check { check::run(arguments, &output) } else { Ok(()) }
}

/// Builds the programs, and the files that contain them.
fn build(folder: &Path, version: &str, arguments: &Arguments) -> anyhow::Result<()> {
    let profile = arguments.profile();
    let programs = image::programs(&arguments.architecture, profile)?;
    let layout = folder.join("image");
    let image = image::build(&programs, &layout, profile == Profile::Release)?;
    for (program, architecture) in programs.iter().zip(image.static_architectures()?) {
        copy(program, &folder.join(format!("capstan-{version}-linux-{architecture}")))?;
    }
    archive::write(&archive::below(&layout, "")?, &folder.join(format!("capstan-{version}-image.tar")))?;
    std::fs::remove_dir_all(&layout).with_context(|| layout.display().to_string())?;
    deb::build(&image::program::of_package(profile)?, folder)?;
    etcd::add(folder)?;
    document(&folder.join(format!("capstan-{version}.cdx.json")), &image::sbom()?)
}

/// Adds the files that need no program, the provenance, and the archive of all files. Writes the checksums at the end.
fn complete(folder: &Path, version: &str, source: &Source) -> anyhow::Result<()> {
    for (tracked, prefix, name) in [
        ("manifests/chart", "capstan", format!("capstan-{version}.tgz")),
        ("manifests", "manifests", format!("capstan-{version}-manifests.tar.gz")),
    ] {
        let files = archive::tracked(tracked, prefix)?;
        std::fs::write(folder.join(name), archive::compressed(&files)?)?;
    }
    let subjects = sums::of(folder)?;
    let statement = provenance::statement(version, source, &subjects);
    document(&folder.join(format!("capstan-{version}.intoto.json")), &statement)?;
    // The archive has the checksums of its files, too.
    sums::write(folder)?;
    let name = format!("capstan-{version}-airgap");
    let files = archive::below(folder, &format!("{name}/"))?;
    archive::write(&files, &folder.join(format!("{name}.tar")))?;
    sums::write(folder)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::copy(from, to).map(drop).with_context(|| format!("{} to {}", from.display(), to.display()))
}

/// Writes a document of JSON.
fn document(path: &Path, content: &Value) -> anyhow::Result<()> {
    std::fs::write(path, format!("{content:#}\n")).with_context(|| path.display().to_string())
}
