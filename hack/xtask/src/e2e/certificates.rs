//! Certificates of a host cluster, created with openssl.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::run;

/// Directory with certificates.
pub(crate) struct Certificates(PathBuf);

impl Certificates {
    /// Creates two separate CAs, and the certificates that they sign.
    pub(crate) fn create(directory: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let certificates = Self(directory.to_owned());
        certificates.authority("kube-ca")?;
        certificates.authority("front-proxy-ca")?;
        let names = "DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.0.0.1";
        certificates.sign("kube-ca", "apiserver", "/CN=kube-apiserver", names)?;
        for (name, subject) in [
            ("admin", "/O=system:masters/CN=admin"),
            ("capstan", "/CN=capstan"),
            ("alice", "/CN=alice"),
            ("bob", "/CN=bob"),
        ] {
            certificates.sign("kube-ca", name, subject, "")?;
        }
        certificates.sign("front-proxy-ca", "front-proxy-client", "/CN=front-proxy-client", "")?;
        certificates.openssl(&["genrsa", "-out", "sa.key", "2048"])?;
        certificates.openssl(&["rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub"])?;
        Ok(certificates)
    }

    /// Replaces the CA of the front proxy, and the front proxy's certificate. The host uses them after its next start.
    pub(crate) fn replace_front_proxy(&self) -> anyhow::Result<()> {
        self.authority("front-proxy-ca")?;
        self.sign("front-proxy-ca", "front-proxy-client", "/CN=front-proxy-client", "")
    }

    /// Creates Capstan's serving certificate, signed by the CA in the folder `authority`. Another one replaces both files.
    pub(super) fn serving(&self, authority: &Path) -> anyhow::Result<()> {
        for end in ["crt", "key"] {
            let (from, to) = (authority.join(format!("ca.{end}")), format!("capstan-ca.{end}"));
            std::fs::copy(&from, self.0.join(to)).with_context(|| from.display().to_string())?;
        }
        let names = "DNS:localhost,DNS:capstan.capstan-system.svc,IP:127.0.0.1";
        self.sign("capstan-ca", "serving-next", "/CN=capstan", names)?;
        for end in ["key", "crt"] {
            let [next, present] =
                ["serving-next", "serving"].map(|name| self.0.join(format!("{name}.{end}")));
            std::fs::rename(next, present)?;
        }
        Ok(())
    }

    /// Creates a client certificate of a user of the host.
    pub(super) fn user(&self, name: &str) -> anyhow::Result<()> {
        self.sign("kube-ca", name, &format!("/CN={name}"), "")
    }

    /// Returns the path of the file with this name.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    pub(crate) fn authority(&self, name: &str) -> anyhow::Result<()> {
        self.key(name)?;
        let (key, certificate, subject) =
            (format!("{name}.key"), format!("{name}.crt"), format!("/CN={name}"));
        self.openssl(&[
            "req",
            "-x509",
            "-new",
            "-key",
            &key,
            "-days",
            "30",
            "-subj",
            &subject,
            "-out",
            &certificate,
        ])
    }

    /// Signs the key of another CA with `authority`. With the new certificate in its chain, clients that trust `authority` alone
    /// trusts what the other CA has signed. Returns the certificate in PEM.
    pub(crate) fn cross_sign(&self, authority: &str, certificate: &str, key: &str) -> anyhow::Result<String> {
        let [own, own_key, request, extensions, crossed] =
            ["crt", "key", "csr", "ext", "cross"].map(|end| format!("other.{end}"));
        std::fs::write(self.0.join(&own), certificate)?;
        std::fs::write(self.0.join(&own_key), key)?;
        self.openssl(&["x509", "-x509toreq", "-in", &own, "-signkey", &own_key, "-out", &request])?;
        std::fs::remove_file(self.0.join(&own_key))?;
        let of_authority = "basicConstraints=critical,CA:true\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash";
        std::fs::write(self.0.join(&extensions), of_authority)?;
        let ca = [&format!("{authority}.crt"), "-CAkey", &format!("{authority}.key"), "-CAcreateserial"];
        let files = ["-extfile", &extensions, "-out", &crossed];
        let sign = ["x509", "-req", "-days", "30", "-in", &request, "-CA"];
        self.openssl(&[&sign[..], &ca[..], &files[..]].concat())?;
        std::fs::read_to_string(self.0.join(&crossed)).context(crossed)
    }

    /// Creates a key, and a request for a certificate with this subject. Returns the path of the request.
    pub(super) fn request(&self, name: &str, subject: &str) -> anyhow::Result<String> {
        self.key(name)?;
        let (key, request) = (format!("{name}.key"), format!("{name}.csr"));
        self.openssl(&["req", "-new", "-key", &key, "-subj", subject, "-out", &request])?;
        Ok(self.path(&request))
    }

    fn sign(&self, authority: &str, name: &str, subject: &str, names: &str) -> anyhow::Result<()> {
        self.request(name, subject)?;
        let (request, certificate) = (format!("{name}.csr"), format!("{name}.crt"));
        let usage = if names.is_empty() {
            "extendedKeyUsage=clientAuth".to_owned()
        } else {
            format!("extendedKeyUsage=serverAuth\nsubjectAltName={names}")
        };
        let extensions = format!("{name}.ext");
        std::fs::write(self.0.join(&extensions), usage)?;
        let (ca, ca_key) = (format!("{authority}.crt"), format!("{authority}.key"));
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            &ca,
            "-CAkey",
            &ca_key,
            "-CAcreateserial",
            "-days",
            "30",
            "-extfile",
            &extensions,
            "-out",
            &certificate,
        ])
    }

    fn key(&self, name: &str) -> anyhow::Result<()> {
        self.openssl(&["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", &format!("{name}.key")])
    }

    fn openssl(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new("openssl");
        command.args(arguments).current_dir(&self.0).stderr(std::process::Stdio::null());
        run::shown(command.stdout(std::process::Stdio::null())).context("openssl")
    }

    /// Writes a kubeconfig for a user of the host. Returns its path.
    pub(crate) fn kubeconfig(&self, user: &str, server: &str) -> anyhow::Result<String> {
        let path = self.path(&format!("{user}.kubeconfig"));
        let document = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "host",
            "clusters": [{"name": "host", "cluster": {"server": server, "certificate-authority": self.path("kube-ca.crt")}}],
            "users": [{"name": user, "user": {
                "client-certificate": self.path(&format!("{user}.crt")), "client-key": self.path(&format!("{user}.key"))}}],
            "contexts": [{"name": "host", "context": {"cluster": "host", "user": user}}]});
        std::fs::write(&path, document.to_string())?;
        Ok(path)
    }
}
