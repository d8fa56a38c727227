//! Certificates of a control plane in its workload cluster, encrypted for one Machine. `kubeadm join` fetches them, so
//! the Machine's user data has a key of 32 bytes instead of the private keys of the cluster.
//!
//! The format is that of `kubeadm init phase upload-certs`.

use std::collections::BTreeMap;

use apiserver_types::ClusterConfiguration;
use aws_lc_rs::aead::{AES_256_GCM, Aad, RandomizedNonceKey};
use aws_lc_rs::hmac;
use k8s_openapi::ByteString;

use super::{CertificateError, PemPair, Purpose};

/// Prefix of the text that a key is derived from, so that the CA's key serves no other purpose by the same text.
const CONTEXT: &str = "capstan.dev/certificate-key/";

/// Key with which a Machine's certificates are encrypted. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateKey([u8; 32]);

impl std::fmt::Debug for CertificateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertificateKey").finish_non_exhaustive()
    }
}

impl CertificateKey {
    /// Derives the key of a Machine from the private key of the cluster's CA. It is the same in every pass, so nothing
    /// has to be stored.
    pub fn derive(ca: &PemPair, machine_uid: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, ca.key.as_bytes());
        let tag = hmac::sign(&key, format!("{CONTEXT}{machine_uid}").as_bytes());
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(tag.as_ref()).for_each(|(byte, of_tag)| *byte = *of_tag);
        Self(bytes)
    }

    /// Returns the key in kubeadm's form: hexadecimal digits.
    pub fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Encrypts the certificates of a control plane node. Returns the data of the Secret.
    ///
    /// # Errors
    /// The random source of the system failed.
    pub fn encrypt<'a>(
        &self,
        pairs: impl IntoIterator<Item = (Purpose, &'a PemPair)>,
        configuration: Option<&ClusterConfiguration>,
    ) -> Result<BTreeMap<String, ByteString>, CertificateError> {
        let mut data = BTreeMap::new();
        for (purpose, pair) in pairs {
            let (certificate, key) = purpose.uploaded_names(configuration);
            data.insert(certificate.to_owned(), self.seal(pair.certificate.as_bytes())?);
            if let Some(name) = key.filter(|_| !pair.key.is_empty()) {
                data.insert(name.to_owned(), self.seal(pair.key.as_bytes())?);
            }
        }
        Ok(data)
    }

    /// Encrypts a content: a random nonce, then the ciphertext with its tag.
    fn seal(&self, content: &[u8]) -> Result<ByteString, CertificateError> {
        let failed = |_| CertificateError::Generation("the random source of the system failed".to_owned());
        let key = RandomizedNonceKey::new(&AES_256_GCM, &self.0).map_err(failed)?;
        let mut sealed = content.to_vec();
        let nonce = key.seal_in_place_append_tag(Aad::empty(), &mut sealed).map_err(failed)?;
        let mut bytes = nonce.as_ref().to_vec();
        bytes.append(&mut sealed);
        Ok(ByteString(bytes))
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::aead::{LessSafeKey, Nonce, UnboundKey};

    use super::*;

    fn opened(key: &CertificateKey, sealed: &ByteString) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.0.split_at(12);
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key.0).unwrap());
        let mut rest = rest.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).unwrap();
        key.open_in_place(nonce, Aad::empty(), &mut rest).ok().map(|plain| plain.to_vec())
    }

    #[test]
    fn only_the_key_of_the_machine_opens_what_kubeadm_fetches_by_its_names() {
        let pair = |text: &str| PemPair { certificate: format!("{text}.crt"), key: format!("{text}.key") };
        let (ca, etcd) = (pair("ca"), pair("etcd"));
        let (key, other) = (CertificateKey::derive(&ca, "m"), CertificateKey::derive(&ca, "n"));
        assert_eq!(key, CertificateKey::derive(&ca, "m"), "another pass has the same key");
        assert_eq!((key.text().len(), key.text() == other.text()), (64, false));
        let data = key.encrypt([(Purpose::ClusterCa, &ca), (Purpose::EtcdCa, &etcd)], None).unwrap();
        let names: Vec<&str> = data.keys().map(String::as_str).collect();
        assert_eq!(names, ["ca.crt", "ca.key", "etcd-ca.crt", "etcd-ca.key"]);
        assert_eq!(opened(&key, &data["etcd-ca.key"]).unwrap(), b"etcd.key");
        assert_eq!(opened(&other, &data["etcd-ca.key"]), None);
    }
}
