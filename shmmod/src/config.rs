//! Control variables of the transport.

use netmod::Peer;
use netmod_kit::variables::{Reader, Variable};

/// The control variables of this transport.
pub const VARIABLES: &[Variable] = &[Variable {
    name: "WEFT_SHM_SINGLE_COPY",
    kind: "0, 1 or auto",
    default: "auto",
    help: "Whether large messages between processes of a node are copied once, by the kernel \
               (process_vm_readv): with 1 always, if a trial at first contact shows that it is allowed. With 0 \
               they always go through shared memory, copied by both processes. With auto messages of more than \
               1 MiB are copied once, and from 64 KiB on where a trial at the start shows that the kernel's copy \
               takes less time than two copies.",
}];

/// When to use CMA for long messages, where the kernel allows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SingleCopy {
    /// Never.
    Never,
    /// Always.
    Always,
    /// Where it is expected to be faster.
    Auto,
}

impl From<bool> for SingleCopy {
    /// Always or never.
    fn from(always: bool) -> SingleCopy {
        match always {
            true => SingleCopy::Always,
            false => SingleCopy::Never,
        }
    }
}

impl SingleCopy {
    fn read(variables: &Reader) -> Result<SingleCopy, String> {
        let name = VARIABLES[0].name;
        match variables.text(name).as_deref() {
            None | Some("auto") => Ok(SingleCopy::Auto),
            Some(other) => match variables.flag(name, true) {
                Ok(true) => Ok(SingleCopy::Always),
                Ok(false) => Ok(SingleCopy::Never),
                Err(_) => Err(format!("{name} is {other:?}; it can be 0, 1 or auto")),
            },
        }
    }
}

/// Parameters for opening the transport.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// This process.
    pub me: Peer,
    /// When to use CMA for long messages.
    pub single_copy: SingleCopy,
}

impl Config {
    /// Reads the control variables.
    ///
    /// # Errors
    /// A value is malformed.
    pub fn read(me: Peer, variables: &Reader) -> Result<Config, String> {
        Ok(Config {
            me,
            single_copy: SingleCopy::read(variables)?,
        })
    }
}
