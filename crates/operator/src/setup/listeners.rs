//! Finds the programs that listen on TCP ports, from `/proc/net/tcp` and the descriptors of the processes.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::machine::Machine;
use super::processes::MachineProcess;

/// The owner of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOwner {
    /// The address.
    pub address: SocketAddr,
    /// The program's name; `None` if the current user has no access to the owner of the socket.
    pub program: Option<String>,
    /// The systemd unit of the program.
    pub unit: Option<String>,
}

impl PortOwner {
    /// Whether the program is a Galley.
    pub fn is_galley(&self) -> bool {
        self.program.as_deref() == Some("galley")
    }
}

/// A listening socket in the kernel's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listening {
    address: SocketAddr,
    inode: u64,
}

/// The owners of these ports: one entry for each address, sorted.
pub(super) fn owners(
    machine: &Machine,
    processes: &[MachineProcess],
    ports: &[u16],
) -> Vec<PortOwner> {
    let listening = listening(machine, ports);
    if listening.is_empty() {
        return Vec::new();
    }
    let holders = holders(machine, processes);
    let mut owners: Vec<PortOwner> = listening
        .iter()
        .map(|socket| {
            let holder = holders.get(&socket.inode);
            PortOwner {
                address: socket.address,
                program: holder.map(|process| process.name.clone()),
                unit: holder.and_then(|process| process.unit(machine)),
            }
        })
        .collect();
    owners.dedup();
    owners
}

fn listening(machine: &Machine, ports: &[u16]) -> Vec<Listening> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let mut listening: Vec<Listening> = tables
        .iter()
        .filter_map(|table| machine.head(Path::new(table)))
        .flat_map(|table| parse(&table))
        .filter(|socket| ports.contains(&socket.address.port()))
        .collect();
    listening.sort_by_key(|socket| socket.address);
    listening
}

/// The processes that have sockets open, by inode.
fn holders<'p>(
    machine: &Machine,
    processes: &'p [MachineProcess],
) -> HashMap<u64, &'p MachineProcess> {
    let mut holders: HashMap<u64, &MachineProcess> = HashMap::new();
    for process in processes {
        for inode in process.sockets(machine) {
            let holder = holders.entry(inode).or_insert(process);
            // A socket of systemd belongs to the service that got it, if that runs.
            if holder.id == 1 {
                *holder = process;
            }
        }
    }
    holders
}

/// The listening sockets in a table of the kernel.
fn parse(table: &str) -> Vec<Listening> {
    table.lines().skip(1).filter_map(row).collect()
}

/// Parses `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...` (`proc_net_tcp` in the kernel's
/// documentation).
fn row(line: &str) -> Option<Listening> {
    let mut fields = line.split_whitespace();
    let address = address(fields.nth(1)?)?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?.parse().ok()?;
    (state == LISTEN).then_some(Listening { address, inode })
}

/// Parses an address: words of 32 bits in the machine's byte order, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    if !address.is_ascii() || address.len() % 8 != 0 {
        return None;
    }
    let mut bytes = Vec::with_capacity(16);
    for start in (0..address.len()).step_by(8) {
        let word = u32::from_str_radix(address.get(start..start + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip: IpAddr = match bytes.len() {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into(),
        16 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// The state `TCP_LISTEN`.
const LISTEN: &str = "0A";

#[cfg(test)]
mod tests {
    use super::super::machine::sample::SampleMachine;
    use super::super::processes;
    use super::*;
    use proptest::prelude::*;

    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
        0: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n\
        1: 0100007F:0050 0100007F:1234 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100 0 0 10 0\n\
        2: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0 100 0 0 10 0\n";
    const TCP6: &str = "  sl  local_address\n\
        0: 00000000000000000000000000000000:01BB 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 4714 1\n";

    #[test]
    fn ports_belong_to_the_process_that_serves_them() {
        let sample = SampleMachine::new(&[
            ("proc/net/tcp", TCP),
            ("proc/net/tcp6", TCP6),
            ("proc/1/comm", "systemd\n"),
            ("proc/9/comm", "nginx\n"),
            ("proc/9/cgroup", "0::/system.slice/nginx.service\n"),
            ("proc/10/comm", "galley\n"),
        ]);
        sample.link("proc/1/fd/5", "socket:[4714]");
        sample.link("proc/9/fd/3", "socket:[4711]");
        sample.link("proc/10/fd/3", "socket:[4714]");
        let machine = sample.machine();
        let owners = owners(&machine, &processes::all(&machine), &[80, 443]);
        let found: Vec<_> = owners
            .iter()
            .map(|o| {
                (
                    o.address.to_string(),
                    o.program.as_deref(),
                    o.unit.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                (
                    "0.0.0.0:80".to_owned(),
                    Some("nginx"),
                    Some("nginx.service")
                ),
                ("[::]:443".to_owned(), Some("galley"), None),
            ]
        );
        assert!(owners[1].is_galley() && !owners[0].is_galley());
    }

    proptest! {
        #[test]
        fn any_table_is_parsed_without_panic(table in "(?s).{0,300}", word in "[0-9A-F:é]{0,40}") {
            let _ = parse(&table);
            let _ = address(&word);
        }

        #[test]
        fn addresses_survive_parsing(ip: [u8; 4], port: u16) {
            let text = format!("{:08X}:{port:04X}", u32::from_ne_bytes(ip));
            prop_assert_eq!(address(&text), Some(SocketAddr::new(Ipv4Addr::from(ip).into(), port)));
        }
    }
}
