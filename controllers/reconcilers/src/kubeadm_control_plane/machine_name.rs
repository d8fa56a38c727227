//! Names of new Machines, and the label value of names that are too long for a label.

use std::hash::{BuildHasher as _, RandomState};

use apiserver_types::{Cluster, KubeadmControlPlane};
use kube::ResourceExt;

/// Longest name of a Machine, and longest value of a label, in Kubernetes.
const LONGEST: usize = 63;

/// Length of the random part of a name. Upstream's.
const RANDOM: usize = 5;

/// Characters of the random part: no vowels and no digits that look like letters, so that no words arise. Upstream's.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Template of names, if the control plane has none.
const TEMPLATE: &str = "{{ .kubeadmControlPlane.name }}-{{ .random }}";

/// Offset basis and prime of the hash FNV-1a with 32 bits.
const FNV: (u32, u32) = (0x811c_9dc5, 0x0100_0193);

/// Returns the name of a new Machine.
pub(super) fn new(control_plane: &KubeadmControlPlane, cluster: &Cluster) -> String {
    named(control_plane, &cluster.name_any(), &random())
}

fn named(control_plane: &KubeadmControlPlane, cluster: &str, random: &str) -> String {
    let naming = control_plane.spec.machine_naming.as_ref();
    let template = naming.and_then(|naming| naming.template.as_deref()).unwrap_or(TEMPLATE);
    let name = rendered(template, &control_plane.name_any(), cluster, random);
    if name.len() <= LONGEST {
        return name;
    }
    let base: String = name.chars().take(LONGEST.saturating_sub(RANDOM)).collect();
    format!("{base}{random}")
}

/// Renders a template. A variable that does not exist is left as it is; admission refuses it.
fn rendered(template: &str, control_plane: &str, cluster: &str, random: &str) -> String {
    let mut name = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((variable, after)) = after.split_once("}}") else { break };
        name.push_str(before);
        match variable.trim_matches('-').trim() {
            ".kubeadmControlPlane.name" => name.push_str(control_plane),
            ".cluster.name" => name.push_str(cluster),
            ".random" => name.push_str(random),
            _ => {}
        }
        rest = after;
    }
    name.push_str(rest);
    name
}

/// Returns the random part of a name.
fn random() -> String {
    // The standard library seeds its hashers with the random numbers of the operating system.
    let mut number = RandomState::new().hash_one("name");
    let letter = |_| {
        let letters = u64::try_from(ALPHABET.len()).unwrap_or(1);
        let index = usize::try_from(number % letters).unwrap_or_default();
        number /= letters;
        ALPHABET.get(index).copied().map_or('b', char::from)
    };
    (0..RANDOM).map(letter).collect()
}

/// Returns the value of a label with a name: the name, or its hash if it is too long.
pub(super) fn label_value(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let (basis, prime) = FNV;
    let hash = name.bytes().fold(basis, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(prime));
    format!("hash_{}_z", base64url(hash))
}

/// Returns 4 bytes in the alphabet of base64 for URLs, without padding.
fn base64url(bytes: u32) -> String {
    let bits = u64::from(bytes) << 4;
    let letter = |group: u32| {
        let index = u8::try_from((bits >> (30 - group * 6)) & 63).unwrap_or_default();
        char::from(match index {
            0..=25 => b'A' + index,
            26..=51 => b'a' + (index - 26),
            52..=61 => b'0' + (index - 52),
            62 => b'-',
            _ => b'_',
        })
    };
    (0..6).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use apiserver_types::{KubeadmControlPlaneSpec, MachineNaming};

    use super::*;

    #[test]
    fn names_follow_the_template_and_stay_within_the_limit() {
        let long = "x".repeat(70);
        let table = [
            (None, "cp", "cp-bcdfg".to_owned()),
            (Some("{{ .cluster.name }}-cp-{{.random}}"), "cp", "c-cp-bcdfg".to_owned()),
            (Some("{{ .kubeadmControlPlane.name }}-x-{{ .random }}"), "cp", "cp-x-bcdfg".to_owned()),
            (None, &long, format!("{}bcdfg", "x".repeat(58))),
        ];
        for (template, name, expected) in table {
            let machine_naming = template.map(|it| MachineNaming { template: Some(it.to_owned()) });
            let spec = KubeadmControlPlaneSpec { machine_naming, ..KubeadmControlPlaneSpec::default() };
            assert_eq!(named(&KubeadmControlPlane::new(name, spec), "c", "bcdfg"), expected);
        }
        assert_ne!(random(), random());
        assert_eq!(random().len(), RANDOM);
    }

    #[test]
    fn a_name_that_is_too_long_for_a_label_becomes_a_hash() {
        assert_eq!(label_value("short"), "short");
        // The published test vector of FNV-1a: "foobar" is bf9cf968, which is v5z5aA in base64.
        assert_eq!(base64url(0xbf9c_f968), "v5z5aA");
        let value = label_value(&"x".repeat(64));
        assert!(value.starts_with("hash_") && value.ends_with("_z") && value.len() == 13, "{value}");
    }
}
