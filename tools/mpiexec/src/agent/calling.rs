//! The call of an agent to its parent.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use netmod_kit::admission::{Keys, Role};

use crate::system::{self, Signals};
use crate::wire::greeting::Greeting;
use crate::wire::link::{Link, introduce};
use crate::wire::messages::{Down, Plan};

/// Time for the line on standard input.
const LINE: Duration = Duration::from_secs(30);
/// Time for one attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(2);
/// Time for the other end to prove the secret.
const ANSWER: Duration = Duration::from_secs(5);
/// Time for which an agent calls its parent again that dropped its connection.
const AGAIN: Duration = Duration::from_secs(10);
/// Pause between two such calls.
const PAUSE: Duration = Duration::from_millis(20);
/// The reason of an agent whose parent has ended the connection before it sent a plan.
pub const HUNG_UP: &str = "the parent has hung up";
/// Most bytes of the line.
const LONGEST: usize = 64 * 1024;

/// Calls the parent that the line on standard input names. Returns the connection and the plan.
///
/// The parent drops connections without a proof for newer ones. If it has read no proof in time, an agent
/// finds its connection ended after it has sent its proof, and calls again.
pub fn parent() -> Result<(Link, Plan), String> {
    let greeting = Greeting::read(&line()?)?;
    let mut until = Instant::now() + Duration::from_secs(greeting.patience.max(1).into());
    let (mut stream, mut keys) = call(&greeting, until)?;
    let mut is_again = false;
    loop {
        let link = Link::new(stream, &keys, Role::Initiator).map_err(|error| error.to_string())?;
        if let Some(planned) = plan(link, until, None)? {
            return Ok(planned);
        }
        if !is_again {
            until = until.min(Instant::now() + AGAIN);
            is_again = true;
        }
        std::thread::sleep(PAUSE);
        (stream, keys) = call(&greeting, until).map_err(|_| HUNG_UP.to_owned())?;
    }
}

/// Waits until `until` for the plan on a connection to the parent. A signal of `signals` ends this process.
/// Returns `None` if the parent has ended the connection before.
pub fn plan(
    mut link: Link,
    until: Instant,
    signals: Option<&Signals>,
) -> Result<Option<(Link, Plan)>, String> {
    loop {
        match link.next::<Down>() {
            Ok(Some(Down::Plan { plan })) => return Ok(Some((link, *plan))),
            Ok(None) => {}
            _ => return Err("the parent sent something that is no plan".to_owned()),
        }
        if !link.is_open() {
            return Ok(None);
        }
        let wait = until.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return Err("the parent sent no plan".to_owned());
        }
        let signalled = signals.map(Signals::descriptor);
        let mut entries: Vec<libc::pollfd> = [link.descriptor()]
            .into_iter()
            .chain(signalled)
            .map(|fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        let wait = i32::try_from(wait.as_millis() + 1).unwrap_or(i32::MAX);
        system::poll(&mut entries, wait);
        if let Some(signals) = signals {
            signals.obey();
        }
        link.read();
    }
}

fn line() -> Result<String, String> {
    let until = Instant::now() + LINE;
    let mut line = Vec::new();
    let mut buffer = [0u8; 512];
    loop {
        let wait = until.saturating_duration_since(Instant::now());
        let mut entry = [libc::pollfd {
            fd: 0,
            events: libc::POLLIN,
            revents: 0,
        }];
        system::poll(&mut entry, wait.as_millis() as i32 + 1);
        if entry[0].revents == 0 && wait.is_zero() {
            return Err(
                "nothing has come over standard input, which the command that starts an \
                 agent must pass on (kubectl exec needs -i)"
                    .to_owned(),
            );
        }
        if entry[0].revents != 0 {
            match system::read(0, &mut buffer) {
                Ok(0) => break,
                Ok(n) => line.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("can't read standard input: {e}")),
            }
        }
        if line.contains(&b'\n') || line.len() > LONGEST {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Tries the parent's addresses until one proves the secret.
fn call(greeting: &Greeting, until: Instant) -> Result<(TcpStream, Keys), String> {
    let mut addresses = greeting.addresses.clone();
    // The address that ssh came from is the likeliest to lead back.
    if let Some(from) = caller(|name| std::env::var(name).ok())
        && let Some(port) = addresses.first().map(SocketAddr::port)
    {
        let known = addresses.iter().position(|address| address.ip() == from);
        match known {
            Some(at) => addresses[..=at].rotate_right(1),
            None => addresses.push(SocketAddr::new(from, port)),
        }
    }
    let mut refused: Vec<String>;
    loop {
        refused = Vec::new();
        for address in &addresses {
            let attempt = || {
                let stream = TcpStream::connect_timeout(address, ATTEMPT)?;
                stream.set_nodelay(true)?;
                let keys = introduce(&stream, ANSWER, greeting.host, &greeting.secret)?;
                Ok((stream, keys))
            };
            match attempt() {
                Ok(both) => return Ok(both),
                Err(error) => {
                    let error: std::io::Error = error;
                    refused.push(format!("{address}: {error}"));
                }
            }
            if Instant::now() >= until {
                break;
            }
        }
        if is_deserted() {
            return Err("the process that started this agent has ended".to_owned());
        }
        if Instant::now() + Duration::from_millis(200) >= until {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Err(format!(
        "the host that started this agent can't be reached from here ({}); a firewall may need \
         MPIEXEC_PORT_RANGE=40000:40099, another network -iface",
        refused.join(", ")
    ))
}

/// Returns whether the readers of this process's output are gone, that is the command that started it
/// and most likely the process that ran it.
fn is_deserted() -> bool {
    let mut entries = [1, 2].map(|fd| libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    });
    system::poll(&mut entries, 0);
    let gone = libc::POLLERR | libc::POLLHUP;
    entries.iter().any(|entry| entry.revents & gone != 0)
}

/// Returns the caller's address, as ssh reports it.
fn caller(variable: impl Fn(&str) -> Option<String>) -> Option<IpAddr> {
    let text = variable("SSH_CONNECTION").or_else(|| variable("SSH_CLIENT"))?;
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_tells_who_calls() {
        let told = |text: &str| {
            let text = text.to_owned();
            caller(move |name| (name == "SSH_CONNECTION").then(|| text.clone()))
        };
        assert_eq!(told("10.0.0.1 5 10.0.0.2 22"), "10.0.0.1".parse().ok());
        assert_eq!(told("x"), None);
        assert_eq!(caller(|_| None), None);
    }
}
