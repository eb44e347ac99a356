//! The target of the load generators: a floor on a free port, which can be stopped for a second.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    thread::{self, JoinHandle},
    time::Duration,
};

use galley_testkit::Scratch;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    bench::{Cores, floor::PreparedResponses, on_core},
    error::CommandError,
    program::Program,
};

/// How a target responds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TargetBehavior {
    pub(super) title: &'static str,
    /// Delay of each response.
    delay_ms: u64,
    stalls: bool,
}

pub(super) const BEHAVIORS: [TargetBehavior; 3] = [
    TargetBehavior {
        title: "responds immediately",
        delay_ms: 0,
        stalls: false,
    },
    TargetBehavior {
        title: "responds after 20 ms",
        delay_ms: 20,
        stalls: false,
    },
    TargetBehavior {
        title: "responds after 20 ms, stops for a second",
        delay_ms: 20,
        stalls: true,
    },
];

/// A running target.
pub(super) struct LoadTarget {
    pub(super) addr: SocketAddr,
    behavior: TargetBehavior,
    program: Program,
    _dir: Scratch,
}

impl LoadTarget {
    pub(super) fn start(behavior: TargetBehavior, cores: Cores) -> Result<Self, CommandError> {
        let dir = Scratch::new()?;
        let responses = dir.join("responses");
        PreparedResponses::write(&responses, [("/", RESPONSE)])?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let line = [
            std::env::current_exe()?.display().to_string(),
            "floor".to_owned(),
            format!("--port={port}"),
            format!("--responses={}", responses.display()),
            format!("--delay-ms={}", behavior.delay_ms),
        ];
        let mut program = on_core(cores.server, || Program::start(&line, dir.path()))??;
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        program.wait_until_listening(addr)?;
        Ok(Self {
            addr,
            behavior,
            program,
            _dir: dir,
        })
    }

    /// Stops a target that stalls for a second, one second from now. The thread exits when the target continues.
    pub(super) fn stall(&self) -> Result<Option<JoinHandle<()>>, CommandError> {
        if !self.behavior.stalls {
            return Ok(None);
        }
        let hold = self.program.pid();
        let children = std::fs::read_to_string(format!("/proc/{hold}/task/{hold}/children"))?;
        let floor = children
            .split_whitespace()
            .next()
            .and_then(|pid| pid.parse().ok());
        let floor = floor
            .and_then(Pid::from_raw)
            .ok_or("the floor has exited")?;
        Ok(Some(thread::spawn(move || {
            thread::sleep(STALL);
            // If these signals fail, `xtask hold` still kills the floor.
            let _ = kill_process(floor, Signal::STOP);
            thread::sleep(STALL);
            let _ = kill_process(floor, Signal::CONT);
        })))
    }
}

const STALL: Duration = Duration::from_secs(1);
const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";
