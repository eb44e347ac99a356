//! Galley in front of a real WordPress, once with PHP-FPM and once with Apache and `mod_php`.
//!
//! Each test is a function that takes a running [`stack::WordPressStack`] and is executed for both. The tests of one kind share
//! one stack, so each test uses only its own posts. Tests that stop processes start a separate stack, and tests that affect a
//! whole site use a separate site.

/// Declares two tests per function, `fpm::name` and `apache::name`, which get a shared stack.
macro_rules! test_with_shared_stacks {
    ($($name:ident),+ $(,)?) => {
        mod fpm {
            $(#[test] fn $name() { super::$name(&crate::wordpress::stack::FPM); })+
        }
        mod apache {
            $(#[test] fn $name() { super::$name(&crate::wordpress::stack::APACHE); })+
        }
    };
}

/// Declares the same two tests for functions that start a separate stack.
macro_rules! test_with_own_stack {
    ($($name:ident),+ $(,)?) => {
        mod fpm {
            $(#[test] fn $name() { super::$name(crate::wordpress::stack::UpstreamKind::Fpm); })+
        }
        mod apache {
            $(#[test] fn $name() { super::$name(crate::wordpress::stack::UpstreamKind::Apache); })+
        }
    };
}

mod access;
mod canonical_urls;
mod comments;
pub mod deception;
mod deny_rules;
mod device_variants;
mod doctor;
mod failures;
mod feeds_and_apis;
mod files;
mod hide_authors;
mod load;
mod multisite;
mod pages;
mod plugin;
mod poison;
mod private_pages;
mod purges;
mod setup;
mod stack;
