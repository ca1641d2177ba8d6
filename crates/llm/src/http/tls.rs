//! TLS, set up without touching the state of the process.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_platform_verifier::BuilderVerifierExt;

/// Trusts the certificates that the machine trusts. Loading them takes milliseconds and memory.
pub(super) fn trusting_the_machine() -> Result<ClientConfig, rustls::Error> {
    Ok(with_protocols(builder()?.with_platform_verifier()?.with_no_client_auth()))
}

/// Trusts nobody; for clients that never speak TLS.
pub(super) fn trusting_nobody() -> Result<ClientConfig, rustls::Error> {
    let roots = RootCertStore::empty();
    Ok(builder()?.with_root_certificates(roots).with_no_client_auth())
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, rustls::Error> {
    // Naming the provider leaves the process-wide default to whoever embeds this crate.
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
}

fn with_protocols(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}
