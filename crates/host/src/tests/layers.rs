//! The crate's modules, from the lowest up.

#[test]
fn each_module_uses_only_those_below_it() {
    testkit::assert_layers(
        env!("CARGO_MANIFEST_DIR"),
        &[
            // What the others speak of.
            "counters",
            "meter",
            "keyed",
            "deadlines",
            "error",
            "events",
            "handoff",
            "memory",
            "probing",
            "messages",
            "config",
            // The NIC's function, and the link that it is on.
            "driver",
            "device",
            "link",
            // Layer-5 sessions.
            "stream",
            "layer5",
            "tls",
            "pdus",
            "pattern",
            "http",
            "info",
            // Connections, and who owns them.
            "socket",
            "transport",
            "offload",
            // The application's calls, and what is made of them.
            "stack",
            "runtime",
            "disk",
            "nbd",
            "iscsi",
            "nvme",
            "tokio",
        ],
    );
}
