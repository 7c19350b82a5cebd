//! Remote stores: their options, what they count, and hints for their errors.

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use lodstone::Location;
use lodstone::remote::{Fault, Interrupt, Options, SCHEMES};
use serde::Serialize;

use crate::args::Global;
use crate::{Failure, console};

/// The options of the running command, and whether it prints what they count.
static RUNNING: Mutex<Option<(Options, bool)>> = Mutex::new(None);

/// Whether the user has interrupted the running command.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Requests and bytes as JSON.
#[derive(Serialize)]
pub(crate) struct Counts {
    requests: u64,
    bytes_received: u64,
    bytes_sent: u64,
}

/// Sets the options of the command that begins.
pub(crate) fn configure(global: &Global) {
    INTERRUPTED.store(false, Ordering::Relaxed);
    let options = Options::default()
        .with_allow_private_addresses(global.allow_private_addresses)
        .with_interrupt(Interrupt::new(|| INTERRUPTED.load(Ordering::Relaxed)));
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = Some((options, global.stats));
}

/// Stops waiting for servers.
pub(crate) fn interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

fn running() -> (Options, bool) {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
}

/// Returns the location of an address.
pub(crate) fn at(scheme: &str, rest: &str) -> Result<Location, Failure> {
    Ok(lodstone::remote::location(&format!("{scheme}://{rest}"), &running().0)?)
}

/// Returns what the command has counted so far, if `--stats` requests it.
pub(crate) fn counts() -> Option<Counts> {
    let (options, prints) = running();
    let stats = options.stats;
    prints.then(|| Counts {
        requests: stats.requests(),
        bytes_received: stats.received(),
        bytes_sent: stats.sent(),
    })
}

/// Prints what the command has counted, if `--stats` requests it.
pub(crate) fn report() {
    if let Some(Counts { requests, bytes_received, bytes_sent }) = counts() {
        let requests = console::count(usize::try_from(requests).unwrap_or(usize::MAX), "request");
        let line = format!(
            "stats: {requests}, {bytes_received} bytes received, {bytes_sent} bytes sent\n"
        );
        console::details(line.as_bytes());
    }
}

/// Returns how the user can resolve an error of a remote store.
pub(crate) fn hint(failure: &(dyn Error + 'static)) -> Option<String> {
    let mut cause = Some(failure);
    while let Some(error) = cause {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let wrapped = inner.and_then(|inner| inner.downcast_ref());
        if let Some(fault) = error.downcast_ref().or(wrapped) {
            return of_fault(fault, &failure.to_string());
        }
        cause = error.source();
    }
    None
}

/// Returns the hint for a fault; the message names the address.
fn of_fault(fault: &Fault, message: &str) -> Option<String> {
    let is_at = |scheme: &&&str| message.contains(&format!("`{scheme}://"));
    let scheme = SCHEMES.iter().find(is_at).copied().unwrap_or_default();
    let hint = match (fault, scheme) {
        (Fault::Private { .. }, _) => {
            "pass --allow-private-addresses if you trust whoever named this host"
        }
        (Fault::NoRanges { .. }, _) => "download the file, and open it from disk",
        (Fault::Denied { .. }, "hf") => "set HF_TOKEN to a token that can read this repository",
        (Fault::Denied { .. } | Fault::Configuration(_), "s3") => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket"
        }
        (Fault::Denied { .. }, "gs") => {
            "set GOOGLE_SERVICE_ACCOUNT, or GOOGLE_SKIP_SIGNATURE=true for a public bucket"
        }
        (Fault::Denied { .. }, "az") => {
            "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or AZURE_SKIP_SIGNATURE=true \
             for a public container"
        }
        (Fault::Unreachable(_) | Fault::Network(_) | Fault::Status { .. }, "s3") => {
            "check AWS_REGION and AWS_ENDPOINT_URL"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}
