//! Leases of containers and blobs: what can be asked of them and how they are shown.
//!
//! A lease is data, not a timer: its state is a function of what is stored and the time.

use crate::Guid;

/// The id of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId(pub Guid);

impl std::fmt::Display for LeaseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// How long a lease lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseDuration {
    /// Until it is released or broken (`-1`).
    Infinite,
    /// So many seconds, 15 to 60.
    Seconds(u8),
}

/// What is asked of a lease (`x-ms-lease-action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum LeaseAction {
    Acquire {
        duration: LeaseDuration,
        proposed: Option<LeaseId>,
    },
    Renew(LeaseId),
    Change {
        id: LeaseId,
        proposed: LeaseId,
    },
    Release(LeaseId),
    /// Within so many seconds, 0 to 60; without them when the lease would end.
    Break {
        period_seconds: Option<u8>,
    },
}

/// What became of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum LeaseDone {
    Acquired(LeaseId),
    Renewed(LeaseId),
    Changed(LeaseId),
    Released,
    /// With the seconds that are left.
    Broken {
        seconds_left: u32,
    },
}

/// The state of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum LeaseState {
    #[default]
    Available,
    Leased,
    Expired,
    Breaking,
    Broken,
}

impl LeaseState {
    /// As headers and listings have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Leased => "leased",
            Self::Expired => "expired",
            Self::Breaking => "breaking",
            Self::Broken => "broken",
        }
    }

    /// Whether writes need the id of the lease.
    pub fn is_locked(self) -> bool {
        matches!(self, Self::Leased | Self::Breaking)
    }

    /// `locked` or `unlocked`.
    pub fn status(self) -> &'static str {
        if self.is_locked() { "locked" } else { "unlocked" }
    }
}

/// A lease as properties show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseShown {
    /// Its state now.
    pub state: LeaseState,
    /// How long it lasts; shown while it is leased.
    pub duration: Option<LeaseDuration>,
}

impl LeaseDuration {
    /// `infinite` or `fixed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Infinite => "infinite",
            Self::Seconds(_) => "fixed",
        }
    }
}
