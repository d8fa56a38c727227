//! Tests of the reload of TLS files and CAs.

use super::*;
use crate::config::{SniCertificate, Tls};

fn sources(
    data: &tempfile::TempDir,
    tls: Option<Tls>,
    proxy: Option<watch::Receiver<FrontProxy>>,
) -> Sources {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Authority::open(data.path()).unwrap();
    Sources {
        configuration: ServerConfiguration { tls, ..ServerConfiguration::default() },
        data: data.path().to_owned(),
        listen: "127.0.0.1:7443".parse().unwrap(),
        authorities: watch::channel(Known::default()).1,
        front_proxy: proxy,
    }
}

#[test]
fn a_new_certificate_is_used_once_its_key_is_there() {
    let data = tempfile::tempdir().unwrap();
    let authority = Authority::open(data.path()).unwrap();
    let (cert_file, key_file) = (data.path().join("tls.crt"), data.path().join("tls.key"));
    let mut pairs = ["a.example", "b.example"].map(|name| authority.serving(&[name.to_owned()]).unwrap());
    let [old, new] = &mut pairs;
    std::fs::write(&cert_file, &old.certificate).unwrap();
    std::fs::write(&key_file, &old.key).unwrap();
    let tls =
        Some(Tls { cert_file: cert_file.clone(), key_file: key_file.clone(), sni_certificates: Vec::new() });
    let mut files = sources(&data, tls, None).open().unwrap();
    assert_eq!(files.reload(), Reload::Unchanged);
    std::fs::write(&cert_file, &new.certificate).unwrap();
    assert!(matches!(files.reload(), Reload::Unusable(_)), "the key is still the old one");
    assert_eq!(files.reload(), Reload::Unchanged, "the same error is returned once");
    std::fs::write(&key_file, &new.key).unwrap();
    assert_eq!(files.reload(), Reload::Replaced);
    assert_eq!(files.reload(), Reload::Unchanged);
    std::fs::remove_file(&key_file).unwrap();
    let Reload::Unusable(error) = files.reload() else { panic!("there is no key") };
    assert!(error.contains("tls.key"), "{error}");
}

/// Returns a certificate revocation list in PEM. It is one of a CA that no client uses, and names no certificate.
fn revocation_list(number: u64) -> String {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap();
    let list = rcgen::CertificateRevocationListParams {
        this_update: rcgen::date_time_ymd(2030, 1, 1),
        next_update: rcgen::date_time_ymd(2031, 1, 1),
        crl_number: rcgen::SerialNumber::from(number),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    list.signed_by(&issuer).unwrap().pem().unwrap()
}

#[test]
fn a_file_without_a_revocation_list_changes_nothing() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("clients.crl");
    let open = || {
        let mut sources = sources(&data, None, None);
        sources.configuration.client_crl_file = Some(path.clone());
        sources.open()
    };
    std::fs::write(&path, "").unwrap();
    let Err(error) = open() else { panic!("there is no list") };
    assert!(format!("{error:#}").contains("clientCrlFile"), "{error:#}");
    std::fs::write(&path, [revocation_list(1), revocation_list(2)].concat()).unwrap();
    let Err(error) = open() else { panic!("both are of the same name") };
    assert!(format!("{error:#}").starts_with("clientCrlFile: "), "{error:#}");
    std::fs::write(&path, revocation_list(1)).unwrap();
    let mut files = open().unwrap();
    assert_eq!(files.reload(), Reload::Unchanged);
    std::fs::write(&path, "").unwrap();
    let Reload::Unusable(error) = files.reload() else { panic!("there is no list") };
    assert!(error.contains("clientCrlFile"), "{error}");
    std::fs::write(&path, revocation_list(2)).unwrap();
    assert_eq!(files.reload(), Reload::Replaced);
}

#[test]
fn a_file_without_a_ca_of_clients_changes_nothing_and_is_named() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("clients.crt");
    let ca = Authority::open(data.path()).unwrap().certificate().to_owned();
    let key = pki::read(&data.path().join("pki/ca.key")).unwrap();
    // The CAs of machines are known. They alone are no reason to accept the file.
    let of_store = crate::authorities::of_one_ca(&pki::Pair { certificate: ca.clone(), key });
    let (_sender, receiver) =
        watch::channel(Known { authorities: Some(Arc::new(of_store)), ..Known::default() });
    let open = || {
        let mut sources = sources(&data, None, None);
        sources.authorities = receiver.clone();
        sources.configuration.client_ca_file = Some(path.clone());
        sources.open()
    };
    std::fs::write(&path, "no CA").unwrap();
    let Err(error) = open() else { panic!("there is no CA") };
    let expected = format!("clientCaFile: {}: holds no certificate", path.display());
    assert_eq!(format!("{error:#}"), expected);
    std::fs::write(&path, &ca).unwrap();
    let mut files = open().unwrap();
    std::fs::write(&path, "").unwrap();
    assert_eq!(files.reload(), Reload::Unusable(expected));
    assert!(files.last.client_cas.starts_with(ca.trim_end()), "the last CAs stay in force");
}

#[test]
fn a_certificate_with_the_key_of_another_is_refused_with_the_names_of_both_files() {
    let data = tempfile::tempdir().unwrap();
    let authority = Authority::open(data.path()).unwrap();
    let [cert_file, key_file] = ["tls.crt", "tls.key"].map(|name| data.path().join(name));
    let pairs = ["a.example", "b.example"].map(|name| authority.serving(&[name.to_owned()]).unwrap());
    std::fs::write(&cert_file, &pairs[0].certificate).unwrap();
    std::fs::write(&key_file, &pairs[1].key).unwrap();
    let tls = Some(Tls { cert_file, key_file, sni_certificates: Vec::new() });
    let Err(error) = sources(&data, tls, None).open() else { panic!("they do not match") };
    let error = format!("{error:#}");
    assert!(error.contains("tls.crt with ") && error.contains("tls.key: certificate and key"), "{error}");
}

#[test]
fn a_ca_that_vanishes_is_not_replaced() {
    let data = tempfile::tempdir().unwrap();
    let mut files = sources(&data, None, None).open().unwrap();
    let (pki, away) = (data.path().join("pki"), data.path().join("away"));
    std::fs::rename(&pki, &away).unwrap();
    let Reload::Unusable(error) = files.reload() else { panic!("there is no CA") };
    assert!(error.contains("pki/ca.crt"), "{error}");
    assert!(!pki.exists());
    std::fs::rename(&away, &pki).unwrap();
    assert_eq!(files.reload(), Reload::Unchanged);
}

#[test]
fn a_server_without_any_ca_serves_and_uses_that_of_the_store_once_it_is_known() {
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut sources = sources(&data, None, None);
    let (sender, receiver) = watch::channel(Known::default());
    sources.data = other.path().to_owned();
    sources.authorities = receiver;
    let mut files = sources.open().unwrap();
    assert!(!other.path().join("pki/ca.key").exists(), "a server that does not read the store makes no CA");
    let temporary = files.last.client_cas.clone();
    sender.send_modify(|known| known.error = Some("no answer".to_owned()));
    let Reload::Unusable(error) = files.reload() else { panic!("the store does not answer") };
    assert!(error.contains("own CAs: no answer"), "{error}");
    let read = |name: &str| pki::read(&data.path().join("pki").join(name)).unwrap();
    let known =
        crate::authorities::of_one_ca(&pki::Pair { certificate: read("ca.crt"), key: read("ca.key") });
    sender.send_replace(Known { authorities: Some(Arc::new(known)), ..Known::default() });
    assert_eq!(files.reload(), Reload::Replaced);
    assert_ne!(files.last.client_cas, temporary);
    assert_eq!(files.reload(), Reload::Unchanged);
}

#[test]
fn a_changed_certificate_for_a_name_is_reloaded() {
    let data = tempfile::tempdir().unwrap();
    let authority = Authority::open(data.path()).unwrap();
    let (cert_file, key_file) = (data.path().join("tls.crt"), data.path().join("tls.key"));
    let write = |name: &str| {
        let pair = authority.serving(&[name.to_owned()]).unwrap();
        std::fs::write(&cert_file, pair.certificate).unwrap();
        std::fs::write(&key_file, pair.key).unwrap();
    };
    write("one.example");
    let one = |names: Vec<String>| SniCertificate {
        cert_file: cert_file.clone(),
        key_file: key_file.clone(),
        names,
    };
    let sni_certificates = vec![one(Vec::new()), one(vec!["*.two.example".to_owned()])];
    let tls = Some(Tls { cert_file: cert_file.clone(), key_file: key_file.clone(), sni_certificates });
    let mut files = sources(&data, tls, None).open().unwrap();
    let names = |files: &TlsFiles| -> Vec<Vec<String>> {
        let named = files.last.material().unwrap().named;
        named.into_iter().map(|certificate| certificate.names).collect()
    };
    assert_eq!(names(&files), [["one.example"], ["*.two.example"]]);
    write("three.example");
    assert_eq!(files.reload(), Reload::Replaced);
    assert_eq!(names(&files), [["three.example"], ["*.two.example"]]);
}

#[test]
fn the_cas_of_the_hosts_users_are_used_by_a_setting_and_never_break_the_others() {
    let [data, front, users] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let ca = Authority::open(front.path()).unwrap().certificate().to_owned();
    let of_users = Authority::open(users.path()).unwrap().certificate().to_owned();
    let proxy = |client_ca: &str| FrontProxy {
        ca: ca.clone(),
        client_ca: client_ca.to_owned(),
        headers: Default::default(),
    };
    for (is_set, client_ca, expected) in
        [(false, of_users.as_str(), 0), (true, &of_users, 1), (true, "no PEM", 0), (true, "", 0)]
    {
        let (_sender, receiver) = watch::channel(proxy(client_ca));
        let mut sources = sources(&data, None, Some(receiver));
        let host = crate::config::Host::new(Path::new("unused"));
        sources.configuration.host = Some(crate::config::Host { client_certificates: is_set, ..host });
        let files = sources.open().unwrap();
        assert_eq!(files.last.material().unwrap().host_cas.len(), expected, "{is_set} {client_ca}");
    }
}

#[test]
fn ia_20_a_new_front_proxy_does_not_wait_for_a_serving_key() {
    let [data, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let authority = Authority::open(data.path()).unwrap();
    let (cert_file, key_file) = (data.path().join("tls.crt"), data.path().join("tls.key"));
    let pairs = ["a.example", "b.example"].map(|name| authority.serving(&[name.to_owned()]).unwrap());
    std::fs::write(&cert_file, &pairs[0].certificate).unwrap();
    std::fs::write(&key_file, &pairs[0].key).unwrap();
    let tls =
        Some(Tls { cert_file: cert_file.clone(), key_file: key_file.clone(), sni_certificates: Vec::new() });
    let (sender, receiver) = watch::channel(FrontProxy::unknown());
    let mut files = sources(&data, tls, Some(receiver)).open().unwrap();
    let serving = files.last.serving.chain.clone();
    std::fs::write(&cert_file, &pairs[1].certificate).unwrap();
    let ca = Authority::open(other.path()).unwrap().certificate().to_owned();
    let mut proxy = FrontProxy { ca, ..FrontProxy::unknown() };
    proxy.headers.allowed_names = vec!["front".to_owned()];
    sender.send_replace(proxy.clone());
    assert!(matches!(files.reload(), Reload::Unusable(error) if error.contains("do not match")));
    let material = files.last.material().unwrap();
    assert_eq!((material.request_header_cas.len(), &material.request_headers), (1, &proxy.headers));
    assert_eq!(files.last.serving.chain, serving, "the last serving certificate stays in force");
    proxy.ca = "no PEM".to_owned();
    proxy.headers.allowed_names.clear();
    sender.send_replace(proxy);
    std::fs::write(&key_file, &pairs[1].key).unwrap();
    assert!(matches!(files.reload(), Reload::Unusable(error) if error.contains("front-proxy CA")));
    assert_ne!(files.last.serving.chain, serving);
    let material = files.last.material().unwrap();
    assert_eq!(material.request_headers.allowed_names, ["front"], "headers and CA are replaced in one step");
}

#[test]
fn a_new_front_proxy_ca_is_used() {
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let proxy =
        |ca: &str| FrontProxy { ca: ca.to_owned(), client_ca: String::new(), headers: Default::default() };
    let first = Authority::open(data.path()).unwrap().certificate().to_owned();
    let (sender, receiver) = watch::channel(proxy(&first));
    let mut files = sources(&data, None, Some(receiver)).open().unwrap();
    sender.send_replace(proxy("no PEM"));
    assert!(matches!(files.reload(), Reload::Unusable(error) if error.contains("front-proxy CA")));
    assert_eq!(files.shared_cas.get(), 1, "the server's own CA is in both pools");
    sender.send_replace(proxy(Authority::open(other.path()).unwrap().certificate()));
    assert_eq!(files.reload(), Reload::Replaced);
    assert_eq!(files.shared_cas.get(), 0);
}
