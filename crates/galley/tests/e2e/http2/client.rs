//! A blocking HTTP/2 client, which uses the `h2` crate.

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

/// A connection. Requests have the host of the test site unless they name another one.
pub struct Client {
    runtime: Runtime,
    sender: SendRequest<Bytes>,
}

impl Client {
    pub fn open(addr: SocketAddr) -> Self {
        Self::connect_with(addr, &client::Builder::new())
    }

    /// A client with flow-control windows of 1 MiB, for each stream and for the connection.
    pub fn with_large_windows(addr: SocketAddr) -> Self {
        let mut builder = client::Builder::new();
        builder
            .initial_window_size(1 << 20)
            .initial_connection_window_size(1 << 20);
        Self::connect_with(addr, &builder)
    }

    fn connect_with(addr: SocketAddr, builder: &client::Builder) -> Self {
        let connect = async move { TcpStream::connect(addr).await.unwrap() };
        Self::handshake(connect, builder)
    }

    /// A client over TLS that negotiates `h2` by ALPN.
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
        Self::handshake(connect, &client::Builder::new())
    }

    fn handshake<S>(connect: impl Future<Output = S>, builder: &client::Builder) -> Self
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
        self.try_send(request).unwrap()
    }

    pub fn get(&self, target: &str) -> Response {
        self.send(&Request::get(target))
    }

    /// Returns the response, or the error that ended the stream or the connection.
    pub fn try_send(&self, request: &Request) -> Result<Response, h2::Error> {
        self.send_concurrently(std::slice::from_ref(request))
            .remove(0)
    }

    /// Sends all requests at once and returns their responses in order.
    pub fn send_concurrently(&self, requests: &[Request]) -> Vec<Result<Response, h2::Error>> {
        let work = async {
            let mut tasks = Vec::new();
            for request in requests {
                tasks.push(tokio::spawn(exchange(self.sender.clone(), request.clone())));
            }
            let mut responses = Vec::new();
            for task in tasks {
                responses.push(task.await.unwrap());
            }
            responses
        };
        self.runtime
            .block_on(async { tokio::time::timeout(TIMEOUT, work).await })
            .expect("all responses before the timeout")
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
        // The server may respond and reject the rest of the body before it has read it.
        let _ = send(&mut out, body.into()).await;
    }
    let (mut response, mut interim) = (response, Vec::new());
    while let Some(interim_head) = poll_fn(|cx| response.poll_informational(cx)).await {
        interim.push(interim_head?.status().as_u16());
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
    let field = |name: &str| {
        let mut fields = request.fields.iter();
        fields.find_map(|(other, value)| {
            let text = std::str::from_utf8(value).ok()?;
            other.eq_ignore_ascii_case(name).then_some(text)
        })
    };
    let host = field("host").unwrap_or(HOST);
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
        let Some(capacity) = poll_fn(|cx| out.poll_capacity(cx)).await else {
            return Ok(());
        };
        let part = body.split_to(capacity?.min(body.len()));
        out.send_data(part, false)?;
    }
    out.send_data(Bytes::new(), true)
}
