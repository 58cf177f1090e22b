//! System calls for agents on other hosts, each behind a safe function.
#![allow(
    unsafe_code,
    reason = "with crate::system the one place of this program that calls libc"
)]

use std::ffi::CStr;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

/// Makes `command` start with no signal blocked, with the ignored signals of this process's start, in a
/// process group of its own, and get SIGTERM when this process ends.
pub fn prepare(command: &mut Command) {
    command.process_group(0);
    // SAFETY: getpid can't fail.
    let parent = unsafe { libc::getpid() };
    let prepare = move || {
        // SAFETY: plain system calls on values and a local, fit to run between fork and exec.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            if libc::getppid() != parent {
                libc::_exit(1);
            }
            let mut none: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        }
        crate::system::give_quit_back();
        Ok(())
    };
    // SAFETY: the closure makes async-signal-safe system calls only, takes no lock and does not allocate.
    unsafe { command.pre_exec(prepare) };
}

/// Returns the addresses of interfaces that are up, each with the interface's name; those of `lo` last.
pub fn addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: fills the pointer with a list that freeifaddrs takes back.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut at = list;
    while !at.is_null() {
        // SAFETY: `at` is an entry of the list, which lives until it is freed below.
        let entry = unsafe { &*at };
        at = entry.ifa_next;
        let up = entry.ifa_flags & libc::IFF_UP as u32 != 0;
        if !up || entry.ifa_addr.is_null() {
            continue;
        }
        // SAFETY: the name is a C string of the list; the address has the type of its family, which
        // is read first.
        let (name, address) = unsafe {
            let name = CStr::from_ptr(entry.ifa_name);
            let address = match i32::from((*entry.ifa_addr).sa_family) {
                libc::AF_INET => {
                    let address = &*entry.ifa_addr.cast::<libc::sockaddr_in>();
                    IpAddr::from(Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes()))
                }
                libc::AF_INET6 => {
                    let address = &*entry.ifa_addr.cast::<libc::sockaddr_in6>();
                    IpAddr::from(Ipv6Addr::from(address.sin6_addr.s6_addr))
                }
                _ => continue,
            };
            (name.to_string_lossy().into_owned(), address)
        };
        // Addresses of one cable only need the name of the interface at the other end as well.
        let of_a_cable = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        if !of_a_cable {
            found.push((name, address));
        }
    }
    // SAFETY: the list that getifaddrs gave us, not used any more.
    unsafe { libc::freeifaddrs(list) };
    found.sort_by_key(|(_, address)| (address.is_loopback(), address.is_ipv6()));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_an_address() {
        let all = addresses().unwrap();
        assert!(
            all.iter()
                .any(|(name, address)| name == "lo" && address.is_loopback())
        );
    }
}
