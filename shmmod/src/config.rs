//! What the user may choose.

use netmod::Peer;
use netmod_kit::variables::{Reader, Variable};

/// The control variables of this transport.
pub const VARIABLES: &[Variable] = &[Variable {
    name: "WEFT_SHM_SINGLE_COPY",
    kind: "0 or 1",
    default: "1",
    help: "Large messages between processes of a node are copied once, by the kernel \
               (process_vm_readv), if a trial at first contact shows that it is allowed. With 0 they \
               always go through shared memory in pieces.",
}];

/// How to open the transport.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// This process.
    pub me: Peer,
    /// Whether to copy large data directly between processes where the kernel allows it.
    pub single_copy: bool,
}

impl Config {
    /// As the control variables say.
    ///
    /// # Errors
    /// A value can't be understood.
    pub fn read(me: Peer, variables: &Reader) -> Result<Config, String> {
        Ok(Config {
            me,
            single_copy: variables.flag("WEFT_SHM_SINGLE_COPY", true)?,
        })
    }
}
