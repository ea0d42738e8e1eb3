//! A host's turn in a world.

use std::time::Instant;

use host::Stack;

/// Lets a stack and the application on it work as its own loop would: until nothing that is there by now is left to do. A poll
/// takes in a limited number of packets. Answers whether there was anything.
///
/// # Errors
/// The application's.
pub fn work(
    now: Instant,
    stack: &mut Stack,
    mut application: impl FnMut(&mut Stack) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    /// More than that is done in the next turn, so that nobody waits for ever.
    const POLLS: u32 = 64;
    let mut moved = false;
    for _ in 0..POLLS {
        let progress = stack.poll(now);
        application(stack)?;
        if !progress {
            break;
        }
        moved = true;
    }
    Ok(moved)
}
