//! Sends a request to one of the servers, each time on a new connection.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::Empty;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};

use super::seen::SeenResponse;
use super::visit::{HERE, TryVisit};
use galley_tls::{UpstreamTlsClient, one_shot};

/// Sends a request to the server at `address`; `None`: no such listener. Cancel-safe.
pub(super) async fn send(visit: &TryVisit, address: Option<SocketAddr>) -> SeenResponse {
    let Some(address) = address else {
        return SeenResponse::none(format!("nothing listens for {}", visit.scheme()));
    };
    let exchange = async {
        let stream = connect(visit.from, address)
            .await
            .map_err(|error| error.to_string())?;
        if !visit.is_tls {
            return exchange(stream, visit).await;
        }
        // The certificate was created for the test, and the connection is local.
        let client = UpstreamTlsClient::new(&visit.host, None, false).map_err(|e| e.to_string())?;
        let stream = client
            .connect(stream)
            .await
            .map_err(|error| format!("TLS: {error}"))?;
        exchange(stream, visit).await
    };
    match tokio::time::timeout(TIMEOUT, exchange).await {
        Ok(Ok(seen)) => seen,
        Ok(Err(why)) => SeenResponse::none(why),
        Err(_) => SeenResponse::none(format!("no response within {TIMEOUT:?}")),
    }
}

/// Connects from the visitor's address if it is one of this machine.
async fn connect(from: IpAddr, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    let own = if from.is_loopback() && from.is_ipv4() {
        from
    } else {
        HERE
    };
    socket.bind(SocketAddr::new(own, 0))?;
    socket.connect(address).await
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    visit: &TryVisit,
) -> Result<SeenResponse, String> {
    let mut request = Request::builder()
        .method(visit.method.name())
        .uri(&visit.target)
        .header(header::HOST, &visit.host);
    for field in &visit.fields {
        request = request.header(field.name, &field.value);
    }
    if !visit.from.is_loopback() {
        request = request.header("x-forwarded-for", visit.from.to_string());
    }
    let request = request
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let response = one_shot::exchange(stream, request, MAX_BODY).await;
    let response = response.map_err(|error| error.to_string())?;
    let head = response.head;
    let mut trouble = response.incomplete.map(|error| error.to_string());
    let bytes = if trouble.is_some() {
        Bytes::new()
    } else {
        response.body
    };
    let coding = head.headers.get(header::CONTENT_ENCODING);
    let coding = coding
        .and_then(|value| value.to_str().ok())
        .unwrap_or("identity");
    let body = decoded(&bytes, coding).unwrap_or_else(|error| {
        trouble = Some(format!("the body is not {coding}: {error}"));
        Bytes::new()
    });
    Ok(SeenResponse {
        status: Some(head.status.as_u16()),
        fields: head.headers,
        body,
        trouble,
    })
}

/// Decodes a body.
fn decoded(bytes: &Bytes, coding: &str) -> io::Result<Bytes> {
    if bytes.is_empty() {
        return Ok(Bytes::new());
    }
    let source = bytes.as_ref();
    let mut out = Vec::new();
    match coding {
        "gzip" | "x-gzip" => flate2::read::MultiGzDecoder::new(source)
            .take(LIMIT)
            .read_to_end(&mut out)?,
        "deflate" => flate2::read::ZlibDecoder::new(source)
            .take(LIMIT)
            .read_to_end(&mut out)?,
        "br" => brotli::Decompressor::new(source, 4096)
            .take(LIMIT)
            .read_to_end(&mut out)?,
        "zstd" => zstd::stream::read::Decoder::new(source)?
            .take(LIMIT)
            .read_to_end(&mut out)?,
        _ => return Ok(bytes.clone()),
    };
    Ok(out.into())
}

/// The time limit for a response. A page of a cold WordPress may need seconds.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a body in bytes. Pages are smaller, and comparing the beginning of larger files would add nothing.
const MAX_BODY: usize = 32 << 20;
const LIMIT: u64 = MAX_BODY as u64;

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn bodies_are_compared_without_their_coding() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"hello").unwrap();
        let packed = Bytes::from(encoder.finish().unwrap());
        assert_eq!(decoded(&packed, "gzip").unwrap(), "hello");
        assert_eq!(decoded(&packed, "identity").unwrap(), packed);
        assert!(decoded(&Bytes::from_static(b"hello"), "gzip").is_err());
        assert!(decoded(&Bytes::from_static(b"hello"), "br").is_err());
    }
}
