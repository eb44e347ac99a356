//! A relay that delays what a browser and a server send to each other.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::mpsc::sync_channel,
    thread,
    time::{Duration, Instant},
};

/// Relays connections to `server`, and delays each byte in both directions. Ends with the program.
pub(super) fn relay(server: SocketAddr, delay: Duration) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let addr = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let connected = TcpStream::connect(server).and_then(|server| {
                client.set_nodelay(true)?;
                server.set_nodelay(true)?;
                forward(client.try_clone()?, server.try_clone()?, delay);
                forward(server, client, delay);
                Ok(())
            });
            if connected.is_err() {
                return;
            }
        }
    });
    Ok(addr)
}

fn forward(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (sender, receiver) = sync_channel::<(Instant, Vec<u8>)>(MAX_PIECES);
    thread::spawn(move || {
        let mut piece = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            let due = Instant::now() + delay;
            if sender.send((due, piece[..length].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, piece) in receiver {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// The maximum number of pieces on the way in each direction.
const MAX_PIECES: usize = 4_096;
