//! Bundles small messages to one destination.
//!
//! Where each message costs a system call, 64 small ones cost 64. A lane over such a network sends
//! the first few of a burst eagerly and answers [`LaneError::Again`](netmod::LaneError) to the rest
//! ([`BurstLimit`]). The core queues those, with their requests incomplete, and offers them in a
//! row when it makes progress, between [`Lane::coalesce`](netmod::Lane::coalesce) on and off. The
//! lane then writes them into one buffer ([`Bundle`]), which the receiver unpacks ([`messages`]).
//! [`gather`] and [`send_bundle`] do so for lanes with numbered send buffers ([`BundlingLane`]).

use netmod::{Header, LaneError};

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

/// Longest bundle in a send buffer, in bytes: longer ones would save few further calls.
pub const LONGEST: usize = 16 << 10;

/// State of an endpoint's bundling.
#[derive(Default, Debug)]
pub struct Outgoing {
    burst_limit: BurstLimit,
    /// The send buffer of the bundle, and its state.
    bundle: Option<(u32, Bundle)>,
}

/// State of a lane's bundling.
#[derive(Default, Debug)]
pub struct Bundles {
    /// Endpoints with a bundle.
    endpoints: Vec<u32>,
    /// Whether small messages are being bundled.
    is_gathering: bool,
    /// Counts polls.
    round: u32,
}

impl Bundles {
    /// Counts a poll, which ends a burst.
    #[inline]
    pub fn count_poll(&mut self) {
        self.round = self.round.wrapping_add(1);
    }

    /// Returns whether no endpoint has a bundle.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
    }
}

/// A lane that bundles messages in numbered send buffers.
pub trait BundlingLane {
    /// Returns the lane's state.
    fn bundles(&mut self) -> &mut Bundles;

    /// Returns an endpoint's state.
    fn outgoing(&mut self, endpoint: u32) -> &mut Outgoing;

    /// Takes a free send buffer.
    fn take_buffer(&mut self) -> Option<u32>;

    /// Gives back a send buffer.
    fn give_buffer(&mut self, buffer: u32);

    /// Returns a buffer's space for a bundle, the same for each call and buffer, up to [`LONGEST`].
    fn bundle_space(&mut self, buffer: u32) -> &mut [u8];

    /// Sends a bundle of `len` bytes. Returns whether its buffer is in use until the send ends.
    ///
    /// # Errors
    /// `Again`, without any effect: there is no space.
    fn post_bundle(&mut self, endpoint: u32, buffer: u32, len: usize) -> Result<bool, LaneError>;
}

/// Decides how a message with a payload of `len` bytes that `fill` writes leaves. Adds it to the
/// endpoint's bundle, or returns `fill` if the message has to be sent alone.
///
/// # Errors
/// `Again`, without any effect: the message has to be bundled with later ones or to wait for earlier
/// ones. Otherwise the error of the bundle's send.
#[inline]
pub fn gather<L: BundlingLane, F: FnOnce(&mut [u8])>(
    lane: &mut L,
    endpoint: u32,
    header: &Header,
    len: usize,
    fill: F,
) -> Result<Option<F>, LaneError> {
    let &mut Bundles {
        is_gathering,
        round,
        ..
    } = lane.bundles();
    let outgoing = lane.outgoing(endpoint);
    if len <= SMALL {
        if is_gathering {
            add(lane, endpoint, header, len, fill)?;
            return Ok(None);
        }
        if !outgoing.burst_limit.may_leave(round) {
            return Err(LaneError::Again);
        }
    }
    // Order: earlier accepted messages go first.
    if outgoing.bundle.is_some() {
        send_bundle(lane, endpoint)?;
    }
    Ok(Some(fill))
}

/// Adds a message to the endpoint's bundle, after sending a full one.
fn add<L: BundlingLane>(
    lane: &mut L,
    endpoint: u32,
    header: &Header,
    len: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Result<(), LaneError> {
    if let Some((buffer, bundle)) = lane.outgoing(endpoint).bundle
        && bundle.used + EXTRA + len > lane.bundle_space(buffer).len()
    {
        send_bundle(lane, endpoint)?;
    }
    let (buffer, mut bundle) = match lane.outgoing(endpoint).bundle {
        Some(bundle) => bundle,
        None => {
            let buffer = lane.take_buffer().ok_or(LaneError::Again)?;
            lane.bundles().endpoints.push(endpoint);
            (buffer, Bundle::default())
        }
    };
    let fits = bundle.add(lane.bundle_space(buffer), header, len, fill);
    lane.outgoing(endpoint).bundle = Some((buffer, bundle));
    if fits { Ok(()) } else { Err(LaneError::Again) }
}

/// Sends the bundle of an endpoint, if it has one.
///
/// # Errors
/// `Again`: there is no space, and the bundle stays. Otherwise the error of the send; the lane has
/// dropped the bundle ([`drop_bundle`]).
pub fn send_bundle<L: BundlingLane>(lane: &mut L, endpoint: u32) -> Result<(), LaneError> {
    let Some((buffer, bundle)) = lane.outgoing(endpoint).bundle else {
        return Ok(());
    };
    let is_in_use = lane.post_bundle(endpoint, buffer, bundle.used)?;
    let outgoing = lane.outgoing(endpoint);
    outgoing.burst_limit.record_bundle(bundle.count);
    outgoing.bundle = None;
    if !is_in_use {
        lane.give_buffer(buffer);
    }
    forget(lane, endpoint);
    Ok(())
}

/// Sends all bundles. Returns whether any was sent.
pub fn send_bundles<L: BundlingLane>(lane: &mut L) -> bool {
    let mut any = false;
    for endpoint in lane.bundles().endpoints.clone() {
        any |= send_bundle(lane, endpoint).is_ok();
    }
    any
}

/// Begins or ends the bundling of messages; implements
/// [`Lane::coalesce`](netmod::Lane::coalesce).
pub fn coalesce<L: BundlingLane>(lane: &mut L, on: bool) {
    lane.bundles().is_gathering = on;
    if !on && !lane.bundles().is_empty() {
        send_bundles(lane);
    }
}

/// Drops the bundle of a lost peer's endpoint.
pub fn drop_bundle<L: BundlingLane>(lane: &mut L, endpoint: u32) {
    if let Some((buffer, _)) = lane.outgoing(endpoint).bundle.take() {
        lane.give_buffer(buffer);
        forget(lane, endpoint);
    }
}

/// Removes an endpoint from the list of those with a bundle.
fn forget<L: BundlingLane>(lane: &mut L, endpoint: u32) {
    lane.bundles().endpoints.retain(|&other| other != endpoint);
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
        let mut random = fastrand::Rng::with_seed(1);
        for len in 0..300 {
            let bytes: Vec<u8> = (0..len).map(|_| random.u8(..16)).collect();
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
