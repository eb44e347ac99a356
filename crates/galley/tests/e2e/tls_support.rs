//! What the tests of TLS share: an authority with its certificates, a client whose bytes are the test's own, and OpenSSL's.

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

/// Who signs the certificates of a test.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// The kind of a certificate's key.
#[derive(Clone, Copy)]
pub enum Key {
    Ecdsa,
    Rsa,
}

/// Until when a certificate counts.
#[derive(Clone, Copy)]
pub enum Ends {
    Far,
    Past,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        // Two of one name would be taken for one another.
        let name = format!("authority {}", MADE.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes `NAME.pem` and `NAME.key` into `dir`, and `ca.pem` of the authority. Gives the certificate.
    pub fn issue(&self, dir: &Path, name: &str, hosts: &[&str]) -> CertificateDer<'static> {
        self.issue_as(dir, name, hosts, (Key::Ecdsa, Ends::Far))
    }

    pub fn issue_as(
        &self,
        dir: &Path,
        name: &str,
        hosts: &[&str],
        (kind, ends): (Key, Ends),
    ) -> CertificateDer<'static> {
        let key = KeyPair::generate_for(match kind {
            Key::Ecdsa => &PKCS_ECDSA_P256_SHA256,
            Key::Rsa => &PKCS_RSA_SHA256,
        });
        let key = key.unwrap();
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = match ends {
            Ends::Far => date_time_ymd(2090, 1, 1),
            Ends::Past => date_time_ymd(2021, 1, 1),
        };
        let cert = params.signed_by(&key, &self.0).unwrap();
        let key_file = dir.join(format!("{name}.key"));
        // As a tool that renews does it: new files take the place of the old ones, the certificate first.
        let put = |path: &Path, text: String, mode: u32| {
            let new = path.with_extension("new");
            fs::write(&new, text).unwrap();
            fs::set_permissions(&new, fs::Permissions::from_mode(mode)).unwrap();
            fs::rename(&new, path).unwrap();
        };
        put(
            &dir.join(format!("{name}.pem")),
            cert.pem() + &self.0.pem(),
            0o644,
        );
        put(&key_file, key.serialize_pem(), 0o600);
        put(&dir.join("ca.pem"), self.0.pem(), 0o644);
        cert.der().clone()
    }

    /// A client that trusts nobody else.
    pub fn client(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        Arc::new(config.with_root_certificates(roots).with_no_client_auth())
    }
}

/// A plan whose site `example.test` answers in plain first, and over TLS second; its certificate is `site.pem`.
pub fn over_tls(plan: SiteBuilder, authority: &Authority) -> SiteBuilder {
    authority.issue(
        plan.scratch.path(),
        "site",
        &["example.test", "www.example.test"],
    );
    plan.server("listen_tls = [\"127.0.0.1:0\"]").site(
        "https_redirect = false\ntls = { cert = \"{dir}/site.pem\", key = \"{dir}/site.key\" }",
    )
}

/// Where a stage speaks TLS.
pub fn tls_addr(site: &TestSite) -> SocketAddr {
    let urls = site.galley.urls();
    let url = urls.iter().find_map(|url| url.strip_prefix("https://"));
    url.expect("a listener for TLS").parse().unwrap()
}

/// A connection over TLS.
pub struct Tls(pub StreamOwned<ClientConnection, TcpStream>);

impl Tls {
    /// With a handshake; `Err`: what was wrong with it.
    pub fn connect(
        config: &Arc<ClientConfig>,
        name: &str,
        at: SocketAddr,
    ) -> Result<Self, std::io::Error> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut session = ClientConnection::new(Arc::clone(config), name).unwrap();
        let mut socket = TcpStream::connect(at)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(Self(StreamOwned::new(session, socket)))
    }

    /// The certificate that was shown.
    pub fn certificate(&self) -> CertificateDer<'static> {
        let shown = self.0.conn.peer_certificates().unwrap();
        shown.first().unwrap().clone().into_owned()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        // The server may refuse, and close, before it has taken everything.
        let _ = self.0.write_all(bytes).and_then(|()| self.0.flush());
    }

    /// All that comes until the server closes, with its farewell or without.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut piece = [0; 16 * 1024];
        loop {
            match self.0.read(&mut piece) {
                Ok(0) => return all,
                Ok(count) => all.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    panic!("the server says no more, and stays")
                }
                Err(_) => return all,
            }
        }
    }

    /// Sends bytes, and gives all that comes back.
    pub fn send_raw(&mut self, bytes: &[u8]) -> String {
        self.send(bytes);
        String::from_utf8_lossy(&self.rest()).into_owned()
    }
}

/// What curl says, which must trust the authority of the test.
pub fn curl(site: &TestSite, host: &str, arguments: &[&str]) -> String {
    let at = tls_addr(site);
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "15", "--cacert"])
        .arg(site.scratch.join("ca.pem"))
        .args(["--resolve", &format!("{host}:{}:127.0.0.1", at.port())])
        .args(arguments)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// What `openssl s_client` says, with what it was given on its input.
pub fn s_client(scratch: &Scratch, at: SocketAddr, arguments: &[&str], input: &str) -> String {
    let mut client = Command::new("openssl")
        .args([
            "s_client",
            "-ign_eof",
            "-connect",
            &at.to_string(),
            "-CAfile",
        ])
        .arg(scratch.join("ca.pem"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may have ended already, after a refusal.
    let _ = client.stdin.take().unwrap().write_all(input.as_bytes());
    let output = client.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

static MADE: AtomicUsize = AtomicUsize::new(0);
