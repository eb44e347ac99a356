//! One HTTP/1.1 request over a connection that serves no other.
//!
//! A limit on the time is the caller's: dropping the future closes the connection.

use std::error::Error;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap};
use http::{Request, response};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// A response.
pub struct OneShotResponse {
    /// Status and header fields.
    pub head: response::Parts,
    /// The body, or its beginning.
    pub body: Bytes,
    /// Why the rest of the body is missing.
    pub incomplete: Option<OneShotError>,
}

/// Why there is no response, or not all of it.
pub type OneShotError = Box<dyn Error + Send + Sync>;

impl OneShotResponse {
    /// Head and body, if the body is complete.
    pub fn complete(self) -> Result<(response::Parts, Bytes), OneShotError> {
        match self.incomplete {
            Some(error) => Err(error),
            None => Ok((self.head, self.body)),
        }
    }
}

/// Sends a request, which must have a `Host` field, and receives at most `max_body` bytes of the body. Cancel-safe.
pub async fn exchange<S, B>(
    stream: S,
    request: Request<B>,
    max_body: usize,
) -> Result<OneShotResponse, OneShotError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<OneShotError>,
{
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    let exchange = async move {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let (body, incomplete) = receive(body, max_body).await;
        Ok(OneShotResponse {
            head,
            body,
            incomplete,
        })
    };
    tokio::pin!(exchange, connection);
    tokio::select! {
        biased;
        response = &mut exchange => response,
        // The connection may have ended right after the last part of the response.
        ended = &mut connection => exchange.await.map_err(|error: OneShotError| ended.err().map_or(error, Into::into)),
    }
}

async fn receive(mut body: Incoming, max_body: usize) -> (Bytes, Option<OneShotError>) {
    let mut received = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let data = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(error) => return (received.freeze(), Some(error.into())),
        };
        let rest = max_body.saturating_sub(received.len());
        if data.len() > rest {
            received.extend_from_slice(data.get(..rest).unwrap_or_default());
            let why = format!("the body is longer than {max_body} bytes");
            return (received.freeze(), Some(why.into()));
        }
        received.extend_from_slice(&data);
    }
    (received.freeze(), None)
}

/// The value of `Retry-After`, which is a number of seconds or a date (RFC 9110 section 10.2.3).
pub fn retry_after(fields: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = fields.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let pause = if let Ok(seconds) = text.parse() {
        Duration::from_secs(seconds)
    } else {
        let at = httpdate::parse_http_date(text).ok()?;
        at.duration_since(now).unwrap_or_default()
    };
    // A clock can be added to it without overflow.
    Some(pause.min(MAX_PAUSE))
}

/// A year: nobody waits longer.
const MAX_PAUSE: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use http::header::{HeaderValue, RETRY_AFTER};
    use http_body_util::Empty;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn ask(response: &'static str, max_body: usize) -> Result<OneShotResponse, OneShotError> {
        let (client, mut server) = tokio::io::duplex(1024);
        let serving = async move {
            let mut head = [0; 1024];
            let _ = server.read(&mut head).await.unwrap();
            server.write_all(response.as_bytes()).await.unwrap();
        };
        let request = Request::get("/").header(header::HOST, "example.test");
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        tokio::join!(exchange(client, request, max_body), serving).0
    }

    #[tokio::test]
    async fn a_body_is_received_up_to_its_end_or_the_limit() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let (head, body) = ask(whole, 5).await.unwrap().complete().unwrap();
        assert_eq!((head.status.as_u16(), body.as_ref()), (200, &b"hello"[..]));
        let until_close = ask("HTTP/1.0 200 OK\r\n\r\nhello", 5).await.unwrap();
        assert_eq!(until_close.complete().unwrap().1, "hello");
        let cut = ask(whole, 4).await.unwrap();
        assert_eq!(cut.body, "hell");
        assert!(cut.incomplete.unwrap().to_string().contains("4 bytes"));
        let ended = ask("HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nhello", 9).await;
        let ended = ended.unwrap();
        assert_eq!(
            (ended.head.status.as_u16(), ended.body.as_ref()),
            (503, &b"hello"[..])
        );
        assert!(ended.complete().is_err());
        assert!(ask("SSH-2.0-x\r\n", 9).await.is_err());
    }

    #[test]
    fn retry_after_is_parsed_in_both_forms() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 10);
        let read = |text: &'static str| {
            let mut fields = HeaderMap::new();
            fields.insert(RETRY_AFTER, HeaderValue::from_static(text));
            retry_after(&fields, now).map(|time| time.as_secs())
        };
        assert_eq!(read("120"), Some(120));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:37 GMT"), Some(10));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:00 GMT"), Some(0));
        assert_eq!(read("soon"), None);
        assert_eq!(read("-1"), None);
        assert_eq!(read("18446744073709551615"), Some(MAX_PAUSE.as_secs()));
    }
}
