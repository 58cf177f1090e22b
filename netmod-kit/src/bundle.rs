//! Bundles small messages to one destination.
//!
//! Where each message costs a system call, 64 small ones cost 64. A lane over such a network sends
//! the first few of a burst eagerly and answers [`LaneError::Again`](netmod::LaneError) to the rest
//! ([`BurstLimit`]). The core queues those, with their requests incomplete, and offers them in a
//! row when it makes progress, between [`Lane::coalesce`](netmod::Lane::coalesce) on and off. The
//! lane then writes them into one buffer ([`Bundle`]), which the receiver unpacks ([`messages`]).

use netmod::Header;

/// Largest payload worth bundling, in bytes: above it a copy costs as much as a system call.
pub const SMALL: usize = 512;

/// Bytes that a message takes in a bundle besides its payload: length and header.
const EXTRA: usize = 4 + Header::SIZE;

/// Initial and smallest number of messages that leave at the start of a burst.
const LEAST: u32 = 4;
/// Largest number of messages that leave at the start of a burst.
const MOST: u32 = 1024;
/// Bursts after which the limit returns to [`LEAST`].
const ANEW: u32 = 64;

/// Decides which messages to one destination leave unbundled.
///
/// A burst is a run of sends without a poll in between. Its first messages leave unbundled, so that
/// a program which sends a few and then computes does not delay them. If each bundle turns out to
/// hold one message, as with blocking sends, the limit doubles: holding messages back has gained
/// nothing. After some bursts it is reset, since the program's pattern may have changed.
#[derive(Debug)]
pub struct BurstLimit {
    round: u32,
    sent: u32,
    limit: u32,
    /// Whether a message was held back since the last bundle.
    held: bool,
    /// Bursts longer than [`LEAST`] since the limit was last reset.
    bursts: u32,
}

impl Default for BurstLimit {
    fn default() -> Self {
        BurstLimit {
            round: 0,
            sent: 0,
            limit: LEAST,
            held: false,
            bursts: 0,
        }
    }
}

impl BurstLimit {
    /// Counts a message and returns whether it may leave unbundled. `round` counts the lane's
    /// polls.
    #[inline]
    pub fn may_leave(&mut self, round: u32) -> bool {
        if self.round != round {
            self.round = round;
            self.sent = 0;
        }
        self.sent += 1;
        if self.sent <= LEAST {
            return true;
        }
        if self.sent == LEAST + 1 {
            self.bursts += 1;
            if self.bursts >= ANEW {
                self.bursts = 0;
                self.limit = LEAST;
            }
        }
        self.held |= self.sent > self.limit;
        self.sent <= self.limit
    }

    /// Records that a bundle of `count` messages has left.
    pub fn record_bundle(&mut self, count: u32) {
        if !std::mem::take(&mut self.held) && count <= 1 {
            return; // a message of the core itself, which is always offered for bundling
        }
        self.limit = match count {
            0 | 1 => (2 * self.limit).min(MOST),
            _ => LEAST,
        };
    }
}

/// A bundle being written into its owner's buffer.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Bundle {
    /// Bytes used.
    pub used: usize,
    /// Number of messages.
    pub count: u32,
}

impl Bundle {
    /// Adds a message with a payload of `len` bytes that `fill` writes; `room` is the bundle's
    /// buffer. Returns `false`, without any effect, if the message does not fit.
    #[inline]
    pub fn add(
        &mut self,
        room: &mut [u8],
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        let Some(rest) = room.get_mut(self.used..) else {
            return false;
        };
        let Ok(short) = u32::try_from(len) else {
            return false;
        };
        if rest.len() < EXTRA || rest.len() - EXTRA < len {
            return false;
        }
        let (extra, rest) = rest.split_at_mut(EXTRA);
        extra[..4].copy_from_slice(&short.to_ne_bytes());
        extra[4..].copy_from_slice(&header.to_bytes());
        fill(&mut rest[..len]);
        self.used += EXTRA + len;
        self.count += 1;
        true
    }
}

/// Iterates over the messages of a bundle. Ends at a truncated or garbled message.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (len, after) = rest.split_first_chunk::<4>()?;
        let (header, after) = after.split_first_chunk::<{ Header::SIZE }>()?;
        let (payload, after) = after.split_at_checked(u32::from_ne_bytes(*len) as usize)?;
        rest = after;
        Some((Header::from_bytes(header), payload))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundled_messages_are_unpacked_unchanged() {
        for room in [0, 10, EXTRA - 1, EXTRA, 100, 1000, 4096] {
            let mut bytes = vec![0; room];
            let mut bundle = Bundle::default();
            let mut put = Vec::new();
            for i in 0..200_u64 {
                let payload = vec![i as u8; (i * 37 % 130) as usize];
                let header = Header([i, !i, 7]);
                let fits = bundle.used + EXTRA + payload.len() <= room;
                let added = bundle.add(&mut bytes, &header, payload.len(), |place| {
                    place.copy_from_slice(&payload)
                });
                assert_eq!(added, fits);
                if added {
                    put.push((header, payload));
                }
            }
            assert_eq!(bundle.count as usize, put.len());
            let got: Vec<_> = messages(&bytes[..bundle.used])
                .map(|(header, payload)| (header, payload.to_vec()))
                .collect();
            assert_eq!(got, put);
            // Truncated anywhere, the bundle still yields its complete messages.
            for end in 0..bundle.used {
                assert!(messages(&bytes[..end]).count() < put.len());
            }
        }
    }

    #[test]
    fn garbled_bundles_end() {
        let mut state = 1_u64;
        for len in 0..300 {
            let bytes: Vec<u8> = (0..len)
                .map(|_| {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    (state >> 60) as u8
                })
                .collect();
            assert!(messages(&bytes).count() <= len / EXTRA);
        }
    }

    #[test]
    fn bursts_are_held_back_and_the_limit_doubles_for_single_messages() {
        let mut burst_limit = BurstLimit::default();
        let burst = |burst_limit: &mut BurstLimit, round| {
            (0..2000).filter(|_| burst_limit.may_leave(round)).count()
        };
        assert_eq!(burst(&mut burst_limit, 1), 4);
        assert_eq!(burst(&mut burst_limit, 2), 4);
        burst_limit.record_bundle(60);
        assert_eq!(burst(&mut burst_limit, 3), 4);
        burst_limit.record_bundle(1);
        assert_eq!(burst(&mut burst_limit, 4), 8);
        for round in 5..20 {
            burst_limit.record_bundle(1);
            burst(&mut burst_limit, round);
        }
        burst_limit.record_bundle(1);
        assert_eq!(burst(&mut burst_limit, 20), 1024);
        burst_limit.record_bundle(2);
        assert_eq!(burst(&mut burst_limit, 21), 4);
    }

    #[test]
    fn the_limit_is_reset_after_some_bursts() {
        let mut burst_limit = BurstLimit::default();
        for round in 0..20 {
            assert!(burst_limit.may_leave(round));
            burst_limit.record_bundle(1);
        }
        let burst = |burst_limit: &mut BurstLimit, round| {
            (0..50).filter(|_| burst_limit.may_leave(round)).count()
        };
        for round in 20..30 {
            burst(&mut burst_limit, round);
            burst_limit.record_bundle(1);
        }
        assert_eq!(burst(&mut burst_limit, 30), 50);
        let slow = (31..31 + ANEW)
            .filter(|&round| burst(&mut burst_limit, round) < 50)
            .count();
        assert!(
            slow > 0,
            "bursts that all leave at once would never be gathered again"
        );
    }
}
