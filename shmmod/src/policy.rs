//! The choice among the protocols for long messages between processes of a node.

use crate::config::SingleCopy;
use crate::machine;

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

/// The default policy: thresholds, and the probe of [`machine`].
#[derive(Debug)]
pub(crate) struct StaticPolicy {
    pub single_copy: SingleCopy,
}

impl LongMessagePolicy for StaticPolicy {
    fn protocol(&self, message: LongMessage) -> LongProtocol {
        let LongMessage {
            len,
            is_contiguous,
            is_readable,
            is_far,
        } = message;
        let is_read = is_readable
            && match self.single_copy {
                SingleCopy::Never => false,
                SingleCopy::Always => true,
                SingleCopy::Auto if !is_contiguous => false,
                SingleCopy::Auto => {
                    len > PIPELINE_MAX || len >= CMA_MIN && machine::has_cheap_kernel_copy()
                }
            };
        if is_read {
            LongProtocol::Cma
        } else if is_far && netmod_kit::streaming_pays() {
            LongProtocol::StreamingPipeline
        } else {
            LongProtocol::Pipeline
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protocol(single_copy: SingleCopy, message: LongMessage) -> LongProtocol {
        StaticPolicy { single_copy }.protocol(message)
    }

    const MESSAGE: LongMessage = LongMessage {
        len: 4 << 20,
        is_contiguous: true,
        is_readable: true,
        is_far: false,
    };

    #[test]
    fn the_control_variable_comes_first() {
        use LongProtocol::*;
        let short = LongMessage {
            len: 10_000,
            ..MESSAGE
        };
        let gaps = LongMessage {
            is_contiguous: false,
            ..MESSAGE
        };
        let all = |single_copy| [MESSAGE, short, gaps].map(|one| protocol(single_copy, one));
        assert_eq!(all(SingleCopy::Always), [Cma; 3]);
        assert_eq!(all(SingleCopy::Never), [Pipeline; 3]);
        assert_eq!(all(SingleCopy::Auto), [Cma, Pipeline, Pipeline]);
    }

    #[test]
    fn messages_that_cannot_be_read_take_pipelines() {
        for single_copy in [SingleCopy::Always, SingleCopy::Auto, SingleCopy::Never] {
            let message = LongMessage {
                is_readable: false,
                ..MESSAGE
            };
            assert_eq!(protocol(single_copy, message), LongProtocol::Pipeline);
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
            let is_streamed =
                protocol(SingleCopy::Auto, message) == LongProtocol::StreamingPipeline;
            assert_eq!(is_streamed, is_far && netmod_kit::streaming_pays());
        }
    }

    #[test]
    fn a_cheap_kernel_copy_decides_between_the_thresholds() {
        for len in [CMA_MIN, PIPELINE_MAX] {
            let message = LongMessage { len, ..MESSAGE };
            let is_read = protocol(SingleCopy::Auto, message) == LongProtocol::Cma;
            assert_eq!(is_read, machine::has_cheap_kernel_copy());
        }
    }
}
