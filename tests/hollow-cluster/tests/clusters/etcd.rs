//! Tests of etcd members.

use std::sync::Arc;

use etcd_client::{AlarmAction, AlarmType, Channel, Client};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio_rustls::TlsConnector;

use crate::cloud::Cloud;
use crate::documents::Authority;

/// Opens a connection to the etcd member of a node, with a client certificate of an authority.
async fn connect(cloud: &Cloud, node: &str, client: &Authority) -> Result<Client, String> {
    let pods: Api<Pod> = Api::namespaced(cloud.admin(), "kube-system");
    let forward = pods.portforward(&format!("etcd-{node}"), &[2379]).await;
    let mut forward = forward.map_err(|error| error.to_string())?;
    let stream = forward.take_stream(2379).ok_or("no stream")?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(cloud.pki.etcd.certificate.as_bytes()).unwrap()).unwrap();
    let (certificate, key) = client.client("cluster-api.x-k8s.io", "");
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_client_auth_cert(vec![certificate], key);
    let mut config = config.map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = node.to_owned().try_into().unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let mut stream = Some(TokioIo::new(stream.map_err(|error| error.to_string())?));
    let connector = tower::service_fn(move |_: http::Uri| {
        let stream = stream.take().ok_or_else(|| std::io::Error::other("the stream was used"));
        async move { stream }
    });
    let channel =
        tonic::transport::Endpoint::from_static("http://etcd").connect_with_connector(connector).await;
    let channel = channel.map_err(|error| error.to_string())?;
    Client::from_channel(Channel::Tonic(channel), None).await.map_err(|error| error.to_string())
}

/// Makes a control plane of three nodes, and returns the ids of their servers.
async fn three(cloud: &Cloud) -> Vec<String> {
    let mut ids = vec![cloud.init().await];
    for name in ["cp-1", "cp-2"] {
        ids.push(cloud.create(name, false, &cloud.pki.join_control_plane(cloud.endpoint)).await);
        cloud.until_ready(name).await;
        cloud
            .until("a voter", || {
                cloud.hollow.etcd_members(cloud.endpoint).iter().all(|member| !member.learner).then_some(())
            })
            .await;
    }
    ids
}

#[tokio::test]
async fn a_control_plane_survives_one_lost_server_but_not_two() {
    let cloud = Cloud::balanced().await;
    let ids = three(&cloud).await;
    assert_eq!(cloud.hollow.etcd_members(cloud.endpoint).len(), 3);
    assert_eq!(cloud.hollow.etcd_leader(cloud.endpoint).as_deref(), Some("cp-0"));
    cloud.act(&ids[0], json!({"os-stop": null})).await;
    let leader = || cloud.hollow.etcd_leader(cloud.endpoint);
    cloud.until("a new leader", || leader().filter(|leader| leader != "cp-0")).await;
    let version = cloud.admin().list_core_api_versions().await;
    assert!(version.is_ok());
    assert!(cloud.hollow.etcd_member_lost(cloud.endpoint, "cp-1"));
    assert_eq!(leader(), None);
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(cloud.admin());
    let error = nodes.get("cp-2").await.unwrap_err();
    assert!(error.to_string().contains("request timed out"), "{error}");
}

#[tokio::test]
async fn a_client_of_etcd_moves_the_leader_and_removes_members() {
    let cloud = Cloud::balanced().await;
    three(&cloud).await;
    let mut client = connect(&cloud, "cp-0", &cloud.pki.etcd).await.unwrap();
    let members = client.member_list().await.unwrap().members().to_vec();
    let mut names: Vec<&str> = members.iter().map(etcd_client::Member::name).collect();
    names.sort_unstable();
    assert_eq!(names, ["cp-0", "cp-1", "cp-2"]);
    let id = |name: &str| members.iter().find(|member| member.name() == name).unwrap().id();
    assert_eq!(client.status().await.unwrap().leader(), id("cp-0"));
    client.move_leader(id("cp-1")).await.unwrap();
    assert_eq!(cloud.hollow.etcd_leader(cloud.endpoint).as_deref(), Some("cp-1"));
    let refused = client.move_leader(id("cp-2")).await.unwrap_err();
    assert!(refused.to_string().contains("not leader"), "{refused}");

    assert!(cloud.hollow.etcd_alarm(cloud.endpoint, "cp-2", "NOSPACE"));
    let alarms = client.alarm(AlarmAction::Get, AlarmType::None, None).await.unwrap();
    assert_eq!(alarms.alarms()[0].member_id(), id("cp-2"));
    client.member_remove(id("cp-0")).await.unwrap();
    assert_eq!(cloud.hollow.etcd_members(cloud.endpoint).len(), 2);
    let mut other = connect(&cloud, "cp-1", &cloud.pki.etcd).await.unwrap();
    let again = other.member_remove(id("cp-0")).await.unwrap_err();
    assert!(again.to_string().contains("member not found"), "{again}");
}

#[tokio::test]
async fn strangers_and_dead_members_get_no_connection() {
    let cloud = Cloud::balanced().await;
    three(&cloud).await;
    let stranger = match connect(&cloud, "cp-0", &crate::documents::authority()).await {
        Ok(mut client) => client.member_list().await.map(|_| ()).map_err(|error| error.to_string()),
        Err(error) => Err(error),
    };
    assert!(stranger.is_err());
    cloud.hollow.etcd_member_lost(cloud.endpoint, "cp-1");
    assert!(connect(&cloud, "cp-1", &cloud.pki.etcd).await.is_err());
    let mut client = connect(&cloud, "cp-0", &cloud.pki.etcd).await.unwrap();
    let members = client.member_list().await.unwrap().members().to_vec();
    let lost = members.iter().find(|member| member.name() == "cp-1").unwrap().id();
    client.member_remove(lost).await.unwrap();
    assert_eq!(client.member_list().await.unwrap().members().len(), 2);
}
