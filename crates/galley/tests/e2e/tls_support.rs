//! Fixtures of the TLS tests: a certificate authority, a client that sends arbitrary bytes, curl, and `openssl s_client`.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use galley_testkit::Scratch;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::{SiteBuilder, TIMEOUT, TestSite};

/// The certificate authority of a test.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// Algorithm of a certificate's key.
#[derive(Clone, Copy)]
pub enum KeyType {
    Ecdsa,
    Rsa,
}

/// Validity period of a certificate.
#[derive(Clone, Copy)]
pub enum Validity {
    Valid,
    Expired,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        // Clients confuse two authorities with the same name.
        let name = format!(
            "authority {}",
            AUTHORITY_COUNT.fetch_add(1, Ordering::Relaxed)
        );
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes `NAME.pem`, `NAME.key` and the authority's `ca.pem` into `dir` and returns the certificate.
    pub fn issue(&self, dir: &Path, name: &str, hosts: &[&str]) -> CertificateDer<'static> {
        self.issue_as(dir, name, hosts, (KeyType::Ecdsa, Validity::Valid))
    }

    pub fn issue_as(
        &self,
        dir: &Path,
        name: &str,
        hosts: &[&str],
        (key_type, validity): (KeyType, Validity),
    ) -> CertificateDer<'static> {
        let key = KeyPair::generate_for(match key_type {
            KeyType::Ecdsa => &PKCS_ECDSA_P256_SHA256,
            KeyType::Rsa => &PKCS_RSA_SHA256,
        });
        let key = key.unwrap();
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = match validity {
            Validity::Valid => date_time_ymd(2090, 1, 1),
            Validity::Expired => date_time_ymd(2021, 1, 1),
        };
        let cert = params.signed_by(&key, &self.0).unwrap();
        let key_file = dir.join(format!("{name}.key"));
        // Like a renewal tool: replaces the files atomically, the certificate first.
        let replace_file = |path: &Path, text: String, mode: u32| {
            let new = path.with_extension("new");
            fs::write(&new, text).unwrap();
            fs::set_permissions(&new, fs::Permissions::from_mode(mode)).unwrap();
            fs::rename(&new, path).unwrap();
        };
        replace_file(
            &dir.join(format!("{name}.pem")),
            cert.pem() + &self.0.pem(),
            0o644,
        );
        replace_file(&key_file, key.serialize_pem(), 0o600);
        replace_file(&dir.join("ca.pem"), self.0.pem(), 0o644);
        cert.der().clone()
    }

    /// A client configuration that trusts only this authority.
    pub fn client(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        Arc::new(config.with_root_certificates(roots).with_no_client_auth())
    }
}

/// Adds a TLS listener after the plain one, and the certificate `site.pem` for `example.test`.
pub fn over_tls(builder: SiteBuilder, authority: &Authority) -> SiteBuilder {
    authority.issue(
        builder.scratch.path(),
        "site",
        &["example.test", "www.example.test"],
    );
    builder.server("listen_tls = [\"127.0.0.1:0\"]").site(
        "https_redirect = false\ntls = { cert = \"{dir}/site.pem\", key = \"{dir}/site.key\" }",
    )
}

/// Address of the TLS listener.
pub fn tls_addr(site: &TestSite) -> SocketAddr {
    let urls = site.galley.urls();
    let url = urls.iter().find_map(|url| url.strip_prefix("https://"));
    url.expect("a TLS listener").parse().unwrap()
}

/// A connection over TLS.
pub struct Tls(pub StreamOwned<ClientConnection, TcpStream>);

impl Tls {
    /// Connects and completes the handshake, or returns its error.
    pub fn connect(
        config: &Arc<ClientConfig>,
        name: &str,
        addr: SocketAddr,
    ) -> Result<Self, std::io::Error> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut session = ClientConnection::new(Arc::clone(config), name).unwrap();
        let mut socket = TcpStream::connect(addr)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(Self(StreamOwned::new(session, socket)))
    }

    /// The certificate that the server sent.
    pub fn certificate(&self) -> CertificateDer<'static> {
        let certificates = self.0.conn.peer_certificates().unwrap();
        certificates.first().unwrap().clone().into_owned()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        // The server may reject the request and close before it has read all bytes.
        let _ = self.0.write_all(bytes).and_then(|()| self.0.flush());
    }

    /// Everything that the server sends until it closes, with or without `close_notify`.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut received = Vec::new();
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.0.read(&mut buffer) {
                Ok(0) => return received,
                Ok(count) => received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    panic!("the server neither sends nor closes")
                }
                Err(_) => return received,
            }
        }
    }

    /// Sends bytes and returns everything that the server sends until it closes.
    pub fn send_raw(&mut self, bytes: &[u8]) -> String {
        self.send(bytes);
        String::from_utf8_lossy(&self.rest()).into_owned()
    }
}

/// Output of curl, which trusts the authority of the test.
pub fn curl(site: &TestSite, host: &str, arguments: &[&str]) -> String {
    let addr = tls_addr(site);
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "15", "--cacert"])
        .arg(site.scratch.join("ca.pem"))
        .args(["--resolve", &format!("{host}:{}:127.0.0.1", addr.port())])
        .args(arguments)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Output of `openssl s_client` with this input.
pub fn s_client(scratch: &Scratch, addr: SocketAddr, arguments: &[&str], input: &str) -> String {
    let mut client = Command::new("openssl")
        .args([
            "s_client",
            "-ign_eof",
            "-connect",
            &addr.to_string(),
            "-CAfile",
        ])
        .arg(scratch.join("ca.pem"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may have ended after a failed handshake.
    let _ = client.stdin.take().unwrap().write_all(input.as_bytes());
    let output = client.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

static AUTHORITY_COUNT: AtomicUsize = AtomicUsize::new(0);
