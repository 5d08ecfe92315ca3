//! Who is signed in.
//!
//! A session is a random name in a cookie that scripts cannot read and other sites cannot cause to be sent. It opens
//! accounts: those whose key was shown, as long as they have that key; all of them, if the console token was shown, as
//! long as it is the token; and where the console faces this machine only, those whose key is public in any case.
//! Sessions are bounded in number and time, and end with the process. Of too many those go first to which nobody has
//! signed in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tavola_auth::{Account, Accounts, KeyProof};
use tavola_model::{AccountName, Clock, RandomSource};

const SESSIONS_MAX: usize = 256;
const IDLE_TIME_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Accounts that one session can be signed in to by key.
const PROOFS_MAX: usize = 32;

/// All sessions.
pub(crate) struct Sessions {
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
    by_name: Mutex<HashMap<String, Session>>,
}

/// One session.
#[derive(Clone)]
pub(crate) struct Session {
    /// The token that every change must carry.
    pub csrf: String,
    /// Opens accounts whose key is public.
    is_open: bool,
    /// The console token that was shown.
    token: Option<String>,
    proofs: HashMap<AccountName, KeyProof>,
    last_used: Duration,
}

impl Session {
    /// Of somebody who has shown nothing.
    pub fn nobody() -> Self {
        Self {
            csrf: String::new(),
            is_open: false,
            token: None,
            proofs: HashMap::new(),
            last_used: Duration::ZERO,
        }
    }

    /// Whether somebody has signed in to it.
    fn is_signed_in(&self) -> bool {
        self.token.is_some() || !self.proofs.is_empty()
    }

    /// Whether it opens an account now. `token` is the console token of now.
    pub fn opens(&self, account: &Account, token: Option<&str>) -> bool {
        self.is_open && account.has_public_key()
            || self.token.is_some() && self.token.as_deref() == token
            || self.proofs.get(account.name()).is_some_and(|proof| account.accepts(proof))
    }

    /// The names of the accounts that it opens now, in order.
    pub fn opened<'a>(&self, accounts: &'a Accounts, token: Option<&str>) -> Vec<&'a Account> {
        let mut opened: Vec<&Account> =
            accounts.iter().filter(|account| self.opens(account, token)).collect();
        opened.sort_by_key(|account| account.name().as_str());
        opened
    }
}

/// What someone shows to sign in.
pub(crate) enum Shown {
    /// Nothing: an open session.
    Nothing,
    /// The console token, which was compared.
    Token(String),
    /// A key of an account.
    Key(AccountName, KeyProof),
}

impl Sessions {
    pub fn new(clock: Arc<dyn Clock>, random: Arc<dyn RandomSource>) -> Self {
        Self { clock, random, by_name: Mutex::default() }
    }

    /// The session of this name, which is in use now.
    pub fn find(&self, name: &str) -> Option<Session> {
        let now = self.clock.monotonic();
        let mut sessions = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get_mut(name)?;
        if now.saturating_sub(session.last_used) > IDLE_TIME_MAX {
            sessions.remove(name);
            return None;
        }
        session.last_used = now;
        Some(session.clone())
    }

    /// Adds what was shown to the session of this name, if there is one, in a new session with a name of its own: a name
    /// that was known before nobody had signed in opens nothing. Gives the new name.
    pub fn sign_in(&self, old: Option<&str>, shown: Shown, is_open: bool) -> (String, Session) {
        let now = self.clock.monotonic();
        let (name, csrf) = (self.secret(), self.secret());
        let mut sessions = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let old = old.and_then(|old| sessions.remove(old));
        let mut session = old.unwrap_or_else(Session::nobody);
        (session.csrf, session.last_used, session.is_open) = (csrf, now, is_open);
        match shown {
            Shown::Nothing => {}
            Shown::Token(token) => session.token = Some(token),
            Shown::Key(account, proof) if session.proofs.len() < PROOFS_MAX => {
                session.proofs.insert(account, proof);
            }
            Shown::Key(..) => {}
        }
        sessions.retain(|_, session| now.saturating_sub(session.last_used) <= IDLE_TIME_MAX);
        if sessions.len() >= SESSIONS_MAX
            && let Some(oldest) =
                sessions.iter().min_by_key(|(_, session)| (session.is_signed_in(), session.last_used))
        {
            let oldest = oldest.0.clone();
            sessions.remove(&oldest);
        }
        sessions.insert(name.clone(), session.clone());
        (name, session)
    }

    /// Ends a session.
    pub fn sign_out(&self, name: &str) {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// 256 random bits as text.
    fn secret(&self) -> String {
        let mut out = String::with_capacity(64);
        for _ in 0..4 {
            for byte in self.random.bytes() {
                out.push_str(&format!("{byte:02x}"));
            }
        }
        out
    }
}

/// Compares two secrets in a time that says nothing about where they differ.
pub(crate) fn same_secret(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    left.len() == right.len() && left.iter().zip(right).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_system::{SystemClock, SystemRandom};

    #[test]
    fn sessions_without_a_sign_in_never_push_out_one_with() {
        let sessions = Sessions::new(Arc::new(SystemClock), Arc::new(SystemRandom));
        let (signed_in, _) = sessions.sign_in(None, Shown::Token("the token".into()), false);
        for _ in 0..2 * SESSIONS_MAX {
            sessions.sign_in(None, Shown::Nothing, true);
        }
        assert!(sessions.find(&signed_in).is_some());
        assert_eq!(sessions.by_name.lock().unwrap().len(), SESSIONS_MAX);
    }
}
