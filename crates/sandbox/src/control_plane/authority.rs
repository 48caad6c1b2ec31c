//! The certificates by which the API server, etcd and the kubelet know each other.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

/// An authority, and the one pair of certificate and key that it has signed, in PEM. The authority's key is discarded.
pub(super) struct Certificates {
    pub(super) authority: String,
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Makes the certificates of an instance. The pair is good for servers on loopback and for clients: whoever has it is
/// the control plane.
pub(super) fn make() -> Result<Certificates, rcgen::Error> {
    let mut authority = params(vec![], "sandbox authority")?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let authority_key = KeyPair::generate()?;
    let signed = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);
    let mut pair = params(vec!["127.0.0.1".to_owned()], "sandbox control plane")?;
    pair.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    let certificate = pair.signed_by(&key, &issuer)?.pem();
    Ok(Certificates { authority: signed, certificate, key: key.serialize_pem() })
}

/// Returns parameters with rcgen's validity, from 1975 to 4096.
fn params(names: Vec<String>, common_name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}
