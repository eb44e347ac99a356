//! The WordPress post that a cluster test edits. Its title and content contain a version.

use std::{net::SocketAddr, time::Duration};

use crate::{Options, TestkitError, WordPress, client::Request};

/// Options of a WordPress with a must-use plugin that edits the post.
pub(super) fn options() -> Options {
    Options {
        url: Some(format!("http://{HOST}")),
        mu_plugins: vec![("cluster-edit.php".to_owned(), EDIT.to_owned())],
        extra_config: format!(
            "$_SERVER['HTTP_HOST'] = $_SERVER['SERVER_NAME'] = '{HOST}';\n\
             if ( is_readable( __DIR__ . '/{NODES_FILE}' ) ) {{ require __DIR__ . '/{NODES_FILE}'; }}\n"
        ),
        ..Options::default()
    }
}

/// Publishes the post that the test edits; returns the paths of the pages that contain it.
pub(super) fn publish(wordpress: &WordPress) -> Result<Vec<String>, TestkitError> {
    let output = wordpress.php(
        "$id = wp_insert_post( array( 'post_name' => 'checked', 'post_title' => 'version-1-', \
         'post_content' => 'version-1-', 'post_status' => 'publish' ) ); \
         echo wp_parse_url( get_permalink( $id ), PHP_URL_PATH );",
    )?;
    let path = output.lines().last().unwrap_or_default().trim();
    if !path.starts_with('/') {
        return Err(TestkitError::Refused(format!(
            "no post was published: {output}"
        )));
    }
    Ok(vec![path.to_owned(), "/".to_owned(), OBJECTS.to_owned()])
}

/// Sets the version through the node at this address; returns whether its response was 200.
pub(super) fn edit_at(addr: SocketAddr, version: u64) -> bool {
    let target = format!("/wp-json/cluster/v1/edit?version={version}");
    let request = Request::form(&target, &[]).host(HOST).timeout(EDIT_TIMEOUT);
    request
        .send(addr)
        .is_ok_and(|response| response.status == 200)
}

/// What a request of PHP reads from the object cache of its node.
pub(super) const OBJECTS: &str = "/wp-json/cluster/v1/objects";

/// A part of wp-config.php.
pub(super) const NODES_FILE: &str = "cluster-node.php";

pub(super) const HOST: &str = "cluster.test";

const EDIT: &str = include_str!("../../assets/cluster/edit.php");
pub(super) const EDIT_TIMEOUT: Duration = Duration::from_secs(20);
