//! The size of the pages that the allocator requests from the kernel.
//!
//! By default it requests pages of 2 MiB, which reduce the processor time for a large cache. But each thread has its own
//! areas of memory, and uses only a small part of most: on a machine with 256 MB Galley held 50 MB of which it used 23, and
//! each helper thread took half a megabyte more (measured). So small machines use small pages.

/// Gives this process memory in small pages from now on, and every program that it starts. Where the kernel knows no others,
/// nothing happens.
pub fn use_small_pages() {
    // SAFETY: this option reads nothing but its arguments and changes nothing but how page faults are answered.
    #[expect(unsafe_code, reason = "rustix has no call for it")]
    let _ = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, ON, NONE, NONE, NONE) };
}

const ON: libc::c_ulong = 1;
const NONE: libc::c_ulong = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_of_it() {
        let told = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("THP_enabled:"));
            line.map(|value| value.trim().to_owned())
        };
        // A kernel that has none does not tell.
        if told().is_some() {
            use_small_pages();
            assert_eq!(told().as_deref(), Some("0"));
        }
    }
}
