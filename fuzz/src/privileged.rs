//! Commands to the privileged process.

use galley_privileged::{BYTES, PrivilegedCommand, PrivilegedPools, Report};

/// Arbitrary packets never start more processes than there are slots, only running processes are signalled, and an accepted command
/// encodes to the same bytes. The input is split into packets; the last one may be short.
pub fn command(data: &[u8]) {
    let slots = [1, 4, 0];
    let mut pools = PrivilegedPools::new(slots);
    let mut next = 1;
    for packet in data.chunks(BYTES) {
        if let Some(report) = Report::read(packet) {
            assert_eq!(report.bytes(), packet);
            assert_eq!(PrivilegedCommand::read(packet), None);
        }
        let Ok(command) = pools.judge(packet) else {
            continue;
        };
        assert_eq!(command.bytes(), packet);
        match command {
            PrivilegedCommand::Start { pool, slot } => {
                pools.started(pool, slot, next);
                assert_eq!(pools.process(pool, slot), Some(next));
                next += 1;
            }
            PrivilegedCommand::Signal { pool, process, .. } => {
                assert!(pools.processes(pool).any(|running| running == process));
                assert_eq!(pools.ended(process), Some(pool));
            }
            PrivilegedCommand::Replace { pool, worker } => {
                let mut running = pools.processes(pool);
                assert!(running.next().is_some_and(|first| first != worker));
            }
            PrivilegedCommand::Connect => {}
        }
        for (pool, most) in (0..).zip(slots) {
            assert!(pools.processes(pool).count() <= most);
        }
    }
}
