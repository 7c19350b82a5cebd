//! The rate of a server. One that sends a byte from time to time is never silent, but would keep this process for ever.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http_body::{Body, Frame, SizeHint};

use crate::Fault;

/// Minimum rate in bytes per second.
const LEAST: u64 = 1024;

/// The bytes of a response, and the time that this process has waited for them, within a period.
#[derive(Debug)]
pub(crate) struct Pace {
    period: Duration,
    waited: Duration,
    received: u64,
}

impl Pace {
    pub(crate) fn of(period: Duration) -> Self {
        Self { period, waited: Duration::ZERO, received: 0 }
    }

    /// Adds bytes for which this process has waited.
    ///
    /// # Errors
    /// [`Fault::Slow`] if the rate was too low in a period.
    pub(crate) fn receive(&mut self, bytes: u64, waited: Duration) -> Result<(), Fault> {
        (self.received, self.waited) = (self.received + bytes, self.waited + waited);
        if self.waited < self.period {
            return Ok(());
        }
        let rate = self.received as u128 * 1000 / self.waited.as_millis().max(1);
        *self = Self::of(self.period);
        match rate < u128::from(LEAST) {
            true => Err(Fault::Slow { least: LEAST, seconds: self.period.as_secs() }),
            false => Ok(()),
        }
    }
}

/// A body whose rate is checked while this process waits for it.
#[derive(Debug)]
pub(crate) struct Paced<B> {
    body: B,
    pace: Pace,
    since: Option<Instant>,
}

impl<B> Paced<B> {
    pub(crate) fn new(body: B, pace: Pace) -> Self {
        Self { body, pace, since: None }
    }
}

/// The error of a paced body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stopped<E> {
    #[error(transparent)]
    Body(E),
    #[error(transparent)]
    Slow(Fault),
}

impl<B: Body<Data = bytes::Bytes> + Unpin> Body for Paced<B> {
    type Data = B::Data;
    type Error = Stopped<B::Error>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        let since = *this.since.get_or_insert_with(Instant::now);
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        this.since = None;
        let Some(frame) = frame else { return Poll::Ready(None) };
        let frame = frame.map_err(Stopped::Body)?;
        let len = frame.data_ref().map_or(0, |data| data.len() as u64);
        this.pace.receive(len, since.elapsed()).map_err(Stopped::Slow)?;
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
