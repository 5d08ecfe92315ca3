//! Method, path and query to the container or blob and the operation they name.
//!
//! Names are checked here, once; what a `BlobRoute` holds is valid. A path is decoded once and as a whole: `/` and
//! `%2F` inside the name of a blob are the same. A path of one segment is a blob in `$root`, unless the query says that
//! it is a container.

use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use tavola_model::{
    APPEND_BLOCK_BYTES_MAX, Address, BLOB_BATCH_BYTES_MAX, BLOB_BODY_BYTES_MAX, BLOCK_BYTES_MAX, BlobName,
    BlobPath, ContainerName, ErrorCode, PUT_BLOB_BYTES_MAX, PUT_PAGES_BYTES_MAX, Query, ServiceError,
};

use crate::account::AccountRoute;
use crate::body_kind::BodyKind;
use crate::parameters::invalid_value;

/// What a request addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum BlobRoute {
    /// An operation on the service as a whole that every service has.
    Account(AccountRoute),
    ListContainers,
    FindBlobsByTags(Option<ContainerName>),
    GetAccountInformation(Option<ContainerName>),
    GetUserDelegationKey,
    SubmitBatch(Option<ContainerName>),
    CreateContainer(ContainerName),
    DeleteContainer(ContainerName),
    RestoreContainer(ContainerName),
    GetContainerProperties(ContainerName),
    GetContainerMetadata(ContainerName),
    SetContainerMetadata(ContainerName),
    GetContainerAcl(ContainerName),
    SetContainerAcl(ContainerName),
    LeaseContainer(ContainerName),
    ListBlobs(ContainerName),
    PutBlob(BlobPath),
    PutBlobFromUrl(BlobPath),
    GetBlob(BlobPath),
    GetBlobProperties(BlobPath),
    SetBlobProperties(BlobPath),
    GetBlobMetadata(BlobPath),
    SetBlobMetadata(BlobPath),
    GetBlobTags(BlobPath),
    SetBlobTags(BlobPath),
    LeaseBlob(BlobPath),
    SnapshotBlob(BlobPath),
    DeleteBlob(BlobPath),
    UndeleteBlob(BlobPath),
    CopyBlob(BlobPath),
    AbortCopyBlob(BlobPath),
    SetBlobTier(BlobPath),
    PutBlock(BlobPath),
    PutBlockFromUrl(BlobPath),
    PutBlockList(BlobPath),
    GetBlockList(BlobPath),
    AppendBlock(BlobPath),
    AppendBlockFromUrl(BlobPath),
    SealBlob(BlobPath),
    PutPages(BlobPath),
    GetPageRanges(BlobPath),
}

impl BlobRoute {
    /// How its body is taken. Content is streamed; documents are read whole.
    pub fn body_kind(&self) -> BodyKind {
        let document = BodyKind::Whole { bytes_max: BLOB_BODY_BYTES_MAX };
        match self {
            Self::Account(AccountRoute::SetServiceProperties)
            | Self::GetUserDelegationKey
            | Self::SetContainerAcl(_)
            | Self::SetBlobTags(_)
            | Self::PutBlockList(_) => document,
            Self::SubmitBatch(_) => BodyKind::Whole { bytes_max: BLOB_BATCH_BYTES_MAX },
            Self::PutBlob(_) => BodyKind::Stream { bytes_max: PUT_BLOB_BYTES_MAX },
            Self::PutBlock(_) => BodyKind::Stream { bytes_max: BLOCK_BYTES_MAX },
            Self::AppendBlock(_) => BodyKind::Stream { bytes_max: APPEND_BLOCK_BYTES_MAX },
            Self::PutPages(_) => BodyKind::Stream { bytes_max: PUT_PAGES_BYTES_MAX },
            Self::Account(
                AccountRoute::Preflight | AccountRoute::GetServiceProperties | AccountRoute::GetServiceStats,
            )
            | Self::ListContainers
            | Self::FindBlobsByTags(_)
            | Self::GetAccountInformation(_)
            | Self::CreateContainer(_)
            | Self::DeleteContainer(_)
            | Self::RestoreContainer(_)
            | Self::GetContainerProperties(_)
            | Self::GetContainerMetadata(_)
            | Self::SetContainerMetadata(_)
            | Self::GetContainerAcl(_)
            | Self::LeaseContainer(_)
            | Self::ListBlobs(_)
            | Self::PutBlobFromUrl(_)
            | Self::GetBlob(_)
            | Self::GetBlobProperties(_)
            | Self::SetBlobProperties(_)
            | Self::GetBlobMetadata(_)
            | Self::SetBlobMetadata(_)
            | Self::GetBlobTags(_)
            | Self::LeaseBlob(_)
            | Self::SnapshotBlob(_)
            | Self::DeleteBlob(_)
            | Self::UndeleteBlob(_)
            | Self::CopyBlob(_)
            | Self::AbortCopyBlob(_)
            | Self::SetBlobTier(_)
            | Self::PutBlockFromUrl(_)
            | Self::GetBlockList(_)
            | Self::AppendBlockFromUrl(_)
            | Self::SealBlob(_)
            | Self::GetPageRanges(_) => BodyKind::None,
        }
    }
}

/// Finds the route of a request.
pub fn route(
    method: &Method,
    address: &Address<'_>,
    query: &Query<'_>,
    headers: &HeaderMap,
) -> Result<BlobRoute, ServiceError> {
    if method == Method::OPTIONS {
        return Ok(BlobRoute::Account(AccountRoute::Preflight));
    }
    let verb = Verb::of(method)?;
    let (container, name) = split_path(address.path)?;
    if query.get("restype") == Some("account") {
        return account_route(verb, container, query);
    }
    match (container, name) {
        (None, _) => service_route(verb, query, address),
        (Some(container), None) if query.get("restype") == Some("container") => {
            container_route(verb, container_name(&container)?, query)
        }
        (Some(name), None) => {
            let path = BlobPath { container: ContainerName::root(), name: BlobName::parse(&name)? };
            blob_route(verb, path, query, headers)
        }
        (Some(container), Some(name)) => {
            let path = BlobPath { container: container_name(&container)?, name: BlobName::parse(&name)? };
            blob_route(verb, path, query, headers)
        }
    }
}

/// The blob that a path names; `None` if it names none.
pub(super) fn blob_of_path(path: &str) -> Option<BlobPath> {
    match split_path(path).ok()? {
        (Some(container), Some(name)) => {
            let container = ContainerName::parse(&container).ok()?;
            Some(BlobPath { container, name: BlobName::parse(&name).ok()? })
        }
        (Some(name), None) => {
            Some(BlobPath { container: ContainerName::root(), name: BlobName::parse(&name).ok()? })
        }
        (None, _) => None,
    }
}

/// First segment and the rest, decoded.
fn split_path(path: &str) -> Result<(Option<String>, Option<String>), ServiceError> {
    let decode = |text: &str| -> Result<Option<String>, ServiceError> {
        let text = percent_decode_str(text).decode_utf8().map_err(|_| ErrorCode::InvalidUri)?;
        Ok(Some(text.into_owned()).filter(|text| !text.is_empty()))
    };
    let inside = path.strip_prefix('/').unwrap_or(path);
    let (container, name) = inside.split_once('/').unwrap_or((inside, ""));
    Ok((decode(container)?, decode(name)?))
}

fn container_name(text: &str) -> Result<ContainerName, ServiceError> {
    ContainerName::parse(text)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Get,
    Head,
    Put,
    Post,
    Delete,
}

impl Verb {
    fn of(method: &Method) -> Result<Self, ServiceError> {
        match method.as_str() {
            "GET" => Ok(Self::Get),
            "HEAD" => Ok(Self::Head),
            "PUT" => Ok(Self::Put),
            "POST" => Ok(Self::Post),
            "DELETE" => Ok(Self::Delete),
            _ => Err(ErrorCode::UnsupportedHttpVerb.into()),
        }
    }
}

fn account_route(
    verb: Verb,
    container: Option<String>,
    query: &Query<'_>,
) -> Result<BlobRoute, ServiceError> {
    match (query.get("comp"), verb) {
        (Some("properties"), Verb::Get | Verb::Head) => {
            let container = container.as_deref().map(container_name).transpose()?;
            Ok(BlobRoute::GetAccountInformation(container))
        }
        (comp, _) => Err(invalid_value("comp", comp.unwrap_or_default(), "")),
    }
}

fn service_route(verb: Verb, query: &Query<'_>, address: &Address<'_>) -> Result<BlobRoute, ServiceError> {
    let read = matches!(verb, Verb::Get | Verb::Head);
    match (query.get("restype"), query.get("comp"), verb) {
        (Some("service"), Some("properties"), _) if read => {
            Ok(BlobRoute::Account(AccountRoute::GetServiceProperties))
        }
        (Some("service"), Some("properties"), Verb::Put) => {
            Ok(BlobRoute::Account(AccountRoute::SetServiceProperties))
        }
        (Some("service"), Some("stats"), _) if read && address.secondary => {
            Ok(BlobRoute::Account(AccountRoute::GetServiceStats))
        }
        (Some("service"), Some("userdelegationkey"), Verb::Post) => Ok(BlobRoute::GetUserDelegationKey),
        (None, Some("list"), _) if read => Ok(BlobRoute::ListContainers),
        (None, Some("blobs"), _) if read => Ok(BlobRoute::FindBlobsByTags(None)),
        (None, Some("batch"), Verb::Post) => Ok(BlobRoute::SubmitBatch(None)),
        (Some("service"), Some("properties" | "userdelegationkey"), _)
        | (None, Some("list" | "blobs" | "batch"), _) => unsupported(),
        (_, comp, _) => Err(invalid_value("comp", comp.unwrap_or_default(), "")),
    }
}

fn container_route(
    verb: Verb,
    container: ContainerName,
    query: &Query<'_>,
) -> Result<BlobRoute, ServiceError> {
    match (query.get("comp").filter(|comp| !comp.is_empty()), verb) {
        (None, Verb::Put) => Ok(BlobRoute::CreateContainer(container)),
        (None, Verb::Delete) => Ok(BlobRoute::DeleteContainer(container)),
        (None, Verb::Get | Verb::Head) => Ok(BlobRoute::GetContainerProperties(container)),
        (Some("metadata"), Verb::Get | Verb::Head) => Ok(BlobRoute::GetContainerMetadata(container)),
        (Some("metadata"), Verb::Put) => Ok(BlobRoute::SetContainerMetadata(container)),
        (Some("acl"), Verb::Get | Verb::Head) => Ok(BlobRoute::GetContainerAcl(container)),
        (Some("acl"), Verb::Put) => Ok(BlobRoute::SetContainerAcl(container)),
        (Some("lease"), Verb::Put) => Ok(BlobRoute::LeaseContainer(container)),
        (Some("list"), Verb::Get | Verb::Head) => Ok(BlobRoute::ListBlobs(container)),
        (Some("blobs"), Verb::Get | Verb::Head) => Ok(BlobRoute::FindBlobsByTags(Some(container))),
        (Some("batch"), Verb::Post) => Ok(BlobRoute::SubmitBatch(Some(container))),
        (Some("undelete"), Verb::Put) => Ok(BlobRoute::RestoreContainer(container)),
        (Some("rename"), Verb::Put) => Err(ErrorCode::NotImplemented.into()),
        (None, Verb::Post)
        | (Some("metadata" | "acl" | "lease" | "list" | "blobs" | "batch" | "undelete"), _) => unsupported(),
        (Some(comp), _) => Err(invalid_value("comp", comp, "")),
    }
}

fn blob_route(
    verb: Verb,
    blob: BlobPath,
    query: &Query<'_>,
    headers: &HeaderMap,
) -> Result<BlobRoute, ServiceError> {
    let copies = headers.contains_key("x-ms-copy-source");
    match (query.get("comp").filter(|comp| !comp.is_empty()), verb) {
        (None, Verb::Put) if copies && headers.contains_key("x-ms-blob-type") => {
            Ok(BlobRoute::PutBlobFromUrl(blob))
        }
        (None, Verb::Put) if copies => Ok(BlobRoute::CopyBlob(blob)),
        (None, Verb::Put) => Ok(BlobRoute::PutBlob(blob)),
        (None, Verb::Get) => Ok(BlobRoute::GetBlob(blob)),
        (None, Verb::Head) => Ok(BlobRoute::GetBlobProperties(blob)),
        (None, Verb::Delete) => Ok(BlobRoute::DeleteBlob(blob)),
        (Some("properties"), Verb::Put) => Ok(BlobRoute::SetBlobProperties(blob)),
        (Some("metadata"), Verb::Get | Verb::Head) => Ok(BlobRoute::GetBlobMetadata(blob)),
        (Some("metadata"), Verb::Put) => Ok(BlobRoute::SetBlobMetadata(blob)),
        (Some("tags"), Verb::Get | Verb::Head) => Ok(BlobRoute::GetBlobTags(blob)),
        (Some("tags"), Verb::Put) => Ok(BlobRoute::SetBlobTags(blob)),
        (Some("lease"), Verb::Put) => Ok(BlobRoute::LeaseBlob(blob)),
        (Some("snapshot"), Verb::Put) => Ok(BlobRoute::SnapshotBlob(blob)),
        (Some("undelete"), Verb::Put) => Ok(BlobRoute::UndeleteBlob(blob)),
        (Some("copy"), Verb::Put) => Ok(BlobRoute::AbortCopyBlob(blob)),
        (Some("tier"), Verb::Put) => Ok(BlobRoute::SetBlobTier(blob)),
        (Some("block"), Verb::Put) if copies => Ok(BlobRoute::PutBlockFromUrl(blob)),
        (Some("block"), Verb::Put) => Ok(BlobRoute::PutBlock(blob)),
        (Some("blocklist"), Verb::Put) => Ok(BlobRoute::PutBlockList(blob)),
        (Some("blocklist"), Verb::Get | Verb::Head) => Ok(BlobRoute::GetBlockList(blob)),
        (Some("appendblock"), Verb::Put) if copies => Ok(BlobRoute::AppendBlockFromUrl(blob)),
        (Some("appendblock"), Verb::Put) => Ok(BlobRoute::AppendBlock(blob)),
        (Some("seal"), Verb::Put) => Ok(BlobRoute::SealBlob(blob)),
        (Some("page"), Verb::Put) if !copies => Ok(BlobRoute::PutPages(blob)),
        (Some("pagelist"), Verb::Get | Verb::Head) => Ok(BlobRoute::GetPageRanges(blob)),
        // What there is not, with the code that says so.
        (Some("page" | "incrementalcopy" | "immutabilityPolicies" | "legalhold" | "expiry"), Verb::Put)
        | (Some("immutabilityPolicies"), Verb::Delete)
        | (Some("query"), Verb::Post) => Err(ErrorCode::NotImplemented.into()),
        (None, Verb::Post)
        | (
            Some(
                "properties" | "metadata" | "tags" | "lease" | "snapshot" | "undelete" | "copy" | "tier"
                | "block" | "blocklist" | "appendblock" | "seal" | "page" | "pagelist",
            ),
            _,
        ) => unsupported(),
        (Some(comp), _) => Err(invalid_value("comp", comp, "")),
    }
}

fn unsupported() -> Result<BlobRoute, ServiceError> {
    Err(ErrorCode::UnsupportedHttpVerb.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: &str, expected: &str) {
        let (method, target) = request.split_once(' ').unwrap();
        let (target, header) = target.split_once(' ').unwrap_or((target, ""));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut headers = HeaderMap::new();
        for name in header.split(' ').filter(|name| !name.is_empty()) {
            headers.insert(http::HeaderName::try_from(name).unwrap(), "x".parse().unwrap());
        }
        let account = if let Some(path) = path.strip_prefix("secondary:") {
            format!("/acct-secondary{path}")
        } else {
            format!("/acct{path}")
        };
        let address = Address::parse("127.0.0.1", &account).unwrap();
        let found = route(&method.parse().unwrap(), &address, &Query::parse(query).unwrap(), &headers);
        let shown = match found {
            Ok(route) => format!("{route:?}")
                .replace("ContainerName(\"abc\")", "abc")
                .replace("BlobPath { container: ", "")
                .replace(", name: BlobName(\"", "/")
                .replace("\") }", ""),
            Err(error) => error.code.as_str().to_owned(),
        };
        assert_eq!(shown, expected, "{request}");
    }

    #[test]
    fn each_operation_has_its_route() {
        check("OPTIONS /abc/x", "Account(Preflight)");
        check("GET /?restype=service&comp=properties", "Account(GetServiceProperties)");
        check("GET secondary:/?restype=service&comp=stats", "Account(GetServiceStats)");
        check("GET /?comp=list", "ListContainers");
        check("GET /?comp=blobs&where=x", "FindBlobsByTags(None)");
        check("GET /?restype=account&comp=properties", "GetAccountInformation(None)");
        check("HEAD /abc/b?restype=account&comp=properties", "GetAccountInformation(Some(abc))");
        check("POST /?restype=service&comp=userdelegationkey", "GetUserDelegationKey");
        check("POST /?comp=batch", "SubmitBatch(None)");
        check("POST /abc?restype=container&comp=batch", "SubmitBatch(Some(abc))");
        check("PUT /abc?restype=container", "CreateContainer(abc)");
        check("DELETE /abc/?restype=container", "DeleteContainer(abc)");
        check("HEAD /abc?restype=container", "GetContainerProperties(abc)");
        check("PUT /abc?restype=container&comp=acl", "SetContainerAcl(abc)");
        check("GET /abc?restype=container&comp=list", "ListBlobs(abc)");
        check("PUT /abc/b", "PutBlob(abc/b)");
        check("PUT /abc/b x-ms-copy-source", "CopyBlob(abc/b)");
        check("PUT /abc/b x-ms-copy-source x-ms-blob-type", "PutBlobFromUrl(abc/b)");
        check("GET /abc/a%2Fb/%25?snapshot=x", "GetBlob(abc/a/b/%)");
        check("HEAD /abc/b", "GetBlobProperties(abc/b)");
        check("PUT /abc/b?comp=block&blockid=MQ==", "PutBlock(abc/b)");
        check("PUT /abc/b?comp=block x-ms-copy-source", "PutBlockFromUrl(abc/b)");
        check("GET /abc/b?comp=pagelist", "GetPageRanges(abc/b)");
        check("PUT /root.txt", "PutBlob(ContainerName(\"$root\")/root.txt)");
    }

    #[test]
    fn what_names_no_operation_is_refused() {
        check("GET /", "InvalidQueryParameterValue");
        check("PUT /?restype=container", "InvalidQueryParameterValue");
        check("GET /?restype=service&comp=stats", "InvalidQueryParameterValue");
        check("PUT /ABC?restype=container", "InvalidResourceName");
        check("PUT /foo%20bar?restype=container", "InvalidResourceName");
        check("PUT /ab/x", "OutOfRangeInput");
        check("GET /abc?comp=list", "InvalidQueryParameterValue");
        check("POST /abc/b", "UnsupportedHttpVerb");
        check("GET /abc/b?comp=lease", "UnsupportedHttpVerb");
        check("PATCH /abc/b", "UnsupportedHttpVerb");
        check("GET /abc/%FF", "InvalidUri");
        check("POST /abc/b?comp=query", "NotImplemented");
        check("PUT /abc/b?comp=page x-ms-copy-source", "NotImplemented");
        check("PUT /abc/b?comp=expiry", "NotImplemented");
    }
}
