//! A real WordPress behind the real server, once with PHP-FPM and once with Apache and `mod_php`.
//!
//! Each test is a function of a running [`stack::Stack`] and runs for both. All tests of one kind share one stack, so each
//! keeps to posts of its own; what stops parts, or is about a whole site, has a stack or a site of its own.

/// Makes two tests of each function: `fpm::name` and `apache::name`.
macro_rules! both {
    ($($name:ident),+ $(,)?) => {
        mod fpm {
            $(#[test] fn $name() { super::$name(&crate::wordpress::stack::FPM); })+
        }
        mod apache {
            $(#[test] fn $name() { super::$name(&crate::wordpress::stack::APACHE); })+
        }
    };
}

/// The same for functions that start a stack of their own.
macro_rules! both_alone {
    ($($name:ident),+ $(,)?) => {
        mod fpm {
            $(#[test] fn $name() { super::$name(crate::wordpress::stack::Kind::Fpm); })+
        }
        mod apache {
            $(#[test] fn $name() { super::$name(crate::wordpress::stack::Kind::Apache); })+
        }
    };
}

mod access;
mod addresses;
mod authors;
mod comments;
pub mod deception;
mod devices;
mod doctor;
mod failures;
mod files;
mod load;
mod machines;
mod network;
mod pages;
mod people;
mod plugin;
mod poison;
mod purges;
mod setup;
mod spellings;
mod stack;
