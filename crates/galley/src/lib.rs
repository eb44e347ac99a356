//! The web server for WordPress.
