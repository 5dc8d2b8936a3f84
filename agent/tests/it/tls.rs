use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::transport::{Identity, ServerTlsConfig};

use crate::fake::{Fake, revised};
use crate::host::Host;

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn identity(authority: &CertifiedIssuer<'static, KeyPair>) -> ServerTlsConfig {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let identity = Identity::from_pem(certificate.pem(), key.serialize_pem());
    ServerTlsConfig::new().identity(identity)
}

/// Field report F03.
#[tokio::test]
async fn the_authorities_are_read_again_at_every_connection() {
    let (right, wrong) = (authority(), authority());
    let mut fake = Fake::start_tls(identity(&right)).await;
    let host = Host::new();
    let ca = host.file("ca.pem");
    std::fs::write(&ca, wrong.pem()).unwrap();
    let url = format!("https://localhost:{}", fake.address.port());
    let agent = host.run_with(&url, Some(&ca));
    std::fs::write(&ca, right.pem()).unwrap();
    let (mut peer, _) = fake.welcome(revised(0, 5_000, 3, 1_000)).await;
    peer.ping().await;
    agent.stop().await;
}
