//! The `galley` command.

/// Response bodies are often freed on another thread than the one that allocated them, which mimalloc handles well. It is built
/// without huge pages: they made the process 24 MB larger for 38 MB of stored pages, because using any part of a huge page
/// keeps all of it in memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    galley::cli::main()
}
