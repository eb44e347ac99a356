//! The choice of servers: shares by weight, the idle server, stable affinity, backups last, limits, slow start.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::server_state::ServerStates;
use galley_config::HealthCheckConfig;

fn share(weight: u32) -> ServerShare {
    ServerShare {
        weight,
        ..ServerShare::default()
    }
}

fn balancer(shares: &[ServerShare], method: BalanceMethod, slow_start: Duration) -> Balancer {
    let states = ServerStates::default();
    let servers = shares.iter().enumerate().map(|(index, share)| {
        let state = states.of("example.com", &format!("10.0.0.{index}:80"));
        let share = *share;
        BalancedServer { state, share }
    });
    Balancer::new(
        servers.collect(),
        LoadBalancing {
            method,
            slow_start,
            check: None,
        },
    )
}

fn in_turn(shares: &[ServerShare]) -> Balancer {
    balancer(shares, BalanceMethod::RoundRobin, Duration::ZERO)
}

/// The number of requests per chosen server, if each request ends before the next.
fn chosen(balancer: &Balancer, key: Option<AffinityKey>, count: usize) -> HashMap<usize, usize> {
    let mut seen = HashMap::new();
    for _ in 0..count {
        if let ServerChoice::Server { index, .. } = balancer.choose(key, &[], Instant::now()) {
            *seen.entry(index).or_default() += 1;
        }
    }
    seen
}

fn check(balancer: &Balancer, index: usize, passed: bool) {
    let state = balancer.state(index).unwrap();
    let at_once = HealthCheckConfig {
        rise: 1,
        fall: 1,
        ..HealthCheckConfig::default()
    };
    state.checked(passed, &at_once, Instant::now());
}

fn homes(balancer: &Balancer) -> Vec<Option<usize>> {
    let clients = (0..3000_u32).map(|client| AffinityKey::of(&Network::V4(client)));
    clients
        .map(
            |key| match balancer.choose(Some(key), &[], Instant::now()) {
                ServerChoice::Server { index, .. } => Some(index),
                ServerChoice::Full | ServerChoice::None => None,
            },
        )
        .collect()
}

proptest! {
    #[test]
    fn round_robin_gives_each_server_its_share_within_one_request(weights in proptest::collection::vec(1_u32..=20, 1..6)) {
        let shares: Vec<ServerShare> = weights.iter().map(|weight| share(*weight)).collect();
        let balancer = in_turn(&shares);
        let sum: u32 = weights.iter().sum();
        let seen = chosen(&balancer, None, sum as usize * 3);
        for (index, weight) in weights.iter().enumerate() {
            prop_assert_eq!(seen.get(&index).copied().unwrap_or(0), *weight as usize * 3);
        }
    }
}

#[tokio::test]
async fn least_connections_prefers_the_idle_server() {
    let balancer = balancer(
        &[share(1), share(1), share(2)],
        BalanceMethod::LeastConnections,
        Duration::ZERO,
    );
    let (one, other, large) = (balancer.state(0), balancer.state(1), balancer.state(2));
    let busy: Vec<_> = [one, other, large, large]
        .map(|state| state.unwrap().acquire(None))
        .into();
    let first = balancer.state(0).unwrap().acquire(None);
    // Two, one and two requests at weights 1, 1 and 2: the first server has the highest load.
    for _ in 0..10 {
        assert_eq!(chosen(&balancer, None, 1).get(&0), None);
    }
    drop((busy, first));
    let seen = chosen(&balancer, None, 400);
    assert_eq!(
        seen.len(),
        1,
        "idle, only the server of twice the weight has the lowest load: {seen:?}"
    );
}

#[tokio::test]
async fn affinity_moves_only_the_clients_of_a_removed_server() {
    let balancer = balancer(
        &[share(1), share(1), share(2)],
        BalanceMethod::Client,
        Duration::ZERO,
    );
    let before = homes(&balancer);
    let at = |index: usize| before.iter().filter(|home| **home == Some(index)).count();
    for (index, wanted) in [(0, 750), (1, 750), (2, 1500)] {
        assert!(at(index).abs_diff(wanted) < 120, "{index}: {}", at(index));
    }
    check(&balancer, 1, false);
    for (home, now) in before.iter().zip(homes(&balancer)) {
        assert!(now.is_some() && now != Some(1));
        assert!(*home == Some(1) || *home == now);
    }
    check(&balancer, 1, true);
    assert_eq!(homes(&balancer), before);
}

#[tokio::test]
async fn backups_are_used_only_when_all_others_are_out_and_a_wrong_check_stops_nothing() {
    let backup = ServerShare {
        is_backup: true,
        ..share(1)
    };
    let balancer = in_turn(&[share(1), share(1), backup]);
    let who = |balancer: &Balancer| {
        let mut seen: Vec<usize> = chosen(balancer, None, 10).into_keys().collect();
        seen.sort_unstable();
        seen
    };
    assert_eq!(who(&balancer), [0, 1]);
    check(&balancer, 0, false);
    assert_eq!(who(&balancer), [1]);
    check(&balancer, 1, false);
    assert_eq!(who(&balancer), [2]);
    check(&balancer, 2, false);
    assert_eq!(who(&balancer), [0, 1, 2], "none passes, so all are tried");
    check(&balancer, 1, true);
    assert_eq!(who(&balancer), [1]);
    let now = Instant::now();
    assert!(balancer.has_other(&[1], now));
    assert!(!balancer.has_other(&[0, 1, 2], now));
}

#[tokio::test]
async fn limits_are_kept_and_backups_do_not_take_the_excess() {
    let limited = ServerShare {
        max: Some(2),
        ..share(1)
    };
    let backup = ServerShare {
        is_backup: true,
        ..share(1)
    };
    let balancer = in_turn(&[limited, limited, backup]);
    let mut held = Vec::new();
    for _ in 0..4 {
        let ServerChoice::Server { permit, .. } = balancer.choose(None, &[], Instant::now()) else {
            panic!("there is room");
        };
        held.push(permit);
    }
    for index in 0..2 {
        assert_eq!(balancer.state(index).unwrap().in_flight(), 2);
    }
    assert!(matches!(
        balancer.choose(None, &[], Instant::now()),
        ServerChoice::Full
    ));
    held.pop();
    assert!(matches!(
        balancer.choose(None, &[], Instant::now()),
        ServerChoice::Server { .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn a_recovered_server_starts_slowly() {
    let balancer = balancer(
        &[share(1), share(1)],
        BalanceMethod::RoundRobin,
        Duration::from_secs(10),
    );
    assert_eq!(
        chosen(&balancer, None, 100).get(&1),
        Some(&50),
        "not at the start"
    );
    check(&balancer, 1, false);
    check(&balancer, 1, true);
    let mut before = 0;
    for (second, least, most) in [(0, 7, 11), (5, 30, 36), (9, 44, 50), (10, 49, 51)] {
        tokio::time::advance(Duration::from_secs(second - before)).await;
        before = second;
        let seen = chosen(&balancer, None, 100).get(&1).copied().unwrap_or(0);
        assert!(
            (least..=most).contains(&seen),
            "after {second} s: {seen} of 100"
        );
    }
}
