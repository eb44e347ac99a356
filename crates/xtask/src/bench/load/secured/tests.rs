//! The client against a server of the same crates: what is right counts, what is wrong is named.

use std::thread;

use bytes::Bytes;
use galley_testkit::Scratch;
use http::Response;
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_rustls::{TlsAcceptor, server};

use super::*;
use crate::bench::{
    certificate::Certificate,
    load::{Ask, Order, Wanted},
};

const BODY: &[u8] = b"hello";

/// Answers everything with five bytes, until the test's process ends.
fn server(certificate: &Certificate) -> SocketAddr {
    let key = PrivateKeyDer::from_pem_file(&certificate.key).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.trusted.clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ticketer = aws_lc_rs::Ticketer::new().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                        http2(stream).await;
                    } else {
                        http1(stream).await;
                    }
                });
            }
        });
    });
    addr
}

async fn http1(mut stream: server::TlsStream<TcpStream>) {
    let mut head = Vec::new();
    while let Ok(1..) = stream.read_buf(&mut head).await {
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let closes = head.windows(5).any(|part| part == b"close");
        head.clear();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let sent = stream.write_all(answer).await;
        if sent.is_err() || closes {
            let _ = stream.shutdown().await;
            return;
        }
    }
}

async fn http2(stream: server::TlsStream<TcpStream>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        if let Ok(mut out) = respond.send_response(Response::new(()), false) {
            let _ = out.send_data(Bytes::from_static(BODY), true);
        }
    }
}

fn asked(spoken: Spoken, how: (Lasting, bool), wanted: Wanted) -> Seen {
    let scratch = Scratch::new().unwrap();
    let certificate = Certificate::make(scratch.path(), "a.test").unwrap();
    let (lasting, resumes) = how;
    let door = Door {
        addr: server(&certificate),
        host: "a.test".to_owned(),
        trusted: certificate.trusted,
        spoken,
        lasting,
        resumes,
        connections: 2,
        streams: 3,
    };
    let last = match lasting {
        Lasting::Kept => "keep-alive",
        Lasting::OneRequest => "close",
    };
    let head = format!("GET /x HTTP/1.1\r\nHost: a.test\r\nConnection: {last}\r\n\r\n");
    let asks = Asks::new(vec![Ask::new(head.into_bytes(), wanted)], Order::InTurn);
    let interrupt = Interrupt::default();
    let mut client = Secured::connect(door, &interrupt).unwrap();
    // The first run leaves tickets, and connections that go on.
    some(&mut client, &asks);
    some(&mut client, &asks)
}

/// A run that has had an answer: a busy machine may not find the time for one in the first.
fn some(client: &mut Secured<'_>, asks: &Asks) -> Seen {
    let mut runs = (0..100).map(|_| client.run(asks.clone(), TIME).unwrap());
    runs.find(|seen| seen.answers > 0).expect("an answer")
}

#[test]
fn right_answers_count_whatever_is_spoken() {
    let wanted = Wanted {
        status: 200,
        length: Some(5),
    };
    for (spoken, lasting, resumes) in [
        (Spoken::Http1, Lasting::Kept, false),
        (Spoken::H2, Lasting::Kept, false),
        (Spoken::Http1, Lasting::OneRequest, false),
        (Spoken::Http1, Lasting::OneRequest, true),
    ] {
        let seen = asked(spoken, (lasting, resumes), wanted);
        let context = format!("{spoken:?} {lasting:?} {resumes}: {:?}", seen.first_trouble);
        assert!(seen.answers > 0, "{context}");
        assert_eq!((seen.broken, seen.wrong_status), (0, 0), "{context}");
        assert!(seen.odd_lengths.is_empty(), "{context}");
        assert_eq!(seen.samples[0].body, BODY, "{context}");
    }
}

#[test]
fn wrong_answers_are_counted_and_named() {
    let wanted = Wanted {
        status: 404,
        length: None,
    };
    let seen = asked(Spoken::H2, (Lasting::Kept, false), wanted);
    assert!(seen.answers > 0 && seen.wrong_status == seen.answers);
    assert_eq!(seen.first_trouble.as_deref(), Some("status 200"));
}

/// Of one run.
const TIME: Duration = Duration::from_millis(100);
