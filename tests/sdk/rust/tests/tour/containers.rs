//! Containers: create, list, metadata, delete; listings of blobs; access; the settings of the blob service.

use std::collections::HashMap;

use azure_storage_blob::models::{
    BlobClientCreateSnapshotResultHeaders, BlobContainerClientAcquireLeaseOptions,
    BlobContainerClientCreateOptions, BlobContainerClientGetPropertiesResultHeaders,
    BlobContainerClientListBlobsOptions, BlobServiceClientGetAccountInfoResultHeaders,
    BlobServiceClientListContainersOptions, BlobServiceProperties, BlockBlobClientUploadOptions, CorsRule,
    GeoReplicationStatusType, ListBlobsIncludeItem, ListContainersIncludeType, Logging, Metrics,
    RetentionPolicy,
};
use futures::TryStreamExt;
use tavola_sdk_tour::blobs::{
    content, names, new_container, pages, put, read, refused, service, service_at, text_of, with_signature,
};
use tavola_sdk_tour::{ACCOUNT, cases, covers, text, unique_name};

fn list() -> BlobContainerClientListBlobsOptions<'static> {
    BlobContainerClientListBlobsOptions::default()
}

fn including(item: ListBlobsIncludeItem, prefix: &str) -> BlobContainerClientListBlobsOptions<'static> {
    BlobContainerClientListBlobsOptions {
        include: Some(vec![item]),
        prefix: Some(prefix.to_owned()),
        ..Default::default()
    }
}

fn expected(name: &str) -> Vec<String> {
    cases(name).iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn containers_are_created_once_listed_by_page_and_deleted() {
    let _covers = covers(&["container-create", "container-list", "container-delete", "container-missing"]);
    let (service, prefix) = (service(), unique_name("list-"));
    for number in 0..5 {
        let metadata = HashMap::from([("number".to_owned(), number.to_string())]);
        let options = BlobContainerClientCreateOptions { metadata: Some(metadata), ..Default::default() };
        service.blob_container_client(&format!("{prefix}-{number}")).create(Some(options)).await.unwrap();
    }
    let first = service.blob_container_client(&format!("{prefix}-0"));
    refused(first.create(None).await, 409, "ContainerAlreadyExists");
    let options = BlobServiceClientListContainersOptions {
        prefix: Some(prefix.clone()),
        maxresults: Some(2),
        include: Some(vec![ListContainersIncludeType::Metadata]),
        ..Default::default()
    };
    let pages: Vec<_> =
        service.list_containers(Some(options)).unwrap().into_pages().try_collect().await.unwrap();
    let pages: Vec<_> = pages.into_iter().map(|page| page.into_model().unwrap().container_items).collect();
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    for (number, one) in pages.iter().flatten().enumerate() {
        assert_eq!(one.name, Some(format!("{prefix}-{number}")));
        assert_eq!(one.metadata.as_ref().unwrap()["number"], number.to_string());
    }
    for number in 0..5 {
        service.blob_container_client(&format!("{prefix}-{number}")).delete(None).await.unwrap();
    }
    assert!(!first.exists().await.unwrap());
    refused(first.delete(None).await, 404, "ContainerNotFound");
    refused(first.get_properties(None).await, 404, "ContainerNotFound");
    refused(first.blob_client("a").upload(content("x"), None).await, 404, "ContainerNotFound");
    refused(read(&first.blob_client("a")).await, 404, "ContainerNotFound");
    refused(names(&first, list()).await, 404, "ContainerNotFound");
}

#[tokio::test]
async fn names_metadata_and_leases_of_containers() {
    let _covers = covers(&["container-names", "container-metadata", "container-lease"]);
    for case in cases("container_names_refused") {
        let created = service().blob_container_client(text(case, "name")).create(None).await;
        refused(created, u16::try_from(case["status"].as_u64().unwrap()).unwrap(), text(case, "code"));
    }
    let (container, _) = new_container().await;
    for name in ["one", "two"] {
        let metadata = HashMap::from([(name.to_owned(), "x".to_owned())]);
        container.set_metadata(&metadata, None).await.unwrap();
    }
    let found = container.get_properties(None).await.unwrap().metadata().unwrap();
    assert_eq!(found, HashMap::from([("two".to_owned(), "x".to_owned())]));
    let id = "11111111-1111-1111-1111-111111111111".to_owned();
    let options =
        BlobContainerClientAcquireLeaseOptions { proposed_lease_id: Some(id.clone()), ..Default::default() };
    container.acquire_lease(-1, Some(options)).await.unwrap();
    refused(container.delete(None).await, 412, "LeaseIdMissing");
    put(&container, "a", "x").await;
    container.renew_lease(id.clone(), None).await.unwrap();
    container.release_lease(id, None).await.unwrap();
    refused(container.break_lease(None).await, 409, "LeaseNotPresentWithLeaseOperation");
    container.delete(None).await.unwrap();
}

#[tokio::test]
async fn listings_come_in_order_and_in_pages() {
    let _covers = covers(&["blob-list", "blob-list-kinds"]);
    let (container, _) = new_container().await;
    let expected = expected("blob_names");
    for name in expected.iter().rev() {
        let metadata = Some(HashMap::from([("name".to_owned(), name.clone())]));
        let options = BlockBlobClientUploadOptions { metadata, ..Default::default() };
        container.blob_client(name).upload(content("x"), Some(options)).await.unwrap();
    }
    assert_eq!(names(&container, list()).await.unwrap(), expected);
    let options = BlobContainerClientListBlobsOptions { maxresults: Some(3), ..Default::default() };
    let paged = pages(&container, options.clone()).await.unwrap();
    assert_eq!(paged, [&expected[..3], &expected[3..6], &expected[6..]]);
    let first: Vec<_> =
        container.list_blobs(Some(options.clone())).unwrap().into_pages().try_collect().await.unwrap();
    let marker = first.into_iter().next().unwrap().into_model().unwrap().next_marker;
    let rest = BlobContainerClientListBlobsOptions { marker, ..options };
    assert_eq!(names(&container, rest).await.unwrap(), expected[3..]);
    let with_metadata = including(ListBlobsIncludeItem::Metadata, "a/b");
    let described: Vec<_> = container.list_blobs(Some(with_metadata)).unwrap().try_collect().await.unwrap();
    let described: Vec<_> = described
        .into_iter()
        .map(|one| one.metadata.unwrap().values.unwrap().remove("name").unwrap())
        .collect();
    assert_eq!(described, ["a/b/1", "a/b/2"]);
    let snapshot = container.blob_client("c").create_snapshot(None).await.unwrap().snapshot().unwrap();
    let kinds = including(ListBlobsIncludeItem::Snapshots, "c");
    let kinds: Vec<_> = container.list_blobs(Some(kinds)).unwrap().try_collect().await.unwrap();
    assert_eq!(kinds.into_iter().map(|one| one.snapshot).collect::<Vec<_>>(), [snapshot, None]);
    container.blob_client("bb").block_blob_client().stage_block(b"1", 1, content("x"), None).await.unwrap();
    let plain = BlobContainerClientListBlobsOptions { prefix: Some("b".into()), ..Default::default() };
    assert_eq!(names(&container, plain).await.unwrap(), Vec::<String>::new());
    let uncommitted = including(ListBlobsIncludeItem::UncommittedBlobs, "b");
    assert_eq!(names(&container, uncommitted).await.unwrap(), ["bb"]);
    container.delete(None).await.unwrap();
}

#[tokio::test]
async fn odd_names_are_names() {
    let _covers = covers(&["blob-names"]);
    let (container, _) = new_container().await;
    let mut expected = expected("blob_names_odd");
    expected.sort();
    for name in &expected {
        put(&container, name, name).await;
    }
    let mut found = names(&container, list()).await.unwrap();
    found.sort();
    assert_eq!(found, expected);
    for name in &expected {
        assert_eq!(&text_of(&container.blob_client(name)).await, name);
        container.blob_client(name).delete(None).await.unwrap();
    }
    assert_eq!(names(&container, list()).await.unwrap(), Vec::<String>::new());
    container.delete(None).await.unwrap();
}

#[tokio::test]
async fn an_account_signature_opens_kinds_of_resources() {
    let _covers = covers(&["blob-sas-account"]);
    let (container, name) = new_container().await;
    let signed = |expiry| {
        with_signature(
            &name,
            &["--permissions", "rw", "--services", "b", "--resource-types", "o", "--expiry", expiry],
        )
    };
    let worker = signed("1h");
    assert_eq!(text_of(&put(&worker, "a", "one").await).await, "one");
    refused(names(&worker, list()).await, 403, "AuthorizationResourceTypeMismatch");
    refused(worker.blob_client("a").delete(None).await, 403, "AuthorizationPermissionMismatch");
    refused(read(&signed("2020-01-01T00:00:00Z").blob_client("a")).await, 403, "AuthenticationFailed");
    container.delete(None).await.unwrap();
}

#[tokio::test]
async fn properties_are_kept_and_deleted_blobs_come_back() {
    let _covers = covers(&["blob-properties", "blob-undelete"]);
    let (container, _) = new_container().await;
    let retention = Some(RetentionPolicy { enabled: Some(true), days: Some(5), ..Default::default() });
    let version = Some("1.0".to_owned());
    let properties = BlobServiceProperties {
        cors: Some(vec![CorsRule {
            allowed_origins: Some("http://www.example.com".to_owned()),
            allowed_methods: Some("GET,PUT".to_owned()),
            allowed_headers: Some("*".to_owned()),
            exposed_headers: Some("*".to_owned()),
            max_age_in_seconds: Some(10),
        }]),
        delete_retention_policy: retention.clone(),
        hour_metrics: Some(Metrics {
            enabled: Some(true),
            include_apis: Some(true),
            retention_policy: retention.clone(),
            version: version.clone(),
        }),
        logging: Some(Logging {
            delete: Some(true),
            read: Some(true),
            write: Some(false),
            retention_policy: retention,
            version,
        }),
        ..Default::default()
    };
    service().set_properties(properties.try_into().unwrap(), None).await.unwrap();
    let found = service().get_properties(None).await.unwrap().into_model().unwrap();
    assert_eq!(found.cors.unwrap()[0].allowed_methods.as_deref(), Some("GET,PUT"));
    assert_eq!(found.logging.unwrap().write, Some(false));
    assert_eq!(found.delete_retention_policy.unwrap().days, Some(5));
    let blob = put(&container, "a", "one").await;
    blob.delete(None).await.unwrap();
    assert_eq!(names(&container, list()).await.unwrap(), Vec::<String>::new());
    let deleted = including(ListBlobsIncludeItem::Deleted, "");
    assert_eq!(names(&container, deleted).await.unwrap(), ["a"]);
    blob.undelete(None).await.unwrap();
    assert_eq!(text_of(&blob).await, "one");
    let properties = BlobServiceProperties {
        cors: Some(Vec::new()),
        delete_retention_policy: Some(RetentionPolicy { enabled: Some(false), ..Default::default() }),
        ..Default::default()
    };
    service().set_properties(properties.try_into().unwrap(), None).await.unwrap();
    container.delete(None).await.unwrap();
}

#[tokio::test]
async fn the_account_tells_of_itself() {
    let _covers = covers(&["blob-statistics", "blob-account"]);
    let information = service().get_account_info(None).await.unwrap();
    assert!(information.sku_name().unwrap().is_some());
    assert!(information.account_kind().unwrap().is_some());
    let secondary = service_at(&format!("{}-secondary", ACCOUNT["BlobEndpoint"]));
    let found = secondary.get_statistics(None).await.unwrap().into_model().unwrap();
    assert_eq!(found.geo_replication.unwrap().status, Some(GeoReplicationStatusType::Live));
}
