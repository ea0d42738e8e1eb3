//! The device's side: descriptors of the acceleration, checked.

use super::super::error::ErrorCode;
use super::super::gather::Gather;
use super::super::layout::{Head, Opcode, SLOT_WORDS, unpair};
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
            AccelCommand::Unsplice(splice) => splice.0,
            AccelCommand::Reinject { .. } => 0,
        }
    }
}

/// The command in a slot of which all words were read.
pub(in crate::ring) fn decode(
    opcode: Opcode,
    head: Head,
    words: &[u64; SLOT_WORDS],
) -> Result<AccelCommand, ErrorCode> {
    let (name, more) = unpair(words[1]);
    let rule = u16::try_from(name)
        .map(ListenRuleId)
        .map_err(|_| ErrorCode::BadParameters);
    Ok(match opcode {
        Opcode::InstallListener => AccelCommand::Install(
            InstallListener::decode(rule?, head, words).ok_or(ErrorCode::BadParameters)?,
        ),
        Opcode::RemoveListener => AccelCommand::Remove(rule?),
        Opcode::ListenerCredit => AccelCommand::Credit {
            rule: rule?,
            credits: more,
        },
        Opcode::Teardown => {
            AccelCommand::Teardown(Teardown::decode(head, words).ok_or(ErrorCode::BadParameters)?)
        }
        Opcode::Splice => {
            AccelCommand::Splice(Splice::decode(head, words).ok_or(ErrorCode::BadParameters)?)
        }
        Opcode::Unsplice => AccelCommand::Unsplice(SpliceId(name)),
        Opcode::Reinject => AccelCommand::Reinject {
            gso_size: u16::try_from(name).map_err(|_| ErrorCode::BadParameters)?,
        },
        _ => return Err(ErrorCode::BadOpcode),
    })
}

/// Whether the slices are as many, and as long, as the command's own numbers say.
pub(in crate::ring) fn slices_fit(
    command: &AccelCommand,
    words: &[u64; SLOT_WORDS],
    gather: &Gather,
) -> bool {
    match command {
        AccelCommand::Teardown(teardown) => {
            let (_, bytes) = unpair(words[1]);
            gather.len() == u64::from(bytes) && teardown.fits(bytes)
        }
        AccelCommand::Reinject { .. } => gather.slices().len() == 1,
        _ => gather.slices().is_empty(),
    }
}
