//! The device's side: descriptors of the acceleration, checked.

use super::super::error::ErrorCode;
use super::super::gather::Gather;
use super::super::layout::{self, SLOT_WORDS, View};
use super::{InstallListener, ListenRuleId, Splice, SpliceId, Teardown};

/// A descriptor of the acceleration whose form is right.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::large_enum_variant)] // one at a time, on the stack
pub(crate) enum AccelCommand {
    Install(InstallListener),
    Remove(ListenRuleId),
    Credit {
        rule: ListenRuleId,
        credits: u32,
    },
    /// The payload's slices are in the [`Gather`] that was filled along with it.
    Teardown(Teardown),
    Splice(Splice),
    Unsplice(SpliceId),
    Query(SpliceId),
    /// The frame is the one slice in the [`Gather`].
    Reinject {
        gso_size: u16,
    },
}

impl AccelCommand {
    /// What a refusal names: the rule, the ticket, or the splice.
    pub(crate) fn name(&self) -> u32 {
        match self {
            AccelCommand::Install(install) => install.rule.0.into(),
            AccelCommand::Remove(rule) | AccelCommand::Credit { rule, .. } => rule.0.into(),
            AccelCommand::Teardown(teardown) => teardown.ticket,
            AccelCommand::Splice(splice) => splice.splice.0,
            AccelCommand::Unsplice(splice) | AccelCommand::Query(splice) => splice.0,
            AccelCommand::Reinject { .. } => 0,
        }
    }
}

/// The command in a slot of which all words were read.
pub(in crate::ring) fn decode(
    head: layout::Head,
    words: &[u64; SLOT_WORDS],
) -> Result<AccelCommand, ErrorCode> {
    use layout::{ListenerCredit, QuerySplice, Reinject, RemoveListener, Unsplice};
    let command = match head.opcode {
        layout::InstallListener::OPCODE => {
            let slot = layout::InstallListener::of(words);
            InstallListener::decode(slot).map(AccelCommand::Install)
        }
        RemoveListener::OPCODE => {
            let rule = ListenRuleId(RemoveListener::of(words).rule);
            Some(AccelCommand::Remove(rule))
        }
        ListenerCredit::OPCODE => {
            let credit = ListenerCredit::of(words);
            Some(AccelCommand::Credit {
                rule: ListenRuleId(credit.rule),
                credits: credit.credits,
            })
        }
        layout::Teardown::OPCODE => {
            Teardown::decode(layout::Teardown::of(words)).map(AccelCommand::Teardown)
        }
        layout::Splice::OPCODE => {
            Splice::decode(layout::Splice::of(words)).map(AccelCommand::Splice)
        }
        Unsplice::OPCODE => Some(AccelCommand::Unsplice(SpliceId(Unsplice::of(words).splice))),
        QuerySplice::OPCODE => Some(AccelCommand::Query(SpliceId(QuerySplice::of(words).splice))),
        Reinject::OPCODE => Some(AccelCommand::Reinject {
            gso_size: Reinject::of(words).gso_size,
        }),
        _ => return Err(ErrorCode::BadOpcode),
    };
    command.ok_or(ErrorCode::BadParameters)
}

/// Whether the slices are as many, and as long, as the command's own numbers say.
pub(in crate::ring) fn slices_fit(
    command: &AccelCommand,
    words: &[u64; SLOT_WORDS],
    gather: &Gather,
) -> bool {
    match command {
        AccelCommand::Teardown(teardown) => {
            let bytes = layout::Teardown::of(words).payload_len;
            gather.len() == u64::from(bytes) && teardown.fits(bytes)
        }
        AccelCommand::Reinject { .. } => gather.slices().len() == 1,
        _ => gather.slices().is_empty(),
    }
}
