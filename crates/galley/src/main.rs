//! The `galley` command.

/// Freed bodies cross threads all the time, which is what mimalloc is good at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    galley::cli::main()
}
