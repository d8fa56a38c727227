//! Command `cargo xtask`: the development tool of this repository.

#[cfg(test)]
mod addons;
mod bench;
mod check;
mod conformance;
mod deb;
mod dev;
mod docs;
mod e2e;
mod fuzz;
mod image;
mod language;
mod layers;
#[cfg(test)]
mod manifests;
mod modules;
mod prerequisites;
mod release;
mod run;
mod runbooks;
mod sandbox;
mod suites;
mod test;
#[cfg(test)]
mod upstream_scenarios;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Development tool of this repository. Each command first installs its prerequisites, or names the missing ones.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start Capstan with a simulated OpenStack and a cluster of three machines
    Dev(dev::Arguments),
    /// Compare Capstan with a real kube-apiserver, record its responses, or serve for other test tools
    Conformance(conformance::Arguments),
    /// Run the tests that need only cargo and etcd; with --all, also the long ones
    Test(test::Arguments),
    /// Print the duration of each suite in its last run, beside its budget
    Times,
    /// Fuzz all decoders with inputs that are derived from a corpus
    Fuzz(fuzz::Arguments),
    /// Run the end-to-end tests with a real kube-apiserver, real clients and a real OpenStack
    E2e(e2e::Arguments),
    /// Build the root folder of the nodes of `e2e --only guests`, and kubeadm of three minors, once
    Guests,
    /// Benchmark Capstan and a kube-apiserver with CRDs, and write the report
    Bench(bench::Arguments),
    /// Build the container image as an OCI layout, with an SBOM
    Image(image::Arguments),
    /// Build the Debian packages of Capstan and of its etcd
    Deb(deb::Arguments),
    /// Build all files of a release into one folder, with their checksums, SBOMs and provenance
    ///
    /// The files are the static programs, the container image, the Debian packages for the architecture of this machine, the
    /// chart, the manifests, the programs of etcd for both architectures, and an archive of all of them for sites without a
    /// network. SHA256SUMS has the checksums. A checkout with changes that are in no commit is refused.
    Release(release::Arguments),
    /// Check format, lints, docs, layers, modules, language, dependencies and generated files
    Check,
    /// Write the generated files
    Generate,
}

/// Builds everything that is built in the background of CI: the nodes, and kubeadm of three minors.
fn guests() -> anyhow::Result<()> {
    e2e::guests::image()?;
    prerequisites::kubeadms().map(drop)
}

fn generate() -> anyhow::Result<()> {
    layers::generate()?;
    modules::generate()?;
    runbooks::generate()
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Dev(arguments) => dev::run(&arguments),
        Command::Conformance(arguments) => conformance::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Times => suites::times(),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::E2e(arguments) => e2e::run(&arguments),
        Command::Guests => guests(),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Image(arguments) => image::run(&arguments),
        Command::Deb(arguments) => deb::run(&arguments),
        Command::Release(arguments) => release::run(&arguments),
        Command::Check => check::run(),
        Command::Generate => generate(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
