//! What is asked: the floor on a port of its own, which may stand still for a while.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    thread::{self, JoinHandle},
    time::Duration,
};

use galley_testkit::Scratch;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    bench::{Cores, Program, floor::Answers, on_core},
    demo::CommandError,
};

/// How a target behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Behaviour {
    pub(super) title: &'static str,
    /// Each answer is sent so long after its request.
    delay_ms: u64,
    stalls: bool,
}

pub(super) const BEHAVIOURS: [Behaviour; 3] = [
    Behaviour {
        title: "answers at once",
        delay_ms: 0,
        stalls: false,
    },
    Behaviour {
        title: "answers after 20 ms",
        delay_ms: 20,
        stalls: false,
    },
    Behaviour {
        title: "answers after 20 ms, stands still for a second",
        delay_ms: 20,
        stalls: true,
    },
];

/// A running target.
pub(super) struct LoadTarget {
    pub(super) addr: SocketAddr,
    behaviour: Behaviour,
    program: Program,
    _dir: Scratch,
}

impl LoadTarget {
    pub(super) fn start(behaviour: Behaviour, cores: Cores) -> Result<Self, CommandError> {
        let dir = Scratch::new()?;
        let answers = dir.join("answers");
        Answers::write(&answers, [("/", ANSWER)])?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let line = [
            std::env::current_exe()?.display().to_string(),
            "floor".to_owned(),
            format!("--port={port}"),
            format!("--answers={}", answers.display()),
            format!("--delay-ms={}", behaviour.delay_ms),
        ];
        let mut program = on_core(cores.server, || Program::start(&line, dir.path()))??;
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        program.wait_until_listening(addr)?;
        Ok(Self {
            addr,
            behaviour,
            program,
            _dir: dir,
        })
    }

    /// Has a target that stalls stand still for a second, a second from now. The thread ends when it goes on.
    pub(super) fn stall(&self) -> Result<Option<JoinHandle<()>>, CommandError> {
        if !self.behaviour.stalls {
            return Ok(None);
        }
        let held = self.program.pid();
        let children = std::fs::read_to_string(format!("/proc/{held}/task/{held}/children"))?;
        let floor = children
            .split_whitespace()
            .next()
            .and_then(|pid| pid.parse().ok());
        let floor = floor.and_then(Pid::from_raw).ok_or("the floor has ended")?;
        Ok(Some(thread::spawn(move || {
            thread::sleep(STALL);
            // It ends with its holder, whatever becomes of these signals.
            let _ = kill_process(floor, Signal::STOP);
            thread::sleep(STALL);
            let _ = kill_process(floor, Signal::CONT);
        })))
    }
}

const STALL: Duration = Duration::from_secs(1);
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";
