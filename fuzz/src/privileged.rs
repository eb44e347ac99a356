//! Commands to the privileged process.

use galley_privileged::{BYTES, PoolLedger, PrivilegedOrder, Report};

/// Arbitrary packets never start more processes than there are slots, only running processes are signalled, and an accepted command
/// encodes to the same bytes. The input is split into packets; the last one may be short.
pub fn orders(data: &[u8]) {
    let slots = [1, 4, 0];
    let mut ledger = PoolLedger::new(slots);
    let mut next = 1;
    for packet in data.chunks(BYTES) {
        if let Some(report) = Report::read(packet) {
            assert_eq!(report.bytes(), packet);
            assert_eq!(PrivilegedOrder::read(packet), None);
        }
        let Ok(order) = ledger.judge(packet) else {
            continue;
        };
        assert_eq!(order.bytes(), packet);
        match order {
            PrivilegedOrder::Start { pool, place } => {
                ledger.started(pool, place, next);
                assert_eq!(ledger.process(pool, place), Some(next));
                next += 1;
            }
            PrivilegedOrder::Signal { pool, process, .. } => {
                assert!(ledger.processes(pool).any(|running| running == process));
                assert_eq!(ledger.ended(process), Some(pool));
            }
            PrivilegedOrder::Replace { pool, worker } => {
                let mut running = ledger.processes(pool);
                assert!(running.next().is_some_and(|first| first != worker));
            }
            PrivilegedOrder::Connect => {}
        }
        for (pool, most) in (0..).zip(slots) {
            assert!(ledger.processes(pool).count() <= most);
        }
    }
}
