//! Checks what HTTP/3 needs outside of Galley: the kernel's buffers of UDP sockets, and the DNS record by which browsers learn of it.

use galley_config::{Config, Listen, SiteConfig};
use galley_policy::route::HostPattern;

use super::{DoctorFinding, ProcFs, Severity};

/// The findings about HTTP/3; none without addresses for it. No DNS server is asked.
pub fn quic_findings(machine: &ProcFs, config: &Config) -> Vec<DoctorFinding> {
    let listeners = config.all_quic_listeners();
    if listeners.is_empty() {
        return Vec::new();
    }
    let sites = config.sites.iter();
    let records = sites.filter_map(|site| record(site, &config.quic_listeners(site)));
    let general = [addresses(&listeners), buffers(machine)];
    general.into_iter().chain(records).collect()
}

/// Where HTTP/3 is served, and what must let it pass.
fn addresses(listeners: &[Listen]) -> DoctorFinding {
    let listeners: Vec<String> = listeners.iter().map(ToString::to_string).collect();
    let seen = format!(
        "HTTP/3 on {}: firewalls must let UDP pass to the same ports as TCP",
        listeners.join(", ")
    );
    DoctorFinding::fine("http3", seen)
}

/// Checks the kernel's limits of buffers of UDP sockets.
fn buffers(machine: &ProcFs) -> DoctorFinding {
    const CHECK: &str = "udp";
    let read = |name: &str| machine.number(&format!("proc/sys/net/core/{name}"));
    let (Some(receive), Some(send)) = (read("rmem_max"), read("wmem_max")) else {
        return DoctorFinding::unknown(CHECK, "the kernel does not report it");
    };
    let seen = format!("buffers of UDP sockets of at most {receive} and {send} bytes");
    let needed = galley_sys::sockets::UDP_BUFFER as u64;
    if receive >= needed && send >= needed {
        return DoctorFinding::fine(CHECK, seen);
    }
    DoctorFinding::bad(
        Severity::Notice,
        CHECK,
        seen,
        "HTTP/3 loses datagrams that arrive while a small buffer is full, and downloads are slower",
        format!(
            "sysctl -w net.core.rmem_max={needed} net.core.wmem_max={needed}   # and a line in /etc/sysctl.d/"
        ),
    )
}

/// The DNS records (RFC 9460) with which a browser uses HTTP/3 on its first visit of a site. `None`: the site names no host, or HTTP/3 has
/// another port than HTTPS.
fn record(site: &SiteConfig, listeners: &[Listen]) -> Option<DoctorFinding> {
    // The unit of the packages has that port.
    let has_port = |listen: &Listen| match listen {
        Listen::Tcp(address) => address.port() == HTTPS,
        Listen::Passed(_) => true,
        Listen::Unix(_) => false,
    };
    if !listeners.iter().any(has_port) {
        return None;
    }
    let hosts = site.hosts.iter().filter_map(HostPattern::exact);
    let records: Vec<String> = hosts
        .map(|host| format!("{host}. HTTPS 1 . alpn=\"h3,h2\""))
        .collect();
    (!records.is_empty()).then(|| {
        let records = records.join("; ");
        let seen = format!(
            "{}: with this DNS record browsers use HTTP/3 on the first visit: {records}",
            site.name
        );
        DoctorFinding::fine("https-record", seen)
    })
}

/// The port for which a record of the host itself counts.
const HTTPS: u16 = 443;

#[cfg(test)]
mod tests {
    use super::super::machine::stand_in::StandIn;
    use super::*;

    #[test]
    fn small_buffers_are_a_notice() {
        let enough = galley_sys::sockets::UDP_BUFFER.to_string();
        for (receive, send, level) in [
            (enough.as_str(), enough.as_str(), Severity::Fine),
            ("212992", enough.as_str(), Severity::Notice),
            (enough.as_str(), "212992", Severity::Notice),
            (enough.as_str(), "many", Severity::Unknown),
        ] {
            let stand_in = StandIn::new(&[
                ("proc/sys/net/core/rmem_max", receive),
                ("proc/sys/net/core/wmem_max", send),
            ]);
            let found = buffers(&stand_in.machine());
            assert_eq!(found.level, level, "{receive} {send}");
            assert_eq!(found.remedy.is_empty(), level != Severity::Notice);
        }
    }
}
