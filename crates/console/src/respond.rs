//! Every path of the console, and what it needs.
//!
//! | path | needs | answers |
//! |---|---|---|
//! | `/`, `/app.js`, `/app.css`, `/icon.svg` | nothing | the pages |
//! | `/api/session` | nothing | who is signed in; `POST` signs in, `DELETE` signs out |
//! | `/api/events` | a session | the event stream (`events.rs`) |
//! | `/api/…` | a session and its token | what `api.rs` lists |
//! | `/data/SERVICE/ACCOUNT/…` | a session for the account, and its token | a request of a storage service (`data.rs`) |
//!
//! A blob can be read without the token, because a browser saves a file by following a link; reading one changes nothing.

use std::net::IpAddr;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderValue, LOCATION, SET_COOKIE,
};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tavola_model::AccountName;

use crate::body::{self, AnswerBody};
use crate::guard::{self, AnswerContent, CSRF_HEADER, GuardRefusal};
use crate::listen::Console;
use crate::session::{Session, Shown, same_secret};
use crate::{api, assets, data, events};

pub(crate) type Answer = Response<AnswerBody>;

const SIGN_IN_BYTES_MAX: usize = 16 * 1024;

/// A request with the session it belongs to.
pub(crate) struct ConsoleVisit {
    pub session_name: String,
    pub session: Session,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub address: IpAddr,
    /// Whether it came over TLS.
    pub is_secure: bool,
}

/// Answers one request.
pub(crate) async fn respond(console: &Console, request: Request<Incoming>, origin: Origin) -> Answer {
    let names = &console.inner.settings.host_names;
    let is_stored = request.uri().path().starts_with("/data/");
    let mut answer = match guard::check(request.method(), request.headers(), names) {
        Ok(()) if needs_tls(console, origin) => to_tls(&request),
        Ok(()) => route(console, request, origin).await,
        Err(GuardRefusal::Host) => {
            let message =
                "this console is not reached under that host name; list the name in --console-host-names";
            refuse(StatusCode::MISDIRECTED_REQUEST, "HostNotAllowed", message)
        }
        Err(GuardRefusal::Site) => refuse(StatusCode::FORBIDDEN, "CrossSite", "a request of another site"),
    };
    guard::protect(answer.headers_mut(), if is_stored { AnswerContent::Stored } else { AnswerContent::Ours });
    let headers = answer.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}

/// Keys and tokens do not go over a network in the clear where they need not.
fn needs_tls(console: &Console, origin: Origin) -> bool {
    let settings = &console.inner.settings;
    settings.tls.is_some() && !settings.is_loopback && !origin.is_secure
}

/// Sends a browser to the same address over TLS. Its host was checked.
fn to_tls(request: &Request<Incoming>) -> Answer {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let mut answer = refuse(StatusCode::PERMANENT_REDIRECT, "SecureConnectionRequired", "ask over TLS");
    if let Ok(address) = HeaderValue::from_str(&format!("https://{host}{path}")) {
        answer.headers_mut().insert(LOCATION, address);
    }
    answer
}

async fn route(console: &Console, request: Request<Incoming>, origin: Origin) -> Answer {
    let path = request.uri().path().to_owned();
    if let Some(asset) = assets::find(&path) {
        return match *request.method() {
            Method::GET | Method::HEAD => assets::answer(asset, request.headers()),
            _ => not_allowed("GET"),
        };
    }
    if path == "/api/session" {
        return session(console, request, origin).await;
    }
    if !path.starts_with("/api/") && !path.starts_with("/data/") {
        return refuse(StatusCode::NOT_FOUND, "NotFound", "there is nothing here");
    }
    let Some(visit) = find_session(console, request.headers(), origin) else {
        return refuse(StatusCode::UNAUTHORIZED, "SignInRequired", "sign in first");
    };
    let is_read = request.method() == Method::GET || request.method() == Method::HEAD;
    let needs_token = !(is_read && (path == "/api/events" || path.starts_with("/data/blob/")));
    if needs_token && !carries_token(request.headers(), &visit.session) {
        return refuse(
            StatusCode::FORBIDDEN,
            "TokenRequired",
            "the request does not carry the token of the session",
        );
    }
    match path.as_str() {
        "/api/events" => events::stream(console, visit),
        _ if path.starts_with("/data/") => data::answer(console, &visit, request).await,
        _ => api::answer(console, &visit, request).await,
    }
}

/// The session of a request, if it has one that is valid.
fn find_session(console: &Console, headers: &HeaderMap, origin: Origin) -> Option<ConsoleVisit> {
    let session_name = cookie(headers, &cookie_name(console, origin))?;
    let session = console.inner.sessions.find(&session_name)?;
    Some(ConsoleVisit { session_name, session })
}

fn carries_token(headers: &HeaderMap, session: &Session) -> bool {
    let token = headers.get(CSRF_HEADER).and_then(|token| token.to_str().ok());
    token.is_some_and(|token| same_secret(token, &session.csrf))
}

/// Cookies do not tell ports apart, so the name does. A page that came without TLS may not replace the cookie of one
/// that came over it, so the name tells them apart too.
fn cookie_name(console: &Console, origin: Origin) -> String {
    format!("tavola_console_{}{}", console.inner.settings.port, if origin.is_secure { "_tls" } else { "" })
}

fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';'));
    let found = pairs.find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))?;
    Some(found.to_owned())
}

/// Whether a caller may look without signing in: on this machine, and not handed on by a proxy, which could be asked by
/// anybody.
fn may_look(console: &Console, headers: &HeaderMap, peer: IpAddr) -> bool {
    let is_handed_on = ["forwarded", "x-forwarded-for", "x-forwarded-host", "via"]
        .iter()
        .any(|name| headers.contains_key(*name));
    console.inner.settings.is_loopback && peer.is_loopback() && !is_handed_on
}

async fn session(console: &Console, request: Request<Incoming>, origin: Origin) -> Answer {
    let headers = request.headers().clone();
    let is_open = may_look(console, &headers, origin.address);
    let visit = find_session(console, &headers, origin);
    match *request.method() {
        Method::GET => {
            if let Some(visit) = visit {
                return show_session(console, &visit.session);
            }
            // Whoever has to sign in gets a session when they do: asking alone takes no memory.
            if !is_open {
                return show_session(console, &Session::nobody());
            }
            let (name, session) = console.inner.sessions.sign_in(None, Shown::Nothing, is_open);
            with_cookie((console, origin), show_session(console, &session), &name)
        }
        Method::POST => {
            // A form of another site cannot send this header; a script of another site may not. Whoever has no session
            // yet has no token to put into it.
            let is_ours = match &visit {
                Some(visit) => carries_token(&headers, &visit.session),
                None => headers.contains_key(CSRF_HEADER),
            };
            if !is_ours {
                return refuse(
                    StatusCode::FORBIDDEN,
                    "TokenRequired",
                    "the request does not carry the token of the session",
                );
            }
            let Ok(body) = body::read(request.into_body(), SIGN_IN_BYTES_MAX).await else {
                return refuse(StatusCode::BAD_REQUEST, "InvalidInput", "the body was not had");
            };
            let Some(shown) = check_shown(console, &body).await else {
                return refuse(
                    StatusCode::UNAUTHORIZED,
                    "SignInFailed",
                    "no account of this server has that name and key, or it is not the console token",
                );
            };
            let old = visit.map(|visit| visit.session_name);
            let (name, session) = console.inner.sessions.sign_in(old.as_deref(), shown, is_open);
            with_cookie((console, origin), show_session(console, &session), &name)
        }
        Method::DELETE => {
            let Some(visit) = visit.filter(|visit| carries_token(&headers, &visit.session)) else {
                return refuse(
                    StatusCode::FORBIDDEN,
                    "TokenRequired",
                    "the request does not carry the token of the session",
                );
            };
            console.inner.sessions.sign_out(&visit.session_name);
            with_cookie((console, origin), json_answer(StatusCode::OK, &json!({})), "")
        }
        _ => not_allowed("GET, POST, DELETE"),
    }
}

/// What was shown to sign in, if it holds. A failure takes a while, so that guessing does.
async fn check_shown(console: &Console, body: &Bytes) -> Option<Shown> {
    const FAILURE_PAUSE: std::time::Duration = std::time::Duration::from_millis(300);
    let shown: Value = serde_json::from_slice(body).unwrap_or_default();
    let text =
        |name: &str| shown.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let found = match (text("token"), text("account"), text("key")) {
        (Some(token), _, _) => {
            let current = (console.inner.settings.token)();
            current.filter(|current| same_secret(current, token)).map(Shown::Token)
        }
        (None, Some(account), Some(key)) => AccountName::parse(account).and_then(|name| {
            let accounts = console.inner.parts.accounts.current();
            let proof = accounts.get(&name)?.prove(key)?;
            Some(Shown::Key(name, proof))
        }),
        _ => None,
    };
    if found.is_none() {
        tokio::time::sleep(FAILURE_PAUSE).await;
    }
    found
}

fn show_session(console: &Console, session: &Session) -> Answer {
    let token = (console.inner.settings.token)();
    let accounts = console.inner.parts.accounts.current();
    let opened = session.opened(&accounts, token.as_deref());
    let names: Vec<&str> = opened.iter().map(|account| account.name().as_str()).collect();
    json_answer(
        StatusCode::OK,
        &json!({
            "signedIn": !names.is_empty(),
            "accounts": names,
            "hasOthers": accounts.iter().count() > names.len(),
            "csrf": session.csrf,
            "version": console.inner.settings.version,
        }),
    )
}

fn with_cookie((console, origin): (&Console, Origin), mut answer: Answer, name: &str) -> Answer {
    let age = if name.is_empty() { "; Max-Age=0" } else { "" };
    let secure = if origin.is_secure { "; Secure" } else { "" };
    let cookie =
        format!("{}={name}; Path=/; HttpOnly; SameSite=Strict{secure}{age}", cookie_name(console, origin));
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}

/// An answer in JSON.
pub(crate) fn json_answer(status: StatusCode, value: &Value) -> Answer {
    let mut answer = Response::new(AnswerBody::whole(value.to_string()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// A refusal, with a code for programs and a sentence for people.
pub(crate) fn refuse(status: StatusCode, code: &str, message: &str) -> Answer {
    json_answer(status, &json!({ "error": { "code": code, "message": message } }))
}

pub(crate) fn not_allowed(methods: &'static str) -> Answer {
    let mut answer = refuse(StatusCode::METHOD_NOT_ALLOWED, "UnsupportedHttpVerb", "not with that verb");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}
