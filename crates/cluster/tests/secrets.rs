//! Secrets that nodes share over a real `redis-server`. The nodes run without the web server.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]

use std::time::{Duration, SystemTime};

use galley_cluster::{Cluster, ClusterSettings, EngineUnavailable, SecretName, SharedSecrets};
use galley_testkit::{Redis, Scratch};
use tokio::time::sleep;

const NAME: SecretName<'_> = SecretName {
    kind: "certificate",
    name: "a.test",
};

/// The secret store of a connected node.
async fn connected_node(redis: &Redis, scratch: &Scratch) -> SharedSecrets {
    let cluster = Cluster::new(ClusterSettings {
        engine: redis.url(),
        password_file: None,
        name: "test".to_owned(),
        node: "n".to_owned(),
        serve_through_partitions: false,
        folder: None,
        key_file: Some(scratch.write("key", "0123456789abcdef".repeat(2)).unwrap()),
        pages: None,
        page_thread_start: || {},
    });
    let secrets = cluster.unwrap().publisher().secrets().unwrap().clone();
    let connected = secrets.clone();
    tokio::spawn(async move { connected.keep_connected().await });
    while secrets.find(NAME, SystemTime::now()).await.is_err() {
        sleep(Duration::from_millis(5)).await;
    }
    secrets
}

#[tokio::test]
async fn all_nodes_can_read_secrets_and_notes() {
    let scratch = Scratch::new().unwrap();
    let mut redis = Redis::start(&scratch.join("redis")).unwrap();
    let (one, two) = (
        connected_node(&redis, &scratch).await,
        connected_node(&redis, &scratch).await,
    );
    let now = SystemTime::now();
    let until = now + Duration::from_secs(600);
    assert_eq!(two.find(NAME, now).await, Ok(None));
    assert!(one.store(NAME, b"secret", now, until).await);
    assert_eq!(two.find(NAME, now).await, Ok(Some(b"secret".to_vec())));
    assert_eq!(
        two.find(NAME, until).await,
        Ok(None),
        "the secret has expired"
    );
    assert!(!one.store(NAME, b"late", now, now).await);
    assert!(!one.store(NAME, &vec![0; 1 << 20], now, until).await);
    let huge = "x".repeat(1 << 20);
    let key = "galley:test:secret:certificate a.test";
    redis
        .run(&["SETRANGE", key, "600000", &huge[..100]])
        .unwrap();
    assert_eq!(
        two.find(NAME, now).await,
        Ok(None),
        "an oversized value is not read"
    );

    let minute = Duration::from_secs(60);
    let notes = || [b"a".to_vec(), b"b".to_vec()].into_iter();
    let posted = one
        .post("challenge", notes(), now, minute)
        .await
        .ok()
        .unwrap();
    redis
        .run(&["RPUSH", "galley:test:notes:challenge", "foreign"])
        .unwrap();
    let found = two.notes("challenge", now).await.unwrap();
    assert_eq!(found, notes().collect::<Vec<_>>());
    assert_eq!(two.notes("challenge", now + minute).await, Ok(vec![]));
    posted.withdraw().await;
    assert_eq!(two.notes("challenge", now).await, Ok(vec![]));

    redis.kill();
    assert_eq!(two.find(NAME, now).await, Err(EngineUnavailable));
    assert!(!one.store(NAME, b"secret", now, until).await);
}

#[tokio::test]
async fn only_one_node_at_a_time_has_the_turn() {
    let scratch = Scratch::new().unwrap();
    let redis = Redis::start(&scratch.join("redis")).unwrap();
    let (one, two) = (
        connected_node(&redis, &scratch).await,
        connected_node(&redis, &scratch).await,
    );
    let turn = one.take_turn(NAME).await.unwrap().unwrap();
    assert!(two.take_turn(NAME).await.unwrap().is_none());
    assert_eq!(turn.during(async { 7 }).await, 7);
    assert_eq!(turn.count_failure().await, Some(1));
    turn.keep_for(Duration::from_millis(300)).await;
    assert!(two.take_turn(NAME).await.unwrap().is_none());
    let turn = loop {
        match two.take_turn(NAME).await.unwrap() {
            Some(turn) => break turn,
            None => sleep(Duration::from_millis(20)).await,
        }
    };
    // The counter includes the failures of all nodes and is reset by a success.
    assert_eq!(turn.count_failure().await, Some(2));
    turn.succeeded().await;
    let turn = one.take_turn(NAME).await.unwrap().unwrap();
    assert_eq!(turn.count_failure().await, Some(1));
    turn.release().await;
    assert!(two.take_turn(NAME).await.unwrap().is_some());
}
