//! Writes to the tables of a plugin, and to what it keeps in caches.

use super::writes::{Write, past, through};

pub(super) const ROWS: &[Write] = &[
    past(
        "wpdb->insert",
        "$wpdb->insert( $item, array( 'name' => \"item-$v\", 'status' => 'on', 'amount' => $m, 'post_id' => PRE_id( 'post', $n ) ) );",
    ),
    past(
        "wpdb->update",
        "$wpdb->update( $item, array( 'amount' => $m ), array( 'id' => $n ) );",
    ),
    past(
        "wpdb->update by name",
        "$wpdb->update( $item, array( 'amount' => $m, 'status' => 'on' ), array( 'name' => \"item-$n\" ) );",
    ),
    past(
        "wpdb->update, row hidden",
        "$wpdb->update( $item, array( 'status' => 'off' ), array( 'id' => $n ) );",
    ),
    past(
        "wpdb->update, same value",
        "$wpdb->update( $item, array( 'amount' => (int) $wpdb->get_var( \"SELECT amount FROM $item WHERE id = $n\" ) ), array( 'id' => $n ) );",
    ),
    past(
        "wpdb->update, there and back",
        "$old = $wpdb->get_var( \"SELECT amount FROM $item WHERE id = $n\" ); $wpdb->update( $item, array( 'amount' => $m ), array( 'id' => $n ) ); $wpdb->update( $item, array( 'amount' => $old ), array( 'id' => $n ) );",
    ),
    past(
        "wpdb->update of an unread column",
        "$wpdb->update( $item, array( 'note' => $v ), array( 'id' => $n ) );",
    ),
    past(
        "wpdb->delete",
        "$wpdb->delete( $item, array( 'id' => $n ) );",
    ),
    past(
        "wpdb->replace",
        "$wpdb->replace( $item, array( 'id' => $n, 'name' => \"item-$n\", 'status' => 'on', 'amount' => $m, 'post_id' => PRE_id( 'post', 1 ) ) );",
    ),
    past(
        "UPDATE",
        "$wpdb->query( $wpdb->prepare( SQL(UPDATE {item} SET amount = %d WHERE id = %d), $m, $n ) );",
    ),
    past(
        "UPDATE of all rows",
        "$wpdb->query( SQL(UPDATE {item} SET amount = amount + $m) );",
    ),
    past(
        "UPDATE with LIMIT",
        "$wpdb->query( SQL(UPDATE {item} SET amount = $m ORDER BY id DESC LIMIT 1) );",
    ),
    past(
        "INSERT of two rows",
        "$wpdb->query( SQL(INSERT INTO {item} (name, status, amount) VALUES ('item-$v-a', 'on', $m), ('item-$v-b', 'off', $m)) );",
    ),
    past(
        "INSERT SET",
        "$wpdb->query( SQL(INSERT INTO {item} SET name = 'item-$v', status = 'on', amount = $m) );",
    ),
    past(
        "INSERT IGNORE",
        "$wpdb->query( SQL(INSERT IGNORE INTO {item} (name, status, amount) VALUES ('item-$n', 'on', $m)) );",
    ),
    past(
        "INSERT ON DUPLICATE KEY",
        "$wpdb->query( $wpdb->prepare( SQL(INSERT INTO {item} (name, status, amount) VALUES (%s, 'on', %d) ON DUPLICATE KEY UPDATE amount = VALUES(amount)), \"item-$n\", $m ) );",
    ),
    past(
        "INSERT SELECT",
        "$wpdb->query( SQL(INSERT INTO {item} (name, status, amount, post_id) SELECT CONCAT(name, '-$v'), 'on', amount, post_id FROM {item} WHERE id = $n) );",
    ),
    past(
        "REPLACE",
        "$wpdb->query( SQL(REPLACE INTO {item} (id, name, status, amount) VALUES ($n, 'item-$n', 'on', $m)) );",
    ),
    past(
        "DELETE",
        "$wpdb->query( $wpdb->prepare( SQL(DELETE FROM {item} WHERE name = %s), \"item-$n\" ) );",
    ),
    past(
        "DELETE with LIMIT",
        "$wpdb->query( SQL(DELETE FROM {item} ORDER BY id DESC LIMIT 1) );",
    ),
    past(
        "UPDATE of two tables",
        "$wpdb->query( SQL(UPDATE {item} i JOIN {part} p ON p.item_id = i.id SET i.amount = $m, p.label = 'label-$v' WHERE i.id = $n) );",
    ),
    past(
        "DELETE from two tables",
        "$wpdb->query( SQL(DELETE i, p FROM {item} i JOIN {part} p ON p.item_id = i.id WHERE i.id = $n) );",
    ),
    past("TRUNCATE", "$wpdb->query( SQL(TRUNCATE TABLE {item}) );"),
    past(
        "ALTER TABLE",
        "$wpdb->query( SQL(ALTER TABLE {item} ADD COLUMN extra_$m INT) );",
    ),
    past(
        "INSERT with a trigger",
        "$wpdb->query( SQL(INSERT INTO {queue} (item_id) VALUES ($n)) );",
    ),
    past(
        "transaction, COMMIT",
        "$wpdb->query( 'START TRANSACTION' ); $wpdb->update( $item, array( 'amount' => $m ), array( 'id' => $n ) ); $wpdb->query( 'COMMIT' );",
    ),
    past(
        "transaction, ROLLBACK",
        "$wpdb->query( 'BEGIN' ); $wpdb->update( $item, array( 'amount' => $m ), array( 'id' => $n ) ); $wpdb->query( 'ROLLBACK' );",
    ),
    past(
        "transaction, SAVEPOINT",
        "$wpdb->query( 'START TRANSACTION' ); $wpdb->update( $item, array( 'amount' => $m ), array( 'id' => 1 ) ); $wpdb->query( 'SAVEPOINT here' ); $wpdb->delete( $item, array( 'id' => 2 ) ); $wpdb->query( 'ROLLBACK TO SAVEPOINT here' ); $wpdb->query( 'COMMIT' );",
    ),
    past(
        "wpdb->insert in the second table",
        "$wpdb->insert( $part, array( 'item_id' => $n, 'label' => \"label-$v\" ) );",
    ),
    past(
        "UPDATE of the second table",
        "$wpdb->query( $wpdb->prepare( SQL(UPDATE {part} SET label = %s WHERE item_id = %d), \"label-$v\", $n ) );",
    ),
    past(
        "wpdb->delete in the second table",
        "$wpdb->delete( $part, array( 'item_id' => $n ) );",
    ),
    through(
        "wp_update_post of a joined post",
        "wp_update_post( array( 'ID' => PRE_id( 'post', $n ), 'post_title' => \"Title $v\" ) );",
    ),
    through(
        "wp_update_user of a joined user",
        "wp_update_user( array( 'ID' => PRE_id( 'user', $n ), 'display_name' => \"Sailor $v\" ) );",
    ),
    past(
        "RENAME TABLE of a copy",
        "$wpdb->query( SQL(CREATE TABLE {copy} LIKE {item}) ); $wpdb->query( SQL(INSERT INTO {copy} SELECT * FROM {item}) ); $wpdb->query( SQL(UPDATE {copy} SET amount = amount + $m) ); $wpdb->query( SQL(RENAME TABLE {item} TO {old}, {copy} TO {item}) ); $wpdb->query( SQL(DROP TABLE {old}) );",
    ),
    past(
        "temporary table",
        "$wpdb->query( SQL(CREATE TEMPORARY TABLE {copy} SELECT id, amount FROM {item}) ); $wpdb->query( SQL(UPDATE {item} i JOIN {copy} c ON c.id = i.id SET i.amount = c.amount + $m WHERE i.id = $n) );",
    ),
    past(
        "CREATE OR REPLACE VIEW",
        "$wpdb->query( SQL(CREATE OR REPLACE VIEW {shown} AS SELECT id, name, amount FROM {item} WHERE status = 'on' AND id <> $n) );",
    ),
    past(
        "UPDATE of a view",
        "$wpdb->query( SQL(UPDATE {shown} SET amount = $m WHERE id = $n) );",
    ),
    past(
        "UPDATE with a subquery",
        "$wpdb->query( SQL(UPDATE {item} SET amount = (SELECT COUNT(*) FROM {part}) + $m WHERE id = $n) );",
    ),
    past(
        "UPDATE with LIMIT",
        "$wpdb->query( SQL(UPDATE {item} SET amount = $m ORDER BY id DESC LIMIT 1) );",
    ),
    past(
        "DELETE with a subquery",
        "$wpdb->query( SQL(DELETE FROM {item} WHERE id IN (SELECT item_id FROM {part} WHERE label = 'label-$n')) );",
    ),
    past(
        "INSERT with a named subquery",
        "$wpdb->query( SQL(INSERT INTO {item} (name, status, amount) WITH t AS (SELECT name, amount FROM {item} WHERE id = $n) SELECT CONCAT(name, '-$v'), 'on', amount FROM t) );",
    ),
    past(
        "LOCK TABLES",
        "$wpdb->query( SQL(LOCK TABLES {item} WRITE) ); $wpdb->update( $item, array( 'amount' => $m ), array( 'id' => $n ) ); $wpdb->query( 'UNLOCK TABLES' );",
    ),
    past(
        "transactions without BEGIN",
        "$wpdb->query( 'SET autocommit = 0' ); $wpdb->update( $item, array( 'amount' => $m ), array( 'id' => $n ) ); $wpdb->query( 'COMMIT' ); $wpdb->query( 'SET autocommit = 1' );",
    ),
    past(
        "prepared by the database",
        "$wpdb->query( SQL(PREPARE change_it FROM 'UPDATE {item} SET amount = $m WHERE id = $n') ); $wpdb->query( 'EXECUTE change_it' );",
    ),
    past(
        "another connection",
        "$own = new wpdb( DB_USER, DB_PASSWORD, DB_NAME, DB_HOST ); $own->update( $item, array( 'amount' => $m ), array( 'id' => $n ) );",
    ),
];

pub(super) const TRANSIENT: &[Write] = &[
    through(
        "rows, delete_transient",
        "$wpdb->update( $item, array( 'amount' => $m ), array( 'id' => $n ) ); delete_transient( $name ); delete_transient( $other );",
    ),
    past(
        "rows, transient kept",
        "$wpdb->update( $item, array( 'amount' => $m ), array( 'id' => $n ) );",
    ),
    through(
        "set_transient",
        "set_transient( $name, $v, DAY_IN_SECONDS ); set_transient( $other, $v );",
    ),
    past(
        "rows, DELETE transients",
        "$wpdb->update( $item, array( 'amount' => $m ), array( 'id' => $n ) ); $wpdb->query( SQL(DELETE FROM {options} WHERE option_name LIKE '\\\\_transient\\\\_%PRE\\\\_%') ); wp_cache_flush();",
    ),
];

pub(super) const OBJECT_CACHE: &[Write] = &[
    through(
        "rows, wp_cache_delete",
        "$wpdb->update( $item, array( 'amount' => $m ), array( 'id' => $n ) ); wp_cache_delete( $name, 'PRE' );",
    ),
    past(
        "rows, cache kept",
        "$wpdb->update( $item, array( 'amount' => $m ), array( 'id' => $n ) );",
    ),
    through("wp_cache_set", "wp_cache_set( $name, $v, 'PRE' );"),
    through(
        "rows, new salt",
        "$wpdb->update( $item, array( 'amount' => $m ), array( 'id' => $n ) ); wp_cache_set( 'last_changed', $v, 'PRE' );",
    ),
    past(
        "rows, wp_cache_flush",
        "$wpdb->query( SQL(UPDATE {item} SET amount = amount + $m) ); wp_cache_flush();",
    ),
];
