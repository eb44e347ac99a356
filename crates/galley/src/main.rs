//! The `galley` command.

/// Freed bodies cross threads all the time, which is what mimalloc is good at. It is built to request no huge pages: they made the
/// process 24 MB larger for 38 MB of stored pages, because a huge page is in memory whole as soon as a part of it is used.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    galley::cli::main()
}
