//! Command `cargo xtask deb`: Debian packages of Capstan and of its etcd.

mod archive;
mod check;
mod debian;
mod package;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::{image, prerequisites, run};
pub(crate) use archive::compressed;
use package::Package;

/// Directory of the packages, below the target directory of cargo.
const DIRECTORY: &str = "debian";

/// Builds the Debian packages capstan and capstan-etcd in target/debian.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Build the packages twice, compare both, verify them, and install and purge them in a root folder
    #[arg(long)]
    check: bool,
    /// Use this program instead of a release build
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Directory of the packages [default: target/debian]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
}

/// Builds both packages. Prints their paths.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => image::program::of_package(image::program::Profile::Release)?,
    };
    let output = match &arguments.output {
        Some(output) => output.clone(),
        None => run::target()?.join(DIRECTORY),
    };
    let packages = packages(&binary)?;
    let paths = write(&packages, &output)?;
    if arguments.check {
        for (package, (_, bytes)) in packages.iter().zip(&paths) {
            anyhow::ensure!(package.pack()? == *bytes, "two builds of {} differ", package.file_name());
        }
        eprintln!("ok      two builds have the same bytes");
        check::run(&paths.into_iter().map(|(path, _)| path).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Builds both packages with this program into a folder. Prints their paths.
pub(crate) fn build(binary: &Path, output: &Path) -> anyhow::Result<()> {
    write(&packages(binary)?, output).map(drop)
}

fn packages(binary: &Path) -> anyhow::Result<[Package; 2]> {
    let architecture = image::architecture()?;
    let etcd = prerequisites::version("etcd", "go.etcd.io/etcd/server/v3")?;
    Ok([
        Package::capstan(binary, &image::version()?, architecture)?,
        Package::etcd(&prerequisites::built_etcd()?, &etcd, architecture)?,
    ])
}

/// Writes packages into a folder. Returns their paths and their content.
fn write(packages: &[Package], output: &Path) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
    std::fs::create_dir_all(output)?;
    let mut paths = Vec::new();
    for package in packages {
        let bytes = package.pack()?;
        let path = output.join(package.file_name());
        std::fs::write(&path, &bytes)?;
        eprintln!("package {} ({} MiB)", path.display(), bytes.len() >> 20);
        paths.push((path, bytes));
    }
    Ok(paths)
}
