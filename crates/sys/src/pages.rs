//! The size of the pages that the allocator requests from the kernel.
//!
//! By default it requests pages of 2 MiB, which reduce the processor time for a large cache. But each thread has its own memory
//! areas, and uses only a small part of most: on a machine with 256 MB, Galley had 50 MB of which it used 23, and each helper
//! thread added half a megabyte (measured). So small machines use small pages.

/// Disables huge pages for this process, and for every program that it starts. Without effect on kernels without huge pages.
pub fn use_small_pages() {
    // SAFETY: this option reads only its arguments, and changes only how page faults are handled.
    #[expect(unsafe_code, reason = "rustix has no call for it")]
    let _ = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, ON, NONE, NONE, NONE) };
}

const ON: libc::c_ulong = 1;
const NONE: libc::c_ulong = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reports_small_pages() {
        let setting = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("THP_enabled:"));
            line.map(|value| value.trim().to_owned())
        };
        // Kernels without huge pages do not report the setting.
        if setting().is_some() {
            use_small_pages();
            assert_eq!(setting().as_deref(), Some("0"));
        }
    }
}
