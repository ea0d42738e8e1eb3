//! The options that say whose TCP carries the connections.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::attach::Wire;

/// Whose TCP carries the connections.
#[derive(Clone, Debug)]
pub enum Transport {
    /// That of a stack of ours.
    Ours(Box<Wire>),
    /// Linux's (`--kernel`).
    Linux {
        /// Control socket of the NIC below it that is to help.
        nic: Option<PathBuf>,
    },
}

const KERNEL_HELP: &str = "Use Linux's own TCP, instead of a stack of ours";
const NIC_HELP: &str = "Instead of an interface and a NIC of its own, a function of a running `longshore nic`, which was \
given it by --host rings:SOCKET; with --kernel the control socket of the `longshore nic` that the connections go through: \
it places data and checks digests";

impl FromArgMatches for Transport {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Transport, clap::Error> {
        Ok(match matches.get_flag("kernel") {
            true => Transport::Linux {
                nic: matches.get_one("nic").cloned(),
            },
            false => Transport::Ours(Box::new(Wire::from_arg_matches(matches)?)),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Transport::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Transport {
    fn augment_args(command: Command) -> Command {
        let optional = |arg: Arg| arg.required(false).required_unless_present("kernel");
        let kernel = Arg::new("kernel")
            .long("kernel")
            .action(ArgAction::SetTrue)
            .conflicts_with_all([
                "tap",
                "addresses",
                "peer_addresses",
                "loss",
                "reorder",
                "pcap",
            ])
            .help(KERNEL_HELP);
        Wire::augment_args(command.arg(kernel))
            .mut_arg("tap", optional)
            .mut_arg("addresses", optional)
            .mut_arg("nic", |arg| arg.help(NIC_HELP))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Transport::augment_args(command)
    }
}
