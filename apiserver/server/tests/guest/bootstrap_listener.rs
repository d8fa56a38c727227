//! Listener for bootstrap data, with a real server.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

use crate::etcd::free_port;
use crate::process::{Capstan, PATIENCE};

/// Connections of one address: more than the listener serves of all addresses.
const FLOOD: usize = 300;

/// Time limit of a response. The listener closes idle connections after 30 seconds, so none has ended by then.
const PROMPT: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn tm_18_idle_connections_of_one_address_leave_room_for_a_machine_with_another() {
    let (data, port) = (tempfile::tempdir().unwrap(), free_port());
    let config = data.path().join("capstan.yaml");
    let settings = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\n\
         bootstrapData: {{listen: '127.0.0.1:{port}', url: 'https://127.0.0.1:{port}'}}\n"
    );
    std::fs::write(&config, settings).unwrap();
    let capstan = Capstan::start(data.path(), &["--config", config.to_str().unwrap()]);
    capstan.ready().await;
    let begun = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err() {
        assert!(begun.elapsed() < PATIENCE, "the leader does not listen for machines");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut idle = Vec::new();
    for _ in 0..FLOOD {
        idle.push(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap());
    }

    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(data.path().join("pki/ca.crt")).unwrap() {
        roots.add(certificate.unwrap()).unwrap();
    }
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let fetching = async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into()).unwrap();
        let stream = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await.unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.unwrap();
        stream.write_all(b"GET /unknown HTTP/1.1\r\nHost: capstan\r\n\r\n").await.unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.unwrap();
        status
    };
    let status = tokio::time::timeout(PROMPT, fetching).await.expect("the machine waits for a stranger");
    assert_eq!(&status, b"HTTP/1.1 404");
    drop(idle);
}
