//! The crate's modules, from the lowest up.

#[test]
fn each_module_uses_only_those_below_it() {
    testkit::assert_layers(
        env!("CARGO_MANIFEST_DIR"),
        &[
            "features",
            "ring",
            "counters",
            "faults",
            "config",
            "rss",
            "cache",
            "prefetch",
            "switch",
            "probing",
            "flow_table",
            "frame",
            // A function: its contexts, buffers and rings.
            "resources",
            "context",
            "buffers",
            "lro",
            "rx_queue",
            "send",
            "function",
            // Frames, to hosts and to connections that the NIC owns.
            "delivery",
            "accel",
            "toe",
            "offloads",
            "receive",
            "transmit",
            "turn",
            "device",
        ],
    );
}
