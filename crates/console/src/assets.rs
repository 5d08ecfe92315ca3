//! The pages, as `web/build.mjs` builds them, inside the program: nothing is read or fetched at run time.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use hyper::{Response, StatusCode};

use crate::body::AnswerBody;
use crate::respond::Answer;

/// A file of the pages.
pub(crate) struct Asset {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

const ASSETS: &[Asset] = &[
    Asset {
        path: "/",
        content_type: "text/html; charset=utf-8",
        bytes: include_bytes!("../web/dist/index.html"),
    },
    Asset {
        path: "/app.js",
        content_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../web/dist/app.js"),
    },
    Asset {
        path: "/app.css",
        content_type: "text/css; charset=utf-8",
        bytes: include_bytes!("../web/dist/app.css"),
    },
    Asset { path: "/icon.svg", content_type: "image/svg+xml", bytes: include_bytes!("../web/dist/icon.svg") },
];

/// The file at a path.
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

/// A file, or that the browser has it already.
pub(crate) fn answer(asset: &'static Asset, headers: &HeaderMap) -> Answer {
    let etag = etag(asset);
    let is_known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes());
    let mut answer = Response::new(AnswerBody::whole(if is_known { &[] } else { asset.bytes }));
    if is_known {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(ETAG, etag);
    }
    answer
}

/// Changes with the bytes. They are few, and asked for once a visit.
fn etag(asset: &Asset) -> String {
    let mut hasher = DefaultHasher::new();
    asset.bytes.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}
