//! Certificates and documents for cloud-init.

use std::net::SocketAddr;

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use kube::{Client, Config};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
};

/// The token of all documents.
pub(crate) const TOKEN: &str = "abcdef.0123456789abcdef";

/// An authority with its key in SEC1 format.
pub(crate) struct Authority {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Certificates of a cluster.
pub(crate) struct Pki {
    pub(crate) ca: Authority,
    pub(crate) etcd: Authority,
    pub(crate) front_proxy: Authority,
    pub(crate) service_accounts: String,
}

fn key() -> String {
    let key = PrivateKey::generate(&ECDH_P256).expect("a key");
    let der = AsDer::<EcPrivateKeyRfc5915Der<'_>>::as_der(&key).expect("a key");
    pem("EC PRIVATE KEY", der.as_ref())
}

/// Bytes of PKCS#8 before the PKCS#1 structure of an RSA key of 2048 bits.
const PKCS8_HEADER: usize = 26;

/// Returns an RSA key in PKCS#1 format.
fn rsa_key() -> String {
    let key = aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).expect("a key");
    let der = AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&key).expect("a key");
    pem("RSA PRIVATE KEY", &der.as_ref()[PKCS8_HEADER..])
}

fn pem(label: &str, der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let lines: Vec<&str> =
        encoded.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

pub(crate) fn authority() -> Authority {
    authority_of(key())
}

fn authority_of(key: String) -> Authority {
    let pair = KeyPair::from_pem(&key).expect("a key");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "kubernetes");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::KeyCertSign,
    ];
    Authority { certificate: params.self_signed(&pair).expect("a certificate").pem(), key }
}

impl Authority {
    /// Returns a client certificate and its key.
    pub(crate) fn client(&self, name: &str, group: &str) -> (String, String) {
        let issuer =
            Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(&self.key).expect("a key"));
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let signed = params.signed_by(&key, &issuer.expect("an issuer")).expect("a certificate");
        (signed.pem(), key.serialize_pem())
    }

    /// Returns the pin of the public key.
    pub(crate) fn pin(&self) -> String {
        let key = KeyPair::from_pem(&self.key).expect("a key").subject_public_key_info();
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &key);
        format!("sha256:{}", digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

fn file(path: &str, content: &str) -> String {
    format!("- path: {path}\n  owner: root:root\n  permissions: '0600'\n  content: |\n{}", indented(content))
}

/// Returns a document with these files and this command.
fn document(files: &str, command: &str) -> String {
    format!(
        "## template: jinja\n#cloud-config\n\nwrite_files:\n{files}- path: /run/cluster-api/placeholder\n  \
         owner: root:root\n  permissions: '0640'\n  content: directory\nruncmd:\n- \"systemctl restart containerd\"\n\
         - \"{command}\"\n"
    )
}

const REGISTRATION: &str = "nodeRegistration:\n  kubeletExtraArgs:\n  - name: cloud-provider\n    value: external\n  \
    - name: provider-id\n    value: openstack:///'{{ instance_id }}'\n  name: '{{ local_hostname }}'\n  taints: null\n";

impl Pki {
    pub(crate) fn generate() -> Self {
        Self { ca: authority(), etcd: authority(), front_proxy: authority(), service_accounts: key() }
    }

    /// Generates certificates with RSA keys.
    pub(crate) fn generate_rsa() -> Self {
        let authority = || authority_of(rsa_key());
        Self { ca: authority(), etcd: authority(), front_proxy: authority(), service_accounts: rsa_key() }
    }

    fn files(&self) -> String {
        let pair = KeyPair::from_pem(&self.service_accounts).expect("a key");
        let public = pem("PUBLIC KEY", &pair.subject_public_key_info());
        let pki = "/etc/kubernetes/pki";
        let pairs = [("ca", &self.ca), ("etcd/ca", &self.etcd), ("front-proxy-ca", &self.front_proxy)];
        let mut files = String::new();
        for (name, authority) in pairs {
            files += &file(&format!("{pki}/{name}.crt"), &authority.certificate);
            files += &file(&format!("{pki}/{name}.key"), &authority.key);
        }
        files
            + &file(&format!("{pki}/sa.pub"), &public)
            + &file(&format!("{pki}/sa.key"), &self.service_accounts)
    }

    /// Returns the document of a first control plane node.
    pub(crate) fn init(&self, endpoint: SocketAddr) -> String {
        let config = format!(
            "---\napiServer: {{}}\napiVersion: kubeadm.k8s.io/v1beta4\nclusterName: blue\ncontrolPlaneEndpoint: \
             {endpoint}\ncontrollerManager: {{}}\ndns: {{}}\netcd: {{}}\nkind: ClusterConfiguration\nkubernetesVersion: \
             v1.33.0\nnetworking:\n  podSubnet: 10.244.0.0/16\nscheduler: {{}}\n---\napiVersion: \
             kubeadm.k8s.io/v1beta4\nbootstrapTokens:\n- token: {TOKEN}\n  ttl: 1h0m0s\nkind: InitConfiguration\n\
             localAPIEndpoint: {{}}\n{REGISTRATION}"
        );
        let files = self.files() + &file("/run/kubeadm/kubeadm.yaml", &config);
        let sentinel = "echo success > /run/cluster-api/bootstrap-success.complete";
        document(&files, &format!("kubeadm init --config /run/kubeadm/kubeadm.yaml  && {sentinel}"))
    }

    fn join_file(&self, endpoint: SocketAddr, control_plane: &str) -> String {
        let config = format!(
            "---\napiVersion: kubeadm.k8s.io/v1beta4\n{control_plane}discovery:\n  bootstrapToken:\n    \
             apiServerEndpoint: {endpoint}\n    caCertHashes:\n    - {}\n    token: {TOKEN}\nkind: JoinConfiguration\n\
             {REGISTRATION}",
            self.ca.pin()
        );
        file("/run/kubeadm/kubeadm-join-config.yaml", &config)
    }

    /// Returns the document of a worker.
    pub(crate) fn join(&self, endpoint: SocketAddr) -> String {
        document(&self.join_file(endpoint, ""), "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml")
    }

    /// Returns the document of a further control plane node.
    pub(crate) fn join_control_plane(&self, endpoint: SocketAddr) -> String {
        let join = self.join_file(endpoint, "controlPlane:\n  localAPIEndpoint: {}\n");
        document(&(self.files() + &join), "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml")
    }

    /// Returns a client of the API with a certificate.
    pub(crate) fn client(&self, endpoint: SocketAddr, user: &str, group: &str) -> Client {
        let (certificate, key) = self.ca.client(user, group);
        self.connect(
            endpoint,
            AuthInfo {
                client_certificate_data: Some(STANDARD.encode(certificate)),
                client_key_data: Some(STANDARD.encode(key).into()),
                ..AuthInfo::default()
            },
        )
    }

    /// Returns a client with these credentials.
    pub(crate) fn connect(&self, endpoint: SocketAddr, credentials: AuthInfo) -> Client {
        let cluster = Cluster {
            server: Some(format!("https://{endpoint}")),
            certificate_authority_data: Some(STANDARD.encode(&self.ca.certificate)),
            ..Cluster::default()
        };
        let context =
            Context { cluster: "blue".to_owned(), user: Some("user".to_owned()), ..Context::default() };
        let kubeconfig = Kubeconfig {
            clusters: vec![NamedCluster {
                name: "blue".to_owned(),
                cluster: Some(cluster),
                ..NamedCluster::default()
            }],
            auth_infos: vec![NamedAuthInfo {
                name: "user".to_owned(),
                auth_info: Some(credentials),
                ..NamedAuthInfo::default()
            }],
            contexts: vec![NamedContext {
                name: "blue".to_owned(),
                context: Some(context),
                ..NamedContext::default()
            }],
            current_context: Some("blue".to_owned()),
            ..Kubeconfig::default()
        };
        let options = KubeConfigOptions::default();
        let config = futures::executor::block_on(Config::from_custom_kubeconfig(kubeconfig, &options));
        let mut config = config.expect("a configuration");
        // The client would repeat an eviction that a budget forbids for minutes.
        config.default_retry = false;
        Client::try_from(config).expect("a client")
    }
}
