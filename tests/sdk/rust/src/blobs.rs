//! What the tests of blobs share. The client knows bearer tokens and signatures only, so everything is done with
//! signatures of `tavola sas`.

use azure_core::error::ErrorKind;
use azure_core::http::{ClientOptions, RequestContent, RetryOptions, Url};
use azure_core::{Bytes, Error, Result};
use azure_storage_blob::models::BlobContainerClientListBlobsOptions;
use azure_storage_blob::{
    BlobClient, BlobContainerClient, BlobContainerClientOptions, BlobServiceClient, BlobServiceClientOptions,
};
use futures::TryStreamExt;

use crate::{ACCOUNT, signature, unique_name};

/// No retries: a test that needs one hides a fault.
fn client_options() -> ClientOptions {
    ClientOptions { retry: RetryOptions::none(), ..ClientOptions::default() }
}

/// The whole service, by an account signature.
pub fn service_at(endpoint: &str) -> BlobServiceClient {
    let token = signature(&["--permissions", "rwdlacuptfx", "--services", "b", "--expiry", "1h"]);
    let options = BlobServiceClientOptions { client_options: client_options(), ..Default::default() };
    BlobServiceClient::new(Url::parse(&format!("{endpoint}?{token}")).unwrap(), None, Some(options)).unwrap()
}

pub fn service() -> BlobServiceClient {
    service_at(&ACCOUNT["BlobEndpoint"])
}

/// A container as someone with only this signature sees it.
pub fn with_signature(name: &str, arguments: &[&str]) -> BlobContainerClient {
    let url = format!("{}/{name}?{}", ACCOUNT["BlobEndpoint"], signature(arguments));
    let options = BlobContainerClientOptions { client_options: client_options(), ..Default::default() };
    BlobContainerClient::new(Url::parse(&url).unwrap(), None, Some(options)).unwrap()
}

pub async fn new_container() -> (BlobContainerClient, String) {
    let name = unique_name("rust-");
    let container = service().blob_container_client(&name);
    container.create(None).await.unwrap();
    (container, name)
}

pub fn content(data: impl Into<Vec<u8>>) -> RequestContent<Bytes, azure_core::http::NoFormat> {
    RequestContent::from(data.into())
}

pub async fn put(container: &BlobContainerClient, name: &str, text: &str) -> BlobClient {
    let blob = container.blob_client(name);
    blob.upload(content(text), None).await.unwrap();
    blob
}

pub async fn read(blob: &BlobClient) -> Result<Vec<u8>> {
    Ok(blob.download(None).await?.body.collect().await?.to_vec())
}

pub async fn text_of(blob: &BlobClient) -> String {
    String::from_utf8(read(blob).await.unwrap()).unwrap()
}

/// The names of a listing, page by page.
pub async fn pages(
    container: &BlobContainerClient,
    options: BlobContainerClientListBlobsOptions<'_>,
) -> Result<Vec<Vec<String>>> {
    let pages: Vec<_> = container.list_blobs(Some(options))?.into_pages().try_collect().await?;
    let names = |page: azure_storage_blob::models::ListBlobsResponse| {
        page.blob_items.into_iter().map(|one| one.name.unwrap_or_default()).collect()
    };
    pages.into_iter().map(|page| page.into_model().map(names)).collect()
}

pub async fn names(
    container: &BlobContainerClient,
    options: BlobContainerClientListBlobsOptions<'_>,
) -> Result<Vec<String>> {
    Ok(pages(container, options).await?.concat())
}

/// Bytes in which no two blocks are alike.
pub fn pattern(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        state.to_be_bytes()[1]
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Asserts that a call was refused with the error of the client, this status and this code.
#[track_caller]
pub fn refused<T>(result: Result<T>, expected_status: u16, expected_code: &str) {
    let error: Error = result.err().expect("a refusal");
    let ErrorKind::HttpResponse { status, error_code, .. } = error.kind() else {
        panic!("no answer: {error:?}")
    };
    assert_eq!((u16::from(*status), error_code.as_deref()), (expected_status, Some(expected_code)));
}
