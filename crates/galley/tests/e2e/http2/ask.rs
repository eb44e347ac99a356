//! Asking by HTTP/2: the client of the `h2` crate, from a test that waits.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use galley_testkit::client::{Body, Request, Response};
use h2::client::{self, SendRequest};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

use crate::support::{HOST, TIMEOUT};

/// A connection. What it asks names the tests' host unless the request does.
pub struct Client {
    runtime: Runtime,
    sender: SendRequest<Bytes>,
}

impl Client {
    pub fn open(addr: SocketAddr) -> Self {
        Self::within(addr, &client::Builder::new())
    }

    /// A client with room for a megabyte, on each stream and on the connection.
    pub fn wide(addr: SocketAddr) -> Self {
        let mut builder = client::Builder::new();
        builder
            .initial_window_size(1 << 20)
            .initial_connection_window_size(1 << 20);
        Self::within(addr, &builder)
    }

    fn within(addr: SocketAddr, builder: &client::Builder) -> Self {
        let connect = async move { TcpStream::connect(addr).await.unwrap() };
        Self::over(connect, builder)
    }

    /// Over TLS, with `h2` by ALPN.
    pub fn open_tls(addr: SocketAddr, trusted: &Arc<ClientConfig>) -> Self {
        let mut config = ClientConfig::clone(trusted);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let connect = async move {
            let stream = TcpStream::connect(addr).await.unwrap();
            let name = ServerName::try_from(HOST).unwrap();
            let connector = TlsConnector::from(Arc::new(config));
            let stream = connector.connect(name, stream).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            stream
        };
        Self::over(connect, &client::Builder::new())
    }

    fn over<S>(connect: impl Future<Output = S>, builder: &client::Builder) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let sender = runtime.block_on(async {
            let (sender, connection) = builder.handshake(connect.await).await.unwrap();
            tokio::spawn(connection);
            sender
        });
        Self { runtime, sender }
    }

    pub fn send(&self, request: &Request) -> Response {
        self.try_ask(request).unwrap()
    }

    pub fn get(&self, target: &str) -> Response {
        self.send(&Request::get(target))
    }

    /// The answer, or why the stream or the connection ended.
    pub fn try_ask(&self, request: &Request) -> Result<Response, h2::Error> {
        self.all(std::slice::from_ref(request)).remove(0)
    }

    /// The answers to requests that are sent at once.
    pub fn all(&self, requests: &[Request]) -> Vec<Result<Response, h2::Error>> {
        let work = async {
            let mut asked = Vec::new();
            for request in requests {
                asked.push(tokio::spawn(exchange(self.sender.clone(), request.clone())));
            }
            let mut answers = Vec::new();
            for one in asked {
                answers.push(one.await.unwrap());
            }
            answers
        };
        self.runtime
            .block_on(async { tokio::time::timeout(TIMEOUT, work).await })
            .expect("answers in time")
    }
}

async fn exchange(sender: SendRequest<Bytes>, request: Request) -> Result<Response, h2::Error> {
    let mut sender = sender.ready().await?;
    let (body, length) = match &request.body {
        Body::None => (Vec::new(), None),
        Body::Length(bytes) => (bytes.clone(), Some(bytes.len())),
        Body::Chunked(chunks) => (chunks.concat(), None),
    };
    let has_body = !matches!(request.body, Body::None);
    let (response, mut out) = sender.send_request(head(&request, length), !has_body)?;
    if has_body {
        // The server may answer, and decline the rest, before it has taken everything.
        let _ = send(&mut out, body.into()).await;
    }
    let (mut response, mut interim) = (response, Vec::new());
    while let Some(one) = poll_fn(|cx| response.poll_informational(cx)).await {
        interim.push(one?.status().as_u16());
    }
    let (parts, mut incoming) = response.await?.into_parts();
    let mut body = Vec::new();
    while let Some(data) = incoming.data().await {
        let data = data?;
        incoming.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    let fields = parts.headers.iter();
    Ok(Response {
        version: format!("{:?}", parts.version),
        status: parts.status.as_u16(),
        fields: fields
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect(),
        body,
        interim,
        raw: Vec::new(),
    })
}

fn head(request: &Request, length: Option<usize>) -> http::Request<()> {
    let named = |name: &str| {
        let mut fields = request.fields.iter();
        fields.find_map(|(other, value)| {
            let text = std::str::from_utf8(value).ok()?;
            other.eq_ignore_ascii_case(name).then_some(text)
        })
    };
    let host = named("host").unwrap_or(HOST);
    let mut head = http::Request::builder()
        .method(request.method.as_str())
        .uri(format!("http://{host}{}", request.target));
    for (name, value) in &request.fields {
        if !name.eq_ignore_ascii_case("host") {
            head = head.header(name, value.as_slice());
        }
    }
    if let Some(length) = length {
        head = head.header("content-length", length);
    }
    head.body(()).unwrap()
}

async fn send(out: &mut h2::SendStream<Bytes>, mut body: Bytes) -> Result<(), h2::Error> {
    while !body.is_empty() {
        out.reserve_capacity(body.len());
        let Some(room) = poll_fn(|cx| out.poll_capacity(cx)).await else {
            return Ok(());
        };
        let part = body.split_to(room?.min(body.len()));
        out.send_data(part, false)?;
    }
    out.send_data(Bytes::new(), true)
}
