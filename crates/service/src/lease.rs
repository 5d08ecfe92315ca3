//! Leases on blobs and containers: what is stored, and what each action makes of it.
//!
//! A lease is data, not a timer. Its state is a function of the stored lease and the time, so nothing has to run when
//! a lease ends, and a restart changes nothing. The tables are those of
//! <https://learn.microsoft.com/rest/api/storageservices/lease-blob#remarks>.

use tavola_model::{
    DateTime, ErrorCode, Guid, LeaseAction, LeaseDone, LeaseDuration, LeaseId, LeaseShown, LeaseState,
    ServiceError,
};

use crate::codec::{Reader, put_time};

/// A lease as a record keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// Whoever gives this id holds it.
    id: LeaseId,
    /// What it was taken for.
    duration: LeaseDuration,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Held until then.
    Held(DateTime),
    /// It was broken and ends then.
    Broken(DateTime),
}

/// What is leased, for the words of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leased {
    Blob,
    Container,
}

impl Leased {
    /// A refusal in the words for what is leased.
    pub fn refusal(self, code: ErrorCode) -> ServiceError {
        match self {
            Self::Blob => ServiceError::new(code),
            Self::Container => ServiceError::with_message(code, code.message_of_container()),
        }
    }
}

impl Lease {
    /// The state of a lease, or of none.
    pub fn state(lease: Option<&Self>, now: DateTime) -> LeaseState {
        match lease.map(|lease| lease.phase) {
            None => LeaseState::Available,
            Some(Phase::Held(until)) if until <= now => LeaseState::Expired,
            Some(Phase::Held(_)) => LeaseState::Leased,
            Some(Phase::Broken(until)) if until <= now => LeaseState::Broken,
            Some(Phase::Broken(_)) => LeaseState::Breaking,
        }
    }

    /// A lease, or none, as properties show it.
    pub fn show(lease: Option<&Self>, now: DateTime) -> LeaseShown {
        let state = Self::state(lease, now);
        let duration = lease.filter(|_| state == LeaseState::Leased).map(|lease| lease.duration);
        LeaseShown { state, duration }
    }

    /// What an action makes of a lease, and how that is answered. `fresh` is the id of a new lease whose client
    /// proposes none.
    pub fn apply(
        lease: Option<&Self>,
        action: LeaseAction,
        fresh: LeaseId,
        now: DateTime,
    ) -> Result<(Option<Lease>, LeaseDone), ErrorCode> {
        match action {
            LeaseAction::Acquire { duration, proposed } => {
                let lease = acquire(lease, duration, proposed, fresh, now)?;
                Ok((Some(lease), LeaseDone::Acquired(lease.id)))
            }
            LeaseAction::Renew(id) => {
                let lease = renew(lease, id, now)?;
                Ok((Some(lease), LeaseDone::Renewed(id)))
            }
            LeaseAction::Change { id, proposed } => {
                let lease = change(lease, id, proposed, now)?;
                Ok((Some(lease), LeaseDone::Changed(proposed)))
            }
            LeaseAction::Release(id) => match lease {
                Some(lease) if lease.id == id => Ok((None, LeaseDone::Released)),
                _ => Err(ErrorCode::LeaseIdMismatchWithLeaseOperation),
            },
            LeaseAction::Break { period_seconds } => {
                let (lease, seconds_left) = end(lease, period_seconds, now)?;
                Ok((Some(lease), LeaseDone::Broken { seconds_left }))
            }
        }
    }

    /// Whether a request that gives this lease id, or none, may write. What comes back is the lease afterwards: a
    /// write forgets one that is over.
    pub fn admit_write(
        lease: Option<&Self>,
        given: Option<LeaseId>,
        leased: Leased,
        now: DateTime,
    ) -> Result<Option<Lease>, ErrorCode> {
        let held = Self::state(lease, now).is_locked();
        if held && given.is_none() {
            return Err(ErrorCode::LeaseIdMissing);
        }
        Self::admit_read(lease, given, leased, now)?;
        Ok(lease.filter(|_| held).copied())
    }

    /// Whether a request that gives this lease id, or none, may read.
    pub fn admit_read(
        lease: Option<&Self>,
        given: Option<LeaseId>,
        leased: Leased,
        now: DateTime,
    ) -> Result<(), ErrorCode> {
        let Some(given) = given else { return Ok(()) };
        let Some(lease) = lease else {
            return Err(match leased {
                Leased::Blob => ErrorCode::LeaseNotPresentWithBlobOperation,
                Leased::Container => ErrorCode::LeaseNotPresentWithContainerOperation,
            });
        };
        if lease.id != given {
            return Err(match leased {
                Leased::Blob => ErrorCode::LeaseIdMismatchWithBlobOperation,
                Leased::Container => ErrorCode::LeaseIdMismatchWithContainerOperation,
            });
        }
        if Self::state(Some(lease), now).is_locked() { Ok(()) } else { Err(ErrorCode::LeaseLost) }
    }

    pub fn put(out: &mut Vec<u8>, lease: &Self) {
        out.extend_from_slice(&lease.id.0.0);
        out.push(match lease.duration {
            LeaseDuration::Infinite => 0,
            LeaseDuration::Seconds(seconds) => seconds,
        });
        let (tag, until) = match lease.phase {
            Phase::Held(until) => (0, until),
            Phase::Broken(until) => (1, until),
        };
        out.push(tag);
        put_time(out, until);
    }

    pub fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let id = LeaseId(Guid(reader.array()?));
        let [seconds, tag]: [u8; 2] = reader.array()?;
        let duration = if seconds == 0 { LeaseDuration::Infinite } else { LeaseDuration::Seconds(seconds) };
        let until = reader.time()?;
        let phase = match tag {
            0 => Phase::Held(until),
            1 => Phase::Broken(until),
            _ => return None,
        };
        Some(Self { id, duration, phase })
    }

    fn held(id: LeaseId, duration: LeaseDuration, now: DateTime) -> Self {
        let until = match duration {
            LeaseDuration::Infinite => DateTime::MAX,
            LeaseDuration::Seconds(seconds) => later(now, seconds),
        };
        Self { id, duration, phase: Phase::Held(until) }
    }
}

fn acquire(
    lease: Option<&Lease>,
    duration: LeaseDuration,
    proposed: Option<LeaseId>,
    fresh: LeaseId,
    now: DateTime,
) -> Result<Lease, ErrorCode> {
    let is_same = proposed.is_some() && lease.map(|lease| lease.id) == proposed;
    match Lease::state(lease, now) {
        LeaseState::Leased | LeaseState::Breaking if !is_same => Err(ErrorCode::LeaseAlreadyPresent),
        LeaseState::Breaking => Err(ErrorCode::LeaseIsBreakingAndCannotBeAcquired),
        LeaseState::Available | LeaseState::Leased | LeaseState::Expired | LeaseState::Broken => {
            Ok(Lease::held(proposed.unwrap_or(fresh), duration, now))
        }
    }
}

fn renew(lease: Option<&Lease>, id: LeaseId, now: DateTime) -> Result<Lease, ErrorCode> {
    let lease = lease.filter(|lease| lease.id == id).ok_or(ErrorCode::LeaseIdMismatchWithLeaseOperation)?;
    match Lease::state(Some(lease), now) {
        // A write since it expired would have removed it.
        LeaseState::Leased | LeaseState::Expired => Ok(Lease::held(id, lease.duration, now)),
        LeaseState::Available | LeaseState::Breaking | LeaseState::Broken => {
            Err(ErrorCode::LeaseIsBrokenAndCannotBeRenewed)
        }
    }
}

fn change(lease: Option<&Lease>, id: LeaseId, proposed: LeaseId, now: DateTime) -> Result<Lease, ErrorCode> {
    let state = Lease::state(lease, now);
    let lease = lease.filter(|_| state.is_locked()).ok_or(ErrorCode::LeaseNotPresentWithLeaseOperation)?;
    // Whoever asks a second time, because the first answer was lost, gives the former id.
    if lease.id != id && lease.id != proposed {
        return Err(ErrorCode::LeaseIdMismatchWithLeaseOperation);
    }
    if state == LeaseState::Breaking {
        return Err(ErrorCode::LeaseIsBreakingAndCannotBeChanged);
    }
    Ok(Lease { id: proposed, ..*lease })
}

fn end(lease: Option<&Lease>, period: Option<u8>, now: DateTime) -> Result<(Lease, u32), ErrorCode> {
    let state = Lease::state(lease, now);
    let lease = lease.ok_or(ErrorCode::LeaseNotPresentWithLeaseOperation)?;
    let until = match (state, lease.phase, lease.duration) {
        (LeaseState::Leased, Phase::Held(_), LeaseDuration::Infinite) => later(now, period.unwrap_or(0)),
        // What is left of it is never made longer.
        (LeaseState::Leased | LeaseState::Breaking, Phase::Held(until) | Phase::Broken(until), _) => {
            period.map_or(until, |period| until.min(later(now, period)))
        }
        _ => now,
    };
    let seconds_left = u32::try_from(until.seconds_between(now)).unwrap_or(u32::MAX);
    Ok((Lease { phase: Phase::Broken(until), ..*lease }, seconds_left))
}

fn later(now: DateTime, seconds: u8) -> DateTime {
    now.plus_seconds(u64::from(seconds)).unwrap_or(DateTime::MAX)
}

#[cfg(test)]
impl Lease {
    /// A lease that is held and one that was broken, for fixtures of what has one.
    pub(crate) fn held_and_broken(now: DateTime) -> [Self; 2] {
        let infinite = Self::held(LeaseId(Guid([0xB; 16])), LeaseDuration::Infinite, now);
        let (broken, _) = end(Some(&infinite), Some(20), now).unwrap();
        [Self::held(LeaseId(Guid([0xA; 16])), LeaseDuration::Seconds(15), now), broken]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: LeaseId = LeaseId(Guid([0xA; 16]));
    const B: LeaseId = LeaseId(Guid([0xB; 16]));
    const C: LeaseId = LeaseId(Guid([0xC; 16]));
    const FRESH: LeaseId = LeaseId(Guid([0xF; 16]));
    const STATES: [&str; 5] = ["available", "leased", "breaking", "broken", "expired"];

    fn now() -> DateTime {
        DateTime::from_ticks(638_000_000_000_000_000).unwrap()
    }

    /// A lease of A in a state; breaking has ten seconds left and leased thirty.
    fn in_state(state: &str) -> Option<Lease> {
        let duration = LeaseDuration::Seconds(30);
        let past = DateTime::from_ticks(now().ticks() - 1).unwrap();
        let phase = match state {
            "available" => return None,
            "leased" => Phase::Held(later(now(), 30)),
            "breaking" => Phase::Broken(later(now(), 10)),
            "broken" => Phase::Broken(past),
            "expired" => Phase::Held(past),
            other => panic!("{other}"),
        };
        Some(Lease { id: A, duration, phase })
    }

    fn shown(lease: Option<&Lease>) -> String {
        let id = lease.map_or(String::new(), |lease| match lease.id {
            A => " A".into(),
            B => " B".into(),
            FRESH => " fresh".into(),
            other => format!(" {other}"),
        });
        format!("{}{id}", Lease::state(lease, now()).as_str())
    }

    fn check(action: LeaseAction, expected: [&str; 5]) {
        for (state, expected) in STATES.into_iter().zip(expected) {
            let lease = in_state(state);
            assert_eq!(shown(lease.as_ref()).split(' ').next(), Some(state));
            let result = match Lease::apply(lease.as_ref(), action, FRESH, now()) {
                Ok((lease, _)) => shown(lease.as_ref()),
                Err(code) => code.as_str().to_owned(),
            };
            assert_eq!(result, expected, "{action:?} on {state}");
        }
    }

    #[test]
    fn every_action_on_every_state_gives_what_the_table_of_the_service_says() {
        const PRESENT: &str = "LeaseAlreadyPresent";
        const NONE: &str = "LeaseNotPresentWithLeaseOperation";
        const OTHER: &str = "LeaseIdMismatchWithLeaseOperation";
        const BROKEN: &str = "LeaseIsBrokenAndCannotBeRenewed";
        let acquire = |proposed| LeaseAction::Acquire { duration: LeaseDuration::Seconds(15), proposed };
        check(acquire(None), ["leased fresh", PRESENT, PRESENT, "leased fresh", "leased fresh"]);
        check(
            acquire(Some(A)),
            ["leased A", "leased A", "LeaseIsBreakingAndCannotBeAcquired", "leased A", "leased A"],
        );
        check(acquire(Some(B)), ["leased B", PRESENT, PRESENT, "leased B", "leased B"]);
        check(
            LeaseAction::Break { period_seconds: Some(0) },
            [NONE, "broken A", "broken A", "broken A", "broken A"],
        );
        check(
            LeaseAction::Break { period_seconds: Some(5) },
            [NONE, "breaking A", "breaking A", "broken A", "broken A"],
        );
        check(
            LeaseAction::Break { period_seconds: None },
            [NONE, "breaking A", "breaking A", "broken A", "broken A"],
        );
        let change = |id, proposed| LeaseAction::Change { id, proposed };
        check(change(A, B), [NONE, "leased B", "LeaseIsBreakingAndCannotBeChanged", NONE, NONE]);
        check(change(B, A), [NONE, "leased A", "LeaseIsBreakingAndCannotBeChanged", NONE, NONE]);
        check(change(B, C), [NONE, OTHER, OTHER, NONE, NONE]);
        check(LeaseAction::Renew(A), [OTHER, "leased A", BROKEN, BROKEN, "leased A"]);
        check(LeaseAction::Renew(B), [OTHER; 5]);
        check(LeaseAction::Release(A), [OTHER, "available", "available", "available", "available"]);
        check(LeaseAction::Release(B), [OTHER; 5]);
    }

    #[test]
    fn every_use_in_every_state_gives_what_the_table_of_the_service_says() {
        const NONE: &str = "LeaseNotPresentWithBlobOperation";
        const OTHER: &str = "LeaseIdMismatchWithBlobOperation";
        let check = |given, write: [&str; 5], read: [&str; 5]| {
            for (at, state) in STATES.into_iter().enumerate() {
                let lease = in_state(state);
                let written = match Lease::admit_write(lease.as_ref(), given, Leased::Blob, now()) {
                    Ok(lease) => shown(lease.as_ref()),
                    Err(code) => code.as_str().to_owned(),
                };
                assert_eq!(written, write[at], "write with {given:?} on {state}");
                let seen = Lease::admit_read(lease.as_ref(), given, Leased::Blob, now());
                assert_eq!(seen.map_or_else(ErrorCode::as_str, |()| "ok"), read[at], "read on {state}");
            }
        };
        check(
            Some(A),
            [NONE, "leased A", "breaking A", "LeaseLost", "LeaseLost"],
            [NONE, "ok", "ok", "LeaseLost", "LeaseLost"],
        );
        check(Some(B), [NONE, OTHER, OTHER, OTHER, OTHER], [NONE, OTHER, OTHER, OTHER, OTHER]);
        check(None, ["available", "LeaseIdMissing", "LeaseIdMissing", "available", "available"], ["ok"; 5]);
    }

    #[test]
    fn a_break_never_makes_a_lease_longer_and_says_what_is_left() {
        let left = |lease: Option<Lease>, period_seconds| match Lease::apply(
            lease.as_ref(),
            LeaseAction::Break { period_seconds },
            FRESH,
            now(),
        ) {
            Ok((_, LeaseDone::Broken { seconds_left })) => seconds_left,
            other => panic!("{other:?}"),
        };
        assert_eq!([Some(60), Some(5), None].map(|period| left(in_state("leased"), period)), [30, 5, 30]);
        assert_eq!([Some(60), Some(5), None].map(|period| left(in_state("breaking"), period)), [10, 5, 10]);
        let infinite = Some(Lease::held(A, LeaseDuration::Infinite, now()));
        assert_eq!([Some(60), Some(5), None].map(|period| left(infinite, period)), [60, 5, 0]);
        assert_eq!(left(in_state("expired"), Some(60)), 0);
    }

    #[test]
    fn a_refusal_names_what_is_leased() {
        let check = |code: ErrorCode, blob: &str, container: &str| {
            assert_eq!(Leased::Blob.refusal(code).message, blob);
            assert_eq!(Leased::Container.refusal(code).message, container);
        };
        check(
            ErrorCode::LeaseIdMismatchWithLeaseOperation,
            "The lease ID specified did not match the lease ID for the blob.",
            "The lease ID specified did not match the lease ID for the container.",
        );
        check(
            ErrorCode::LeaseIdMissing,
            "There is currently a lease on the blob and no lease ID was specified in the request.",
            "There is currently a lease on the container and no lease ID was specified in the request.",
        );
        check(
            ErrorCode::LeaseLost,
            "A lease ID was specified, but the lease for the blob has expired.",
            "A lease ID was specified, but the lease for the container has expired.",
        );
        check(
            ErrorCode::LeaseNotPresentWithLeaseOperation,
            "There is currently no lease on the blob.",
            "There is currently no lease on the container.",
        );
        for code in [ErrorCode::LeaseAlreadyPresent, ErrorCode::LeaseIsBrokenAndCannotBeRenewed] {
            check(code, code.message(), code.message());
        }
    }

    #[test]
    fn a_lease_reads_back_as_it_was_written() {
        let infinite = Some(Lease::held(A, LeaseDuration::Infinite, now()));
        for lease in STATES.map(in_state).into_iter().chain([infinite]).flatten() {
            let mut bytes = vec![1];
            Lease::put(&mut bytes, &lease);
            let mut reader = Reader::of_version(&bytes, 1).unwrap();
            assert_eq!(Lease::read(&mut reader), Some(lease));
            assert!(reader.is_done());
        }
    }
}
