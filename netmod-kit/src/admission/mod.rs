//! Admits connections only after both ends have proved a shared secret.
//!
//! - [`Secret`]: 32 random bytes, which reach both ends by a trusted channel (the launcher's
//!   key-value store, an agent's standard input, the name of a port).
//! - [`handshake`]: challenge and response in both directions, without I/O. The secret is never
//!   sent, and the nonces of both ends make each proof valid for one connection only. Both ends get
//!   session keys.
//! - [`Sealed`]: encrypted and authenticated frames under the session keys, for protocols that
//!   carry secrets.
//! - [`Pending`]: the unproved connections of a listener. They occupy a bounded number of slots for
//!   a bounded time, and the oldest is dropped when slots or descriptors are short.
//! - [`descriptors`]: the limit on open files.
//!
//! ```text
//!   initiator                                 responder
//!   hello = label, context, nonce      ---->
//!                                      <----  challenge = nonce, H(secret, "responds", hello, nonce)
//!   proof = H(secret, "initiates", ...) --->  admitted
//! ```
//!
//! The handshake keeps strangers out. Without [`Sealed`] it does not keep the data that follows
//! confidential or intact against an attacker who controls the network between the two hosts.

pub mod descriptors;
pub mod handshake;
mod pending;
mod sealed;
mod secret;

pub use handshake::{Initiator, Keys, NotProved, Protocol, Responder};
pub use pending::{Accepted, Admitted, Pending, Served};
pub use sealed::{Broken, Direction, Role, Sealed, TAG};
pub use secret::{Secret, random};
