//! The choice among the protocols for long messages between processes of a node.

use netmod_kit::Machine;

use crate::config::SingleCopy;

/// Bytes. Shortest message that is read by CMA where the kernel's copy is cheaper than two copies:
/// below, the system call costs more than the second copy (docs/decisions/long-messages.md).
const CMA_MIN: usize = 64 << 10;
/// Bytes. Longest message that takes a pipeline although its receiver can read it by CMA. A
/// pipeline has space for all of it, so that the send completes at once and the receiver never
/// waits for a sender that computes.
const PIPELINE_MAX: usize = 1 << 20;

/// How the data of a long message travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LongProtocol {
    /// The receiver reads it from the sender's memory: one copy, by the kernel.
    Cma,
    /// Both sides copy it, through the sender's shared memory.
    Pipeline,
    /// The same, and the sender's stores bypass the caches.
    StreamingPipeline,
}

/// What a policy knows about a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongMessage {
    /// Bytes.
    pub len: usize,
    /// Whether the data is contiguous in the sender's memory.
    pub is_contiguous: bool,
    /// Whether CMA works with the receiver.
    pub is_readable: bool,
    /// Whether the receiver's core is known to share no cache with the sender's.
    pub is_far: bool,
}

/// Chooses protocols for long messages.
pub(crate) trait LongMessagePolicy: Send {
    /// Returns the protocol of a message. Answers alike whenever it is asked for the same message.
    fn protocol(&self, message: LongMessage) -> LongProtocol;
}

/// The default policy: a table by what copies cost on this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StaticPolicy {
    /// Bytes. Shortest contiguous message that is read by CMA.
    contiguous_min: usize,
    /// The same for messages with gaps.
    gaps_min: usize,
    /// Whether stores to far cores bypass the caches.
    is_streaming: bool,
}

impl StaticPolicy {
    pub fn new(single_copy: SingleCopy, machine: &Machine) -> StaticPolicy {
        let (contiguous_min, gaps_min) = match single_copy {
            SingleCopy::Never => (usize::MAX, usize::MAX),
            SingleCopy::Always => (0, 0),
            SingleCopy::Auto if machine.has_cheap_kernel_copy() => (CMA_MIN, usize::MAX),
            SingleCopy::Auto => (PIPELINE_MAX + 1, usize::MAX),
        };
        StaticPolicy {
            contiguous_min,
            gaps_min,
            is_streaming: machine.streaming_pays,
        }
    }
}

impl LongMessagePolicy for StaticPolicy {
    fn protocol(&self, message: LongMessage) -> LongProtocol {
        let cma_min = match message.is_contiguous {
            true => self.contiguous_min,
            false => self.gaps_min,
        };
        if message.is_readable && message.len >= cma_min {
            LongProtocol::Cma
        } else if message.is_far && self.is_streaming {
            LongProtocol::StreamingPipeline
        } else {
            LongProtocol::Pipeline
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LongProtocol::*;
    use super::*;

    const CHEAP: Machine = Machine {
        kernel_copy: Some(3.3),
        streaming_pays: false,
    };
    const DEAR: Machine = Machine {
        kernel_copy: Some(5.2),
        streaming_pays: true,
    };
    const MESSAGE: LongMessage = LongMessage {
        len: 4 << 20,
        is_contiguous: true,
        is_readable: true,
        is_far: false,
    };

    fn protocol(single_copy: SingleCopy, machine: Machine, message: LongMessage) -> LongProtocol {
        StaticPolicy::new(single_copy, &machine).protocol(message)
    }

    #[test]
    fn the_control_variable_comes_first() {
        let short = LongMessage {
            len: 10_000,
            ..MESSAGE
        };
        let gaps = LongMessage {
            is_contiguous: false,
            ..MESSAGE
        };
        for machine in [CHEAP, DEAR] {
            let all =
                |single_copy| [MESSAGE, short, gaps].map(|one| protocol(single_copy, machine, one));
            assert_eq!(all(SingleCopy::Always), [Cma; 3]);
            assert_eq!(all(SingleCopy::Never), [Pipeline; 3]);
            assert_eq!(all(SingleCopy::Auto), [Cma, Pipeline, Pipeline]);
        }
    }

    #[test]
    fn messages_that_cannot_be_read_take_pipelines() {
        for single_copy in [SingleCopy::Always, SingleCopy::Auto, SingleCopy::Never] {
            let message = LongMessage {
                is_readable: false,
                ..MESSAGE
            };
            assert_eq!(protocol(single_copy, CHEAP, message), Pipeline);
        }
    }

    #[test]
    fn stores_bypass_the_caches_on_the_way_to_far_cores() {
        for is_far in [false, true] {
            let message = LongMessage {
                is_readable: false,
                is_far,
                ..MESSAGE
            };
            assert_eq!(protocol(SingleCopy::Auto, CHEAP, message), Pipeline);
            let is_streamed = protocol(SingleCopy::Auto, DEAR, message) == StreamingPipeline;
            assert_eq!(is_streamed, is_far);
        }
    }

    #[test]
    fn a_cheap_kernel_copy_decides_between_the_thresholds() {
        for len in [CMA_MIN, PIPELINE_MAX] {
            let message = LongMessage { len, ..MESSAGE };
            assert_eq!(protocol(SingleCopy::Auto, CHEAP, message), Cma);
            assert_eq!(protocol(SingleCopy::Auto, DEAR, message), Pipeline);
        }
    }
}
