//! People behind bad lines: uploads that trickle in, downloads that trickle out, while pages are asked for.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketType, sockopt};

use super::probe::{Probe, When};
use super::stage::{HOST, Stage};
use super::{Row, Setting};
use crate::Trouble;
use crate::trouble::During;
use crate::wait::{came_true, pause};

pub(super) fn run(setting: &Setting) -> Result<Row, Trouble> {
    let people = setting.form.pick(8, 50);
    let stage = Stage::start(setting, "1h")?;
    let mut probe = Probe::new(setting, &stage)?;
    let mut row = Row {
        title: format!("{people} slow uploads and {people} slow readers"),
        held: [stage.held(); 2],
        ..Row::default()
    };
    row.save.at_most = Some(2.0);
    probe.measure(&stage, When::Quiet, &mut row);
    (setting.progress)(&row.title);
    let (over, begun, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let (over, begun, refused, addr) = (&over, &begun, &refused, stage.addr());
        for number in 0..people {
            scope.spawn(move || upload(addr, over, begun));
            scope.spawn(move || {
                if !download(addr, number, over, begun).unwrap_or(false) {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Those whose download waits for a place have sent their request, which is as far as they get.
        came_true(PATIENCE, || begun.load(Ordering::Relaxed) >= 2 * people);
        probe.measure(&stage, When::Weather, &mut row);
        over.store(true, Ordering::Relaxed);
    });
    row.requests += 2 * people;
    let refused = refused.load(Ordering::Relaxed);
    row.refused += refused;
    row.notes.push(format!(
        "{refused} of the {people} slow readers got nothing of their download"
    ));
    stage.close(&mut row);
    Ok(row)
}

/// A form of 200 KB at a kilobyte every twentieth of a second.
fn upload(addr: SocketAddr, over: &AtomicBool, begun: &AtomicU64) {
    let attempt = || -> std::io::Result<()> {
        let mut stream = TcpStream::connect(addr)?;
        let head = format!(
            "POST /wp-comments-post.php HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {UPLOAD}\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        begun.fetch_add(1, Ordering::Relaxed);
        let mut sent = 0;
        while sent < UPLOAD && !over.load(Ordering::Relaxed) {
            stream.write_all(&[b'a'; PIECE])?;
            sent += PIECE;
            pause(BREATH);
        }
        Ok(())
    };
    // Who is turned away has gone home: what matters is what the others get.
    let _ = attempt();
}

/// A download of 16 MB at a kilobyte every twentieth of a second. Returns whether any of it came.
fn download(
    addr: SocketAddr,
    number: u64,
    over: &AtomicBool,
    begun: &AtomicU64,
) -> Result<bool, Trouble> {
    let mut stream = connect_narrowly(addr).during("connect")?;
    stream
        .set_read_timeout(Some(BREATH))
        .during("set a timeout")?;
    let head = format!("GET /?weather_large={number} HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    stream.write_all(head.as_bytes()).during("ask")?;
    begun.fetch_add(1, Ordering::Relaxed);
    let mut piece = [0; PIECE];
    let mut start = Vec::new();
    while !over.load(Ordering::Relaxed) {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) if start.len() < STATUS.len() => {
                start.extend_from_slice(piece.get(..count).unwrap_or_default());
            }
            Ok(_) => {}
            Err(error) if is_silence(&error) => continue,
            Err(_) => break,
        }
        pause(BREATH);
    }
    Ok(start.starts_with(STATUS))
}

/// A connection whose own end takes in little, so that what is sent waits at the server.
fn connect_narrowly(addr: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_recv_buffer_size(&socket, 4 * PIECE)?;
    net::connect(&socket, &addr)?;
    Ok(TcpStream::from(socket))
}

fn is_silence(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

const STATUS: &[u8] = b"HTTP/1.1 200";
const UPLOAD: usize = 200 * PIECE;
const PIECE: usize = 1024;

/// Twenty kilobytes a second each: a phone at the edge of its cell.
const BREATH: Duration = Duration::from_millis(50);

const PATIENCE: Duration = Duration::from_secs(30);
