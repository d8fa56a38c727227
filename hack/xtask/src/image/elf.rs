//! Head of an ELF program: its architecture, and whether it needs a loader.

use std::path::Path;

use anyhow::{Context, bail, ensure};

/// Number of the architecture x86-64 in the head.
const X86_64: u16 = 62;

/// Number of the architecture AArch64 in the head.
const AARCH64: u16 = 183;

/// Type of the program header that names the loader of a dynamic program.
const INTERPRETER: u32 = 3;

/// Facts about a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Elf {
    /// Name of the architecture in OCI and Debian.
    pub(super) architecture: &'static str,
    /// The program needs neither a loader nor libraries.
    pub(super) is_static: bool,
}

/// Reads the head of a program.
pub(super) fn read(path: &Path) -> anyhow::Result<Elf> {
    let bytes = std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    parse(&bytes).with_context(|| format!("{}: is no program for Linux", path.display()))
}

fn parse(bytes: &[u8]) -> anyhow::Result<Elf> {
    // 64 bits, little-endian: both architectures are.
    ensure!(bytes.starts_with(b"\x7fELF\x02\x01"), "it is no ELF file of 64 bits");
    let architecture = match u16::from_le_bytes(at(bytes, 18)?) {
        X86_64 => "amd64",
        AARCH64 => "arm64",
        other => bail!("its architecture has the number {other}"),
    };
    let offset = usize::try_from(u64::from_le_bytes(at(bytes, 32)?))?;
    let size = usize::from(u16::from_le_bytes(at(bytes, 54)?));
    let count = usize::from(u16::from_le_bytes(at(bytes, 56)?));
    let kind = |index: usize| {
        let start =
            size.checked_mul(index).and_then(|it| it.checked_add(offset)).context("its headers overflow")?;
        Ok(u32::from_le_bytes(at(bytes, start)?))
    };
    let kinds: Vec<u32> = (0..count).map(kind).collect::<anyhow::Result<_>>()?;
    Ok(Elf { architecture, is_static: !kinds.contains(&INTERPRETER) })
}

/// Returns the bytes at an offset.
fn at<const N: usize>(bytes: &[u8], offset: usize) -> anyhow::Result<[u8; N]> {
    let end = offset.checked_add(N).context("its headers overflow")?;
    let found = bytes.get(offset..end).context("it ends in its headers")?;
    Ok(found.try_into()?)
}

/// Returns a program of this architecture that has only a head, for tests.
#[cfg(test)]
pub(super) fn head(machine: u16, is_static: bool) -> Vec<u8> {
    let mut bytes = vec![0; 64 + 56];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
    bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
    bytes[56..58].copy_from_slice(&1_u16.to_le_bytes());
    let kind = if is_static { 1 } else { INTERPRETER };
    bytes[64..68].copy_from_slice(&kind.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_and_the_loader_are_read_from_the_head() {
        let elf = |machine, is_static| parse(&head(machine, is_static)).unwrap();
        assert_eq!(elf(X86_64, true), Elf { architecture: "amd64", is_static: true });
        assert_eq!(elf(AARCH64, false), Elf { architecture: "arm64", is_static: false });
        assert!(parse(b"#!/bin/sh").is_err());
        assert!(parse(&head(3, true)).is_err());
        assert!(parse(&head(X86_64, true)[..66]).is_err());
    }

    #[test]
    fn this_test_is_a_program_of_this_machine() {
        let own = read(&std::env::current_exe().unwrap()).unwrap();
        assert_eq!(own.architecture, crate::image::architecture().unwrap());
    }
}
