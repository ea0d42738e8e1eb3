//! The machine that a report comes from.

use std::fs;
use std::time::SystemTime;

/// Extensions of the instruction set that the ciphers and digests here gain from, as `/proc/cpuinfo` names them, and as their makers do.
const FEATURES: [(&str, &str); 5] = [
    ("aes", "AES-NI"),
    ("vaes", "VAES"),
    ("vpclmulqdq", "VPCLMULQDQ"),
    ("avx2", "AVX2"),
    ("avx512f", "AVX-512"),
];

/// Processor with its features, cores, kernel, version and date, in one line.
pub fn describe() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let date = httpdate::fmt_http_date(SystemTime::now());
    format!(
        "{}, {cores} core{}, Linux {}, longshore {}, {} UTC",
        processor(&cpuinfo),
        if cores == 1 { "" } else { "s" },
        kernel.trim(),
        crate::cli::version(),
        date.get(5..22).unwrap_or(&date)
    )
}

/// The processor's name and its features.
fn processor(cpuinfo: &str) -> String {
    let field = |name: &str| {
        let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let mut named = lines.filter(|(key, _)| key.trim() == name);
        named.next().map(|(_, value)| value.trim())
    };
    let model = field("model name").unwrap_or(std::env::consts::ARCH);
    let flags: Vec<&str> = field("flags").unwrap_or("").split(' ').collect();
    let has = FEATURES.iter().filter(|(flag, _)| flags.contains(flag));
    let features: Vec<&str> = has.map(|(_, name)| *name).collect();
    if features.is_empty() {
        model.to_owned()
    } else {
        format!("{model} ({})", features.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::processor;

    #[test]
    fn the_processor_is_named_with_what_speeds_up_ciphers() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: Quick 9000\nflags\t\t: fpu aes avx2 vaes avx512f\n";
        assert_eq!(
            processor(cpuinfo),
            "Quick 9000 (AES-NI, VAES, AVX2, AVX-512)"
        );
        assert_eq!(processor(""), std::env::consts::ARCH);
    }
}
