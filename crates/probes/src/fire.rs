//! The place of a probe in the program, where there is a form for it.

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
macro_rules! fire {
    ($provider:ident, $name:ident, $($argument:expr,)*) => {
        probe::probe_lazy!($provider, $name, $($argument,)*);
    };
}

/// Elsewhere there are no probes, and no argument is computed.
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
macro_rules! fire {
    ($provider:ident, $name:ident, $($argument:expr,)*) => {
        if false {
            let _ = ($($argument,)*);
        }
    };
}
